// SPDX-License-Identifier: Apache-2.0
// What the devices do in a step, summed up by kind and size: names for what two plans differ in.
#pragma once

#include <string>
#include <vector>

#include "core/plan/program/program.h"
#include "core/sharding/cost_model.h"
#include "validation/interval.h"

namespace meshwright {

struct StepWork {
  Term term;
  std::string what;  // "products of 8192 x 6144 x 1536 (M x N x K)", "all-reduce of 64.0 MiB over 8 devices of a host"
  Seconds time;      // of one device in one step, the mean over all devices; with what a software hides of it
};

// Each kind and size once, by time, longest first. Of the host the time is that of its device's work: it has none of
// its own here.
[[nodiscard]] std::vector<StepWork> work_of_step(const Program& program, const CostModel& costs);

// The `count` longest of each term.
[[nodiscard]] std::vector<StepWork> longest_of_each_term(const std::vector<StepWork>& work, std::size_t count);

}  // namespace meshwright
