// SPDX-License-Identifier: Apache-2.0
// ONNX files: what becomes of them, and what they are refused for.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/json.h"
#include "core/graph/import/find_model.h"
#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/tiny_models.h"

namespace meshwright {

namespace {

using Dims = std::map<std::string, std::int64_t>;

ModelConfig read(const std::string& bytes, const Dims& dims = {}) { return read_model_bytes(bytes, "m.onnx", dims); }

std::map<std::string, std::int64_t> ops_of(const Graph& graph) {
  std::map<std::string, std::int64_t> counts;
  for (const Op& op : graph.ops()) ++counts[name_of(op.kind)];
  return counts;
}

Graph forward(const ModelConfig& model, std::int64_t batch = 2, std::int64_t microbatches = 1) {
  return build_forward_graph(model, {.batch = batch, .microbatches = microbatches});
}

// Ops of both graphs in order: kinds, names of dimensions and sizes, whatever the tensors are called.
std::string shape_text(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops()) {
    text += name_of(op.kind);
    for (const auto* list : {&op.inputs, &op.outputs}) {
      text += list == &op.inputs ? " (" : " -> (";
      for (const TensorId id : *list) {
        text += '[';
        for (const Dim& dim : graph.tensor(id).dims) text += dim.name + '=' + std::to_string(dim.size) + ' ';
        text += ']';
      }
      text += ')';
    }
    text += '\n';
  }
  return text;
}

TEST(OnnxModel, ADecomposedLlamaHasTheOpsAndDimensionsOfTheBuiltInOne) {
  const TinySizes z;
  const Graph imported = forward(read(tiny_llama(z)));
  const Graph built = forward(find_model("llama:layers=2,hidden=16,heads=4,kv_heads=2,intermediate=24,seq=6,vocab=20"));
  EXPECT_EQ(parameter_count(imported), parameter_count(built));
  EXPECT_EQ(graph_flops(imported), graph_flops(built));
  EXPECT_EQ(ops_of(imported), ops_of(built));
}

TEST(OnnxModel, AnyMicroBatchIsThatOfAFileWithAnOpenBatch) {
  TinySizes fixed, open;
  open.batch = "n";
  const ModelConfig from_fixed = read(tiny_llama(fixed)), from_open = read(tiny_llama(open));
  EXPECT_EQ(from_fixed.default_batch, 2);
  EXPECT_EQ(from_open.default_batch, 1);
  for (const std::int64_t batch : {2, 6, 12})
    EXPECT_EQ(shape_text(forward(from_fixed, batch, 2)), shape_text(forward(from_open, batch, 2))) << batch;
  EXPECT_EQ(graph_flops(forward(from_fixed, 12)).si(), 6.0 * graph_flops(forward(from_fixed, 2)).si());
}

TEST(OnnxModel, BlocksFollowFromTheNamesOfNodes) {
  const ModelConfig model = read(tiny_llama({.layers = 3}));
  EXPECT_EQ(model.layers, 3);
  const Graph graph = forward(model);
  int last = -1;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::GroupedAttention) continue;
    EXPECT_EQ(op.block, last + 1);
    last = op.block;
  }
  EXPECT_EQ(last, 2);
  EXPECT_EQ(graph.ops().front().block, -1);
  EXPECT_EQ(graph.ops().back().block, -1);
}

// Operator set 23 has attention, rotary embedding and RMS normalisation as operators; queries come flat or in heads.
TEST(OnnxModel, AttentionAsAnOperatorIsAttention) {
  OnnxWriter w;
  w.input("x", {"2", "6", "16"}, 1);
  const std::string x = w.node("RMSNormalization", {"x", w.weight("gamma", {16})}, {.reals = {{"epsilon", 1e-6f}}});
  const auto projected = [&](const std::string& name, std::int64_t to) {
    return w.node("MatMul", {x, w.weight(name, {16, to})});
  };
  std::vector<float> cosines, sines;  // of pairs that turn by 1 and by 0.1 a position
  for (int position = 0; position < 6; ++position)
    for (const double turn : {1.0, 0.1}) {
      cosines.push_back(static_cast<float>(std::cos(position * turn)));
      sines.push_back(static_cast<float>(std::sin(position * turn)));
    }
  const std::string tables[] = {w.floats({6, 2}, cosines), w.floats({6, 2}, sines)};
  const std::string q =
      w.node("RotaryEmbedding", {projected("q", 16), tables[0], tables[1]}, {.numbers = {{"num_heads", 4}}});
  const std::string k =
      w.node("RotaryEmbedding", {projected("k", 8), tables[0], tables[1]}, {.numbers = {{"num_heads", 2}}});
  const std::string attended = w.node("Attention", {q, k, projected("v", 8)},
                                      {.numbers = {{"q_num_heads", 4}, {"kv_num_heads", 2}, {"is_causal", 1}}});
  const Graph graph = forward(read(w.finish(w.node("MatMul", {attended, w.weight("o", {16, 16})}))));
  const auto ops = ops_of(graph);
  EXPECT_EQ(ops.at("rotary"), 2);
  EXPECT_EQ(ops.at("rms_norm"), 1);
  EXPECT_EQ(ops.at("grouped_attention"), 1);
  EXPECT_EQ(parameter_count(graph), 16 + 16 * (16 + 8 + 8) + 16 * 16);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) {
      EXPECT_TRUE(op.attributes.causal);
      EXPECT_EQ(graph.tensor(op.inputs[0]).dims[2], (Dim{"kv_heads", 2}));
      EXPECT_EQ(graph.tensor(op.inputs[0]).dims[3], (Dim{"group", 2}));
    }
}

// A causal mask and a window of 3 keys are attention's own.
// Three pairs that turn by 1, 0.1 and 0.005 a position, all one and a half times as long: no base makes these.
TEST(OnnxModel, RotationsAreThoseOfTheirTables) {
  OnnxWriter w;
  w.input("x", {"2", "4", "12"}, 1);
  const double turns[] = {1.0, 0.1, 0.005};
  std::vector<float> cosines, sines;
  for (int position = 0; position < 4; ++position)
    for (const double turn : turns) {
      cosines.push_back(static_cast<float>(1.5 * std::cos(position * turn)));
      sines.push_back(static_cast<float>(1.5 * std::sin(position * turn)));
    }
  const std::string turned = w.node("RotaryEmbedding", {"x", w.floats({4, 3}, cosines), w.floats({4, 3}, sines)},
                                    {.numbers = {{"num_heads", 2}}});
  const Graph graph = forward(read(w.finish(w.node("MatMul", {turned, w.weight("w", {12, 12})}))));
  const auto op =
      std::find_if(graph.ops().begin(), graph.ops().end(), [](const Op& of) { return of.kind == OpKind::Rotary; });
  ASSERT_NE(op, graph.ops().end());
  EXPECT_FALSE(op->attributes.rotary_interleaved);
  EXPECT_NEAR(op->attributes.rotary_amplitude, 1.5, 1e-6);
  ASSERT_EQ(op->attributes.rotary_divisors.size(), 3U);
  for (std::size_t j = 0; j < 3; ++j)
    EXPECT_NEAR(std::pow(op->attributes.rotary_base, -static_cast<double>(j) / 3.0) / op->attributes.rotary_divisors[j],
                turns[j], 1e-6 * turns[j]);
  // Sines in the place of cosines: no length to turn.
  EXPECT_NE(refusal([&] {
              OnnxWriter other;
              other.input("x", {"2", "4", "12"}, 1);
              return read(other.finish(other.node("RotaryEmbedding",
                                                  {"x", other.floats({4, 3}, sines), other.floats({4, 3}, sines)},
                                                  {.numbers = {{"num_heads", 2}}})));
            }).find("no cosines and sines of a rotation"),
            std::string::npos);
}

// Two pairs of neighbours: the first 4 of 8 dimensions.
TEST(OnnxModel, RotationsOfNeighboursAreOneOp) {
  OnnxWriter w;
  w.input("x", {"2", "3", "16"}, 1);
  std::vector<float> cosines, sines;
  for (int position = 0; position < 3; ++position)
    for (const double turn : {1.0, 0.01}) {
      cosines.push_back(static_cast<float>(std::cos(position * turn)));
      sines.push_back(static_cast<float>(std::sin(position * turn)));
    }
  const std::string turned = w.node("RotaryEmbedding", {"x", w.floats({3, 2}, cosines), w.floats({3, 2}, sines)},
                                    {.numbers = {{"num_heads", 2}, {"interleaved", 1}, {"rotary_embedding_dim", 4}}});
  const Graph graph = forward(read(w.finish(w.node("MatMul", {turned, w.weight("w", {16, 16})}))));
  EXPECT_EQ(ops_of(graph).count("slice") + ops_of(graph).count("concat") + ops_of(graph).count("transpose"), 0U);
  const auto op =
      std::find_if(graph.ops().begin(), graph.ops().end(), [](const Op& of) { return of.kind == OpKind::Rotary; });
  ASSERT_NE(op, graph.ops().end());
  EXPECT_TRUE(op->attributes.rotary_interleaved);
  EXPECT_EQ(op->attributes.rotary_dims, 4);
  EXPECT_EQ(op->attributes.rotary_base, 10000.0);
}

// Exporters that transpose a head which is the word table write it twice: 5 words of 3 elements.
TEST(OnnxModel, AHeadThatIsTheTableTransposedIsOneParameter) {
  std::vector<float> table, turned(15);
  for (int i = 0; i < 15; ++i) table.push_back(0.5F * static_cast<float>(i * i % 11) - 1.0F);
  for (std::size_t word = 0; word < 5; ++word)
    for (std::size_t j = 0; j < 3; ++j) turned[j * 5 + word] = table[word * 3 + j];
  const auto parameters = [&] {
    OnnxWriter w;
    w.input("ids", {"2", "4"});
    const std::string x = w.node("Gather", {w.floats({5, 3}, table), "ids"});
    return parameter_count(forward(read(w.finish(w.node("MatMul", {x, w.floats({3, 5}, turned)})))));
  };
  EXPECT_EQ(parameters(), 15);
  turned[0] += 1.0F;
  EXPECT_EQ(parameters(), 30);
}

TEST(OnnxModel, CausalMasksAndWindowsAreNoOperands) {
  for (const bool window : {false, true}) {
    OnnxWriter w;
    w.input("x", {"2", "3", "6", "4"}, 1);
    std::vector<float> mask;
    for (int i = 0; i < 36; ++i) mask.push_back(i % 6 > i / 6 || (window && i % 6 + 2 < i / 6) ? -1e9f : 0.0f);
    const auto projected = [&](const std::string& name) { return w.node("MatMul", {"x", w.weight(name, {4, 4})}); };
    const std::string turned = w.node("Transpose", {projected("k")}, {.lists = {{"perm", {0, 1, 3, 2}}}});
    const std::string scores = w.node("Mul", {w.node("MatMul", {projected("q"), turned}), w.scalar(0.5f)});
    const std::string weights =
        w.node("Softmax", {w.node("Add", {scores, w.floats({6, 6}, mask)})}, {.numbers = {{"axis", -1}}});
    const ModelConfig model = read(w.finish(w.node("MatMul", {weights, projected("v")})));
    EXPECT_TRUE(summary_of(model).notes.empty());
    const Graph graph = forward(model);
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::GroupedAttention) {
        EXPECT_TRUE(op.attributes.causal);
        EXPECT_EQ(op.attributes.attention_window, window ? 3 : 0);
        EXPECT_EQ(op.inputs.size(), 3u);
      }
  }
}

TEST(OnnxModel, ASizeThatStandsForTheBatchIsRefused) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string bytes = w.finish(w.node("MatMul", {"x", w.weight("w", {4, 1'000'003})}));
  EXPECT_NE(refusal([&] { return read(bytes); }).find("stands for the batch; pad it to another size"),
            std::string::npos);
}

// Scores that are not scaled at all are not scaled by 1 / sqrt(head_dim).
TEST(OnnxModel, ScalesOfAttentionAreKept) {
  for (const float scale : {0.5f, 1.0f, 0.25f}) {
    OnnxWriter w;
    w.input("x", {"2", "3", "6", "4"}, 1);  // (batch, heads, seq, head_dim): the usual scale is 1/2
    const auto projected = [&](const std::string& name) { return w.node("MatMul", {"x", w.weight(name, {4, 4})}); };
    const std::string turned = w.node("Transpose", {projected("k")}, {.lists = {{"perm", {0, 1, 3, 2}}}});
    const std::string scores = w.node("Mul", {w.node("MatMul", {projected("q"), turned}), w.scalar(scale)});
    const std::string weights = w.node("Softmax", {scores}, {.numbers = {{"axis", -1}}});
    const Graph graph = forward(read(w.finish(w.node("MatMul", {weights, projected("v")}))));
    double found = 0.0;
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::GroupedAttention) {
        found = op.attributes.scale;
        EXPECT_FALSE(op.attributes.causal);
      }
    EXPECT_EQ(found, scale == 0.5f ? 1.0 : scale == 1.0f ? std::nextafter(1.0, 2.0) : 0.25);
  }
}

// A constant that no pattern takes is data of the graph, with the numbers that it is computed to be.
TEST(OnnxModel, ConstantsOutsideOfPatternsKeepTheirNumbers) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string table = w.node("Cos", {w.node("Cast", {w.integers({0, 1, 2, 3})}, {.numbers = {{"to", 1}}})});
  const std::string product = w.node("MatMul", {w.node("Mul", {"x", table}), w.weight("w", {4, 3})});
  const ModelConfig model = read(w.finish(w.node("Tanh", {product})));
  EXPECT_TRUE(summary_of(model).notes.empty());
  const Graph graph = forward(model);
  EXPECT_EQ(parameter_count(graph), 12);
  ASSERT_EQ(graph.constants.size(), 1u);
  const std::vector<double>& numbers = *graph.constants.begin()->second;
  ASSERT_EQ(numbers.size(), 4u);
  EXPECT_EQ(numbers[0], 1.0);
  EXPECT_NEAR(numbers[2], std::cos(2.0), 1e-12);
}

// What is compared with a number is compared with a tensor of it, so that a run has the file's.
TEST(OnnxModel, NumbersAreFactorsOrMadeOfWhatTheyAreComparedWith) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string y = w.node("MatMul", {"x", w.weight("w", {4, 3})});
  const std::string leaky =
      w.node("Where", {w.node("Greater", {y, w.scalar(0.5f)}), y, w.node("Mul", {y, w.scalar(0.1f)})});
  const ModelConfig model = read(w.finish(w.node("Add", {w.node("Tanh", {leaky}), w.scalar(2.0f)})));
  const Graph graph = forward(model, 6);
  const auto ops = ops_of(graph);
  for (const char* kind : {"compare", "select"}) EXPECT_EQ(ops.at(kind), 1) << kind;
  for (const char* kind : {"scale", "shift"}) EXPECT_EQ(ops.at(kind), 2) << kind;
  EXPECT_TRUE(summary_of(model).notes.empty());
  (void)build_training_graph(model, {.batch = 6});
}

// Residual parts of widths 16 and 24 in turn, without a number in any name: one repetition is a block.
TEST(OnnxModel, BlocksOfNamelessFilesAreTheirRepetitions) {
  for (const std::int64_t repetitions : {1, 3}) {
    OnnxWriter w;
    w.input("x", {"2", "8"}, 1);
    std::string x = "x";
    int next = 0;
    for (std::int64_t i = 0; i < 2 * repetitions; ++i) {
      const std::int64_t width = i % 2 == 0 ? 16 : 24;
      const auto weight = [&](std::int64_t from, std::int64_t to) {
        return w.weight("w_" + std::to_string(next++) + "_", {from, to});
      };
      const std::string inner = w.node("Relu", {w.node("MatMul", {x, weight(8, width)})});
      x = w.node("Add", {x, w.node("MatMul", {inner, weight(width, 8)})});
    }
    const Graph graph = forward(read(w.finish(w.node("Tanh", {x}))));
    EXPECT_EQ(read(w.finish(w.node("Tanh", {x}))).layers, repetitions == 1 ? 2 : 3);
    std::vector<int> blocks;
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::Contract) blocks.push_back(op.block);
    EXPECT_EQ(blocks, repetitions == 1 ? (std::vector<int>{0, 0, 1, 1})
                                       : (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  }
}

TEST(OnnxModel, ANetworkOfConvolutionsKeepsItsRunningStatisticsOut) {
  const ModelConfig model = read(tiny_cnn());
  const Graph graph = forward(model, 4);
  // Weights 4*3*9 + 4, 4*2*9, 5*4 + 5; gammas and betas of two norms.
  EXPECT_EQ(parameter_count(graph), 108 + 4 + 72 + 25 + 16);
  // 2 * batch * out pixels * out * in * window, and the classifier.
  EXPECT_EQ(graph_flops(graph).si(), 2.0 * 4 * (64 * 4 * 27 + 16 * 4 * 18 + 20));
  const auto ops = ops_of(graph);
  EXPECT_EQ(ops.at("convolution"), 2);
  EXPECT_EQ(ops.at("batch_norm"), 2);
  EXPECT_EQ(ops.at("cross_entropy_loss"), 1);
}

// Of one product that only slices read, each slice becomes a product of its own, with its part of the weight.
TEST(OnnxModel, FusedProjectionsAreMadePartByPart) {
  OnnxWriter w;
  w.input("x", {"2", "6", "8"}, 1);
  const std::string fused = w.node("Add", {w.node("MatMul", {"x", w.weight("w", {8, 24})}), w.weight("b", {24})});
  (void)w.node("Split", {fused, w.integers({8, 8, 8})}, {.numbers = {{"axis", 2}}, .results = {"q", "k", "v"}});
  const std::string gate = w.node("Mul", {w.node("Sigmoid", {"q"}), w.node("Mul", {"k", "v"})});
  const Graph graph = forward(read(w.finish(w.node("Relu", {gate}))));
  const auto ops = ops_of(graph);
  EXPECT_EQ(ops.at("contract"), 3);
  EXPECT_EQ(ops.at("bias_add"), 3);
  EXPECT_FALSE(ops.contains("slice"));
  EXPECT_EQ(parameter_count(graph), 8 * 24 + 24);
  EXPECT_EQ(graph_flops(graph).si(), 2.0 * 2 * 6 * 8 * 24);
}

// A class token is repeated for every sample, whatever batch the file was written for.
TEST(OnnxModel, WhatIsRepeatedForTheFilesBatchIsRepeatedForAny) {
  for (const std::int64_t batch : {1, 3}) {
    OnnxWriter w;
    w.input("x", {std::to_string(batch), "6", "8"}, 1);
    const std::string token = w.node("Expand", {w.weight("token", {1, 1, 8}), w.integers({batch, 1, 8})});
    const std::string all = w.node("Concat", {token, "x"}, {.numbers = {{"axis", 1}}});
    const Graph graph = forward(read(w.finish(w.node("Relu", {all}))), 10);
    EXPECT_EQ(graph.tensor(graph.ops().back().inputs[0]).elements(), 10 * 7 * 8) << batch;
  }
}

TEST(OnnxModel, OpenDimensionsAreGivenByName) {
  OnnxWriter w;
  w.input("ids", {"n", "s"});
  const std::string bytes = w.finish(w.node("Gather", {w.weight("wte", {10, 4}), "ids"}));
  EXPECT_NE(refusal([&] { return read(bytes); }).find("the file leaves the size s open; give --dim s=SIZE."),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              return read(bytes, {{"s", 3}, {"t", 4}});
            }).find("no open dimension 't'"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              return read(bytes, {{"s", 0}});
            }).find("makes an empty tensor [batch, 0]; give sizes above 0"),
            std::string::npos);
  const ModelConfig model = read(bytes, {{"s", 3}, {"n", 8}});
  EXPECT_EQ(model.default_batch, 8);
  EXPECT_EQ(forward(model, 5).tensor(TensorId(0)).dims, (std::vector<Dim>{{"batch", 5}, {"seq", 3}}));
}

TEST(OnnxModel, AllUnknownOperatorsAreNamedAndCounted) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  const std::string a = w.node("Mystery", {"x"}), b = w.node("Mystery", {a}),
                    c = w.node("Riddle", {b}, {.domain = "x.y"});
  const std::string why = refusal([&] { return read(w.finish(c)); });
  EXPECT_NE(why.find("m.onnx: operators that have no equal here (with their number): Mystery (2), x.y:Riddle (1);"),
            std::string::npos)
      << why;
}

TEST(OnnxModel, ResultsThatAreNotTheFirstAreLeftOutWithAllTheyNeed) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1);
  (void)w.node("Mystery", {"x"});
  const ModelConfig model = read(w.finish(w.node("MatMul", {"x", w.weight("w", {4, 3})})));
  EXPECT_EQ(parameter_count(forward(model)), 12);
}

TEST(OnnxModel, DamagedGraphsAreRefused) {
  const auto why = [](const OnnxWriter& w, const std::string& result) {
    return refusal([&] { return read(w.finish(result)); });
  };
  OnnxWriter cycle;
  cycle.input("x", {"2", "4"}, 1);
  (void)cycle.node("Add", {"x", "b"}, {.results = {"a"}});
  (void)cycle.node("Relu", {"a"}, {.results = {"b"}});
  EXPECT_NE(why(cycle, "a").find("depends on its own result"), std::string::npos);
  OnnxWriter dangling;
  dangling.input("x", {"2", "4"}, 1);
  EXPECT_NE(why(dangling, dangling.node("Add", {"x", "nowhere"})).find("reads 'nowhere', which nothing makes"),
            std::string::npos);
  OnnxWriter huge;
  huge.input("x", {"2", "4"}, 1);
  EXPECT_NE(
      why(huge, huge.node("MatMul", {"x", huge.weight("w", {4, std::int64_t{1} << 61, 64})})).find("too many elements"),
      std::string::npos);
  OnnxWriter shapes;
  shapes.input("x", {"2", "4"}, 1);
  EXPECT_NE(why(shapes, shapes.node("MatMul", {"x", shapes.weight("w", {5, 3})}))
                .find("[batch, 4] and [5, 3] do not multiply"),
            std::string::npos);
  OnnxWriter axes;
  axes.input("x", {"2", "4"}, 1);
  const std::string beyond = axes.node("Transpose", {"x"}, {.lists = {{"perm", {0, 1'000'000'000}}}});
  EXPECT_NE(why(axes, beyond).find("its axes are no order of all axes"), std::string::npos);
  OnnxWriter batch;
  batch.input("x", {"3", "4"}, 1);
  const std::string turned = batch.node("Transpose", {batch.node("MatMul", {"x", batch.weight("w", {4, 6})})});
  EXPECT_NE(
      why(batch, batch.node("Reshape", {turned, batch.integers({9, 2})})).find("mixes the batch with other dimensions"),
      std::string::npos);
}

// Cut anywhere, or with any one byte changed, a file is read or refused; nothing else.
TEST(OnnxModel, DamagedBytesAreReadOrRefused) {
  const std::string bytes = tiny_llama({.layers = 1});
  int refused = 0;
  for (std::size_t length = 0; length < bytes.size(); length += 11) {
    try {
      (void)read(bytes.substr(0, length));
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 60);
  for (std::size_t at = 0; at < bytes.size(); at += 13)
    for (const unsigned change : {0x01u, 0x80u, 0xffu}) {
      std::string other = bytes;
      other[at] = static_cast<char>(static_cast<unsigned char>(other[at]) ^ change);
      try {
        (void)read(other);
      } catch (const InputError&) {
        continue;
      }
    }
}

TEST(OnnxModel, APlanRefusesAFileThatHasChanged) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "meshwright_changed_model.onnx";
  const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  write(tiny_llama({.layers = 1}));
  const ModelConfig model = find_model(path.string());
  const Json json = to_json(model);
  EXPECT_EQ(model_of_plan(json, "plan.json: model"), model);
  write(tiny_llama({.layers = 2}));
  EXPECT_NE(
      refusal([&] { return model_of_plan(json, "plan.json: model"); }).find("has changed since the plan was made"),
      std::string::npos);
  std::filesystem::remove(path);
}

TEST(OnnxModel, SizesAreForFilesThatLeaveSomeOpen) {
  EXPECT_NE(refusal([] {
              return find_model("gpt-125m", {{"seq", 4}});
            }).find("leaves no dimension open"),
            std::string::npos);
  EXPECT_NE(refusal([] { return find_model("m.safetensors"); }).find("are not read; export the model as ONNX"),
            std::string::npos);
}

// Counts by an independent walk over the files (Python's onnx package); the last file holds its table of 10 words of 8
// elements a second time, transposed for its head, which is counted once.
TEST(OnnxModel, PublishedFilesHaveTheirCounts) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: the published files are not there.";
  struct Row {
    const char* file;
    Dims dims;
    std::int64_t parameters;
    double forward_flops;  // of one sample
  };
  const Row rows[] = {
      {"light_resnet50", {}, 25'557'032, 8'178'368'512},
      {"light_vgg19", {}, 143'667'240, 39'264'124'928},
      {"light_densenet121", {}, 8'062'504, 5'668'323'328},
      {"llama_tiny_opset18", {}, 22'688, 720'896},
      {"llama_tiny_external", {}, 22'688, 720'896},
      {"bert_toy_optimized", {{"max_seq_len_in_batch", 64}}, 55'292, 7'294'976},
      {"gpt2_megatron", {{"past_seq_len", 0}, {"seq_len", 64}}, 1'480, 239'616},
  };
  for (const Row& row : rows) {
    const ModelConfig model = find_model(std::string(data) + "/models/onnx/" + row.file + ".onnx", row.dims);
    const Graph graph = forward(model, 1);
    EXPECT_EQ(parameter_count(graph), row.parameters) << row.file;
    EXPECT_EQ(graph_flops(graph).si(), row.forward_flops) << row.file;
  }
  EXPECT_NE(refusal([&] {
              return find_model(std::string(data) + "/models/onnx/3layer_bloom_optimized_training.onnx");
            }).find("the file holds gradients"),
            std::string::npos);
}

}  // namespace

}  // namespace meshwright
