# Job files need libyaml; without it everything else still builds, and `rueda run job.yaml` says so.
# The library rueda_jobs is what the program and the tests share.

include(RuedaEmbed)

find_path(YAML_INCLUDE yaml.h)
rueda_find_library(YAML_LIBRARY yaml PROGRAM)
if(YAML_INCLUDE AND YAML_LIBRARY)
    file(GLOB JOB_SOURCES CONFIGURE_DEPENDS src/cli/job_file/*.c src/cli/submit/*.c)
    list(FILTER JOB_SOURCES EXCLUDE REGEX "_test\\.c$|/absent\\.c$")
    file(GLOB TEMPLATES CONFIGURE_DEPENDS src/cli/submit/templates/*.in)
    rueda_embed(${PROJECT_BINARY_DIR}/templates.c template ${TEMPLATES})
    rueda_embed(${PROJECT_BINARY_DIR}/scripts.c script ${PROJECT_SOURCE_DIR}/src/cli/job_file/environment.py)
    add_library(rueda_jobs STATIC ${JOB_SOURCES} ${PROJECT_BINARY_DIR}/templates.c ${PROJECT_BINARY_DIR}/scripts.c)
    target_include_directories(rueda_jobs SYSTEM PRIVATE ${YAML_INCLUDE})
    target_link_libraries(rueda_jobs PUBLIC rueda_launch ${YAML_LIBRARY})
    target_link_libraries(rueda_program PRIVATE rueda_jobs)
else()
    message(STATUS "libyaml (package libyaml-dev) is not installed: no job files, no rueda submit")
    target_sources(rueda_program PRIVATE src/cli/job_file/absent.c)
endif()
