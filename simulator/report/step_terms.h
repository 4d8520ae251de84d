// SPDX-License-Identifier: Apache-2.0
// The time of a step in terms that plans of different stages, meshes, micro-batches and schedules have in common, so
// that two plans can be held against each other. To the picosecond the terms of a device add up to the step.
//
//   step = sum over the Runs of the device (compute, recompute, ..., overhead)     work
//        + times without a Run in which a message of the device is on its way      messages
//        + what is left: before its first Run (fill), between (waiting), after its last (drain)
//
// It is the plain step that is taken apart: a Run is its ops one after the other, and nothing overlaps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "simulator/program/program_costs.h"

namespace meshwright {

enum class StepTerm : std::uint8_t {
  Compute,        // forward and backward ops
  Recompute,      // forward ops that are repeated in the backward
  Collectives,    // of activations and their gradients: tensor, sequence, context and expert parallelism
  GradientSync,   // collectives that sum gradients of parameters, and the norm of them
  WeightGathers,  // all-gathers of parameters
  Update,         // ops of the optimizer
  HostTransfers,  // what lies on the hosts: there and back
  Overhead,       // of Runs beyond their ops; negative where a software hides part of these
  Messages,       // between stages, as far as no Run hides them
  Fill,           // waiting before the first Run
  Waiting,        // between the first and the last Run
  Drain,          // after the last Run
};
inline constexpr std::size_t kStepTerms = 12;
[[nodiscard]] const char* name_of(StepTerm term);  // "compute", "tensor-parallel collectives", ...

// Which term an op of an executable counts to. Slices, which take nothing, to Compute.
[[nodiscard]] StepTerm term_of(const Program& program, const Graph& graph, const StageExecutable& executable,
                               const LocalOp& op);

// [StepTerm]
struct StepTerms {
  std::array<SimTime, kStepTerms> times{};
  [[nodiscard]] SimTime& operator[](StepTerm term) { return times[static_cast<std::size_t>(term)]; }
  [[nodiscard]] SimTime operator[](StepTerm term) const { return times[static_cast<std::size_t>(term)]; }
  [[nodiscard]] SimTime total() const;
};

// [executable] the terms of one Run. Their sum is times.executable: the ends of the ops are rounded, each once, and
// what the times hold beyond the ops and the overhead are messages that block the device. REQUIRES: as program_costs.
[[nodiscard]] std::vector<StepTerms> executable_terms(const Program& program, const Graph& graph,
                                                      const CostModel& costs, const ProgramTimes& times);

struct TermsOfStep {
  SimTime step{0};
  DeviceId busiest{0};  // with the most work; of equal ones the first
  StepTerms of_busiest;
  // The sum over all devices; `devices` times the step.
  StepTerms of_all;
  int devices = 1;
};
// Of the plain step. Large programs are folded. REQUIRES: the program is sound, of this graph.
[[nodiscard]] TermsOfStep terms_of_step(const Program& program, const Graph& graph, const CostModel& costs);

}  // namespace meshwright
