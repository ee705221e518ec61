#!/bin/sh
# Ranks on hosts of their own, without a launcher that looks after them: hosts that fall silent, for good
# or for a moment, and ranks that die there. After every case nothing is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
. "$here/hosts.sh"
worker=$(dirname "$rueda")/tests/cluster/cluster-worker

# One rank on each host; rank R on host R+1, its output in out.R and err.R, its process in pid.R.
ranks_up() { # ranks_up RANKS SECONDS [SETTING...]
    ranks=$1
    seconds=$2
    shift 2
    for rank in $(seq 0 $((ranks - 1))); do
        netns $((rank + 1)) env RUEDA_RANK="$rank" RUEDA_SIZE="$ranks" RUEDA_LOCAL_RANK=0 \
            RUEDA_LOCAL_SIZE=1 RUEDA_JOB="faults-$id" RUEDA_MEET="$host1:5555" RUEDA_INSECURE=1 "$@" \
            sh -c 'echo $$ >pid.'"$rank"'; exec "$0" "$1"' "$worker" "$seconds" \
            >"out.$rank" 2>"err.$rank" &
    done
    all='[ $(cat out.* | grep -c going) = '"$ranks ]"
    await 30 "all ranks work" sh -c "$all"
}

# ended RANK: its process is gone.
ended() { is_gone "$(cat "pid.$1")"; }

says() { # says RANK TEXT: it ends, and says so
    await 30 "rank $1 ends" ended "$1"
    grep -qF -e "$2" "err.$1" || fail "rank $1 does not say '$2': $(cat "err.$1")"
}

case_a_silent_host_is_named() {
    hosts_up 3
    ranks_up 3 60 RUEDA_HEARTBEAT=2
    ip link set "v$id.3" down
    says 0 'rank 2 is lost: it has not answered for RUEDA_HEARTBEAT seconds'
    says 1 'rank 2 is lost: it has not answered for RUEDA_HEARTBEAT seconds'
    says 2 'rank 0 is lost: it has not answered for RUEDA_HEARTBEAT seconds' # the other side sees it so
    nothing_left
}

case_a_short_silence_harms_nobody() {
    hosts_up 2
    ranks_up 2 6 RUEDA_HEARTBEAT=6
    ip link set "v$id.2" down
    sleep 2
    ip link set "v$id.2" up
    await 30 "both ranks end" sh -c 'grep -q right out.0 && grep -q right out.1'
    nothing_left
}

case_a_rank_dies_on_another_host() {
    hosts_up 3
    ranks_up 3 60
    kill -9 "$(cat pid.1)"
    says 0 'rank 1 is lost: it ended without rueda_shutdown, or was cut off'
    says 2 'rank 1 is lost: it ended without rueda_shutdown, or was cut off'
    nothing_left
}

case_the_first_rank_dies_on_another_host() {
    hosts_up 3
    ranks_up 3 60
    kill -9 "$(cat pid.0)"
    says 1 'rank 0 is lost: it ended without rueda_shutdown, or was cut off'
    says 2 'rank 0 is lost: it ended without rueda_shutdown, or was cut off'
    nothing_left
}

# Packets are lost in one direction only: the rank that is not heard is named.
case_a_host_that_is_not_heard() {
    hosts_up 2
    ranks_up 2 60 RUEDA_HEARTBEAT=2
    netns 2 ip route add blackhole "$host1/32"
    says 0 'rank 1 is lost: it has not answered for RUEDA_HEARTBEAT seconds'
    await 30 "rank 1 ends" ended 1
    nothing_left
}

run_case "$1"
