#!/bin/sh
# python-env.sh [FOLDER]: makes build/venv, the virtual environment of the Python tests, or another one, from
# tests/python/requirements.txt; quiet, and at once when it is current. PYTHON names the interpreter (python3),
# TEST_TORCH and TEST_TENSORFLOW another version as pip writes it: TEST_TORCH='torch>=2.13', TEST_TORCH='# none'.
# Exits with 77 where there is no Python 3.10 that can make one.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
folder=${1:-build/venv}

if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "no Python tests: $python is not Python 3.10 or newer with venv (package python3-venv)"
    exit 77
fi

# The recipe stands in the environment that was made from it, once that is whole.
mkdir -p build
recipe=$folder.recipe
{ "$python" -c 'import sys; print("#", sys.executable, sys.version)' &&
    sed "s|^torch.*|${TEST_TORCH:-&}|; s|^tensorflow.*|${TEST_TENSORFLOW:-&}|" tests/python/requirements.txt; } >"$recipe"
! cmp -s "$recipe" "$folder/recipe" || exit 0

# Keras 2 as tf_keras, of the version of TensorFlow. It asks for `tensorflow`, which is large; without it, its
# tests are skipped.
install_keras_2() {
    release=$("$folder/bin/python" -c '
import importlib.metadata as packages
print(*packages.version("tensorflow-cpu").split(".")[:2], sep=".")') || return 0
    "$folder/bin/pip" install -q --no-deps "tf_keras==$release.*" || return 0
}

log=$folder.log
rm -rf "$folder"
if "$python" -m venv "$folder" >"$log" 2>&1 && "$folder/bin/pip" install -q -r "$recipe" >>"$log" 2>&1; then
    install_keras_2 >>"$log" 2>&1
    mv "$recipe" "$folder/recipe"
else
    cat "$log" >&2
    exit 1
fi
