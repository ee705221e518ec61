#!/bin/sh
# compare.sh RUEDA WORD2VEC [WORKERS]: trains word vectors on one worker, then on WORKERS (16) by each
# operation at the same rate, and compares them. The programs are those of the build; the text is kept
# beside the second one.
set -eu
rueda=$1
word2vec=$2
workers=${3:-16}
here=$(dirname "$0")
corpus=$(dirname "$word2vec")/kjv.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/corpus.sh" "$corpus"

# One process for each core; if there are fewer than workers, each stands in for several.
ranks=1
while [ $((ranks * 2)) -le "$(nproc)" ] && [ $((ranks * 2)) -le "$workers" ]; do
    ranks=$((ranks * 2))
done
[ -t 1 ] && progress=bar || progress=lines

train() { # train NAME RANKS WORKERS OP
    printf '\n== %s\n\n' "$1"
    "$rueda" run -np "$2" --no-prefix "$word2vec" --corpus "$corpus" --op "$4" --progress $progress \
        --workers-per-rank $(($3 / $2)) --log "$work/run.json" --vectors "$work/vectors" | tee "$work/said"
    grep '"event":"summary"' "$work/run.json" >"$work/summary"
    row "$1"
}
number() { # number KEY FORMAT: of the summary; "-" if it was not measured
    value=$(sed "s/.*\"$1\":\([^,}]*\).*/\1/" "$work/summary")
    [ "$value" = null ] && echo - || printf "$2" "$value"
}
row() { # row NAME
    partners=$(sed 's/.*"partners_found":\[\([^]]*\)\].*/\1/; s/.*,//' "$work/summary" | awk '{ printf "%.1f%%", 100 * $1 }')
    analogies=$(sed -n 's/^analogies: .* in \([0-9]*\) of \([0-9]*\),.*/\1 of \2/p' "$work/said")
    printf '%-22s %9s %10s %7s %9s %8s %6s\n' "$1" "$partners" "${analogies:--}" "$(number loss %.3f)" \
        "$(number pairs_per_second %.0f)" "$(number orthogonality_first %.2f)" \
        "$(number orthogonality_last %.2f)" >>"$work/table"
}

train '1 worker' 1 1 adasum
for op in adasum average gather; do
    train "$workers workers, $op" $ranks "$workers" $op
done

printf '\n== the same rate for all\n\n%-22s %9s %10s %7s %9s %15s\n%-22s %9s %10s %7s %9s %8s %6s\n' \
    '' partners analogies loss pairs/s orthogonality '' found solved '' '' first last
cat "$work/table"
cat <<END

Partners: of a list of words that belong together ("gold silver"), how many are among each other's ten
nearest. What to try next:
  $word2vec --corpus $corpus --lr 0.2    # the boldest rate that one worker stands
  $rueda run -np $ranks $word2vec --corpus $corpus --workers-per-rank $((32 / ranks))
  how it is written: examples/c/word2vec/README.md
END
