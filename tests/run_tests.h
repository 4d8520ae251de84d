// SPDX-License-Identifier: Apache-2.0
// Runs the chosen tests of a program. What was left out is named with its reason at the end.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace meshwright {

constexpr int kLeftOut = 77;  // which ctest counts as skipped

inline std::string reason_of(const testing::TestResult& result) {
  std::string reason;
  for (int part = 0; part < result.total_part_count(); ++part)
    if (result.GetTestPartResult(part).skipped()) reason += result.GetTestPartResult(part).message();
  return reason;
}

inline void name_left_out(const testing::UnitTest& tests) {
  for (int s = 0; s < tests.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *tests.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (test.should_run() && test.result()->Skipped())
        std::printf("left out: %s.%s: %s\n", suite.name(), test.name(), reason_of(*test.result()).c_str());
    }
  }
}

// The exit code: kLeftOut where all were left out.
inline int run_tests() {
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  name_left_out(tests);
  const bool all_left_out = tests.skipped_test_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return result == 0 && all_left_out ? kLeftOut : result;
}

}  // namespace meshwright
