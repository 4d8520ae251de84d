// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/node_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace meshwright::primitive {

namespace {

constexpr std::int64_t kMaxWhole = std::int64_t{1} << 23;  // elements of a node that is kept whole
constexpr int kMaxDepth = 600;                             // of ops below one another

Shape of_one_sample(Shape shape) {
  for (std::int64_t& size : shape)
    if (holds_batch(size)) size /= kBatchProbe;
  return shape;
}

std::int64_t place_of(const Shape& shape, const NodeValues::Index& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

NodeValues::Index index_at(const Shape& shape, std::int64_t at) {
  NodeValues::Index index{};
  for (std::size_t d = shape.size(); d-- > 0; at /= shape[d]) index[d] = at % shape[d];
  return index;
}

bool is_by_row(Kind kind) {
  return kind == Kind::Softmax || kind == Kind::TopK || kind == Kind::TopKIndex || kind == Kind::CumSum;
}

}  // namespace

NodeValues::NodeValues(const Builder& b, int leaf, std::vector<double> scores, std::int64_t& budget)
    : b_(b), budget_(budget) {
  Table& known = table(leaf);
  failed_ = failed_ || static_cast<std::int64_t>(scores.size()) != known.elements;
  known.values = std::move(scores);
  known.is_known = true;
}

NodeValues::Table& NodeValues::table(int node) {
  const auto [at, is_new] = tables_.try_emplace(node);
  if (is_new) {
    at->second.shape = of_one_sample(b_.shape(node));
    at->second.elements = elements_of(at->second.shape);
    if (at->second.shape.size() > kMaxRank || at->second.elements == 0) {
      at->second = {};
      (void)fail();
    }
  }
  return at->second;
}

double NodeValues::element(int n, const Index& index) {
  Table& of = table(n);
  if (failed_) return 0.0;
  const Node& node = b_.at(n);
  if (!of.is_known && node.values) {
    of.values = *node.values;
    of.is_known = true;
    if (static_cast<std::int64_t>(of.values.size()) != of.elements) return fail();
  }
  if (of.is_known) return of.values[static_cast<std::size_t>(place_of(of.shape, index))];
  if (++depth_ > kMaxDepth) return fail();
  double value = 0.0;
  if ((whole_ && of.elements <= kMaxWhole) || is_by_row(node.kind)) {
    fill(n, of);
    if (!failed_) value = of.values[static_cast<std::size_t>(place_of(of.shape, index))];
  } else {
    value = computed(n, of.shape, index);
  }
  --depth_;
  return value;
}

std::optional<std::vector<double>> NodeValues::all(int n) {
  failed_ = false;
  const Shape shape = table(n).shape;
  const std::int64_t count = failed_ ? 0 : table(n).elements;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count && !failed_; ++i) values.push_back(element(n, index_at(shape, i)));
  return failed_ ? std::nullopt : std::optional(std::move(values));
}

void NodeValues::fill(int n, Table& into) {
  if (into.elements > kMaxWhole) {
    (void)fail();
    return;
  }
  into.values.assign(static_cast<std::size_t>(into.elements), 0.0);
  if (is_by_row(b_.at(n).kind)) {
    fill_rows(n, into);
  } else {
    for (std::int64_t i = 0; i < into.elements && !failed_; ++i)
      into.values[static_cast<std::size_t>(i)] = computed(n, into.shape, index_at(into.shape, i));
  }
  into.is_known = !failed_;  // of others, which are asked for later, it is none that was found so far
}

// Ops over one dimension, a row at a time.
void NodeValues::fill_rows(int n, Table& into) {
  const Node& node = b_.at(n);
  const Shape& from = table(node.inputs[0]).shape;
  if (failed_) return;
  const bool over_any = node.kind == Kind::Softmax || node.kind == Kind::CumSum;
  const std::size_t d = over_any ? static_cast<std::size_t>(node.details.axes[0]) : from.size() - 1;
  std::vector<double> row(static_cast<std::size_t>(from[d]));
  std::vector<std::size_t> order(row.size());
  for (std::int64_t i = 0; i < into.elements && !failed_; ++i) {
    Index index = index_at(into.shape, i);
    if (index[d] != 0) continue;
    for (std::size_t k = 0; k < row.size(); ++k) {
      index[d] = static_cast<std::int64_t>(k);
      row[k] = element(node.inputs[0], index);
      if (--budget_ < 0) (void)fail();
    }
    if (node.kind == Kind::CumSum) {
      std::partial_sum(row.begin(), row.end(), row.begin());
    } else if (node.kind == Kind::Softmax) {
      const double top = *std::max_element(row.begin(), row.end());
      for (double& value : row) value = std::exp(value - top);
      const double sum = std::accumulate(row.begin(), row.end(), 0.0);
      for (double& value : row) value /= sum;
    } else {
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return row[x] > row[y]; });
    }
    for (std::int64_t k = 0; k < into.shape[d]; ++k) {
      index[d] = k;
      const auto at = static_cast<std::size_t>(k);
      into.values[static_cast<std::size_t>(place_of(into.shape, index))] = node.kind == Kind::TopKIndex
                                                                               ? static_cast<double>(order[at])
                                                                           : node.kind == Kind::TopK ? row[order[at]]
                                                                                                     : row[at];
    }
  }
}

// The operand's element where it is broadcast to `rank` dimensions.
double NodeValues::operand(const Node& node, std::size_t k, std::size_t rank, const Index& index) {
  const Shape& shape = table(node.inputs[k]).shape;
  Index own{};
  for (std::size_t d = 0; d < shape.size(); ++d) own[d] = shape[d] == 1 ? 0 : index[d + rank - shape.size()];
  return element(node.inputs[k], own);
}

double NodeValues::reduced(const Node& node, const Index& index) {
  const Shape& from = table(node.inputs[0]).shape;
  if (failed_) return 0.0;
  Shape sizes;
  for (const std::int64_t axis : node.details.axes) sizes.push_back(from[static_cast<std::size_t>(axis)]);
  const std::int64_t count = elements_of(sizes);
  double sum = node.kind == Kind::ReduceMax ? -std::numeric_limits<double>::infinity() : 0.0;
  for (std::int64_t i = 0; i < count && !failed_; ++i) {
    const Index along = index_at(sizes, i);
    Index at = index;
    for (std::size_t k = 0; k < sizes.size(); ++k) at[static_cast<std::size_t>(node.details.axes[k])] = along[k];
    const double value = element(node.inputs[0], at);
    sum = node.kind == Kind::ReduceMax ? std::max(sum, value) : sum + value;
    if (--budget_ < 0) (void)fail();
  }
  return node.kind == Kind::ReduceMean ? sum / static_cast<double>(count) : sum;
}

double NodeValues::product(const Node& node, const Shape& shape, const Index& index) {
  const std::size_t rank = shape.size();
  const std::int64_t summed = table(node.inputs[0]).shape.back();
  double sum = 0.0;
  for (std::int64_t i = 0; i < summed && !failed_; ++i) {
    Index x = index, y = index;
    x[rank - 1] = i;
    y[rank - 2] = i;
    sum += operand(node, 0, rank, x) * operand(node, 1, rank, y);
    if (--budget_ < 0) (void)fail();
  }
  return sum;
}

double NodeValues::computed(int n, const Shape& shape, const Index& index) {
  const Node& node = b_.at(n);
  const std::size_t rank = shape.size();
  if (--budget_ < 0) return fail();
  if (node.inputs.empty()) {
    const auto at = static_cast<std::size_t>(place_of(shape, index));
    return at < node.head.size() ? node.head[at] : fail();
  }
  for (const int input : node.inputs) (void)table(input);
  if (failed_) return 0.0;
  Index own = index;
  switch (node.kind) {
    case Kind::Select:
      return operand(node, operand(node, 0, rank, index) != 0.0 ? 1 : 2, rank, index);
    case Kind::Broadcast:
      return operand(node, 0, rank, index);
    case Kind::Reshape: {
      const Shape& from = table(node.inputs[0]).shape;
      return element(node.inputs[0], index_at(from, place_of(shape, index)));
    }
    case Kind::Transpose:
      for (std::size_t d = 0; d < rank; ++d) own[static_cast<std::size_t>(node.details.axes[d])] = index[d];
      return element(node.inputs[0], own);
    case Kind::Slice:
      if (!node.details.stride.empty()) return fail();
      own[static_cast<std::size_t>(node.details.axes[0])] += node.details.start[0];
      return element(node.inputs[0], own);
    case Kind::Concat: {
      const auto d = static_cast<std::size_t>(node.details.axes[0]);
      std::size_t piece = 0;
      while (own[d] >= table(node.inputs[piece]).shape[d]) own[d] -= table(node.inputs[piece++]).shape[d];
      return element(node.inputs[piece], own);
    }
    case Kind::Gather: {
      const std::size_t ids = table(node.inputs[1]).shape.size();
      const Shape& rows = table(node.inputs[0]).shape;
      double id = element(node.inputs[1], index);
      if (id < 0.0) id += static_cast<double>(rows[0]);
      if (!(id >= 0.0 && id < static_cast<double>(rows[0]))) return fail();
      Index row{static_cast<std::int64_t>(id)};
      std::copy(index.begin() + static_cast<std::ptrdiff_t>(ids), index.begin() + static_cast<std::ptrdiff_t>(rank),
                row.begin() + 1);
      return element(node.inputs[0], row);
    }
    case Kind::ReduceSum:
    case Kind::ReduceMean:
    case Kind::ReduceMax:
      return reduced(node, index);
    case Kind::MatMul:
      return product(node, shape, index);
    case Kind::PickLabel: {
      const double label = element(node.inputs[1], index);
      const Shape& from = table(node.inputs[0]).shape;
      if (rank >= kMaxRank || !(label >= 0.0 && label < static_cast<double>(from.back()))) return fail();
      own[rank] = static_cast<std::int64_t>(label);
      return element(node.inputs[0], own);
    }
    default:
      break;
  }
  if (is_binary(node.kind))
    return binary_value(node.kind, operand(node, 0, rank, index), operand(node, 1, rank, index),
                        node.details.comparison, node.integer);
  return is_unary(node.kind) ? unary_value(node.kind, operand(node, 0, rank, index)) : fail();
}

}  // namespace meshwright::primitive
