// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/primitive/recogniser.h"

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

// --- all ---

Recogniser::Found Recogniser::find(Kind kind, const std::vector<int>& inputs) {
  switch (kind) {
    case Kind::Multiply:
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
    case Kind::Minimum:
      for (const std::size_t k : {0u, 1u})  // as of ReLU6
        if (const auto most = b_.scalar_of(inputs[k]); most && *most > 0.0 && is(inputs[1 - k], Kind::Relu)) {
          cut_ = true;
          return inputs[1 - k];
        }
      return std::nullopt;
    case Kind::Concat:
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
      Found found = find(node.kind, inputs);
      if (!found && node.kind == Kind::ReduceSum) found = picked_by_one_hot(inputs[0], node.details.axes);
      now = found ? *found : b_.add(node.kind, inputs, node.shape, node.integer, node.details);
      if (const Found known = function(now)) now = *known;
      // A form that merged the heads gets them merged again.
      if (at(now).shape != node.shape) now = b_.reshape(now, node.shape);
    }
    made.push_back(now);
  }
  if (masks_ > 0)
    to_.notes.push_back(fmt::format(
        "the masks of {} attention{} (the first '{}') are left out, but for a causal part: batches are taken as full",
        masks_, masks_ == 1 ? "" : "s", first_mask_));
  if (shifted_) to_.notes.push_back("scales of norms that the file adds a number to are the parameters themselves");
  if (by_token_ > 0)
    to_.notes.push_back(
        fmt::format("{} mixture{} of experts give{} slots to one token after the other in the file, and to all first "
                    "choices before "
                    "the second ones here: where an expert's slots run out, other tokens lose theirs",
                    by_token_, by_token_ == 1 ? "" : "s", by_token_ == 1 ? "s" : ""));
  if (cut_) to_.notes.push_back("activations that are cut at an upper bound, as ReLU6, are taken as not cut");
  to_.result = made[static_cast<std::size_t>(from_.result)];
  if (const Found loss = cross_entropy(to_.result)) to_.result = *loss;
  drop_unused(to_);
  for (const Node& node : to_.nodes)
    if (node.kind >= Kind::Softmax || node.kind == Kind::Gelu || node.kind == Kind::GeluErf || node.kind == Kind::Silu)
      ++to_.recognised[name_of(node.kind)];
  return std::move(to_);
}

Module recognised(const Module& module) { return Recogniser(Recogniser(module, false).run(), true).run(); }

}  // namespace meshwright::primitive
