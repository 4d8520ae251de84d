// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recognise.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/primitive/recognise/cumulative_sums.h"
#include "core/graph/import/primitive/recognise/packed_attention.h"
#include "core/graph/import/primitive/recognise/recogniser.h"
#include "core/graph/import/primitive/recognise/sums_of_products.h"

namespace meshwright::primitive {

Recogniser::Found Recogniser::beside_scalar(int i, Kind kind, double* scalar) const {
  if (!is(i, kind)) return std::nullopt;
  for (const std::size_t k : {0, 1})
    if (const auto value = b_.scalar_of(at(i).inputs[k])) {
      *scalar = *value;
      return at(i).inputs[1 - k];
    }
  return std::nullopt;
}

Recogniser::Scaled Recogniser::unscaled(int i) const {
  double factor = 1.0, scalar = 1.0;
  while (const Found inner = beside_scalar(i, Kind::Multiply, &scalar)) {
    factor *= scalar;
    i = *inner;
  }
  return {i, factor};
}

int Recogniser::core(int i) const {
  while (true) {
    const Node& node = at(i);
    if (node.kind != Kind::Reshape && node.kind != Kind::Broadcast) return i;
    if (node.kind == Kind::Reshape) {
      const auto wide = [](Shape shape) {
        std::erase(shape, 1);
        return shape;
      };
      if (wide(node.shape) != wide(at(node.inputs[0]).shape)) return i;
    }
    i = node.inputs[0];
  }
}

// Below what changes the type of truth values alone.
int Recogniser::truth_below(int i) const {
  while (is(i, Kind::ToFloat) || is(i, Kind::ToInteger)) i = at(i).inputs[0];
  return i;
}

// 1, 2, 3, ...: how many ids up to each are not the one that stands for padding, where none does.
Recogniser::Found Recogniser::counted(int ids, std::int64_t axis) {
  const int truth = truth_below(ids);
  const bool turned = is(truth, Kind::Not);
  const int compare = turned ? at(truth).inputs[0] : truth;
  if (!is(compare, Kind::Compare) ||
      at(compare).details.comparison != (turned ? Comparison::Equal : Comparison::NotEqual))
    return std::nullopt;
  const Node compared = at(at(compare).inputs[0]);
  const Shape whole = at(ids).shape;
  const auto last = static_cast<std::int64_t>(whole.size()) - 1;
  if (compared.kind != Kind::Input || !compared.integer || !b_.scalar_of(at(compare).inputs[1]) || axis != last)
    return std::nullopt;
  unpadded_.insert(truth);
  const int positions = b_.range(1.0, static_cast<double>(whole.back()) + 1.0, 1.0, at(ids).integer);
  return b_.broadcast(positions, whole);
}

// --- all ---

namespace {

// Puts what is made of integers alone in front: all layers read the masks.
void masks_first(Module& module) {
  std::vector<bool> aside = made_of_integers(module);
  for (std::size_t n = 0; n < module.nodes.size(); ++n) aside[n] = aside[n] || module.nodes[n].constant;
  std::vector<int> order, place(module.nodes.size());
  for (const bool first : {true, false})
    for (std::size_t n = 0; n < module.nodes.size(); ++n)
      if (aside[n] == first) {
        place[n] = static_cast<int>(order.size());
        order.push_back(static_cast<int>(n));
      }
  Nodes nodes;
  for (const int n : order) {
    nodes.push_back(std::move(module.nodes[static_cast<std::size_t>(n)]));
    for (int& input : nodes.back().inputs) input = place[static_cast<std::size_t>(input)];
  }
  module.nodes = std::move(nodes);
  module.result = place[static_cast<std::size_t>(module.result)];
}

}  // namespace

Recogniser::Found Recogniser::find(Kind kind, const std::vector<int>& inputs) {
  switch (kind) {
    case Kind::Gather:  // whose ids have become a constant
      return at(inputs[1]).constant ? Found(b_.gather(inputs[0], inputs[1], 0)) : std::nullopt;
    case Kind::Multiply:
      for (const std::size_t k : {0u, 1u})  // positions that are counted, where there is padding 0
        if (at(inputs[k]).constant && at(inputs[k]).shape == at(inputs[1 - k]).shape &&
            unpadded_.contains(truth_below(inputs[1 - k])))
          return inputs[k];
      if (const Found mean = mean_of_sum(inputs[0], inputs[1])) return mean;
      if (const Found norm = rms_norm(inputs)) return norm;
      for (const std::size_t k : {0u, 1u})  // x times the reciprocal of a sum
        if (const int sum = core(inputs[k]); is(sum, Kind::Reciprocal) && at(sum).shape == at(inputs[k]).shape)
          if (const Found found = softmax(inputs[1 - k], at(sum).inputs[0])) return found;
      return activation(inputs[0], inputs[1]);
    case Kind::Add:
      if (const Found norm = layer_norm(inputs[0], inputs[1])) return norm;
      if (const Found norm = folded_norm(inputs[0], inputs[1])) return norm;
      if (const Found norm = folded_norm(inputs[1], inputs[0])) return norm;
      return rotary(inputs[0], inputs[1]);
    case Kind::Subtract:
      return log_softmax(inputs[0], inputs[1]);
    case Kind::Divide:
      return quotient(inputs[0], inputs[1]);
    case Kind::Concat:
      if (const Found partly = rotary_of_first(inputs)) return partly;
      if (const Found pairs = rotary_of_pairs(inputs)) return pairs;
      return rotary_of_halves(inputs);
    case Kind::MatMul:
      if (const Found ids = one_hot(inputs[0]); ids && at(inputs[1]).shape.size() == 2)
        return b_.gather(inputs[1], *ids, 0);
      if (const Found mixture = dispatch(inputs[0], inputs[1])) return mixture;
      return attention(inputs[0], inputs[1]);
    default:
      return std::nullopt;
  }
}

Module Recogniser::run() {
  std::vector<int> made;
  chooses_ = std::any_of(from_.nodes.begin(), from_.nodes.end(),
                         [](const Node& node) { return node.kind == Kind::TopK || node.kind == Kind::TopKIndex; });
  for (const Node& node : from_.nodes) {
    b_.name = node.name;
    b_.block = node.block;
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(made[static_cast<std::size_t>(input)]);
    int now = -1;
    if (inputs.empty()) {
      now = static_cast<int>(to_.nodes.size());
      to_.nodes.push_back(node);
    } else {
      if (node.kind == Kind::Attention)
        for (const std::size_t k : {1, 2}) inputs[k] = unrepeated(inputs[k]);
      if (node.kind == Kind::LayerNorm || node.kind == Kind::RmsNorm) inputs[1] = row(inputs[1]);
      Found found = find(node.kind, inputs);
      if (node.kind == Kind::Concat && found && at(*found).shape != node.shape) found.reset();  // of another dimension
      if (node.kind == Kind::CumSum) found = counted(inputs[0], node.details.axes[0]);
      if (node.kind == Kind::RmsNorm && lone_) found = norm_without_bias(inputs[0], inputs[1], node.details.number);
      if (!found && node.kind == Kind::ReduceSum) found = picked_by_one_hot(inputs[0], node.details.axes);
      now = found ? *found : b_.add(node.kind, inputs, node.shape, node.integer, node.details);
      if (const Found known = function(now)) now = *known;
      // A form that merged the heads gets them merged again.
      if (at(now).shape != node.shape) now = b_.reshape(now, node.shape);
    }
    made.push_back(now);
  }
  if (masks_ > 0)
    to_.notes.push_back(
        fmt::format("the mask{} of {} attention{} (the first '{}') {} taken as causal: the file lacks {} numbers",
                    masks_ == 1 ? "" : "s", masks_, masks_ == 1 ? "" : "s", first_mask_, masks_ == 1 ? "is" : "are",
                    masks_ == 1 ? "its" : "their"));
  if (masked_ > 0)
    to_.notes.push_back(mask_input_.empty()
                            ? fmt::format("{} attention{} add{} a mask to the scores", masked_, masked_ == 1 ? "" : "s",
                                          masked_ == 1 ? "s" : "")
                            : fmt::format("{} attention{} hide{} the keys for which the input '{}' is 0", masked_,
                                          masked_ == 1 ? "" : "s", masked_ == 1 ? "s" : "", mask_input_));
  if (shifted_) to_.notes.push_back("scales of norms that the file adds a number to are the parameters themselves");
  if (by_token_ > 0)
    to_.notes.push_back(
        fmt::format("{} mixture{} of experts give{} slots to one token after the other in the file, and to all first "
                    "choices before "
                    "the second ones here: where an expert's slots run out, other tokens lose theirs",
                    by_token_, by_token_ == 1 ? "" : "s", by_token_ == 1 ? "s" : ""));
  if (!unpadded_.empty()) to_.notes.push_back("positions are counted as if no token was padding");
  to_.result = made[static_cast<std::size_t>(from_.result)];
  if (const Found loss = cross_entropy(to_.result)) to_.result = *loss;
  drop_unused(to_);
  if (masked_ > 0) masks_first(to_);
  for (const Node& node : to_.nodes)
    if (node.kind >= Kind::Softmax || node.kind == Kind::Gelu || node.kind == Kind::GeluErf || node.kind == Kind::Silu)
      ++to_.recognised[name_of(node.kind)];
  return std::move(to_);
}

Module recognised(const Module& module) {
  Module found = with_packed_attention(Recogniser(Recogniser(module, false).run(), true).run());
  return with_sums_as_products(with_products_added_first(std::move(found)));
}

}  // namespace meshwright::primitive
