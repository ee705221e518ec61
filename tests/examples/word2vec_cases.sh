#!/bin/sh
# The word2vec example from outside, on a small text of its own. `word2vec_cases.sh NAME` runs case_NAME.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/common.sh"
word2vec=${TEST_WORD2VEC:?names the program}

# A text of 1,600 lines. Each is about one of 20 topics, and has 8 of its 8 words at random; so words of
# a topic are near each other, and the partners of the built-in list are among them.
make_text() {
    awk 'BEGIN {
        srand(5)
        split("gold silver brass iron sun moon day night bread wine corn milk sheep goats oxen asses " \
            "north south east west father mother son daughter two three five six eyes ears hands feet", real, " ")
        for (line = 0; line < 1600; line++) {
            topic = int(rand() * 20)
            for (i = 0; i < 8; i++) {
                word = int(rand() * 8)
                if (topic < 8 && word < 4) printf "%s ", real[4 * topic + word + 1]
                else printf "topic%cword%c ", 97 + topic, 97 + word
            }
            print ""
        }
    }' >text
}

train() { # train RANKS OPTIONS...
    ranks=$1
    shift
    expect 0 "$rueda" run -np "$ranks" "$word2vec" --corpus text --size 20 "$@"
}

# same FILE FILE TOLERANCE: the logs have the same losses.
same() {
    paste -d, "$1" "$2" | awk -F, -v tolerance="$3" '
        NR > 1 {
            rows++
            difference = $6 - $(6 + NF / 2)
            if (difference < 0) difference = -difference
            if (difference > tolerance) { print "step " $2 ": loss " $6 " and " $(6 + NF / 2); bad = 1 }
        }
        END { exit bad || rows < 5 }' >out || fail "$1 and $2 differ"
}

workers_equal_ranks() { # workers_equal_ranks OP
    make_text
    export RUEDA_DETERMINISTIC=1
    train 1 --op "$1" --workers-per-rank 4 --epochs 1 --lines 8 --save one
    train 2 --op "$1" --workers-per-rank 2 --epochs 1 --lines 8 --save two
    train 4 --op "$1" --epochs 1 --lines 8 --save four
    cmp one two || fail "2 ranks of 2 workers have other vectors than 1 of 4"
    cmp one four || fail "4 ranks have other vectors than 1 of 4 workers"
}

case_workers_equal_ranks_to_the_bit_gather() {
    workers_equal_ranks gather
}

case_workers_equal_ranks_to_the_bit_adasum() {
    workers_equal_ranks adasum
}

case_workers_equal_ranks_to_the_bit_average() {
    workers_equal_ranks average
}

# The definition of gather: the gradient is that of all lines of the step, whoever found it.
case_workers_share_the_lines_of_a_step() {
    make_text
    train 1 --op gather --epochs 1 --lines 8 --log one.csv
    train 2 --op gather --epochs 1 --lines 2 --workers-per-rank 2 --log four.csv
    same one.csv four.csv 0.00001
}

learns() { # learns OPTIONS...: the partners are found, among 160 words
    make_text
    train 2 --epochs 12 --frequent 1 --lr 0.1 --log run.json "$@"
    grep summary run.json | sed 's/.*"partners_found":\[\([^]]*\)\].*/\1/; s/.*,//' >partners
    awk '{ exit !($1 > 0.9) }' partners || fail "partners found: $(cat partners), not above 0.9"
    contains out 'nearest words'
    contains out 'pairs/s'
}

case_learns_by_adasum() {
    learns --op adasum --workers-per-rank 2 --lines 8
    contains out "workers' steps add up"
}

case_learns_by_average() {
    learns --op average --lines 4
}

case_learns_by_gather() {
    learns --op gather --lines 4
}

case_one_worker_learns() {
    make_text
    expect 0 "$word2vec" --corpus text --size 20 --epochs 3 --frequent 1
    contains out 'partners found'
}

case_vectors_are_saved() {
    make_text
    expect 0 "$word2vec" --corpus text --size 7 --epochs 1 --vectors vectors.txt
    equal "$(head -n 1 vectors.txt)" '160 7'
    equal "$(wc -l <vectors.txt)" 161
    awk 'NR > 1 && NF != 8 { exit 1 }' vectors.txt || fail "a line has not 7 numbers"
}

case_json_is_all_there_is() {
    make_text
    expect 0 "$word2vec" --corpus text --epochs 1 --lines 100 --json
    [ "$(grep -vc '^{.*}$' out)" = 0 ] || fail "not only lines of JSON"
    [ "$(grep -c '"event":"step"' out)" = 16 ] || fail "not one line for each step"
    [ "$(grep -c '"event":"summary"' out)" = 1 ] || fail "no summary"
}

case_divergence_is_said() {
    make_text
    train 1 --op gather --lines 200 --lr 50 --epochs 2 --log run.json
    contains out 'DIVERGED'
    contains run.json '"outcome":"diverged"'
}

case_bad_usage_is_one_line_and_2() {
    for words in '--op sum' '--window 0' '--negatives 31' '--size x' '--frequent 0' '--corpus' 'word'; do
        expect 2 "$word2vec" $words
        one_line err
        contains err 'word2vec: '
    done
}

case_a_missing_text_is_named() {
    expect 1 "$rueda" run -np 2 "$word2vec" --corpus nowhere.txt
    contains err 'word2vec: nowhere.txt: No such file'
}

case_too_few_lines_is_said() {
    printf 'a b a b\nb a b a\n' >text
    expect 1 "$word2vec" --corpus text --least 1 --lines 3
    one_line err
    contains err 'too few'
}

# Without root nothing is installed: one line says what to install.
case_corpus_says_what_is_missing() {
    mkdir bin
    printf '#!/bin/sh\necho 1000\n' >bin/id
    chmod +x bin/id
    expect 1 env PATH="$work/bin" /bin/sh "$here/../../examples/c/word2vec/corpus.sh" text
    one_line err
    contains err 'bible-kjv-text'
}

case_corpus_is_left_alone() {
    echo mine >text
    expect 0 "$here/../../examples/c/word2vec/corpus.sh" text
    equal "$(cat text)" mine
}

run_case "$1"
