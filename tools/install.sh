#!/bin/sh
# install.sh BUILD_FOLDER: installs to $DESTDIR$PREFIX and writes what was put there, files and
# folders that were new, into share/rueda/manifest, which uninstall.sh reads. An earlier
# installation at the same place is removed first, so nothing of it stays behind.
set -eu
cd "$(dirname "$0")/.."
build=$1
root=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}
case $prefix in /*) ;; *) echo "PREFIX must be absolute: $prefix" >&2; exit 2 ;; esac
manifest=$prefix/share/rueda/manifest

[ ! -e "$root$manifest" ] || tools/uninstall.sh >/dev/null

stage=$(mktemp -d)
list=$(mktemp)
trap 'rm -rf "$stage" "$list"' EXIT
DESTDIR=$stage cmake --install "$build" --prefix "$prefix" >/dev/null
mkdir -p "$stage$prefix/share/rueda"
: >"$stage$manifest"
chmod 644 "$stage$manifest"

# Folders first, from the top, only those that are new; then files.
(cd "$stage" && find . -mindepth 1 -type d | sort) | while read -r path; do
    path=${path#.}
    [ -d "$root$path" ] || echo "d $path"
done >"$list"
(cd "$stage" && find . ! -type d | sort | sed 's/^\./f /') >>"$list"
cat "$list" >"$stage$manifest"

while read -r kind path; do
    if [ "$kind" = d ]; then
        mkdir -p "$root$path"
    else
        cp -Pf "$stage$path" "$root$path"
        echo "$root$path"
    fi
done <"$list"

# The loader's cache, where it is ours to refresh.
if [ -z "$root" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
    ldconfig || echo 'the cache of shared libraries is not current: run ldconfig' >&2
fi
