# What runs on NVIDIA's GPUs: the compiler and the libraries it is built with, and the targets it is built into.
#
#   mw_kernels_cuda  kernels/cuda by nvcc, with the CUDA runtime; only where MESHWRIGHT_HAVE_CUDA
#   mw_cuda_on_cpu   the same kernels by the C++ compiler, with what stands in for a GPU (kernels/cuda_on_cpu); for tests
#   mw_nccl          headers and library, for what is compiled against mw_kernels_cuda; only where MESHWRIGHT_HAVE_NCCL
#
# CUPTI and cuBLASLt are loaded by the program that wants them (kernels/cuda/runtime/loaded_library.h), which starts without.
#
# Each part is AUTO (used where it is found), ON (or configuring fails) or OFF (never looked for). Afterwards
# MESHWRIGHT_HAVE_<part> says whether it is there, and MESHWRIGHT_<part>_IS what it is, or why it is not.
#
# MESHWRIGHT_CUDNN and MESHWRIGHT_NCCL are also macros of what is compiled against the parts.

foreach(part CUDA CUDNN NCCL CUPTI)
  set(MESHWRIGHT_${part} AUTO CACHE STRING "${part}: AUTO, ON or OFF")
  set_property(CACHE MESHWRIGHT_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT MESHWRIGHT_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "MESHWRIGHT_${part} is '${MESHWRIGHT_${part}}'; it must be AUTO, ON or OFF.")
  endif()
  set(MESHWRIGHT_HAVE_${part} OFF)
  set(MESHWRIGHT_${part}_IS "-DMESHWRIGHT_${part}=AUTO looks for it")
endforeach()

# --- the compiler ---
# It must be tried before CMake sees it: enable_language ends the configuration where nvcc does not work.

set(mw_cuda_least 12.0)  # the first whose nvcc knows C++20

# Sets `why` in the caller: empty where nvcc compiles for a GPU.
function(mw_try_nvcc nvcc why)
  execute_process(COMMAND ${nvcc} --version RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT failed EQUAL 0 OR NOT output MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${why} "${nvcc} does not run" PARENT_SCOPE)
    return()
  endif()
  set(release ${CMAKE_MATCH_1})
  if(release VERSION_LESS mw_cuda_least)
    set(${why} "${nvcc} is of CUDA ${release}; CUDA ${mw_cuda_least} or newer is needed" PARENT_SCOPE)
    return()
  endif()
  set(trial ${CMAKE_BINARY_DIR}/CMakeFiles/mw_try_nvcc)
  file(WRITE ${trial}/trial.cu "#include <span>\n__global__ void trial(float* x) { *x = 1; }\n")
  set(host)
  if(CMAKE_CUDA_HOST_COMPILER)
    set(host -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  execute_process(COMMAND ${nvcc} ${host} -std=c++20 -c trial.cu -o trial.o WORKING_DIRECTORY ${trial} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed EQUAL 0)
    set(${why} "" PARENT_SCOPE)
    return()
  endif()
  string(REGEX MATCH "[^\n]*([Ee]rror|fatal)[^\n]*" line "${output}")
  set(${why} "${nvcc} compiles nothing ('${line}')" PARENT_SCOPE)
endfunction()

set(mw_why)
if(MESHWRIGHT_CUDA STREQUAL "OFF")
  set(mw_why ${MESHWRIGHT_CUDA_IS})
elseif(MESHWRIGHT_CUDA STREQUAL "AUTO" AND MESHWRIGHT_ASAN)
  set(mw_why "not with sanitizers, which do not reach into GPUs")
else()
  if(CMAKE_CUDA_COMPILER)
    set(mw_nvcc ${CMAKE_CUDA_COMPILER})
  elseif(DEFINED ENV{CUDACXX})
    set(mw_nvcc $ENV{CUDACXX})
  else()
    # Often it is installed, but not on the PATH.
    find_program(MESHWRIGHT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
    set(mw_nvcc ${MESHWRIGHT_NVCC})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  if(NOT mw_nvcc)
    set(mw_why "no nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda")
  elseif(NOT MESHWRIGHT_NVCC_WORKS STREQUAL "${mw_nvcc} ${CMAKE_CUDA_HOST_COMPILER}")
    mw_try_nvcc(${mw_nvcc} mw_why)
    if(NOT mw_why)
      set(MESHWRIGHT_NVCC_WORKS "${mw_nvcc} ${CMAKE_CUDA_HOST_COMPILER}" CACHE INTERNAL "")
    endif()
  endif()
endif()

if(NOT mw_why)
  # For the GPUs of this machine. Without one, for compute capability 9.0 (H100, H200), and as text that later GPUs compile theirs
  # from when a program starts. The kernels need 8.0; -DCMAKE_CUDA_ARCHITECTURES=80-real, or CUDAARCHS=80-real in the environment, is
  # for an A100. Every further architecture takes as long as the first.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader RESULT_VARIABLE failed OUTPUT_VARIABLE capabilities
                    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(mw_architectures 90)
    if(failed EQUAL 0 AND capabilities MATCHES "^[0-9]+\\.[0-9]")
      string(REPLACE "\n" ";" capabilities "${capabilities}")
      list(REMOVE_DUPLICATES capabilities)
      set(mw_architectures)
      foreach(capability IN LISTS capabilities)
        string(REPLACE "." "" capability ${capability})
        list(APPEND mw_architectures ${capability}-real)
      endforeach()
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${mw_architectures} CACHE STRING "GPUs to build for")
  endif()
  set(ENV{CUDACXX} ${mw_nvcc})
  enable_language(CUDA)
  # CMake before 3.26 does not know that nvcc has C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit QUIET)
  if(NOT TARGET CUDA::cudart_static)
    set(mw_why "no libcudart_static beside ${mw_nvcc}")
  elseif(NOT TARGET CUDA::cublasLt)
    set(mw_why "no libcublasLt beside ${mw_nvcc}")
  endif()
endif()
if(NOT mw_why)
  set(MESHWRIGHT_HAVE_CUDA ON)
  string(REPLACE ";" ", " mw_list "${CMAKE_CUDA_ARCHITECTURES}")
  set(MESHWRIGHT_CUDA_IS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${mw_list}")
else()
  set(MESHWRIGHT_CUDA_IS ${mw_why})
  if(MESHWRIGHT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MESHWRIGHT_CUDA is ON, but: ${mw_why}; set CUDACXX or CUDA_HOME, or leave it AUTO.")
  endif()
endif()

# --- the libraries beside it ---

# mw_find_beside_cuda(part header library header-with-its-version [least version]): sets MESHWRIGHT_HAVE_<part> and
# MESHWRIGHT_<part>_IS.
macro(mw_find_beside_cuda part header library version_header)
  if(NOT MESHWRIGHT_HAVE_CUDA)
    set(mw_why "it needs CUDA")
  else()
    find_path(MESHWRIGHT_${part}_INCLUDE ${header} HINTS ENV ${part}_HOME ${CUDAToolkit_INCLUDE_DIRS}
              ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI PATH_SUFFIXES include)
    find_library(MESHWRIGHT_${part}_LIBRARY ${library} HINTS ENV ${part}_HOME ${CUDAToolkit_LIBRARY_DIR}
                 ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI PATH_SUFFIXES lib lib64)
    mark_as_advanced(MESHWRIGHT_${part}_INCLUDE MESHWRIGHT_${part}_LIBRARY)
    set(mw_why "no ${header} and lib${library} beside CUDA or in ${part}_HOME")
  endif()
  if(NOT MESHWRIGHT_${part} STREQUAL "OFF")
    set(MESHWRIGHT_${part}_IS ${mw_why})
    set(mw_version)
    if(MESHWRIGHT_HAVE_CUDA AND MESHWRIGHT_${part}_INCLUDE AND MESHWRIGHT_${part}_LIBRARY)
      file(STRINGS ${MESHWRIGHT_${part}_INCLUDE}/${version_header} mw_lines REGEX "#define ${part}_(MAJOR|MINOR|PATCH(LEVEL)?) ")
      foreach(mw_line IN LISTS mw_lines)
        string(REGEX REPLACE "^.* ([0-9]+).*$" "\\1" mw_number "${mw_line}")
        list(APPEND mw_version ${mw_number})
      endforeach()
      list(JOIN mw_version "." mw_version)
      if(NOT mw_version)
        set(mw_version "of CUDA ${CMAKE_CUDA_COMPILER_VERSION}")
      endif()
      if(${ARGC} GREATER 4 AND mw_version VERSION_LESS "${ARGV4}")
        set(MESHWRIGHT_${part}_IS "${MESHWRIGHT_${part}_INCLUDE}/${header} is of ${mw_version}, ${ARGV4} or newer is needed")
        set(mw_version)
      endif()
    endif()
    if(mw_version)
      set(MESHWRIGHT_HAVE_${part} ON)
      set(MESHWRIGHT_${part}_IS ${mw_version})
    elseif(MESHWRIGHT_${part} STREQUAL "ON")
      message(FATAL_ERROR "MESHWRIGHT_${part} is ON, but: ${MESHWRIGHT_${part}_IS}; set ${part}_HOME, or leave it AUTO.")
    endif()
  endif()
endmacro()

mw_find_beside_cuda(CUDNN cudnn.h cudnn cudnn_version.h 9.0)  # before it, statuses had other numbers
mw_find_beside_cuda(NCCL nccl.h nccl nccl.h)
mw_find_beside_cuda(CUPTI cupti.h cupti cupti_version.h)

# --- the targets ---

if(MESHWRIGHT_HAVE_CUDA)
  file(GLOB_RECURSE mw_sources CONFIGURE_DEPENDS kernels/cuda/*.cu kernels/cuda/*.cpp)
  if(NOT MESHWRIGHT_HAVE_CUDNN)
    list(FILTER mw_sources EXCLUDE REGEX "cudnn\\.cpp$")
    list(APPEND mw_sources kernels/cuda_on_cpu/no_convolutions.cpp kernels/cuda_on_cpu/no_cudnn_attention.cpp)
  endif()
  if(MESHWRIGHT_HAVE_CUPTI)
    list(FILTER mw_sources EXCLUDE REGEX "no_activity\\.cpp$")
  else()
    list(FILTER mw_sources EXCLUDE REGEX "cupti\\.cpp$")
  endif()
  add_library(mw_kernels_cuda STATIC ${mw_sources})
  target_include_directories(mw_kernels_cuda PUBLIC ${CMAKE_SOURCE_DIR})
  target_include_directories(mw_kernels_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(mw_kernels_cuda PRIVATE MESHWRIGHT_CUDA_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}")
  target_link_libraries(mw_kernels_cuda PUBLIC mw_kernels CUDA::cudart_static ${CMAKE_DL_LIBS})

  # The project's flags are g++'s; nvcc hands on those that hold for the code it generates.
  get_target_property(mw_options mw_kernels_cuda COMPILE_OPTIONS)
  set_target_properties(mw_kernels_cuda PROPERTIES COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${mw_options}>")
  list(JOIN MESHWRIGHT_QUIET "," mw_quiet)
  if(mw_quiet)
    target_compile_options(mw_kernels_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${mw_quiet}>")
  endif()
  if(MESHWRIGHT_WERROR)
    set(mw_strictly "SHELL:-Werror all-warnings;-Xcompiler=-Wall,-Wextra,-Werror")
  else()
    set(mw_strictly "-Xcompiler=-Wall,-Wextra")
  endif()
  target_compile_options(mw_kernels_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;${mw_strictly}>")
  if(MESHWRIGHT_HAVE_CUDNN)
    target_compile_definitions(mw_kernels_cuda PRIVATE MESHWRIGHT_CUDNN)
    target_include_directories(mw_kernels_cuda SYSTEM PRIVATE ${MESHWRIGHT_CUDNN_INCLUDE})
    target_link_libraries(mw_kernels_cuda PUBLIC ${MESHWRIGHT_CUDNN_LIBRARY})
  endif()
  if(MESHWRIGHT_HAVE_CUPTI)
    get_filename_component(mw_folder ${MESHWRIGHT_CUPTI_LIBRARY} DIRECTORY)
    target_compile_definitions(mw_kernels_cuda PRIVATE MESHWRIGHT_CUPTI_LIBRARIES="${mw_folder}")
    target_include_directories(mw_kernels_cuda SYSTEM PRIVATE ${MESHWRIGHT_CUPTI_INCLUDE})
  endif()
endif()

if(MESHWRIGHT_HAVE_NCCL)
  add_library(mw_nccl INTERFACE)
  target_include_directories(mw_nccl SYSTEM INTERFACE ${MESHWRIGHT_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(mw_nccl INTERFACE ${MESHWRIGHT_NCCL_LIBRARY})
  target_compile_definitions(mw_nccl INTERFACE MESHWRIGHT_NCCL)
endif()

# A file of one language in one place cannot be of another in a second target, so each kernel file is included by one of
# this compiler's.
file(GLOB_RECURSE mw_kernel_files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB mw_sources CONFIGURE_DEPENDS kernels/cuda_on_cpu/*.cpp)
list(APPEND mw_sources kernels/cuda/measure/cold_timer.cpp kernels/cuda/runtime/open_ranges.cpp kernels/cuda/products/product_timing.cpp)
foreach(file IN LISTS mw_kernel_files)
  get_filename_component(stem ${file} NAME_WE)
  set(wrapper ${CMAKE_BINARY_DIR}/cuda_on_cpu/${stem}.cpp)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${file}\"\n" @ONLY)
  list(APPEND mw_sources ${wrapper})
endforeach()
add_library(mw_cuda_on_cpu STATIC EXCLUDE_FROM_ALL ${mw_sources})
# It jumps from stack to stack, which the C library's checks, on by default in Ubuntu, take for a fault.
set_source_files_properties(kernels/cuda_on_cpu/threads.cpp PROPERTIES COMPILE_OPTIONS -U_FORTIFY_SOURCE)
target_include_directories(mw_cuda_on_cpu PUBLIC ${CMAKE_SOURCE_DIR})
# An unnamed namespace in an included file is no other's here.
target_compile_options(mw_cuda_on_cpu PRIVATE -Wno-unknown-pragmas $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>
                                              $<$<CONFIG:Release>:-O1>)
target_link_libraries(mw_cuda_on_cpu PUBLIC mw_kernels)

# NCCL's calls on what stands in for GPUs, as objects: a program that has them needs nothing of the library's.
if(MESHWRIGHT_HAVE_NCCL)
  add_library(mw_nccl_on_cpu OBJECT EXCLUDE_FROM_ALL kernels/cuda_on_cpu/nccl/nccl_on_cpu.cpp)
  target_include_directories(mw_nccl_on_cpu PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(mw_nccl_on_cpu SYSTEM PRIVATE ${MESHWRIGHT_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
endif()
