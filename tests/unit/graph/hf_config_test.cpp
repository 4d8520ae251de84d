// SPDX-License-Identifier: Apache-2.0
// config.json files: small ones of every family, with parameters counted by hand, and the published models'.
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/find_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright::hf_config_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text(text, "tiny", "config.json"); }

std::int64_t parameters(const ModelConfig& model) {
  return parameter_count(build_forward_graph(model, {.batch = 1, .dtype = DType::BF16}));
}
std::int64_t parameters_of(const std::string& text) { return parameters(read(text)); }

std::string refusal(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::vector<std::int64_t> windows_of(const ModelConfig& model) {
  const Graph graph = build_forward_graph(model, {.batch = 1});
  std::vector<std::int64_t> windows;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) windows.push_back(op.attributes.attention_window);
  return windows;
}

// What a rotated decoder needs; `more` begins with a comma or is empty.
std::string decoder(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family +
         R"(", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 4, "max_position_embeddings": 64,)"
         R"( "vocab_size": 11, "intermediate_size": 12)" +
         more + "}";
}

// --- parameters, counted by hand ---

TEST(HfGpt2, HasItsParameters) {
  const char* text = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 16,
                         "vocab_size": 11, "n_inner": null, "activation_function": "gelu_new"})";
  // Words and positions; per layer 12 h^2 + 13 h; the last norm. The head is the word table.
  EXPECT_EQ(parameters_of(text), 11 * 8 + 16 * 8 + 2 * (12 * 64 + 13 * 8) + 2 * 8);
}

TEST(HfOpt, HasItsParameters) {
  const std::string core = R"({"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 8, "ffn_dim": 20,
                               "num_attention_heads": 2, "max_position_embeddings": 16, "vocab_size": 11)";
  // Two more positions than are used; attention 4 h^2 + 4 h, forward 2 h f + f + h, norms 4 h.
  const std::int64_t layer = 4 * 64 + 4 * 8 + 2 * 8 * 20 + 20 + 8 + 4 * 8;
  EXPECT_EQ(parameters_of(core + "}"), 11 * 8 + 18 * 8 + 2 * layer + 2 * 8);
  // OPT-350M's shape: words of another width, projected in and out; norms after the sums, none at the end.
  EXPECT_EQ(parameters_of(core + R"(, "word_embed_proj_dim": 4, "do_layer_norm_before": false})"),
            11 * 4 + 2 * 4 * 8 + 18 * 8 + 2 * layer);
}

TEST(HfBloom, HasItsParameters) {
  const char* text = R"({"model_type": "bloom", "n_layer": 2, "hidden_size": 8, "n_head": 2, "vocab_size": 11})";
  // Words and their norm, no positions; per layer 12 h^2 + 13 h; the last norm.
  EXPECT_EQ(parameters_of(text), 11 * 8 + 16 + 2 * (12 * 64 + 13 * 8) + 16);
  EXPECT_EQ(read(text).seq, 2048);
}

TEST(HfGptNeox, HasItsParameters) {
  const std::string text = decoder("gpt_neox", R"(, "rotary_pct": 1.0)");
  EXPECT_EQ(parameters_of(text), 2 * 11 * 8 + 2 * (4 * 64 + 4 * 8 + 2 * 8 * 12 + 12 + 8 + 4 * 8) + 16);
}

TEST(HfBert, HasItsParameters) {
  const std::string text = decoder("bert", R"(, "type_vocab_size": 3)");
  const std::int64_t embedding = (11 + 64 + 3) * 8 + 16;
  const std::int64_t layer = 4 * 64 + 4 * 8 + 2 * 8 * 12 + 12 + 8 + 4 * 8;
  const std::int64_t head = 64 + 8 + 16 + 11;  // dense, its norm, a bias per word
  EXPECT_EQ(parameters_of(text), embedding + 2 * layer + head);
}

TEST(HfLlama, HasItsParameters) {
  // Four heads of 2, keys and values of one head.
  const std::int64_t layer = 2 * 64 + 2 * 8 * 2 + 3 * 8 * 12 + 2 * 8;
  EXPECT_EQ(parameters_of(decoder("llama", R"(, "num_key_value_heads": 1)")), 2 * 11 * 8 + 2 * layer + 8);
  EXPECT_EQ(parameters_of(decoder("llama", R"(, "num_key_value_heads": 1, "tie_word_embeddings": true)")),
            11 * 8 + 2 * layer + 8);
  EXPECT_EQ(parameters_of(decoder("llama", R"(, "num_key_value_heads": 1, "attention_bias": true, "mlp_bias": true)")),
            2 * 11 * 8 + 2 * (layer + 8 + 2 + 2 + 8 + 12 + 12 + 8) + 8);
  // Without num_key_value_heads every head has its own.
  EXPECT_EQ(parameters_of(decoder("llama", "")), 2 * 11 * 8 + 2 * (4 * 64 + 3 * 8 * 12 + 2 * 8) + 8);
}

TEST(HfMistral, IsALlamaWithAWindow) {
  const ModelConfig model = read(decoder("mistral", R"(, "num_key_value_heads": 2, "sliding_window": 5)"));
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(parameters(model), 2 * 11 * 8 + 2 * (2 * 64 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8) + 8);
  EXPECT_EQ(windows_of(model), (std::vector<std::int64_t>{5, 5}));
}

TEST(HfQwen, HasItsParameters) {
  const std::int64_t layer = 2 * 64 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8;
  // Qwen2: biases of queries, keys and values.
  EXPECT_EQ(parameters_of(decoder("qwen2", R"(, "num_key_value_heads": 2)")), 2 * 11 * 8 + 2 * (layer + 8 + 4 + 4) + 8);
  // Qwen3: heads of another width than hidden / heads, a norm of queries and one of keys.
  EXPECT_EQ(parameters_of(decoder("qwen3", R"(, "num_key_value_heads": 2, "head_dim": 6)")),
            2 * 11 * 8 + 2 * (2 * 8 * 24 + 2 * 8 * 12 + 2 * 6 + 3 * 8 * 12 + 2 * 8) + 8);
}

TEST(HfMixtral, HasItsParameters) {
  const std::string text =
      decoder("mixtral", R"(, "num_key_value_heads": 2, "num_local_experts": 5, "num_experts_per_tok": 2)");
  const std::int64_t rest = 2 * 11 * 8 + 2 * (2 * 64 + 2 * 8 * 4 + 8 * 5 + 2 * 8) + 8, expert = 3 * 8 * 12;
  EXPECT_EQ(parameters_of(text), rest + 2 * 5 * expert);
  EXPECT_EQ(active_parameter_count(build_forward_graph(read(text), {.batch = 1})), rest + 2 * 2 * expert);
}

TEST(HfQwen3Moe, HasItsParameters) {
  // Three layers, of which the first is dense by name and the second by the step; one mixture.
  const std::string text = R"({"model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 8, "head_dim": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 11,
      "intermediate_size": 12, "moe_intermediate_size": 6, "num_experts": 5, "num_experts_per_tok": 2,
      "decoder_sparse_step": 2, "mlp_only_layers": [0, 1], "norm_topk_prob": true})";
  const std::int64_t attention = 2 * 8 * 16 + 2 * 8 * 8 + 2 * 4;
  EXPECT_EQ(parameters_of(text), 2 * 11 * 8 + 4 * (attention + 16) + 3 * (3 * 8 * 12) + (8 * 5 + 5 * 3 * 8 * 6) + 8);
}

TEST(HfGptOss, HasItsParameters) {
  const std::string text = decoder("gpt_oss", R"(, "num_key_value_heads": 2, "head_dim": 4, "num_local_experts": 5,
      "experts_per_token": 2, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"])");
  const std::int64_t attention = (8 * 16 + 16) + 2 * (8 * 8 + 8) + (16 * 8 + 8) + 4;  // with a sink per head
  const std::int64_t experts = (8 * 5 + 5) + 5 * (3 * 8 * 12 + 12 + 12 + 8);
  EXPECT_EQ(parameters_of(text), 2 * 11 * 8 + 2 * (attention + experts + 16) + 8);
  EXPECT_EQ(windows_of(read(text)), (std::vector<std::int64_t>{3, 0}));
}

TEST(HfLlama4, HasItsParameters) {
  const auto text = [](const std::string& chunk) {
    return R"({"model_type": "llama4", "text_config": )" +
           decoder("llama4_text", R"(, "num_key_value_heads": 2, "intermediate_size_mlp": 20, "num_local_experts": 5,
      "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": )" +
                                      chunk) +
           "}";
  };
  const std::int64_t attention = 2 * 64 + 2 * 8 * 4, mixture = 8 * 5 + (5 + 1) * 3 * 8 * 12;
  EXPECT_EQ(parameters_of(text("64")), 2 * 11 * 8 + 2 * (attention + 16) + 3 * 8 * 20 + mixture + 8);
  EXPECT_NE(refusal(text("24")).find("seq=64 is more than one attention chunk of 24, but no multiple of it"),
            std::string::npos);
  const auto but = [&](const std::string& more) { return refusal(text("32, " + more)); };
  EXPECT_NE(but(R"("moe_layers": [0])").find("'moe_layers' lists other layers than each"), std::string::npos);
  EXPECT_NE(but(R"("no_rope_layers": [0, 1])").find("'no_rope_layers' is no list of 2 numbers"), std::string::npos);
  EXPECT_NE(but(R"("layer_types": ["full_attention", "chunked_attention"])").find("'layer_types' is not"),
            std::string::npos);
  // In chunks of half a sequence, each of 64 queries meets 32 keys: of two layers, 4 heads of 2, two products.
  const auto flops = [&](const std::string& chunk) {
    return graph_flops(build_forward_graph(read(text(chunk)), {.batch = 1, .dtype = DType::BF16})).si();
  };
  EXPECT_EQ(flops("64") - flops("32"), 2.0 * 4 * 2 * 2 * 2 * 64 * (64 - 32));
}

TEST(HfDeepseekV3, HasItsParameters) {
  const std::string text = decoder("deepseek_v3", R"(, "q_lora_rank": 6, "kv_lora_rank": 5, "qk_nope_head_dim": 3,
      "qk_rope_head_dim": 2, "v_head_dim": 7, "moe_intermediate_size": 9, "n_routed_experts": 5, "n_shared_experts": 2,
      "num_experts_per_tok": 2, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1)");
  const std::int64_t queries = 8 * 6 + 6 + 6 * 4 * (3 + 2), keys = 8 * (5 + 2) + 5 + 5 * 4 * (3 + 7);
  const std::int64_t attention = queries + keys + 4 * 7 * 8;
  const std::int64_t mixture = 8 * 5 + 5 + 5 * 3 * 8 * 9 + 3 * 8 * 18;  // with a bias per expert to choose by
  // The layer for a second token has experts, five norms, and a projection of two vectors to one.
  const std::int64_t further = attention + mixture + 5 * 8 + 2 * 8 * 8;
  EXPECT_EQ(parameters_of(text), 2 * 11 * 8 + 2 * (attention + 16) + 3 * 8 * 12 + mixture + 8 + further);
}

TEST(HfT5, HasItsParameters) {
  const std::string core = R"({"model_type": "t5", "num_layers": 2, "num_decoder_layers": 3, "d_model": 8, "d_kv": 3,
      "num_heads": 4, "d_ff": 20, "vocab_size": 11, "relative_attention_num_buckets": 6)";
  const std::int64_t attention = 4 * 8 * 12, gated = 3 * 8 * 20, plain = 2 * 8 * 20;
  const std::int64_t around = 2 * 6 * 4 + 2 * 8;  // two tables of biases, two last norms
  EXPECT_EQ(parameters_of(core + R"(, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})"),
            2 * 11 * 8 + 2 * (attention + gated + 16) + 3 * (2 * attention + gated + 24) + around);
  EXPECT_EQ(parameters_of(core + "}"),
            11 * 8 + 2 * (attention + plain + 16) + 3 * (2 * attention + plain + 24) + around);
}

// transformers 5 writes a key of its own for it; before, the tied table stood for both.
TEST(HfT5, ScalesWhatTheHeadReadsWhereTheFileSaysSo) {
  const auto scales = [](const std::string& more) {
    const Graph graph = build_forward_graph(
        read(R"({"model_type": "t5", "num_layers": 1, "d_model": 8, "d_kv": 3, "num_heads": 4, "d_ff": 20,
             "vocab_size": 11)" +
             more + "}"),
        {.batch = 1});
    return std::count_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Scale; });
  };
  EXPECT_EQ(scales(""), 1);
  EXPECT_EQ(scales(R"(, "tie_word_embeddings": false)"), 0);
  EXPECT_EQ(scales(R"(, "tie_word_embeddings": true, "scale_decoder_outputs": false)"), 0);
  EXPECT_EQ(scales(R"(, "tie_word_embeddings": false, "scale_decoder_outputs": true)"), 1);
}

// --- what else is read ---

TEST(HfConfig, GivesTheSequenceTheNameAndTheDtype) {
  const ModelConfig model = read(decoder("llama", R"(, "torch_dtype": "float16", "rope_theta": 500000.0)"));
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.seq, 64);
  EXPECT_EQ(model.default_dtype, DType::F16);
  EXPECT_EQ(model.factors.at("rotary_base"), 500000.0);
  EXPECT_EQ(read(decoder("llama", R"(, "rope_parameters": {"rope_theta": 7e4})")).factors.at("rotary_base"), 7e4);
  EXPECT_EQ(model_from_json(to_json(model), "plan.json"), model);
  const std::string long_one = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 5000,
                                   "vocab_size": 11})";
  EXPECT_EQ(read(long_one).seq, kLongestSequence);
}

TEST(HfConfig, AnUnsupportedFamilyIsRefusedByItsName) {
  const std::vector<std::string> types = hf_model_types();
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
  EXPECT_EQ(std::adjacent_find(types.begin(), types.end()), types.end());
  const std::string all = ". docs/models.md lists all.";
  EXPECT_EQ(refusal(R"({"model_type": "qwen3_6"})"),
            "config.json: models of the family 'qwen3_6' are not supported; the nearest that are: qwen3_5, "
            "qwen3_5_moe, qwen3_5_moe_text" +
                all);
  EXPECT_EQ(refusal(R"({"model_type": "lama", "time_step_limit": [-Infinity, Infinity, NaN, "Infinity\""]})")
                .find("config.json: models of the family 'lama' are not supported; the nearest that are: llama, "),
            0u);
  EXPECT_NE(refusal(R"({"hidden_size": 8})").find("'model_type' is missing"), std::string::npos);
}

TEST(HfConfig, AMemberThatDoesNotFitIsNamed) {
  const auto expect = [](const std::string& text, const std::string& sentence) {
    EXPECT_EQ(refusal(text), sentence) << text;
  };
  expect(
      R"({"model_type": "gpt2", "n_layer": 2})",
      "config.json: 'n_positions' or 'n_ctx' or 'max_position_embeddings' is missing; take the file as its publisher "
      "has it.");
  expect(decoder("llama", R"(, "num_key_value_heads": "two")"),
         "config.json: 'num_key_value_heads' is \"two\"; a whole number from 1 to 1000000000 was expected.");
  expect(decoder("llama", R"(, "num_key_value_heads": -2)"),
         "config.json: 'num_key_value_heads' is -2; a whole number from 1 to 1000000000 was expected.");
  expect(decoder("llama", R"(, "num_key_value_heads": 2.0)"),
         "config.json: 'num_key_value_heads' is 2.0; a whole number from 1 to 1000000000 was expected.");
  expect(
      decoder("llama", R"(, "num_key_value_heads": 18446744073709551615)"),
      "config.json: 'num_key_value_heads' is 18446744073709551615; a whole number from 1 to 1000000000 was expected.");
  expect(decoder("llama", R"(, "rope_theta": Infinity)"),
         "config.json: 'rope_theta' is a list of 0; a positive number was expected.");
  expect(decoder("llama", R"(, "tie_word_embeddings": 1)"),
         "config.json: 'tie_word_embeddings' is 1; true or false was expected.");
  expect(decoder("llama", R"(, "hidden_act": "mish")"),
         "config.json: 'hidden_act' is \"mish\", which is not supported; relu, relu2, gelu and silu are.");
  expect(decoder("llama", R"(, "num_key_value_heads": 3)"),
         "config.json: heads=4 is not a multiple of kv_heads=3; every key is read by the same number of queries.");
  expect("[1]", "config.json: an object was expected, as in Hugging Face's config.json.");
  EXPECT_NE(refusal("{\"model_type\": \"llama\",").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(decoder("llama", R"(, "torch_dtype": "float8")")).find("'torch_dtype' is \"float8\""),
            std::string::npos);
}

TEST(HfConfig, WhatCannotBeBuiltIsRefused) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text);
  };
  contains(decoder("bert", R"(, "is_decoder": true)"), "'is_decoder' is true, which is not supported");
  contains(decoder("bert", R"(, "position_embedding_type": "relative_key")"), "\"absolute\" is");
  contains(decoder("qwen3", R"(, "head_dim": 6, "use_sliding_window": true, "sliding_window": 4,
                               "layer_types": ["sliding_attention", "chunked_attention"])"),
           "'layer_types' has \"chunked_attention\"");
  contains(decoder("qwen3", R"(, "head_dim": 6, "use_sliding_window": true, "sliding_window": 4,
                               "layer_types": ["sliding_attention"])"),
           "one type for each of the 2 layers");
  contains(R"({"model_type": "llama4"})", "'text_config' is missing");
}

// Whatever stands where: a model, or a sentence.
TEST(HfConfig, NoValueOfAnyMemberIsAFaultOfThisProgram) {
  const std::string files[] = {
      R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 16, "vocab_size": 11,
          "n_inner": 8, "activation_function": "gelu", "tie_word_embeddings": true, "torch_dtype": "float32"})",
      R"({"model_type": "opt", "num_hidden_layers": 1, "hidden_size": 8, "ffn_dim": 20, "num_attention_heads": 2,
          "max_position_embeddings": 16, "vocab_size": 11, "word_embed_proj_dim": 4, "enable_bias": true})",
      R"({"model_type": "t5", "num_layers": 1, "num_decoder_layers": 1, "d_model": 8, "d_kv": 3, "num_heads": 4,
          "d_ff": 20, "vocab_size": 11, "relative_attention_num_buckets": 6, "feed_forward_proj": "gated-gelu",
          "n_positions": 16, "layer_norm_epsilon": 1e-6, "relative_attention_max_distance": 128})",
      decoder("gpt_neox", R"(, "rotary_pct": 1.0, "rotary_emb_base": 10000, "use_parallel_residual": false)"),
      decoder("qwen3_moe", R"(, "head_dim": 4, "moe_intermediate_size": 6, "num_experts": 5, "num_experts_per_tok": 2,
          "decoder_sparse_step": 1, "mlp_only_layers": [0], "use_sliding_window": true, "sliding_window": 4,
          "max_window_layers": 1, "num_key_value_heads": 2, "rope_parameters": {"rope_theta": 10000})"),
      decoder("gpt_oss", R"(, "num_local_experts": 5, "experts_per_token": 2, "sliding_window": 3,
          "num_key_value_heads": 4, "layer_types": ["sliding_attention", "full_attention"])"),
      decoder("deepseek_v3", R"(, "q_lora_rank": 6, "kv_lora_rank": 5, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2,
          "v_head_dim": 7, "moe_intermediate_size": 9, "n_routed_experts": 5, "n_shared_experts": 2,
          "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "routed_scaling_factor": 2.5)"),
  };
  const char* values[] = {"null", "true", "-1", "0", "1", "3", "1.5", "\"x\"", "[]", "[1]", "{}", "1000000000"};
  int models = 0, refused = 0;
  for (const std::string& file : files) {
    EXPECT_GT(parameters_of(file), 0);
    const Json whole = parse_json(file, "file");
    for (const auto& [key, before] : whole.items())
      for (const char* value : values) {
        Json changed = whole;
        changed[key] = parse_json(value, "value");
        try {
          const ModelConfig model = read(changed.dump());
          EXPECT_GT(parameters(model), 0);
          ++models;
        } catch (const InputError&) {
          ++refused;
        }
      }
  }
  EXPECT_GT(models, 100);
  EXPECT_GT(refused, 500);
}

// Windows from some layer on, and in turns.
TEST(HfConfig, LayerTypesBecomeWindows) {
  const auto windows = [](const std::string& types) {
    return windows_of(read(R"({"model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 8,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "vocab_size": 11,
        "intermediate_size": 12, "use_sliding_window": true, "sliding_window": 4, "layer_types": [)" +
                           types + "]}"));
  };
  using Windows = std::vector<std::int64_t>;
  const std::string f = "\"full_attention\"", s = "\"sliding_attention\"";
  EXPECT_EQ(windows(f + "," + f + "," + s + "," + s), (Windows{0, 0, 4, 4}));
  EXPECT_EQ(windows(s + "," + f + "," + s + "," + f), (Windows{4, 0, 4, 0}));
  EXPECT_EQ(windows(s + "," + s + "," + s + "," + f), (Windows{4, 4, 4, 0}));
  EXPECT_EQ(windows(f + "," + f + "," + f + "," + f), (Windows{0, 0, 0, 0}));
}

// --- published files ---

// The names of llm-analysis mean what publishers call otherwise.
TEST(AnalysisConfig, IsTheModelOfItsType) {
  const std::string sizes = R"("name": "m", "num_layers": 2, "n_head": 4, "hidden_dim": 8, "vocab_size": 11)";
  const auto same = [&](const std::string& more, const std::string& publishers) {
    EXPECT_EQ(parameters_of("{" + sizes + more + "}"), parameters_of(publishers)) << publishers;
  };
  same(R"(, "max_seq_len": 64, "ffn_embed_dim": 12, "num_key_value_heads": 2, "model_type": "llama")",
       decoder("llama", R"(, "num_key_value_heads": 2)"));
  same(R"(, "max_seq_len": 64, "ffn_embed_dim": 12, "moe_num_experts": 4, "moe_top_k": 2, "model_type": "mixtral")",
       decoder("mixtral", R"(, "num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": null)"));
  // Without a type GPT-2's, with four times the width between.
  same(R"(, "max_seq_len": 16)",
       R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 4, "n_positions": 16, "vocab_size": 11})");
  EXPECT_EQ(read("{" + sizes + "}").seq, 2048);
}

TEST(AnalysisConfig, SaysWhatItLacksAndWhatNobodyReads) {
  const std::string path = testing::TempDir() + "analysis.json";
  const auto said_of = [&](const std::string& more) {
    std::ofstream(path) << R"({"num_layers": 2, "n_head": 4, "hidden_dim": 8, "vocab_size": 11)" << more << "}";
    return std::pair(not_understood_of_hf_file(path), assumed_of_hf_file(path));
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(said_of(R"(, "max_seq_len": 16, "model_type": "gpt2", "name": "m", "ffn_embed_dim": 20)"),
            std::pair(Texts{}, Texts{}));
  EXPECT_EQ(said_of(""),
            std::pair(Texts{}, Texts{"no 'model_type': the layers are GPT-2's", "no 'max_seq_len': 2048 positions"}));
  // BLOOM's layers are always four times as wide between, and have a key for each query.
  EXPECT_EQ(said_of(R"(, "model_type": "bloom", "ffn_embed_dim": 32, "num_key_value_heads": 4)").first, Texts{});
  EXPECT_EQ(said_of(R"(, "model_type": "bloom", "ffn_embed_dim": 20, "num_key_value_heads": 2)").first,
            (Texts{"ffn_embed_dim", "num_key_value_heads"}));
}

TEST(HfFiles, HaveThePublishedNumbersOfParameters) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: the published files are not there.";
  struct Row {
    const char* file;
    std::int64_t parameters, active;
  };
  constexpr std::int64_t kFurther = 11'610'068'224;  // of the layer that predicts a second token
  const Row rows[] = {
      {"Qwen--Qwen3-32B", 32'762'123'264, 32'762'123'264},
      {"deepseek-ai--DeepSeek-V3", 671'026'419'200 + kFurther, 37'552'297'472 + 688'100'608},
      {"meta-llama--Llama-4-Scout-17B-16E-Instruct", 107'769'861'120, 17'172'894'720},
      {"meta-llama--Meta-Llama-3.1-405B", 405'853'388'800, 405'853'388'800},
      {"meta-llama--Meta-Llama-3.1-70B", 70'553'706'496, 70'553'706'496},
      {"meta-llama--Meta-Llama-3.1-8B", 8'030'261'248, 8'030'261'248},
      {"mistralai--Mixtral-8x7B-v0.1", 46'702'792'704, 12'879'925'248},
      {"neusight_bert_large", 335'174'458, 335'174'458},
      {"neusight_gpt2_large", 774'030'080, 774'030'080},
      {"neusight_gpt2_xl", 1'557'611'200, 1'557'611'200},
      {"neusight_opt_13", 1'315'758'080, 1'315'758'080},
      {"nvidia--Nemotron-H-56B-Base-8K", 56'324'350'464, 56'324'350'464},
      {"t5-v1_1-xxl", 11'135'332'352, 11'135'332'352},
  };
  for (const Row& row : rows) {
    const std::string folder = std::string(data) + "/models/hf_config/", stem = folder + row.file;
    const std::string path = std::filesystem::exists(stem + ".json") ? stem + ".json" : stem + "_config.json";
    const ModelConfig model = find_model(path);
    EXPECT_EQ(model.name, row.file);
    const Graph graph = build_forward_graph(model, {.batch = 1, .dtype = DType::BF16});
    EXPECT_EQ(parameter_count(graph), row.parameters) << row.file;
    EXPECT_EQ(active_parameter_count(graph), row.active) << row.file;
  }
}

// The published counts of Llama 2 70B, OPT-66B, GPT-2 and GPT-2 XL, from files that llm-analysis made of them.
TEST(AnalysisConfig, OfPublishedModelsHasTheirParameters) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set to the folder of public files";
  const std::pair<const char*, std::int64_t> rows[] = {{"upstage_Llama-2-70b-instruct-v2", 68'976'648'192},
                                                       {"facebook_opt-66b", 65'719'701'504},
                                                       {"gpt2", 124'439'808},
                                                       {"gpt2-xl", 1'557'611'200}};
  for (const auto& [file, count] : rows)
    EXPECT_EQ(parameters(find_model(fmt::format("{}/models/llm_analysis_config/{}.json", data, file))), count) << file;
}

// OPT-350M, BLOOM, Pythia-410M, gpt-oss-120b, Qwen3-235B: the sizes of their files, the counts of their model cards.
TEST(HfConfig, LargeModelsHaveTheirPublishedCounts) {
  EXPECT_EQ(parameters_of(R"({"model_type": "opt", "num_hidden_layers": 24, "hidden_size": 1024, "ffn_dim": 4096,
      "num_attention_heads": 16, "max_position_embeddings": 2048, "vocab_size": 50272, "word_embed_proj_dim": 512,
      "do_layer_norm_before": false})"),
            331'196'416);
  EXPECT_EQ(parameters_of(R"({"model_type": "bloom", "n_layer": 70, "n_embed": 14336, "num_attention_heads": 112,
      "vocab_size": 250880})"),
            176'247'271'424);
  EXPECT_EQ(parameters_of(R"({"model_type": "gpt_neox", "num_hidden_layers": 24, "hidden_size": 1024,
      "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 2048, "vocab_size": 50304})"),
            405'334'016);
  const ModelConfig oss = read(R"({"model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880,
      "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
      "max_position_embeddings": 131072, "vocab_size": 201088, "num_local_experts": 128, "num_experts_per_tok": 4})");
  EXPECT_EQ(parameters(oss), 116'829'156'672);
  const ModelConfig qwen = read(R"({"model_type": "qwen3_moe", "num_hidden_layers": 94, "hidden_size": 4096,
      "intermediate_size": 12288, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
      "max_position_embeddings": 40960, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
      "moe_intermediate_size": 1536, "norm_topk_prob": true})");
  EXPECT_EQ(parameters(qwen), 235'093'634'560);
}

}  // namespace
}  // namespace meshwright::hf_config_test
