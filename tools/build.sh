#!/bin/sh
# build.sh PRESET [CMAKE OPTIONS...]: configures and builds build/PRESET, quietly unless it fails. BUILD_TARGET
# in the environment: not all of it.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh
preset=$1
shift

# Ninja where it works; a build folder keeps the generator it was made with.
if [ -z "${CMAKE_GENERATOR:-}" ] && ninja --version >/dev/null 2>&1; then
    export CMAKE_GENERATOR=Ninja
fi
mkdir -p "build/$preset"
log=build/$preset/configure.log
cmake --preset "$preset" "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
log=build/$preset/build.log
cmake --build "build/$preset" -j "$(nproc)" --target "${BUILD_TARGET:-all}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
