#!/bin/sh
# A real Slurm: srun by itself, and rueda submit. Nodes are one machine, so ranks are told by RUEDA_HOST
# that they are on two where tcp is to be used.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
. "$here/slurm.sh"
worker=$(dirname "$rueda")/tests/cluster/cluster-worker
export HOME="$work/home"
mkdir -p "$HOME"

all_right() { # all_right RANKS
    equal "$(grep -c ': right$' out)" "$1"
    equal "$(ls -A "$HOME")" ''
}

case_srun_works_by_itself() {
    slurm_up
    expect 0 srun -N2 -n4 "$worker"
    all_right 4
    # shellcheck disable=SC2016
    expect 0 srun -N2 -n4 sh -c 'RUEDA_HOST=$SLURMD_NODENAME exec "$0"' "$worker"
    all_right 4
    contains out 'cross 1 of 2: right'
    expect 0 srun -N1 -n3 "$worker"
    all_right 3
    expect 0 srun --mpi=pmi2 -N2 -n2 "$worker"
    all_right 2
    # two jobs in one step, one after the other
    # shellcheck disable=SC2016
    expect 0 srun -N2 -n2 sh -c '"$0" && exec "$0"' "$worker"
    all_right 4
}

case_srun_of_an_ordinary_user() {
    command -v setpriv >/dev/null || skip "no setpriv"
    slurm_up
    as_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
    $as_nobody test -x "$worker" || skip "another user cannot run the program"
    chown 65534 "$HOME"
    # shellcheck disable=SC2016
    expect 0 $as_nobody srun --chdir=/ -N2 -n4 sh -c 'HOME=$0; RUEDA_HOST=$SLURMD_NODENAME exec "$1"' \
        "$HOME" "$worker"
    all_right 4
}

case_a_home_that_is_not_shared_is_named() {
    slurm_up
    mkdir "$work/home-0" "$work/home-1"
    # shellcheck disable=SC2016
    expect 1 srun --kill-on-bad-exit=0 -N2 -n2 sh -c \
        'HOME=$0/home-$SLURM_NODEID RUEDA_START_TIMEOUT=2 exec "$1"' "$work" "$worker"
    contains err 'rank 0 waited 2 s in rueda_init for rank 1'
    contains err 'set RUEDA_MEET=file:PATH in a folder that all hosts see'
    equal "$(find "$work"/home-? -type f | wc -l)" 0
    # with a key of one's own no folder is needed
    (umask 077 && printf %064d 7 >"$work/key")
    grep -q ' n1$' /etc/hosts || return 0 # the node's name is called then
    expect 0 srun -N2 -n2 env RUEDA_KEY_FILE="$work/key" "$worker"
    all_right 2
}

case_submitted_jobs_are_followed() {
    slurm_up
    cat >job.yaml <<-END
	project: digits
	workers: 2
	processes: 2
	resources: {cpus: 2, mem: 100}
	env: {WORDS: "it's \$HOME"}
	run:
	- '[ \$SLURM_PROCID != 3 ] || sleep 0.5; echo "\$WORDS" >>log'
	- 'wc -l <log; RUEDA_HOST=\$SLURMD_NODENAME $worker'
	END
    expect 0 "$rueda" submit job.yaml --to slurm --wait
    equal "$(grep -c ': 4$' out)" 4
    equal "$(grep -c ': right$' out)" 4
    equal "$(sort -u log)" "it's \$HOME"
    contains err 'is in the queue, its output goes to digits-'
    equal "$(find . -name 'rueda-submit-*' | wc -l)" 0

    # srun kills who still runs, and tells the highest exit code: rank 0 ends first
    cat >bad.yaml <<-END
	workers: 2
	run:
	- '[ \$SLURM_PROCID = 1 ] || exec touch first_ended; until [ -e first_ended ]; do sleep 0.1; done; sleep 1; exit 7'
	- touch reached
	END
    expect 7 "$rueda" submit bad.yaml --to slurm --wait
    tail -n 1 err | grep -q 'ended as FAILED with exit code 7; its output is in ' || fail "last line"
    [ ! -e reached ] || fail "the next line was run"

    expect 0 "$rueda" submit bad.yaml --to slurm
    one_line err
    contains err "job $(cat out) is in the queue"
}

# A script that nobody announced reads who it is, as under `rueda run`; the library still finds its peers.
case_scripts_know_their_rank() {
    slurm_up
    cat >mine <<-END
	echo "mine: \$RUEDA_RANK/\$RUEDA_SIZE \$RUEDA_LOCAL_RANK/\$RUEDA_LOCAL_SIZE" \
	    "\$RUEDA_CROSS_RANK/\$RUEDA_CROSS_SIZE \$HOROVOD_RANK/\$HOROVOD_LOCAL_SIZE"
	RUEDA_HOST=\$SLURMD_NODENAME exec $worker
	END
    printf 'workers: 2\nprocesses: 2\nrun: sh %s\n' "$PWD/mine" >job.yaml
    expect 0 "$rueda" submit job.yaml --to slurm --wait
    for rank in 0 1 2 3; do
        contains out "mine: $rank/4 $((rank % 2))/2 $((rank / 2))/2 $rank/2"
    done
    equal "$(grep -c ': right$' out)" 4
}

case_more_than_the_cluster_has_is_refused() {
    slurm_up
    for want in 'workers: 3' 'resources: {cpus: 5}' 'resources: {mem: 2000}' 'resources: {gpus: 1}'; do
        printf '%s\nrun: touch reached\n' "$want" >job.yaml
        expect 2 "$rueda" submit job.yaml --to slurm --wait
        one_line err
        grep -qE 'the cluster cannot give what the job wants|Slurm refused the job' err || fail "$want"
    done
    equal "$(squeue --noheader | wc -l)" 0
    [ ! -e reached ] || fail "it was started"
    # what was asked for is less than the job wants
    printf 'workers: 2\nrun: touch reached\n' >job.yaml
    "$rueda" submit job.yaml --to slurm --output script || fail "no script"
    expect 2 sbatch --wait --nodes=1 --ntasks=1 --output=small script
    contains small 'the job wants 2 tasks, the allocation has 1: ask for 2 nodes of 1'
    [ ! -e reached ] || fail "it was started"
}

case_python_environments_are_made_on_the_nodes() {
    slurm_up
    cat >quick-python <<-'END'
	#!/bin/sh
	[ "$1" = -m ] || exec python3 "$@"
	[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && exit 0; }
	echo made >>"$HOME/made"
	END
    chmod +x quick-python
    export XDG_CACHE_HOME="$PWD/cache"
    printf 'workers: 2\nframework: jax\nversion: 1.0\npython: %s\nrun: command -v python\n' \
        "$PWD/quick-python" >job.yaml
    expect 0 "$rueda" submit job.yaml --to slurm --wait
    equal "$(grep -c 'cache/rueda/envs/jax-1.0-py3[.0-9]*/bin/python$' out)" 2
    equal "$(wc -l <"$HOME/made")" 1
}

# MPICH by srun's PMI2, on both nodes; PMIx wants a machine for each.
case_data_goes_by_mpi() {
    plugin=$(dirname "$rueda")/librueda-mpi-mpich.so
    [ -e "$plugin" ] || skip "no plug-in for MPICH was built"
    slurm_up
    cat >job.yaml <<-END
	workers: 2
	processes: 2
	run: RUEDA_LOG_LEVEL=info RUEDA_HOST=\$SLURMD_NODENAME $worker
	END
    expect 0 "$rueda" submit job.yaml --to slurm --engine mpi --mpi pmi2 -x RUEDA_MPI_PLUGIN="$plugin" --wait
    equal "$(grep -c ': right$' out)" 4
    contains out 'MPI: MPICH'
}

case_page_of_the_docs() {
    source=$here/../..
    . "$here/../cli/start.sh"
    slurm_up
    start_folder
    mkdir bin
    ln -s "$worker" bin/rueda-worker
    PATH=$PWD/bin:$PATH
    expect 0 start_run slurm 'test: slurm'
    equal "$(grep -c ': right$' out)" 4
    contains out '#SBATCH --ntasks=4'
    equal "$(grep -c ': hello from rank [0-3] of 4' out)" 4
    equal "$(grep -c ': all have slept' out)" 4
}

run_case "$1"
