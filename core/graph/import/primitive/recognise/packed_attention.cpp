// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/packed_attention.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

// Part `index` of what `source` holds: reshaped to (batch, seq, 3, heads, d).
struct Part {
  int source;
  std::int64_t index;
};

class Packing {
 public:
  explicit Packing(const Module& module) : module_(module) {}

  // What an attention reads in three parts.
  [[nodiscard]] std::optional<int> source_of(const Node& attention) const {
    const bool plain = attention.kind == Kind::Attention && attention.inputs.size() == 3 && attention.details.causal &&
                       attention.details.window.empty() && attention.details.numbers.empty() &&
                       !attention.details.alibi;
    if (!plain) return std::nullopt;
    const Shape& shape = at(attention.inputs[0]).shape;
    const double scale = 1.0 / std::sqrt(static_cast<double>(shape[3]));
    const double given = attention.details.number;  // 0: the usual one
    if (given != 0.0 && std::abs(given - scale) > 1e-4 * scale) return std::nullopt;
    std::optional<int> source;
    for (std::size_t k = 0; k < 3; ++k) {
      if (at(attention.inputs[k]).shape != shape) return std::nullopt;
      const std::optional<Part> part = part_of(attention.inputs[k], shape);
      if (!part || part->index != static_cast<std::int64_t>(k) || (source && *source != part->source))
        return std::nullopt;
      source = part->source;
    }
    return source && !is_made_by_columns(*source) ? source : std::nullopt;
  }

 private:
  [[nodiscard]] const Node& at(int i) const { return module_.nodes[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool is(int i, Kind kind) const { return at(i).kind == kind; }

  // Whether i is a product, with or without a bias, with a weight whose columns are those of queries, of keys and of
  // values side by side, without a dimension of three that says so: its parts make the parts of the product, each by
  // heads of its own, as in the families where these are three weights (Emitter::find_parts).
  [[nodiscard]] bool is_made_by_columns(int i) const {
    const auto below = [&](int n) {
      while (is(n, Kind::Reshape) || is(n, Kind::Transpose) || is(n, Kind::Broadcast)) n = at(n).inputs[0];
      return n;
    };
    i = below(i);
    if (is(i, Kind::Add)) {
      const int first = below(at(i).inputs[0]), second = below(at(i).inputs[1]);
      i = is(first, Kind::MatMul) ? first : second;
    }
    if (!is(i, Kind::MatMul)) return false;
    const Node& weight = at(below(at(i).inputs[1]));
    return weight.kind == Kind::Parameter && std::count(weight.shape.begin(), weight.shape.end(), 3) == 0;
  }

  // `heads`: (batch, heads, seq, d).
  [[nodiscard]] std::optional<Part> part_of(int i, const Shape& heads) const {
    const Shape parts = {heads[0], heads[2], 3, heads[1], heads[3]};
    // transposed at once, then cut: (3, batch, heads, seq, d)
    if (is(i, Kind::Reshape) && is(at(i).inputs[0], Kind::Slice)) {
      const Node& cut = at(at(i).inputs[0]);
      const Node& turned = at(cut.inputs[0]);
      const bool fits = cut.details.axes[0] == 0 && cut.shape == Shape{1, heads[0], heads[1], heads[2], heads[3]} &&
                        turned.kind == Kind::Transpose && turned.details.axes == Shape{2, 0, 3, 1, 4} &&
                        at(turned.inputs[0]).shape == parts;
      return fits ? std::optional(Part{turned.inputs[0], cut.details.start[0]}) : std::nullopt;
    }
    if (!is(i, Kind::Transpose) || at(i).details.axes != Shape{0, 2, 1, 3}) return std::nullopt;
    i = at(i).inputs[0];
    if (is(i, Kind::Reshape)) i = at(i).inputs[0];
    if (!is(i, Kind::Slice)) return std::nullopt;
    const Node& cut = at(i);
    const Shape& whole = at(cut.inputs[0]).shape;
    const auto axis = static_cast<std::size_t>(cut.details.axes[0]);
    // The dimensions from the cut one on are parts of one (3, heads, d).
    std::int64_t own = 1, of_part = 1;
    for (std::size_t d = axis; d < whole.size(); ++d) own *= whole[d], of_part *= cut.shape[d];
    if (own != 3 * of_part || of_part != heads[1] * heads[3] || cut.details.start[0] % cut.shape[axis] != 0)
      return std::nullopt;
    return Part{cut.inputs[0], cut.details.start[0] / cut.shape[axis]};
  }

  const Module& module_;
};

}  // namespace

Module with_packed_attention(Module module) {
  const Packing packing(module);
  std::map<int, int> sources;  // by attention
  for (std::size_t n = 0; n < module.nodes.size(); ++n)
    if (const auto source = packing.source_of(module.nodes[n])) sources[static_cast<int>(n)] = *source;
  if (sources.empty()) return module;
  Module to;
  to.batch = module.batch;
  to.file_ops = module.file_ops;
  to.recognised = module.recognised;
  to.notes = module.notes;
  to.shardings = module.shardings;
  Builder b(to);
  std::vector<int> made;
  const auto now = [&](int before) { return made[static_cast<std::size_t>(before)]; };
  for (std::size_t n = 0; n < module.nodes.size(); ++n) {
    const Node& node = module.nodes[n];
    b.name = node.name;
    b.block = node.block;
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(now(input));
    if (const auto packed = sources.find(static_cast<int>(n)); packed != sources.end()) {
      const Shape& shape = node.shape;  // (batch, heads, seq, d)
      const int x = b.reshape(now(packed->second), {shape[0], shape[2], 3, shape[1], shape[3]});
      const int y = b.add(Kind::PackedAttention, {x}, {shape[0], shape[2], shape[1], shape[3]}, false, {});
      made.push_back(b.transpose(y, {0, 2, 1, 3}));
    } else if (inputs.empty()) {
      made.push_back(static_cast<int>(to.nodes.size()));
      to.nodes.push_back(node);
    } else if (node.kind == Kind::Transpose) {
      made.push_back(b.transpose(inputs[0], node.details.axes));
    } else if (node.kind == Kind::Reshape) {
      made.push_back(b.reshape(inputs[0], node.shape));
    } else {
      made.push_back(b.add(node.kind, inputs, node.shape, node.integer, node.details));
    }
  }
  to.result = now(module.result);
  drop_unused(to);
  return to;
}

}  // namespace meshwright::primitive
