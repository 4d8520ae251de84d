// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/stage_costs.h"

#include "core/base/errors.h"
#include "core/planner/spans/mesh_spans.h"

namespace meshwright {

SpanCosts::SpanCosts(const MeshSpans& spans, const StagePlace& mesh, int layers, bool one_stage,
                     const StageCostOptions& options)
    : mesh_(mesh), layers_(layers), options_(spans.options()), one_stage_(one_stage) {
  require(!one_stage || options.costs == StageCostSource::Composition,
          "the costs of single layers make no stage of a method that has one stage; give --stage-costs composition.");
  const bool summed = options.costs == StageCostSource::Individual;
  // Indexed by first and last layer: the half with first > last is never used.
  const std::size_t size = one_stage ? options_ : layers_ * layers_ * options_;
  costs_.resize(size);
  measured_.resize(size);
  for (int first = 0; first < (one_stage ? 1 : layers); ++first)
    for (int last = one_stage ? layers - 1 : first; last < layers; ++last)
      for (int option = 0; option < options_; ++option) {
        // Sums are made of single layers below.
        if ((summed && last > first) || !spans.has_costs(first, last)) continue;
        StepCost& own = costs_[index(first, last, option)];
        own = spans.cost(first, last, option);
        if (options.known == nullptr) continue;
        StagePlace place = mesh;
        place.first = first;
        place.last = last;
        const auto sharding = [&] { return sharding_fingerprint(spans.plan(first, last, option)); };
        own = options.known->cost(place, option, sharding, own, options.mode);
        if (const StageProfile* entry = options.known->find(place, option, sharding))
          measured_[index(first, last, option)] = entry->measured;
      }
  if (!summed) return;
  // `last` ascends, so the sum without the last layer is known.
  for (int first = 0; first < layers; ++first)
    for (int last = first + 1; last < layers; ++last)
      for (int option = 0; option < options_; ++option) {
        StepCost sum = cost(first, last - 1, option);
        sum += cost(last, last, option);
        costs_[index(first, last, option)] = sum;
      }
}

std::size_t SpanCosts::index(int first, int last, int option) const {
  MW_CHECK(first >= 0 && first <= last && last < layers_ && option >= 0 && option < options_ &&
               (!one_stage_ || last - first == layers_ - 1),
           "span {}..{}, option {} of {} layers", first, last, option, layers_);
  return one_stage_ ? option : (first * layers_ + last) * options_ + option;
}

const StepCost& SpanCosts::cost(int first, int last, int option) const { return costs_[index(first, last, option)]; }

void SpanCosts::add_to(StageProfileTable& table, const StepStructure& structure) const {
  for (int first = 0; first < (one_stage_ ? 1 : layers_); ++first)
    for (int last = one_stage_ ? layers_ - 1 : first; last < layers_; ++last) {
      const StageBoundary boundary = stage_boundary(structure, first, last);
      StagePlace place = mesh_;
      place.first = first;
      place.last = last;
      for (int option = 0; option < options_; ++option) {
        StageProfile entry = modelled_profile(cost(first, last, option), boundary);
        entry.measured = measured_[index(first, last, option)];
        table.add({place, option, ""}, entry);
      }
    }
}

}  // namespace meshwright
