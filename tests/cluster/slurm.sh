# slurm.sh: a cluster of two nodes on this machine: a slurmctld, two slurmd and a munged of the test's own,
# with ports, keys and folders that nobody else has. Sourced after tests/cli/common.sh; needs root.
#
# slurm_up starts it and sets SLURM_CONF. Whatever happens to the test, everything is gone when it ends.

skip() {
    echo "SKIPPED: $*"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "a Slurm of its own needs root"
PATH=$PATH:/usr/sbin:/sbin
for program in slurmctld slurmd srun sbatch scontrol munged; do
    command -v $program >/dev/null || skip "no $program; tools/deps.sh test installs it"
done

slurm=$work/.slurm
id=$$

slurm_down() {
    # shellcheck disable=SC2046
    [ ! -e "$slurm/pids" ] || kill -9 $(cat "$slurm/pids") 2>/dev/null
}
trap 'slurm_down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# A test that is killed (it took too long) cannot clean up; see hosts.sh.
watch_over() {
    (setsid sh -c "tail -f --pid=$id -s 0.5 /dev/null
        kill -9 \$(cat '$slurm/pids')
        rm -rf '$work'" >/dev/null 2>&1 &)
}

daemon() { # daemon NAME COMMAND...
    name=$1
    shift
    "$@" >"$slurm/$name.out" 2>&1 &
    echo $! >>"$slurm/pids"
}

configure() {
    host=$(hostname -s)
    port=$((17000 + id % 3000 * 4))
    cat >"$slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket
MailProg=/bin/true
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool-%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4 RealMemory=1000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=4 RealMemory=1000
PartitionName=all Nodes=n1,n2 Default=YES OverSubscribe=FORCE:4
END
}

both_are_idle() {
    [ "$(sinfo --noheader --format=%t,%D)" = idle,2 ]
}

slurm_up() {
    watch_over
    chmod 755 "$work"
    mkdir -p "$slurm/state" "$slurm/munge"
    (umask 077 && head -c 128 /dev/urandom >"$slurm/munge/key")
    configure
    export SLURM_CONF="$slurm/slurm.conf"
    daemon munged munged --foreground --socket="$slurm/munge/socket" --key-file="$slurm/munge/key" \
        --pid-file="$slurm/munge/pid" --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed"
    await 10 "munged listens" test -S "$slurm/munge/socket"
    daemon slurmctld slurmctld -D
    daemon n1 slurmd -D -N n1
    daemon n2 slurmd -D -N n2
    await 40 "both nodes are idle" both_are_idle
}
