// SPDX-License-Identifier: Apache-2.0
// Small random fields and their optimum by trying every labelling: the oracle of the portfolio's tests.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

struct RandomFieldShape {
  int nodes = 6, most_labels = 4, edges = 7, steps = 5;
  int forbidden_of_ten = 2;        // pairs
  int limit_of_ten = 5;            // tenths of the way from the least peak memory to the largest; above 10: no limit
  int least_cost = 0, costs = 20;  // node and edge costs are whole, least_cost <= cost < least_cost + costs
  int forbidden_labels_of_hundred = 0;
  double unit = 1.0;  // all costs are multiples of it
};

inline int draw(std::mt19937& random, int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

inline Field random_field(std::mt19937& random, const RandomFieldShape& shape) {
  const auto cost = [&] { return shape.unit * (shape.least_cost + draw(random, shape.costs)); };
  Field field;
  double least = 0.0, most = 0.0;
  for (int i = 0; i < shape.nodes; ++i) {
    Field::Node node;
    const int labels = 1 + draw(random, shape.most_labels);
    for (int a = 0; a < labels; ++a) {
      const bool forbidden =
          shape.forbidden_labels_of_hundred > 0 && draw(random, 100) < shape.forbidden_labels_of_hundred;
      node.cost.push_back(forbidden ? kForbidden : cost());
    }
    if (draw(random, 4) > 0) {
      node.begin = draw(random, shape.steps);
      node.end = node.begin + 1 + draw(random, shape.steps - node.begin);
      for (int a = 0; a < labels; ++a) node.memory.push_back(draw(random, 10));
      least += *std::min_element(node.memory.begin(), node.memory.end());
      most += *std::max_element(node.memory.begin(), node.memory.end());
    }
    field.nodes.push_back(node);
  }
  for (int e = 0; e < shape.edges; ++e) {
    const int u = draw(random, shape.nodes), v = draw(random, shape.nodes);
    const bool joined = std::any_of(field.edges.begin(), field.edges.end(), [&](const Field::Edge& edge) {
      return std::minmax(edge.u, edge.v) == std::minmax(u, v);
    });
    if (u == v || joined) continue;
    Field::Edge edge{u, v, {}};
    for (int pair = 0; pair < field.labels(u) * field.labels(v); ++pair)
      edge.cost.push_back(draw(random, 10) < shape.forbidden_of_ten ? kForbidden : cost());
    field.edges.push_back(edge);
  }
  // All nodes are seldom live together, so the middle of this range binds about half of the time.
  if (shape.limit_of_ten <= 10) field.limit = least + 0.05 * shape.limit_of_ten * (most - least);
  return field;
}

// Fields of every kind: up to `most_nodes` nodes, sparse and dense, some costs negative, some labels and pairs
// forbidden, a constant, a limit that may bind, or be too low, or be absent.
inline Field varied_field(std::mt19937& random, int most_nodes, int most_labels, double unit = 1.0) {
  RandomFieldShape shape;
  shape.nodes = 1 + draw(random, most_nodes);
  shape.most_labels = most_labels;
  shape.edges = draw(random, 3 * shape.nodes);
  shape.forbidden_of_ten = draw(random, 4);
  shape.limit_of_ten = draw(random, 12);
  shape.least_cost = -20;
  shape.costs = 120;
  shape.forbidden_labels_of_hundred = 4;
  shape.unit = unit;
  Field field = random_field(random, shape);
  field.constant = unit * (draw(random, 100) - 50);
  return field;
}

// Calls `visit` with every labelling of the field.
template <class Visit>
void for_every_labelling(const Field& field, Visit visit) {
  Labels labels(field.nodes.size(), 0);
  while (true) {
    visit(labels);
    std::size_t i = 0;
    while (i < labels.size() && ++labels[i] == field.labels(static_cast<int>(i))) labels[i++] = 0;
    if (i == labels.size()) return;
  }
}

// Least cost of the labellings for which `wanted(labels, value)` holds; infinity: there are none.
template <class Wanted>
double least_cost_where(const Field& field, Wanted wanted) {
  double best = kForbidden;
  for_every_labelling(field, [&](const Labels& labels) {
    const FieldValue value = evaluate(field, labels);
    if (value.cost < best && wanted(labels, value)) best = value.cost;
  });
  return best;
}

inline double least_cost(const Field& field) {
  return least_cost_where(field, [&](const Labels&, const FieldValue& value) { return value.peak <= field.limit; });
}

// The best labelling of the reduced field; nullopt: none.
inline std::optional<Labels> best_labels(const Reduced& reduced) {
  std::optional<Labels> best;
  double best_cost = kForbidden;
  for_every_labelling(reduced.field, [&](const Labels& labels) {
    const double cost = evaluate(reduced.field, labels).cost;
    if (cost >= best_cost || excess(reduced, labels) > 0.0) return;
    best_cost = cost;
    best = labels;
  });
  return best;
}

}  // namespace meshwright::portfolio
