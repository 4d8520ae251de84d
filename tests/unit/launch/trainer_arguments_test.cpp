// SPDX-License-Identifier: Apache-2.0
// Programs over Hugging Face's Trainer, which accelerate, DeepSpeed or torchrun starts.
#include <gtest/gtest.h>

#include <algorithm>

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

// LLaVA's tower of images is frozen, and in no model of ours.
TEST(TrainerArguments, OfImagesAreLeftOutAndSaidToBe) {
  const std::string command = "accelerate launch --num_processes 8 --use_fsdp " + kTrainer;
  const std::string left_out = "the language model alone, without what reads images";
  const auto assumed = [](const LaunchReading& reading, const std::string& what) {
    return std::count(reading.assumed.begin(), reading.assumed.end(), what);
  };
  EXPECT_EQ(assumed(read("run.sh", command + "--vision_tower openai/clip-vit-large-patch14-336\n"), left_out), 1);
  EXPECT_EQ(assumed(read("run.sh", command + "\n"), left_out), 0);
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

// What modules' names come to (lora_targets): 0 all, 1 attention, 2 queries, keys and values, 3 queries and values.
TEST(TrainerArguments, OfAdaptersTrainThemAlone) {
  const std::string launch = "accelerate launch --num_processes 8 " + kTrainer;
  struct Case {
    const char* flags;
    std::int64_t rank, targets;
  };
  for (const auto& [flags, rank, targets] :
       {Case{"--use_peft", 16, 3}, Case{"--lora_rank 8", 8, 3}, Case{"--use_peft false", 0, 0}, Case{"", 0, 0},
        Case{"--use_peft --lora_r 32 --lora_target_modules q_proj k_proj v_proj", 32, 2},
        Case{"--use_lora True --lora_target_modules c_attn,attn.c_proj", 16, 1},
        Case{"--lora_r 4 --lora_target_modules all-linear", 4, 0},
        Case{"--lora_r 4 --lora_target_modules q_proj,down_proj", 4, 0},
        Case{"--lora_dim 128 --lora_module_name layers.", 128, 0}, Case{"--lora_dim 0", 0, 0},
        Case{"--finetuning_type lora", 8, 0}}) {
    const auto& more = read("run.sh", launch + flags + "\n").setup.model.more;
    EXPECT_EQ(more.at("lora_rank"), rank) << flags;
    EXPECT_EQ(more.at("lora_targets"), targets) << flags;
  }
  for (const char* quantised : {"--use_peft --load_in_4bit", "--use_qlora True", "--use_lora --q_lora True"})
    EXPECT_NE(refused("run.sh", launch + quantised + "\n").find("quantised"), std::string::npos) << quantised;
}

// BERT has none of them here.
TEST(TrainerArguments, OfAdaptersOfAModelWithoutThemAreRefused) {
  const std::string why = refused("run.sh",
                                  "accelerate launch --num_processes 8 sft.py --model_name_or_path bert-base "
                                  "--per_device_train_batch_size 2 --use_peft\n");
  EXPECT_NE(why.find("--use_peft: trains adapters, which models of family bert"), std::string::npos) << why;
}

TEST(TrainerArguments, OfOpenRlhfAreThoseOfEitherOfItsForms) {
  const LaunchReading older =
      read("run.sh",
           "read -r -d '' training <<EOF\nopenrlhf.cli.train_sft --pretrain meta-llama/Llama-3.1-8B --max_len 1024\n"
           "  --train_batch_size 256 --micro_train_batch_size 2 --zero_stage 3 --bf16 --gradient_checkpointing\nEOF\n"
           "deepspeed --num_gpus 8 --module $training\n");
  const LaunchReading newer =
      read("run.sh",
           "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --model.model_name_or_path meta-llama/Llama-3.1-8B "
           "--data.max_len 1024 --train.batch_size 256 --train.micro_batch_size 2 --ds.zero_stage 3 --ds.param_dtype "
           "bf16 --model.gradient_checkpointing_enable\n");
  for (const LaunchReading* reading : {&older, &newer}) {
    EXPECT_EQ(reading->setup.model.seq, 1024);
    EXPECT_EQ(reading->setup.global_batch(), 256);
    EXPECT_EQ(reading->setup.degrees.micro_batch, 2);
    EXPECT_EQ(reading->setup.degrees.zero, 3);
    EXPECT_EQ(reading->setup.degrees.recompute, Recompute::Full);
  }
  const std::string other =
      refused("run.sh", "deepspeed --num_gpus 8 --module openrlhf.cli.train_dpo --zero_stage 3\n");
  EXPECT_NE(other.find("only trainings of one model"), std::string::npos) << other;
}

TEST(TrainerArguments, SplitSequencesWhereTheProgramIsToldTo) {
  const auto reading = [](const std::string& flags) {
    return read("run.sh", "deepspeed --num_gpus 8 " + kTrainer + "--zero_stage 3 " + flags + "\n");
  };
  const LaunchReading split = reading("--sequence_parallel_size 4");
  EXPECT_EQ(split.setup.degrees.cp, 4);
  EXPECT_EQ(split.setup.degrees.dp, 2);
  EXPECT_EQ(split.setup.global_batch(), 16);  // 2 samples x 4 x 2 replicas
}

TEST(TrainerArguments, OfDegreesThatAreNotReadAreSaid) {
  const auto unread = [](const std::string& flags) {
    const LaunchReading reading =
        read("run.sh", "deepspeed --num_gpus 8 " + kTrainer + "--zero_stage 3 " + flags + "\n");
    return reading.settings.count(Setting::State::Unread);
  };
  EXPECT_EQ(unread("--my_tensor_parallel 2"), 1);
  EXPECT_EQ(unread("--my_tensor_parallel 1 --workers 4"), 0);
}

TEST(TrainerArguments, OfLlamaFactoryTrainAllWeightsOrAreRefused) {
  const auto of = [](const std::string& flags) {
    return "deepspeed --num_gpus 8 src/" + kTrainer + "--zero_stage 3 " + flags + "\n";
  };
  EXPECT_NE(refused("run.sh", of("--stage sft --finetuning_type freeze")).find("trains freeze"), std::string::npos);
  EXPECT_NE(refused("run.sh", of("--stage dpo --finetuning_type full")).find("further models"), std::string::npos);
  EXPECT_EQ(read("run.sh", of("--stage sft --finetuning_type full")).setup.degrees.zero, 3);
}

TEST(TrainerArguments, SayTheLengthOfSamplesThatNothingGives) {
  const auto said = [](const std::string& flags) {
    const LaunchReading reading = read("run.sh",
                                       "deepspeed --num_gpus 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B "
                                       "--per_device_train_batch_size 1 --zero_stage 3 " +
                                           flags + "\n");
    for (const std::string& one : reading.assumed)
      if (one.find("how long they are (--seq)") != std::string::npos) return true;
    return false;
  };
  EXPECT_TRUE(said(""));
  EXPECT_FALSE(said("--cutoff_len 4096"));
}

TEST(TrainerArguments, OfAMixtureDoNotStandForTheDenseModelOfItsName) {
  const std::string run = "deepspeed --num_gpus 8 train.py --per_device_train_batch_size 1 --zero_stage 3 ";
  EXPECT_NE(
      refused("run.sh", run + "--model_type llama_moe --model_name_or_path m/llama_7B-16Select4\n").find("has experts"),
      std::string::npos);
  EXPECT_NE(refused("run.sh", run + "--model_name_or_path m/llama_7B_MoE_16Select4\n").find("is not built in"),
            std::string::npos);
}

std::vector<std::string> unread(const LaunchReading& reading) {
  std::vector<std::string> names;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) names.push_back(setting.key);
  return names;
}
const std::string kFsdp = "accelerate launch --num_processes 8 --use_fsdp ";

// DeepSpeed's file among the arguments themselves, not of a launcher.
TEST(TrainerArguments, NameDeepSpeedsFileInAFileOfTheirs) {
  const std::string json =
      "{\"model_name_or_path\": \"bigscience/bloom-3b\", \"deepspeed\": \"./train_args/z3.json\", "
      "\"per_device_train_batch_size\": 1, \"gradient_accumulation_steps\": 16, \"max_seq_length\": 1024, "
      "\"gradient_checkpointing\": true, \"fp16\": true}";
  const std::string zero =
      "{\"zero_optimization\": {\"stage\": 3}, \"fp16\": {\"enabled\": \"auto\"}, "
      "\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\"}";
  const LaunchReading alone = read_files({{"sft.json", json}, {"train_args/z3.json", zero}});
  EXPECT_EQ(alone.setup.degrees.zero, 3);
  EXPECT_EQ(alone.setup.degrees.micro_batches, 16);
  EXPECT_EQ(alone.setup.dtype, DType::F16);
  EXPECT_NE(refused("sft.json", json).find("names DeepSpeed's file"), std::string::npos);
  const LaunchReading run = read_files({{"run.sh", "deepspeed --num_gpus 8 train.py --train_args_file sft.json\n"},
                                        {"sft.json", json},
                                        {"train_args/z3.json", zero}});
  EXPECT_EQ(run.setup.degrees.zero, 3);
  EXPECT_EQ(run.setup.degrees.micro_batches, 16);
  EXPECT_EQ(run.setup.model.name, "bloom-3b");
}

TEST(TrainerArguments, AreInAFileThatFollowsTheProgram) {
  const LaunchReading reading = read_files(
      {{"run.sh", "accelerate launch --num_processes 8 --use_fsdp run_sft.py recipes/sft.yaml\n"},
       {"recipes/sft.yaml",
        "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 2\n"
        "gradient_accumulation_steps: 2\ngradient_checkpointing: true\nbf16: true\nmax_seq_length: 4096\n"}});
  EXPECT_EQ(reading.setup.degrees.micro_batches, 2);
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.model.seq, 4096);
}

TEST(TrainerArguments, PromptsAndAnswersFollowOneAnother) {
  EXPECT_EQ(read("run.sh", kFsdp + std::string("train.py --model_name_or_path meta-llama/Llama-3.1-8B "
                                               "--per_device_train_batch_size 2 --source_max_len 16 "
                                               "--target_max_len 512\n"))
                .setup.model.seq,
            528);
}

TEST(TrainerArguments, AccumulationHasSeveralNames) {
  const std::string own = "train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 ";
  EXPECT_EQ(read("run.sh", kFsdp + own + "--gradient-accumulate-every 4\n").setup.degrees.micro_batches, 4);
  EXPECT_EQ(read("run.sh", kFsdp + own + "--accumulation_steps 4\n").setup.degrees.micro_batches, 4);
  // Another name is not passed over.
  EXPECT_EQ(unread(read("run.sh", kFsdp + own + "--my_accum 4\n")), (std::vector<std::string>{"program.my_accum"}));
  EXPECT_TRUE(unread(read("run.sh", kFsdp + own + "--my_accum 1 --packing true\n")).empty());
}

TEST(TrainerArguments, SplitsThatOnlyTheProgramKnowsAreNotPassedOver) {
  EXPECT_NE(refused("run.sh", kFsdp + kTrainer + "--parallel_mode zigzag_ring_attn\n").find("only the program knows"),
            std::string::npos);
  EXPECT_TRUE(unread(read("run.sh", kFsdp + kTrainer + "--parallel_mode data_parallel\n")).empty());
  EXPECT_EQ(unread(read("run.sh", kFsdp + kTrainer + "--parallel_style mine\n")),
            (std::vector<std::string>{"program.parallel_style"}));
}

TEST(TrainerArguments, TrainingsOfLowRankAreAdapters) {
  for (const char* flag : {"--low_rank_training True", "--lora_enable True"})
    EXPECT_GT(read("run.sh", kFsdp + kTrainer + flag + "\n").setup.model.more.at("lora_rank"), 0) << flag;
  EXPECT_TRUE(unread(read("run.sh", kFsdp + kTrainer + "--low_rank_training False\n")).empty());
}

}  // namespace
}  // namespace meshwright::trainer_arguments_test
