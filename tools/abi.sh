#!/bin/sh
# abi.sh [TAG]: compares the interface of librueda with that of the last release, or of TAG: programs built with
# it must run with today's library. Fails where something was taken away or changed; what was added is
# shown. 77: nothing to compare with.
set -eu
cd "$(dirname "$0")/.."
if ! command -v abidiff >/dev/null; then
    echo "abidiff is not installed (package abigail-tools)"
    exit 77
fi
tag=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
if [ -z "$tag" ]; then
    echo "there is no release yet to compare with"
    exit 77
fi
before=build/abi/$tag
if [ ! -e "$before/done" ]; then
    rm -rf "$before"
    mkdir -p "$before/tree"
    git archive "$tag" | tar -x -C "$before/tree"
    (cd "$before/tree" && tools/build.sh release -DBUILD_TESTING=OFF)
    touch "$before/done"
fi
tools/build.sh release
# Bit 8 of the exit code: a function is gone. What changed inside of structures is only bit 4, where growing
# at the end is as well, which is allowed: nothing that was there may move, go, or change its type.
report=build/abi/report.txt
status=0
abidiff --no-show-locs --headers-dir1 "$before/tree/include" --headers-dir2 include \
    "$before/tree/build/release/librueda.so" build/release/librueda.so >"$report" || status=$?
cat "$report"
[ $((status & ~4)) = 0 ] &&
    ! grep -qE 'offset changed|data member deletion|enumerator deletion|type of .* changed|value changed' "$report"
