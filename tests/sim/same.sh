#!/bin/sh
# same.sh PROGRAM OTHER: both give the same runs to the byte: stories, events, and the hash of all that was delivered.
program=$1
other=$2
for seed in 1 2 3 5 8 13 21 34 55 89; do
    first=$("$program" faults --seed $seed)
    second=$("$other" faults --seed $seed)
    if [ "$first" != "$second" ] || [ -z "$first" ]; then
        echo "seed $seed is another run: $(echo "$first" | tail -n 1); $(echo "$second" | tail -n 1)"
        exit 1
    fi
done
