# What `cmake --install` puts where: the libraries and their public headers, the CMake package `trireme` (targets
# trireme::base, …), trireme.pc for pkg-config, the program, its bash completion, the documents.
# Nothing installed holds an absolute path, so the prefix can be moved.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TRIREME_LIBRARIES)
get_property(headers GLOBAL PROPERTY TRIREME_PUBLIC_HEADERS)
get_property(has_ucx GLOBAL PROPERTY TRIREME_HAS_UCX)
set(has_cuda ${TRIREME_HAS_CUDA})
list(TRANSFORM libraries PREPEND trireme_ OUTPUT_VARIABLE targets)
install(TARGETS ${targets} EXPORT trireme ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme)
install(TARGETS trireme_executable RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# find_package(trireme)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)
install(EXPORT trireme NAMESPACE trireme:: FILE trireme-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/trireme-config.cmake.in ${PROJECT_BINARY_DIR}/trireme-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/trireme-config.cmake ${PROJECT_BINARY_DIR}/trireme-config-version.cmake
  DESTINATION ${package_dir})

# pkg-config. The libraries were registered from the bottom of the layering table up; a linker wants users first.
set(pkgconfig_libs ${targets})
list(REVERSE pkgconfig_libs)
list(TRANSFORM pkgconfig_libs PREPEND "-l")
list(JOIN pkgconfig_libs " " pkgconfig_libs)
if(has_ucx)
  set(pkgconfig_ucx ucx)
endif()
if(has_cuda)
  find_package(CUDAToolkit REQUIRED)
  set(pkgconfig_cuda "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pkgconfig_to_prefix /prefix/${pkgconfig_dir} /prefix)
configure_file(cmake/trireme.pc.in ${PROJECT_BINARY_DIR}/trireme.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/trireme.pc DESTINATION ${pkgconfig_dir})

install(FILES tools/completion/trireme.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME trireme)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
