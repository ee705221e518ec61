#!/bin/sh
# scaling.sh RUEDA MNIST [TURNS]: images a second of two ranks against one, each rank on a core of its
# own. In turns with them run two processes that know nothing of each other: they show what the machine
# itself loses with two busy cores, and are the most that two ranks can reach. Quiet machines only.
set -eu
rueda=$1
mnist=$2
turns=${3:-5}
steps=300
batch=32
warm=20 # steps at the start that do not count
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command="\"$mnist\" --progress none --epochs 1 --batch $batch"
cat >"$work/alone" <<END # CORE LOG
exec taskset -c \$1 $command --limit $((steps * batch)) --log "$work/\$2.csv"
END
cat >"$work/rank" <<END # LOG
exec taskset -c \$RUEDA_RANK $command --limit $((2 * steps * batch)) --log "$work/\$1.csv"
END

# measure NAME LOG...: adds this turn's median step and the fastest tenth, in milliseconds, to NAME.
measure() {
    name=$1
    shift
    for log in "$@"; do
        awk -F, -v warm=$warm 'NR > warm + 1 { print 1000 * ($3 - last) } { last = $3 }' "$work/$log.csv"
    done | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)], t[int((NR + 9) / 10)] }' >>"$work/$name"
}

for turn in $(seq "$turns"); do
    echo "turn $turn of $turns" >&2
    sh "$work/alone" 0 one
    measure one one
    sh "$work/alone" 1 right &
    sh "$work/alone" 0 left
    wait
    measure unrelated left right
    "$rueda" run -np 2 sh "$work/rank" two
    measure two two
done

"$(dirname "$0")/../../scaling_report.sh" "$work" $batch
