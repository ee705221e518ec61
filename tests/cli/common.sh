# common.sh: what the command-line tests share. A test is a function case_NAME; `SCRIPT NAME` runs it
# in an empty folder of its own. TEST_PROGRAM names the program.
set -u
rueda=${TEST_PROGRAM:?names the rueda program}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*" >&2
    for file in out err; do
        [ ! -s $file ] || { echo "--- $file, the last lines:" && tail -n 20 $file | cut -c 1-200; } >&2
    done
    exit 1
}

# expect CODE COMMAND...: runs it with its output in the files out and err.
expect() {
    expected=$1
    shift
    "$@" >out 2>err
    code=$?
    [ "$code" = "$expected" ] || fail "$*: exit code $code instead of $expected"
}

equal() { # equal ACTUAL EXPECTED
    [ "$1" = "$2" ] || fail "'$1' instead of '$2'"
}

contains() { # contains FILE TEXT
    grep -qF -e "$2" "$1" || fail "no '$2' in $1"
}

one_line() { # one_line FILE: a complaint is exactly one line
    equal "$(wc -l <"$1")" 1
}

# await SECONDS WHAT COMMAND...: until the command succeeds.
await() {
    tries=$(($1 * 20))
    what=$2
    shift 2
    until "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited too long until $what"
        sleep 0.05
    done
}

# A zombie is gone too: it only waits for its parent.
is_gone() {
    [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*[ZX]' "/proc/$1/status" 2>/dev/null || [ ! -e "/proc/$1" ]
}

all_gone() { # all_gone PID_FILE...
    for pid in $(cat "$@"); do
        is_gone "$pid" || return 1
    done
}

run_case() {
    "case_$1"
}
