# hosts.sh: "hosts" on this machine: network namespaces on a bridge of their own, each with its own name
# and its own sshd with its own key. Sourced after tests/cli/common.sh; needs root.
#
# hosts_up N sets $host1 … $hostN and $six1 … $sixN (IPv4 and IPv6 addresses), and $ssh: the options for
# rueda run that let it in. Whatever happens to the test, everything is gone when the script ends.

skip() {
    echo "SKIPPED: $*"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "making hosts of network namespaces needs root"
for program in ip sshd ssh ssh-keygen unshare; do
    command -v $program >/dev/null || [ -x /usr/sbin/$program ] || skip "no $program; tools/deps.sh test installs it"
done
PATH=$PATH:/usr/sbin:/sbin

id=$$
bridge=rb$id
# Tests that run at the same time have different numbers, so other names and networks.
net4=10.$((64 + id / 256 % 64)).$((id % 256))
net6=fd52:75ed:$(printf %x $((id % 65536))):1:
host_count=0

netns() { # netns HOST COMMAND...: runs it in the host's network
    name=rueda-$id-$1
    shift
    ip netns exec "$name" "$@"
}

hosts_down() {
    for host in $(ip netns list | grep -o "^rueda-$id-[0-9]*"); do
        # shellcheck disable=SC2046
        kill -9 $(ip netns pids "$host") 2>/dev/null
        ip netns del "$host" # the devices go with it
    done
    ip link del "$bridge" 2>/dev/null
}
trap '[ -z "${launcher:-}" ] || kill -9 "$launcher" 2>/dev/null
    hosts_down
    wait 2>/dev/null
    rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# A test that is killed (it took too long) cannot clean up: somebody else, whom its killer does not find
# among its children, does.
watch_over() {
    (setsid sh -c "tail -f --pid=$id -s 0.5 /dev/null
        for host in \$(ip netns list | grep -o '^rueda-$id-[0-9]*'); do
            kill -9 \$(ip netns pids \$host)
            ip netns del \$host
        done
        ip link del $bridge
        rm -rf '$work'" >/dev/null 2>&1 &)
}

host_up() { # host_up NUMBER
    name=rueda-$id-$1
    ip netns add "$name" 2>"$work/netns" || skip "no network namespaces here: $(cat "$work/netns")"
    host_count=$1
    ip link add "v$id.$1" type veth peer name eth0 netns "$name" || skip "no veth devices here"
    ip link set "v$id.$1" master "$bridge" up
    netns "$1" ip link set lo up
    netns "$1" ip addr add "$net4.$((1 + $1))/24" dev eth0
    netns "$1" ip addr add "$net6:$((1 + $1))/64" dev eth0 nodad
    netns "$1" ip link set eth0 up
    sshd_up "$1"
}

sshd_up() { # sshd_up NUMBER
    [ -e "$keys/host.$1" ] || ssh-keygen -q -t ed25519 -N '' -f "$keys/host.$1"
    cat >"$keys/sshd.$1" <<END
Port 22
HostKey $keys/host.$1
PidFile none
AuthorizedKeysFile $keys/user.pub
PermitRootLogin yes
StrictModes no
UsePAM no
MaxStartups 100
AcceptEnv NOTHING
${sshd_extra:-}
END
    ip netns exec "rueda-$id-$1" unshare --uts sh -c "echo node$1 >/proc/sys/kernel/hostname
        exec $(command -v sshd) -D -f '$keys/sshd.$1' -E '$keys/log.$1'" &
    eval "sshd$1=$!"
    eval "host$1=$net4.$((1 + $1)) six$1=$net6:$((1 + $1))"
    for address in "$net4.$((1 + $1))" "$net6:$((1 + $1))"; do
        echo "$address $(cut -d ' ' -f 1-2 "$keys/host.$1.pub")" >>"$keys/known"
    done
    await 10 "sshd of host $1 listens" netns "$1" sh -c 'ss -Hltn | grep -q :22'
}

hosts_up() { # hosts_up COUNT
    watch_over
    keys=$work/.keys
    mkdir -p "$keys" /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$keys/user"
    ip link add "$bridge" type bridge 2>"$work/netns" || skip "no bridge devices here: $(cat "$work/netns")"
    rm "$work/netns"
    ip addr add "$net4.1/24" dev "$bridge"
    ip addr add "$net6:1/64" dev "$bridge" nodad
    ip link set "$bridge" up
    for number in $(seq "$1"); do
        host_up "$number"
    done
    ssh="-i $keys/user --ssh-option UserKnownHostsFile=$keys/known --ssh-option IdentitiesOnly=yes"
    ssh="$ssh --ssh-option GlobalKnownHostsFile=/dev/null --ssh-option StrictHostKeyChecking=yes"
}

# The rate of every host's link, in both directions.
hosts_limit() { # hosts_limit RATE|none: as tc writes it
    command -v tc >/dev/null || skip "no tc; tools/deps.sh test installs it"
    for number in $(seq "$host_count"); do
        limit_link "$1" netns "$number" tc qdisc replace dev eth0 root
        limit_link "$1" tc qdisc replace dev "v$id.$number" root
    done
}

limit_link() { # limit_link RATE COMMAND...
    rate=$1
    shift
    if [ "$rate" = none ]; then
        "$@" pfifo limit 1000
    else
        "$@" tbf rate "$rate" burst 128kb latency 50ms
    fi || skip "tc cannot limit a rate here"
}

# A veth device passes packets of 64 KiB on whole; so many frames at a time.
hosts_frames() { # hosts_frames [FRAMES]
    for number in $(seq "$host_count"); do
        netns "$number" ip link set eth0 gso_max_segs "${1:-1}"
    done
}

# What runs on a host beside its sshd.
guests() { # guests NUMBER
    eval "daemon=\$sshd$1"
    for pid in $(ip netns pids "rueda-$id-$1"); do
        [ "$pid" = "$daemon" ] || is_gone "$pid" || echo "$pid"
    done
}

hosts_are_empty() {
    for number in $(seq "$host_count"); do
        [ -z "$(guests "$number")" ] || return 1
        [ -z "$(netns "$number" ss -Htn state established)" ] || return 1
    done
}

# Kills what is called so on a host, beside its sshd that listens.
kill_guests() { # kill_guests NUMBER NAME
    for pid in $(guests "$1"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$2" ] || kill -KILL "$pid" 2>/dev/null
    done
}

# After every job: no process, no connection, no file.
nothing_left() {
    await 10 "nothing of the job is left on the hosts" hosts_are_empty
    [ -z "$(pgrep -P $$ -x ssh)" ] || fail "an ssh is left"
    equal "$(ls /dev/shm | grep -c rueda)" 0
}
