// SPDX-License-Identifier: Apache-2.0
#include "costmodel/recorded_steps.h"

#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// The ranges with a name of ours, and for each range of the recording the innermost of them that it is or is inside.
struct OurRanges {
  std::vector<MarkedRange> marked;
  std::vector<std::optional<std::size_t>> of;
};

OurRanges our_ranges(const std::vector<WorkRecording::Range>& ranges) {
  OurRanges ours;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const WorkRecording::Range& range = ranges[r];
    MW_CHECK(!range.around || *range.around < r, "range {} lies in a later one", r);
    std::optional<MarkedRange> marked = range_from_text(range.text);
    if (marked) {
      ours.of.emplace_back(ours.marked.size());
      ours.marked.push_back(std::move(*marked));
    } else {
      ours.of.push_back(range.around ? ours.of[*range.around] : std::nullopt);
    }
  }
  return ours;
}

}  // namespace

RecordedSteps recorded_steps(const WorkRecording& recording) {
  if (recording.lost > 0)
    throw SystemError(
        fmt::format("the recording lost {} of {} kernels and copies, so ops would seem too short; record fewer steps.",
                    recording.lost, recording.lost + std::ssize(recording.activities)));
  const OurRanges ours = our_ranges(recording.ranges);
  RecordedSteps found;
  std::vector<AttributedWork> work;
  std::map<int, std::vector<Interval>> of_device;
  std::map<std::int64_t, std::vector<std::int64_t>> transfers;  // ns, by bytes
  for (const RecordedActivity& activity : recording.activities) {
    const Interval interval{activity.start, activity.end};
    // All work keeps a device busy, whether or not it is an op's.
    of_device[activity.device].push_back(interval);
    const std::optional<std::size_t> range = activity.range ? ours.of.at(*activity.range) : std::nullopt;
    if (range) {
      work.push_back({*range, activity.device, interval});
      continue;
    }
    // Work of libraries, and copies of the program, have no range with a name of ours.
    RecordedSteps::Work& others = found.of_no_range[recording.names.at(activity.name)];
    ++others.count;
    others.time += Seconds(1e-9 * static_cast<double>(activity.end - activity.start));
    if (activity.kind == RecordedActivity::Kind::CopyBetweenDevices)
      transfers[activity.bytes].push_back(activity.end - activity.start);
  }
  found.times = times_of(ours.marked, std::move(work));
  for (const auto& [size, nanoseconds] : transfers)
    found.transfers.push_back({false, size, measurement_of(nanoseconds)});
  for (auto& [device, intervals] : of_device) found.busy.emplace(device, union_of(std::move(intervals)));
  return found;
}

}  // namespace meshwright
