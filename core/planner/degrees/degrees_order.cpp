// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/parallel.h"
#include "core/planner/degrees/first_degrees.h"

namespace meshwright {

namespace {

// What larger micro-batches keep for each sample of what smaller ones do, at least; and of the weights, gradients and
// states of these, as some weights may be split otherwise.
constexpr double kSavedInLarger = 0.9, kResidentInLarger = 0.7;

// What the work of a sample depends on. Not on the number of stages, and on replicas only by what ZeRO gathers.
struct SampleKey {
  int tp, cp, ep;
  ContextExchange context;
  bool whole_experts, folded_experts;
  Recompute recompute;
  auto operator<=>(const SampleKey&) const = default;
};

SampleKey sample_key(const Degrees& d) {
  return {d.tp, d.cp, d.ep, d.context, d.whole_experts, d.folded_experts, d.recompute};
}

// The degrees whose micro-batches are the same work.
struct Kind {
  std::vector<const Degrees*> degrees;
  const Degrees* fewest_stages = nullptr;  // the work is computed for these: it moves the least
  std::optional<Work> work = {};
  bool is_too_large = false;
  std::vector<Bytes> needs = {};  // [as degrees] where it is too large
};
using Kinds = std::map<std::int64_t, Kind>;  // by the samples of a micro-batch

std::map<SampleKey, Kinds> kinds_of(const std::vector<Degrees>& all) {
  std::map<SampleKey, Kinds> kinds;
  for (const Degrees& degrees : all) {
    Kind& of = kinds[sample_key(degrees)][degrees.micro_batch];
    of.degrees.push_back(&degrees);
    if (of.fewest_stages == nullptr || degrees.stages() < of.fewest_stages->stages()) of.fewest_stages = &degrees;
  }
  return kinds;
}

// What degrees need at least, of some device.
class Needs {
 public:
  Needs(const PlanRequest& request, const Graph& graph)
      : usable_(request.cluster.usable_memory()),
        blocks_(shape_of(request.model).blocks),
        is_known_(request.software.empty()),  // a software counts in its own way
        replica_(bytes_of_replica(graph)) {}

  [[nodiscard]] Bytes of(const Work& work, const Degrees& degrees) const {
    if (!is_known_) return Bytes(0.0);
    // Experts are split over fewer replicas than the rest, so that more of them is left.
    Degrees dense = degrees, unsplit = degrees;
    dense.ep = unsplit.ep = 1;
    unsplit.zero = 0;
    const double split = state_estimate(dense, replica_) / state_estimate(unsplit, replica_);
    return least_memory_of_work(work, degrees, blocks_, split);
  }
  // `smaller`: the work of micro-batches of fewer samples.
  void rule_out(Kind& kind, const Work& smaller, double times_as_many) const {
    Work work = smaller;
    work.saved = kSavedInLarger * times_as_many * smaller.saved;
    work.resident = kResidentInLarger * smaller.resident;
    for (const Degrees* degrees : kind.degrees) {
      kind.needs.push_back(of(work, *degrees));
      if (kind.needs.back() <= usable_) return;
    }
    kind.is_too_large = true;
  }
  [[nodiscard]] std::int64_t blocks() const { return blocks_; }

 private:
  const Bytes usable_;
  const std::int64_t blocks_;
  const bool is_known_;
  const ReplicaBytes replica_;
};

}  // namespace

DegreesOrder order_of_degrees(const std::vector<Degrees>& all, const PlanRequest& request, DegreesPlans& plans,
                              const std::function<bool()>& stop) {
  DegreesOrder order;
  if (all.empty()) return order;
  const Needs needs(request, plans.graph_of(all.front()));
  std::map<SampleKey, Kinds> kinds = kinds_of(all);
  std::map<SampleKey, std::pair<std::int64_t, const Work*>> smaller;  // the largest so far whose work is known
  std::vector<std::int64_t> sizes;
  for (const auto& [key, of_key] : kinds)
    for (const auto& [samples, kind] : of_key) sizes.push_back(samples);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const std::int64_t samples : sizes) {
    std::vector<std::pair<SampleKey, Kind*>> wanted;
    std::vector<Degrees> graphs;
    for (auto& [key, of_key] : kinds) {
      const auto found = of_key.find(samples);
      if (found == of_key.end()) continue;
      Kind& kind = found->second;
      if (const auto known = smaller.find(key); known != smaller.end()) {
        const auto& [fewer, work] = known->second;
        needs.rule_out(kind, *work, static_cast<double>(samples) / static_cast<double>(fewer));
      }
      if (kind.is_too_large) continue;
      wanted.emplace_back(key, &kind);
      graphs.push_back(*kind.fewest_stages);
    }
    plans.build_graphs(graphs);
    for_each_index(wanted.size(), request.threads, [&](std::size_t i) {
      Kind& kind = *wanted[i].second;
      if (!stop()) kind.work = plans.work_of(*kind.fewest_stages);
    });
    for (const auto& [key, kind] : wanted)
      if (kind->work) smaller[key] = {samples, &*kind->work};
    order.kinds += std::ssize(wanted);
  }

  std::map<const Degrees*, std::pair<const Kind*, Bytes>> of_degrees;
  for (const auto& [key, of_key] : kinds)
    for (const auto& [samples, kind] : of_key)
      for (std::size_t d = 0; d < kind.degrees.size(); ++d)
        of_degrees.emplace(kind.degrees[d], std::pair(&kind, kind.is_too_large ? kind.needs[d] : Bytes(0.0)));
  for (const Degrees& degrees : all) {
    const auto& [kind, least] = of_degrees.at(&degrees);
    if (kind->is_too_large) {
      order.too_large.push_back({degrees, Seconds(0.0), least});
      continue;
    }
    const Work work = kind->work.value_or(Work{});
    order.by_bound.push_back({degrees, bound_of_work(work, degrees, needs.blocks()), needs.of(work, degrees)});
  }
  std::stable_sort(order.by_bound.begin(), order.by_bound.end(),
                   [](const OrderedDegrees& a, const OrderedDegrees& b) { return a.bound < b.bound; });
  return order;
}

}  // namespace meshwright
