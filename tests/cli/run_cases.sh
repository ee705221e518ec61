#!/bin/sh
# The launcher: what `rueda run` promises.
. "$(dirname "$0")/common.sh"

# ---- What a rank gets -----------------------------------------------------------------------------

case_ranks_know_who_they_are() {
    expect 0 "$rueda" run -np 3 sh -c 'echo $RUEDA_RANK $RUEDA_SIZE $RUEDA_LOCAL_RANK \
        $RUEDA_LOCAL_SIZE $RUEDA_CROSS_RANK $RUEDA_CROSS_SIZE; echo $HOROVOD_RANK $HOROVOD_SIZE \
        $HOROVOD_LOCAL_RANK $HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE'
    for rank in 0 1 2; do
        equal "$(grep -c "^\[$rank\]: $rank 3 $rank 3 0 1\$" out)" 2
    done
    equal "$(wc -l <out)" 6
}

case_ranks_share_a_random_job_name() {
    expect 0 "$rueda" run -np 2 --no-prefix sh -c 'echo $RUEDA_JOB'
    equal "$(sort -u out | wc -l)" 1
    grep -qE '^[0-9a-f]{32}$' out || fail "not 128 bits"
    first=$(head -n 1 out)
    expect 0 "$rueda" run -np 1 --no-prefix sh -c 'echo $RUEDA_JOB'
    [ "$(cat out)" != "$first" ] || fail "two jobs of one name"
}

case_threads_are_shared_out() {
    unset OMP_NUM_THREADS
    expect 0 "$rueda" run -np 64 --no-prefix sh -c 'echo $OMP_NUM_THREADS'
    [ "$(sort -u out)" -ge 1 ] || fail "less than one thread"
    OMP_NUM_THREADS=7 expect 0 "$rueda" run -np 2 --no-prefix sh -c 'echo $OMP_NUM_THREADS'
    equal "$(sort -u out)" 7
}

case_rank_0_gets_stdin() {
    printf 'one\ntwo\n' | "$rueda" run -np 2 sh -c 'echo "read: $(cat)"' >out 2>err
    contains out '[0]: read: one'
    contains out '[0]: two'
    contains out '[1]: read: '
    equal "$(grep -c '^\[1\]' out)" 1
}

case_all_ranks_read_the_input() {
    seq 300000 >numbers
    expect 0 "$rueda" run -np 3 --no-prefix --input numbers sh -c 'cksum'
    equal "$(sort -u out)" "$(cksum <numbers)"
    equal "$(wc -l <out)" 3
    : >empty
    echo word | expect 0 "$rueda" run -np 2 --input empty cat
    [ ! -s out ] || fail "a rank has read something"
    expect 0 sh -c "\"$rueda\" run -np 2 --no-prefix --input /dev/stdin wc -l <numbers"
    equal "$(sort -u out)" 300000
    for bad in no-such-file . /dev/fd/0; do
        echo | expect 1 "$rueda" run -np 1 --input $bad true
        contains err "rueda run: cannot read the input $bad: "
        one_line err
    done
}

case_results_come_back() {
    expect 0 "$rueda" run -np 3 --results results sh -c \
        'echo seen; { echo $RUEDA_RANK; seq $((RUEDA_RANK * 100000)); } >/dev/fd/$RUEDA_RESULTS_FD'
    equal "$(grep -c seen out)" 3
    for rank in 0 1 2; do # records are "RANK BYTES", then so many bytes
        python3 - $rank >mine <<'EOF' || fail "no records"
import sys
with open("results", "rb") as file:
    while line := file.readline():
        rank, count = map(int, line.split())
        data = file.read(count)
        if rank == int(sys.argv[1]):
            sys.stdout.buffer.write(data)
EOF
        { echo $rank; seq $((rank * 100000)); } | cmp - mine || fail "other results of rank $rank"
    done
    expect 0 env RUEDA_RESULTS_FD=9 "$rueda" run -np 1 --no-prefix sh -c 'echo "${RUEDA_RESULTS_FD-none}"'
    equal "$(cat out)" none
    expect 1 "$rueda" run -np 1 --results no/such/place true
    contains err 'cannot write no/such/place: No such file or directory'
}

case_ranks_inherit_no_descriptor() {
    expect 0 ls /proc/self/fd
    alone=$(wc -l <out)
    expect 0 "$rueda" run -np 1 --no-prefix ls /proc/self/fd
    equal "$(wc -l <out)" "$alone"
}

case_options_after_command_are_its_own() {
    expect 0 "$rueda" run -np 1 --no-prefix echo -np 3 --timeout x
    equal "$(cat out)" '-np 3 --timeout x'
    expect 0 "$rueda" run -np=1 --no-prefix -- echo -- -n
    equal "$(cat out)" '-- -n'
}

# ---- Output ---------------------------------------------------------------------------------------

case_prefixes_are_aligned() {
    expect 0 "$rueda" run -np 11 echo hello
    contains out '[ 3]: hello'
    contains out '[10]: hello'
    equal "$(wc -l <out)" 11
}

case_outputs_stay_apart() {
    expect 0 "$rueda" run -np 2 sh -c 'echo to out; echo to err >&2'
    equal "$(sort out | tr '\n' ' ')" '[0]: to out [1]: to out '
    equal "$(sort err | tr '\n' ' ')" '[0]: to err [1]: to err '
}

case_last_line_without_end_is_shown() {
    expect 0 "$rueda" run -np 2 printf 'one\npart'
    equal "$(sort out | tr '\n' ' ')" '[0]: one [0]: part [1]: one [1]: part '
    equal "$(wc -l <out)" 4
}

case_progress_bars_show_each_step() {
    expect 0 "$rueda" run -np 1 printf 'a\rb\rc\r\nd\n'
    equal "$(od -An -c out | tr -d ' \n')" '[0]:a\r[0]:b\r[0]:c\r\n[0]:d\n'
}

case_empty_output_stays_empty() {
    expect 0 "$rueda" run -np 3 true
    [ ! -s out ] && [ ! -s err ] || fail "output from nothing"
}

case_plain_output_is_not_touched() {
    head -c 300000 /dev/urandom >bytes
    expect 0 "$rueda" run -np 1 --no-prefix cat bytes
    cmp bytes out || fail "bytes have changed"
}

case_prefixed_output_is_binary_safe() {
    printf 'a\0b\nc\377\0\n' >bytes
    expect 0 "$rueda" run -np 1 cat bytes
    sed 's/^\[0\]: //' out | cmp - bytes || fail "bytes have changed"
}

case_long_line_stays_one_line() {
    head -c 1000000 /dev/zero | tr '\0' x >long
    expect 0 "$rueda" run -np 1 cat long
    printf '[0]: ' | cat - long >expected
    echo >>expected
    cmp expected out || fail "the line has changed"
}

case_long_lines_of_two_ranks_do_not_mix() {
    expect 0 "$rueda" run -np 2 sh -c 'head -c 1000000 /dev/zero | tr "\0" $((RUEDA_RANK + 1))'
    sed 's/^\[[01]\]: //' out >bare
    ! grep -q 12 bare && ! grep -q 21 bare || fail "bytes of two ranks share a line"
    equal "$(tr -cd 1 <bare | wc -c)" 1000000
    equal "$(tr -cd 2 <bare | wc -c)" 1000000
}

case_much_output_is_complete_and_in_order() {
    expect 0 "$rueda" run -np 4 sh -c 'seq 20000; seq 20000 >&2'
    seq 20000 >expected
    for rank in 0 1 2 3; do
        sed -n "s/^\[$rank\]: //p" out | cmp - expected || fail "out of rank $rank"
        sed -n "s/^\[$rank\]: //p" err | cmp - expected || fail "err of rank $rank"
    done
}

case_slow_reader_gets_everything() {
    "$rueda" run -np 2 seq 100000 | (sleep 1 && cat) >out
    equal "$(wc -l <out)" 200000
}

case_reader_that_leaves_ends_the_job() {
    "$rueda" run -np 2 yes 2>err | head -n 1 >out
    contains err 'was killed by SIGPIPE'
}

# ---- Ends -----------------------------------------------------------------------------------------

case_exit_code_is_passed_on() {
    expect 7 "$rueda" run -np 2 sh -c 'exit $((RUEDA_RANK * 7))'
    tail -n 1 err | grep -qE '^rueda run: rank 1 \(pid [0-9]+\) exited with 7$' || fail "last line"
}

case_first_failure_ends_the_rest() {
    expect 3 "$rueda" run -np 3 sh -c 'echo $$ >pid.$RUEDA_RANK; trap "echo ending >&2; exit 9" TERM
        while [ ! -e pid.0 ] || [ ! -e pid.1 ] || [ ! -e pid.2 ]; do sleep 0.02; done
        [ $RUEDA_RANK != 2 ] || exit 3
        while :; do sleep 0.05; done'
    contains err '[0]: ending'
    tail -n 1 err | grep -qE '^rueda run: rank 2 \(pid [0-9]+\) exited with 3$' || fail "last line"
    all_gone pid.* || fail "a rank is left"
}

case_ranks_may_end_by_themselves_after_a_failure() {
    expect 3 "$rueda" run -np 2 --farewell 30 sh -c 'echo $$ >pid.$RUEDA_RANK
        trap "echo asked >&2; exit 9" TERM
        while [ ! -e pid.0 ] || [ ! -e pid.1 ]; do sleep 0.02; done
        [ $RUEDA_RANK = 0 ] || exit 3
        while [ -e /proc/$(cat pid.1)/exe ]; do sleep 0.02; done
        sleep 1.5
        echo "rank 1 is gone" >&2; exit 4'
    contains err '[0]: rank 1 is gone'
    ! grep -q asked err || fail "asked to end while it did so"
    tail -n 1 err | grep -qE '^rueda run: rank 1 \(pid [0-9]+\) exited with 3$' || fail "last line"
}

case_interrupt_ends_a_farewell() {
    env --default-signal "$rueda" run -np 2 --farewell 50 --json-file events sh -c 'echo $$ >rank.$RUEDA_RANK
        [ $RUEDA_RANK = 0 ] || exit 3
        sleep 60' >out 2>err &
    launcher=$!
    await 10 "all ranks have started" test -s rank.0 -a -s rank.1
    await 10 "a rank has failed" grep -q rank_exit events
    kill -s INT $launcher
    wait $launcher
    equal $? 3
    all_gone rank.* || fail "a rank is left"
}

case_death_by_signal_is_named() {
    expect 137 "$rueda" run -np 2 sh -c '[ $RUEDA_RANK = 0 ] || kill -KILL $$; sleep 60'
    tail -n 1 err | grep -qE '^rueda run: rank 1 \(pid [0-9]+\) was killed by SIGKILL' || fail "last line"
}

case_deaf_rank_is_killed_after_grace() {
    expect 1 "$rueda" run -np 2 sh -c 'echo $$ >pid.$RUEDA_RANK; trap "" TERM
        while [ ! -e pid.0 ] || [ ! -e pid.1 ]; do sleep 0.02; done
        [ $RUEDA_RANK = 0 ] || exit 1
        while :; do sleep 1; done'
    all_gone pid.* || fail "a rank is left"
}

case_a_rank_may_end_early() {
    expect 0 "$rueda" run -np 2 sh -c '[ $RUEDA_RANK = 0 ] || exit 0; sleep 0.5; echo last'
    contains out '[0]: last'
}

case_timeout_ends_the_job() {
    expect 124 "$rueda" run -np 2 --timeout 1 sleep 60
    equal "$(tail -n 1 err)" 'rueda run: the job took longer than 1 s (--timeout)'
    expect 124 "$rueda" run -np 2 --timeout 0.3 sleep 60
    equal "$(tail -n 1 err)" 'rueda run: the job took longer than 0.3 s (--timeout)'
    for bad in 0 -1 nan 1e99 2s ''; do
        expect 2 "$rueda" run -np 2 --timeout "$bad" true
        equal "$(cat err)" "rueda run: --timeout $bad is not valid; give seconds from 0.001 to 31536000"
    done
}

case_command_not_found() {
    expect 127 "$rueda" run -np 2 no-such-command
    equal "$(cat err)" 'rueda run: cannot start no-such-command: No such file or directory'
    echo >plain.txt
    expect 126 "$rueda" run -np 2 ./plain.txt
    contains err 'Permission denied'
    one_line err
}

case_background_children_do_not_hold_the_job() {
    expect 0 "$rueda" run -np 2 sh -c 'sleep 60 & echo $! >pid.$RUEDA_RANK; echo done'
    contains out '[1]: done'
    await 5 "what the ranks left is killed" all_gone pid.0 pid.1
}

# ---- Signals --------------------------------------------------------------------------------------

# Starts a job whose ranks and their children note their pids, with signals as in a terminal (a shell
# lets its background ignore some). Sets $launcher.
start_sleepers() {
    env --default-signal "$rueda" run -np 3 sh -c 'sleep 61 & echo $! >child.$RUEDA_RANK
        echo $$ >rank.$RUEDA_RANK; wait; sleep 60' >out 2>err &
    launcher=$!
    await 10 "all ranks have started" test -s rank.0 -a -s rank.1 -a -s rank.2
}

signal_ends_all() { # signal_ends_all NAME EXIT_CODE
    start_sleepers
    kill -s "$1" "$launcher"
    wait "$launcher"
    equal $? "$2"
    all_gone rank.* child.* || fail "a process is left"
    equal "$(tail -n 1 err)" "rueda run: ended by SIG$1"
}
case_interrupt_reaches_all() { signal_ends_all INT 130; }
case_term_reaches_all() { signal_ends_all TERM 143; }
case_hangup_reaches_all() { signal_ends_all HUP 129; }

case_second_interrupt_kills_at_once() {
    env --default-signal "$rueda" run -np 2 sh -c 'trap "" INT; echo $$ >rank.$RUEDA_RANK
        while :; do sleep 1; done' >out 2>err &
    launcher=$!
    await 10 "all ranks have started" test -s rank.0 -a -s rank.1
    start=$(date +%s)
    kill -s INT $launcher
    sleep 0.3
    kill -s INT $launcher
    wait $launcher
    equal $? 130
    [ $(($(date +%s) - start)) -lt 4 ] || fail "waited for the grace time"
    all_gone rank.* || fail "a rank is left"
}

case_killed_launcher_takes_all_with_it() {
    start_sleepers
    kill -s KILL "$launcher"
    await 10 "all processes are gone" all_gone rank.0 rank.1 rank.2 child.0 child.1 child.2
}

case_hangup_is_ignored_under_nohup() {
    nohup "$rueda" run -np 1 sh -c 'echo $$ >rank.0; sleep 1; echo survived' >out 2>err &
    launcher=$!
    await 10 "the rank has started" test -s rank.0
    kill -s HUP "$launcher"
    wait "$launcher"
    equal $? 0
    contains out '[0]: survived'
}

case_interrupt_ends_even_if_nobody_reads() {
    mkfifo pipe
    sleep 60 <pipe &
    reader=$!
    env --default-signal "$rueda" run -np 2 sh -c 'echo $$ >rank.$RUEDA_RANK; exec yes' >pipe 2>err &
    launcher=$!
    await 10 "all ranks have started" test -s rank.0 -a -s rank.1
    sleep 0.5
    kill -s INT "$launcher"
    wait "$launcher"
    code=$?
    kill "$reader"
    equal "$code" 130
    all_gone rank.* || fail "a rank is left"
}

case_user_signals_are_passed_on() {
    "$rueda" run -np 2 sh -c 'trap "echo got it; exit 0" USR1; echo $$ >rank.$RUEDA_RANK
        while :; do sleep 0.05; done' >out 2>err &
    launcher=$!
    await 10 "all ranks have started" test -s rank.0 -a -s rank.1
    kill -s USR1 "$launcher"
    wait "$launcher"
    equal $? 0
    equal "$(grep -c 'got it' out)" 2
}

# ---- Usage ----------------------------------------------------------------------------------------

case_bad_usage_says_what_to_write() {
    for arguments in "" "-np 2" "ls" "-np 0 ls" "-np two ls" "-np 99999 ls" "-np" "-nn 2 ls" \
        "-np 2 --timeout 0 ls" "-np 2 --no-prefix=1 ls" "-np 2 --nonsense ls"; do
        # shellcheck disable=SC2086
        expect 2 "$rueda" run $arguments
        one_line err
        [ ! -s out ] || fail "run $arguments: output"
    done
    expect 2 "$rueda" run -nn 2 ls
    contains err 'did you mean -np?'
}

case_misspelt_option_gets_nearest() {
    for words in '--timout --timeout' '--timout=3600000 --timeout' '--verbos --verbose' '--hostfiles --hostfile' \
        '--fusion-treshold-mb=64 --fusion-threshold-mb' '--stall-check-warning-time-second --stall-check-warning-time-seconds' \
        '-nn -np'; do
        expect 2 "$rueda" run "${words% *}" 1 true
        equal "$(cat err)" "rueda run: unknown option ${words% *}; did you mean ${words#* }?"
    done
    expect 2 "$rueda" run --nonsense=--timeout true
    equal "$(cat err)" 'rueda run: unknown option --nonsense=--timeout; see rueda run --help'
}

case_help_is_there() {
    expect 0 "$rueda" run --help
    contains out 'usage: rueda run -np N'
    contains out '--timeout SECONDS'
}

run_case "$1"
