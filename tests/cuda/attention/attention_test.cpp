// SPDX-License-Identifier: Apache-2.0
// Attention on the device without tensor cores against the processor's in double.
#include "tests/cuda/attention/attention_fixture.h"

namespace meshwright::kernels::cuda::attention_test {
namespace {

template <class T>
class CudaAttention : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaAttention, Types);

// Single queries, tiles that are not full, several of them, and widths around the chunks' and beyond the widest.
const AttentionShape kFusedShapes[] = {AttentionShape::packed(1, 1, 1, 1), AttentionShape::packed(2, 3, 2, 5),
                                       AttentionShape::packed(1, 130, 1, 33), AttentionShape::packed(1, 65, 1, 128),
                                       AttentionShape::packed(1, 5, 1, 300)};

TYPED_TEST(CudaAttention, OfFusedOperandsIsTheProcessors) {
  using T = TypeParam;
  for (const AttentionShape& s : kFusedShapes) {
    SCOPED_TRACE(testing::Message() << s.batch << " x " << s.seq << " x " << s.kv_heads << " x " << s.key_dim);
    const std::int64_t outputs = s.batch * s.seq * s.kv_heads * s.key_dim;
    const Values qkv = numbers<T>(3 * outputs, 1), dout = numbers<T>(outputs, 2, -1.0, 1.0);
    const FusedResults expected = fused_on_processor(qkv, dout, s);
    const FusedResults found = fused_on_device<T>(qkv, dout, s, AttentionPath::Plain);
    expect_near<T>(found.out, expected.out, "out", s.key_dim);
    expect_near<T>(found.dqkv, expected.dqkv, "dqkv", s.key_dim);
  }
}

// (batch, seq, kv_seq, kv_heads, group, key_dim, value_dim)
const Example kExamples[] = {
    {"one of each", {1, 1, 1, 1, 1, 1, 1}},
    {"groups", {2, 3, 5, 2, 2, 3, 7}},
    {"across tiles", {1, 70, 90, 1, 1, 8, 8}},
    {"fewer keys", {1, 66, 3, 1, 1, 4, 65}},
    {"causal after a prefix", {1, 40, 130, 1, 2, 8, 4}, true},
    {"a window shorter than a tile, after a prefix", {1, 70, 130, 1, 1, 4, 4}, true, 20},
    {"a window of which one query is in the next tile", {1, 130, 130, 1, 1, 4, 4}, true, 66},
    {"a window both ways", {1, 130, 130, 1, 1, 4, 4}, false, 20},
    {"a window both ways, longer than a tile", {1, 150, 200, 1, 2, 4, 4}, false, 66, true},
    {"a window of one, and a sink", {1, 67, 67, 1, 1, 4, 4}, true, 1, true},
    {"sinks", {2, 9, 70, 1, 2, 4, 4}, false, 0, true},
    {"bias", {2, 70, 66, 1, 1, 4, 4}, false, 0, false, true},
    {"causal bias after a prefix", {1, 3, 130, 2, 1, 4, 4}, true, 0, false, true},
    {"bias, window and sink", {1, 66, 130, 1, 1, 4, 4}, true, 50, true, true},
    {"wide", {1, 3, 4, 1, 1, 300, 40}, true},
    {"wide values", {1, 3, 4, 1, 1, 40, 200}, true},
};

TYPED_TEST(CudaAttention, OfGroupsIsTheProcessorsUnderEveryRule) {
  using T = TypeParam;
  for (const Example& e : kExamples) {
    SCOPED_TRACE(e.name);
    const GroupedOperands operands = operands_of<T>(e);
    const GroupedResults expected = grouped_on_processor(operands, e);
    const GroupedResults found = grouped_on_device<T>(operands, e, AttentionPath::Plain);
    expect_near<T>(found.out, expected.out, "out", e.s.key_dim);
    expect_near<T>(found.dq, expected.dq, "dq", e.s.key_dim);
    expect_near<T>(found.dk, expected.dk, "dk", e.s.key_dim);
    expect_near<T>(found.dv, expected.dv, "dv", e.s.key_dim);
    if (e.sink) expect_near<T>(found.dsink, expected.dsink, "dsink", e.s.key_dim);
    if (e.bias) expect_near<Wide<T>>(found.dbias, expected.dbias, "dbias", e.s.key_dim);
  }
}

TYPED_TEST(CudaAttention, GivesTheSameBitsEveryTime) {
  using T = TypeParam;
  const Example e{"", {1, 66, 66, 1, 2, 8, 8}, true, 0, true, true};
  const GroupedOperands operands = operands_of<T>(e);
  const GroupedResults once = grouped_on_device<T>(operands, e, AttentionPath::Best);
  const GroupedResults again = grouped_on_device<T>(operands, e, AttentionPath::Best);
  EXPECT_EQ(once.out, again.out);
  EXPECT_EQ(once.dq, again.dq);
  EXPECT_EQ(once.dk, again.dk);
  EXPECT_EQ(once.dv, again.dv);
  EXPECT_EQ(once.dsink, again.dsink);
  EXPECT_EQ(once.dbias, again.dbias);
}

// exp(800) is beyond every type here; only differences from the largest may be taken.
TYPED_TEST(CudaAttention, TakesScoresWhoseExponentialsOverflow) {
  using T = TypeParam;
  const AttentionShape s = AttentionShape::packed(1, 2, 1, 4);
  // The second query's scores, halved by the scale: 800 and -800.
  const Values qkv = {20, 20, 20, 20, 20, 20, 20, 20, 1, 2, 3, 4, 20, 20, 20, 20, -20, -20, -20, -20, 5, 6, 7, 8};
  const FusedResults found = fused_on_device<T>(qkv, Values(8, 1.0), s, AttentionPath::Best);
  EXPECT_EQ(found.out, (Values{1, 2, 3, 4, 1, 2, 3, 4}));
  for (const double value : found.dqkv) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace meshwright::kernels::cuda::attention_test
