// SPDX-License-Identifier: Apache-2.0
// A step as rows to draw, simulated or measured: devices that do the same at the same time are one row, whether the
// simulation folded them or not. Pages and pictures, in a terminal, too, are made from these rows.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/program/folded_devices.h"
#include "core/plan/program/timeline.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

struct TrackTask {
  SimTime begin, end;
  TaskKind kind;
  StageId stage;
  MicrobatchId microbatch;
  bool critical = false;  // on the critical path
  int waits_for = -1;     // the task, of Tracks::tasks, that ended last of what had to end before it; -1: none
  [[nodiscard]] bool same_work(const TrackTask& other) const {
    return begin == other.begin && end == other.end && kind == other.kind && stage == other.stage &&
           microbatch == other.microbatch;
  }
};

// What lies on a device throughout, by what it is.
struct StandingMemory {
  Bytes weights{0.0}, gradients{0.0}, optimizer{0.0}, other{0.0};
  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer + other; }
  bool operator==(const StandingMemory&) const = default;
};

// Bytes from `time` on, beside the standing memory. A pass that runs holds what it will keep and, beside it, what it
// needs for its own time.
struct TrackMemory {
  SimTime time{0};
  std::int64_t activations = 0, temporary = 0;
  [[nodiscard]] std::int64_t total() const { return activations + temporary; }
  bool operator==(const TrackMemory&) const = default;
};

struct IndexRange {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

struct Track {
  std::vector<int> devices;  // of the cluster, ascending
  DeviceId like{0};          // of the Program: one of them
  StageId stage{0};          // the first on these devices
  // Ranges of Tracks::tasks, each by begin. Messages are on their source; equal ones to several devices are one.
  IndexRange compute, communication, messages;
  IndexRange memory;  // of Tracks::memory
  // A range of Tracks::shares, where the row has no tasks (keep_within): per part of the step, in order, and kind of
  // computation how much of the part it takes, in 255ths.
  std::optional<IndexRange> shares = {};
  StandingMemory standing;
  std::optional<Bytes> usable;     // of one device
  std::optional<int> timing = {};  // of paired tracks: 0 the first, 1 the second
};

struct Tracks {
  std::vector<Track> rows;  // by stage, then by device
  std::vector<TrackTask> tasks;
  std::vector<TrackMemory> memory;
  std::vector<std::uint8_t> shares;
  SimTime end{0};

  // The first moment at which the row holds the most.
  [[nodiscard]] const TrackMemory& fullest(const Track& row) const;
  [[nodiscard]] Bytes peak(const Track& row) const;
};

// `in_cluster` [device of the Program]. Tasks without duration, and those of a controller, are left out. `folded`: as
// the step was simulated. REQUIRES: the step is of this program, which is of the plan and the graph.
[[nodiscard]] Tracks tracks_of(const StepSimulation& step, const Plan& plan, const Program& program, const Graph& graph,
                               const FoldedDevices* folded);

inline constexpr std::size_t kMaxPageTasks = 110'000;  // about 1.5 MB, where no two rows are alike
inline constexpr std::size_t kShareParts = 1024;       // of the step
inline constexpr std::size_t kShareKinds = 5;          // of computation
// Takes the tasks of some rows away where all together are more than `most`: then the first, the busiest and the least
// busy row of each stage and timing, and the one with most of the critical path, keep theirs, as far as there is room;
// the others have shares, and memory points that are each the fullest of a part of the step.
void keep_within(Tracks& tracks, std::size_t most);

// What stands behind the devices of a Timeline.
struct RowDevices {
  std::vector<std::vector<int>> numbers;  // [device] those that it stands for, ascending; none: another stands for it
  std::vector<StageId> stage;             // [device] the first on it
};
// As the cluster numbers them.
[[nodiscard]] RowDevices row_devices(const Plan& plan, const Program& program, const FoldedDevices* folded);
// As the Timeline numbers them, `devices` of them, of which some may do nothing.
[[nodiscard]] RowDevices row_devices(const Timeline& timeline, int devices, const FoldedDevices* folded);

enum class ShownMessages : std::uint8_t { None, All };

// Of a Timeline, of which nothing is known but its spans: neither the memory, nor what a task waited for. Waits are no
// tasks. A host that issues work stands with the collectives of its device.
[[nodiscard]] Tracks tracks_of(const Timeline& timeline, const RowDevices& devices, ShownMessages messages);

// Two timings of the same devices, each row of the first above that of the second. A pair's devices do the same in
// both; a device that one timing lacks has the row of the other alone.
[[nodiscard]] Tracks paired(const Tracks& first, const Tracks& second);

}  // namespace meshwright
