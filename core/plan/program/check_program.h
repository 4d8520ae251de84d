// SPDX-License-Identifier: Apache-2.0
// Walks all instruction lists of a Program at once and proves it sound: every send meets its receive, nothing deadlocks
// under rendezvous (the strictest semantics of NCCL, MPI and copies), every buffer is defined before it is read and
// freed exactly once.
//
// The order in which instructions complete is the canonical global order; every engine issues a projection of it. The
// walk is confluent (channels are FIFO and point to point), so one walk decides for all timings.
#pragma once

#include <string>
#include <vector>

#include "core/plan/program/program.h"

namespace meshwright {

struct InstructionRef {
  DeviceId device;
  int index;
  bool operator==(const InstructionRef&) const = default;
};

struct ProgramCheck {
  std::vector<std::string> violations;  // sentences; empty = sound
  std::vector<InstructionRef> order;    // canonical global order (complete only when sound)
  std::vector<Bytes> peak_memory;       // [device], persistent buffers included
  [[nodiscard]] Bytes largest_peak() const;
};

[[nodiscard]] ProgramCheck check_program(const Program& program);

}  // namespace meshwright
