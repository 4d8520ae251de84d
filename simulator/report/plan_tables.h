// SPDX-License-Identifier: Apache-2.0
// What a plan and its Program consist of, as rows: layers, collectives, messages between stages, memory by buffer, and
// the instruction lists. Rows are sorted, so that equal plans give equal tables.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/program/peak_memory.h"
#include "simulator/report/step_terms.h"

namespace meshwright {

// One micro-batch of a layer, whole tensors: what all devices of its stage share.
struct LayerRow {
  int layer = 0, stage = 0;
  std::string first_op, last_op;      // names
  int ops = 0;                        // forward ops
  Flops forward{0.0}, backward{0.0};  // of contractions; recomputed ops are part of the backward
  std::int64_t parameters = 0;        // of those that the layer is the first to read
  Bytes parameter_bytes{0.0};
  Bytes result_bytes{0.0};    // that its forward ops make
  Bytes boundary_bytes{0.0};  // of these, read by later layers
};
[[nodiscard]] std::vector<LayerRow> layer_rows(const Plan& plan, const Graph& graph);

// The like collectives of a stage in one step, on one of its devices.
struct CollectiveRow {
  int stage = 0;
  std::string phase;  // "forward", "backward", "update"
  StepTerm term = StepTerm::Collectives;
  CollectiveKind kind = CollectiveKind::AllReduce;
  int axis = 0;   // of the logical mesh
  int group = 1;  // devices along it
  int hosts = 1;  // of these on different hosts
  int runs = 0;   // Runs that they are in, in a step
  std::int64_t count = 0;
  Bytes bytes{0.0};   // sum of the whole tensors of a group (CollectiveOp::bytes)
  Seconds time{0.0};  // sum
};
[[nodiscard]] std::vector<CollectiveRow> collective_rows(const Program& program, const Graph& graph,
                                                         const CostModel& costs);

// What passes between two stages in a step, by tensor. Copies on one device are no messages.
struct ReshardingRow {
  std::string tensor;
  int from = 0, to = 0;
  std::string from_sharding, to_sharding;
  std::int64_t messages = 0, between_hosts = 0, copies = 0;
  Bytes bytes{0.0};                  // of the messages
  CrossMesh form = CrossMesh::Send;  // from and to are one stage: what its devices bring each other
};
[[nodiscard]] std::vector<ReshardingRow> resharding_rows(const Program& program, const Graph& graph);

// Devices that do the same (simulator/fold/fold_devices.h).
struct DeviceClass {
  DeviceId first;                 // stands for all
  std::vector<DeviceId> devices;  // ascending
};
[[nodiscard]] std::vector<DeviceClass> device_classes(const Program& program, const ProgramTimes& times);
// "0-3 8": ranges of numbers.
[[nodiscard]] std::string to_text(const std::vector<DeviceId>& devices);

// A tensor in the memory of a device: the parts of peak_memory with the same name and kind.
struct MemoryRow {
  std::string buffer, kind;  // "parameter", "optimizer state", "gradient accumulator", "activation", "temporary", ...
  int stage = 0;
  Bytes bytes{0.0};          // of one
  int at_peak = 0;           // how many of them are live at the peak
  Bytes bytes_at_peak{0.0};  // the sum of a device's rows is its peak
};
[[nodiscard]] std::vector<MemoryRow> memory_rows(const Program& program, const Graph& graph, DeviceId device);

// The instruction list of a device, a line for each: "12 run backward of stage 1, micro-batch 3 (executable 5)".
[[nodiscard]] std::string program_text(const Program& program, const ProgramTimes& times, DeviceId device);

}  // namespace meshwright
