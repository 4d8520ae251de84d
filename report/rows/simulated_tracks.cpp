// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "report/rows/track_folder.h"
#include "simulator/report/step_report.h"

namespace meshwright {

namespace {

// [device of the Program]
std::vector<StandingMemory> standing_memory(const Program& program, const Graph& graph) {
  std::map<StageId, StandingMemory> of_rank;
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.persistent || buffer.on_host) continue;
    StandingMemory& own = of_rank[program.first_of_rank(buffer.stage)];
    const TensorKind kind = graph.tensor(buffer.local.tensor).kind;
    Bytes& sum = kind == TensorKind::Parameter        ? own.weights
                 : kind == TensorKind::Accumulator    ? own.gradients
                 : kind == TensorKind::OptimizerState ? own.optimizer
                                                      : own.other;
    sum += buffer.local.bytes();
  }
  std::vector<StandingMemory> standing;
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    StandingMemory own = of_rank[program.stage_of_device[d]];
    own.other += program.persistent_bytes[d] - own.total();
    standing.push_back(own);
  }
  return standing;
}

// [device of the Program] its tasks by lane, each lane by begin.
struct TaskLanes {
  std::vector<TaskId> compute, communication, messages;
};

std::vector<TaskLanes> lanes_of(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<TaskLanes> lanes(static_cast<std::size_t>(graph.devices));
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const TaskId task(t);
    const TaskKind kind = graph.of(task).kind;
    if (times.begin[task.index()] == times.end[task.index()]) continue;
    TaskLanes& own = lanes[graph.streams[graph.stream_of(task).index()].device.index()];
    if (is_compute(kind)) own.compute.push_back(task);
    if (kind == TaskKind::Collective || kind == TaskKind::HostCopy) own.communication.push_back(task);
    if (kind == TaskKind::Message) own.messages.push_back(task);
  }
  const auto before = [&](TaskId a, TaskId b) {
    return std::tuple(times.begin[a.index()], times.end[a.index()], graph.of(a).stage, graph.microbatch_of(a), a) <
           std::tuple(times.begin[b.index()], times.end[b.index()], graph.of(b).stage, graph.microbatch_of(b), b);
  };
  for (TaskLanes& own : lanes)
    for (std::vector<TaskId>* lane : {&own.compute, &own.communication, &own.messages})
      std::sort(lane->begin(), lane->end(), before);
  return lanes;
}

// [device of the Program]
std::vector<std::vector<TrackMemory>> memory_of_devices(const TaskGraph& graph, const TaskTimes& times) {
  struct Change {
    SimTime time;
    std::int64_t activations, temporary;
  };
  std::vector<std::vector<Change>> changes(static_cast<std::size_t>(graph.devices));
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const TaskId task(t);
    const TaskClass& own = graph.of(task);
    if (own.memory_at_begin == 0 && own.memory_at_end == 0) continue;
    const std::int64_t needs = own.memory_at_begin;
    const std::int64_t keeps =
        is_compute(own.kind) ? std::clamp<std::int64_t>(own.memory_at_end, 0, std::max<std::int64_t>(needs, 0)) : needs;
    std::vector<Change>& device = changes[graph.streams[graph.stream_of(task).index()].device.index()];
    device.push_back({times.begin[task.index()], keeps, needs - keeps});
    device.push_back({times.end[task.index()], own.memory_at_end - keeps, keeps - needs});
  }
  std::vector<std::vector<TrackMemory>> points;
  for (std::vector<Change>& device : changes) {
    std::stable_sort(device.begin(), device.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    std::vector<TrackMemory>& own = points.emplace_back();
    own.push_back({});
    for (const Change& change : device) {
      // Changes of one moment are one point.
      if (own.back().time < change.time) own.push_back({change.time, own.back().activations, own.back().temporary});
      own.back().activations += change.activations;
      own.back().temporary += change.temporary;
    }
    // A moment that changes nothing is no point.
    own.erase(std::unique(own.begin(), own.end(),
                          [](const TrackMemory& a, const TrackMemory& b) {
                            return a.activations == b.activations && a.temporary == b.temporary;
                          }),
              own.end());
  }
  return points;
}

class TrackBuilder {
 public:
  explicit TrackBuilder(const StepSimulation& step)
      : graph_(step.tasks.graph), times_(step.times), number_of_(graph_.size(), -1) {}

  void add(const TaskLanes& tasks, std::vector<TrackMemory> memory, Track row) {
    DeviceLanes lanes;
    lanes.memory = std::move(memory);
    std::vector<std::pair<TaskId, std::size_t>> places;  // of each task among those of its row
    std::size_t before = 0;
    for (const auto& [from, to] :
         {std::pair(&tasks.compute, &lanes.compute), std::pair(&tasks.communication, &lanes.communication),
          std::pair(&tasks.messages, &lanes.messages)}) {
      for (const TaskId task : *from) {
        const TrackTask own = task_of(task);
        if (to->empty() || !to->back().same_work(own)) to->push_back(own);
        places.emplace_back(task, before + to->size() - 1);
      }
      before += to->size();
    }
    const std::size_t first = folder_.add(lanes, std::move(row));
    for (const auto& [task, at] : places) {
      number_of_[task.index()] = static_cast<int>(first + at);
      if (first + at == first_of_.size()) first_of_.push_back(task);
    }
  }

  Tracks finish() {
    Tracks& tracks = folder_.tracks;
    tracks.end = times_.step;
    for (const CriticalTask& critical : critical_path(graph_, times_))
      if (const int at = number_of_[critical.task.index()]; at >= 0)
        tracks.tasks[static_cast<std::size_t>(at)].critical = true;
    find_stream_predecessors();
    for (std::size_t i = 0; i < tracks.tasks.size(); ++i) tracks.tasks[i].waits_for = cause_of(first_of_[i]);
    folder_.sort_rows();
    return std::move(tracks);
  }

 private:
  [[nodiscard]] TrackTask task_of(TaskId task) const {
    const TaskClass& own = graph_.of(task);
    return {times_.begin[task.index()], times_.end[task.index()], own.kind, own.stage, graph_.microbatch_of(task)};
  }

  void find_stream_predecessors() {
    std::vector<int> last(graph_.streams.size(), -1);
    before_.reserve(graph_.size());
    for (std::size_t t = 0; t < graph_.size(); ++t) {
      int& latest = last[graph_.stream_of(TaskId(static_cast<int>(t))).index()];
      before_.push_back(latest);
      latest = static_cast<int>(t);
    }
  }

  // Through what takes no time to what does. A cause has a smaller number, so that this ends.
  [[nodiscard]] int cause_of(TaskId task) const {
    int current = task.value;
    while (true) {
      int cause = before_[static_cast<std::size_t>(current)];
      for (const std::int32_t other : graph_.predecessors(TaskId(current)))
        if (cause < 0 || end_of(other) > end_of(cause) || (end_of(other) == end_of(cause) && other < cause))
          cause = other;
      if (cause < 0) return -1;
      if (const int at = number_of_[static_cast<std::size_t>(cause)]; at >= 0) return at;
      current = cause;
    }
  }
  [[nodiscard]] SimTime end_of(int task) const { return times_.end[static_cast<std::size_t>(task)]; }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  TrackFolder folder_;
  std::vector<int> number_of_;    // [task] of Tracks::tasks; -1: it is not drawn
  std::vector<TaskId> first_of_;  // [of Tracks::tasks] the first that it is
  std::vector<int> before_;       // [task] on its stream; -1: none
};

}  // namespace

Tracks tracks_of(const StepSimulation& step, const Plan& plan, const Program& program, const Graph& graph,
                 const FoldedDevices* folded) {
  const RowDevices devices = row_devices(plan, program, folded);
  const std::vector<StandingMemory> standing = standing_memory(program, graph);
  const std::vector<TaskLanes> lanes = lanes_of(step.tasks.graph, step.times);
  std::vector<std::vector<TrackMemory>> memory = memory_of_devices(step.tasks.graph, step.times);
  TrackBuilder builder(step);
  for (std::size_t d = 0; d < devices.numbers.size(); ++d) {
    if (devices.numbers[d].empty()) continue;
    Track row;
    row.devices = devices.numbers[d];
    row.like = DeviceId(static_cast<int>(d));
    row.stage = devices.stage[d];
    row.standing = standing[d];
    row.usable = plan.cluster.group(plan.cluster.group_of_device(row.devices.front())).usable_memory();
    builder.add(lanes[d], std::move(memory[d]), std::move(row));
  }
  return builder.finish();
}

}  // namespace meshwright
