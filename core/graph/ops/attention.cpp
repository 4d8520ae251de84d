// SPDX-License-Identifier: Apache-2.0
// Attention, of packed operands (qkv) or of separate ones with a group of queries per key, to all keys or to those that
// an indexer chose, and the rotation of queries and keys.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// --- packed attention ---

void expect_qkv(const OpCall& call) {
  expect(call, dims(call, 0).size() == 5 && dims(call, 0)[2].size == 3,
         "qkv must have five dimensions (batch, seq, qkv=3, heads, head_dim)");
}

Dims without_qkv(const Dims& qkv) { return {qkv[0], qkv[1], qkv[3], qkv[4]}; }

std::vector<ResultShape> attention(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect_qkv(call);
  return {{dtype(call, 0), without_qkv(dims(call, 0))}};
}

std::vector<ResultShape> attention_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_qkv(call);
  expect(call, dims(call, 1) == without_qkv(dims(call, 0)), "dy must have the dimensions of qkv without the third");
  return {{dtype(call, 0), dims(call, 0)}};
}

// --- attention of separate operands, with groups ---

using Extra = Attributes::Extra;

bool has_operand(Extra extra) { return extra == Extra::Sink || extra == Extra::RelativeBias || extra == Extra::Mask; }

// Half of the buckets of a direction hold one distance each, and the others must have distances left, up to 128.
bool buckets_fit(std::int64_t buckets, bool causal) {
  return causal ? buckets >= 2 && buckets <= 255 : buckets >= 4 && buckets <= 510 && buckets % 2 == 0;
}

// Samples and queries, where the mask tells them apart, and the keys.
void expect_mask(const OpCall& call) {
  const Dims &q = dims(call, 0), &k = dims(call, 1), &mask = dims(call, 3);
  Dims fits;
  for (const std::size_t d : {0, 1})
    if (find(mask, q[d].name) != nullptr) fits.push_back(q[d]);
  fits.push_back(k[1]);
  expect(call, mask == fits,
         "extra, a mask, must have the dimensions (batch, seq, kv_seq), or lack some of the first two");
}

void expect_extra(const OpCall& call) {
  if (!has_operand(call.attributes.extra)) return;
  const Dims &q = dims(call, 0), &extra = dims(call, 3);
  expect_one_float_type(call, {0, 3});
  if (call.attributes.extra == Extra::Mask) return expect_mask(call);
  if (call.attributes.extra == Extra::Sink) {
    expect(call, extra == Dims{q[2], q[3]}, "extra, a sink per head, must have the dimensions (kv_heads, group) of q");
    return;
  }
  expect(call, extra.size() == 3 && extra[1] == q[2] && extra[2] == q[3],
         "extra, a table of relative biases, must have three dimensions (buckets, kv_heads, group), the last two of q");
  for (const std::size_t operand : {0, 1, 2})
    expect(call, find(dims(call, operand), extra[0].name) == nullptr, "the name of the buckets must be extra's alone");
  expect(call, buckets_fit(extra[0].size, call.attributes.causal),
         call.attributes.causal
             ? "extra must have from 2 to 255 buckets"
             : "extra must have an even number of buckets from 4 to 510, half of them per direction");
}

// The dimensions of the result, once q, k and v fit.
Dims expect_heads(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  const Dims &q = dims(call, 0), &k = dims(call, 1), &v = dims(call, 2);
  expect(call, q.size() == 5, "q must have five dimensions (batch, seq, kv_heads, group, d)");
  expect(call, k.size() == 4 && k[0] == q[0] && k[2] == q[2] && k[3] == q[4],
         "k must have four dimensions (batch, kv_seq, kv_heads, d), all but kv_seq those of q");
  expect(call, v.size() == 4 && v[0] == q[0] && v[1] == k[1] && v[2] == q[2],
         "v must have four dimensions (batch, kv_seq, kv_heads, e), the first three those of k");
  expect(call, find(q, k[1].name) == nullptr,
         "kv_seq must have a name that q has not, because a query meets every key; rename it by a reshape");
  expect(call, v[3] == q[4] || (find(q, v[3].name) == nullptr && v[3].name != k[1].name),
         "e must be the dimension d or have a name of its own");
  return {q[0], q[1], q[2], q[3], v[3]};
}

// The same with the extra operand.
Dims expect_grouped(const OpCall& call) {
  const Attributes& a = call.attributes;
  const std::size_t rest = call.kind == OpKind::GroupedAttention ? 0 : 1;
  expect(call, call.inputs.size() == 3 + rest + (has_operand(a.extra) ? 1 : 0),
         "it takes an extra operand exactly when its attribute extra is a sink, relative biases or a mask");
  const Dims result = expect_heads(call);
  const Dims &q = dims(call, 0), &k = dims(call, 1);
  expect(call, a.scale > 0.0, "its scale must be above 0");
  expect(call, a.score_cap >= 0.0, "its score_cap must be 0, or above 0");
  expect(call, !a.causal || q[1].size <= k[1].size,
         "a causal one must have at least as many keys as queries, the last of them the queries' own positions");
  expect(call, a.attention_window >= 0, "its attention_window must be 0, or above 0");
  expect_extra(call);
  return result;
}

std::vector<ResultShape> grouped_attention(const OpCall& call) {
  const Dims result = expect_grouped(call);
  return {{dtype(call, 0), result}};
}

std::vector<ResultShape> grouped_attention_backward(const OpCall& call) {
  const Dims result = expect_grouped(call);
  const std::size_t dout = call.inputs.size() - 1;
  expect_one_float_type(call, {0, dout});
  expect(call, dims(call, dout) == result, "dout must have the dimensions (batch, seq, kv_heads, group, e)");
  const std::size_t differentiated = call.attributes.extra == Extra::Mask ? 3 : dout;
  std::vector<ResultShape> results;
  for (std::size_t i = 0; i < differentiated; ++i) results.push_back({dtype(call, i), dims(call, i)});
  return results;
}

// --- attention to keys that an indexer chose ---

std::vector<ResultShape> index_scores(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  const Dims &q = dims(call, 0), &k = dims(call, 1);
  expect(call, q.size() == 4, "q must have four dimensions (batch, seq, index_heads, d)");
  expect(call, k.size() == 3 && k[0] == q[0] && k[2] == q[3] && find(q, k[1].name) == nullptr,
         "k must have the dimensions (batch, kv_seq, d), all but kv_seq those of q");
  expect(call, dims(call, 2) == without_last(q), "weights must have the dimensions of q but its last");
  return {{accumulation_dtype(dtype(call, 0)), {q[0], q[1], k[1]}}};
}

constexpr const char* kSelected = "selected";

// Of blocks, the last of which need not be whole.
std::vector<ResultShape> top_k_blocks(const OpCall& call) {
  const Dims& scores = dims(call, 0);
  const std::vector<std::int64_t>& window = call.attributes.window;
  const std::int64_t top_k = call.attributes.top_k;
  expect(call, scores.size() == 4 && scores[1].size == scores[3].size,
         "scores of blocks must have four dimensions (batch, seq, kv_heads, kv_seq), with a key for each query");
  expect(call, window.size() == 2 && window[0] >= 1 && window[1] >= 0,
         "its window must be the length of a block and the number of local ones");
  expect(call, call.attributes.stride.empty() && call.attributes.attention_window == 0,
         "blocks go with no stride and no attention_window");
  const std::int64_t blocks = (scores[3].size + window[0] - 1) / window[0];
  expect(call, top_k >= 1 && top_k <= blocks && window[1] <= top_k,
         "its top_k must be from the number of local blocks to that of all");
  expect(call, find(scores, kSelected) == nullptr, "scores may not have a dimension named 'selected'");
  return {{DType::I32, {scores[0], scores[1], scores[2], {kSelected, top_k * window[0]}}}};
}

std::vector<ResultShape> top_k_keys(const OpCall& call) {
  expect_one_float_type(call, {0});
  const Dims& scores = dims(call, 0);
  const std::int64_t top_k = call.attributes.top_k;
  const std::vector<std::int64_t>& stride = call.attributes.stride;
  const bool whole = stride.empty();
  expect(call, whole || (stride.size() == 1 && stride[0] >= 1), "its stride must be one number of positions, or none");
  if (!call.attributes.window.empty()) return top_k_blocks(call);
  expect(call, scores.size() == 3, "scores must have three dimensions (batch, seq, kv_seq)");
  expect(call, !whole || scores[1].size <= scores[2].size,
         "scores must have at least as many keys as queries, where a key stands for one position");
  expect(call, whole || scores[2].size * stride[0] <= scores[1].size,
         "scores may have no more keys than the queries' positions fill by its stride");
  expect(call, top_k >= 1 && top_k <= scores[2].size, "its top_k must be from 1 to the number of keys");
  expect(call, find(scores, kSelected) == nullptr, "scores may not have a dimension named 'selected'");
  expect(call, call.attributes.attention_window >= 0, "its attention_window must be 0, or above 0");
  return {{DType::I32, {scores[0], scores[1], {kSelected, top_k + call.attributes.attention_window}}}};
}

Dims expect_selected(const OpCall& call) {
  const Dims result = expect_heads(call);
  const Dims &q = dims(call, 0), &keys = dims(call, 3);
  const bool by_head = keys.size() == 4 && keys[2] == q[2];
  expect(call, dtype(call, 3) == DType::I32 && (keys.size() == 3 || by_head) && keys[0] == q[0] && keys[1] == q[1],
         "keys must be i32 of the dimensions (batch, seq) of q, maybe its kv_heads, and that of the chosen keys");
  expect(call, call.attributes.scale > 0.0, "its scale must be above 0");
  const std::size_t rest = call.kind == OpKind::SelectedAttention ? 0 : 1;
  const bool sinks = call.attributes.extra == Extra::Sink;
  expect(call, (sinks || call.attributes.extra == Extra::None) && call.inputs.size() == 4 + rest + (sinks ? 1 : 0),
         "it takes one operand more exactly when its attribute extra is a sink");
  if (sinks) {
    expect_one_float_type(call, {0, 4});
    expect(call, dims(call, 4) == Dims{q[2], q[3]},
           "extra, a sink per head, must have the dimensions (kv_heads, group) of q");
  }
  return result;
}

std::vector<ResultShape> selected_attention(const OpCall& call) {
  const Dims result = expect_selected(call);
  return {{dtype(call, 0), result}};
}

std::vector<ResultShape> selected_attention_backward(const OpCall& call) {
  const Dims result = expect_selected(call);
  const std::size_t dout = call.inputs.size() - 1;
  expect_one_float_type(call, {0, dout});
  expect(call, dims(call, dout) == result, "dout must have the dimensions (batch, seq, kv_heads, group, e)");
  std::vector<ResultShape> results;
  for (std::size_t i = 0; i < dout; ++i)
    if (i != 3) results.push_back({dtype(call, i), dims(call, i)});
  return results;
}

// The rectifier needs the whole of a head's product; heads add up.
bool all_but_width(const Op&, const IterationSpace& space, int axis) { return axis != space.inputs[0][3]; }
bool batches_and_queries(const Op&, const IterationSpace& space, int axis) {
  const std::vector<int>& scores = space.inputs[0];
  return axis == scores[0] || axis == scores[1] || (scores.size() == 4 && axis == scores[2]);
}
int keys_of_attention(const IterationSpace& space) { return space.inputs[1][1]; }

double index_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  const std::vector<int>& q = space.inputs[0];
  const auto size = [&](int axis) { return sizes[static_cast<std::size_t>(axis)]; };
  return 2.0 * product({size(q[0]), size(q[1]), size(q[2]), size(q[3]), size(space.inputs[1][1])});
}

// --- what all kinds share ---

// The axes of an attention, whose operands are packed into one or separate.
struct AttentionAxes {
  int batch, queries, keys, kv_heads;
  std::optional<int> group;  // none of packed operands: one query per key head
  int key_dim, value_dim;
};

AttentionAxes axes_of(const IterationSpace& space) {
  const std::vector<int>& q = space.inputs[0];
  // (qkv) or (qkv, dy): (batch, seq, qkv, heads, head_dim)
  if (space.inputs.size() < 3) return {q[0], q[1], q[1], q[3], std::nullopt, q[4], q[4]};
  return {q[0], q[1], space.inputs[1][1], q[2], q[3], q[4], space.inputs[2][3]};
}

// A query needs every key, and its score the whole of a head. Queries are independent of each other: splits of seq and
// group leave partial sums in the gradients of k and v. Packed queries cannot be split from their keys.
bool queries(const Op&, const IterationSpace& space, int axis) {
  const AttentionAxes axes = axes_of(space);
  if (axis == axes.batch || axis == axes.kv_heads) return true;
  return axes.queries != axes.keys && (axis == axes.queries || axis == axes.group);
}

// Scores and weighted values, 2 FLOPs for each product with each key; what a mask leaves out is not taken off.
double flops_of_keys(const AttentionAxes& axes, int keys, const std::vector<std::int64_t>& sizes) {
  const auto size = [&](int axis) { return sizes[static_cast<std::size_t>(axis)]; };
  const std::int64_t group = axes.group ? size(*axes.group) : 1;
  return 2.0 * product({size(axes.batch), size(axes.queries), size(keys), size(axes.kv_heads), group,
                        size(axes.key_dim) + size(axes.value_dim)});
}
double attention_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  const AttentionAxes axes = axes_of(space);
  return flops_of_keys(axes, axes.keys, sizes);
}
double selected_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  return flops_of_keys(axes_of(space), space.inputs[3].back(), sizes);
}
double selected_backward_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  return 2.0 * selected_flops(space, sizes);
}
double attention_backward_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  return 2.0 * attention_flops(space, sizes);
}

void attention_derivative(Backward& backward, const Op& op, TensorId dy) {
  const bool packed = op.kind == OpKind::Attention;
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(backward.read(op, i));
  inputs.push_back(dy);
  const std::vector<TensorId> gradients =
      backward.derive(op, packed ? OpKind::AttentionBackward : OpKind::GroupedAttentionBackward,
                      packed ? "grad_qkv" : "grad", inputs, op.attributes);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (backward.wants(op, i)) backward.contribute(op, i, gradients[i]);
}

void selected_derivative(Backward& backward, const Op& op, TensorId dy) {
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(backward.read(op, i));
  inputs.push_back(dy);
  const std::vector<TensorId> gradients =
      backward.derive(op, OpKind::SelectedAttentionBackward, "grad", inputs, op.attributes);
  constexpr std::array<std::size_t, 4> kOperands = {0, 1, 2, 4};  // not the choice of keys
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (backward.wants(op, kOperands[i])) backward.contribute(op, kOperands[i], gradients[i]);
}

// --- rotary embedding ---

std::vector<ResultShape> rotary(const OpCall& call) {
  expect_one_float_type(call, {0});
  const Dims& x = dims(call, 0);
  expect(call, x.size() >= 3, "it needs three dimensions or more, (batch, seq, ..., head_dim)");
  const std::int64_t rotated = call.attributes.rotary_dims != 0 ? call.attributes.rotary_dims : x.back().size;
  expect(call, rotated > 0 && rotated % 2 == 0 && rotated <= x.back().size,
         "it must rotate an even number of elements, at most those of the last dimension");
  expect(call, call.attributes.rotary_base > 0.0, "its rotary_base must be above 0");
  const std::vector<double>& divisors = call.attributes.rotary_divisors;
  const auto positive = [](double number) { return std::isfinite(number) && number > 0.0; };
  expect(call, divisors.empty() || static_cast<std::int64_t>(divisors.size()) == rotated / 2,
         "it must have one of the rotary_divisors for each pair that turns, or none");
  expect(call, std::all_of(divisors.begin(), divisors.end(), positive) && positive(call.attributes.rotary_amplitude),
         "its rotary_divisors and rotary_amplitude must be above 0");
  return {{dtype(call, 0), x}};
}

void rotary_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::RotaryBackward, "grad_x", {dy}, op.attributes);
}

// As part of a model it turns back what was turned.
void rotary_backward_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::Rotary, "grad_x", {dy}, op.attributes);
}

}  // namespace

std::vector<OpRow> attention_rows() {
  using K = OpKind;
  return {
      {K::Attention,
       "attention",
       {"qkv"},
       attention,
       queries,
       {.flops = attention_flops, .derivative = attention_derivative}},
      {K::AttentionBackward,
       "attention_backward",
       {"qkv", "dy"},
       attention_backward,
       queries,
       {.flops = attention_backward_flops}},
      {K::GroupedAttention,
       "grouped_attention",
       {"q", "k", "v", "extra"},
       grouped_attention,
       queries,
       {.flops = attention_flops, .optional_operands = 1, .derivative = attention_derivative}},
      {K::GroupedAttentionBackward,
       "grouped_attention_backward",
       {"q", "k", "v", "extra", "dout"},
       grouped_attention_backward,
       queries,
       {.flops = attention_backward_flops, .results = {"q", "k", "v", "extra"}, .optional_operands = 1}},
      {K::IndexScores, "index_scores", {"q", "k", "weights"}, index_scores, all_but_width, {.flops = index_flops}},
      {K::TopKKeys, "top_k_keys", {"scores"}, top_k_keys, batches_and_queries},
      {K::SelectedAttention,
       "selected_attention",
       {"q", "k", "v", "keys", "extra"},
       selected_attention,
       queries,
       {.position_axis = keys_of_attention,
        .flops = selected_flops,
        .optional_operands = 1,
        .derivative = selected_derivative}},
      {K::SelectedAttentionBackward,
       "selected_attention_backward",
       {"q", "k", "v", "keys", "extra", "dout"},
       selected_attention_backward,
       queries,
       {.position_axis = keys_of_attention,
        .flops = selected_backward_flops,
        .results = {"q", "k", "v", "extra"},
        .optional_operands = 1}},
      {K::Rotary,
       "rotary",
       {"x"},
       rotary,
       all_but_last_of_x,
       {.derivative = rotary_derivative, .linear_operands = 0b1}},
      {K::RotaryBackward,
       "rotary_backward",
       {"dy"},
       rotary,
       all_but_last_of_x,
       {.derivative = rotary_backward_derivative}},
  };
}

}  // namespace meshwright::ops
