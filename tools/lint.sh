#!/bin/sh
# Runs clang-tidy over the C files of the library and the program, with the flags of build/release; a warning is
# a failure. `quick` leaves out the analyzer, which takes twenty times as long as all the rest. Exits with 77
# where there is no clang-tidy.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-tidy >/dev/null; then
    echo "clang-tidy is not installed (package clang-tidy)" >&2
    exit 77
fi
checks=
[ "${1:-}" != quick ] || checks='-clang-analyzer-*'
# Of the plug-in for MPI another compiler knows the flags.
find src -name '*.c' ! -name '*_test.c' ! -path '*/plugin/*' | sort |
    xargs -n 8 -P "$(nproc)" clang-tidy -p build/release --checks="$checks" --quiet 2>/dev/null
