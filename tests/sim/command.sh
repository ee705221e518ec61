#!/bin/sh
# command.sh RUEDA FOLDER: what a person types: one seed twice is the same run to the byte, wherever memory lies; wrong
# options are answered with one line; the timeline of a seed is a whole one.
set -u
rueda=$1
folder=$2/sim_command
mkdir -p "$folder"
failures=0
fail() {
    echo "$1"
    failures=1
}

for seed in 2 5 7 11 42; do
    "$rueda" sim faults --seed $seed >"$folder/a" || fail "seed $seed fails"
    MALLOC_PERTURB_=165 setarch -R "$rueda" sim faults --seed $seed >"$folder/b" 2>"$folder/error" ||
        MALLOC_PERTURB_=165 "$rueda" sim faults --seed $seed >"$folder/b"
    cmp "$folder/a" "$folder/b" || fail "seed $seed is not the same run again"
done
grep -q 'trace [0-9a-f]\{16\}' "$folder/a" || fail "no trace is told"

"$rueda" sim faults --seeds 1..3 --workers 1 >"$folder/a" || fail "seeds 1..3 fail"
grep -q '3 seeds, from 1 to 3' "$folder/a" || fail "it does not say how many seeds"

for wrong in '--seeds 3' '--seeds 3..1' '--seed x' '--without 9' '--without b10' '--without calm' '--timeline x' 'more' '--workers 0'; do
    # shellcheck disable=SC2086
    "$rueda" sim faults $wrong >"$folder/a" 2>&1
    [ $? -eq 2 ] || fail "'$wrong' is not refused"
    [ "$(wc -l <"$folder/a")" -eq 1 ] || fail "'$wrong' is answered with more than a line"
done
"$rueda" sim >"$folder/a" 2>&1
[ $? -eq 2 ] || fail "no command is not refused"

rm -f "$folder/timeline.json"
"$rueda" sim faults --seed 3 >"$folder/a"
"$rueda" sim faults --seed 3 --timeline "$folder/timeline.json" >"$folder/b" || fail "seed 3 fails with a timeline"
cmp "$folder/a" "$folder/b" || fail "a timeline changes what happens"
"$rueda" timeline "$folder/timeline.json" >"$folder/a" || fail "the timeline is not whole"
exit $failures
