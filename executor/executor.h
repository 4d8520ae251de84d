// SPDX-License-Identifier: Apache-2.0
// Runs a Program for real: one thread per logical device interprets its instruction list over shared memory.
//
// Numbers are made from counters (seed, tensor name, global index), so every shard of every plan starts from the same
// values, and inputs of microbatch m of a step are the same samples whatever the number of microbatches. Reductions add
// in rank order: repeated runs are bit-identical. Storage comes from a pool per device whose live bytes are counted
// exactly as check_program counts them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/plan/check_program.h"
#include "core/plan/program.h"
#include "core/plan/timeline.h"
#include "core/sharding/work_recording.h"

namespace meshwright {

class Backend;
class GraphInterpreter;

struct RunOptions {
  int steps = 1;
  std::uint64_t seed = 1;
  DType precision =
      DType::F32;            // F32 (oneDNN) or F64 (reference kernels): every floating-point tensor is computed in it
  int recorded_steps = 1;    // of the last so many, or of all where there are fewer, there are timelines
  bool keep_tensors = true;  // whether the result has weights and second moments
  // Of the last so many the devices' work is recorded, by Backend::recorder(), which then must be there.
  int steps_with_work = 0;
};

// How the steps were issued (executor/step_replayer.h).
struct IssuedSteps {
  int replayed = 0;      // the last so many were replayed,
  std::string as;        // as "a CUDA graph of 120 nodes"
  std::string why_none;  // where none was, if the backend could have done so
};

struct RunResult {
  std::vector<double> losses;       // [step], sum over microbatches
  std::vector<Seconds> step_times;  // [step], wall clock from a common start to the last device's end
  Timeline timeline;                // of the last step
  std::vector<Timeline> timelines;  // of the recorded steps but run_reference's, the last one included
  std::map<std::string, std::vector<double>> weights;         // by parameter name, whole tensor, after the last step
  std::map<std::string, std::vector<double>> second_moments;  // the same of Adam's second moments; empty without Adam
  // Of each device that keeps it, after the last step; empty where losses are not scaled.
  std::vector<double> loss_scales;
  std::vector<Bytes> peak_memory;  // [device], as counted by the pools, in the Program's dtypes
  WorkRecording work;              // of RunOptions::steps_with_work and this process's devices
  IssuedSteps issued;
};

// REQUIRES: `check` has no violations. Throws SystemError when a device's thread fails; every other thread then ends as
// well.
[[nodiscard]] RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check,
                                    const RunOptions& options);
// The same on what `backend` gives; `options.precision` is then what numbers are made in, on the host. Where other
// processes run some of the devices, all of them call this, and the first has the result: the others get an empty one.
// Times are then since each process's own beginning of the step, just after all have met.
[[nodiscard]] RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check,
                                    const RunOptions& options, Backend& backend);

// The whole training graph on one device, op after op, with no plan, no shards and (for graph.microbatches == 1) no
// microbatches: the truth run_program is compared with. `after_backward` is called in each step, before its update.
using StepObserver = std::function<void(const GraphInterpreter& interpreter)>;
[[nodiscard]] RunResult run_reference(const Graph& graph, const RunOptions& options,
                                      const StepObserver& after_backward = {});

}  // namespace meshwright
