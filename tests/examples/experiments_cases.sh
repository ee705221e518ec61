#!/bin/sh
# The sweeps, with a stand-in for the training programs that takes no time. `experiments_cases.sh NAME`
# runs case_NAME.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
experiments=$here/../../experiments
command -v python3 >/dev/null || { echo "skipped: no python3" && exit 77; }

# A program that notes that it ran, and logs two steps and a summary; larger rates are better.
make_program() {
    cat >program <<'END'
#!/bin/sh
echo "$*" >>"$RUNS"
while [ $# -gt 1 ]; do
    [ "$1" != --lr ] || score=$2
    [ "$1" != --log ] || log=$2
    shift 2
done
tensors='{"conv2.weights":0.25,"input":0.5,"output":0.75}'
cat >"$log" <<LOG
{"event":"step","step":1,"steps":2,"orthogonality":0.5,"tensors":$tensors}
{"event":"step","step":2,"steps":2,"orthogonality":0.5,"tensors":$tensors}
{"event":"summary","outcome":"trained","loss":1,"worst_loss":2,"seconds":1,"test_accuracy":[0,$score],"partners_found":[$score],"images_per_second":9,"pairs_per_second":9,"orthogonality_first":0.1,"orthogonality_last":0.9,"tensors_first":$tensors,"tensors_last":$tensors}
LOG
END
    chmod +x program
    RUNS=$work/runs
    export RUNS
}

# The sweep runs everything once, a second one nothing, and a lost row is made again.
sweep_goes_on() { # sweep_goes_on FOLDER ARGUMENTS...
    folder=$1
    shift
    make_program
    expect 0 python3 "$experiments/$folder/sweep.py" ./program "$@" --jobs 2 --results results
    all=$(wc -l <runs)
    equal "$(tail -n +2 results/runs.csv | wc -l)" "$all"
    expect 0 python3 "$experiments/$folder/sweep.py" ./program "$@" --results results
    equal "$(wc -l <runs)" "$all"
    contains err 'are there already'
    cp results/runs.csv before
    sed -i 3d results/runs.csv
    expect 0 python3 "$experiments/$folder/sweep.py" ./program "$@" --results results
    equal "$(wc -l <runs)" $((all + 1))
    cmp before results/runs.csv || fail "not the same rows again"
    expect 0 python3 "$experiments/$folder/figures.py" results
    for figure in results/*.svg; do
        python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$figure" || fail "$figure"
    done
    contains results/README.md '| 1 |'
}

case_mnist_goes_on() {
    sweep_goes_on mnist
}

case_word2vec_goes_on() {
    sweep_goes_on word2vec text
}

case_a_failed_run_is_told() {
    printf '#!/bin/sh\necho "program: no images" >&2\nexit 1\n' >program
    chmod +x program
    expect 1 python3 "$experiments/mnist/sweep.py" ./program --jobs 1 --results results
    contains err 'program: no images'
    one_line err
}

run_case "$1"
