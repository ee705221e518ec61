#!/bin/sh
# The Python tests: tests/python, with this tree's packages installed in build/venv, or in the environment
# that TEST_VENV names. Arguments go to pytest: tools/test-python.sh -k optimizer, or some files of tests/.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh wheel || exit 77
venv=${TEST_VENV:-build/venv}
tools/python-env.sh "$venv" || exit $?
python=$venv/bin/python
case $python in /*) ;; *) python=$PWD/$python ;; esac
case " $*" in *" tests/"*) ;; *) set -- tests/python "$@" ;; esac
PYTHON=$python tools/wheel.sh
$python -m pip install -q --no-deps --force-reinstall dist/rueda-[0-9]*.whl dist/rueda_horovod-*.whl
# Two files at a time: their jobs wait for each other more than they compute.
exec $python -m pytest --timeout 600 --durations 10 -n 2 --dist loadfile "$@"
