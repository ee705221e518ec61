# What is installed: program, library, header, and how pkg-config and CMake find them. All paths are
# relative to the files themselves, so an installed tree may be moved.

include(CMakePackageConfigHelpers)
set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rueda)

file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/rueda.pc.in rueda.pc @ONLY)
configure_package_config_file(cmake/rueda-config.cmake.in rueda-config.cmake
    INSTALL_DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(rueda-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS rueda EXPORT rueda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET rueda_sim)
    install(TARGETS rueda_sim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS rueda_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/rueda.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/rueda)
install(FILES ${PROJECT_BINARY_DIR}/rueda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT rueda NAMESPACE rueda:: FILE rueda-targets.cmake DESTINATION ${PACKAGE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/rueda-config.cmake
    ${PROJECT_BINARY_DIR}/rueda-config-version.cmake DESTINATION ${PACKAGE_DIR})
