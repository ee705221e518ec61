#!/bin/sh
# Makes sure that what the build and the tests need is there: installs it when root on a system with
# apt, otherwise says in one line what to install. Quiet when nothing is missing. `deps.sh demo` also
# looks for what the examples need, `deps.sh test` for what the tests need beside that, `deps.sh wheel` for
# what the Python package needs.
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

# What is only wanted: root gets it, others go on without it.
want() {
    [ "$(id -u)" != 0 ] || need "$@"
}
module() { # module NAME: the system's Python has it
    /usr/bin/python3 -c "import $1"
}

python_header() { # the interpreter that builds the wheel can be extended
    "${PYTHON:-python3}" -c 'import sysconfig as s; open(s.get_path("include") + "/Python.h")'
}

need build-essential cc --version
need build-essential make --version
need cmake cmake --version
need libsodium-dev header sodium.h
need libjansson-dev header jansson.h
# Without it there are no job files.
want libyaml-dev header yaml.h
# Without it the launcher takes every processor for a core.
want libhwloc-dev header hwloc.h
if [ "${1:-}" = wheel ]; then
    need python3-venv "${PYTHON:-python3}" -c 'import venv, ensurepip'
    need python3-dev python_header
elif [ -n "${1:-}" ]; then
    need zlib1g-dev header zlib.h
    # Without it the examples multiply matrices by plain loops.
    want libopenblas-dev header cblas.h
fi
if [ "${1:-}" = test ]; then
    need libcmocka-dev header stdarg.h stddef.h setjmp.h stdint.h cmocka.h
    need pkg-config pkg-config --version
    need g++ c++ --version
    # The hosts of the launcher's tests; only root can make them.
    want openssh-server test -x /usr/sbin/sshd
    want openssh-client ssh -V
    want iproute2 ip -V
    want procps pgrep -V
    # The Slurm of its tests.
    want slurmctld test -x /usr/sbin/slurmctld
    want slurmd test -x /usr/sbin/slurmd
    want slurm-client test -x /usr/bin/srun
    want munge test -x /usr/sbin/munged
    # Puts defects back that the simulated world must find.
    want patch patch --version
    # Tests of JSON, of the schema and of Python environments are skipped where these are missing.
    want python3 module json
    want python3-yaml module yaml
    want python3-jsonschema module jsonschema
    want python3-venv module venv
    want python3-venv module ensurepip
    # The MPI transport is built and tested for those that are there.
    want "openmpi-bin libopenmpi-dev" mpicc.openmpi --version
    want "mpich libmpich-dev" mpicc.mpich --version
    # Long tests compare the interface with the last release.
    want abigail-tools abidiff --version
    # The format check is skipped where only this is missing.
    want clang-format clang-format --version
    want clang-tidy clang-tidy --version
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
