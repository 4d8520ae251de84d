// SPDX-License-Identifier: Apache-2.0
// What both engines write down: one place decides which spans a simulation has, so that their Timelines can be equal.
#pragma once

#include <vector>

#include "core/base/errors.h"
#include "tests/truth/instruction_engines.h"

namespace meshwright {

class SpanLog {
 public:
  explicit SpanLog(const Program& program) : program_(program) {
    std::size_t instructions = 0;
    for (const auto& list : program.devices) instructions += list.size();
    // Frees, which have no span, are about as many as waits.
    spans_.reserve(instructions + program.transfers.size());
  }

  void run(DeviceId device, const Instruction& instruction, SimTime begin, SimTime end) {
    const StageExecutable& executable = program_.executables[static_cast<std::size_t>(instruction.executable)];
    add(kind_of(executable), device, executable.stage, instruction.microbatch, begin, end);
    ++events_;
  }

  void send(const Transfer& transfer, SimTime begin, SimTime end) {
    add(Span::Kind::Send, transfer.source, program_.buffers[transfer.source_buffer.index()].stage, transfer.microbatch,
        begin, end);
    ++events_;
  }

  // Before a Run that starts together, for its microbatch; in an Exchange, for the first message it receives.
  void wait(DeviceId device, const Instruction& instruction, SimTime begin, SimTime end) {
    if (!(begin < end)) return;
    if (instruction.kind == Instruction::Kind::Run) {
      const StageExecutable& executable = program_.executables[static_cast<std::size_t>(instruction.executable)];
      return add(Span::Kind::Wait, device, executable.stage, instruction.microbatch, begin, end);
    }
    const Transfer& first = program_.transfers[static_cast<std::size_t>(instruction.receives.front())];
    add(Span::Kind::Wait, device, program_.buffers[first.destination_buffer.index()].stage, first.microbatch, begin,
        end);
  }

  [[nodiscard]] SimulationResult finish() { return {make_timeline(std::move(spans_)), events_}; }

 private:
  static Span::Kind kind_of(const StageExecutable& executable) {
    if (executable.phase == Phase::Forward) return Span::Kind::Forward;
    if (executable.phase == Phase::Update) return Span::Kind::Update;
    switch (executable.backward_part) {
      case Pass::BackwardInput:
        return Span::Kind::BackwardInput;
      case Pass::BackwardWeight:
        return Span::Kind::BackwardWeight;
      default:
        return Span::Kind::Backward;
    }
  }
  void add(Span::Kind kind, DeviceId device, StageId stage, MicrobatchId microbatch, SimTime begin, SimTime end) {
    spans_.push_back({kind, device, stage, microbatch, begin, end});
  }

  const Program& program_;
  std::vector<Span> spans_;
  std::int64_t events_ = 0;
};

}  // namespace meshwright
