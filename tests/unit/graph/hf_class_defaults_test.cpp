// SPDX-License-Identifier: Apache-2.0
// Members that a config.json leaves out, which are those of its type's class, and whether a head is the word table
// where a file and its text part say so.
#include <gtest/gtest.h>

#include <string>

#include "core/graph/import/hf/hf_config.h"
#include "tests/hf_config_text.h"

namespace meshwright::hf_class_defaults_test {
namespace {

using namespace hf_config_text;

std::string of(const std::string& type, const std::string& more = "") {
  return R"("model_type": ")" + type + R"(", "vocab_size": 10, "hidden_size": 64, "intermediate_size": 16,
      "num_hidden_layers": 4, "num_attention_heads": 32, "max_position_embeddings": 8)" +
         more;
}

// Of 32 heads in all: Llama's have keys each, Jamba's class has 8 of them.
TEST(ClassDefaults, AreWhatAFileLeavesOut) {
  EXPECT_EQ(read(of("llama")).more.at("kv_heads"), 32);
  EXPECT_EQ(read(of("smollm3")).more.at("tied"), 1);
  EXPECT_EQ(read(of("iquestcoder")).more.at("kv_heads"), 8);
  EXPECT_EQ(read(of("hy_v3", R"(, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8)"))
                .more.at("head_dim"),
            128);
}

// null is a word of its own: each head has its keys, and queries have no latent vector.
TEST(ClassDefaults, AreNotWhatAFileSaysIsNothing) {
  EXPECT_EQ(read(of("iquestcoder", R"(, "num_key_value_heads": null)")).more.at("kv_heads"), 32);
  const std::string latent = of("deepseek_v3", R"(, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2,
      "v_head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8)");
  EXPECT_EQ(read(latent).more.at("q_rank"), 1536);
  EXPECT_EQ(read(latent).more.at("dense_layers"), 3);
  EXPECT_EQ(read(latent).more.at("shared_intermediate"), 8);
  EXPECT_EQ(read(latent + R"(, "q_lora_rank": null)").more.at("q_rank"), 0);
}

TEST(ClassDefaults, OfRotationsAreForFilesThatSayNothingOfOne) {
  const std::string heads = R"(, "num_key_value_heads": 4)";
  EXPECT_EQ(read(of("cohere", heads)).factors.at("rotary_base"), 500000.0);
  EXPECT_EQ(read(of("cohere", heads + R"(, "rope_theta": 3000.0)")).factors.at("rotary_base"), 3000.0);
  EXPECT_EQ(read(of("cohere", heads + R"(, "rope_parameters": {"rope_type": "default"})")).factors.at("rotary_base"),
            10000.0);
}

TEST(ClassDefaults, OfATextPartAreThoseOfItsType) {
  const std::string text = of("iquestcoder");
  EXPECT_EQ(read(R"("model_type": "lighton_ocr", "text_config": {)" + text + "}").more.at("kv_heads"), 8);
}

// GLM-ASR's text is a Llama of 2048 where its file does not say how wide.
TEST(ClassDefaults, OfAWholeFileComeBeforeThoseOfItsTextPart) {
  const std::string text = R"("text_config": {"model_type": "llama", "num_hidden_layers": 1})";
  EXPECT_EQ(read(R"("model_type": "glmasr", )" + text).hidden, 2048);
  EXPECT_EQ(read(R"("model_type": "llava", )" + text).hidden, 4096);
}

// As Gemma 3 of 4 billion parameters is published: a text part says where it differs from its class alone.
TEST(ClassDefaults, AreTheSizesOfTextPartsThatSayWhereTheyDiffer) {
  const std::string text = R"("model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
      "intermediate_size": 10240, "num_hidden_layers": 2, "sliding_window": 1024, "rope_scaling": {"factor": 8.0,
      "rope_type": "linear"}}, "vision_config": {})";
  const std::int64_t attention = 2560 * (8 + 4 + 4) * 256 + 8 * 256 * 2560 + 2 * 256;
  EXPECT_EQ(parameters_of(text), 262208 * 2560 + 2 * (attention + 3 * 2560 * 10240 + 4 * 2560) + 2560);
  EXPECT_EQ(read(text).factors.at("rotary_base"), 1e6);
  EXPECT_EQ(read(text).factors.at("window_rotary_base"), 1e4);
}

std::int64_t tied(const std::string& type, const std::string& whole, const std::string& text) {
  const auto said = [](const std::string& word) {
    return word.empty() ? std::string() : R"(, "tie_word_embeddings": )" + word;
  };
  const std::string part = of("qwen2", R"(, "num_key_value_heads": 32)" + said(text));
  return read(R"("model_type": ")" + type + R"(", "text_config": {)" + part + "}" + said(whole)).more.at("tied");
}

// Of LLaVA and Qwen2-VL transformers takes the text part's word even where the whole file says no.
TEST(TiedHeads, AreWhatTheWholeFileSays) {
  for (const char* type : {"internvl", "llava", "qwen2_vl"}) {
    EXPECT_EQ(tied(type, "true", "false"), 1) << type;
    EXPECT_EQ(tied(type, "false", "false"), 0) << type;
    EXPECT_EQ(tied(type, "", "true"), 1) << type;
    EXPECT_EQ(tied(type, "", "false"), 0) << type;
  }
  EXPECT_EQ(tied("internvl", "false", "true"), 0);
  EXPECT_EQ(tied("llava", "false", "true"), 1);
  EXPECT_EQ(tied("qwen2_vl", "false", "true"), 1);
}

// Their classes in transformers tie nothing, whatever a file says.
TEST(TiedHeads, AreNotOfModelsThatHear) {
  for (const char* type : {"qwen2_audio", "voxtral"})
    for (const char* word : {"", "true", "false"}) EXPECT_EQ(tied(type, word, "true"), 0) << type << word;
}

TEST(TiedHeads, OfFamiliesThatShareTheTableAreNotUntied) {
  const std::string bart = R"("model_type": "bart", "vocab_size": 10, "d_model": 8, "encoder_layers": 1,
      "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16,
      "decoder_ffn_dim": 16, "max_position_embeddings": 8)";
  const std::string whole = R"("model_type": "florence2", "text_config": {)" + bart + "}";
  EXPECT_GT(parameters_of(whole), 0);
  EXPECT_TRUE(refused(whole + R"(, "tie_word_embeddings": false)", "'tie_word_embeddings' is false"));
}

}  // namespace
}  // namespace meshwright::hf_class_defaults_test
