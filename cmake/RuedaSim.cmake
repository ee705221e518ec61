# The simulated world: the library once more, compiled for it (see src/world/world.h), and the program that lets
# jobs live in it (src/sim). `rueda sim` finds the program beside itself.

set(SIM_SOURCES ${SOURCES})
list(FILTER SIM_SOURCES EXCLUDE REGEX "/src/world/linux/")
file(GLOB SIM_WORLD CONFIGURE_DEPENDS src/world/sim/*.c)
list(FILTER SIM_WORLD EXCLUDE REGEX "_test\\.c$")
add_library(rueda_simulated STATIC ${SIM_SOURCES} ${SIM_WORLD})
target_compile_definitions(rueda_simulated PUBLIC RUEDA_SIMULATED)
target_include_directories(rueda_simulated PUBLIC include src)
target_include_directories(rueda_simulated SYSTEM PUBLIC ${SODIUM_INCLUDE})
target_link_libraries(rueda_simulated PUBLIC Threads::Threads ${SODIUM_LIBRARY} m ${CMAKE_DL_LIBS})

# What the library asks the system for is counted for each simulated process; src/world/sim/memory.c has the other ends.
set(SIM_WRAPPED malloc calloc realloc free strdup strndup posix_memalign aligned_alloc mmap munmap memfd_create ftruncate
    fallocate close dup crypto_aead_aes256gcm_is_available)
list(TRANSFORM SIM_WRAPPED PREPEND -Wl,--wrap=)
target_link_options(rueda_simulated PUBLIC ${SIM_WRAPPED})

file(GLOB SIM_PROGRAM CONFIGURE_DEPENDS src/sim/*.c)
list(FILTER SIM_PROGRAM EXCLUDE REGEX "_test\\.c$")
add_executable(rueda_sim ${SIM_PROGRAM} src/cli/options.c)
target_link_libraries(rueda_sim PRIVATE rueda_simulated)
set_target_properties(rueda_sim PROPERTIES OUTPUT_NAME rueda-sim)
