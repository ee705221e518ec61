#!/bin/sh
# The whole test: every suite, the sanitizers, Python, style and docs; with `long` only what takes longer.
# Goes on after a failure and ends with a summary; the exit code is 0 only if all passed.
set -u
cd "$(dirname "$0")/.."
tools/deps.sh test || exit 1
tools/deps.sh wheel && tools/python-env.sh >/dev/null 2>&1 & # mostly fetched: the other steps need not wait for it
environment=$!

jobs=$((2 * $(nproc))) # tests count processors in halves, see cmake/RuedaTests.cmake
summary=
failed=0

step() { # step NAME COMMAND...; exit code 77 means skipped
    name=$1
    shift
    printf '\n== %s\n' "$name"
    start=$(date +%s)
    "$@"
    case $? in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    *) verdict=FAILED failed=1 ;;
    esac
    summary="$summary$(printf '%-8s %4d s  %s' "$verdict" $(($(date +%s) - start)) "$name")
"
}

suite() { # suite BUILD_PRESET [TEST_PRESET]: build and run its tests
    tools/build.sh "$1" && ctest --preset "${2:-$1}" -j "$jobs"
}

# ThreadSanitizer of older compilers fails where addresses are randomised too widely.
fixed_addresses() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        setarch "$(uname -m)" -R "$@"
    else
        "$@"
    fi
}
threads() {
    BUILD_TARGET=threads_tests tools/build.sh tsan && fixed_addresses ctest --preset tsan -j "$jobs"
}

python_tests() { # test-python.sh tells what is wrong with an environment that could not be made
    wait "$environment"
    tools/test-python.sh "$@"
}

# The oldest TensorFlow with Keras 3; torch is not needed there.
older_tensorflow() {
    TEST_VENV=build/venv-tf2.16 TEST_TENSORFLOW='tensorflow-cpu==2.16.*' TEST_TORCH='# no torch' \
        tools/test-python.sh tests/python/test_tensorflow*.py tests/python/test_keras*.py \
        tests/python/test_horovod_tensorflow.py
}

if [ "${1:-}" = long ]; then
    export RANKS_ANEW=1 # no rank is forked from a Python that has imported a framework, see docs/testing.md
    step "long tests, release" suite release long
    step "Python, long tests" python_tests -m long
    step "Python, TensorFlow 2.16" older_tensorflow
    step "programs built with the last release still run" tools/abi.sh
    step "clang-tidy, with the analyzer" tools/lint.sh
else
    step "all tests, release" suite release
    step "all tests, AddressSanitizer and UndefinedBehaviorSanitizer" suite asan
    step "threaded tests, ThreadSanitizer" threads
    step "Python" python_tests
    step "format" tools/format.sh --check
    step "clang-tidy" tools/lint.sh quick
    step "docs/configuration.md is current" tools/docs.sh check
fi

printf '\n%s' "$summary"
[ "$failed" = 0 ] && echo "all passed" || echo "FAILED"
exit "$failed"
