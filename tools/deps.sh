#!/bin/sh
# Makes sure that what the build and the tests need is there: installs it when root on a system with
# apt, otherwise says in one line what to install. Quiet when nothing is missing. `deps.sh demo` also
# looks for what the examples need, `deps.sh test` for what the tests need beside that.
set -eu

missing=
need() { # need PACKAGE COMMAND...: the command fails when the package is missing
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
header() { # header NAME...: these can be included
    printf '#include <%s>\n' "$@" | cc -E -
}

need build-essential cc --version
need build-essential make --version
need cmake cmake --version
if [ -n "${1:-}" ]; then
    need zlib1g-dev header zlib.h
    # Without it the examples multiply matrices by plain loops.
    [ "$(id -u)" != 0 ] || need libopenblas-dev header cblas.h
fi
if [ "${1:-}" = test ]; then
    need libcmocka-dev header stdarg.h stddef.h setjmp.h stdint.h cmocka.h
    need pkg-config pkg-config --version
    need g++ c++ --version
    # Tests that read JSON with another parser are skipped where only this is missing.
    [ "$(id -u)" != 0 ] || need python3 python3 --version
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
