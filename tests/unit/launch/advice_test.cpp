// SPDX-License-Identifier: Apache-2.0
// The order of advice, with steps that are made up.
#include <gtest/gtest.h>

#include "launch/advise/advice.h"

namespace meshwright::advice_test {
namespace {

LaunchSetup job(int tp, int pp, std::int64_t micro_batch) {
  LaunchSetup setup{.target = "megatron"};
  setup.model = find_builtin_model("llama:layers=8,hidden=64,heads=8,kv_heads=8,intermediate=128,seq=32,vocab=128");
  setup.devices_per_host = 8;
  setup.batch = 64;
  setup.degrees = {.dp = 8 / (tp * pp), .tp = tp, .pp = pp};
  setup.degrees.micro_batch = micro_batch;
  setup.degrees.micro_batches = 64 / (setup.degrees.dp * micro_batch);
  return setup;
}
Degrees best() {
  Degrees degrees = job(1, 2, 4).degrees;
  degrees.zero = 1;
  return degrees;
}

// 100 s for tp, 10 for pp, 1 for small micro-batches; memory by tp.
LaunchOutcome judge(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  return {Seconds(100.0 * d.tp + 10.0 * d.pp + (d.micro_batch == 4 ? 0.0 : 1.0)), Bytes(8.0 / d.tp), Bytes(8.0)};
}

TEST(Advice, EveryRowIsOneChangeAndTheLastIsTheBest) {
  const Advice advice = advise(job(4, 2, 1), best(), find_framework("megatron"), judge);
  EXPECT_EQ(advice.now.step, Seconds(421));
  ASSERT_EQ(advice.rows.size(), 3u);
  EXPECT_EQ(advice.rows[0].changes[0].from, "--tensor-model-parallel-size 4");
  EXPECT_EQ(advice.rows[0].changes[0].to, "--tensor-model-parallel-size 1");
  EXPECT_EQ(advice.rows[0].changes[0].alone.step, Seconds(121));
  EXPECT_EQ(advice.rows[1].changes[0].to, "--micro-batch-size 4");
  EXPECT_EQ(advice.rows[1].after.step, Seconds(120));
  EXPECT_EQ(advice.rows[2].changes[0].to, "--use-distributed-optimizer");
  EXPECT_EQ(advice.rows[2].after.step, Seconds(120));
}

// tp=3 and pp=3 cannot be launched on eight devices: neither change works without the other.
TEST(Advice, ChangesThatOnlyWorkTogetherAreOneRow) {
  LaunchSetup now = job(1, 1, 1);
  now.degrees.tp = 3;
  now.degrees.pp = 3;
  now.degrees.dp = 1;
  const Advice advice = advise(now, best(), find_framework("megatron"), judge);
  ASSERT_FALSE(advice.rows.empty());
  EXPECT_EQ(advice.rows[0].changes.size(), 2u);
  EXPECT_FALSE(advice.rows[0].changes[0].launchable);
}

// Experts over the replicas lie over the ranks of the context then, for which Megatron-LM has no flag.
TEST(Advice, AChangeWithoutWordsIsPartOfThatBesideIt) {
  LaunchSetup now = job(1, 1, 1);
  now.model = find_builtin_model(
      "mixtral:layers=8,hidden=64,heads=8,kv_heads=8,intermediate=128,seq=32,vocab=128,experts=8,top_k=2");
  now.degrees.ep = 8;
  Degrees last = now.degrees;
  last.dp = 1;
  last.cp = 8;
  last.folded_experts = true;
  last.micro_batches = 64;
  const LaunchJudge folded = [](const LaunchSetup& setup) {
    const Degrees& d = setup.degrees;
    return (d.cp == 8) == d.folded_experts ? judge(setup) : LaunchOutcome{};
  };
  const Advice advice = advise(now, last, find_framework("megatron"), folded);
  ASSERT_EQ(advice.rows.size(), 1u);
  ASSERT_EQ(advice.rows[0].changes.size(), 1u);
  EXPECT_EQ(advice.rows[0].changes[0].from.substr(0, 25), "--context-parallel-size 1");
}

TEST(Advice, WhatFitsComesFirst) {
  const LaunchJudge small = [](const LaunchSetup& setup) {
    LaunchOutcome outcome = judge(setup);
    outcome.usable = Bytes(setup.degrees.zero == 1 ? 8.0 : 7.0);  // tp=1 fits with ZeRO alone
    return outcome;
  };
  const Advice advice = advise(job(4, 2, 4), best(), find_framework("megatron"), small);
  ASSERT_EQ(advice.rows.size(), 2u);
  EXPECT_EQ(advice.rows[0].changes[0].to, "--use-distributed-optimizer");
  EXPECT_TRUE(advice.rows[0].after.fits());
  EXPECT_EQ(advice.rows[1].changes[0].to, "--tensor-model-parallel-size 1");
}

TEST(Advice, SettingsAreInTheWordsOfTheFramework) {
  Degrees degrees = job(2, 4, 1).degrees;
  degrees.zero = 3;
  EXPECT_EQ(setting_text("torchtitan", LaunchProperty::Tensor, degrees), "parallelism.tensor_parallel_degree = 2");
  EXPECT_EQ(setting_text("deepspeed", LaunchProperty::Zero, degrees), "zero_optimization.stage: 3");
  EXPECT_EQ(setting_text("megatron-deepspeed", LaunchProperty::Zero, degrees), "zero_optimization.stage: 3");
  Degrees accumulated;  // the batch of a step stays, whatever is a replica's at once
  accumulated.dp = 4;
  accumulated.micro_batch = 2;
  accumulated.micro_batches = 8;
  EXPECT_EQ(setting_text("torchtitan", LaunchProperty::MicroBatch, accumulated),
            "training.local_batch_size = 2, training.global_batch_size = 64");
  EXPECT_EQ(setting_text("megatron-bridge", LaunchProperty::Pipeline, degrees), "model.pipeline_model_parallel_size=4");
  EXPECT_EQ(setting_text("flagscale", LaunchProperty::Pipeline, degrees), "pipeline_model_parallel_size: 4");
  EXPECT_EQ(setting_text("accelerate", LaunchProperty::Tensor, degrees), "parallelism_config_tp_size: 2");
  EXPECT_EQ(setting_text("fsdp2", LaunchProperty::Zero, degrees), "ZERO = 3");
}

// Between kinds of splitting the kind is said, too.
TEST(Advice, AcceleratesStatesAreSplitByFsdp) {
  Degrees degrees;
  const auto zero = [&](int level) {
    degrees.zero = level;
    return setting_text("accelerate", LaunchProperty::Zero, degrees);
  };
  EXPECT_EQ(zero(0), "distributed_type: MULTI_GPU");
  EXPECT_EQ(zero(2), "distributed_type: FSDP with fsdp_reshard_after_forward: false");
  EXPECT_EQ(zero(3), "distributed_type: FSDP with fsdp_reshard_after_forward: true");
  degrees.zero = 0;
  EXPECT_EQ(setting_text("accelerate", LaunchProperty::Recompute, degrees), "gradient_checkpointing: false");
}

// 8 layers over 4 stages: torchtitan counts the embedding and the loss as layers, 2, 3, 2 and 1, unless it is told.
TEST(Advice, LayersOfTorchtitansStagesAreSaid) {
  LaunchSetup setup = job(1, 4, 1);
  setup.target = "torchtitan";
  setup.model.layers = 8;
  setup.stage_blocks = {2, 3, 2, 1};
  EXPECT_EQ(torchtitan_stages_text(setup), "");
  setup.stage_blocks = {2, 2, 2, 2};
  EXPECT_EQ(torchtitan_stages_text(setup),
            "parallelism.pipeline_parallel_first_stage_less_layers = 0, "
            "parallelism.pipeline_parallel_last_stage_less_layers = 0");
  setup.stage_blocks = {1, 3, 3, 1};
  EXPECT_EQ(torchtitan_stages_text(setup), "parallelism.module_fqns_per_model_part with 1, 3, 3, 1 layers");
  // A row that changes nothing but these says them.
  setup.stage_blocks = {2, 3, 2, 1};
  Degrees even = setup.degrees;
  const auto judged = [](const LaunchSetup& one) {
    return LaunchOutcome{Seconds(one.stage_blocks.empty() ? 1.0 : 2.0), Bytes(1.0), Bytes(8.0)};
  };
  const Advice advice = advise(setup, even, find_framework("torchtitan"), judged);
  ASSERT_EQ(advice.rows.size(), 1u);
  EXPECT_EQ(advice.rows[0].changes[0].to,
            "parallelism.pipeline_parallel_first_stage_less_layers = 0, "
            "parallelism.pipeline_parallel_last_stage_less_layers = 0");
}

TEST(Advice, GroupsThatGoAreSaid) {
  LaunchSetup now = job(1, 1, 4);
  now.target = "torchtitan";
  now.degrees.zero = 3;
  now.shard = 4;
  Degrees whole = now.degrees;
  const auto judged = [](const LaunchSetup& setup) {
    return LaunchOutcome{Seconds(setup.shard ? 2.0 : 1.0), Bytes(1.0), Bytes(8.0)};
  };
  const Advice advice = advise(now, whole, find_framework("torchtitan"), judged);
  ASSERT_EQ(advice.rows.size(), 1u);
  EXPECT_EQ(advice.rows[0].changes[0].from,
            "parallelism.data_parallel_replicate_degree = 2, parallelism.data_parallel_shard_degree = 4");
  EXPECT_EQ(advice.rows[0].changes[0].to,
            "parallelism.data_parallel_replicate_degree = 1, parallelism.data_parallel_shard_degree = -1");
}

TEST(Advice, RecomputationIsNamedAsTheFileNamesIt) {
  LaunchSetup now = job(1, 1, 4);
  now.degrees.recompute = Recompute::Selective;
  now.own_recompute = "--recompute-activations";
  Degrees none = now.degrees;
  none.recompute = Recompute::None;
  const auto judged = [](const LaunchSetup& setup) {
    return LaunchOutcome{Seconds(setup.degrees.recompute == Recompute::None ? 1.0 : 2.0), Bytes(1.0), Bytes(8.0)};
  };
  const Advice advice = advise(now, none, find_framework("megatron"), judged);
  ASSERT_EQ(advice.rows.size(), 1u);
  EXPECT_EQ(advice.rows[0].changes[0].from, "--recompute-activations");
}

// A row is what the file has to say then: with stages, torchtitan's batch of a replica is that of all its
// micro-batches.
TEST(Advice, ARowChangesWhatKeepsTheBatch) {
  LaunchSetup now = job(1, 1, 4);
  now.target = "torchtitan";
  now.batch = 64;
  Degrees staged = now.degrees;
  staged.pp = 2;
  staged.dp = 4;
  staged.micro_batches = 4;
  const auto judged = [](const LaunchSetup& setup) {
    return LaunchOutcome{Seconds(setup.degrees.pp == 2 ? 1.0 : 2.0), Bytes(1.0), Bytes(8.0)};
  };
  const Advice advice = advise(now, staged, find_framework("torchtitan"), judged);
  ASSERT_EQ(advice.rows.size(), 1u);
  EXPECT_EQ(advice.rows[0].changes[0].from,
            "parallelism.pipeline_parallel_degree = 1, training.local_batch_size = 4, training.global_batch_size = 64");
  EXPECT_EQ(advice.rows[0].changes[0].to,
            "parallelism.pipeline_parallel_degree = 2, training.local_batch_size = 16, "
            "parallelism.pipeline_parallel_microbatch_size = 4");
}

TEST(Advice, MicroBatchesOfMaxtextFollowFromItsAccumulation) {
  LaunchSetup now = job(1, 1, 4);
  now.target = "maxtext";
  ASSERT_EQ(now.degrees.micro_batches, 2);  // of 4 samples on each of 8 replicas
  Degrees split = now.degrees;
  split.tp = 2;
  split.dp = 4;
  split.micro_batch = 8;
  std::int64_t judged_last = 0;
  const auto judged = [&](const LaunchSetup& setup) {
    judged_last = setup.degrees.micro_batch;
    return LaunchOutcome{Seconds(setup.degrees.tp == 2 ? 1.0 : 2.0), Bytes(1.0), Bytes(8.0)};
  };
  const Advice advice = advise(now, split, find_framework("maxtext"), judged);
  ASSERT_EQ(advice.rows.size(), 1u);
  EXPECT_EQ(advice.rows[0].changes[0].from, "ici_tensor_parallelism=1 ici_data_parallelism=8");
  EXPECT_EQ(advice.rows[0].changes[0].to, "ici_tensor_parallelism=2 ici_data_parallelism=4");
  EXPECT_EQ(judged_last, 8);
}

// An axis that does not fit into a host goes on between the hosts.
TEST(Advice, AxesOfMaxtextLieWithinAndBetweenHosts) {
  LaunchSetup one = job(1, 1, 4), other = one;
  one.hosts = other.hosts = 2;
  one.degrees.dp = 16;
  other.degrees.dp = 2;
  other.degrees.tp = 2;
  other.degrees.cp = 8 / 2;
  EXPECT_EQ(maxtext_axes_text(one, other), "ici_tensor_parallelism=1 ici_context_parallelism=1 ici_data_parallelism=8");
  EXPECT_EQ(maxtext_axes_text(other, one), "ici_tensor_parallelism=2 ici_context_parallelism=4 ici_data_parallelism=1");
  other.degrees.cp = 8;
  other.degrees.dp = 1;
  EXPECT_EQ(maxtext_axes_text(other, one),
            "ici_tensor_parallelism=2 ici_context_parallelism=4 dcn_context_parallelism=2 ici_data_parallelism=1 "
            "dcn_data_parallelism=1");
}

// Trainers that split no tensors are searched without them, and their settings are written as they write them.
TEST(Advice, IsInTheWordsOfTrainers) {
  Degrees degrees;
  degrees.dp = 4;
  degrees.cp = 2;
  degrees.zero = 3;
  degrees.micro_batch = 2;
  degrees.micro_batches = 3;
  const auto text = [&](const char* dialect, LaunchProperty property) {
    return setting_text(dialect, property, degrees);
  };
  EXPECT_EQ(text("verl", LaunchProperty::Context), "ulysses_sequence_parallel_size=2");
  EXPECT_EQ(text("torchtune", LaunchProperty::Zero), "fsdp_reshard_after_forward: true");
  EXPECT_EQ(text("nanogpt", LaunchProperty::MicroBatch), "batch_size = 2, gradient_accumulation_steps = 12");
  EXPECT_EQ(text("litgpt", LaunchProperty::MicroBatch), "train.micro_batch_size: 2");
  EXPECT_EQ(text("litgpt", LaunchProperty::Tensor), "");
  EXPECT_EQ(text("llm-foundry", LaunchProperty::Zero), "fsdp_config.sharding_strategy: FULL_SHARD");
  EXPECT_EQ(text("automodel", LaunchProperty::Recompute), "distributed.activation_checkpointing: false");
}

TEST(Advice, FrameworksWithoutTensorParallelismLaunchNone) {
  Framework framework = find_framework("fsdp");
  framework.tensors = false;
  const ModelShape shape = shape_of(find_builtin_model("llama-7b"));
  Degrees degrees;
  degrees.dp = 8;
  degrees.zero = 3;
  EXPECT_TRUE(broken_rules(framework, shape, degrees).empty());
  degrees.dp = 4;
  degrees.tp = 2;
  EXPECT_EQ(broken_rules(framework, shape, degrees), (std::vector<std::string>{"fsdp splits no tensors (tp=2)"}));
}

}  // namespace
}  // namespace meshwright::advice_test
