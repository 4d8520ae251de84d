// SPDX-License-Identifier: Apache-2.0
// The result of a run: losses, times, weights, memory, and recordings of the devices.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/plan/program/timeline.h"
#include "core/sharding/work_recording.h"
#include "executor/base/gpu_memory.h"

namespace meshwright {

// How the steps were issued (executor/device/step_replayer.h).
struct StepReplaySummary {
  int replayed = 0;      // the number of replayed steps, which are the last ones
  std::string as;        // "a CUDA graph of 120 nodes"
  std::string why_none;  // why no step was replayed, if the backend could have; else empty
};

// What the last step's loss was computed from, of all samples of the step in order.
struct KeptLogits {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

// A device's tile, without padding, in the end: of a parameter or a state, or, by RunOptions::keep_gradients, of the
// gradient that an update read.
struct HeldTile {
  DeviceId device{0};
  TensorId tensor{0};  // of the program's graph
  bool is_gradient = false;
  std::vector<std::int64_t> offset, extent;  // in the whole tensor
  std::vector<double> values;
};

// An op of an executable, on all devices that run it.
struct OpTime {
  Seconds total{0.0};
  std::int64_t runs = 0;
};
using OpTimes = std::vector<std::vector<OpTime>>;  // [executable][op]

struct RunResult {
  std::vector<double> losses;       // [step] of those that were done (RunOptions::stops), sum over microbatches
  std::vector<Seconds> step_times;  // [step], wall clock from a common start to the last device's end
  Timeline timeline;                // of the last step
  std::vector<Timeline> timelines;  // of the recorded steps but run_reference's, the last one included
  std::map<std::string, std::vector<double>> weights;         // by parameter name, whole tensor, after the last step
  std::map<std::string, std::vector<double>> second_moments;  // the same of Adam's second moments; empty without Adam
  std::map<std::string, std::vector<double>> gradients;       // the same, by RunOptions::keep_gradients
  KeptLogits logits;                                          // by RunOptions::keep_logits
  std::vector<HeldTile> held;                                 // by RunOptions::keep_held, replicas and copies too
  // The loss scale of each device that keeps one, after the last step; empty unless losses are scaled.
  std::vector<double> loss_scales;
  std::vector<Bytes> peak_memory;     // [device], as counted by the pools, in the Program's dtypes
  std::vector<GpuMemory> gpu_memory;  // [device], after the last step; empty where devices are threads
  WorkRecording work;                 // of RunOptions::steps_with_work and this process's devices
  OpTimes op_times;                   // of the recorded steps, by RunOptions::op_times
  StepReplaySummary issued;
};

}  // namespace meshwright
