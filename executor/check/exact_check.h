// SPDX-License-Identifier: Apache-2.0
// Is a program the single-device program, whatever its partitioning?
//
// Both are run over the integers modulo a prime (executor/exact/exact_ops.h), where sums do not depend on their order:
// losses, gradients, parameters and states must be equal to the bit on every device that holds a part of them. There
// are no tolerances. A collective left out or done twice, a message to the wrong place or a stale buffer changes what
// it should have brought; that a wrong value hits the right one by chance has a probability of about 2^-31.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/program/check_program.h"
#include "core/plan/program/program.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"
#include "executor/device/backend.h"

namespace meshwright {

// What one device has in the end, in residues.
struct ExactReference {
  std::vector<std::uint64_t> losses;                            // [step]
  std::map<std::string, std::vector<std::uint64_t>> gradients;  // by parameter, of the last step
  std::map<std::string, std::vector<std::uint64_t>> states;     // parameters and what optimizers keep, by name
};
// Runs the graph on one device, op after op. Throws InputError for an op without a counterpart over residues.
[[nodiscard]] ExactReference exact_reference(const Graph& graph, int steps, std::uint64_t seed);

struct ExactDifference {
  std::string tensor;
  std::optional<DeviceId> device;   // unset: of the loss, or of what no device holds
  std::vector<std::int64_t> index;  // in the whole tensor
  // Unset: no device holds it, or the device's memory there was never written.
  std::optional<std::uint64_t> run;
  std::uint64_t reference;
};
// "'blk0.ln.gamma' at (3) on device 2: 17, but 18 on one device"
[[nodiscard]] std::string to_text(const ExactDifference& difference);

// What was compared: losses, gradients, parameters, optimizer states.
struct ExactClass {
  std::string name;
  std::int64_t tensors = 0;    // or losses
  std::int64_t tiles = 0;      // on all devices together
  std::int64_t different = 0;  // tiles
  std::optional<ExactDifference> first;
};
struct ExactCheck {
  std::vector<ExactClass> classes;
  [[nodiscard]] bool equal() const;
};

// What a program is run on for it, on threads of this process, or processes around that.
[[nodiscard]] std::unique_ptr<Backend> exact_backend();
// How.
[[nodiscard]] RunOptions exact_options(int steps, std::uint64_t seed);
// `graph`: of the program that was run. REQUIRES: a run by exact_options of the reference's steps and seed.
[[nodiscard]] ExactCheck compare_exactly(const Graph& graph, const RunResult& run, const ExactReference& reference);

}  // namespace meshwright
