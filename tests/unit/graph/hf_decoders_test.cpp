// SPDX-License-Identifier: Apache-2.0
// Decoders with other norms, factors, and blocks side by side, as their publishers describe them: parameters as
// published, or counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"

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

// --- families that differ from Llama's or the mixtures' by a member or two: their checkpoints' metadata ---

struct Published {
  const char* name;
  std::int64_t parameters;
  const char* config;
};
void PrintTo(const Published& of, std::ostream* out) { *out << of.name; }

const Published kPublished[] = {
    {"olmo3_7b", 7'298'011'136,
     R"("model_type": "olmo3", "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 65536,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "sliding_window": 4096,
        "vocab_size": 100278)"},
    {"olmoe_1b_7b", 6'919'161'856,
     R"("model_type": "olmoe", "clip_qkv": null, "hidden_size": 2048, "intermediate_size": 1024,
        "max_position_embeddings": 4096, "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 64,
        "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16, "vocab_size": 50304)"},
    {"seed_oss_36b", 36'151'104'512,
     R"("model_type": "seed_oss", "attention_bias": true, "attention_out_bias": false, "head_dim": 128,
        "hidden_size": 5120, "intermediate_size": 27648, "max_position_embeddings": 524288, "num_attention_heads": 80,
        "num_hidden_layers": 64, "num_key_value_heads": 8, "vocab_size": 155136)"},
    {"ernie4_5_0_3b", 360'748'032,
     R"("model_type": "ernie4_5", "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
        "max_position_embeddings": 131072, "num_attention_heads": 16, "num_hidden_layers": 18,
        "num_key_value_heads": 2, "tie_word_embeddings": true, "use_bias": false, "vocab_size": 103424)"},
    {"ernie4_5_21b_a3b", 21'825'437'888,
     R"("model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288,
        "max_position_embeddings": 131072, "moe_intermediate_size": 1536, "moe_k": 6, "moe_layer_interval": 1,
        "moe_layer_start_index": 1, "moe_num_experts": 64, "moe_num_shared_experts": 2, "num_attention_heads": 20,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": true, "use_bias": false,
        "vocab_size": 103424)"},
    {"glm_4_9b_0414", 9'400'279'040,
     R"("model_type": "glm4", "attention_bias": true, "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 13696, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_hidden_layers": 40, "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "vocab_size": 151552)"},
    {"glm_4_9b", 9'399'951'360,
     R"("model_type": "glm", "attention_bias": true, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 13696,
        "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 2, "vocab_size": 151552)"},
    {"exaone_4_0_32b", 32'003'216'384,
     R"("model_type": "exaone4", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 27392,
        "max_position_embeddings": 131072, "num_attention_heads": 40, "num_hidden_layers": 64,
        "num_key_value_heads": 8, "sliding_window": 4096, "sliding_window_pattern": "LLLG", "vocab_size": 102400)"},
    {"internlm2_5_7b", 7'737'708'544,
     R"("model_type": "internlm2", "bias": false, "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "vocab_size": 92544)"},
    {"minicpm_2b", 2'724'880'896,
     R"("model_type": "minicpm", "dim_model_base": 256, "hidden_size": 2304, "intermediate_size": 5760,
        "max_position_embeddings": 2048, "num_attention_heads": 36, "num_hidden_layers": 40,
        "num_key_value_heads": 36, "scale_depth": 1.4, "scale_emb": 12, "vocab_size": 122753)"},
    {"dots_llm1", 142'774'381'696,
     R"("model_type": "dots1", "first_k_dense_replace": 1, "hidden_size": 4096, "intermediate_size": 10944,
        "max_position_embeddings": 32768, "max_window_layers": 62, "moe_intermediate_size": 1408,
        "n_routed_experts": 128, "n_shared_experts": 2, "norm_topk_prob": true, "num_attention_heads": 32,
        "num_experts_per_tok": 6, "num_hidden_layers": 62, "num_key_value_heads": 32, "routed_scaling_factor": 2.5,
        "vocab_size": 152064)"},
    {"ling_lite", 16'801'974'272,
     R"("model_type": "bailing_moe", "first_k_dense_replace": 0, "head_dim": 128, "hidden_size": 2048,
        "intermediate_size": 5632, "max_position_embeddings": 16384, "moe_intermediate_size": 1408,
        "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 6,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "num_shared_experts": 2, "vocab_size": 126464)"},
    {"ling_mini_2_0", 16'255'643'392,
     R"("model_type": "bailing_moe_v2", "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": 2048,
        "intermediate_size": 5120, "max_position_embeddings": 32768, "moe_intermediate_size": 512,
        "moe_router_enable_expert_bias": true, "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 256,
        "num_experts_per_tok": 8, "num_hidden_layers": 20, "num_key_value_heads": 4, "num_shared_experts": 1,
        "partial_rotary_factor": 0.5, "routed_scaling_factor": 2.5, "use_qk_norm": true, "vocab_size": 157184)"},
    {"deepseek_v2_lite", 15'706'484'224,
     R"("model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944,
        "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 1408, "n_routed_experts": 64,
        "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6,
        "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "scoring_func": "softmax", "v_head_dim": 128, "vocab_size": 102400)"},
    {"deepseek_v2", 235'741'434'880,
     R"("model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 5120, "intermediate_size": 12288,
        "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 1536,
        "n_routed_experts": 160, "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 128,
        "num_experts_per_tok": 6, "num_hidden_layers": 60, "num_key_value_heads": 128, "q_lora_rank": 1536,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "routed_scaling_factor": 16.0, "v_head_dim": 128,
        "vocab_size": 102400)"},
    {"phi_3_5_moe", 41'873'153'344,
     R"("model_type": "phimoe", "attention_bias": true, "hidden_size": 4096, "intermediate_size": 6400,
        "lm_head_bias": true, "max_position_embeddings": 131072, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
        "sliding_window": 131072, "vocab_size": 32064)"},
    {"granite_3_1b_a400m", 1'334'628'352,
     R"("model_type": "granitemoe", "attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
        "hidden_size": 1024, "intermediate_size": 512, "logits_scaling": 6.0, "max_position_embeddings": 4096,
        "num_attention_heads": 16, "num_experts_per_tok": 8, "num_hidden_layers": 24, "num_key_value_heads": 8,
        "num_local_experts": 32, "residual_multiplier": 0.22, "tie_word_embeddings": true, "vocab_size": 49155)"},
    {"mistral_small_3_1_24b", 23'572'403'200,
     R"("model_type": "mistral3", "vision_config": {"depth": 1}, "text_config": {"model_type": "mistral",
        "head_dim": 128, "hidden_size": 5120, "intermediate_size": 32768, "max_position_embeddings": 131072,
        "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "vocab_size": 131072})"},
    {"qwen3_vl_8b", 8'190'735'360,
     R"("model_type": "qwen3_vl", "vision_config": {"depth": 27}, "text_config": {"model_type": "qwen3_vl_text",
        "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 262144,
        "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936})"},
    {"codegen_350m", 356'712'448,
     R"("model_type": "codegen", "activation_function": "gelu_new", "n_embd": 1024, "n_head": 16, "n_inner": null,
        "n_layer": 20, "n_positions": 2048, "rotary_dim": 32, "vocab_size": 51200)"},
    {"roberta_base", 124'697'433,
     R"("model_type": "roberta", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12, "num_hidden_layers": 12,
        "type_vocab_size": 1, "vocab_size": 50265)"},
    {"xlm_roberta_base", 278'295'186,
     R"("model_type": "xlm-roberta", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12, "num_hidden_layers": 12,
        "type_vocab_size": 1, "vocab_size": 250002)"},
    {"distilbert_base", 66'985'530,
     R"("model_type": "distilbert", "activation": "gelu", "dim": 768, "hidden_dim": 3072,
        "max_position_embeddings": 512, "n_heads": 12, "n_layers": 6, "sinusoidal_pos_embds": false,
        "vocab_size": 30522)"},
};

class PublishedModels : public testing::TestWithParam<Published> {};

TEST_P(PublishedModels, HaveTheirParameters) { EXPECT_EQ(parameters_of(GetParam().config), GetParam().parameters); }

INSTANTIATE_TEST_SUITE_P(HfDecoders, PublishedModels, testing::ValuesIn(kPublished),
                         [](const auto& of) { return std::string(of.param.name); });

const char* published(const std::string& name) {
  for (const Published& one : kPublished)
    if (one.name == name) return one.config;
  throw InputError(name);
}

// Three layers with a window and positions, then one without either.
TEST(HfDecoders, OfExaone4HaveNoPositionsWhereTheySeeAll) {
  const ModelConfig model = read(published("exaone_4_0_32b"));
  EXPECT_EQ(model.more.at("full_every"), 4);
  EXPECT_EQ(count(model, OpKind::Rotary), 2 * 48);
  const Graph graph = graph_of(model);
  const auto windows = std::count_if(graph.ops().begin(), graph.ops().end(),
                                     [](const Op& op) { return op.attributes.attention_window == 4096; });
  EXPECT_EQ(windows, 0) << "the sequence of 4096 is no longer than the window";
}

// 1.4 / sqrt(40), and 256 / 2304.
TEST(HfDecoders, OfMiniCpmHaveFactorsOfTheirDepthAndWidth) {
  const ModelConfig model = read(published("minicpm_2b"));
  EXPECT_NEAR(model.factors.at("residual_scale"), 0.22136, 1e-5);
  EXPECT_NEAR(model.factors.at("logit_scale"), 0.11111, 1e-5);
  EXPECT_EQ(model.factors.at("embed_scale"), 12.0);
}

TEST(HfDecoders, OfDeepSeekV2ScoreBySoftmax) {
  const ModelConfig model = read(published("deepseek_v2_lite"));
  EXPECT_EQ(count(model, OpKind::Sigmoid), 0);
  EXPECT_EQ(count(model, OpKind::TopKSlots), 26);
}

// Behind two rows that are no positions.
TEST(HfDecoders, OfRobertaCountPositionsFromTwo) {
  const ModelConfig model = read(published("roberta_base"));
  EXPECT_EQ(model.seq, 512);
  EXPECT_EQ(model.more.at("position_offset"), 2);
}

TEST(HfDecoders, RefuseMembersThatChangeTheModel) {
  const auto refusal_of = [](const std::string& name, const std::string& from, const std::string& to) {
    std::string config = published(name);
    config.replace(config.find(from), from.size(), to);
    try {
      (void)read(config);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_NE(refusal_of("olmoe_1b_7b", R"("clip_qkv": null)", R"("clip_qkv": 8.0)")
                .find("'clip_qkv' bounds queries, keys and values"),
            std::string::npos);
  EXPECT_NE(refusal_of("dots_llm1", R"("max_window_layers": 62)", R"("sliding_window": 4096, "max_window_layers": 40)")
                .find("'sliding_window' is set for the layers from 40 on"),
            std::string::npos);
  EXPECT_NE(refusal_of("mistral_small_3_1_24b", R"("model_type": "mistral",)", R"("model_type": "llama",)")
                .find("'text_config' is of the family llama"),
            std::string::npos);
  EXPECT_NE(refusal_of("ernie4_5_21b_a3b", R"("moe_k": 6)", R"("moe_layer_end_index": 20, "moe_k": 6)")
                .find("'moe_layer_end_index' is 20"),
            std::string::npos);
  EXPECT_NE(refusal_of("distilbert_base", R"("sinusoidal_pos_embds": false)", R"("sinusoidal_pos_embds": true)")
                .find("sinusoidal_pos_embds"),
            std::string::npos);
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

// By its own frequencies the model is another one, of the same work.
TEST(HfConfig, UnknownScalingsOfRotationsAreNamed) {
  const auto of = [](const std::string& more) {
    const std::vector<std::string> found = left_out_of(kOlmo2 + more);
    return found.size() == 1 ? found.front() : std::to_string(found.size());
  };
  EXPECT_EQ(of(R"(, "rope_scaling": {"factor": 8.0, "rope_type": "ntk_by_parts"})"), "rope_scaling (ntk_by_parts)");
  EXPECT_EQ(of(R"(, "rope_scaling": {"type": "linear\u001b"})"), "rope_scaling (linear\\x1b)");
  EXPECT_EQ(of(R"(, "rope_scaling": {"factor": 8.0, "type": "linear"})"), "0");
  EXPECT_EQ(of(R"(, "rope_scaling": {"rope_type": "default"})"), "0");
  EXPECT_EQ(of(R"(, "rope_scaling": null)"), "0");
}

TEST(HfDecoders, RefuseWhatTheyAreNotBuiltWith) {
  EXPECT_THROW((void)read(std::string(kFalcon7b) + R"(, "alibi": true)"), InputError);
  EXPECT_THROW((void)read(std::string(kGemma3) + R"(, "final_logit_softcapping": 30.0)"), InputError);
}

}  // namespace
}  // namespace meshwright::hf_decoders_test
