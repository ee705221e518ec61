#!/bin/sh
# corpus.sh FILE: writes the King James Bible to FILE, a verse on each line. The text comes from Debian's
# packages bible-kjv and bible-kjv-text; as root on a system with apt they are installed if missing,
# otherwise one line says what to install. A FILE that is there is left alone.
set -eu
file=$1
verses=31102

[ ! -s "$file" ] || exit 0
if ! command -v bible >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "no text to train on: install bible-kjv and bible-kjv-text (names as in Debian), or give any text with --corpus" >&2
        exit 1
    fi
    echo "installing: bible-kjv bible-kjv-text"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends bible-kjv bible-kjv-text >/dev/null
fi

# "Ge1:1 In the beginning …": the reference goes.
bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"$file.part"
if [ "$(wc -l <"$file.part")" -ne $verses ]; then
    echo "bible -f gave $(wc -l <"$file.part") lines instead of $verses verses" >&2
    rm "$file.part"
    exit 1
fi
mv "$file.part" "$file"
