// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts that sort their tokens by expert (primitive/sorted_experts.h), as MaxText writes them with
// jax.lax.ragged_dot: ops that are parts of one, and done here.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

using primitive::Kind;
using primitive::Node;
using primitive::Shape;

namespace {

using Numbers = std::vector<std::int64_t>;

bool names(const Numbers& list, std::int64_t axis) { return std::find(list.begin(), list.end(), axis) != list.end(); }

// Runs of rows times the weight of their expert, as `chlo` has it.
void ragged_dot(Lowering& l, const FlatOp& op) {
  const Lowered rows = l.operand(op, 0), weight = l.operand(op, 1);
  l.b.expect(rows.shape.size() == 2 && primitive::is_in_slots(l.b, rows.node),
             "a product by groups of other than sorted tokens has no equal here");
  const int made = primitive::product_by_expert(l.b, l.whole(rows), l.whole(weight));
  l.set(op, made, l.b.shape(made));
}

}  // namespace

// Rows in the order of their experts, and back.
bool lower_sorted_rows(Lowering& l, const FlatOp& op, const Lowered& table, const Lowered& indices) {
  const Attributes& a = op.instruction->attributes;
  int order = indices.node;
  while (l.b.at(order).kind == Kind::Reshape || l.b.at(order).kind == Kind::Broadcast) order = l.b.at(order).inputs[0];
  const bool back = primitive::is_inverse_order(l.b, order);
  const bool divided = l.b.at(order).kind == Kind::Divide && primitive::is_sorted_order(l.b, l.b.at(order).inputs[0]);
  if (!back && !divided && !primitive::is_sorted_order(l.b, order)) return false;
  if (table.shape.size() != 2 || a.offset_dims.size() != 1 || a.index_map != std::vector<std::int64_t>{0}) return false;
  const int x = l.whole(table);
  const std::optional<int> rows =
      back ? std::optional(primitive::unsorted_rows(l.b, x, order)) : primitive::sorted_rows(l.b, x, order);
  if (rows) l.set(op, *rows, l.b.shape(*rows));
  return rows.has_value();
}

// The sum over a token's choices of what its experts made, times their weights.
bool lower_sum_of_choices(Lowering& l, const FlatOp& op, const Lowered& x) {
  const Node product = l.b.at(x.node);
  if (product.kind != Kind::Multiply || x.shape.size() != 3 ||
      op.instruction->attributes.dimensions != std::vector<std::int64_t>{1})
    return false;
  for (const std::size_t k : {0u, 1u})
    if (const std::optional<int> sum = primitive::weighed_sum(l.b, product.inputs[k], product.inputs[1 - k])) {
      const int rows = l.b.reshape(*sum, {x.shape[0], x.shape[2]});
      l.set(op, rows, {x.shape[0], x.shape[2]});
      return true;
    }
  return false;
}

// Rows of each expert times its weight: (expert, rows, width), which repeats but for rows of other experts, and
// (expert, width, n), summed over experts and width.
bool lower_product_by_expert(Lowering& l, const FlatOp& op, const Lowered& rows, const Lowered& weight) {
  const Attributes& a = op.instruction->attributes;
  if (rows.shape.size() != 3 || weight.shape.size() != 3 || !a.lhs_batch.empty() || a.lhs_contracting.size() != 2 ||
      a.rhs_contracting.size() != 2 || !names(a.lhs_contracting, 0) || !names(a.lhs_contracting, 2) ||
      !names(a.rhs_contracting, 0) || !names(a.rhs_contracting, 1) || l.real(rows, 0) != 1 ||
      !primitive::is_in_slots(l.b, rows.node))
    return false;
  const Shape of = l.b.shape(l.ranked(rows));
  const int made = primitive::product_by_expert(l.b, l.b.reshape(rows.node, {of[1], of[2]}), l.whole(weight));
  l.set(op, made, l.b.shape(made));
  return true;
}

// (tokens, choices, width) times (tokens, choices), summed over a token's choices.
bool lower_sum_of_choices(Lowering& l, const FlatOp& op, const Lowered& one, const Lowered& two) {
  const Attributes& a = op.instruction->attributes;
  const bool fits = a.lhs_batch == Numbers{0} && a.rhs_batch == Numbers{0} && a.lhs_contracting == Numbers{1} &&
                    a.rhs_contracting == Numbers{1} && one.shape.size() + two.shape.size() == 5;
  if (!fits) return false;
  const Lowered &x = one.shape.size() == 3 ? one : two, &weights = one.shape.size() == 3 ? two : one;
  const std::optional<int> sum = primitive::weighed_sum(l.b, x.node, weights.node);
  if (sum) l.set(op, l.b.reshape(*sum, {x.shape[0], x.shape[2]}), {x.shape[0], x.shape[2]});
  return sum.has_value();
}

Rule expert_rule(const std::string& name) { return name == "ragged-dot" ? ragged_dot : nullptr; }

}  // namespace meshwright::xla
