// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V4 and Kimi Linear: parameters as transformers 5.24 counts them in the models of its own sizes, which are
// DeepSeek-V4-Flash's and Kimi-Linear-48B's, with biases that choose and tables of experts; work as counted by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_stream_families_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

Graph graph_of(const std::string& text) { return build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16}); }

int count(const Graph& graph, OpKind kind) {
  return static_cast<int>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; }));
}

void expect_refusal(const std::string& text, const std::string& part) {
  try {
    (void)read(text);
    ADD_FAILURE() << "not refused: " << part;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// --- DeepSeek-V4 ---

const std::string kFlash =
    R"("model_type": "deepseek_v4", "vocab_size": 129280, "hidden_size": 4096, "moe_intermediate_size": 2048,
       "num_hidden_layers": 43, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
       "q_lora_rank": 1024, "num_experts_per_tok": 6, "n_routed_experts": 256, "n_shared_experts": 1,
       "routed_scaling_factor": 1.5, "max_position_embeddings": 1048576, "hc_mult": 4, "o_groups": 8,
       "o_lora_rank": 1024, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "sliding_window": 128)";

TEST(DeepseekV4, HasTheParametersOfItsFile) {
  constexpr std::int64_t kTrained = 284'325'869'015, kBiases = 40 * 256, kTables = 3 * 129'280 * 6;
  EXPECT_EQ(parameter_count(graph_of(kFlash)), kTrained + kBiases + kTables);
}

// The first two layers compress most, then the kinds take turns: 23 of 128 tokens, 20 of 4.
TEST(DeepseekV4, HasLayersOfEachKind) {
  const Graph graph = graph_of(kFlash);
  EXPECT_EQ(count(graph, OpKind::SelectedAttention), 43);
  EXPECT_EQ(count(graph, OpKind::IndexScores), 20);
  EXPECT_EQ(count(graph, OpKind::Sinkhorn), 2 * 43);
  EXPECT_EQ(count(graph, OpKind::Compare), 3);
}

// Of 4096 tokens, 1024 keys of 4 tokens each and 32 of 128. 20 layers choose 512 of the former; all see 128 tokens
// more.
TEST(DeepseekV4, CountsTheKeysThatItReads) {
  constexpr double kTokens = 4096, kEmbed = 4096, kHeads = 64, kHead = 512, kRank = 1024, kStreams = 4, kNear = 20,
                   kFar = 23, kLayers = 43, kIndexHeads = 64, kIndexDim = 128;
  const double projections =
      kEmbed * (kRank + kHead) + kRank * kHeads * kHead + kHeads * kHead * 1024 + 8 * 1024 * kEmbed;
  const double streams = kStreams * kEmbed * 24 + kStreams * kEmbed * (1 + 1 + kStreams);  // read, expanded, mixed
  const double experts = kEmbed * 256 + 3 * kEmbed * 2048 * (6 + 1);
  const double near = 4 * kEmbed * kHead + 2 * kHead + 4 * kEmbed * kIndexDim + 2 * kIndexDim +
                      kRank * kIndexHeads * kIndexDim + kEmbed * kIndexHeads + kIndexHeads * kIndexDim * 1024 +
                      (512 + 128) * kHeads * 2 * kHead;
  const double far = 2 * kEmbed * kHead + kHead + (32 + 128) * kHeads * 2 * kHead;
  const double head = kEmbed * 129280 + kStreams * kEmbed * 4 + kStreams * kEmbed;
  const double factors = 2 * kLayers * 3 * 24 + 4;  // once for all tokens
  const double expected =
      2 * kTokens * (kLayers * (projections + 2 * streams + experts) + kNear * near + kFar * far + head) + 2 * factors;
  EXPECT_EQ(graph_flops(graph_of(kFlash)).si(), expected);
}

// As the publisher writes it: a ratio for each layer, one more for the module behind them, which is left out; and as
// transformers does.
TEST(DeepseekV4, ReadsEitherListOfItsLayers) {
  const std::string four = kFlash.substr(0, kFlash.find("\"num_hidden_layers\"")) + "\"num_hidden_layers\": 4" +
                           kFlash.substr(kFlash.find(", \"num_attention_heads\""));
  const ModelConfig rates = read(four + R"(, "compress_ratios": [0, 0, 4, 128, 0], "num_hash_layers": 1)");
  const ModelConfig types = read(four + R"(, "layer_types": ["sliding_attention", "sliding_attention",
      "compressed_sparse_attention", "heavily_compressed_attention"],
      "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"])");
  EXPECT_EQ(rates, types);
  EXPECT_EQ(rates.more.at("kinds_0"), 1 * 16 + 2 * 64);
  EXPECT_EQ(rates.more.at("hash_layers"), 1);
  EXPECT_EQ(count(build_forward_graph(rates, {.batch = 1}), OpKind::GroupedAttention), 2);
}

// Layers that compress turn more slowly, and their cosines are not larger.
TEST(DeepseekV4, ScalesTheRotationOfLayersThatCompress) {
  const std::string yarn = R"({"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536})";
  const ModelConfig flat = read(kFlash + R"(, "compress_rope_theta": 160000, "rope_scaling": )" + yarn);
  ASSERT_TRUE(flat.rotary_scaling.has_value());
  EXPECT_EQ(flat.rotary_scaling->amplitude, 1.0);
  const ModelConfig apart = read(kFlash + R"(, "rope_parameters": {
      "main": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.125},
      "compress": {"rope_type": "yarn", "rope_theta": 160000, "partial_rotary_factor": 0.125, "factor": 16,
                   "attention_factor": 1.0, "original_max_position_embeddings": 65536}})");
  EXPECT_EQ(flat.rotary_scaling->factor, apart.rotary_scaling->factor);
  EXPECT_EQ(flat.factors, apart.factors);
  EXPECT_EQ(flat.more, apart.more);
}

TEST(DeepseekV4, RefusesWhatItIsNotBuiltWith) {
  expect_refusal(kFlash + R"(, "norm_topk_prob": false)", "'norm_topk_prob' is false");
  expect_refusal(kFlash + R"(, "scoring_func": "relu")", "'scoring_func' is \"relu\"");
  expect_refusal(kFlash + R"(, "compress_ratios": [0])", "one entry for each of the 43 layers");
  expect_refusal(kFlash + R"(, "attention_bias": true)", "'attention_bias' is true");
}

// --- Kimi Linear ---

const std::string kKimi =
    R"("model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 2304, "intermediate_size": 9216,
       "moe_intermediate_size": 1024, "num_hidden_layers": 27, "num_attention_heads": 32, "kv_lora_rank": 512,
       "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts": 256,
       "num_experts_per_token": 8, "model_max_length": 1048576)";

TEST(KimiLinear, HasTheParametersOfItsFile) {
  EXPECT_EQ(parameter_count(graph_of(kKimi)), 49'133'081'120);
  EXPECT_EQ(count(graph_of(kKimi), OpKind::GatedDelta), 21);  // all layers but 4, 8, ..., 24
  EXPECT_EQ(count(graph_of(kKimi), OpKind::Rotary), 0);
}

// The publisher numbers its layers from 1.
TEST(KimiLinear, ReadsThePublishersListOfItsLayers) {
  const std::string three = R"("model_type": "kimi_linear", "vocab_size": 128, "hidden_size": 64,
      "intermediate_size": 64, "moe_intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
      "kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_nope_head_dim": 16, "num_experts": 4,
      "num_experts_per_token": 2, "model_max_length": 64, )";
  const ModelConfig listed = read(three + R"("linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2],
      "head_dim": 16, "num_heads": 2, "short_conv_kernel_size": 3})");
  EXPECT_EQ(listed.more.at("attends_0"), 4);
  EXPECT_EQ(listed.more.at("delta_heads"), 2);
  EXPECT_EQ(listed.more.at("conv"), 3);
  expect_refusal(three + R"("linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1]})",
                 "do not name all 3 layers");
  expect_refusal(three + R"("linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]})", "has 4");
  expect_refusal(three + R"("num_expert_group": 2)", "'num_expert_group' is 2");
}

// --- MiniMax-M3 ---

std::string minimax_m3(const std::string& layers) {
  return R"("model_type": "minimax_m3_vl_text", "vocab_size": 200064, "hidden_size": 6144, "intermediate_size": 3072,
      "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
      "max_position_embeddings": 524288, "num_experts_per_tok": 4, "num_local_experts": 128,
      "dense_intermediate_size": 12288, "shared_intermediate_size": 3072, "rotary_dim": 64,
      "routed_scaling_factor": 2.0, )" +
         layers;
}

// 16 blocks of 128 keys for each query of the last three layers, of the first all 4096.
TEST(MinimaxM3, ReadsChosenBlocksOfKeys) {
  const Graph graph = graph_of(minimax_m3(R"("layer_types": ["full_attention", "minimax_m3_sparse",
      "minimax_m3_sparse", "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"])"));
  EXPECT_EQ(count(graph, OpKind::GroupedAttention), 1);
  EXPECT_EQ(count(graph, OpKind::SelectedAttention), 3);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::TopKKeys) {
      EXPECT_EQ(graph.tensor(op.outputs[0]).dims.back().size, 16 * 128);
    }
  EXPECT_EQ(parameter_count(graph), 25'040'052'352);
}

TEST(MinimaxM3, ReadsThePublishersListsOfLayers) {
  const ModelConfig marks = read(minimax_m3(R"("moe_layer_freq": [0, 1, 1, 1], "hidden_act": "swigluoai",
      "sparse_attention_config": {"use_sparse_attention": true, "sparse_num_index_heads": 4, "sparse_index_dim": 128,
      "sparse_block_size": 64, "sparse_topk_blocks": 8, "sparse_local_block": 2, "sparse_attention_freq": [0, 0, 1, 1]})"));
  EXPECT_EQ(marks.more.at("dense_layers"), 1);
  EXPECT_EQ(marks.more.at("index_first"), 2);
  EXPECT_EQ(marks.more.at("index_block"), 64);
  EXPECT_EQ(marks.more.at("index_blocks"), 8);
  EXPECT_EQ(marks.more.at("index_local"), 2);
  expect_refusal(minimax_m3(R"("moe_layer_freq": [0, 1, 0, 1])"), "some entries 0 and then 1");
  expect_refusal(minimax_m3(R"("swiglu_limit": 5.0)"), "'swiglu_limit' is 5");
}

// --- groups of experts ---

// A token that may go to none of 8 groups, or to 9 of them.
TEST(HfFamilies, OfGroupsOfExpertsChooseAtLeastOneOfThem) {
  for (const char* chosen : {"0", "9"})
    expect_refusal(R"("model_type": "deepseek_v3", "n_group": 8, "topk_group": )" + std::string(chosen),
                   "a whole number from 1 to 'n_group' (8) was expected");
}

// --- gradients against finite differences ---

TEST(HfFamilies, OfStreamsAndChannelRatesHaveTheGradientsOfTheirLosses) {
  const auto v4 = [](const std::string& more) {
    return "deepseek_v4:layers=3,hidden=8,heads=2,vocab=8,head_dim=4,rope_dim=2,q_rank=4,out_groups=2,out_rank=3,"
           "window=2,near_rate=2,far_rate=3,index_heads=2,index_dim=4,index_top_k=2,streams=2,stream_turns=3,experts=2,"
           "top_k=2,expert_intermediate=4,shared_intermediate=4,selection_bias=0,kinds_0=36," +
           more;
  };
  expect_true_model_gradients(v4("seq=6"), {.batch = 2}, ".index.");
  expect_true_model_gradients(v4("seq=7,scores=1"), {.batch = 2}, ".index.");
  expect_true_model_gradients(
      "kimi_linear:layers=3,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,"
      "delta_heads=2,delta_dim=3,experts=2,top_k=2,expert_intermediate=4,shared_intermediate=4,selection_bias=0,"
      "dense_layers=1,attends_0=4,scan_chunk=3",
      {.batch = 2});
  expect_true_model_gradients(
      "decoder_moe:layers=2,hidden=8,heads=4,kv_heads=2,head_dim=4,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,"
      "qk_norm=1,clipped_gate=1,index_blocks=2,index_block=2,index_dim=4,index_first=1",
      {.batch = 2}, ".index.");
}

}  // namespace
}  // namespace meshwright::hf_stream_families_test
