#!/bin/sh
# The Python tests: tests/python, with the wheel of this tree installed in build/venv. Arguments go to
# pytest: tools/test-python.sh -k optimizer.
set -eu
cd "$(dirname "$0")/.."
if ! ls tests/python/test_*.py >/dev/null 2>&1; then
    echo "there are no Python tests yet"
    exit 77
fi
tools/python-env.sh || exit $?
venv=build/venv/bin
rm -rf build/wheel
$venv/pip wheel -q --no-deps -w build/wheel .
$venv/pip install -q --no-deps --force-reinstall build/wheel/*.whl
exec $venv/python -m pytest tests/python "$@"
