// SPDX-License-Identifier: Apache-2.0
// Faults in what devices send to one another. Internal to mutant.h.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/exact/drawn_plan.h"
#include "tests/oracle/exact/mutant.h"
#include "tests/oracle/exact/what_lasts.h"

namespace meshwright {

class MessageMutator {
 public:
  MessageMutator(const Graph& graph, const Program& program, Drawing& draw)
      : graph_(graph), program_(program), draw_(draw) {}

  std::optional<Mutant> mutate(const std::string& kind) {
    if (program_.transfers.empty()) return std::nullopt;
    Mutant mutant{kind, "", program_, ""};
    chosen_ = draw_.below(program_.transfers.size());
    bool done = false;
    if (kind == "message dropped") done = drop(mutant);
    if (kind == "messages swapped") done = swap(mutant);
    if (kind == "sends out of order" || kind == "receives out of order") done = reorder(mutant);
    if (kind == "other offset of a source") done = shift(mutant, before().source_buffer, &Transfer::source_offset);
    if (kind == "other offset of a destination")
      done = shift(mutant, before().destination_buffer, &Transfer::destination_offset);
    if (kind == "other buffer of a source") done = rename(mutant, &Transfer::source_buffer);
    if (kind == "other buffer of a destination") done = rename(mutant, &Transfer::destination_buffer);
    if (kind == "sum or copy of a message") done = flip(mutant);
    if (kind == "message of another micro-batch") done = redate(mutant);
    if (!done) return std::nullopt;
    if (mutant.equivalent.empty() && !brings_what_lasts()) mutant.equivalent = "nothing that lasts depends on it";
    mutant.what = fmt::format("transfer {} ('{}' of micro-batch {}, device {} to {}): {}", chosen_,
                              program_.buffers[before().source_buffer.index()].name, before().microbatch.value,
                              before().source.value, before().destination.value, mutant.what);
    return mutant;
  }

 private:
  using Offset = std::vector<std::int64_t> Transfer::*;

  [[nodiscard]] const Transfer& before() const { return program_.transfers[chosen_]; }
  [[nodiscard]] Transfer& in(Mutant& mutant) const { return mutant.program.transfers[chosen_]; }
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return program_.buffers[id.index()]; }

  [[nodiscard]] bool brings_what_lasts() const {
    for (std::size_t e = 0; e < program_.executables.size(); ++e)
      for (std::size_t s = 0; s < program_.executables[e].slots.size(); ++s) {
        const StageExecutable::Slot& slot = program_.executables[e].slots[s];
        if (slot.buffer == before().destination_buffer && slot.input &&
            Reach(graph_, program_).of_slot(static_cast<int>(e), static_cast<int>(s), 0))
          return true;
      }
    // Passed on, or part of what lasts itself.
    return buffer(before().destination_buffer).persistent ||
           std::any_of(program_.transfers.begin(), program_.transfers.end(),
                       [&](const Transfer& t) { return t.source_buffer == before().destination_buffer; });
  }

  bool drop(Mutant& mutant) {
    for (auto& instructions : mutant.program.devices)
      for (Instruction& instruction : instructions) {
        std::erase(instruction.sends, static_cast<int>(chosen_));
        std::erase(instruction.receives, static_cast<int>(chosen_));
      }
    // A transfer that nobody names is a fault by itself: those behind it move up.
    mutant.program.transfers.erase(mutant.program.transfers.begin() + static_cast<std::ptrdiff_t>(chosen_));
    for (auto& instructions : mutant.program.devices)
      for (Instruction& instruction : instructions)
        for (std::vector<int>* list : {&instruction.sends, &instruction.receives})
          for (int& number : *list)
            if (number > static_cast<int>(chosen_)) --number;
    mutant.what = "is not sent";
    return true;
  }
  // Two messages of one size from one device: each brings what the other should.
  bool swap(Mutant& mutant) {
    std::vector<std::size_t> others;
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) {
      const Transfer& other = program_.transfers[t];
      if (t != chosen_ && other.source == before().source && other.extent == before().extent &&
          buffer(other.source_buffer).local.dtype == buffer(before().source_buffer).local.dtype &&
          (other.source_buffer != before().source_buffer || other.source_offset != before().source_offset))
        others.push_back(t);
    }
    if (others.empty()) return false;
    const std::size_t other = draw_.any(others);
    std::swap(in(mutant).source_buffer, mutant.program.transfers[other].source_buffer);
    std::swap(in(mutant).source_offset, mutant.program.transfers[other].source_offset);
    mutant.what = fmt::format("brings what transfer {} should, and that this", other);
    return true;
  }
  bool reorder(Mutant& mutant) {
    const auto list = mutant.kind.starts_with("sends") ? &Instruction::sends : &Instruction::receives;
    for (auto& instructions : mutant.program.devices)
      for (Instruction& instruction : instructions) {
        std::vector<int>& numbers = instruction.*list;
        const auto found = std::find(numbers.begin(), numbers.end(), static_cast<int>(chosen_));
        if (found == numbers.end() || found + 1 == numbers.end()) continue;
        const Transfer &one = before(), &two = program_.transfers[static_cast<std::size_t>(*(found + 1))];
        if (one.source != two.source || one.destination != two.destination)
          mutant.equivalent = "messages of different channels do not wait for one another";
        else if (one.source == one.destination)
          mutant.equivalent = "copies within a device to different places may come in any order";
        std::iter_swap(found, found + 1);
        mutant.what = fmt::format("comes after transfer {}", *found);
        return true;
      }
    return false;
  }
  bool shift(Mutant& mutant, BufferId of, Offset offset) {
    const std::vector<std::int64_t>& shape = buffer(of).local.shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& at = (in(mutant).*offset)[d];
      if (before().extent[d] >= shape[d]) continue;
      at += at + before().extent[d] < shape[d] ? 1 : -1;
      mutant.what = fmt::format("is at {} of dimension {}", at, d);
      return true;
    }
    return false;
  }
  bool rename(Mutant& mutant, BufferId Transfer::*which) {
    const Buffer& now = buffer(before().*which);
    std::vector<BufferId> others;
    for (const Buffer& other : program_.buffers)
      if (other.id != now.id && other.stage == now.stage && other.local.shape == now.local.shape &&
          other.local.dtype == now.local.dtype && other.persistent == now.persistent)
        others.push_back(other.id);
    if (others.empty()) return false;
    in(mutant).*which = draw_.any(others);
    mutant.what = fmt::format("names buffer '{}' instead of '{}'", buffer(in(mutant).*which).name, now.name);
    return true;
  }
  // The first to come to a sum that is 0 may as well be copied, if nothing is added to the sum before.
  bool flip(Mutant& mutant) {
    std::vector<std::size_t> adding;
    for (std::size_t t = 0; t < program_.transfers.size(); ++t)
      if (program_.transfers[t].accumulate) adding.push_back(t);
    if (!adding.empty() && draw_.below(4) != 0) chosen_ = draw_.any(adding);
    in(mutant).accumulate = !before().accumulate;
    mutant.what = before().accumulate ? "is copied instead of added" : "is added instead of copied";
    return true;
  }
  bool redate(Mutant& mutant) {
    if (program_.microbatches < 2 || buffer(before().source_buffer).persistent) return false;
    const auto others = static_cast<std::size_t>(program_.microbatches - 1);
    const int shift = 1 + static_cast<int>(draw_.below(others));
    in(mutant).microbatch = MicrobatchId((before().microbatch.value + shift) % program_.microbatches);
    mutant.what = fmt::format("is of micro-batch {}", in(mutant).microbatch.value);
    return true;
  }

  const Graph& graph_;
  const Program& program_;
  Drawing& draw_;
  std::size_t chosen_ = 0;
};

}  // namespace meshwright
