// SPDX-License-Identifier: Apache-2.0
// Families whose layers scan or convolve where they do not attend: the parameters that transformers 5.24 counts in the
// model of the same file, and biases that only choose experts, which it keeps beside the parameters.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright::hf_hybrid_families_test {
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

// Granite 4: attention in the layers 5, 15, 25 and 35 of 40.
std::string granite_4(const std::string& sizes) {
  std::string types;
  for (int layer = 0; layer < 40; ++layer)
    types += std::string(layer == 0 ? "" : ", ") + (layer % 10 == 5 ? "\"attention\"" : "\"mamba\"");
  return R"("model_type": "granitemoehybrid", "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
            "logits_scaling": 16, "residual_multiplier": 0.22, "mamba_d_conv": 4, "mamba_d_head": 64,
            "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "max_position_embeddings": 131072,
            "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
            "position_embedding_type": "nope", "tie_word_embeddings": true, "vocab_size": 100352, )" +
         sizes + ", \"layer_types\": [" + types + "]";
}

constexpr const char* kJamba =
    R"("model_type": "jamba", "attn_layer_offset": 4, "attn_layer_period": 8, "expert_layer_offset": 1,
       "expert_layer_period": 2, "hidden_size": 4096, "intermediate_size": 14336, "mamba_dt_rank": 256,
       "max_position_embeddings": 262144, "num_attention_heads": 32, "num_experts": 16, "num_experts_per_tok": 2,
       "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 65536)";
constexpr const char* kFalconH1 =
    R"("model_type": "falcon_h1", "head_dim": 64, "hidden_size": 1024, "intermediate_size": 2048,
       "key_multiplier": 0.5, "mamba_d_head": 64, "mamba_d_ssm": 1536, "mamba_d_state": 128, "mamba_n_groups": 1,
       "mamba_n_heads": 24, "max_position_embeddings": 16384, "mlp_multipliers": [0.25, 0.125],
       "num_attention_heads": 8, "num_hidden_layers": 36, "num_key_value_heads": 2,
       "ssm_multipliers": [0.5, 0.25, 2.0, 4.0, 8.0], "vocab_size": 32784)";
constexpr const char* kLfm2 =
    R"("model_type": "lfm2", "block_auto_adjust_ff_dim": true, "block_ff_dim": 12288, "block_multiple_of": 256,
       "full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048, "max_position_embeddings": 128000,
       "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 65536)";
struct Counted {
  const char* name;
  std::int64_t parameters;
  const char* config;
};
void PrintTo(const Counted& of, std::ostream* out) { *out << of.name; }

const Counted kCounted[] = {
    {"jamba_1", 51'570'323'328, kJamba},
    {"jamba_3b", 3'169'630'400,
     R"("model_type": "jamba", "hidden_size": 2560, "intermediate_size": 8192, "mamba_dt_rank": 160,
        "max_position_embeddings": 262144, "num_attention_heads": 20, "num_experts": 1, "num_hidden_layers": 28,
        "num_key_value_heads": 1, "vocab_size": 65536)"},
    {"falcon_h1_half_b", 521'411'104, kFalconH1},
    // 10 convolutions of (3 + 1) 2048^2 + 3 2048, 6 of attention of 2 2048^2 + 2 2048 512 + 2 64, and, behind two
    // norms, 16 of 3 2048 8192: two thirds of 12288.
    {"lfm2_1_2b",
     65536 * 2048 + 10 * (4 * 2048 * 2048 + 3 * 2048) + 6 * (2 * 2048 * 2048 + 2 * 2048 * 512 + 2 * 64) +
         16 * (3 * 2048 * 8192 + 2 * 2048) + 2048,
     kLfm2},
    {"lfm2_8b_a1b", 8'339'929'856 + 22 * 32,
     R"("model_type": "lfm2_moe", "hidden_size": 2048, "intermediate_size": 7168, "max_position_embeddings": 128000,
        "moe_intermediate_size": 1792, "num_attention_heads": 32, "num_experts": 32, "num_experts_per_tok": 4,
        "num_hidden_layers": 24, "num_key_value_heads": 8, "vocab_size": 65536,
        "full_attn_idxs": [2, 6, 10, 14, 18, 21])"},
};

class HybridFamilies : public testing::TestWithParam<Counted> {};

TEST_P(HybridFamilies, HaveTheirParameters) {
  EXPECT_EQ(parameter_count(graph_of(GetParam().config)), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(HfFamilies, HybridFamilies, testing::ValuesIn(kCounted),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(HfFamilies, OfGranite4AreScansAndAttentionWithOrWithoutExperts) {
  const std::string small = granite_4(R"("hidden_size": 4096, "intermediate_size": 768, "mamba_n_heads": 128,
      "num_experts_per_tok": 10, "num_local_experts": 72, "shared_intermediate_size": 1536)");
  EXPECT_EQ(parameter_count(graph_of(small)), 32'207'337'984);
  EXPECT_EQ(count(small, OpKind::SelectiveScan), 36);
  EXPECT_EQ(count(small, OpKind::GroupedAttention), 4);
  EXPECT_EQ(count(small, OpKind::Rotary), 0);
  const std::string micro = granite_4(R"("hidden_size": 2048, "mamba_n_heads": 64, "num_local_experts": 0,
      "shared_intermediate_size": 8192)");
  EXPECT_EQ(parameter_count(graph_of(micro)), 3'191'396'096);
  EXPECT_EQ(count(micro, OpKind::Dispatch), 0);
  EXPECT_NE(refusal_of(granite_4(R"("hidden_size": 2048, "mamba_n_heads": 32, "num_local_experts": 0,
      "shared_intermediate_size": 8192)"))
                .find("'mamba_n_heads' times 'mamba_d_head' is 2048, but 'mamba_expand' times 'hidden_size' is 4096"),
            std::string::npos);
}

TEST(HfFamilies, OfBambaAttendInTheLayersTheyList) {
  const std::string config = R"("model_type": "bamba", "attn_rotary_emb": 64, "hidden_size": 4096,
      "intermediate_size": 14336, "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_state": 256, "mamba_expand": 2,
      "mamba_n_groups": 1, "mamba_n_heads": 128, "max_position_embeddings": 262144, "num_attention_heads": 32,
      "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128000, "attn_layer_indices": )";
  EXPECT_EQ(parameter_count(graph_of(config + "[9, 18, 27]")), 9'808'584'064);
  EXPECT_EQ(count(config + "[9, 18, 27]", OpKind::SelectiveScan), 29);
  EXPECT_EQ(count(config + "[9, 18, 27]", OpKind::Rotary), 2 * 3);
  EXPECT_NE(refusal_of(config + "[32]").find("'attn_layer_indices' has 32, which is none of the 32 layers"),
            std::string::npos);
}

// Of 32 layers 4 attend, the fifth of each 8, and 16 have experts.
TEST(HfFamilies, OfJambaNormaliseWhatTheirScansAreGiven) {
  EXPECT_EQ(count(kJamba, OpKind::SelectiveScan), 28);
  EXPECT_EQ(count(kJamba, OpKind::GroupedAttention), 4);
  EXPECT_EQ(count(kJamba, OpKind::Dispatch), 16);
  EXPECT_EQ(count(kJamba, OpKind::Rotary), 0);
  // Two norms to a layer, three more to a scan, and the last.
  EXPECT_EQ(count(kJamba, OpKind::RmsNorm), 2 * 32 + 3 * 28 + 1);
  EXPECT_EQ(read(kJamba).more.at("normalized"), 0);
  const std::string jamba = kJamba;
  EXPECT_NE(refusal_of(jamba + R"(, "mamba_inner_layernorms": false)").find("'mamba_inner_layernorms' is false"),
            std::string::npos);
  std::string late = kJamba;
  EXPECT_NE(refusal_of(late.replace(late.find("offset\": 4"), 10, "offset\": 9"))
                .find("'attn_layer_offset' is 9, which must be less than 'attn_layer_period' (8)"),
            std::string::npos);
}

// A scan beside attention in each of 36 layers, behind the same norm.
TEST(HfFamilies, OfFalconH1ScanAndAttendSideBySide) {
  EXPECT_EQ(count(kFalconH1, OpKind::SelectiveScan), 36);
  EXPECT_EQ(count(kFalconH1, OpKind::GroupedAttention), 36);
  EXPECT_EQ(count(kFalconH1, OpKind::RmsNorm), 2 * 36 + 1);
  const ModelConfig model = read(kFalconH1);
  for (const auto& [factor, value] : {std::pair{"attention_scale", 0.5},
                                      {"scan_z_scale", 0.5},
                                      {"scan_x_scale", 0.25},
                                      {"scan_b_scale", 2.0},
                                      {"scan_c_scale", 4.0},
                                      {"scan_dt_scale", 8.0},
                                      {"gate_scale", 0.25},
                                      {"mlp_out_scale", 0.125},
                                      {"scan_in_scale", 1.0}})
    EXPECT_EQ(model.factors.at(factor), value) << factor;
  // The seven that are not 1, but that of the keys, which is in attention's own scale.
  EXPECT_EQ(count(kFalconH1, OpKind::Scale), 36 * 7);
  const std::string h1 = kFalconH1;
  EXPECT_EQ(count(h1 + R"(, "mamba_rms_norm": true)", OpKind::RmsNorm), 3 * 36 + 1);
  EXPECT_EQ(read(h1 + R"(, "mamba_rms_norm": true)").more.at("scan_norm"), 2);
  EXPECT_EQ(read(h1 + R"(, "mamba_rms_norm": true, "mamba_norm_before_gate": false)").more.at("scan_norm"), 1);
  std::string short_list = kFalconH1;
  EXPECT_NE(refusal_of(short_list.replace(short_list.find("[0.25, 0.125]"), 13, "[0.25]"))
                .find("'mlp_multipliers' is a list of 1; a list of 2 positive numbers was expected"),
            std::string::npos);
}

TEST(HfFamilies, OfLfm2ConvolveWhereTheyDoNotAttend) {
  EXPECT_EQ(count(kLfm2, OpKind::Convolution), 10);
  EXPECT_EQ(count(kLfm2, OpKind::GroupedAttention), 6);
  EXPECT_EQ(count(kLfm2, OpKind::Rotary), 2 * 6);
  EXPECT_EQ(count(kLfm2, OpKind::SelectiveScan), 0);
  EXPECT_EQ(read(kLfm2).more.at("intermediate"), 8192);
  EXPECT_EQ(read(kLfm2).factors.at("rotary_base"), 1e6);
  const std::string lfm = kLfm2;
  EXPECT_NE(refusal_of(lfm + R"(, "conv_dim": 1024)").find("'conv_dim' is 1024, which is not supported"),
            std::string::npos);
  EXPECT_NE(refusal_of(lfm + R"(, "layer_types": ["conv"])").find("one type for each of the 16 layers"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::hf_hybrid_families_test
