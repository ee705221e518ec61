#!/bin/sh
# What a user of the installed library does. Every case installs into an empty folder of its own.
. "$(dirname "$0")/../cli/common.sh"

source=${TEST_SOURCE:?names the source tree}
build=${TEST_BUILD:?names the build folder}
header=$source/include/rueda.h
strict='-Wall -Wextra -Wpedantic -Werror'
export PREFIX="$work/prefix" DESTDIR=

install_all() {
    "$source/tools/install.sh" "$build" >installed || fail "make install"
}

# The example that opens the header, so that the comment stays true.
extract_example() {
    awk '/^ \*\// { exit }
         sub(/^ \*     /, "") { print; inside = 1; next }
         inside && /^ \*$/ { print "" }
         inside && /^ \* / { exit }' "$header" >"$1"
    grep -q rueda_allreduce "$1" || fail "no example in the header"
}

run_example() { # run_example PROGRAM: as the header promises
    LD_LIBRARY_PATH=$PREFIX/lib expect 0 "$PREFIX/bin/rueda" run -np 4 --timeout 40 "$1"
    for rank in 0 1 2 3; do
        contains out "[$rank]: rank $rank of 4: 6"
    done
}

case_program_builds_with_pkg_config() {
    install_all
    extract_example sum.c
    PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2046,SC2086
    expect 0 "$CC" -std=c11 $strict sum.c $(pkg-config --cflags --libs rueda)
    equal "$(pkg-config --modversion rueda)" "$(cat "$source/VERSION")"
    run_example ./a.out
}

case_program_builds_with_cmake() {
    install_all
    mkdir user
    extract_example user/sum.c
    cat >user/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(rueda $(cut -d . -f 1,2 "$source/VERSION") REQUIRED)
add_executable(sum sum.c)
target_link_libraries(sum rueda::rueda)
END
    expect 0 cmake -S user -B user/build -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_C_COMPILER="$CC"
    expect 0 cmake --build user/build
    run_example user/build/sum
}

case_library_has_its_soname() {
    install_all
    major=$(cut -d . -f 1 "$source/VERSION")
    objdump -p "$PREFIX/lib/librueda.so" >out
    grep -qE "SONAME +librueda\.so\.$major\$" out || fail "soname"
    [ -L "$PREFIX/lib/librueda.so.$major" ] || fail "no librueda.so.$major"
}

case_library_exports_the_header_and_nothing_else() {
    sed -n 's/^RUEDA_API .*[ *]\(rueda_[a-z_]*\)(.*/\1/p' "$header" | sort >declared
    nm -D --defined-only "$build/librueda.so" | awk '{ print $3 }' | sort >exported
    diff declared exported >out || fail "declared (<) and exported (>) differ"
}

# A call that is bound at its first use would leave on the stack what of a key is in registers.
case_calls_are_bound_at_the_start() {
    for file in librueda.so rueda; do
        readelf -d "$build/$file" >out
        contains out 'BIND_NOW'
    done
}

case_header_works_in_cpp() {
    command -v c++ >/dev/null || { echo "no C++ compiler" && exit 77; }
    for standard in c++11 c++17 c++20; do
        # shellcheck disable=SC2086
        expect 0 c++ -std=$standard $strict -I"$source/include" -fsyntax-only -x c++ \
            "$source/tests/install/macros.c"
    done
}

case_every_macro_of_the_header_expands() {
    for macro in $(sed -n 's/^#define \(RUEDA_[A-Z_0-9]*\).*/\1/p' "$header"); do
        grep -qw "$macro" "$source/tests/install/macros.c" || fail "macros.c does not use $macro"
    done
    for standard in c11 c17; do
        # shellcheck disable=SC2086
        expect 0 "$CC" -std=$standard $strict -I"$source/include" -fsyntax-only \
            "$source/tests/install/macros.c"
    done
}

case_uninstall_leaves_nothing() {
    install_all
    "$source/tools/uninstall.sh" >out 2>err || fail "make uninstall"
    [ ! -e "$PREFIX" ] || fail "left: $(find "$PREFIX")"
    expect 1 "$source/tools/uninstall.sh"
    one_line err
}

case_uninstall_spares_what_was_there() {
    mkdir -p "$PREFIX/lib/pkgconfig" "$PREFIX/share"
    echo mine >"$PREFIX/lib/other.so"
    find "$PREFIX" | sort >before
    install_all
    install_all # over itself
    echo later >"$PREFIX/bin/other"
    "$source/tools/uninstall.sh" >out 2>err || fail "make uninstall"
    rm "$PREFIX/bin/other"
    rmdir "$PREFIX/bin"
    find "$PREFIX" | sort | diff before - >out || fail "not as before"
}

case_staged_installation_can_be_moved() {
    export DESTDIR="$work/stage"
    PREFIX=/opt/rueda install_all
    [ -x "$work/stage/opt/rueda/bin/rueda" ] || fail "not below DESTDIR"
    mv "$work/stage/opt/rueda" "$work/moved"
    PKG_CONFIG_PATH=$work/moved/lib/pkgconfig pkg-config --cflags rueda >out
    grep -q "$work/moved/" out || fail "pkg-config points elsewhere"
    ! grep -rqF "$work/stage" "$work/moved/lib/cmake" "$work/moved/lib/pkgconfig" ||
        fail "a file names the stage"
}

run_case "$1"
