// SPDX-License-Identifier: Apache-2.0
// The tests of this folder on a real GPU. Without one each says why it was left out.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/cuda/runtime/stream.h"
#include "tests/run_tests.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && meshwright::kernels::cuda::device_count() == 0) {
    std::printf("[  SKIPPED ] %s\n", meshwright::kernels::cuda::why_none().c_str());
    return meshwright::kLeftOut;
  }
  return meshwright::run_tests();
}
