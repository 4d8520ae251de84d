// SPDX-License-Identifier: Apache-2.0
// The part of meshwright calibrate that fits a software's profile to runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright {

struct SoftwareCalibration {
  std::vector<std::string> rows;  // files of published runs; with own_runs, what the correction is judged on
  std::string software;           // profile that is fitted; "": of the framework of own runs
  std::vector<std::string> fit;   // numbers, or lists of them; empty: those of the task
  double holdout = 0.0;
  std::uint64_t seed = 1;
  std::string own_runs;           // file of a user's own runs
  std::vector<std::string> logs;  // one for each of its rows, in their order; or none
  int threads = 1;
  std::string output;
  bool json = false;
};

// Whether a file has the columns of published runs, rather than those of kernels.
[[nodiscard]] bool holds_runs(const std::string& file);

// Fits, writes the profile and prints the result. Throws InputError as the parts do, and at the end when rows are
// wrong.
void calibrate_software(const SoftwareCalibration& calibration);

}  // namespace meshwright
