#!/bin/sh
# run.sh PROGRAM [SECONDS]: the measurements of bench/README.md, one after the other. PROGRAM is a built
# `rueda`; SECONDS is the time for each size. Columns are explained at the first table.
set -eu
rueda=$1
seconds=${2:-2}

title() { printf '\n== %s\n\n' "$1"; }
table() { "$rueda" bench "$@" --seconds "$seconds" | sed '/^Times are/,$d'; }

# Open MPI is the yardstick where it is installed; without it our own times are printed.
against=
if [ -x "$(dirname "$rueda")/rueda-peer-openmpi" ]; then
    against='--against openmpi'
else
    echo 'Open MPI is not in this build (openmpi-bin, libopenmpi-dev): our own times only.'
fi

title 'The machine'
sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c
"$rueda" doctor | sed -n '/processor\|cores/p'

# shellcheck disable=SC2086 # $against is two words or none
{
    title 'allreduce, 2 ranks, ordinary memory'
    "$rueda" bench allreduce -np 2 --sizes 4,1K,16K,64K,256K,1M,4M,16M,64M,256M $against \
        --seconds "$seconds"
    title 'allreduce, 2 ranks, memory from rueda_alloc'
    table allreduce -np 2 --sizes 64K,256K,1M,4M,16M,64M --memory shared $against
    title 'allreduce, 4 ranks'
    table allreduce -np 4 --sizes 4,1K,16K,64K,1M,16M,64M $against
    title 'Adasum and sum, 2 ranks'
    table allreduce -np 2 --op adasum --against sum --sizes 4,64K,1M,16M,64M
    title 'Adasum and the sum of Open MPI, 2 ranks'
    table allreduce -np 2 --op adasum --sizes 1M,16M,64M $against
    title '4 B allreduce after 10 ms of rest'
    table allreduce -np 2 --sizes 4 --idle-ms 10 $against
}
title 'allreduce over tcp beside a bare socket, 2 ranks'
table allreduce -np 2 --transport tcp --sizes 4,1K,64K,1M,16M,64M --against socket
title 'Adasum and sum over tcp, 2 ranks'
table allreduce -np 2 --transport tcp --op adasum --against sum --sizes 1M,16M,64M
title '4 B allreduce while the other rank computes'
table allreduce -np 2 --sizes 4 --peer-computes
for collective in broadcast allgather reducescatter alltoall barrier; do
    title "$collective, 2 ranks"
    # shellcheck disable=SC2086
    table $collective -np 2 --sizes 4,64K,1M,16M $against
done
for scenario in tensors behind idle startup observe; do
    title "$scenario"
    "$rueda" bench $scenario -np 2 --seconds "$seconds"
done
