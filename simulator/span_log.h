// SPDX-License-Identifier: Apache-2.0
// What both engines write down: one place decides which spans a simulation has, so that their Timelines can be equal.
#pragma once

#include <vector>

#include "core/base/errors.h"
#include "simulator/simulate.h"

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
    const Phase phase = program_.executables[static_cast<std::size_t>(instruction.executable)].phase;
    const Span::Kind kind = phase == Phase::Forward    ? Span::Kind::Forward
                            : phase == Phase::Backward ? Span::Kind::Backward
                                                       : Span::Kind::Update;
    add(kind, device, instruction.microbatch, begin, end);
    ++events_;
  }

  void send(const Transfer& transfer, SimTime begin, SimTime end) {
    add(Span::Kind::Send, transfer.source, transfer.microbatch, begin, end);
    ++events_;
  }

  // Before a Run that starts together, for its microbatch.
  void wait(DeviceId device, MicrobatchId microbatch, SimTime begin, SimTime end) {
    if (begin < end) add(Span::Kind::Wait, device, microbatch, begin, end);
  }
  // In an Exchange, for the first message it receives.
  void wait(DeviceId device, const Instruction& exchange, SimTime begin, SimTime end) {
    if (begin < end)
      add(Span::Kind::Wait, device, program_.transfers[static_cast<std::size_t>(exchange.receives.front())].microbatch,
          begin, end);
  }

  [[nodiscard]] SimulationResult finish() { return {make_timeline(std::move(spans_)), events_}; }

 private:
  void add(Span::Kind kind, DeviceId device, MicrobatchId microbatch, SimTime begin, SimTime end) {
    spans_.push_back({kind, device, program_.stage_of_device[device.index()], microbatch, begin, end});
  }

  const Program& program_;
  std::vector<Span> spans_;
  std::int64_t events_ = 0;
};

}  // namespace meshwright
