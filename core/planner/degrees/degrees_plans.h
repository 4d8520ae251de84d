// SPDX-License-Identifier: Apache-2.0
// Plans of given degrees, and the work of a micro-batch under them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/degrees/all_degrees.h"
#include "core/planner/degrees/computing_costs.h"
#include "core/planner/degrees/degrees_bounds.h"
#include "core/planner/plan_request.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

// The request of one set of degrees: method, schedule, micro-batches, recomputation and layers are given.
[[nodiscard]] PlanRequest request_of(const PlanRequest& request, const Degrees& degrees);

// A plan of given degrees, as far as it was followed up.
struct PlanOfDegrees {
  std::string wrong;  // why no plan expresses the degrees; "" where one does
  std::optional<PlanOfGraph> plan;
  Bytes needs{0.0}, usable{0.0};  // of the device that lacks the most memory: at least, until it is counted
  bool counted = false;
  std::optional<Seconds> step;               // of a plan that fits
  std::vector<ConsideredStage> stages = {};  // where the request has a record
  Seconds floor{0.0};                        // of its stages' times: hardly any step takes less
  std::optional<Seconds> alone = {};         // what its stages take alone, with the transfers between them
};

class DegreesPlans {
 public:
  // `times_stages`: PlanOfDegrees::alone is wanted beside floors, too, where neither conditions nor a software have a
  // say in it.
  // REQUIRES: all three outlive this.
  DegreesPlans(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator, bool times_stages)
      : request_(request),
        costs_(costs),
        computing_(costs),
        evaluator_(evaluator),
        hides_(evaluator.hides_communication()),
        times_stages_(times_stages && request.conditions.empty() && request.software.empty()),
        shape_(shape_of(request.model)) {}

  // The graphs of all these, side by side; those that are left when the request is to stop are missing.
  void build_graphs(const std::vector<Degrees>& all);
  // Builds it where it is missing.
  const Graph& graph_of(const Degrees& degrees);

  // What a micro-batch takes and leaves; nullopt: no plan expresses the degrees. REQUIRES: their graph is there.
  [[nodiscard]] std::optional<Work> work_of(Degrees degrees) const;
  // Not simulated yet. REQUIRES: the graph of the degrees is there.
  [[nodiscard]] PlanOfDegrees plan_of(const Degrees& degrees) const;
  // Simulates it. REQUIRES: there is a plan.
  void judge(PlanOfDegrees& planned) const;

 private:
  // What all degrees of this many micro-batches share.
  struct GraphKey {
    std::int64_t micro_batches;
    Recompute recompute;
    RecomputeModules modules;
    LayerOptions::Cut cut;
    auto operator<=>(const GraphKey&) const = default;
  };

  [[nodiscard]] GraphKey graph_key(const Degrees& d) const {
    return {d.micro_batches, d.recompute, d.recompute_modules, cut_of(d, shape_.blocks)};
  }
  // `graphs`: those of the same micro-batches and recomputation that other cuts have made.
  [[nodiscard]] GivenModel build_graph(const Degrees& degrees, KnownGraphs& graphs) const;
  [[nodiscard]] Point point_of(SearchContext& context, const Degrees& degrees) const {
    return prepare_given_point(context, graphs_.at(graph_key(degrees)));
  }

  const PlanRequest& request_;
  const CostModel& costs_;
  const ComputingCosts computing_;
  PlanEvaluator& evaluator_;
  const bool hides_, times_stages_;
  const ModelShape shape_;
  std::map<GraphKey, GivenModel> graphs_;
  std::map<std::tuple<std::int64_t, Recompute, RecomputeModules>, KnownGraphs> uncut_;  // of graphs_
  // Shared by the layers of all degrees.
  std::shared_ptr<elimination::KnownSteps> eliminations_ = std::make_shared<elimination::KnownSteps>();
};

}  // namespace meshwright
