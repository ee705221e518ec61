#!/bin/sh
# The Python tests: tests/python, with this tree's packages installed in build/venv. Arguments go to
# pytest: tools/test-python.sh -k optimizer.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh wheel || exit 77
tools/python-env.sh || exit $?
python=build/venv/bin/python
PYTHON=$PWD/$python tools/wheel.sh
$python -m pip install -q --no-deps --force-reinstall dist/rueda-[0-9]*.whl dist/rueda_horovod-*.whl
exec $python -m pytest --timeout 600 --durations 10 tests/python "$@"
