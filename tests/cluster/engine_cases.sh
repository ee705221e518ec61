#!/bin/sh
# Whole jobs on several hosts: shared memory inside, tcp between them. After every case nothing is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
. "$here/hosts.sh"
worker=$(dirname "$rueda")/tests/cluster/cluster-worker

run() { # run CODE ARGUMENTS...: rueda run that the hosts let in
    code=$1
    shift
    # shellcheck disable=SC2086
    expect "$code" "$rueda" run ${ssh:-} "$@"
}

all_right() { # all_right RANKS: every rank has said so
    equal "$(grep -c ': right$' out)" "$1"
}

case_two_hosts_of_two() {
    hosts_up 2
    run 0 -H "$host1:2,$host2:2" "$worker"
    all_right 4
    contains out 'rank 3 of 4, local 1 of 2, cross 1 of 2: right'
    nothing_left
}

case_four_hosts_of_two() {
    hosts_up 4
    run 0 -H "$host1:2,$host2:2,$host3:2,$host4:2" "$worker"
    all_right 8
    run 0 -x RUEDA_ALGORITHM=ring -H "$host1:2,$host2:2,$host3:2,$host4:2" "$worker"
    all_right 8
    nothing_left
}

case_hosts_of_different_sizes() {
    hosts_up 3
    run 0 -H "$host1:1,$host2:3,$host3:2" "$worker"
    all_right 6
    nothing_left
}

case_this_machine_and_another() {
    hosts_up 1
    run 0 -H "localhost:2,$host1:1" "$worker"
    all_right 3
    nothing_left
}

case_by_ipv6() {
    hosts_up 2
    run 0 -H "[$six1]:1,[$six2]:2" "$worker"
    all_right 3
    nothing_left
}

case_encrypted() {
    hosts_up 2
    run 0 -x RUEDA_ENCRYPT=1 -H "$host1:2,$host2:1" "$worker"
    all_right 3
    nothing_left
}

case_tcp_alone() {
    hosts_up 2
    run 0 --tcp -H "$host1:2,$host2:2" "$worker"
    all_right 4
    nothing_left
}

# Neither an argument nor a line of output has it; other users cannot read the environment.
case_the_key_is_not_shown() {
    hosts_up 1
    # shellcheck disable=SC2016,SC2086
    run 0 --verbose -H "localhost:1,$host1:1" sh -c '
        for file in /proc/[0-9]*/cmdline; do
            ! grep -qs "$RUEDA_KEY" "$file" || echo "shown in $file"
        done
        [ "$(stat -c %A /proc/$$/environ)" = -r-------- ] || echo "others can read it"
        echo "$RUEDA_KEY" >key.$RUEDA_RANK; '"$worker"
    all_right 2
    ! grep -q shown out || fail "the key is on a command line"
    ! grep -q 'others can' out || fail "others can read the key"
    ! grep -q "$(cat key.0)" out err || fail "the key is in the output"
    nothing_left
}

# A host that is cut off is named by those who are left.
case_a_host_is_cut_off() {
    hosts_up 2
    # shellcheck disable=SC2086
    "$rueda" run $ssh -x RUEDA_HEARTBEAT=2 -H "localhost:1,$host1:1,$host2:1" "$worker" 60 \
        >out 2>err &
    launcher=$!
    await 30 "all ranks work" sh -c '[ $(grep -c going out) = 3 ]'
    ip link set "v$id.2" down
    wait "$launcher"
    launcher=
    contains err 'rank 2 is lost: it has not answered'
}

# A rank whose clock is far off stands where it belongs in a timeline of all ranks.
case_one_clock_for_all_ranks() {
    unshare -T --monotonic 5000 --fork true 2>/dev/null || skip "no time namespaces here"
    cat >rank.sh <<END
[ "\$RUEDA_RANK" = 0 ] || exec unshare -T --monotonic 5000 --fork "$worker" 1
exec "$worker" 1
END
    run 0 --tcp -np 2 --timeline all.json -x RUEDA_TIMELINE_ALL_RANKS=1 sh rank.sh
    all_right 2
    /usr/bin/python3 - <<'END' || fail "the clocks differ"
import json
events = [e for e in json.load(open("all.json")) if "ts" in e]
spans = [[e["ts"] for e in events if e["tid"] == rank] for rank in (0, 1)]
assert all(spans), "a rank is missing"
apart = abs(max(spans[0]) - max(spans[1]))
assert apart < 1e6, f"the ranks end {apart} us apart"
END
}

run_case "$1"
