#!/bin/sh
# Job files on several hosts. After every case nothing of the job is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
. "$here/hosts.sh"

run() { # run CODE ARGUMENTS...: rueda run that the hosts let in
    code=$1
    shift
    # shellcheck disable=SC2086
    expect "$code" "$rueda" run ${ssh:-} "$@"
}

# Every process is late once; still all effects of a line come before any of the next.
case_lines_wait_for_all_hosts() {
    hosts_up 2
    cat >job.yaml <<-END
	hosts: [$host1:4, "$host2:4", localhost]
	workers: 6
	processes: 2
	run:
	- '[ \$RUEDA_RANK != 1 ] || sleep 0.5; echo 1 >>log'
	- '[ \$RUEDA_RANK != 6 ] || sleep 0.5; echo 2 >>log'
	- '[ \$RUEDA_RANK != 11 ] || sleep 0.5; echo 3 >>log; hostname'
	END
    run 0 job.yaml --no-prefix
    for line in 1 2 3; do
        seq 12 | sed "s/.*/$line/"
    done | cmp - log || fail "lines are mixed: $(tr '\n' ' ' <log)"
    equal "$(grep -c node1 out)" 4
    equal "$(grep -c node2 out)" 4
    nothing_left
}

case_failure_names_line_worker_rank_and_host() {
    hosts_up 2
    cat >job.yaml <<-END
	hosts: [$host1:2, $host2:2]
	workers: 2
	processes: 2
	run:
	- echo first
	- '[ \$RUEDA_RANK != 2 ] || exit 9; exec sleep 60'
	- touch reached
	END
    run 9 job.yaml
    tail -n 1 err | grep -qE "rank 2, worker 1 on $host2 .*exited with 9 in line 2 of run \(job.yaml:6: " ||
        fail "last line"
    [ ! -e reached ] || fail "the next line was run"
    nothing_left
}

case_limits_hold_on_other_hosts() {
    hosts_up 1
    cat >job.yaml <<-END
	hosts: [$host1]
	resources: {cpus: 1, mem: 150}
	run:
	- grep Cpus_allowed_list /proc/self/status
	- python3 -c "x = b'x' * (400 << 20); print(len(x))"
	END
    "$rueda" run $ssh job.yaml --no-prefix >out 2>err && fail "400 MiB in 150"
    grep -qE '^Cpus_allowed_list:[[:space:]]*[0-9]+$' out || fail "more than one processor"
    grep -q 'has used its 150 MiB\|MemoryError' err || fail "the reason"
    nothing_left
}

case_worker_too_large_for_its_host_starts_nothing() {
    hosts_up 2
    printf 'hosts: [%s, %s]\nworkers: 2\nresources: {cpus: 4096}\nrun: touch reached\n' "$host1" "$host2" >job.yaml
    run 1 job.yaml
    tail -n 1 err | grep -q 'a worker wants 4096 cpus, here are' || fail "last line"
    [ ! -e reached ] || fail "it was started"
    nothing_left
}

run_case "$1"
