// SPDX-License-Identifier: Apache-2.0
// What the spans of one mesh cost a search: as MeshSpans models them, as a stage profile has them stored, or as the
// sum of their layers.
#pragma once

#include <vector>

#include "core/planner/stages/stage_profile.h"

namespace meshwright {

class MeshSpans;

struct StageCostOptions {
  const StageProfileTable* known = nullptr;  // under the search's own key
  StageProfileMode mode = StageProfileMode::Partly;
  StageCostSource costs = StageCostSource::Composition;

  // Otherwise every span costs what MeshSpans says.
  [[nodiscard]] bool replace() const { return known != nullptr || costs == StageCostSource::Individual; }
};

// The costs of every span of one mesh. Individual: of a span of several layers they are the sum of its layers', each as
// known or modelled alone (no resharding between layers); what is known of the whole span is not read then.
class SpanCosts {
 public:
  // `mesh` says on which mesh `spans` is; its layers are not read. `one_stage`: the span of all layers is the only one.
  // Throws InputError for Individual with one_stage, and Wholly for the first option that is not known.
  SpanCosts(const MeshSpans& spans, const StagePlace& mesh, int layers, bool one_stage,
            const StageCostOptions& options);
  [[nodiscard]] const StepCost& cost(int first, int last, int option) const;
  // Adds an entry for every span and option, with `measured` where its time was measured.
  void add_to(StageProfileTable& table, const StepStructure& structure) const;

 private:
  [[nodiscard]] std::size_t index(int first, int last, int option) const;

  StagePlace mesh_;
  int layers_, options_;
  bool one_stage_;
  std::vector<StepCost> costs_;
  std::vector<std::optional<StageProfile::Measured>> measured_;  // [as costs_]
};

}  // namespace meshwright
