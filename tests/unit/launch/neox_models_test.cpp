// SPDX-License-Identifier: Apache-2.0
// The models that GPT-NeoX's files describe. Numbers of parameters are those that the models' makers publish.
#include <gtest/gtest.h>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::neox_models_test {
namespace {

LaunchReading read(const std::string& name, const std::string& text, const LaunchAnswers& answers = {}) {
  return read_launch(read_launch_text({.files = {{name, text}}}), {1, 8}, answers);
}
double billions(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return static_cast<double>(parameter_count(build_forward_graph(reading.setup.model, options))) * 1e-9;
}

std::string neox(const std::string& more) {
  return "{\"num_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32, \"seq_length\": 4096,\n"
         "\"max_position_embeddings\": 4096, \"pos_emb\": \"rotary\", \"no_weight_tying\": true, \"norm\": "
         "\"rmsnorm\",\n"
         "\"use_bias_in_mlp\": false, \"train_micro_batch_size_per_gpu\": 1, \"make_vocab_size_divisible_by\": 1,\n"
         "\"model_parallel_size\": 1, \"pipe_parallel_size\": 1, " +
         more + "}\n";
}

// Llama 2 7B: 6.74 billion parameters, gated layers of 11,008: a third of 32768 is 10922, rounded up to a multiple of
// 256.
TEST(NeoxModels, AGatedLayerHasAThirdOfItsWidthRoundedUp) {
  const LaunchReading reading =
      read("llama.yml", neox("\"activation\": \"swiglu\", \"intermediate_size\": 32768, \"mlp_multiple_of\": 256"),
           {.vocab = 32000});
  EXPECT_EQ(reading.setup.model.more.at("intermediate"), 11008);
  EXPECT_NEAR(billions(reading), 6.74, 0.01);
}

// Mamba 130M has 129.1 million parameters, its head being the word table (its publishers' config: 24 layers of 768).
TEST(NeoxModels, LayersOfMambaAreTheFirstMamba) {
  const std::string file =
      "{\"num_layers\": 24, \"hidden_size\": 768, \"num_attention_heads\": 12, \"seq_length\": 2048, \"norm\": "
      "\"rmsnorm\", \"pipe_parallel_size\": 0,\n\"train_micro_batch_size_per_gpu\": 1, "
      "\"make_vocab_size_divisible_by\": 1, "
      "\"attention_config\": ";
  for (const char* layers : {"[[[\"mamba\"], 24]]", "[[[\"mamba\"], \"all\"]]"}) {
    const LaunchReading reading = read("mamba.yml", file + layers + "}\n", {.vocab = 50280});
    EXPECT_EQ(reading.setup.model.family, "hybrid");
    EXPECT_NEAR(billions(reading), 0.1291, 0.0001);
  }
  // Others beside them are in no model of ours.
  const std::string why = refusal([&] { (void)read("mamba.yml", file + "[[[\"mamba\", \"global\"], 12]]}\n"); });
  EXPECT_NE(why.find("'mamba'"), std::string::npos) << why;
}

TEST(NeoxModels, LayersWithoutAttentionAreRefused) {
  const std::string why = refusal([] { (void)read("rwkv.yml", neox("\"attention_config\": [[[\"rwkv\"], 32]]")); });
  EXPECT_NE(why.find("'rwkv'"), std::string::npos) << why;
}

TEST(NeoxModels, OfPreferencesAreRefused) {
  const std::string why = refusal([] { (void)read("dpo.yml", neox("\"train_impl\": \"dpo\"")); });
  EXPECT_NE(why.find("train_impl: trains by dpo"), std::string::npos) << why;
  EXPECT_EQ(read("normal.yml", neox("\"train_impl\": \"normal\"")).setup.model.layers, 32);
}

TEST(NeoxModels, AKeyAloneInAMapHasNoValue) {
  EXPECT_EQ(read("comet.yml", neox("\"comet_others\": {\"tag\"}")).setup.model.layers, 32);
}

}  // namespace
}  // namespace meshwright::neox_models_test
