#!/bin/sh
# abi.sh [TAG]: compares the interface of librueda with that of the last release, or of TAG: programs built with
# it must run with today's library. Fails where something was taken away or changed; what was added is
# shown. Until there is a release it is compared with tools/librueda.abi.
# abi.sh --renew: writes that file anew, for a change that was decided on; it goes with the first release.
# 77: abidiff is missing.
set -eu
cd "$(dirname "$0")/.."
if ! command -v abidiff >/dev/null; then
    echo "abidiff is not installed (package abigail-tools)"
    exit 77
fi

# dump TREE: what the header of a tree shows of its library, without the tree's own path.
dump() {
    (cd "$1" && abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-corpus-path \
        --no-comp-dir-path --no-show-locs --type-id-style hash build/release/librueda.so | sed "s|$PWD/||")
}

mkdir -p build/abi
tools/build.sh release
dump . >build/abi/now.abi
if [ "${1:-}" = --renew ]; then
    cp build/abi/now.abi tools/librueda.abi
    exit
fi
tag=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
before=tools/librueda.abi
if [ -n "$tag" ]; then
    before=build/abi/$tag.abi
    if [ ! -e "$before" ]; then
        rm -rf "build/abi/$tag"
        mkdir -p "build/abi/$tag"
        git archive "$tag" | tar -x -C "build/abi/$tag"
        (cd "build/abi/$tag" && tools/build.sh release -DBUILD_TESTING=OFF)
        dump "build/abi/$tag" >"$before.part" && mv "$before.part" "$before"
    fi
fi
# Bit 8 of the exit code: a function is gone. What changed inside of structures is only bit 4, where growing
# at the end is as well, which is allowed: nothing that was there may move, go, or change its type.
report=build/abi/report.txt
status=0
abidiff --no-show-locs "$before" build/abi/now.abi >"$report" || status=$?
cat "$report"
[ $((status & ~4)) = 0 ] &&
    ! grep -qE 'offset changed|data member deletion|enumerator deletion|type of .* changed|value changed' "$report"
