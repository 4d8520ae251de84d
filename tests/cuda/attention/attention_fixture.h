// SPDX-License-Identifier: Apache-2.0
// Attention on the device and on the processor, there in double, of the same operands.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/attention.h"
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

// --- packed ---

// Causal self-attention.
template <class Rule>
Rule packed_rule(const AttentionShape& s) {
  return {1.0 / std::sqrt(static_cast<double>(s.key_dim)), true, 0, 0};
}

struct FusedResults {
  Values out, dqkv;
};
inline FusedResults fused_on_processor(const Values& qkv, const Values& dout, const AttentionShape& s) {
  FusedResults results{Values(dout.size()), Values(qkv.size())};
  const kernels::AttentionCall<double> call{s, packed_views(qkv.data(), s),
                                            packed_rule<kernels::AttentionRule<double>>(s)};
  kernels::attention(call, results.out.data());
  kernels::attention_backward(call, dout.data(),
                              kernels::AttentionGradients<double>{packed_views(results.dqkv.data(), s)});
  return results;
}
template <class T>
FusedResults fused_on_device(const Values& qkv, const Values& dout, const AttentionShape& s, AttentionPath path) {
  const DeviceArray<T> in(qkv), gradient(dout);
  auto out = DeviceArray<T>::of_size(static_cast<std::int64_t>(dout.size()));
  auto dqkv = DeviceArray<T>::of_size(static_cast<std::int64_t>(qkv.size()));
  const AttentionCall<T> call{s, packed_views<const T>(in.data(), s), packed_rule<AttentionRule<T>>(s)};
  attention<T>(kNoStream, call, out.data(), path);
  auto workspace =
      DeviceArray<std::uint8_t>::of_size(static_cast<std::int64_t>(attention_backward_workspace<T>(s, false)));
  attention_backward<T>(kNoStream, call, gradient.data(), {packed_views<T>(dqkv.data(), s)}, workspace.data(), path);
  return {out.values(), dqkv.values()};
}

// --- grouped ---

struct Example {
  const char* name;
  AttentionShape s;
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
  const AttentionShape& s = e.s;
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
  const kernels::AttentionRule<double> rule{
      0.4, e.causal, e.window, position_of(e), e.sink ? o.sink.data() : nullptr, e.bias ? o.bias.data() : nullptr};
  GroupedResults r{Values(o.dout.size()), Values(o.q.size()),    Values(o.k.size()),
                   Values(o.v.size()),    Values(o.sink.size()), Values(o.bias.size())};
  const kernels::AttentionCall<double> call{e.s, separate_views(o.q.data(), o.k.data(), o.v.data(), e.s), rule};
  kernels::attention(call, r.out.data());
  kernels::attention_backward(
      call, o.dout.data(),
      kernels::AttentionGradients<double>{separate_views(r.dq.data(), r.dk.data(), r.dv.data(), e.s),
                                          e.sink ? r.dsink.data() : nullptr, e.bias ? r.dbias.data() : nullptr});
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
  const AttentionCall<T> call{e.s, separate_views<const T>(q.data(), k.data(), v.data(), e.s), rule};
  attention<T>(kNoStream, call, out.data(), path);
  auto workspace =
      DeviceArray<std::uint8_t>::of_size(static_cast<std::int64_t>(attention_backward_workspace<T>(e.s, e.bias)));
  attention_backward<T>(kNoStream, call, dout.data(),
                        {separate_views<T>(dq.data(), dk.data(), dv.data(), e.s), e.sink ? dsink.data() : nullptr,
                         e.bias ? dbias.data() : nullptr},
                        workspace.data(), path);
  return {out.values(),
          dq.values(),
          dk.values(),
          dv.values(),
          e.sink ? dsink.values() : Values(o.sink.size()),
          e.bias ? dbias.values() : Values(o.bias.size())};
}

}  // namespace meshwright::kernels::cuda
