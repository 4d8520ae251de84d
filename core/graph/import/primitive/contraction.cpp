// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/contraction.h"

#include <initializer_list>

namespace meshwright::primitive {

namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t elements_along(const Shape& shape, const Numbers& axes) {
  Shape sizes;
  for (const std::int64_t axis : axes) sizes.push_back(shape[static_cast<std::size_t>(axis)]);
  return elements_of(sizes);
}

Numbers one_after_another(std::initializer_list<Numbers> lists) {
  Numbers all;
  for (const Numbers& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// A weight alone, perhaps turned and cut.
bool is_weight_alone(const Builder& b, int node) {
  while (true) {
    const Node& of = b.at(node);
    if (of.kind == Kind::Parameter) return true;
    if (of.kind != Kind::Transpose && of.kind != Kind::Reshape && of.kind != Kind::Slice) return false;
    node = of.inputs[0];
  }
}

// An operand with its sizes.
struct SizedSide : ContractionSide {
  Shape shape;
  // Only dimensions of more than one element matter for how the product is written.
  [[nodiscard]] Numbers wide() const {
    Numbers found;
    for (const std::int64_t axis : own)
      if (shape[static_cast<std::size_t>(axis)] != 1) found.push_back(axis);
    return found;
  }
};

// Dimensions of one element move for free, so that only the others are put in order.
int in_order(Builder& b, int node, const Numbers& axes) {
  const Shape shape = b.shape(node);
  Shape to, dropped;
  Numbers position(axes.size(), -1), kept;
  std::int64_t count = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      dropped.push_back(static_cast<std::int64_t>(d));
    else
      position[d] = count++;
  }
  for (const std::int64_t axis : axes) {
    to.push_back(shape[static_cast<std::size_t>(axis)]);
    if (to.back() != 1) kept.push_back(position[static_cast<std::size_t>(axis)]);
  }
  if (!dropped.empty()) node = b.squeeze(node, dropped);
  node = b.transpose(node, kept);
  return b.shape(node) == to ? node : b.reshape(node, to);
}

// The product (batch, own of x, own of y), each own dimension as it is.
int product_of_sides(Builder& b, const SizedSide& x, const SizedSide& y) {
  // Rows: x's own dimensions but the last are handed through as a batch that y lacks; y's are one.
  const Numbers rows = x.wide();
  Shape turned_x, turned_y, result;
  const std::int64_t summed = elements_along(x.shape, x.summed), columns = elements_along(y.shape, y.own);
  int left = in_order(b, x.node, one_after_another({x.batch, x.own, x.summed}));
  int right = in_order(b, y.node, one_after_another({y.batch, y.summed, y.own}));
  const bool single = y.batch.empty();  // a matrix for all: x keeps its dimensions
  for (const std::int64_t axis : x.batch) {
    turned_x.push_back(x.shape[static_cast<std::size_t>(axis)]);
    result.push_back(turned_x.back());
  }
  for (const std::int64_t axis : y.batch) turned_y.push_back(y.shape[static_cast<std::size_t>(axis)]);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    turned_x.push_back(x.shape[static_cast<std::size_t>(rows[k])]);
    if (k + 1 < rows.size() && !single) turned_y.push_back(1);
  }
  if (rows.empty()) turned_x.push_back(1);
  turned_x.push_back(summed);
  turned_y.insert(turned_y.end(), {summed, columns});
  left = b.reshape(left, turned_x);
  right = b.reshape(right, turned_y);
  const int made = b.matmul(left, right);
  for (const std::int64_t axis : x.own) result.push_back(x.shape[static_cast<std::size_t>(axis)]);
  for (const std::int64_t axis : y.own) result.push_back(y.shape[static_cast<std::size_t>(axis)]);
  return b.reshape(made, result);
}

}  // namespace

Contraction contract(Builder& b, const ContractionSide& x, const ContractionSide& y) {
  b.expect(x.batch.size() == y.batch.size() && x.summed.size() == y.summed.size(), "its operands do not fit");
  SizedSide left{x, b.shape(x.node)}, right{y, b.shape(y.node)};
  // What one factor repeats for the file's own batch is there for any.
  for (std::size_t k = 0; k < x.batch.size(); ++k) {
    const auto of_left = static_cast<std::size_t>(x.batch[k]), of_right = static_cast<std::size_t>(y.batch[k]);
    if (holds_batch(left.shape[of_left])) b.repeat_for_batch(right.node, of_right, left.shape[of_left]);
    if (holds_batch(right.shape[of_right])) b.repeat_for_batch(left.node, of_left, right.shape[of_right]);
    left.shape = b.shape(left.node);
    right.shape = b.shape(right.node);
  }
  const bool weight_left = x.batch.empty() && is_weight_alone(b, x.node) && !is_weight_alone(b, y.node);
  const bool more_right = !x.batch.empty() && right.wide().size() > 1 && left.wide().size() <= 1;
  const bool swapped = weight_left || more_right;
  return {swapped ? product_of_sides(b, right, left) : product_of_sides(b, left, right), swapped};
}

}  // namespace meshwright::primitive
