#!/bin/sh
# demo.sh RUEDA MNIST: trains the network on 4 workers with Adasum and with averaging, at the same
# learning rate, and compares them. The programs are those of the build.
set -eu
rueda=$1
mnist=$2
workers=4
epochs=2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One process for each core; if there are fewer than workers, each stands in for several.
ranks=1
while [ $((ranks * 2)) -le "$(nproc)" ] && [ $((ranks * 2)) -le $workers ]; do
    ranks=$((ranks * 2))
done
if [ -t 1 ]; then
    progress=bar
else
    progress=lines
fi

train() { # train OP
    printf '\n== %s\n\n' "$1"
    "$rueda" run -np $ranks --no-prefix "$mnist" --op "$1" --epochs $epochs \
        --workers-per-rank $((workers / ranks)) --progress $progress --log "$work/$1.json"
    grep '"event":"summary"' "$work/$1.json" >"$work/$1"
}

number() { # number OP KEY: of the summary; "-" if it was not measured
    sed "s/.*\"$2\":\([^,}]*\).*/\1/; s/null/-/" "$work/$1"
}
accuracy() { # accuracy OP EPOCH
    sed 's/.*"test_accuracy":\[\([^]]*\)\].*/\1/' "$work/$1" | cut -d, -f "$2" |
        awk '{ printf "%.2f%%", 100 * $1 }'
}
row() { # row TITLE FORMAT ADASUM AVERAGE
    [ "$3" = - ] && adasum=- || adasum=$(printf "$2" "$3")
    [ "$4" = - ] && average=- || average=$(printf "$2" "$4")
    printf '%-24s %10s %10s\n' "$1" "$adasum" "$average"
}

train adasum
train average

printf '\n== %s workers, %s epochs, the same learning rate\n\n' $workers $epochs
printf '%-24s %10s %10s\n' '' adasum average
for epoch in $(seq $epochs); do
    row "test accuracy, epoch $epoch" %s "$(accuracy adasum "$epoch")" "$(accuracy average "$epoch")"
done
for line in 'images/s:images_per_second:%.0f' 'orthogonality, first:orthogonality_first:%.2f' \
    'orthogonality, last:orthogonality_last:%.2f' 'seconds of training:seconds:%.1f'; do
    title=${line%%:*} key=${line#*:}
    row "$title" "${key#*:}" "$(number adasum "${key%:*}")" "$(number average "${key%:*}")"
done

awk -v workers=$workers -v first="$(number adasum orthogonality_first)" \
    -v last="$(number adasum orthogonality_last)" 'BEGIN {
    printf "\nOf the %d workers'\'' steps about %.1f added up at first and %.1f at the end (orthogonality × %d):\n" \
        "at first all want the same, later each finds something of its own, which Adasum keeps.\n",
        workers, workers * first, workers * last, workers }'

cat <<END

What to try next:
  16 workers, where averaging falls behind:
    $rueda run -np $ranks $mnist --workers-per-rank $((16 / ranks)) --op adasum
    $rueda run -np $ranks $mnist --workers-per-rank $((16 / ranks)) --op average
  orthogonality of each layer, step by step:
    $rueda run -np $ranks $mnist --workers-per-rank $((16 / ranks)) --log run.csv
  all learning rates, 8 to 32 workers, as tables and figures: experiments/mnist/README.md
  word vectors, one worker against 16: examples/c/word2vec/README.md
  how it is written: examples/c/mnist/README.md
END
