// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/step_breakdown.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/errors.h"
#include "simulator/report/periods.h"

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

// A Run's executable, and the piece where it has some.
struct Work {
  int executable = -1, piece = -1;
  auto operator<=>(const Work&) const = default;
};

struct DeviceTasks {
  std::map<Work, std::int64_t> computed;  // how long
  Periods computing;                      // when
  std::int64_t first = std::numeric_limits<std::int64_t>::max(),
               last = -1;                                     // the begin of the first, the end of the last
  std::map<TaskKind, std::map<Work, Periods>> communicating;  // messages without a Work
};

class Breakdown {
 public:
  Breakdown(const Program& program, const RunParts& parts, const std::vector<SimTime>& whole, const NamedStep& step,
            const FoldedDevices* folded)
      : program_(program), parts_(parts), whole_(whole), step_(step), folded_(folded), tasks_(program.devices.size()) {
    if (step.among) within_ = {step.among->begin.ps, step.among->end.ps};
  }

  StepBreakdown find() {
    collect();
    StepBreakdown found;
    found.step = step_.among ? step_.among->each() : step_.times.step;
    const std::vector<int> counts = folded_ == nullptr ? std::vector<int>{} : folded_->counts();
    for (std::size_t d = 0; d < tasks_.size(); ++d) {
      const int count = counts.empty() ? 1 : counts[d];
      if (count == 0) continue;
      TimeParts parts = parts_of(tasks_[d]);
      if (step_.among) parts = of_one_step(parts, *step_.among);
      const DeviceBreakdown& device = found.devices.emplace_back(
          DeviceBreakdown{DeviceId(static_cast<int>(d)), count, program_.stage_of_device[d], std::move(parts)});
      MW_CHECK(exposed_of(device.parts) == found.step, "the parts of device {} are {} ps of a step of {} ps", d,
               exposed_of(device.parts).ps, found.step.ps);
    }
    return found;
  }

 private:
  static TimeParts of_one_step(const TimeParts& of_all, const LastSteps& among) {
    TimeParts parts = scaled_to(of_all, among.each());
    for (auto& [part, time] : parts) time.hidden.ps /= among.steps;
    return parts;
  }

  [[nodiscard]] Period clipped(Period when) const {
    return {std::max(when.begin, within_.begin), std::min(when.end, within_.end)};
  }

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
      const Period whole{step_.times.begin[t].ps, step_.times.end[t].ps}, when = clipped(whole);
      const bool is_within = !step_.among || when.begin < when.end;
      Latest& before = latest[graph.stream_of(task).index()];
      const Work work = work_of(task);
      if (is_compute(own.kind)) {
        DeviceTasks& device = tasks_[stream.device.index()];
        if (whole.begin < whole.end) {
          device.first = std::min(device.first, whole.begin);
          device.last = std::max(device.last, whole.end);
        }
        if (is_within) {
          device.computed[work] += when.end - when.begin;
          device.computing.push_back(when);
        }
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
            clipped({before.end, whole.begin}));
      }
      before.end = whole.end;
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
    Periods waiting{within_};
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
      const bool between = gap.begin >= device.first && gap.end <= device.last;
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
  Period within_{0, step_.times.step.ps};  // what is taken apart
  std::vector<DeviceTasks> tasks_;         // [device]
  std::map<Work, TimeParts> known_;
};

}  // namespace

StepBreakdown step_breakdown(const Program& program, const RunParts& parts, const std::vector<SimTime>& whole,
                             const NamedStep& step, const FoldedDevices* folded) {
  return Breakdown(program, parts, whole, step, folded).find();
}

}  // namespace meshwright
