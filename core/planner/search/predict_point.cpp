// SPDX-License-Identifier: Apache-2.0
// Predicts the best pipeline of another number of micro-batches from the stage tables of two points.
#include <algorithm>

#include "core/base/errors.h"
#include "core/planner/search/point.h"

namespace meshwright {

namespace {

// Extends a quantity that is known for two sizes of a micro-batch to a third, on the line through both. It never falls
// below proportion to the smaller size. Where the larger size has the smaller value, which no line explains, it grows
// in proportion to the larger.
class Extension {
 public:
  Extension(double own, double other, double wanted) : own_(own), other_(other), wanted_(wanted) {}

  template <class T>
  T operator()(T at_own, T at_other) const {
    const auto [less, more] = std::minmax(own_, other_);
    const T small = own_ < other_ ? at_own : at_other, large = own_ < other_ ? at_other : at_own;
    if (wanted_ > more && large < small) return wanted_ / more * large;
    const double towards = (wanted_ - own_) / (other_ - own_);
    return std::max((1.0 - towards) * at_own + towards * at_other, std::min(1.0, wanted_ / less) * small);
  }

 private:
  double own_, other_, wanted_;  // samples of a micro-batch, as a share of the batch
};

double samples_share(std::int64_t microbatches) { return 1.0 / static_cast<double>(microbatches); }

}  // namespace

std::optional<Seconds> predict_point(SearchContext& context, const Point& own, const Point& other,
                                     std::int64_t microbatches, ScheduleKind schedule, double memory_share) {
  const StageSearch &own_search = *own.spans.search, &other_search = *other.spans.search;
  if (own_search.interrupted() || other_search.interrupted()) return std::nullopt;
  StageTable table = stage_table(context, own, memory_share, StageSearch::Keep::All).apart();
  const StageTable others = stage_table(context, other, memory_share, StageSearch::Keep::All);
  MW_CHECK(table.layers() == others.layers(), "points of {} and {} layers", table.layers(), others.layers());
  const Extension extend(samples_share(own.microbatches()), samples_share(other.microbatches()),
                         samples_share(microbatches));
  for (int slice = 0; slice < static_cast<int>(table.slices().size()); ++slice)
    for (int config = 0; config < table.configs(); ++config) {
      const auto other_config = other_search.config_of(slice, own_search.choice(slice, config));
      for (int first = 0; first < table.layers(); ++first)
        for (int last = first; last < table.layers(); ++last) {
          auto& cost = table.at(first, last, slice, config);
          if (!cost) continue;
          if (!other_config || !others.at(first, last, slice, *other_config)) {
            cost.reset();
            continue;
          }
          const StageCost& there = *others.at(first, last, slice, *other_config);
          cost->time = extend(cost->time, there.time);
          cost->saved = extend(cost->saved, there.saved);
          cost->working = extend(cost->working, there.working);
        }
    }
  CandidateRequest wanted = candidate_request(context, own, schedule);
  wanted.microbatches = microbatches;
  const auto run = [&]() -> std::optional<Seconds> {
    const auto pipeline = own.spans.ranking->first_by_cost(table, wanted);
    if (!pipeline) return std::nullopt;
    return pipeline->sum + static_cast<double>(microbatches - 1) * pipeline->slowest;
  };
  return context.step("predict", run, [&](const std::optional<Seconds>& cost) {
    return fmt::format("{} micro-batches, {}", microbatches, cost ? human_seconds(*cost) : "nothing fits");
  });
}

}  // namespace meshwright
