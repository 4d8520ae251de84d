// SPDX-License-Identifier: Apache-2.0
// Which op or collective a recorded kernel belongs to, and what times that makes. Knows nothing of files;
// nsight_export.h says in words what is computed here. Recordings of Nsight Systems (nsight_export.h) and our own
// (recorded_steps.h) become times in the same way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/sharding/op_ranges.h"
#include "costmodel/profile_db.h"

namespace meshwright {

// Nanoseconds of the recording's own clock.
struct Interval {
  std::int64_t start = 0, end = 0;
};

// Median and median absolute deviation. REQUIRES: at least one.
[[nodiscard]] Measurement measurement_of(const std::vector<std::int64_t>& nanoseconds);

// The marked ranges of a recording: on each thread they follow or enclose one another, as pushes and pops do (where
// they overlap, the one that began last counts as the inner one).
class RangeTree {
 public:
  // REQUIRES: ranges are added in order of their beginning, of two that begin together the outer first.
  void add(std::int64_t thread, Interval interval, MarkedRange range);
  // The number (counted from 0, as added) of the innermost range of the thread that is open at `time`.
  [[nodiscard]] std::optional<std::size_t> innermost(std::int64_t thread, std::int64_t time) const;

  [[nodiscard]] std::span<const MarkedRange> ranges() const { return ranges_; }

 private:
  struct Node {
    Interval interval;
    std::size_t range;                  // number
    std::optional<std::size_t> parent;  // the innermost around it, in the thread's list
  };
  std::vector<MarkedRange> ranges_;
  std::map<std::int64_t, std::vector<Node>> threads_;
};

// Work of a device that was launched in a range.
struct AttributedWork {
  std::size_t range;    // number
  std::int64_t device;  // any number, as long as no other device has it
  Interval interval;
};

struct RecordedTimes {
  std::vector<OpProfile> ops;                  // by signature
  std::vector<CollectiveProfile> collectives;  // by kind, ranks, hosts and size
  Seconds gaps{0.0};                           // between kernels of one occurrence

  struct Kind {
    int different = 0;             // ops or collectives
    std::int64_t occurrences = 0;  // on all devices
    Seconds time{0.0};             // of all of them, waiting of collectives included
  };
  std::map<std::string, Kind> kinds;  // by what an op's signature begins with; "all-reduce", ...
};
// `work` is of the ranges given, by number.
[[nodiscard]] RecordedTimes times_of(std::span<const MarkedRange> ranges, std::vector<AttributedWork> work);

// How long some of these intervals went on.
[[nodiscard]] Seconds union_of(std::vector<Interval> intervals);

}  // namespace meshwright
