#!/bin/sh
# mpi_cases.sh: programs under mpirun, and what is said when something is wrong. TEST_FLAVOUR says which
# MPI; `mpi_cases.sh NAME` runs one case.
. "$(dirname "$0")/../cli/common.sh"

program=$TEST_MPI_PROGRAMS/mpi_program_$TEST_FLAVOUR
other=openmpi
[ "$TEST_FLAVOUR" = mpich ] || other=mpich

# mpirun_of FLAVOUR RANKS COMMAND...
mpirun_of() {
    flavour=$1
    ranks=$2
    shift 2
    eval "mpirun=\$TEST_MPIRUN_$flavour"
    [ -x "$mpirun" ] || { echo "no mpirun of $flavour" && exit 77; }
    if [ "$flavour" = openmpi ]; then
        set -- --allow-run-as-root --oversubscribe -bind-to none -np "$ranks" "$@"
    else
        set -- -np "$ranks" "$@"
    fi
    "$mpirun" "$@"
}

oks() { # oks COUNT: so many ranks went well; mpirun may put their words into one line
    equal "$(grep -o went-well out | wc -l)" "$1"
}

# refusals COUNT TEXT: so many ranks say this, in one line each
refusals() {
    oks "$1"
    equal "$(grep -cF -e "$2" err)" "$1"
}

make_plugin() { # make_plugin VERSION FOLDER WORDS...
    version=$1
    folder=$2
    shift 2
    mkdir -p "$folder"
    "$TEST_MPICC" -std=c11 -D_GNU_SOURCE -fPIC -shared "-DRUEDA_PLUGIN_VERSION=\"$version\"" \
        -I"$TEST_SOURCE/include" -I"$TEST_SOURCE/src" "$TEST_SOURCE"/src/transport/mpi/plugin/*.c \
        -o "$folder/librueda-mpi-$TEST_FLAVOUR.so" "$@" || fail "no plug-in"
}

case_init_and_shutdown_repeat_under_mpirun() {
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 3 "$program" plain
    oks 3
}

# MPI moves the data, and nobody would encrypt it.
case_encryption_is_refused_over_mpi() {
    export RUEDA_TRANSPORT=mpi RUEDA_ENCRYPT=1
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" refused RUEDA_TRANSPORT=tcp
    oks 2
}

case_one_host_needs_no_mpi() {
    RUEDA_MPI_PLUGIN=$work expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" plain
    oks 2
}

# Hosts are made up: the plug-in is found and used by itself, and brings the key.
case_several_hosts_choose_mpi_by_themselves() {
    cat >host.sh <<'END'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}
RUEDA_HOST=host$((rank / 2)) RUEDA_LOG_LEVEL=info exec "$@"
END
    expect 0 mpirun_of "$TEST_FLAVOUR" 3 sh host.sh "$program" plain
    oks 3
    contains err 'MPI: '
}

case_the_application_uses_mpi_beside_us() {
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" beside
    oks 2
}

case_communicators_are_jobs() {
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 3 "$program" communicators
    oks 3
    unset RUEDA_TRANSPORT # by memory, then
    expect 0 mpirun_of "$TEST_FLAVOUR" 3 "$program" communicators
    oks 3
}

case_a_single_thread_is_refused() {
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" single
    oks 2
}

case_a_finalised_mpi_is_refused() {
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" finalized
    oks 2
}

case_large_counts_go_in_parts() {
    plugin=$TEST_BUILD/librueda-mpi-$TEST_FLAVOUR.so
    expect 0 mpirun_of "$TEST_FLAVOUR" 3 "$program" parts "$plugin"
    oks 3
}

case_a_killed_rank_ends_the_job() {
    export RUEDA_TRANSPORT=mpi
    mpirun_of "$TEST_FLAVOUR" 3 "$program" killed >out 2>err && fail 'mpirun says that all is well'
    oks 0
}

case_no_plugin_is_said() {
    export RUEDA_TRANSPORT=mpi RUEDA_MPI_PLUGIN=$work
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" refused 'rueda doctor --build-mpi'
    refusals 2 "there is no plug-in librueda-mpi-$TEST_FLAVOUR.so"
}

case_a_plugin_of_another_version_is_said() {
    make_plugin 0.0.1 "$work/old"
    export RUEDA_TRANSPORT=mpi RUEDA_MPI_PLUGIN=$work/old
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" refused 'was made for rueda 0.0.1'
    refusals 2 'make it anew'
}

case_a_missing_library_is_said() {
    echo 'int missing(void) { return 0; }' | cc -shared -fPIC -x c -o libmissing.so -
    make_plugin "$(sed -n 1p "$TEST_SOURCE/VERSION")" "$work/broken" -Wl,--no-as-needed -L. -lmissing
    rm libmissing.so
    export RUEDA_TRANSPORT=mpi RUEDA_MPI_PLUGIN=$work/broken
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" refused 'cannot be loaded'
    refusals 2 libmissing.so
}

case_the_mpirun_of_another_mpi_is_said() {
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$other" 2 "$program" refused 'was started by the mpirun of'
    oks 2
}

case_two_mpis_in_one_process_are_said() {
    library=$(ldd "$TEST_BUILD/librueda-mpi-$other.so" | awk '/libmpi(ch)?\.so/ { print $3; exit }')
    [ -n "$library" ] || { echo "no $other" && exit 77; }
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" mixed "$library"
    oks 2
}

case_the_plugin_of_another_mpi_is_said() {
    [ -e "$TEST_BUILD/librueda-mpi-$other.so" ] || { echo "no $other" && exit 77; }
    mkdir only
    cp "$TEST_BUILD/librueda-mpi-$other.so" only
    export RUEDA_TRANSPORT=mpi RUEDA_MPI_PLUGIN=$work/only
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" refused 'there is only a plug-in for'
    oks 2
}

case_ranks_of_rueda_run_are_no_ranks_of_mpirun() {
    export RUEDA_TRANSPORT=mpi
    expect 0 "$rueda" run --no-prefix -np 2 "$program" refused 'were not started by mpirun'
    oks 2
}

case_rueda_run_calls_mpirun() {
    eval "mpirun=\$TEST_MPIRUN_$TEST_FLAVOUR"
    expect 0 "$rueda" run --mpi --mpirun "$mpirun" --no-prefix -np 2 -x RUEDA_TRANSPORT=mpi \
        "$program" plain
    oks 2
    expect 2 "$rueda" run --mpi --mpirun "$work/nowhere" -np 2 "$program" plain
    one_line err
    expect 2 "$rueda" run --mpirun mpirun -np 2 "$program" plain
    one_line err
}

# Two ranks that write pieces of lines in turn: whoever comes second finds the other's line unfinished.
case_pieces_of_lines_are_put_together() {
    eval "mpirun=\$TEST_MPIRUN_$TEST_FLAVOUR"
    [ -x "$mpirun" ] || { echo "no mpirun of $TEST_FLAVOUR" && exit 77; }
    mkfifo first second
    cat >talk.sh <<'END'
case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in
0) printf 'zero begins' && echo go >first && read -r word <second && echo ', ends' ;;
1) read -r word <first && printf 'one begins' && echo ', ends' && echo go >second && exit 7 ;;
esac
END
    expect 7 "$rueda" run --mpi --mpirun "$mpirun" -np 2 sh talk.sh
    equal "$(grep -cE '^[^ ]* ?(zero|one) begins, ends$' out)" 2
}

case_the_doctor_builds_the_plugin() {
    export HOME="$work" XDG_DATA_HOME=
    expect 0 "$rueda" doctor --build-mpi --mpicc "$TEST_MPICC"
    contains out "librueda-mpi-$TEST_FLAVOUR.so"
    unset RUEDA_MPI_PLUGIN
    export RUEDA_TRANSPORT=mpi
    expect 0 mpirun_of "$TEST_FLAVOUR" 2 "$program" plain
    oks 2
    expect 0 "$rueda" doctor
    contains out "$work/.local/share/rueda"
    expect 2 "$rueda" doctor --build-mpi --mpicc "$work/nowhere"
    one_line err
}

run_case "$1"
