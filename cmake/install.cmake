# What `cmake --install` puts where: the command, its manual pages and completions, which the command writes itself from the texts of
# --help, and the licence.
include(GNUInstallDirs)

find_program(MESHWRIGHT_GZIP gzip)
set(manual_folder ${CMAKE_BINARY_DIR}/manual)
set(manual_stamp ${CMAKE_BINARY_DIR}/manual.stamp)
# -n: no name and no time in the file, so that the same pages are the same bytes.
set(compress_pages COMMAND ${CMAKE_COMMAND} -E true)
if(MESHWRIGHT_GZIP)
  set(compress_pages COMMAND sh -c "${MESHWRIGHT_GZIP} -9nf ${manual_folder}/man/man1/*.1")
endif()
add_custom_command(
  OUTPUT ${manual_stamp}
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual_folder}
  COMMAND ${CMAKE_COMMAND} -E env CUDA_VISIBLE_DEVICES= $<TARGET_FILE:meshwright> manual ${manual_folder} > ${manual_stamp}.list
  ${compress_pages}
  COMMAND ${CMAKE_COMMAND} -E touch ${manual_stamp}
  DEPENDS meshwright VERBATIM COMMENT "Writing the manual pages and completions")
add_custom_target(manual ALL DEPENDS ${manual_stamp})

install(TARGETS meshwright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
foreach(folder man bash-completion zsh fish)
  install(DIRECTORY ${manual_folder}/${folder} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT command)
endforeach()
# A Debian package has the licences' texts elsewhere, and says where.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
include(cmake/deb.cmake)
include(cmake/python.cmake)
