// SPDX-License-Identifier: Apache-2.0
#include "core/planner/layers/cluster_layers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/planner/layers/layer_branches.h"

namespace meshwright {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();  // inside the DP's tables only
constexpr double kTie = 1e-4;             // relative: largest cuts this close count as equal
constexpr double kRounding = 1.0 + 1e-9;  // sums of work past 2^53 are not exact
constexpr double kCountTie = 1e-6;        // relative: so close to whole layers of work is whole
constexpr int kHeavyOpsPerLayer = 3;
constexpr double kTowerShare = 0.05;  // of all work, at least

void require_consistent(const LayerClusteringInput& input) {
  const int ops = static_cast<int>(input.flops.size());
  require(input.layers >= 1 && input.layers <= ops, "cannot cut {} ops into {} layers; ask for 1..{}.", ops,
          input.layers, ops);
  require(input.epsilon >= 0.0, "layer clustering: epsilon {} must not be negative.", input.epsilon);
  require(input.work.empty() || input.work.size() == input.flops.size(),
          "layer clustering: there are {} ops, but the work of {}; give every op's, or none.", ops, input.work.size());
  require(std::all_of(input.work.begin(), input.work.end(), [](double work) { return work >= 0.0; }),
          "layer clustering: the work of an op is negative; give numbers from 0 upwards.");
  const std::vector<int>& starts = input.starts;
  require(starts.empty() || (starts.front() > 0 && starts.back() < ops &&
                             std::adjacent_find(starts.begin(), starts.end(), std::greater_equal<>()) == starts.end()),
          "layer clustering: layers cannot be made to begin at these ops; give ascending ones of 1..{}.", ops - 1);
  for (const LayerClusteringInput::Use& use : input.uses) {
    require(use.made_by >= 0 && use.made_by < ops, "layer clustering: a tensor is made by op {}, but ops are 0..{}.",
            use.made_by, ops - 1);
    for (int reader : use.read_by)
      require(reader > use.made_by && reader < ops,
              "layer clustering: op {} reads a tensor of op {}; number the ops 0..{} in topological order.", reader,
              use.made_by, ops - 1);
  }
}

// The number of heavy ops that a layer has to hold at least.
int min_heavy_ops(int heavy_ops, int layers) { return std::min(kHeavyOpsPerLayer, heavy_ops / layers); }

double work_of(const LayerClusteringInput& input, std::size_t op) {
  return input.work.empty() ? input.flops[op].si() : input.work[op];
}

bool are_first_ops(const std::vector<int>& first_ops, int ops) {
  return !first_ops.empty() && first_ops.front() == 0 && first_ops.back() < ops &&
         std::adjacent_find(first_ops.begin(), first_ops.end(), std::greater_equal<>()) == first_ops.end();
}

// Which ranges of ops may form a layer, and how uneven they are. Ranges are [first, end).
class LayerBound {
 public:
  explicit LayerBound(const LayerClusteringInput& input)
      : work_(1, 0.0), heavy_(1, 0), max_end_(input.flops.size(), static_cast<int>(input.flops.size())) {
    for (std::size_t op = 0; op < input.flops.size(); ++op) {
      work_.push_back(work_.back() + work_of(input, op));
      heavy_.push_back(heavy_.back() + (input.flops[op].si() > 0.0 ? 1 : 0));
    }
    max_work_ = work_.back() / input.layers * (1.0 + input.epsilon) * kRounding;
    min_heavy_ = min_heavy_ops(heavy_.back(), input.layers);
    find_counts(input.layers);
    // Backwards, so that each start overwrites the ends of the ops before it.
    for (auto start = input.starts.rbegin(); start != input.starts.rend(); ++start)
      std::fill_n(max_end_.begin(), *start, *start);
  }
  [[nodiscard]] double work(int first, int end) const { return work_[end] - work_[first]; }
  // Then every longer range exceeds it as well.
  [[nodiscard]] bool is_exceeded(int first, int end) const {
    return end > max_end_[first] || work(first, end) > max_work_;
  }
  [[nodiscard]] bool allows(int first, int end) const {
    return !is_exceeded(first, end) && heavy_[end] - heavy_[first] >= min_heavy_;
  }
  // How many layers the first `end` ops can be cut into, from first to second, where the rest is cut into the others:
  // no layer holds more than the most work, nor fewer than one op and the fewest heavy ones.
  [[nodiscard]] std::pair<int, int> counts(int end) const { return counts_[end]; }
  // Squared work of the layer: its sum over layers is minimal when all are equal.
  [[nodiscard]] double imbalance(int first, int end) const {
    // Without any work all ops count alike.
    const double share = work_.back() > 0.0 ? work(first, end) : static_cast<double>(end - first);
    return share * share;
  }

 private:
  void find_counts(int layers) {
    const int ops = static_cast<int>(work_.size()) - 1;
    const auto least = [&](int first, int end) {
      return max_work_ > 0.0 ? static_cast<int>(std::ceil(work(first, end) / max_work_ * (1.0 - kCountTie))) : 0;
    };
    const auto most = [&](int first, int end) {
      return min_heavy_ > 0 ? (heavy_[end] - heavy_[first]) / min_heavy_ : end - first;
    };
    for (int end = 0; end <= ops; ++end)
      counts_.emplace_back(std::max({0, least(0, end), layers - most(end, ops)}),
                           std::min({layers, most(0, end), layers - least(end, ops)}));
  }

  std::vector<double> work_;  // of the first n ops
  std::vector<int> heavy_;    // among the first n ops
  std::vector<int> max_end_;  // first op -> the next start after it
  std::vector<std::pair<int, int>> counts_;
  double max_work_;
  int min_heavy_;
};

// The cuts before one op after another: by_reader()[r] holds the bytes made before op `first` whose first reader at or
// after it is r. Their running sum over r is cut(first - 1, r).
class CutSweep {
 public:
  explicit CutSweep(const LayerClusteringInput& input)
      : uses_(input.uses),
        made_at_(input.flops.size()),
        next_read_at_(input.flops.size()),
        by_reader_(input.flops.size(), 0.0) {
    for (std::size_t u = 0; u < uses_.size(); ++u) {
      std::sort(uses_[u].read_by.begin(), uses_[u].read_by.end());
      made_at_[uses_[u].made_by].push_back(u);
    }
    next_.assign(uses_.size(), 0);
  }
  [[nodiscard]] const std::vector<double>& by_reader() const { return by_reader_; }

  // From the cut before `first` to the cut before first + 1.
  void advance(int first) {
    by_reader_[first] = 0.0;
    for (std::size_t u : next_read_at_[first]) wait_for_reader_after(first, u);
    for (std::size_t u : made_at_[first]) wait_for_reader_after(first, u);
  }

 private:
  void wait_for_reader_after(int op, std::size_t u) {
    const std::vector<int>& readers = uses_[u].read_by;
    while (next_[u] < readers.size() && readers[next_[u]] <= op) ++next_[u];
    if (next_[u] == readers.size()) return;
    by_reader_[readers[next_[u]]] += uses_[u].bytes.si();
    next_read_at_[readers[next_[u]]].push_back(u);
  }

  std::vector<LayerClusteringInput::Use> uses_;
  std::vector<std::size_t> next_;  // per use: its first reader that is not before the cut
  std::vector<std::vector<std::size_t>> made_at_, next_read_at_;
  std::vector<double> by_reader_;
};

// Calls visit(first, end, cut) for every range [first, end) that may be a layer, by ascending `first`.
template <class Visit>
void for_each_layer_range(const LayerClusteringInput& input, const LayerBound& bound, Visit visit) {
  const int ops = static_cast<int>(input.flops.size());
  CutSweep sweep(input);
  for (int first = 0; first < ops; ++first) {
    double cut = 0.0;
    for (int end = first + 1; end <= ops && !bound.is_exceeded(first, end); ++end) {
      cut += sweep.by_reader()[end - 1];
      if (bound.allows(first, end)) visit(first, end, cut);
    }
    sweep.advance(first);
  }
}

// The numbers of layers before `first` that a layer first..end-1 may follow.
std::pair<int, int> counts_between(const LayerBound& bound, int first, int end) {
  const auto [least_before, most_before] = bound.counts(first);
  const auto [least_after, most_after] = bound.counts(end);
  return {std::max(least_before, least_after - 1), std::min(most_before, most_after - 1)};
}

// The minimum over all cuts of their largest cut; infinite when there is no cut at all.
double min_largest_cut(const LayerClusteringInput& input, const LayerBound& bound) {
  const int ops = static_cast<int>(input.flops.size());
  const std::size_t layers = input.layers;
  // O(ranges * layers): each range extends the cuts that end where it begins.
  // value[end][q]: of the first `end` ops cut into q layers.
  std::vector<std::vector<double>> value(ops + 1, std::vector<double>(layers + 1, kInfinity));
  value[0][0] = 0.0;
  for_each_layer_range(input, bound, [&](int first, int end, double cut) {
    const double* before = value[first].data();
    double* after = value[end].data();
    const auto [least, most] = counts_between(bound, first, end);
    for (int q = least; q <= most; ++q) after[q + 1] = std::min(after[q + 1], std::max(before[q], cut));
  });
  return value[ops][layers];
}

// Bytes of the op's parameters and results, each where it is met first; marks them as known.
double first_met_bytes(const Graph& graph, const Op& op, std::vector<bool>& known) {
  double bytes = 0.0;
  const auto meet = [&](TensorId id, TensorKind kind) {
    if (graph.tensor(id).kind != kind || known[id.index()]) return;
    known[id.index()] = true;
    bytes += graph.tensor(id).bytes().si();
  };
  for (TensorId input : op.inputs) meet(input, TensorKind::Parameter);
  for (TensorId output : op.outputs) meet(output, TensorKind::Intermediate);
  return bytes;
}

struct PartialCut {
  double total = kInfinity;
  double imbalance = kInfinity;
  int first = 0;  // of the last layer
};

}  // namespace

std::vector<int> tower_borders(const LayerClusteringInput& input) {
  const std::size_t ops = input.flops.size();
  std::vector<std::vector<int>> reads(ops);
  for (const LayerClusteringInput::Use& use : input.uses)
    for (const int reader : use.read_by) reads[reader].push_back(use.made_by);
  std::vector<double> work(ops), before = {0.0};
  std::vector<int> heavy_before = {0};
  for (std::size_t op = 0; op < ops; ++op) {
    before.push_back(before.back() + (work[op] = work_of(input, op)));
    heavy_before.push_back(heavy_before.back() + (input.flops[op].si() > 0.0 ? 1 : 0));
  }
  const double share = before.back() / input.layers;
  if (share <= 0.0) return {};
  const LayerBranches towers = branches_of(reads, work, std::max(share, kTowerShare * before.back()));

  std::vector<int> starts = {0};
  for (std::size_t s = 0; s < towers.segments.size(); ++s) {
    const std::vector<LayerRun>& runs = towers.segments[s];
    const double held = before[runs.back().last + 1] - before[runs.front().first];
    // What is no tower and too little for a layer goes to its neighbour.
    if (s > 0 && held >= share && (runs.size() > 1 || towers.segments[s - 1].size() > 1) &&
        before[runs.front().first] - before[starts.back()] >= share)
      starts.push_back(runs.front().first);
    for (std::size_t b = 1; b < runs.size(); ++b) starts.push_back(runs[b].first);
  }

  // Each part is at least one layer; together they can be as many as asked for.
  starts.push_back(static_cast<int>(ops));
  const int min_heavy = min_heavy_ops(heavy_before.back(), input.layers);
  int max_layers = 0;
  for (std::size_t part = 0; part + 1 < starts.size(); ++part) {
    const int first = starts[part], end = starts[part + 1];
    const int max = min_heavy > 0 ? (heavy_before[end] - heavy_before[first]) / min_heavy : end - first;
    if (max == 0) return {};
    max_layers += max;
  }
  if (static_cast<int>(starts.size()) - 1 > input.layers || max_layers < input.layers) return {};
  return {starts.begin() + 1, starts.end() - 1};
}

// Two passes, because the minimum of the largest cut and that of the sum do not share optimal prefixes: the first finds
// the minimum of the largest cut, the second that of (sum, imbalance) with all larger cuts forbidden.
std::optional<std::vector<int>> cluster_layers(const LayerClusteringInput& input) {
  require_consistent(input);
  const LayerBound bound(input);
  const double largest = min_largest_cut(input, bound);
  if (largest == kInfinity) return std::nullopt;

  const int ops = static_cast<int>(input.flops.size());
  const std::size_t layers = input.layers;
  std::vector<std::vector<PartialCut>> best(ops + 1, std::vector<PartialCut>(layers + 1));
  best[0][0] = {0.0, 0.0, 0};
  const double allowed = largest * (1.0 + kTie);
  // Ranges come by ascending first op, so every cut that ends at `first` is final when the range is added to it.
  for_each_layer_range(input, bound, [&](int first, int end, double cut) {
    if (cut > allowed) return;
    const double imbalance = bound.imbalance(first, end);
    const auto [least, most] = counts_between(bound, first, end);
    for (int q = least; q <= most; ++q) {
      const PartialCut& before = best[first][q];
      if (before.total == kInfinity) continue;
      PartialCut& after = best[end][q + 1];
      const double total = before.total + cut, uneven = before.imbalance + imbalance;
      if (total < after.total || (total == after.total && uneven < after.imbalance)) after = {total, uneven, first};
    }
  });

  std::vector<int> first_ops(layers);
  int end = ops;
  for (std::size_t q = layers; q > 0; --q) end = first_ops[q - 1] = best[end][q].first;
  MW_CHECK(end == 0, "layers start at op {}", end);
  return first_ops;
}

LayerClusteringInput layer_clustering_input(const Graph& graph, int layers, double epsilon, LayerWork work) {
  LayerClusteringInput input{{}, {}, layers, epsilon};
  std::vector<bool> known(graph.tensors().size(), false);
  std::vector<std::optional<std::size_t>> use_of(graph.tensors().size());
  int number = 0;
  for (OpId id : forward_ops(graph)) {
    const Op& op = graph.op(id);
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
    input.flops.push_back(contraction_flops(op.kind, space, sizes));
    // An op that reads a tensor twice is one reader.
    for (TensorId tensor : std::set<TensorId>(op.inputs.begin(), op.inputs.end()))
      if (use_of[tensor.index()]) input.uses[*use_of[tensor.index()]].read_by.push_back(number);
    if (work == LayerWork::HeldBytes) input.work.push_back(first_met_bytes(graph, op, known));
    if (work == LayerWork::OpCount) input.work.push_back(1.0);
    for (TensorId tensor : op.outputs) {
      if (graph.tensor(tensor).kind != TensorKind::Intermediate) continue;
      use_of[tensor.index()] = input.uses.size();
      input.uses.push_back({number, {}, graph.tensor(tensor).bytes()});
    }
    ++number;
  }
  // A tensor without readers crosses no cut.
  std::erase_if(input.uses, [](const auto& use) { return use.read_by.empty(); });
  input.starts = tower_borders(input);
  return input;
}

Layers assign_layers(const Graph& graph, const std::vector<int>& first_forward_ops) {
  const std::vector<OpId> forward = forward_ops(graph);
  require(are_first_ops(first_forward_ops, static_cast<int>(forward.size())),
          "layers need ascending first ops of 0..{}, beginning with 0.", static_cast<int>(forward.size()) - 1);
  Layers layers{static_cast<int>(first_forward_ops.size()), std::vector<int>(graph.ops().size(), 0), {}};
  layers.forward.resize(first_forward_ops.size());

  std::size_t layer = 0;
  for (std::size_t n = 0; n < forward.size(); ++n) {
    while (layer + 1 < first_forward_ops.size() && first_forward_ops[layer + 1] <= static_cast<int>(n)) ++layer;
    layers.layer_of_op[forward[n].index()] = static_cast<int>(layer);
    layers.forward[layer].push_back(forward[n]);
  }
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Forward) continue;
    MW_CHECK(op.forward && graph.op(*op.forward).phase == Phase::Forward, "{} op {} does not name its forward op",
             name_of(op.phase), op.name);
    layers.layer_of_op[op.id.index()] = layers.layer_of_op[op.forward->index()];
  }
  return layers;
}

std::vector<int> block_starts(const Graph& graph) {
  std::vector<int> starts;
  const std::vector<OpId> forward = forward_ops(graph);
  std::optional<int> block;
  for (std::size_t p = 0; p < forward.size(); ++p) {
    const int here = graph.op(forward[p]).block;
    if (here < 0) continue;
    if (here != block) starts.push_back(static_cast<int>(p));
    block = here;
  }
  if (starts.size() < 2) return starts;
  // What a tower has in front of its first block belongs to it, not to the block before.
  for (const int border : layer_clustering_input(graph, static_cast<int>(starts.size()), 0.5).starts) {
    const auto first = std::lower_bound(starts.begin(), starts.end(), border);
    if (first == starts.begin() || first == starts.end()) continue;
    const bool between = std::none_of(forward.begin() + border, forward.begin() + *first,
                                      [&](OpId id) { return graph.op(id).block >= 0; });
    if (between) *first = border;
  }
  return starts;
}

std::vector<int> block_starts_with_ends(const Graph& graph) {
  std::vector<int> starts = block_starts(graph);
  if (starts.empty() || starts.front() != 0) starts.insert(starts.begin(), 0);
  const std::vector<OpId> forward = forward_ops(graph);
  std::size_t after = forward.size();
  while (after > 0 && graph.op(forward[after - 1]).block < 0) --after;
  if (after < forward.size() && static_cast<int>(after) > starts.back()) starts.push_back(static_cast<int>(after));
  return starts;
}

Layers layers_of_blocks(const Graph& graph) {
  std::vector<int> starts = block_starts(graph);
  if (starts.empty()) starts.push_back(0);
  // What comes before the first block belongs to the first layer.
  starts.front() = 0;
  return assign_layers(graph, starts);
}

Layers make_layers(const Graph& graph, int layers, LayerWork work) {
  const int ops = static_cast<int>(forward_ops(graph).size());
  require(layers >= 1 && layers <= ops, "{} has {} forward ops and cannot be cut into {} layers; ask for 1..{}.",
          graph.name, ops, layers, ops);
  LayerClusteringInput input = layer_clustering_input(graph, layers, 0.5, work);
  // Ends: from epsilon = layers on, no work exceeds the bound, and enough heavy ops for every layer exist by its
  // definition and by that of tower_borders.
  for (;; input.epsilon *= 2.0)
    if (const auto first_ops = cluster_layers(input)) return assign_layers(graph, *first_ops);
}

}  // namespace meshwright
