// SPDX-License-Identifier: Apache-2.0
// Runs as wholes. An Exchange needs no task of its own: what comes after it waits for its messages. Only where another
// Exchange follows, which is posted when this one has ended, the two meet in a Join.
//
// Bytes. `level` is what lies on a device in the order of its instructions. A task ends with the level at which the
// device next waits or works: after the Frees that follow, and what an Exchange receives. Levels in between take no
// time of their own, but count: the next task begins with the largest of them.
#include <algorithm>

#include "core/base/errors.h"
#include "simulator/program_tasks.h"

namespace meshwright {

namespace {

class WholeRuns final : public ProgramWalk {
 public:
  explicit WholeRuns(ProgramTasks& tasks) : ProgramWalk(tasks), issuer_(tasks), device_(tasks.program.devices.size()) {
    for (const Buffer& buffer : tasks.program.buffers)
      bytes_.push_back(buffer.persistent ? 0 : static_cast<std::int64_t>(buffer.local.bytes().si()));
    for (const StageExecutable& executable : tasks.program.executables) runs_.push_back(facts_of(executable));
    for (const DeviceId device : devices_)
      device_[device.index()].stream = tasks.add_stream(Stream::Kind::Compute, device, device);
  }

  void build() {
    ProgramGraph& made = tasks_.made;
    made.first_of_step = {0};
    for (int step = 0; step < tasks_.options.steps; ++step) {
      issuer_.begin_step();
      for (const DeviceId device : devices_) device_[device.index()].settled = 0;
      walk_step();
      std::vector<std::vector<TaskId>> done(device_.size());
      for (const DeviceId device : devices_) done[device.index()] = device_[device.index()].waits_for();
      issuer_.end_step(step, done);
      made.first_of_step.push_back(static_cast<std::int32_t>(made.graph.size()));
    }
  }

 private:
  struct RunFacts {
    TaskKind kind;
    StageId stage;
    SimTime duration;
    std::int64_t needs = 0, leaves = 0;  // bytes: while it runs, and what it defines
  };
  struct Device {
    StreamId stream{0};
    std::optional<TaskId> last;   // on its stream
    std::vector<TaskId> pending;  // messages, and what was issued, since
    std::int64_t level = 0;       // of its instructions up to `settled`
    std::int64_t told = 0;        // as its latest task left it
    std::int64_t most = 0;        // of the levels since that task ended
    int settled = 0;              // instructions of this step

    [[nodiscard]] std::vector<TaskId> waits_for() const {
      std::vector<TaskId> all = pending;
      if (last) all.push_back(*last);
      return all;
    }
  };

  RunFacts facts_of(const StageExecutable& executable) const {
    const std::size_t number = runs_.size();
    RunFacts facts{kind_of(executable), executable.stage, tasks_.times.executable[number]};
    facts.needs = static_cast<std::int64_t>(executable.peak_extra.si());
    std::vector<BufferId> known;
    for (const bool inputs : {true, false})
      for (const StageExecutable::Slot& slot : executable.slots) {
        if (!slot.buffer || !(inputs ? slot.input : slot.output)) continue;
        if (std::find(known.begin(), known.end(), *slot.buffer) != known.end()) continue;
        known.push_back(*slot.buffer);
        if (!inputs) facts.leaves += bytes_[slot.buffer->index()];
      }
    facts.needs = std::max(facts.needs, facts.leaves);
    return facts;
  }

  std::int64_t sum(const std::vector<BufferId>& buffers) const {
    std::int64_t bytes = 0;
    for (const BufferId buffer : buffers) bytes += bytes_[buffer.index()];
    return bytes;
  }

  // The level at which the device next waits or works.
  void settle(DeviceId id, int from) {
    Device& device = device_[id.index()];
    const std::vector<Instruction>& instructions = tasks_.program.devices[id.index()];
    device.settled = from;
    bool posted = false;
    for (; static_cast<std::size_t>(device.settled) < instructions.size() && !posted; ++device.settled) {
      const Instruction& instruction = instructions[static_cast<std::size_t>(device.settled)];
      if (instruction.kind == Instruction::Kind::Run) break;
      posted = instruction.kind == Instruction::Kind::Exchange;
      device.level += posted ? sum(instruction.buffers) : -sum(instruction.buffers);
    }
    device.told = device.most = device.level;
  }

  // Appends a task that needs and leaves so many bytes, with the instructions from `next` on behind it.
  TaskId append(const AtInstruction& place, int next, TaskClass task_class, MicrobatchId microbatch,
                const std::vector<TaskId>& after, std::int64_t needs, std::int64_t leaves) {
    Device& device = device_[place.device.index()];
    const std::int64_t before = device.told;
    const std::int64_t most = std::max(device.most, device.level + needs);
    task_class.memory_at_begin = most - before;
    device.level += leaves;
    settle(place.device, next);
    if (task_class.duration.ps == 0) device.most = std::max(device.most, most);
    task_class.memory_at_end = device.told - before;
    const TaskId task = tasks_.add(tasks_.class_for(task_class), device.stream, microbatch, after,
                                   {place.device.value, place.index, -1, -1});
    device.last = task;
    device.pending.clear();
    return task;
  }

  void join(const AtInstruction& place) {
    Device& device = device_[place.device.index()];
    const StageId stage = tasks_.program.stage_of_device[place.device.index()];
    append(place, place.index, {TaskKind::Join, stage}, MicrobatchId(0), std::vector<TaskId>(device.pending), 0, 0);
  }

  void run(const std::vector<AtInstruction>& places) override {
    const Instruction& instruction = tasks_.at(places.front());
    const RunFacts& facts = runs_[static_cast<std::size_t>(instruction.executable)];
    for (const AtInstruction& place : places) issuer_.issue(place, device_[place.device.index()].pending);
    std::optional<TaskId> together;
    if (places.size() > 1) {
      after_.clear();
      for (const AtInstruction& place : places) {
        const Device& device = device_[place.device.index()];
        after_.insert(after_.end(), device.pending.begin(), device.pending.end());
        if (device.last) after_.push_back(*device.last);
      }
      const AtInstruction& first = places.front();
      together = tasks_.add(tasks_.class_for({TaskKind::Join, facts.stage}), device_[first.device.index()].stream,
                            instruction.microbatch, after_, {first.device.value, first.index, -1, -1});
    }
    for (const AtInstruction& place : places) {
      Device& device = device_[place.device.index()];
      if (together)
        after_.assign(1, *together);
      else
        after_.swap(device.pending);
      append(place, place.index + 1, {facts.kind, facts.stage, facts.duration}, instruction.microbatch, after_,
             facts.needs, facts.leaves);
    }
  }

  void post(const AtInstruction& place) override {
    Device& device = device_[place.device.index()];
    if (place.index >= device.settled) join(place);
    issuer_.issue(place, device.pending);
    after_.assign(device.pending.begin(), device.pending.end());
    if (device.last) after_.push_back(*device.last);
    for (const int t : tasks_.at(place).sends) (void)tasks_.send(t, place.index, after_);
  }

  void arrive(const AtInstruction& place) override {
    for (const int t : tasks_.at(place).receives)
      device_[place.device.index()].pending.push_back(*tasks_.message_of(t));
  }

  void free(const AtInstruction& place) override {
    Device& device = device_[place.device.index()];
    if (place.index < device.settled) return;
    device.level -= sum(tasks_.at(place).buffers);
    device.settled = place.index + 1;
  }

  void end(DeviceId id) override {
    const Device& device = device_[id.index()];
    if (device.told != device.level) join({id, static_cast<int>(tasks_.program.devices[id.index()].size())});
  }

  Issuer issuer_;
  std::vector<Device> device_;
  std::vector<std::int64_t> bytes_;  // [buffer]; 0 of persistent ones
  std::vector<RunFacts> runs_;       // [executable]
  std::vector<TaskId> after_;
};

}  // namespace

ProgramGraph program_graph(const Program& program, const ProgramTimes& times, const ProgramGraphOptions& options) {
  ProgramTasks tasks(program, times, options);
  if (options.overlap != nullptr) return overlapped_graph(tasks);
  WholeRuns(tasks).build();
  return std::move(tasks.made);
}

SimTime step_among_many(const ProgramGraph& graph, const TaskTimes& times, int period) {
  const int steps = static_cast<int>(graph.first_of_step.size()) - 1;
  MW_CHECK(1 <= period && period < steps, "the last {} of {} steps", period, steps);
  const auto end_of = [&](int step) {
    SimTime end{0};
    const auto first = static_cast<std::size_t>(graph.first_of_step[static_cast<std::size_t>(step)]);
    const auto last = static_cast<std::size_t>(graph.first_of_step[static_cast<std::size_t>(step) + 1]);
    for (std::size_t t = first; t < last; ++t)
      if (graph.of[t].device >= 0) end = std::max(end, times.end[t]);
    return end;
  };
  return {(end_of(steps - 1) - end_of(steps - 1 - period)).ps / period};
}

}  // namespace meshwright
