#!/bin/sh
# How allreduce goes between hosts whose links have a limit: hierarchical and flat, sum and Adasum, what
# crosses the links, and a host that is cut off in the middle. TEST_TRANSPORT: tcp or mpi.
# After every case nothing is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
. "$here/hosts.sh"
transport=${TEST_TRANSPORT:-tcp}
worker=$(dirname "$rueda")/tests/cluster/cluster-worker
across=$(dirname "$rueda")/rueda-across-hosts
rate=1gbit

# Only what is beside the program counts: it is what the program would load.
if [ "$transport" = mpi ]; then
    [ -e "$(dirname "$rueda")/librueda-mpi-openmpi.so" ] || skip "this build has no plug-in for Open MPI"
    command -v mpirun.openmpi >/dev/null || skip "no mpirun of Open MPI"
fi

# mpirun goes to the hosts by an ssh of its own; the names of our hosts lead nowhere, so the ranks are
# told where to meet.
by_mpi() {
    cat >agent <<-END
	#!/bin/sh
	exec ssh -i $keys/user -o UserKnownHostsFile=$keys/known -o IdentitiesOnly=yes \
	    -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes "\$@"
	END
    chmod +x agent
    OMPI_MCA_plm_rsh_agent=$work/agent
    OMPI_MCA_oob_tcp_if_include=$net4.0/24
    OMPI_MCA_btl_tcp_if_include=$net4.0/24
    export OMPI_MCA_plm_rsh_agent OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
    how="--mpi --mpirun mpirun.openmpi -x RUEDA_MEET=$host1:5555"
}

run() { # run HOSTS ARGUMENTS...: a job with two ranks on each of so many hosts
    list=
    for number in $(seq "$1"); do
        eval "list=\$list,\$host$number:2"
    done
    shift
    how=$ssh
    [ "$transport" = tcp ] || by_mpi
    # shellcheck disable=SC2086
    expect 0 "$rueda" run $how --no-prefix -H "${list#,}" "$@"
}

# Every rank compares sums and Adasums of several sizes with a plain calculation; plans are proved.
all_are_right() { # all_are_right HOSTS ALGORITHM
    hosts_up "$1"
    hosts_limit $rate
    run "$1" -x RUEDA_ALGORITHM="$2" -x RUEDA_VERIFY=1 "$worker"
    equal "$(grep -c ': right$' out)" $((2 * $1))
    nothing_left
}

case_two_hosts_hierarchical() { all_are_right 2 hierarchical; }
case_two_hosts_flat() { all_are_right 2 ring; }
case_two_hosts_as_chosen() { all_are_right 2 auto; }
case_four_hosts_hierarchical() { all_are_right 4 hierarchical; }
case_four_hosts_flat() { all_are_right 4 ring; }
case_four_hosts_as_chosen() { all_are_right 4 auto; }

# ---- What crosses the links ----------------------------------------------------------------------

within_theory() { # within_theory WAY: what it sends is within 5 % of the theory
    awk -v way="$1" '$0 ~ "^" way { seen = 1; if ($(NF - 1) < 0.95 || $(NF - 1) > 1.05) exit 1 }
        END { exit !seen }' out || fail "$1 sends something else: $(cat out)"
}

bytes_are_right() { # bytes_are_right HOSTS
    hosts_up "$1"
    hosts_limit $rate
    run "$1" "$across" 8388608 1
    within_theory 'sum, hierarchical'
    within_theory 'sum, flat ring'
    within_theory adasum
    nothing_left
}

case_two_hosts_send_the_least() { bytes_are_right 2; }
case_four_hosts_send_the_least() { bytes_are_right 4; }

# ---- Without a launcher --------------------------------------------------------------------------

# rank_up RANK HOST LOCAL_RANK COMMAND...: two ranks on each of $hosts hosts; its output in out.RANK and
# err.RANK, its process in pid.RANK.
rank_up() {
    rank=$1
    host=$2
    local_rank=$3
    shift 3
    netns "$host" env RUEDA_RANK="$rank" RUEDA_SIZE=$((2 * hosts)) RUEDA_LOCAL_RANK="$local_rank" \
        RUEDA_LOCAL_SIZE=2 RUEDA_CROSS_RANK=$((host - 1)) RUEDA_CROSS_SIZE="$hosts" \
        RUEDA_JOB="plans-$id" RUEDA_MEET="$host1:5555" RUEDA_INSECURE=1 RUEDA_HEARTBEAT="${heartbeat:-60}" \
        sh -c 'echo $$ >pid.'"$rank"'; exec "$@"' sh "$@" >"out.$rank" 2>"err.$rank" &
}

ended() { # ended RANK...: their processes are gone
    for rank in "$@"; do
        is_gone "$(cat "pid.$rank")" || return 1
    done
}

only_tcp() {
    [ "$transport" = tcp ] || skip "without a launcher there is no MPI"
}

# Neighbours are on different hosts: sums go by host all the same, and a ring crosses each link once.
case_ranks_dealt_over_hosts() {
    only_tcp
    hosts=2
    hosts_up $hosts
    hosts_limit $rate
    for rank in 0 1 2 3; do
        rank_up "$rank" $((rank % 2 + 1)) $((rank / 2)) "$across" 8388608 1
    done
    await 60 "all ranks end" ended 0 1 2 3
    cat err.* >err
    cp out.0 out
    within_theory 'sum, hierarchical'
    within_theory 'sum, flat ring'
    grep -q '^adasum' out || fail "no Adasum"
    nothing_left
}

cut_off_in_the_middle() { # cut_off_in_the_middle HOSTS COMMAND...: the last host, by the command
    only_tcp
    hosts=$1
    heartbeat=2
    shift
    hosts_up "$hosts"
    hosts_limit $rate
    last=$((2 * hosts - 1))
    for rank in $(seq 0 $last); do
        rank_up "$rank" $((rank / 2 + 1)) $((rank % 2)) "$worker" 60
    done
    all='[ $(cat out.* | grep -c going) = '"$((2 * hosts)) ]"
    await 60 "all ranks work" sh -c "$all"
    "$@"
    # shellcheck disable=SC2046
    await 10 "the survivors end" ended $(seq 0 $((last - 2)))
    for rank in $(seq 0 $((last - 2))); do
        grep -qE "rank ($last|$((last - 1))) is lost: it has not answered .*also there: ($last|$((last - 1)))\)" \
            "err.$rank" || fail "rank $rank does not name the lost: $(cat "err.$rank")"
    done
    await 10 "those who were cut off end" ended "$last" $((last - 1))
    contains "err.$last" 'is lost: it has not answered'
    nothing_left
}

case_a_host_loses_its_link_in_the_middle() {
    cut_off_in_the_middle 2 ip link set "v$id.2" down
}

# Its packets go nowhere, and nobody tells.
case_a_host_falls_into_a_black_hole() {
    cut_off_in_the_middle 4 ip link set "v$id.4" nomaster
}

# mpirun ends the others when the first has ended; that one has said why.
case_a_host_is_cut_off_under_mpirun() {
    [ "$transport" = mpi ] || skip "mpirun is for MPI"
    hosts_up 2
    hosts_limit $rate
    by_mpi
    # shellcheck disable=SC2086
    "$rueda" run $how --no-prefix -x RUEDA_HEARTBEAT=2 -H "$host1:2,$host2:2" "$worker" 60 >out 2>err &
    launcher=$!
    await 60 "all ranks work" sh -c '[ $(grep -c going out) = 4 ]'
    ip link set "v$id.2" nomaster
    await 10 "the lost are named" grep -qE '^rank [01]: .*rank [23] is lost: it has not answered' err
}

run_case "$1"
