# Tests register themselves. A file x_test.c beside the code or in tests/<folder>/ becomes the ctest
# test x_test. A comment in it may say more:
#
#     /* ctest: threads timeout=300 ranks=1,2,4 */
#
# timeout=N   seconds until the test counts as hung (default 120)
# ranks=A,B   run under `rueda run -np`, once for each number of ranks, as x_test.np2
# threads     a label, as below
#
# A folder tests/<folder>/ with a CMakeLists.txt registers its tests there instead. Folders are
# labels, so `ctest -L plan` and `ctest -L cli` work. Exit code 77 means skipped.
#
# Other labels say in which tiers a test runs; the test presets in CMakePresets.json choose by them:
#
# threads     also with ThreadSanitizer
# again       a test in one more form, which runs no other code: not with sanitizers
# not_asan    another form of it, or another test, runs the same code with AddressSanitizer
# long        takes minutes: only by `make test-long`
# waits       mostly sleeps: two of them share a processor

# Only the tests need cmocka; without it the library and the program still build.
find_path(CMOCKA_INCLUDE cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)

set(RUEDA_TEST_TIMEOUT 120)
set(RUEDA_TEST_SKIPPED 77)

# rueda_test(NAME name [TIMEOUT seconds] [RANKS n] LABELS label... COMMAND command...)
# Processors are counted in halves: tools/test.sh gives ctest two jobs for each. What may take long
# starts first, so that nothing is left for the end.
function(rueda_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT;RANKS" "LABELS;COMMAND" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT ${RUEDA_TEST_TIMEOUT})
    endif()
    if(NOT arg_RANKS)
        set(arg_RANKS 1)
    endif()
    math(EXPR halves "2 * ${arg_RANKS}")
    if(waits IN_LIST arg_LABELS)
        set(halves 1)
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
        PROCESSORS ${halves} COST ${arg_TIMEOUT} SKIP_RETURN_CODE ${RUEDA_TEST_SKIPPED} ENVIRONMENT
        "TEST_PROGRAM=$<TARGET_FILE:rueda_program>;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=halt_on_error=1")
endfunction()

# Reads the `ctest:` comment of a test into <prefix>_TIMEOUT, _RANKS and _LABELS.
function(rueda_read_test_comment source prefix)
    file(STRINGS ${source} line REGEX "ctest:" LIMIT_COUNT 1)
    string(REGEX REPLACE ".*ctest:(.*)" "\\1" line "${line}")
    string(REGEX MATCH "timeout=([0-9]+)" found "${line}")
    set(${prefix}_TIMEOUT "${CMAKE_MATCH_1}" PARENT_SCOPE)
    string(REGEX MATCH "ranks=([0-9,]+)" found "${line}")
    string(REPLACE "," ";" ranks "${CMAKE_MATCH_1}")
    set(${prefix}_RANKS "${ranks}" PARENT_SCOPE)
    string(REGEX MATCHALL "threads|waits|not_asan" labels "${line}")
    set(${prefix}_LABELS "${labels}" PARENT_SCOPE)
endfunction()

# One executable from one *_test.c, registered as its comment says.
function(rueda_add_test_file source)
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    add_executable(${name} ${source})
    target_compile_options(${name} PRIVATE -UNDEBUG)
    target_include_directories(${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE} ${JANSSON_INCLUDE})
    if(source MATCHES "/src/(world/)?sim/")
        target_link_libraries(${name} PRIVATE rueda_simulated ${CMOCKA_LIBRARY})
    else()
        target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:rueda_jobs> rueda_internal
            ${CMOCKA_LIBRARY} ${JANSSON_LIBRARY})
    endif()
    rueda_read_test_comment(${source} comment)
    if(threads IN_LIST comment_LABELS)
        add_dependencies(threads_tests ${name})
    endif()
    set(common TIMEOUT "${comment_TIMEOUT}" LABELS ${folder} ${comment_LABELS})
    if(NOT comment_RANKS)
        rueda_test(NAME ${name} ${common} COMMAND ${name})
    endif()
    foreach(ranks ${comment_RANKS})
        rueda_test(NAME ${name}.np${ranks} ${common} RANKS ${ranks}
            COMMAND rueda_program run -np ${ranks} $<TARGET_FILE:${name}>)
    endforeach()
endfunction()

# In this program the calls that tests/faults/fail_nth.c lists go there instead of to the system.
function(rueda_let_calls_fail target)
    set(list ${PROJECT_SOURCE_DIR}/tests/faults/fail_nth.c)
    target_sources(${target} PRIVATE ${list})
    file(STRINGS ${list} wrapped REGEX "^(CAN_FAIL|int __wrap_|long __wrap_).*[(]")
    foreach(line ${wrapped})
        string(REGEX REPLACE "^.*(__wrap_|CAN_FAIL[A-Z_]*[(][^,]*, )([a-z0-9_]+).*$" "\\2" call "${line}")
        target_link_options(${target} PRIVATE -Wl,--wrap=${call})
    endforeach()
endfunction()

function(rueda_add_all_tests)
    add_custom_target(threads_tests) # what the tier with ThreadSanitizer needs
    add_dependencies(threads_tests rueda_program)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*_test.c)
    if(NOT TARGET rueda_jobs)
        list(FILTER sources EXCLUDE REGEX "/cli/(job_file|submit)/")
    endif()
    if(NOT TARGET rueda_simulated)
        list(FILTER sources EXCLUDE REGEX "/src/(world/)?sim/")
    endif()
    file(GLOB folders CONFIGURE_DEPENDS tests/*)
    foreach(folder ${folders})
        if(EXISTS ${folder}/CMakeLists.txt)
            add_subdirectory(${folder})
        else()
            file(GLOB here CONFIGURE_DEPENDS ${folder}/*_test.c)
            list(APPEND sources ${here})
        endif()
    endforeach()
    if(NOT CMOCKA_INCLUDE OR NOT CMOCKA_LIBRARY)
        message(STATUS "cmocka (package libcmocka-dev) is not installed: no tests written in C")
        return()
    endif()
    foreach(source ${sources})
        rueda_add_test_file(${source})
    endforeach()
endfunction()
