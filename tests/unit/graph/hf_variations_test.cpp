// SPDX-License-Identifier: Apache-2.0
// Families that differ from others by some members: what these add to the parameters, counted by hand, and gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_variations_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

Graph graph_of(const std::string& text) { return build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16}); }

std::int64_t parameters_of(const std::string& text) { return parameter_count(graph_of(text)); }

std::string refusal_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::vector<std::string> named_of(const std::string& text) {
  const std::string path = testing::TempDir() + "hf_variations_config.json";
  std::ofstream(path) << "{" << text << "}";
  return not_understood_of_hf_file(path);
}

int count(const Graph& graph, OpKind kind) {
  return static_cast<int>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; }));
}

// 2 layers of 4 heads and 2 of keys; 2 tables of 64 words.
const std::string kDecoder =
    R"("vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
       "num_key_value_heads": 2, "max_position_embeddings": 8, "tie_word_embeddings": false)";
const std::string kLatent =
    R"(, "kv_lora_rank": 8, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8)";
const std::string kExperts =
    R"(, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1,
       "first_k_dense_replace": 1)";

std::string of(const char* type, const std::string& more = "") {
  return std::string("\"model_type\": \"") + type + "\", " + kDecoder + more;
}

TEST(Variations, OfBitNetHaveTwoNormsInEachLayerBesidesLlamas) {
  EXPECT_EQ(parameters_of(of("bitnet")) - parameters_of(of("llama")), 2 * (32 + 48));
  const std::string rounded = R"(, "quantization_config": {"quant_method": "bitnet", "quantization_mode": "online"})";
  EXPECT_EQ(named_of(of("bitnet", rounded)),
            std::vector<std::string>{"quantization_config (weights rounded in every step)"});
  EXPECT_TRUE(named_of(of("bitnet", R"(, "quantization_config": {"quant_method": "bitnet"})")).empty());
}

// Two tables, and queries, keys, values, the last product and two more in each layer.
TEST(Variations, OfNanochatHaveNoNormsWithWeights) {
  EXPECT_EQ(parameters_of(of("nanochat")), 2 * 64 * 32 + 2 * (2 * 32 * 32 + 2 * 32 * 16 + 2 * 32 * 48));
  EXPECT_EQ(count(graph_of(of("nanochat")), OpKind::RmsNorm), 1 + 2 * 4 + 1);
}

TEST(Variations, OfLatentAttentionHaveFactorsOrNorms) {
  const ModelConfig minicpm = read(of("minicpm3", kLatent + R"(, "scale_emb": 12, "scale_depth": 1.4142135623730951,
                                                              "dim_model_base": 8)"));
  EXPECT_DOUBLE_EQ(minicpm.factors.at("embed_scale"), 12.0);
  EXPECT_DOUBLE_EQ(minicpm.factors.at("residual_scale"), 1.0);
  EXPECT_DOUBLE_EQ(minicpm.factors.at("logit_scale"), 0.25);
  // Where these members are null nothing is scaled; a file that leaves them out has those of its class.
  const ModelConfig plain =
      read(of("minicpm3", kLatent + R"(, "scale_emb": null, "scale_depth": null, "dim_model_base": null)"));
  for (const char* scale : {"embed_scale", "residual_scale", "logit_scale"})
    EXPECT_DOUBLE_EQ(plain.factors.at(scale), 1.0) << scale;
  EXPECT_DOUBLE_EQ(read(of("minicpm3", kLatent)).factors.at("logit_scale"), 256.0 / 32.0);
  EXPECT_EQ(parameters_of(of("axk1", kLatent + kExperts)) - parameters_of(of("deepseek_v3", kLatent + kExperts)), 32);
  const ModelConfig mistral = read(of(
      "mistral4", kLatent + kExperts +
                      R"(, "rope_parameters": {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 2})"));
  EXPECT_EQ(mistral.more.at("temperature_every"), 2);
  EXPECT_EQ(mistral.more.at("sigmoid"), 0);
  EXPECT_NE(refusal_of(of("minicpm3", kLatent + R"(, "rope_interleave": true)")).find("'rope_interleave' is true"),
            std::string::npos);
}

// Of 4 experts with gates the 2 layers have 3 more each than a dense layer; a gate for each of 4 heads of 8 numbers.
TEST(Variations, OfTrinityGateEachNumberOfAHead) {
  const std::string experts =
      R"(, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
         "num_dense_layers": 0, "num_shared_experts": 0)";
  const std::int64_t norms = 2 * (2 * 32 + 2 * 8), gates = 2 * 32 * 32, mixtures = 2 * (3 * 3 * 32 * 48 + 32 * 4 + 4);
  EXPECT_EQ(parameters_of(of("afmoe", experts)) - parameters_of(of("llama")), norms + gates + mixtures);
  EXPECT_DOUBLE_EQ(read(of("afmoe", experts + R"(, "mup_enabled": true)")).factors.at("embed_scale"), std::sqrt(32.0));
  EXPECT_NE(refusal_of(of("afmoe", experts + R"(, "score_func": "softmax")")).find("'score_func' is \"softmax\""),
            std::string::npos);
}

// The first layer is dense, sees all keys, and rotates; of the others every second has no positions.
TEST(Variations, OfCommandAWithExpertsRotateLayersWithWindowsAndDenseOnes) {
  const std::string experts =
      R"(, "num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "first_k_dense_replace": 1,
         "sliding_window": 4, "sliding_window_pattern": 2, "prefix_dense_intermediate_size": 40)";
  const std::string text = of("cohere2_moe", experts);
  const std::string three = std::string(text).replace(text.find("layers\": 2"), 10, "layers\": 3");
  const Graph graph = graph_of(three);
  EXPECT_EQ(count(graph, OpKind::Rotary), 2 * 2);
  EXPECT_EQ(count(graph, OpKind::LayerNorm), 3 + 1);  // one for both sides of a block
  EXPECT_NE(refusal_of(of("cohere2_moe", experts + R"(, "shared_expert_combination_strategy": "max")"))
                .find("\"average\" or \"sum\" was expected"),
            std::string::npos);
  EXPECT_NE(refusal_of(of("cohere2_moe", experts + R"(, "expert_selection_fn": "relu")"))
                .find("\"softmax\" or \"sigmoid\" was expected"),
            std::string::npos);
}

// The layers that attend to images are left out, and named; the word table has 8 rows more than the head.
TEST(Variations, OfLlamaWithImagesAreTheLayersThatTextGoesThrough) {
  const std::string text = of("mllama_text_model", R"(, "cross_attention_layers": [1])");
  const std::string one = of("llama");
  EXPECT_EQ(parameters_of(text),
            parameters_of(std::string(one).replace(one.find("layers\": 2"), 10, "layers\": 1")) + 8 * 32);
  EXPECT_EQ(named_of(text), std::vector<std::string>{"cross_attention_layers"});
  EXPECT_NE(refusal_of(of("mllama_text_model", R"(, "cross_attention_layers": [0, 2])"))
                .find("'cross_attention_layers' must be a list of some of the 2 layers"),
            std::string::npos);
}

// As published for 1000 classes: 28,589,128 and 28,635,496.
TEST(Variations, OfConvNextHaveThePublishedParameters) {
  std::string labels = R"("id2label": {)";
  for (int label = 0; label < 1000; ++label) labels += fmt::format("{}\"{}\": \"\"", label == 0 ? "" : ", ", label);
  labels += "}";
  EXPECT_EQ(parameters_of("\"model_type\": \"convnext\", " + labels), 28'589'128);
  EXPECT_EQ(parameters_of("\"model_type\": \"convnextv2\", " + labels), 28'635'496);
  EXPECT_NE(refusal_of(R"("model_type": "convnext", "depths": [3, 3, 9])").find("no list of 4 positive numbers"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"("model_type": "convnext", "image_size": 16)").find("less than 8 patches of 4"),
            std::string::npos);
}

// As published for siglip-base-patch16-224: 203,155,970.
TEST(Variations, OfTwoTowersHaveThePublishedParameters) {
  const std::string siglip = R"("model_type": "siglip", "text_config": {}, "vision_config": {)";
  EXPECT_EQ(parameters_of(siglip + "}"), 203'155'970);
  EXPECT_NE(refusal_of(siglip + R"("hidden_size": 384, "num_attention_heads": 6})").find("'projection_size' is 768"),
            std::string::npos);
  EXPECT_NE(refusal_of(siglip + R"("vision_use_head": false})").find("'vision_use_head' is false"), std::string::npos);
}

// MPNet is RoBERTa without types, and with a bias for each of 32 distances and 4 heads.
TEST(Variations, OfBertHaveBiasesByDistanceOrRotatedHeads) {
  const std::string bert =
      R"("vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 10, "type_vocab_size": 1)";
  const auto of_type = [&](const char* type, const std::string& more = "") {
    return std::string("\"model_type\": \"") + type + "\", " + bert + more;
  };
  EXPECT_EQ(parameters_of(of_type("mpnet")) - parameters_of(of_type("roberta")), 32 * 4 - 32);
  // ESM-2 has no table of positions, and a norm behind its blocks in place of one of the embedding.
  const std::string rotary = R"(, "position_embedding_type": "rotary")";
  EXPECT_EQ(parameters_of(of_type("esm", rotary)) - parameters_of(of_type("mpnet")), -(32 * 4 + 10 * 32));
  EXPECT_DOUBLE_EQ(read(of_type("esm", rotary + R"(, "token_dropout": true)")).factors.at("embed_scale"), 0.88);
  EXPECT_EQ(named_of(of_type("esm", rotary + R"(, "token_dropout": true)")),
            (std::vector<std::string>{"type_vocab_size", "token_dropout"}));
  EXPECT_NE(refusal_of(of_type("esm")).find("'position_embedding_type'"), std::string::npos);
  // Without biases, and with a gate, in each layer.
  const std::int64_t biases = 4 * 32 + 48 + 32, gate = 32 * 48;
  EXPECT_EQ(parameters_of(of_type("nomic_bert")) - parameters_of(of_type("roberta")), 2 * (gate - biases) - 10 * 32);
}

TEST(Variations, OfDeltaRulesMayTurnStatesAbout) {
  const std::string hybrid = of("olmo_hybrid", R"(, "layer_types": ["linear_attention", "full_attention"])");
  const Graph graph = graph_of(hybrid);
  EXPECT_EQ(count(graph, OpKind::Rotary), 2);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GatedDelta) {
      EXPECT_EQ(op.attributes.scale, 2.0);
    }
  // A rotation without a base is none.
  EXPECT_EQ(count(graph_of(hybrid + R"(, "rope_parameters": {"rope_theta": null})"), OpKind::Rotary), 0);
  EXPECT_EQ(read(hybrid + R"(, "linear_allow_neg_eigval": false)").factors.at("delta_strength"), 1.0);
}

// --- gradients against finite differences ---

TEST(Variations, HaveTheGradientsOfTheirLosses) {
  const std::string decoder = "decoder:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,";
  expect_true_model_gradients(decoder + "layer_norm=4,plain_qk_norm=1,embedding_norm=1", {.batch = 2});
  expect_true_model_gradients(decoder + "inner_norms=1,relu_squared=1,more_words=2", {.batch = 2});
  expect_true_model_gradients(decoder + "post_norm=1,token_types=2,causal=0,layer_norm=1", {.batch = 2});
  const std::string experts =
      "decoder_moe:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,"
      "expert_intermediate=4,shared_intermediate=4,";
  expect_true_model_gradients(experts + "parallel=2,averaged=1", {.batch = 2});
  expect_true_model_gradients(experts + "head_gate=2,norms=1,window=3,full_every=2,rotary_windows_alone=1",
                              {.batch = 2});
  expect_true_model_gradients(
      "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,dense_layers=1,q_rank=4,"
      "kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,selection_bias=0,moe_norm=1,temperature_every=2,residual_scale=0.5",
      {.batch = 2});
  expect_true_model_gradients("bert:layers=2,hidden=8,heads=2,seq=6,vocab=8,buckets=8", {.batch = 2}, ".k.bias");
  expect_true_model_gradients(
      "delta:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,delta_heads=2,key_dim=4,"
      "full_every=2,scan_chunk=3,result_norms=1,attn_gate=0,wide_qk_norm=1,delta_strength=2",
      {.batch = 2});
  // A bias of keys moves all scores of a query alike.
  expect_true_model_gradients(
      "two_tower:layers=1,hidden=8,heads=2,image=4,patch=2,text_layers=1,text_hidden=8,text_heads=2,seq=4,vocab=8,"
      "embed=8,intermediate=12,siglip=1",
      {.batch = 3}, ".k.bias");
  const std::string stages =
      "convnext:image=16,patch=2,classes=4,depth_0=1,depth_1=1,depth_2=1,depth_3=1,width_0=5,width_1=6,width_2=5,"
      "width_3=6,";
  expect_true_model_gradients(stages + "layer_scale=1,response_norm=1", {.batch = 2});
}

}  // namespace
}  // namespace meshwright::hf_variations_test
