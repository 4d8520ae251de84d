# The Python module, and what else belongs into its wheel: built with MESHWRIGHT_PYTHON_MODULE=ON, which pyproject.toml sets (./dev wheel).
# Needs the headers of Python 3.11 or newer and nanobind, as `pip install nanobind` puts it.
option(MESHWRIGHT_PYTHON_MODULE "the Python module" OFF)
if(NOT MESHWRIGHT_PYTHON_MODULE)
  return()
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE nanobind_failed ERROR_QUIET)
if(nanobind_failed)
  message(FATAL_ERROR "nanobind was not found in ${Python_EXECUTABLE}; run ./dev wheel, which installs it into a virtual environment, or "
                      "`${Python_EXECUTABLE} -m pip install nanobind`.")
endif()
find_package(nanobind CONFIG REQUIRED)

nanobind_add_module(_core STABLE_ABI NB_STATIC NOMINSIZE python/module.cpp)
mw_with_verbs(_core)
set_target_properties(_core PROPERTIES EXCLUDE_FROM_ALL ON)
# Its code is not held to our warnings.
foreach(target nanobind-static nanobind-static-abi3)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE -w)
  endif()
endforeach()
target_compile_options(_core PRIVATE -Wno-pedantic -Wno-shadow)

# The wheel: the module, the command with what --help says as manual pages and completions, and the licences.
set(wheel_share ${SKBUILD_DATA_DIR}/share)
install(TARGETS _core LIBRARY DESTINATION meshwright COMPONENT python)
install(TARGETS meshwright RUNTIME DESTINATION meshwright/bin COMPONENT python)
# packaging/licences.sh gathers them.
install(DIRECTORY ${CMAKE_BINARY_DIR}/licences DESTINATION meshwright COMPONENT python OPTIONAL)
if(SKBUILD)
  foreach(folder man bash-completion zsh fish)
    install(DIRECTORY ${manual_folder}/${folder} DESTINATION ${wheel_share} COMPONENT python)
  endforeach()
endif()
