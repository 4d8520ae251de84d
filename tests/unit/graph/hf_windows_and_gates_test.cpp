// SPDX-License-Identifier: Apache-2.0
// Families whose windows follow an order of their own, or that gate what norms, heads and rules make: the parameters
// that transformers 5.24 counts in the model of the same file, and biases that only choose experts, which it keeps
// beside the parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_windows_and_gates_test {
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

constexpr const char* kFlint =
    R"("model_type": "flint", "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144,
       "max_position_embeddings": 262144, "mlp_only_layers": [0, 1], "moe_intermediate_size": 512,
       "num_attention_heads": 32, "num_experts": 256, "num_experts_per_tok": 6, "num_hidden_layers": 49,
       "num_key_value_heads": 4, "shared_expert_intermediate_size": 1024, "sliding_window": 513, "vocab_size": 150144)";
constexpr const char* kLfm3 =
    R"("model_type": "lfm3", "conv_L_cache": 7, "head_dim": 128, "hidden_size": 2048, "intermediate_size": 7680,
       "max_position_embeddings": 128000, "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 4,
       "sliding_window": 256, "vocab_size": 128000)";
constexpr const char* kAxk2 =
    R"("model_type": "axk2", "gated_norm_rank": 16, "hidden_size": 2048, "index_head_dim": 128, "index_n_heads": 16,
       "index_topk": 2048, "intermediate_size": 5120, "kv_lora_rank": 128, "max_position_embeddings": 131072,
       "moe_intermediate_size": 512, "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 32,
       "num_experts_per_tok": 8, "num_hidden_layers": 48, "q_lora_rank": 384, "qk_nope_head_dim": 64,
       "qk_rope_head_dim": 32, "routed_scaling_factor": 2.5, "v_head_dim": 64, "vocab_size": 163840)";
constexpr const char* kLing3 =
    R"("model_type": "bailing_hybrid", "first_k_dense_replace": 2, "head_dim": 128, "hidden_size": 2560,
       "intermediate_size": 6144, "kv_lora_rank": 512, "layer_group_size": 6, "max_position_embeddings": 262144,
       "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 512, "num_experts_per_tok": 8,
       "num_hidden_layers": 42, "num_shared_experts": 1, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
       "v_head_dim": 128, "vocab_size": 157184)";

constexpr const char* kHunyuan4 =
    R"("model_type": "hy_v4", "hidden_size": 2816, "index_head_dim": 128, "index_n_heads": 16, "index_topk": 2048,
       "intermediate_size": 6912, "kv_lora_rank": 512, "max_position_embeddings": 262144, "moe_intermediate_size": 768,
       "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 32, "num_experts_per_tok": 8,
       "num_hidden_layers": 34, "q_lora_rank": 1536, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
       "v_head_dim": 256, "vocab_size": 120832)";

TEST(WindowsAndGates, HaveTheirParameters) {
  EXPECT_EQ(parameter_count(graph_of(kHunyuan4)), 58'278'193'133 + 33 * 256);
  EXPECT_EQ(parameter_count(graph_of(kFlint)), 39'785'287'456);
  EXPECT_EQ(parameter_count(graph_of(kLfm3)), 1'728'801'536);
  EXPECT_EQ(parameter_count(graph_of(kAxk2)), 20'314'494'976 + 47 * 128);
  EXPECT_EQ(parameter_count(graph_of(kLing3)), 124'414'191'072 + 40 * 512);
}

// The windows of attention, layer by layer.
std::vector<std::int64_t> windows_of(const Graph& graph) {
  std::vector<std::int64_t> windows;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) windows.push_back(op.attributes.attention_window);
  return windows;
}

// Two layers see all keys, then each fourth one, and the last one, which follows no order. Those alone rotate nothing.
TEST(WindowsAndGates, OfFlintEndInALayerThatSeesAllKeys) {
  const Graph graph = graph_of(kFlint);
  const std::vector<std::int64_t> windows = windows_of(graph);
  ASSERT_EQ(windows.size(), 49u);
  for (std::size_t layer = 0; layer < windows.size(); ++layer)
    EXPECT_EQ(windows[layer], layer < 2 || layer % 4 == 1 || layer == 48 ? 0 : 513) << layer;
  EXPECT_EQ(std::count(windows.begin(), windows.end(), 0), 14);
  EXPECT_EQ(
      std::count_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Rotary; }),
      2 * 35);
  EXPECT_EQ(read(kFlint).more.at("full_last"), 1);
}

TEST(WindowsAndGates, AreRefusedInAnOrderWithoutRule) {
  std::string six = kFlint;
  six.replace(six.find("layers\": 49"), 11, "layers\": 6");
  const auto with_types = [&](const std::string& letters) {
    std::string types;
    for (const char letter : letters)
      types +=
          std::string(types.empty() ? "" : ", ") + (letter == 'S' ? R"("sliding_attention")" : R"("full_attention")");
    return six + R"(, "layer_types": [)" + types + "]";
  };
  EXPECT_EQ(read(with_types("FSSFSF")).more.at("full_every"), 3);
  EXPECT_NE(refusal_of(with_types("FSSFFS")).find("'layer_types' follow no order that is supported"),
            std::string::npos);
}

// Every other layer that attends sees all keys and turns half of each head: dimension j of 64 by
// 1e6^(-2 j / 128), as a head of 64 dimensions and the base 1000 does.
TEST(WindowsAndGates, OfLfm3TakeTurnsWithWholeAttention) {
  const Graph graph = graph_of(kLfm3);
  EXPECT_EQ(windows_of(graph), (std::vector<std::int64_t>{0, 256, 0, 256, 0, 256, 0, 256, 0, 256, 0}));
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Rotary) continue;
    const bool whole = op.attributes.rotary_dims == 64;
    EXPECT_EQ(op.attributes.rotary_dims, whole ? 64 : 0);
    EXPECT_NEAR(op.attributes.rotary_base, whole ? 1000.0 : 10000.0, 1e-9);
  }
  EXPECT_NE(refusal_of(std::string(kLfm3) + R"(, "layer_types": ["conv"])").find("'layer_types' must be a list"),
            std::string::npos);
}

// Bounded decays are an attribute of the rule.
TEST(WindowsAndGates, OfLing3BoundDecays) {
  const auto least_logs = [](const std::string& config) {
    std::vector<double> logs;
    const Graph graph = graph_of(config);
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::GatedDelta) logs.push_back(op.attributes.value);
    return logs;
  };
  EXPECT_EQ(least_logs(kLing3), std::vector<double>(35, -5.0));
  EXPECT_EQ(least_logs(std::string(kLing3) + R"(, "kda_safe_gate": false)"), std::vector<double>(35, 0.0));
  EXPECT_NE(refusal_of(std::string(kLing3) + R"(, "kda_lower_bound": 1.0)").find("'kda_lower_bound' is 1.0"),
            std::string::npos);
}

TEST(WindowsAndGates, OfAxk2ReadAVectorOfQueriesAndItsNorm) {
  std::string without = kAxk2;
  without.erase(without.find(R"("q_lora_rank": 384, )"), 20);
  EXPECT_NE(refusal_of(without).find("'q_lora_rank' is missing"), std::string::npos);
  const Graph graph = graph_of(kAxk2);
  const auto gate = std::find_if(graph.tensors().begin(), graph.tensors().end(),
                                 [](const Tensor& tensor) { return tensor.name == "blk0.attn.gate.weight"; });
  ASSERT_NE(gate, graph.tensors().end());
  EXPECT_EQ(gate->dims.front().size, 2 * 384);
}

// Indexers of 34 layers are in the first two, and in each fourth one behind these.
TEST(WindowsAndGates, OfHunyuan4ShareIndexers) {
  const Graph graph = graph_of(kHunyuan4);
  const auto count = [&](OpKind kind) {
    return std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; });
  };
  EXPECT_EQ(count(OpKind::IndexScores), 2 + 8);
  EXPECT_EQ(count(OpKind::SelectedAttention), 34);
  EXPECT_EQ(count(OpKind::Sinkhorn), 0);
  EXPECT_NE(refusal_of(std::string(kHunyuan4) + R"(, "swiglu_limit": 0.0)").find("'swiglu_limit'"), std::string::npos);
}

// --- gradients against finite differences ---

TEST(WindowsAndGates, HaveTheGradientsOfTheirLosses) {
  expect_true_model_gradients(
      "decoder_moe:layers=3,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,"
      "sigmoid=1,dense_layers=1,sinks=1,window=3,full_last=1,rotary_windows_alone=1",
      {.batch = 2});
  expect_true_model_gradients(
      "hybrid:layers=6,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,short_conv=1,rotary=1,"
      "gated=1,qk_norm=1,result_norms=1,head_gate=1,window=3,first_window_layer=1,full_every=2,rotary_dims=2,"
      "window_rotary_dims=0,window_rotary_base=100,kinds_0=2456",
      {.batch = 2});
  expect_true_model_gradients(
      "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,dense_layers=1,q_rank=4,"
      "kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,selection_bias=0,both_queries=1,norm_gate=2",
      {.batch = 2});
  expect_true_model_gradients(
      "hy_v4:layers=3,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,experts=2,top_k=2,expert_intermediate=4,dense_"
      "layers="
      "1,q_rank=4,kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,selection_bias=0,index_heads=2,index_dim=4,index_top_k=3,"
      "index_first=1,index_every=2,streams=2,gate_bound=0.2",
      {.batch = 2}, ".index.");
  expect_true_model_gradients(
      "kimi_linear:layers=2,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,"
      "delta_heads=2,delta_dim=4,experts=2,top_k=2,expert_intermediate=4,dense_layers=1,selection_bias=0,attends_0=2,"
      "scan_chunk=3,direct_gates=1,bounded_decays=1,rotary=1,head_gate=1",
      {.batch = 2});
}

}  // namespace
}  // namespace meshwright::hf_windows_and_gates_test
