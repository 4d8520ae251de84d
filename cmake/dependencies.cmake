# What is built against. Everything comes from the distribution's packages; nothing is fetched while configuring.

# mw_find(fmt [version ...]): find_package, and where it fails one sentence that says what to do.
macro(mw_find package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found; run ./dev build, which installs what is missing, and see CONTRIBUTING.md for the "
                        "packages by name.")
  endif()
endmacro()

mw_find(fmt)
mw_find(nlohmann_json)
mw_find(CLI11)
mw_find(SQLite3)
mw_find(ZLIB)
mw_find(Threads)
mw_find(dnnl)

# Headers only; FindBoost has left CMake.
find_path(BOOST_INCLUDE boost/graph/dijkstra_shortest_paths.hpp)
if(NOT BOOST_INCLUDE)
  message(FATAL_ERROR "Boost's headers were not found; run ./dev build, which installs what is missing, and see CONTRIBUTING.md for "
                      "the packages by name.")
endif()

find_path(GLPK_INCLUDE glpk.h)
find_library(GLPK_LIBRARY glpk)
if(NOT GLPK_INCLUDE OR NOT GLPK_LIBRARY)
  message(FATAL_ERROR "glpk was not found; run ./dev build, which installs what is missing, and see CONTRIBUTING.md for the "
                      "packages by name.")
endif()
# The search allocates in small pieces: with jemalloc it takes a fifth less time. Sanitizers bring an allocator of their own.
find_library(JEMALLOC_LIBRARY jemalloc)
