#!/bin/sh
# Feeds layers.sh trees with one fault each: every fault must be found, and a good tree must pass.
set -u
here=$(dirname "$0")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

check=layers.sh
try() { # try PASS|FAIL WHAT: runs the check over the tree and expects this
    "$here/$check" "$tree/src" >"$tree/output" 2>&1 && result=PASS || result=FAIL
    if [ "$result" != "$1" ] || { [ "$1" = FAIL ] && ! grep -q "$2" "$tree/output"; }; then
        echo "expected $1 ($2), got $result:"
        cat "$tree/output"
        failures=1
    fi
    rm -rf "$tree/src"
    mkdir -p "$tree/src/base" "$tree/src/engine" "$tree/src/plan" "$tree/src/transport/shm"
}
lines() { # lines COUNT
    yes ' ;' | head -n "$1"
}

mkdir -p "$tree/src/base" "$tree/src/engine" "$tree/src/plan" "$tree/src/transport/shm"
printf '#include "engine/engine.h"\n#include "base/os.h"\n#include "rueda.h"\n' >"$tree/src/engine/a.c"
{ echo 'int f(void)' && echo '{' && lines 80 && echo '}'; } >"$tree/src/base/long.c"
try PASS 'a good tree'

printf '#include "engine/engine.h"\n' >"$tree/src/base/a.c"
try FAIL 'engine does not stand below'
printf '# include "transport/transport.h"\n' >"$tree/src/plan/a.h"
try FAIL 'transport does not stand below'
printf '#include "plan/plan.h"\n' >"$tree/src/transport/shm/a.c"
try FAIL 'plan does not stand below'
printf '#include "os.h"\n' >"$tree/src/base/a.c"
try FAIL 'write the folder'
printf '#include "nowhere/x.h"\n' >"$tree/src/base/a.c"
try FAIL 'not in order.txt'
mkdir "$tree/src/misc" && echo >"$tree/src/misc/a.c"
try FAIL 'folder misc'
lines 601 >"$tree/src/base/a.c"
try FAIL '601 lines'
{ echo 'int f(void)' && echo '{' && lines 81 && echo '}'; } >"$tree/src/base/a.c"
try FAIL 'a function of 81 lines'

check=world.sh
printf 'return world_now_ns(); /* not time(NULL) */\n' >"$tree/src/engine/a.c"
try PASS 'a good tree'
printf '    now = time(NULL);\n' >"$tree/src/engine/a.c"
try FAIL 'belong into src/world'
printf '    if (poll(&p, 1, 0) == 1)\n' >"$tree/src/transport/shm/a.c"
try FAIL 'belong into src/world'
printf '    pthread_mutex_lock(&lock);\n' >"$tree/src/plan/a.h"
try FAIL 'belong into src/world'

exit "$failures"
