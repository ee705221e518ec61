#!/bin/sh
# Job files for somebody else: what `rueda submit` writes, to whom it gives that, what it refuses.
# TEST_SOURCE names the project. Slurm itself is in tests/cluster/slurm_cases.sh.
. "$(dirname "$0")/common.sh"
source=${TEST_SOURCE:?names the project}

job_file() {
    cat >job.yaml <<-'END'
	project: Digits
	workers: 2
	processes: 2
	resources: {cpus: 4, mem: 64, gpus: 2}
	env: {DATA: "it's $(here) $$ \"there\""}
	run:
	- echo "$DATA" '$x' $(echo sub) $$
	- |
	  for i in 1 2; do
	    echo $i
	  done
	END
    mkdir -p src docker && touch docker/Dockerfile
    sed '/^- |/,$d' job.yaml >one_line.yaml
    cat >config_aml.json <<-'END'
	{
		"subscription_id": "00000000-1111-2222-3333-444444444444",
		"resource_group": "lab",
		"workspace_name": "digits",
		"compute_target": "eight-machines"
	}
	END
}
image='--image registry.example/digits:1'

fields() { # fields KIND FILE
    PYTHONDONTWRITEBYTECODE=1 python3 "$source/tests/cli/submit_files.py" "$@" || {
        code=$?
        [ "$code" = 77 ] && exit 77
        fail "$2 is not right"
    }
}

# ---- What is written ------------------------------------------------------------------------------

case_slurm_script_has_the_fields() {
    job_file
    expect 0 "$rueda" submit job.yaml --to slurm --dry-run --partition long --time 2:30:00 \
        --sbatch=--qos=high --account lab
    for option in job-name=digits nodes=2 ntasks=4 ntasks-per-node=2 cpus-per-task=2 mem=64M \
        gpus-per-node=2 partition=long account=lab time=2:30:00 qos=high 'output=digits-%j.out'; do
        grep -qx "#SBATCH --$option" out || fail "no --$option"
    done
    equal "$(grep -c '^srun ' out)" 2
    equal "$(grep -c -e '^srun .*--cpus-per-task=2 --gpus-per-task=1 ' out)" 2
    sh -n out || fail "no script"
    expect 0 "$rueda" submit job.yaml --to slurm --dry-run --nodes 1 --engine mpi
    contains out '#SBATCH --nodes=1'
    contains out '#SBATCH --ntasks-per-node=4'
    contains out '#SBATCH --mem=128M'
    contains out 'export RUEDA_TRANSPORT=mpi'
    equal "$(grep -c -e '^srun .*--mpi=pmix' out)" 2
}

# A step as srun would run it, once.
stand_in_srun() {
    mkdir bin
    printf '#!/bin/sh\nwhile [ "$1" != sh ]; do shift; done\nexec "$@"\n' >bin/srun
    chmod +x bin/srun
}

case_slurm_script_says_what_the_job_says() {
    job_file
    stand_in_srun
    "$rueda" submit job.yaml --to slurm --output script || fail "no script"
    SLURM_NTASKS=4 PATH=$PWD/bin:$PATH expect 0 sh script
    sed -i 's/ [0-9]*$/ PID/' out
    equal "$(head -n 1 out)" "it's \$(here) \$\$ \"there\" \$x sub PID"
    equal "$(tail -n +2 out | tr '\n' ' ')" '1 2 '
}

case_slurm_stops_at_a_failed_line() {
    stand_in_srun
    printf 'run: [exit 7, touch reached]\n' >job.yaml
    "$rueda" submit job.yaml --to slurm --output script || fail "no script"
    SLURM_NTASKS=1 PATH=$PWD/bin:$PATH expect 7 sh script
    [ ! -e reached ] || fail "the next line was run"
}

case_small_allocation_is_refused() {
    job_file
    stand_in_srun
    "$rueda" submit job.yaml --to slurm --output script || fail "no script"
    SLURM_NTASKS=3 PATH=$PWD/bin:$PATH expect 2 sh script
    one_line err
    contains err 'wants 4 tasks, the allocation has 3: ask for 2 nodes of 2'
    [ ! -s out ] || fail "something was started"
}

case_mpijob_has_the_fields() {
    job_file
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit job.yaml --to kubernetes --dry-run $image --namespace lab
    fields mpijob out
}

# The launcher's script, run by a real mpirun on this machine alone.
case_mpijob_script_runs() {
    command -v mpirun.openmpi >/dev/null || { echo "SKIPPED: no Open MPI" && exit 77; }
    worker=$(dirname "$rueda")/tests/cluster/cluster-worker
    mkdir bin && ln -s "$(command -v mpirun.openmpi)" bin/mpirun
    cat >job.yaml <<-END
	workers: 2
	resources: {gpus: 4}
	processes: 2
	env: {DATA: "it's \$(here) \$\$"}
	run:
	- echo "\$DATA \$RUEDA_RANK of \$RUEDA_SIZE sees \$CUDA_VISIBLE_DEVICES" \$(echo sub)
	- sh $PWD/script_of_mine
	- $worker
	END
    # shellcheck disable=SC2016
    echo 'echo "mine: $RUEDA_RANK/$RUEDA_SIZE $RUEDA_LOCAL_RANK/$RUEDA_LOCAL_SIZE' \
        '$RUEDA_CROSS_RANK/$RUEDA_CROSS_SIZE $HOROVOD_RANK/$HOROVOD_SIZE"' >script_of_mine
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit job.yaml --to kubernetes $image --dry-run
    cp out file.yaml
    fields script file.yaml >script
    DATA="it's \$(here) \$\$" PATH=$PWD/bin:$PATH OMPI_MCA_rmaps_base_oversubscribe=1 expect 0 sh script
    contains out "it's \$(here) \$\$ 1 of 4 sees 2,3 sub"
    for rank in 0 1 2 3; do
        contains out "mine: $rank/4 $rank/4 0/1 $rank/4"
    done
    equal "$(grep -c ': right$' out)" 4
}

case_indexed_job_has_the_fields() {
    job_file
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit job.yaml --to kubernetes --engine tcp $image --namespace lab --output file.yaml
    fields indexed file.yaml
    equal "$(stat -c %a file.yaml)" 600
    cp file.yaml first.yaml
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit job.yaml --to kubernetes --engine tcp $image --namespace lab --output file.yaml
    ! cmp -s file.yaml first.yaml || fail "two jobs have one key"
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit job.yaml --to kubernetes --engine tcp $image --dry-run
    contains out 'key: "(hidden'
}

# What YAML would take for something else, or cannot show as it is.
case_any_text_is_read_back() {
    job_file
    i=0
    for value in yes '~' 012 1e3 0x1f 12:30:45 2026-11-16 '' ' x ' '# x' 'a: b' '*x' '&x' '!x' '|' '[x]' \
        '{x: y}' '<line>' "$(printf 'one\n\n  two\n#three')" "$(printf 'tab\there')" "$(printf 'bell\a')" \
        "$(printf 'caf\303\251 \360\237\222\203')" "$(printf 'x\n\342\200\250y')"; do
        i=$((i + 1))
        set -- "$@" -x "V$i=$value"
    done
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit job.yaml --to kubernetes --engine tcp $image --output file.yaml "$@"
    fields variables file.yaml "$@"
    # shellcheck disable=SC2086
    refused "cannot stand in a YAML file, which is UTF-8 alone" job.yaml --to kubernetes $image \
        -x "$(printf 'BAD=\377')"
}

case_azureml_job_has_the_fields() {
    job_file
    expect 0 "$rueda" submit one_line.yaml --to azureml --code src --input IMAGES=./images --output file.yaml
    fields azureml file.yaml
    # shellcheck disable=SC2086
    expect 0 "$rueda" submit one_line.yaml --to azureml --dry-run $image
    contains out '  image: "registry.example/digits:1"'
    ! grep -q build out || fail "an image and a Dockerfile"
}

case_names_become_valid() {
    for pair in 'My Project_2!:my-project-2' '3 birds:job-3-birds' '--x--:job-x'; do
        printf 'project: "%s"\nrun: echo x\n' "${pair%:*}" >job.yaml
        expect 0 "$rueda" submit job.yaml --to slurm --dry-run
        contains out "#SBATCH --job-name=${pair#*:}"
    done
    printf 'run: echo x\n' >night.run.yaml
    expect 0 "$rueda" submit night.run.yaml --to slurm --dry-run
    contains out '#SBATCH --job-name=night'
    expect 0 "$rueda" submit night.run.yaml --to slurm --dry-run --name day
    contains out '#SBATCH --job-name=day'
}

case_variables_of_the_command_line_win() {
    job_file
    stand_in_srun
    "$rueda" submit job.yaml --to slurm -x 'DATA=a b=c' --output script || fail "no script"
    SLURM_NTASKS=4 PATH=$PWD/bin:$PATH expect 0 sh script
    contains out 'a b=c $x sub'
}

# ---- What is refused ------------------------------------------------------------------------------

refused() { # refused TEXT ARGUMENTS...: in one line, with exit code 2
    text=$1
    shift
    expect 2 "$rueda" submit "$@"
    one_line err
    contains err "$text"
    [ ! -s out ] || fail "submit $*: output"
}

case_bad_usage_says_what_to_write() {
    job_file
    refused 'which job file?'
    refused 'to whom? write --to slurm' job.yaml
    refused 'did you mean --to slurm?' job.yaml --to slrum
    refused 'cannot read no.yaml' no.yaml --to slurm
    refused 'one job file at a time' job.yaml --to slurm other.yaml
    refused '--image is for --to kubernetes' job.yaml --to slurm --image x
    refused '--nodes is for --to slurm' job.yaml --to azureml --nodes 2
    refused '--nodes 3 is not valid; give a number from 1 to the 2 workers' job.yaml --to slurm --nodes 3
    refused "--partition 'a b' is not valid" job.yaml --to slurm --partition 'a b'
    refused '--mpi goes with --engine mpi' job.yaml --to slurm --mpi pmi2
    refused '--engine gloo is not valid' job.yaml --to slurm --engine gloo
    refused '-x 1=2 is not valid' job.yaml --to slurm -x 1=2
    refused 'write --image IMAGE' job.yaml --to kubernetes
    refused 'job.yaml:8:3: Azure ML starts all processes once' job.yaml --to azureml
    refused 'leave --engine tcp out' one_line.yaml --to azureml --engine tcp
    refused '--input here is not valid' one_line.yaml --to azureml --input here
    refused 'no nowhere/Dockerfile to make an image of' one_line.yaml --to azureml --docker nowhere
    printf 'workers: 3\nrun: echo x\n' >odd.yaml
    refused '3 workers cannot be shared out evenly to --nodes 2' odd.yaml --to slurm --nodes 2
    printf 'wrokers: 3\nrun: echo x\n' >bad.yaml
    refused "bad.yaml:1:1: 'wrokers' is no key of" bad.yaml --to slurm
}

case_incomplete_workspace_is_refused() {
    job_file
    rm config_aml.json
    refused 'cannot read config_aml.json: No such file or directory; it says where the job goes' \
        one_line.yaml --to azureml
    echo '{"subscription_id": "1", "resource_group": "", "workspace_name": "w"}' >config_aml.json
    refused 'config_aml.json: "resource_group", "compute_target" missing or empty' one_line.yaml --to azureml
    echo '{"subscription": "1"}' >config_aml.json
    refused "config_aml.json: 'subscription' is no key here; did you mean 'subscription_id'?" \
        one_line.yaml --to azureml
    echo '{"subscription_id": 1}' >other.json
    refused 'other.json: "subscription_id" is not a text in quotes' one_line.yaml --to azureml --config other.json
    echo '{"resource_group": "a", "resource_group": "b"}' >other.json
    refused 'other.json:1:' one_line.yaml --to azureml --config other.json
    echo '[1]' >other.json
    refused 'other.json: a JSON object' one_line.yaml --to azureml --config other.json
    echo '{"subscription_id": "1"' >other.json
    refused 'other.json:2:0: this is no JSON: ' one_line.yaml --to azureml --config other.json
}

case_missing_programs_are_named() {
    job_file
    mkdir empty
    cat >alone <<-END
	#!/bin/sh
	PATH=$PWD/empty exec "$rueda" "\$@"
	END
    chmod +x alone
    rueda=./alone
    for pair in slurm:sbatch kubernetes:kubectl azureml:az; do
        [ "${pair%:*}" = kubernetes ] && with=$image || with=
        # shellcheck disable=SC2086
        refused "there is no ${pair#*:} here" one_line.yaml --to "${pair%:*}" $with
        contains err 'or write the file with --output FILE'
    done
    equal "$(find . -name 'rueda-submit-*' | wc -l)" 0
}

case_hosts_are_left_to_the_platform() {
    printf 'hosts: [ada:2]\nrun: echo x\n' >job.yaml
    expect 0 "$rueda" submit job.yaml --to slurm --dry-run
    one_line err
    contains err 'job.yaml:1:9: note: hosts are not used: slurm chooses them'
}

# ---- To whom it is given --------------------------------------------------------------------------

# A program that notes its words and keeps the file it was given.
stand_in() { # stand_in NAME EXIT_CODE
    mkdir -p bin
    cat >"bin/$1" <<-END
	#!/bin/sh
	echo "\$@" >words
	for word; do case \$word in rueda-submit-*) cp "\$word" given ;; esac; done
	echo the last word
	exit $2
	END
    chmod +x "bin/$1"
    PATH=$PWD/bin:$PATH
}

case_az_gets_job_and_workspace() {
    job_file
    stand_in az 0
    expect 0 "$rueda" submit one_line.yaml --to azureml --wait
    sed -i 's/rueda-submit-[^ ]*/FILE/' words
    equal "$(cat words)" 'ml job create --file FILE --subscription 00000000-1111-2222-3333-444444444444 --resource-group lab --workspace-name digits --stream'
    contains given 'process_count_per_instance: 2'
    equal "$(find . -name 'rueda-submit-*' | wc -l)" 0
    stand_in az 3
    expect 3 "$rueda" submit one_line.yaml --to azureml
    contains err 'az ml job create ended with 3'
}

case_refusal_of_slurm_is_passed_on() {
    job_file
    stand_in sbatch 1
    refused 'Slurm refused the job; nothing was started; sbatch says: the last word' job.yaml --to slurm
    equal "$(find . -name 'rueda-submit-*' | wc -l)" 0
}

# The real kubectl, and a server that knows enough to answer it.
api_up() {
    command -v kubectl >/dev/null || { echo "SKIPPED: no kubectl" && exit 77; }
    command -v python3 >/dev/null || { echo "SKIPPED: no Python" && exit 77; }
    PYTHONUNBUFFERED=1 python3 "$source/tests/cli/kubernetes_api.py" "$1" >port 2>requests &
    server=$!
    trap 'kill "$server"; rm -rf "$work"' EXIT
    await 20 "the server listens" test -s port
    cat >kubeconfig <<-END
	apiVersion: v1
	kind: Config
	current-context: test
	contexts: [{name: test, context: {cluster: test, user: test, namespace: lab}}]
	clusters: [{name: test, cluster: {server: "http://127.0.0.1:$(cat port)"}}]
	users: [{name: test, user: {}}]
	END
    export KUBECONFIG="$PWD/kubeconfig" HOME="$PWD"
}

case_kubectl_understands_the_files() {
    job_file
    api_up Complete
    for engine in mpi tcp; do
        # shellcheck disable=SC2086
        "$rueda" submit job.yaml --to kubernetes --engine $engine $image --output $engine.yaml || fail "$engine"
        expect 0 kubectl create --dry-run=client --validate=false -f $engine.yaml
    done
    equal "$(grep -c created out)" 3
}

case_kubernetes_job_is_followed() {
    job_file
    for engine in mpi:Succeeded tcp:Complete; do
        api_up "${engine#*:}"
        # shellcheck disable=SC2086
        expect 0 "$rueda" submit job.yaml --to kubernetes --engine "${engine%:*}" $image --wait
        contains out 'the pod says hello'
        contains err 'digits is submitted'
        kill "$server"
        rm port
    done
    equal "$(grep -c ' dryRun=All' requests)" 3
    equal "$(grep -c 'POST /api.*/\(secrets\|services\|jobs\)$' requests)" 3
}

case_kubernetes_failure_is_passed_on() {
    job_file
    api_up Failed
    # shellcheck disable=SC2086
    expect 1 "$rueda" submit job.yaml --to kubernetes $image --wait
    contains err 'digits has failed'
    # shellcheck disable=SC2086
    refused 'Kubernetes refused the job; kubectl says: ' job.yaml --to kubernetes $image
    contains err AlreadyExists
}

# ---- Parts of a job -------------------------------------------------------------------------------

# Two "pods": they find each other, know each other by the key, and wait for each other after a line.
case_parts_are_one_job() {
    worker=$(dirname "$rueda")/tests/cluster/cluster-worker
    port=$((12000 + $$ % 18000)) # none that the system gives to outgoing connections
    export RUEDA_PART_KEY=$(printf '%064d' $$)
    for index in 0 1; do
        # shellcheck disable=SC2016
        "$rueda" run -np 2 -- "$rueda" part $index/2 localhost:$port \
            '[ "$RUEDA_RANK" != 3 ] || sleep 0.5; echo "$RUEDA_RANK" >>log' \
            'echo next >>log; [ -z "${RUEDA_PART_KEY:-}" ]' "$worker" >out.$index 2>err.$index &
        eval "pod$index=\$!"
    done
    wait "$pod0" && wait "$pod1" || fail "$(cat err.0 err.1)"
    equal "$(head -n 4 log | sort | tr '\n' ' ')" '0 1 2 3 '
    equal "$(tail -n 4 log | sort -u)" next
    contains out.1 'rank 3 of 4'
    equal "$(cat out.0 out.1 | grep -c right)" 4
}

case_failed_part_ends() {
    export RUEDA_PART_KEY=$(printf '%064d' $$)
    expect 7 "$rueda" part 0/1 localhost:30000 'exit 7' 'touch reached'
    [ ! -e reached ] || fail "the next line was run"
    unset RUEDA_PART_KEY
    expect 2 "$rueda" part 0/1 localhost:30000 'exit 7'
    one_line err
    expect 2 "$rueda" part 2/2 localhost:30000 'exit 7'
    one_line err
}

run_case "$1"
