// SPDX-License-Identifier: Apache-2.0
// Grouped attention against plain loops, and the rotary embedding.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/cpu/attention/attention_bias.h"
#include "tests/op_fixture.h"

namespace meshwright::ops_attention_test {
namespace {

using Extra = Attributes::Extra;

// --- grouped attention ---

struct Example {
  const char* name;
  std::int64_t batch, seq, kv_seq, kv_heads, group, d, e;
  Attributes attributes = {};
  std::int64_t buckets = 0;
  const char* mask = "";  // its dimensions: of samples, queries, keys
};
void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

std::vector<Dim> query_dims(const Example& s) {
  return {{"batch", s.batch}, {"seq", s.seq}, {"kv_heads", s.kv_heads}, {"group", s.group}, {"d", s.d}};
}
std::vector<Dim> key_dims(const Example& s, const Dim& last) {
  return {{"batch", s.batch}, {"kv_seq", s.kv_seq}, {"kv_heads", s.kv_heads}, last};
}

std::vector<Dim> mask_dims(const Example& s) {
  std::vector<Dim> dims;
  for (const char* dim = s.mask; *dim != 0; ++dim)
    dims.push_back(*dim == 'b' ? Dim{"batch", s.batch} : *dim == 'q' ? Dim{"seq", s.seq} : Dim{"kv_seq", s.kv_seq});
  return dims;
}

OpCase attention(const Example& s) {
  OpCase c;
  std::vector<TensorId> operands = {c.parameter("q", query_dims(s), -2, 2), c.parameter("k", key_dims(s, {"d", s.d})),
                                    c.parameter("v", key_dims(s, {"e", s.e}))};
  const Dim heads{"kv_heads", s.kv_heads}, group{"group", s.group};
  if (s.attributes.extra == Extra::Sink) operands.push_back(c.parameter("extra", {heads, group}));
  if (s.attributes.extra == Extra::RelativeBias)
    operands.push_back(c.parameter("extra", {{"buckets", s.buckets}, heads, group}));
  if (s.attributes.extra == Extra::Mask) operands.push_back(c.input("extra", mask_dims(s), -3, 3));
  c.add(OpKind::GroupedAttention, operands, s.attributes, "out");
  return c;
}

// T5's buckets for the few that the examples below have; the first distance of each bucket of one direction.
std::int64_t bucket_of(std::int64_t distance, const Example& s) {
  const std::vector<std::int64_t> begins = s.attributes.causal ? std::vector<std::int64_t>{0, 1, 2, 3, 4, 10, 23, 54}
                                                               : std::vector<std::int64_t>{0, 1, 2, 16};
  const std::int64_t away = s.attributes.causal ? std::max<std::int64_t>(0, -distance) : std::abs(distance);
  std::int64_t bucket = 0;
  for (std::size_t b = 0; b < begins.size(); ++b)
    if (away >= begins[b]) bucket = static_cast<std::int64_t>(b);
  return !s.attributes.causal && distance > 0 ? bucket + 4 : bucket;
}

// The definition, query by query and key by key.
Values by_loops(const Example& s, const OpCase& c) {
  const Values &q = c.values.at(TensorId(0)), &k = c.values.at(TensorId(1)), &v = c.values.at(TensorId(2));
  const auto at = [](const Values& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  const Attributes& a = s.attributes;
  const double scale = a.scale != 1.0 ? a.scale : 1 / std::sqrt(static_cast<double>(s.d));
  Values out;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t i = 0; i < s.seq; ++i)
      for (std::int64_t h = 0; h < s.kv_heads; ++h)
        for (std::int64_t g = 0; g < s.group; ++g) {
          const std::int64_t row = ((b * s.seq + i) * s.kv_heads + h) * s.group + g, head = h * s.group + g;
          const std::int64_t position = i + s.kv_seq - s.seq;
          double sum = a.extra == Extra::Sink ? std::exp(at(c.values.at(TensorId(3)), head)) : 0.0;
          Values value(static_cast<std::size_t>(s.e), 0.0);
          for (std::int64_t j = 0; j < s.kv_seq; ++j) {
            if (a.causal && j > position) continue;
            if (a.attention_window > 0 && std::abs(position - j) >= a.attention_window) continue;
            const std::int64_t key = (b * s.kv_seq + j) * s.kv_heads + h;
            double score = 0.0;
            for (std::int64_t x = 0; x < s.d; ++x) score += scale * at(q, row * s.d + x) * at(k, key * s.d + x);
            if (a.extra == Extra::RelativeBias)
              score += at(c.values.at(TensorId(3)), bucket_of(j - position, s) * s.kv_heads * s.group + head);
            if (a.extra == Extra::Mask) {
              std::int64_t place = 0;
              for (const char* dim = s.mask; *dim != 0; ++dim)
                place = *dim == 'b' ? b : *dim == 'q' ? place * s.seq + i : place * s.kv_seq + j;
              score += at(c.values.at(TensorId(3)), place);
            }
            if (a.extra == Extra::Alibi)
              score -= std::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(s.kv_heads * s.group)) *
                       static_cast<double>(std::abs(position - j));
            const double weight = std::exp(score);
            sum += weight;
            for (std::int64_t x = 0; x < s.e; ++x) value[static_cast<std::size_t>(x)] += weight * at(v, key * s.e + x);
          }
          for (const double x : value) out.push_back(x / sum);
        }
  return out;
}

const Attributes kCausal{.causal = true};
const Example kExamples[] = {
    {"multi_head", 2, 4, 4, 2, 1, 3, 3},
    {"multi_query", 2, 4, 4, 1, 2, 2, 2},
    {"grouped_causal", 2, 4, 4, 2, 2, 3, 2, kCausal},
    {"cross", 2, 4, 7, 2, 2, 2, 3},
    {"cross_shorter", 2, 4, 3, 2, 2, 2, 3},
    {"own_scale", 2, 4, 4, 2, 2, 2, 3, {.scale = 0.3, .causal = true}},
    {"causal_after_a_prefix", 2, 4, 9, 2, 2, 2, 3, kCausal},
    {"window", 1, 8, 8, 2, 2, 2, 2, {.causal = true, .attention_window = 3}},
    {"window_of_one", 1, 8, 8, 1, 2, 2, 2, {.causal = true, .attention_window = 1, .extra = Extra::Sink}},
    {"window_after_a_prefix", 1, 4, 11, 2, 1, 2, 3, {.causal = true, .attention_window = 5}},
    {"window_both_ways", 1, 8, 8, 2, 2, 2, 2, {.attention_window = 3}},
    {"window_both_ways_after_a_prefix", 1, 4, 11, 2, 1, 2, 3, {.attention_window = 2, .extra = Extra::RelativeBias}, 8},
    {"sink", 2, 4, 4, 2, 2, 2, 3, {.extra = Extra::Sink}},
    {"sink_and_window", 2, 8, 8, 2, 2, 2, 3, {.causal = true, .attention_window = 2, .extra = Extra::Sink}},
    {"relative", 2, 8, 8, 2, 2, 2, 3, {.extra = Extra::RelativeBias}, 8},
    {"relative_causal", 2, 8, 12, 2, 2, 2, 3, {.causal = true, .extra = Extra::RelativeBias}, 8},
    {"alibi", 2, 4, 4, 4, 2, 2, 3, {.causal = true, .extra = Extra::Alibi}},
    {"alibi_both_ways", 2, 4, 8, 2, 4, 2, 2, {.extra = Extra::Alibi}},
    {"mask_of_samples", 2, 4, 6, 2, 2, 2, 3, {.extra = Extra::Mask}, 0, "bk"},
    {"mask_of_queries", 2, 4, 4, 2, 1, 2, 3, {.causal = true, .extra = Extra::Mask}, 0, "qk"},
    {"mask_of_both", 3, 4, 7, 1, 2, 2, 3, {.causal = true, .attention_window = 3, .extra = Extra::Mask}, 0, "bqk"},
    {"mask_of_all_alike", 2, 3, 5, 2, 2, 2, 2, {.extra = Extra::Mask}, 0, "k"},
    // A block of queries is 128 / group long: these need several.
    {"blocks", 1, 6, 7, 1, 43, 1, 1, {.causal = true, .extra = Extra::Sink}},
    {"blocks_of_windows",
     1,
     6,
     6,
     1,
     64,
     1,
     1,
     {.causal = true, .attention_window = 2, .extra = Extra::RelativeBias},
     8},
};

class GroupedAttentions : public testing::TestWithParam<Example> {};

TEST_P(GroupedAttentions, IsItsDefinition) {
  const OpCase c = attention(GetParam());
  const Values expected = by_loops(GetParam(), c), wide = computed(c), narrow = computed(c, c.result(), DType::F32);
  ASSERT_EQ(wide.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(wide[i], expected[i], 1e-14) << i;
    EXPECT_NEAR(narrow[i], expected[i], 1e-6) << i;
  }
}

TEST_P(GroupedAttentions, HasTheGradientsOfItsDefinition) { expect_true_vjp(attention(GetParam())); }

TEST_P(GroupedAttentions, CanBeSplitAlongAllButKeysAndWidths) {
  const OpCase c = attention(GetParam());
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable,
              axis.size > 1 && axis.name != "kv_seq" && axis.name != "d" && axis.name != "e" && axis.name != "buckets")
        << axis.name;
  expect_sharded_equals_whole(c);
}

INSTANTIATE_TEST_SUITE_P(Examples, GroupedAttentions, testing::ValuesIn(kExamples),
                         [](const auto& example) { return example.param.name; });

// Sizes that fill several blocks of queries and of keys.
TEST(GroupedAttentionKernel, IsItsDefinitionOnLongSequences) {
  for (const Example& s : {Example{"causal", 1, 300, 300, 2, 1, 8, 8, kCausal},
                           Example{"window", 1, 290, 301, 1, 3, 8, 4, {.causal = true, .attention_window = 70}},
                           Example{"sink", 1, 200, 333, 1, 2, 4, 8, {.extra = Extra::Sink}}}) {
    const OpCase c = attention(s);
    const Values expected = by_loops(s, c), wide = computed(c), narrow = computed(c, c.result(), DType::F32);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(wide[i], expected[i], 1e-13) << s.name << i;
      ASSERT_NEAR(narrow[i], expected[i], 2e-6) << s.name << i;
    }
  }
}

// With groups of one and keys of the queries' own positions, causal grouped attention is the fused attention.
TEST(GroupedAttention, OfOneQueryPerKeyIsFusedAttention) {
  const Example s{"", 2, 150, 150, 2, 1, 4, 4, kCausal};
  OpCase grouped = attention(s), fused;
  fused.parameter("qkv", {{"batch", 2}, {"seq", 150}, {"qkv", 3}, {"heads", 2}, {"d", 4}});
  Values& qkv = fused.values[TensorId(0)];
  const std::size_t part = 2 * 4;
  for (std::size_t row = 0; row < 300; ++row)
    for (std::size_t which = 0; which < 3; ++which)
      for (std::size_t x = 0; x < part; ++x)
        qkv[(row * 3 + which) * part + x] = grouped.values[TensorId(static_cast<int>(which))][row * part + x];
  fused.add(OpKind::Attention, {TensorId(0)});
  const Values expected = computed(fused), found = computed(grouped);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-14) << i;

  const auto gradients = [](const OpCase& c) {
    const OpCase full = op_bench::with_backward(c);
    GraphInterpreter interpreter(full.graph, 0, DType::F64);
    op_bench::load(full, interpreter);
    for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
    std::vector<Values> all;
    for (const Tensor& tensor : c.graph.tensors())
      if (tensor.kind == TensorKind::Parameter) all.push_back(op_bench::gradient(full.graph, tensor.id, interpreter));
    return all;
  };
  const std::vector<Values> of_fused = gradients(fused), of_grouped = gradients(grouped);
  for (std::size_t row = 0; row < 300; ++row)
    for (std::size_t which = 0; which < 3; ++which)
      for (std::size_t x = 0; x < part; ++x)
        EXPECT_NEAR(of_grouped[which][row * part + x], of_fused[0][(row * 3 + which) * part + x], 1e-13)
            << row << " " << which << " " << x;
}

TEST(GroupedAttention, CountsScoresAndWeightedValues) {
  const OpCase c = attention({"", 2, 3, 5, 7, 11, 13, 17});
  EXPECT_EQ(graph_flops(c.graph).si(), 2.0 * 2 * 3 * 5 * 7 * 11 * (13 + 17));
  EXPECT_EQ(graph_flops(op_bench::with_backward(c).graph).si(), 3 * 2.0 * 2 * 3 * 5 * 7 * 11 * (13 + 17));
}

TEST(GroupedAttention, MayHaveOneNameForBothWidths) {
  OpCase c;
  const Example s{"", 2, 4, 4, 2, 2, 3, 3};
  const TensorId q = c.parameter("q", query_dims(s)), k = c.parameter("k", key_dims(s, {"d", 3}));
  const TensorId v = c.parameter("v", key_dims(s, {"d", 3}));
  c.add(OpKind::GroupedAttention, {q, k, v}, kCausal);
  EXPECT_EQ(graph_flops(c.graph).si(), 2.0 * 2 * 4 * 4 * 2 * 2 * (3 + 3));
  expect_true_vjp(c);
}

// What is refused of operands with these dimensions.
std::string refused(std::vector<Dim> q, std::vector<Dim> k, std::vector<Dim> v, const Attributes& attributes = {},
                    std::optional<std::vector<Dim>> extra = std::nullopt) {
  return refusal([&] {
    OpCase c;
    std::vector<TensorId> operands = {c.input("q", std::move(q)), c.input("k", std::move(k)),
                                      c.input("v", std::move(v))};
    if (extra) operands.push_back(c.input("extra", *extra));
    c.add(OpKind::GroupedAttention, operands, attributes, "out");
  });
}

TEST(GroupedAttention, RefusesOperandsThatDoNotMeet) {
  const Example s{"", 2, 4, 6, 2, 3, 5, 7};
  const std::vector<Dim> q = query_dims(s), k = key_dims(s, {"d", 5}), v = key_dims(s, {"e", 7});
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  EXPECT_EQ(refused(q, k, v), "not refused");
  EXPECT_EQ(refused(k, k, v),
            "op 'out' (grouped_attention): q must have five dimensions (batch, seq, kv_heads, group, d); it was given "
            "q 'q' f64 (batch=2, kv_seq=6, kv_heads=2, d=5), k 'k' f64 (batch=2, kv_seq=6, kv_heads=2, d=5), "
            "v 'v' f64 (batch=2, kv_seq=6, kv_heads=2, e=7).");
  says(refused(q, key_dims(s, {"d", 4}), v), "k must have four dimensions");
  says(refused(q, k, key_dims({"", 2, 4, 5, 2, 3, 5, 7}, {"e", 7})), "v must have four dimensions");
  says(refused(q, {q[0], q[1], q[2], q[4]}, {q[0], q[1], q[2], {"e", 7}}), "kv_seq must have a name that q has not");
  says(refused(q, k, key_dims(s, {"d", 7})), "e must be the dimension d or have a name of its own");
  says(refused(q, k, key_dims(s, {"group", 3})), "e must be the dimension d or have a name of its own");
  says(refused(q, k, v, {.scale = 0.0}), "its scale must be above 0");
  says(refused(q, k, v, {.causal = true, .attention_window = -1}), "attention_window must be 0, or above 0");
  says(
      refused(q, key_dims({"", 2, 4, 3, 2, 3, 5, 7}, {"d", 5}), key_dims({"", 2, 4, 3, 2, 3, 5, 7}, {"e", 7}), kCausal),
      "at least as many keys as queries");
}

TEST(GroupedAttention, RefusesExtraOperandsThatDoNotFit) {
  const Example s{"", 2, 4, 6, 2, 3, 5, 7};
  const std::vector<Dim> q = query_dims(s), k = key_dims(s, {"d", 5}), v = key_dims(s, {"e", 7});
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const Attributes sink{.extra = Extra::Sink}, bias{.extra = Extra::RelativeBias};
  const Attributes causal_bias{.causal = true, .extra = Extra::RelativeBias};
  const auto table = [&](const char* name, std::int64_t buckets) {
    return std::vector<Dim>{{name, buckets}, q[2], q[3]};
  };
  says(refused(q, k, v, sink), "it takes an extra operand exactly when");
  says(refused(q, k, v, {}, {{q[2], q[3]}}), "it takes an extra operand exactly when");
  says(refused(q, k, v, {.extra = Extra::Alibi}, {{q[2], q[3]}}), "it takes an extra operand exactly when");
  says(refused(q, k, v, sink, {{q[3], q[2]}}), "a sink per head, must have the dimensions (kv_heads, group) of q");
  says(refused(q, k, v, bias, {{q[2], q[3]}}), "must have three dimensions (buckets, kv_heads, group)");
  says(refused(q, k, v, bias, table("e", 8)), "the name of the buckets must be extra's alone");
  says(refused(q, k, v, bias, table("buckets", 9)), "an even number of buckets from 4 to 510");
  says(refused(q, k, v, bias, table("buckets", 2)), "an even number of buckets from 4 to 510");
  says(refused(q, k, v, causal_bias, table("buckets", 1)), "from 2 to 255 buckets");
  says(refused(q, k, v, causal_bias, table("buckets", 256)), "from 2 to 255 buckets");
  const Attributes mask{.extra = Extra::Mask};
  says(refused(q, k, v, mask), "it takes an extra operand exactly when");
  says(refused(q, k, v, mask, {{q[1], q[0], k[1]}}), "extra, a mask, must have the dimensions (batch, seq, kv_seq)");
  says(refused(q, k, v, mask, {{q[0], q[1]}}), "extra, a mask, must have the dimensions (batch, seq, kv_seq)");
  says(refused(q, k, v, mask, {{q[0], q[2], k[1]}}), "extra, a mask, must have the dimensions (batch, seq, kv_seq)");
  EXPECT_EQ(refused(q, k, v, mask, {{q[0], q[1], k[1]}}), "not refused");
  EXPECT_EQ(refused(q, k, v, causal_bias, table("buckets", 255)), "not refused");
  EXPECT_EQ(refused(q, k, v, bias, table("buckets", 510)), "not refused");
}

// --- biases by distance ---

TEST(RelativeBucket, IsT5s) {
  // 32 buckets in both directions: the first distance of each of 16.
  const std::vector<std::int64_t> both = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  // 32 buckets backwards: 16 of one distance, then 16 * 8^(k/16), rounded up.
  const std::vector<std::int64_t> backwards = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                               16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  for (const std::int64_t away : {0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 5000}) {
    const auto bucket = [&](const std::vector<std::int64_t>& begins) {
      return std::upper_bound(begins.begin(), begins.end(), away) - begins.begin() - 1;
    };
    EXPECT_EQ(kernels::relative_bucket(-away, {32, true}), bucket(both)) << away;
    EXPECT_EQ(kernels::relative_bucket(away, {32, true}), bucket(both) + (away > 0 ? 16 : 0)) << away;
    EXPECT_EQ(kernels::relative_bucket(-away, {32, false}), bucket(backwards)) << away;
    EXPECT_EQ(kernels::relative_bucket(away, {32, false}), 0) << away;
  }
}

TEST(AlibiSlope, HalvesPerHeadAndFillsUpFromTheNextPowerOfTwo) {
  for (std::int64_t h = 0; h < 8; ++h)
    EXPECT_DOUBLE_EQ(kernels::alibi_slope(h, 8), std::pow(2.0, -1.0 - static_cast<double>(h)));
  for (std::int64_t h = 0; h < 16; ++h)
    EXPECT_DOUBLE_EQ(kernels::alibi_slope(h, 16), std::pow(2.0, -0.5 * static_cast<double>(h + 1)));
  for (std::int64_t h = 0; h < 8; ++h) EXPECT_EQ(kernels::alibi_slope(h, 12), kernels::alibi_slope(h, 8));
  for (std::int64_t h = 8; h < 12; ++h)
    EXPECT_EQ(kernels::alibi_slope(h, 12), kernels::alibi_slope(2 * (h - 8), 16)) << h;
}

// --- rotary embedding ---

OpCase rotary(std::vector<Dim> dims, const Attributes& attributes = {}) {
  OpCase c;
  c.add(OpKind::Rotary, {c.parameter("x", std::move(dims))}, attributes, "y");
  return c;
}

const std::vector<Dim> kHeads = {{"batch", 2}, {"seq", 4}, {"heads", 2}, {"head_dim", 6}};

// Pairs (j, j + 3) as complex numbers, times e^(i s / 100^(j / 3)).
TEST(Rotary, TurnsHalvesByThePosition) {
  const OpCase c = rotary(kHeads, {.rotary_base = 100.0});
  const Values &x = c.values.at(TensorId(0)), wide = computed(c), narrow = computed(c, c.result(), DType::F32);
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t j = 0; j < 3; ++j) {
      const double position = static_cast<double>(row / 2 % 4);
      const std::complex<double> expected = std::complex(x[row * 6 + j], x[row * 6 + j + 3]) *
                                            std::polar(1.0, position * std::pow(100.0, -static_cast<double>(j) / 3));
      EXPECT_NEAR(wide[row * 6 + j], expected.real(), 1e-15);
      EXPECT_NEAR(wide[row * 6 + j + 3], expected.imag(), 1e-15);
      EXPECT_NEAR(narrow[row * 6 + j], expected.real(), 2e-7);
      EXPECT_NEAR(narrow[row * 6 + j + 3], expected.imag(), 2e-7);
    }
}

TEST(Rotary, LeavesTheElementsBeyondRotaryDims) {
  const OpCase c = rotary(kHeads, {.rotary_dims = 4});
  const Values &x = c.values.at(TensorId(0)), y = computed(c);
  for (std::size_t row = 0; row < 16; ++row) {
    const double position = static_cast<double>(row / 2 % 4);
    EXPECT_NEAR(y[row * 6], x[row * 6] * std::cos(position) - x[row * 6 + 2] * std::sin(position), 1e-15);
    EXPECT_EQ(y[row * 6 + 4], x[row * 6 + 4]);
    EXPECT_EQ(y[row * 6 + 5], x[row * 6 + 5]);
  }
}

// Pair 1 turns by 1 / 100^(1 / 3) / 2 a position, and all are three times as long.
TEST(Rotary, ScalesFrequenciesAndLengths) {
  const OpCase c = rotary(kHeads, {.rotary_base = 100.0, .rotary_divisors = {1.0, 2.0, 4.0}, .rotary_amplitude = 3.0});
  const Values &x = c.values.at(TensorId(0)), y = computed(c);
  const double divisors[] = {1.0, 2.0, 4.0};
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t j = 0; j < 3; ++j) {
      const double position = static_cast<double>(row / 2 % 4);
      const std::complex<double> expected =
          std::complex(x[row * 6 + j], x[row * 6 + j + 3]) *
          std::polar(3.0, position * std::pow(100.0, -static_cast<double>(j) / 3) / divisors[j]);
      EXPECT_NEAR(y[row * 6 + j], expected.real(), 4e-15);
      EXPECT_NEAR(y[row * 6 + j + 3], expected.imag(), 4e-15);
    }
}

// Pairs (2 j, 2 j + 1) of the first four elements.
TEST(Rotary, TurnsNeighboursWhereInterleaved) {
  const OpCase c = rotary(kHeads, {.rotary_base = 100.0, .rotary_dims = 4, .rotary_interleaved = true});
  const Values &x = c.values.at(TensorId(0)), y = computed(c);
  for (std::size_t row = 0; row < 16; ++row) {
    const double position = static_cast<double>(row / 2 % 4);
    for (std::size_t j = 0; j < 2; ++j) {
      const std::complex<double> expected =
          std::complex(x[row * 6 + 2 * j], x[row * 6 + 2 * j + 1]) * std::polar(1.0, position * (j == 0 ? 1.0 : 0.1));
      EXPECT_NEAR(y[row * 6 + 2 * j], expected.real(), 1e-15);
      EXPECT_NEAR(y[row * 6 + 2 * j + 1], expected.imag(), 1e-15);
    }
    EXPECT_EQ(y[row * 6 + 4], x[row * 6 + 4]);
    EXPECT_EQ(y[row * 6 + 5], x[row * 6 + 5]);
  }
}

TEST(Rotary, HasTheTransposedTurnAsGradient) {
  expect_true_vjp(rotary(kHeads, {.rotary_dims = 4, .rotary_interleaved = true}));
  expect_true_vjp(rotary(kHeads));
  expect_true_vjp(rotary(kHeads, {.rotary_divisors = {1.0, 2.0, 4.0}, .rotary_amplitude = 3.0}));
  expect_true_vjp(rotary(kHeads, {.rotary_dims = 4}));
  expect_true_vjp(rotary({{"batch", 2}, {"seq", 4}, {"head_dim", 2}}));
}

TEST(Rotary, CanBeSplitAlongAllButTheHead) {
  const OpCase c = rotary({{"batch", 4}, {"seq", 8}, {"kv_heads", 2}, {"group", 2}, {"head_dim", 4}});
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.name != "head_dim") << axis.name;
  expect_sharded_equals_whole(c, 0.0);
}

TEST(Rotary, RefusesWhatHasNoPairs) {
  const auto message = [](std::vector<Dim> dims, const Attributes& attributes = {}) {
    return refusal([&] { (void)rotary(std::move(dims), attributes); });
  };
  EXPECT_EQ(message({{"seq", 4}, {"head_dim", 2}}),
            "op 'y' (rotary): it needs three dimensions or more, (batch, seq, ..., head_dim); it was given x 'x' f64 "
            "(seq=4, head_dim=2).");
  EXPECT_NE(message({{"batch", 2}, {"seq", 4}, {"head_dim", 3}}).find("an even number of elements"), std::string::npos);
  EXPECT_NE(message(kHeads, {.rotary_dims = 3}).find("an even number of elements"), std::string::npos);
  EXPECT_NE(message(kHeads, {.rotary_dims = 8}).find("an even number of elements"), std::string::npos);
  EXPECT_NE(message(kHeads, {.rotary_base = 0.0}).find("rotary_base must be above 0"), std::string::npos);
  EXPECT_NE(message(kHeads, {.rotary_divisors = {1.0, 2.0}}).find("for each pair that turns"), std::string::npos);
  EXPECT_NE(message(kHeads, {.rotary_divisors = {1.0, 0.0, 2.0}}).find("must be above 0"), std::string::npos);
  EXPECT_NE(message(kHeads, {.rotary_amplitude = 0.0}).find("must be above 0"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::ops_attention_test
