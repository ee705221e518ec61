#!/bin/sh
# Runs clang-tidy over src, with the flags of build/release.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-tidy >/dev/null; then
    echo "clang-tidy is not installed (package clang-tidy)" >&2
    exit 1
fi
find src -name '*.c' | sort | xargs -n 4 -P "$(nproc)" clang-tidy -p build/release --quiet
