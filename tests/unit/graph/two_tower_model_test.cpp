// SPDX-License-Identifier: Apache-2.0
// Two towers: published sizes and work, that nothing joins them before the scores, the loss, gradients.
#include <gtest/gtest.h>

#include <set>

#include "core/graph/import/find_model.h"
#include "tests/model_gradients.h"

namespace meshwright::two_tower_model_test {
namespace {

const char* const kTiny =
    "two_tower:layers=2,hidden=8,heads=2,image=8,patch=4,text_layers=1,text_hidden=6,text_heads=3,seq=4,vocab=7,"
    "embed=5";

Graph forward_graph(const std::string& model, std::int64_t batch) {
  return build_forward_graph(find_model(model), {.batch = batch, .dtype = DType::F16});
}

const Tensor& tensor_of(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == name) return tensor;
  throw InternalError("no tensor " + name);
}

TEST(TwoTower, HasThePublishedParameters) {
  EXPECT_EQ(parameter_count(forward_graph("clip-b32", 1)), 151'277'313);
  EXPECT_EQ(parameter_count(forward_graph("clip-l14", 1)), 427'616'513);
  // Patches, class token, 5 positions, two norms and the projection around blocks of two norms, four projections and 8
  // to 32 to 8; words, 4 positions, a block, a norm and the projection; the temperature.
  const std::int64_t image =
      48 * 8 + 8 + 5 * 8 + 2 * 16 + 8 * 5 + 2 * (2 * 16 + 4 * (64 + 8) + (8 * 32 + 32) + (32 * 8 + 8));
  const std::int64_t text = 7 * 6 + 4 * 6 + 12 + 6 * 5 + (2 * 12 + 4 * (36 + 6) + (6 * 24 + 24) + (24 * 6 + 6));
  EXPECT_EQ(parameter_count(forward_graph(kTiny, 1)), image + text + 1);
}

// Of a sample of B: patches N, T = N + 1: 2 N 3 P^2 H + L (24 T H^2 + 4 T^2 H) + 2 H D, the same of the words without
// patches (causal attention counts as all others), and 2 directions of 2 B D scores.
TEST(TwoTower, HasTheFlopsOfTheFormula) {
  const double batch = 8;
  const auto blocks = [](double layers, double hidden, double t) {
    return layers * (24 * t * hidden * hidden + 4 * t * t * hidden) + 2 * hidden * 512;
  };
  const double formula = 2.0 * 49 * 3 * 32 * 32 * 768 + blocks(12, 768, 50) + blocks(12, 512, 77) + 4 * batch * 512;
  EXPECT_EQ(graph_flops(forward_graph("clip-b32", 8)).si() / batch, formula);
}

// The names of all ops that `tensor` follows from.
std::set<std::string> ancestors(const Graph& graph, const std::string& tensor) {
  std::set<std::string> found;
  std::vector<TensorId> open = {tensor_of(graph, tensor).id};
  while (!open.empty()) {
    const Tensor& one = graph.tensor(open.back());
    open.pop_back();
    if (!one.producer || !found.insert(graph.op(*one.producer).name).second) continue;
    const Op& op = graph.op(*one.producer);
    open.insert(open.end(), op.inputs.begin(), op.inputs.end());
  }
  return found;
}

TEST(TwoTower, TheTowersFollowFromNothingInCommon) {
  const Graph graph = forward_graph(kTiny, 4);
  for (const char* tower : {"image", "text"}) {
    const std::set<std::string> names = ancestors(graph, std::string(tower) + ".joint");
    EXPECT_GT(names.size(), 15u);
    for (const std::string& name : names) EXPECT_EQ(name.rfind(std::string(tower) + ".", 0), 0u) << name;
  }
  const std::set<std::string> scores = ancestors(graph, "head.scores");
  EXPECT_TRUE(scores.contains("image.joint") && scores.contains("text.joint"));
}

TEST(TwoTower, BlocksOfTheTextAreNumberedAfterThoseOfTheImage) {
  const Graph graph = forward_graph(kTiny, 4);
  const std::vector<std::string> prefixes = {"image.blk0.", "image.blk1.", "text.blk0."};
  for (const Op& op : graph.ops()) {
    int block = -1;
    for (std::size_t i = 0; i < prefixes.size(); ++i)
      if (op.name.rfind(prefixes[i], 0) == 0) block = static_cast<int>(i);
    EXPECT_EQ(op.block, block) << op.name;
  }
}

// The class token comes first and the token that stands for a text last: each reads all others.
TEST(TwoTower, OnlyTextsAreReadInOneDirection) {
  const Graph graph = forward_graph(kTiny, 1);
  int met = 0;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) {
      EXPECT_EQ(op.attributes.causal, op.name.rfind("text.", 0) == 0) << op.name;
      ++met;
    }
  EXPECT_EQ(met, 3);
}

TEST(TwoTower, BothTowersHaveTheFormOfGeluThatIsAskedFor) {
  for (const auto& [sizes, activation] :
       {std::pair(std::string(kTiny), OpKind::GeluErf), std::pair(std::string(kTiny) + ",erf=0", OpKind::Gelu)}) {
    const Graph graph = forward_graph(sizes, 1);
    EXPECT_EQ(std::count_if(graph.ops().begin(), graph.ops().end(),
                            [kind = activation](const Op& op) { return op.kind == kind; }),
              3)
        << sizes;
  }
}

// By plain loops from the projections: scores t^2 / 0.07 cos(image, text), the diagonal of which is to be found both
// among its row and among its column.
double contrast(const Values& images, const Values& texts, std::size_t width, double t) {
  const std::size_t batch = images.size() / width;
  const auto product = [width](const Values& x, std::size_t i, const Values& y, std::size_t j) {
    double sum = 0.0;
    for (std::size_t d = 0; d < width; ++d) sum += x[i * width + d] * y[j * width + d];
    return sum;
  };
  const auto score = [&](std::size_t i, std::size_t j) {
    const double lengths = std::sqrt(product(images, i, images, i) * product(texts, j, texts, j));
    return t * t / 0.07 * product(images, i, texts, j) / lengths;
  };
  double loss = 0.0;
  for (std::size_t i = 0; i < batch; ++i) {
    double row = 0.0, column = 0.0;
    for (std::size_t j = 0; j < batch; ++j) {
      row += std::exp(score(i, j));
      column += std::exp(score(j, i));
    }
    loss += (std::log(row) + std::log(column)) / 2 - score(i, i);
  }
  return loss / static_cast<double>(batch);
}

TEST(TwoTower, TheLossIsThatOfRowsAndColumns) {
  const Graph graph = build_forward_graph(find_model(kTiny), {.batch = 6, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 3, DType::F64);
  const TensorId t = tensor_of(graph, "head.temperature.gamma").id;
  for (const double temperature : {1.0, 0.5}) {
    interpreter.set(t, {temperature});
    interpreter.load_inputs(0, 0);
    interpreter.run(Phase::Forward);
    const Values images = interpreter.get(tensor_of(graph, "image.joint").id);
    const Values texts = interpreter.get(tensor_of(graph, "text.joint").id);
    const double expected = contrast(images, texts, 5, temperature);
    EXPECT_NEAR(interpreter.get(*graph.loss)[0], expected, 1e-8 * expected);
    EXPECT_EQ(interpreter.get(tensor_of(graph, "head.numbers").id), (Values{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  }
}

TEST(TwoTower, OneSampleIsFoundAmongItself) {
  const Graph graph = build_forward_graph(find_model(kTiny), {.batch = 1, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 3, DType::F64);
  interpreter.load_inputs(0, 0);
  interpreter.run(Phase::Forward);
  EXPECT_NEAR(interpreter.get(*graph.loss)[0], 0.0, 1e-12);
}

TEST(TwoTower, SaysWhichSizesDoNotFit) {
  const std::string rest = ",text_layers=1,text_hidden=6,text_heads=4,seq=4,vocab=7,embed=5";
  EXPECT_NE(refusal([&] {
              (void)find_model("two_tower:layers=2,hidden=8,heads=2,image=8,patch=4" + rest);
            }).find("text_hidden=6 is not a multiple of text_heads=4"),
            std::string::npos);
}

// A key's bias adds the same to every score of a row, which the softmax removes.
TEST(TwoTower, HasTrueGradients) {
  expect_true_model_gradients(kTiny, {.batch = 3}, ".k.bias");
  expect_true_model_gradients(kTiny, {.batch = 6, .microbatches = 2, .loss = LossReduction::TokenWeighted}, ".k.bias");
  expect_recomputation_keeps_gradients(kTiny, {.batch = 3});
}

}  // namespace
}  // namespace meshwright::two_tower_model_test
