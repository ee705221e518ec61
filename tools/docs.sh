#!/bin/sh
# docs.sh write: makes docs/configuration.md from the table of settings. docs.sh check: fails if the
# file is not what would be written. RUEDA names the program (default build/release/rueda).
set -eu
cd "$(dirname "$0")/.."
rueda=${RUEDA:-build/release/rueda}
page=docs/configuration.md
case $1 in
write) "$rueda" doctor --config --markdown >"$page" ;;
check) "$rueda" doctor --config --markdown | diff -u "$page" - ||
    { echo "$page is out of date: run make docs" >&2; exit 1; } ;;
esac
