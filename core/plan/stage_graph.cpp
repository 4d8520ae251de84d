// SPDX-License-Identifier: Apache-2.0
#include "core/plan/stage_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/recomputation.h"

namespace meshwright {

namespace {

// The forward op whose result `tensor` is or repeats: what a stage that does not make it receives.
std::optional<OpId> forward_maker(const Graph& graph, TensorId tensor) {
  const auto producer = graph.tensor(tensor).producer;
  if (!producer) return std::nullopt;
  const Op& op = graph.op(*producer);
  if (op.phase == Phase::Forward) return op.id;
  return is_recomputation(graph, op) ? op.forward : std::nullopt;
}

}  // namespace

std::vector<std::vector<int>> layer_feeds(const Graph& graph, const std::vector<int>& layer_starts) {
  std::vector<int> layer_of(graph.ops().size(), -1);
  const std::vector<OpId> forward = forward_ops(graph);
  for (std::size_t p = 0, layer = 0; p < forward.size(); ++p) {
    while (layer + 1 < layer_starts.size() && static_cast<int>(p) >= layer_starts[layer + 1]) ++layer;
    layer_of[forward[p].index()] = static_cast<int>(layer);
  }
  std::vector<std::set<int>> found(layer_starts.size());
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Update) continue;
    const int reader = layer_of[op.phase == Phase::Forward ? op.id.index() : op.forward->index()];
    for (const TensorId input : op.inputs) {
      const auto maker = forward_maker(graph, input);
      if (!maker || layer_of[maker->index()] == reader) continue;
      MW_CHECK(layer_of[maker->index()] < reader, "{} reads a tensor of a later layer", op.name);
      found[layer_of[maker->index()]].insert(reader);
    }
  }
  std::vector<std::vector<int>> feeds;
  for (const std::set<int>& readers : found) feeds.emplace_back(readers.begin(), readers.end());
  return feeds;
}

std::vector<int> stages_after(const std::vector<std::vector<int>>& feeds) {
  std::vector<int> after(feeds.size(), 0);
  for (std::size_t s = feeds.size(); s-- > 0;)
    for (const int next : feeds[s]) after[s] = std::max(after[s], after[next] + 1);
  return after;
}

StageGraph stage_graph(const std::vector<std::vector<int>>& layer_feeds, const std::vector<int>& first_layers) {
  MW_CHECK(!first_layers.empty() && first_layers.front() == 0, "the first stage must begin with the first layer");
  std::vector<int> stage_of(layer_feeds.size());
  for (std::size_t layer = 0, s = 0; layer < layer_feeds.size(); ++layer) {
    while (s + 1 < first_layers.size() && static_cast<int>(layer) >= first_layers[s + 1]) ++s;
    stage_of[layer] = static_cast<int>(s);
  }
  StageGraph graph;
  graph.feeds.resize(first_layers.size());
  for (std::size_t layer = 0; layer < layer_feeds.size(); ++layer)
    for (const int reader : layer_feeds[layer])
      if (stage_of[reader] != stage_of[layer]) graph.feeds[stage_of[layer]].push_back(stage_of[reader]);
  for (std::vector<int>& fed : graph.feeds) {
    std::sort(fed.begin(), fed.end());
    fed.erase(std::unique(fed.begin(), fed.end()), fed.end());
  }
  graph.stages_after = stages_after(graph.feeds);
  return graph;
}

StageGraph stage_graph(const Plan& plan, const Graph& graph) {
  const std::size_t each = static_cast<std::size_t>(stages_per_copy(plan));
  std::vector<int> first_layers;
  for (std::size_t s = 0; s < each; ++s) first_layers.push_back(plan.stages[s].first_layer);
  StageGraph found = stage_graph(layer_feeds(graph, plan.layer_starts), first_layers);
  // Copies feed each other as the first ones do, and nothing goes from one copy to another.
  for (std::size_t s = each; s < plan.stages.size(); ++s) {
    std::vector<int> fed = found.feeds[s - each];
    for (int& to : fed) to += static_cast<int>(each);
    found.feeds.push_back(std::move(fed));
    found.stages_after.push_back(found.stages_after[s - each]);
  }
  return found;
}

bool StageGraph::neighbours(int one, int other) const {
  const auto feeds_it = [&](int from, int to) {
    const std::vector<int>& fed = feeds[static_cast<std::size_t>(from)];
    return std::find(fed.begin(), fed.end(), to) != fed.end();
  };
  return feeds_it(one, other) || feeds_it(other, one);
}

bool StageGraph::reaches(int from, int to) const {
  if (from >= to) return from == to;  // ways ascend
  std::vector<bool> reached(to + 1, false);
  reached[from] = true;
  for (int s = from; s < to; ++s) {
    if (!reached[s]) continue;
    for (const int next : feeds[s])
      if (next <= to) reached[next] = true;
  }
  return reached[to];
}

}  // namespace meshwright
