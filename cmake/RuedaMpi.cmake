# The MPI plug-ins: librueda-mpi-FLAVOUR.so for each MPI whose mpicc is found, built by that mpicc. The
# sources are installed, too, so that `rueda doctor --build-mpi` can do the same for another MPI.

set(MPI_PLUGIN_DIR ${PROJECT_SOURCE_DIR}/src/transport/mpi)
file(GLOB MPI_PLUGIN_SOURCES CONFIGURE_DEPENDS ${MPI_PLUGIN_DIR}/plugin/*.c)
file(GLOB MPI_PLUGIN_HEADERS CONFIGURE_DEPENDS ${MPI_PLUGIN_DIR}/plugin.h ${MPI_PLUGIN_DIR}/plugin/*.h)
set(RUEDA_MPI_FLAVOURS)

# "openmpi", "mpich" or "": what a compiler wrapper compiles for.
function(rueda_mpi_flavour mpicc result)
    execute_process(COMMAND ${mpicc} -E -dM -include mpi.h -x c /dev/null
        OUTPUT_VARIABLE macros ERROR_QUIET)
    set(flavour)
    if(macros MATCHES "#define OPEN_MPI ")
        set(flavour openmpi)
    elseif(macros MATCHES "#define (MPICH_VERSION|MPICH|I_MPI_VERSION) ")
        set(flavour mpich)
    endif()
    set(${result} "${flavour}" PARENT_SCOPE)
endfunction()

foreach(name mpicc.openmpi mpicc.mpich mpicc)
    string(MAKE_C_IDENTIFIER RUEDA_${name} variable)
    find_program(${variable} ${name})
    if(NOT ${variable})
        continue()
    endif()
    rueda_mpi_flavour(${${variable}} flavour)
    if(NOT flavour OR flavour IN_LIST RUEDA_MPI_FLAVOURS)
        continue()
    endif()
    list(APPEND RUEDA_MPI_FLAVOURS ${flavour})
    set(RUEDA_MPICC_FOR_${flavour} ${${variable}})
    string(REGEX REPLACE "mpicc([^/]*)$" "mpirun\\1" RUEDA_MPIRUN_FOR_${flavour} ${${variable}})
    set(plugin ${PROJECT_BINARY_DIR}/librueda-mpi-${flavour}.so)
    add_custom_command(OUTPUT ${plugin}
        COMMAND ${${variable}} -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -fPIC -shared -fvisibility=hidden
            "-DRUEDA_PLUGIN_VERSION=\"${PROJECT_VERSION}\"" -I${PROJECT_SOURCE_DIR}/include
            -I${PROJECT_SOURCE_DIR}/src ${MPI_PLUGIN_SOURCES} -o ${plugin}
        DEPENDS ${MPI_PLUGIN_SOURCES} ${MPI_PLUGIN_HEADERS} ${PROJECT_SOURCE_DIR}/include/rueda.h
        COMMENT "Building librueda-mpi-${flavour}.so" VERBATIM)
    add_custom_target(rueda_mpi_${flavour} ALL DEPENDS ${plugin})
    install(FILES ${plugin} DESTINATION ${CMAKE_INSTALL_LIBDIR}/rueda)
endforeach()
# For tests, which run on one machine: other tests make and remove network interfaces meanwhile, and MPI
# does not start where one that it has seen is gone.
set(RUEDA_MPI_TEST_ENVIRONMENT RUEDA_MPI_PLUGIN=${PROJECT_BINARY_DIR} UCX_NET_DEVICES=lo
    OMPI_MCA_btl_tcp_if_include=lo ASAN_OPTIONS=detect_leaks=0)
if(NOT RUEDA_MPI_FLAVOURS)
    message(STATUS "no mpicc (packages libopenmpi-dev, libmpich-dev) is installed: no MPI plug-in")
endif()

# Where the program that is built looks for them.
set(MPI_SOURCE_COPY ${PROJECT_BINARY_DIR}/share/rueda/mpi)
foreach(file ${MPI_PLUGIN_SOURCES} ${MPI_PLUGIN_HEADERS})
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/src ${file})
    configure_file(${file} ${MPI_SOURCE_COPY}/${path} COPYONLY)
endforeach()
configure_file(include/rueda.h ${MPI_SOURCE_COPY}/rueda.h COPYONLY)

install(FILES ${MPI_PLUGIN_DIR}/plugin.h
    DESTINATION ${CMAKE_INSTALL_DATADIR}/rueda/mpi/transport/mpi)
install(FILES ${MPI_PLUGIN_SOURCES} ${MPI_PLUGIN_DIR}/plugin/world.h
    DESTINATION ${CMAKE_INSTALL_DATADIR}/rueda/mpi/transport/mpi/plugin)
install(FILES include/rueda.h DESTINATION ${CMAKE_INSTALL_DATADIR}/rueda/mpi)
