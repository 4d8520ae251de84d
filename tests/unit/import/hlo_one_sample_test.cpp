// SPDX-License-Identifier: Apache-2.0
// Modules that were lowered with one sample: XLA has dropped dimensions of one element, and nothing in the text tells
// where the batch was.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_parts.h"
#include "tests/unit/import/loss_of.h"

namespace meshwright::hlo_one_sample_test {
namespace {

double weight(const std::string& name, std::size_t i) {
  return 0.4 * std::sin(0.9 * static_cast<double>(i) + static_cast<double>(name.back()));
}

// With the weights, ids and data by the formulas here, one label, and a target of 0.
double loss_with(const Graph& graph, std::int64_t vocab) {
  return loss_of(graph, [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    if (tensor.kind == TensorKind::Parameter || tensor.name == "x")
      return weight(tensor.name, static_cast<std::size_t>(i));
    if (tensor.name == "ids") return static_cast<double>((7 * i + 3) % vocab);
    if (tensor.name == "labels") return 3.0;
    if (tensor.name == "target") return 0.0;
    EXPECT_TRUE(graph.constants.contains(tensor.id)) << tensor.name;
    return std::nullopt;
  });
}

Graph graph_of(const std::string& text) {
  return build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 4, .dtype = DType::F64});
}

const std::string kSum = "HloModule m\n\n" + kHloAdd;

// A product with one row becomes a sum of products; the row has no dimension of samples any more.
std::string one_row(const std::string& between) {
  return kSum + R"(ENTRY main {
  x = f32[1,8] parameter(0)
  w = f32[5,8] parameter(1)
  u = f32[8,8] parameter(2)
  zero = f32[] constant(0)
  p = f32[1,8] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = f32[8] reshape(p)
)" + between +
         R"(  rows = f32[5,8] broadcast(last), dimensions={1}
  m = f32[5,8] multiply(rows, w)
  s = f32[5] reduce(m, zero), dimensions={1}, to_apply=add
  ROOT y = f32[5] tanh(s)
})";
}

TEST(OneSample, ThatLostItsDimensionGetsItBack) {
  const Graph graph = graph_of(one_row("  last = f32[8] copy(row)\n"));
  double sum = 0.0;
  for (std::size_t b = 0; b < 4; ++b)
    for (std::size_t o = 0; o < 5; ++o) {
      double y = 0.0;
      for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t j = 0; j < 8; ++j)
          y += weight("x", b * 8 + j) * weight("u", j * 8 + i) * weight("w", o * 8 + i);
      sum += std::pow(std::tanh(y), 2);
    }
  EXPECT_NEAR(loss_with(graph, 2), sum / 20, 1e-12);
}

// A table, a norm that is written as a batch norm of rows, a product, and a loss of one number: as with 3 samples.
std::string tokens(std::int64_t samples) {
  const std::int64_t rows = samples * 6;
  const std::string b = std::to_string(samples), r = std::to_string(rows);
  return kSum + R"(ENTRY main {
  ids = s32[)" +
         b + R"(,6] parameter(0)
  t = f32[11,8] parameter(1)
  g = f32[8] parameter(2)
  u = f32[8,8] parameter(3)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  e = f32[)" +
         b +
         R"(,6,8] gather(t, ids), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,8}
  er = f32[1,)" +
         r + R"(,8] reshape(e)
  ones = f32[)" +
         r + R"(] broadcast(one), dimensions={}
  zeros = f32[)" +
         r + R"(] broadcast(zero), dimensions={}
  n = (f32[1,)" +
         r + R"(,8], f32[)" + r + R"(], f32[)" + r +
         R"(]) batch-norm-training(er, ones, zeros), epsilon=1e-05, feature_index=1
  n0 = f32[1,)" +
         r + R"(,8] get-tuple-element(n), index=0
  nr = f32[)" +
         r + R"(,8] reshape(n0)
  gb = f32[)" +
         r + R"(,8] broadcast(g), dimensions={1}
  ng = f32[)" +
         r + R"(,8] multiply(nr, gb)
  ROOT y = f32[)" +
         r + R"(,8] dot(ng, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
}

TEST(OneSample, MakesTheModelThatSeveralSamplesMake) {
  const Graph one = graph_of(tokens(1)), three = graph_of(tokens(3));
  EXPECT_EQ(parameter_count(one), 11 * 8 + 8 + 64);
  EXPECT_EQ(graph_flops(one).si(), graph_flops(three).si());
  EXPECT_NEAR(loss_with(one, 11), loss_with(three, 11), 1e-12);
}

TEST(OneSample, IsNoted) {
  const ModelConfig model = read_model_bytes(one_row("  last = f32[8] copy(row)\n"), "m.hlo", {});
  const std::vector<std::string> notes = summary_of(model).notes;
  const bool said = std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("the module has one sample: each argument of data gets a dimension of samples") == 0;
  });
  EXPECT_TRUE(said);
  EXPECT_EQ(model.default_batch, 1);
}

const std::string kOverOneDimension =
    "  last = f32[8] custom-call(row), custom_call_target=\"byteir.softmax\", backend_config=\"axis = 0\"\n";

TEST(OneSample, ThatCannotBecomeSeveralIsRefused) {
  const std::string text = refusal([] { (void)graph_of(one_row(kOverOneDimension)); });
  EXPECT_NE(
      text.find("custom-call byteir.softmax has no form for several samples, so that the module's one sample does "
                "not become several; lower it with 2 samples or more"),
      std::string::npos)
      << text;
}

// As it stands, the text is a model of one sample.
TEST(OneSample, ThatCannotBecomeSeveralIsPlannedByItself) {
  const std::string text = kSum + R"(ENTRY main {
  x = f32[1,6] parameter(0)
  u = f32[6,8] parameter(1)
  p = f32[1,8] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = f32[8] reshape(p)
)" + kOverOneDimension + "  ROOT y = f32[8] tanh(last)\n}";
  const ModelConfig model = read_model_bytes(text, "m.hlo", {});
  EXPECT_EQ(parameter_count(build_training_graph(model, {.batch = 1})), 48);
  EXPECT_EQ(refusal([&] { (void)build_training_graph(model, {.batch = 4}); }),
            "'m.hlo' has one sample, whose dimension cannot be told: it is planned with a micro-batch of 1 alone, not "
            "of 4; export it with 2 samples or more.");
}

// The score of each image is looked up by its own label; a convolution has the samples as its batch.
TEST(OneSample, OfAnImageIsABatchOfImages) {
  const std::string text = kSum + R"(ENTRY main {
  x = f32[1,4,4,2] parameter(0)
  labels = s32[1] parameter(1)
  w = f32[1,1,2,3] parameter(2)
  zero = f32[] constant(0)
  c = f32[1,4,4,3] convolution(x, w), window={size=1x1}, dim_labels=b01f_01io->b01f
  image = f32[4,4,3] reshape(c)
  s = f32[3] reduce(image, zero), dimensions={0,1}, to_apply=add
  at = s32[] reshape(labels)
  powers = f32[3] exponential(s)
  sum = f32[] reduce(powers, zero), dimensions={0}, to_apply=add
  all = f32[] log(sum)
  picked = f32[1] dynamic-slice(s, at), dynamic_slice_sizes={1}
  one = f32[] reshape(picked)
  ROOT y = f32[] subtract(all, one)
})";
  const Graph graph = graph_of(text);
  double sum = 0.0;
  for (std::size_t b = 0; b < 4; ++b) {
    double powers = 0.0;
    for (std::size_t k = 0; k < 3; ++k) {
      double y = 0.0;
      for (std::size_t place = 0; place < 16; ++place)
        for (std::size_t i = 0; i < 2; ++i) y += weight("x", (b * 16 + place) * 2 + i) * weight("w", i * 3 + k);
      powers += std::exp(y);
      if (k == b % 3) sum -= y;
    }
    sum += std::log(powers);
  }
  EXPECT_NEAR(loss_of(graph,
                      [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
                        if (tensor.name == "labels") return static_cast<double>(i % 3);
                        return weight(tensor.name, static_cast<std::size_t>(i));
                      }),
              sum / 4, 1e-12);
}

// Labels are the only other data, and weights stand in front: but it is scaled, as no table of positions is.
TEST(OneSample, LeavesSeveralImagesBesideWeightsData) {
  const auto module = [](const char* scaled) {
    return kSum + fmt::format(R"(ENTRY main {{
  w = f32[1,1,2,3] parameter(0)
  x = f32[2,4,4,2] parameter(1)
  labels = s32[2] parameter(2)
  half = f32[] constant(0.5)
  halves = f32[2,4,4,2] broadcast(half), dimensions={{}}
  scaled = f32[2,4,4,2] {}
  c = f32[2,4,4,3] convolution(scaled, w), window={{size=1x1}}, dim_labels=b01f_01io->b01f
  zero = f32[] constant(0)
  s = f32[2] reduce(c, zero), dimensions={{1,2,3}}, to_apply=add
  target = f32[2] convert(labels)
  d = f32[2] subtract(s, target)
  squares = f32[2] multiply(d, d)
  sum = f32[] reduce(squares, zero), dimensions={{0}}, to_apply=add
  ROOT loss = f32[] multiply(sum, half)
}})",
                              scaled);
  };
  for (const char* scaled : {"multiply(x, halves)", "add(x, halves)"})
    EXPECT_EQ(parameter_count(graph_of(module(scaled))), 2 * 3) << scaled;
}

// As a mutated module has it.
TEST(OneSample, OfANormWhoseStatisticsAreReadIsRefused) {
  std::string module = tokens(1);
  const std::string read = "get-tuple-element(n), index=0", type = "n0 = f32[1,6,8]";
  module.replace(module.find(read), read.size(), "get-tuple-element(n), index=1");
  module.replace(module.find(type), type.size(), "n0 = f32[6]");
  module.replace(module.find("nr = f32[6,8] reshape(n0)"), 25, "nr = f32[6,8] broadcast(n0), dimensions={0}");
  const std::string text = refusal([&] { (void)graph_of(module); });
  EXPECT_NE(text.find("reads the statistics of a normalisation"), std::string::npos) << text;
}

TEST(OneSample, OfThePublicBertIsPlanned) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: the published files are not there.";
  const ModelConfig model =
      read_model_file(std::string(data) + "/models/hlo_torchxla/bert_pretrain_tp=1_dp=1_pp=1_fwd+bwd.js", {});
  const Graph graph = build_training_graph(model, {.batch = 4, .dtype = DType::F32});
  EXPECT_EQ(ops_of(graph, OpKind::GroupedAttention), 1);
  EXPECT_EQ(ops_of(graph, OpKind::GeluErf), 2);           // of the feed-forward layer and of the head
  EXPECT_EQ(ops_of(graph, OpKind::CrossEntropyLoss), 2);  // masked words, and the next sentence
}

}  // namespace
}  // namespace meshwright::hlo_one_sample_test
