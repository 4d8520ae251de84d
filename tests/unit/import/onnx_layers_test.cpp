// SPDX-License-Identifier: Apache-2.0
// ONNX files of layers and functions: what they become; what they compute is in onnx_runtime_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/loss_of.h"
#include "tests/unit/import/onnx_writer.h"

namespace meshwright::onnx_layers_test {
namespace {

using Dims = std::map<std::string, std::int64_t>;

ModelConfig read(const std::string& bytes, const Dims& dims = {}) { return read_model_bytes(bytes, "m.onnx", dims); }
Graph forward(const std::string& bytes, std::int64_t batch = 2) {
  return build_forward_graph(read(bytes), {.batch = batch});
}
std::int64_t parameters_of(const std::string& bytes) { return parameter_count(forward(bytes)); }
std::string why(const OnnxWriter& w, const std::string& result, const Dims& dims = {}) {
  return refusal([&] { return read(w.finish(result), dims); });
}
// Multiplications and additions of the products of one sample, forward.
double flops_of(const std::string& bytes) { return graph_flops(forward(bytes, 1)).si(); }

// A product of rows (positions, samples) in one dimension, as nn.MultiheadAttention of a fixed batch has it.
std::string rows_behind_samples(const std::string& batch, std::int64_t size) {
  OnnxWriter w;
  w.input("x", {batch, "5", "4"}, 1);
  const std::string turned = w.node("Transpose", {"x"}, {.lists = {{"perm", {1, 0, 2}}}});
  const std::string rows = w.node("Reshape", {turned, w.integers({5 * size, 4})});
  const std::string made = w.node("MatMul", {rows, w.weight("w", {4, 6})});
  const std::string parted = w.node("Reshape", {w.node("Relu", {made}), w.integers({5, size, 6})});
  return w.finish(w.node("Transpose", {parted}, {.lists = {{"perm", {1, 0, 2}}}}));
}

TEST(OnnxLayers, AFixedBatchBehindPositionsIsFoundAgain) {
  for (const std::int64_t batch : {1, 2, 5}) {
    const Graph graph = forward(rows_behind_samples(std::to_string(batch), batch), 7);
    EXPECT_EQ(graph_flops(graph).si(), 7.0 * 5 * 4 * 6 * 2) << batch;
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::Contract)
        for (const Dim& dim : graph.tensor(op.outputs[0]).dims)
          if (dim.name == "batch") {
            EXPECT_EQ(dim.size, 7) << batch;
          }
  }
}

TEST(OnnxLayers, DilatedAndTransposedConvolutionsMultiplyAsOftenAsTheirWindows) {
  const auto dilated = [](std::int64_t gap) {
    OnnxWriter w;
    w.input("x", {"2", "3", "8", "8"}, 1);
    const OnnxGiven given = {.lists = {{"dilations", {gap, gap}}, {"pads", {gap, gap, gap, gap}}}};
    return w.finish(w.node("Conv", {"x", w.weight("w", {5, 3, 3, 3})}, given));
  };
  const double of_windows = 2.0 * 8 * 8 * 5 * 3 * 9;
  for (const std::int64_t gap : {1, 2, 3, 4, 7}) EXPECT_EQ(flops_of(dilated(gap)), of_windows) << gap;
  OnnxWriter w;
  w.input("x", {"2", "3", "8", "8"}, 1);
  const OnnxGiven given = {.lists = {{"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}}};
  const std::string bytes = w.finish(w.node("ConvTranspose", {"x", w.weight("w", {3, 5, 4, 4})}, given));
  EXPECT_EQ(flops_of(bytes), 2.0 * 8 * 8 * 5 * 3 * 16);
  EXPECT_EQ(parameters_of(bytes), 3 * 5 * 16);
  OnnxWriter volume;
  volume.input("x", {"2", "3", "4", "8", "8"}, 1);
  const OnnxGiven all = {.lists = {{"pads", {1, 1, 1, 1, 1, 1}}}};
  EXPECT_EQ(flops_of(volume.finish(volume.node("Conv", {"x", volume.weight("w", {5, 3, 3, 3, 3})}, all))),
            2.0 * 4 * 8 * 8 * 5 * 3 * 27);
}

// Zeros put around an image that no convolution reads.
TEST(OnnxLayers, PaddingIsTheImageBetweenZeros) {
  OnnxWriter w;
  w.input("x", {"2", "3", "4", "4"}, 1);
  const std::string padded = w.node("Pad", {"x", w.integers({0, 0, 3, 2, 0, 0, 4, 2})});
  const Graph graph =
      build_training_graph(read(w.finish(w.node("Flatten", {padded}))), {.batch = 2, .dtype = DType::F64});
  // The mean of 2 * 3 * 11 * 8 squares, 2 * 3 * 16 of which are 9.
  const double loss = loss_of(graph, [](const Tensor& tensor, std::int64_t) {
    return tensor.name == "x" ? std::optional(3.0) : tensor.name == "target" ? std::optional(0.0) : std::nullopt;
  });
  EXPECT_NEAR(loss, 9.0 * 16 / (11 * 8), 1e-12);
}

TEST(OnnxLayers, AScalarIsNoPieceOfARow) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string scalar = w.node("ReduceSum", {w.node("Shape", {"x"})}, {.numbers = {{"keepdims", 0}}});
  EXPECT_NE(why(w, w.node("Concat", {scalar, scalar}, {.numbers = {{"axis", 0}}})).find("axis 0 is outside"),
            std::string::npos);
}

TEST(OnnxLayers, ARecurrenceIsWrittenOutWithinBounds) {
  const auto lstm = [](OnnxWriter& w, const std::string& x) {
    return w.node("LSTM", {x, w.weight("w", {1, 24, 4}), w.weight("r", {1, 24, 6}), w.weight("b", {1, 48})},
                  {.numbers = {{"hidden_size", 6}}, .results = {"all", "h", "c"}});
  };
  OnnxWriter w;
  w.input("x", {"n", "5", "4"}, 1);
  const std::string bytes = w.finish(lstm(w, w.node("Transpose", {"x"}, {.lists = {{"perm", {1, 0, 2}}}})));
  EXPECT_EQ(parameters_of(bytes), 24 * 4 + 24 * 6 + 48);
  // The first step has no state to multiply.
  EXPECT_EQ(flops_of(bytes), 2.0 * (5 * 24 * 4 + 4 * 24 * 6));
  OnnxWriter long_one;
  long_one.input("x", {"n", "5000", "4"}, 1);
  const std::string turned = long_one.node("Transpose", {"x"}, {.lists = {{"perm", {1, 0, 2}}}});
  EXPECT_NE(why(long_one, lstm(long_one, turned)).find("5000 positions is beyond the 512"), std::string::npos);
  OnnxWriter first;
  first.input("x", {"5", "n", "4"}, 1);
  EXPECT_NE(why(first, lstm(first, "x"), {{"n", 3}}).find("export the model with the batch first"), std::string::npos);
}

// --- functions of the file ---

std::string node_of(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                    const std::string& attributes = {}) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += bytes_field(1, input);
  return bytes + bytes_field(2, output) + bytes_field(4, op) + attributes;
}
std::string function_of(const std::string& name, const std::vector<std::string>& nodes) {
  std::string bytes = bytes_field(1, name) + bytes_field(4, "a") + bytes_field(4, "b") + bytes_field(5, "c");
  for (const std::string& node : nodes) bytes += bytes_field(7, node);
  return bytes_field(25, bytes + bytes_field(10, "own"));
}

TEST(OnnxLayers, FunctionsOfTheFileAreTheirNodes) {
  // own:scaled(a, b) = LeakyRelu(a @ b) with the slope of the caller
  const std::string slope = bytes_field(5, bytes_field(1, "alpha") + bytes_field(21, "slope"));
  const std::string scaled =
      function_of("scaled", {node_of("MatMul", {"a", "b"}, "t"), node_of("LeakyRelu", {"t"}, "c", slope)});
  const auto called = [&](float given, const std::string& function) {
    OnnxWriter w;
    w.input("x", {"2", "4"}, 1);
    const std::string y =
        w.node("scaled", {"x", w.weight("w", {4, 3})}, {.reals = {{"slope", given}}, .domain = "own"});
    const std::string z = w.node("scaled", {y, w.weight("v", {3, 5})}, {.reals = {{"slope", given}}, .domain = "own"});
    return w.finish(z) + function;
  };
  const Graph graph = build_training_graph(read(called(0.5F, scaled)), {.batch = 2, .dtype = DType::F64});
  EXPECT_EQ(parameter_count(graph), 4 * 3 + 3 * 5);
  // x = 1, w = -1, v = 1: -4, times 0.5 = -2; three of it = -6, times 0.5 = -3; squared 9.
  const double loss = loss_of(graph, [](const Tensor& tensor, std::int64_t) {
    return std::optional(tensor.name == "target" ? 0.0 : tensor.name == "w" ? -1.0 : 1.0);
  });
  EXPECT_NEAR(loss, 9.0, 1e-6);
  const std::string endless = function_of("scaled", {bytes_field(7, "own") + node_of("scaled", {"a", "b"}, "c")});
  EXPECT_NE(refusal([&] { return read(called(0.5F, endless)); }).find("function 'scaled' calls itself"),
            std::string::npos);
}

// --- equal numbers ---

std::string in_module(const std::string& path) { return "m: Model/" + path + ": Linear/linear: aten.linear"; }

// Copies of one layer begin with the same numbers, and are trained apart; a layer that is called twice is one.
TEST(OnnxLayers, EqualNumbersOfTwoModulesAreTwoParameters) {
  const auto layers = [](const std::string& second) {
    OnnxWriter w;
    w.input("x", {"2", "2"}, 1);
    const std::string bias = w.floats({2}, {0.5F, 0.25F});
    std::string x = "x";
    for (const std::string& module : {std::string("layers.0.up"), second}) {
      const std::string product =
          w.node("MatMul", {x, w.floats({2, 2}, {1.0F, 2.0F, 3.0F, 4.0F})}, {.module = in_module(module)});
      x = w.node("Add", {product, bias}, {.module = in_module(module)});
    }
    return w.finish(x);
  };
  EXPECT_EQ(parameters_of(layers("layers.1.up")), 2 * (4 + 2));
  EXPECT_EQ(parameters_of(layers("layers.0.up")), 4 + 2);
}

// Whole numbers that stand for weights are weights, and what rounds to them changes nothing.
TEST(OnnxLayers, QuantizedWeightsAreParametersOfFullPrecision) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string step = w.scalar(0.1F), zero = w.integers({0});
  const std::string x = w.node("DequantizeLinear", {w.node("QuantizeLinear", {"x", step, zero}), step, zero});
  const std::string weight =
      w.node("Reshape", {w.node("DequantizeLinear", {w.integers({1, 2, 3, 4, 5, 6, 7, 8}), step}), w.integers({4, 2})});
  const ModelConfig model = read(w.finish(w.node("MatMul", {x, weight})));
  EXPECT_EQ(parameter_count(build_forward_graph(model, {.batch = 2})), 8);
  ASSERT_FALSE(summary_of(model).notes.empty());
  EXPECT_NE(summary_of(model).notes[0].find("of full precision here"), std::string::npos);
}

// --- ONNX Runtime's own operators ---

TEST(OnnxFused, AttentionIsItsProjectionsAndOneOp) {
  OnnxWriter w;
  w.input("ids", {"2", "6"});
  const std::string x = w.node("Gather", {w.weight("wte", {11, 8}), "ids"});
  const std::string a = w.node("Attention", {x, w.weight("qkv", {8, 24}), w.weight("b", {24})},
                               {.numbers = {{"num_heads", 2}, {"unidirectional", 1}}, .domain = "com.microsoft"});
  const Graph graph = forward(w.finish(a));
  int attentions = 0, products = 0;
  for (const Op& op : graph.ops()) {
    products += op.kind == OpKind::Contract;
    if (op.kind != OpKind::GroupedAttention && op.kind != OpKind::Attention) continue;
    ++attentions;
    EXPECT_TRUE(op.kind == OpKind::Attention || op.attributes.causal);
  }
  EXPECT_EQ(attentions, 1);
  EXPECT_EQ(parameter_count(graph), 11 * 8 + 8 * 24 + 24);
  EXPECT_LE(products, 3);
}

// 4 bits in blocks of 32: 8 x 6 numbers in all.
TEST(OnnxFused, PackedWeightsAreParametersOfFullPrecision) {
  OnnxWriter w;
  w.input("x", {"2", "8"}, 1);
  const std::string y =
      w.node("MatMulNBits", {"x", w.integers({1, 2, 3, 4, 5, 6}), w.weight("scales", {6})},
             {.numbers = {{"K", 8}, {"N", 6}, {"bits", 4}, {"block_size", 32}}, .domain = "com.microsoft"});
  const std::string file = w.finish(y);
  EXPECT_EQ(parameters_of(file), 8 * 6);
  EXPECT_EQ(flops_of(file), 2 * 8 * 6);
  const ModelConfig model = read(file);
  const auto& notes = summary_of(model).notes;
  EXPECT_EQ(std::count(notes.begin(), notes.end(), "weights of 4 bits are parameters of full precision"), 1);
}

// Pairs (k, 0) of 4 elements; the mean of squares of 10, -2 + 2i, -2, -2 - 2i is (100 + 8 + 4 + 8) / 8.
TEST(OnnxLayers, FourierTransformsArePairsInTheLastDimension) {
  OnnxWriter w;
  w.input("x", {"1", "4", "1"}, 1);
  const Graph graph = build_training_graph(read(w.finish(w.node("DFT", {"x"}, {.numbers = {{"axis", 1}}}))),
                                           {.batch = 1, .dtype = DType::F64});
  EXPECT_NEAR(loss_of(graph,
                      [](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
                        if (tensor.name == "target") return 0.0;
                        return tensor.name == "x" ? std::optional(static_cast<double>(i + 1)) : std::nullopt;
                      }),
              15.0, 1e-9);
}

TEST(OnnxFused, KeysOfEarlierStepsAreRefusedUnlessThereAreNone) {
  OnnxWriter w;
  w.input("ids", {"2", "6"});
  w.input("past", {"2", "2", "2", "n", "4"}, 1);
  const std::string x = w.node("Gather", {w.weight("wte", {11, 8}), "ids"});
  const std::string a = w.node("Attention", {x, w.weight("qkv", {8, 24}), w.weight("b", {24}), "", "past"},
                               {.numbers = {{"num_heads", 2}, {"unidirectional", 1}}, .domain = "com.microsoft"});
  EXPECT_NE(why(w, a, {{"n", 3}})
                .find("keys of earlier steps have no place in training; export without a cache, or give "
                      "their open length as 0 by --dim"),
            std::string::npos);
  EXPECT_EQ(parameter_count(build_forward_graph(read(w.finish(a), {{"n", 0}}), {.batch = 2})), 11 * 8 + 8 * 24 + 24);
}

// 1, 2, ..., 7 of each sample: every third from the second on, and backwards.
TEST(OnnxLayers, EveryThirdElementAndTheOtherWayRound) {
  const auto squares = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    OnnxWriter w;
    w.input("x", {"2", "7"}, 1);
    const std::string y =
        w.node("Slice", {"x", w.integers({start}), w.integers({end}), w.integers({1}), w.integers({step})});
    const std::string last = w.node("MatMul", {y, w.weight("m", {step > 0 ? 2 : 7, 1})});
    const Graph graph = build_training_graph(read(w.finish(w.node("Relu", {last}))), {.batch = 2, .dtype = DType::F64});
    // The weights are 1, 10, 100, ...
    return loss_of(graph, [](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
      if (tensor.name == "target") return 0.0;
      if (tensor.name == "x") return static_cast<double>(i % 7 + 1);
      return tensor.name == "m" ? std::optional(std::pow(10.0, static_cast<double>(i))) : std::nullopt;
    });
  };
  EXPECT_EQ(squares(1, 7, 3), 52.0 * 52.0);
  EXPECT_EQ(squares(-1, -100, -1), 1234567.0 * 1234567.0);
}

// A branch is what stands in it where shapes decide; what it makes may have names that the file has, too.
TEST(OnnxLayers, BranchesThatShapesDecideAreTaken) {
  const auto file = [](std::int64_t width, bool decided) {
    OnnxWriter w, narrow, wide, inner;
    w.input("x", {"2", std::to_string(width)}, 1);
    w.input("c", {"2"}, 9);
    const std::string size = w.node("Gather", {w.node("Shape", {"x"}), w.integers({1})});
    const std::string is_one = decided ? w.node("Equal", {size, w.integers({1})}) : "c";
    // The same names in both branches, and in one within another.
    const auto times = [](OnnxWriter& of, std::int64_t to, std::int64_t from) {
      return of.node("MatMul", {"x", of.weight("w", {from, to})}, {.results = {"made"}});
    };
    const std::string deep = inner.branch(times(inner, 5, 4));
    const std::string then = narrow.branch(times(narrow, 3, 1));
    const std::string else_branch = wide.branch(
        wide.node("If", {is_one}, {.results = {"chosen"}, .branches = {{"then_branch", then}, {"else_branch", deep}}}));
    return w.finish(w.node("If", {is_one}, {.branches = {{"then_branch", then}, {"else_branch", else_branch}}}));
  };
  EXPECT_EQ(parameters_of(file(1, true)), 1 * 3);
  EXPECT_EQ(parameters_of(file(4, true)), 4 * 5);
  EXPECT_NE(refusal([&] { return read(file(4, false)); }).find("If (1)"), std::string::npos);
}

// x becomes x w in each of so many turns, with one w; the last turns' x are stacked, too.
TEST(OnnxLayers, LoopsOfKnownTurnsAreTheirTurns) {
  const auto file = [](std::int64_t turns, bool stacked) {
    OnnxWriter w, body;
    w.input("x", {"2", "4"}, 1);
    body.input("turn", {}, 7).input("on", {}, 9).input("h", {"2", "4"}, 1);
    const std::string made = body.node("MatMul", {"h", body.weight("w", {4, 4})}, {.results = {"made"}});
    const std::string on = body.node("Identity", {"on"});
    const std::string graph = body.branch(on, {made, made});
    w.node("Loop", {w.integers({turns}), "", "x"}, {.results = {"last", "all"}, .branches = {{"body", graph}}});
    return w.finish(stacked ? w.node("ReduceSum", {"all", w.integers({0})}) : "last");
  };
  EXPECT_EQ(parameters_of(file(3, false)), 4 * 4);
  EXPECT_EQ(flops_of(file(3, false)), 3 * 2 * 4 * 4);
  EXPECT_EQ(flops_of(file(2, true)), 2 * 2 * 4 * 4);
  EXPECT_NE(refusal([&] { return read(file(1000, false)); }).find("Loop (1)"), std::string::npos);
}

// Before operator set 13 a softmax is over all dimensions from its axis on.
TEST(OnnxLayers, AnOldSoftmaxIsOverAllLaterDimensions) {
  const auto of = [](std::int64_t axis) {
    OnnxWriter w;
    w.input("x", {"2", "3", "4"}, 1);
    const std::string y = w.node("Softmax", {"x"}, {.numbers = {{"axis", axis}}});
    return forward(w.finish(w.node("Mul", {y, y}), {}, 12));
  };
  const auto rows = [](const Graph& graph) {
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::Softmax) return graph.tensor(op.inputs[0]).dims.back().size;
    return std::int64_t{0};
  };
  EXPECT_EQ(rows(of(1)), 3 * 4);
  EXPECT_EQ(rows(of(2)), 4);
}

// Rows of other than the first dimension, chosen for all samples.
TEST(OnnxLayers, ElementsOfALaterDimensionAreGathered) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string picked = w.node("Gather", {"x", w.integers({3, 0, 0})}, {.numbers = {{"axis", 1}}});
  const Graph graph = build_training_graph(read(w.finish(picked)), {.batch = 2, .dtype = DType::F64});
  // Of 1, 2, 3, 4 the fourth and twice the first: (16 + 1 + 1) / 3
  const double loss = loss_of(graph, [](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    if (tensor.name == "target") return 0.0;
    return tensor.name == "x" ? std::optional(static_cast<double>(i % 4 + 1)) : std::nullopt;
  });
  EXPECT_NEAR(loss, 6.0, 1e-12);
}

// The loss of a file of x (2, width), whose elements are 1, 2, ... in each sample: the mean of its squares.
double mean_square(const OnnxWriter& w, const std::string& result, std::int64_t width) {
  const Graph graph = build_training_graph(read(w.finish(result)), {.batch = 2, .dtype = DType::F64});
  return loss_of(graph, [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    if (tensor.name == "target") return 0.0;
    return tensor.name == "x" ? std::optional(static_cast<double>(i % width + 1)) : std::nullopt;
  });
}

TEST(OnnxLayers, OneNumberForAnyBatchIsThatNumber) {
  OnnxWriter w;
  w.input("x", {"batch", "2"}, 1);
  const std::string zeros = w.node("ConstantOfShape", {w.node("Shape", {"x"})});
  EXPECT_NEAR(mean_square(w, w.node("Add", {"x", w.node("Exp", {zeros})}), 2), (4.0 + 9.0) / 2.0, 1e-12);
}

TEST(OnnxLayers, IndicesBelowZeroCountFromTheEnd) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string picked = w.node("Gather", {"x", w.integers({-1, -4, -4})}, {.numbers = {{"axis", 1}}});
  EXPECT_NEAR(mean_square(w, picked, 4), 6.0, 1e-12);  // of 4, 1 and 1
}

TEST(OnnxLayers, AxesBelowZeroCountFromTheEnd) {
  OnnxWriter w;
  w.input("x", {"2", "3", "4"}, 1);
  const std::string turned = w.node("Transpose", {"x"}, {.lists = {{"perm", {0, -1, 1}}}});
  EXPECT_EQ(why(w, w.node("Relu", {turned})), "not refused");
}

TEST(OnnxLayers, LogarithmsOfSumsOfExponentialsAreTheirFormula) {
  OnnxWriter w;
  w.input("x", {"2", "2"}, 1);
  const std::string made = w.node("ReduceLogSumExp", {"x", w.integers({1})});
  EXPECT_NEAR(mean_square(w, made, 2), std::pow(std::log(std::exp(1.0) + std::exp(2.0)), 2), 1e-12);
}

// Windows of two begin at elements 0 and 3 of six; one at 6 would lie behind the image: the mean of 2^2 and 5^2.
TEST(OnnxLayers, WindowsBeginWithinTheImage) {
  OnnxWriter w;
  w.input("x", {"2", "1", "6"}, 1);
  const std::string largest =
      w.node("MaxPool", {"x"}, {.numbers = {{"ceil_mode", 1}}, .lists = {{"kernel_shape", {2}}, {"strides", {3}}}});
  EXPECT_NEAR(mean_square(w, largest, 6), (4.0 + 25.0) / 2.0, 1e-12);
}

// One query, the first position of two, sees the first key alone, whose value is (1, 2).
TEST(OnnxLayers, CausalQueriesAreTheFirstPositions) {
  OnnxWriter w;
  w.input("x", {"2", "1", "2", "2"}, 1);
  const std::string first = w.node("Slice", {"x", w.integers({0}), w.integers({1}), w.integers({2})});
  const std::string attended = w.node("Attention", {first, "x", "x"}, {.numbers = {{"is_causal", 1}}});
  EXPECT_NEAR(mean_square(w, attended, 4), (1.0 + 4.0) / 2.0, 1e-12);
}

// What ALiBi adds to scores, up to 0 at the last key, as MPT's files have it in one row for all queries.
TEST(OnnxLayers, SlopesTimesDistancesAreNoWeights) {
  const auto parameters = [](const std::vector<float>& added) {
    OnnxWriter w;
    w.input("x", {"2", "2", "4", "4"}, 1);
    const std::string scores = w.node("Add", {"x", w.floats({2, 1, 4}, added)});
    return parameters_of(w.finish(w.node("Mul", {scores, w.weight("w", {4})})));
  };
  EXPECT_EQ(parameters({-1.5f, -1, -0.5f, 0, -3, -2, -1, 0}), 4);
  EXPECT_EQ(parameters({-1.5f, -1, -0.5f, 0, -3, -2, -1.5f, 0}), 4 + 8);
}

// The first 3 of 8 columns are read: -5 is 3 more than -2 times 4, and 3 takes the place of 8.
TEST(OnnxLayers, SizesMayBeRemaindersAndScattered) {
  const auto of_columns = [](OnnxWriter& w, const std::string& end) {
    const std::string part = w.node("Slice", {"x", w.integers({0}), end, w.integers({1})});
    return w.finish(w.node("MatMul", {part, w.weight("w", {3, 5})}));
  };
  OnnxWriter remainder, scattered;
  remainder.input("x", {"2", "8"}, 1);
  scattered.input("x", {"2", "8"}, 1);
  const std::string rest = remainder.node("Mod", {remainder.integers({-5}), remainder.integers({4})});
  EXPECT_EQ(flops_of(of_columns(remainder, rest)), 2.0 * 3 * 5);
  const std::string place = scattered.node("Reshape", {scattered.integers({0}), scattered.integers({1, 1})});
  const std::string end = scattered.node("ScatterND", {scattered.integers({8}), place, scattered.integers({3})});
  EXPECT_EQ(flops_of(of_columns(scattered, end)), 2.0 * 3 * 5);
}

// Columns 2 and 3 of 4 of each of n samples that lie in one row, at sample * 4 + 2 and 3.
TEST(OnnxLayers, PlacesInOneRowOfAllSamplesAreThoseOfEach) {
  OnnxWriter w;
  w.input("x", {"n", "4"}, 1);
  const std::string samples = w.node("Gather", {w.node("Shape", {"x"}), w.integers({0})});
  const std::string each = w.node("Range", {w.integers({0}), samples, w.integers({1})});
  const std::string starts = w.node("Mul", {w.node("Unsqueeze", {each, w.integers({1})}), w.integers({4})});
  const std::string places = w.node("Add", {starts, w.integers({2, 3})});
  const std::string row = w.node("Reshape", {"x", w.integers({-1})});
  const std::string bytes = w.finish(w.node("MatMul", {w.node("Gather", {row, places}), w.weight("w", {2, 5})}));
  EXPECT_EQ(flops_of(bytes), 2.0 * 2 * 5);
  const Graph graph = forward(bytes, 7);
  for (const Op& op : graph.ops()) EXPECT_NE(op.kind, OpKind::Embedding);
}

// What torch.onnx.export writes of stochastic depth in training.
TEST(OnnxLayers, RandomFactorsAreDropout) {
  const auto written = [](const char* last) {
    OnnxWriter w;
    w.input("x", {"2", "8"}, 1);
    const std::string drawn = w.node("RandomUniformLike", {"x"}, {.reals = {{"low", 0.0F}, {"high", 1.0F}}});
    const std::string kept = w.node("Less", {drawn, w.scalar(0.75F)});
    return w.finish(w.node(last, {"x", w.node("Cast", {kept}, {.numbers = {{"to", 1}}})}));
  };
  const Graph graph = forward(written("Mul"));
  const auto drops = std::count_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) {
    return op.kind == OpKind::Dropout && op.attributes.probability == 0.25;
  });
  EXPECT_EQ(drops, 1);
  EXPECT_NE(refusal([&] { return read(written("Add")); }).find("have no equal here: dropout (1"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::onnx_layers_test
