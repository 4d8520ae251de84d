// SPDX-License-Identifier: Apache-2.0
// Encoders with decoders, encoders with norms in front, models of images and sound, and text models within other files:
// the parameters that transformers 5.24 trains in the model of the same file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/tensors/hf_tensors.h"

namespace meshwright::hf_pairs_and_images_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }
Graph graph_of(const std::string& text) { return build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16}); }

std::string refusal_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// What `meshwright models` names as left out.
std::vector<std::string> left_out_of(const std::string& text) {
  const std::string path = testing::TempDir() + "hf_pairs_and_images_test.json";
  std::ofstream(path) << "{" << text << "}";
  return not_understood_of_hf_file(path);
}

struct Counted {
  const char* name;
  std::int64_t parameters;
  const char* config;
};
void PrintTo(const Counted& of, std::ostream* out) { *out << of.name; }

// BART large's, as a part of each file.
std::string pair_of(const std::string& type, int vocab) {
  return R"("model_type": ")" + type +
         R"(", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
            "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
            "max_position_embeddings": 1024, "vocab_size": )" +
         std::to_string(vocab);
}

constexpr const char* kSmall =
    R"("d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
       "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 4,
       "vocab_size": 10)";
constexpr const char* kBert =
    R"("hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, )";
constexpr const char* kVit = R"("model_type": "vit", "num_labels": 2)";
constexpr const char* kLlava =
    R"("model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096,
       "vocab_size": 32064}, "vision_config": {"model_type": "clip_vision_model"}, "image_token_index": 32000)";

const Counted kCounted[] = {
    {"plbart_base", 139'220'736,
     R"("model_type": "plbart", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
        "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
        "max_position_embeddings": 1024, "vocab_size": 50005)"},
    {"blenderbot_small", 85'113'344,
     R"("model_type": "blenderbot-small", "d_model": 512, "encoder_layers": 8, "decoder_layers": 8,
        "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
        "max_position_embeddings": 512, "vocab_size": 50265)"},
    {"biogpt", 346'763'264,
     R"("model_type": "biogpt", "hidden_size": 1024, "intermediate_size": 4096, "max_position_embeddings": 1024,
        "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 42384)"},
    {"xglm_564m", 564'463'616,
     R"("model_type": "xglm", "attention_heads": 16, "d_model": 1024, "ffn_dim": 4096, "max_position_embeddings": 2048,
        "num_layers": 24, "vocab_size": 256008)"},
    {"gpt_1", 116'534'784,
     R"("model_type": "openai-gpt", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 512,
        "vocab_size": 40478)"},
    {"persimmon_8b", 9'397'175'296,
     R"("model_type": "persimmon", "hidden_size": 4096, "intermediate_size": 16384, "max_position_embeddings": 16384,
        "num_attention_heads": 64, "num_hidden_layers": 36, "vocab_size": 262144)"},
    {"falcon_mamba", 159'308'544,
     R"("model_type": "falcon_mamba", "hidden_size": 768, "num_hidden_layers": 32, "state_size": 16,
        "vocab_size": 50280)"},
    {"vit_base", 85'800'194, kVit},
    {"deit_base", 85'801'730, R"("model_type": "deit")"},
    {"dinov2_base", 85'728'770, R"("model_type": "dinov2")"},
    {"dinov2_with_registers", 85'824'002, R"("model_type": "dinov2_with_registers")"},
    {"clip_vit_b_32", 151'277'313, R"("model_type": "clip", "text_config": {}, "vision_config": {})"},
    {"llava_1_5_7b", 6'738'939'904, kLlava},
};

class ParametersOfPairs : public testing::TestWithParam<Counted> {};
TEST_P(ParametersOfPairs, AreTheTrainedOnes) {
  EXPECT_EQ(parameter_count(graph_of(GetParam().config)), GetParam().parameters);
}
INSTANTIATE_TEST_SUITE_P(HfPairsAndImages, ParametersOfPairs, testing::ValuesIn(kCounted),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(HfPairs, ParametersOfLargeOnesAreTheTrainedOnes) {
  EXPECT_EQ(parameter_count(graph_of(pair_of("bart", 50265))), 406'291'456);
  EXPECT_EQ(parameter_count(graph_of(pair_of("mbart", 50265))), 406'295'552);
  EXPECT_EQ(parameter_count(graph_of(pair_of("pegasus", 50265))), 404'190'208);
  EXPECT_EQ(parameter_count(graph_of(pair_of("m2m_100", 128112))), 483'905'536);
  EXPECT_EQ(parameter_count(graph_of(pair_of("marian", 58101))), 412'210'176);
}

// Per layer 4 (8 8 + 8) + 2 8 16 + 16 + 8 = 568 and two norms of 16, in the decoder one more attention (288) and norm;
// words 10 8, two tables of (4 + 2) 8, and two norms of the embeddings.
TEST(HfPairs, BartSharesItsWordsAndNothingElse) {
  const std::string bart = R"("model_type": "bart", )" + std::string(kSmall);
  EXPECT_EQ(parameter_count(graph_of(bart)), 600 + 2 * 904 + 80 + 2 * 48 + 2 * 16);
  EXPECT_EQ(read(bart).more.at("position_offset"), 2);
}

TEST(HfPairs, FixedPositionsAreNoParameters) {
  const std::string pegasus = R"("model_type": "pegasus", )" + std::string(kSmall);
  const Graph graph = graph_of(pegasus);
  EXPECT_EQ(parameter_count(graph), 600 + 2 * 904 + 80 + 2 * 16);  // as BART's, with a norm behind each stack
  const auto sines = std::find_if(graph.constants.begin(), graph.constants.end(),
                                  [&](const auto& of) { return graph.tensor(of.first).name == "sines"; });
  ASSERT_NE(sines, graph.constants.end());
  const std::vector<double>& values = *sines->second;
  ASSERT_EQ(values.size(), 4u * 8u);
  EXPECT_EQ(values[0], 0.0);  // the first position: sin 0, cos 0
  EXPECT_EQ(values[4], 1.0);
  EXPECT_DOUBLE_EQ(values[8], std::sin(1.0));  // the second: waves of 1, 10, 100, 1000
  EXPECT_DOUBLE_EQ(values[9], std::sin(0.1));
  EXPECT_DOUBLE_EQ(values[15], std::cos(0.001));
}

TEST(HfPairs, OtherTablesAndSizesAreRefused) {
  const std::string small = kSmall;
  EXPECT_NE(refusal_of(R"("model_type": "marian", "share_encoder_decoder_embeddings": false, )" + small)
                .find("have word tables of their own"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"("model_type": "bart", "normalize_before": true, )" + small)
                .find("'normalize_before' is true, which is not supported for this family; false is."),
            std::string::npos);
  EXPECT_NE(refusal_of(R"("model_type": "mvp", "use_prompt": true, )" + small).find("'use_prompt' is true"),
            std::string::npos);
}

// The bias of Marian's logits is no parameter and not zero in its files: their weights are not read.
TEST(HfPairs, WeightsAreReadWhereTheLogitsHaveNoBias) {
  EXPECT_TRUE(HfTensorNames::knows("bart"));
  EXPECT_FALSE(HfTensorNames::knows("marian"));
}

TEST(HfPairs, UmT5HasBiasesInEveryLayer) {
  const auto tables = [](const std::string& type) {
    const Graph graph = graph_of(
        R"("d_model": 8, "d_ff": 16, "d_kv": 4, "num_heads": 2, "num_layers": 3, "vocab_size": 10, "model_type": ")" +
        type + "\"");
    return std::count_if(graph.tensors().begin(), graph.tensors().end(), [](const Tensor& tensor) {
      return tensor.kind == TensorKind::Parameter && tensor.name.ends_with("relative_bias");
    });
  };
  EXPECT_EQ(tables("mt5"), 2);
  EXPECT_EQ(tables("umt5"), 6);
}

// ln1 and ln2 are in front, and one is behind the blocks: what is after the sums in BERT.
TEST(HfPairs, NormsInFrontAddOneBehindTheBlocks) {
  const std::string sizes = std::string(kBert) + R"("max_position_embeddings": 512, "vocab_size": 1000, )";
  const std::int64_t bert = parameter_count(graph_of(sizes + R"("model_type": "bert")"));
  // One norm of the embedding less, one behind the blocks more.
  EXPECT_EQ(parameter_count(graph_of(sizes + R"("model_type": "megatron-bert")")), bert);
  EXPECT_EQ(parameter_count(graph_of(sizes + R"("model_type": "ernie")")), bert);
  EXPECT_NE(refusal_of(sizes + R"("model_type": "ernie", "use_task_id": true)").find("'use_task_id' is true"),
            std::string::npos);
}

// A bound is two ReLUs of each of queries, keys and values in each layer.
TEST(HfPairs, ClippedQueriesKeysAndValuesAreBounded) {
  const std::string olmo =
      R"("model_type": "olmo", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2,
         "num_hidden_layers": 3, "max_position_embeddings": 4, "vocab_size": 10)";
  const auto bounds = [](const Graph& graph) {
    return std::count_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) {
      return op.kind == OpKind::Clamp && op.attributes.low == -8.0 && op.attributes.high == 8.0;
    });
  };
  EXPECT_EQ(bounds(graph_of(olmo)), 0);
  EXPECT_EQ(bounds(graph_of(olmo + R"(, "clip_qkv": 8.0)")), 3 * 3);
}

// DBRX has all layers' experts in a part of its own, and so has its attention.
TEST(HfPairs, DbrxReadsItsParts) {
  const ModelConfig model =
      read(R"("model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
              "vocab_size": 100352, "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
              "ffn_config": {"ffn_act_fn": {"name": "silu"}, "ffn_hidden_size": 10752, "moe_num_experts": 16,
                             "moe_top_k": 4}, "tie_word_embeddings": false)");
  EXPECT_EQ(model.more.at("kv_heads"), 8);
  EXPECT_EQ(model.factors.at("qkv_bound"), 8.0);
  EXPECT_EQ(model.factors.at("rotary_base"), 500000.0);
  EXPECT_EQ(parameter_count(build_forward_graph(model, {.batch = 1, .dtype = DType::BF16})), 131'596'523'520);
}

// --- images and sound ---

TEST(HfImages, LabelsAndSquaresAreRead) {
  EXPECT_EQ(read(R"("model_type": "vit", "id2label": {"0": "cat", "1": "dog", "2": "owl"})").more.at("classes"), 3);
  EXPECT_EQ(read(R"("model_type": "vit", "image_size": [32, 32], "patch_size": 8)").more.at("image"), 32);
  EXPECT_NE(refusal_of(R"("model_type": "vit", "image_size": [32, 64])").find("squares alone are supported"),
            std::string::npos);
}

// A distillation token is a vector and a position more; DINOv2's registers have no positions.
TEST(HfImages, FurtherTokensAreCounted) {
  const std::string sizes =
      R"("hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "image_size": 8, "patch_size": 4, )";
  const auto count = [&](const std::string& more) { return parameter_count(graph_of(sizes + more)); };
  EXPECT_EQ(count(R"("model_type": "deit", "intermediate_size": 16)") -
                count(R"("model_type": "vit", "intermediate_size": 16)"),
            2 * 8);
  EXPECT_EQ(count(R"("model_type": "dinov2_with_registers", "num_register_tokens": 3)") -
                count(R"("model_type": "dinov2_with_registers", "num_register_tokens": 0)"),
            3 * 8);
}

TEST(HfImages, ResidualNetworksAreReadByTheirStages) {
  const std::string labels = [] {
    std::string names;
    for (int i = 0; i < 1000; ++i) names += fmt::format("{}\"{}\": \"class {}\"", i == 0 ? "" : ", ", i, i);
    return names;
  }();
  const std::string resnet = R"("model_type": "resnet", "depths": [3, 4, 6, 3], "id2label": {)" + labels + "}";
  EXPECT_EQ(parameter_count(graph_of(resnet)), 25'557'032);
  EXPECT_NE(refusal_of(R"("model_type": "resnet", "depths": [2, 2, 2, 2], "layer_type": "basic")").find("'layer_type'"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"("model_type": "resnet", "depths": [3, 3, 3, 3])").find("'depths' are of no residual network"),
            std::string::npos);
}

// xIELU has two numbers of its own in each layer.
TEST(HfPairs, ApertusTrainsItsActivation) {
  const std::string sizes =
      R"("hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 3,
         "max_position_embeddings": 4, "vocab_size": 10, )";
  // Per layer four projections of 8 8, two of 8 16, norms of 8, 8, 4 and 4, and the two; words twice, and a norm.
  EXPECT_EQ(parameter_count(graph_of(sizes + R"("model_type": "apertus")")),
            3 * (4 * 64 + 2 * 128 + 24 + 2) + 2 * 80 + 8);
}

// transformers 5 lists Nemotron-H's layers by name.
TEST(HfPairs, FilesOfTransformers5AreRead) {
  const std::string scans =
      R"("model_type": "nemotron_h", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "head_dim": 4,
         "mamba_num_heads": 2, "mamba_head_dim": 4, "ssm_state_size": 4, "n_groups": 1, "vocab_size": 10, )";
  EXPECT_EQ(read(scans + R"("layers_block_type": ["mamba", "mlp", "full_attention", "linear_attention"])").more,
            read(scans + R"("num_hidden_layers": 4, "hybrid_override_pattern": "M-*M")").more);
  EXPECT_NE(refusal_of(scans + R"("layers_block_type": ["mamba", "rwkv"])").find("'layers_block_type' has \"rwkv\""),
            std::string::npos);
}

// Two convolutions of 3 frames: 3 4 8 + 8 and 3 8 8 + 8. Keys have no bias: 8 less for each of three attentions of
// BART's layers; positions are a table of the decoder's alone.
TEST(HfSound, WhisperIsBartWithConvolutionsAndKeysWithoutBiases) {
  const Graph graph = graph_of(
      R"("model_type": "whisper", "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "num_mel_bins": 4,
         "max_source_positions": 6, "max_target_positions": 5, "vocab_size": 10)");
  EXPECT_EQ(parameter_count(graph), 104 + 200 + 600 + 904 - 3 * 8 + 80 + 5 * 8 + 2 * 16);
}

// --- text models of other files ---

TEST(HfWrapped, TheTextModelIsReadAndTheRestIsNamed) {
  EXPECT_EQ(read(kLlava).hidden, 4096);  // Llama's, where the file leaves it out
  EXPECT_EQ(left_out_of(kLlava), (std::vector<std::string>{"vision_config", "image_token_index"}));
}

TEST(HfWrapped, TextModelsOfOtherFamiliesAreRefusedByName) {
  EXPECT_NE(refusal_of(R"("model_type": "llava", "text_config": {"model_type": "xlstm"})")
                .find("models of the family 'xlstm' are not supported"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"("model_type": "llava")").find("'text_config' is missing"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::hf_pairs_and_images_test
