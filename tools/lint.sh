#!/bin/sh
# Runs clang-tidy over the C files of the library and the program, with the flags of build/release, and over those of
# the Python package where there are headers of Python; a warning is a failure. `quick` leaves out the analyzer, which takes twenty times as long as all the rest. Exits with 77
# where there is no clang-tidy.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-tidy >/dev/null; then
    echo "clang-tidy is not installed (package clang-tidy)" >&2
    exit 77
fi
checks=
[ "${1:-}" != quick ] || checks='-clang-analyzer-*'
# tidy FOLDER: the files named on stdin, with the flags of a build folder.
tidy() {
    sort | xargs -n 8 -P "$(nproc)" clang-tidy -p "$1" --checks="$checks" --quiet 2>/dev/null
}
status=0
# Of the plug-in for MPI another compiler knows the flags.
find src -name '*.c' ! -name '*_test.c' ! -path '*/plugin/*' | tidy build/release || status=1
if cmake --preset release -B build/lint -DRUEDA_PYTHON=ON -DBUILD_TESTING=OFF >/dev/null 2>&1; then
    find python -name '*.c' | tidy build/lint || status=1
else
    echo "python/native and python/native_tf are left out: no headers of Python"
fi
exit $status
