// SPDX-License-Identifier: Apache-2.0
// What a published run asks of the planner: its model, cluster and plan, and the software that ran it. Whatever the row
// leaves open is assumed as its software has it, and said.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/planner/plan_request.h"
#include "costmodel/sheets/software_profile.h"
#include "validation/published_runs.h"

namespace meshwright {

// A row that contradicts itself, or names a device that nobody knows. Other InputErrors are of rows that are sound, but
// hold what no plan expresses.
struct ContradictionError : InputError {
  using InputError::InputError;
};

struct RunRequest {
  PlanRequest plan;
  SoftwareProfile software;
  // What a software drops where the plan says otherwise, which then has its time alone.
  std::optional<Recompute> recompute_in_memory = {};
  bool recompute_is_open = false;    // the row does not say what was recomputed
  std::vector<std::string> assumed;  // "vocabulary of 50257 words"
};

// The cluster that a device name, a number of devices and the text of its interconnect speak of. Throws
// ContradictionError for a device without a data sheet.
[[nodiscard]] Cluster cluster_of_run(const PublishedRun& run);

// `count` of `layers`, spread evenly, are recomputed whole. REQUIRES: 0 <= count <= layers.
[[nodiscard]] std::vector<LayerRecompute> spread_recompute(int layers, int count);

// `software`: a profile's name; "" is that of the run's framework. Throws ContradictionError where tp x pp x dp x cp is
// not the number of devices, InputError for what no plan can express.
// REQUIRES: !run.why_not_a_run().
[[nodiscard]] RunRequest request_of_run(const PublishedRun& run, const std::string& software);

}  // namespace meshwright
