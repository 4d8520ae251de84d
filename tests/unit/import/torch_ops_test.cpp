// SPDX-License-Identifier: Apache-2.0
// Ops of PyTorch's exported programs, held against their formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "core/graph/import/model_file.h"
#include "core/graph/import/primitive/builder.h"
#include "executor/check/graph_interpreter.h"
#include "tests/refusal.h"
#include "tests/unit/import/torch_numbers.h"

namespace meshwright::torch_ops_test {
namespace {

using namespace torch_numbers;

TEST(TorchOps, FunctionsOfOneNumberAreTheirFormulas) {
  const Json x = tensor_named("x");
  const auto softplus = [](double v) { return std::log1p(std::exp(v)); };
  const auto hard = [](double v) { return std::clamp(v / 6.0 + 0.5, 0.0, 1.0); };
  struct Case {
    std::string op;
    std::vector<std::pair<std::string, Json>> more;
    std::function<double(double)> value;
  };
  const std::vector<Case> cases = {
      {"square", {}, [](double v) { return v * v; }},
      {"expm1", {}, [](double v) { return std::expm1(v); }},
      {"clamp", {{"min", real(-1.5)}, {"max", whole(2)}}, [](double v) { return std::clamp(v, -1.5, 2.0); }},
      {"clamp_min", {{"min", real(-1.5)}}, [](double v) { return std::max(v, -1.5); }},
      {"hardtanh", {}, [](double v) { return std::clamp(v, -1.0, 1.0); }},
      {"hardsigmoid", {}, hard},
      {"hardswish", {}, [&](double v) { return v * hard(v); }},
      {"leaky_relu", {{"negative_slope", real(0.25)}}, [](double v) { return v > 0 ? v : 0.25 * v; }},
      {"elu", {{"alpha", real(0.5)}}, [](double v) { return v > 0 ? v : 0.5 * std::expm1(v); }},
      {"softplus", {{"beta", real(2.0)}}, [&](double v) { return softplus(2.0 * v) / 2.0; }},
      {"mish", {}, [&](double v) { return v * std::tanh(softplus(v)); }},
      {"log_sigmoid", {}, [](double v) { return -std::log1p(std::exp(-v)); }},
      {"max", {{"other", tensor_named("x")}}, [](double v) { return v; }}};
  for (const Case& one : cases) {
    std::vector<std::pair<std::string, Json>> inputs = {{"self", x}};
    inputs.insert(inputs.end(), one.more.begin(), one.more.end());
    expect_elements(one.op,
                    {call(one.op, inputs, "a"), call("mul", {{"self", tensor_named("a")}, {"other", real(2.0)}}, "y")},
                    kWidth, [&](std::int64_t s, std::int64_t c) { return 2.0 * one.value(x_at(s, c)); });
  }
}

TEST(TorchOps, BoundsOnBothSidesAreOneOpAndHoldTheirNumbers) {
  const auto twice = call("mul", {{"self", tensor_named("b")}, {"other", real(2.0)}}, "y");
  const auto bound = [](const char* op, const char* of, const char* side, double number, const char* to) {
    return call(op, {{"self", tensor_named(of)}, {side, real(number)}}, to);
  };
  const auto relu = call("relu", {{"self", tensor_named("x")}}, "a");
  struct Case {
    std::vector<Json> calls;
    double low, high;
    int clamps;
  };
  const std::vector<Case> cases = {
      {{relu, bound("clamp_max", "a", "max", 2.0, "b"), twice}, 0.0, 2.0, 1},
      {{bound("clamp_max", "x", "max", 2.0, "a"), bound("clamp_min", "a", "min", -1.0, "b"), twice}, -1.0, 2.0, 1},
      {{bound("clamp_min", "x", "min", -1.0, "a"), bound("clamp_max", "a", "max", 2.0, "b"), twice}, -1.0, 2.0, 1},
      // The second bound lies on the other side of the first: all is that number.
      {{bound("clamp_min", "x", "min", 3.0, "a"), bound("clamp_max", "a", "max", 2.0, "b"), twice}, 2.0, 2.0, 2},
  };
  for (const Case& one : cases) {
    expect_elements("bounds", one.calls, kWidth,
                    [&](std::int64_t s, std::int64_t c) { return 2.0 * std::clamp(x_at(s, c), one.low, one.high); });
    const Graph graph = build_training_graph(program(one.calls), {.batch = kBatch});
    int clamps = 0, rectifiers = 0;
    for (const Op& op : graph.ops()) {
      clamps += op.kind == OpKind::Clamp ? 1 : 0;
      rectifiers += op.kind == OpKind::Relu ? 1 : 0;
    }
    EXPECT_EQ(clamps, one.clamps);
    EXPECT_EQ(rectifiers, 0);
  }
}

// x sigmoid(a x) = silu(a x) / a: one function, as of quick GELU.
TEST(TorchOps, ASigmoidOfAMultipleIsASilu) {
  const std::vector<Json> calls = {call("mul", {{"self", tensor_named("x")}, {"other", real(1.75)}}, "a"),
                                   call("sigmoid", {{"self", tensor_named("a")}}, "b"),
                                   call("mul", {{"self", tensor_named("x")}, {"other", tensor_named("b")}}, "c"),
                                   call("mul", {{"self", tensor_named("c")}, {"other", real(2.0)}}, "y")};
  expect_elements("quick gelu", calls, kWidth, [&](std::int64_t s, std::int64_t c) {
    const double x = x_at(s, c);
    return 2.0 * x / (1.0 + std::exp(-1.75 * x));
  });
  const Graph graph = build_training_graph(program(calls), {.batch = kBatch});
  EXPECT_TRUE(
      std::none_of(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Sigmoid; }));
}

TEST(TorchOps, PiecesLieWhereTheyArePut) {
  const Json x = tensor_named("x");
  const auto doubled = [](const std::string& of) {
    return call("mul", {{"self", tensor_named(of)}, {"other", real(2.0)}}, "y");
  };
  // 0 a b c d e f 0 0
  expect_elements("pad", {call("pad", {{"self", x}, {"pad", wholes({1, 2})}}, "a"), doubled("a")}, kWidth + 3,
                  [](std::int64_t s, std::int64_t c) { return c >= 1 && c <= kWidth ? 2.0 * x_at(s, c - 1) : 0.0; });
  // e f a b c d
  expect_elements("roll",
                  {call("roll", {{"self", x}, {"shifts", wholes({2})}, {"dims", wholes({1})}}, "a"), doubled("a")},
                  kWidth, [](std::int64_t s, std::int64_t c) { return 2.0 * x_at(s, (c + kWidth - 2) % kWidth); });
  // b d f
  expect_elements(
      "every second",
      {call("slice", {{"self", x}, {"dim", whole(1)}, {"start", whole(1)}, {"step", whole(2)}}, "a"), doubled("a")},
      kWidth / 2, [](std::int64_t s, std::int64_t c) { return 2.0 * x_at(s, 2 * c + 1); });
  // a b c d e f a b c d e f
  expect_elements("repeat", {call("repeat", {{"self", x}, {"repeats", wholes({1, 2})}}, "a"), doubled("a")}, 2 * kWidth,
                  [](std::int64_t s, std::int64_t c) { return 2.0 * x_at(s, c % kWidth); });
  // c d e
  expect_elements(
      "narrow",
      {call("narrow", {{"self", x}, {"dim", whole(1)}, {"start", whole(2)}, {"length", whole(3)}}, "a"), doubled("a")},
      3, [](std::int64_t s, std::int64_t c) { return 2.0 * x_at(s, c + 2); });
  // a -a b -b c -c ...
  expect_elements("stack",
                  {call("neg", {{"self", x}}, "minus"),
                   call("stack", {{"tensors", tensors({"x", "minus"})}, {"dim", whole(-1)}}, "pairs"),
                   call("flatten", {{"self", tensor_named("pairs")}, {"start_dim", whole(1)}}, "a"), doubled("a")},
                  2 * kWidth,
                  [](std::int64_t s, std::int64_t c) { return (c % 2 == 0 ? 2.0 : -2.0) * x_at(s, c / 2); });
}

// Samples (2 channels, 1, 3): made of halves, of pairs, and larger.
TEST(TorchOps, ImagesAreEnlargedAndPooledElementByElement) {
  const auto shaped = [](const std::string& of, const std::vector<std::int64_t>& to, const std::string& made) {
    return call("view", {{"self", tensor_named(of)}, {"size", wholes(to)}}, made);
  };
  const Json image = shaped("x", {kBatch, 2, 1, 3}, "image"), input = tensor_named("image");
  expect_elements("nearest",
                  {image, call("upsample_nearest2d", {{"input", input}, {"output_size", wholes({2, 6})}}, "a"),
                   shaped("a", {kBatch, 24}, "y")},
                  24, [](std::int64_t s, std::int64_t c) { return x_at(s, c / 12 * 3 + c % 6 / 2); });
  // Each element times (1, 2) and (10, 20) for the two channels that are made of each, plus their biases.
  expect_elements(
      "transposed convolution",
      {image,
       call("conv_transpose2d",
            {{"input", input}, {"weight", tensor_named("w")}, {"bias", tensor_named("b")}, {"stride", wholes({1, 2})}},
            "a"),
       shaped("a", {kBatch, 12}, "y")},
      12,
      [](std::int64_t s, std::int64_t c) {
        const double factor = (c < 6 ? 1.0 : 10.0) * static_cast<double>(1 + c % 2);
        const std::int64_t column = c % 6 / 2;
        return factor * (x_at(s, column) + 3.0 * x_at(s, 3 + column)) + (c < 6 ? 0.5 : -0.5);
      },
      {{"w", {{2, 2, 1, 2}, {1, 2, 10, 20, 3, 6, 30, 60}}}, {"b", {{2}, {0.5, -0.5}}}});
  // Sums of two neighbours, each written twice.
  expect_elements(
      "behind a convolution",
      {shaped("x", {kBatch, 1, 1, 6}, "row"),
       call("conv2d", {{"input", tensor_named("row")}, {"weight", tensor_named("v")}, {"stride", wholes({1, 2})}}, "h"),
       call("conv_transpose2d",
            {{"input", tensor_named("h")}, {"weight", tensor_named("w")}, {"stride", wholes({1, 2})}}, "a"),
       shaped("a", {kBatch, 6}, "y")},
      6, [](std::int64_t s, std::int64_t c) { return x_at(s, c / 2 * 2) + x_at(s, c / 2 * 2 + 1); },
      {{"v", {{1, 1, 1, 2}, {1, 1}}}, {"w", {{1, 1, 1, 2}, {1, 1}}}});
  expect_elements("adaptive average",
                  {shaped("x", {kBatch, 1, 6}, "row"),
                   call("adaptive_avg_pool1d", {{"self", tensor_named("row")}, {"output_size", wholes({3})}}, "a"),
                   shaped("a", {kBatch, 3}, "y")},
                  3, [](std::int64_t s, std::int64_t c) { return 0.5 * (x_at(s, 2 * c) + x_at(s, 2 * c + 1)); });
}

// Channels (2, 3) as (3, 2), each with a weight of its own: 1, 2, ..., 6 in their new order.
TEST(TorchOps, ShuffledChannelsAreConvolvedEachByItself) {
  const auto shaped = [](const std::string& of, const std::vector<std::int64_t>& to, const std::string& made) {
    return call("view", {{"self", tensor_named(of)}, {"size", wholes(to)}}, made);
  };
  expect_elements(
      "shuffled",
      {shaped("x", {kBatch, 2, 3, 1, 1}, "parted"),
       call("transpose", {{"self", tensor_named("parted")}, {"dim0", whole(1)}, {"dim1", whole(2)}}, "turned"),
       shaped("turned", {kBatch, 6, 1, 1}, "image"),
       call("conv2d", {{"input", tensor_named("image")}, {"weight", tensor_named("w")}, {"groups", whole(6)}}, "a"),
       shaped("a", {kBatch, 6}, "y")},
      6, [](std::int64_t s, std::int64_t c) { return static_cast<double>(c + 1) * x_at(s, c % 2 * 3 + c / 2); },
      {{"w", {{6, 1, 1, 1}, {1, 2, 3, 4, 5, 6}}}});
}

TEST(TorchOps, VariancesAndNormsAreTheirFormulas) {
  const Json x = tensor_named("x");
  const auto row = [](std::int64_t s, const std::function<double(double)>& of) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < kWidth; ++c) sum += of(x_at(s, c));
    return sum;
  };
  const auto variance = [&](std::int64_t s, double less) {
    const double mean = row(s, [](double v) { return v; }) / kWidth;
    return row(s, [&](double v) { return (v - mean) * (v - mean); }) / (kWidth - less);
  };
  const Json last = wholes({1}), keep = {{"as_bool", true}};
  const auto scaled = [&](const Json& made) {
    return std::vector<Json>{made, call("mul", {{"self", x}, {"other", tensor_named("a")}}, "y")};
  };
  expect_elements("var", scaled(call("var", {{"self", x}, {"dim", last}, {"keepdim", keep}}, "a")), kWidth,
                  [&](std::int64_t s, std::int64_t c) { return x_at(s, c) * variance(s, 1.0); });
  expect_elements("std without correction",
                  scaled(call("std", {{"self", x}, {"dim", last}, {"correction", whole(0)}, {"keepdim", keep}}, "a")),
                  kWidth, [&](std::int64_t s, std::int64_t c) { return x_at(s, c) * std::sqrt(variance(s, 0.0)); });
  expect_elements(
      "norm", scaled(call("linalg_vector_norm", {{"self", x}, {"dim", last}, {"keepdim", keep}}, "a")), kWidth,
      [&](std::int64_t s, std::int64_t c) { return x_at(s, c) * std::sqrt(row(s, [](double v) { return v * v; })); });
}

// Samples of three tokens, (4 x 3, 2), to both of two experts, each with a weight (2, 2) and a bias: sorted by expert
// as transformers does it, times the weights of the choices, and summed.
TEST(TorchOps, TokensSortedByExpertComeBackWeighed) {
  const auto named = [](const std::string& name) { return tensor_named(name); };
  const auto shaped = [](const std::string& of, const std::vector<std::int64_t>& to, const std::string& made) {
    return call("view", {{"self", tensor_named(of)}, {"size", wholes(to)}}, made);
  };
  Json choose = call("topk", {{"self", named("scores")}, {"k", whole(2)}}, "values");
  choose["outputs"].push_back(named("experts"));
  Json sort = call("sort", {{"self", named("experts_row")}}, "sorted");
  sort["outputs"].push_back(named("order"));
  Json product = call("product", {{"input", named("rows")}, {"weight", named("w")}, {"offs", named("ends")}}, "made");
  product["target"] = "torch.ops.transformers.grouped_mm_fallback.default";
  const std::vector<Json> calls = {
      shaped("x", {12, 2}, "tokens"),
      call("linear", {{"input", named("tokens")}, {"weight", named("gate")}}, "logits"),
      call("softmax", {{"self", named("logits")}, {"dim", whole(-1)}}, "scores"),
      choose,
      call("sum", {{"self", named("values")}, {"dim", wholes({-1})}, {"keepdim", {{"as_bool", true}}}}, "total"),
      call("div_", {{"self", named("values")}, {"other", named("total")}}, "normalised"),
      shaped("normalised", {-1}, "weights_row"),
      shaped("experts", {-1}, "experts_row"),
      sort,
      call("floor_divide", {{"self", named("order")}, {"other", whole(2)}}, "places"),
      call("index", {{"self", named("tokens")}, {"indices", tensors({"places"})}}, "rows"),
      call("index", {{"self", named("weights_row")}, {"indices", tensors({"order"})}}, "weights"),
      call("histc", {{"self", named("sorted")}, {"bins", whole(2)}}, "counts"),
      call("cumsum", {{"self", named("counts")}, {"dim", whole(0)}}, "ends"),
      product,
      call("index", {{"self", named("bias")}, {"indices", tensors({"sorted"})}}, "biases"),
      call("add", {{"self", named("made")}, {"other", named("biases")}}, "moved"),
      call("unsqueeze", {{"self", named("weights")}, {"dim", whole(-1)}}, "columns"),
      call("mul", {{"self", named("moved")}, {"other", named("columns")}}, "weighed"),
      call("empty_like", {{"self", named("order")}}, "unset"),
      call("arange", {{"end", whole(24)}}, "count"),
      call("index_put_", {{"self", named("unset")}, {"indices", tensors({"order"})}, {"values", named("count")}},
           "back"),
      call("index", {{"self", named("weighed")}, {"indices", tensors({"back"})}}, "by_token"),
      shaped("by_token", {12, 2, 2}, "choices"),
      call("sum", {{"self", named("choices")}, {"dim", wholes({1})}}, "sums"),
      shaped("sums", {4, 6}, "y")};
  const Parameters parameters = {{"gate", {{2, 2}, {0.5, -0.25, 0.125, 0.75}}},
                                 {"w", {{2, 2, 2}, {1, 2, 3, 4, -1, 0.5, 2, -2}}},
                                 {"bias", {{2, 2}, {0.5, 1, -1, 2}}}};
  const auto number = [&](const std::string& of, std::int64_t i) {
    return parameters.at(of).second[static_cast<std::size_t>(i)];
  };
  expect_elements(
      "mixture", calls, kWidth,
      [&](std::int64_t s, std::int64_t c) {
        const double x[2] = {x_at(s, c / 2 * 2), x_at(s, c / 2 * 2 + 1)};
        double sum = 0.0, total = 0.0;
        for (std::int64_t e = 0; e < 2; ++e) {
          const double score = std::exp(number("gate", 2 * e) * x[0] + number("gate", 2 * e + 1) * x[1]);
          total += score;
          sum += score * (x[0] * number("w", 4 * e + c % 2) + x[1] * number("w", 4 * e + 2 + c % 2) +
                          number("bias", 2 * e + c % 2));
        }
        return sum / total;
      },
      parameters);
  // An expert's bias is no table that is repeated for each of its tokens.
  const Graph graph = build_training_graph(program(calls, parameters), {.batch = kBatch});
  for (const Op& op : graph.ops()) EXPECT_NE(op.kind, OpKind::Broadcast) << op.name;
}

// y = (x + (x w + b)) + (x v + c): the two products come one after the other and are added first.
TEST(TorchOps, ProductsAreAddedToEachOtherFirst) {
  const auto named = [](const std::string& name) { return tensor_named(name); };
  const auto linear = [&](const std::string& weight, const std::string& bias, const std::string& made) {
    return call("linear", {{"input", named("x")}, {"weight", named(weight)}, {"bias", named(bias)}}, made);
  };
  const auto sum = [&](const std::string& a, const std::string& b, const std::string& made) {
    return call("add", {{"self", named(a)}, {"other", named(b)}}, made);
  };
  const std::vector<Json> calls = {linear("w", "b", "first"), sum("x", "first", "so_far"), linear("v", "c", "second"),
                                   sum("so_far", "second", "y")};
  Numbers w(36, 0.0), v(36, 0.0);
  for (std::size_t i = 0; i < 6; ++i) w[7 * i] = 2.0, v[6 * i + (i + 1) % 6] = 1.0;  // 2 x, and x's next element
  const Parameters parameters = {
      {"w", {{6, 6}, w}}, {"v", {{6, 6}, v}}, {"b", {{6}, {0, 1, 2, 3, 4, 5}}}, {"c", {{6}, {0, 10, 20, 30, 40, 50}}}};
  expect_elements(
      "sum", calls, kWidth,
      [](std::int64_t s, std::int64_t c) {
        return 3.0 * x_at(s, c) + x_at(s, (c + 1) % 6) + 11.0 * static_cast<double>(c);
      },
      parameters);
  const Graph graph = build_training_graph(program(calls, parameters), {.batch = kBatch});
  std::vector<OpKind> kinds;
  for (std::size_t i = 0; i < 3; ++i) kinds.push_back(graph.ops()[i].kind);
  EXPECT_EQ(kinds, (std::vector{OpKind::Contract, OpKind::Contract, OpKind::Add}));
}

// (x0 + i x1) times 2 (cos a + i sin a), of each pair, with a = 3^0, 3^1, 3^2.
TEST(TorchOps, PairsAreComplexNumbers) {
  const Json x = tensor_named("x");
  const std::vector<Json> calls = {
      call("arange", {{"end", whole(3)}, {"dtype", {{"as_scalar_type", 7}}}}, "powers"),
      call("pow", {{"self", real(3.0)}, {"exponent", tensor_named("powers")}}, "angles"),
      call("full_like", {{"self", tensor_named("angles")}, {"fill_value", real(2.0)}}, "lengths"),
      call("polar", {{"abs", tensor_named("lengths")}, {"angle", tensor_named("angles")}}, "turns"),
      call("view", {{"self", x}, {"size", wholes({kBatch, 3, 2})}}, "pairs"),
      call("view_as_complex", {{"self", tensor_named("pairs")}}, "numbers"),
      call("mul", {{"self", tensor_named("numbers")}, {"other", tensor_named("turns")}}, "turned"),
      call("view_as_real", {{"self", tensor_named("turned")}}, "parts"),
      call("flatten", {{"self", tensor_named("parts")}, {"start_dim", whole(1)}}, "y")};
  expect_elements("turned", calls, kWidth, [](std::int64_t s, std::int64_t c) {
    const double angle = std::pow(3.0, static_cast<double>(c / 2));
    const double first = x_at(s, c - c % 2), second = x_at(s, c - c % 2 + 1);
    return 2.0 * (c % 2 == 0 ? first * std::cos(angle) - second * std::sin(angle)
                             : first * std::sin(angle) + second * std::cos(angle));
  });
  // Real parts of the conjugate and of the number are the same, imaginary ones opposite.
  std::vector<Json> conjugate(calls.begin(), calls.end() - 2);
  conjugate.push_back(call("_conj", {{"self", tensor_named("turned")}}, "mirrored"));
  conjugate.push_back(call("mul", {{"self", tensor_named("turned")}, {"other", tensor_named("mirrored")}}, "squares"));
  conjugate.push_back(call("real", {{"self", tensor_named("squares")}}, "y"));
  expect_elements("length", conjugate, 3, [](std::int64_t s, std::int64_t c) {
    return 4.0 * (x_at(s, 2 * c) * x_at(s, 2 * c) + x_at(s, 2 * c + 1) * x_at(s, 2 * c + 1));
  });
}

// a = 2 x, then a += 3 in place: whoever reads a later reads 2 x + 3.
TEST(TorchOps, WhatIsOverwrittenIsReadAsItIsThen) {
  const Json a = tensor_named("a");
  const Json twice = call("mul", {{"self", tensor_named("x")}, {"other", real(2.0)}}, "a");
  const Json more = call("add_", {{"self", a}, {"other", real(3.0)}}, "unread");
  expect_elements("by its own name", {twice, more, call("relu", {{"self", a}}, "y")}, kWidth,
                  [](std::int64_t s, std::int64_t c) { return std::max(0.0, 2.0 * x_at(s, c) + 3.0); });
  // v is a by another name, and has changed, too.
  const std::vector<Json> shared = {twice, call("view", {{"self", a}, {"size", wholes({kBatch, kWidth})}}, "v"), more,
                                    call("add", {{"self", tensor_named("v")}, {"other", tensor_named("unread")}}, "y")};
  EXPECT_EQ(
      refusal([&] { (void)program(shared); }),
      "m.pt2.json: add_ op 'unread': it overwrites 'a', which 'v' shares and which is read later; export the program "
      "after run_decompositions().");
}

// a = 2 x; columns 1 to 3 of a become 7, then column 5 becomes 3 x of column 0, through views of views of a.
TEST(TorchOps, WhatAViewOverwritesIsReadOfItsTensor) {
  const auto part = [](const std::string& of, std::int64_t start, std::int64_t end, const std::string& name) {
    return call("slice", {{"self", tensor_named(of)}, {"dim", whole(1)}, {"start", whole(start)}, {"end", whole(end)}},
                name);
  };
  const auto column = [](const std::string& of, std::int64_t index, const std::string& name) {
    return call("select", {{"self", tensor_named(of)}, {"dim", whole(1)}, {"index", whole(index)}}, name);
  };
  const std::vector<Json> calls = {
      call("mul", {{"self", tensor_named("x")}, {"other", real(2.0)}}, "a"),
      part("a", 1, 4, "middle"),
      call("fill_", {{"self", tensor_named("middle")}, {"value", real(7.0)}}, "filled"),
      column("x", 0, "first"),
      call("mul", {{"self", tensor_named("first")}, {"other", real(3.0)}}, "thrice"),
      part("a", 4, kWidth, "end"),
      column("end", -1, "last"),
      call("copy_", {{"self", tensor_named("last")}, {"src", tensor_named("thrice")}}, "copied"),
      call("mul", {{"self", tensor_named("a")}, {"other", real(1.5)}}, "y")};
  expect_elements("parts of a", calls, kWidth, [](std::int64_t s, std::int64_t c) {
    if (c >= 1 && c < 4) return 1.5 * 7.0;
    return 1.5 * (c == 5 ? 3.0 * x_at(s, 0) : 2.0 * x_at(s, c));
  });
}

// Stochastic depth: a factor of 0 or 1 / 0.75 for each sample.
TEST(TorchOps, RandomFactorsAreDropout) {
  const auto calls = [](const std::string& last, const std::string& with) {
    return std::vector<Json>{
        call("ones", {{"size", wholes({kBatch, 1})}}, "ones"),
        call("bernoulli_", {{"self", tensor_named("ones")}, {"p", real(0.75)}}, "drawn"),
        call("div_", {{"self", tensor_named("drawn")}, {"other", real(0.75)}}, "scaled"),
        call(last, {{"self", tensor_named("x")}, {"other", tensor_named(with)}}, "y"),
    };
  };
  const Graph graph = build_forward_graph(program(calls("mul", "scaled")), {.batch = kBatch});
  int dropouts = 0;
  for (const Op& op : graph.ops()) {
    EXPECT_NE(op.kind, OpKind::Scale);  // 0.75 of the draw and 1 / 0.75 are 1
    if (op.kind != OpKind::Dropout) continue;
    ++dropouts;
    EXPECT_EQ(op.attributes.probability, 0.25);
  }
  EXPECT_EQ(dropouts, 1);
  EXPECT_EQ(refusal([&] { (void)program(calls("add", "scaled")); }),
            "m.pt2.json: ops outside of known patterns that have no equal here: dropout (1, the first 'drawn'); see "
            "docs/models.md.");
}

// 7 = 2 * 3 + 1, and -7 = -3 * 3 + 2: quotients are rounded down, remainders have the sign of the divisor.
TEST(TorchOps, WholeNumbersAreDividedDownwards) {
  const auto calls = [](std::int64_t number) {
    return std::vector<Json>{
        call("full", {{"size", wholes({1})}, {"fill_value", whole(number)}, {"dtype", {{"as_scalar_type", 5}}}}, "n"),
        call("div", {{"self", tensor_named("n")}, {"other", whole(3)}, {"rounding_mode", {{"as_string", "floor"}}}},
             "q"),
        call("remainder", {{"self", tensor_named("n")}, {"other", whole(3)}}, "r"),
        call("mul", {{"self", tensor_named("q")}, {"other", whole(10)}}, "tens"),
        call("add", {{"self", tensor_named("tens")}, {"other", tensor_named("r")}}, "both"),
        call("mul", {{"self", tensor_named("x")}, {"other", tensor_named("both")}}, "y")};
  };
  expect_elements("7", calls(7), kWidth, [](std::int64_t s, std::int64_t c) { return 21.0 * x_at(s, c); });
  expect_elements("-7", calls(-7), kWidth, [](std::int64_t s, std::int64_t c) { return -28.0 * x_at(s, c); });
}

// Row c of a triangle of ones has c + 1 of them below and on its diagonal, 6 - c above and on it.
TEST(TorchOps, TrianglesKeepTheirNumbers) {
  const auto calls = [](const char* triangle) {
    return std::vector<Json>{call("ones", {{"size", wholes({kWidth, kWidth})}}, "ones"),
                             call(triangle, {{"self", tensor_named("ones")}}, "half"),
                             call("sum", {{"self", tensor_named("half")}, {"dim", wholes({1})}}, "count"),
                             call("mul", {{"self", tensor_named("x")}, {"other", tensor_named("count")}}, "y")};
  };
  expect_elements("below", calls("tril"), kWidth,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, c) * static_cast<double>(c + 1); });
  expect_elements("above", calls("triu"), kWidth,
                  [](std::int64_t s, std::int64_t c) { return x_at(s, c) * static_cast<double>(kWidth - c); });
}

// Rules hand the shape of one node to what makes others, as that of full_like(x) to the numbers that it is filled with.
TEST(Nodes, StayInTheirPlacesWhileOthersAreMade) {
  primitive::Module module;
  primitive::Builder b(module);
  const int x = b.input("x", {2, 3}, false);
  const primitive::Shape& shape = b.shape(x);
  for (int k = 0; k < 100; ++k) (void)b.scalar(k);
  EXPECT_EQ(&b.shape(x), &shape);
}

}  // namespace
}  // namespace meshwright::torch_ops_test
