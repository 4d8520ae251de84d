# MESHWRIGHT_PACKAGE=ON builds what other machines can run: the instruction set of every x86-64 or arm64 machine, and no libraries that
# exist only beside a GPU's driver or an MPI's launcher. The objects serve the command and the Python module alike.
if(MESHWRIGHT_PACKAGE)
  foreach(part NATIVE CUDA MPI TESTS BENCH)
    set(MESHWRIGHT_${part} OFF CACHE STRING "off in packages" FORCE)
  endforeach()
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  # Nothing of the module is called from outside but its one entry: calls inside need no table.
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
  # No path of this machine in what is shipped.
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()
