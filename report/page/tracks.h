// SPDX-License-Identifier: Apache-2.0
// A simulated step as rows to draw: devices that do the same at the same time are one row, whether the simulation
// folded them or not.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/program/timeline.h"
#include "report/page/page.h"
#include "simulator/program/folded_devices.h"
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
  std::optional<Bytes> usable;  // of one device
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
// busy row of each stage, and the one with most of the critical path, keep theirs, as far as there is room; the others
// have shares, and memory points that are each the fullest of a part of the step.
void keep_within(Tracks& tracks, std::size_t most);

// A measured step: every device is a row; nothing is known of its memory, nor of what a task waited for.
[[nodiscard]] Tracks tracks_of(const Timeline& timeline, const Plan& plan, const Program& program);

// [device of the Program] those of the cluster that it stands for, itself among them; none: another stands for it.
[[nodiscard]] std::vector<std::vector<int>> devices_stood_for(const Plan& plan, const Program& program,
                                                              const FoldedDevices* folded);

// The rows as members "tracks", "kinds" and "step_ps", and as columns "task.*" and "memory.*". Throws InputError for a
// step beyond 9,007 s, whose picoseconds a page cannot tell apart.
void add_tracks(Page& page, const Tracks& tracks);

}  // namespace meshwright
