#!/bin/sh
# Removes exactly what install.sh has put below $DESTDIR$PREFIX: its files, and the folders it made
# if they are empty now.
set -eu
root=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}
manifest=$root$prefix/share/rueda/manifest
if [ ! -e "$manifest" ]; then
    echo "rueda is not installed at $root$prefix (no share/rueda/manifest); give the PREFIX of make install" >&2
    exit 1
fi
list=$(mktemp)
trap 'rm -f "$list"' EXIT
cp "$manifest" "$list"

sed -n 's/^f //p' "$list" | while read -r path; do
    rm -f "$root$path"
    echo "removed $root$path"
done
sed -n 's/^d //p' "$list" | sort -r | while read -r path; do
    rmdir "$root$path" 2>/dev/null || true
done
if [ -z "$root" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig || echo 'the cache of shared libraries is not current: run ldconfig' >&2
fi
