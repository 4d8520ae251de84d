// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores against the processor's in double.
#include "tests/cuda/attention/attention_fixture.h"

namespace meshwright::kernels::cuda::attention_tensor_test {
namespace {

// With p and ds rounded to T: four roundings of the largest result.
template <class T>
void expect_close(const Values& found, const Values& expected, const char* what) {
  expect_within<T>(found, expected, 4.0 * kHalfPlace<T>, what);
}

template <class T>
class CudaTensorAttention : public testing::Test {};
using HalfTypes = testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(CudaTensorAttention, HalfTypes);

const AttentionShape kTensorShapes[] = {AttentionShape::packed(1, 140, 1, 64), AttentionShape::packed(2, 5, 2, 8),
                                        AttentionShape::packed(1, 70, 1, 128)};

TYPED_TEST(CudaTensorAttention, OfFusedOperandsIsTheProcessors) {
  using T = TypeParam;
  for (const AttentionShape& s : kTensorShapes) {
    SCOPED_TRACE(testing::Message() << s.batch << " x " << s.seq << " x " << s.kv_heads << " x " << s.key_dim);
    const std::int64_t outputs = s.batch * s.seq * s.kv_heads * s.key_dim;
    const Values qkv = numbers<T>(3 * outputs, 1), dout = numbers<T>(outputs, 2, -1.0, 1.0);
    const FusedResults expected = fused_on_processor(qkv, dout, s);
    const FusedResults found = fused_on_device<T>(qkv, dout, s, AttentionPath::Best);
    expect_close<T>(found.out, expected.out, "out");
    expect_close<T>(found.dqkv, expected.dqkv, "dqkv");
  }
}

const Example kTensorExamples[] = {
    {"groups, fewer keys", {1, 66, 40, 1, 2, 16, 8}},
    {"causal after a prefix", {1, 40, 200, 1, 2, 16, 16}, true},
    {"a window of which one query is in the next tile, and a sink", {1, 130, 130, 1, 1, 8, 24}, true, 2, true},
    {"a tile of keys of which the first query sees all but one", {1, 128, 190, 1, 1, 8, 8}, true},
    {"causal bias after a prefix", {1, 66, 130, 2, 1, 16, 16}, true, 0, false, true},
    {"a window both ways", {1, 200, 200, 1, 1, 64, 64}, false, 20},
    {"a window both ways, longer than a tile", {1, 70, 200, 1, 2, 96, 40}, false, 70, true},
    {"a window longer than a tile", {1, 70, 200, 1, 1, 96, 40}, true, 70},
};

TYPED_TEST(CudaTensorAttention, OfGroupsIsTheProcessorsUnderEveryRule) {
  using T = TypeParam;
  for (const Example& e : kTensorExamples) {
    SCOPED_TRACE(e.name);
    const GroupedOperands operands = operands_of<T>(e);
    const GroupedResults expected = grouped_on_processor(operands, e);
    const GroupedResults found = grouped_on_device<T>(operands, e, AttentionPath::Best);
    expect_close<T>(found.out, expected.out, "out");
    expect_close<T>(found.dq, expected.dq, "dq");
    expect_close<T>(found.dk, expected.dk, "dk");
    expect_close<T>(found.dv, expected.dv, "dv");
    if (e.sink) expect_close<T>(found.dsink, expected.dsink, "dsink");
    if (e.bias) expect_within<Wide<T>>(found.dbias, expected.dbias, 0x1p-14, "dbias");
  }
}

// 16 bytes can be read or written at once of all operands and results but one.
TYPED_TEST(CudaTensorAttention, OfWhatLiesAnywhereIsTheProcessors) {
  using T = TypeParam;
  const Example e{"one tile", {1, 9, 9, 1, 1, 8, 8}, true};
  const GroupedOperands o = operands_of<T>(e);
  const GroupedResults expected = grouped_on_processor(o, e);
  const auto behind_one = [](Values values) {
    values.insert(values.begin(), 0.0);
    return DeviceArray<T>(values);
  };
  const auto whole_of = [](const DeviceArray<T>& array, int from) {
    const Values all = array.values();
    return Values(all.begin() + from, all.end() - (1 - from));
  };
  for (int odd = 0; odd < 8; ++odd) {
    SCOPED_TRACE(odd);
    const auto at = [odd](int which) { return which == odd ? 1 : 0; };
    const DeviceArray<T> q = at(0) != 0 ? behind_one(o.q) : DeviceArray<T>(o.q),
                         k = at(1) != 0 ? behind_one(o.k) : DeviceArray<T>(o.k),
                         v = at(2) != 0 ? behind_one(o.v) : DeviceArray<T>(o.v),
                         dout = at(3) != 0 ? behind_one(o.dout) : DeviceArray<T>(o.dout);
    auto out = behind_one(o.dout), dq = behind_one(o.q), dk = behind_one(o.k), dv = behind_one(o.v);
    const AttentionRule<T> rule{0.4, true, 0, 0};
    const AttentionCall<T> call{e.s, separate_views<const T>(q.data() + at(0), k.data() + at(1), v.data() + at(2), e.s),
                                rule};
    attention<T>(kNoStream, call, out.data() + at(4));
    auto workspace =
        DeviceArray<std::uint8_t>::of_size(static_cast<std::int64_t>(attention_backward_workspace<T>(e.s, false)));
    attention_backward<T>(kNoStream, call, dout.data() + at(3),
                          {separate_views<T>(dq.data() + at(5), dk.data() + at(6), dv.data() + at(7), e.s)},
                          workspace.data());
    expect_close<T>(whole_of(out, at(4)), expected.out, "out");
    expect_close<T>(whole_of(dq, at(5)), expected.dq, "dq");
    expect_close<T>(whole_of(dk, at(6)), expected.dk, "dk");
    expect_close<T>(whole_of(dv, at(7)), expected.dv, "dv");
  }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::attention_tensor_test
