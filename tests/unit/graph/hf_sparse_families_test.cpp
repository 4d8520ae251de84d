// SPDX-License-Identifier: Apache-2.0
// Gemma 4, Mamba, DeepSeek-V3.2 and layers that predict further tokens: parameters as published, or counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_sparse_families_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

Graph graph_of(const ModelConfig& model) { return build_forward_graph(model, {.batch = 1, .dtype = DType::BF16}); }

std::int64_t parameters_of(const std::string& text) { return parameter_count(graph_of(read(text))); }

int count(const Graph& graph, OpKind kind) {
  return static_cast<int>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; }));
}

double flops_of(const Graph& graph, const Op& op) {
  const IterationSpace space = iteration_space(graph, op);
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
  return contraction_flops(op.kind, space, sizes).si();
}

std::string refusal_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::vector<std::string> left_out_of(const std::string& text) {
  const std::string path = testing::TempDir() + "hf_sparse_families_test.json";
  std::ofstream(path) << "{" << text << "}";
  return not_understood_of_hf_file(path);
}

// --- Mamba ---

std::string mamba(std::int64_t hidden, std::int64_t layers) {
  return fmt::format(R"("model_type": "mamba", "conv_kernel": 4, "d_inner": {}, "d_model": {}, "expand": 2,
      "fused_add_norm": true, "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {}, "n_layer": {},
      "layer_norm_epsilon": 1e-05, "num_hidden_layers": {}, "pad_vocab_size_multiple": 8, "rms_norm": true,
      "ssm_cfg": {{}}, "state_size": 16, "time_step_init_scheme": "random", "time_step_rank": {}, "time_step_scale": 1.0,
      "use_bias": false, "use_cache": true, "use_conv_bias": true, "vocab_size": 50280)",
                     2 * hidden, hidden, hidden, 2 * hidden, layers, layers, hidden / 16);
}

// The metadata of the checkpoints mamba-130m-hf and mamba-2.8b-hf.
TEST(HfMamba, HasItsPublishedParameters) {
  EXPECT_EQ(parameters_of(mamba(768, 24)), 129'135'360);
  EXPECT_EQ(parameters_of(mamba(2560, 64)), 2'768'345'600);
  EXPECT_TRUE(left_out_of(mamba(768, 24)).empty());
}

TEST(HfMamba, ScansEveryChannelByItself) {
  const Graph graph = graph_of(read(mamba(768, 24)));
  EXPECT_EQ(count(graph, OpKind::SelectiveScan), 24);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::SelectiveScan) {
      EXPECT_EQ(graph.tensor(op.inputs[2]).dims,
                (std::vector<Dim>{{"scan_groups", 1}, {"scan_heads", 1536}, {"state", 16}}));
    }
}

TEST(HfMamba, RefusesSizesThatContradict) {
  std::string text = mamba(768, 24);
  text.replace(text.find("\"d_inner\": 1536"), 15, "\"d_inner\": 1024");
  EXPECT_NE(refusal_of(text).find("'d_inner' is 1024, but other members make it 1536"), std::string::npos)
      << refusal_of(text);
}

// --- DeepSeek-V3.2 ---

constexpr const char* kV32 =
    R"("model_type": "deepseek_v32", "attention_bias": false, "ep_size": 1, "first_k_dense_replace": 3,
       "hidden_act": "silu", "hidden_size": 7168, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
       "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
       "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
       "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
       "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
       "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
       "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4,
       "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280)";

// DeepSeek-V3 has 671,026,419,200. An indexer: queries of 64 heads of 128 from 1536, keys of 128 with a layer norm, and
// a weight for each head. The layer behind the others: attention and experts, five norms, and a projection of two
// vectors to one.
constexpr std::int64_t kHidden = 7168;
constexpr std::int64_t kIndexer = 1536 * 64 * 128 + kHidden * 128 + 2 * 128 + kHidden * 64;
constexpr std::int64_t kLatent =
    kHidden * 1536 + 1536 + 1536 * 128 * 192 + kHidden * (512 + 64) + 512 + 512 * 128 * 256 + 128 * 128 * kHidden;
constexpr std::int64_t kExperts = kHidden * 256 + 256 + 257 * 3 * kHidden * 2048;
constexpr std::int64_t kFurther = kLatent + kExperts + 5 * kHidden + 2 * kHidden * kHidden;

TEST(HfDeepseekV32, HasAnIndexerInEachLayer) {
  EXPECT_EQ(kFurther, 11'610'068'224);  // "11.5B unique parameters" of DeepSeek-V3's modules
  EXPECT_EQ(parameters_of(kV32), 671'026'419'200 + kFurther + 62 * kIndexer);
  // Experts are chosen among all of them, not among those of four groups of eight.
  EXPECT_EQ(left_out_of(kV32), (std::vector<std::string>{"n_group", "topk_group"}));
  std::string all_groups = kV32;
  all_groups.replace(all_groups.find("topk_group\": 4"), 13, "topk_group\": 8");
  EXPECT_TRUE(left_out_of(all_groups).empty());
  const Graph graph = graph_of(read(kV32));
  EXPECT_EQ(count(graph, OpKind::IndexScores), 62);
  EXPECT_EQ(count(graph, OpKind::SelectedAttention), 62);
  EXPECT_EQ(count(graph, OpKind::GroupedAttention), 0);
}

// In a sequence of 4096 a query reads 2048 keys, of 192 and 128 numbers in 128 heads, after 64 heads of 128 read all.
TEST(HfDeepseekV32, CountsTheKeysThatAreChosen) {
  const Graph graph = graph_of(read(kV32));
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::SelectedAttention) {
      EXPECT_EQ(flops_of(graph, op), 2.0 * 4096 * 2048 * 128 * (192 + 128)) << op.name;
    }
    if (op.kind == OpKind::IndexScores) {
      EXPECT_EQ(flops_of(graph, op), 2.0 * 4096 * 4096 * 64 * 128) << op.name;
    }
  }
}

TEST(HfDeepseekV32, RefusesLayersOfOtherKinds) {
  EXPECT_NE(refusal_of(std::string(kV32) + R"(, "layer_types": ["full_attention"])").find("'layer_types' is another"),
            std::string::npos);
  std::string text = kV32;
  text.replace(text.find("\"q_lora_rank\": 1536"), 19, "\"q_lora_rank\": null");
  EXPECT_NE(refusal_of(text).find("'q_lora_rank' is missing"), std::string::npos) << refusal_of(text);
}

// --- layers that predict further tokens ---

TEST(FurtherTokens, AreLayersBehindTheOthersWithLossesOfTheirOwn) {
  const std::string size =
      "deepseek_v3:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2,"
      "dense_layers=1,q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16";
  const Graph plain = graph_of(find_builtin_model(size)), more = graph_of(find_builtin_model(size + ",mtp=2"));
  EXPECT_EQ(count(plain, OpKind::CrossEntropyLoss), 1);
  EXPECT_EQ(count(more, OpKind::CrossEntropyLoss), 3);
  // The word table and the head are read again, not made again.
  EXPECT_EQ(count(more, OpKind::Embedding), 3);
  const std::int64_t latent = 64 * 32 + 32 + 32 * 4 * 24 + 64 * (16 + 8) + 16 + 16 * 4 * (16 + 16) + 4 * 16 * 64;
  const std::int64_t experts = 64 * 4 + 4 + 4 * 3 * 64 * 128;
  EXPECT_EQ(parameter_count(more) - parameter_count(plain), 2 * (latent + experts + 5 * 64 + 2 * 64 * 64));
  // The modules share the weight 0.3 of their losses; the mean is of 32 tokens.
  for (const Op& op : more.ops())
    if (op.kind == OpKind::CrossEntropyLoss) {
      EXPECT_DOUBLE_EQ(op.attributes.scale, (op.name == "head.loss" ? 1.0 : 0.15) / 32.0) << op.name;
    }
}

TEST(FurtherTokens, OfGlmAreTheFiles) {
  const std::string text =
      R"("model_type": "glm4_moe", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 11, "head_dim": 2,
         "num_experts_per_tok": 2, "intermediate_size": 12, "moe_intermediate_size": 5, "n_routed_experts": 6,
         "n_shared_experts": 1, "first_k_dense_replace": 1, "partial_rotary_factor": 1.0, "num_nextn_predict_layers": )";
  const int attention = 8 * 8 * 2 + 2 * 8 * 4, experts = 7 * 3 * 8 * 5 + 8 * 6 + 6;
  EXPECT_EQ(parameters_of(text + "1") - parameters_of(text + "0"), attention + experts + 5 * 8 + 2 * 8 * 8);
}

TEST(FurtherTokens, OfQwen35AttendToAllKeys) {
  const std::string text =
      R"("model_type": "qwen3_5_text", "num_hidden_layers": 4, "hidden_size": 8, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 11, "head_dim": 4, "intermediate_size": 12,
         "partial_rotary_factor": 0.5, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 2, "linear_value_head_dim": 2,
         "mtp_num_hidden_layers": )";
  const Graph plain = graph_of(read(text + "0")), more = graph_of(read(text + "1"));
  EXPECT_EQ(count(more, OpKind::GroupedAttention), count(plain, OpKind::GroupedAttention) + 1);
  EXPECT_EQ(count(more, OpKind::GatedDelta), count(plain, OpKind::GatedDelta));
  // Queries and their gates of 4 heads of 4, keys and values of 2, norms of both; five norms; two vectors to one.
  const int attention = 8 * (2 * 16 + 2 * 8) + 16 * 8 + 2 * 4;
  EXPECT_EQ(parameter_count(more) - parameter_count(plain), attention + 3 * 8 * 12 + 5 * 8 + 2 * 8 * 8);
  EXPECT_NE(refusal_of(text + R"(1, "mtp_use_dedicated_embeddings": true)").find("mtp_use_dedicated_embeddings"),
            std::string::npos);
}

// --- Gemma 4 ---

std::string layer_types(int layers, int every) {
  std::string types;
  for (int layer = 1; layer <= layers; ++layer)
    types +=
        fmt::format("{}\"{}\"", layer == 1 ? "" : ", ", layer % every == 0 ? "full_attention" : "sliding_attention");
  return "[" + types + "]";
}

std::string gemma4(const std::string& sizes, int layers, int every) {
  return fmt::format(R"("model_type": "gemma4", "vision_config": {{"depth": 27}}, "text_config": {{
      "model_type": "gemma4_text", "attention_bias": false, "final_logit_softcapping": 30.0, "global_head_dim": 512,
      "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072,
      "num_hidden_layers": {}, "layer_types": {}, "rms_norm_eps": 1e-06, "rope_parameters": {{
        "full_attention": {{"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"}},
        "sliding_attention": {{"rope_theta": 10000.0, "rope_type": "default"}}}},
      "tie_word_embeddings": true, "use_bidirectional_attention": null, "vocab_size": 262144, {}}})",
                     layers, layer_types(layers, every), sizes);
}

constexpr const char* kDense31b =
    R"("attention_k_eq_v": true, "hidden_size": 5376, "hidden_size_per_layer_input": 0, "intermediate_size": 21504,
       "num_attention_heads": 32, "num_global_key_value_heads": 4, "num_key_value_heads": 16, "num_kv_shared_layers": 0,
       "sliding_window": 1024)";
constexpr const char* kExperts26b =
    R"("attention_k_eq_v": true, "enable_moe_block": true, "hidden_size": 2816, "hidden_size_per_layer_input": 0,
       "intermediate_size": 2112, "moe_intermediate_size": 704, "num_attention_heads": 16, "num_experts": 128,
       "num_global_key_value_heads": 2, "num_key_value_heads": 8, "sliding_window": 1024, "top_k_experts": 8)";
constexpr const char* kE2b =
    R"("attention_k_eq_v": false, "hidden_size": 1536, "hidden_size_per_layer_input": 256, "intermediate_size": 6144,
       "num_attention_heads": 8, "num_key_value_heads": 1, "num_kv_shared_layers": 20, "sliding_window": 512,
       "use_double_wide_mlp": true, "vocab_size_per_layer_input": 262144)";

// Their model cards: 30.7 billion; 25.2 billion, of which 3.8 are active.
TEST(HfGemma4, HasItsPublishedParameters) {
  // Words; of each layer a factor, norms of hidden and of queries and keys, feed-forward, attention with windows or
  // keys that are values.
  const std::int64_t h = 5376, norms = 4 * h + 1, mlp = 3 * h * 21504;
  const std::int64_t windowed = h * 256 * (32 + 2 * 16 + 32) + 2 * 256, full = h * 512 * (32 + 4 + 32) + 2 * 512;
  const std::int64_t dense = 262144 * h + 60 * (norms + mlp) + 50 * windowed + 10 * full + h;
  EXPECT_EQ(parameters_of(gemma4(kDense31b, 60, 6)), dense);
  EXPECT_EQ(dense / 100'000'000, 306);  // 30.69 billion
  const Graph mixture = graph_of(read(gemma4(kExperts26b, 30, 6)));
  const std::int64_t w = 2816, experts = 128 * 3 * w * 704, router = w * 128 + w + 128;
  const std::int64_t narrow = w * 256 * (16 + 2 * 8 + 16) + 2 * 256, wide = w * 512 * (16 + 2 + 16) + 2 * 512;
  const std::int64_t all = 262144 * w + 30 * (1 + 7 * w + 3 * w * 2112 + experts + router) + 25 * narrow + 5 * wide + w;
  EXPECT_EQ(parameter_count(mixture), all);
  EXPECT_EQ(all / 100'000'000, 252);
  EXPECT_EQ(active_parameter_count(mixture) / 100'000'000, 38);
}

// E2B: 2.3 billion besides the table of a vector for each token and layer. The last 20 layers have no keys of their own
// and twice the width.
TEST(HfGemma4, SharesKeysAndHasVectorsOfLayers) {
  const ModelConfig model = read(gemma4(kE2b, 35, 5));
  const Graph graph = graph_of(model);
  const std::int64_t h = 1536, p = 256, table = 262144 * 35 * p;
  const std::int64_t queries = 28 * (2 * h * 8 * 256 + 256) + 7 * (2 * h * 8 * 512 + 512);
  const std::int64_t keys = 12 * (2 * h * 256 + 256) + 3 * (2 * h * 512 + 512);
  const std::int64_t mlp = (15 + 2 * 20) * 3 * h * 6144, vectors = 35 * (3 * h * p + h) + p;
  const std::int64_t rest = 262144 * h + queries + keys + mlp + vectors + 35 * (4 * h + 1) + h;
  EXPECT_EQ(parameter_count(graph), table + rest);
  EXPECT_EQ(rest / 100'000'000, 22);  // 2.28 billion
  int windowed = 0, full = 0;
  std::set<TensorId> key_tensors;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) {
      ++(op.attributes.attention_window == 512 ? windowed : full);
      key_tensors.insert(op.inputs[1]);
    }
  EXPECT_EQ(windowed, 28);
  EXPECT_EQ(full, 7);
  EXPECT_EQ(key_tensors.size(), 15u);
}

TEST(HfGemma4, NamesWhatItLeavesOutAndRefusesWhatItLacks) {
  EXPECT_EQ(left_out_of(gemma4(kDense31b, 60, 6)), std::vector<std::string>{"vision_config"});
  const std::string ends = R"(, "use_bidirectional_attention": "all")";
  EXPECT_NE(refusal_of("\"model_type\": \"gemma4_text\"" + ends).find("'use_bidirectional_attention' is \"all\""),
            std::string::npos);
  const auto per_layer = [](const std::string& heads) {
    return gemma4(std::string(kE2b) + R"(, "per_layer_config": {)" + heads + "}", 35, 5);
  };
  // The fifth layer is the first without a window.
  EXPECT_NE(refusal_of(per_layer(R"("4": {"head_dim": 512})")).find("gives layer 9 other heads"), std::string::npos);
  EXPECT_NE(refusal_of(per_layer(R"("0": {"head_dim": 512})")).find("gives layer 0 other heads"), std::string::npos);
  EXPECT_NE(refusal_of(per_layer(R"("4": {"sliding_window": 8})")).find("'sliding_window' is not supported"),
            std::string::npos);
  EXPECT_NE(refusal_of(gemma4(kE2b, 34, 5)).find("the last of its 34 layers has a window"), std::string::npos);
  std::string all_shared = kE2b;
  all_shared.replace(all_shared.find("layers\": 20"), 11, "layers\": 32");
  EXPECT_NE(refusal_of(gemma4(all_shared, 35, 5)).find("shared_layers=32 of 35 layers leaves no earlier layer"),
            std::string::npos)
      << refusal_of(gemma4(all_shared, 35, 5));
}

// --- gradients against finite differences ---

TEST(SparseFamilies, HaveTheGradientsOfTheirLosses) {
  const std::string latent =
      "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,dense_layers=1,q_rank=4,"
      "kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,selection_bias=0";
  expect_true_model_gradients(latent + ",mtp=2", {.batch = 2});
  expect_true_model_gradients(latent + ",mtp=1", {.batch = 4, .microbatches = 2, .loss = LossReduction::TokenWeighted});
  // The scores of an indexer choose, and no gradient reaches it.
  expect_true_model_gradients(latent + ",index_heads=2,index_dim=4,index_top_k=3", {.batch = 2}, ".index.");
  const std::string gemma =
      "gemma4:layers=4,hidden=8,heads=2,kv_heads=2,full_kv_heads=1,head_dim=4,full_head_dim=8,full_rotary_dims=4,"
      "intermediate=8,seq=6,vocab=8,window=3,full_every=2,capped=1";
  expect_true_model_gradients(gemma + ",layer_embed=4,shared_layers=2,wide_shared=1", {.batch = 2});
  expect_true_model_gradients(gemma + ",kv_tied=1,experts=2,top_k=2,expert_intermediate=4", {.batch = 2});
  expect_true_model_gradients(
      "mixtral:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,sigmoid="
      "1,"
      "normalized=0,no_rotary_every=2,attention_chunk=3,plain_qk_norm=1,weigh_inputs=1,temperature_every=2",
      {.batch = 2});
  const std::string decoder = "decoder:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,";
  expect_true_model_gradients(decoder + "capped_scores=1,score_cap=0.5,window=3", {.batch = 2});
  expect_true_model_gradients(decoder + "head_qk_norm=1,layer_norm=2,sinks=1,window=3,rotary_windows_alone=1",
                              {.batch = 2});
  // Weights that several layers read get the sum of their gradients.
  expect_true_model_gradients("bert:layers=3,hidden=8,heads=2,seq=6,vocab=8,embed_width=4,layer_groups=1",
                              {.batch = 4, .microbatches = 2}, ".k.bias");
}

// The factor of a layer of Gemma 4 is read from files, and no update writes it.
TEST(SparseFamilies, TrainAllParametersButFixedOnes) {
  const Graph graph = build_training_graph(
      find_builtin_model("gemma4:layers=2,hidden=8,heads=2,kv_heads=2,full_kv_heads=1,head_dim=4,full_head_dim=8,"
                         "intermediate=8,seq=6,vocab=8,window=3,full_every=2,layer_factor=1"),
      {.batch = 2});
  std::set<TensorId> updated;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::AdamUpdate) updated.insert(op.inputs[0]);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) {
      EXPECT_EQ(updated.contains(tensor.id), tensor.name.find(".layer_factor.") == std::string::npos) << tensor.name;
    }
}

TEST(SparseFamilies, KeepTheirGradientsWhenRecomputed) {
  expect_recomputation_keeps_gradients(
      "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,dense_layers=1,q_rank=4,"
      "kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,mtp=1,index_heads=2,index_dim=4,index_top_k=3",
      {.batch = 4, .microbatches = 2});
  expect_recomputation_keeps_gradients(
      "hybrid:layers=2,hidden=4,heads=1,seq=6,vocab=8,scan_heads=8,scan_head_dim=1,state=3,scan_rank=2,scan_chunk=3",
      {.batch = 4, .microbatches = 2});
  expect_recomputation_keeps_gradients(
      "gemma4:layers=4,hidden=8,heads=2,kv_heads=2,full_kv_heads=1,head_dim=4,full_head_dim=8,intermediate=8,seq=6,"
      "vocab=8,window=3,full_every=2,layer_embed=4,shared_layers=2",
      {.batch = 4, .microbatches = 2});
}

}  // namespace
}  // namespace meshwright::hf_sparse_families_test
