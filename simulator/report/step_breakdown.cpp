// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/step_breakdown.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

TimeParts StepBreakdown::of_all() const {
  TimeParts sum;
  for (const DeviceBreakdown& device : devices) add_parts(sum, device.parts, device.count);
  return sum;
}

int StepBreakdown::count() const {
  int sum = 0;
  for (const DeviceBreakdown& device : devices) sum += device.count;
  return sum;
}

namespace {

struct Period {
  std::int64_t begin, end;
};
using Periods = std::vector<Period>;

// Sorted, overlapping and touching ones made one.
Periods united_periods(Periods all) {
  std::sort(all.begin(), all.end(), [](Period a, Period b) { return a.begin < b.begin; });
  Periods whole;
  for (const Period next : all) {
    if (next.begin >= next.end) continue;
    if (!whole.empty() && next.begin <= whole.back().end) {
      whole.back().end = std::max(whole.back().end, next.end);
    } else {
      whole.push_back(next);
    }
  }
  return whole;
}

std::int64_t length_of(const Periods& all) {
  std::int64_t sum = 0;
  for (const Period each : all) sum += each.end - each.begin;
  return sum;
}

// Takes what `taken` covers out of `from`; returns how much that is. REQUIRES: both sorted and apart.
std::int64_t take_out(Periods& from, const Periods& taken) {
  Periods left;
  std::int64_t sum = 0;
  std::size_t t = 0;
  for (Period rest : from) {
    while (t < taken.size() && taken[t].end <= rest.begin) ++t;
    for (std::size_t next = t; next < taken.size() && taken[next].begin < rest.end; ++next) {
      const std::int64_t begin = std::max(rest.begin, taken[next].begin), end = std::min(rest.end, taken[next].end);
      sum += end - begin;
      if (rest.begin < begin) left.push_back({rest.begin, begin});
      rest.begin = end;
    }
    if (rest.begin < rest.end) left.push_back(rest);
  }
  from = std::move(left);
  return sum;
}

// A Run's executable, and the piece where it has some.
struct Work {
  int executable = -1, piece = -1;
  auto operator<=>(const Work&) const = default;
};

struct DeviceTasks {
  std::map<Work, std::int64_t> computed;                      // how long
  Periods computing;                                          // when
  std::map<TaskKind, std::map<Work, Periods>> communicating;  // messages without a Work
};

class Breakdown {
 public:
  Breakdown(const Program& program, const RunParts& parts, const std::vector<SimTime>& whole, const NamedStep& step,
            const FoldedDevices* folded)
      : program_(program), parts_(parts), whole_(whole), step_(step), folded_(folded), tasks_(program.devices.size()) {}

  StepBreakdown find() {
    collect();
    StepBreakdown found;
    found.step = step_.times.step;
    const std::vector<int> counts = folded_ == nullptr ? std::vector<int>{} : folded_->counts();
    for (std::size_t d = 0; d < tasks_.size(); ++d) {
      const int count = counts.empty() ? 1 : counts[d];
      if (count == 0) continue;
      const DeviceBreakdown& device = found.devices.emplace_back(
          DeviceBreakdown{DeviceId(static_cast<int>(d)), count, program_.stage_of_device[d], parts_of(tasks_[d])});
      MW_CHECK(exposed_of(device.parts) == found.step, "the parts of device {} are {} ps of a step of {} ps", d,
               exposed_of(device.parts).ps, found.step.ps);
    }
    return found;
  }

 private:
  void collect() {
    const TaskGraph& graph = step_.tasks.graph;
    MW_CHECK(step_.tasks.of.size() == graph.size(), "{} tasks, {} names", graph.size(), step_.tasks.of.size());
    struct Latest {
      Work work;
      std::int64_t end = 0;
    };
    std::vector<Latest> latest(graph.streams.size());
    for (std::size_t t = 0; t < graph.size(); ++t) {
      const TaskId task(static_cast<int>(t));
      const TaskClass& own = graph.of(task);
      const Stream& stream = graph.streams[graph.stream_of(task).index()];
      const Period when{step_.times.begin[t].ps, step_.times.end[t].ps};
      Latest& before = latest[graph.stream_of(task).index()];
      const Work work = work_of(task);
      if (is_compute(own.kind)) {
        DeviceTasks& device = tasks_[stream.device.index()];
        device.computed[work] += when.end - when.begin;
        device.computing.push_back(when);
        before.work = work;
      } else if (own.kind == TaskKind::Message) {
        for (const DeviceId end : {stream.device, stream.peer})
          tasks_[end.index()].communicating[own.kind][Work{}].push_back(when);
      } else if (is_communication(own.kind)) {
        tasks_[stream.device.index()].communicating[own.kind][work].push_back(when);
        before.work = work;
      } else if (own.kind == TaskKind::Join && own.part_of != TaskKind::Join) {
        // The member waits until the flow of its group ends.
        tasks_[stream.device.index()].communicating[TaskKind::Collective][before.work].push_back(
            {before.end, when.begin});
      }
      before.end = when.end;
    }
  }

  // REQUIRES: a computation, a collective or a copy.
  [[nodiscard]] Work work_of(TaskId task) const {
    const ProgramTask& of = step_.tasks.of[task.index()];
    if (of.device < 0 || of.instruction < 0 || of.transfer >= 0) return {};
    const std::vector<Instruction>& list = program_.devices[static_cast<std::size_t>(of.device)];
    if (static_cast<std::size_t>(of.instruction) >= list.size()) return {};
    const Instruction& at = list[static_cast<std::size_t>(of.instruction)];
    return at.kind == Instruction::Kind::Run ? Work{at.executable, of.piece} : Work{};
  }

  const TimeParts& parts_of(const Work& work) {
    const auto [known, is_new] = known_.try_emplace(work);
    if (!is_new) return known->second;
    const auto e = static_cast<std::size_t>(work.executable);
    known->second = work.piece < 0
                        ? parts_.of_run(work.executable, whole_[e])
                        : parts_.of_piece(work.executable, (*step_.pieces)[e][static_cast<std::size_t>(work.piece)]);
    return known->second;
  }

  TimeParts parts_of(DeviceTasks& device) {
    TimeParts parts;
    for (const auto& [work, time] : device.computed) add_parts(parts, of_tasks(work, time));
    const Periods computing = united_periods(std::move(device.computing));
    // Computations that go on at once share the time that they take together.
    if (const SimTime together{length_of(computing)}; exposed_of(parts) != together) parts = scaled_to(parts, together);
    Periods waiting{{0, step_.times.step.ps}};
    take_out(waiting, computing);
    for (const TaskKind kind : {TaskKind::Collective, TaskKind::HostCopy, TaskKind::Message})
      for (auto& [work, periods] : device.communicating[kind]) {
        const Periods own = united_periods(std::move(periods));
        const std::int64_t exposed = take_out(waiting, own);
        const TimePart part = part_of_communication(kind, work);
        parts[part].exposed.ps += exposed;
        parts[part].hidden.ps += length_of(own) - exposed;
      }
    for (const Period gap : waiting) {
      const bool between =
          !computing.empty() && gap.begin >= computing.front().begin && gap.end <= computing.back().end;
      parts[{.kind = between ? TimeKind::Bubble : TimeKind::Idle}].exposed.ps += gap.end - gap.begin;
    }
    return parts;
  }

  // All computations of one Work on a device, which took so long.
  TimeParts of_tasks(const Work& work, std::int64_t time) {
    const TimeParts& one = parts_of(work);
    const std::int64_t each = exposed_of(one).ps;
    if (each == 0) return {};
    TimeParts all;
    // Hidden times are those of each, and exposed ones those of what it took.
    add_parts(all, one, (time + each / 2) / each);
    return scaled_to(all.empty() || exposed_of(all).ps == 0 ? one : all, SimTime{time});
  }

  TimePart part_of_communication(TaskKind kind, const Work& work) {
    if (kind == TaskKind::Message || work.executable < 0) return {.kind = TimeKind::Message};
    const StageExecutable& executable = program_.executables[static_cast<std::size_t>(work.executable)];
    const Piece& piece =
        (*step_.pieces)[static_cast<std::size_t>(work.executable)][static_cast<std::size_t>(work.piece)];
    return parts_.part_of(executable, executable.ops[static_cast<std::size_t>(piece.ops.front())]);
  }

  const Program& program_;
  const RunParts& parts_;
  const std::vector<SimTime>& whole_;
  const NamedStep& step_;
  const FoldedDevices* folded_;
  std::vector<DeviceTasks> tasks_;  // [device]
  std::map<Work, TimeParts> known_;
};

}  // namespace

StepBreakdown step_breakdown(const Program& program, const RunParts& parts, const std::vector<SimTime>& whole,
                             const NamedStep& step, const FoldedDevices* folded) {
  return Breakdown(program, parts, whole, step, folded).find();
}

}  // namespace meshwright
