// SPDX-License-Identifier: Apache-2.0
// Experiments of Primus, which lay settings over the files of a model.
#include <gtest/gtest.h>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

namespace meshwright::primus_test {
namespace {

LaunchReading read_files(std::vector<GivenFile> files) {
  return read_launch(read_launch_text({.files = std::move(files)}), {1, 8}, {});
}
std::string refused(const std::string& text) {
  return refusal([&] { (void)read_files({{"run.yaml", text}}); });
}
std::vector<std::string> unread(const LaunchReading& reading) {
  std::vector<std::string> names;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) names.push_back(setting.key);
  return names;
}
std::int64_t parameters_of(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return parameter_count(build_forward_graph(reading.setup.model, options));
}

const std::string kPrimus =
    "work_group: amd\nmodules:\n  pre_trainer:\n    framework: megatron\n    model: ${PRIMUS_MODEL:llama}.yaml\n"
    "    overrides:\n      micro_batch_size: 2\n      global_batch_size: ${PRIMUS_GBS:64}\n      seq_length: 4096\n"
    "      tensor_model_parallel_size: 1\n      recompute_granularity: full\n      recompute_method: block\n"
    "      recompute_num_layers: 0\n";
const GivenFile kPrimusBase = {
    "base.yaml",
    "extends:\n  - language_model.yaml\nswiglu: true\nadd_bias_linear: false\nposition_embedding_type: rope\n"
    "normalization: RMSNorm\nuntie_embeddings_and_output_weights: true\ngroup_query_attention: true\n"};
const GivenFile kPrimusModel = {
    "llama.yaml",
    "extends:\n  - base.yaml\nnum_layers: 32\nhidden_size: 4096\nffn_hidden_size: 14336\nnum_attention_heads: 32\n"
    "num_query_groups: 8\ntokenizer_model: meta-llama/Llama-3.1-8B\n"};

TEST(Primus, LaysAnExperimentOverTheFilesOfItsModel) {
  const LaunchReading reading = read_files({{"run.yaml", kPrimus}, kPrimusModel, kPrimusBase});
  EXPECT_EQ(parameters_of(reading), 8'030'261'248);  // those of Llama 3.1 8B
  EXPECT_EQ(reading.setup.global_batch(), 64);
  EXPECT_EQ(reading.setup.degrees.zero, 1);                     // its distributed optimizer
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);  // of no layers
  EXPECT_FALSE(reading.setup.degrees.sequence_parallel);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  LaunchInput more{.files = {{"run.yaml", kPrimus}, kPrimusModel, kPrimusBase}};
  more.variables["PRIMUS_GBS"] = "128";
  EXPECT_EQ(read_launch(read_launch_text(more), {1, 8}, {}).setup.global_batch(), 128);
}

TEST(Primus, RefusesAModelWhoseFilesAreNotThere) {
  EXPECT_SAYS(refusal([&] { (void)read_files({{"run.yaml", kPrimus}, kPrimusModel}); }), "give them as further files");
  EXPECT_SAYS(refused("work_group: amd\nmodules:\n  sft_trainer:\n    framework: megatron\n"), "has no pre_trainer");
  GivenFile other = kPrimusBase;
  other.text += "model_type: diffusion\n";
  EXPECT_SAYS(refusal([&] { (void)read_files({{"run.yaml", kPrimus}, kPrimusModel, other}); }), "'diffusion'");
}

TEST(Primus, HasMambaLayersWhereItsModelIsOfThatType) {
  GivenFile mamba = kPrimusBase;
  mamba.text += "model_type: mamba\nmamba_num_groups: 8\n";
  EXPECT_EQ(read_files({{"run.yaml", kPrimus}, kPrimusModel, mamba}).setup.model.family, "hybrid");
}

TEST(Primus, FineTunesAllWeightsAsItTrainsThem) {
  std::string tuning = kPrimus;
  tuning.replace(tuning.find("pre_trainer"), 11, "post_trainer");
  const std::string stage = "      stage: sft\n      lora:\n        enabled: ";
  const LaunchReading reading = read_files({{"run.yaml", tuning + stage + "false\n"}, kPrimusModel, kPrimusBase});
  EXPECT_EQ(parameters_of(reading), 8'030'261'248);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  const std::string ranks = "true\n        dim: 8\n        target_modules: [linear_qkv]\n";
  const LaunchReading tuned = read_files({{"run.yaml", tuning + stage + ranks}, kPrimusModel, kPrimusBase});
  EXPECT_EQ(tuned.setup.model.more.at("lora_rank"), 8);
  EXPECT_EQ(tuned.setup.model.more.at("lora_targets"), 2);  // queries, keys and values
}

}  // namespace
}  // namespace meshwright::primus_test
