// SPDX-License-Identifier: Apache-2.0
#include "core/solver/problem/field.h"

#include <algorithm>
#include <map>
#include <utility>

namespace meshwright::portfolio {

namespace {

Field::Node make_node(const ShardingProblem::Node& from) {
  Field::Node node;
  for (const auto& cost : from.cost) node.cost.push_back(cost ? cost->si() : kForbidden);
  const bool takes_memory = std::any_of(from.memory.begin(), from.memory.end(), [](Bytes m) { return m.si() > 0.0; });
  if (!takes_memory || from.live_begin >= from.live_end) return node;
  for (Bytes memory : from.memory) node.memory.push_back(memory.si());
  node.begin = from.live_begin;
  node.end = from.live_end;
  return node;
}

// Adds `from`, whose ends are those of `edge` in this order or swapped.
// One edge per pair of nodes: searches may then look an edge up by its ends, and messages run along it once.
void add_parallel(const Field& field, const Field::Edge& from, Field::Edge& edge) {
  const int rows = field.labels(edge.u), columns = field.labels(edge.v);
  const bool swapped = from.u != edge.u;
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < columns; ++q) edge.cost[p * columns + q] += from.cost[swapped ? q * rows + p : p * columns + q];
}

double largest_overlap(const Field& field, const Labels& labels) {
  std::vector<std::pair<int, double>> changes;  // (step, change of the memory sum); at one step, what ends comes first
  for (std::size_t i = 0; i < field.nodes.size(); ++i) {
    const Field::Node& node = field.nodes[i];
    if (node.memory.empty() || node.begin >= node.end) continue;
    const double memory = node.memory[labels[i]];
    changes.emplace_back(node.begin, memory);
    changes.emplace_back(node.end, -memory);
  }
  std::sort(changes.begin(), changes.end());
  double sum = 0.0, peak = 0.0;
  for (const auto& [step, change] : changes) peak = std::max(peak, sum += change);
  return peak;
}

}  // namespace

Field make_field(const ShardingProblem& problem) {
  Field field;
  field.nodes.reserve(problem.nodes.size());
  for (const ShardingProblem::Node& node : problem.nodes) field.nodes.push_back(make_node(node));
  std::map<std::pair<int, int>, std::size_t> edge_between;
  for (const ShardingProblem::Edge& from : problem.edges) {
    Field::Edge edge{from.from, from.to, {}};
    edge.cost.reserve(from.cost.size());
    for (const auto& cost : from.cost) edge.cost.push_back(cost ? cost->si() : kForbidden);
    const auto [known, fresh] = edge_between.try_emplace(std::minmax(from.from, from.to), field.edges.size());
    if (fresh)
      field.edges.push_back(std::move(edge));
    else
      add_parallel(field, edge, field.edges[known->second]);
  }
  if (problem.memory_limit) field.limit = problem.memory_limit->si();
  return field;
}

double label_count(const Field& field) {
  double count = 0.0;
  for (const Field::Node& node : field.nodes) count += static_cast<double>(node.cost.size());
  return count;
}

double entry_count(const Field& field) {
  double count = 0.0;
  for (const Field::Edge& edge : field.edges) count += static_cast<double>(edge.cost.size());
  return count;
}

std::vector<double> transposed(const std::vector<double>& cost, std::size_t rows) {
  const std::size_t columns = cost.size() / rows;
  std::vector<double> turned(cost.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) turned[c * rows + r] = cost[r * columns + c];
  return turned;
}

FieldValue evaluate(const Field& field, const Labels& labels) {
  double cost = field.constant;
  for (std::size_t i = 0; i < field.nodes.size(); ++i) cost += field.nodes[i].cost[labels[i]];
  for (const Field::Edge& edge : field.edges) {
    const int p = labels[edge.u], q = labels[edge.v];
    cost += edge.cost[p * field.labels(edge.v) + q];
  }
  return {cost, largest_overlap(field, labels)};
}

}  // namespace meshwright::portfolio
