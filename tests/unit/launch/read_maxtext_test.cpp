// SPDX-License-Identifier: Apache-2.0
// Launch files of MaxText as jobs: axes of its mesh, and the rules that split arrays over them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "launch/read/launch_reading.h"
#include "launch/setup/launch_target.h"
#include "tests/refusal.h"

namespace meshwright::read_maxtext_test {
namespace {

LaunchReading read(const GivenFile& file, int hosts) {
  return read_launch(read_launch_text({.files = {file}}), {hosts, 8}, {});
}

TEST(ReadMaxtext, AxesWithinAndBetweenHosts) {
  const std::string words =
      "python3 -m maxtext.trainers.pre_train.train base.yml run_name=a ici_fsdp_parallelism=-1 "
      "ici_tensor_parallelism=2 "
      "dcn_data_parallelism=2 base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=4 base_num_decoder_layers=2 "
      "base_mlp_dim=128 "
      "head_dim=16 max_target_length=32 per_device_batch_size=1 global_parameter_scale=2 bad: word\n";
  const LaunchReading reading = read({"m.sh", words}, 2);
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(reading.setup.degrees.dp, 8);
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.model.heads, 8);  // twice, and the width as it is
  EXPECT_EQ(reading.setup.model.hidden, 64);
  EXPECT_EQ(reading.settings.count(Setting::State::Unread), 2);
}

constexpr const char* kMaxtextMixture =
    "base_emb_dim: 64\nbase_num_query_heads: 4\nbase_num_kv_heads: 4\nbase_num_decoder_layers: 2\nbase_mlp_dim: 128\n"
    "head_dim: 16\nmax_target_length: 32\nper_device_batch_size: 1\nnum_experts: 4\nnum_experts_per_tok: 2\n"
    "base_moe_mlp_dim: 128\ndecoder_block: mixtral\n";

LaunchReading read_maxtext(const std::string& keys) {
  return read({"m.yml", std::string("base_config: base.yml\n") + kMaxtextMixture + keys}, 1);
}

// models/llama2.py, mixtral.py: neither passes these on to its attention.
TEST(ReadMaxtext, BlocksWithoutBiasesTakeNoNoticeOfThem) {
  const LaunchReading plain = read_maxtext("attention_bias: true\n");
  EXPECT_EQ(plain.setup.model.more.at("qkv_bias"), 0);
  EXPECT_NE(std::find(plain.assumed.begin(), plain.assumed.end(),
                      "without attention_bias, which MaxText's block mixtral does not read"),
            plain.assumed.end());
  std::string biased = std::string("base_config: base.yml\n") + kMaxtextMixture + "attention_bias: true\n";
  biased.replace(biased.find("mixtral"), 7, "qwen2");
  biased.replace(biased.find("num_experts: 4"), 14, "num_experts: 1");
  EXPECT_EQ(read({"m.yml", biased}, 1).setup.model.more.at("qkv_bias"), 1);
}

TEST(ReadMaxtext, TheOptimizerIsTheFiles) {
  EXPECT_EQ(read_maxtext("opt_type: sgd\n").setup.optimizer.kind, Optimizer::Kind::Sgd);
  EXPECT_EQ(read_maxtext("opt_type: adam_pax\n").setup.optimizer.kind, Optimizer::Kind::Adam);
  const LaunchReading muon = read_maxtext("opt_type: muon\n");
  EXPECT_NE(std::find(muon.assumed.begin(), muon.assumed.end(), "Adam in the place of muon"), muon.assumed.end());
}

// base.yml splits 'embed' over fsdp, context and expert.
TEST(ReadMaxtext, WeightsAreSplitOverTheAxesOfExpertsAndOfTheContext) {
  EXPECT_EQ(method_text(read_maxtext("ici_expert_parallelism: 2\nici_tensor_parallelism: 4\n").setup.degrees),
            "megatron:tp=4,pp=1,ep=2,zero=3,exact=1");
  EXPECT_EQ(
      method_text(
          read_maxtext("ici_context_parallelism: 2\nici_data_parallelism: 4\nici_fsdp_parallelism: 1\n").setup.degrees),
      "megatron:tp=1,pp=1,cp=2,zero=3,exact=1");
  const LaunchReading partly =
      read_maxtext("ici_expert_parallelism: 2\nici_data_parallelism: 4\nici_fsdp_parallelism: 1\n");
  EXPECT_EQ(method_text(partly.setup.degrees), "megatron:tp=1,pp=1,ep=2,zero=3,exact=1");
  EXPECT_NE(std::find(partly.assumed.begin(), partly.assumed.end(),
                      "weights split over all 8 replicas, not over groups of 2"),
            partly.assumed.end());
}

TEST(ReadMaxtext, RulesOfTheFileAreInThePlaceOfThoseOfItsName) {
  const std::string mesh = "ici_expert_parallelism: 2\nici_data_parallelism: 4\nici_fsdp_parallelism: 1\n",
                    whole = "logical_axis_rules: [['embed', ['fsdp']], ['embed_vocab', 'fsdp']]\n";
  const LaunchReading reading = read_maxtext(mesh + whole);
  EXPECT_EQ(method_text(reading.setup.degrees), "megatron:tp=1,pp=1,ep=2,zero=0,exact=1");
  EXPECT_TRUE(std::none_of(reading.assumed.begin(), reading.assumed.end(),
                           [](const std::string& s) { return s.find("rules") != std::string::npos; }));
  const LaunchReading states = read_maxtext(mesh + whole + "shard_optimizer_over_data: true\n");
  EXPECT_EQ(states.setup.degrees.zero, 1);
  EXPECT_NE(
      std::find(states.assumed.begin(), states.assumed.end(), "states split over all 8 replicas, not over groups of 4"),
      states.assumed.end());
  EXPECT_TRUE(states.broken.empty());
  // Files of rules that come with it, and rules that replace all of base.yml.
  EXPECT_EQ(read_maxtext(mesh + "custom_mesh_and_rule: ep-as-dp\n").setup.degrees.zero, 0);
  EXPECT_EQ(read_maxtext(mesh + "override_logical_axis_rules: true\nlogical_axis_rules: [['exp', 'expert']]\n")
                .setup.degrees.zero,
            0);
  EXPECT_EQ(read_maxtext(mesh + "logical_axis_rules: [['exp', 'expert']]\n").setup.degrees.zero, 3);
  EXPECT_NE(refusal([&] { (void)read_maxtext(mesh + "logical_axis_rules: [['embed']]\n"); }).find("is no rule"),
            std::string::npos);
  EXPECT_NE(refusal([&] { (void)read_maxtext(mesh + "logical_axis_rules: embed\n"); }).find("a list of rules"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              (void)read_maxtext(
                  "ici_data_parallelism: 1048576\ndcn_data_parallelism: 1\n"
                  "ici_tensor_parallelism: 2\n");
            }).find("more than 1048576 devices"),
            std::string::npos);
}

// base.yml leaves ici_fsdp_parallelism, too.
TEST(ReadMaxtext, OneAxisOfAGroupMayBeWhatIsLeft) {
  EXPECT_EQ(read_maxtext("ici_expert_parallelism: -1\n").broken.front(),
            "ici axes fsdp and expert are both -1: one may be");
  EXPECT_TRUE(read_maxtext("ici_expert_parallelism: -1\nici_fsdp_parallelism: 2\n").broken.empty());
}

TEST(ReadMaxtext, CopiesOfGroupsThatSplitWeights) {
  const LaunchReading reading = read_maxtext("ici_fsdp_parallelism: 4\nici_data_parallelism: 2\n");
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.shard, 4);
}

TEST(ReadMaxtext, ContextsAreGatheredOrPassedInARing) {
  const std::string axes =
      "ici_context_parallelism: 2\nici_fsdp_parallelism: 4\nsharding_tolerance: 1.0\nuse_random_routing: true\n";
  EXPECT_EQ(read_maxtext(axes + "context_parallel_strategy: \"all_gather\"\n").setup.degrees.context,
            ContextExchange::AllGather);
  const LaunchReading ring = read_maxtext(axes + "context_parallel_strategy: \"ring\"\n");
  EXPECT_EQ(ring.setup.degrees.context, ContextExchange::PointToPoint);
  EXPECT_EQ(ring.settings.count(Setting::State::Unread), 0);
}

}  // namespace
}  // namespace meshwright::read_maxtext_test
