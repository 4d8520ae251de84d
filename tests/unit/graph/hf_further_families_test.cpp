// SPDX-License-Identifier: Apache-2.0
// Families that differ from Llama's, the mixtures' or DeepSeek's by activation, windows, norms, gates or names: the
// parameters that transformers 5.24 counts in the model of the same file, and biases that only choose experts, which
// it keeps beside the parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright::hf_further_families_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

Graph graph_of(const std::string& text) { return build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16}); }

int count(const std::string& text, OpKind kind) {
  const Graph graph = graph_of(text);
  return static_cast<int>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; }));
}

std::string refusal_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

struct Counted {
  const char* name;
  std::int64_t parameters;
  const char* config;
};
void PrintTo(const Counted& of, std::ostream* out) { *out << of.name; }

constexpr const char* kGemma2 =
    R"("model_type": "gemma2", "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
       "intermediate_size": 9216, "max_position_embeddings": 8192, "num_attention_heads": 8, "num_hidden_layers": 26,
       "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "sliding_window": 4096, "vocab_size": 256000,
       "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0)";
constexpr const char* kQwen2Moe =
    R"("model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
       "max_position_embeddings": 8192, "moe_intermediate_size": 1408, "norm_topk_prob": false,
       "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
       "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632, "vocab_size": 151936)";
constexpr const char* kCwm =
    R"("model_type": "cwm", "head_dim": 128, "hidden_size": 6144, "intermediate_size": 21504,
       "max_position_embeddings": 131072, "num_attention_heads": 48, "num_hidden_layers": 64,
       "num_key_value_heads": 8, "sliding_window": 8192, "vocab_size": 128256)";

constexpr const char* kMpt =
    R"("model_type": "mpt", "d_model": 4096, "expansion_ratio": 4, "max_seq_len": 2048, "n_heads": 32, "n_layers": 32,
       "no_bias": true, "vocab_size": 50432)";
constexpr const char* kAlbert =
    R"("model_type": "albert", "embedding_size": 128, "hidden_act": "gelu_new", "hidden_size": 768,
       "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_groups": 1,
       "num_hidden_layers": 12, "vocab_size": 30000)";

constexpr const char* kModernBert =
    R"("model_type": "modernbert", "hidden_size": 768, "intermediate_size": 1152, "max_position_embeddings": 8192,
       "num_attention_heads": 12, "num_hidden_layers": 22, "vocab_size": 50368)";

const Counted kCounted[] = {
    {"gemma2_2b", 2'614'341'888, kGemma2},
    {"gemma2_9b", 9'241'705'984,
     R"("model_type": "gemma2", "head_dim": 256, "hidden_size": 3584, "intermediate_size": 14336,
        "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 42,
        "num_key_value_heads": 8, "vocab_size": 256000)"},
    {"command_r", 34'980'831'232,
     R"("model_type": "cohere", "hidden_size": 8192, "intermediate_size": 22528, "max_position_embeddings": 8192,
        "num_attention_heads": 64, "num_hidden_layers": 40, "num_key_value_heads": 64, "vocab_size": 256000)"},
    {"qwen1_5_moe_a2_7b", 14'315'784'192, kQwen2Moe},
    {"cwm", 32'581'097'472, kCwm},
    {"helium", 2'172'643'840,
     R"("model_type": "helium", "head_dim": 128, "hidden_size": 2560, "intermediate_size": 7040,
        "max_position_embeddings": 4096, "num_attention_heads": 20, "num_hidden_layers": 24,
        "num_key_value_heads": 20, "vocab_size": 48000)"},
    {"exaone_3_7_8b", 7'818'448'896,
     R"("model_type": "exaone", "activation_function": "silu", "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 14336, "layer_norm_epsilon": 1e-05, "max_position_embeddings": 4096,
        "num_attention_heads": 32, "num_key_value_heads": 8, "num_layers": 32, "rope_theta": 500000.0,
        "vocab_size": 102400)"},
    {"arcee", 4'022'766'080,
     R"("model_type": "arcee", "hidden_act": "relu2", "hidden_size": 2560, "intermediate_size": 18432,
        "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000)"},
    {"jais2", 8'090'401'280,
     R"("model_type": "jais2", "head_dim": 128, "hidden_act": "relu2", "hidden_size": 3328, "intermediate_size": 26624,
        "max_position_embeddings": 8192, "num_attention_heads": 26, "num_hidden_layers": 32,
        "num_key_value_heads": 26, "vocab_size": 150272)"},
    {"hyperclovax", 6'738'677'760,
     R"("model_type": "hyperclovax", "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 2048,
        "num_attention_heads": 32, "num_hidden_layers": 32, "use_post_norm": true, "vocab_size": 32000)"},
    {"flex_olmo", 33'270'665'216,
     R"("model_type": "flex_olmo", "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 4096,
        "num_attention_heads": 32, "num_experts": 7, "num_experts_per_tok": 5, "num_hidden_layers": 32,
        "vocab_size": 100352)"},
    {"solar_open_100b", 102'651'793'408 + 48 * 128,
     R"("model_type": "solar_open", "head_dim": 128, "hidden_size": 4096, "max_position_embeddings": 131072,
        "moe_intermediate_size": 1280, "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 64,
        "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 8, "vocab_size": 196608)"},
    {"hy_v3", 295'033'528'320 + 79 * 192,
     R"("model_type": "hy_v3", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 13312,
        "max_position_embeddings": 131072, "moe_intermediate_size": 1536, "num_attention_heads": 64,
        "num_experts": 192, "num_experts_per_tok": 8, "num_hidden_layers": 80, "num_key_value_heads": 8,
        "num_shared_experts": 1, "vocab_size": 120832)"},
    {"glm_4_7_flash", 29'943'390'976 + 46 * 64,
     R"("model_type": "glm4_moe_lite", "hidden_size": 2048, "intermediate_size": 10240, "kv_lora_rank": 512,
        "max_position_embeddings": 202752, "moe_intermediate_size": 1536, "n_routed_experts": 64,
        "n_shared_experts": 1, "num_attention_heads": 20, "num_experts_per_tok": 4, "num_hidden_layers": 47,
        "q_lora_rank": 768, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256,
        "vocab_size": 154880)"},
    {"glm_5", 743'911'199'232 + 75 * 256,
     R"("model_type": "glm_moe_dsa", "hidden_size": 6144, "index_head_dim": 128, "index_n_heads": 32,
        "index_topk": 2048, "intermediate_size": 12288, "kv_lora_rank": 512, "max_position_embeddings": 202752,
        "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64,
        "num_experts_per_tok": 8, "num_hidden_layers": 78, "q_lora_rank": 2048, "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64, "v_head_dim": 256, "vocab_size": 154880)"},
    {"youtu", 1'961'560'064,
     R"("model_type": "youtu", "hidden_size": 2048, "intermediate_size": 6144, "kv_lora_rank": 512,
        "max_position_embeddings": 131072, "num_attention_heads": 16, "num_hidden_layers": 32, "q_lora_rank": 1536,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 128256)"},
    {"gpt_neo_1_3b", 1'315'575'808,
     R"("model_type": "gpt_neo", "attention_types": [[["global", "local"], 12]], "hidden_size": 2048,
        "max_position_embeddings": 2048, "num_heads": 16, "num_layers": 24, "vocab_size": 50257)"},
    {"mpt_7b", 6'649'286'656, kMpt},
    {"electra_small_generator", 13'546'682,
     R"("model_type": "electra", "embedding_size": 128, "hidden_size": 256, "intermediate_size": 1024,
        "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 12, "vocab_size": 30522)"},
    {"electra_large_generator", 51'295'290,
     R"("model_type": "electra", "embedding_size": 1024, "hidden_size": 256, "intermediate_size": 1024,
        "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 24, "vocab_size": 30522)"},
    {"albert_base", 11'221'680, kAlbert},
    {"albert_xxlarge", 206'368'944,
     R"("model_type": "albert", "embedding_size": 128, "hidden_size": 4096, "intermediate_size": 16384,
        "max_position_embeddings": 512, "num_attention_heads": 64, "num_hidden_layers": 12, "vocab_size": 30000)"},
    {"granite_swash_2b", 2'144'463'840,
     R"("model_type": "granite_swa", "hidden_size": 2560, "intermediate_size": 8192, "max_position_embeddings": 8192,
        "num_attention_heads": 20, "num_hidden_layers": 24, "num_key_value_heads": 4, "vocab_size": 100352)"},
    {"modernbert_base", 149'655'232, kModernBert},
    {"modernbert_large", 395'881'664,
     R"("model_type": "modernbert", "hidden_size": 1024, "intermediate_size": 2624, "max_position_embeddings": 8192,
        "num_attention_heads": 16, "num_hidden_layers": 28, "vocab_size": 50368)"},
    {"eurobert_210m", 211'766'016,
     R"("model_type": "eurobert", "hidden_size": 768, "intermediate_size": 3072, "max_position_embeddings": 8192,
        "num_attention_heads": 12, "num_hidden_layers": 12, "tie_word_embeddings": true, "vocab_size": 128256)"},
    {"data2vec_text_base", 109'514'298,
     R"("model_type": "data2vec-text", "hidden_size": 768, "intermediate_size": 3072, "max_position_embeddings": 512,
        "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 30522)"},
    // As its publisher's files have it, with a table and a head, which transformers 5 makes one.
    {"mt5_small", 300'176'768,
     R"("model_type": "mt5", "d_ff": 1024, "d_kv": 64, "d_model": 512, "num_decoder_layers": 8, "num_heads": 6,
        "num_layers": 8, "tie_word_embeddings": false, "vocab_size": 250112)"},
    {"command_r_plus", 103'810'674'688,
     R"("model_type": "cohere", "hidden_size": 12288, "intermediate_size": 33792, "max_position_embeddings": 8192,
        "num_attention_heads": 96, "num_hidden_layers": 64, "num_key_value_heads": 8, "use_qk_norm": true,
        "vocab_size": 256000)"},
};

class FurtherFamilies : public testing::TestWithParam<Counted> {};

TEST_P(FurtherFamilies, HaveTheirParameters) {
  EXPECT_EQ(parameter_count(graph_of(GetParam().config)), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(HfFamilies, FurtherFamilies, testing::ValuesIn(kCounted),
                         [](const auto& of) { return std::string(of.param.name); });

// Layers 0, 3, 6, ... of 22 see all keys and turn by another base; 128 keys of a window are 64 on each side.
TEST(HfFamilies, OfModernBertHaveWindowsBothWays) {
  int layer = 0;
  const Graph graph = graph_of(kModernBert);
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::GroupedAttention) continue;
    EXPECT_EQ(op.attributes.attention_window, layer++ % 3 == 0 ? 0 : 65);
    EXPECT_FALSE(op.attributes.causal);
  }
  EXPECT_EQ(layer, 22);
  EXPECT_EQ(read(kModernBert).factors.at("rotary_base"), 160000.0);
  EXPECT_EQ(read(kModernBert).factors.at("window_rotary_base"), 10000.0);
  // Two to a layer but the first, of the embedding, behind the last layer and in the head.
  EXPECT_EQ(count(kModernBert, OpKind::LayerNorm), 2 * 22 - 1 + 3);
  EXPECT_NE(refusal_of(kModernBert + std::string(R"(, "classifier_activation": "relu")"))
                .find("'classifier_activation' is \"relu\", another than 'hidden_activation'"),
            std::string::npos);
}

// Of 8 positions the queries at 0 to 3 keep their scale, those at 4 to 7 have that of the second stretch.
TEST(HfFamilies, OfMinistral3GrowTheirScoresWithPositions) {
  const std::string config = R"("model_type": "ministral3", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48,
      "max_position_embeddings": 8, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
      "vocab_size": 64, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 2.0, "mscale": 1.0,
      "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": )";
  EXPECT_TRUE(read(config + "4}").rotary_scaling.has_value());
  EXPECT_EQ(count(config + "4}", OpKind::Multiply) - count(config + "8}", OpKind::Multiply), 2);
  const Graph graph = graph_of(config + "4}");
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == "temperature") {
      const double second = 1.0 + 0.1 * std::log(2.0);
      EXPECT_EQ(*graph.constants.at(tensor.id), (std::vector<double>{1, 1, 1, 1, second, second, second, second}));
    }
}

// What a member says may be said twice, but not otherwise.
TEST(HfFamilies, OfT5SayTheirFeedForwardLayerOnce) {
  const std::string t5 = R"("model_type": "t5", "d_ff": 64, "d_kv": 8, "d_model": 32, "feed_forward_proj": "relu",
      "num_heads": 4, "num_layers": 2, "vocab_size": 64)";
  EXPECT_EQ(read(t5 + R"(, "dense_act_fn": "relu", "is_gated_act": false)").more.at("gated"), 0);
  for (const char* other : {R"(, "is_gated_act": true)", R"(, "dense_act_fn": "gelu_new")"})
    EXPECT_NE(refusal_of(t5 + other).find("'feed_forward_proj' is \"relu\", but 'is_gated_act'"), std::string::npos);
}

TEST(HfFamilies, OfMaskedWordsHaveTheWordTableAsTheirHead) {
  for (const char* type : {"bert", "roberta", "electra", "albert"})
    EXPECT_NE(refusal_of(R"("model_type": ")" + std::string(type) + R"(", "tie_word_embeddings": false,
        "embedding_size": 16, "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 16,
        "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64)")
                  .find("'tie_word_embeddings' is false, which is not supported; true is."),
              std::string::npos)
        << type;
}

TEST(HfFamilies, OfLatentAttentionRotateNeighbours) {
  EXPECT_NE(refusal_of(R"("model_type": "youtu", "rope_interleave": false)")
                .find("'rope_interleave' is false, which is not supported; true is."),
            std::string::npos);
}

// The whole file says that the head is the word table, and its text part nothing; or all members are of one object.
TEST(HfFamilies, OfTextAndImagesTieTheHeadOfTheTextModel) {
  const std::string text = R"("hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 128000,
      "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 2, "vocab_size": 151936)";
  const std::int64_t qwen_3b = 3'085'938'688;
  EXPECT_EQ(parameter_count(graph_of(R"("model_type": "qwen2_5_vl", "tie_word_embeddings": true, )" + text)), qwen_3b);
  const auto as_part = [&](const std::string& tied) {
    return parameter_count(graph_of(R"("model_type": "qwen2_5_vl", "tie_word_embeddings": )" + tied +
                                    R"(, "text_config": {)" + text + "}"));
  };
  EXPECT_EQ(as_part("true"), qwen_3b);
  EXPECT_EQ(as_part("false"), qwen_3b + 151936 * 2048);
  for (const char* type : {"qwen3_vl", "mistral3", "gemma3"})
    EXPECT_EQ(read(R"("model_type": ")" + std::string(type) + R"(", "tie_word_embeddings": true, "text_config": {
        "model_type": "mistral", )" +
                   text + "}")
                  .more.at("tied"),
              1)
        << type;
}

// The first, fifth, ... of 64 layers see all keys.
TEST(HfFamilies, OfCwmSeeAllKeysInTheFirstLayerOfFour) {
  const std::string config = std::string(kCwm).replace(std::string(kCwm).find("8192"), 4, "1024");
  std::vector<bool> windowed;
  const Graph graph = graph_of(config);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) windowed.push_back(op.attributes.attention_window == 1024);
  ASSERT_EQ(windowed.size(), 64u);
  for (std::size_t layer = 0; layer < windowed.size(); ++layer) EXPECT_EQ(windowed[layer], layer % 4 != 0) << layer;
}

// Every other of 12 layers sees 256 keys back; no scores are divided; of a layer's attention the last product alone has
// a bias.
TEST(HfFamilies, OfGptNeoSeeAFewKeysInEveryOtherLayer) {
  const std::string neo = R"("model_type": "gpt_neo", "hidden_size": 768, "max_position_embeddings": 2048,
      "num_heads": 12, "num_layers": 12, "vocab_size": 50257, "attention_types": )";
  EXPECT_EQ(parameter_count(graph_of(neo + R"([[["global", "local"], 6]])")), 125'198'592);
  int layer = 0;
  const Graph graph = graph_of(neo + R"([[["global", "local"], 6]])");
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::GroupedAttention) continue;
    EXPECT_EQ(op.attributes.attention_window, layer++ % 2 == 0 ? 0 : 256);
    EXPECT_DOUBLE_EQ(op.attributes.scale, 1.0);
    EXPECT_NE(op.attributes.scale, 1.0);  // which would stand for 1 / sqrt(head_dim)
  }
  EXPECT_EQ(layer, 12);
  // Positions; of each layer one in attention and two in the feed-forward layer.
  EXPECT_EQ(count(neo + R"([[["global", "local"], 6]])", OpKind::BiasAdd), 1 + 12 * 3);
  EXPECT_NE(refusal_of(neo + R"([[["global"], 11]])").find("'attention_types' must be lists of kinds"),
            std::string::npos);
  EXPECT_NE(refusal_of(neo + R"([[["global"], 1], [["local"], 2], [["global"], 1], [["local"], 8]])")
                .find("'attention_types' follow no order that is supported"),
            std::string::npos);
}

TEST(HfFamilies, OfMptHaveNoBiases) {
  EXPECT_EQ(count(kMpt, OpKind::BiasAdd), 0);
  EXPECT_EQ(count(kMpt, OpKind::GeluErf), 32);
  const std::string mpt = kMpt;
  EXPECT_NE(refusal_of(mpt + R"(, "attn_config": {"clip_qkv": 6})").find("attn_config: 'clip_qkv' is given"),
            std::string::npos);
  EXPECT_NE(refusal_of(mpt + R"(, "attn_config": {"alibi_bias_max": 16})").find("'alibi_bias_max' is 16"),
            std::string::npos);
  EXPECT_NE(refusal_of(mpt + R"(, "attn_config": {"alibi": false})").find("'alibi' is false"), std::string::npos);
}

// One layer's weights in all of twelve layers' products.
TEST(HfFamilies, OfAlbertShareTheWeightsOfTheirLayers) {
  const auto readers = [](const Graph& graph, const std::string& name) {
    int found = 0;
    for (const Op& op : graph.ops())
      for (const TensorId input : op.inputs) found += graph.tensor(input).name == name ? 1 : 0;
    return found;
  };
  EXPECT_EQ(readers(graph_of(kAlbert), "group0.mlp.up.weight"), 12);
  std::string two = kAlbert;
  two.replace(two.find("groups\": 1"), 10, "groups\": 2");
  EXPECT_EQ(readers(graph_of(two), "group1.mlp.up.weight"), 6);
  EXPECT_EQ(parameter_count(graph_of(two)) - parameter_count(graph_of(kAlbert)),
            4 * (768 * 768 + 768) + 2 * 768 * 3072 + 768 + 3072 + 4 * 768);
  EXPECT_NE(refusal_of(two + R"(, "inner_group_num": 2)").find("'inner_group_num' is 2"), std::string::npos);
}

// Layers that see all keys have no positions where their base is 0.
TEST(HfFamilies, OfGraniteSwaRotateByLayer) {
  const std::string config = R"("model_type": "granite_swa", "hidden_size": 64, "intermediate_size": 128,
      "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 5, "vocab_size": 64,
      "layer_rope_theta": )";
  const Graph graph = graph_of(config + "[0, 1e4, 1e4, 1e4, 0]");
  int turned = 0, sinks = 0, windows = 0;
  for (const Op& op : graph.ops()) {
    turned += op.kind == OpKind::Rotary && op.attributes.rotary_base == 1e4 ? 1 : 0;
    if (op.kind != OpKind::GroupedAttention) continue;
    sinks += op.attributes.extra == Attributes::Extra::Sink ? 1 : 0;
    windows += op.attributes.attention_window == 128 ? 1 : 0;
  }
  EXPECT_EQ(turned, 2 * 3);
  EXPECT_EQ(sinks, 5);
  EXPECT_EQ(windows, 3);
  EXPECT_EQ(read(config + "[1e6, 1e4, 1e4, 1e4, 1e6]").factors.at("window_rotary_base"), 1e4);
  EXPECT_EQ(read(config + "[1e6, 1e4, 1e4, 1e4, 1e6]").factors.at("rotary_base"), 1e6);
  EXPECT_NE(refusal_of(config + "[0, 1e4, 1e5, 1e4, 0]").find("has 100000.0 for layer 2"), std::string::npos)
      << refusal_of(config + "[0, 1e4, 1e5, 1e4, 0]");
}

TEST(HfFamilies, OfGemma2CapTheirScores) {
  const auto caps = [](const std::string& config) {
    std::vector<double> found;
    const Graph graph = graph_of(config);
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::GroupedAttention) found.push_back(op.attributes.score_cap);
    return found;
  };
  EXPECT_EQ(caps(kGemma2), std::vector<double>(26, 50.0));
  std::string none = kGemma2;
  EXPECT_EQ(caps(none.replace(none.find("50.0"), 4, "null")), std::vector<double>(26, 0.0));
}

TEST(HfFamilies, OfGemma2CapTheirLogits) {
  EXPECT_EQ(count(kGemma2, OpKind::Tanh), 1);
  EXPECT_EQ(read(kGemma2).factors.at("logit_cap"), 30.0);
  EXPECT_EQ(read(kGemma2).more.at("full_every"), 2);
}

// A sigmoid for each layer's shared expert; the router's scores are softmaxes.
TEST(HfFamilies, OfQwen2MoeGateTheSharedExpert) {
  EXPECT_EQ(count(kQwen2Moe, OpKind::Sigmoid), 24);
  EXPECT_EQ(count(kQwen2Moe, OpKind::Softmax), 24);
}

TEST(HfFamilies, OfQwen3MoeHaveHeadsThatShareTheHiddenSize) {
  const std::string config = R"("model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
      "max_position_embeddings": 512, "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
      "num_experts_per_tok": 8, "num_hidden_layers": 24, "num_key_value_heads": 4, "vocab_size": 151936)";
  EXPECT_EQ(read(config).more.at("head_dim"), 64);
  EXPECT_EQ(read(config + R"(, "head_dim": 128)").more.at("head_dim"), 128);
}

TEST(HfFamilies, OfQwen3VlMoeNormaliseWeightsUnlessTheFileSaysOtherwise) {
  const auto config = [](const std::string& type, const std::string& more) {
    return R"("model_type": ")" + type + R"(", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48,
      "max_position_embeddings": 8, "moe_intermediate_size": 24, "num_attention_heads": 4, "num_experts": 4,
      "num_key_value_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "vocab_size": 64)" +
           more;
  };
  EXPECT_EQ(read(config("qwen3_vl_moe_text", "")).more.at("normalized"), 1);
  EXPECT_EQ(read(config("qwen3_vl_moe_text", R"(, "norm_topk_prob": false)")).more.at("normalized"), 0);
  EXPECT_EQ(read(config("qwen3_moe", "")).more.at("normalized"), 0);
}

// Windows with a base of their own.
TEST(HfFamilies, RotateByKindOfLayer) {
  const std::string rotation = R"(, "rope_parameters": {"sliding_attention": {"rope_theta": 1e4},
                                                        "full_attention": {"rope_theta": 1e6}})";
  const Graph graph = graph_of(kGemma2 + rotation);
  int windowed = 0, full = 0;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::Rotary) ++(op.attributes.rotary_base == 1e4 ? windowed : full);
  // 13 layers of each kind, each with queries and keys.
  EXPECT_EQ(windowed, 2 * 13);
  EXPECT_EQ(full, 2 * 13);
  const std::string narrow = std::string(kGemma2).replace(std::string(kGemma2).find("4096"), 4, "1024") + rotation;
  EXPECT_EQ(read(narrow).factors.at("rotary_base"), 1e6);
  EXPECT_EQ(read(narrow).factors.at("window_rotary_base"), 1e4);
  EXPECT_NE(refusal_of(kCwm + rotation).find("rotate layers with windows by another base (10000) than the others"),
            std::string::npos);
}

// A scale of 1 stands for 1 / sqrt(head_dim) in ops, so that a multiplier of 1 is the next number.
TEST(HfFamilies, OfGraniteMayScaleTheirScoresByOne) {
  const auto scale = [](const std::string& multiplier) {
    const Graph graph = graph_of(R"("model_type": "granite", "hidden_size": 32, "intermediate_size": 48,
        "max_position_embeddings": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 64,
        "attention_multiplier": )" +
                                 multiplier);
    const auto is_attention = [](const Op& op) { return op.kind == OpKind::GroupedAttention; };
    return std::find_if(graph.ops().begin(), graph.ops().end(), is_attention)->attributes.scale;
  };
  EXPECT_DOUBLE_EQ(scale("1.0"), 1.0);
  EXPECT_NE(scale("1.0"), 1.0);
  EXPECT_DOUBLE_EQ(scale("0.5"), 0.5);
}

// StarCoder, 15.5 billion: queries of 48 heads of 128, one key and value, biases everywhere.
TEST(HfFamilies, OfGptBigCodeShareOneKey) {
  const std::string starcoder = R"("model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_layer": 40,
      "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "activation_function": "gelu", "multi_query": )";
  const std::int64_t h = 6144, attention = 2 * (h * h + h) + 2 * (h * 128 + 128), mlp = 2 * 4 * h * h + 4 * h + h;
  const std::int64_t all = (49152 + 8192) * h + 40 * (attention + mlp + 4 * h) + 2 * h;
  EXPECT_EQ(parameter_count(graph_of(starcoder + "true")), all);
  EXPECT_EQ(all / 100'000'000, 155);
  EXPECT_NE(refusal_of(starcoder + "false").find("'multi_query' is false"), std::string::npos);
}

// OLMo 1 7B: 32 layers of four projections of attention and three of feed-forward, two tables, and no norm's weights.
TEST(HfFamilies, OfOlmoHaveNormsWithoutWeights) {
  const std::string olmo = R"("model_type": "olmo", "hidden_size": 4096, "intermediate_size": 11008,
      "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
      "vocab_size": 50304, "tie_word_embeddings": false, "clip_qkv": )";
  EXPECT_EQ(parameter_count(graph_of(olmo + "null")), 32 * 4096LL * (4 * 4096 + 3 * 11008) + 2 * 50304LL * 4096);
  EXPECT_EQ(count(olmo + "null", OpKind::LayerNorm), 65);
  EXPECT_EQ(read(olmo + "8.0").factors.at("qkv_bound"), 8.0);
}

TEST(HfFamilies, OfHunyuanMayListOneNumberForAllLayers) {
  const std::string config = R"("model_type": "hunyuan_v1_moe", "head_dim": 128, "hidden_size": 4096,
      "intermediate_size": 3072, "max_position_embeddings": 32768, "moe_topk": [8, 8], "num_attention_heads": 32,
      "num_experts": 64, "num_hidden_layers": 2, "num_key_value_heads": 8, "vocab_size": 128167,
      "tie_word_embeddings": true)";
  EXPECT_EQ(read(config).more.at("top_k"), 8);
  std::string uneven = config;
  EXPECT_NE(refusal_of(uneven.replace(uneven.find("8, 8"), 4, "8, 4")).find("'moe_topk' is no list of one positive"),
            std::string::npos);
}

TEST(HfFamilies, RefuseWhatChangesTheModel) {
  std::string silu = kCounted[7].config;  // arcee
  EXPECT_NE(refusal_of(silu.replace(silu.find("relu2"), 5, "silu")).find("'hidden_act' is \"silu\""),
            std::string::npos);
  EXPECT_NE(refusal_of(std::string(kCounted[14].config) + R"(, "indexer_types": ["full", "shared"])")
                .find("'indexer_types' must have one type for each of the"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::hf_further_families_test
