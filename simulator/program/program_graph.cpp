// SPDX-License-Identifier: Apache-2.0
// The graph without overlap: each Run is one task. An Exchange needs no task of its own: what comes after it waits for
// its messages. Only if another Exchange follows, which is posted when this one has ended, a Join stands between them.
//
// Memory. `level` is the number of bytes on a device, in the order of its instructions. A task ends with the level at
// which the device next waits or works: after the Frees that follow it and the buffers that Exchanges receive, up to
// the first Exchange that waits. Levels in between last for no time, but they count for the peak: the next task begins
// with the largest of them.
#include <algorithm>

#include "core/base/errors.h"
#include "simulator/program/collective_groups.h"
#include "simulator/program/program_tasks.h"

namespace meshwright {

namespace {

class WholeRuns final : public ProgramWalk {
 public:
  explicit WholeRuns(ProgramTasks& tasks) : ProgramWalk(tasks), groups_(tasks), device_(tasks.program.devices.size()) {
    for (const StageExecutable& executable : tasks.program.executables) runs_.push_back(facts_of(executable));
    for (const DeviceId device : devices_)
      device_[device].stream = tasks.add_stream(Stream::Kind::Compute, device, device);
  }

 private:
  static constexpr int kNone = -1;
  struct RunFacts {
    TaskKind kind;
    StageId stage;
    SimTime duration;
    std::int64_t needs = 0, leaves = 0;          // bytes: while it runs, and what it defines
    const std::vector<Piece>* pieces = nullptr;  // where some of them are on links
  };
  struct Device {
    StreamId stream{0};
    int last = kNone;     // task on its stream
    int arrived = kNone;  // the latest Exchange since then
    // While the instruction list is read:
    std::int64_t level = 0;  // of its instructions up to `settled`
    std::int64_t told = 0;   // as its latest task left it
    std::int64_t max = 0;    // of the levels since that task ended
    std::size_t settled = 0;
    TaskClassId end_join{kNone};
    std::vector<TaskId> issued;  // dispatches that the next task also waits for
  };
  // What the tasks at a stop are.
  struct StopClass {
    // For a Run: its class; for a Run in pieces: the Joins before and behind the pieces. For an Exchange: a Join before
    // it, or kNone.
    TaskClassId own{kNone}, behind{kNone};
  };

  RunFacts facts_of(const StageExecutable& executable) {
    const std::size_t number = runs_.size();
    RunFacts facts{kind_of(executable), executable.stage, tasks_.times.executable[number]};
    facts.needs = static_cast<std::int64_t>(executable.peak_extra.si());
    seen_.resize(bytes_.size(), kNone);
    // Inputs first: a buffer that is read and written in place is no new memory.
    for (const bool inputs : {true, false})
      for (const StageExecutable::Slot& slot : executable.slots) {
        if (!slot.buffer || !(inputs ? slot.input : slot.output)) continue;
        int& seen = seen_[slot.buffer->index()];
        if (seen == static_cast<int>(number)) continue;
        seen = static_cast<int>(number);
        if (!inputs) facts.leaves += bytes_[*slot.buffer];
      }
    facts.needs = std::max(facts.needs, facts.leaves);
    if (tasks_.options.in_order == nullptr || !executable.has_collectives()) return facts;
    const std::vector<Piece>& pieces = (*tasks_.options.in_order)[number];
    for (std::size_t p = 0; p < pieces.size(); ++p)
      if (groups_.on_links(static_cast<int>(number), p)) facts.pieces = &pieces;
    return facts;
  }

  void add_last(DeviceId device, std::vector<TaskId>& last) const override { add_pending(device, last); }

  // The messages of the step's last Exchange are awaited by the first task of the next step.
  void end_step() override {
    for (const DeviceId id : devices_) {
      Device& device = device_[id];
      if (device.arrived == kNone) continue;
      for (const int t : receives(device.arrived)) device.issued.push_back(message_of(t));
      device.arrived = kNone;
    }
  }

  // --- classes, in the order of a list ---

  void prepare(DeviceId id, int first) override {
    Device& device = device_[id];
    const std::vector<Instruction>& list = tasks_.program.devices[id.index()];
    const StageId stage = tasks_.program.stage_of_device[id.index()];
    device.settled = 0;
    device.end_join = TaskClassId(kNone);
    class_.resize(stops_.size());
    int stop = first;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Instruction& instruction = list[i];
      switch (instruction.kind) {
        case Instruction::Kind::Run:
          class_[stop++] = class_of_run(device, list, i);
          break;
        case Instruction::Kind::Exchange:
        case Instruction::Kind::Await:
          class_[stop++].own = i < device.settled ? TaskClassId(kNone) : join_class(device, list, i, stage);
          break;
        case Instruction::Kind::Free:
          if (i < device.settled) break;
          device.level -= bytes_of(instruction.buffers);
          device.settled = i + 1;
          break;
      }
    }
    // Bytes that change after the last task still have to be counted: a Join at the end of the list does so.
    if (device.told != device.level || device.max > device.told)
      device.end_join = join_class(device, list, list.size(), stage);
    // The same in each step.
    for (std::size_t send = messages_.size(); send < sends_.size(); ++send)
      messages_.push_back(tasks_.message(sends_[send]));
  }

  void prepared() override {
    const auto steps = static_cast<std::size_t>(tasks_.options.steps);
    const std::size_t tasks = stops_.size() + sends_.size() + members_met_ + devices_.size();
    if (tasks_.made.graph.size() == 0)
      tasks_.made.graph.reserve(steps * tasks, steps * (sends_.size() + receives_.size() + 2 * members_met_));
    class_.resize(stops_.size());
  }

  // The level at which the device, with the instructions from `from` on before it, next waits or works.
  void settle(Device& device, const std::vector<Instruction>& list, std::size_t from) const {
    std::optional<std::int64_t> max;
    device.settled = from;
    for (bool waits = false; device.settled < list.size() && !waits; ++device.settled) {
      const Instruction& instruction = list[device.settled];
      if (instruction.kind == Instruction::Kind::Run) break;
      if (instruction.kind == Instruction::Kind::Free) {
        device.level -= bytes_of(instruction.buffers);
        continue;
      }
      waits = instruction.kind == Instruction::Kind::Await || instruction.waits;
      device.level += bytes_of(instruction.buffers);
      max = std::max(max.value_or(device.level), device.level);
    }
    device.told = device.level;
    device.max = std::max(max.value_or(device.level), device.level);
  }

  TaskClassId join_class(Device& device, const std::vector<Instruction>& list, std::size_t next, StageId stage) {
    TaskClass wanted{TaskKind::Join, stage};
    const std::int64_t before = device.told, max = std::max(device.max, device.level);
    wanted.memory_at_begin = max - before;
    settle(device, list, next);
    device.max = std::max(device.max, max);
    wanted.memory_at_end = device.told - before;
    return tasks_.class_for(wanted);
  }

  StopClass class_of_run(Device& device, const std::vector<Instruction>& list, std::size_t i) {
    const RunFacts& facts = runs_[list[i].executable];
    const std::int64_t before = device.told, max = std::max(device.max, device.level + facts.needs);
    device.level += facts.leaves;
    settle(device, list, i + 1);
    // A Run of no duration has no moment of its own: its peak counts at the next task.
    if (facts.duration.ps == 0) device.max = std::max(device.max, max);
    TaskClass wanted{facts.kind, facts.stage, facts.duration};
    wanted.memory_at_begin = max - before;
    wanted.memory_at_end = device.told - before;
    if (facts.pieces == nullptr) return {tasks_.class_for(wanted), TaskClassId(kNone)};
    TaskClass join{TaskKind::Join, facts.stage};
    join.memory_at_begin = join.memory_at_end = max - before;
    const TaskClassId first = tasks_.class_for(join);
    join.memory_at_begin = 0;
    join.memory_at_end = device.told - max;
    return {first, tasks_.class_for(join)};
  }

  // --- tasks ---

  // All that the device has not waited for yet: dispatches, messages of the latest Exchange, and its latest task.
  void add_pending(DeviceId id, std::vector<TaskId>& after) const {
    const Device& device = device_[id];
    after.insert(after.end(), device.issued.begin(), device.issued.end());
    if (device.arrived != kNone)
      for (const int t : receives(device.arrived)) after.push_back(message_of(t));
    if (device.last != kNone) after.emplace_back(device.last);
  }

  TaskId append(const AtStop& place, TaskClassId task_class, std::span<const TaskId> after, int piece = kNone) {
    Device& device = device_[place.device];
    const Stop& stop = at(place);
    const TaskId task = tasks_.add(task_class, device.stream, stop.microbatch, after,
                                   {place.device.value, stop.instruction, kNone, piece});
    device.last = task.value;
    device.arrived = kNone;
    if (!device.issued.empty()) device.issued.clear();
    return task;
  }

  // A Join of all these devices, after which they begin together.
  TaskId join(std::span<const AtStop> places, StageId stage) {
    after_.clear();
    for (const AtStop& place : places) add_pending(place.device, after_);
    const AtStop& first = places.front();
    return tasks_.add(tasks_.class_for({TaskKind::Join, stage}), device_[first.device].stream, at(first).microbatch,
                      after_, {first.device.value, at(first).instruction, kNone, kNone});
  }

  void run(std::span<const AtStop> places) override {
    const RunFacts& facts = runs_[at(places.front()).executable];
    if (tasks_.options.controller)
      for (const AtStop& place : places) issuer_.issue(instruction(place), device_[place.device].issued);
    // A Run with collectives begins when the last of its devices is ready: one Join in place of an edge per pair.
    if (places.size() > 1) {
      const TaskId together = join(places, facts.stage);
      after_.assign(1, together);
    } else {
      after_.clear();
      add_pending(places.front().device, after_);
    }
    for (const AtStop& place : places) append(place, class_[place.stop].own, after_);
    if (facts.pieces == nullptr) return;
    run_pieces(places, facts);
    for (const AtStop& place : places) append(place, class_[place.stop].behind, {});
  }

  void run_pieces(std::span<const AtStop> places, const RunFacts& facts) {
    const int executable = at(places.front()).executable;
    for (std::size_t p = 0; p < facts.pieces->size(); ++p) {
      const Piece& piece = (*facts.pieces)[p];
      if (piece.kind == Piece::Kind::Compute) {
        const TaskClassId own = tasks_.class_for({facts.kind, facts.stage, piece.duration});
        for (const AtStop& place : places) append(place, own, {}, static_cast<int>(p));
        continue;
      }
      for (const CollectiveGroups::Group& group : groups_.of(places, executable, p, piece.axis)) {
        members_.clear();
        for (const std::size_t member : group.members) members_.push_back(places[member]);
        TaskClass own{TaskKind::Collective, facts.stage, piece.duration};
        own.part_of = facts.kind;
        add_collective(group, own, static_cast<int>(p));
      }
    }
  }

  // A collective of members_. Its flow is that of the whole group, so only the first member's task is on the links.
  void add_collective(const CollectiveGroups::Group& group, TaskClass own, int piece) {
    const TaskClassId each = tasks_.class_for(own);
    TaskClass end{TaskKind::Join, own.stage};
    end.part_of = own.part_of;
    const TaskClassId ended = tasks_.class_for(end);
    if (group.route != TaskClass::kNoRoute) {
      own.route = group.route;
      own.latency = own.duration - group.on_links;
    }
    std::vector<TaskId> together;
    if (members_.size() > 1) together.push_back(join(members_, own.stage));
    const TaskId first = append(members_.front(), tasks_.class_for(own), together, piece);
    for (std::size_t i = 1; i < members_.size(); ++i) {
      append(members_[i], each, together, piece);
      if (group.route != TaskClass::kNoRoute) append(members_[i], ended, {&first, 1});
    }
  }

  void post(const AtStop& place) override {
    Device& device = device_[place.device];
    const int stop = place.stop;
    if (class_[stop].own != TaskClassId(kNone)) {
      after_.clear();
      add_pending(place.device, after_);
      append(place, class_[stop].own, after_);
    }
    if (at(place).kind == Stop::Kind::Await) return;
    if (tasks_.options.controller) issuer_.issue(instruction(place), device.issued);
    after_.assign(device.issued.begin(), device.issued.end());
    if (device.last != kNone) after_.emplace_back(device.last);
    for (std::size_t send = stops_[stop].sends; send < stops_[stop + 1].sends; ++send) {
      const ProgramTasks::Message& own = messages_[send];
      const std::optional<TaskId> leader = goes_along_with(sends_[send]);
      const std::span<const TaskId> after = leader ? std::span(&*leader, 1) : std::span<const TaskId>(after_);
      sent(sends_[send], tasks_.add(own.task_class, own.stream, own.microbatch, after,
                                    {place.device.value, at(place).instruction, sends_[send], kNone}));
    }
  }

  void arrive(const AtStop& place) override { device_[place.device].arrived = place.stop; }

  void end(DeviceId id) override {
    Device& device = device_[id];
    if (device.end_join == TaskClassId(kNone)) return;
    after_.clear();
    add_pending(id, after_);
    device.last = tasks_
                      .add(device.end_join, device.stream, MicrobatchId(0), after_,
                           {id.value, static_cast<int>(tasks_.program.devices[id.index()].size()), kNone, kNone})
                      .value;
    device.arrived = kNone;
    device.issued.clear();
  }

  CollectiveGroups groups_;
  IndexedVector<DeviceId, Device> device_;
  IndexedVector<int, RunFacts> runs_;            // [executable]
  std::vector<int> seen_;                        // [buffer] the latest executable with it
  IndexedVector<int, StopClass> class_;          // [stop]
  std::vector<ProgramTasks::Message> messages_;  // [send]
  std::vector<TaskId> after_;
  std::vector<AtStop> members_;
};

}  // namespace

ProgramGraph program_graph(const Program& program, const ProgramTimes& times, const ProgramGraphOptions& options) {
  ProgramTasks tasks(program, times, options);
  if (options.overlap != nullptr) return overlapped_graph(tasks);
  WholeRuns(tasks).build();
  return std::move(tasks.made);
}

LastSteps last_steps(const ProgramGraph& graph, const TaskTimes& times, int period) {
  const int steps = static_cast<int>(graph.first_of_step.size()) - 1;
  MW_CHECK(1 <= period && period < steps, "the last {} of {} steps", period, steps);
  const auto end_of = [&](int step) {
    SimTime end{0};
    const auto first = static_cast<std::size_t>(graph.first_of_step[static_cast<std::size_t>(step)]);
    const auto last = static_cast<std::size_t>(graph.first_of_step[static_cast<std::size_t>(step) + 1]);
    for (std::size_t t = first; t < last; ++t)
      // A controller runs ahead of the devices; a step ends when its devices end.
      if (graph.graph.streams[graph.graph.stream_of(TaskId(static_cast<int>(t))).index()].kind !=
          Stream::Kind::Controller)
        end = std::max(end, times.end[t]);
    return end;
  };
  return {end_of(steps - 1 - period), end_of(steps - 1), period};
}

SimTime step_among_many(const ProgramGraph& graph, const TaskTimes& times, int period) {
  return last_steps(graph, times, period).each();
}

}  // namespace meshwright
