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
#!/usr/bin/env python3
import json, os, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(os.environ["RUNS"], "a") as runs:
    runs.write(" ".join(sys.argv[1:]) + "\n")
score = min(float(words["--lr"]), 1)
names = ["conv2.weights", "input", "output"]
with open(words["--log"], "w") as log:
    for step in (1, 2):
        tensors = {name: 0.25 * step for name in names}
        event = {"event": "step", "step": step, "steps": 2, "orthogonality": 0.5, "tensors": tensors}
        log.write(json.dumps(event) + "\n")
    summary = {
        "event": "summary", "outcome": "trained", "loss": 1, "worst_loss": 2, "seconds": 1,
        "test_accuracy": [score, score], "partners_found": [score], "images_per_second": 10,
        "pairs_per_second": 10, "orthogonality_first": 0.1, "orthogonality_last": 0.9,
        "tensors_first": {name: 0.1 for name in names}, "tensors_last": {name: 0.9 for name in names},
    }
    log.write(json.dumps(summary) + "\n")
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
