// SPDX-License-Identifier: Apache-2.0
// What the tests of convolutions and pooling share: cases of windows that slide over data, and their plain loops.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/op_fixture.h"

namespace meshwright {

using Sizes = std::vector<std::int64_t>;

// A convolution or pooling: sizes of data and window, and how the window goes. `groups` 0: x and w have no such
// dimension. Pooling reads `in` as its channels.
struct Case {
  const char* name;
  std::int64_t batch, h, w, groups, in, out, kh, kw;
  Sizes stride, before, after;

  [[nodiscard]] std::int64_t group_count() const { return std::max<std::int64_t>(1, groups); }
  [[nodiscard]] std::int64_t stride_of(std::size_t s) const { return stride.empty() ? 1 : stride[s]; }
  [[nodiscard]] std::int64_t before_of(std::size_t s) const { return before.empty() ? 0 : before[s]; }
  [[nodiscard]] std::int64_t after_of(std::size_t s) const { return after.empty() ? 0 : after[s]; }
  [[nodiscard]] std::int64_t rows() const { return (h + before_of(0) + after_of(0) - kh) / stride_of(0) + 1; }
  [[nodiscard]] std::int64_t columns() const { return (w + before_of(1) + after_of(1) - kw) / stride_of(1) + 1; }
  [[nodiscard]] std::vector<Dim> dims(std::vector<Dim> spatial, Dim channel) const {
    std::vector<Dim> all = {{"batch", batch}, spatial[0], spatial[1]};
    if (groups > 0) all.push_back({"groups", groups});
    all.push_back(std::move(channel));
    return all;
  }
  [[nodiscard]] std::vector<Dim> x_dims() const { return dims({{"h", h}, {"w", w}}, {"in", in}); }
  [[nodiscard]] std::vector<Dim> w_dims() const {
    std::vector<Dim> all = {{"kh", kh}, {"kw", kw}, {"in", in}, {"out", out}};
    if (groups > 0) all.insert(all.begin(), {"groups", groups});
    return all;
  }
  // Names that stay where the size stays.
  [[nodiscard]] std::vector<Dim> spatial() const {
    return {{rows() == h ? "h" : "h2", rows()}, {columns() == w ? "w" : "w2", columns()}};
  }
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Calls visit(x element, y element, tap) for every place of x under every window, image by image and place by place;
// the elements are those of the first channel of the first group, `x_channels` and `y_channels` are in one place.
template <class Visit>
void for_each_tap(const Case& c, std::int64_t x_channels, std::int64_t y_channels, Visit visit) {
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t i = 0; i < c.rows(); ++i)
      for (std::int64_t j = 0; j < c.columns(); ++j)
        for (std::int64_t k = 0; k < c.kh; ++k)
          for (std::int64_t l = 0; l < c.kw; ++l) {
            const std::int64_t row = i * c.stride_of(0) - c.before_of(0) + k;
            const std::int64_t column = j * c.stride_of(1) - c.before_of(1) + l;
            if (row < 0 || row >= c.h || column < 0 || column >= c.w) continue;
            visit(((b * c.h + row) * c.w + column) * x_channels, ((b * c.rows() + i) * c.columns() + j) * y_channels,
                  k * c.kw + l);
          }
}

// Within `tolerance` of the largest.
inline void expect_near(const Values& actual, const Values& expected, double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double bound = tolerance * op_bench::largest(expected);
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound) << what << "[" << i << "]";
}

// What a forward op and the ops derived from it make, in the order they were added; for operands and cotangent as
// given.
struct Outcome {
  OpCase c;
  std::vector<Values> results;
};
inline Outcome run_with_backward(const OpCase& forward, DType precision) {
  Outcome run{op_bench::with_backward(forward), {}};
  GraphInterpreter interpreter(run.c.graph, 0, precision);
  op_bench::load(run.c, interpreter);
  for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  for (const Op& op : run.c.graph.ops())
    if (op.kind != OpKind::Accumulate) run.results.push_back(interpreter.get(op.outputs[0]));
  return run;
}
inline Values values_of(const OpCase& c, const std::string& name) {
  for (const auto& [id, values] : c.values)
    if (c.graph.tensor(id).name == name) return values;
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// The axes of an op; "!": reduced, "/": never split.
inline std::string axes_text(const Graph& graph, const Op& op) {
  std::string text;
  for (const IterationAxis& axis : iteration_space(graph, op).axes)
    text += (text.empty() ? "" : " ") + axis.name + (axis.reduction ? "!" : "") + (axis.splittable ? "" : "/");
  return text;
}

}  // namespace meshwright
