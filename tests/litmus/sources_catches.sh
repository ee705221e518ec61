#!/bin/sh
# sources_catches.sh: sources.sh says what has changed, and only that.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/src" "$scratch/tests/litmus"
cat >"$scratch/src/bell.c" <<'END'
void ring(int *bell); /* declared */
void ring(int *bell)
{
    /* why */
    os_wake(bell);
}
END
printf '/* a.c\n *\n * models src/bell.c ring 0\n */\n' >"$scratch/tests/litmus/a.c"

check() { # EXPECTED-STATUS WHY
    status=0
    said=$("$here/sources.sh" "$scratch") || status=$?
    [ "$status" = "$1" ] || { echo "$2: expected $1, was $status: $said" && exit 1; }
}

check 1 "a wrong sum"
"$here/sources.sh" --update "$scratch"
check 0 "a sum of today"
sed -i -e 's/os_wake(bell)/world_wake( bell )/' -e 's/why/because/' "$scratch/src/bell.c"
check 0 "another name for the same, white space and a comment"
sed -i 's/world_wake( bell )/world_wake(bell + 1)/' "$scratch/src/bell.c"
check 1 "a change"
case $said in
"ring has changed: read tests/litmus/a.c and bring it up to date"*) ;;
*) echo "said: $said" && exit 1 ;;
esac
sed -i 's/ring/toll/' "$scratch/src/bell.c"
check 1 "a function that is gone"
