# rdma++, the C++ API of include/rdma++: headers only. In this build and, after `cmake --install`,
# in others the target rdma::rdma++; for the rest of the world rdma++.pc.

include(CMakePackageConfigHelpers)
pkg_check_modules(RDMAPP_VERBS REQUIRED IMPORTED_TARGET libibverbs librdmacm)

add_library(rdma++ INTERFACE)
add_library(rdma::rdma++ ALIAS rdma++)
target_include_directories(rdma++ INTERFACE "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>"
                                            "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(rdma++ INTERFACE cxx_std_20)
target_link_libraries(rdma++ INTERFACE PkgConfig::RDMAPP_VERBS Threads::Threads)

set(folder "${CMAKE_INSTALL_DATADIR}/cmake/rdma++") # the same for every architecture
install(DIRECTORY include/rdma++ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING
        PATTERN "*.h")
install(TARGETS rdma++ EXPORT rdma++)
install(EXPORT rdma++ FILE rdma++-targets.cmake NAMESPACE rdma:: DESTINATION "${folder}")
configure_package_config_file(cmake/rdma++-config.cmake.in rdma++-config.cmake
                              INSTALL_DESTINATION "${folder}")
write_basic_package_version_file(rdma++-config-version.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/rdma++-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/rdma++-config-version.cmake" DESTINATION "${folder}")

# The file names its prefix relative to itself, so that an installed tree can be moved.
file(RELATIVE_PATH RDMAPP_PREFIX_FROM_PC "/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/")
configure_file(cmake/rdma++.pc.in rdma++.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/rdma++.pc"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
