// SPDX-License-Identifier: Apache-2.0
// What ONNX's normalisations and attention are in primitive ops.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"
#include "core/graph/import/primitive/turning.h"

namespace meshwright::onnx {

using primitive::Kind;
using primitive::Shape;
using Made = std::vector<int>;

// Over the dimensions from `axis` on, which are merged where there is more than one.
int softmax_from(const NodeReader& r, int x, std::int64_t axis) {
  const Shape of = r.b.shape(x);
  const auto first = of.begin() + static_cast<std::ptrdiff_t>(axis);
  if (std::count(first + 1, of.end(), 1) == of.end() - first - 1) return r.b.softmax(x, axis);
  r.b.expect(axis > 0, "a softmax over samples has no equal here");
  Shape merged(of.begin(), first);
  merged.push_back(primitive::elements_of(Shape(first, of.end())));
  return r.b.reshape(r.b.softmax(r.b.reshape(x, merged), -1), of);
}

namespace {

Made softmax(const NodeReader& r) {
  const int x = r.in(0);
  const bool old = r.opset > 0 && r.opset < 13;
  const std::int64_t axis = r.b.axis_of(x, r.number("axis", old ? 1 : -1));
  return {old ? softmax_from(r, x, axis) : r.b.softmax(x, axis)};
}
Made log_softmax(const NodeReader& r) { return {r.b.unary(Kind::Log, softmax(r)[0])}; }
void expect_last(const NodeReader& r, std::int64_t axis) {
  r.b.expect(r.b.axis_of(r.in(0), axis) + 1 == static_cast<std::int64_t>(r.b.shape(r.in(0)).size()),
             "a normalisation over more than the last dimension has no equal here");
}
int no_bias(const NodeReader& r, int like) {
  const Shape& of = r.b.shape(like);
  return r.b.constant(
      of, false,
      std::vector<double>(static_cast<std::size_t>(std::min(primitive::elements_of(of), primitive::kMaxValues)), 0.0));
}
Made layer_norm(const NodeReader& r) {
  const auto rank = static_cast<std::int64_t>(r.b.shape(r.in(0)).size());
  r.b.expect(r.b.axis_of(r.in(0), r.number("axis", -1)) + static_cast<std::int64_t>(r.b.shape(r.in(1)).size()) == rank,
             "its scale has other dimensions than those it normalises over");
  const int beta = r.has(2) ? r.in(2) : no_bias(r, r.in(1));
  const int x = r.b.layer_norm(r.in(0), r.in(1), beta, r.real("epsilon", 1e-5));
  return {x, x, x};  // the statistics are for a backward alone
}
Made rms_norm(const NodeReader& r) {
  expect_last(r, r.number("axis", -1));
  return {r.b.rms_norm(r.in(0), r.in(1), r.real("epsilon", 1e-5))};
}
Made skip_layer_norm(const NodeReader& r) {
  int sum = r.b.binary(Kind::Add, r.in(0), r.in(1));
  if (r.has(4)) sum = r.b.binary(Kind::Add, sum, r.in(4));
  const int beta = r.has(3) ? r.in(3) : no_bias(r, r.in(2));
  const int x = r.b.layer_norm(sum, r.in(2), beta, r.real("epsilon", 1e-12));
  return {x, x, x, sum};
}
Made batch_norm(const NodeReader& r) { return {r.b.batch_norm(r.in(0), r.in(1), r.in(2), r.real("epsilon", 1e-5))}; }

Made instance_norm(const NodeReader& r) {
  const Shape of = r.b.shape(r.in(0));
  r.b.expect(of.size() > 2, "there is nothing to normalise over");
  return {r.b.group_norm(r.in(0), of[1], r.in(1), r.in(2), r.real("epsilon", 1e-5))};
}
Made group_norm(const NodeReader& r) {
  r.b.expect(r.opset == 0 || r.opset > 20, "a group normalisation with a scale for each group has no equal here");
  return {r.b.group_norm(r.in(0), r.number("num_groups", 0), r.in(1), r.in(2), r.real("epsilon", 1e-5))};
}

// --- attention (operator set 23) ---

int as_heads(const NodeReader& r, int x, std::int64_t heads) {
  const Shape of = r.b.shape(x);
  if (of.size() == 4) return x;
  r.b.expect(of.size() == 3 && heads > 0 && of[2] % heads == 0, "its heads do not share the last dimension evenly");
  return r.b.swap(r.b.reshape(x, {of[0], of[1], heads, of[2] / heads}), 1, 2);
}
Made attention(const NodeReader& r) {
  const bool flat = r.b.shape(r.in(0)).size() == 3;
  const int q = as_heads(r, r.in(0), r.number("q_num_heads", 0));
  const int k = as_heads(r, r.in(1), r.number("kv_num_heads", 0));
  const int v = as_heads(r, r.in(2), r.number("kv_num_heads", 0));
  r.b.expect(!r.has(4) && !r.has(5), "keys of earlier steps have no place in training; export without a cache");
  const double cap = r.real("softcap", 0.0);
  r.b.expect(cap == 0.0 || (cap > 0.0 && !r.has(3)), "scores with a softcap and a mask have no equal here");
  const bool causal = r.number("is_causal", 0) != 0;
  // The queries are the first positions of the keys, where ours are the last ones.
  const bool apart = causal && r.b.shape(q)[2] != r.b.shape(k)[2];
  r.b.expect(!apart || cap == 0.0, "causal scores of fewer queries than keys with a softcap have no equal here");
  const std::vector<int> masks = r.has(3) ? std::vector<int>{r.in(3)} : std::vector<int>{};
  int x = r.has(3) || apart ? r.b.masked_attention(q, k, v, r.real("scale", 0.0), causal, masks)
                            : r.b.attention(q, k, v, r.real("scale", 0.0), {.causal = causal, .cap = cap});
  if (flat) {
    const Shape of = r.b.shape(x);
    x = r.b.reshape(r.b.swap(x, 1, 2), {of[0], of[2], of[1] * of[3]});
  }
  return {x};
}

// (x, cosines, sines, [position ids])
Made rotary(const NodeReader& r) {
  const bool flat = r.b.shape(r.in(0)).size() == 3;
  const int x = as_heads(r, r.in(0), r.number("num_heads", 0));
  const Shape of = r.b.shape(x);
  r.b.expect(of.size() == 4, "its operand has neither heads nor a number of them");
  const std::int64_t given = r.number("rotary_embedding_dim", 0), dims = given > 0 ? given : of[3];
  const std::optional<primitive::Turning> turning = primitive::turning_of_tables(r.b, r.in(1), r.in(2), dims, 1);
  r.b.expect(turning.has_value(), "its tables are no cosines and sines of a rotation from position 0 on");
  const int made = r.b.rotary(x, 2, dims, *turning, r.number("interleaved", 0) != 0);
  return {flat ? r.b.reshape(r.b.swap(made, 1, 2), {of[0], of[2], of[1] * of[3]}) : made};
}

}  // namespace

std::map<std::string, Rule> layer_rules() {
  return {{"Softmax", softmax},
          {"LogSoftmax", log_softmax},
          {"LayerNormalization", layer_norm},
          {"RMSNormalization", rms_norm},
          {"SimplifiedLayerNormalization", rms_norm},
          {"com.microsoft:SimplifiedLayerNormalization", rms_norm},
          {"com.microsoft:SkipLayerNormalization", skip_layer_norm},
          {"BatchNormalization", batch_norm},
          {"InstanceNormalization", instance_norm},
          {"GroupNormalization", group_norm},
          {"RotaryEmbedding", rotary},
          {"Attention", attention}};
}

}  // namespace meshwright::onnx
