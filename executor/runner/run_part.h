// SPDX-License-Identifier: Apache-2.0
// What one process knows after a run: its devices' share of the RunResult. Internal to the executor.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/plan/program/timeline.h"
#include "executor/base/run_result.h"
#include "executor/runner/kept_tiles.h"

namespace meshwright {

struct RunPart {
  struct StepTimes {
    SimTime begin, end;  // since the process's first device began the step
  };
  struct StepSpan {
    int step;
    Span span;  // since the same moment
  };
  struct OfDevice {
    DeviceId device{0};
    Bytes peak{0.0};
    bool on_gpu = false;
    GpuMemory memory;
    std::vector<StepTimes> times;  // [step]
    std::vector<StepSpan> spans;
  };
  std::vector<OfDevice> devices;
  std::vector<double> losses;              // [step]; empty unless one of the devices speaks for the loss
  std::vector<std::vector<double>> tiles;  // of persistent buffers, in an order that all processes know
  std::vector<KeptTile> kept;
  std::vector<HeldTile> held;  // by RunOptions::keep_held, but for gradients, which are kept
  OpTimes op_times;            // of its devices together
};

// Between processes of one build on machines of one kind.
[[nodiscard]] std::vector<std::byte> to_bytes(const RunPart& part);
// Throws InternalError for bytes that to_bytes has not made.
[[nodiscard]] RunPart run_part_from_bytes(std::span<const std::byte> bytes);

}  // namespace meshwright
