# Install rules and the relocatable package: find_package(headrace) gives headrace::headrace.
include(CMakePackageConfigHelpers)

install(TARGETS headrace headrace_third_party EXPORT headrace_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/headrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET headrace_cli)
  install(TARGETS headrace_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE THIRD_PARTY_NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)
install(EXPORT headrace_targets NAMESPACE headrace:: FILE headrace-targets.cmake
  DESTINATION ${package_dir})
configure_package_config_file(cmake/headrace-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/headrace-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/headrace-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headrace-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/headrace-config-version.cmake DESTINATION ${package_dir})
