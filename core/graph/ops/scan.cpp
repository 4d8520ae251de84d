// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba-2 (T. Dao, A. Gu, Transformers are SSMs, arXiv:2405.21060). Per batch, group and head, a
// state H (d, state) goes along the sequence, which is written as chunks:
//
//   dt_t = softplus(dt_t + dt_bias),  H_t = exp(-dt_t exp(a_log)) H_(t-1) + dt_t x_t b_t^T,  y_t = H_t c_t + d x_t
//
// b and c are a group's, shared by its heads. With a rate for each number of the state, a_log (groups, heads, state),
// it is the scan of Mamba (A. Gu, T. Dao, arXiv:2312.00752): column n of H decays by exp(-dt_t exp(a_log_n)).
//
// The gated delta rule (S. Yang et al., Gated Delta Networks, arXiv:2412.06464): a state S (d, e) along the sequence,
// with q and k of length 1 (1e-6 is added to their squares),
//
//   S = exp(-softplus(a_t + dt_bias) exp(a_log)) S_(t-1),  S_t = S + k_t (sigmoid(b_t) (v_t - S^T k_t))^T,
//   y_t = S_t^T q_t / sqrt(d)
//
// q and k are shared by the group of v's heads. With a number of a for each of the d channels of a key (Kimi Team, Kimi
// Linear, arXiv:2510.26692) each row of S decays at a rate of its own, which has a dt_bias of its own; with a value
// that is not 0, a decay is exp(value sigmoid(exp(a_log) (a_t + dt_bias))). Work of both is counted as the papers
// compute it, chunk by chunk with products; so the length of a chunk is an axis of the op.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

enum ScanOperand : std::size_t { kX, kDt, kALog, kB, kC, kD, kDtBias, kDy };

// Dimensions of x and of b, by which the others are known.
constexpr std::size_t kGroups = 3, kHeads = 4, kWidth = 5, kState = 4;

void expect_scan(const OpCall& call) {
  expect_one_float_type(call, {kX, kDt, kALog, kB, kC, kD, kDtBias});
  const Dims &x = dims(call, kX), &b = dims(call, kB);
  expect(call, x.size() == 6, "x must have six dimensions (batch, chunks, chunk, groups, heads, d)");
  expect(call, dims(call, kDt) == without_last(x), "dt must have the dimensions of x but its last");
  const Dims per_head = {x[kGroups], x[kHeads]};
  for (const std::size_t operand : {kD, kDtBias})
    expect(call, dims(call, operand) == per_head, "d and dt_bias must have the dimensions (groups, heads)");
  expect(call,
         b.size() == 5 && std::equal(b.begin(), b.begin() + kState, x.begin()) && find(x, b[kState].name) == nullptr,
         "b must have the dimensions (batch, chunks, chunk, groups) of x, and one of the state");
  expect_same_dims(call, kB, kC);
  const Dims per_number = {x[kGroups], x[kHeads], b[kState]};
  expect(call, dims(call, kALog) == per_head || dims(call, kALog) == per_number,
         "a_log must have the dimensions (groups, heads), or those and that of the state");
}

std::vector<ResultShape> selective_scan(const OpCall& call) {
  expect_scan(call);
  return {{dtype(call, kX), dims(call, kX)}};
}

std::vector<ResultShape> selective_scan_backward(const OpCall& call) {
  expect_scan(call);
  expect_one_float_type(call, {kX, kDy});
  expect_same_dims(call, kX, kDy);
  std::vector<ResultShape> results;
  for (std::size_t i = kX; i < kDy; ++i) results.push_back({dtype(call, i), dims(call, i)});
  return results;
}

// The sequence is walked in order, and a head's state holds all of x's last dimension.
bool batches_and_heads(const Op&, const IterationSpace& space, int axis) {
  const std::vector<int>& x = space.inputs[kX];
  return axis == x[0] || axis == x[kGroups] || axis == x[kHeads];
}

// With one rate per number nothing is a product: 9 operations for each number of a state (Mamba's own count).
constexpr double kScanStep = 9.0;

// Per token: within its chunk the scores c b^T of a group and their products with x; to and from the chunk's state.
double scan_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  const std::vector<int>& x = space.inputs[kX];
  const auto size = [&](int axis) { return static_cast<double>(sizes[static_cast<std::size_t>(axis)]); };
  const double tokens = size(x[0]) * size(x[1]) * size(x[2]), chunk = size(x[2]), groups = size(x[kGroups]),
               heads = groups * size(x[kHeads]), width = size(x[kWidth]), state = size(space.inputs[kB][kState]);
  if (space.inputs[kALog].size() == 3) return kScanStep * tokens * heads * width * state;
  return 2.0 * tokens * (groups * chunk * state + heads * width * (chunk + 2.0 * state));
}
double scan_backward_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  return 2.0 * scan_flops(space, sizes);
}

void scan_derivative(Backward& backward, const Op& op, TensorId dy) {
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(backward.read(op, i));
  inputs.push_back(dy);
  const OpKind kind = op.kind == OpKind::GatedDelta ? OpKind::GatedDeltaBackward : OpKind::SelectiveScanBackward;
  const std::vector<TensorId> gradients = backward.derive(op, kind, "grad", inputs, op.attributes);
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (backward.wants(op, i)) backward.contribute(op, i, gradients[i]);
}

// --- the gated delta rule ---

enum DeltaOperand : std::size_t { kQuery, kKey, kValue, kBeta, kGate, kDecay, kGateBias, kGiven };

constexpr std::size_t kDeltaHeads = 3, kDeltaGroup = 4, kKeyWidth = 4, kValueWidth = 5;

void expect_delta(const OpCall& call) {
  expect_one_float_type(call, {kQuery, kKey, kValue, kBeta, kGate, kDecay, kGateBias});
  const Dims &q = dims(call, kQuery), &v = dims(call, kValue);
  expect(call, q.size() == 5, "q must have five dimensions (batch, chunks, chunk, heads, d)");
  expect_same_dims(call, kQuery, kKey);
  expect(call,
         v.size() == 6 && std::equal(v.begin(), v.begin() + kDeltaGroup, q.begin()) &&
             find(v, q[kKeyWidth].name) == nullptr,
         "v must have the dimensions (batch, chunks, chunk, heads) of q, a group and a width of its own");
  expect(call, dims(call, kBeta) == without_last(v), "b must have the dimensions of v but its last");
  Dims per_channel = without_last(v);
  per_channel.push_back(q[kKeyWidth]);
  const bool channels = dims(call, kGate) == per_channel;
  expect(call, channels || dims(call, kGate) == without_last(v),
         "a must have the dimensions of v but its last, or these and the d of k");
  const Dims heads = {v[kDeltaHeads], v[kDeltaGroup]}, of_channels = {heads[0], heads[1], q[kKeyWidth]};
  expect(call, dims(call, kDecay) == heads, "a_log must have the dimensions (heads, group)");
  expect(call, dims(call, kGateBias) == (channels ? of_channels : heads),
         "dt_bias must have the dimensions (heads, group), and d where a has it");
  expect(call, call.attributes.value <= 0.0,
         "its value, the least logarithm of a decay, must be below 0, or 0 for none");
  expect(call, call.attributes.scale > 0.0, "its scale, of updates, must be positive");
}

std::vector<ResultShape> gated_delta(const OpCall& call) {
  expect_delta(call);
  return {{dtype(call, kValue), dims(call, kValue)}};
}

std::vector<ResultShape> gated_delta_backward(const OpCall& call) {
  expect_delta(call);
  expect_one_float_type(call, {kQuery, kGiven});
  expect_same_dims(call, kValue, kGiven);
  std::vector<ResultShape> results;
  for (std::size_t i = kQuery; i < kGiven; ++i) results.push_back({dtype(call, i), dims(call, i)});
  return results;
}

bool batches_and_value_heads(const Op&, const IterationSpace& space, int axis) {
  const std::vector<int>& v = space.inputs[kValue];
  return axis == v[0] || axis == v[kDeltaHeads] || axis == v[kDeltaGroup];
}

// Per token: the scores k k^T and q k^T within its chunk, of a head; of each of its group, what the chunk's corrections
// make of k and v, their products with the scores, and three products with the state.
double delta_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  const std::vector<int>& v = space.inputs[kValue];
  const auto size = [&](int axis) { return static_cast<double>(sizes[static_cast<std::size_t>(axis)]); };
  const double tokens = size(v[0]) * size(v[1]) * size(v[2]), chunk = size(v[2]), heads = size(v[kDeltaHeads]),
               group = size(v[kDeltaGroup]), d = size(space.inputs[kQuery][kKeyWidth]), e = size(v[kValueWidth]);
  return 2.0 * tokens * heads * (2.0 * chunk * d + group * (chunk * d + 2.0 * chunk * e + 3.0 * d * e));
}
double delta_backward_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  return 2.0 * delta_flops(space, sizes);
}

}  // namespace

std::vector<OpRow> scan_rows() {
  using K = OpKind;
  return {
      {K::SelectiveScan,
       "selective_scan",
       {"x", "dt", "a_log", "b", "c", "d", "dt_bias"},
       selective_scan,
       batches_and_heads,
       {.flops = scan_flops, .derivative = scan_derivative}},
      {K::SelectiveScanBackward,
       "selective_scan_backward",
       {"x", "dt", "a_log", "b", "c", "d", "dt_bias", "dy"},
       selective_scan_backward,
       batches_and_heads,
       {.flops = scan_backward_flops, .results = {"x", "dt", "a_log", "b", "c", "d", "dt_bias"}}},
      {K::GatedDelta,
       "gated_delta",
       {"q", "k", "v", "b", "a", "a_log", "dt_bias"},
       gated_delta,
       batches_and_value_heads,
       {.flops = delta_flops, .derivative = scan_derivative}},
      {K::GatedDeltaBackward,
       "gated_delta_backward",
       {"q", "k", "v", "b", "a", "a_log", "dt_bias", "dy"},
       gated_delta_backward,
       batches_and_value_heads,
       {.flops = delta_backward_flops, .results = {"q", "k", "v", "b", "a", "a_log", "dt_bias"}}},
  };
}

}  // namespace meshwright::ops
