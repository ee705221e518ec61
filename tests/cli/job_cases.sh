#!/bin/sh
# Job files: what `rueda run job.yaml` promises. TEST_SOURCE names the project.
. "$(dirname "$0")/common.sh"
source=${TEST_SOURCE:?names the project}
samples=$source/tests/cli/jobs

# ---- What is started ------------------------------------------------------------------------------

case_example_has_128_processes() {
    expect 0 "$rueda" run "$source/examples/jobs/tensorflow.yaml" --dry-run
    equal "$(grep -c '^  rank' out)" 128
    contains out 'rank 0 (worker 0): '
    contains out 'rank 127 (worker 31): '
    contains out "command: /bin/sh -c 'python train.py'"
    grep -q 'rank 6 (worker 1):.* CUDA_VISIBLE_DEVICES=6$' out || fail "GPU of rank 6"
    expect 0 "$rueda" run --dry-run "$samples/good/workers_block.yaml"
    equal "$(grep -c '^  rank' out)" 32
    grep -q 'rank 1 (worker 1):.* CUDA_VISIBLE_DEVICES=4,5,6,7$' out || fail "GPUs of rank 1"
}

case_both_forms_start_the_same() {
    cat >long.yaml <<-'END'
	train:
	  framework: plain
	  plain:
	    horovod:
	      workers: {count: 2, processes: 2}
	  run:
	  - echo $RUEDA_RANK/$RUEDA_SIZE
	END
    cat >short.yml <<-'END'
	workers: 2
	processes: 2
	run: echo $RUEDA_RANK/$RUEDA_SIZE
	END
    for file in long.yaml short.yml; do
        expect 0 "$rueda" run "$file" --no-prefix
        equal "$(sort out | tr '\n' ' ')" '0/4 1/4 2/4 3/4 '
    done
}

case_gpus_are_shared_out() {
    cat >job.yaml <<-'END'
	hosts: [{host: localhost, gpus: 4}]
	workers: 2
	resources: {gpus: 2}
	run: echo $RUEDA_RANK sees $CUDA_VISIBLE_DEVICES
	END
    expect 0 "$rueda" run job.yaml --no-prefix
    equal "$(sort out | tr '\n' ';')" '0 sees 0;1 sees 1;2 sees 2;3 sees 3;'
    CUDA_VISIBLE_DEVICES=7,5,3,1 expect 0 "$rueda" run job.yaml --no-prefix
    equal "$(sort out | tr '\n' ';')" '0 sees 7;1 sees 5;2 sees 3;3 sees 1;'
    printf 'resources: {gpus: 0}\nrun: echo "[$CUDA_VISIBLE_DEVICES]"\n' >none.yaml
    CUDA_VISIBLE_DEVICES=7 expect 0 "$rueda" run none.yaml --no-prefix
    equal "$(cat out)" '[]'
}

case_environment_is_set() {
    cat >job.yaml <<-'END'
	env: {FIRST: 1, SECOND: "a b", HOME: /nowhere}
	run: echo "$FIRST $SECOND $HOME"
	END
    expect 0 "$rueda" run job.yaml --no-prefix
    equal "$(cat out)" '1 a b /nowhere'
    expect 0 "$rueda" run job.yaml --no-prefix -x FIRST=2
    equal "$(cat out)" '2 a b /nowhere'
}

case_line_may_be_a_script() {
    cat >job.yaml <<-'END'
	run:
	- |
	  for i in 1 2 3; do
	    echo $i
	  done
	- "false | true && echo 'quoted: yes'"
	END
    expect 0 "$rueda" run job.yaml --no-prefix
    equal "$(tr '\n' ' ' <out)" '1 2 3 quoted: yes '
}

# ---- Lines ----------------------------------------------------------------------------------------

# All of a line's effects come before any of the next, though one process is late in each.
check_order() { # check_order LOG LINES PROCESSES
    for line in $(seq "$2"); do
        seq "$3" | sed "s/.*/$line/"
    done >expected
    cmp "$1" expected || fail "the lines of 8 processes are mixed: $(tr '\n' ' ' <"$1")"
}
case_lines_wait_for_each_other() {
    cat >job.yaml <<-'END'
	workers: 4
	processes: 2
	run:
	- '[ $RUEDA_RANK != 3 ] || sleep 0.4; echo 1 >>log'
	- '[ $RUEDA_RANK != 7 ] || sleep 0.4; echo 2 >>log'
	- '[ $RUEDA_RANK != 0 ] || sleep 0.4; echo 3 >>log'
	END
    expect 0 "$rueda" run job.yaml
    check_order log 3 8
}

case_a_job_can_be_elastic() {
    cat >job.yaml <<-'END'
	workers: 3
	elastic: {min: 2}
	run:
	- '[ $RUEDA_RANK != 1 ] || exit 3'
	- echo again $RUEDA_RANK $RUEDA_ELASTIC
	END
    expect 0 "$rueda" run job.yaml --no-prefix
    equal "$(sort out | tr '\n' ';')" 'again 0 1;again 1 1;again 2 1;'
    contains err 'exited with 3 in line 1 of run (job.yaml:4:'
    equal "$(tail -n 1 err)" 'rueda run: 1 rank was lost on the way; the others ended well'
    expect 3 "$rueda" run --min-np 3 job.yaml
    contains err '; fewer ranks are left than --min-np 3 asks for'
    expect 2 "$rueda" run --min-np 4 job.yaml
    equal "$(cat err)" 'rueda run: job.yaml: --min-np 4 is more than the number of ranks, 3'
    expect 2 "$rueda" run -H localhost:2,elsewhere:2 job.yaml
    equal "$(cat err)" 'rueda run: job.yaml: --min-np goes with this machine alone: elastic jobs are on one host so far'
    expect 2 "$rueda" submit --to slurm --dry-run job.yaml
    equal "$(cat err)" 'job.yaml:2:16: elastic jobs are on one host so far, by rueda run'
}

case_failure_names_line_worker_and_rank() {
    cat >job.yaml <<-'END'
	workers: 3
	processes: 2
	run:
	- echo first
	- '[ $RUEDA_RANK != 3 ] || exit 7; exec sleep 60'
	- touch reached
	END
    expect 7 "$rueda" run job.yaml
    equal "$(grep -c first out)" 6
    tail -n 1 err | grep -qE '^rueda run: rank 3, worker 1 \(pid [0-9]+\) exited with 7 in line 2 of run \(job.yaml:5: ' ||
        fail "last line"
    [ ! -e reached ] || fail "the next line was run"
}

case_signal_and_missing_command_are_named() {
    printf 'workers: 2\nrun:\n- "[ $RUEDA_RANK = 0 ] || kill -KILL $$; exec sleep 60"\n' >job.yaml
    expect 137 "$rueda" run job.yaml
    tail -n 1 err | grep -qE 'rank 1, worker 1 .* killed by SIGKILL in line 1 of run' || fail "last line"
    printf 'run: no-such-command --help\n' >job.yaml
    expect 127 "$rueda" run job.yaml
    tail -n 1 err | grep -q 'exited with 127 in line 1 of run (job.yaml:1: no-such-command --help)' ||
        fail "last line"
}

case_interrupt_ends_all_lines() {
    cat >job.yaml <<-'END'
	workers: 8
	run:
	- 'echo $$ >pid.$RUEDA_RANK; exec sleep 60'
	- touch reached
	END
    env --default-signal "$rueda" run job.yaml >out 2>err &
    launcher=$!
    await 10 "all have started" test -s pid.0 -a -s pid.1 -a -s pid.2 -a -s pid.3 -a -s pid.4 \
        -a -s pid.5 -a -s pid.6 -a -s pid.7
    kill -s INT "$launcher"
    wait "$launcher"
    equal $? 130
    all_gone pid.* || fail "a process is left"
    [ ! -e reached ] || fail "the next line was run"
}

case_time_limit_is_of_all_lines() {
    printf 'run: [sleep 0.6, sleep 0.6, touch reached]\n' >job.yaml
    expect 124 "$rueda" run job.yaml --timeout 1
    [ ! -e reached ] || fail "the last line was run"
}

# ---- Hosts ----------------------------------------------------------------------------------------

# Other hosts that are this one: an ssh that runs the last of its words here.
fake_ssh() {
    mkdir bin
    cat >bin/ssh <<-'END'
	#!/bin/sh
	for word; do :; done
	exec sh -c "$word"
	END
    chmod +x bin/ssh
    PATH=$PWD/bin:$PATH
}

case_lines_wait_across_hosts() {
    fake_ssh
    cat >job.yaml <<-'END'
	hosts: [ada:4, grace]
	workers: 4
	processes: 2
	run:
	- '[ $RUEDA_RANK != 1 ] || sleep 0.4; echo 1 >>log'
	- '[ $RUEDA_RANK != 6 ] || sleep 0.4; echo 2 >>log; echo $RUEDA_LOCAL_RANK'
	END
    expect 0 "$rueda" run job.yaml
    check_order log 2 8
    contains out '[5]: 1'
}

case_failure_elsewhere_names_the_host() {
    fake_ssh
    printf 'hosts: [ada:1, grace:1]\nworkers: 2\nrun: exit $RUEDA_RANK\n' >job.yaml
    expect 1 "$rueda" run job.yaml
    tail -n 1 err | grep -q 'rank 1, worker 1 on grace .*exited with 1 in line 1 of run' || fail "last line"
}

case_hosts_of_the_command_line_win() {
    printf 'hosts: [ada:8]\nworkers: 2\nrun: echo here\n' >job.yaml
    expect 0 "$rueda" run job.yaml -H localhost:2
    equal "$(wc -l <out)" 2
    expect 2 "$rueda" run -H localhost:1 job.yaml
    contains err 'job.yaml:2:10: only 1 of 2 workers find a host'
}

case_this_machine_is_named_once() {
    printf 'hosts: [localhost, 127.0.0.1]\nrun: echo x\n' >job.yaml
    expect 2 "$rueda" run job.yaml
    one_line err
    contains err 'localhost and 127.0.0.1 are both this machine'
}

case_declared_hosts_are_filled_in_order() {
    expect 0 "$rueda" run "$source/examples/jobs/hosts.yaml" --dry-run
    contains out 'host ada: 8 ranks'
    contains out 'host grace: 8 ranks'
    contains out 'rank 8 (worker 4): '
}

# ---- Room -----------------------------------------------------------------------------------------

case_worker_that_fits_nowhere_is_an_error() {
    for want in 'cpus: 4096' 'mem: 1000000000' 'gpus: 64'; do
        printf 'resources: {%s}\nrun: touch reached\n' "$want" >job.yaml
        expect 2 "$rueda" run job.yaml
        one_line err
        contains err 'job.yaml:2:6: a worker fits on no host; it wants'
        contains err 'localhost has'
        [ ! -e reached ] || fail "it was started"
    done
    printf 'hosts: [{host: ada, cpus: 4}, {host: grace, cpus: 8, mem: 100}]\nworkers: 3\n' >job.yaml
    printf 'resources: {cpus: 9}\nrun: touch reached\n' >>job.yaml
    expect 2 "$rueda" run job.yaml
    contains err 'it wants 9 cpus; ada has 4 cpus; grace has 8 cpus'
}

case_host_that_turns_out_too_small_refuses() {
    fake_ssh
    printf 'hosts: [ada]\nresources: {cpus: 4096}\nrun: touch reached\n' >job.yaml
    expect 1 "$rueda" run job.yaml
    contains err 'ada'
    contains err 'a worker wants 4096 cpus'
    [ ! -e reached ] || fail "it was started"
}

case_too_few_cores_are_one_warning() {
    printf 'workers: %d\nresources: {cpus: 1}\nrun: echo x\n' $(($(nproc) + 3)) >job.yaml
    expect 0 "$rueda" run job.yaml
    one_line err
    contains err 'will have to share'
    printf 'workers: 1\nresources: {cpus: 1, mem: 64}\nrun: echo x\n' >job.yaml
    expect 0 "$rueda" run job.yaml
    ! grep -q share err || fail "a warning without a reason"
}

processors() { # processors FILE: in lists such as 0-3,8
    tr ',' '\n' <"$1" | awk -F- '{ n += NF == 2 ? $2 - $1 + 1 : 1 } END { print n }'
}
case_processors_are_enforced() {
    printf 'workers: 2\nresources: {cpus: 1}\nrun: grep Cpus_allowed_list /proc/self/status\n' >job.yaml
    expect 0 "$rueda" run job.yaml --no-prefix
    for line in 1 2; do
        sed -n "${line}s/.*[[:space:]]//p" out >list
        equal "$(processors list)" 1
    done
    [ "$(nproc)" = 1 ] || equal "$(sort -u out | wc -l)" 2
    [ "$(nproc)" = 1 ] || {
        printf 'processes: 2\nresources: {cpus: 2}\nrun: grep Cpus_allowed_list /proc/self/status\n' >job.yaml
        expect 0 "$rueda" run job.yaml --no-prefix
        equal "$(sort -u out | wc -l)" 2
    }
    expect 0 "$rueda" run job.yaml --bind none
    contains err 'not held to their cpus'
}

eater() { # eater MIB: a job whose worker may have 150 MiB, and whose process wants this
    cat >job.yaml <<-END
	resources: {mem: 150}
	run: python3 -c "x = b'x' * ($1 << 20); print(len(x))"
	END
}
# Those of other tests that run at the same time are made by processes that live.
no_group_is_left() {
    for group in $(find /sys/fs/cgroup -name 'rueda-*' 2>/dev/null); do
        maker=${group##*/rueda-}
        [ -e "/proc/${maker%-*}" ] || fail "the control group $group is left"
    done
}

case_memory_is_enforced() {
    eater 20
    expect 0 "$rueda" run job.yaml
    eater 400
    "$rueda" run job.yaml >out 2>err && fail "400 MiB in 150"
    if grep -q 'no control group' err; then
        contains err MemoryError
    else
        contains err 'killed because its worker has used its 150 MiB'
    fi
    tail -n 1 err | grep -q 'worker 0.* in line 1 of run' || fail "last line"
    no_group_is_left
}

# Each of two processes would fit alone.
case_memory_of_a_worker_is_added_up() {
    cat >job.yaml <<-END
	processes: 2
	resources: {mem: 150}
	run: python3 -c "import time; x = b'x' * (100 << 20); time.sleep(1)"
	END
    "$rueda" run job.yaml >out 2>err && code=0 || code=$?
    ! grep -q 'no control group' err || { echo "control groups may not be made here" && exit 77; }
    [ "$code" != 0 ] || fail "200 MiB in 150"
    contains err 'killed because its worker has used its 150 MiB'
    no_group_is_left
}

case_memory_is_enforced_without_control_groups() {
    [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "needs root and setpriv" && exit 77; }
    eater 400
    chmod 755 . job.yaml
    cp "$rueda" ./rueda-copy
    as_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
    $as_nobody ./rueda-copy version || { echo "another user cannot run the program" && exit 77; }
    expect 1 $as_nobody ./rueda-copy run job.yaml
    contains err 'each process is held to 150 MiB'
    contains err MemoryError
}

# ---- Mistakes -------------------------------------------------------------------------------------

case_mistakes_have_a_place() {
    for file in "$samples"/bad/*.yaml; do
        cp "$file" job.yaml
        expect 2 "$rueda" run job.yaml
        [ ! -s out ] || fail "$file: output"
        sed -n 's/^# expect \([0-9]\)/job.yaml:\1/p; s/^# expect \([^0-9]\)/job.yaml: \1/p' job.yaml |
            cmp - err || fail "$file: other complaints"
    done
}

case_good_files_are_accepted() {
    for file in "$samples"/good/*.yaml; do
        expect 0 "$rueda" run --dry-run "$file"
    done
}

case_bad_usage_says_what_to_write() {
    printf 'run: echo x\n' >job.yaml
    mkdir folder.yaml
    for arguments in "nothing.yaml" "folder.yaml" "-np 2 job.yaml" "job.yaml ls" "job.yaml --nonsense"; do
        # shellcheck disable=SC2086
        expect 2 "$rueda" run $arguments
        one_line err
        [ ! -s out ] || fail "run $arguments: output"
    done
    expect 2 "$rueda" run nothing.yaml
    equal "$(cat err)" 'rueda run: cannot read nothing.yaml: No such file or directory'
}

case_schema_agrees() {
    PYTHONDONTWRITEBYTECODE=1 python3 "$source/tests/cli/job_schema.py" \
        "$source/docs/schema/job.schema.json" "$rueda" "$samples"/*/*.yaml "$source"/examples/jobs/*.yaml
    code=$?
    [ "$code" != 77 ] || exit 77
    [ "$code" = 0 ] || fail "they do not"
}

# ---- Python environments --------------------------------------------------------------------------

# A torch and a numpy of a few bytes, found without a network, and a cache of our own.
fake_torch() {
    mkdir -p wheels
    python3 - <<-'END' || { echo "no Python" && exit 77; }
	import zipfile
	for name, version in ("torch", "9.9.9"), ("numpy", "9.8"):
	    with zipfile.ZipFile(f"wheels/{name}-{version}-py3-none-any.whl", "w") as wheel:
	        wheel.writestr(f"{name}/__init__.py", f"__version__ = '{version}'\n")
	        info = f"{name}-{version}.dist-info/"
	        wheel.writestr(info + "METADATA",
	                       f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
	        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
	                       "Root-Is-Purelib: true\nTag: py3-none-any\n")
	        wheel.writestr(info + "RECORD", "")
	END
    python3 -c 'import ensurepip, venv' || { echo "Python has no venv" && exit 77; }
    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/wheels" PIP_CONFIG_FILE=/dev/null XDG_CACHE_HOME="$PWD/cache"
    envs=cache/rueda/envs
    cat >job.yaml <<-'END'
	workers: 2
	framework: pytorch
	version: 9.9.9
	run: python -c 'import numpy, torch; print(torch.__version__, torch.__file__)'
	END
}

case_version_is_installed_once() {
    fake_torch
    expect 0 "$rueda" run job.yaml
    equal "$(grep -c "^\[[01]\]: 9.9.9 $PWD/$envs/torch-9.9.9-py" out)" 2
    contains err 'preparing torch==9.9.9'
    contains err 'torch==9.9.9 is ready'
    rm -r wheels
    expect 0 "$rueda" run job.yaml
    [ ! -s err ] || fail "it was prepared again"
    equal "$(grep -c '^\[[01]\]: 9.9.9' out)" 2
}

# The program and its Python package as a wheel installs them.
case_the_package_of_the_launcher_is_linked() {
    fake_torch
    sed -i 's/^run:.*/run: python -c "import torch, rueda; print(torch.__version__, rueda.place)"/' job.yaml
    for own in one two; do
        mkdir -p $own/bin $own/lib/python3.99/site-packages/rueda
        cp "$rueda" $own/bin/rueda
        echo "place = '$own'" >$own/lib/python3.99/site-packages/rueda/__init__.py
    done
    expect 0 one/bin/rueda run job.yaml
    equal "$(sed 's/^\[[0-9]*\]: //' out | sort -u)" '9.9.9 one'
    expect 0 two/bin/rueda run job.yaml
    equal "$(sed 's/^\[[0-9]*\]: //' out | sort -u)" '9.9.9 two'
    [ ! -s err ] || fail "something on stderr"
    rm "$envs"/torch-*/lib/python3*/site-packages/rueda
    mkdir "$(echo "$envs"/torch-*/lib/python3*/site-packages)/rueda"
    echo "place = 'theirs'" >"$(echo "$envs"/torch-*/lib/python3*/site-packages)/rueda/__init__.py"
    expect 0 one/bin/rueda run job.yaml
    equal "$(sed 's/^\[[0-9]*\]: //' out | sort -u)" '9.9.9 theirs'
}

# An interpreter that makes environments in no time, and notes that it did.
quick_python() {
    cat >quick-python <<-'END'
	#!/bin/sh
	[ "$1" = -m ] || exec python3 "$@"
	[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && exit 0; }
	sleep 0.3
	echo made >>made
	END
    python3 -c 'import ctypes, fcntl' || { echo "no Python" && exit 77; }
    key=jax-1.0-py$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    chmod +x quick-python
    export XDG_CACHE_HOME="$PWD/cache"
    printf 'framework: jax\nversion: 1.0\npython: %s\nrun: command -v python\n' "$PWD/quick-python" >job.yaml
}

case_two_jobs_share_one_environment() {
    quick_python
    "$rueda" run job.yaml >out.1 2>err.1 &
    first=$!
    "$rueda" run job.yaml >out.2 2>err.2 &
    second=$!
    wait "$first" && wait "$second" || fail "$(cat err.1 err.2)"
    equal "$(cat out.1 out.2 | grep -c 'cache/rueda/envs/'"$key"'/bin/python$')" 2
    equal "$(wc -l <made)" 1
}

case_half_an_environment_is_made_anew() {
    quick_python
    mkdir -p "cache/rueda/envs/$key/bin"
    touch "cache/rueda/envs/$key/bin/left-over"
    expect 0 "$rueda" run job.yaml
    [ ! -e "cache/rueda/envs/$key/bin/left-over" ] || fail "the old one is still there"
    equal "$(wc -l <made)" 1
}

case_failed_installation_is_explained_and_removed() {
    fake_torch
    sed -i 's/9\.9\.9/0.0.1/' job.yaml
    expect 1 "$rueda" run job.yaml
    contains err 'rueda run: cannot prepare torch==0.0.1: pip install ended with 1; it said:'
    contains err 'No matching distribution found for torch==0.0.1'
    [ ! -s out ] || fail "it was run"
    equal "$(find "$envs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 0
}

case_missing_python_is_named() {
    printf 'framework: jax\nversion: 1.0\npython: 2.999\nrun: echo x\n' >job.yaml
    expect 1 "$rueda" run job.yaml
    equal "$(cat err)" 'job.yaml:2:10: cannot run python2.999, which was to make the environment for jax'
}

case_interrupted_installation_leaves_nothing() {
    cat >slow-python <<-'END'
	#!/bin/sh
	[ "$1" = -m ] || exec python3 "$@"
	mkdir -p "$3" && echo $$ >pid && exec sleep 60
	END
    chmod +x slow-python
    printf 'framework: jax\nversion: 1.0\npython: %s\nrun: touch reached\n' "$PWD/slow-python" >job.yaml
    export XDG_CACHE_HOME="$PWD/cache"
    env --default-signal "$rueda" run job.yaml >out 2>err &
    launcher=$!
    await 10 "it is being prepared" test -s pid
    kill -s INT "$launcher"
    wait "$launcher"
    equal $? 130
    all_gone pid || fail "it still runs"
    equal "$(find cache -type d -name 'jax*' | wc -l)" 0
    [ ! -e reached ] || fail "it was run"

    rm pid
    env --default-signal "$rueda" run job.yaml >out 2>err &
    launcher=$!
    await 10 "it is being prepared again" test -s pid
    kill -s KILL "$launcher"
    wait "$launcher"
    await 10 "all that it has started is gone" all_gone pid
}

# What lies where the job is started has nothing to do with how its environment is made.
case_modules_of_the_user_are_left_alone() {
    quick_python
    for module in venv subprocess shutil re; do
        echo "raise SystemExit('the wrong $module')" >$module.py
    done
    PYTHONPATH=$PWD PYTHONHOME=/nowhere expect 0 "$rueda" run job.yaml
    equal "$(wc -l <made)" 1
}

case_a_folder_that_cannot_be_made_is_named() {
    quick_python
    touch cache
    expect 1 "$rueda" run job.yaml
    equal "$(cat err)" "rueda run: cannot make $PWD/cache/rueda/envs/$key: Not a directory"
    one_line err
}

case_other_hosts_make_their_own() {
    fake_torch
    fake_ssh
    printf 'hosts: [ada:1, grace:1]\n' >>job.yaml
    expect 0 "$rueda" run job.yaml -x PIP_NO_INDEX -x PIP_FIND_LINKS -x PIP_CONFIG_FILE
    equal "$(grep -c '\]: 9.9.9' out)" 2
    equal "$(grep -c 'is ready' err)" 1
}

# ---- Examples -------------------------------------------------------------------------------------

case_example_of_lines_runs() {
    expect 0 "$rueda" run "$source/examples/jobs/lines.yaml"
    equal "$(grep -c 'hello from rank . of 4' out)" 4
    equal "$(grep -c 'all have slept' out)" 4
}

# What the launcher knew of the ranks of a line must not end those of the next.
case_the_next_line_starts_afresh() {
    worker=$(dirname "$rueda")/tests/cluster/cluster-worker
    printf 'project: steps\nworkers: 2\nrun:\n- "true"\n- %s\n' "$worker" >job.yaml
    expect 0 "$rueda" run job.yaml
    equal "$(grep -c right out)" 2
}

run_case "$1"
