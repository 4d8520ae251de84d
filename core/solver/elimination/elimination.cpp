// SPDX-License-Identifier: Apache-2.0
// The dimensions of every table stand in the order of elimination, so the node eliminated next is always the slowest
// one: a bucket adds slices and takes the least of slices, both in straight runs.
#include "core/solver/elimination/elimination.h"

#include <algorithm>

namespace meshwright::portfolio {

namespace {

constexpr std::size_t kInnerEntries = 4096;  // handled at once: a few such runs stay in the nearest cache

std::size_t at(int i) { return static_cast<std::size_t>(i); }

using Run = EliminationPlan::Run;

// whole[...] += table[...], over the runs from `run` on.
void add(double* whole, const double* table, const Run* run, const Run* last) {
  if (run == last) {
    if (run->table_step == 0) {
      const double value = *table;
      for (std::size_t i = 0; i < run->size; ++i) whole[i] += value;
    } else {
      for (std::size_t i = 0; i < run->size; ++i) whole[i] += table[i];
    }
    return;
  }
  for (std::size_t i = 0; i < run->size; ++i)
    add(whole + i * run->whole_step, table + i * run->table_step, run + 1, last);
}

// table[...] = min(table[...], whole[...]).
void lower(double* table, const double* whole, const Run* run, const Run* last) {
  if (run == last) {
    if (run->table_step == 0)
      *table = std::min(*table, *std::min_element(whole, whole + run->size));
    else
      for (std::size_t i = 0; i < run->size; ++i) table[i] = std::min(table[i], whole[i]);
    return;
  }
  for (std::size_t i = 0; i < run->size; ++i)
    lower(table + i * run->table_step, whole + i * run->whole_step, run + 1, last);
}

}  // namespace

// What is known of the graph while the buckets are made.
struct PlanBuilder {
  struct Pending {
    std::vector<int> scope;  // in the order of elimination
    const double* cost;
    int from;
  };
  const Field& field;
  EliminationPlan& plan;
  std::vector<int> position;                  // [node] in the order
  std::vector<std::vector<Pending>> waiting;  // [node]: tables whose first node it is

  void add_edges();
  void make_buckets(int node, double largest_message);
  void make_bucket(int node, std::vector<int> scope, const std::vector<const Pending*>& tables);
  [[nodiscard]] EliminationPlan::Table describe(const EliminationPlan::Bucket& bucket, const Pending& pending) const;
  [[nodiscard]] std::vector<int> join(const std::vector<int>& scope, const Pending& pending) const;
  [[nodiscard]] double entries(const std::vector<int>& scope) const;
};

void PlanBuilder::add_edges() {
  for (const Field::Edge& edge : field.edges) {
    if (position[at(edge.u)] < position[at(edge.v)]) {
      waiting[at(edge.u)].push_back({{edge.u, edge.v}, edge.cost.data(), -1});
      continue;
    }
    const std::size_t u_labels = plan.labels(edge.u), v_labels = plan.labels(edge.v);
    std::vector<double> turned(edge.cost.size());
    for (std::size_t p = 0; p < u_labels; ++p)
      for (std::size_t q = 0; q < v_labels; ++q) turned[q * u_labels + p] = edge.cost[p * v_labels + q];
    plan.turned_.push_back(std::move(turned));
    waiting[at(edge.v)].push_back({{edge.v, edge.u}, plan.turned_.back().data(), -1});
  }
}

double PlanBuilder::entries(const std::vector<int>& scope) const {
  double product = 1.0;
  for (int node : scope) product *= static_cast<double>(plan.labels(node));
  return product;
}

// `scope` and the pending table's nodes but the first, in the order of elimination.
std::vector<int> PlanBuilder::join(const std::vector<int>& scope, const Pending& pending) const {
  std::vector<int> joined;
  std::set_union(scope.begin(), scope.end(), pending.scope.begin() + 1, pending.scope.end(), std::back_inserter(joined),
                 [&](int a, int b) { return position[at(a)] < position[at(b)]; });
  return joined;
}

// Largest tables first, each into the first bucket it fits.
void PlanBuilder::make_buckets(int node, double largest_message) {
  const std::vector<Pending> tables = std::move(waiting[at(node)]);
  std::vector<const Pending*> by_size;
  for (const Pending& table : tables) by_size.push_back(&table);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Pending* a, const Pending* b) { return a->scope.size() > b->scope.size(); });
  struct Part {
    std::vector<int> scope;
    std::vector<const Pending*> tables;
  };
  std::vector<Part> parts;
  for (const Pending* table : by_size) {
    bool placed = false;
    for (std::size_t p = 0; p < parts.size() && !placed; ++p) {
      std::vector<int> joined = join(parts[p].scope, *table);
      if (joined.size() > parts[p].scope.size() && entries(joined) > largest_message) continue;
      parts[p].scope = std::move(joined);
      parts[p].tables.push_back(table);
      placed = true;
    }
    if (!placed) parts.push_back({join({}, *table), {table}});
  }
  if (parts.empty()) parts.emplace_back();
  for (Part& part : parts) make_bucket(node, std::move(part.scope), part.tables);
}

void PlanBuilder::make_bucket(int node, std::vector<int> scope, const std::vector<const Pending*>& tables) {
  const int index = static_cast<int>(plan.buckets_.size());
  EliminationPlan::Bucket bucket;
  bucket.node = node;
  bucket.scope = std::move(scope);
  bucket.message = plan.entries_;
  bucket.own = plan.own_entries_;
  plan.own_entries_ += plan.labels(node);
  bucket.inner = 1;
  std::size_t first_inner = bucket.scope.size();
  while (first_inner > 0 && bucket.inner * plan.labels(bucket.scope[first_inner - 1]) <= kInnerEntries)
    bucket.inner *= plan.labels(bucket.scope[--first_inner]);
  bucket.size = bucket.inner;
  for (std::size_t d = 0; d < first_inner; ++d) {
    bucket.outer.push_back(plan.labels(bucket.scope[d]));
    bucket.size *= bucket.outer.back();
  }
  plan.entries_ += bucket.size;
  for (const Pending* pending : tables) {
    bucket.tables.push_back(describe(bucket, *pending));
    if (pending->from >= 0) plan.buckets_[at(pending->from)].parent = index;
  }
  plan.work_ += static_cast<double>(bucket.size) * static_cast<double>(plan.labels(node) * (tables.size() + 1));
  if (!bucket.scope.empty()) waiting[at(bucket.scope.front())].push_back({bucket.scope, nullptr, index});
  plan.buckets_of_[at(node)].push_back(index);
  plan.buckets_.push_back(std::move(bucket));
}

EliminationPlan::Table PlanBuilder::describe(const EliminationPlan::Bucket& bucket, const Pending& pending) const {
  EliminationPlan::Table table{pending.cost, pending.from, 1, std::vector<std::size_t>(bucket.scope.size(), 0), {}};
  std::size_t whole_step = 1, table_step = 1;
  const std::size_t first_inner = bucket.outer.size();
  for (std::size_t d = bucket.scope.size(); d-- > 0;) {
    const int node = bucket.scope[d];
    const bool has = std::find(pending.scope.begin() + 1, pending.scope.end(), node) != pending.scope.end();
    const std::size_t size = plan.labels(node);
    if (has) table.stride[d] = table_step;
    if (d >= first_inner) {
      const bool same = !table.inner.empty() && (table.inner.back().table_step > 0) == has;
      if (same)
        table.inner.back().size *= size;
      else
        table.inner.push_back({size, whole_step, has ? table_step : 0});
      whole_step *= size;
    }
    if (has) table_step *= size;
  }
  if (table.inner.empty()) table.inner.push_back({1, 1, 1});
  std::reverse(table.inner.begin(), table.inner.end());
  table.per_label = table_step;
  return table;
}

EliminationPlan::EliminationPlan(const Field& field, const std::vector<int>& order, double largest_message)
    : buckets_of_(field.nodes.size()), first_{0} {
  for (const Field::Node& node : field.nodes) first_.push_back(first_.back() + node.cost.size());
  PlanBuilder builder{field, *this, std::vector<int>(order.size()),
                      std::vector<std::vector<PlanBuilder::Pending>>(order.size())};
  for (std::size_t i = 0; i < order.size(); ++i) builder.position[at(order[i])] = static_cast<int>(i);
  turned_.reserve(field.edges.size());  // its elements are pointed to
  builder.add_edges();
  for (int node : order) builder.make_buckets(node, largest_message);
  // The nodes of a scope are the parent's node and nodes of the parent's scope.
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket)
    for (int node : bucket->scope) {
      const Bucket& parent = buckets_[at(bucket->parent)];
      const auto place = std::find(parent.scope.begin(), parent.scope.end(), node) - parent.scope.begin();
      bucket->above.push_back(parent.node == node ? bucket->parent : parent.above[static_cast<std::size_t>(place)]);
    }
}

std::size_t EliminationPlan::labels(int node) const { return first_[at(node) + 1] - first_[at(node)]; }

std::vector<double> side_by_side(const Field& field) {
  std::vector<double> cost;
  for (const Field::Node& node : field.nodes) cost.insert(cost.end(), node.cost.begin(), node.cost.end());
  return cost;
}

Elimination::Elimination(const EliminationPlan& plan)
    : plan_(plan), own_(plan.own_entries()), shift_(plan.own_entries(), 0.0), messages_(plan.entries()) {
  std::size_t inner = 1;
  for (const EliminationPlan::Bucket& bucket : plan.buckets()) inner = std::max(inner, bucket.inner);
  sum_.resize(inner);
}

// Adds up, over the inner dimensions, the tables of the bucket at one of its labels; `offset` is that of each table for
// the outer dimensions.
void Elimination::add_tables(const EliminationPlan::Bucket& bucket, std::size_t label,
                             const std::vector<std::size_t>& offset, double* sum) const {
  for (std::size_t t = 0; t < bucket.tables.size(); ++t) {
    const EliminationPlan::Table& described = bucket.tables[t];
    add(sum, table(described) + label * described.per_label + offset[t], described.inner.data(),
        described.inner.data() + described.inner.size() - 1);
  }
}

namespace {

// Counts through the outer dimensions of a bucket.
class Outer {
 public:
  explicit Outer(const EliminationPlan::Bucket& bucket)
      : bucket_(bucket), position_(bucket.outer.size(), 0), offset_(bucket.tables.size(), 0) {}
  [[nodiscard]] const std::vector<std::size_t>& offset() const { return offset_; }  // per table
  bool step() {
    for (std::size_t d = position_.size(); d-- > 0;) {
      const bool wraps = ++position_[d] == bucket_.outer[d];
      for (std::size_t t = 0; t < offset_.size(); ++t) {
        const std::size_t stride = bucket_.tables[t].stride[d];
        offset_[t] += stride;
        if (wraps) offset_[t] -= stride * bucket_.outer[d];
      }
      if (!wraps) return true;
      position_[d] = 0;
    }
    return false;
  }

 private:
  const EliminationPlan::Bucket& bucket_;
  std::vector<std::size_t> position_, offset_;
};

}  // namespace

bool Elimination::send(const EliminationPlan::Bucket& bucket, const Budget& budget) {
  const double* own = own_.data() + bucket.own;
  double* message = messages_.data() + bucket.message;
  std::fill(message, message + bucket.size, kForbidden);
  Outer outer(bucket);
  do {
    for (std::size_t label = 0; label < plan_.labels(bucket.node); ++label) {
      if (own[label] == kForbidden) continue;
      std::fill(sum_.begin(), sum_.begin() + static_cast<std::ptrdiff_t>(bucket.inner), own[label]);
      add_tables(bucket, label, outer.offset(), sum_.data());
      for (std::size_t i = 0; i < bucket.inner; ++i) message[i] = std::min(message[i], sum_[i]);
    }
    message += bucket.inner;
    if (budget.over()) return false;
  } while (outer.step());
  return true;
}

double Elimination::run(const std::vector<double>& cost) { return *run_within({}, cost); }

std::optional<double> Elimination::run_within(const Budget& budget, const std::vector<double>& cost) {
  value_ = 0.0;
  for (const EliminationPlan::Bucket& bucket : plan_.buckets()) {
    const double share = 1.0 / static_cast<double>(plan_.buckets_of(bucket.node).size());
    const double* node_cost = cost.data() + plan_.first()[at(bucket.node)];
    for (std::size_t x = 0; x < plan_.labels(bucket.node); ++x)
      own_[bucket.own + x] = node_cost[x] * share + shift_[bucket.own + x];
    if (!send(bucket, budget)) return std::nullopt;
    if (bucket.parent < 0) value_ += messages_[bucket.message];
  }
  return value_;
}

void Elimination::match(double step) {
  pass_outside();
  std::vector<std::vector<double>> least;
  for (const std::vector<int>& same : plan_.all_buckets_of()) {
    if (same.size() < 2) continue;
    const std::size_t labels = plan_.labels(plan_.buckets()[at(same.front())].node);
    least.assign(same.size(), std::vector<double>(labels, kForbidden));
    for (std::size_t k = 0; k < same.size(); ++k) receive(plan_.buckets()[at(same[k])], false, least[k].data());
    for (std::size_t x = 0; x < labels; ++x) {
      double mean = 0.0;
      for (const auto& of_bucket : least) mean += of_bucket[x] / static_cast<double>(same.size());
      if (mean == kForbidden) continue;
      for (std::size_t k = 0; k < same.size(); ++k)
        shift_[plan_.buckets()[at(same[k])].own + x] += step * (mean - least[k][x]);
    }
  }
}

void Elimination::decode(Labels& labels) const {
  labels.resize(plan_.first().size() - 1);
  std::vector<double> excess;
  for (auto bucket = plan_.buckets().rbegin(); bucket != plan_.buckets().rend(); ++bucket) {
    const std::vector<int>& buckets = plan_.buckets_of(bucket->node);
    if (&plan_.buckets()[at(buckets.front())] != &*bucket) continue;  // once per node
    excess.assign(plan_.labels(bucket->node), 0.0);
    for (int b : buckets)
      add_excess(
          b, [&](std::size_t d) { return at(labels[at(plan_.buckets()[at(b)].scope[d])]); }, excess.data());
    labels[at(bucket->node)] = static_cast<int>(std::min_element(excess.begin(), excess.end()) - excess.begin());
  }
}

void Elimination::decode_buckets(std::vector<int>& label) const {
  const auto& buckets = plan_.buckets();
  label.resize(buckets.size());
  std::vector<double> excess;
  for (std::size_t b = buckets.size(); b-- > 0;) {
    excess.assign(plan_.labels(buckets[b].node), 0.0);
    add_excess(
        static_cast<int>(b), [&](std::size_t d) { return at(label[at(buckets[b].above[d])]); }, excess.data());
    label[b] = static_cast<int>(std::min_element(excess.begin(), excess.end()) - excess.begin());
  }
}

// What lies outside of each bucket's subtree, for every combination of labels of its scope.
void Elimination::pass_outside() {
  outside_.assign(messages_.size(), kForbidden);
  std::vector<double> least;
  for (auto bucket = plan_.buckets().rbegin(); bucket != plan_.buckets().rend(); ++bucket) {
    double* outside = outside_.data() + bucket->message;
    const double* message = messages_.data() + bucket->message;
    if (bucket->parent < 0) outside[0] = value_;
    // Where the message is infinite, so is every sum it is part of.
    for (std::size_t i = 0; i < bucket->size; ++i)
      outside[i] = outside[i] == kForbidden || message[i] == kForbidden ? kForbidden : outside[i] - message[i];
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
    double* marginal = marginals.data() + plan_.first()[at(bucket.node)];
    for (std::size_t x = 0; x < least.size(); ++x) marginal[x] = std::max(marginal[x], least[x]);  // the strongest
  }
}

// The least of the bucket's sums with what is outside, per label; passed on to the buckets whose messages it takes.
void Elimination::receive(const EliminationPlan::Bucket& bucket, bool pass_on, double* least) {
  const double* own = own_.data() + bucket.own;
  const double* outside = outside_.data() + bucket.message;
  Outer outer(bucket);
  do {
    for (std::size_t label = 0; label < plan_.labels(bucket.node); ++label) {
      if (own[label] == kForbidden) continue;
      for (std::size_t i = 0; i < bucket.inner; ++i) sum_[i] = outside[i] + own[label];
      add_tables(bucket, label, outer.offset(), sum_.data());
      for (std::size_t i = 0; i < bucket.inner; ++i) least[label] = std::min(least[label], sum_[i]);
      for (std::size_t t = 0; pass_on && t < bucket.tables.size(); ++t) {
        const EliminationPlan::Table& from = bucket.tables[t];
        if (from.cost != nullptr) continue;
        lower(outside_.data() + plan_.buckets()[at(from.from)].message + label * from.per_label + outer.offset()[t],
              sum_.data(), from.inner.data(), from.inner.data() + from.inner.size() - 1);
      }
    }
    outside += bucket.inner;
  } while (outer.step());
}

}  // namespace meshwright::portfolio
