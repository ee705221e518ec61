#!/bin/sh
# shortens.sh PROGRAM: a seed that fails with the defect that is in the program is shortened, and what is left
# of it still fails by the same invariant.
program=$1
whole=$("$program" faults --seeds 1..2000 --workers 1 --as-is)
short=$("$program" faults --seeds 1..2000 --workers 1)
command=$(printf '%s\n' "$short" | sed -n 's/.*To see it again: rueda sim //p')
kind() {
    printf '%s\n' "$1" | sed -n 's/^FAILED, \([a-z]*\):.*/\1/p'
}
case $command in
*--without*) ;;
*)
    echo "nothing was left out: $command"
    exit 1
    ;;
esac
# shellcheck disable=SC2086
again=$("$program" $command)
echo "$command"
echo "whole: $(kind "$whole"), short: $(kind "$short"), again: $(kind "$again")"
[ -n "$(kind "$whole")" ] && [ "$(kind "$whole")" = "$(kind "$short")" ] && [ "$(kind "$short")" = "$(kind "$again")" ]
