#!/bin/sh
# Which rank the launcher blames when a job breaks: the one that broke it, not one that noticed.
. "$(dirname "$0")/common.sh"
worker=$(dirname "$rueda")/tests/cluster/cluster-worker
two_hosts="-H localhost:2,127.0.0.1:2"

# Starts four ranks that work, each as the child of a shell: worker.R is the process that works. The shell
# of rank 2 outlives it for a moment and exits with 9. Sets $launcher.
start_workers() { # start_workers [OPTION...]
    rm -f worker.*
    : >out
    # shellcheck disable=SC2016
    "$rueda" run -np 4 "$@" sh -c '"$0" 50 & echo $! >worker.$RUEDA_RANK
        wait $!
        code=$?
        [ $RUEDA_RANK != 2 ] || { sleep 0.5; exit 9; }
        exit $code' "$worker" >out 2>err &
    launcher=$!
    # shellcheck disable=SC2016
    await 20 "all ranks work" sh -c '[ "$(grep -c going out)" = 4 ]'
}

blames() { # blames EXIT_CODE SENTENCE: the job ends so; pids are left out
    wait "$launcher"
    equal $? "$1"
    equal "$(tail -n 1 err | sed 's/ (pid [0-9]*)//g')" "rueda run: $2"
}

kill_worker() { # kill_worker [OPTION...]
    start_workers "$@"
    kill -s KILL "$(cat worker.2)"
}
case_survivors_that_end_first_are_not_blamed() {
    kill_worker
    blames 9 'rank 2 exited with 9'
    RUEDA_TRANSPORT=tcp kill_worker
    blames 9 'rank 2 exited with 9'
}
case_survivors_on_other_hosts_are_not_blamed() {
    # shellcheck disable=SC2086
    kill_worker $two_hosts
    blames 9 'rank 2 on 127.0.0.1 exited with 9'
}

case_a_stopped_rank_is_blamed() {
    RUEDA_HEARTBEAT=1 start_workers
    kill -s STOP "$(cat worker.2)"
    wait "$launcher"
    equal $? 1
    tail -n 1 err | sed 's/ (pid [0-9]*)//g' |
        grep -q '^rueda run: rank 2 was lost to the others, although it still runs: rank [013] exited with 1$' ||
        fail "last line"
}

# Rank 3 never calls rueda_init. All others hear of it at once, and say the same.
absent() { # absent HOW EXIT_CODE SENTENCE [OPTION...]
    how=$1
    code=$2
    sentence=$3
    shift 3
    expect "$code" env RUEDA_START_TIMEOUT=40 "$rueda" run -np 4 "$@" sh -c \
        '[ $RUEDA_RANK != 3 ] || { '"$how"'; }; exec "$0"' "$worker"
    equal "$(grep -v ' again:$' err | grep -c 'rank -1: rueda_init: rank 3 is lost: it ended before rueda_init')" \
        "$(grep -c '^\[[0-9]\]: rank -1' err)"
    for rank in 0 1 2; do
        grep -q "^\[$rank\]: rank -1: rueda_init: rank 3 is lost" err || fail "rank $rank does not say it"
    done
    tail -n 1 err | sed 's/ (pid [0-9]*)//g' | grep -q "^rueda run: $sentence" || fail "last line"
}
case_ranks_that_never_come_are_blamed() {
    absent 'exit 3' 3 'rank 3 exited with 3$'
    absent 'kill -KILL $$' 137 'rank 3 was killed by SIGKILL$'
    absent 'exit 0' 1 'rank 3 exited with 0 while the others still needed it: rank [012] exited with 1$'
}
case_ranks_of_other_hosts_that_never_come_are_blamed() {
    # shellcheck disable=SC2086
    absent 'exit 3' 3 'rank 3 on 127.0.0.1 exited with 3$' $two_hosts
    # shellcheck disable=SC2086
    absent 'sleep 0.5; exit 0' 1 'rank 3 on 127.0.0.1 exited with 0 while the others still needed it: ' $two_hosts
}

run_case "$1"
