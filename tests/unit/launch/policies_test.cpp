// SPDX-License-Identifier: Apache-2.0
// Models that verl and NeMo RL train, by Megatron-core or FSDP: degrees, mini-batches and what is left out.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/advise/trainer_setting_text.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::policies_test {
namespace {

LaunchReading read(std::vector<GivenFile> files, LaunchDevices devices = {1, 8}) {
  return read_launch(read_launch_text({.files = std::move(files)}), devices, {});
}
std::string refused(std::vector<GivenFile> files) {
  return refusal([&] { (void)read(std::move(files)); });
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
std::vector<std::string> unread(const LaunchReading& reading) {
  std::vector<std::string> names;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) names.push_back(setting.key);
  return names;
}

// --- verl ---

const std::string kActor =
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
    "data.max_prompt_length=1024 data.max_response_length=3072 actor_rollout_ref.model.path=$HOME/models/Qwen3-8B "
    "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.rollout.n=5 trainer.nnodes=2 "
    "trainer.n_gpus_per_node=8 actor_rollout_ref.rollout.tensor_model_parallel_size=4 ";
const std::string kByMegatron =
    kActor +
    "--config-name=ppo_megatron_trainer.yaml actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 "
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 ";

TEST(VerlActor, ByMegatronHasItsDegreesAndMiniBatch) {
  const LaunchReading reading = read({{"run.sh", kByMegatron}}, {2, 8});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.tp, 2);
  EXPECT_EQ(d.pp, 2);
  EXPECT_EQ(d.dp, 4);
  EXPECT_EQ(d.zero, 1);  // use_distributed_optimizer
  EXPECT_TRUE(d.sequence_parallel);
  EXPECT_EQ(reading.setup.global_batch(), 1280);  // 256 prompts x 5 answers
  EXPECT_EQ(d.micro_batch, 4);
  EXPECT_EQ(d.micro_batches, 80);  // 1280 / 4 replicas / 4
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.optimizer.weight_decay, 0.01);
  EXPECT_TRUE(says(reading.assumed, "an update of the actor on 1280 samples, of which an iteration has 4"));
  EXPECT_FALSE(reading.why_no_advice.empty());
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(VerlActor, HasTheHostsOfItsTrainer) {
  const LaunchText text = read_launch_text({.files = {{"run.sh", kByMegatron}}});
  EXPECT_EQ(text.hosts, 2);
  EXPECT_EQ(text.devices_per_host, 8);
  EXPECT_EQ(
      read_launch_text({.files = {{"run.sh", "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.x=1\n"}}}).hosts,
      1);
}

TEST(VerlActor, OverridesMegatronsTransformer) {
  const LaunchReading reading =
      read({{"run.sh", kByMegatron +
                           "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full "
                           "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform "
                           "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1 "
                           "actor_rollout_ref.actor.megatron.use_distributed_optimizer=False "
                           "actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=null "
                           "actor_rollout_ref.actor.optim.clip_grad=0.5\n"}},
           {2, 8});
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.degrees.zero, 0);
  EXPECT_EQ(reading.setup.degrees.chunks, 1);
  EXPECT_EQ(reading.setup.optimizer.max_norm, 0.5);
}

TEST(VerlActor, ByFsdpFillsMicroBatchesWithTokens) {
  const LaunchReading reading = read({{"run.sh", kActor + "actor_rollout_ref.actor.use_dynamic_bsz=True "
                                                          "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 "
                                                          "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 "
                                                          "actor_rollout_ref.actor.fsdp_config.param_offload=True\n"}},
                                     {2, 8});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.cp, 2);
  EXPECT_EQ(d.dp, 8);
  EXPECT_EQ(d.zero, 3);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(d.micro_batch, 4);     // 2 x 8192 tokens hold four samples of 4096
  EXPECT_EQ(d.micro_batches, 40);  // 1280 / 8 / 4
  EXPECT_EQ(reading.setup.offload, Offload::None);
  EXPECT_TRUE(says(reading.assumed, "to which each update brings them from the host"));
}

TEST(VerlActor, IsNoProgramWithAnEmptyWord) {
  EXPECT_NE(refused({{"run.sh", "torchrun --nproc_per_node 8 gpt_dynamic_inference.py --num-layers 12 \"\"\n"}})
                .find("the program does not train"),
            std::string::npos);
}

TEST(VerlActor, RefusesAdaptersAndNoMicroBatch) {
  EXPECT_NE(refused({{"run.sh", kByMegatron + "actor_rollout_ref.model.lora_rank=32\n"}}).find("adapters"),
            std::string::npos);
  EXPECT_NE(refused({{"run.sh", kActor}}).find("says no samples of a micro-batch"), std::string::npos);
}

TEST(Verl, TrainsOnGivenSamplesByMegatron) {
  const LaunchReading reading =
      read({{"run.sh",
             "torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer engine=megatron model.path=Qwen/Qwen3-8B "
             "data.train_batch_size=64 data.max_length=2048 data.use_dynamic_bsz=False data.micro_batch_size_per_gpu=2 "
             "engine.tensor_model_parallel_size=2 engine.pipeline_model_parallel_size=2\n"}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.tp, 2);
  EXPECT_EQ(d.pp, 2);
  EXPECT_EQ(d.dp, 2);
  EXPECT_EQ(d.micro_batch, 2);
  EXPECT_EQ(d.micro_batches, 16);
  EXPECT_TRUE(reading.why_no_advice.empty());
}

// --- NeMo RL ---

const std::string kSft =
    "sft:\n  max_num_steps: 60\npolicy:\n  model_name: meta-llama/Llama-3.1-8B\n  train_global_batch_size: 32\n"
    "  train_micro_batch_size: 1\n  max_total_sequence_length: 1024\n  precision: bfloat16\n  max_grad_norm: 1.0\n"
    "  dtensor_cfg:\n    enabled: true\n    tensor_parallel_size: 1\n    context_parallel_size: 1\n"
    "    activation_checkpointing: false\n  sequence_packing:\n    enabled: false\n"
    "    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}\n"
    "  megatron_cfg:\n    enabled: false\n    activation_checkpointing: false\n    tensor_model_parallel_size: 1\n"
    "    pipeline_model_parallel_size: 1\n    optimizer:\n      use_distributed_optimizer: true\n"
    "      clip_grad: ${policy.max_grad_norm}\ncluster:\n  gpus_per_node: 1\n  num_nodes: 1\n";
const std::string kOverIt =
    "defaults: ../sft.yaml\npolicy:\n  train_global_batch_size: 64\n  dtensor_cfg:\n    enabled: false\n"
    "  megatron_cfg:\n    enabled: true\n    activation_checkpointing: true\n    tensor_model_parallel_size: 4\n"
    "cluster:\n  gpus_per_node: 8\n";

TEST(NemoRl, SplitsThePolicyOverFsdp) {
  const LaunchReading reading = read({{"sft.yaml", kSft}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(reading.setup.target, "accelerate");
  EXPECT_EQ(d.zero, 3);
  EXPECT_EQ(d.dp, 8);
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(reading.setup.optimizer.max_norm, 1.0);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(NemoRl, IsReadWithTheFilesThatItStandsOver) {
  const LaunchText text = read_launch_text({.files = {{"big.yaml", kOverIt}, {"sft.yaml", kSft}}});
  EXPECT_EQ(text.devices_per_host, 8);
  const LaunchReading reading = read({{"big.yaml", kOverIt}, {"sft.yaml", kSft}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(reading.setup.target, "megatron");
  EXPECT_EQ(d.tp, 4);
  EXPECT_EQ(d.dp, 2);
  EXPECT_EQ(d.micro_batches, 32);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(d.zero, 1);
  EXPECT_NE(refused({{"big.yaml", kOverIt}}).find("is over the file '../sft.yaml'"), std::string::npos);
}

TEST(NemoRl, PacksSamplesAndLeavesOutDevicesThatMakeThem) {
  const std::string rewarded =
      "defaults: sft.yaml\ngrpo:\n  num_prompts_per_step: 64\n  num_generations_per_prompt: 32\npolicy:\n"
      "  train_global_batch_size: 512\n  sequence_packing:\n    enabled: true\n    train_mb_tokens: 4096\n"
      "  generation:\n    colocated:\n      enabled: false\n      resources:\n        num_nodes: 1\n"
      "        gpus_per_node: 8\ncluster:\n  num_nodes: 3\n  gpus_per_node: 8\n";
  const LaunchText text = read_launch_text({.files = {{"grpo.yaml", rewarded}, {"sft.yaml", kSft}}});
  EXPECT_EQ(text.hosts, 2);
  const LaunchReading reading = read_launch(text, {2, 8}, {});
  EXPECT_EQ(reading.setup.degrees.micro_batch, 4);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 8);  // 512 / 16 / 4
  EXPECT_TRUE(says(reading.assumed, "one of 4 updates of the policy, on 512 samples"));
}

TEST(NemoRl, RefusesPairsTeachersAndAdapters) {
  EXPECT_NE(refused({{"a.yaml", "dpo:\n  max_num_epochs: 1\n" + kSft}}).find("against further models"),
            std::string::npos);
  std::string quantised = kSft;
  quantised.insert(quantised.find("  dtensor_cfg"), "  quant_cfg: examples/nvfp4.yaml\n");
  EXPECT_NE(refused({{"a.yaml", quantised}}).find("a quantised model"), std::string::npos);
  std::string adapted = kSft;
  adapted.insert(adapted.find("    tensor_parallel_size"), "    lora_cfg:\n      enabled: true\n");
  EXPECT_NE(refused({{"a.yaml", adapted}}).find("adapters"), std::string::npos);
}

// What is advised stands in the words of the program, not in Megatron-LM's flags.
TEST(AdvisedWords, AreThoseOfEachProgram) {
  Degrees d;
  d.tp = 4;
  d.zero = 3;
  d.micro_batch = 2;
  d.micro_batches = 8;
  const auto words = [&](const char* dialect, LaunchProperty property) {
    return trainer_setting_text(dialect, property, d).value_or("(none)");
  };
  EXPECT_EQ(words("picotron", LaunchProperty::Tensor), "tp_size: 4");
  EXPECT_EQ(words("picotron", LaunchProperty::MicroBatch), "micro_batch_size: 2, gradient_accumulation_steps: 8");
  EXPECT_EQ(words("prime-rl", LaunchProperty::Zero), "model.reshard_after_forward = true");
  EXPECT_EQ(words("prime-rl", LaunchProperty::Recompute), "model.ac = \"None\"");
  EXPECT_EQ(words("nanochat", LaunchProperty::MicroBatch), "--device-batch-size=2");
  EXPECT_EQ(words("fast-llm", LaunchProperty::Zero), "model.multi_stage.zero_stage: 3");
  EXPECT_EQ(words("nemo-rl", LaunchProperty::Tensor), "policy.dtensor_cfg.tensor_parallel_size: 4");
  EXPECT_EQ(words("lingua", LaunchProperty::Recompute), "distributed.selective_activation_checkpointing: false");
  EXPECT_EQ(words("veomni", LaunchProperty::MicroBatch), "train.micro_batch_size: 2");
  EXPECT_EQ(words("levanter", LaunchProperty::Tensor), "trainer.model_axis_size: 4");
  EXPECT_EQ(words("llm.c", LaunchProperty::MicroBatch), "-b 2");
}

}  // namespace
}  // namespace meshwright::policies_test
