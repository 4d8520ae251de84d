// SPDX-License-Identifier: Apache-2.0
// The main function of test programs.
#include "tests/run_tests.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return meshwright::run_tests();
}
