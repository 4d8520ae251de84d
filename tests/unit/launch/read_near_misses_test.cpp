// SPDX-License-Identifier: Apache-2.0
// Files that look like those of a framework and train something else, and settings in files that those name.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_near_misses_test {
namespace {

LaunchReading read(std::vector<GivenFile> files, const LaunchAnswers& answers = {}) {
  return read_launch(read_launch_text({.files = std::move(files)}), {1, 8}, answers);
}
std::string refused(std::vector<GivenFile> files) {
  return refusal([&] { (void)read(std::move(files)); });
}
bool holds(const std::string& sentence, std::string_view part) { return sentence.find(part) != std::string::npos; }
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& s) { return holds(s, part); });
}

const std::string kSizes =
    " --num-layers 8 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 "
    "--micro-batch-size 2 --global-batch-size 32 --vocab-size 1024 --bf16 ";

// --- models ---

TEST(NearMisses, AKeyOfTheModelThatLinguasPlainTransformerLacksIsRefused) {
  const std::string plain =
      "distributed:\n  fsdp_type: full_shard\nmodel:\n  dim: 512\n  n_layers: 8\n  n_heads: 8\n  vocab_size: 260\n";
  EXPECT_EQ(refused({{"a.yaml", plain + "  dropout: 0.1\n  mta:\n    use_mta: false\n"}}), "not refused");
  for (const char* other : {"  patch_size: 6\n", "  cross_attn_encoder: true\n", "  mta:\n    use_mta: true\n"})
    EXPECT_TRUE(holds(refused({{"a.yaml", plain + other}}), "is of another app of lingua")) << other;
}

TEST(NearMisses, AWindowOfLinguasQueriesIsTheModels) {
  const LaunchReading reading =
      read({{"a.yaml",
             "distributed:\n  fsdp_type: full_shard\nmodel:\n  dim: 512\n  n_layers: 8\n  n_heads: 8\n"
             "  vocab_size: 260\n  sliding_window: 64\ndata:\n  seq_len: 1024\n"}});
  EXPECT_EQ(reading.setup.model.more.at("window"), 64);
}

TEST(NearMisses, LayersAndDataOfMegatronsOwnProgramsAreRefused) {
  const auto by_megatron = [](const std::string& program, const std::string& flags) {
    return refused({{"run.sh", "torchrun --nproc_per_node 8 " + program + kSizes + flags + "\n"}});
  };
  EXPECT_TRUE(holds(by_megatron("tools/retro/main.py", "--retro-tasks db-build"), "the program does not train"));
  EXPECT_TRUE(
      holds(by_megatron("pretrain_gpt.py", "--retro-add-retriever"), "--retro-add-retriever: says of the model"));
  EXPECT_TRUE(holds(by_megatron("pretrain_gpt.py", "--attention-output-gate"), "--attention-output-gate: adds a gate"));
  EXPECT_TRUE(holds(by_megatron("pretrain_yuan.py", "--use-lf-gate"), "--use-lf-gate: says of the model"));
  EXPECT_TRUE(says(read({{"run.sh", "torchrun --nproc_per_node 8 pretrain_codegeex.py" + kSizes + "\n"}}).assumed,
                   "layers as pretrain_gpt.py makes them of these flags, which pretrain_codegeex.py may not do"));
  EXPECT_FALSE(says(read({{"run.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py" + kSizes + "\n"}}).assumed,
                    "layers as pretrain_gpt.py"));
}

TEST(NearMisses, AnOlderFlagRecomputesExperts) {
  const LaunchReading reading =
      read({{"run.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py" + kSizes +
                           "--num-experts 8 --expert-model-parallel-size 8 --moe-layer-recompute\n"}});
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(reading.setup.degrees.recompute_modules, RecomputeModules::Mixture);
  EXPECT_EQ(reading.setup.own_recompute, "--recompute-granularity selective --recompute-modules moe");
}

// --- recipes of Megatron-Bridge ---

TEST(NearMisses, ARecipeWithoutADegreeOrABatchLeavesThemToItself) {
  const std::string run = "torchrun --nproc_per_node 8 run_recipe.py --recipe llama32_1b_pretrain_config ";
  EXPECT_TRUE(holds(refused({{"run.sh", run + "train.train_iters=10\n"}}),
                    "--recipe: its degrees and batch are those of the recipe, not in the file"));
  EXPECT_EQ(refused({{"run.sh", run + "train.global_batch_size=32\n"}}), "not refused");
  EXPECT_EQ(read({{"run.sh", run + "\n"}}, {.batch = 16}).setup.global_batch(), 16);
}

TEST(NearMisses, SamplesOfARecipeAreAsLongAsAnOverrideOrItsNameSays) {
  const auto of = [](const std::string& recipe, const std::string& more) {
    return read({{"run.sh", "torchrun --nproc_per_node 8 run_recipe.py --recipe " + recipe +
                                " train.global_batch_size=32 " + more + "\n"}});
  };
  const LaunchReading named = of("qwen3_600m_sft_yarn_128k_config", "");
  EXPECT_EQ(named.setup.model.seq, 131072);
  EXPECT_TRUE(says(named.assumed, "samples of 131072 tokens, as the recipe is named"));
  EXPECT_EQ(of("qwen3_600m_sft_yarn_128k_config", "model.seq_length=8192").setup.model.seq, 8192);
  EXPECT_EQ(of("qwen3_600m_sft_config", "dataset.sequence_length=2048").setup.model.seq, 2048);
  EXPECT_TRUE(says(of("qwen3_600m_sft_config", "").assumed, "tokens: no override says how long they are (--seq)"));
}

TEST(NearMisses, RecipesThatTrainWithImagesAreRefused) {
  const std::string run = "torchrun --nproc_per_node 8 run_recipe.py --recipe qwen3_8b_sft train.global_batch_size=32 ";
  EXPECT_TRUE(
      holds(refused({{"run.sh", run + "--dataset vlm-energon\n"}}), "--dataset: the recipe trains with images"));
  EXPECT_TRUE(
      holds(refused({{"run.sh", run + "--step_func vlm_step\n"}}), "--step_func: the recipe trains with images"));
  EXPECT_EQ(refused({{"run.sh", run + "--dataset llm-finetune --step_func gpt_step\n"}}), "not refused");
}

// --- MaxText and the arguments of other programs ---

TEST(NearMisses, PreferencesOfMaxtextAreRefused) {
  const std::string plain = "base_config: base.yml\nmodel_name: llama2-7b\nper_device_batch_size: 2\n";
  EXPECT_EQ(refused({{"a.yml", plain + "use_dpo: false\n"}}), "not refused");
  EXPECT_TRUE(holds(refused({{"a.yml", plain + "use_dpo: true\n"}}), "use_dpo: trains against a model"));
}

TEST(NearMisses, MaxtextsFileOfAModelLiesWhereTheCommandSays) {
  LaunchInput input{.files = {{"run.sh", "python3 MaxText/train.py MaxText/configs/models/gpu/llama2_7b.yml a=b\n"}}};
  input.beside = [](const std::string& name) -> std::optional<std::string> {
    if (name != "MaxText/configs/models/gpu/llama2_7b.yml") return std::nullopt;
    return "model_name: llama2-7b\nper_device_batch_size: 4\nmax_target_length: 4096\n";
  };
  const LaunchReading reading = read_launch(read_launch_text(input), {1, 8}, {});
  EXPECT_EQ(reading.setup.model.name, "llama-7b");
  EXPECT_EQ(reading.setup.global_batch(), 32);  // 4 x 8
}

TEST(NearMisses, ArgumentsOfHuggingFacesTrainerAreNoFileOfMaxtext) {
  EXPECT_TRUE(holds(refused({{"a.yaml",
                              "model_name: meta-llama/Meta-Llama-3.1-8B\nper_device_train_batch_size: 24\n"
                              "num_train_epochs: 1\n"}}),
                    "has the arguments of a program over Hugging Face's trainer"));
}

// --- loops over accelerate, and what the Trainer's arguments name ---

TEST(NearMisses, LoopsOverAccelerateHaveNoDefaultsOfTrl) {
  const std::string plain =
      "model_name_or_path: meta-llama/Llama-3.1-8B\ndataset_mixer:\n  a: 1.0\nmax_seq_length: 4096\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\nwith_tracking: true\n";
  const LaunchReading reading = read({{"sft.yaml", plain}});
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_EQ(reading.setup.global_batch(), 32);  // 4 x 8
  EXPECT_EQ(read({{"sft.yaml", plain + "gradient_checkpointing: true\n"}}).setup.degrees.recompute, Recompute::Full);
}

TEST(NearMisses, TrlsOlderNameOfTheLengthLeavesNoDefault) {
  const LaunchText text = read_launch_text(
      {.files = {
           {"sft.yaml", "model_name_or_path: meta-llama/Llama-3.1-8B\ndataset_name: d\nmax_seq_length: 4096\n"}}});
  EXPECT_FALSE(says(text.notes, "max_length: 1024"));
  EXPECT_EQ(read_launch(text, {1, 8}, {}).setup.model.seq, 4096);
}

TEST(NearMisses, FsdpsFileOfTheTrainerRecomputes) {
  const std::string run =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --max_seq_length 1024 "
      "--per_device_train_batch_size 2 --bf16 true --fsdp 'full_shard auto_wrap' --fsdp_config ";
  const LaunchReading named = read(
      {{"run.sh", run + "fsdp.json\n"}, {"fsdp.json", "{\"activation_checkpointing\": true, \"fsdp_version\": 1}\n"}});
  EXPECT_EQ(named.setup.degrees.zero, 3);
  EXPECT_EQ(named.setup.degrees.recompute, Recompute::Full);
  const LaunchReading within = read({{"run.sh", run + "'{\"reshard_after_forward\": false}'\n"}});
  EXPECT_EQ(within.setup.degrees.zero, 2);
  EXPECT_EQ(within.setup.degrees.recompute, Recompute::None);
}

TEST(NearMisses, PartsOfTheWeightsAndOtherLayersOfFineTuningsAreRefused) {
  const std::string axolotl =
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 2\ndatasets: [{path: x}]\nbf16: "
      "true\n";
  EXPECT_EQ(refused({{"a.yaml", axolotl + "unfrozen_parameters: []\n"}}), "not refused");
  EXPECT_TRUE(holds(refused({{"a.yaml", axolotl + "unfrozen_parameters:\n  - ^lm_head.weight$\n"}}),
                    "unfrozen_parameters: trains a part of the weights"));
  EXPECT_TRUE(holds(refused({{"a.yaml", axolotl + "relora_steps: 100\n"}}), "relora_steps: trains adapters"));
  EXPECT_TRUE(says(read({{"a.yaml", axolotl + "optimizer: galore_adamw\n"}}).assumed, "Adam in the place of galore"));
  const std::string factory =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: full\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 2\nbf16: true\ndataset: x\n";
  EXPECT_TRUE(holds(refused({{"a.yaml", factory + "use_badam: true\n"}}), "use_badam: trains a part of the weights"));
  EXPECT_TRUE(
      holds(refused({{"a.yaml", factory + "mixture_of_depths: convert\n"}}), "lets some tokens pass layers by"));
  EXPECT_TRUE(says(read({{"a.yaml", factory + "use_galore: true\n"}}).assumed, "Adam in the place of galore"));
}

TEST(NearMisses, LlamaFactorysForkSplitsSequences) {
  const LaunchReading reading =
      read({{"a.yaml",
             "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: full\ncutoff_len: 2048\n"
             "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: true\ndataset: x\n"
             "deepspeed: ds.json\nsequence_parallel_size: 4\nsequence_parallel_mode: ulysses\n"},
            {"ds.json", "{\"zero_optimization\": {\"stage\": 3}}"}});
  EXPECT_EQ(reading.setup.degrees.cp, 4);
  EXPECT_EQ(reading.setup.degrees.context, ContextExchange::AllToAll);
  EXPECT_EQ(reading.setup.global_batch(), 8);  // 1 x 4 x 2 replicas
}

TEST(NearMisses, FilesOfOumiAreRefusedByName) {
  EXPECT_TRUE(holds(refused({{"a.yaml", "model:\n  model_name: m\ntraining:\n  trainer_type: TRL_SFT\n"}}),
                    "is a file of oumi"));
}

TEST(NearMisses, LocalBatchesOfTorchtitansForksMakeAStep) {
  const std::string file =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 1024\n"
      "gradient_accumulation_steps = 4\n";
  EXPECT_EQ(read({{"a.toml", file}}).setup.global_batch(), 64);  // 2 x 8 x 4
}

TEST(NearMisses, WeightsOfMaxtextMayLieOnTheHost) {
  const LaunchReading reading = read({{"a.yml",
                                       "base_config: base.yml\nmodel_name: llama2-7b\nper_device_batch_size: 2\n"
                                       "optimizer_memory_host_offload: true\n"
                                       "parameter_memory_host_offload: true\n"}});
  EXPECT_EQ(reading.setup.offload, Offload::Optimizer | Offload::Weights);
}

TEST(NearMisses, AdviceNamesMaxtextsPolicyAsTheFileDoes) {
  const LaunchReading reading =
      read({{"a.yml",
             "base_config: base.yml\nmodel_name: llama2-7b\nper_device_batch_size: 2\nremat_policy: minimal_flash\n"}});
  EXPECT_EQ(reading.setup.own_recompute, "remat_policy=minimal_flash");
}

// --- DeepSpeed's file below other programs ---

TEST(NearMisses, DeepspeedsFileOfMegatronOffloads) {
  const auto with = [](const std::string& zero, const std::string& more = "") {
    return read({{"run.sh", "deepspeed --num_gpus 8 pretrain_gpt.py" + kSizes +
                                "--deepspeed --deepspeed_config ds.json --no-pipeline-parallel\n"},
                 {"ds.json", "{\"zero_optimization\": {" + zero + "}" + more + "}\n"}});
  };
  EXPECT_EQ(with("\"stage\": 2").setup.offload, Offload::None);
  EXPECT_EQ(with("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}").setup.offload, Offload::Optimizer);
  EXPECT_EQ(with("\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}")
                .setup.offload,
            Offload::Optimizer | Offload::Weights);
  EXPECT_EQ(with("\"stage\": 2, \"cpu_offload\": true").setup.offload, Offload::Optimizer);  // until 0.3.15
  const LaunchReading squeezed =
      with("\"stage\": 0", ", \"compression_training\": {\"weight_quantization\": {\"enabled\": true}}");
  EXPECT_EQ(squeezed.settings.count(Setting::State::Unread), 1);
}

TEST(NearMisses, OlderNamesOfOffloadingAreDeepspeedsToo) {
  const LaunchReading reading = read(
      {{"run.sh",
        "deepspeed --num_gpus 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B "
        "--per_device_train_batch_size 2 --deepspeed ds.json\n"},
       {"ds.json", "{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}, \"fp16\": {\"enabled\": true}}"}});
  EXPECT_EQ(reading.setup.offload, Offload::Optimizer);
  const LaunchReading first =
      read({{"ds.json", "{\"train_batch_size\": 16, \"zero_optimization\": true, \"fp16\": {\"enabled\": true}}"}},
           {.model = ModelConfig(reading.setup.model)});
  EXPECT_EQ(first.setup.degrees.zero, 1);
}

// --- reinforcement ---

TEST(NearMisses, WhatRolloutsKeepIsNotCountedAndSaid) {
  const LaunchReading reading =
      read({{"run.sh",
             "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
             "actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
             "data.train_batch_size=32 data.max_prompt_length=512 data.max_response_length=512 "
             "trainer.n_gpus_per_node=8 trainer.nnodes=1\n"}});
  EXPECT_TRUE(says(reading.assumed, "memory without what rollouts keep on the same devices"));
}

}  // namespace
}  // namespace meshwright::read_near_misses_test
