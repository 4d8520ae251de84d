// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/stage_costs.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

SpanCosts::SpanCosts(const MeshSpans& spans, const StagePlace& mesh, int layers, bool one_stage,
                     const StageCostOptions& options)
    : mesh_(mesh), layers_(layers), prices_(spans.prices()), one_stage_(one_stage) {
  require(!one_stage || options.costs == StageCostSource::Composition,
          "the costs of single layers make no stage of a method that has one stage; give --stage-costs composition.");
  const bool summed = options.costs == StageCostSource::Individual;
  const auto size = static_cast<std::size_t>(one_stage ? prices_ : layers_ * layers_ * prices_);
  costs_.resize(size);
  measured_.resize(size);
  for (int first = 0; first < (one_stage ? 1 : layers); ++first)
    for (int last = one_stage ? layers - 1 : first; last < layers; ++last)
      for (int price = 0; price < prices_; ++price) {
        if (summed && last > first) continue;
        StepCost& own = costs_[index(first, last, price)];
        own = spans.cost(first, last, price);
        if (options.known == nullptr) continue;
        StagePlace place = mesh;
        place.first = first;
        place.last = last;
        const auto sharding = [&] { return sharding_fingerprint(spans.plan(first, last, price)); };
        own = options.known->cost(place, price, sharding, own, options.mode);
        if (const StageProfile* entry = options.known->find(place, price, sharding))
          measured_[index(first, last, price)] = entry->measured;
      }
  if (!summed) return;
  for (int first = 0; first < layers; ++first)
    for (int last = first + 1; last < layers; ++last)
      for (int price = 0; price < prices_; ++price) {
        StepCost sum = cost(first, last - 1, price);
        sum += cost(last, last, price);
        costs_[index(first, last, price)] = sum;
      }
}

std::size_t SpanCosts::index(int first, int last, int price) const {
  MW_CHECK(first >= 0 && first <= last && last < layers_ && price >= 0 && price < prices_ &&
               (!one_stage_ || last - first == layers_ - 1),
           "span {}..{} at price {} of {} layers", first, last, price, layers_);
  return static_cast<std::size_t>(one_stage_ ? price : (first * layers_ + last) * prices_ + price);
}

const StepCost& SpanCosts::cost(int first, int last, int price) const { return costs_[index(first, last, price)]; }

void SpanCosts::add_to(StageProfileTable& table, const StepStructure& structure) const {
  for (int first = 0; first < (one_stage_ ? 1 : layers_); ++first)
    for (int last = one_stage_ ? layers_ - 1 : first; last < layers_; ++last) {
      const StageBoundary boundary = stage_boundary(structure, first, last);
      StagePlace place = mesh_;
      place.first = first;
      place.last = last;
      for (int price = 0; price < prices_; ++price) {
        StageProfile entry = modelled_profile(cost(first, last, price), boundary);
        entry.measured = measured_[index(first, last, price)];
        table.add({place, price, ""}, entry);
      }
    }
}

}  // namespace meshwright
