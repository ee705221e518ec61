#!/bin/sh
# layers.sh SRC: fails on an #include that points upward in order.txt, on a file of more than 600
# lines and on a function of more than 80. The limits only ever go down.
set -eu
src=$1
order=$(dirname "$0")/order.txt
find "$src" -name '*.[ch]' | sort | xargs awk -v src="$src/" -v order="$order" -v FILE_MAX=600 \
    -v FUNCTION_MAX=80 '
function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    failed = 1
}
function check_length() {
    if (length_now > FILE_MAX) {
        printf "%s: %d lines; at most %d: split it\n", file, length_now, FILE_MAX
        failed = 1
    }
}
BEGIN {
    while ((getline line < order) > 0) {
        if (line ~ /^#/)
            continue
        level++
        count = split(line, folders, " ")
        for (i = 1; i <= count; i++)
            level_of[folders[i]] = level
    }
}
FNR == 1 {
    check_length()
    file = FILENAME
    split(substr(FILENAME, length(src) + 1), path, "/")
    from = path[1]
    if (!(from in level_of))
        complain("folder " from " is not in order.txt")
    begin = 0
}
{ length_now = FNR }
/^[ \t]*#[ \t]*include[ \t]+"/ {
    split($0, quoted, "\"")
    if (quoted[2] == "rueda.h")
        next
    if (split(quoted[2], path, "/") < 2) {
        complain("write the folder: #include \"" from "/" quoted[2] "\"")
        next
    }
    to = path[1]
    if (!(to in level_of))
        complain("includes " quoted[2] ", whose folder is not in order.txt")
    else if (to != from && level_of[to] <= level_of[from])
        complain(from " includes " quoted[2] ", but " to " does not stand below it")
}
/^{$/ { begin = FNR }
/^}/ && begin {
    if (FNR - begin - 1 > FUNCTION_MAX)
        complain("a function of " FNR - begin - 1 " lines; at most " FUNCTION_MAX)
    begin = 0
}
END {
    check_length()
    exit failed
}'
