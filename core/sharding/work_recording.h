// SPDX-License-Identifier: Apache-2.0
// Recorded work of devices: every kernel and copy, when it ran, and in which range that names an op or a collective
// (core/sharding/op_ranges.h) it was launched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

struct RecordedActivity {
  enum class Kind { Kernel, Copy, CopyBetweenDevices, Clear } kind;
  int device = 0;                         // a physical one
  std::int64_t start = 0, end = 0;        // nanoseconds of one clock
  std::int64_t bytes = 0;                 // of kernels 0
  std::size_t name = 0;                   // in WorkRecording::names
  std::optional<std::size_t> range = {};  // the innermost around its launch, in WorkRecording::ranges
};

struct WorkRecording {
  struct Range {
    std::string text;
    std::optional<std::size_t> around;
  };
  std::vector<Range> ranges;       // whichever contains another comes first
  std::vector<std::string> names;  // of kernels and copies
  std::vector<RecordedActivity> activities;
  std::int64_t lost = 0;  // activities that the recorder dropped
};

}  // namespace meshwright
