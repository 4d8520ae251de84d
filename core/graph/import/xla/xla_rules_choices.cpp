// SPDX-License-Identifier: Apache-2.0
// Operations that choose, order and add up, as routers of experts use them. Of more than what routers do there is no
// equal: recognition (primitive/recognise_mixture.cpp) takes them away, or they are named.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

using primitive::Kind;
using primitive::Shape;

// Whether an operand counts 0, 1, 2, ... along dimension d and repeats along others, as far as the file tells.
bool counts_along(const Lowering& l, const Lowered& x, std::size_t d) {
  int below = x.node;
  while (l.b.at(below).kind == Kind::Broadcast) below = l.b.at(below).inputs[0];
  const primitive::Node& node = l.b.at(below);
  if (!node.constant || !node.values) return node.constant && primitive::holds_batch(x.shape[d]);
  if (node.values->size() == 1) return x.shape[d] == 1 && node.values->front() == 0.0;
  if (node.shape.size() != x.shape.size()) return false;
  std::int64_t stride = 1;
  for (std::size_t after = d + 1; after < node.shape.size(); ++after) stride *= node.shape[after];
  bool counts = true;
  for (std::size_t i = 0; counts && i < node.values->size(); ++i)
    counts = (*node.values)[i] == static_cast<double>(static_cast<std::int64_t>(i) / stride % node.shape[d]);
  return counts && (node.shape[d] == x.shape[d] || primitive::holds_batch(x.shape[d]));
}

// (values, indices) of the k largest of the last dimension, or the smallest.
void set_best(Lowering& l, const FlatOp& op, const Lowered& x, std::int64_t k, bool largest) {
  l.b.expect(!x.shape.empty(), "it chooses of a single number");
  const int whole = l.whole(x);
  const auto [values, indices] = l.b.top_k(largest ? whole : l.b.negated(whole), k);
  Shape shape = x.shape;
  shape.back() = k;
  l.set(op.results[0], {largest ? values : l.b.negated(values), shape});
  if (op.results.size() > 1) l.set(op.results[1], {indices, shape});
}

void top_k(Lowering& l, const FlatOp& op) {
  l.b.expect(!op.operands.empty() && !op.results.empty() && op.results.size() <= 2,
             "it makes other than values and their places");
  const auto& other = op.instruction->attributes.other;
  const auto largest = other.find("largest");
  const Lowered x = l.operand(op, 0);
  const Shape& to = l.type(op.results[0]).sizes;
  l.b.expect(!to.empty() && to.size() == x.shape.size(), "its type has another number of dimensions than its operand");
  set_best(l, op, x, to.back(), largest == other.end() || largest->second != "false");
}

// Pairs of a number and its place, in the order of the numbers.
void sort(Lowering& l, const FlatOp& op) {
  const std::vector<std::int64_t>& dims = op.instruction->attributes.dimensions;
  const std::string direction = l.compared(*op.instruction);
  l.b.expect(op.operands.size() == 2 && op.results.size() == 2 && dims.size() == 1 && !direction.empty(),
             "sorting of other than numbers with their places has no equal here");
  const Lowered x = l.operand(op, 0);
  if (x.shape.size() == 1 && direction == "LT" && l.b.at(x.node).integer && counts_along(l, l.operand(op, 1), 0)) {
    // By expert, and back by where each row has gone.
    if (primitive::is_sorted_order(l.b, x.node))
      return l.set(op.results[1], {primitive::inverse_order(l.b, x.node), x.shape});
    const std::vector<int> sorted = primitive::sorted_order(l.b, l.whole(x));
    for (const std::size_t k : {0u, 1u}) l.set(op.results[k], {sorted[k], x.shape});
    return;
  }
  const auto last = static_cast<std::int64_t>(x.shape.size()) - 1;
  l.b.expect(dims[0] == last || dims[0] == -1, "sorting along other than the last dimension has no equal here");
  l.b.expect(last >= 0 && counts_along(l, l.operand(op, 1), static_cast<std::size_t>(last)),
             "sorting of other than numbers with their places has no equal here");
  set_best(l, op, x, x.shape.back(), direction == "GT" || direction == "GE");
}

// Numbers written over zeros at places of which the last dimension's alone is chosen: each choice's number times
// one-hot rows, and their sum.
void scatter(Lowering& l, const FlatOp& op) {
  const Attributes& a = op.instruction->attributes;
  l.b.expect(op.operands.size() == 3 && op.results.size() == 1, "a scatter of several tensors has no equal here");
  // How many rows each expert has: those that are counted do not matter, as each has its slots.
  if (l.is_integer(op.results[0]) && l.applied(*op.instruction) == "add" && l.b.at(l.operand(op, 0).node).constant &&
      l.b.at(l.operand(op, 2).node).constant)
    return l.set(op, l.b.constant(l.operand(op, 0).shape, true, std::nullopt), l.operand(op, 0).shape);
  const Lowered zeros = l.operand(op, 0), indices = l.operand(op, 1), updates = l.operand(op, 2);
  const std::size_t rank = zeros.shape.size();
  const std::string why = "a scatter of other than single numbers into rows of zeros has no equal here";
  l.b.expect(l.b.scalar_of(zeros.node) == 0.0 && rank >= 1 && a.offset_dims.empty() && a.index_map.size() == rank &&
                 indices.shape.size() == rank + 1 && updates.shape.size() == rank &&
                 a.index_vector_dim == static_cast<std::int64_t>(rank) &&
                 indices.shape.back() == static_cast<std::int64_t>(rank),
             why);
  // Column d of the indices counts dimension d; the last one is the choice.
  for (std::size_t d = 0; d < rank; ++d) {
    l.b.expect(a.index_map[d] == static_cast<std::int64_t>(d), why);
    const auto k = static_cast<std::int64_t>(d);
    const Lowered column = l.sliced(indices, rank, k, k + 1, 1);
    if (d + 1 == rank) {
      Shape rows(column.shape.begin(), column.shape.end() - 1);
      const int ids = l.b.squeeze(l.whole(column), {static_cast<std::int64_t>(rank)});
      const int hot = l.b.one_hot(ids, zeros.shape.back());
      const int each =
          l.b.binary(Kind::Multiply, l.b.unsqueeze(l.whole(updates), {static_cast<std::int64_t>(rank)}), hot);
      const int sum = l.b.reduce(Kind::ReduceSum, each, {static_cast<std::int64_t>(rank) - 1}, false);
      l.set(op, sum, l.b.shape(sum));
      return;
    }
    l.b.expect(counts_along(l, column, d), why);
  }
}

const std::map<std::string, Rule>& choice_rules() {
  static const std::map<std::string, Rule> kRules = {{"topk", top_k}, {"sort", sort}, {"scatter", scatter}};
  return kRules;
}

}  // namespace

bool lower_arg_max(Lowering& l, const FlatOp& op) {
  const std::vector<std::int64_t>& dims = op.instruction->attributes.dimensions;
  if (op.operands.size() != 4 || op.results.size() != 2 || dims.size() != 1 || dims[0] < 0) return false;
  const Lowered x = l.operand(op, 0);
  const auto d = static_cast<std::size_t>(dims[0]);
  const auto start = l.b.scalar_of(l.operand(op, 2).node);
  if (d >= x.shape.size() || !start || std::abs(*start) < 1e30 || !counts_along(l, l.operand(op, 1), d)) return false;
  const bool largest = *start < 0.0;
  const auto last = static_cast<std::int64_t>(x.shape.size()) - 1;
  int node = l.b.swap(l.whole(x), dims[0], last);
  if (!largest) node = l.b.negated(node);
  const auto [values, indices] = l.b.top_k(node, 1);
  const int both[] = {largest ? values : l.b.negated(values), indices};
  Shape shape = x.shape;
  shape.erase(shape.begin() + dims[0]);
  for (const std::size_t k : {0u, 1u})
    l.set(op.results[k], {l.b.squeeze(l.b.swap(both[k], dims[0], last), {dims[0]}), shape});
  return true;
}

bool lower_cumulative_sum(Lowering& l, const FlatOp& op) {
  const Window& window = op.instruction->attributes.window;
  if (op.operands.size() != 2 || op.results.size() != 1 || l.applied(*op.instruction) != "add") return false;
  const Lowered x = l.operand(op, 0);
  std::int64_t axis = -1;
  for (std::size_t d = 0; d < window.size.size(); ++d) {
    if (window.size[d] == 1) continue;
    const bool whole = axis < 0 && d < x.shape.size() && window.size[d] == x.shape[d] && d < window.before.size() &&
                       window.before[d] == window.size[d] - 1 && (d >= window.after.size() || window.after[d] == 0);
    if (!whole) return false;
    axis = static_cast<std::int64_t>(d);
  }
  if (axis < 0 || l.b.scalar_of(l.operand(op, 1).node) != 0.0) return false;
  l.set(op, l.b.cumulative_sum(l.whole(x), axis), x.shape);
  return true;
}

Rule choice_rule(const std::string& name) {
  const auto found = choice_rules().find(name);
  return found == choice_rules().end() ? nullptr : found->second;
}

}  // namespace meshwright::xla
