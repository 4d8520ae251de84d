// SPDX-License-Identifier: Apache-2.0
// Text models of Cohere Compass, Cosmos 3 Edge, Unlimited OCR, Hunyuan 4 and LFM3 with an eye, and Lara Mini:
// parameters, counted by hand, what their files may not say, and gradients.
#include <gtest/gtest.h>

#include <vector>

#include "tests/hf_config_text.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_eyed_families_test {
namespace {

using namespace hf_config_text;

const std::string kSizes =
    R"("vocab_size": 10, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2,
       "num_key_value_heads": 1, "max_position_embeddings": 8)";

std::string compass(const std::string& rotations) {
  return R"("model_type": "cohere_compass_text", "sliding_window": 4, "layer_types": ["sliding_attention",
            "sliding_attention", "sliding_attention", "full_attention"], "rope_parameters": {)" +
         rotations + "}, " + kSizes;
}
const std::string kOfWindows = R"("sliding_attention": {"rope_type": "default", "rope_theta": 50000.0})";

TEST(CohereCompass, HasNoPositionsWhereItsFileGivesNoRotation) {
  const ModelConfig model = read(compass(kOfWindows + R"(, "full_attention": null)"));
  EXPECT_EQ(model.more.at("rotary_windows_alone"), 1);
  EXPECT_EQ(model.factors.at("window_rotary_base"), 50000.0);
  EXPECT_EQ(model.factors.at("logit_scale"), 1.0);
  const std::string both = kOfWindows + R"(, "full_attention": {"rope_type": "default", "rope_theta": 1000.0})";
  EXPECT_EQ(read(compass(both)).more.at("rotary_windows_alone"), 0);
  EXPECT_TRUE(refused(compass(R"("full_attention": {"rope_theta": 1000.0})"), "no \"sliding_attention\""));
}

// Blocks of one norm, attention of two heads and one of keys, and gates; the head is the word table.
TEST(CohereCompass, IsACommandBesideAnEye) {
  const std::int64_t block = 8 + (2 * 8 * 8 + 2 * 8 * 4) + 3 * 8 * 16;
  EXPECT_EQ(parameters_of(R"("model_type": "cohere_compass", "tie_word_embeddings": true, "vision_config": {},
                             "text_config": {)" +
                          compass(kOfWindows) + "}"),
            10 * 8 + 4 * block + 8);
}

TEST(Cosmos3Edge, HasUngatedLayersOfSquaredRelu) {
  const std::int64_t block = 2 * 8 + (2 * 8 * 8 + 2 * 8 * 4) + 2 * 8 * 16;
  const std::string text = R"("model_type": "cosmos3_edge_text", "head_dim": 4, )" + kSizes;
  EXPECT_EQ(parameters_of(R"("model_type": "cosmos3_edge", "text_config": {)" + text + "}"),
            2 * 10 * 8 + 4 * block + 8);
  EXPECT_EQ(read(text).factors.at("rotary_base"), 1e8);
}

// What it generates has windows, and what it is trained on none.
TEST(UnlimitedOcr, SeesAllKeysInTraining) {
  const std::string text = R"("model_type": "unlimited_ocr_text", "n_routed_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, "n_shared_experts": 1, "sliding_window": 2, "mlp_layer_types": ["dense", "sparse",
      "sparse", "sparse"], )" +
                           kSizes;
  const std::int64_t attention = 2 * 8 + (2 * 8 * 8 + 2 * 8 * 4), expert = 3 * 8 * 8;
  EXPECT_EQ(parameters_of(text), 2 * 10 * 8 + 4 * attention + 3 * 8 * 16 + 3 * (8 * 4 + 5 * expert) + 8);
  EXPECT_EQ(read(text).more.at("window"), 0);
  EXPECT_TRUE(refused(text + R"(, "layer_types": ["sliding_attention"])", "'layer_types'"));
}

TEST(Eyes, LeaveTheTextModelsOfHunyuanAndLfmAsTheyAre) {
  const std::string latent = R"("hidden_size": 8, "vocab_size": 10, "intermediate_size": 16, "num_hidden_layers": 2,
      "num_attention_heads": 2, "max_position_embeddings": 8, "q_lora_rank": 4, "kv_lora_rank": 4,
      "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 4)";
  const auto eyed = [](const std::string& type, const std::string& text) {
    return parameters_of(R"("model_type": ")" + type + R"(", "vision_config": {}, "text_config": {)" + text + "}");
  };
  EXPECT_EQ(eyed("hy_v4_vl", R"("model_type": "hy_v4_vl_text", )" + latent),
            parameters_of(R"("model_type": "hy_v4", )" + latent));
  const std::string lfm3 = R"("model_type": "lfm3", "head_dim": 4, "conv_L_cache": 3, "layer_types": ["conv", "conv",
      "conv", "full_attention"], )" +
                           kSizes;
  EXPECT_EQ(eyed("lfm3_vl", lfm3), parameters_of(lfm3));
}

const std::string kLara = R"("model_type": "lara_mini", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 5,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "linear_num_key_heads": 1,
    "linear_num_value_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 2, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 6,
    "max_position_embeddings": 8, "sliding_window": 3)";

// Windows in the second and last layer of five, which alone turn their heads.
TEST(LaraMini, HasPositionsInLayersWithWindowsAlone) {
  const Graph graph = graph_of(kLara);
  std::vector<std::int64_t> windows;
  std::vector<std::string> turned;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::GroupedAttention) windows.push_back(op.attributes.attention_window);
    if (op.kind == OpKind::Rotary && op.name.ends_with("q.rotary")) turned.push_back(op.name);
  }
  EXPECT_EQ(windows, (std::vector<std::int64_t>{3, 0, 3}));
  EXPECT_EQ(turned, (std::vector<std::string>{"blk1.attn.q.rotary", "blk4.attn.q.rotary"}));
}

// Gates are of delta rules alone; the head is the word table.
TEST(LaraMini, HasItsParameters) {
  const std::int64_t attention = 8 * (8 + 4 + 4) + 8 * 8 + 2 * 4;
  const std::int64_t channels = 4 + 4 + 4, delta = 8 * (channels + 4 + 2 + 2) + 4 * channels + 2 + 2 + 2 + 4 * 8;
  const std::int64_t mixture = 8 * 4 + 4 * 3 * 8 * 8 + 3 * 8 * 6, norms = 2 * 8;
  EXPECT_EQ(parameters_of(kLara), 10 * 8 + 3 * attention + 2 * delta + 5 * (mixture + norms) + 8);
}

TEST(LaraMini, RefusesLayersThatItDoesNotKnow) {
  EXPECT_TRUE(refused(kLara + R"(, "layer_types": ["linear_attention"])", "'layer_types' must be a list"));
  EXPECT_TRUE(
      refused(kLara + R"(, "layer_types": ["conv", "conv", "conv", "conv", "conv"])", "'layer_types' has \"conv\""));
}

TEST(LaraMini, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients(
      "delta:layers=3,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=4,vocab=8,delta_heads=1,"
      "delta_value_heads=2,key_dim=4,value_dim=2,attn_gate=0,window=2,rotary_windows_alone=1,kinds_0=36,scan_chunk=2",
      {.batch = 2}, "none", 1e-4);
}

}  // namespace
}  // namespace meshwright::hf_eyed_families_test
