#!/bin/sh
# The options of `rueda run`: hosts, variables, binding, dry run, and horovodrun's names.
. "$(dirname "$0")/common.sh"

# ---- Hosts ----------------------------------------------------------------------------------------

places() { # places ARGUMENTS...: which host gets which ranks, as "host:first host:first"
    expect 0 "$rueda" run "$@" --dry-run true
    sed -n 's/^host \(.*\): \([0-9]*\) rank.*/\1=\2/p' out | tr '\n' ' ' | sed 's/ $//'
}

case_hosts_are_filled_in_order() {
    equal "$(places -H a:2,b:3,c)" 'a=2 b=3 c=1'
    equal "$(places -np 4 -H a:2,b:3,c)" 'a=2 b=2'
    equal "$(places --num-proc 4 --hosts a:2,b:3,a:2)" 'a=4'
    equal "$(places -H 'a:1,[fe80::1%eth0]:2,fd00::2,user@b:4')" 'a=1 fe80::1%eth0=2 fd00::2=1 user@b=4'
    equal "$(places -H "localhost:1,a:1,127.0.0.1:2,$(hostname):1,[::1]:1")" 'localhost=5 a=1'
    equal "$(places -H "localhost:1,a:1,127.0.0.1:2" --ssh-always)" 'localhost=1 a=1 127.0.0.1=2'
}

case_host_files_are_read() {
    printf '# all\n\na slots=2 # two\n b:3\r\nc max_slots=9\n[fd00::1]:2\na\tslots=1' >hosts
    equal "$(places --hostfile hosts)" 'a=3 b=3 c=1 fd00::1=2'
    equal "$(places -hostfile hosts -np 2)" 'a=2'
}

case_bad_hosts_are_named() {
    for hosts in '' a:0 a:x a:5000 a: ':4' 'a,,b' a:1, '[fe80::1' '[fe80::1]4' '-oProxyCommand=x' 'a b' 'a;b' '$(x)'; do
        expect 2 "$rueda" run -H "$hosts" true
        one_line err
        contains err 'is no host; write for example -H node1:4,node2:4'
    done
    for line in 'a slots=0' 'a 4' 'a slots=x' 'a slot=4' 'a:2:x' '-x'; do
        printf '# one\n%s\n' "$line" >hosts
        expect 2 "$rueda" run --hostfile hosts true
        equal "$(cat err)" 'rueda run: hosts:2: write "host slots=N" or "host:N", with N from 1 to 4096'
    done
    : >hosts
    expect 2 "$rueda" run --hostfile hosts true
    equal "$(cat err)" 'rueda run: hosts names no host'
    expect 2 "$rueda" run --hostfile no-such-file true
    contains err 'cannot read the host file no-such-file: No such file or directory'
    expect 2 "$rueda" run --hostfile . true
    one_line err
}

case_ranks_must_fit() {
    expect 2 "$rueda" run -np 5 -H a:2,b:2 true
    equal "$(cat err)" 'rueda run: -np 5 is more than the 4 slots of the hosts: name more, or give them more slots'
    expect 2 "$rueda" run -H a:4096,b:4096 true
    contains err '8192 ranks are too many; at most 4096'
    expect 2 "$rueda" run -H a -hostfile b true
    contains err 'not from both'
}

# ---- What else --------------------------------------------------------------------------------------

case_dry_run_shows_and_starts_nothing() {
    FROM_HERE=1 expect 0 "$rueda" run -np 3 -H localhost:1,node2:2 -x FROM_HERE -x 'B=c d' -p 2022 -i key \
        --ssh-option Compression=yes --directory / --dry-run touch 'started now'
    [ ! -s err ] || fail "something on stderr"
    contains out '3 ranks on 2 hosts; this is a dry run, nothing is started'
    contains out "command: touch 'started now'"
    contains out 'host node2: 2 ranks in /'
    contains out '  by: ssh -o Compression=yes -Tx -oBatchMode=yes'
    contains out ' -p2022 -ikey node2 '
    grep -q "^  all: .*FROM_HERE=1.* B='c d'$" out || fail "no variables for node2"
    equal "$(grep -c '^  rank ' out)" 3
    equal "$(grep -c 'RUEDA_KEY=(hidden)' out)" 3
    ! grep -qE '[0-9a-f]{64}' out || fail "a key"
}

case_variables_are_set() {
    expect 0 "$rueda" run -np 1 --no-prefix -x A=1 --env=B=2=3 -x HOME env
    contains out 'A=1'
    contains out 'B=2=3'
    expect 2 "$rueda" run -np 1 -x NOT_THERE true
    equal "$(cat err)" 'rueda run: -x NOT_THERE: there is no such variable here; write -x NAME=VALUE'
}

case_directory_is_entered() {
    mkdir there
    expect 0 "$rueda" run -np 1 --no-prefix --directory there pwd
    equal "$(cat out)" "$work/there"
    expect 1 "$rueda" run -np 1 --directory nowhere true
    contains err 'cannot enter the working directory nowhere: No such file or directory'
    one_line err
}

cpus_of_ranks() { # cpus_of_ranks ARGUMENTS...
    expect 0 "$rueda" run "$@" sh -c 'grep Cpus_allowed_list /proc/self/status'
    sort out | sed 's/.*:[[:space:]]*//' | tr '\n' ' '
}

case_ranks_are_bound_where_it_makes_sense() {
    unset OMP_PLACES OMP_PROC_BIND GOMP_CPU_AFFINITY KMP_AFFINITY
    cores=$(lscpu -p=core 2>/dev/null | grep -v '^#' | sort -u | wc -l)
    [ "$cores" -ge 2 ] && [ "$(nproc)" = "$(getconf _NPROCESSORS_ONLN)" ] || {
        echo "SKIPPED: needs two cores that may all be used"
        exit 77
    }
    all=$(grep Cpus_allowed_list /proc/self/status | sed 's/.*:[[:space:]]*//')
    bound=$(cpus_of_ranks -np 2)
    [ "$bound" != "$all $all " ] || fail "not bound"
    equal "$(echo "$bound" | tr ' ' '\n' | sort -u | grep -c .)" 2
    equal "$(cpus_of_ranks -np 2 --bind core)" "$bound"
    equal "$(cpus_of_ranks -np 2 --bind none)" "$all $all "
    equal "$(OMP_PROC_BIND=true cpus_of_ranks -np 2)" "$all $all "
    many=$((cores * 4 + 1))
    equal "$(cpus_of_ranks -np $many | tr ' ' '\n' | sort -u | grep .)" "$all"
    expect 0 "$rueda" run -np $many --bind core true
    equal "$(cat err)" 'rueda run: host localhost: more ranks than cores: they are not bound'
    first=$(taskset -c 0 "$rueda" run -np 1 --no-prefix sh -c 'grep Cpus_allowed_list /proc/self/status')
    equal "$(echo "$first" | sed 's/.*:[[:space:]]*//')" 0
    expect 2 "$rueda" run -np 2 --bind numa true
    equal "$(cat err)" 'rueda run: --bind is auto, none, core or socket'
}

case_bad_values_say_what_to_write() {
    for arguments in "--meet [::1" "--meet a:b" "--ssh-option x" "--host-timeout 1" "-p 0" "-p 70000" \
        "--start-timeout 0" "-x" "--bind=x" "--json=1"; do
        # shellcheck disable=SC2086
        expect 2 "$rueda" run -np 1 $arguments true
        one_line err
    done
}

case_agent_is_not_for_typing() {
    expect 2 "$rueda" agent now
    one_line err
    "$rueda" agent </dev/null >out 2>err || fail "an agent without a launcher fails"
    head -n 2 out | tail -n 1 | grep -q '^rueda-agent [0-9]* ' || fail "no greeting"
    head -c 100000 /dev/urandom | "$rueda" agent >out 2>err || fail "an agent with a mad launcher fails"
}

# ---- horovodrun -------------------------------------------------------------------------------------

case_horovodruns_options_are_understood() {
    expect 0 "$rueda" run --num-proc 1 --no-prefix --gloo --disable-cache --cycle-time-ms 1.5 --verbose \
        --fusion-threshold-mb 32 --cache-capacity 2048 --stall-check-warning-time-seconds 5 \
        --stall-check-shutdown-time-seconds 6 --gloo-timeout-seconds 7 --log-level debug \
        --log-hide-timestamp --no-autotune --no-hierarchical-allreduce --start-timeout 20 --nics lo env
    for variable in FUSION_THRESHOLD=33554432 CACHE_CAPACITY=2048 STALL_WARN=5 STALL_END=6 \
        START_TIMEOUT=7 LOG_LEVEL=debug; do
        contains out "RUEDA_$variable"
    done
    ! grep -q RUEDA_ALGORITHM out || fail "an algorithm"
    expect 0 "$rueda" run -np 1 --no-prefix --hierarchical-allreduce --no-stall-check env
    contains out RUEDA_ALGORITHM=hierarchical
    contains out RUEDA_STALL_WARN=0
    expect 0 "$rueda" run --check-build
    contains out 'shared memory'
}

case_options_come_from_a_file() {
    if "$rueda" run -np 1 --config-file none true 2>&1 | grep -q libyaml; then
        echo "built without libyaml" >&2
        exit 77
    fi
    printf 'params:\n  cache_capacity: 99\n  fusion_threshold_mb: 2\nstall_check:\n  enabled: false\n' >file
    expect 0 "$rueda" run -np 1 --no-prefix --config-file file --cache-capacity=100 env
    contains out RUEDA_CACHE_CAPACITY=100
    contains out RUEDA_FUSION_THRESHOLD=2097152
    contains out RUEDA_STALL_WARN=0
    expect 2 "$rueda" run -np 1 --config-file none true
    one_line err
    contains err 'none: cannot be read'
    echo 'params: {cache_capacity: many}' >file
    expect 2 "$rueda" run -np 1 --config-file file true
    one_line err
    contains err --cache-capacity
}

case_a_failure_is_told_as_horovodrun_does() {
    expect 3 "$rueda" run --horovodrun -np 2 sh -c 'test $HOROVOD_RANK = 0 || exit 3; sleep 60'
    contains err 'Horovod detected that one or more processes exited with non-zero status'
    contains err 'Process name: 1'
    expect 0 "$rueda" run --horovodrun -np 2 true
    ! grep -q Horovod err || fail "nothing has failed"
}

case_what_is_not_built_says_so() {
    for option in --min-np --max-np --slots-per-host --elastic-timeout --reset-limit \
        --blacklist-cooldown-range --host-discovery-script --autotune --autotune-log-file \
        --mpi-threads-disable --jsrun --binding-args \
        --thread-affinity --log-with-timestamp; do
        expect 2 "$rueda" run -np 1 $option 2 true
        one_line err
        contains err "rueda run: $option: "
        expect 2 "$rueda" run -np 1 $option=2 true
        one_line err
    done
    contains err 'write --prefix-timestamp instead'
    expect 2 "$rueda" run -np 1 --min-np 2 true
    contains err 'elastic jobs are not built yet'
}

run_case "$1"
