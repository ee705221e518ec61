# Job files need libyaml; without it everything else still builds, and `rueda run job.yaml` says so.
# The library rueda_jobs is what the program, the tests and the fuzzer of the parser share.

find_path(YAML_INCLUDE yaml.h)
find_library(YAML_LIBRARY yaml)
if(YAML_INCLUDE AND YAML_LIBRARY)
    file(GLOB JOB_SOURCES CONFIGURE_DEPENDS src/cli/job/*.c)
    list(FILTER JOB_SOURCES EXCLUDE REGEX "_test\\.c$")
    add_library(rueda_jobs STATIC ${JOB_SOURCES})
    target_include_directories(rueda_jobs SYSTEM PRIVATE ${YAML_INCLUDE})
    target_link_libraries(rueda_jobs PUBLIC rueda_internal ${YAML_LIBRARY})
    target_link_libraries(rueda_program PRIVATE rueda_jobs)
    target_compile_definitions(rueda_program PRIVATE RUEDA_JOB_FILES)
else()
    message(STATUS "libyaml (package libyaml-dev) is not installed: no job files")
endif()
