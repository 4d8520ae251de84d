// SPDX-License-Identifier: Apache-2.0
// Faults in the instruction lists of devices. Internal to mutant.h.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/exact/drawn_plan.h"
#include "tests/oracle/exact/mutant.h"

namespace meshwright {

class InstructionMutator {
 public:
  InstructionMutator(const Graph& graph, const Program& program, Drawing& draw)
      : graph_(graph), program_(program), draw_(draw) {}

  std::optional<Mutant> mutate(const std::string& kind) {
    Mutant mutant{kind, "", program_, ""};
    device_ = draw_.below(program_.devices.size());
    bool done = false;
    if (kind == "run of another micro-batch") done = change_runs(mutant);
    if (kind == "run dropped" || kind == "run doubled") done = change_runs(mutant);
    if (kind == "instructions swapped") done = swap(mutant);
    if (kind == "exchange dropped") done = drop(mutant, Instruction::Kind::Exchange);
    if (kind == "await dropped") done = drop(mutant, Instruction::Kind::Await);
    if (kind == "free dropped") done = drop(mutant, Instruction::Kind::Free);
    if (kind == "free too early") done = free_early(mutant);
    if (!done) return std::nullopt;
    return mutant;
  }

 private:
  using Kind = Instruction::Kind;
  using Instructions = std::vector<Instruction>;

  [[nodiscard]] const Instructions& list() const { return program_.devices[device_]; }
  [[nodiscard]] Instructions& list_in(Mutant& mutant) const { return mutant.program.devices[device_]; }
  [[nodiscard]] const StageExecutable& executable_of(const Instruction& run) const {
    return program_.executables[static_cast<std::size_t>(run.executable)];
  }
  bool choose(Kind kind) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < list().size(); ++i)
      if (list()[i].kind == kind) found.push_back(i);
    if (!found.empty()) at_ = draw_.any(found);
    return !found.empty();
  }

  // On this device, or on all of its stage, so that no meeting shows it.
  bool change_runs(Mutant& mutant) {
    if (!choose(Kind::Run)) return false;
    const Instruction run = list()[at_];
    const StageExecutable& executable = executable_of(run);
    const bool alone = draw_.once_in(4);
    const int other =
        (run.microbatch.value + 1 +
         static_cast<int>(draw_.below(std::max<std::size_t>(1, static_cast<std::size_t>(program_.microbatches - 1))))) %
        program_.microbatches;
    if (mutant.kind == "run of another micro-batch" &&
        (executable.phase == Phase::Update || other == run.microbatch.value))
      return false;
    for (const DeviceId device : program_.stages[executable.stage.index()].devices) {
      if (alone && device.index() != device_) continue;
      Instructions& instructions = mutant.program.devices[device.index()];
      const auto found = std::find_if(instructions.begin(), instructions.end(), [&](const Instruction& one) {
        return one.kind == Kind::Run && one.executable == run.executable && one.microbatch == run.microbatch;
      });
      if (found == instructions.end()) return false;
      if (mutant.kind == "run dropped")
        instructions.erase(found);
      else if (mutant.kind == "run doubled")
        instructions.insert(found, run);
      else
        found->microbatch = MicrobatchId(other);
    }
    mutant.what =
        fmt::format("{} of stage {}, micro-batch {}, on {}", name_of(executable.phase), executable.stage.value,
                    run.microbatch.value, alone ? fmt::format("device {}", device_) : "all devices of the stage");
    return true;
  }

  bool drop(Mutant& mutant, Kind kind) {
    if (!choose(kind)) return false;
    list_in(mutant).erase(list_in(mutant).begin() + static_cast<std::ptrdiff_t>(at_));
    mutant.what = fmt::format("instruction {} of device {}", at_, device_);
    return true;
  }
  bool free_early(Mutant& mutant) {
    if (!choose(Kind::Free) || at_ == 0) return false;
    std::swap(list_in(mutant)[at_ - 1], list_in(mutant)[at_]);
    mutant.what = fmt::format("instruction {} of device {}", at_, device_);
    if (independent(list()[at_ - 1], list()[at_])) mutant.equivalent = "the two share nothing that one of them changes";
    return true;
  }
  bool swap(Mutant& mutant) {
    if (list().size() < 2) return false;
    at_ = draw_.below(list().size() - 1);
    mutant.what = fmt::format("instructions {} and {} of device {}", at_, at_ + 1, device_);
    std::swap(list_in(mutant)[at_], list_in(mutant)[at_ + 1]);
    if (independent(list()[at_], list()[at_ + 1])) mutant.equivalent = "the two share nothing that one of them changes";
    return true;
  }

  // What an instruction does to a value: of a persistent buffer, or of one micro-batch's.
  struct Effects {
    std::set<std::pair<BufferId, int>> read, written, added;
  };
  [[nodiscard]] std::pair<BufferId, int> value(BufferId buffer, MicrobatchId microbatch) const {
    return {buffer, program_.buffers[buffer.index()].persistent ? 0 : microbatch.value};
  }
  // Sums over micro-batches, to which passes only add, may be added to in any order.
  [[nodiscard]] bool only_adds_to(const StageExecutable& executable, BufferId buffer) const {
    const TensorId tensor = program_.buffers[buffer.index()].local.tensor;
    return executable.phase == Phase::Backward && graph_.tensor(tensor).kind == TensorKind::Accumulator;
  }
  [[nodiscard]] Effects effects_of(const Instruction& instruction) const {
    Effects effects;
    const auto transfer = [&](int t) -> const Transfer& { return program_.transfers[static_cast<std::size_t>(t)]; };
    if (instruction.kind == Kind::Run)
      for (const StageExecutable::Slot& slot : executable_of(instruction).slots) {
        if (!slot.buffer) continue;
        const auto of = value(*slot.buffer, instruction.microbatch);
        if (only_adds_to(executable_of(instruction), *slot.buffer)) {
          effects.added.insert(of);
          continue;
        }
        if (slot.input) effects.read.insert(of);
        if (slot.output) effects.written.insert(of);
      }
    if (instruction.kind == Kind::Free)
      for (const BufferId buffer : instruction.buffers) effects.written.insert(value(buffer, instruction.microbatch));
    for (const int t : instruction.sends) effects.read.insert(value(transfer(t).source_buffer, transfer(t).microbatch));
    for (const int t : instruction.receives)
      (transfer(t).accumulate ? effects.added : effects.written)
          .insert(value(transfer(t).destination_buffer, transfer(t).microbatch));
    return effects;
  }
  [[nodiscard]] bool independent(const Instruction& one, const Instruction& two) const {
    const Effects a = effects_of(one), b = effects_of(two);
    const auto meet = [](const auto& x, const auto& y) {
      return std::any_of(x.begin(), x.end(), [&](const auto& of) { return y.contains(of); });
    };
    return !meet(a.written, b.read) && !meet(a.written, b.written) && !meet(a.written, b.added) &&
           !meet(b.written, a.read) && !meet(b.written, a.added) && !meet(a.added, b.read) && !meet(b.added, a.read);
  }

  const Graph& graph_;
  const Program& program_;
  Drawing& draw_;
  std::size_t device_ = 0, at_ = 0;
};

}  // namespace meshwright
