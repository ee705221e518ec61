#!/bin/sh
# Elastic jobs, which go on after a loss: `rueda run --min-np` on one host.
. "$(dirname "$0")/common.sh"
worker=$(dirname "$rueda")/tests/cluster/cluster-worker

# What ranks run: `until_said TEXT` waits until the launcher has said it, for at most 20 s.
until_said='until_said() {
    i=0
    until grep -q "$1" err; do i=$((i + 1)); [ $i -lt 400 ] || exit 99; sleep 0.05; done
}'

without_pids() { # without_pids FILE
    sed 's/ (pid [0-9]*)//g' "$1"
}

ends_with() { # ends_with SENTENCE
    equal "$(without_pids err | tail -n 1)" "rueda run: $1"
}

# ---- Losses ---------------------------------------------------------------------------------------

case_the_others_go_on_after_a_loss() {
    for option in --min-np --min-num-proc; do
        expect 0 "$rueda" run -np 4 $option 2 sh -c "$until_said"'
            [ $RUEDA_RANK != 2 ] || kill -KILL $$
            until_said "go on"; echo "elastic: $RUEDA_ELASTIC"'
        equal "$(grep -c 'elastic: 1$' out)" 3
        equal "$(without_pids err)" 'rueda run: rank 2 was killed by SIGKILL; 3 ranks go on
rueda run: 1 rank was lost on the way; the others ended well'
    done
    expect 0 "$rueda" run -np 1 --no-prefix sh -c 'echo "elastic: ${RUEDA_ELASTIC-no}"'
    equal "$(cat out)" 'elastic: no'
}

case_losses_follow_each_other() {
    expect 0 "$rueda" run -np 4 --min-np 1 sh -c "$until_said"'
        [ $RUEDA_RANK != 0 ] || exit 7
        until_said "3 ranks go on"; [ $RUEDA_RANK != 3 ] || exit 5
        until_said "2 ranks go on"; [ $RUEDA_RANK != 1 ] || kill -SEGV $$
        until_said "1 rank goes on"'
    equal "$(without_pids err | sed 's/ (core dumped)//')" 'rueda run: rank 0 exited with 7; 3 ranks go on
rueda run: rank 3 exited with 5; 2 ranks go on
rueda run: rank 1 was killed by SIGSEGV; 1 rank goes on
rueda run: 3 ranks were lost on the way; the others ended well'
}

case_a_rank_that_ends_well_counts() {
    expect 0 "$rueda" run -np 3 --min-np 2 --json-file events sh -c '
        [ $RUEDA_RANK = 1 ] || exit 0
        until [ "$(grep -c rank_exit events)" = 2 ]; do sleep 0.05; done
        exit 6'
    equal "$(without_pids err)" 'rueda run: rank 1 exited with 6; the others have ended well
rueda run: 1 rank was lost on the way; the others ended well'
}

case_what_a_lost_rank_leaves_is_killed() {
    expect 0 "$rueda" run -np 2 --min-np 1 sh -c '
        [ $RUEDA_RANK = 0 ] || { sleep 60 & echo $! >child; exit 3; }
        until [ -s child ] && ! grep -q "^State:[[:space:]]*[^ZX]" /proc/$(cat child)/status 2>/dev/null; do
            sleep 0.05
        done
        echo gone'
    contains out '[0]: gone'
}

case_output_of_a_lost_rank_stays_in_its_file() {
    expect 0 "$rueda" run -np 2 --min-np 1 --output-filename logs sh -c "$until_said"'
        echo "words of $RUEDA_RANK"; [ $RUEDA_RANK = 0 ] || exit 3; until_said "goes on"'
    equal "$(cat logs/rank.0/stdout logs/rank.1/stdout)" 'words of 0
words of 1'
    equal "$(wc -l <err)" 2
}

case_events_tell_of_losses() {
    expect 0 "$rueda" run -np 3 --min-np 1 --json sh -c "$until_said"'
        [ $RUEDA_RANK != 1 ] || kill -KILL $$
        until_said "go on"'
    grep -q '"event": "rank_exit", .*"rank": 1, .*"signal": "KILL"}$' out || fail "no end"
    grep -q '"event": "rank_lost", .*"step": 0, "rank": 1, "host": "localhost", "running": 2}$' out || fail "no loss"
    equal "$(grep -c rank_lost out)" 1
    tail -n 1 out | grep -q '"event": "end", .*"exit_code": 0, .*"cause": null, "lost": 1}$' || fail "last event"
}

case_horovodrun_says_nothing_of_a_survived_loss() {
    expect 0 "$rueda" run --horovodrun -np 2 --min-np 1 sh -c '[ $HOROVOD_RANK = 0 ] || exit 3'
    ! grep -q Horovod err || fail "the job went on"
}

# ---- Ends -----------------------------------------------------------------------------------------

case_too_many_losses_end_the_job() {
    expect 9 "$rueda" run -np 4 --min-np 3 sh -c "$until_said"'
        echo $$ >rank.$RUEDA_RANK
        [ $RUEDA_RANK != 2 ] || kill -KILL $$
        until_said "3 ranks go on"
        [ $RUEDA_RANK != 1 ] || { echo my last words; exit 9; }
        sleep 60'
    ends_with 'rank 1 exited with 9; fewer ranks are left than --min-np 3 asks for'
    contains err 'rueda run: the last lines of rank 1 again:'
    equal "$(grep -c 'go on' err)" 1
    all_gone rank.* || fail "a rank is left"
}

case_those_that_fall_with_a_lost_rank_are_not_blamed() {
    expect 137 "$rueda" run -np 4 --min-np 2 sh -c 'echo $$ >pid.$RUEDA_RANK
        until [ -s pid.0 ] && [ -s pid.1 ] && [ -s pid.2 ] && [ -s pid.3 ]; do sleep 0.02; done
        [ $RUEDA_RANK != 2 ] || kill -KILL $$
        while [ -e /proc/$(cat pid.2)/exe ]; do sleep 0.02; done
        exit 4'
    ends_with 'rank 2 was killed by SIGKILL; fewer ranks are left than --min-np 2 asks for'
    ! grep -q 'on$' err || fail "nobody went on"
}

# Rank 3 never calls rueda_init, which all others need once.
never_comes() { # never_comes HOW EXIT_CODE SENTENCE
    expect "$2" env RUEDA_START_TIMEOUT=40 "$rueda" run -np 4 --min-np 1 sh -c \
        '[ $RUEDA_RANK != 3 ] || { '"$1"'; }; exec "$0"' "$worker"
    without_pids err | tail -n 1 | grep -q "^rueda run: $3; the first rueda_init needs all ranks$" || fail "last line"
    ! grep -q 'rueda run:.* on$' err || fail "nobody went on"
}
case_the_first_init_needs_all() {
    never_comes 'kill -KILL $$' 137 'rank 3 was killed by SIGKILL'
    never_comes 'exit 3' 3 'rank 3 exited with 3'
    never_comes 'exit 0' 1 'rank 3 exited with 0 while the others still needed it: rank [012] exited with 1'
}

# The others come to rueda_init when rank 3 is lost already.
case_a_late_init_blames_the_lost() {
    expect 3 "$rueda" run -np 4 --min-np 1 sh -c "$until_said"'
        [ $RUEDA_RANK != 3 ] || exit 3
        until_said "go on"; exec "$0"' "$worker"
    ends_with 'rank 3 exited with 3; the first rueda_init needs all ranks'
    equal "$(grep -c 'rueda run:.* on$' err)" 1
}

case_signals_and_timeout_end_the_job_after_a_loss() {
    env --default-signal "$rueda" run -np 3 --min-np 1 sh -c 'echo $$ >rank.$RUEDA_RANK
        [ $RUEDA_RANK != 1 ] || exit 3
        sleep 60' >out 2>err &
    launcher=$!
    await 10 "the others go on" grep -q '2 ranks go on' err
    kill -s INT $launcher
    wait $launcher
    equal $? 130
    ends_with 'ended by SIGINT'
    all_gone rank.* || fail "a rank is left"
    expect 124 "$rueda" run -np 3 --min-np 1 --timeout 1.5 sh -c '[ $RUEDA_RANK != 1 ] || exit 3; sleep 60'
    contains err '2 ranks go on'
    ends_with 'the job took longer than 1.5 s (--timeout)'
}

# ---- Usage ----------------------------------------------------------------------------------------

refused() { # refused SENTENCE OPTION...
    sentence=$1
    shift
    expect 2 "$rueda" run "$@" true
    equal "$(cat err)" "rueda run: $sentence"
}
case_bad_minimum_says_what_to_write() {
    for bad in 0 -1 two 99999 ''; do
        refused "--min-np $bad is not valid; give a number from 1 to 4096" -np 2 --min-np "$bad"
    done
    refused '--min-np 3 is more than the number of ranks, 2' -np 2 --min-np 3
    for hosts in localhost:1,elsewhere:1 elsewhere:2 localhost:2,127.0.0.1:2; do
        refused '--min-np goes with this machine alone: elastic jobs are on one host so far' \
            -np 2 --min-np 1 -H $hosts
    done
    refused '--min-np does not go with --mpi: MPI cannot lose ranks; leave --mpi out, and they talk by shm or tcp' \
        -np 2 --min-np 1 --mpi
    expect 0 "$rueda" run -H localhost:2 --min-np 2 true
}

run_case "$1"
