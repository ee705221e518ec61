#!/bin/sh
# `rueda run` on several hosts: what it promises there. After every case nothing of the job is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
. "$here/hosts.sh"

run() { # run CODE ARGUMENTS...: rueda run that the hosts let in
    code=$1
    shift
    # shellcheck disable=SC2086
    expect "$code" "$rueda" run ${ssh:-} "$@"
}

# Starts a job in the background, with signals as in a terminal. Sets $launcher.
start() {
    # shellcheck disable=SC2086
    env --default-signal "$rueda" run $ssh "$@" >out 2>err &
    launcher=$!
}

ended_with() { # ended_with CODE: the job of `start`
    wait "$launcher"
    code=$?
    launcher=
    equal "$code" "$1"
}

# Ranks and their children that note their pids and stay.
sleepers='sleep 61 & echo $! >child.$RUEDA_RANK; echo $$ >rank.$RUEDA_RANK; wait; sleep 60'
start_sleepers() { # start_sleepers OPTIONS...: a rank on this machine and one on each of two hosts
    start -H "localhost,$host1,$host2" "$@" sh -c "$sleepers"
    await 20 "all ranks have started" test -s rank.0 -a -s rank.1 -a -s rank.2
}
sleepers_are_gone() { all_gone rank.0 rank.1 rank.2 child.0 child.1 child.2; }

last_line() { # last_line REGEX: of stderr
    tail -n 1 err | grep -qE -e "$1" || fail "the last line is not $1"
}

# ---- What a rank gets -----------------------------------------------------------------------------

case_ranks_know_who_they_are() {
    hosts_up 2
    run 0 -np 5 -H "$host1:2,$host2:3" sh -c 'echo $RUEDA_RANK $RUEDA_SIZE $RUEDA_LOCAL_RANK \
        $RUEDA_LOCAL_SIZE $RUEDA_CROSS_RANK $RUEDA_CROSS_SIZE $HOROVOD_HOSTNAME $(hostname)'
    cat >expected <<END
[0]: 0 5 0 2 0 2 $host1 node1
[1]: 1 5 1 2 0 2 $host1 node1
[2]: 2 5 0 3 1 2 $host2 node2
[3]: 3 5 1 3 1 2 $host2 node2
[4]: 4 5 2 3 0 1 $host2 node2
END
    sort out | cmp - expected || fail "other facts"
    [ ! -s err ] || fail "something on stderr"
    nothing_left
}

case_ranks_get_where_to_meet() {
    hosts_up 2
    run 0 --no-prefix -H "$host1:1,$host2:2" sh -c 'echo $RUEDA_MEET'
    equal "$(sort -u out | wc -l)" 1
    grep -qE "^$host1:2[0-9]{4}$" out || fail "not at the first host"
    run 0 --no-prefix -H "localhost,$host1" sh -c 'echo $RUEDA_MEET'
    equal "$(sort -u out | sed 's/:2[0-9]*$//')" "$net4.1"
    run 0 --no-prefix -H "localhost,$host1" --nics "nothing,lo" sh -c 'echo $RUEDA_MEET'
    equal "$(sort -u out | sed 's/:2[0-9]*$//')" 127.0.0.1
    run 0 --no-prefix -H "localhost,$host1" --meet "[fd00::7]:2345" sh -c 'echo $RUEDA_MEET'
    equal "$(sort -u out)" '[fd00::7]:2345'
    run 0 --no-prefix -H "$host1:2" sh -c 'echo none: $RUEDA_MEET'
    equal "$(sort -u out)" 'none:'
    run 1 -H "$host1,$host2" --nics nothing true
    last_line "^rueda run: host $host1 has no interface nothing with an address$"
    nothing_left
}

case_key_is_shared_and_on_no_command_line() {
    hosts_up 2
    start -H "localhost,$host1,$host2" --no-prefix sh -c 'echo $RUEDA_KEY; while [ ! -e go ]; do sleep 0.05; done'
    await 20 "all ranks have their key" sh -c '[ "$(wc -l <out)" = 3 ]'
    equal "$(sort -u out | wc -l)" 1
    key=$(head -n 1 out)
    echo "$key" | grep -qE '^[0-9a-f]{64}$' || fail "not 256 bits"
    ! cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -vxF "$key" | grep -qF "$key" ||
        fail "the key is on a command line"
    touch go
    ended_with 0
    nothing_left
}

case_environment_goes_along() {
    hosts_up 1
    export RUEDA_NOTHING=1 OMP_SOMETHING=2 PYTHONPATH=/three HOROVOD_FOUR=4 FIVE=5 SIX=6 SEVEN=7
    export "SPACES=a  b 'c'"
    run 0 --no-prefix -H "$host1" -x FIVE --env SPACES -x SIX=six --env 'EIGHT=a=b c' sh -c 'pwd
        for name in RUEDA_NOTHING OMP_SOMETHING PYTHONPATH HOROVOD_FOUR FIVE SIX SEVEN SPACES EIGHT; do
            eval "echo $name=\"\$$name\""
        done'
    cat >expected <<END
$work
RUEDA_NOTHING=1
OMP_SOMETHING=2
PYTHONPATH=/three
HOROVOD_FOUR=4
FIVE=5
SIX=six
SEVEN=
SPACES=a  b 'c'
EIGHT=a=b c
END
    cmp out expected || fail "another environment"
    nothing_left
}

case_ipv6_and_host_files() {
    hosts_up 2
    run 0 -H "[$six1]:2,$six2" sh -c 'echo $RUEDA_RANK $(hostname) ${RUEDA_MEET%]*}'
    printf '[0]: 0 node1 [%s\n[1]: 1 node1 [%s\n[2]: 2 node2 [%s\n' "$six1" "$six1" "$six1" >expected
    sort out | cmp - expected || fail "other places"
    printf '# my hosts\n\n%s slots=1 # one\n%s:1\n  %s\tslots=2\n' "$host1" "$host2" "$host1" >hosts
    run 0 --hostfile hosts sh -c 'echo $RUEDA_RANK $(hostname)'
    printf '[0]: 0 node1\n[1]: 1 node1\n[2]: 2 node1\n[3]: 3 node2\n' >expected
    sort out | cmp - expected || fail "other places"
    nothing_left
}

case_this_machine_needs_no_ssh() {
    run 0 -H "localhost:1,127.0.0.1:1,$(hostname):1" sh -c 'echo $RUEDA_LOCAL_SIZE $RUEDA_CROSS_SIZE $SSH_CONNECTION'
    equal "$(sed 's/.*: //' out | sort -u)" '1 3'
}

case_rank_0_gets_stdin_here() {
    hosts_up 1
    # shellcheck disable=SC2086
    echo hello | "$rueda" run $ssh -H "localhost,$host1" sh -c 'echo "read: $(cat)"' >out 2>err
    printf '[0]: read: hello\n[1]: read: \n' >expected
    sort out | cmp - expected || fail "another input"
    nothing_left
}

# ---- Output ---------------------------------------------------------------------------------------

case_much_output_is_complete_and_in_order() {
    hosts_up 2
    run 0 -H "localhost,$host1,$host2" sh -c 'seq 30000; seq 30000 >&2'
    seq 30000 >expected
    for rank in 0 1 2; do
        sed -n "s/^\[$rank\]: //p" out | cmp - expected || fail "out of rank $rank"
        sed -n "s/^\[$rank\]: //p" err | cmp - expected || fail "err of rank $rank"
    done
    head -c 3000000 /dev/urandom >bytes
    run 0 --no-prefix -H "$host1" cat bytes
    cmp bytes out || fail "bytes have changed"
    nothing_left
}

case_input_and_results_travel() {
    hosts_up 2
    seq 300000 >numbers
    run 0 -H "localhost,$host1,$host2:2" --input numbers --results results \
        sh -c 'cksum >/dev/fd/$RUEDA_RESULTS_FD'
    equal "$(grep -c "^$(cksum <numbers)\$" results)" 4
    nothing_left
}

case_a_slow_reader_does_not_hide_a_failure() {
    hosts_up 1
    mkfifo pipe
    sleep 60 <pipe &
    reader=$!
    # shellcheck disable=SC2086
    "$rueda" run $ssh --json-file events -H "$host1:2" sh -c '[ $RUEDA_RANK = 1 ] || exec yes
        sleep 1; exit 3' >pipe 2>err &
    launcher=$!
    await 20 "the failure is known" grep -q '"rank": 0.*"signal": "TERM"' events
    kill "$reader"
    ended_with 3
    nothing_left
}

case_reader_that_leaves_ends_the_job() {
    hosts_up 1
    # shellcheck disable=SC2086
    "$rueda" run $ssh -H "$host1:2" yes 2>err | head -n 1 >out
    contains err 'was killed by SIGPIPE'
    nothing_left
}

case_words_of_a_login_do_no_harm() {
    printf '#!/bin/sh\necho welcome; seq 3000; printf oops; echo hello >&2; eval "$SSH_ORIGINAL_COMMAND"' >login
    chmod +x login
    sshd_extra="ForceCommand $work/login"
    hosts_up 1
    run 0 -H "$host1" echo hi
    equal "$(cat out err)" '[0]: hi'
    nothing_left
}

case_output_goes_to_files() {
    hosts_up 1
    run 0 -H "localhost,$host1:10" --output-filename logs/today sh -c 'echo out $RUEDA_RANK; echo err >&2'
    [ ! -s out ] && [ ! -s err ] || fail "also here"
    equal "$(cat logs/today/rank.00/stdout)" 'out 0'
    equal "$(cat logs/today/rank.10/stdout)" 'out 10'
    equal "$(cat logs/today/rank.10/stderr)" err
    nothing_left
}

# ---- Starts that fail -----------------------------------------------------------------------------

case_a_host_that_refuses() {
    hosts_up 2
    run 1 -H "$host1,$host2" -p 2222 echo never
    last_line "^rueda run: cannot start on host $net4.[23]: ssh ended with 255: .*Connection refused$"
    [ ! -s out ] || fail "a rank has run"
    nothing_left
}

case_a_host_that_does_not_answer() {
    hosts_up 2
    kill -STOP "$sshd2"
    run 1 -H "$host1,$host2" --start-timeout 3 echo never
    kill -CONT "$sshd2"
    last_line "^rueda run: (cannot start on host $host2: ssh ended with 255: .*timed out|host $host2 did not answer within 3 s \(--start-timeout\): ssh said .*)"
    [ ! -s out ] || fail "a rank has run"
    nothing_left
}

case_a_wrong_host_key() {
    hosts_up 2
    sed "/^$host2 /d" "$keys/known" >known
    echo "$host2 $(cut -d ' ' -f 1-2 "$keys/host.1.pub")" >>known
    cp known "$keys/known"
    run 1 -H "$host1,$host2" echo never
    contains err "[$host2]: "
    contains err 'REMOTE HOST IDENTIFICATION HAS CHANGED'
    last_line "^rueda run: cannot start on host $host2: ssh ended with 255: Host key verification failed.$"
    [ ! -s out ] || fail "a rank has run"
    nothing_left
}

case_a_wrong_identity() {
    hosts_up 1
    ssh-keygen -q -t ed25519 -N '' -f other
    run 1 -i other -H "$host1" echo never
    last_line "^rueda run: cannot start on host $host1: ssh ended with 255: .*Permission denied"
    nothing_left
}

case_no_rueda_there() {
    hosts_up 1
    run 1 -H "$host1" --remote-program /no/such/rueda echo never
    last_line "^rueda run: cannot start on host $host1: ssh ended with 127: no rueda there, neither as /no/such/rueda nor in PATH"
    nothing_left
}

case_a_command_that_is_not_there() {
    hosts_up 2
    run 127 -H "localhost,$host1,$host2" no-such-command
    last_line "^rueda run: cannot start no-such-command on .*: No such file or directory$"
    run 126 -H "$host1" "$keys/known"
    last_line "^rueda run: cannot start $keys/known on $host1: Permission denied$"
    run 1 -H "$host1" --directory /no/such/place true
    last_line "^rueda run: host $host1: cannot enter the working directory /no/such/place: No such file or directory$"
    nothing_left
}

# ---- Ends -----------------------------------------------------------------------------------------

case_a_rank_that_fails_ends_all() {
    hosts_up 2
    run 7 -H "localhost:2,$host1:2,$host2:2" sh -c 'echo $$ >rank.$RUEDA_RANK
        while [ "$(ls rank.* | wc -l)" != 6 ]; do sleep 0.02; done
        [ $RUEDA_RANK != 3 ] || { echo first; echo the reason >&2; exit 7; }
        sleep 60'
    tail -n 4 err | sort >tail # the two outputs of a rank have no order
    printf '[3]: %s\n' first 'the reason' | cmp - "$(head -n 2 tail >two; echo two)" || fail "other lines"
    contains tail 'rueda run: the last lines of rank 3 again:'
    last_line "^rueda run: rank 3 on $host1 \(pid [0-9]+\) exited with 7$"
    all_gone rank.* || fail "a rank is left"
    nothing_left
}

case_a_crash_is_blamed_before_what_follows_from_it() {
    hosts_up 2
    for try in 1 2 3; do
        rm -f crashed
        run 139 -H "$host1,$host2" sh -c 'if [ $RUEDA_RANK = 0 ]; then
            while [ ! -e crashed ]; do :; done; exit 1
        else
            touch crashed; kill -SEGV $$
        fi'
        last_line "^rueda run: rank 1 on $host2 \(pid [0-9]+\) was killed by SIGSEGV"
    done
    nothing_left
}

case_a_rank_that_ignores_term() {
    hosts_up 1
    run 1 -H "$host1:2" sh -c 'echo $$ >rank.$RUEDA_RANK; trap "" TERM
        while [ ! -e rank.0 ] || [ ! -e rank.1 ]; do sleep 0.02; done
        [ $RUEDA_RANK = 0 ] || exit 1
        while :; do sleep 1; done'
    all_gone rank.* || fail "a rank is left"
    nothing_left
}

case_timeout_ends_the_job() {
    hosts_up 1
    run 124 -H "localhost,$host1" --timeout 2 sleep 60
    equal "$(tail -n 1 err)" 'rueda run: the job took longer than 2 s (--timeout)'
    nothing_left
}

case_what_ranks_leave_is_killed() {
    hosts_up 1
    run 0 -H "$host1:2" sh -c 'sleep 60 & echo $! >pid.$RUEDA_RANK; echo done'
    contains out '[1]: done'
    all_gone pid.0 pid.1 || fail "a child is left"
    nothing_left
}

# ---- Signals and accidents ------------------------------------------------------------------------

case_interrupt_reaches_all() {
    hosts_up 2
    start_sleepers
    kill -s INT "$launcher"
    ended_with 130
    sleepers_are_gone || fail "a process is left"
    equal "$(tail -n 1 err)" 'rueda run: ended by SIGINT'
    nothing_left
}

case_interrupt_while_connecting() {
    hosts_up 2
    kill -STOP "$sshd1" "$sshd2"
    start -H "$host1,$host2" true
    await 10 "it connects" pgrep -P "$launcher" -x ssh
    kill -s INT "$launcher"
    ended_with 130
    kill -CONT "$sshd1" "$sshd2"
    nothing_left
}

case_second_interrupt_kills_at_once() {
    hosts_up 1
    start -H "localhost,$host1" sh -c 'trap "" INT; echo $$ >rank.$RUEDA_RANK; while :; do sleep 1; done'
    await 20 "all ranks have started" test -s rank.0 -a -s rank.1
    begin=$(date +%s)
    kill -s INT "$launcher"
    sleep 0.3
    kill -s INT "$launcher"
    ended_with 130
    [ $(($(date +%s) - begin)) -lt 4 ] || fail "waited for the grace time"
    all_gone rank.* || fail "a rank is left"
    nothing_left
}

case_user_signals_are_passed_on() {
    hosts_up 1
    start -H "localhost,$host1" sh -c 'trap "echo got it; exit 0" USR1; echo $$ >rank.$RUEDA_RANK
        while :; do sleep 0.05; done'
    await 20 "all ranks have started" test -s rank.0 -a -s rank.1
    kill -s USR1 "$launcher"
    ended_with 0
    equal "$(grep -c 'got it' out)" 2
    nothing_left
}

case_killed_launcher_takes_all_with_it() {
    hosts_up 2
    start_sleepers
    kill -s KILL "$launcher"
    await 10 "all processes are gone" sleepers_are_gone
    nothing_left
}

case_killed_ssh_ends_the_job() {
    hosts_up 2
    start_sleepers
    pkill -KILL -P "$launcher" -x -f "ssh .* $host2 .*"
    ended_with 1
    last_line "^rueda run: lost host $host2: ssh was killed by SIGKILL$"
    sleepers_are_gone || await 20 "all processes are gone" sleepers_are_gone
    nothing_left
}

case_killed_agent_ends_the_job() {
    hosts_up 2
    start_sleepers
    kill_guests 2 rueda-agent
    ended_with 1
    last_line "^rueda run: lost host $host2: ssh ended with"
    await 20 "all processes are gone" sleepers_are_gone
    nothing_left
}

case_killed_sshd_ends_the_job() {
    hosts_up 2
    start_sleepers
    kill_guests 2 sshd
    ended_with 1
    # ssh may have been about to write
    last_line "^rueda run: lost host $host2: ssh ended with 255: .*(closed|reset|Broken pipe)"
    await 20 "all processes are gone" sleepers_are_gone
    nothing_left
}

case_a_cut_network_ends_the_job() {
    hosts_up 2
    start_sleepers --host-timeout 2
    netns 2 ip link set eth0 down
    ended_with 1
    last_line "^rueda run: lost host $host2: no sign of life for 2 s$"
    await 10 "all processes are gone" sleepers_are_gone
    kill -9 "$(pgrep -P "$sshd2")" 2>/dev/null # sshd itself waits for minutes
    nothing_left
}

case_a_stopped_launcher_is_waited_for() {
    hosts_up 1
    start -H "localhost,$host1" --host-timeout 2 sh -c 'echo $$ >rank.$RUEDA_RANK
        while [ ! -e go ]; do sleep 0.05; done; echo end'
    await 20 "all ranks have started" test -s rank.0 -a -s rank.1
    kill -s TSTP "$launcher"
    await 10 "the ranks are stopped" sh -c 'grep -q "^State:.*T" /proc/$(cat rank.1)/status'
    sleep 3
    kill -s CONT "$launcher"
    touch go
    ended_with 0
    equal "$(grep -c end out)" 2
    nothing_left
}

# ---- What else --------------------------------------------------------------------------------------

case_dry_run_starts_nothing() {
    hosts_up 1
    run 0 -H "localhost,$host1:2" -x SECRET=1 --dry-run touch started
    [ ! -e started ] || fail "it started"
    contains out "host $host1: 2 ranks in $work"
    contains out 'RUEDA_KEY=(hidden)'
    contains out "RUEDA_MEET=$net4.1:2"
    contains out 'command: touch started'
    contains out " $host1 'exec sh -c"
    nothing_left
}

case_events_name_hosts() {
    hosts_up 1
    run 3 -H "localhost,$host1" --json sh -c 'echo "say \"hi\""; sleep 0.$((RUEDA_RANK * 5)); exit $((RUEDA_RANK * 3))'
    grep -qE '^\{"event": "start", .*"ranks": 2, "hosts": 2, "steps": 1\}$' out || fail "no start"
    grep -qE "^\{\"event\": \"rank_start\", .*\"rank\": 1, \"host\": \"$host1\", \"pid\": [0-9]+\}$" out || fail "no rank_start"
    contains out '"rank": 1, "stream": "stdout", "text": "say \"hi\""}'
    contains out "\"rank\": 1, \"host\": \"$host1\", \"exit_code\": 3, \"signal\": null}"
    tail -n 1 out | grep -qE '^\{"event": "end", .*"exit_code": 3, "seconds": [0-9.]+, "cause": "rank 1 on .* exited with 3"\}$' || fail "no end"
    ! grep -v '^{' out || fail "not an object a line"
    nothing_left
}

run_case "$1"
