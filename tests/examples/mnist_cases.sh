#!/bin/sh
# The MNIST example from outside. `mnist_cases.sh NAME` runs case_NAME.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
mnist=${TEST_MNIST:?names the program}
data=${TEST_DATA:?names the folder with the images}

train() { # train RANKS OPTIONS...
    ranks=$1
    shift
    expect 0 "$rueda" run -np "$ranks" "$mnist" --data "$data" "$@"
}

# same FILE FILE TOLERANCE: logs agree step by step in loss, accuracy and all orthogonalities.
same() {
    paste -d, "$1" "$2" | awk -F, -v tolerance="$3" '
        NR > 1 {
            rows++
            for (i = 6; i <= 17; i++) {
                j = i + NF / 2
                if (i == 8 && $i == "" && $j == "") continue
                if (($i == "") != ($j == "")) { print "step " $2 ", column " i ": only one has a value"; bad = 1 }
                difference = $i - $j
                if (difference < 0) difference = -difference
                if (difference > tolerance) { print "step " $2 ", column " i ": " $i " and " $j; bad = 1 }
            }
        }
        END { exit bad || rows < 5 }' >out || fail "$1 and $2 differ"
}

few="--limit 512 --epochs 1 --batch 16"

workers_equal_ranks() { # workers_equal_ranks OP
    train 1 --op "$1" --workers-per-rank 4 --log one.csv --save one $few
    train 2 --op "$1" --workers-per-rank 2 --log two.csv --save two $few
    train 4 --op "$1" --log four.csv --save four $few
    same one.csv two.csv 0.0005
    same one.csv four.csv 0.0005
}

workers_equal_ranks_to_the_bit() { # workers_equal_ranks_to_the_bit OP
    export RUEDA_DETERMINISTIC=1
    workers_equal_ranks "$1"
    cmp one two || fail "2 ranks of 2 workers have other parameters than 1 of 4"
    cmp one four || fail "4 ranks have other parameters than 1 of 4 workers"
}

case_workers_in_one_process_equal_ranks_adasum() {
    workers_equal_ranks adasum
}

case_workers_in_one_process_equal_ranks_average() {
    workers_equal_ranks average
}

case_workers_in_one_process_equal_ranks_sum() {
    workers_equal_ranks sum
}

case_workers_equal_ranks_to_the_bit_adasum() {
    workers_equal_ranks_to_the_bit adasum
}

case_three_workers_equal_ranks_to_the_bit() {
    export RUEDA_DETERMINISTIC=1
    train 1 --op adasum --workers-per-rank 3 --save one $few
    train 3 --op adasum --save three $few
    cmp one three || fail "3 ranks have other parameters than 1 of 3 workers"
    train 1 --op adasum --workers-per-rank 6 --save one $few
    train 3 --op adasum --workers-per-rank 2 --save three $few
    cmp one three || fail "3 ranks of 2 workers have other parameters than 1 of 6"
}

case_workers_equal_ranks_to_the_bit_average() {
    workers_equal_ranks_to_the_bit average
}

# TEST_PYTHON names a Python that has PyTorch; without one the test is skipped.
case_gradient_is_that_of_pytorch() {
    exec "${TEST_PYTHON:-python3}" "$here/mnist_gradient.py" "$here/../../examples/c/mnist/pytorch" \
        "$data" "${TEST_GRADIENT:?names the program that writes a gradient}"
}

case_learns_in_seconds() {
    train 2 --limit 4000 --epochs 1 --log run.json
    grep summary run.json | sed 's/.*"test_accuracy":\[\([0-9.]*\)\].*/\1/' >accuracy
    awk '{ exit !($1 > 0.9) }' accuracy || fail "test accuracy $(cat accuracy), not above 0.9"
    contains out 'orthogonality'
    contains out "workers' steps"
}

case_same_seed_same_run() {
    expect 0 "$mnist" --data "$data" --log a.csv --seed 7 $few
    expect 0 "$mnist" --data "$data" --log b.csv --seed 7 $few
    expect 0 "$mnist" --data "$data" --log c.csv --seed 8 $few
    for run in a b c; do
        cut -d, -f 6- $run.csv >$run
    done
    cmp -s a b || fail "the same seed gave another run"
    ! cmp -s a c || fail "another seed gave the same run"
}

case_json_is_all_there_is() {
    expect 0 "$mnist" --data "$data" --json $few
    [ "$(grep -vc '^{.*}$' out)" = 0 ] || fail "not only lines of JSON"
    [ "$(grep -c '"event":"step"' out)" = 32 ] || fail "not one line for each step"
    [ "$(grep -c '"event":"summary"' out)" = 1 ] || fail "no summary"
}

case_bar_draws_over_itself() {
    train 2 --progress bar --limit 2000 --epochs 1
    [ "$(tr -cd '\r' <out | wc -c)" -gt 1 ] || fail "no bar"
    contains out 'left  loss'
    contains out 'of 2 add up'
}

case_bar_fits_the_terminal() {
    command -v python3 >/dev/null || { echo "no python3"; exit 77; }
    expect 0 python3 "$here/terminal.py" "$rueda" run -np 2 --no-prefix "$mnist" --data "$data" --progress bar \
        --epochs 50
}

case_bad_usage_is_one_line_and_2() {
    for words in '--op mean' '--epochs 0' '--epochs x' '--batch' '--lr -1' '--lr nan' \
        '--workers-per-rank 0' '--log run.txt' '--nonsense 1' 'word' '--progress maybe'; do
        expect 2 "$mnist" $words
        one_line err
        contains err 'mnist: '
    done
    expect 2 "$rueda" run -np 2 "$mnist" --workers-per-rank 3
    contains err 'power of two'
    expect 2 "$rueda" run -np 2 "$mnist" --op mean
    [ "$(grep "does not know 'mean'" err | sort -u | wc -l)" = 1 ] || fail "not said by one rank"
}

case_help_lists_options() {
    expect 0 "$mnist" --help
    for option in op epochs batch lr workers-per-rank seed data limit eval-every log save json help; do
        contains out "--$option"
    done
}

case_missing_data_is_named() {
    expect 1 "$mnist" --data nowhere
    one_line err
    contains err 'nowhere/train-images-idx3-ubyte.gz: No such file'
}

case_too_few_images_is_said() {
    expect 1 "$mnist" --data "$data" --limit 10
    contains err 'too few'
}

case_a_log_that_cannot_be_made_is_said() {
    expect 1 "$mnist" --data "$data" --log nowhere/run.csv $few
    one_line err
    contains err 'nowhere/run.csv'
}

case_divergence_is_said() {
    train 1 --op sum --workers-per-rank 16 --lr 0.5 --limit 4096 --log run.json
    contains out 'DIVERGED'
    contains run.json '"outcome":"diverged"'
}

case_a_file_that_cannot_be_saved_is_said() {
    expect 1 "$mnist" --data "$data" --save nowhere/model $few
    one_line err
    contains err 'nowhere/model'
}

run_case "$1"
