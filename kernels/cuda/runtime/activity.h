// SPDX-License-Identifier: Apache-2.0
// What the devices did while it was recorded: every kernel, copy and memset, when it ran, and which range of
// kernels/cuda/runtime/ranges.h was the innermost on the thread that launched it, when it did. One recording at a time,
// of the whole process.
//
// mw_kernels_cuda asks CUPTI, where it is built with it; mw_cuda_on_cpu times what stands in for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright::kernels::cuda {

struct Activity {
  enum class Kind { Kernel, Copy, PeerCopy, Clear } kind;  // PeerCopy: from one device to another
  int device = 0;
  std::uint32_t stream = 0;               // any number, as long as no other stream of the device has it
  std::int64_t start = 0, end = 0;        // nanoseconds of one clock
  std::int64_t bytes = 0;                 // of kernels 0
  std::size_t name = 0;                   // in Recording::names
  std::optional<std::size_t> range = {};  // in Recording::ranges; nothing: it was launched in none
};

struct Recording {
  struct Range {
    std::string name;
    std::optional<std::size_t> around;  // the one that was open when it was opened
  };
  std::vector<Range> ranges;         // in the order in which they were opened
  std::vector<std::string> names;    // of kernels, "copy" and "clear"; each once
  std::vector<Activity> activities;  // in any order
  std::int64_t lost = 0;             // of which nothing, or no time, was recorded: for want of memory
};

// Whether this build can record.
[[nodiscard]] bool can_record();
// What records: "CUPTI 130001". Throws Failure where it cannot be loaded.
[[nodiscard]] std::string describe_recorder();

// What is launched from now on is recorded. A recording that was never stopped is forgotten. Throws Failure where it
// cannot be (no CUPTI, no permission, another profiler that watches this process), saying what to do.
void start_recording();
// REQUIRES: start_recording, and that the devices are done with what was launched since. Throws Failure.
[[nodiscard]] Recording stop_recording();

// What begin_range and end_range tell of the calling thread; nothing where nobody records.
void note_begin_of_range(const char* name);
void note_end_of_range();

}  // namespace meshwright::kernels::cuda
