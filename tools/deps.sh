#!/bin/sh
# Makes sure that what the build and the tests need is there: installs it when root on a system with
# apt, otherwise says in one line what to install. Quiet when nothing is missing. `deps.sh demo` also
# looks for what the examples need, `deps.sh test` for what the tests need beside that.
set -eu

missing=
optional=
need() { # need PACKAGE COMMAND...: the command fails when the package is missing
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
header() { # header NAME...: these can be included
    printf '#include <%s>\n' "$@" | cc -E -
}
fuzzing() { # clang has its libFuzzer
    printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n && 0; }\n' |
        clang -x c -fsanitize=fuzzer -o /dev/null - 2>/dev/null
}

can_fuzz() {
    program=$(mktemp)
    echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n && 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o "$program"
    code=$?
    rm -f "$program"
    return $code
}

need build-essential cc --version
need build-essential make --version
need cmake cmake --version
need libsodium-dev header sodium.h
# Without it there are no job files.
[ "$(id -u)" != 0 ] || need libyaml-dev header yaml.h
# Without it the launcher takes every processor for a core.
[ "$(id -u)" != 0 ] || need libhwloc-dev header hwloc.h
if [ -n "${1:-}" ]; then
    need zlib1g-dev header zlib.h
    # Without it the examples multiply matrices by plain loops.
    [ "$(id -u)" != 0 ] || need libopenblas-dev header cblas.h
fi
if [ "${1:-}" = test ]; then
    need libcmocka-dev header stdarg.h stddef.h setjmp.h stdint.h cmocka.h
    need pkg-config pkg-config --version
    need g++ c++ --version
    # The hosts of the launcher's tests; only root can make them.
    if [ "$(id -u)" = 0 ]; then
        need openssh-server test -x /usr/sbin/sshd
        need openssh-client ssh -V
        need iproute2 ip -V
        need procps pgrep -V
    fi
    # Job files: the schema's test, and Python environments. Skipped where they are missing.
    if [ "$(id -u)" = 0 ]; then
        need python3-yaml python3 -c 'import yaml'
        need python3-jsonschema python3 -c 'import jsonschema'
        need python3-venv python3 -c 'import venv, ensurepip'
    fi
    # Fuzzers are not built where it is missing.
    [ "$(id -u)" != 0 ] || need "clang libclang-rt-dev" can_fuzz
    # The format check is skipped where only this is missing.
    [ "$(id -u)" != 0 ] || need clang-format clang-format --version
    # Fuzzers are skipped without these, and not every system calls them so.
    [ "$(id -u)" != 0 ] || fuzzing || optional="clang libclang-rt-dev"
fi

install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

[ -z "$missing$optional" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing:$missing $optional"
    apt-get update -qq
    [ -z "$missing" ] || install $missing
    [ -z "$optional" ] || install $optional || echo "going on without $optional"
elif [ -n "$missing" ]; then
    echo "missing; install with your package manager (names as in Debian):$missing" >&2
    exit 1
fi
