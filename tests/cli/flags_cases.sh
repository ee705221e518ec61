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
    equal "$(places -H "localhost:1,a:1,127.0.0.1:2,$(hostname):1,[::1]:1")" 'localhost=1 a=1 127.0.0.1=2 '"$(hostname)"'=1 ::1=1'
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
    equal "$(grep -c 'without effect' err)" 1
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

# The job is the same without them: one line says what was left out, and it runs.
case_tuning_options_never_stop_a_job() {
    expect 0 "$rueda" run --horovodrun -np 1 --autotune --autotune-log-file log --autotune-warmup-samples 3 \
        --autotune-steps-per-sample=10 --autotune-bayes-opt-max-samples 20 --autotune-gaussian-process-noise 0.8 \
        --num-nccl-streams 2 --thread-affinity 1 --log-with-timestamp --binding-args='--rankfile x' \
        --mpi-threads-disable --torus-allreduce --no-log-hide-timestamp --ccl-bgt-affinity 3 --cycle-time-ms 5 \
        --mpi-args='--map-by slot' echo done
    equal "$(cat out)" '[0]<stdout>:done'
    equal "$(cat err)" 'rueda run: without effect here, and left out: --autotune, --autotune-log-file, --autotune-warmup-samples, --autotune-steps-per-sample, --autotune-bayes-opt-max-samples, --autotune-gaussian-process-noise, --num-nccl-streams, --thread-affinity, --log-with-timestamp, --binding-args, --mpi-threads-disable, --torus-allreduce, --no-log-hide-timestamp, --ccl-bgt-affinity, --cycle-time-ms, --mpi-args'
    # what asks for nothing special is not worth a word
    expect 0 "$rueda" run --horovodrun -np 1 --no-autotune --no-torus-allreduce --no-mpi-threads-disable \
        --log-without-timestamp --gloo --disable-cache true
    [ ! -s err ] || fail "a warning"
    # numbers beyond our limits mean the limits
    expect 0 "$rueda" run --horovodrun -np 1 --no-prefix --cache-capacity 1000000 --gloo-timeout-seconds 0 env
    contains out RUEDA_CACHE_CAPACITY=65536
    contains out RUEDA_START_TIMEOUT=1
    expect 0 "$rueda" run -n 2 true
}

case_prefix_of_horovodrun() {
    # shellcheck disable=SC2016
    expect 0 "$rueda" run --horovodrun -np 11 sh -c 'echo to $HOROVOD_RANK; echo and $HOROVOD_RANK >&2'
    for rank in 0 9 10; do
        contains out "[$rank]<stdout>:to $rank"
        contains err "[$rank]<stderr>:and $rank"
    done
    expect 0 "$rueda" run --horovodrun -np 1 --prefix-output-with-timestamp echo x
    grep -qE '^[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\[0\]<stdout>:x$' out || fail "time"
}

# Two names of one machine: how a job on several hosts is tried out on one.
case_names_of_this_machine_are_hosts() {
    # shellcheck disable=SC2016
    expect 0 "$rueda" run -H localhost:2,127.0.0.1:2 --no-prefix sh -c 'echo "$HOROVOD_RANK on $HOROVOD_HOSTNAME:" \
        "$HOROVOD_LOCAL_RANK of $HOROVOD_LOCAL_SIZE, $HOROVOD_CROSS_RANK of $HOROVOD_CROSS_SIZE"'
    equal "$(sort out)" '0 on localhost: 0 of 2, 0 of 2
1 on localhost: 1 of 2, 0 of 2
2 on 127.0.0.1: 0 of 2, 1 of 2
3 on 127.0.0.1: 1 of 2, 1 of 2'
    worker=$(dirname "$rueda")/tests/cluster/cluster-worker
    expect 0 "$rueda" run -H localhost:2,127.0.0.1:2 "$worker"
    equal "$(grep -c ': right$' out)" 4
    contains out 'rank 3 of 4, local 1 of 2, cross 1 of 2: right'
    expect 0 "$rueda" run -np 1 --no-prefix sh -c 'echo $HOROVOD_HOSTNAME'
    equal "$(cat out)" localhost
    expect 0 "$rueda" run -H "$(hostname):1" --no-prefix sh -c 'echo $HOROVOD_HOSTNAME'
    equal "$(cat out)" "$(hostname)"
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
    printf '%s\n' 'params: {torus_allreduce: true, cycle_time_ms: 5}' \
        'autotune: {enabled: true, log_file: log, warmup_samples: 5, steps_per_sample: 20,' \
        '  bayes_opt_max_samples: 50, gaussian_process_noise: 0.9}' \
        'library_options: {mpi_threads_disable: true, num_nccl_streams: 2, thread_affinity: 1, ccl_bgt_affinity: 1}' \
        'logging: {level: INFO, with_timestamp: true, hide_timestamp: true}' >file
    expect 0 "$rueda" run --horovodrun -np 1 --config-file file echo done
    equal "$(cat out)" '[0]<stdout>:done'
    one_line err
    contains err 'left out: --torus-allreduce, --cycle-time-ms, --autotune, --autotune-log-file, '
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
    for option in --max-np --max-num-proc --slots-per-host --elastic-timeout --reset-limit \
        --blacklist-cooldown-range --host-discovery-script --jsrun; do
        expect 2 "$rueda" run -np 1 $option 2 true
        one_line err
        contains err "rueda run: $option: "
        expect 2 "$rueda" run -np 1 $option=2 true
        one_line err
    done
    expect 2 "$rueda" run -np 1 --max-np 2 true
    equal "$(cat err)" 'rueda run: --max-np: not built yet; of elastic jobs there is --min-np'
}

run_case "$1"
