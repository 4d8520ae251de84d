// SPDX-License-Identifier: Apache-2.0
// Families whose layers differ from one to the next: in their indexers, in heads and windows, in widths, in the space
// that experts work in. Parameters as transformers 5.24 counts them in the model of the publisher's file, or as counted
// by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_unequal_layers_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

Graph graph_of(const std::string& text) { return build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16}); }

std::int64_t parameters_of(const std::string& text) { return parameter_count(graph_of(text)); }

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
  return "not refused";
}

void expect_refusal(const std::string& text, const std::string& part) {
  EXPECT_NE(refusal_of(text).find(part), std::string::npos) << refusal_of(text);
}

// `layers` times the item that `of` gives, as a list.
template <class Of>
std::string list(std::int64_t layers, Of of) {
  std::string text;
  for (std::int64_t layer = 0; layer < layers; ++layer) text += (layer == 0 ? "" : ", ") + std::string(of(layer));
  return "[" + text + "]";
}

// --- indexers that layers share ---

std::string glm_5_2(const std::string& schedule) {
  return R"("model_type": "glm_moe_dsa", "first_k_dense_replace": 3, "head_dim": 192, "hidden_size": 6144,
      "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048, "intermediate_size": 12288, "kv_lora_rank": 512,
      "max_position_embeddings": 1048576, "moe_intermediate_size": 2048, "n_routed_experts": 256,
      "n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 78,
      "num_key_value_heads": 64, "q_lora_rank": 2048, "qk_head_dim": 256, "qk_nope_head_dim": 192,
      "qk_rope_head_dim": 64, "routed_scaling_factor": 2.5, "v_head_dim": 256, "vocab_size": 154880, )" +
         schedule;
}

// Of 78 layers the first three and each fourth behind them have an indexer.
TEST(Glm52, SharesIndexersAsItsFileSays) {
  const std::string kinds =
      list(78, [](auto layer) { return layer < 3 || layer % 4 == 2 ? "\"full\"" : "\"shared\""; });
  for (const std::string& schedule :
       {"\"indexer_types\": " + kinds, std::string(R"("index_topk_freq": 4, "index_skip_topk_offset": 3)")}) {
    EXPECT_EQ(parameters_of(glm_5_2(schedule)), 743'377'019'904) << schedule;
    EXPECT_EQ(count(glm_5_2(schedule), OpKind::IndexScores), 3 + 18);
    EXPECT_EQ(count(glm_5_2(schedule), OpKind::SelectedAttention), 78);
  }
  EXPECT_EQ(count(glm_5_2("\"indexer_types\": null"), OpKind::IndexScores), 78);
  EXPECT_EQ(read(glm_5_2("\"index_topk_pattern\": \"" + std::string(77, 'F') + "S\"")).more.at("index_first"), 77);
  // The module behind the layers has one of its own.
  EXPECT_EQ(count(glm_5_2(R"("index_topk_freq": 4, "index_skip_topk_offset": 3, "num_nextn_predict_layers": 1)"),
                  OpKind::IndexScores),
            3 + 18 + 1);
  expect_refusal(glm_5_2("\"index_topk_pattern\": \"" + std::string(77, 'S') + "F\""),
                 "the first layer shares an indexer, and none is before it");
  expect_refusal(glm_5_2("\"index_topk_pattern\": \"FSFSS" + std::string(73, 'F') + "\""),
                 "layers share their indexers in no order that is supported");
  expect_refusal(glm_5_2(R"("indexer_types": ["full"])"), "must have one type for each of the 78 layers");
  expect_refusal(glm_5_2(R"("indexer_rope_interleave": false)"), "'indexer_rope_interleave' is false");
}

// --- experts between two projections ---

std::string nemotron_3(const std::string& more) {
  return R"("model_type": "nemotron_h", "chunk_size": 128, "conv_kernel": 4, "head_dim": 128,
      "mamba_head_dim": 64, "max_position_embeddings": 262144, "mlp_hidden_act": "relu2", "n_groups": 8,
      "n_routed_experts": 512, "n_shared_experts": 1, "num_experts_per_tok": 22, "num_key_value_heads": 2,
      "routed_scaling_factor": 5.0, "ssm_state_size": 128, "vocab_size": 131072, )" +
         more;
}
constexpr const char* kSuper =
    R"("hidden_size": 4096, "intermediate_size": 2688, "mamba_num_heads": 128, "moe_intermediate_size": 2688,
       "moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376, "num_attention_heads": 32,
       "time_step_limit": [0.0, Infinity], "hybrid_override_pattern":
       "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME")";

// The list of layers in place of the letters, as Ultra's file has it; its steps are bounded by no number of 32 bits.
std::string ultra(const std::string& more) {
  std::string names;
  for (const char kind :
       std::string("MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*"
                   "EMEMEM*EMEMEMEM*EMEMEMEME"))
    names += (names.empty() ? "" : ", ") + std::string(kind == 'M'   ? "\"mamba\""
                                                       : kind == 'E' ? "\"moe\""
                                                                     : "\"attention\"");
  return nemotron_3(R"("hidden_size": 8192, "intermediate_size": 5120, "mamba_num_heads": 256,
      "moe_intermediate_size": 5120, "moe_latent_size": 2048, "moe_shared_expert_intermediate_size": 10240,
      "num_attention_heads": 64, "layers_block_type": [)" +
                    names + "]" + more);
}

TEST(Nemotron3, HasItsParametersWithExpertsInANarrowerSpace) {
  EXPECT_EQ(parameters_of(nemotron_3(kSuper)), 120'668'707'840);
  EXPECT_EQ(parameters_of(ultra(R"(, "time_step_limit": [0.0, 1e308])")), 549'308'993'536);
  expect_refusal(ultra(R"(, "time_step_limit": [0.0, 100.0])"), "'time_step_limit' bounds the steps");
  expect_refusal(ultra(R"(, "time_step_limit": [0.001, 1e308])"), "'time_step_limit' bounds the steps");
}

// Two norms and a projection of two vectors to one, a layer of attention and one of experts, a norm behind them.
TEST(Nemotron3, PredictsFurtherTokensByAttentionAndExperts) {
  const std::int64_t h = 4096, latent = 1024, expert = 2688, shared = 5376;
  const std::int64_t attention = h * (32 + 2 + 2 + 32) * 128 + h;
  const std::int64_t experts = 512 * (h + 1) + 2 * h * latent + 512 * 2 * latent * expert + 2 * h * shared + h;
  const std::string one = std::string(kSuper) + R"(, "num_nextn_predict_layers": 1)";
  const std::int64_t expected = 120'668'707'840 + 2 * h * h + 3 * h + attention + experts;
  EXPECT_EQ(parameters_of(nemotron_3(one)), expected);
  EXPECT_EQ(parameters_of(nemotron_3(one + R"(, "mtp_hybrid_override_pattern": "*E")")), expected);
  EXPECT_EQ(parameters_of(nemotron_3(one + R"(, "mtp_layers_block_type": ["attention", "moe"])")), expected);
  EXPECT_EQ(parameters_of(nemotron_3(one + R"(, "mtp_layers_block_type": ["attention"])")), expected - experts);
  expect_refusal(nemotron_3(one + R"(, "mtp_layers_block_type": ["conv"])"), "'mtp_layers_block_type' has \"conv\"");
}

// --- layers with other heads ---

constexpr const char* kMimoFlash =
    R"("model_type": "mimo_v2_flash", "attention_value_scale": 0.707, "head_dim": 192, "hidden_size": 4096,
       "intermediate_size": 16384, "layernorm_epsilon": 1e-05, "max_position_embeddings": 262144,
       "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": null, "num_attention_heads": 64,
       "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "partial_rotary_factor": 0.334,
       "rope_theta": 5000000, "routed_scaling_factor": null, "sliding_window": 128, "sliding_window_size": 128,
       "swa_head_dim": 192, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_rope_theta": 10000,
       "swa_v_head_dim": 128, "v_head_dim": 128, "vocab_size": 152576)";
std::string mimo_flash(const std::string& from = "", const std::string& to = "") {
  const auto windowed = [](auto layer) { return layer == 0 || layer % 6 == 5 ? "0" : "1"; };
  std::string text = std::string(kMimoFlash) + ", \"hybrid_layer_pattern\": " + list(48, windowed) +
                     ", \"moe_layer_freq\": " + list(48, [](auto layer) { return layer == 0 ? "0" : "1"; });
  return from.empty() ? text : text.replace(text.find(from), from.size(), to);
}

TEST(MimoV2Flash, HasOtherKeysAndSinksInLayersWithWindows) {
  EXPECT_EQ(parameters_of(mimo_flash()), 308'778'780'864);
  const ModelConfig model = read(mimo_flash());
  EXPECT_EQ(model.more.at("window"), 129);  // of keys, the query's own among them
  EXPECT_EQ(model.more.at("rotary_dims"), 64);
  EXPECT_EQ(model.factors.at("rotary_base"), 5e6);
  EXPECT_EQ(model.factors.at("window_rotary_base"), 1e4);
  const Graph graph = graph_of(mimo_flash());
  std::string kinds;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) {
      const std::vector<Dim>& keys = graph.tensor(op.inputs[1]).dims;
      EXPECT_EQ(keys[2].size, op.attributes.attention_window > 0 ? 8 : 4) << op.name;
      EXPECT_EQ(graph.tensor(op.inputs[2]).dims[3].size, 128);
      EXPECT_EQ(op.inputs.size(), op.attributes.attention_window > 0 ? 4u : 3u) << op.name;
      kinds += op.attributes.attention_window > 0 ? 'w' : '.';
    }
  EXPECT_EQ(kinds.substr(0, 13), ".wwww.wwwww.w");
  EXPECT_EQ(kinds.substr(42), "wwwww.");
  expect_refusal(mimo_flash("\"swa_head_dim\": 192", "\"swa_head_dim\": 128"),
                 "'swa_head_dim' is 128, which is not supported; 192");
  expect_refusal(mimo_flash("value_heads\": 8", "value_heads\": 7"),
                 "the 64 heads of layers with windows are not a multiple of their 7 heads of keys");
}

TEST(Mimo7b, IsQwen2WithAModuleForAFurtherToken) {
  const std::string file =
      R"("model_type": "mimo", "attention_bias": true, "head_dim": 128, "hidden_size": 4096,
         "intermediate_size": 11008, "max_position_embeddings": 32768, "num_attention_heads": 32,
         "num_hidden_layers": 36, "num_key_value_heads": 8, "use_mrope": false, "use_sliding_window": false,
         "vocab_size": 151680)";
  EXPECT_EQ(parameters_of(file), 7'622'619'136);
  EXPECT_EQ(parameters_of(file + R"(, "num_nextn_predict_layers": 1)"), 7'833'409'536);  // the checkpoint's
  std::string turned = file;
  turned.replace(turned.find("mrope\": false"), 13, "mrope\": true");
  expect_refusal(turned, "'use_mrope' is true");
}

std::string step(const std::string& more) {
  return R"("model_type": "step3p7", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11264,
      "max_position_embeddings": 65536, "moe_intermediate_size": 1280, "moe_router_scaling_factor": 3.0,
      "num_attention_heads": 64, "num_experts": 288, "num_experts_per_tok": 8, "num_hidden_layers": 45,
      "num_key_value_heads": 8, "share_expert_dim": 1280, "sliding_window": 512, "vocab_size": 128896,
      "layer_types": )" +
         list(45, [](auto layer) { return layer % 4 == 0 ? "\"full_attention\"" : "\"sliding_attention\""; }) + more;
}

// The text model of transformers, and its head.
TEST(Step37, HasGatesOfHeads) {
  EXPECT_EQ(parameters_of(step("")), 195'316'550'720 + 128'896 * 4096LL);
  // 33 layers with windows have 32 heads more: of queries, results and gates.
  EXPECT_EQ(parameters_of(step(R"(, "attention_other_setting": {"num_attention_heads": 96})")),
            195'316'550'720 + 128'896 * 4096LL + 33 * 32 * 4096LL * (128 + 128 + 1));
  const ModelConfig turned = read(
      step(", \"partial_rotary_factors\": " + list(45, [](auto layer) { return layer % 4 == 0 ? "0.5" : "1.0"; })));
  EXPECT_EQ(turned.more.at("rotary_dims"), 64);
  EXPECT_EQ(turned.more.at("window_rotary_dims"), 128);
}

// --- layers of several widths ---

constexpr const char* kNas = R"("model_type": "nemotron-nas", "hidden_act": "silu", "hidden_size": 8192,
    "intermediate_size": null, "max_position_embeddings": 131072, "num_attention_heads": 64, "num_key_value_heads": null,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "vocab_size": 128256, )";

std::string nas_block(const std::string& attention, const std::string& ffn) {
  return "{\"attention\": {" + attention + "}, \"ffn\": {" + ffn + "}}";
}
std::string attends(int group) {
  return "\"n_heads_in_group\": " + std::to_string(group) + ", \"no_op\": false, \"sparsify\": null";
}
constexpr const char* kNothing = "\"n_heads_in_group\": null, \"no_op\": true";

// Super 49B: 49 of its 80 layers attend, and the feed-forward parts are of six widths, two thirds of a factor times
// 8192, rounded up to a multiple of 256.
TEST(NemotronNas, HasLayersWithoutAttentionAndOfSeveralWidths) {
  const std::vector<std::tuple<int, bool, std::string, std::int64_t>> kinds = {
      {48, true, "5.25", 28672},   {1, true, "2.625", 14336}, {5, false, "2.625", 14336}, {1, false, "3.28125", 17920},
      {10, false, "1.3125", 7168}, {1, false, "5.25", 28672}, {8, false, "1.0", 5632},    {6, false, "0.5", 2816}};
  std::string blocks;
  std::int64_t expected = 2 * 128256 * 8192LL + 8192;
  for (const auto& [layers, attention, factor, width] : kinds)
    for (int layer = 0; layer < layers; ++layer) {
      blocks += (blocks.empty() ? "" : ", ") +
                nas_block(attention ? attends(8) : kNothing, "\"no_op\": false, \"ffn_mult\": " + factor);
      expected += 3 * 8192 * width + 8192 + (attention ? 8192 * (2 * 8192LL + 2 * 1024) + 8192 : 0);
    }
  const std::string file = kNas + std::string("\"num_hidden_layers\": 80, \"block_configs\": [") + blocks + "]";
  EXPECT_EQ(expected, 49'867'145'216);  // the checkpoint's
  EXPECT_EQ(parameters_of(file), expected);
  EXPECT_EQ(count(file, OpKind::GroupedAttention), 49);
  EXPECT_EQ(count(file, OpKind::Rotary), 2 * 49);
}

TEST(NemotronNas, RefusesWhatItDoesNotKnow) {
  const auto of = [](const std::string& attention, const std::string& ffn) {
    return kNas + std::string("\"num_hidden_layers\": 2, \"block_configs\": [") +
           nas_block(attends(8), "\"ffn_mult\": 1.0") + ", " + nas_block(attention, ffn) + "]";
  };
  EXPECT_EQ(count(of(kNothing, "\"no_op\": true"), OpKind::GroupedAttention), 1);
  expect_refusal(of(attends(4), "\"ffn_mult\": 1.0"), "'n_heads_in_group' is 4, but 8 in a layer before it");
  expect_refusal(of("\"no_op\": true", "\"replace_with_linear\": true"), "'replace_with_linear' is true");
  expect_refusal(of(attends(8) + ", \"window_length\": 8", "\"ffn_mult\": 1.0"), "'window_length' is given");
  expect_refusal(of(attends(8) + ", \"mamba\": true", "\"ffn_mult\": 1.0"), "block_configs[1]: 'attention.mamba'");
  expect_refusal(of(attends(8), "\"no_op\": false"), "'ffn_mult' is missing");
}

// --- what stays refused ---

TEST(HfFamilies, ThatNoOpComputesAreRefusedByWhatTheyAre) {
  expect_refusal(R"("model_type": "kimi_k3")",
                 "attend to the results of earlier blocks of layers (attn_res_block_size)");
  expect_refusal(R"("model_type": "deepseek_ref")", "The nearest family is deepseek_v4.");
  EXPECT_EQ(refusal_of(R"("producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"})"),
            "config.json: it describes how the weights of a model are quantised, and no model; give the config.json "
            "beside it.");
}

// --- gradients against finite differences ---

TEST(HfFamilies, OfUnequalLayersHaveTheGradientsOfTheirLosses) {
  const std::string latent =
      "deepseek_v3:layers=3,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,dense_layers=1,q_rank=4,"
      "kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,selection_bias=0,index_heads=2,index_dim=4,index_top_k=3";
  expect_true_model_gradients(latent + ",index_first=1,index_every=2", {.batch = 2}, ".index.");
  expect_true_model_gradients(
      "hybrid:layers=4,hidden=8,heads=2,seq=6,vocab=8,scan_heads=2,scan_head_dim=4,state=2,scan_chunk=3,experts=2,"
      "top_k=2,expert_intermediate=4,shared_intermediate=4,expert_latent=6,selection_bias=0,kinds_0=167,mlp_bias=1,"
      "intermediate=8,intermediate_1=12,widths_0=8,mtp=1,mtp_layers=2,mtp_kinds=13",
      {.batch = 2});
  expect_true_model_gradients(
      "decoder_moe:layers=3,hidden=8,heads=4,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,"
      "window=3,first_window_layer=1,full_every=3,full_shift=1,value_dim=2,value_scale=0.5,window_heads=6,"
      "window_kv_heads=2,window_sinks=1,window_rotary_dims=2,head_gate=1",
      {.batch = 2});
  expect_true_model_gradients(
      "decoder:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,mtp=1", {.batch = 2});
}

}  // namespace
}  // namespace meshwright::hf_unequal_layers_test
