#!/bin/sh
# format.sh -i: formats all files. format.sh --check: names the files that would change, and fails.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null; then
    echo "clang-format is not installed" >&2
    exit 77
fi
if [ "$1" = -i ]; then
    tools/sources.sh | xargs clang-format -i
else
    changed=$(tools/sources.sh | xargs clang-format --dry-run 2>&1 |
        sed -n 's/^\([^ :]*\):.*Wclang-format.*/\1/p' | uniq)
    [ -z "$changed" ] || { printf 'run make format for:\n%s\n' "$changed" && exit 1; }
fi
