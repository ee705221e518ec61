#!/bin/sh
# random_kills.sh COUNT [SEED]: so many random deaths for each way in which ranks reach each other.
# RANDOM_KILLS names the program. A seed repeats a run, as far as time allows.
set -eu
: "${RANDOM_KILLS:?names the program random_kills}"
count=${1:?usage: random_kills.sh COUNT [SEED]}
seed=${2:-$(date +%s%N)}
echo "shared memory:"
"$RANDOM_KILLS" "$count" "$seed"
echo "tcp:"
RUEDA_TRANSPORT=tcp "$RANDOM_KILLS" "$count" "$seed"
echo "hosts of two ranks, tcp between them:"
TEST_RANKS_ON_HOST=2 "$RANDOM_KILLS" "$count" "$seed"
