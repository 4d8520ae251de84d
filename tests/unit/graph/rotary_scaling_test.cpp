// SPDX-License-Identifier: Apache-2.0
// Scaled rotations: the frequencies of each kind, computed by hand, and what files say of them.
#include "core/graph/models/parts/rotary_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright::rotary_scaling_test {
namespace {

using Kind = RotaryScaling::Kind;
using Numbers = std::vector<double>;

constexpr double kTurn = 2.0 * std::numbers::pi;

void expect_divisors(const RotaryScaling& scaling, std::int64_t seq, const Numbers& expected) {
  // Base 10000 and 8 dimensions: the pairs turn by 1, 0.1, 0.01 and 0.001 a position.
  const Numbers found = rotary_divisors(scaling, 10000.0, 8, seq);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 1e-12 * expected[j]) << j;
}

TEST(RotaryScaling, LinearSlowsAllPairsDown) {
  expect_divisors({.kind = Kind::Linear, .factor = 4.0}, 8, {4.0, 4.0, 4.0, 4.0});
}

// Twice the length and a factor of 3 stretch the base by 3 * 2 - 2 = 4, to the power of 8 / 6.
TEST(RotaryScaling, DynamicRaisesTheBaseOfLongSequencesAlone) {
  const RotaryScaling scaling{.kind = Kind::Dynamic, .factor = 3.0, .original = 100.0};
  expect_divisors(scaling, 100, {1.0, 1.0, 1.0, 1.0});
  expect_divisors(scaling, 200, {1.0, std::pow(4.0, 1.0 / 3.0), std::pow(4.0, 2.0 / 3.0), 4.0});
}

// In 20 turns of one radian a position: the pairs make 20, 2, 0.2 and 0.02. Two turns are a third of the way from 1 to
// 4, and 1/3 + 2/3 of a quarter is a half.
TEST(RotaryScaling, Llama3SlowsSlowPairsDown) {
  expect_divisors({.kind = Kind::Llama3, .factor = 4.0, .original = 20.0 * kTurn, .low = 1.0, .high = 4.0}, 8,
                  {1.0, 2.0, 4.0, 4.0});
}

// Pair 0 makes 100 turns and pair 2 makes one: halfway between them, half of the speed and half of a quarter of it are
// five eighths. With ends between the pairs, from 0.5 to 1.5, pair 1 is halfway too; rounded outwards, they are 0
// and 2.
TEST(RotaryScaling, YarnSlowsPairsDownByTheirNumber) {
  RotaryScaling scaling{.kind = Kind::Yarn, .factor = 4.0, .original = 100.0 * kTurn, .low = 1.0, .high = 100.0};
  scaling.whole_pairs = false;
  expect_divisors(scaling, 8, {1.0, 1.6, 4.0, 4.0});
  scaling.low = std::sqrt(10.0);
  scaling.high = 10.0 * std::sqrt(10.0);
  expect_divisors(scaling, 8, {1.0, 1.6, 4.0, 4.0});
  scaling.low = 1.0;
  scaling.high = 10.0;
  expect_divisors(scaling, 8, {1.0, 1.0, 4.0, 4.0});
  // A little more than pairs 1 and 2: rounded outwards, 1 and 3, halfway between which is 2.
  scaling.low = 0.9;
  scaling.high = 9.0;
  scaling.whole_pairs = true;
  expect_divisors(scaling, 8, {1.0, 1.0, 1.6, 4.0});
}

TEST(RotaryScaling, LongropeHasListsForShortAndForLongSequences) {
  const RotaryScaling scaling{
      .kind = Kind::Longrope, .original = 100.0, .near = {1.0, 1.0, 1.0, 2.0}, .far = {1.0, 2.0, 4.0, 8.0}};
  expect_divisors(scaling, 100, {1.0, 1.0, 1.0, 2.0});
  expect_divisors(scaling, 101, {1.0, 2.0, 4.0, 8.0});
}

TEST(RotaryScaling, ComesBackFromItsText) {
  const RotaryScaling scaling{.kind = Kind::Longrope,
                              .factor = 2.0,
                              .original = 3.0,
                              .low = 4.0,
                              .high = 5.0,
                              .whole_pairs = false,
                              .near = {6.0},
                              .far = {7.0},
                              .amplitude = 8.0,
                              .score_scale = 9.0,
                              .in_windowed_layers = false};
  EXPECT_EQ(rotary_scaling_from_json(to_json(scaling), "here"), scaling);
}

// --- config.json ---

constexpr const char* kLlama =
    R"("model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
       "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 64)";

RotaryScaling scaling_of(const std::string& text) {
  return model_from_hf_text("{" + text + "}", "m", "config.json")
      .rotary_scaling.value_or(RotaryScaling{.factor = -1.0});
}

// What Llama 3.1 publishes.
TEST(HfRotaryScaling, ReadsLlama31) {
  const RotaryScaling scaling = scaling_of(
      std::string(kLlama) + R"(, "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})");
  EXPECT_EQ(scaling, (RotaryScaling{.kind = Kind::Llama3, .factor = 8.0, .original = 8192.0, .low = 1.0, .high = 4.0}));
}

// DeepSeek-V3 publishes mscale 1 for both: rotated parts keep their length, and scores grow by (0.1 ln 40 + 1)^2.
TEST(HfRotaryScaling, ReadsDeepSeekV3) {
  const std::string latent =
      R"("model_type": "deepseek_v3", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64, "vocab_size": 64, "q_lora_rank": 16, "kv_lora_rank": 8,
         "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 24, "n_shared_experts": 1, "first_k_dense_replace": 1, "rope_scaling": {"beta_fast": 32,
         "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
         "type": "yarn"})";
  const RotaryScaling scaling = scaling_of(latent);
  EXPECT_EQ(scaling.kind, Kind::Yarn);
  EXPECT_EQ(scaling.original, 4096.0);
  EXPECT_EQ(scaling.amplitude, 1.0);
  EXPECT_NEAR(scaling.score_scale, 1.87385, 1e-5);
}

// gpt-oss says nothing in files of its own defaults: a factor of 32, and 0.1 ln 32 + 1.
TEST(HfRotaryScaling, KnowsWhatGptOssMeansWithoutIt) {
  const RotaryScaling scaling = scaling_of(
      R"("model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 64,
         "num_local_experts": 4, "num_experts_per_tok": 2)");
  EXPECT_EQ(scaling.factor, 32.0);
  EXPECT_FALSE(scaling.whole_pairs);
  EXPECT_NEAR(scaling.amplitude, 1.3466, 5e-5);
}

// The base layers of Olmo 3 have windows and rotate plainly, in old files and in new ones.
TEST(HfRotaryScaling, IsOfTheLayersThatTheFileMeans) {
  const std::string olmo3 =
      R"("model_type": "olmo3", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 64,
         "sliding_window": 16)";
  const std::string yarn = R"({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8})";
  for (const std::string& more :
       {R"(, "rope_scaling": )" + yarn,
        R"(, "rope_parameters": {"sliding_attention": {"rope_type": "default"}, "full_attention": )" + yarn + "}"}) {
    const ModelConfig model = model_from_hf_text("{" + olmo3 + more + "}", "m", "config.json");
    int plain = 0, scaled = 0;
    const Graph graph = build_forward_graph(model, {.batch = 1, .dtype = DType::F32});
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::Rotary) ++(op.attributes.rotary_divisors.empty() ? plain : scaled);
    EXPECT_EQ(plain, 2 * 3);
    EXPECT_EQ(scaled, 2 * 1);
  }
}

TEST(HfRotaryScaling, RefusesWhatMakesNoRotation) {
  const auto refusal = [](const std::string& scaling) {
    try {
      (void)scaling_of(std::string(kLlama) + R"(, "rope_scaling": )" + scaling);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(R"({"rope_type": "linear"})").find("has no 'factor'"), std::string::npos);
  EXPECT_NE(refusal(R"({"rope_type": "linear", "factor": -2.0})").find("factor"), std::string::npos);
  EXPECT_NE(refusal(R"({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]})")
                .find("has 1 factors; give one for each of the 4 pairs"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0})")
                .find("give a low_freq_factor of at most"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::rotary_scaling_test
