// SPDX-License-Identifier: Apache-2.0
// What to change where no plan fits the memory: every way out is planned before it is offered.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/make_plan.h"

namespace meshwright {

// The costs of a cluster; the evaluator may refer to them.
struct CostContext {
  std::unique_ptr<CostModel> costs;
  std::unique_ptr<PlanEvaluator> evaluator;
};
using CostContextOf = std::function<CostContext(const Cluster&)>;

struct WayOut {
  // What it changes; of each kind only the fastest way is kept.
  enum class Kind {
    Recomputation,
    ZeroLevel,
    FreerMethod,
    MoreMicrobatches,
    OtherSchedule,
    SmallerBatch,
    Offload,
    RicherMeshes,
    MoreDevices
  } kind;
  std::string change;      // as the command line has it: "--recompute full", "--cluster p3.16xlarge:3"
  PlanRequest request;     // the one that failed with the change
  Seconds step_time{0.0};  // of the plan found for it, which fits
  bool at_most = false;    // the search was a narrow one: the request's own may find a faster plan
  // By what share a sample takes longer than in the plan that does not fit (below 0: less long); nullopt where the time
  // of that plan is not known.
  std::optional<double> slower = std::nullopt;

  [[nodiscard]] Seconds per_sample() const { return step_time / static_cast<double>(request.training.batch); }
};

struct WaysOut {
  std::vector<WayOut> ways;          // minimum time per sample first
  std::vector<std::string> in_vain;  // changes that were planned and do not fit either
};

struct WaysOutLimits {
  int planning_calls = 12;
  std::size_t ways = 4;
  std::function<bool()> stop = {};  // true: no more calls; the one under way ends with what it has
};

// Plans requests with one thing changed at a time: more recomputation, the next ZeRO levels, a freer method, more
// microbatches, one-forward-one-backward for GPipe, a smaller batch, optimizer state and then all else on the hosts
// where the cluster says what they hold, three-dimensional logical meshes, more hosts of the same kind. The smallest
// change of each kind that fits is searched first. Requests for few devices and samples are planned as they are, others
// in a part of their space that holds plans of little memory (WayOut::at_most), with the largest change first: where
// that is in vain, the smaller ones are not planned. What the answer is depends on the work allowed, never on a clock.
// Not planned: what cannot fit as the weights and optimizer state that the method keeps are too large by themselves.
// Nothing is looked for unless `failed.too_large` is set. REQUIRES: `failed` is make_plan's answer to `request`,
// without a plan.
[[nodiscard]] WaysOut find_ways_out(const PlanRequest& request, const PlanningResult& failed,
                                    const CostContextOf& cost_context_of, const WaysOutLimits& limits = {});

// One sentence without its full stop: the stage that is too large, then the ways out with what they cost, or what was
// tried in vain and the memory with which the plan would fit. Where memory is not the limit: the reason alone.
[[nodiscard]] std::string sentence(const PlanningResult& failed, const WaysOut& ways_out);

}  // namespace meshwright
