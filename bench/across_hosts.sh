#!/bin/sh
# across_hosts.sh PROGRAM [ROUNDS]: the measurements between hosts of bench/README.md. The hosts are
# network namespaces on this machine, whose links are limited to 1 Gbit/s in both directions; needs root
# and tc. PROGRAM is a built `rueda`. Takes about a minute, and leaves nothing.
set -u
[ $# -ge 1 ] || { echo "usage: $0 PROGRAM [ROUNDS]" >&2; exit 2; }
TEST_PROGRAM=$(realpath "$1")
rounds=${2:-8}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/cli/common.sh"
. "$here/../tests/cluster/hosts.sh"
across=$(dirname "$rueda")/rueda-across-hosts
bytes=16777216

run() { # run HOSTS COMMAND...
    list=$1
    shift
    # shellcheck disable=SC2086
    "$rueda" run $ssh --no-prefix -H "$list" "$@" || fail "rueda run ended with $?"
}

seconds_since() { awk -v a="$1" -v b="$(cut -d ' ' -f 1 /proc/uptime)" 'BEGIN { printf "%.2f", b - a }'; }

start_time() { # start_time WHAT COMMAND...: the median of five starts of 8 ranks on 4 hosts
    what=$1
    shift
    for try in 1 2 3 4 5; do
        begin=$(cut -d ' ' -f 1 /proc/uptime)
        run "$host1:2,$host2:2,$host3:2,$host4:2" "$@" >/dev/null
        echo "$(seconds_since "$begin") s"
    done | sort -n | sed -n "3s/^/$what: /p"
}

hosts_up 4
hosts_limit 1gbit
uptime
echo "2 hosts of 2 ranks, 1 Gbit/s, $bytes bytes of float32"
run "$host1:2,$host2:2" "$across" "$bytes" "$rounds"
echo
echo "The same in frames of at most 1,514 bytes, as a network card sends them: packets are frames"
hosts_frames
run "$host1:2,$host2:2" "$across" "$bytes" 1
echo
echo "4 hosts of 2 ranks"
hosts_frames 64
run "$host1:2,$host2:2,$host3:2,$host4:2" "$across" "$bytes" "$((rounds / 2 + 1))"
echo
hosts_limit none
start_time 'rueda run of 8 ranks on 4 hosts, until all have ended' true
start_time '… and have combined tensors' "$(dirname "$rueda")/tests/cluster/cluster-worker"
