#!/bin/sh
# scaling.sh SCRIPT [TURNS [OPTIONS...]]: images a second of an MNIST example, such as
# torch/pytorch_mnist.py, on two ranks against one, one thread and one core each; OPTIONS, such as
# --use-adasum, go to it. In turns with them run two processes that know nothing of each other: they show
# what the machine itself loses with two busy cores, and are the most that two ranks can reach. It takes
# rueda and python from PATH. Quiet machines only.
set -eu
if [ ! -f "${1:-}" ]; then
    echo "scaling.sh: give an example, such as torch/pytorch_mnist.py" >&2
    exit 2
fi
script=$1
turns=${2:-5}
shift $(($# < 2 ? $# : 2))
options=$*
steps=200
batch=32
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1

train() { # train RANKS [COMMAND...]: as many ranks' share of images, by the command
    images=$(($1 * steps * batch))
    shift
    # shellcheck disable=SC2086 # options are words
    "$@" python "$script" --epochs 1 --batch-size $batch --limit $images $options
}
keep() { # keep NAME: adds median and fastest tenth of the output that is read
    sed -n 's/.*step  *\([0-9.]*\) ms median, \([0-9.]*\) ms.*/\1 \2/p' >>"$work/$1"
}

for turn in $(seq "$turns"); do
    echo "turn $turn of $turns, load $(cut -d ' ' -f 1 /proc/loadavg)" >&2
    train 1 taskset -c 0 | keep one
    train 1 taskset -c 1 >"$work/right" &
    train 1 taskset -c 0 | keep unrelated
    wait
    keep unrelated <"$work/right"
    train 2 rueda run -np 2 --bind core | keep two
done

"$here/scaling_report.sh" "$work" $batch
