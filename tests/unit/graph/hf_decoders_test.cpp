// SPDX-License-Identifier: Apache-2.0
// Decoders with other norms, factors, and blocks side by side, as their publishers describe them: parameters as
// published, or counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/errors.h"
#include "core/graph/import/hf_config.h"

namespace meshwright::hf_decoders_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

Graph graph_of(const ModelConfig& model) { return build_forward_graph(model, {.batch = 1, .dtype = DType::BF16}); }

std::int64_t parameters_of(const std::string& text) { return parameter_count(graph_of(read(text))); }

int count(const ModelConfig& model, OpKind kind) {
  const Graph graph = graph_of(model);
  return static_cast<int>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; }));
}

// --- published numbers of parameters (the checkpoints' own metadata) ---

constexpr const char* kPhi2 =
    R"("model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240,
       "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32,
       "num_key_value_heads": 32, "partial_rotary_factor": 0.4, "rope_theta": 10000.0, "tie_word_embeddings": false,
       "vocab_size": 51200)";
constexpr const char* kFalcon7b =
    R"("model_type": "falcon", "alibi": false, "bias": false, "hidden_size": 4544, "layer_norm_epsilon": 1e-05,
       "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32,
       "parallel_attn": true, "vocab_size": 65024)";
constexpr const char* kFalcon40b =
    R"("model_type": "falcon", "alibi": false, "bias": false, "hidden_size": 8192, "new_decoder_architecture": true,
       "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8, "parallel_attn": true,
       "vocab_size": 65024)";
constexpr const char* kGemma3 =
    R"("model_type": "gemma3_text", "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
       "intermediate_size": 6912, "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26,
       "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 1000000,
       "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144)";
constexpr const char* kGranite =
    R"("model_type": "granite", "attention_bias": false, "attention_multiplier": 0.0078125, "embedding_multiplier": 12.0,
       "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 12800, "logits_scaling": 16.0,
       "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
       "residual_multiplier": 0.22, "tie_word_embeddings": true, "vocab_size": 49155)";
constexpr const char* kGptj =
    R"("model_type": "gptj", "activation_function": "gelu_new", "n_embd": 4096, "n_head": 16, "n_inner": null,
       "n_layer": 28, "n_positions": 2048, "rotary_dim": 64, "tie_word_embeddings": false, "vocab_size": 50400)";
constexpr const char* kOlmo2 =
    R"("model_type": "olmo2", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
       "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
       "rms_norm_eps": 1e-06, "rope_theta": 500000, "tie_word_embeddings": false, "vocab_size": 100352)";

TEST(HfDecoders, HaveTheirPublishedParameters) {
  EXPECT_EQ(parameters_of(kPhi2), 2'779'683'840);
  EXPECT_EQ(parameters_of(kFalcon7b), 6'921'720'704);
  EXPECT_EQ(parameters_of(kFalcon40b), 41'303'293'952);
  EXPECT_EQ(parameters_of(kGemma3), 999'885'952);
  EXPECT_EQ(parameters_of(kGranite), 8'170'848'256);
  EXPECT_EQ(parameters_of(kGptj), 6'050'882'784);
  EXPECT_EQ(parameters_of(kOlmo2), 7'298'617'344);
  EXPECT_EQ(parameters_of(R"("model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
                             "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
                             "num_key_value_heads": 32, "vocab_size": 32064)"),
            3'821'079'552);
  EXPECT_EQ(parameters_of(R"("model_type": "gemma", "head_dim": 256, "hidden_size": 3072, "intermediate_size": 24576,
                             "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 28,
                             "num_key_value_heads": 16, "vocab_size": 256000)"),
            8'537'680'896);
  EXPECT_EQ(parameters_of(R"("model_type": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288,
                             "max_position_embeddings": 16384, "num_attention_heads": 24, "num_hidden_layers": 30,
                             "num_key_value_heads": 2, "use_bias": true, "vocab_size": 49152)"),
            3'030'371'328);
  EXPECT_EQ(parameters_of(R"("model_type": "stablelm", "hidden_size": 2048, "intermediate_size": 5632,
                             "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 24,
                             "num_key_value_heads": 32, "use_qkv_bias": true, "vocab_size": 100352)"),
            1'644'515'328);
  EXPECT_EQ(parameters_of(R"("model_type": "smollm3", "hidden_size": 2048, "intermediate_size": 11008,
                             "max_position_embeddings": 65536, "num_attention_heads": 16, "num_hidden_layers": 36,
                             "num_key_value_heads": 4, "tie_word_embeddings": true, "vocab_size": 128256)"),
            3'075'098'624);
}

// --- scans ---

constexpr const char* kCodestral =
    R"("model_type": "mamba2", "chunk_size": 256, "conv_kernel": 4, "expand": 2, "head_dim": 64, "hidden_act": "silu",
       "hidden_size": 4096, "layer_norm_epsilon": 1e-05, "n_groups": 8, "num_heads": 128, "num_hidden_layers": 64,
       "rms_norm": true, "state_size": 128, "tie_word_embeddings": false, "time_step_limit": [0.0, Infinity],
       "use_bias": false, "use_conv_bias": true, "vocab_size": 32768)";

TEST(HfScans, OfMamba2HaveTheirPublishedParameters) {
  EXPECT_EQ(parameters_of(kCodestral), 7'285'403'648);
  EXPECT_EQ(count(read(kCodestral), OpKind::SelectiveScan), 64);
}

std::string nemotron(const std::string& more) {
  return R"("model_type": "nemotron_h", "attention_head_dim": 4, "chunk_size": 8, "conv_kernel": 4, "hidden_size": 8,
            "hybrid_override_pattern": "M-M*-", "intermediate_size": 20, "mamba_head_dim": 4, "mamba_num_heads": 4,
            "max_position_embeddings": 24, "n_groups": 2, "num_attention_heads": 4, "num_hidden_layers": 5,
            "num_key_value_heads": 2, "ssm_state_size": 3, "vocab_size": 11)" +
         more;
}

TEST(HfScans, OfNemotronHAreLayersOfThreeKinds) {
  const ModelConfig model = read(nemotron(""));
  // Projections to z and x of 16, b and c of 6 and dt of 4; convolutions of 4 tokens with a bias; a_log, d and dt_bias.
  const int scan = 8 * (16 + 16 + 6 + 6 + 4) + (16 + 6 + 6) * (4 + 1) + 3 * 4 + 16 + 16 * 8;
  const int attention = 8 * (16 + 8 + 8) + 16 * 8, feed_forward = 2 * 8 * 20, norms = 5 * 8 + 8;
  EXPECT_EQ(parameter_count(graph_of(model)), 2 * 11 * 8 + 2 * scan + attention + 2 * feed_forward + norms);
  EXPECT_EQ(count(model, OpKind::SelectiveScan), 2);
  EXPECT_EQ(count(model, OpKind::GroupedAttention), 1);
  EXPECT_EQ(count(model, OpKind::Rotary), 0);
}

// Nemotron 3 Nano: its checkpoint's metadata.
TEST(HfScans, OfNemotronHMayHaveExperts) {
  const ModelConfig model = read(
      R"("model_type": "nemotron_h", "attention_bias": false, "chunk_size": 128, "conv_kernel": 4, "head_dim": 128,
         "hidden_size": 2688, "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
         "intermediate_size": 1856, "mamba_head_dim": 64, "mamba_num_heads": 64, "max_position_embeddings": 262144,
         "mlp_hidden_act": "relu2", "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
         "n_groups": 8, "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true,
         "num_attention_heads": 32, "num_experts_per_tok": 6, "num_hidden_layers": 52, "num_key_value_heads": 2,
         "routed_scaling_factor": 2.5, "ssm_state_size": 128, "tie_word_embeddings": false, "vocab_size": 131072)");
  EXPECT_EQ(parameter_count(graph_of(model)), 31'577'940'288);
  EXPECT_EQ(count(model, OpKind::SelectiveScan), 23);
  EXPECT_EQ(count(model, OpKind::TopKSlots), 23);
}

TEST(HfScans, RefuseWhatChangesTheModel) {
  const auto refusal_of = [](const std::string& text) {
    try {
      (void)read(text);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal_of(nemotron(R"(, "mlp_hidden_act": "silu")")).find("'mlp_hidden_act' is \"silu\""),
            std::string::npos);
  EXPECT_NE(refusal_of(nemotron(R"(, "time_step_limit": [0.0, 0.1])")).find("'time_step_limit' bounds the steps"),
            std::string::npos);
  std::string other = nemotron("");
  other.replace(other.find("M-M*-"), 5, "M-M*X");
  EXPECT_NE(refusal_of(other).find("layer 4 is of the kind 'X'"), std::string::npos);
  other.replace(other.find("M-M*X"), 5, "M-M*");
  EXPECT_NE(refusal_of(other).find("has 4 layers, expected 5"), std::string::npos);
}

// --- gated delta rules ---

constexpr const char* kQwen3Next =
    R"("model_type": "qwen3_next", "attention_bias": false, "decoder_sparse_step": 1, "full_attention_interval": 4,
       "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5120,
       "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
       "linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
       "mlp_only_layers": [], "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16,
       "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2,
       "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06, "rope_theta": 10000000,
       "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 151936)";

// Without its layer for a second token.
TEST(HfDeltas, OfQwen3NextHaveTheirPublishedParameters) {
  const ModelConfig model = read(kQwen3Next);
  EXPECT_EQ(parameter_count(graph_of(model)), 79'674'391'296);
  EXPECT_EQ(count(model, OpKind::GatedDelta), 36);
  EXPECT_EQ(count(model, OpKind::GroupedAttention), 12);
  EXPECT_EQ(model.more.at("rotary_dims"), 64);
}

// The text model of Qwen3.5-27B, counted by hand: products of hidden 5120 with queries and their gates, keys and values
// of attention; with q, k, v, z, b and a of a delta rule; convolutions of 10240 channels over 4 tokens.
TEST(HfDeltas, OfQwen35AreTheTextPart) {
  const ModelConfig model = read(
      R"("model_type": "qwen3_5", "vision_config": {"depth": 27}, "text_config": {"model_type": "qwen3_5_text",
         "attn_output_gate": true, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
         "hidden_size": 5120, "intermediate_size": 17408, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
         "max_position_embeddings": 262144, "num_attention_heads": 24, "num_hidden_layers": 64,
         "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "vocab_size": 248320,
         "rope_parameters": {"rope_theta": 10000000, "partial_rotary_factor": 0.25}})");
  const std::int64_t h = 5120, words = 2 * 248320 * h, dense = 3 * h * 17408;
  const std::int64_t attention = h * (2 * 6144 + 2 * 1024) + 6144 * h + 2 * 256;
  const std::int64_t delta = h * (2 * 2048 + 2 * 6144 + 2 * 48) + 10240 * 4 + 2 * 48 + 128 + 6144 * h;
  EXPECT_EQ(parameter_count(graph_of(model)), words + 64 * (dense + 2 * h) + 16 * attention + 48 * delta + h);
  EXPECT_EQ(model.factors.at("rotary_base"), 1e7);
}

TEST(HfDeltas, RefuseLayersInAnotherOrder) {
  try {
    (void)read(std::string(R"("layer_types": ["full_attention"], )") + kQwen3Next);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("one type for each of the 48 layers"), std::string::npos) << error.what();
  }
}

// Of hidden 8, four heads of 2 with two of keys, 11 words, untied.
std::string mixture(const std::string& family, const std::string& more) {
  return "\"model_type\": \"" + family +
         R"(", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "vocab_size": 11, "head_dim": 2, "num_experts_per_tok": 2, )" +
         more;
}

TEST(HfMixtures, OfGlmHaveADenseLayerFirst) {
  const std::string text = mixture("glm4_moe", R"("intermediate_size": 12, "moe_intermediate_size": 5,
      "n_routed_experts": 6, "n_shared_experts": 1, "first_k_dense_replace": 1, "attention_bias": true,
      "partial_rotary_factor": 1.0)");
  const int attention = 8 * 8 * 2 + 2 * 8 * 4 + 8 + 4 + 4, norms = 2 * 8;
  // The router has a bias to choose by.
  const int experts = 7 * 3 * 8 * 5 + 8 * 6 + 6;
  EXPECT_EQ(parameters_of(text), 2 * 11 * 8 + 2 * (attention + norms) + 3 * 8 * 12 + experts + 8);
}

TEST(HfMixtures, OfMiniMaxHaveNormsOfAllHeads) {
  const std::string text = mixture("minimax_m2", R"("intermediate_size": 5, "num_local_experts": 6, "rotary_dim": 2,
      "use_qk_norm": true, "use_routing_bias": true, "scoring_func": "sigmoid")");
  const int attention = 8 * 8 * 2 + 2 * 8 * 4 + 8 + 4, norms = 2 * 8, experts = 6 * 3 * 8 * 5 + 8 * 6 + 6;
  EXPECT_EQ(parameters_of(text), 2 * 11 * 8 + 2 * (attention + norms + experts) + 8);
}

TEST(HfMixtures, OfKimiAreDeepSeeks) {
  const std::string more = R"("intermediate_size": 12, "moe_intermediate_size": 5, "n_routed_experts": 6,
      "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 4, "kv_lora_rank": 3, "qk_nope_head_dim": 2,
      "qk_rope_head_dim": 2, "v_head_dim": 2)";
  EXPECT_EQ(read(mixture("kimi_k2", more)), read(mixture("deepseek_v3", more)));
}

// --- what the graphs are made of ---

TEST(HfDecoders, OfGemma3SeeAllKeysInEverySixthLayer) {
  const Graph graph = graph_of(read(kGemma3));
  int full = 0, windowed = 0;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) ++(op.attributes.attention_window == 512 ? windowed : full);
  EXPECT_EQ(full, 4);
  EXPECT_EQ(windowed, 22);
  // Four norms around attention and feed-forward, those of queries and keys, and the last one.
  EXPECT_EQ(count(read(kGemma3), OpKind::RmsNorm), 26 * 6 + 1);
}

TEST(HfDecoders, SideBySideReadOneNormOrTwo) {
  EXPECT_EQ(count(read(kPhi2), OpKind::LayerNorm), 32 + 1);
  EXPECT_EQ(count(read(kFalcon7b), OpKind::LayerNorm), 32 + 1);
  EXPECT_EQ(count(read(kFalcon40b), OpKind::LayerNorm), 2 * 60 + 1);
}

TEST(HfDecoders, RotateAShareOfEachHead) {
  // 0.4 of 80; 64 of 256; all.
  EXPECT_EQ(read(kPhi2).more.at("rotary_dims"), 32);
  EXPECT_EQ(read(kGptj).more.at("rotary_dims"), 64);
  EXPECT_EQ(read(kGranite).more.at("rotary_dims"), 0);
}

TEST(HfDecoders, OfGraniteScaleWhatTheyAdd) {
  const ModelConfig model = read(kGranite);
  // The embedding, two sums of each layer, and the logits.
  EXPECT_EQ(count(model, OpKind::Scale), 1 + 2 * 40 + 1);
  const Graph graph = graph_of(model);
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::GroupedAttention) continue;
    EXPECT_DOUBLE_EQ(op.attributes.scale, 0.0078125);
  }
}

// A file is read from a folder of its own.
std::vector<std::string> left_out_of(const std::string& text) {
  const std::string path = testing::TempDir() + "hf_decoders_test.json";
  std::ofstream(path) << "{" << text << "}";
  return not_understood_of_hf_file(path);
}

TEST(HfConfig, WhatIsNotUnderstoodIsNamed) {
  const std::string dropped = R"(, "use_cache": true, "attention_dropout": 0.1, "torch_dtype": "bfloat16")";
  EXPECT_TRUE(left_out_of(kOlmo2 + dropped).empty());
  EXPECT_EQ(left_out_of(kOlmo2 + dropped + R"(, "num_nextn_predict_layers": 1, "clip_qkv": 8.0, "other": null)"),
            (std::vector<std::string>{"num_nextn_predict_layers", "clip_qkv"}));
  EXPECT_EQ(left_out_of(R"("model_type": "gemma3", "mm_tokens_per_image": 256, "text_config": {)" +
                        std::string(kGemma3) + R"(, "use_bidirectional_attention": true})"),
            (std::vector<std::string>{"mm_tokens_per_image", "text_config.use_bidirectional_attention"}));
}

TEST(HfDecoders, RefuseWhatTheyAreNotBuiltWith) {
  EXPECT_THROW((void)read(std::string(kFalcon7b) + R"(, "alibi": true)"), InputError);
  EXPECT_THROW((void)read(std::string(kPhi2) + R"(, "qk_layernorm": true)"), InputError);
  EXPECT_THROW((void)read(std::string(kGemma3) + R"(, "final_logit_softcapping": 30.0)"), InputError);
}

}  // namespace
}  // namespace meshwright::hf_decoders_test
