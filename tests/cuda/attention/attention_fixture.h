// SPDX-License-Identifier: Apache-2.0
// Attention on the device and on the processor, there in double, of the same operands.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/grouped_attention.h"
#include "kernels/cuda/attention/attention.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda {

// Within T's rounding of the result, and `slack` of the largest one, or of 0.1: what cancels is made of larger ones.
template <class T>
void expect_within(const Values& found, const Values& expected, double slack, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0.1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i],
                1.01 * kHalfPlace<T> * std::abs(expected[i]) + slack * largest + kSmallestHalf<T>)
        << what << " " << i;
}
// Scores are sums over `depth` elements.
template <class T>
void expect_near(const Values& found, const Values& expected, const char* what, std::int64_t depth) {
  expect_within<T>(found, expected, kHalfPlace<Wide<T>> * static_cast<double>(400 + 8 * depth), what);
}

// --- fused ---

struct FusedResults {
  Values out, dqkv;
};
inline FusedResults fused_on_processor(const Values& qkv, const Values& dout, AttentionShape s) {
  FusedResults results{Values(dout.size()), Values(qkv.size())};
  const kernels::AttentionShape shape{s.batch, s.seq, s.heads, s.head_dim};
  kernels::attention(qkv.data(), results.out.data(), shape);
  kernels::attention_backward(qkv.data(), dout.data(), results.dqkv.data(), shape);
  return results;
}
template <class T>
FusedResults fused_on_device(const Values& qkv, const Values& dout, AttentionShape s, AttentionPath path) {
  const DeviceArray<T> in(qkv), gradient(dout);
  auto out = DeviceArray<T>::of_size(static_cast<std::int64_t>(dout.size()));
  auto dqkv = DeviceArray<T>::of_size(static_cast<std::int64_t>(qkv.size()));
  attention(kNoStream, in.data(), out.data(), s, path);
  auto workspace = DeviceArray<std::uint8_t>::of_size(static_cast<std::int64_t>(attention_backward_workspace<T>(s)));
  attention_backward(kNoStream, in.data(), gradient.data(), dqkv.data(), s, workspace.data(), path);
  return {out.values(), dqkv.values()};
}

// --- grouped ---

struct Example {
  const char* name;
  GroupedShape s;
  bool causal = false;
  std::int64_t window = 0;
  bool sink = false, bias = false;
};
struct GroupedResults {
  Values out, dq, dk, dv, dsink, dbias;
};
struct GroupedOperands {
  Values q, k, v, dout, sink, bias;
};

template <class T>
GroupedOperands operands_of(const Example& e) {
  const GroupedShape& s = e.s;
  const std::int64_t queries = s.batch * s.seq * s.heads(), keys = s.batch * s.kv_seq * s.kv_heads;
  return {numbers<T>(queries * s.key_dim, 1, 2.0),
          numbers<T>(keys * s.key_dim, 2, 1.0),
          numbers<T>(keys * s.value_dim, 3),
          numbers<T>(queries * s.value_dim, 4),
          numbers<T>(s.heads(), 5),
          numbers<T>(s.heads() * s.distances(), 6, 2.0)};
}
inline std::int64_t position_of(const Example& e) { return e.s.kv_seq > e.s.seq ? e.s.kv_seq - e.s.seq : 0; }

inline GroupedResults grouped_on_processor(const GroupedOperands& o, const Example& e) {
  const kernels::GroupedShape s{e.s.batch, e.s.seq, e.s.kv_seq, e.s.kv_heads, e.s.group, e.s.key_dim, e.s.value_dim};
  const kernels::AttentionRule<double> rule{
      0.4, e.causal, e.window, position_of(e), e.sink ? o.sink.data() : nullptr, e.bias ? o.bias.data() : nullptr};
  GroupedResults r{Values(o.dout.size()), Values(o.q.size()),    Values(o.k.size()),
                   Values(o.v.size()),    Values(o.sink.size()), Values(o.bias.size())};
  kernels::grouped_attention(o.q.data(), o.k.data(), o.v.data(), r.out.data(), s, rule);
  kernels::grouped_attention_backward(o.q.data(), o.k.data(), o.v.data(), o.dout.data(), r.dq.data(), r.dk.data(),
                                      r.dv.data(),
                                      {e.sink ? r.dsink.data() : nullptr, e.bias ? r.dbias.data() : nullptr}, s, rule);
  return r;
}

template <class T>
GroupedResults grouped_on_device(const GroupedOperands& o, const Example& e, AttentionPath path) {
  const auto like = [](const Values& values) { return static_cast<std::int64_t>(values.size()); };
  const DeviceArray<T> q(o.q), k(o.k), v(o.v), dout(o.dout), sink(o.sink);
  const DeviceArray<Wide<T>> bias(o.bias);
  auto out = DeviceArray<T>::of_size(like(o.dout)), dq = DeviceArray<T>::of_size(like(o.q)),
       dk = DeviceArray<T>::of_size(like(o.k)), dv = DeviceArray<T>::of_size(like(o.v)),
       dsink = DeviceArray<T>::of_size(like(o.sink));
  auto dbias = DeviceArray<Wide<T>>::of_size(like(o.bias));
  const AttentionRule<T> rule{
      0.4, e.causal, e.window, position_of(e), e.sink ? sink.data() : nullptr, e.bias ? bias.data() : nullptr};
  grouped_attention(kNoStream, q.data(), k.data(), v.data(), out.data(), e.s, rule, path);
  auto workspace = DeviceArray<std::uint8_t>::of_size(
      static_cast<std::int64_t>(grouped_attention_backward_workspace<T>(e.s, e.bias)));
  grouped_attention_backward(kNoStream, q.data(), k.data(), v.data(), dout.data(), dq.data(), dk.data(), dv.data(),
                             {e.sink ? dsink.data() : nullptr, e.bias ? dbias.data() : nullptr}, e.s, rule,
                             workspace.data(), path);
  return {out.values(),
          dq.values(),
          dk.values(),
          dv.values(),
          e.sink ? dsink.values() : Values(o.sink.size()),
          e.bias ? dbias.values() : Values(o.bias.size())};
}

}  // namespace meshwright::kernels::cuda
