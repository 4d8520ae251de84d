# The Debian package: `cpack -G DEB` in the build folder of the preset `package` (./dev package does it, and tries the package). dpkg-dev
# finds the libraries it depends on.
set(debian_folder ${CMAKE_SOURCE_DIR}/packaging/debian)
find_program(MESHWRIGHT_DPKG_SHLIBDEPS dpkg-shlibdeps)

# A package of this version is the one that the changelog speaks of.
file(STRINGS ${debian_folder}/changelog first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^meshwright \\(${PROJECT_VERSION}\\) ")
  message(FATAL_ERROR "packaging/debian/changelog begins with '${first_line}'; give it an entry for version ${PROJECT_VERSION}.")
endif()
if(MESHWRIGHT_GZIP)
  set(changelog ${CMAKE_BINARY_DIR}/changelog.gz)
  execute_process(COMMAND ${MESHWRIGHT_GZIP} -9nc ${debian_folder}/changelog OUTPUT_FILE ${changelog} COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${changelog} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT debian)
endif()
install(FILES ${debian_folder}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT debian)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME meshwright)
set(CPACK_PACKAGE_VENDOR "The authors of Meshwright")
set(CPACK_PACKAGE_CONTACT "The authors of Meshwright <meshwright@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, explain, simulate and run the training of neural networks")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Meshwright finds the fastest way to train a neural network on a cluster of
accelerators. It cuts the training step into pipeline stages, gives each
stage a part of the cluster, decides how every tensor is split, and writes
the result as a plan. A simulator predicts the plan instruction by
instruction; an executor runs the same instructions on CPU threads and
measures them.
.
This package is built without CUDA and MPI.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# One package of the parts that belong in it.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL command debian)
include(CPack)
