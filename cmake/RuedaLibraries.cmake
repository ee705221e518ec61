# Libraries of others. A wheel runs where they are not installed, so it takes them in: as archives where
# those can become a part of a shared library, otherwise as the shared libraries themselves, which are then
# in RUEDA_BUNDLED and are installed beside ours (see RuedaPython).

set(RUEDA_BUNDLED)
option(RUEDA_ARCHIVES "Let a wheel take other libraries in as archives where it can" ON)

# Whether all of an archive can become a part of a library that, as ours, keeps its names to itself; or, for
# one that the program alone uses, a part of a program.
function(rueda_fits archive result for)
    if(DEFINED ${result})
        return()
    endif()
    set(options -Wl,--whole-archive ${archive} -Wl,--no-whole-archive -lm)
    if(NOT for STREQUAL "PROGRAM")
        list(PREPEND options -shared -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/rueda.map -Wl,-z,text)
    endif()
    file(WRITE ${PROJECT_BINARY_DIR}/nothing.c "int main(void) { return 0; }\n")
    try_compile(${result} ${PROJECT_BINARY_DIR}/fits SOURCES ${PROJECT_BINARY_DIR}/nothing.c
        LINK_OPTIONS ${options})
endfunction()

# rueda_find_library(VARIABLE name [PROGRAM]): sets it as find_library does. PROGRAM: the program alone uses it.
macro(rueda_find_library variable name)
    if(RUEDA_PYTHON AND RUEDA_ARCHIVES)
        find_library(${variable}_ARCHIVE lib${name}.a)
        if(${variable}_ARCHIVE)
            rueda_fits(${${variable}_ARCHIVE} ${variable}_FITS "${ARGN}")
        endif()
    endif()
    if(${variable}_FITS)
        set(${variable} ${${variable}_ARCHIVE})
    else()
        find_library(${variable} ${name})
        if(RUEDA_PYTHON AND ${variable})
            list(APPEND RUEDA_BUNDLED ${${variable}})
        endif()
    endif()
endmacro()
