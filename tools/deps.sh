#!/bin/sh
# Makes sure that what the build and the tests need is there: installs it when root on a system with
# apt, otherwise says in one line what to install. Quiet when nothing is missing. `deps.sh test` also
# looks for what only the tests need.
set -eu

missing=
need() { # need PACKAGE COMMAND...: the command fails when the package is missing
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

need build-essential cc --version
need build-essential make --version
need cmake cmake --version
if [ "${1:-}" = test ]; then
    need libcmocka-dev sh -c 'echo "#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>" | cc -E -'
    need pkg-config pkg-config --version
    need g++ c++ --version
    # The format check is skipped where only this is missing.
    [ "$(id -u)" != 0 ] || need clang-format clang-format --version
fi

[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "missing; install with your package manager (names as in Debian):$missing" >&2
    exit 1
fi
