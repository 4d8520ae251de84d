// SPDX-License-Identifier: Apache-2.0
// Arguments of PyTorch's ops that change numbers, and types that PyTorch gives results: what exported programs compute
// is held against formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/refusal.h"
#include "tests/unit/import/torch_numbers.h"

namespace meshwright::torch_arguments_test {
namespace {

using namespace torch_numbers;

constexpr int kLong = 5, kFloat = 7, kBool = 12;  // torch.dtype codes of files

Json x() { return tensor_named("x"); }
Json truth(bool value) { return {{"as_bool", value}}; }
Json counted(std::int64_t start, std::int64_t end, const std::string& name) {
  return call("arange", {{"start", whole(start)}, {"end", whole(end)}}, name);
}
// y = x times the row `name`.
Json times(const std::string& name) { return call("mul", {{"self", x()}, {"other", tensor_named(name)}}, "y"); }

void expect_row(const std::string& what, std::vector<Json> calls, const std::function<double(std::int64_t)>& of_column,
                const Declared& declared = {}) {
  calls.push_back(times("row"));
  expect_elements(
      what, calls, kWidth, [&](std::int64_t s, std::int64_t c) { return x_at(s, c) * of_column(c); }, {}, declared);
}

void expect_refused(const std::vector<Json>& calls, const std::string& why, const Declared& declared = {}) {
  const std::string told = refusal([&] { return program(calls, {}, declared); });
  EXPECT_NE(told.find(why), std::string::npos) << told;
}

// --- whole numbers beside others ---

TEST(TorchTypes, AQuotientByAFractionKeepsWhatIsBehindThePoint) {
  const std::vector<Json> calls = {counted(0, 6, "n"),
                                   call("add", {{"self", tensor_named("n")}, {"other", real(0.5)}}, "d"),
                                   call("div", {{"self", tensor_named("n")}, {"other", tensor_named("d")}}, "row")};
  expect_row("n / (n + 0.5)", calls,
             [](std::int64_t c) { return static_cast<double>(c) / (static_cast<double>(c) + 0.5); });
}

TEST(TorchTypes, ASumToAFloatingPointTypeIsDividedAsSuch) {
  const std::vector<Json> calls = {
      call("ones", {{"size", wholes({6})}, {"dtype", {{"as_scalar_type", kLong}}}}, "one"),
      call("cumsum", {{"self", tensor_named("one")}, {"dim", whole(0)}, {"dtype", {{"as_scalar_type", kFloat}}}}, "n"),
      call("div", {{"self", tensor_named("n")}, {"other", whole(4)}}, "row")};
  expect_row("(1, 2, ..., 6) / 4", calls, [](std::int64_t c) { return static_cast<double>(c + 1) / 4.0; },
             {{"n", {kFloat, {6}}}});
}

TEST(TorchTypes, WholeNumbersAreFactorsOfOthers) {
  expect_row("counted", {counted(0, 6, "row")}, [](std::int64_t c) { return static_cast<double>(c); });
}

TEST(TorchTypes, StepsOfAFractionAreNoWholeNumbers) {
  expect_row("0, 0.25, ...",
             {call("arange", {{"start", real(0.0)}, {"end", real(1.5)}, {"step", real(0.25)}}, "n"),
              call("div", {{"self", tensor_named("n")}, {"other", whole(2)}}, "row")},
             [](std::int64_t c) { return 0.125 * static_cast<double>(c); });
}

TEST(TorchTypes, TruthValuesAreZeroAndOne) {
  const Json to_bool = {{"as_scalar_type", kBool}};
  const Declared types = {{"n", {kLong, {6}}}, {"m", {kLong, {6}}}};
  const auto both = [](const char* op) {
    return std::vector<Json>{counted(0, 6, "n"), counted(-3, 3, "m"),
                             call(op, {{"self", tensor_named("n")}, {"other", tensor_named("m")}}, "row")};
  };
  expect_row(
      "to bool", {counted(0, 6, "n"), call("to", {{"self", tensor_named("n")}, {"dtype", to_bool}}, "row")},
      [](std::int64_t c) { return c > 0 ? 1.0 : 0.0; }, types);
  expect_row(
      "and", both("logical_and"), [](std::int64_t c) { return c > 0 && c != 3 ? 1.0 : 0.0; }, types);
  expect_row(
      "or", both("logical_or"), [](std::int64_t) { return 1.0; }, types);
}

TEST(TorchTypes, QuotientsAreRoundedDownWhereTheyAreNegative) {
  expect_row("floor",
             {counted(-3, 3, "n"), call("floor_divide", {{"self", tensor_named("n")}, {"other", whole(2)}}, "row")},
             [](std::int64_t c) { return std::floor(static_cast<double>(c - 3) / 2.0); });
}

TEST(TorchTypes, BitsOfWholeNumbersAreRefused) {
  const std::vector<Json> calls = {
      counted(0, 6, "n"), call("bitwise_and", {{"self", tensor_named("n")}, {"other", whole(5)}}, "row"), times("row")};
  expect_refused(calls, "bits of whole numbers", {{"row", {kLong, {6}}}});
}

TEST(TorchTypes, AResultOfAnotherShapeThanTheFilesIsRefused) {
  const std::vector<Json> calls = {call("neg", {{"self", x()}}, "y")};
  expect_refused(calls, "another shape", {{"y", {kFloat, {4, 3}}}});
}

// --- arguments ---

TEST(TorchArguments, OperandsHaveTheirFactors) {
  expect_elements("5 - 2 x", {call("rsub", {{"self", x()}, {"other", whole(5)}, {"alpha", whole(2)}}, "y")}, kWidth,
                  [](std::int64_t s, std::int64_t c) { return 5.0 - 2.0 * x_at(s, c); });
  // 0.5 r + 3 x w, where w sums two columns and r is (1, 2)
  const Numbers w = {1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0};
  expect_elements("addmm",
                  {call("addmm",
                        {{"self", tensor_named("r")},
                         {"mat1", x()},
                         {"mat2", tensor_named("w")},
                         {"beta", real(0.5)},
                         {"alpha", whole(3)}},
                        "y")},
                  2,
                  [](std::int64_t s, std::int64_t c) {
                    return 0.5 * static_cast<double>(c + 1) + 3.0 * (x_at(s, 2 * c) + x_at(s, 2 * c + 1));
                  },
                  {{"w", {{6, 2}, w}}, {"r", {{2}, {1, 2}}}});
}

TEST(TorchArguments, SizesAreNumbers) {
  const Json size = {{"as_sym_int", {{"as_int", 6}}}};
  expect_elements("x / 6", {call("div", {{"self", x()}, {"other", size}}, "y")}, kWidth,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, c) / 6.0; });
}

TEST(TorchArguments, ASoftplusIsALineBehindItsThreshold) {
  expect_elements(
      "threshold 1", {call("softplus", {{"self", x()}, {"threshold", whole(1)}}, "y")}, kWidth,
      [](std::int64_t s, std::int64_t c) { return x_at(s, c) > 1.0 ? x_at(s, c) : std::log1p(std::exp(x_at(s, c))); });
}

// Windows of two elements begin at 0 and 3; one at 6, which rounding up would make, would lie behind the image.
TEST(TorchArguments, WindowsBeginWithinTheImage) {
  const auto pool = [](const char* op, std::vector<std::pair<std::string, Json>> more) {
    std::vector<std::pair<std::string, Json>> given = {
        {"self", tensor_named("r")}, {"kernel_size", wholes({2})}, {"stride", wholes({3})}, {"ceil_mode", truth(true)}};
    given.insert(given.end(), more.begin(), more.end());
    return std::vector<Json>{call("unsqueeze", {{"self", x()}, {"dim", whole(1)}}, "r"), call(op, given, "p"),
                             call("squeeze", {{"self", tensor_named("p")}}, "y")};
  };
  expect_elements("largest", pool("max_pool1d", {}), 2,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, 3 * c + 1); });
  expect_elements("mean", pool("avg_pool1d", {}), 2,
                  [](std::int64_t s, std::int64_t c) { return 0.5 * (x_at(s, 3 * c) + x_at(s, 3 * c + 1)); });
}

TEST(TorchArguments, AnAverageMayDivideByAnotherNumber) {
  const Json image = call("view", {{"self", x()}, {"size", wholes({4, 1, 2, 3})}}, "i");
  const Json pooled = call("avg_pool2d",
                           {{"self", tensor_named("i")},
                            {"kernel_size", wholes({2, 3})},
                            {"padding", wholes({1, 0})},
                            {"stride", wholes({2, 3})},
                            {"divisor_override", whole(4)}},
                           "p");
  expect_elements("a quarter of each row's sum",
                  {image, pooled, call("flatten", {{"self", tensor_named("p")}, {"start_dim", whole(1)}}, "y")}, 2,
                  [](std::int64_t s, std::int64_t row) {
                    return (x_at(s, 3 * row) + x_at(s, 3 * row + 1) + x_at(s, 3 * row + 2)) / 4.0;
                  });
}

TEST(TorchArguments, IndicesBelowZeroCountFromTheEnd) {
  expect_elements("the last two",
                  {counted(-2, 0, "n"),
                   call("index_select", {{"self", x()}, {"dim", whole(1)}, {"index", tensor_named("n")}}, "y")},
                  2, [](std::int64_t s, std::int64_t c) { return x_at(s, 4 + c); });
}

// The one query is the first position: it sees the first key alone.
TEST(TorchArguments, CausalQueriesAreTheFirstPositions) {
  const Json keys = call("view", {{"self", x()}, {"size", wholes({4, 1, 3, 2})}}, "k");
  const Json query =
      call("slice", {{"self", tensor_named("k")}, {"dim", whole(2)}, {"start", whole(0)}, {"end", whole(1)}}, "q");
  const Json attended = call("scaled_dot_product_attention",
                             {{"query", tensor_named("q")},
                              {"key", tensor_named("k")},
                              {"value", tensor_named("k")},
                              {"is_causal", truth(true)}},
                             "a");
  expect_elements("the first value",
                  {keys, query, attended, call("flatten", {{"self", tensor_named("a")}, {"start_dim", whole(1)}}, "y")},
                  2, [](std::int64_t s, std::int64_t c) { return x_at(s, c); });
}

// Three positions of two numbers, of which one product makes queries, keys and values of two heads. Each head adds its
// slope times the distance of a key, 1/16 and 1/256, up to 0 at the last one: an attention that reads the product whole
// would lose it.
TEST(TorchArguments, SlopesOfHeadsAreKeptWhereOneProductMakesAll) {
  Numbers w;
  for (int i = 0; i < 24; ++i) w.push_back(std::sin(i));
  const auto cut = [](std::int64_t start, const std::string& name) {
    return std::vector<Json>{
        call("slice",
             {{"self", tensor_named("p")}, {"dim", whole(2)}, {"start", whole(start)}, {"end", whole(start + 4)}},
             name + "1"),
        call("view", {{"self", tensor_named(name + "1")}, {"size", wholes({4, 3, 2, 2})}}, name + "2"),
        call("transpose", {{"self", tensor_named(name + "2")}, {"dim0", whole(1)}, {"dim1", whole(2)}}, name)};
  };
  std::vector<Json> calls = {call("view", {{"self", x()}, {"size", wholes({4, 3, 2})}}, "a"),
                             call("matmul", {{"self", tensor_named("a")}, {"other", tensor_named("w")}}, "p")};
  for (const auto& [start, name] : {std::pair{0, "q"}, std::pair{4, "k"}, std::pair{8, "v"}})
    for (const Json& one : cut(start, name)) calls.push_back(one);
  const std::vector<Json> rest = {
      call("transpose", {{"self", tensor_named("k")}, {"dim0", whole(2)}, {"dim1", whole(3)}}, "kt"),
      call("matmul", {{"self", tensor_named("q")}, {"other", tensor_named("kt")}}, "s1"),
      call("mul", {{"self", tensor_named("s1")}, {"other", real(std::sqrt(0.5))}}, "s2"),
      call("arange", {{"start", whole(-4)}, {"end", whole(-9)}, {"step", whole(-4)}}, "e"),
      call("pow", {{"self", real(2.0)}, {"exponent", tensor_named("e")}}, "m"),
      call("view", {{"self", tensor_named("m")}, {"size", wholes({2, 1, 1})}}, "slopes"),
      counted(-2, 1, "ahead"),
      call("mul", {{"self", tensor_named("slopes")}, {"other", tensor_named("ahead")}}, "bias"),
      call("add", {{"self", tensor_named("s2")}, {"other", tensor_named("bias")}}, "s3"),
      call("ones", {{"size", wholes({3, 3})}}, "one"),
      call("triu", {{"self", tensor_named("one")}, {"diagonal", whole(1)}}, "later"),
      call("masked_fill", {{"self", tensor_named("s3")}, {"mask", tensor_named("later")}, {"value", real(-1e30)}},
           "s4"),
      call("softmax", {{"self", tensor_named("s4")}, {"dim", whole(-1)}}, "c"),
      call("matmul", {{"self", tensor_named("c")}, {"other", tensor_named("v")}}, "o"),
      call("select", {{"self", tensor_named("o")}, {"dim", whole(1)}, {"index", whole(0)}}, "y")};
  calls.insert(calls.end(), rest.begin(), rest.end());
  const auto made = [&](std::int64_t s, std::int64_t position, std::int64_t column) {
    return x_at(s, 2 * position) * w[static_cast<std::size_t>(column)] +
           x_at(s, 2 * position + 1) * w[static_cast<std::size_t>(12 + column)];
  };
  const auto attended = [&](std::int64_t s, std::int64_t i) {
    const std::int64_t query = i / 2;
    double sum = 0.0, all = 0.0;
    for (std::int64_t key = 0; key <= query; ++key) {
      double score = 0.0;
      for (std::int64_t d = 0; d < 2; ++d) score += made(s, query, d) * made(s, key, 4 + d);
      const double share = std::exp(score * std::sqrt(0.5) + static_cast<double>(key) / 16.0);
      sum += share;
      all += share * made(s, key, 8 + i % 2);
    }
    return all / sum;
  };
  // "w.0", "w.1" and "w.2" are its columns of queries, keys and values.
  Parameters parameters = {{"w", {{2, 12}, w}}};
  for (std::size_t part = 0; part < 3; ++part) {
    Numbers columns;
    for (std::size_t i = 0; i < 8; ++i) columns.push_back(w[i / 4 * 12 + part * 4 + i % 4]);
    parameters["w." + std::to_string(part)] = {{2, 4}, columns};
  }
  expect_elements("head 0", calls, 6, attended, parameters);
}

TEST(TorchArguments, WhatHasNoEqualIsRefused) {
  const std::vector<Json> repeated = {
      counted(0, 6, "n"),
      call("repeat_interleave", {{"self", x()}, {"repeats", tensor_named("n")}, {"dim", whole(1)}}, "y")};
  expect_refused(repeated, "each element's own number");
  const std::vector<Json> decimals = {call("round", {{"self", x()}, {"decimals", whole(1)}}, "y")};
  expect_refused(decimals, "decimals");
  const std::vector<Json> by_truth = {call("gt", {{"self", x()}, {"other", whole(0)}}, "m"),
                                      call("index", {{"self", x()}, {"indices", tensors({"m"})}}, "y")};
  expect_refused(by_truth, "truth values", {{"m", {kBool, {4, 6}}}});
}

// --- ops made of several ---

TEST(TorchOpsOfSeveral, AreTheirFormulas) {
  const auto each = [](const char* op, std::vector<std::pair<std::string, Json>> more, auto of) {
    std::vector<std::pair<std::string, Json>> given = {{"self", x()}};
    given.insert(given.end(), more.begin(), more.end());
    expect_elements(op, {call(op, given, "y")}, kWidth, [&](std::int64_t s, std::int64_t c) { return of(x_at(s, c)); });
  };
  each("softshrink", {{"lambd", whole(1)}}, [](double v) { return v > 1 ? v - 1 : v < -1 ? v + 1 : 0.0; });
  each("hardshrink", {{"lambd", whole(1)}}, [](double v) { return std::abs(v) > 1 ? v : 0.0; });
  each("threshold", {{"threshold", whole(1)}, {"value", whole(7)}}, [](double v) { return v > 1 ? v : 7.0; });
  each("sign", {}, [](double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; });
  each("exp2", {}, [](double v) { return std::exp2(v); });
  each("erfc", {}, [](double v) { return std::erfc(v); });
}

TEST(TorchOpsOfSeveral, LieWhereTheyArePut) {
  expect_elements("flip", {call("flip", {{"self", x()}, {"dims", wholes({-1})}}, "y")}, kWidth,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, 5 - c); });
  // Windows are (batch, window, element): all elements of one window, or one element of all windows.
  const auto windows = [](std::int64_t size, std::int64_t step, std::int64_t dim, std::int64_t index) {
    return std::vector<Json>{
        call("unfold", {{"self", x()}, {"dimension", whole(1)}, {"size", whole(size)}, {"step", whole(step)}}, "w"),
        call("select", {{"self", tensor_named("w")}, {"dim", whole(dim)}, {"index", whole(index)}}, "y")};
  };
  expect_elements("window 1 of 4 elements", windows(4, 2, 1, 1), 4,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, 2 + c); });
  expect_elements("element 1 of windows of 2", windows(2, 1, 2, 1), 5,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, c + 1); });
  const Json two = call("slice", {{"self", x()}, {"dim", whole(1)}, {"start", whole(4)}}, "p");
  expect_elements(
      "scatter",
      {two, call("slice_scatter",
                 {{"self", x()}, {"src", tensor_named("p")}, {"dim", whole(1)}, {"start", whole(1)}, {"end", whole(3)}},
                 "y")},
      kWidth, [](std::int64_t s, std::int64_t c) { return x_at(s, c == 1 || c == 2 ? c + 3 : c); });
}

// Results that lie two elements apart are means of four, weighed by a triangle; at the ends of three.
TEST(TorchOpsOfSeveral, AntialiasedImagesAreMeansOfWhatLiesAround) {
  const Json image = call("view", {{"self", x()}, {"size", wholes({4, 1, 1, 6})}}, "i");
  const Json small =
      call("_upsample_bilinear2d_aa",
           {{"input", tensor_named("i")}, {"output_size", wholes({1, 3})}, {"align_corners", truth(false)}}, "r");
  expect_elements("a half", {image, small, call("view", {{"self", tensor_named("r")}, {"size", wholes({4, 3})}}, "y")},
                  3, [](std::int64_t s, std::int64_t c) {
                    if (c == 0) return (3 * x_at(s, 0) + 3 * x_at(s, 1) + x_at(s, 2)) / 7;
                    if (c == 2) return (3 * x_at(s, 5) + 3 * x_at(s, 4) + x_at(s, 3)) / 7;
                    return (x_at(s, 1) + 3 * x_at(s, 2) + 3 * x_at(s, 3) + x_at(s, 4)) / 8;
                  });
}

TEST(TorchOpsOfSeveral, RowsOfNoElementAreNoPieces) {
  expect_elements("x and nothing",
                  {call("empty", {{"size", wholes({0})}}, "none"),
                   call("cat", {{"tensors", tensors({"none", "x"})}, {"dim", whole(1)}}, "y")},
                  kWidth, [](std::int64_t s, std::int64_t c) { return x_at(s, c); });
}

// A window of five hangs over an image of three, whose mean is the only result.
TEST(TorchArguments, AWindowMayBeWiderThanTheImageWhereRoundedUp) {
  const Json image = call("view", {{"self", x()}, {"size", wholes({4, 2, 3})}}, "i");
  const Json pooled =
      call("avg_pool1d", {{"self", tensor_named("i")}, {"kernel_size", wholes({5})}, {"ceil_mode", truth(true)}}, "p");
  expect_elements("mean of three",
                  {image, pooled, call("view", {{"self", tensor_named("p")}, {"size", wholes({4, 2})}}, "y")}, 2,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, 3 * c + 1); });
}

TEST(TorchOpsOfSeveral, ReduceRows) {
  const auto row = [](const char* op, auto of) {
    expect_elements(op, {call(op, {{"self", x()}, {"dim", wholes({1})}, {"keepdim", truth(true)}}, "y")}, 1, of);
  };
  row("amin", [](std::int64_t s, std::int64_t) { return x_at(s, 0); });
  row("logsumexp", [](std::int64_t s, std::int64_t) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < kWidth; ++c) sum += std::exp(x_at(s, c));
    return std::log(sum);
  });
  expect_elements("norm of order 3",
                  {call("linalg_vector_norm",
                        {{"self", x()}, {"ord", whole(3)}, {"dim", wholes({1})}, {"keepdim", truth(true)}}, "y")},
                  1, [](std::int64_t s, std::int64_t) {
                    double sum = 0.0;
                    for (std::int64_t c = 0; c < kWidth; ++c) sum += std::pow(std::abs(x_at(s, c)), 3);
                    return std::cbrt(sum);
                  });
}

}  // namespace
}  // namespace meshwright::torch_arguments_test
