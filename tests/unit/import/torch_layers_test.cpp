// SPDX-License-Identifier: Apache-2.0
// Layers of PyTorch's exported programs, held against their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/import/model_file.h"
#include "executor/check/graph_interpreter.h"
#include "tests/unit/import/torch_program.h"

namespace meshwright::torch_layers_test {
namespace {

using Numbers = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

Json whole(std::int64_t value) { return {{"as_int", value}}; }
Json wholes(const Sizes& values) { return {{"as_ints", values}}; }
Json flag(bool value) { return {{"as_bool", value}}; }
Json tensors(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back({{"name", name}});
  return {{"as_tensors", list}};
}
// Numbers of both signs, no two neighbours alike.
double number_at(std::int64_t i) { return std::sin(1.0 + 0.7 * static_cast<double>(i)); }

struct Program {
  Sizes x;
  std::map<std::string, Sizes> parameters;
  std::vector<Json> calls;
};

Graph graph_of(const Program& program) {
  const auto sized = [](const Sizes& dims) {
    Json sizes = Json::array();
    for (const std::int64_t dim : dims) sizes.push_back(whole(dim));
    return Json{{"dtype", 7}, {"sizes", sizes}};
  };
  Json values = {{"x", sized(program.x)}};
  Json inputs = Json::array({{{"user_input", {{"arg", tensor_named("x")}}}}});
  for (const auto& [name, sizes] : program.parameters) {
    values[name] = sized(sizes);
    inputs.push_back({{"parameter", {{"arg", {{"name", name}}}, {"parameter_name", name}}}});
  }
  const Json signature = {{"input_specs", inputs},
                          {"output_specs", Json::array({{{"user_output", {{"arg", tensor_named("y")}}}}})}};
  const Json json = {
      {"graph_module", {{"graph", {{"nodes", program.calls}, {"tensor_values", values}}}, {"signature", signature}}},
      {"schema_version", {{"major", 8}, {"minor", 20}}}};
  return build_training_graph(read_model_bytes(json.dump(), "m.pt2.json", {}),
                              {.batch = program.x[0], .dtype = DType::F64});
}

constexpr std::int64_t kColumns = 3;

// What the last call makes, z, times a matrix m, whatever the order in which the graph keeps z; every tensor with the
// numbers of number_at.
Numbers result_of(Program program, std::int64_t width) {
  program.parameters["m"] = {width, kColumns};
  program.calls.push_back(call("flatten", {{"self", tensor_named("z")}, {"start_dim", whole(1)}}, "rows"));
  program.calls.push_back(call("mm", {{"self", tensor_named("rows")}, {"mat2", tensor_named("m")}}, "y"));
  const Graph graph = graph_of(program);
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name != "x" && !program.parameters.contains(tensor.name)) continue;
    Numbers values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(number_at(i));
    interpreter.set(tensor.id, values);
  }
  interpreter.run(Phase::Forward);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::SquaredErrorLoss || op.kind == OpKind::PickLabel) return interpreter.get(op.inputs[0]);
  ADD_FAILURE() << "no loss";
  return {};
}

void expect_rows(const Program& program, const Numbers& z) {
  const auto width = static_cast<std::int64_t>(z.size()) / program.x[0];
  const Numbers found = result_of(program, width);
  ASSERT_EQ(std::ssize(found), program.x[0] * kColumns);
  for (std::int64_t s = 0; s < program.x[0]; ++s)
    for (std::int64_t c = 0; c < kColumns; ++c) {
      double expected = 0.0;
      for (std::int64_t i = 0; i < width; ++i)
        expected += z[static_cast<std::size_t>(s * width + i)] * number_at(i * kColumns + c);
      EXPECT_NEAR(found[static_cast<std::size_t>(s * kColumns + c)], expected, 1e-12)
          << "sample " << s << " column " << c;
    }
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Row `row` of a matrix of so many columns times x, from number `begin` of x on.
double product(std::int64_t row, std::int64_t columns, const Numbers& x, std::size_t begin) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < columns; ++k)
    sum += number_at(row * columns + k) * x[begin + static_cast<std::size_t>(k)];
  return sum;
}

constexpr std::int64_t kSamples = 2, kSteps = 5, kWidth = 3, kHidden = 2;

Program recurrent(const std::string& op, std::int64_t gates, const std::vector<std::string>& states) {
  Program program{{kSamples, kSteps, kWidth},
                  {{"w", {gates * kHidden, kWidth}},
                   {"r", {gates * kHidden, kHidden}},
                   {"b", {gates * kHidden}},
                   {"c", {gates * kHidden}}},
                  {}};
  program.calls = {call("zeros", {{"size", wholes({1, kSamples, kHidden})}}, "h0"),
                   call(op,
                        {{"input", tensor_named("x")},
                         {"hx", states.size() == 1 ? tensor_named("h0") : tensors(states)},
                         {"params", tensors({"w", "r", "b", "c"})},
                         {"has_biases", flag(true)},
                         {"num_layers", whole(1)},
                         {"batch_first", flag(true)}},
                        "z")};
  return program;
}

Numbers x_of_recurrence() {
  Numbers x;
  for (std::int64_t i = 0; i < kSamples * kSteps * kWidth; ++i) x.push_back(number_at(i));
  return x;
}

TEST(TorchLayers, AnLstmIsItsFormulaStepByStep) {
  const Numbers x = x_of_recurrence();
  Numbers expected;
  for (std::int64_t s = 0; s < kSamples; ++s) {
    Numbers h(kHidden, 0.0), c = h;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      const auto begin = static_cast<std::size_t>((s * kSteps + t) * kWidth);
      const auto gate = [&](std::int64_t row) {
        return product(row, kWidth, x, begin) + number_at(row) + product(row, kHidden, h, 0) + number_at(row);
      };
      Numbers next;
      for (std::int64_t j = 0; j < kHidden; ++j) {
        double& memory = c[static_cast<std::size_t>(j)];
        memory = sigmoid(gate(kHidden + j)) * memory + sigmoid(gate(j)) * std::tanh(gate(2 * kHidden + j));
        next.push_back(sigmoid(gate(3 * kHidden + j)) * std::tanh(memory));
      }
      h = next;
      expected.insert(expected.end(), h.begin(), h.end());
    }
  }
  expect_rows(recurrent("lstm", 4, {"h0", "h0"}), expected);
}

TEST(TorchLayers, AGruIsItsFormulaStepByStep) {
  const Numbers x = x_of_recurrence();
  Numbers expected;
  for (std::int64_t s = 0; s < kSamples; ++s) {
    Numbers h(kHidden, 0.0);
    for (std::int64_t t = 0; t < kSteps; ++t) {
      const auto begin = static_cast<std::size_t>((s * kSteps + t) * kWidth);
      const auto input = [&](std::int64_t row) { return product(row, kWidth, x, begin) + number_at(row); };
      const auto state = [&](std::int64_t row) { return product(row, kHidden, h, 0) + number_at(row); };
      Numbers next;
      for (std::int64_t j = 0; j < kHidden; ++j) {
        const double reset = sigmoid(input(j) + state(j)), update = sigmoid(input(kHidden + j) + state(kHidden + j));
        const double fresh = std::tanh(input(2 * kHidden + j) + reset * state(2 * kHidden + j));
        next.push_back((1.0 - update) * fresh + update * h[static_cast<std::size_t>(j)]);
      }
      h = next;
      expected.insert(expected.end(), h.begin(), h.end());
    }
  }
  expect_rows(recurrent("gru", 3, {"h0"}), expected);
}

// y[a, t] = sum over k of x[t + 2 - 2 k'] as conv_transpose1d with stride 2 and padding 1 has it.
TEST(TorchLayers, ATransposedConvolutionAddsItsWindows) {
  constexpr std::int64_t kLength = 4, kOut = 3, kWindow = 3, kResults = (kLength - 1) * 2 + kWindow - 2 + 1;
  const Program program{{2, kWidth, kLength},
                        {{"w", {kWidth, kOut, kWindow}}},
                        {call("conv_transpose1d",
                              {{"input", tensor_named("x")},
                               {"weight", tensor_named("w")},
                               {"stride", wholes({2})},
                               {"padding", wholes({1})},
                               {"output_padding", wholes({1})}},
                              "z")}};
  Numbers expected(2 * kOut * kResults, 0.0);
  for (std::int64_t s = 0; s < 2; ++s)
    for (std::int64_t i = 0; i < kWidth; ++i)
      for (std::int64_t t = 0; t < kLength; ++t)
        for (std::int64_t o = 0; o < kOut; ++o)
          for (std::int64_t k = 0; k < kWindow; ++k)
            if (const std::int64_t at = 2 * t + k - 1; at >= 0 && at < kResults)
              expected[static_cast<std::size_t>((s * kOut + o) * kResults + at)] +=
                  number_at((s * kWidth + i) * kLength + t) * number_at((i * kOut + o) * kWindow + k);
  expect_rows(program, expected);
}

// Twice as many elements in a row: 3/4 of the near one and 1/4 of the next, at the ends all of the last.
TEST(TorchLayers, LinearResizingWeighsTheTwoNearest) {
  const Program program{
      {2, 1, 4},
      {},
      {call("upsample_linear1d",
            {{"input", tensor_named("x")}, {"output_size", wholes({8})}, {"align_corners", flag(false)}}, "z")}};
  Numbers expected;
  for (std::int64_t s = 0; s < 2; ++s)
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto x = [&](std::int64_t at) { return number_at(s * 4 + std::clamp<std::int64_t>(at, 0, 3)); };
      expected.push_back(0.75 * x(i / 2) + 0.25 * x(i % 2 == 0 ? i / 2 - 1 : i / 2 + 1));
    }
  expect_rows(program, expected);
}

// swapaxes names its two dimensions otherwise than transpose does.
TEST(TorchLayers, SwappedAxesAreThoseThatAreNamed) {
  const Program program{
      {2, 3, 4},
      {},
      {call("swapaxes", {{"self", tensor_named("x")}, {"axis0", whole(-1)}, {"axis1", whole(-2)}}, "z")}};
  Numbers expected;
  for (std::int64_t s = 0; s < 2; ++s)
    for (std::int64_t j = 0; j < 4; ++j)
      for (std::int64_t i = 0; i < 3; ++i) expected.push_back(number_at((s * 3 + i) * 4 + j));
  expect_rows(program, expected);
}

// Windows of an image side by side, each with heads of its own: dimensions ahead of the last three are samples.
TEST(TorchLayers, AttentionOfFiveDimensionsIsThatOfItsWindows) {
  constexpr std::int64_t kWindows = 2, kHeads = 2, kKeys = 3, kDims = 2;
  const Program program{
      {2, kWindows, kHeads, kKeys, kDims},
      {},
      {call("scaled_dot_product_attention",
            {{"query", tensor_named("x")}, {"key", tensor_named("x")}, {"value", tensor_named("x")}}, "z")}};
  Numbers expected;
  for (std::int64_t head = 0; head < 2 * kWindows * kHeads; ++head)
    for (std::int64_t i = 0; i < kKeys; ++i) {
      const auto x = [&](std::int64_t row, std::int64_t d) { return number_at((head * kKeys + row) * kDims + d); };
      Numbers weights;
      double sum = 0.0;
      for (std::int64_t j = 0; j < kKeys; ++j) {
        weights.push_back(std::exp((x(i, 0) * x(j, 0) + x(i, 1) * x(j, 1)) / std::sqrt(2.0)));
        sum += weights.back();
      }
      for (std::int64_t d = 0; d < kDims; ++d) {
        double mixed = 0.0;
        for (std::int64_t j = 0; j < kKeys; ++j) mixed += weights[static_cast<std::size_t>(j)] / sum * x(j, d);
        expected.push_back(mixed);
      }
    }
  expect_rows(program, expected);
}

// The pairs of a triangle, as recommendation models take them of all products of their tables.
TEST(TorchLayers, ATriangleOfAMatrixIsPickedByItsIndices) {
  const Program program{
      {2, 3, 3},
      {},
      {call("tril_indices", {{"row", whole(3)}, {"col", whole(3)}, {"offset", whole(-1)}}, "pairs"),
       call("select", {{"self", tensor_named("pairs")}, {"dim", whole(0)}, {"index", whole(0)}}, "lines"),
       call("select", {{"self", tensor_named("pairs")}, {"dim", whole(0)}, {"index", whole(1)}}, "columns"),
       call("index",
            {{"self", tensor_named("x")},
             {"indices",
              {{"as_optional_tensors",
                Json::array({{{"as_none", true}}, tensor_named("lines"), tensor_named("columns")})}}}},
            "z")}};
  Numbers expected;
  for (std::int64_t s = 0; s < 2; ++s)
    for (const std::int64_t at : {3, 6, 7}) expected.push_back(number_at(s * 9 + at));
  expect_rows(program, expected);
}

// Windows of 3 from one place before the first of 4 elements on, two further each: padding counts as zeros.
TEST(TorchLayers, AveragesCountTheirPadding) {
  Program program{{2, 1, 4}, {}, {}};
  program.calls = {call(
      "avg_pool1d",
      {{"self", tensor_named("x")}, {"kernel_size", wholes({3})}, {"stride", wholes({2})}, {"padding", wholes({1})}},
      "z")};
  Numbers z;
  for (std::int64_t s = 0; s < 2; ++s) {
    const auto x = [s](std::int64_t k) { return number_at(4 * s + k); };
    z.push_back((x(0) + x(1)) / 3.0);
    z.push_back((x(1) + x(2) + x(3)) / 3.0);
  }
  expect_rows(program, z);
}

// Heads whose numbers are merged with the heads behind them, as in einsum('bhqk,bkhd,hde->bqe') of JAX.
TEST(TorchLayers, HeadsMayBeMergedBehindTheirNumbers) {
  constexpr std::int64_t kPositions = 3, kHeads = 2, kHead = 4, kOut = 5;
  Program program{{2, kPositions, kHeads * kHead}, {}, {}};
  const auto heads = [&](const std::string& name) {
    program.parameters[name] = {kHeads * kHead, kHeads * kHead};
    program.calls.push_back(call("linear", {{"input", tensor_named("x")}, {"weight", tensor_named(name)}}, name + "l"));
    program.calls.push_back(call(
        "view", {{"self", tensor_named(name + "l")}, {"size", wholes({2, kPositions, kHeads, kHead})}}, name + "v"));
    program.calls.push_back(
        call("permute", {{"self", tensor_named(name + "v")}, {"dims", wholes({0, 2, 1, 3})}}, name + "h"));
  };
  for (const char* name : {"q", "k", "v"}) heads(name);
  program.calls.push_back(
      call("scaled_dot_product_attention",
           {{"query", tensor_named("qh")}, {"key", tensor_named("kh")}, {"value", tensor_named("vh")}}, "mixed"));
  program.calls.push_back(call("permute", {{"self", tensor_named("mixed")}, {"dims", wholes({0, 2, 3, 1})}}, "turned"));
  program.calls.push_back(
      call("reshape", {{"self", tensor_named("turned")}, {"size", wholes({2, kPositions, kHead * kHeads})}}, "merged"));
  program.parameters["o"] = {kOut, kHead * kHeads};
  program.calls.push_back(call("linear", {{"input", tensor_named("merged")}, {"weight", tensor_named("o")}}, "y"));
  const Graph graph = graph_of(program);
  std::map<OpKind, int> kinds;
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Forward) ++kinds[op.kind];
  EXPECT_EQ(kinds[OpKind::Contract], 4);
  EXPECT_EQ(kinds[OpKind::GroupedAttention], 1);
}

constexpr std::int64_t kAttended = 3, kHeadsOfOne = 2, kWidthOfHead = 4, kAttending = kHeadsOfOne * kWidthOfHead;

// Attention of x whose queries, keys and values are made by "w" at once, or by "q", "k" and "v"; then a product with
// "o". The weights are those of an earlier layer, where there is one.
void attend(Program& program, const std::string& x, bool at_once, const std::string& y) {
  const auto heads = [&](const std::string& from, const std::string& name) {
    program.calls.push_back(
        call("view", {{"self", tensor_named(from)}, {"size", wholes({2, kAttended, kHeadsOfOne, kWidthOfHead})}},
             name + "v"));
    program.calls.push_back(
        call("permute", {{"self", tensor_named(name + "v")}, {"dims", wholes({0, 2, 1, 3})}}, name));
  };
  const auto product = [&](const std::string& from, const std::string& weight, std::int64_t columns,
                           const std::string& name) {
    program.parameters[weight] = {columns, kAttending};
    program.calls.push_back(call("linear", {{"input", tensor_named(from)}, {"weight", tensor_named(weight)}}, name));
  };
  if (at_once) product(x, "w", 3 * kAttending, y + "all");
  std::int64_t start = 0;
  for (const std::string part : {"q", "k", "v"}) {
    if (at_once)
      program.calls.push_back(call("slice",
                                   {{"self", tensor_named(y + "all")},
                                    {"dim", whole(2)},
                                    {"start", whole(start)},
                                    {"end", whole(start + kAttending)}},
                                   y + part + "p"));
    else
      product(x, part, kAttending, y + part + "p");
    start += kAttending;
    heads(y + part + "p", y + part);
  }
  program.calls.push_back(call(
      "scaled_dot_product_attention",
      {{"query", tensor_named(y + "q")}, {"key", tensor_named(y + "k")}, {"value", tensor_named(y + "v")}}, y + "a"));
  program.calls.push_back(call("permute", {{"self", tensor_named(y + "a")}, {"dims", wholes({0, 2, 1, 3})}}, y + "t"));
  program.calls.push_back(
      call("reshape", {{"self", tensor_named(y + "t")}, {"size", wholes({2, kAttended, kAttending})}}, y + "m"));
  product(y + "m", "o", kAttending, y);
}

// Only the positions of keys and values get names of their own, whether products are made at once or by weights that an
// earlier layer has, too: nothing else is moved, as in the built-in models.
TEST(TorchLayers, AttentionMovesNothingButTheNamesOfKeys) {
  const auto moves = [](const Program& program) {
    const Graph graph = graph_of(program);
    int count = 0;
    for (const Op& op : graph.ops())
      count += op.phase == Phase::Forward && (op.kind == OpKind::Reshape || op.kind == OpKind::Transpose) ? 1 : 0;
    return count;
  };
  for (const bool at_once : {false, true}) {
    Program one{{2, kAttended, kAttending}, {}, {}};
    attend(one, "x", at_once, "y");
    EXPECT_EQ(moves(one), 2) << at_once;
  }
  Program two{{2, kAttended, kAttending}, {}, {}};
  attend(two, "x", false, "h");
  attend(two, "h", false, "y");
  EXPECT_EQ(moves(two), 4);
}

// The head of BERT: a square product leaves other columns than the word table has, and not the table, which words are
// looked up in, too, but what is multiplied by it takes its names.
TEST(TorchLayers, AWeightKeepsItsNamesWhereItsOperandCanTakeThem) {
  Program program{{2, kAttended, kAttending}, {{"s", {kAttending, kAttending}}, {"t", {kColumns, kAttending}}}, {}};
  program.calls = {call("linear", {{"input", tensor_named("x")}, {"weight", tensor_named("t")}}, "first"),
                   call("linear", {{"input", tensor_named("x")}, {"weight", tensor_named("s")}}, "turned"),
                   call("linear", {{"input", tensor_named("turned")}, {"weight", tensor_named("t")}}, "second"),
                   call("add", {{"self", tensor_named("first")}, {"other", tensor_named("second")}}, "y")};
  const Graph graph = graph_of(program);
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Reshape) continue;
    for (const TensorId read : op.inputs) {
      EXPECT_NE(graph.tensor(read).kind, TensorKind::Parameter) << op.name;
    }
  }
}

// Gaps of 3 in rows of 2 elements: of each window only the middle lies in the row, and the others begin within a piece
// of the padding that is as long as the row.
TEST(TorchLayers, GapsMayBeWiderThanTheRow) {
  Program program{{2, 1, 2}, {{"w", {1, 1, 3}}}, {}};
  program.calls = {call("conv1d",
                        {{"input", tensor_named("x")},
                         {"weight", tensor_named("w")},
                         {"padding", wholes({3})},
                         {"dilation", wholes({3})}},
                        "z")};
  Numbers z;
  for (std::int64_t i = 0; i < 4; ++i) z.push_back(number_at(1) * number_at(i));
  expect_rows(program, z);
}

// As functions that are mapped over samples have it: the maximum is taken before a dimension of one element moves.
TEST(TorchLayers, ASoftmaxMayBeLessTheMaximumOfItsScoresElsewhere) {
  Program program{{2, 3, 1}, {{"m", {3, kColumns}}}, {}};
  program.calls = {call("amax", {{"self", tensor_named("x")}, {"dim", wholes({1})}}, "most"),
                   call("view", {{"self", tensor_named("x")}, {"size", wholes({2, 3})}}, "scores"),
                   call("sub", {{"self", tensor_named("scores")}, {"other", tensor_named("most")}}, "shifted"),
                   call("exp", {{"self", tensor_named("shifted")}}, "e"),
                   call("sum", {{"self", tensor_named("e")}, {"dim", wholes({1})}, {"keepdim", flag(true)}}, "all"),
                   call("div", {{"self", tensor_named("e")}, {"other", tensor_named("all")}}, "parts"),
                   call("mm", {{"self", tensor_named("parts")}, {"mat2", tensor_named("m")}}, "y")};
  std::map<OpKind, int> kinds;
  const Graph graph = graph_of(program);
  for (const Op& op : graph.ops()) ++kinds[op.kind];
  EXPECT_EQ(kinds[OpKind::Softmax], 1);
  EXPECT_EQ(kinds[OpKind::ReduceMax], 0);
}

}  // namespace
}  // namespace meshwright::torch_layers_test
