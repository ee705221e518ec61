# Compiler flags of every target, and the check that the header and VERSION agree.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-Og -g")

# No contraction: the plain and the vectorised kernels must agree to the bit.
add_compile_options(-Wall -Wextra -Wpedantic -ffp-contract=off)
add_compile_definitions(_GNU_SOURCE)
if(RUEDA_WERROR)
    add_compile_options(-Werror)
endif()

# All calls are bound at the start. One that is bound at its first use saves the vector registers on the stack, and
# the key that was copied just before may still be in them: a core dump would show it.
add_link_options(-Wl,-z,relro,-z,now)

if(RUEDA_SANITIZE)
    add_compile_options(-fsanitize=${RUEDA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${RUEDA_SANITIZE})
    # GCC's ThreadSanitizer does not model fences and says so at each one.
    if(RUEDA_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL GNU)
        add_compile_options(-Wno-tsan)
    endif()
endif()

file(STRINGS include/rueda.h HEADER_VERSION REGEX "^#define RUEDA_VERSION_(MAJOR|MINOR|PATCH) ")
list(TRANSFORM HEADER_VERSION REPLACE ".* ([0-9]+)$" "\\1")
list(JOIN HEADER_VERSION "." HEADER_VERSION)
if(NOT HEADER_VERSION STREQUAL PROJECT_VERSION)
    message(FATAL_ERROR "include/rueda.h says ${HEADER_VERSION}, VERSION says ${PROJECT_VERSION}: make them agree")
endif()
