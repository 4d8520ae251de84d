// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/work_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/parallel.h"

namespace meshwright {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kBatch = "batch";
constexpr double kRounding = 1.0 - 1e-6;  // programs round times to picoseconds

std::vector<std::int64_t> sizes_of(const IterationSpace& space) {
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
  return sizes;
}

// In how many parts a stage may split axes: every such number divides the devices of some submesh. Ascending.
std::vector<std::int64_t> part_counts(const HostGroup& hosts) {
  std::set<std::int64_t> counts;
  for (std::int64_t d = 1; d <= hosts.devices_per_host; ++d) counts.insert(d);
  for (std::int64_t h = 1; h <= hosts.hosts; ++h)
    for (const std::int64_t d : divisors(h * hosts.devices_per_host)) counts.insert(d);
  return {counts.begin(), counts.end()};
}

// Any: the graph stands for every division of its micro-batches into several.
enum class Micro { AsTheyAre, Any };

// The device time of single ops on devices of one kind.
class OpTimes {
 public:
  OpTimes(const Graph& graph, const HostGroup& hosts, const CostModel& costs, Micro micro)
      : graph_(graph), hosts_(hosts), costs_(costs), micro_(micro), counts_(part_counts(hosts)) {
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::Contract) continue;
      const OpWork whole = work(op, iteration_space(graph, op));
      fuses_ = costs.as_one_product({&whole, &whole}, false).has_value();
      break;
    }
  }

  // The least that the devices together take, over all splits.
  [[nodiscard]] double least(const Op& op) {
    const IterationSpace space = iteration_space(graph_, op);
    std::string key = work(op, space).signature + name_of(op.phase);
    for (const IterationAxis& axis : space.axes) key += (axis.splittable ? '/' : '|') + axis.name;
    const auto [known, is_new] = known_.try_emplace(std::move(key), kInfinity);
    if (is_new) {
      std::vector<std::int64_t> sizes = sizes_of(space);
      try_splits(op, space, {0, 1, 1}, sizes, known->second);
    }
    return known->second;
  }

 private:
  struct Split {
    std::size_t axis;                // the next to be split
    std::int64_t devices, in_turns;  // the parts so far: on so many devices, and in so many micro-batches
  };

  [[nodiscard]] OpWork work(const Op& op, const IterationSpace& space) const {
    return op_work(graph_, op, space, sizes_of(space));
  }
  void try_splits(const Op& op, const IterationSpace& space, const Split& split, std::vector<std::int64_t>& sizes,
                  double& least) {
    if (split.axis == space.axes.size()) {
      least = std::min(
          least, static_cast<double>(split.devices * split.in_turns) * time_of(op_work(graph_, op, space, sizes)));
      return;
    }
    const IterationAxis& axis = space.axes[split.axis];
    const auto with = [&](std::int64_t devices, std::int64_t in_turns) {
      sizes[split.axis] = axis.size / (devices * in_turns);
      try_splits(op, space, {split.axis + 1, split.devices * devices, split.in_turns * in_turns}, sizes, least);
      sizes[split.axis] = axis.size;
    };
    if (micro_ == Micro::Any && axis.name == kBatch && op.phase != Phase::Update) {
      // Parts of the samples take as long together on several devices as in turns on one.
      for (const std::int64_t parts : divisors(axis.size)) with(1, parts);
      return;
    }
    with(1, 1);
    for (const std::int64_t parts : counts_) {
      if (!axis.splittable || split.devices * parts > hosts_.devices()) break;
      if (parts > 1 && axis.size % parts == 0) with(parts, 1);
    }
  }
  // Software may compute several products as one, and their sum with them: then no rate is sure but the device's peak.
  [[nodiscard]] double time_of(const OpWork& work) const {
    const double time = costs_.compute(work).time.si();
    if (!fuses_) return time;
    if (work.kind == OpKind::Add) return 0.0;
    if (work.kind != OpKind::Contract) return time;
    const auto peak = hosts_.device.peak.find(name_of(work.dtype));
    return peak == hosts_.device.peak.end() ? 0.0 : std::min(time, (work.flops / peak->second).si());
  }

  const Graph& graph_;
  const HostGroup& hosts_;
  const CostModel& costs_;
  Micro micro_;
  std::vector<std::int64_t> counts_;
  bool fuses_ = false;
  std::map<std::string, double> known_;  // by all that the splits and their times depend on
};

Graph graph_of(const PlanRequest& request, std::int64_t microbatches) {
  TrainingOptions training = request.training_with(microbatches);
  // Layers that are an exception may recompute less.
  if (!request.search.recompute_layers.empty()) training.recompute = Recompute::None;
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
  return request.any_recompute() || !request.search.recompute_layers.empty() || held_bytes(graph) <= memory;
}

// The bound for the graph's division into micro-batches, or with Micro::Any for every one.
Seconds bound_of(const Graph& graph, const PlanRequest& request, const CostModel& costs, Micro micro) {
  const auto groups = request.cluster.groups.size();
  std::vector<std::vector<double>> times(groups);  // [group][op]
  std::vector<double> all(groups, 0.0);
  for (std::size_t g = 0; g < groups; ++g) {
    OpTimes of(graph, request.cluster.groups[g], costs.on(static_cast<int>(g)), micro);
    for (const Op& op : graph.ops()) {
      const double runs = op.phase == Phase::Update ? 1.0 : static_cast<double>(graph.microbatches);
      times[g].push_back(runs * of.least(op));
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

}  // namespace

Seconds work_bound(const PlanRequest& request, const CostModel& costs) {
  if (const auto* given = std::get_if<std::int64_t>(&request.search.microbatches))
    return bound_of(graph_of(request, *given), request, costs, Micro::AsTheyAre);
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
    return bound_of(fewest, request, costs, Micro::Any);
  std::vector<Seconds> bounds(counts.size(), Seconds(0.0));
  for_each_index(counts.size(), request.threads, [&](std::size_t i) {
    bounds[i] = bound_of(graph_of(request, counts[i]), request, costs, Micro::AsTheyAre);
  });
  return *std::min_element(bounds.begin(), bounds.end());
}

}  // namespace meshwright
