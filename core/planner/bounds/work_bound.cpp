// SPDX-License-Identifier: Apache-2.0
#include "core/planner/bounds/work_bound.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/divisors.h"
#include "core/base/parallel.h"
#include "core/planner/bounds/held_bound.h"
#include "core/planner/bounds/op_parts.h"

namespace meshwright {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kBatch = "batch";
constexpr double kRounding = 1.0 - 1e-6;  // programs round times to picoseconds

// Any: the graph stands for every division of its micro-batches into several.
enum class Micro { AsTheyAre, Any };

// The least that devices of one kind together take for an op, over all splits.
double least_of(const Op& op, OpParts& parts, Micro micro) {
  const OpParts::Parts& of = parts.of(op);
  double least = kInfinity;
  for (const OpPart& part : of.all) {
    // Parts of the samples take as long together on several devices as in turns on one.
    const auto shares = micro == Micro::Any ? std::optional(of.samples / part.samples * part.parts)
                                            : parts.devices(of, part, of.samples);
    if (shares) least = std::min(least, static_cast<double>(*shares) * part.time);
  }
  return least;
}

Graph graph_of(const PlanRequest& request, std::int64_t microbatches) {
  TrainingOptions training = request.training_with(microbatches);
  // Layers that are an exception may recompute less, and modules hold less than the whole.
  if (!request.search.recompute_layers.empty()) training.recompute = Recompute::None;
  training.recompute_modules = RecomputeModules::None;
  return build_step_graph(request.model, training, request.first_schedule());
}

// What the devices hold together, at least, as the header says. Views of other tensors may share their bytes, so only
// the results of products count.
Bytes held_bytes(const Graph& graph) {
  std::vector<bool> read_back(graph.tensors().size(), false);
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Backward)
      for (const TensorId input : op.inputs) read_back[input.index()] = true;
  Bytes held(0.0);
  for (const Tensor& tensor : graph.tensors()) {
    const Op* maker = tensor.producer ? &graph.op(*tensor.producer) : nullptr;
    const bool kept = (tensor.kind == TensorKind::Parameter && !graph.weights_on_host) ||
                      (tensor.kind == TensorKind::OptimizerState && !graph.states_on_host);
    const bool saved = !graph.activations_on_host && maker != nullptr && maker->phase == Phase::Forward &&
                       maker->kind == OpKind::Contract && read_back[tensor.id.index()];
    if (kept || saved) held += tensor.bytes();
  }
  return held;
}

bool may_fit(const Graph& graph, const PlanRequest& request) {
  Bytes memory(0.0);
  for (const HostGroup& group : request.cluster.groups)
    memory += static_cast<double>(group.devices()) * group.usable_memory();
  // Where each layer's recomputation is chosen, no activation need be there.
  return request.any_recompute() || request.recomputes_parts() || held_bytes(graph) <= memory;
}

// The bound for the graph's division into micro-batches, or with Micro::Any for every one.
Seconds bound_of(const Graph& graph, const PlanRequest& request, const CostModel& costs, Micro micro) {
  const auto groups = request.cluster.groups.size();
  std::vector<std::vector<double>> times(groups);  // [group][op]
  std::vector<double> all(groups, 0.0);
  for (std::size_t g = 0; g < groups; ++g) {
    OpParts parts(graph, request.cluster.groups[g], costs.on(static_cast<int>(g)));
    for (const Op& op : graph.ops()) {
      const double runs = op.phase == Phase::Update ? 1.0 : static_cast<double>(graph.microbatches);
      times[g].push_back(runs * least_of(op, parts, micro));
      all[g] += times[g].back();
    }
  }
  // y of the header: in proportion to the speed of the whole.
  double speed = 0.0;
  for (std::size_t g = 0; g < groups; ++g)
    if (all[g] > 0.0) speed += request.cluster.groups[g].devices() / all[g];
  if (speed == 0.0) return Seconds(0.0);
  double bound = 0.0;
  for (std::size_t op = 0; op < graph.ops().size(); ++op) {
    double least = kInfinity;
    for (std::size_t g = 0; g < groups; ++g)
      least = std::min(least, all[g] > 0.0 ? times[g][op] / (all[g] * speed) : 0.0);
    bound += least;
  }
  return kRounding * Seconds(bound);
}

// The two divisions of one step differ in nothing but the samples of a micro-batch. Experts, for instance, hold room
// for tokens that is no multiple of them.
bool scale_with_samples(const Graph& whole, const Graph& parts) {
  if (whole.ops().size() != parts.ops().size()) return false;
  for (std::size_t i = 0; i < whole.ops().size(); ++i) {
    const IterationSpace one = iteration_space(whole, whole.ops()[i]), other = iteration_space(parts, parts.ops()[i]);
    if (one.axes.size() != other.axes.size()) return false;
    for (std::size_t a = 0; a < one.axes.size(); ++a) {
      const bool batch = one.axes[a].name == kBatch;
      if (one.axes[a].size != other.axes[a].size * (batch ? parts.microbatches / whole.microbatches : 1)) return false;
    }
  }
  return true;
}

// For each of these numbers of micro-batches: of the graph, or multiples of its that differ from it in samples alone.
Seconds bound_of(const Graph& graph, const std::vector<std::int64_t>& counts, const PlanRequest& request,
                 const CostModel& costs) {
  HeldBound bound(graph, request, costs);
  Seconds least(kInfinity);
  for (const std::int64_t count : counts) least = std::min(least, bound.at(count));
  return least < Seconds(kInfinity) ? kRounding * least : Seconds(0.0);
}

}  // namespace

Seconds work_bound(const PlanRequest& request, const CostModel& costs) {
  // With thousands of layers, counting what they hold takes seconds: a search that is to stop has no time for that.
  const bool stops = request.stop && request.stop();
  const bool counts_held = request.cluster.uniform() && !stops;
  const auto bound_as_it_is = [&](const Graph& graph) {
    return counts_held ? bound_of(graph, {graph.microbatches}, request, costs)
                       : bound_of(graph, request, costs, Micro::AsTheyAre);
  };
  if (const auto* given = std::get_if<std::int64_t>(&request.search.microbatches))
    return bound_as_it_is(graph_of(request, *given));
  std::vector<std::int64_t> counts = divisors(request.training.batch);
  // The graph of the fewest micro-batches that may fit stands for those of more, where only their samples differ. Most
  // often that is one micro-batch; building a graph takes longer than all else here.
  Graph fewest = graph_of(request, counts.front());
  if (counts.size() > 1 && !may_fit(fewest, request)) {
    const auto fits = [&](std::int64_t count) { return may_fit(graph_of(request, count), request); };
    counts.erase(counts.begin(), std::partition_point(counts.begin() + 1, counts.end() - 1,
                                                      [&](std::int64_t count) { return !fits(count); }));
    fewest = graph_of(request, counts.front());
  }
  const bool nested =
      std::all_of(counts.begin(), counts.end(), [&](auto count) { return count % counts.front() == 0; });
  if (nested && scale_with_samples(fewest, graph_of(request, counts.back())))
    return counts_held ? bound_of(fewest, counts, request, costs) : bound_of(fewest, request, costs, Micro::Any);
  std::vector<Seconds> bounds(counts.size(), Seconds(0.0));
  for_each_index(counts.size(), request.threads,
                 [&](std::size_t i) { bounds[i] = bound_as_it_is(graph_of(request, counts[i])); });
  return *std::min_element(bounds.begin(), bounds.end());
}

}  // namespace meshwright
