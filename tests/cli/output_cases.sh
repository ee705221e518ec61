#!/bin/sh
# Where the ranks' output goes: prefixes with the time, files, JSON, the last lines again.
. "$(dirname "$0")/common.sh"

is_json() { # is_json FILE: every line is an object (where there is a Python to ask)
    ! grep -qv '^{.*}$' "$1" || fail "not an object a line"
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"): json.loads(line)' "$1" || fail "$1 is no JSON"
}

# ---- Prefixes -------------------------------------------------------------------------------------

case_time_stands_before_lines() {
    for option in --prefix-timestamp -prefix-timestamp --prefix-output-with-timestamp; do
        expect 0 "$rueda" run -np 2 $option echo hello
        equal "$(grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{3} \[[01]\]: hello$' out)" 2
    done
    expect 0 "$rueda" run -np 1 --prefix-timestamp --no-prefix echo hello
    grep -qE '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{3} hello$' out || fail "no time alone"
}

# Each is one write; many of them fill the launcher's buffers, which end anywhere in a line.
case_lines_written_at_once_stay_whole_without_prefixes() {
    # shellcheck disable=SC2016
    expect 0 "$rueda" run -np 4 --no-prefix sh -c 'i=0; while [ $((i += 1)) -le 4000 ]; do
        echo "<$RUEDA_RANK a line whose length divides no power of two>"; done'
    equal "$(sort out | uniq -c | tr -s ' ')" "$(for rank in 0 1 2 3; do
        echo " 4000 <$rank a line whose length divides no power of two>"; done)"
}

# ---- Terminals --------------------------------------------------------------------------------------

# A bar ends with a return and stands there. Whatever comes next from somebody else takes its place.
case_nothing_remains_of_a_bar() {
    command -v python3 >/dev/null || { echo "no python3"; exit 77; }
    for stream in 1 2; do
        python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$rueda" run -np 2 sh -c \
            '[ $RUEDA_RANK = 1 ] || { printf "50%% ####\r50%% ####\r" >&'$stream'; echo >there; exec sleep 60; }
            while [ ! -e there ]; do sleep 0.05; done
            sleep 0.5; echo; exit 3' >out 2>err </dev/null
        equal $? 3
        tr -d '\r' <out | tr '\033' E >plain
        contains plain '[0]: 50% ####E[K[1]:'
        contains plain '[0]: 50% ####E[Krueda run: the last lines of rank 1 again:'
        rm there
    done
    expect 0 "$rueda" run -np 1 printf '50%%\r' # a file gets no such thing
    ! grep -q "$(printf '\033')" out || fail "an escape in a file"
}

# ---- Files ----------------------------------------------------------------------------------------

case_output_goes_to_files() {
    expect 0 "$rueda" run -np 11 --output-filename a/b sh -c 'echo out $RUEDA_RANK; printf "err\nmore" >&2'
    [ ! -s out ] && [ ! -s err ] || fail "also here"
    equal "$(ls a/b | wc -l)" 11
    equal "$(cat a/b/rank.07/stdout)" 'out 7'
    equal "$(cat a/b/rank.10/stderr)" 'err
more'
}

case_a_failed_ranks_lines_are_shown_although_in_files() {
    expect 4 "$rueda" run -np 1 --output-filename logs sh -c 'seq 100; exit 4'
    [ ! -s out ] || fail "something on stdout"
    equal "$(head -n 1 err)" 'rueda run: the last lines of rank 0 again:'
    contains err '[0]: 100'
    contains err '[0]: 89'
    ! grep -q '\[0\]: 88' err || fail "too many lines"
    equal "$(cat logs/rank.0/stdout | wc -l)" 100
}

case_a_place_that_cannot_be_written() {
    echo >plain
    expect 1 "$rueda" run -np 1 --output-filename plain/logs true
    equal "$(cat err)" 'rueda run: cannot make plain/logs/rank.0: Not a directory'
    expect 1 "$rueda" run -np 1 --json-file no/such true
    equal "$(cat err)" 'rueda run: cannot write no/such: No such file or directory'
}

# ---- A disk that is full ---------------------------------------------------------------------------

# The job goes on, since its work is worth more than its lines; it says so and ends with an error.
case_a_full_disk_is_named() {
    for output in "" --json --prefix-timestamp; do
        "$rueda" run -np 2 $output sh -c 'echo hi; sleep 0.2; echo again; echo >done.$RUEDA_RANK' >/dev/full 2>err
        equal $? 1
        contains err 'rueda run: cannot write stdout: No space left on device; output is lost, the job goes on'
        ! grep -qi pipe err || fail "a word of a pipe"
        rm done.0 done.1 || fail "a rank did not go on"
    done
    "$rueda" run -np 2 sh -c 'echo hi >&2; echo shown' >out 2>/dev/full
    equal $? 1
    equal "$(grep -c shown out)" 2
    expect 1 "$rueda" run -np 2 --json-file /dev/full echo shown
    contains err 'rueda run: cannot write /dev/full: No space left on device; output is lost'
    equal "$(grep -c shown out)" 2
    expect 1 "$rueda" run -np 2 --results /dev/full sh -c 'echo 1 >/dev/fd/$RUEDA_RESULTS_FD'
    contains err 'rueda run: cannot write /dev/full: No space left on device; output is lost'
    "$rueda" run -np 2 sh -c 'exit 7' >/dev/full 2>err
    equal $? 7
}

case_a_full_disk_for_files_is_named() {
    mkdir -p small
    mount -t tmpfs -o size=64k none small 2>/dev/null || { echo "only root can make a small disk" && exit 77; }
    "$rueda" run -np 2 --output-filename small/logs --json-file events seq 100000 >out 2>err
    code=$?
    umount small
    equal $code 1
    tail -n 1 err | grep -qE '^rueda run: cannot write small/logs/rank\.[01]/stdout: No space left on device; output is lost$' ||
        fail "last line"
    contains events '"exit_code": 1, "seconds": '
    contains events '"cause": "cannot write small/logs/rank.'
}

# ---- The last lines again -------------------------------------------------------------------------

case_a_failed_ranks_lines_are_shown_again() {
    expect 5 "$rueda" run -np 2 sh -c '[ $RUEDA_RANK = 1 ] || { yes | head -n 3000; exit 0; }
        echo "this is why" >&2; sleep 1; exit 5'
    tail -n 3 err >end
    equal "$(head -n 2 end)" 'rueda run: the last lines of rank 1 again:
[1]: this is why'
    tail -n 1 end | grep -qE '^rueda run: rank 1 \(pid [0-9]+\) exited with 5$' || fail "last line"
}

case_errors_come_last_whenever_stdout_is_flushed() {
    expect 5 "$rueda" run -np 2 sh -c '[ $RUEDA_RANK = 1 ] || exit 0
        echo "this is why" >&2; sleep 0.2; seq 100; exit 5'
    tail -n 3 err | head -n 2 >end
    equal "$(cat end)" '[1]: 100
[1]: this is why'
}

# One rank raises deep inside, the other is busy, asleep or itself about to raise because of that.
traceback_is_last() { # traceback_is_last WHAT_RANK_0_DOES [OPTION]
    command -v python3 >/dev/null || { echo "no python3"; exit 77; }
    cat >raises.py <<EOF
import os, time
def ping(depth):
    pong(depth - 1)
def pong(depth):
    if depth == 0:
        raise ValueError("the reason")
    ping(depth)
print("rank", os.environ["RUEDA_RANK"], "begins")
open("begun." + os.environ["RUEDA_RANK"], "w").close()
while not (os.path.exists("begun.0") and os.path.exists("begun.1")):
    time.sleep(0.02)
if os.environ["RUEDA_RANK"] == "1":
    print("a line of its own")
    ping(6)
$1
EOF
    expect 1 "$rueda" run -np 2 --timeout 50 ${2:-} python3 raises.py
    sed -n '/the last lines of rank 1 again/,$p' err >end
    sed '1d;$d' end | grep -c '^\[1\]: ' >count
    equal "$(cat count)" "$(($(wc -l <end) - 2))"
    contains end '[1]: Traceback (most recent call last):'
    contains end ', in <module>'
    equal "$(tail -n 2 end | head -n 1)" '[1]: ValueError: the reason'
    tail -n 1 end | grep -qE '^rueda run: rank 1 \(pid [0-9]+\) exited with 1$' || fail "last line"
}
case_traceback_is_last_while_others_sleep() { traceback_is_last 'time.sleep(60)'; }
case_traceback_is_last_while_others_compute() { traceback_is_last 'while True: print("busy")'; }
case_traceback_is_last_while_others_read() { traceback_is_last 'os.read(os.pipe()[0], 1)'; }
case_traceback_is_last_although_others_raise() {
    traceback_is_last 'time.sleep(0.3); raise RuntimeError("rank 1 was lost")' --farewell=40
    contains err '[0]: RuntimeError: rank 1 was lost'
}

case_silent_failures_repeat_nothing() {
    expect 5 "$rueda" run -np 2 sh -c 'exit 5'
    one_line err
    expect 5 "$rueda" run -np 1 sh -c 'echo alone >&2; exit 5'
    equal "$(wc -l <err)" 2
}

# ---- Events ---------------------------------------------------------------------------------------

case_events_tell_what_happens() {
    expect 0 "$rueda" run -np 2 --json sh -c 'echo hello; echo there >&2'
    is_json out
    for event in start step rank_start output rank_exit end; do
        contains out "{\"event\": \"$event\", \"time\": "
    done
    equal "$(grep -c '"event": "output"' out)" 4
    contains out '"rank": 1, "stream": "stderr", "text": "there"}'
    equal "$(tail -n 1 out | grep -c '"event": "end".*"exit_code": 0.*"cause": null')" 1
    [ ! -s err ] || fail "something on stderr"
}

case_events_hold_any_bytes() {
    printf 'a"\\\t\001\303\244\377\355\240\200\360\237\222\203\n' >bytes
    expect 0 "$rueda" run -np 1 --json cat bytes
    is_json out
    contains out '"text": "a\"\\\t\u0001ä����💃"}'
}

case_events_go_to_a_file() {
    expect 3 "$rueda" run -np 1 --json-file events sh -c 'echo hello; exit 3'
    equal "$(cat out)" '[0]: hello'
    is_json events
    ! grep -q hello events || fail "output among the events"
    contains events '"exit_code": 3, "signal": null}'
    tail -n 1 events | grep -qE '"cause": "rank 0 \(pid [0-9]+\) exited with 3"\}$' || fail "no cause"
    expect 137 "$rueda" run -np 1 --json-file events sh -c 'kill -KILL $$'
    contains events '"exit_code": 137, "signal": "KILL"}'
}

case_much_output_as_events() {
    expect 0 "$rueda" run -np 2 --json seq 20000
    equal "$(grep -c '"event": "output"' out)" 40000
    grep '"rank": 1, "stream"' out | sed 's/.*"text": "\([0-9]*\)"}/\1/' >numbers
    seq 20000 | cmp - numbers || fail "other lines"
}

run_case "$1"
