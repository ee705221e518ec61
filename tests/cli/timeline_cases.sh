#!/bin/sh
# Timelines as their readers meet them: another JSON parser, a job that runs, a job that was killed.
. "$(dirname "$0")/common.sh"

# A job that works for SECONDS, with RUEDA_TIMELINE as given.
work() { # work SECONDS
    "$rueda" bench allreduce -np 2 --sizes 1M --seconds "$1"
}

# The same in the background, all ranks in t.json; its number is $!.
start_work() {
    rm -f t.json
    RUEDA_TIMELINE=t.json RUEDA_TIMELINE_ALL_RANKS=1 "$rueda" bench allreduce -np 2 --sizes 1M \
        --seconds 30 >/dev/null 2>&1 &
    await 20 'the file is there' test -s t.json
}

need_python() {
    python3 -c 'import json' 2>/dev/null || {
        echo 'skipped: no python3 to read JSON with'
        exit 77
    }
}

# check.py FILE...: whole arrays, B and E in pairs (at the end of the file B may be open).
write_checker() {
    cat >check.py <<'PYTHON'
import collections, json, sys
for path in sys.argv[1:]:
    with open(path) as file:
        events = json.load(file)
    depth = collections.Counter()
    for e in events:
        assert e["ph"] in "MBEXi", e
        row = e["pid"], e.get("tid")
        depth[row] += {"B": 1, "E": -1}.get(e["ph"], 0)
        assert depth[row] >= 0, e
    print(len(events), sum(depth.values()))
PYTHON
}

case_run_hands_the_file_to_the_ranks() {
    expect 0 "$rueda" run -np 2 --no-prefix --timeline t.json sh -c 'echo "$RUEDA_TIMELINE"'
    equal "$(sort -u out)" t.json
    expect 2 "$rueda" run -np 2 --timeline
    one_line err
}

case_file_is_json_while_a_job_runs() {
    need_python
    write_checker
    start_work
    for look in 1 2 3 4; do
        python3 check.py t.json >out 2>err || fail "look $look"
        sleep "0.0$((look * 7 % 10))"
    done
    kill $!
    wait $!
    python3 check.py t.json >out 2>err || fail 'at the end'
}

case_whole_job_leaves_one_file_of_pairs() {
    need_python
    write_checker
    RUEDA_TIMELINE=t.json RUEDA_TIMELINE_ALL_RANKS=1 work 0.1 >/dev/null || fail 'the job failed'
    python3 check.py t.json >out 2>err || fail 'no JSON'
    equal "$(cut -d ' ' -f 2 out)" 0
    equal "$(echo t.json*)" t.json
}

case_file_is_json_after_kill() {
    need_python
    write_checker
    for tenths in 3 4 5; do
        start_work
        sleep 0.$tenths
        cat /proc/$!/task/$!/children >ranks
        kill -9 $! # the ranks die with their launcher
        wait $! 2>/dev/null
        python3 check.py t.json >out 2>err || fail "after 0.$tenths s"
        await 10 'the ranks are gone' all_gone ranks
        python3 check.py t.json >out 2>err || fail "after 0.$tenths s, at rest"
    done
}

case_summary_adds_up() {
    RUEDA_TIMELINE=t.json work 0.1 >/dev/null
    expect 0 "$rueda" timeline t.json
    contains out 'bench.'
    contains out ' events of '
    expect 0 "$rueda" timeline --json t.json --top 1
    equal "$(grep -c '"tensor": ' out)" 1
    contains out '"open": 0, "dropped": 0'
    operations=$(sed -n 's/.*"operations": \([0-9]*\),.*/\1/p' out)
    equal "$(grep -c '"name": "ALLREDUCE"' t.json)" "$operations"
}

case_several_files_become_one() {
    RUEDA_TIMELINE=a.json work 0.1 >/dev/null
    RUEDA_TIMELINE=b.json work 0.1 >/dev/null
    expect 0 "$rueda" timeline a.json b.json --output both.json
    expect 0 "$rueda" timeline both.json
    equal "$(grep -c '"ph"' both.json)" "$(cat a.json b.json | grep -c '"ph"')"
    expect 2 "$rueda" timeline a.json --output a.json
    one_line err
}

case_rubbish_is_refused() {
    expect 2 "$rueda" timeline
    one_line err
    expect 1 "$rueda" timeline missing.json
    one_line err
    contains err 'missing.json'
    for text in '' '{}' '[' '[1]' 'rubbish'; do
        echo "$text" >t.json
        expect 1 "$rueda" timeline t.json
        one_line err
        contains err 't.json, line'
    done
    printf '[\n{"pid": 5, "tid": 0, "ph": "E", "ts": 1.000}\n]\n' >t.json
    expect 1 "$rueda" timeline t.json
    contains err 'line 2: an activity ends that has not begun'
    head -c 100000 /dev/urandom >t.json
    expect 1 "$rueda" timeline t.json
    one_line err
}

# Any JSON will do, and a name stays what it is.
case_names_are_read_as_json() {
    cat >t.json <<-'END'
	[
	{"name":"process_name","ph":"M","pid":7,"args":{"name":"a\"b\\c \u00e9\n}"}},
	{"ph": "B", "pid": 7, "tid": 1, "ts": 1, "name": "NEGOTIATE_ALLREDUCE"},
	{"ts": 3.5, "ph": "E", "pid": 7, "tid": 1}
	]
	END
    expect 0 "$rueda" timeline t.json
    contains out '  a\"b\\c é\n}'
    expect 0 "$rueda" timeline --json t.json
    contains out '{"tensor": "a\"b\\c é\n}", "operations": 0, "negotiate_us": 2.5,'
    for line in '{"ph": "B", "pid": 7, "tid": 1, "ts": 1' '{"ph": "B", "pid": 7, "tid": 1}' \
        '{"ph": "B", "pid": -1, "tid": 1, "ts": 1}' '{"ph": "B", "pid": 7, "tid": 4096, "ts": 1}'; do
        printf '[\n%s\n]\n' "$line" >t.json
        expect 1 "$rueda" timeline t.json
        contains err 'line 2: this is not an event'
    done
}

# The job goes on, since its work is worth more; it says so and ends with an error.
case_a_full_disk_is_named() {
    worker=$(dirname "$rueda")/tests/cluster/cluster-worker
    mkdir small
    mount -t tmpfs -o size=16k none small 2>/dev/null || { echo "only root can make a small disk" && exit 77; }
    RUEDA_TIMELINE=small/t.json "$rueda" run -np 2 "$worker" 2 >out 2>err
    code=$?
    umount small
    equal $code 1
    equal "$(grep -c right out)" 2
    grep -q 'the timeline ends: cannot write the timeline .*: No space left on device' err || fail "no reason"
    equal "$(tail -n 1 err)" 'rueda run: the timeline of rank 0 is incomplete'
}

run_case "$1"
