// SPDX-License-Identifier: Apache-2.0
// Programs over Hugging Face's Trainer, which accelerate, DeepSpeed or torchrun starts.
#include <gtest/gtest.h>

#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::trainer_arguments_test {
namespace {

LaunchReading read_files(std::vector<GivenFile> files) {
  return read_launch(read_launch_text({.files = std::move(files)}), {1, 8}, {});
}
LaunchReading read(const std::string& name, const std::string& text) { return read_files({{name, text}}); }
std::string refused(const std::string& name, const std::string& text) {
  return refusal([&] { (void)read(name, text); });
}

const std::string kTrainer =
    "train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 "
    "--gradient_accumulation_steps 4 --gradient_checkpointing true --bf16 True --max_seq_length 1024 ";

TEST(TrainerArguments, AreOfTheProgramThatAccelerateStarts) {
  const LaunchReading reading =
      read("run.sh",
           "accelerate launch --num_processes 8 --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP " + kTrainer + "\n");
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.dp, d.zero}), (std::vector<int>{8, 2}));
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(d.micro_batch, 2);
  EXPECT_EQ(reading.setup.global_batch(), 64);  // 2 samples x 4 x 8 replicas
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_EQ(reading.setup.model.seq, 1024);
}

TEST(TrainerArguments, FillInWhatDeepSpeedsFileLeavesToTheTrainer) {
  const LaunchReading reading =
      read_files({{"run.sh", "deepspeed --num_gpus 8 " + kTrainer + "--deepspeed ds.json\n"},
                  {"ds.json",
                   "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": \"auto\"},\n"
                   " \"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\",\n"
                   " \"gradient_accumulation_steps\": \"auto\"}\n"}});
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.global_batch(), 64);
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
}

TEST(TrainerArguments, MakeDeepSpeedsSettingsWithoutAFile) {
  const LaunchReading reading = read("run.sh", "deepspeed --num_gpus 8 " + kTrainer + "--deepspeed --zero_stage 2\n");
  EXPECT_EQ(reading.setup.degrees.zero, 2);
}

TEST(TrainerArguments, OfPreferencesAreRefused) {
  const std::string why = refused("run.sh",
                                  "accelerate launch --num_processes 8 scripts/dpo.py --model_name_or_path "
                                  "meta-llama/Llama-3.1-8B --per_device_train_batch_size 2\n");
  EXPECT_NE(why.find("dpo.py: trains with further models"), std::string::npos) << why;
}

TEST(TrainerArguments, WithFsdpNeedNoLauncherButTorchrun) {
  const auto zero = [](const std::string& flag) {
    return read("run.sh", "torchrun --nproc_per_node 8 " + kTrainer + flag + "\n").setup.degrees.zero;
  };
  EXPECT_EQ(zero("--fsdp \"full_shard auto_wrap\""), 3);
  EXPECT_EQ(zero("--fsdp \"shard_grad_op auto_wrap\""), 2);
  EXPECT_EQ(zero(""), 0);
}

TEST(TrainerArguments, StandInTheFileThatTheProgramNames) {
  const GivenFile launcher = {"zero3.yaml",
                              "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n"
                              "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"};
  const GivenFile program = {"sft.yaml",
                             "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 4\n"
                             "max_length: 512\ngradient_checkpointing: true\n"};
  const GivenFile script = {"run.sh",
                            "accelerate launch --config_file zero3.yaml sft.py --config sft.yaml "
                            "--gradient_accumulation_steps 2\n"};
  const LaunchReading started = read_files({script, launcher, program});
  EXPECT_EQ(started.setup.global_batch(), 64);
  EXPECT_EQ(started.setup.model.seq, 512);
  EXPECT_EQ(started.setup.degrees.zero, 3);
  const LaunchReading beside = read_files({launcher, program});
  EXPECT_EQ(beside.setup.global_batch(), 32);
  EXPECT_EQ(beside.setup.degrees.recompute, Recompute::Full);
}

TEST(TrainerArguments, OfAdaptersAreRefused) {
  const std::string launch = "accelerate launch --num_processes 8 " + kTrainer;
  EXPECT_NE(refused("run.sh", launch + "--use_peft\n").find("--use_peft: trains adapters"), std::string::npos);
  EXPECT_NE(refused("run.sh", launch + "--lora_rank 8\n").find("--lora_rank: trains adapters"), std::string::npos);
  EXPECT_EQ(refused("run.sh", launch + "--use_peft false\n"), "not refused");
}

}  // namespace
}  // namespace meshwright::trainer_arguments_test
