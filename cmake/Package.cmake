# What programs are built against: headers, libraries, and the CMake package, in two layouts: below a prefix (components
# `cpp` and `embedded`), and inside of the Python package (component `python`).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(NEREID_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/nereid)
set(package_files ${PROJECT_SOURCE_DIR}/cmake/nereidAddKernels.cmake ${PROJECT_BINARY_DIR}/nereidConfigVersion.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nereidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
get_target_property(soversion nereid SOVERSION)
set(NEREID_SONAME libnereid.so.${soversion})
set(NEREID_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR})

# Below a prefix.
file(RELATIVE_PATH NEREID_ROOT /prefix/${NEREID_CMAKE_DIR} /prefix)
set(NEREID_LIBRARY ${CMAKE_INSTALL_LIBDIR}/${NEREID_SONAME})
set(NEREID_EMBEDDED_LIBRARY ${CMAKE_INSTALL_LIBDIR}/libnereid_embedded.a)
configure_file(cmake/nereidConfig.cmake.in ${PROJECT_BINARY_DIR}/package/nereidConfig.cmake @ONLY)
install(TARGETS nereid nereid_compiler_library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/nereid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp)
foreach(component cpp embedded)
  install(TARGETS nereid_embedded ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
  install(FILES ${package_files} ${PROJECT_BINARY_DIR}/package/nereidConfig.cmake DESTINATION ${NEREID_CMAKE_DIR}
          COMPONENT ${component})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/nereid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT embedded
        FILES_MATCHING PATTERN device.* PATTERN embedded.*)

# Inside of the Python package: `nereid --cmake-dir` prints the folder.
set(NEREID_ROOT ..)
set(NEREID_LIBRARY ${NEREID_SONAME})
set(NEREID_EMBEDDED_LIBRARY libnereid_embedded.a)
set(NEREID_INCLUDE include)
configure_file(cmake/nereidConfig.cmake.in ${PROJECT_BINARY_DIR}/wheel/nereidConfig.cmake @ONLY)
install(FILES $<TARGET_FILE:nereid_embedded> DESTINATION nereid COMPONENT python)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/nereid DESTINATION nereid/include COMPONENT python)
install(FILES ${package_files} ${PROJECT_BINARY_DIR}/wheel/nereidConfig.cmake DESTINATION nereid/cmake COMPONENT python)
