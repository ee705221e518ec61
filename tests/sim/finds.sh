#!/bin/sh
# finds.sh PROGRAM: passes if the program, which is rueda-sim with a defect in it, finds it: a seed fails, and an
# invariant says why, or the program ends by a signal, as it does where memory is used that is not there.
program=$1
SIGNAL=128 # and more: the shell's status of a program that ended by one

output=$("$program" faults --seeds 1..2000 --workers 1 --as-is 2>&1)
status=$?
found=$(printf '%s\n' "$output" | grep -a -m 1 '^FAILED: .')
printf '%s\n' "$output" | tail -n 20
if [ "$status" -gt "$SIGNAL" ]; then
    echo "found: it ended by signal $((status - SIGNAL))"
elif [ "$status" -eq 1 ] && [ -n "$found" ]; then
    echo "found: ${found#FAILED: }"
else
    echo "not found: the defect is in the code, and no seed fails (exit status $status)"
    exit 1
fi
