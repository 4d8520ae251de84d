// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"

namespace meshwright::portfolio {

namespace {

// Leaves room for penalties on memory that outweigh every cost and stay below what is forbidden.
constexpr double kFarAbove = 1000.0;

double largest_finite(const std::vector<double>& values) {
  double largest = 0.0;
  for (double value : values)
    if (value != kForbidden) largest = std::max(largest, std::abs(value));
  return largest;
}

std::vector<double> negated(const std::vector<double>& values) {
  std::vector<double> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), [](double value) { return -value; });
  return result;
}

}  // namespace

// Sums of allowed costs stay below a quarter of forbidden_, and differences of two sums below the half that `forbids`
// asks for, by a factor of kFarAbove.
SearchModel::SearchModel(const Reduced& reduced) : reduced_(reduced) {
  for (const Field::Node& node : reduced.field.nodes) {
    forbidden_ += 4.0 * largest_finite(node.cost);
    labels_.push_back(static_cast<int>(node.cost.size()));
  }
  for (const Field::Edge& edge : reduced.field.edges) forbidden_ += 4.0 * largest_finite(edge.cost);
  forbidden_ *= kFarAbove;
  for (const Field::Node& node : reduced.field.nodes) {
    first_cost_.push_back(costs_.size());
    for (double cost : node.cost) costs_.push_back(std::min(cost, forbidden_));
  }
  neighbours_ = lay_out_edges();
  std::vector<std::pair<int, Piece>> pieces;
  for (const MemoryPiece& piece : reduced.pieces)
    pieces.push_back({piece.node, {piece.begin, piece.end, piece.memory.data()}});
  pieces_ = FlatLists<Piece>(nodes(), pieces);
}

// Every edge's costs twice: a row per label of the neighbour, seen from either end. Moves read whole rows.
FlatLists<SearchModel::Neighbour> SearchModel::lay_out_edges() {
  const Field& field = reduced_.field;
  edge_costs_.resize(static_cast<std::size_t>(2 * entry_count(field)));
  std::vector<std::pair<int, Neighbour>> neighbours;
  double* to = edge_costs_.data();
  for (const Field::Edge& edge : field.edges) {
    const int rows = labels(edge.u), columns = labels(edge.v);
    // The edge's own table has a row per label of u, which is what v reads.
    neighbours.push_back({edge.v, {edge.u, to}});
    for (double cost : edge.cost) *to++ = std::min(cost, forbidden_);
    neighbours.push_back({edge.u, {edge.v, to}});
    for (int q = 0; q < columns; ++q)
      for (int p = 0; p < rows; ++p) *to++ = std::min(edge.cost[p * columns + q], forbidden_);
  }
  return {nodes(), neighbours};
}

Assignment::Assignment(const SearchModel& model, Labels labels) : model_(model), memory_({}), pressure_({}, 0.0) {
  set(std::move(labels));
}

void Assignment::set(Labels labels) {
  MW_CHECK(std::ssize(labels) == model_.nodes(), "{} labels for {} nodes", labels.size(), model_.nodes());
  labels_ = std::move(labels);
  add_all();
}

void Assignment::add(double cost, int sign) {
  if (model_.forbids(cost))
    violations_ += sign;
  else
    cost_ += sign * cost;
}

void Assignment::add_all() {
  const Reduced& reduced = model_.reduced();
  violations_ = 0;
  cost_ = reduced.field.constant;
  magnitude_ = std::abs(cost_);
  const auto add_once = [&](double cost) {
    add(cost, 1);
    if (!model_.forbids(cost)) magnitude_ += std::abs(cost);
  };
  for (int i = 0; i < model_.nodes(); ++i) add_once(model_.cost(i)[labels_[i]]);
  for (const Field::Edge& edge : reduced.field.edges)
    add_once(std::min(edge.cost[label(edge.u) * model_.labels(edge.v) + label(edge.v)], model_.forbidden()));
  // Sums begin at minus the limit: above 0 the row is exceeded.
  memory_ = MemoryProfile(negated(reduced.row_limit));
  for (const MemoryPiece& piece : reduced.pieces) memory_.add(piece.begin, piece.end, piece.memory[label(piece.node)]);
  set_steepness(pressure_.steepness());
}

void Assignment::set_steepness(double steepness) {
  // Every entry depends on the exponent, so all are computed from the sums.
  std::vector<double> sums;
  for (int row = 0; row < static_cast<int>(model_.reduced().row_limit.size()); ++row) sums.push_back(memory_.sum(row));
  pressure_ = PressureProfile(sums, steepness);
}

// O(degree + pieces log rows). The kept cost drifts by rounding; refresh() recomputes it once per round.
void Assignment::change(int node, int label) {
  const int old = labels_[node];
  if (old == label) return;
  add(model_.cost(node)[old], -1);
  add(model_.cost(node)[label], 1);
  for (const SearchModel::Neighbour& neighbour : model_.neighbours(node)) {
    const double* row = neighbour.costs + static_cast<std::size_t>(labels_[neighbour.node]) * model_.labels(node);
    add(row[old], -1);
    add(row[label], 1);
  }
  for (const SearchModel::Piece& piece : model_.pieces(node)) {
    memory_.add(piece.begin, piece.end, piece.memory[label] - piece.memory[old]);
    pressure_.add(piece.begin, piece.end, piece.memory[label] - piece.memory[old]);
  }
  labels_[node] = label;
}

void Assignment::refresh() {
  const double cost = cost_, largest = memory_.largest();
  const int violations = violations_;
  add_all();
  MW_CHECK(violations == violations_, "{} forbidden pairs were counted, there are {}", violations, violations_);
  MW_CHECK(std::abs(cost - cost_) <= 1e-9 * magnitude_, "the cost was kept as {}, it is {}", cost, cost_);
  // Without rows the maximum is minus infinity.
  if (memory_.largest() > -kForbidden) {
    double most = 0.0;
    for (double limit : model_.reduced().row_limit) most = std::max(most, std::abs(limit));
    MW_CHECK(std::abs(largest - memory_.largest()) <= 1e-6 * most + 1e-6, "the memory was kept as {}, it is {}",
             largest, memory_.largest());
  }
}

}  // namespace meshwright::portfolio
