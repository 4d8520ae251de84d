// SPDX-License-Identifier: Apache-2.0
// Whether a value of an executable reaches anything that lasts: the loss, a gradient that an update reads, a parameter
// or a state. Every op passes everything on.
#pragma once

#include <set>
#include <vector>

#include "core/plan/program/program.h"

namespace meshwright {

class Reach {
 public:
  Reach(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}

  // Of what the slot holds from op `from` of the executable on.
  bool of_slot(int executable, int slot, std::size_t from) {
    std::set<int> roots = {root(executable, slot)};
    follow(executable, roots, from);
    while (!lasts_ && !waiting_.empty()) {
      const BufferId buffer = waiting_.back();
      waiting_.pop_back();
      follow_buffer(buffer);
    }
    return lasts_;
  }

 private:
  [[nodiscard]] const StageExecutable& at(int executable) const {
    return program_.executables[static_cast<std::size_t>(executable)];
  }
  [[nodiscard]] int root(int executable, int slot) const {
    const std::vector<StageExecutable::Slot>& slots = at(executable).slots;
    while (slots[static_cast<std::size_t>(slot)].alias_of) slot = *slots[static_cast<std::size_t>(slot)].alias_of;
    return slot;
  }
  void follow(int executable, std::set<int>& roots, std::size_t from) {
    const StageExecutable& of = at(executable);
    for (std::size_t i = from; i < of.ops.size(); ++i) {
      bool reads = false;
      for (const int slot : of.ops[i].inputs) reads |= roots.contains(root(executable, slot));
      if (reads)
        for (const int slot : of.ops[i].outputs) roots.insert(root(executable, slot));
      if (reads && of.phase == Phase::Update) lasts_ = true;
    }
    for (std::size_t s = 0; s < of.slots.size(); ++s) {
      if (!roots.contains(root(executable, static_cast<int>(s)))) continue;
      if (graph_.loss && of.slots[s].local.tensor == *graph_.loss) lasts_ = true;
      if (of.slots[s].buffer && of.slots[s].output) note(*of.slots[s].buffer);
    }
  }
  void follow_buffer(BufferId buffer) {
    for (std::size_t e = 0; e < program_.executables.size(); ++e) {
      std::set<int> roots;
      const StageExecutable& of = program_.executables[e];
      for (std::size_t s = 0; s < of.slots.size(); ++s)
        if (of.slots[s].buffer == buffer && of.slots[s].input)
          roots.insert(root(static_cast<int>(e), static_cast<int>(s)));
      if (!roots.empty()) follow(static_cast<int>(e), roots, 0);
    }
    for (const Transfer& transfer : program_.transfers)
      if (transfer.source_buffer == buffer) note(transfer.destination_buffer);
  }
  void note(BufferId buffer) {
    if (!met_.insert(buffer).second) return;
    const TensorKind kind = graph_.tensor(program_.buffers[buffer.index()].local.tensor).kind;
    if (kind == TensorKind::Parameter || kind == TensorKind::OptimizerState || kind == TensorKind::StepState)
      lasts_ = true;
    waiting_.push_back(buffer);
  }

  const Graph& graph_;
  const Program& program_;
  bool lasts_ = false;
  std::set<BufferId> met_;
  std::vector<BufferId> waiting_;
};

}  // namespace meshwright
