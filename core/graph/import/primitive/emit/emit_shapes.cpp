// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/emitter.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- shapes ---

// What the result shares of the sliced dimension, its inner axes, is no part of the slice.
Emitter::Cut Emitter::cut_of(int n) const {
  const auto d = static_cast<std::size_t>(node(n).details.axes[0]);
  Cut cut{axes_.of_operand(n, 0)[d], axes_.of(n)[d], {}};
  while (!cut.from.empty() && !cut.to.empty() && cut.from.back() == cut.to.back()) {
    cut.inner.insert(cut.inner.begin(), cut.from.back());
    cut.from.pop_back();
    cut.to.pop_back();
  }
  return cut;
}

Value Emitter::slice(int n) {
  const Node& of = node(n);
  const auto [from, to, inner] = cut_of(n);
  const Value& source = values_[static_cast<std::size_t>(of.inputs[0])];
  if (!source.parts.empty()) {
    const Parts& parts = parts_[static_cast<std::size_t>(parts_of_.at(of.inputs[0]))];
    const auto part = parts.parts.find(of.details.start[0]);
    const auto i = static_cast<std::size_t>(std::distance(parts.parts.begin(), part));
    return {source.parts[i], order_of_part(source.order, parts.whole, part->second)};
  }
  const Value x = operand(n, 0);
  std::vector<Wanted> wanted, has;
  bool placed = false;
  for (const int axis : x.order) {
    const bool sliced = std::find(from.begin(), from.end(), axis) != from.end();
    if (!sliced) {
      wanted.push_back({{axis}, ""});
      has.push_back({{axis}, ""});
    } else if (!placed) {
      placed = true;
      wanted.push_back({from, "whole"});
      has.push_back({to, "part"});
    }
  }
  const TensorId whole = shaped(x, wanted);
  std::vector<Dim> result = graph_.tensor(whole).dims;
  for (std::size_t k = 0; k < has.size(); ++k)
    if (has[k].name == "part") result[k] = to.size() == 1 ? dim(to[0]) : Dim{"part", product(to)};
  const TensorId sliced =
      add(OpKind::Slice, "", {whole}, {.result_dims = result, .start = of.details.start[0] / product(inner)});
  return unshaped(sliced, has);
}

Value Emitter::concat(int n) {
  const Node& of = node(n);
  const auto d = static_cast<std::size_t>(of.details.axes[0]);
  const AxisList whole = axes_.of(n)[d];
  // The dimensions lie as in the first operand that has more than one element of what is put together.
  std::size_t base = 0;
  while (base + 1 < of.inputs.size() && axes_.of_operand(n, base)[d].empty()) ++base;
  const AxisList along = axes_.of_operand(n, base)[d];
  std::vector<Wanted> has;
  for (const int axis : operand_order(n, base)) {
    if (std::find(along.begin(), along.end(), axis) == along.end())
      has.push_back({{axis}, ""});
    else if (axis == along.front())
      has.push_back({whole, "whole"});
  }
  if (along.empty()) has.push_back({whole, "whole"});
  std::vector<TensorId> pieces;
  for (std::size_t k = 0; k < of.inputs.size(); ++k) {
    std::vector<Wanted> wanted = has;
    for (Wanted& dim_of : wanted)
      if (dim_of.axes == whole) dim_of = {axes_.of_operand(n, k)[d], fmt::format("piece{}", k + 1)};
    AxisList order;
    for (const Wanted& of_dim : wanted) order.insert(order.end(), of_dim.axes.begin(), of_dim.axes.end());
    pieces.push_back(shaped(widened(operand(n, k), order), wanted));
  }
  std::vector<Dim> result;
  for (const Wanted& of_dim : has)
    result.push_back(of_dim.axes.size() == 1 ? dim(of_dim.axes[0]) : Dim{of_dim.name, product(of_dim.axes)});
  const auto along_dim =
      std::find_if(has.begin(), has.end(), [&](const Wanted& of_dim) { return of_dim.axes == whole; });
  pieces = few_pieces(std::move(pieces), result, static_cast<std::size_t>(along_dim - has.begin()));
  return unshaped(add(OpKind::Concat, "", pieces, {.result_dims = result}), has);
}

// At most 16 pieces: an op has an axis for each of its pieces, and cannot have many.
std::vector<TensorId> Emitter::few_pieces(std::vector<TensorId> pieces, const std::vector<Dim>& whole,
                                          std::size_t along) {
  constexpr std::size_t kMost = 16;
  for (int level = 1; pieces.size() > kMost; ++level) {
    std::vector<TensorId> runs;
    for (std::size_t begin = 0; begin < pieces.size(); begin += kMost) {
      const std::vector<TensorId> run(
          pieces.begin() + static_cast<std::ptrdiff_t>(begin),
          pieces.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kMost, pieces.size())));
      std::vector<Dim> dims_of_run = whole;
      dims_of_run[along] = {fmt::format("run{}_{}", level, runs.size() + 1), 0};
      for (const TensorId piece : run) dims_of_run[along].size += graph_.tensor(piece).dims[along].size;
      runs.push_back(run.size() == 1 ? run[0] : add(OpKind::Concat, ".run", run, {.result_dims = dims_of_run}));
    }
    pieces = std::move(runs);
  }
  return pieces;
}

Value Emitter::reshape(int n) {
  const int from = node(n).inputs[0];
  const Value x = values_[static_cast<std::size_t>(from)];
  if (!axes_.explicit_reshape(n)) return x;
  const AxisList order = joined(axes_.of(n));
  const Value logical = ordered(x, joined(axes_.of(from)));
  return {add(OpKind::Reshape, "", {logical.tensor}, {.result_dims = dims(order)}), order};
}

}  // namespace meshwright::primitive
