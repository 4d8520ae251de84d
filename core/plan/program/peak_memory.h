// SPDX-License-Identifier: Apache-2.0
// What the memory of a device holds when it is fullest: the peak of check_program, taken apart.
#pragma once

#include <vector>

#include "core/plan/program/program.h"

namespace meshwright {

// A buffer of the device, or a temporary of the Run in which the peak lies.
struct MemoryPart {
  enum class Kind {
    Persistent,  // there all the time; on the host, and then none at the peak, where the Program keeps it there
    Kept,        // a buffer, once per microbatch in flight
    Temporary,   // of that Run alone
  } kind;
  StageId stage{0};
  TensorId tensor{0};
  std::string name = {};  // of buffers; of temporaries their tensors have names
  Bytes bytes{0.0};       // of one
  int at_peak = 0;        // how many of them the device holds at its peak; buffers: from 0
  [[nodiscard]] Bytes bytes_at_peak() const { return static_cast<double>(at_peak) * bytes; }
};

struct PeakMemory {
  Bytes peak{0.0};                // as ProgramCheck::peak_memory; the sum of bytes_at_peak of the parts
  int instruction = -1;           // of the device's list, where the peak is first reached; -1: before the first
  std::vector<MemoryPart> parts;  // buffers in the order of the Program, then temporaries in that of their slots
};
// REQUIRES: the program is sound, the device has a list.
[[nodiscard]] PeakMemory peak_memory(const Program& program, DeviceId device);

}  // namespace meshwright
