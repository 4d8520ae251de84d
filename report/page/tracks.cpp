// SPDX-License-Identifier: Apache-2.0
#include "report/page/tracks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/program/timeline.h"
#include "report/page/html.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/report/step_report.h"

namespace meshwright {

const TrackMemory& Tracks::fullest(const Track& row) const {
  const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(row.memory.begin);
  return *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(row.memory.size()),
                           [](const TrackMemory& a, const TrackMemory& b) { return a.total() < b.total(); });
}

Bytes Tracks::peak(const Track& row) const {
  return row.standing.total() + Bytes(static_cast<double>(fullest(row).total()));
}

std::vector<std::vector<int>> devices_stood_for(const Plan& plan, const Program& program, const FoldedDevices* folded) {
  const std::vector<DeviceId> in_cluster = devices_in_cluster(plan, program);
  std::vector<std::vector<int>> alike(in_cluster.size());
  for (std::size_t d = 0; d < in_cluster.size(); ++d)
    alike[folded == nullptr ? d : folded->representative[d].index()].push_back(in_cluster[d].value);
  for (std::vector<int>& devices : alike) std::sort(devices.begin(), devices.end());
  return alike;
}

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
struct Lanes {
  std::vector<TaskId> compute, communication, messages;
};

std::vector<Lanes> lanes_of(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<Lanes> lanes(static_cast<std::size_t>(graph.devices));
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const TaskId task(t);
    const TaskKind kind = graph.of(task).kind;
    if (times.begin[task.index()] == times.end[task.index()]) continue;
    Lanes& own = lanes[graph.streams[graph.stream_of(task).index()].device.index()];
    if (is_compute(kind)) own.compute.push_back(task);
    if (kind == TaskKind::Collective || kind == TaskKind::HostCopy) own.communication.push_back(task);
    if (kind == TaskKind::Message) own.messages.push_back(task);
  }
  const auto before = [&](TaskId a, TaskId b) {
    return std::tuple(times.begin[a.index()], times.end[a.index()], graph.of(a).stage, graph.microbatch_of(a), a) <
           std::tuple(times.begin[b.index()], times.end[b.index()], graph.of(b).stage, graph.microbatch_of(b), b);
  };
  for (Lanes& own : lanes)
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

  void add(std::size_t device, const Lanes& lanes, const std::vector<TrackMemory>& memory, Track row) {
    Drawn drawn;
    for (const std::vector<TaskId>* lane : {&lanes.compute, &lanes.communication, &lanes.messages}) {
      const std::size_t begin = drawn.tasks.size();
      for (const TaskId task : *lane) {
        const TrackTask own = task_of(task);
        if (drawn.tasks.size() == begin || !drawn.tasks.back().same_work(own)) drawn.tasks.push_back(own);
        drawn.number.emplace_back(task, drawn.tasks.size() - 1);
      }
      drawn.ends.push_back(drawn.tasks.size());
    }
    const std::uint64_t key = key_of(drawn, memory);
    for (auto [same, last] = rows_by_key_.equal_range(key); same != last; ++same)
      if (is_same(tracks.rows[same->second], row, drawn, memory)) {
        Track& known = tracks.rows[same->second];
        known.devices.insert(known.devices.end(), row.devices.begin(), row.devices.end());
        return number(drawn, known.compute.begin);
      }
    row.like = DeviceId(static_cast<int>(device));
    const std::size_t first = tracks.tasks.size();
    row.compute = {first, first + drawn.ends[0]};
    row.communication = {row.compute.end, first + drawn.ends[1]};
    row.messages = {row.communication.end, first + drawn.ends[2]};
    number(drawn, first);
    tracks.tasks.insert(tracks.tasks.end(), drawn.tasks.begin(), drawn.tasks.end());
    for (const auto& [task, at] : drawn.number)
      if (first + at == first_of_.size()) first_of_.push_back(task);
    row.memory = {tracks.memory.size(), tracks.memory.size() + memory.size()};
    tracks.memory.insert(tracks.memory.end(), memory.begin(), memory.end());
    rows_by_key_.emplace(key, tracks.rows.size());
    tracks.rows.push_back(std::move(row));
  }

  void finish() {
    tracks.end = times_.step;
    for (const CriticalTask& critical : critical_path(graph_, times_))
      if (const int at = number_of_[critical.task.index()]; at >= 0)
        tracks.tasks[static_cast<std::size_t>(at)].critical = true;
    find_stream_predecessors();
    for (std::size_t i = 0; i < tracks.tasks.size(); ++i) tracks.tasks[i].waits_for = cause_of(first_of_[i]);
    for (Track& row : tracks.rows) std::sort(row.devices.begin(), row.devices.end());
    std::stable_sort(tracks.rows.begin(), tracks.rows.end(), [](const Track& a, const Track& b) {
      return std::pair(a.stage, a.devices.front()) < std::pair(b.stage, b.devices.front());
    });
  }

  Tracks tracks;

 private:
  struct Drawn {
    std::vector<TrackTask> tasks;
    std::vector<std::size_t> ends;                       // of the lanes
    std::vector<std::pair<TaskId, std::size_t>> number;  // of each task: which of `tasks` it is
  };

  [[nodiscard]] TrackTask task_of(TaskId task) const {
    const TaskClass& own = graph_.of(task);
    return {times_.begin[task.index()], times_.end[task.index()], own.kind, own.stage, graph_.microbatch_of(task)};
  }

  static std::uint64_t key_of(const Drawn& drawn, const std::vector<TrackMemory>& memory) {
    std::uint64_t key = drawn.tasks.size();
    const auto mix = [&](std::int64_t value) {
      key = (key ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15ULL;
      key ^= key >> 29;
    };
    for (const TrackTask& task : drawn.tasks) mix(task.begin.ps), mix(task.end.ps), mix(task.microbatch.value);
    for (const TrackMemory& point : memory) mix(point.time.ps), mix(point.total());
    return key;
  }

  [[nodiscard]] bool is_same(const Track& known, const Track& row, const Drawn& drawn,
                             const std::vector<TrackMemory>& memory) const {
    const std::size_t first = known.compute.begin;
    return known.stage == row.stage && known.standing == row.standing && known.usable == row.usable &&
           known.compute.size() == drawn.ends[0] && known.communication.end - first == drawn.ends[1] &&
           known.messages.end - first == drawn.ends[2] && known.memory.size() == memory.size() &&
           std::equal(drawn.tasks.begin(), drawn.tasks.end(), tracks.tasks.begin() + static_cast<std::ptrdiff_t>(first),
                      [](const TrackTask& a, const TrackTask& b) { return a.same_work(b); }) &&
           std::equal(memory.begin(), memory.end(),
                      tracks.memory.begin() + static_cast<std::ptrdiff_t>(known.memory.begin));
  }

  void number(const Drawn& drawn, std::size_t first) {
    for (const auto& [task, at] : drawn.number) number_of_[task.index()] = static_cast<int>(first + at);
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
  std::vector<int> number_of_;    // [task] of Tracks::tasks; -1: it is not drawn
  std::vector<TaskId> first_of_;  // [of Tracks::tasks] the first that it is
  std::vector<int> before_;       // [task] on its stream; -1: none
  std::multimap<std::uint64_t, std::size_t> rows_by_key_;
};

}  // namespace

Tracks tracks_of(const StepSimulation& step, const Plan& plan, const Program& program, const Graph& graph,
                 const FoldedDevices* folded) {
  const std::vector<std::vector<int>> alike = devices_stood_for(plan, program, folded);
  const std::vector<StandingMemory> standing = standing_memory(program, graph);
  const std::vector<Lanes> lanes = lanes_of(step.tasks.graph, step.times);
  const std::vector<std::vector<TrackMemory>> memory = memory_of_devices(step.tasks.graph, step.times);
  TrackBuilder builder(step);
  for (std::size_t d = 0; d < alike.size(); ++d) {
    if (alike[d].empty()) continue;
    Track row;
    row.devices = alike[d];
    row.stage = program.stage_of_device[d];
    row.standing = standing[d];
    row.usable = plan.cluster.group(plan.cluster.group_of_device(alike[d].front())).usable_memory();
    builder.add(d, lanes[d], memory[d], std::move(row));
  }
  builder.finish();
  return std::move(builder.tracks);
}

namespace {

std::int64_t computing_of(const Tracks& tracks, const Track& row) {
  std::int64_t sum = 0;
  for (std::size_t t = row.compute.begin; t < row.compute.end; ++t)
    sum += (tracks.tasks[t].end - tracks.tasks[t].begin).ps;
  return sum;
}

std::int64_t critical_of(const Tracks& tracks, const Track& row) {
  std::int64_t sum = 0;
  for (std::size_t t = row.compute.begin; t < row.compute.end; ++t)
    if (tracks.tasks[t].critical) sum += (tracks.tasks[t].end - tracks.tasks[t].begin).ps;
  return sum;
}

std::size_t tasks_of(const Track& row) { return row.messages.end - row.compute.begin; }

// [row] whether it keeps its tasks.
std::vector<bool> rows_to_keep(const Tracks& tracks, std::size_t most) {
  std::map<StageId, std::vector<std::size_t>> of_stage;
  for (std::size_t r = 0; r < tracks.rows.size(); ++r) of_stage[tracks.rows[r].stage].push_back(r);
  std::vector<std::size_t> wanted;
  for (const auto& [stage, rows] : of_stage) {
    const auto by = [&](auto measure) {
      return [&tracks, measure](std::size_t a, std::size_t b) {
        return measure(tracks, tracks.rows[a]) < measure(tracks, tracks.rows[b]);
      };
    };
    const auto [least, busiest] = std::minmax_element(rows.begin(), rows.end(), by(computing_of));
    const auto critical = std::max_element(rows.begin(), rows.end(), by(critical_of));
    for (const std::size_t row : {rows.front(), *busiest, *least, *critical}) wanted.push_back(row);
  }
  std::vector<bool> kept(tracks.rows.size(), false);
  std::size_t used = 0;
  for (const std::size_t row : wanted) {
    if (kept[row] || used + tasks_of(tracks.rows[row]) > most) continue;
    kept[row] = true;
    used += tasks_of(tracks.rows[row]);
  }
  return kept;
}

std::vector<std::uint8_t> shares_of_row(const Tracks& tracks, const Track& row) {
  std::vector<double> sums(kShareParts * kShareKinds, 0.0);
  const double part = static_cast<double>(tracks.end.ps) / kShareParts;
  for (std::size_t t = row.compute.begin; t < row.compute.end; ++t) {
    const TrackTask& task = tracks.tasks[t];
    const auto begin = static_cast<double>(task.begin.ps), end = static_cast<double>(task.end.ps);
    const auto last = std::min(kShareParts - 1, static_cast<std::size_t>(end / part));
    for (auto p = static_cast<std::size_t>(begin / part); p <= last; ++p) {
      const double at = static_cast<double>(p) * part;
      sums[p * kShareKinds + static_cast<std::size_t>(task.kind)] +=
          std::max(0.0, std::min(end, at + part) - std::max(begin, at)) / part;
    }
  }
  std::vector<std::uint8_t> shares;
  for (const double sum : sums) shares.push_back(static_cast<std::uint8_t>(std::clamp(255.0 * sum + 0.5, 0.0, 255.0)));
  return shares;
}

// The fullest point of each part of the step.
std::vector<TrackMemory> thinned_memory(const Tracks& tracks, const Track& row) {
  std::vector<TrackMemory> points;
  std::int64_t latest = -1;
  for (std::size_t m = row.memory.begin; m < row.memory.end; ++m) {
    const TrackMemory& point = tracks.memory[m];
    const std::int64_t part = static_cast<std::int64_t>(static_cast<double>(point.time.ps) /
                                                        static_cast<double>(tracks.end.ps) * kShareParts);
    if (part != latest)
      points.push_back(point);
    else if (point.total() > points.back().total())
      points.back() = point;
    latest = part;
  }
  return points;
}

}  // namespace

void keep_within(Tracks& tracks, std::size_t most) {
  if (tracks.tasks.size() <= most) return;
  const std::vector<bool> kept = rows_to_keep(tracks, most);
  Tracks less;
  less.end = tracks.end;
  std::vector<int> number(tracks.tasks.size(), -1);
  for (std::size_t r = 0; r < tracks.rows.size(); ++r) {
    Track row = tracks.rows[r];
    const std::vector<TrackMemory> memory =
        kept[r] ? std::vector(tracks.memory.begin() + static_cast<std::ptrdiff_t>(row.memory.begin),
                              tracks.memory.begin() + static_cast<std::ptrdiff_t>(row.memory.end))
                : thinned_memory(tracks, row);
    row.memory = {less.memory.size(), less.memory.size() + memory.size()};
    less.memory.insert(less.memory.end(), memory.begin(), memory.end());
    const std::size_t first = less.tasks.size(), before = row.compute.begin;
    if (kept[r]) {
      for (std::size_t t = before; t < row.messages.end; ++t) {
        number[t] = static_cast<int>(less.tasks.size());
        less.tasks.push_back(tracks.tasks[t]);
      }
      for (IndexRange* lane : {&row.compute, &row.communication, &row.messages})
        *lane = {lane->begin - before + first, lane->end - before + first};
    } else {
      const std::vector<std::uint8_t> shares = shares_of_row(tracks, row);
      row.shares = {less.shares.size(), less.shares.size() + shares.size()};
      less.shares.insert(less.shares.end(), shares.begin(), shares.end());
      row.compute = row.communication = row.messages = {first, first};
    }
    less.rows.push_back(std::move(row));
  }
  for (TrackTask& task : less.tasks)
    if (task.waits_for >= 0) task.waits_for = number[static_cast<std::size_t>(task.waits_for)];
  tracks = std::move(less);
}

namespace {

std::optional<TaskKind> task_kind(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::Forward:
      return TaskKind::Forward;
    case Span::Kind::Backward:
      return TaskKind::Backward;
    case Span::Kind::BackwardInput:
      return TaskKind::BackwardInput;
    case Span::Kind::BackwardWeight:
      return TaskKind::BackwardWeight;
    case Span::Kind::Update:
      return TaskKind::Update;
    case Span::Kind::Send:
      return TaskKind::Message;
    case Span::Kind::Collective:
      return TaskKind::Collective;
    case Span::Kind::Dispatch:
    case Span::Kind::Wait:
      break;
  }
  return std::nullopt;  // nothing is done
}

}  // namespace

Tracks tracks_of(const Timeline& timeline, const Plan& plan, const Program& program) {
  const std::vector<DeviceId> in_cluster = devices_in_cluster(plan, program);
  struct Spans {
    std::vector<TrackTask> compute, communication, messages;
  };
  std::vector<Spans> of_device(program.devices.size());
  for (const Span& span : timeline.spans) {
    const std::optional<TaskKind> kind = task_kind(span.kind);
    if (!kind || span.begin == span.end) continue;
    Spans& own = of_device[span.device.index()];
    std::vector<TrackTask>& lane = *kind == TaskKind::Message      ? own.messages
                                   : *kind == TaskKind::Collective ? own.communication
                                                                   : own.compute;
    lane.push_back({span.begin, span.end, *kind, span.stage, span.microbatch});
  }
  Tracks tracks;
  tracks.end = timeline.end;
  for (std::size_t d = 0; d < of_device.size(); ++d) {
    Track row;
    row.devices = {in_cluster[d].value};
    row.like = DeviceId(static_cast<int>(d));
    row.stage = program.stage_of_device[d];
    const auto append = [&](const std::vector<TrackTask>& lane) {
      const std::size_t begin = tracks.tasks.size();
      tracks.tasks.insert(tracks.tasks.end(), lane.begin(), lane.end());
      return IndexRange{begin, tracks.tasks.size()};
    };
    row.compute = append(of_device[d].compute);
    row.communication = append(of_device[d].communication);
    row.messages = append(of_device[d].messages);
    tracks.rows.push_back(std::move(row));
  }
  return tracks;
}

namespace {

const char* hue_of_task(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return "forward";
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return "backward";
    case TaskKind::BackwardWeight:
      return "weight-gradient";
    case TaskKind::Update:
      return "update";
    case TaskKind::Message:
      return "message";
    case TaskKind::Collective:
    case TaskKind::HostCopy:
      return "collective";
    case TaskKind::Dispatch:
    case TaskKind::Join:
      break;
  }
  return "idle";
}

std::string letter_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return "F";
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return "B";
    case TaskKind::BackwardWeight:
      return "W";
    case TaskKind::Update:
      return "U";
    default:
      return "";
  }
}

Json kinds_json() {
  Json kinds = Json::array();
  for (int k = 0; k <= static_cast<int>(TaskKind::HostCopy); ++k) {
    const auto kind = static_cast<TaskKind>(k);
    kinds.push_back({{"name", name_of(kind)}, {"hue", hue_of_task(kind)}, {"letter", letter_of(kind)}});
  }
  return kinds;
}

Json range_json(const IndexRange& range) { return Json::array({range.begin, range.end}); }

Json track_json(const Track& row) {
  Json json = {{"devices", ranges_json(row.devices)},
               {"stage", row.stage.value},
               {"compute", range_json(row.compute)},
               {"communication", range_json(row.communication)},
               {"messages", range_json(row.messages)},
               {"memory", range_json(row.memory)},
               {"weights", row.standing.weights.si()},
               {"gradients", row.standing.gradients.si()},
               {"optimizer", row.standing.optimizer.si()},
               {"other", row.standing.other.si()},
               {"usable", row.usable ? Json(row.usable->si()) : Json(nullptr)}};
  if (row.shares) json["shares"] = range_json(*row.shares);
  return json;
}

}  // namespace

void add_tracks(Page& page, const Tracks& tracks) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;  // a double counts picoseconds up to there
  require(tracks.end.ps < kExact, "--html: the step takes {:.0f} s, and a page shows at most 9007 s; leave --html out.",
          to_seconds(tracks.end).si());
  page.members["step_ps"] = tracks.end.ps;
  page.members["kinds"] = kinds_json();
  Json& rows = page.members["tracks"] = Json::array();
  for (const Track& row : tracks.rows) rows.push_back(track_json(row));
  std::vector<double> begin, end, time, activations, temporary;
  std::vector<std::int32_t> microbatch, stage, waits_for;
  std::vector<std::uint8_t> kind, critical;
  for (const TrackTask& task : tracks.tasks) {
    begin.push_back(static_cast<double>(task.begin.ps));
    end.push_back(static_cast<double>(task.end.ps));
    kind.push_back(static_cast<std::uint8_t>(task.kind));
    microbatch.push_back(task.microbatch.value);
    stage.push_back(task.stage.value);
    waits_for.push_back(task.waits_for);
    critical.push_back(task.critical ? 1 : 0);
  }
  for (const TrackMemory& point : tracks.memory) {
    time.push_back(static_cast<double>(point.time.ps));
    activations.push_back(static_cast<double>(point.activations));
    temporary.push_back(static_cast<double>(point.temporary));
  }
  page.columns.add("task.begin_ps", begin);
  page.columns.add("task.end_ps", end);
  page.columns.add("task.micro_batch", microbatch);
  page.columns.add("task.stage", stage);
  page.columns.add("task.waits_for", waits_for);
  page.columns.add("task.kind", kind);
  page.columns.add("task.critical", critical);
  page.columns.add("memory.time_ps", time);
  page.columns.add("memory.activations", activations);
  page.columns.add("memory.temporary", temporary);
  page.columns.add("row.shares", tracks.shares);
}

}  // namespace meshwright
