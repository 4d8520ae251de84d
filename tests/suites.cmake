# SPDX-License-Identifier: Apache-2.0
# Read by ctest before it runs: one test per suite of a test program, so that a process is started per suite and not per
# case. A suite whose cases are all left out (exit code 77, run_tests.h) is skipped.
#   program   the test program
#   prefix    of the tests' names
#   label     of the tests
if(NOT EXISTS "${program}")
  add_test("${prefix}.is_not_built" "${program}")
  return()
endif()
set(listed "${program}_suites_listed.cmake")
if(NOT EXISTS "${listed}" OR "${program}" IS_NEWER_THAN "${listed}" OR "${CMAKE_CURRENT_LIST_FILE}" IS_NEWER_THAN "${listed}")
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests ended with ${result}: ${output}")
  endif()
  # Suites stand at the beginning of a line and end with a point; their cases are indented.
  string(REGEX MATCHALL "\n[^ \n]+\\." suites "\n${output}")
  set(tests "")
  foreach(suite IN LISTS suites)
    string(REGEX REPLACE "^\n(.*)\\.$" "\\1" suite "${suite}")
    string(APPEND tests "add_test([=[${prefix}.${suite}]=] [=[${program}]=] [=[--gtest_filter=${suite}.*]=])\n"
                        "set_tests_properties([=[${prefix}.${suite}]=] PROPERTIES LABELS ${label} TIMEOUT 1800 SKIP_RETURN_CODE 77)\n")
  endforeach()
  file(WRITE "${listed}" "${tests}")
endif()
include("${listed}")
