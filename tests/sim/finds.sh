#!/bin/sh
# finds.sh PROGRAM PATCH: passes if the program, which is rueda-sim with the defect of the patch in it, finds it: a seed
# fails, and by an invariant that the patch names ("# Invariants: results over"), not by any other. "# Command: members":
# elastic jobs find it.
program=$1
patch=$2

expected=$(sed -n 's/^# Invariants: //p' "$patch")
command=$(sed -n 's/^# Command: //p' "$patch")
output=$("$program" "${command:-faults}" --seeds 1..2000 --workers 1 --as-is 2>&1)
status=$?
found=$(printf '%s\n' "$output" | grep -a -m 1 '^FAILED, .')
kind=$(printf '%s\n' "$found" | sed 's/^FAILED, \([a-z]*\):.*/\1/')
printf '%s\n' "$output" | tail -n 20
if [ "$status" -ne 1 ] || [ -z "$found" ]; then
    echo "not found: the defect is in the code, and no seed fails (exit status $status)"
    exit 1
fi
for one in $expected; do
    if [ "$one" = "$kind" ]; then
        echo "found, as expected by $kind"
        exit 0
    fi
done
echo "found by $kind, and the patch expects: $expected"
exit 1
