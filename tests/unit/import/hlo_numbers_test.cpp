// SPDX-License-Identifier: Apache-2.0
// Graphs of HLO text compute what JAX computed of the same programs: losses that jax/make.py printed (JAX 0.10), with
// its weights and inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/base/text.h"
#include "core/graph/import/model_file.h"
#include "tests/unit/import/loss_of.h"

namespace meshwright {

namespace {

// As jax/make.py fills a parameter "p.h.0.gain1", or layer 2 of a stack "p.layers.w1.2".
double number(std::vector<std::string> words, std::int64_t elements, std::int64_t i) {
  const std::set<std::string> scales = {"ln1", "ln2", "norm", "gain", "gain1", "gain2"};
  words.erase(words.begin());
  if (words.back().find_first_not_of("0123456789") == std::string::npos) {
    i += std::stoi(words.back()) * elements;
    words.pop_back();
  }
  int sum = 0;
  for (const char letter : join(words, ".")) sum += static_cast<unsigned char>(letter);
  return 0.3 * std::sin(0.37 * static_cast<double>(i) + 1.3 * (sum % 97)) + (scales.contains(words.back()) ? 1.0 : 0.0);
}

Graph graph_of_file(const std::string& name, std::int64_t batch = 2) {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path() / "jax";
  const std::string path = (folder / (name + ".hlo")).string();
  return build_training_graph(read_model_file(path, {}), {.batch = batch, .dtype = DType::F64});
}

double loss_of_file(const std::string& name, std::int64_t classes, std::int64_t batch = 2) {
  return loss_of(graph_of_file(name, batch), [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    std::vector<std::string> words = split(tensor.name, '.');
    if (words.size() > 1 && words[words.size() - 2] == "wqkv") {  // a third of the columns of one weight
      const std::int64_t part = std::stoi(words.back()), columns = tensor.elements() / tensor.dims[0].size;
      words.pop_back();
      return number(words, 0, i / columns * 3 * columns + part * columns + i % columns);
    }
    if (tensor.kind == TensorKind::Parameter) return number(words, tensor.elements(), i);
    if (tensor.name.starts_with("images")) return 0.3 * std::sin(0.37 * static_cast<double>(i));
    if (tensor.name.starts_with("ids")) return static_cast<double>((7 * i + 3) % classes);
    if (tensor.name.starts_with("labels")) return static_cast<double>((5 * i + 1) % classes);
    if (tensor.name.starts_with("mask")) return i % 8 < (i < 8 ? 8 : 5) ? 1.0 : 0.0;
    return std::nullopt;
  });
}

TEST(HloNumbers, OfScannedLayersWithGroupedHeadsAreThoseOfJax) {
  EXPECT_NEAR(loss_of_file("llama_step", 50), 8.09753704071045, 1e-4);
}
TEST(HloNumbers, OfLayerNormsAndTheExactGeluAreThoseOfJax) {
  EXPECT_NEAR(loss_of_file("gpt_loss", 50), 10.306388854980469, 1e-4);
}
// Where a product's columns are queries, keys and values, its weight is three, as in the family `gpt2`: nothing is cut.
TEST(HloNumbers, OfOneProductsColumnsAreThoseOfThreeWeights) {
  const Graph graph = graph_of_file("gpt_loss");
  std::set<std::string> weights;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter && tensor.name.find("wqkv") != std::string::npos)
      weights.insert(tensor.name);
  int cut = 0, grouped = 0;
  for (const Op& op : graph.ops()) {
    cut += op.kind == OpKind::Slice ? 1 : 0;
    grouped += op.kind == OpKind::GroupedAttention ? 1 : 0;
  }
  EXPECT_EQ(weights.size(), 6U);  // of 2 layers
  EXPECT_EQ(grouped, 2);
  EXPECT_EQ(cut, 0);
}
TEST(HloNumbers, OfConvolutionsAndABatchNormAreThoseOfJax) {
  EXPECT_NEAR(loss_of_file("cnn_loss", 5), 1.6876702308654785, 1e-4);
}
// One with gaps in its window, one whose windows overlap, one whose windows lie side by side.
TEST(HloNumbers, OfDilatedAndTransposedConvolutionsAreThoseOfJax) {
  EXPECT_NEAR(loss_of_file("spread_loss", 5), 1.7275117635726929, 1e-4);
}
// What jax.nn.dot_product_attention lowers to: its groups of heads stand in front of the batch.
TEST(HloNumbers, OfPaddedAttentionAreThoseOfJax) {
  const Graph graph = graph_of_file("attended_loss");
  int masked = 0;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention && op.attributes.extra == Attributes::Extra::Mask) ++masked;
  EXPECT_EQ(masked, 2);
  EXPECT_NEAR(loss_of_file("attended_loss", 50), 6.348514080047607, 1e-4);
}
// Slots run out, so that the order in which choices get them counts.
TEST(HloNumbers, OfAMixtureOfMasksAreThoseOfJax) {
  EXPECT_NEAR(loss_of_file("routed_loss", 50), 4.603924751281738, 1e-4);
}
// The same programs as StableHLO, whose arguments have numbers for names.
double loss_of_stable(const std::string& name, const std::vector<std::string>& arguments) {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path() / "jax";
  const ModelConfig model = read_model_file((folder / (name + ".mlir")).string(), {});
  const Graph graph = build_training_graph(model, {.batch = 2, .dtype = DType::F64});
  return loss_of(graph, [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    if (!tensor.name.starts_with("arg")) return std::nullopt;
    const std::string& argument = arguments.at(std::stoul(tensor.name.substr(3)));
    if (argument == "ids") return static_cast<double>((7 * i + 3) % 50);
    if (argument == "labels") return static_cast<double>((5 * i + 1) % 50);
    return number(split(argument, '.'), tensor.elements(), i);
  });
}
TEST(StableHloNumbers, OfAMixtureOfMasksAreThoseOfJax) {
  EXPECT_NEAR(loss_of_stable("routed_loss", {"p.emb", "p.gate", "p.head", "p.w1", "p.w2", "ids", "labels"}),
              4.603924751281738, 1e-4);
}
// By complex numbers, by neighbours and by stacked halves; a product of keys and queries, whose heads share the keys.
TEST(HloNumbers, OfThreeFormsOfRotaryEmbeddingAreThoseOfJax) {
  const Graph graph = graph_of_file("turned_loss");
  int rotary = 0, neighbours = 0, attention = 0;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::GroupedAttention) ++attention;
    if (op.kind != OpKind::Rotary) continue;
    ++rotary;
    if (op.attributes.rotary_interleaved) ++neighbours;
  }
  EXPECT_EQ(attention, 3);
  EXPECT_EQ(rotary, 6);
  EXPECT_EQ(neighbours, 4);
  EXPECT_NEAR(loss_of_file("turned_loss", 50), 4.301149368286133, 1e-4);
}
TEST(StableHloNumbers, OfThreeFormsOfRotaryEmbeddingAreThoseOfJax) {
  std::vector<std::string> arguments = {"p.emb"};
  for (int layer = 0; layer < 3; ++layer)
    for (const char* weight : {"wk", "wo", "wq", "wv"}) arguments.push_back(fmt::format("p.h.{}.{}", layer, weight));
  for (const char* rest : {"p.head", "ids", "labels"}) arguments.emplace_back(rest);
  EXPECT_NEAR(loss_of_stable("turned_loss", arguments), 4.301149368286133, 1e-4);
}
// All experts compute every token; the weights of those that a token did not choose are 0.
TEST(HloNumbers, OfExpertsThatAllSeeEachTokenAreThoseOfJax) {
  const Graph graph = graph_of_file("gated_loss");
  EXPECT_EQ(std::count_if(graph.ops().begin(), graph.ops().end(),
                          [](const Op& op) { return op.kind == OpKind::GateWeights; }),
            1);
  EXPECT_NEAR(loss_of_file("gated_loss", 50), 4.4489922523498535, 1e-4);
}
TEST(HloNumbers, OfBatchesOfOneSampleUnderVmapAreThoseOfJax) {
  const Graph graph = graph_of_file("sampled_loss");
  EXPECT_EQ(std::count_if(graph.ops().begin(), graph.ops().end(),
                          [](const Op& op) { return op.kind == OpKind::GroupedAttention; }),
            1);
  EXPECT_NEAR(loss_of_file("sampled_loss", 50), 4.423517227172852, 1e-4);
}
// Two samples of texts of one: with a batch of one element that is dropped behind the tables, and a sequence without
// any.
TEST(HloNumbers, OfTextsOfOneSampleAreThoseOfJaxForSeveral) {
  EXPECT_EQ(parameter_count(graph_of_file("single_loss")), 2 * 50 * 32 + 8 * 32 + 4 * 32 * 32);
  EXPECT_NEAR(loss_of_file("single_loss", 50), 4.792807579040527, 1e-4);
  EXPECT_NEAR(loss_of_file("sequence_loss", 50), 4.058260440826416, 1e-4);
}
// The file adds up two micro-batches of every second sample.
TEST(HloNumbers, OfAStepThatAddsUpMicroBatchesAreThoseOfJax) {
  EXPECT_NEAR(loss_of_file("accumulated_step", 50, 4), 3.987241268157959, 1e-4);
}
// What vmap puts in front of the height of an image, and images of a single row.
TEST(HloNumbers, OfPooledImagesDoNotDependOnDimensionsOfOneElement) {
  const auto loss_with = [](const std::string& image, const std::string& window) {
    const std::string text = fmt::format(R"(HloModule m
max {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}}
ENTRY main {{
  w = f32[6,5] parameter(0)
  x = f32[2,8,3] parameter(1)
  x4 = f32[{}] reshape(x)
  low = f32[] constant(-inf)
  p = f32[{}] reduce-window(x4, low), window={{size={} stride={}}}, to_apply=max
  f = f32[2,12] reshape(p)
  c = f32[2,6] slice(f), slice={{[0:2], [0:6]}}
  ROOT y = f32[2,5] dot(c, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
)",
                                         image, split(window, ' ')[0], split(window, ' ')[1], split(window, ' ')[1]);
    const Graph graph = build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 2, .dtype = DType::F64});
    return loss_of(graph, [](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
      if (tensor.kind == TensorKind::Parameter || tensor.name.starts_with("x"))
        return std::sin(0.37 * static_cast<double>(i));
      return std::nullopt;
    });
  };
  const double expected = loss_with("2,8,1,3", "2,4,1,3 1x2x1x1");
  EXPECT_TRUE(std::isfinite(expected));
  EXPECT_DOUBLE_EQ(loss_with("2,8,3", "2,4,3 1x2x1"), expected);
  EXPECT_DOUBLE_EQ(loss_with("2,1,8,1,3", "2,1,4,1,3 1x1x2x1x1"), expected);
}
// A mask that is no attention's becomes an input of truth values.
TEST(HloNumbers, OfSelectionsByAMaskCanBeComputed) {
  const std::string text = R"(HloModule m
ENTRY main {
  w = f32[8,3] parameter(0)
  x = f32[4,8] parameter(1)
  y = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  keep = pred[3] constant({1, 0, 1})
  kb = pred[4,3] broadcast(keep), dimensions={1}
  x3 = f32[4,3] slice(x), slice={[0:4], [0:3]}
  ROOT s = f32[4,3] select(kb, y, x3)
}
)";
  const Graph graph = build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 2, .dtype = DType::F64});
  EXPECT_TRUE(std::isfinite(loss_of(graph, [](const Tensor&, std::int64_t) { return std::nullopt; })));
}

// h = tanh(x w), then twice h = a * b of (a, b) = h [u v]: the columns of u and v are its rows, one step further on.
TEST(HloNumbers, OfAStateThatMeetsItsWeightsAgainAreTheFormula) {
  const std::string text = R"(HloModule m
ENTRY main {
  w = f32[3,2] parameter(0)
  u = f32[2,2] parameter(1)
  v = f32[2,2] parameter(2)
  x = f32[4,3] parameter(3)
  p = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h0 = f32[4,2] tanh(p)
  uv = f32[2,4] concatenate(u, v), dimensions={1}
  g0 = f32[4,4] dot(h0, uv), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a0 = f32[4,2] slice(g0), slice={[0:4], [0:2]}
  b0 = f32[4,2] slice(g0), slice={[0:4], [2:4]}
  h1 = f32[4,2] multiply(a0, b0)
  g1 = f32[4,4] dot(h1, uv), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a1 = f32[4,2] slice(g1), slice={[0:4], [0:2]}
  b1 = f32[4,2] slice(g1), slice={[0:4], [2:4]}
  h2 = f32[4,2] multiply(a1, b1)
  ROOT y = f32[4,2] add(h2, h0)
}
)";
  const Graph graph = build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 2, .dtype = DType::F64});
  const auto given = [](const std::string& name, std::int64_t i) {
    return std::sin(0.7 * static_cast<double>(i) + static_cast<double>(name[0] - 't'));
  };
  const double loss = loss_of(graph, [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    return tensor.kind == TensorKind::Parameter || tensor.name == "x" ? given(tensor.name, i) : 0.0;  // targets
  });
  double expected = 0.0;
  for (std::int64_t s = 0; s < 2; ++s) {
    double h[2], first[2];
    for (int j = 0; j < 2; ++j) {
      double sum = 0.0;
      for (int k = 0; k < 3; ++k) sum += given("x", 3 * s + k) * given("w", 2 * k + j);
      first[j] = h[j] = std::tanh(sum);
    }
    for (int step = 0; step < 2; ++step) {
      double next[2];
      for (int j = 0; j < 2; ++j)
        next[j] = (h[0] * given("u", j) + h[1] * given("u", 2 + j)) * (h[0] * given("v", j) + h[1] * given("v", 2 + j));
      std::copy(next, next + 2, h);
    }
    for (int j = 0; j < 2; ++j) expected += (h[j] + first[j]) * (h[j] + first[j]) / 4.0;
  }
  EXPECT_NEAR(loss, expected, 1e-9);
}

// An image of 2 rows, each element twice in a row and in a column: by places 0.25, 0.75, 1.25, 1.75, rounded down.
TEST(HloNumbers, OfAnEnlargedImageHaveEachElementSeveralTimes) {
  const std::string text = R"(HloModule m
ENTRY main {
  w = f32[3,5] parameter(0)
  x = f32[2,2,1,3] parameter(1)
  i = f32[4] iota(), iota_dimension=0
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={}
  middle = f32[4] add(i, halves)
  place = f32[4] multiply(middle, halves)
  low = f32[4] floor(place)
  row = s32[4] convert(low)
  rows = s32[4,1] reshape(row)
  t = f32[2,2,1,3] tanh(x)
  large = f32[2,4,1,3] gather(t, rows), offset_dims={0,2,3}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={2,1,1,3}
  ROOT y = f32[2,4,1,5] dot(large, w), lhs_contracting_dims={3}, rhs_contracting_dims={0}
}
)";
  const Graph graph = build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 2, .dtype = DType::F64});
  const auto is = [](OpKind kind) { return [kind](const Op& op) { return op.kind == kind; }; };
  EXPECT_TRUE(std::any_of(graph.ops().begin(), graph.ops().end(), is(OpKind::Broadcast)));
  EXPECT_FALSE(std::any_of(graph.ops().begin(), graph.ops().end(), is(OpKind::Transpose)));
}

// No pattern: each operation is an op by itself, with the numbers of the file.
TEST(HloNumbers, OfFormulasWithoutAPatternAreTheFormulas) {
  const std::string text = R"(HloModule m
ENTRY main {
  w = f32[8,3] parameter(0)
  v = f32[8,3] parameter(1)
  x = f32[4,8] parameter(2)
  p = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[4,3] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[] constant(1.5)
  cb = f32[4,3] broadcast(c), dimensions={}
  two = f32[] constant(2)
  tb = f32[4,3] broadcast(two), dimensions={}
  three = f32[] constant(3)
  hb = f32[4,3] broadcast(three), dimensions={}
  e = f32[4,3] exponential(p)
  e1 = f32[4,3] add(e, cb)
  l = f32[4,3] log(e1)
  co = f32[4,3] cosine(p)
  d = f32[4,3] add(co, tb)
  a = f32[4,3] divide(l, d)
  top = f32[4,3] maximum(p, q)
  low = f32[4,3] minimum(q, cb)
  si = f32[4,3] sine(q)
  ab = f32[4,3] abs(p)
  root = f32[4,3] power(ab, cb)
  cube = f32[4,3] power(q, hb)
  under = f32[4,3] divide(cb, e1)
  s1 = f32[4,3] add(a, top)
  s2 = f32[4,3] subtract(s1, low)
  s3 = f32[4,3] multiply(s2, si)
  s4 = f32[4,3] add(s3, root)
  s5 = f32[4,3] subtract(cb, s4)
  s6 = f32[4,3] add(s5, cube)
  ROOT s = f32[4,3] add(s6, under)
}
)";
  const Graph graph = build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 4, .dtype = DType::F64});
  const auto w = [](std::size_t i) { return 0.4 * std::sin(0.9 * static_cast<double>(i) + 0.2); };
  const auto v = [](std::size_t i) { return 0.5 * std::cos(1.1 * static_cast<double>(i)); };
  const auto x = [](std::size_t i) { return std::sin(0.7 * static_cast<double>(i)); };
  const double loss = loss_of(graph, [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    const auto at = static_cast<std::size_t>(i);
    return tensor.name == "w" ? w(at) : tensor.name == "v" ? v(at) : tensor.name == "x" ? x(at) : 0.0;
  });
  double sum = 0.0;
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t k = 0; k < 3; ++k) {
      double p = 0.0, q = 0.0;
      for (std::size_t j = 0; j < 8; ++j) p += x(r * 8 + j) * w(j * 3 + k), q += x(r * 8 + j) * v(j * 3 + k);
      const double e = std::exp(p) + 1.5;
      const double inner = (std::log(e) / (std::cos(p) + 2) + std::max(p, q) - std::min(q, 1.5)) * std::sin(q);
      sum += std::pow(1.5 - (inner + std::pow(std::abs(p), 1.5)) + q * q * q + 1.5 / e, 2);
    }
  EXPECT_NEAR(loss, sum / 12, 1e-12);
}

// 90,000 elements are not kept, but positions along rows and columns are.
TEST(HloNumbers, OfALargeConstantAreComputedWhereTheFileMakesItOfSmallOnes) {
  const std::string text = R"(HloModule m
ENTRY main {
  w = f32[300,1] parameter(0)
  data = f32[2,300] parameter(1)
  x = f32[2,300] abs(data)
  rows = s32[300,300] iota(), iota_dimension=0
  columns = s32[300,300] iota(), iota_dimension=1
  before = pred[300,300] compare(rows, columns), direction=LE
  ones = f32[300,300] convert(before)
  sums = f32[2,300] dot(x, ones), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[2,1] dot(sums, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";
  const ModelConfig model = read_model_bytes(text, "m.hlo", {});
  EXPECT_TRUE(summary_of(model).notes.empty()) << summary_of(model).notes[0];
  const Graph graph = build_training_graph(model, {.batch = 2, .dtype = DType::F64});
  for (const auto& [tensor, values] : graph.constants) EXPECT_EQ(values->size(), 300u) << graph.tensor(tensor).name;
  // All data and w are 1: the sums of 1, 2, ..., 300 elements add up to 45,150 in both rows, and the target is 45,148.
  const double loss = loss_of(graph, [](const Tensor& tensor, std::int64_t) -> std::optional<double> {
    if (tensor.name == "target") return 45'148.0;
    return tensor.name == "w" || tensor.name == "data" ? std::optional(1.0) : std::nullopt;
  });
  EXPECT_NEAR(loss, 4.0, 1e-9);
}

TEST(HloNumbers, OfExpertsAreThoseOfJax) { EXPECT_NEAR(loss_of_file("moe_loss", 50), 4.415048122406006, 1e-4); }

}  // namespace

}  // namespace meshwright
