#!/bin/sh
# The program as a whole: help, version, doctor.
. "$(dirname "$0")/common.sh"

case_help_lists_commands() {
    expect 0 "$rueda" --help
    for command in run bench plan timeline doctor version; do
        grep -q "^  $command " out || fail "no $command"
    done
    expect 2 "$rueda"
    [ ! -s out ] || fail "help for nothing goes to stderr"
}

case_every_command_has_help() {
    for command in $("$rueda" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        expect 0 "$rueda" "$command" --help
        contains out "rueda $command"
        expect 2 "$rueda" "$command" --no-such-option
        one_line err
    done
}

case_unknown_command_gets_nearest() {
    expect 2 "$rueda" docter
    equal "$(cat err)" 'rueda: unknown command docter; did you mean rueda doctor?'
    expect 2 "$rueda" xyzzy
    equal "$(cat err)" 'rueda: unknown command xyzzy; see rueda --help'
}

case_version_is_that_of_the_file() {
    expect 0 "$rueda" version
    equal "$(cat out)" "rueda $TEST_VERSION"
    expect 0 "$rueda" --version
    equal "$(cat out)" "rueda $TEST_VERSION"
    expect 2 "$rueda" version now
    one_line err
}

case_doctor_finds_this_machine_fit() {
    expect 0 "$rueda" doctor
    grep -qE '^ok +shared memory' out || fail "no shared memory"
    ! grep -q '^broken' out || fail "something is broken"
    expect 0 "$rueda" doctor --json
    ! grep -qvE '^\{"check": ".*"(consequence)": (null|".*")\}$' out || fail "not an object a line"
    expect 2 "$rueda" doctor --markdown
    one_line err
}

case_doctor_reports_bad_settings() {
    RUEDA_CHANNELS=99 expect 1 "$rueda" doctor
    contains out 'RUEDA_CHANNELS=99'
    RUEDA_CHANNELS=99 expect 1 "$rueda" doctor --config
    one_line err
    contains err 'RUEDA_CHANNELS=99 is not valid: give a number from 1 to 16'
}

case_doctor_warns_about_unknown_variables() {
    RUEDA_FUSION_TRESHOLD=1 expect 0 "$rueda" doctor --config
    contains err 'RUEDA_FUSION_TRESHOLD means nothing; did you mean RUEDA_FUSION_THRESHOLD?'
}

case_doctor_shows_settings() {
    RUEDA_SLOT_BYTES=64K expect 0 "$rueda" doctor --config
    contains out 'RUEDA_SLOT_BYTES = 64K   (changed)'
    count=$(grep -c '^RUEDA_' out)
    expect 0 "$rueda" doctor --config --json
    equal "$(wc -l <out)" "$count"
    contains out '"name": "RUEDA_SLOT_BYTES", "value": "256K", "default": "256K"'
    expect 0 "$rueda" doctor --config --markdown
    equal "$(grep -c '^| `RUEDA_' out)" "$count"
}

case_page_does_not_depend_on_environment() {
    "$rueda" doctor --config --markdown >plain
    RUEDA_SLOT_BYTES=64K "$rueda" doctor --config --markdown | cmp - plain || fail "it does"
}

run_case "$1"
