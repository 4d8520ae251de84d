// SPDX-License-Identifier: Apache-2.0
// RecurrentGemma and MiniMax-01: the parameters of published models as transformers 5.24 counts them, which layers
// attend, the rates of heads, refusals, and gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/hf_config_text.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_recurrent_families_test {
namespace {

using namespace hf_config_text;

std::int64_t count_of(const Graph& graph, OpKind kind) {
  return std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; });
}

const std::string kGriffin = R"("model_type": "recurrent_gemma", "vocab_size": 256000, "hidden_size": 2560,
    "intermediate_size": 15360, "num_hidden_layers": 26, "num_attention_heads": 10, "num_key_value_heads": 1)";

TEST(RecurrentGemma, HasThePublishedParametersAndLayers) {
  const Graph graph = graph_of(kGriffin);
  EXPECT_EQ(parameter_count(graph), 2'682'862'080);
  // Every third of 26 layers attends.
  EXPECT_EQ(count_of(graph, OpKind::GroupedAttention), 8);
  EXPECT_EQ(count_of(graph, OpKind::SelectiveScan), 18);
  // sqrt(2560) is 50.596, of which 8 bits keep 50.5.
  EXPECT_EQ(read(kGriffin).factors.at("embed_scale"), 50.5);
  EXPECT_EQ(read(kGriffin).more.at("rotary_dims"), 128);
}

TEST(RecurrentGemma, RefusesWhatItLacks) {
  EXPECT_TRUE(refused(kGriffin + R"(, "block_types": ["recurrent", "mamba"])", "'block_types' has \"mamba\""));
  EXPECT_TRUE(refused(kGriffin + R"(, "lru_width": 2561)", "'lru_width' is 2561"));
  EXPECT_TRUE(refused(kGriffin + R"(, "hidden_activation": "relu")", "'hidden_activation'"));
}

TEST(RecurrentGemma, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients(
      "griffin:layers=2,hidden=8,heads=2,kv_heads=1,intermediate=8,seq=6,vocab=8,window=3,attends_0=2,rnn_width=12,"
      "scan_chunk=3,rotary_dims=2",
      {.batch = 2});
}

std::string lightning(const std::string& types) {
  return R"("model_type": "minimax", "vocab_size": 200064, "hidden_size": 6144, "intermediate_size": 9216,
      "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
      "num_local_experts": 32, "num_experts_per_tok": 2, "max_position_embeddings": 10240000, "layer_types": [)" +
         types + "]";
}

std::string eighths() {
  std::string types;
  for (int layer = 0; layer < 80; ++layer)
    types += fmt::format("{}\"{}\"", layer == 0 ? "" : ", ", layer % 8 == 7 ? "full_attention" : "linear_attention");
  return types;
}

TEST(MiniMax01, HasThePublishedParametersAndLayers) {
  const Graph graph = graph_of(lightning(eighths()));
  EXPECT_EQ(parameter_count(graph), 456'089'655'296);
  EXPECT_EQ(count_of(graph, OpKind::GroupedAttention), 10);
  EXPECT_EQ(count_of(graph, OpKind::SelectiveScan), 70);
}

TEST(MiniMax01, ForgetsAtARateOfEachHeadAndLayer) {
  // 4 heads: 2^-2, 2^-4, 2^-6 and 2^-8, of which layer 0 of 3 has all, layer 1 half, and the last next to nothing.
  const Graph graph = graph_of(R"("model_type": "minimax", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 8,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 16, "layer_types":
      ["linear_attention", "linear_attention", "linear_attention"])");
  std::vector<std::vector<double>> rates(3);
  for (const auto& [tensor, values] : graph.constants)
    for (int layer = 0; layer < 3; ++layer)
      if (graph.tensor(tensor).name == fmt::format("blk{}.linear.rates", layer))
        rates[static_cast<std::size_t>(layer)] = *values;
  for (std::size_t head = 0; head < 4; ++head) {
    const double whole = std::exp2(-2.0 * static_cast<double>(head + 1));
    EXPECT_NEAR(std::exp(rates[0].at(head)), whole, 2e-5 * whole);
    EXPECT_NEAR(std::exp(rates[1].at(head)), whole / 2.0, 2e-5 * whole);
    EXPECT_NEAR(std::exp(rates[2].at(head)), 0.0, 2e-5 * whole);
  }
}

TEST(MiniMax01, RefusesWhatItLacks) {
  EXPECT_TRUE(refused(lightning("\"full_attention\""), "a list of one type for each of the 80 layers"));
  EXPECT_TRUE(refused(lightning(eighths()) + R"(, "rotary_dim": 64)", "'rotary_dim' is 64"));
  EXPECT_TRUE(refused(lightning(eighths()) + R"(, "sliding_window": 4)", "'sliding_window' is given"));
}

TEST(MiniMax01, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients(
      "lightning:layers=2,hidden=8,heads=2,kv_heads=1,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,attends_0=2,"
      "scan_chunk=3,linear_alpha=0.5,linear_beta=2,full_alpha=2,full_beta=0.5,mlp_alpha=1.5,mlp_beta=0.75",
      {.batch = 2});
}

TEST(SpeechEncoders, AreRefusedForTheirLoss) {
  for (const char* type : {"wav2vec2", "hubert", "wavlm", "data2vec-audio"})
    EXPECT_TRUE(refused(fmt::format("\"model_type\": \"{}\"", type), "all alignments")) << type;
}

}  // namespace
}  // namespace meshwright::hf_recurrent_families_test
