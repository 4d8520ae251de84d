# mw_embed(TARGET HEADER NAME FILE): defines `kNAME`, which HEADER declares, as the text of FILE. A string literal may hold 64 KiB at
# the least, so that a text is a list of literals of 8 KiB, which the compiler joins; clang warns of the whole, which it can hold.
function(mw_embed target header name file)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
  file(READ ${CMAKE_SOURCE_DIR}/${file} text)
  string(LENGTH "${text}" length)
  set(literals "")
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${text}" ${begin} 8192 piece)
    string(APPEND literals "R\"embedded(${piece})embedded\"\n")
    math(EXPR begin "${begin} + 8192")
  endwhile()
  set(source ${CMAKE_BINARY_DIR}/embedded/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
       "#include \"${header}\"\nnamespace meshwright {\nconst std::string_view k${name} = @literals@;\n}\n")
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
                              COMPILE_OPTIONS -Wno-overlength-strings)
endfunction()
