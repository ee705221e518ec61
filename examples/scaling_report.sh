#!/bin/sh
# scaling_report.sh FOLDER BATCH: what the scaling.sh of an example has measured. FOLDER has the files one,
# unrelated and two: for each turn a line with the median step and the fastest tenth, in milliseconds.
set -eu
work=$1
batch=$2

middle() { # middle NAME COLUMN: the median over the turns
    cut -d ' ' -f "$2" "$work/$1" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
row() { # row TITLE NAME PROCESSES
    awk -v title="$1" -v processes="$3" -v batch=$batch -v median="$(middle "$2" 1)" \
        -v fast="$(middle "$2" 2)" -v one_median="$(middle one 1)" -v one_fast="$(middle one 2)" 'BEGIN {
        printf "%-24s %6.2f ms %6.0f images/s %5.2f × %9.2f ms %5.2f ×\n", title, median,
            1000 * processes * batch / median, processes * one_median / median, fast,
            processes * one_fast / fast }'
}
printf '%-24s %38s %20s\n' '' 'median step' 'fastest tenth'
row '1 rank' one 1
row '2 unrelated processes' unrelated 2
row '2 ranks' two 2
