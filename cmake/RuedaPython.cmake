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

install(TARGETS rueda_native LIBRARY DESTINATION rueda COMPONENT python)
install(TARGETS rueda LIBRARY DESTINATION rueda/lib COMPONENT python NAMELINK_SKIP)
install(FILES include/rueda.h DESTINATION rueda/include COMPONENT python)
if(DEFINED SKBUILD_SCRIPTS_DIR)
    install(TARGETS rueda_program RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()
