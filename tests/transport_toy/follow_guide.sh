#!/bin/sh
# follow_guide.sh: the command of docs/adding-a-transport.md, as it stands there but for the folders, and the engine's
# collectives over what it has built. The toy is taken out of the tree before.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$TEST_SOURCE/tests/transport_toy/toy" "$work/toy"
cd "$TEST_SOURCE"
command=$(grep -o 'cmake --preset release -DRUEDA_TRANSPORTS=/path/to/NAME' docs/adding-a-transport.md)
$(echo "$command" | sed "s|/path/to/NAME|$work/toy|") -B "$work/build"
cmake --build "$work/build" -j "$(nproc)" --target rueda_program collectives_test
RUEDA_TRANSPORT=toy "$work/build/tests/multiprocess/collectives_test"
"$work/build/rueda" bench allreduce -np 2 --transport toy --sizes 64K --iterations 20
