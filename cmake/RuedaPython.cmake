# The Python package's compiled parts: the extension module, and the library, header and program that a
# wheel carries. Only where RUEDA_PYTHON is on (the wheel's build, see pyproject.toml).

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
file(GLOB NATIVE_SOURCES CONFIGURE_DEPENDS python/native/*.c)
add_library(rueda_native MODULE ${NATIVE_SOURCES})
target_link_libraries(rueda_native PRIVATE rueda)
target_include_directories(rueda_native SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
# CPython's slots hold functions as void *.
target_compile_options(rueda_native PRIVATE -Wno-pedantic)
set_target_properties(rueda_native PROPERTIES
    PREFIX "" OUTPUT_NAME _native SUFFIX .abi3.so INSTALL_RPATH "$ORIGIN/lib")
# TensorFlow's operations; TensorFlow itself is found when they are loaded.
file(GLOB TF_SOURCES CONFIGURE_DEPENDS python/native_tf/*.c)
add_library(rueda_tf MODULE ${TF_SOURCES})
target_link_libraries(rueda_tf PRIVATE rueda ${CMAKE_DL_LIBS})
set_target_properties(rueda_tf PROPERTIES OUTPUT_NAME rueda_tf INSTALL_RPATH "$ORIGIN/../lib")

# A wheel holds no links, so the library is one file, by the name that programs ask for.
set_target_properties(rueda PROPERTIES VERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN")

install(TARGETS rueda_native LIBRARY DESTINATION rueda COMPONENT python)
install(TARGETS rueda_tf LIBRARY DESTINATION rueda/tensorflow COMPONENT python)
install(TARGETS rueda LIBRARY DESTINATION rueda/lib COMPONENT python NAMELINK_SKIP)
install(FILES include/rueda.h DESTINATION rueda/include COMPONENT python)

# The program goes to the scripts as it is: it needs nothing beside it, and starts at once. With shared
# libraries to find it must lie in the package, and a script of the interpreter's goes there in its place.
if(DEFINED SKBUILD_SCRIPTS_DIR AND NOT RUEDA_BUNDLED)
    set(BESIDE_PROGRAMS ${SKBUILD_DATA_DIR})
    install(TARGETS rueda_program RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
elseif(DEFINED SKBUILD_SCRIPTS_DIR)
    message(STATUS "no archives of ${RUEDA_BUNDLED}: the wheel carries the shared libraries")
    set(BESIDE_PROGRAMS rueda)
    set_target_properties(rueda_program PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS rueda_program RUNTIME DESTINATION rueda/bin COMPONENT python)
    install(PROGRAMS cmake/rueda-script.py DESTINATION ${SKBUILD_SCRIPTS_DIR} RENAME rueda COMPONENT python)
    foreach(library ${RUEDA_BUNDLED})
        get_filename_component(library ${library} REALPATH)
        execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE headers)
        string(REGEX MATCH "SONAME +([^ \n]+)" found "${headers}")
        install(FILES ${library} DESTINATION rueda/lib RENAME ${CMAKE_MATCH_1} COMPONENT python)
    endforeach()
endif()

# Sources of the MPI plug-in, which is made where the MPI is: `rueda doctor --build-mpi`.
if(DEFINED BESIDE_PROGRAMS)
    install(DIRECTORY ${MPI_SOURCE_COPY} DESTINATION ${BESIDE_PROGRAMS}/share/rueda COMPONENT python)
endif()
