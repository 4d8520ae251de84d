// SPDX-License-Identifier: Apache-2.0
// T5Gemma, FSMT, LongCat-Flash, JetMoE, Zamba2, RWKV-4, BigBird, GPT-NeoX Japanese and ImageGPT: parameters, counted by
// hand, what their files may not say, and gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/graph/import/hf/hf_config.h"
#include "tests/hf_config_text.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_rarer_families_test {
namespace {

using namespace hf_config_text;

std::int64_t parameters_named(const Graph& graph, const std::string& end) {
  return std::count_if(graph.tensors().begin(), graph.tensors().end(), [&](const Tensor& tensor) {
    return tensor.kind == TensorKind::Parameter && tensor.name.ends_with(end);
  });
}

std::string gemma_module(int layers, int hidden = 8) {
  return R"({"model_type": "t5_gemma_module", "hidden_size": )" + std::to_string(hidden) +
         R"(, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
            "max_position_embeddings": 8, "vocab_size": 10, "sliding_window": 3, "num_hidden_layers": )" +
         std::to_string(layers) + "}";
}
std::string t5gemma(const std::string& encoder, const std::string& decoder) {
  return R"("model_type": "t5gemma", "encoder": )" + encoder + R"(, "decoder": )" + decoder;
}

TEST(T5Gemma, HasAWordTableForEachStack) {
  const std::int64_t attention = 8 * 8 + 2 * 8 * 4 + 8 * 8, gated = 3 * 8 * 16;
  const std::int64_t encoder = attention + gated + 4 * 8, decoder = 2 * attention + gated + 6 * 8;
  EXPECT_EQ(parameters_of(t5gemma(gemma_module(1), gemma_module(2))), 2 * 10 * 8 + encoder + 2 * decoder + 2 * 8);
}

// A window of 3 is of a query's own key and two before it; in the encoder of three on either side.
TEST(T5Gemma, SeesAsFarAheadAsBackInItsEncoder) {
  const Graph graph = graph_of(t5gemma(gemma_module(1), gemma_module(1)));
  std::vector<std::int64_t> windows;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) windows.push_back(op.attributes.attention_window);
  EXPECT_EQ(windows, (std::vector<std::int64_t>{4, 3, 0}));
}

TEST(T5Gemma, RefusesStacksOfUnequalWidths) {
  EXPECT_TRUE(refused(t5gemma(gemma_module(1, 16), gemma_module(1)), "the encoder is 16 wide with 2 heads"));
  EXPECT_TRUE(refused(R"("model_type": "t5gemma", "decoder": )" + gemma_module(1), "'encoder' is missing"));
}

const std::string kFsmt =
    R"("model_type": "fsmt", "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
       "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 32, "max_position_embeddings": 4,
       "src_vocab_size": 10, "tgt_vocab_size": 12)";

TEST(Fsmt, HasTablesAndWidthsOfItsOwnForEachStack) {
  const std::int64_t attention = 4 * (8 * 8 + 8), norm = 2 * 8;
  const std::int64_t encoder = attention + (2 * 8 * 16 + 16 + 8) + 2 * norm;
  const std::int64_t decoder = 2 * attention + (2 * 8 * 32 + 32 + 8) + 3 * norm;
  EXPECT_EQ(parameters_of(kFsmt), (10 + 12 + 12) * 8 + encoder + decoder);
  EXPECT_TRUE(refused(kFsmt + R"(, "tie_word_embeddings": true)", "'tie_word_embeddings' is true"));
}

const std::string kLongcat =
    R"("model_type": "longcat_flash", "vocab_size": 10, "hidden_size": 8, "num_layers": 1, "num_attention_heads": 2,
       "max_position_embeddings": 4, "ffn_hidden_size": 16, "q_lora_rank": 4, "kv_lora_rank": 4, "qk_nope_head_dim": 4,
       "qk_rope_head_dim": 2, "v_head_dim": 4, "moe_topk": 2, "n_routed_experts": 4, "expert_ffn_hidden_size": 16)";

// Each has a row of the router and a bias to choose by.
TEST(LongcatFlash, HasNoWeightsOfExpertsThatGiveATokenBack) {
  const std::string none = kLongcat + R"(, "zero_expert_num": 0)", two = kLongcat + R"(, "zero_expert_num": 2)";
  EXPECT_EQ(parameters_of(two) - parameters_of(none), 2 * (8 + 1));
  EXPECT_EQ(parameters_named(graph_of(two), ".attn.out.weight"), 2);
}

TEST(LongcatFlash, NamesTheModuleThatItsFileDoesNotTellOf) {
  const std::string path = testing::TempDir() + "hf_longcat_config.json";
  std::ofstream(path) << "{" << kLongcat << "}";
  EXPECT_EQ(not_understood_of_hf_file(path),
            std::vector<std::string>{"the module for a further token that its weights have"});
}

TEST(LongcatFlash, RefusesWhatItLacks) {
  EXPECT_TRUE(refused(kLongcat + R"(, "zero_expert_type": "drop")", "'zero_expert_type' is \"drop\""));
  EXPECT_TRUE(refused(kLongcat + R"(, "num_hidden_layers": 3)", "'num_hidden_layers' is 3"));
  EXPECT_TRUE(refused(kLongcat + R"(, "router_bias": true)", "'router_bias'"));
}

const std::string kJetMoe =
    R"("model_type": "jetmoe", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_key_value_heads": 2,
       "kv_channels": 4, "intermediate_size": 16, "max_position_embeddings": 4, "num_local_experts": 4,
       "num_experts_per_tok": 2)";

TEST(JetMoe, HasExpertsOfQueries) {
  const std::int64_t router = 8 * 4, heads = 4 * 8 * 8, keys = 8 * 8;
  const std::int64_t attention = router + 2 * heads + 2 * keys + 8, mixture = router + 4 * 3 * 8 * 16 + 8;
  EXPECT_EQ(parameters_of(kJetMoe), 10 * 8 + attention + mixture + 3 * 8);
  EXPECT_TRUE(refused(kJetMoe + R"(, "num_attention_heads": 2)", "'num_attention_heads' is 2"));
}

std::string zamba2(const std::string& types) {
  return R"("model_type": "zamba2", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 4,
            "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 8, "mamba_d_state": 4,
            "n_mamba_heads": 2, "adapter_rank": 2, "use_shared_attention_adapter": true, "layers_block_type": )" +
         types;
}

// A further use of the one block has a product of its own, and those of low rank beside q, k, v, and gates with ups.
TEST(Zamba2, SharesItsBlocks) {
  const std::int64_t once = parameters_of(zamba2(R"(["mamba", "hybrid", "mamba", "mamba"])"));
  const std::int64_t twice = parameters_of(zamba2(R"(["mamba", "hybrid", "mamba", "hybrid"])"));
  EXPECT_EQ(twice - once, 8 * 8 + 3 * (16 * 2 + 2 * 16) + (8 * 2 + 2 * 2 * 16));
  const std::int64_t apart = parameters_of(zamba2(R"(["mamba", "hybrid", "mamba", "hybrid"], "num_mem_blocks": 2)"));
  const std::int64_t attention = 3 * 16 * 16 + 16 * 8, gated = 3 * 8 * 16, norms = 16 + 8;
  EXPECT_EQ(apart - twice, attention + gated + norms);
}

TEST(Zamba2, RefusesWhatItLacks) {
  const std::string scans = R"(["mamba", "mamba", "mamba", "mamba"])";
  EXPECT_TRUE(refused(zamba2(R"(["mamba", "hybrid"])"), "'layers_block_type' must be a list"));
  EXPECT_TRUE(refused(zamba2(scans + R"(, "mamba_headdim": 4)"), "'mamba_headdim' is 4"));
  EXPECT_TRUE(refused(zamba2(scans + R"(, "use_long_context": true)"), "'use_long_context'"));
  EXPECT_TRUE(refused(zamba2(scans + R"(, "rms_norm_eps": 1e-6)"), "'rms_norm_eps'"));
}

// Each layer: two norms, five mixtures, decays and first weights, and seven products.
TEST(Rwkv, HasShareOfTheTokenBefore) {
  const std::int64_t time = 2 * 6 + 3 * 8 + 4 * 8 * 6, channel = 2 * 8 + 2 * 8 * 16 + 8 * 8;
  const std::string config = R"("model_type": "rwkv", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 3,
      "attention_hidden_size": 6, "intermediate_size": 16, "context_length": 4)";
  EXPECT_EQ(parameters_of(config), 2 * 10 * 8 + 3 * (4 * 8 + time + channel) + 4 * 8);
  EXPECT_TRUE(refused(config + R"(, "layer_norm_epsilon": 1e-6)", "'layer_norm_epsilon'"));
}

TEST(BigBird, HasFullAttentionAlone) {
  const std::string config = R"("model_type": "big_bird", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 8)";
  // (5 + 2 * 3) blocks of 64.
  EXPECT_TRUE(refused(config, "texts of at most 704 tokens"));
  const std::string full = config + R"(, "attention_type": "original_full")";
  EXPECT_EQ(parameters_of(full) - 0,
            (10 + 8 + 2) * 8 + 2 * 8 + 4 * (8 * 8 + 8) + (2 * 8 * 16 + 16 + 8) + 4 * 8 + (8 * 8 + 8) + 2 * 8 + 10);
  EXPECT_EQ(read(full).more.at("erf"), 0);
}

TEST(GptNeoXJapanese, HasOneBiasBesideItsNorms) {
  const Graph graph = graph_of(R"("model_type": "gpt_neox_japanese", "vocab_size": 10, "hidden_size": 8,
      "num_hidden_layers": 3, "num_attention_heads": 2, "max_position_embeddings": 8)");
  EXPECT_EQ(parameters_named(graph, ".bias"), 1);
  EXPECT_EQ(parameters_named(graph, "blk2.attn.out.bias"), 1);
}

TEST(ImageGpt, HasAHeadWithoutTheLastWord) {
  const ModelConfig model = read(R"("model_type": "imagegpt", "vocab_size": 9, "n_positions": 4, "n_embd": 8,
      "n_layer": 1, "n_head": 2)");
  EXPECT_EQ(model.vocab, 8);
  const std::int64_t block = 4 * (8 * 8 + 8) + (2 * 8 * 32 + 32 + 8) + 2 * 8;
  EXPECT_EQ(parameter_count(build_forward_graph(model, {.batch = 1, .dtype = DType::BF16})),
            9 * 8 + 4 * 8 + block + 8 + 8 * 8);
}

// Experts have room for all tokens.
TEST(RarerFamilies, HaveTheGradientsOfTheirLosses) {
  expect_true_model_gradients(
      "jetmoe:layers=1,hidden=8,heads=2,intermediate=8,seq=4,vocab=8,experts=2,top_k=2,capacity_factor=2",
      {.batch = 2});
  expect_true_model_gradients(
      "longcat_flash:layers=1,hidden=8,heads=2,intermediate=8,seq=4,vocab=8,experts=2,identity_experts=1,top_k=2,"
      "q_rank=4,kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,capacity_factor=2",
      {.batch = 2}, "selection");
  expect_true_model_gradients(
      "zamba2:layers=3,hidden=8,heads=2,intermediate=8,seq=4,vocab=8,scan_heads=2,scan_head_dim=4,state=2,scan_chunk=2,"
      "adapter_rank=2,attention_adapters=1,hybrid_0=6,rotary=1",
      {.batch = 2}, "none", 1e-4);
  expect_true_model_gradients("rwkv:layers=2,hidden=8,seq=4,vocab=8,time_width=6,scan_chunk=2", {.batch = 2}, "none",
                              1e-4);
}

}  // namespace
}  // namespace meshwright::hf_rarer_families_test
