// SPDX-License-Identifier: Apache-2.0
// Runs a Program for real: one thread per logical device interprets its instruction list over shared memory.
//
// Numbers are made from counters (seed, tensor name, global index), so every shard of every plan starts from the same
// values, and inputs of microbatch m of a step are the same samples whatever the number of microbatches. Reductions add
// in rank order: repeated runs are bit-identical. Storage comes from a pool per device whose live bytes are counted
// exactly as check_program counts them.
#pragma once

#include "core/graph/graph.h"
#include "core/plan/program/check_program.h"
#include "core/plan/program/program.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"

namespace meshwright {

class Backend;

// Runs on the devices of `backend`; `options.precision` is the type in which numbers are made, on the host. REQUIRES:
// `check` has no violations. Throws SystemError when a device's thread fails; every other thread then ends as well.
//
// Where other processes run some of the devices, every process calls this, and only the first gets a result: the others
// get an empty one. Each process counts times from its own beginning of the step, just after all have met.
[[nodiscard]] RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check,
                                    const RunOptions& options, Backend& backend);

}  // namespace meshwright
