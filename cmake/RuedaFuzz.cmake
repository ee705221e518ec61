# Fuzzers: programs that feed parsers with bytes from outside whatever libFuzzer comes up with, under
# AddressSanitizer and UndefinedBehaviorSanitizer. As tests they run RUEDA_FUZZ_SECONDS each, from the
# same seed, and RUEDA_FUZZ_LONG_SECONDS from any in `make test-long`; for hours, run one from the build's
# tests/fuzz/ with the folder of a corpus.
#
# libFuzzer is clang's, so fuzzers are built by clang whatever builds the rest.

set(RUEDA_FUZZ_SECONDS 3 CACHE STRING "Seconds each fuzzer runs as a test")
set(RUEDA_FUZZ_LONG_SECONDS 300 CACHE STRING "Seconds each fuzzer runs as a long test")
set(RUEDA_FUZZ_FLAGS -std=c11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)

# Sets RUEDA_FUZZ_CLANG (kept) when there is a clang that can do it, otherwise says what is missing.
function(rueda_find_fuzzer)
    find_program(clang NAMES clang NO_CACHE)
    set(probe ${PROJECT_BINARY_DIR}/fuzz_probe)
    set(found 1)
    if(clang)
        file(WRITE ${probe}.c "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n && 0; }\n")
        execute_process(COMMAND ${clang} ${RUEDA_FUZZ_FLAGS} ${probe}.c -o ${probe}
            RESULT_VARIABLE found OUTPUT_QUIET ERROR_QUIET)
    endif()
    if(found EQUAL 0)
        set(RUEDA_FUZZ_CLANG ${clang} CACHE FILEPATH "The clang that builds fuzzers")
    else()
        message(STATUS "clang with libFuzzer (packages clang, libclang-rt-dev) is not installed: no fuzzers")
    endif()
endfunction()

if(NOT RUEDA_FUZZ_CLANG)
    rueda_find_fuzzer()
endif()

# rueda_add_fuzzer(NAME SOURCE... [LIBRARIES library...] [SEEDS file...]): NAME.c in the calling folder
# has LLVMFuzzerTestOneInput; the sources (relative to src/) are what it needs of the library; it starts
# from the seeds. Registered as the test NAME with label fuzz.
function(rueda_add_fuzzer name)
    cmake_parse_arguments(arg "" "" "LIBRARIES;SEEDS" ${ARGN})
    if(NOT RUEDA_FUZZ_CLANG)
        return()
    endif()
    set(program ${CMAKE_CURRENT_BINARY_DIR}/${name})
    set(sources ${arg_UNPARSED_ARGUMENTS})
    list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/src/)
    list(PREPEND sources ${CMAKE_CURRENT_SOURCE_DIR}/${name}.c)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.h)
    add_custom_command(OUTPUT ${program} DEPENDS ${sources} ${headers} VERBATIM
        COMMENT "Building fuzzer ${name}"
        COMMAND ${RUEDA_FUZZ_CLANG} ${RUEDA_FUZZ_FLAGS} -Wall -Wextra -I${PROJECT_SOURCE_DIR}/src
            -I${PROJECT_SOURCE_DIR}/include -isystem ${SODIUM_INCLUDE} ${sources} ${arg_LIBRARIES} -lm -pthread -o ${program})
    add_custom_target(build_${name} ALL DEPENDS ${program})
    set(start)
    if(arg_SEEDS)
        list(JOIN arg_SEEDS "," seeds)
        file(WRITE ${program}.seeds "${seeds}")
        set(start -seed_inputs=@${program}.seeds)
    endif()
    set(fuzz ${program} -timeout=10 -rss_limit_mb=1024 -error_exitcode=1 -verbosity=0 ${start})
    math(EXPR limit "${RUEDA_FUZZ_SECONDS} + 60")
    rueda_test(NAME ${name} TIMEOUT ${limit} LABELS fuzz
        COMMAND ${fuzz} -seed=1 -max_total_time=${RUEDA_FUZZ_SECONDS})
    math(EXPR limit "${RUEDA_FUZZ_LONG_SECONDS} + 60")
    rueda_test(NAME ${name}.long TIMEOUT ${limit} LABELS fuzz long
        COMMAND ${fuzz} -max_total_time=${RUEDA_FUZZ_LONG_SECONDS})
endfunction()
