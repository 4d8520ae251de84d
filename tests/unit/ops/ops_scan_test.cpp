// SPDX-License-Identifier: Apache-2.0
// The selective scan against plain loops and the closed form of its recurrence.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/op_fixture.h"

namespace meshwright::ops_scan_test {
namespace {

struct Example {
  const char* name;
  std::int64_t batch, chunks, chunk, groups, heads, width, state;
  bool rate_per_number = false;  // of a state, as in Mamba
};
void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

OpCase scan(const Example& s) {
  const Dim batch{"batch", s.batch}, chunks{"chunks", s.chunks}, chunk{"chunk", s.chunk}, groups{"groups", s.groups},
      heads{"heads", s.heads}, width{"d", s.width}, state{"state", s.state};
  OpCase c;
  c.add(
      OpKind::SelectiveScan,
      {c.parameter("x", {batch, chunks, chunk, groups, heads, width}),
       c.parameter("dt", {batch, chunks, chunk, groups, heads}, -2, 2),
       c.parameter("a_log",
                   s.rate_per_number ? std::vector<Dim>{groups, heads, state} : std::vector<Dim>{groups, heads}),
       c.parameter("b", {batch, chunks, chunk, groups, state}), c.parameter("c", {batch, chunks, chunk, groups, state}),
       c.parameter("d", {groups, heads}), c.parameter("dt_bias", {groups, heads})},
      {}, "y");
  return c;
}

// y_t = sum over s <= t of (c_t . b_s) exp(-rate sum of steps s+1..t) step_s x_s, and d x_t: no state at all.
Values by_sums(const Example& s, const OpCase& c) {
  const auto at = [&](std::size_t operand, std::int64_t i) {
    return c.values.at(TensorId(static_cast<int>(operand)))[static_cast<std::size_t>(i)];
  };
  const std::int64_t length = s.chunks * s.chunk;
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  Values y;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t g = 0; g < s.groups; ++g)
        for (std::int64_t h = 0; h < s.heads; ++h)
          for (std::int64_t p = 0; p < s.width; ++p) {
            const std::int64_t head = g * s.heads + h;
            const auto token = [&](std::int64_t u) { return b * length + u; };
            const auto per_head = [&](std::int64_t u) { return token(u) * s.groups * s.heads + head; };
            const auto step = [&](std::int64_t u) { return softplus(at(1, per_head(u)) + at(6, head)); };
            double sum = at(5, head) * at(0, per_head(t) * s.width + p), elapsed = 0.0;
            for (std::int64_t u = t; u >= 0; --u) {
              double along = 0.0;
              for (std::int64_t n = 0; n < s.state; ++n)
                along += at(4, (token(t) * s.groups + g) * s.state + n) *
                         at(3, (token(u) * s.groups + g) * s.state + n) *
                         std::exp(-std::exp(at(2, s.rate_per_number ? head * s.state + n : head)) * elapsed);
              sum += along * step(u) * at(0, per_head(u) * s.width + p);
              elapsed += step(u);
            }
            y.push_back(sum);
          }
  return y;
}

const Example kExamples[] = {
    {"one_chunk", 2, 1, 4, 1, 2, 3, 2},
    {"chunks", 2, 3, 2, 2, 2, 2, 3},
    {"one_token_a_chunk", 1, 4, 1, 2, 1, 2, 2},
    {"many_heads", 2, 2, 2, 2, 4, 1, 1},
    {"rates_of_numbers", 2, 2, 3, 1, 4, 1, 3, true},
    {"rates_of_numbers_of_wide_heads", 1, 3, 2, 2, 2, 2, 2, true},
};

class SelectiveScans : public testing::TestWithParam<Example> {};

TEST_P(SelectiveScans, AreTheirSums) {
  const OpCase c = scan(GetParam());
  const Values expected = by_sums(GetParam(), c), wide = computed(c), narrow = computed(c, c.result(), DType::F32);
  ASSERT_EQ(wide.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(wide[i], expected[i], 1e-14) << i;
    EXPECT_NEAR(narrow[i], expected[i], 1e-6) << i;
  }
}

TEST_P(SelectiveScans, HaveTheGradientsOfTheirDefinition) { expect_true_vjp(scan(GetParam())); }

TEST_P(SelectiveScans, CanBeSplitAlongBatchGroupsAndHeads) {
  const OpCase c = scan(GetParam());
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.size > 1 && (axis.name == "batch" || axis.name == "groups" || axis.name == "heads"))
        << axis.name;
  expect_sharded_equals_whole(c);
}

INSTANTIATE_TEST_SUITE_P(, SelectiveScans, testing::ValuesIn(kExamples),
                         [](const auto& some) { return std::string(some.param.name); });

// Of 2 groups with 2 heads, a chunk of 4, width 8 and state 16, a token takes 2 (2 4 16 + 4 8 (4 + 2 16)).
TEST(SelectiveScan, CountsTheProductsOfItsChunks) {
  const OpCase c = scan({"", 1, 3, 4, 2, 2, 8, 16});
  EXPECT_EQ(graph_flops(c.graph).si(), 12 * 2 * (128 + 1152));
}

// With a rate for each number: 9 for each of 4 heads, 8 wide, with a state of 16.
TEST(SelectiveScan, CountsTheNumbersOfItsStates) {
  EXPECT_EQ(graph_flops(scan({"", 1, 3, 4, 2, 2, 8, 16, true}).graph).si(), 12 * 9 * 4 * 8 * 16);
}

TEST(SelectiveScan, RefusesOperandsThatDoNotFit) {
  OpCase c;
  const TensorId x = c.parameter("x", {{"batch", 2}, {"seq", 4}, {"d", 3}});
  const std::string text = refusal([&] { c.add(OpKind::SelectiveScan, {x, x, x, x, x, x, x}, {}, "y"); });
  EXPECT_NE(text.find("x must have six dimensions (batch, chunks, chunk, groups, heads, d)"), std::string::npos)
      << text;
}

// --- the gated delta rule ---

struct DeltaExample {
  const char* name;
  std::int64_t batch, chunks, chunk, heads, group, d, e;
  bool channels = false;  // of a key have rates of their own
  double least_log = 0.0, strength = 1.0;
};
void PrintTo(const DeltaExample& example, std::ostream* out) { *out << example.name; }

OpCase delta(const DeltaExample& s) {
  const Dim batch{"batch", s.batch}, chunks{"chunks", s.chunks}, chunk{"chunk", s.chunk}, heads{"heads", s.heads},
      group{"group", s.group}, d{"d", s.d}, e{"e", s.e};
  const auto with_channels = [&](std::vector<Dim> dims) {
    if (s.channels) dims.push_back(d);
    return dims;
  };
  OpCase c;
  c.add(OpKind::GatedDelta,
        {c.parameter("q", {batch, chunks, chunk, heads, d}), c.parameter("k", {batch, chunks, chunk, heads, d}),
         c.parameter("v", {batch, chunks, chunk, heads, group, e}),
         c.parameter("b", {batch, chunks, chunk, heads, group}),
         c.parameter("a", with_channels({batch, chunks, chunk, heads, group}), -2, 2),
         c.parameter("a_log", {heads, group}), c.parameter("dt_bias", with_channels({heads, group}))},
        {.scale = s.strength, .value = s.least_log}, "y");
  return c;
}

// y_t = sum over s of (q_t . k_s) decay(s+1..t) u_s / sqrt(d), where u_s answers for all that came before: no state.
Values by_updates(const DeltaExample& s, const OpCase& c) {
  const auto at = [&](int operand, std::int64_t i) {
    return c.values.at(TensorId(operand))[static_cast<std::size_t>(i)];
  };
  const std::int64_t length = s.chunks * s.chunk;
  Values y(static_cast<std::size_t>(s.batch * length * s.heads * s.group * s.e));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t g = 0; g < s.group; ++g) {
        const std::int64_t head = h * s.group + g;
        const auto row = [&](std::int64_t t) { return (b * length + t) * s.heads + h; };
        const auto unit = [&](int operand, std::int64_t t) {
          Values x;
          double squares = 1e-6;
          for (std::int64_t i = 0; i < s.d; ++i) {
            x.push_back(at(operand, row(t) * s.d + i));
            squares += x.back() * x.back();
          }
          for (double& entry : x) entry /= std::sqrt(squares);
          return x;
        };
        const std::int64_t rates = s.channels ? s.d : 1;
        const auto log_decay = [&](std::int64_t t, std::int64_t rate) {
          const double raw = at(4, (row(t) * s.group + g) * rates + rate) + at(6, head * rates + rate);
          if (s.least_log < 0.0) return s.least_log / (1.0 + std::exp(-std::exp(at(5, head)) * raw));
          return -std::exp(at(5, head)) * std::log1p(std::exp(raw));
        };
        const auto decay = [&](std::int64_t from, std::int64_t to, std::int64_t i) {  // of tokens from + 1 to `to`
          double sum = 0.0;
          for (std::int64_t t = from + 1; t <= to; ++t) sum += log_decay(t, s.channels ? i : 0);
          return std::exp(sum);
        };
        // k_u . x, each channel of k decayed up to t.
        const auto decayed = [&](std::int64_t u, const Values& x, std::int64_t t) {
          const Values k = unit(1, u);
          double sum = 0.0;
          for (std::size_t i = 0; i < k.size(); ++i) sum += k[i] * x[i] * decay(u, t, static_cast<std::int64_t>(i));
          return sum;
        };
        std::vector<Values> updates;
        for (std::int64_t t = 0; t < length; ++t) {
          const double beta = s.strength / (1.0 + std::exp(-at(3, row(t) * s.group + g)));
          Values update, result;
          for (std::int64_t e = 0; e < s.e; ++e) {
            double error = at(2, (row(t) * s.group + g) * s.e + e);
            for (std::int64_t u = 0; u < t; ++u)
              error -= decayed(u, unit(1, t), t) * updates[static_cast<std::size_t>(u)][static_cast<std::size_t>(e)];
            update.push_back(beta * error);
          }
          updates.push_back(update);
          for (std::int64_t e = 0; e < s.e; ++e) {
            double sum = 0.0;
            for (std::int64_t u = 0; u <= t; ++u)
              sum += decayed(u, unit(0, t), t) * updates[static_cast<std::size_t>(u)][static_cast<std::size_t>(e)];
            y[static_cast<std::size_t>((row(t) * s.group + g) * s.e + e)] = sum / std::sqrt(static_cast<double>(s.d));
          }
        }
      }
  return y;
}

const DeltaExample kDeltaExamples[] = {
    {"one_chunk", 2, 1, 4, 1, 2, 3, 2},
    {"chunks", 2, 3, 2, 2, 2, 2, 3},
    {"one_token_a_chunk", 1, 4, 1, 2, 1, 2, 2},
    {"many_heads", 2, 2, 2, 4, 2, 2, 1},
    {"rates_of_channels", 2, 2, 2, 2, 2, 3, 2, true},
    {"bounded_rates_of_channels", 1, 3, 2, 2, 1, 3, 2, true, -5.0},
    {"bounded_rates", 1, 2, 2, 2, 2, 2, 2, false, -2.0},
    {"strong_updates", 2, 2, 2, 2, 2, 2, 2, false, 0.0, 2.0},
};

class GatedDeltas : public testing::TestWithParam<DeltaExample> {};

TEST_P(GatedDeltas, AreTheirUpdates) {
  const OpCase c = delta(GetParam());
  const Values expected = by_updates(GetParam(), c), wide = computed(c), narrow = computed(c, c.result(), DType::F32);
  ASSERT_EQ(wide.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(wide[i], expected[i], 1e-14) << i;
    EXPECT_NEAR(narrow[i], expected[i], 1e-6) << i;
  }
}

TEST_P(GatedDeltas, HaveTheGradientsOfTheirDefinition) { expect_true_vjp(delta(GetParam())); }

TEST_P(GatedDeltas, CanBeSplitAlongBatchHeadsAndGroup) {
  const OpCase c = delta(GetParam());
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.size > 1 && (axis.name == "batch" || axis.name == "heads" || axis.name == "group"))
        << axis.name;
  expect_sharded_equals_whole(c);
}

INSTANTIATE_TEST_SUITE_P(, GatedDeltas, testing::ValuesIn(kDeltaExamples),
                         [](const auto& some) { return std::string(some.param.name); });

// Of 2 heads with a group of 3, a chunk of 4, d 8 and e 16, a token takes 2 2 (2 4 8 + 3 (4 8 + 2 4 16 + 3 8 16)).
TEST(GatedDelta, CountsTheProductsOfItsChunks) {
  const OpCase c = delta({"", 1, 3, 4, 2, 3, 8, 16});
  EXPECT_EQ(graph_flops(c.graph).si(), 12 * 2 * 2 * (64 + 3 * 544));
}

// --- the RMS norm of groups, each with its gamma ---

OpCase grouped_norm() {
  OpCase c;
  c.add(OpKind::RmsNorm,
        {c.parameter("x", {{"batch", 4}, {"groups", 2}, {"d", 3}}), c.parameter("gamma", {{"groups", 2}, {"d", 3}})},
        {.epsilon = 1e-5}, "y");
  return c;
}

TEST(GroupedRmsNorm, ScalesEachRowByTheGammaOfItsGroup) {
  const OpCase c = grouped_norm();
  const Values &x = c.values.at(TensorId(0)), &gamma = c.values.at(TensorId(1)), y = computed(c);
  for (std::size_t row = 0; row < 8; ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < 3; ++i) squares += x[row * 3 + i] * x[row * 3 + i];
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(y[row * 3 + i], x[row * 3 + i] / std::sqrt(squares / 3 + 1e-5) * gamma[row % 2 * 3 + i], 1e-14);
  }
}

TEST(GroupedRmsNorm, HasItsGradientsAndCanBeSplitAlongGroups) {
  const OpCase c = grouped_norm();
  expect_true_vjp(c);
  expect_sharded_equals_whole(c);
}

}  // namespace
}  // namespace meshwright::ops_scan_test
