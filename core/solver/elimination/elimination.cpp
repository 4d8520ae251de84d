// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/elimination.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace meshwright::portfolio {

std::optional<EliminationOrder> elimination_order(const Field& field, double max_table) {
  elimination::OrderSearch search;
  search.max_table = max_table;
  return elimination::find_order(elimination::structure_of(field), search);
}

std::vector<int> bounded_elimination_order(const Field& field, double max_table) {
  return elimination::bounded_order(elimination::structure_of(field), max_table);
}

namespace {

// The shapes of a field's tables over positions: one per node, one per edge.
struct PositionedTables {
  elimination::Domain domain;                                     // [position]
  std::vector<std::shared_ptr<const elimination::Shape>> shapes;  // nodes, then edges
  std::vector<const double*> edge_costs;                          // [edge]
};

// Tables over positions in the order: the node eliminated first is the slowest dimension, which is how combine() goes
// along a table without rearranging it. Edges that stand the other way round in the field are turned once.
PositionedTables position_tables(const Field& field, const std::vector<int>& order,
                                 std::vector<std::vector<double>>& turned) {
  PositionedTables tables;
  IndexedVector<int, int> position(order.size());
  IndexedVector<int, elimination::SharedClasses> labels;
  for (int i = 0; i < position.count(); ++i) {
    const int node = order[i];
    position[node] = i;
    tables.domain.push_back(field.nodes[node].cost.size());
    labels.emplace_back(elimination::single_strategies(tables.domain[i]));
    tables.shapes.push_back(std::make_shared<elimination::Shape>(elimination::Shape{{i}, {labels[i]}}));
  }
  turned.reserve(field.edges.size());  // its elements are pointed to
  for (const Field::Edge& edge : field.edges) {
    const auto [low, high] = std::minmax(position[edge.u], position[edge.v]);
    tables.shapes.push_back(
        std::make_shared<elimination::Shape>(elimination::Shape{{low, high}, {labels[low], labels[high]}}));
    tables.edge_costs.push_back(edge.cost.data());
    if (position[edge.u] == low) continue;
    tables.edge_costs.back() = turned.emplace_back(transposed(edge.cost, tables.domain[high])).data();
  }
  return tables;
}

}  // namespace

EliminationPlan::EliminationPlan(const Field& field, const std::vector<int>& order, double max_message)
    : buckets_of_(field.nodes.size()) {
  first_.push_back(0);
  for (const Field::Node& node : field.nodes) first_.push_back(first_.back() + node.cost.size());
  PositionedTables tables = position_tables(field, order, turned_);
  // The steps number nodes by their positions, so they take them in the order 0, 1, 2, ...
  std::vector<int> positions(order.size());
  std::iota(positions.begin(), positions.end(), 0);
  steps_ = elimination::plan_steps(tables.domain, std::move(tables.shapes), positions, max_message);
  const int nodes = static_cast<int>(order.size());
  const auto node_at = [&](int position) { return order[position]; };
  for (const elimination::Step& step : steps_.steps) {
    Bucket bucket;
    bucket.node = node_at(step.combination.node);
    for (const int position : step.combination.shape->scope) bucket.scope.push_back(node_at(position));
    bucket.combination = &step.combination;
    bucket.size = step.combination.entries();
    bucket.message = std::exchange(entries_, entries_ + bucket.size);
    bucket.own = std::exchange(own_entries_, own_entries_ + labels(bucket.node));
    work_ += static_cast<double>(bucket.size) * static_cast<double>(labels(bucket.node) * step.sources.size());
    for (const int table : step.sources) {
      const bool is_edge = table >= nodes && table < steps_.given;
      bucket.sources.push_back(table < nodes ? kOwn : is_edge ? kEdge : table - steps_.given);
      bucket.edge_costs.push_back(is_edge ? tables.edge_costs[table - nodes] : nullptr);
    }
    bucket.parent = steps_.taken_by[steps_.result_of(buckets_.size())];
    buckets_of_[bucket.node].push_back(buckets_.count());
    buckets_.push_back(std::move(bucket));
  }
  // The nodes of a scope are the parent's node and nodes of the parent's scope.
  // Backwards, as a parent comes after its children.
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket)
    for (const int node : bucket->scope) {
      const Bucket& parent = buckets_[bucket->parent];
      const auto place = std::find(parent.scope.begin(), parent.scope.end(), node) - parent.scope.begin();
      bucket->above.push_back(parent.node == node ? bucket->parent : parent.above[place]);
    }
}

std::vector<double> side_by_side(const Field& field) {
  std::vector<double> cost;
  for (const Field::Node& node : field.nodes) cost.insert(cost.end(), node.cost.begin(), node.cost.end());
  return cost;
}

Elimination::Elimination(const EliminationPlan& plan)
    : plan_(plan), own_(plan.own_entries()), shift_(plan.own_entries(), 0.0), messages_(plan.entries()) {}

void Elimination::find_tables(const EliminationPlan::Bucket& bucket) {
  costs_.clear();
  for (std::size_t s = 0; s < bucket.sources.size(); ++s) costs_.push_back(table(bucket, s));
}

double Elimination::run(const std::vector<double>& cost) { return *run_within({}, cost); }

// A node with several buckets has its cost shared among them; any shares that add up to it give a valid lower bound.
std::optional<double> Elimination::run_within(const Budget& budget, const std::vector<double>& cost) {
  value_ = 0.0;
  for (const EliminationPlan::Bucket& bucket : plan_.buckets()) {
    const double share = 1.0 / static_cast<double>(plan_.buckets_of(bucket.node).size());
    const double* node_cost = cost.data() + plan_.first()[bucket.node];
    for (std::size_t x = 0; x < plan_.labels(bucket.node); ++x)
      own_[bucket.own + x] = node_cost[x] * share + shift_[bucket.own + x];
    find_tables(bucket);
    double* message = messages_.data() + bucket.message;
    if (!elimination::combine(*bucket.combination, costs_, message, scratch_, budget) || budget.over())
      return std::nullopt;
    // A bucket without a parent ends a connected component.
    if (bucket.parent < 0) value_ += *message;
  }
  return value_;
}

// Coordinate ascent on the shares: where one bucket finds a label dearer than the others do, it hands cost over until
// they agree (dual decomposition; Sontag, Globerson and Jaakkola 2011).
void Elimination::match(double step) {
  pass_outside();
  std::vector<std::vector<double>> least;
  for (const std::vector<int>& same : plan_.all_buckets_of()) {
    if (same.size() < 2) continue;
    const std::size_t labels = plan_.labels(plan_.buckets()[same.front()].node);
    least.assign(same.size(), std::vector<double>(labels, kForbidden));
    for (std::size_t k = 0; k < same.size(); ++k) receive(plan_.buckets()[same[k]], false, least[k].data());
    for (std::size_t x = 0; x < labels; ++x) {
      double mean = 0.0;
      for (const auto& of_bucket : least) mean += of_bucket[x] / static_cast<double>(same.size());
      if (mean == kForbidden) continue;
      // The shifts of a label add up to 0 over its buckets, so the shares still add up to the node's cost.
      for (std::size_t k = 0; k < same.size(); ++k)
        shift_[plan_.buckets()[same[k]].own + x] += step * (mean - least[k][x]);
    }
  }
}

// From the last eliminated node to the first: the labels of a bucket's scope are known when its node is decided.
void Elimination::decode(Labels& labels) const {
  IndexedVector<int, int> decided(plan_.first().size() - 1);
  std::vector<double> excess;
  for (int b = plan_.buckets().count() - 1; b >= 0; --b) {
    const int node = plan_.buckets()[b].node;
    const std::vector<int>& buckets = plan_.buckets_of(node);
    if (buckets.front() != b) continue;  // once per node
    excess.assign(plan_.labels(node), 0.0);
    for (const int own : buckets)
      add_excess(
          own, [&](std::size_t d) { return decided[plan_.buckets()[own].scope[d]]; }, excess.data());
    decided[node] = static_cast<int>(std::min_element(excess.begin(), excess.end()) - excess.begin());
  }
  labels = std::move(decided).values();
}

void Elimination::decode_buckets(std::vector<int>& label) const {
  IndexedVector<int, int> decided(plan_.buckets().size());
  std::vector<double> excess;
  for (int b = decided.count() - 1; b >= 0; --b) {
    const EliminationPlan::Bucket& bucket = plan_.buckets()[b];
    excess.assign(plan_.labels(bucket.node), 0.0);
    add_excess(
        b, [&](std::size_t d) { return decided[bucket.above[d]]; }, excess.data());
    decided[b] = static_cast<int>(std::min_element(excess.begin(), excess.end()) - excess.begin());
  }
  label = std::move(decided).values();
}

// The least cost of everything outside each bucket's subtree, for every combination of labels of its scope. From the
// roots to the leaves: a bucket's parent, which comes after it in the order of elimination, has passed on first.
void Elimination::pass_outside() {
  outside_.assign(messages_.size(), kForbidden);
  std::vector<double> least;
  for (auto bucket = plan_.buckets().rbegin(); bucket != plan_.buckets().rend(); ++bucket) {
    double* outside = outside_.data() + bucket->message;
    const double* message = messages_.data() + bucket->message;
    // Outside of a root's subtree are the other components: the total less the root's own message.
    if (bucket->parent < 0) outside[0] = value_;
    // Where the message is infinite, so is every sum it is part of.
    for (std::size_t i = 0; i < bucket->size; ++i)
      outside[i] = outside[i] == kForbidden || message[i] == kForbidden ? kForbidden : outside[i] - message[i];
    // From here on `outside` is complete, and the children of this bucket may take it.
    least.assign(plan_.labels(bucket->node), kForbidden);
    receive(*bucket, true, least.data());
  }
}

void Elimination::min_marginals(std::vector<double>& marginals) {
  pass_outside();
  marginals.assign(plan_.first().back(), -kForbidden);
  std::vector<double> least;
  for (const EliminationPlan::Bucket& bucket : plan_.buckets()) {
    least.assign(plan_.labels(bucket.node), kForbidden);
    receive(bucket, false, least.data());
    double* marginal = marginals.data() + plan_.first()[bucket.node];
    for (std::size_t x = 0; x < least.size(); ++x) marginal[x] = std::max(marginal[x], least[x]);  // the strongest
  }
}

void Elimination::receive(const EliminationPlan::Bucket& bucket, bool pass_on, double* least) {
  find_tables(bucket);
  reach_.clear();
  for (const int from : bucket.sources)
    if (pass_on) reach_.push_back(from >= 0 ? outside_.data() + plan_.buckets()[from].message : nullptr);
  elimination::combine_back(*bucket.combination, costs_, outside_.data() + bucket.message, least, reach_, scratch_);
}

}  // namespace meshwright::portfolio
