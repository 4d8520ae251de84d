// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "core/graph/import/primitive/emit/emitter.h"

namespace meshwright::primitive {

// --- biases ---

// Whether n has its operand's elements, at other places or several times.
bool Emitter::moves(int n) const {
  const Kind kind = node(n).kind;
  return kind == Kind::Transpose || kind == Kind::Broadcast || (kind == Kind::Reshape && !axes_.explicit_reshape(n));
}

void Emitter::find_bias(int addition) {
  if (node(addition).kind != Kind::Add) return;
  const AxisList all = joined(axes_.of(addition));
  for (const std::size_t k : {1, 0}) {
    std::vector<int> between;
    int n = node(addition).inputs[k];
    for (; readers_of_.at(n).size() == 1 && moves(n); n = node(n).inputs[0]) between.push_back(n);
    const AxisList own = joined(axes_.of(n)), other = joined(axes_.of(node(addition).inputs[1 - k]));
    const bool fits = node(n).kind == Kind::Parameter && readers_of_.at(n).size() == 1 && !scalar(n) &&
                      own.size() < all.size() &&
                      std::is_permutation(all.begin(), all.end(), other.begin(), other.end()) &&
                      std::all_of(own.begin(), own.end(),
                                  [&](int axis) { return std::find(all.begin(), all.end(), axis) != all.end(); });
    if (!fits) continue;
    biases_[addition] = n;
    below_bias_.insert(between.begin(), between.end());
    return;
  }
}

// The order of a product's axes where a bias is added to it: a bias is over the last ones.
AxisList Emitter::with_bias_last(int product, AxisList order) const {
  for (int n = product; readers_of_.contains(n) && readers_of_.at(n).size() == 1;) {
    n = readers_of_.at(n).front();
    if (const auto bias = biases_.find(n); bias != biases_.end()) {
      const AxisList last = joined(axes_.of(bias->second));
      std::erase_if(order, [&](int axis) { return std::find(last.begin(), last.end(), axis) != last.end(); });
      order.insert(order.end(), last.begin(), last.end());
      return order;
    }
    if (!moves(n) || node(n).kind == Kind::Broadcast) break;
  }
  return order;
}

// --- products of which only slices are read ---

std::optional<int> Emitter::own_parameter(int n) const {
  while (readers_of_.at(n).size() == 1 && node(n).kind == Kind::Transpose) n = node(n).inputs[0];
  return node(n).kind == Kind::Parameter && readers_of_.at(n).size() == 1 ? std::optional(n) : std::nullopt;
}

// Whether every reader of n is a slice of the same dimension; `chain`: the nodes between the product and the slices.
bool Emitter::only_slices(int n, std::vector<int>& chain, Parts& found) const {
  chain.push_back(n);
  const auto readers = readers_of_.find(n);
  if (readers == readers_of_.end() || chain.size() > 16) return false;
  for (const int reader : readers->second) {
    const Node& of = node(reader);
    if (axes_.of_operand(reader, 0) != axes_.of(of.inputs[0])) return false;
    if (of.kind == Kind::Slice) {
      const auto d = static_cast<std::size_t>(of.details.axes[0]);
      if (found.parts.empty()) found.whole = axes_.of(n)[d];
      const auto known = found.parts.try_emplace(of.details.start[0], axes_.of(reader)[d]).first;
      if (axes_.of(n)[d] != found.whole || known->second != axes_.of(reader)[d]) return false;
      continue;
    }
    bool passes = moves(reader) && of.kind != Kind::Broadcast;
    if (const auto bias = biases_.find(reader); bias != biases_.end() && of.inputs[0] == n) {
      const AxisList own = joined(axes_.of(bias->second)), last = axes_.of(n).back();
      passes = own.size() >= last.size() && std::equal(last.rbegin(), last.rend(), own.rbegin());
    }
    if (!passes || !only_slices(reader, chain, found)) return false;
  }
  return true;
}

// Whether the parts follow each other from the first index to the last, without axes that others have.
bool Emitter::is_cover(const Parts& parts, const AxisList& taken) const {
  std::int64_t end = 0;
  for (const auto& [start, axes] : parts.parts) {
    const bool shares = std::any_of(axes.begin(), axes.end(), [&](int axis) {
      return std::find(taken.begin(), taken.end(), axis) != taken.end() &&
             std::find(parts.whole.begin(), parts.whole.end(), axis) == parts.whole.end();
    });
    if (start != end || shares) return false;
    end += product(axes);
  }
  return parts.parts.size() > 1 && end == product(parts.whole);
}

// A fused projection of queries, keys and values: each part of the weight makes its part of the result, so that no
// slice has to be copied and each can be split along its own heads.
void Emitter::find_parts(int n) {
  const std::optional<int> weight = node(n).kind == Kind::MatMul ? own_parameter(node(n).inputs[1]) : std::nullopt;
  if (!weight || axes_.of_operand(n, 1) != axes_.of(node(n).inputs[1])) return;
  std::vector<int> chain;
  Parts parts;
  if (!only_slices(n, chain, parts)) return;
  AxisList taken = joined(axes_.of(n)), of_weight = joined(axes_.of(*weight));
  taken.insert(taken.end(), of_weight.begin(), of_weight.end());
  const auto has_whole = [&](const AxisList& order) {
    return std::search(order.begin(), order.end(), parts.whole.begin(), parts.whole.end()) != order.end();
  };
  // A part of one element has no dimension, which a bias needs.
  const bool any_single =
      std::any_of(parts.parts.begin(), parts.parts.end(), [](const auto& part) { return part.second.empty(); });
  const bool all = std::all_of(chain.begin(), chain.end(), [&](int between) {
    const auto bias = biases_.find(between);
    if (bias == biases_.end()) return true;
    const AxisList own = joined(axes_.of(bias->second));
    return has_whole(own) && !(any_single && own.size() == parts.whole.size());
  });
  if (!all || !has_whole(axes_.of(n).back()) || !has_whole(of_weight) || !is_cover(parts, taken)) return;
  const auto found = static_cast<int>(parts_.size());
  parts_.push_back(std::move(parts));
  for (const int part : chain) {
    parts_of_[part] = found;
    if (node(part).inputs.size() < 2) continue;
    for (int below = node(part).inputs[1];; below = node(below).inputs[0]) {
      parts_of_[below] = found;
      if (node(below).kind == Kind::Parameter) break;
    }
  }
}

AxisList Emitter::order_of_part(const AxisList& order, const AxisList& whole, const AxisList& part) {
  const auto at = std::search(order.begin(), order.end(), whole.begin(), whole.end());
  AxisList made(order.begin(), at);
  made.insert(made.end(), part.begin(), part.end());
  made.insert(made.end(), at + static_cast<std::ptrdiff_t>(whole.size()), order.end());
  return made;
}

// "<name>.0", "<name>.1", ...: a parameter's parts.
std::vector<TensorId> Emitter::parameter_parts(int n, const Parts& parts) {
  const AxisList order = joined(axes_.of(n));
  std::vector<TensorId> made;
  for (const auto& [start, axes] : parts.parts)
    made.push_back(graph_.add_tensor(unique(fmt::format("{}.{}", node(n).name, made.size())), TensorKind::Parameter,
                                     graph_.dtype, dims(order_of_part(order, parts.whole, axes))));
  return made;
}

// Its order is that of the whole.
Value Emitter::part_by_part(int n) {
  const Parts& parts = parts_[static_cast<std::size_t>(parts_of_.at(n))];
  const Node& of = node(n);
  if (moves(n)) return values_[static_cast<std::size_t>(of.inputs[0])];
  const std::string whole_name = name_;
  const int parameter = of.kind == Kind::MatMul ? *own_parameter(of.inputs[1]) : biases_.at(n);
  const std::vector<TensorId> weights = parameter_parts(parameter, parts);
  const Value x = of.kind == Kind::MatMul ? operand(n, 0) : values_[static_cast<std::size_t>(of.inputs[0])];
  Value made{.order = x.order};
  if (of.kind == Kind::MatMul) {
    for (const int axis : joined(axes_.of(parameter)))
      if (std::find(made.order.begin(), made.order.end(), axis) == made.order.end()) made.order.push_back(axis);
    const AxisList contracted = axes_.of_operand(n, 0).back();
    std::erase_if(made.order,
                  [&](int axis) { return std::find(contracted.begin(), contracted.end(), axis) != contracted.end(); });
    made.order = with_bias_last(n, std::move(made.order));
  }
  for (const auto& [start, axes] : parts.parts) {
    const std::size_t i = made.parts.size();
    name_ = fmt::format("{}.{}", whole_name, i);
    made.parts.push_back(of.kind == Kind::MatMul
                             ? add(OpKind::Contract, "", {x.tensor, weights[i]},
                                   {.result_names = names(order_of_part(made.order, parts.whole, axes))})
                             : add(OpKind::BiasAdd, "", {x.parts[i], weights[i]}));
  }
  name_ = whole_name;
  return made;
}

}  // namespace meshwright::primitive
