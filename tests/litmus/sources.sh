#!/bin/sh
# sources.sh [--update] [ROOT]: whether the functions that the programs of this folder model are still those that
# were modelled. A line ` * models src/x/y.c function SUM` in a program names one; SUM is that of its text without
# comments and white space. --update writes the sums of today: after you have read the program and brought it up
# to date.
set -eu
update=false
if [ "${1:-}" = --update ]; then
    update=true
    shift
fi
root=${1:-$(dirname "$0")/../..}
cd "$root/tests/litmus"

# The text of function $2 in file $1, as far as it means something. What has the same meaning under two names,
# the system's and src/world's, is written in one way.
text() {
    awk -v name="$2" '
        !inside && /^[A-Za-z]/ && $0 ~ ("(^|[ *])" name "\\(") { inside = 1; kept = "" }
        inside { kept = kept $0 "\n" }
        inside && /;$/ && kept !~ /\n\{/ { inside = 0 } # only declared
        inside && /^}/ { printf "%s", kept; exit }
    ' "$1" | sed -e 's/\<os_\(sleep_on\|wake\|now_ns\|yield\|pause\|cpu_now\|prefer_short_turns\)\>/world_\1/g' \
        -e 's/\<pthread_mutex_lock\>/world_lock_take/g' -e 's/\<pthread_mutex_unlock\>/world_lock_release/g' \
        -e 's/\<memcpy\>/world_copy/g' -e 's/\<world_point();//g' |
        tr '\n' ' ' | sed -e 's,/\*\([^*]\|\*[^/]\)*\*/,,g' | tr -d ' \t'
}

failed=0
for program in *.c; do
    models=$(sed -n 's/^ \* models \([^ ]*\) \([^ ]*\) \([^ ]*\)$/\1 \2 \3/p' "$program")
    [ -n "$models" ] || continue
    while read -r file function sum; do
        now=
        [ ! -f "../../$file" ] || now=$(text "../../$file" "$function")
        if [ -z "$now" ]; then
            echo "$function is not in $file: read tests/litmus/$program and bring it up to date"
            failed=1
            continue
        fi
        now=$(printf %s "$now" | cksum | cut -d' ' -f1)
        if $update; then
            sed -i "s,^\( \* models $file $function\) .*,\1 $now," "$program"
        elif [ "$now" != "$sum" ]; then
            echo "$function has changed: read tests/litmus/$program and bring it up to date," \
                "then run tests/litmus/sources.sh --update"
            failed=1
        fi
    done <<END
$models
END
done
exit $failed
