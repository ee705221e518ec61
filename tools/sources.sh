#!/bin/sh
# Prints the C and C++ files of the project, one on each line.
cd "$(dirname "$0")/.."
for folder in include src tests bench examples python; do
    [ ! -d "$folder" ] || find "$folder" -name '*.[ch]' -o -name '*.cpp'
done | sort
