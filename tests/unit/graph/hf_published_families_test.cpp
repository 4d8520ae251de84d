// SPDX-License-Identifier: Apache-2.0
// Types that publishers' own programs define. Sizes are those of the published files; parameters are those that their
// checkpoints hold, or counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "tests/refusal.h"

namespace meshwright::hf_published_families_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }
std::int64_t parameters_of(const std::string& text) {
  return parameter_count(build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16}));
}
std::string refusal_of(const std::string& text) {
  return refusal([&] { (void)read(text); });
}

// 2 layers of 4 heads and 2 of keys; 2 tables of 64 words.
std::string of(const char* type, const std::string& more = "") {
  return std::string("\"model_type\": \"") + type +
         R"(", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8,
             "tie_word_embeddings": false)" +
         more;
}

const std::string kQwen =
    R"("model_type": "qwen", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
       "num_hidden_layers": 32, "num_attention_heads": 32, "kv_channels": 128, "seq_length": 8192,
       "max_position_embeddings": 32768, "layer_norm_epsilon": 1e-06, "no_bias": true, "rotary_pct": 1.0,
       "rotary_emb_base": 10000, "use_dynamic_ntk": true, "use_logn_attn": true)";
const std::string kChatGlm =
    R"("model_type": "chatglm", "add_bias_linear": false, "add_qkv_bias": true, "ffn_hidden_size": 13696,
       "hidden_size": 4096, "kv_channels": 128, "layernorm_epsilon": 1e-05, "multi_query_attention": true,
       "multi_query_group_num": 2, "num_attention_heads": 32, "rmsnorm": true, "post_layer_norm": true,
       "apply_residual_connection_post_layernorm": false)";

TEST(PublishedFamilies, OfQwen1CountGatesAndUpsTogether) {
  EXPECT_EQ(parameters_of(kQwen), 7'721'324'544);
  EXPECT_EQ(read(kQwen).seq, 4096);  // as long as plans are by default
  EXPECT_NE(refusal_of(kQwen + R"(, "scale_attn_weights": false)").find("'scale_attn_weights' is false"),
            std::string::npos);
}

TEST(PublishedFamilies, OfBaichuanAreLlamaWhereTheFileCountsPositions) {
  const std::string sizes = R"("model_type": "baichuan", "vocab_size": 125696, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "model_max_length": 4096)";
  EXPECT_EQ(parameters_of(sizes + R"(, "max_position_embeddings": 4096)"), 7'505'973'248);
  EXPECT_NE(refusal_of(sizes).find("biases by distance"), std::string::npos);
}

TEST(PublishedFamilies, OfChatGlmAreGlmsUnderMegatronsNames) {
  EXPECT_EQ(parameters_of(kChatGlm + R"(, "num_layers": 28, "padded_vocab_size": 65024, "seq_length": 32768)"),
            6'243'584'000);
  const std::string glm4 =
      kChatGlm + R"(, "num_layers": 40, "padded_vocab_size": 151552, "seq_length": 131072, "rope_ratio": 500)";
  EXPECT_EQ(parameters_of(glm4), 9'399'951'360);
  EXPECT_DOUBLE_EQ(read(glm4).factors.at("rotary_base"), 5e6);
  EXPECT_EQ(read(glm4).more.at("rotary_dims"), 64);
}

TEST(PublishedFamilies, OfDeepSeekMoeShareTwoExperts) {
  EXPECT_EQ(parameters_of(R"("model_type": "deepseek", "vocab_size": 102400, "hidden_size": 2048,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 16, "n_shared_experts": 2, "n_routed_experts": 64, "num_experts_per_tok": 6,
      "moe_layer_freq": 1, "first_k_dense_replace": 1, "norm_topk_prob": false, "scoring_func": "softmax",
      "max_position_embeddings": 4096, "tie_word_embeddings": false)"),
            16'375'728'128);
}

TEST(PublishedFamilies, OfOldNamesHaveTheParametersOfNewOnes) {
  EXPECT_EQ(parameters_of(R"("model_type": "RefinedWebModel", "vocab_size": 65024, "hidden_size": 4544, "n_layer": 32,
      "n_head": 71, "multi_query": true, "parallel_attn": true, "bias": false, "alibi": false)"),
            6'921'720'704);
  EXPECT_EQ(parameters_of(R"("model_type": "RefinedWeb", "vocab_size": 65024, "hidden_size": 8192, "n_layer": 60,
      "n_head": 128, "n_head_kv": 8, "parallel_attn": true, "bias": false, "alibi": false)"),
            41'303'293'952);
  EXPECT_EQ(parameters_of(R"("model_type": "stablelm_epoch", "vocab_size": 50304, "hidden_size": 2560,
      "intermediate_size": 6912, "num_hidden_layers": 32, "num_attention_heads": 32, "num_heads": 32,
      "num_key_value_heads": 32, "max_position_embeddings": 4096, "norm_eps": 1e-05, "rope_pct": 0.25)"),
            2'795'443'200);
  EXPECT_EQ(parameters_of(R"("model_type": "hf_olmo", "vocab_size": 50280, "embedding_size": 50304, "d_model": 2048,
      "n_layers": 16, "n_heads": 16, "mlp_ratio": 8, "max_sequence_length": 2048, "weight_tying": true, "rope": true,
      "activation_type": "swiglu", "block_type": "sequential", "layer_norm_type": "default",
      "layer_norm_with_affine": false, "include_bias": false)"),
            1'176'764'416);
  EXPECT_EQ(parameters_of(R"("d_model": 768, "n_layer": 24, "vocab_size": 50277, "ssm_cfg": {}, "rms_norm": true,
      "residual_in_fp32": true, "fused_add_norm": true, "pad_vocab_size_multiple": 8)"),
            129'135'360);
  EXPECT_NE(refusal_of(R"("d_model": 768, "n_layer": 24, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"})")
                .find("'layer' is \"Mamba2\""),
            std::string::npos);
}

TEST(PublishedFamilies, OfInternLm1HaveBiasesAndOfOrionLayerNorms) {
  EXPECT_EQ(parameters_of(R"("model_type": "internlm", "vocab_size": 103168, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "bias": true,
      "max_position_embeddings": 2048, "tie_word_embeddings": false)"),
            7'321'948'160);
  EXPECT_EQ(parameters_of(R"("model_type": "orion", "vocab_size": 84608, "hidden_size": 5120,
      "intermediate_size": 15360, "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 40,
      "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "tie_word_embeddings": false)"),
            14'498'703'360);
  for (const char* same : {"Yi", "aquila", "xverse", "skywork", "llava_llama"})
    EXPECT_EQ(parameters_of(of(same)), parameters_of(of("llama"))) << same;
}

// 4 experts of 3 matrices for one dense layer, a router, and 2 norms more in each layer; one table for two.
TEST(PublishedFamilies, OfGrokHaveNormsOnBothSidesAndCappedScores) {
  const std::string grok = of("grok-1", R"(, "num_experts": 4, "num_experts_per_tok": 2, "max_attn_value": 30.0,
      "embedding_multiplier_scale": 2.0, "output_multiplier_scale": 0.5, "attn_output_multiplier": 0.25)");
  EXPECT_EQ(parameters_of(grok) - parameters_of(of("llama")), 2 * (3 * 3 * 32 * 48 + 4 * 32 + 2 * 32));
  const ModelConfig model = read(grok);
  EXPECT_DOUBLE_EQ(model.factors.at("score_cap"), 30.0);
  EXPECT_DOUBLE_EQ(model.factors.at("logit_scale"), 0.5);
  EXPECT_EQ(model.more.at("normalized"), 0);
}

// 4 experts of 24 and a shared one of 16, all gated, with a router and its bias; norms of queries, keys and results.
TEST(PublishedFamilies, OfKolibriHaveExpertsInAllLayers) {
  const std::string kolibri =
      of("kolibri1", R"(, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
      "shared_expert_intermediate_size": 16, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"])");
  const std::int64_t mixture = 3 * 32 * (4 * 24 + 16) + 4 * 32 + 4, norms = 2 * 8 + 2 * 32;
  EXPECT_EQ(parameters_of(kolibri) - parameters_of(of("llama")), 2 * (mixture + norms - 3 * 32 * 48));
  EXPECT_EQ(read(kolibri).more.at("rotary_windows_alone"), 1);
  EXPECT_EQ(read(kolibri).more.at("full_every"), 2);
}

// 16 words of images in the table, and norms of queries and keys: of a head's 8 numbers, or of all at once.
TEST(PublishedFamilies, OfMolmo2KnowWordsThatTheHeadDoesNot) {
  const std::string more = R"(, "head_dim": 8, "additional_vocab_size": 16, "qk_norm_type": )";
  const std::int64_t llama = parameters_of(of("llama")), words = 16 * 32;
  EXPECT_EQ(parameters_of(of("molmo2_text", more + "\"qwen3\"")) - llama, words + 2 * (8 + 8));
  EXPECT_EQ(parameters_of(of("molmo2_text", more + "\"olmo\", \"norm_after\": true")) - llama, words + 2 * (32 + 16));
  EXPECT_EQ(read(of("molmo2_text", more + "\"olmo\", \"norm_after\": true")).more.at("norms"), 2);
  EXPECT_NE(refusal_of(of("molmo2_text", more + "\"other\"")).find("'qk_norm_type' is \"other\""), std::string::npos);
}

// Words have 4 experts of 24; those of images, of 8, are left out.
TEST(PublishedFamilies, OfErnieWithAnEyeHaveTheExpertsOfWords) {
  const std::string text = R"(, "moe_k": 2, "moe_num_shared_experts": 1, "moe_layer_start_index": 1)";
  const std::int64_t words =
      parameters_of(of("ernie4_5_moe", text + R"(, "moe_num_experts": 4, "moe_intermediate_size": 24)"));
  const std::string lists = R"(, "moe_num_experts": [4, 4], "moe_intermediate_size": [24, 8])";
  EXPECT_EQ(parameters_of(of("ernie4_5_moe_vl", text + lists)), words);
  EXPECT_EQ(parameters_of(R"("model_type": "ernie4_5_vl_moe", "tie_word_embeddings": false, "text_config": {)" +
                          of("ernie4_5_vl_moe_text", text + lists) + "}"),
            words);
  EXPECT_NE(refusal_of(of("ernie4_5_moe_vl", text + R"(, "moe_num_experts": [4], "moe_intermediate_size": 24)"))
                .find("no list of a positive number for words"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::hf_published_families_test
