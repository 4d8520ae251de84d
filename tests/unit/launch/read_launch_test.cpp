// SPDX-License-Identifier: Apache-2.0
// Launch files of every framework as jobs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "launch/setup/launch_target.h"
#include "tests/refusal.h"

namespace meshwright::read_launch_test {
namespace {

LaunchReading read(const std::vector<GivenFile>& files, int hosts, int per_host, const LaunchAnswers& answers = {}) {
  return read_launch(read_launch_text({.files = files}), {hosts, per_host}, answers);
}
LaunchReading read_script(const std::string& flags, int hosts = 1, int per_host = 8) {
  return read({{"run.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun pretrain_gpt.py " + flags + "\n"}}, hosts,
              per_host);
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
const std::string kGpt =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256 "
    "--vocab-size 1024 "
    "--make-vocab-size-divisible-by 1 --bf16 ";
const std::string kLlama = kGpt +
                           "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
                           "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 4 ";

TEST(ReadMegatron, DegreesAndTheBatchFollowFromTheFlags) {
  const LaunchReading reading =
      read_script(kLlama +
                      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
                      "--use-distributed-optimizer "
                      "--num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 1 --global-batch-size 16 "
                      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
                  2);
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(method_text(d), "megatron:tp=2,pp=2,vpp=2,sp=1,zero=1,exact=1");
  EXPECT_EQ(d.dp, 4);
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(d.schedule, ScheduleKind::Interleaved);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.model.family, "llama");
  EXPECT_EQ(reading.setup.model.more.at("kv_heads"), 4);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
  EXPECT_TRUE(reading.why_no_plan.empty());
}

TEST(ReadMegatron, TheVocabularyIsPaddedAsMegatronPadsIt) {
  std::string flags = kGpt;
  flags.replace(flags.find("--make-vocab-size-divisible-by 1 "), 33, "");
  flags.replace(flags.find("1024"), 4, "1000");
  EXPECT_EQ(read_script(flags + "--tensor-model-parallel-size 2 --micro-batch-size 1").setup.model.vocab,
            1024);  // 4 x 256
}

TEST(ReadMegatron, ALayoutNamesTheBlocksOfEveryStage) {
  const auto layout = [](const std::string& pp) {
    return read_script(kLlama + "--pipeline-model-parallel-size " + pp +
                       " --micro-batch-size 1 --global-batch-size 16 " +
                       "--pipeline-model-parallel-layout 'Et|t*3|(t|)*2t|tL'");
  };
  EXPECT_EQ(layout("2").setup.stage_blocks, (std::vector<int>{1, 3, 1, 1, 1, 1}));
  EXPECT_EQ(layout("2").setup.degrees.chunks, 3);
  EXPECT_FALSE(layout("4").why_no_plan.empty());  // six stages on four ranks
  const LaunchReading even =
      read_script(kLlama +
                  "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 16 "
                  "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --num-layers 6");
  EXPECT_EQ(even.setup.stage_blocks, (std::vector<int>{1, 2, 2, 1}));
}

TEST(ReadMegatron, BlocksRecomputedInEveryStage) {
  const LaunchReading reading =
      read_script(kLlama +
                  "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 16 "
                  "--recompute-granularity full --recompute-method block --recompute-num-layers 1");
  EXPECT_EQ(to_text(reading.setup.recompute_layers), "0:full,4:full");
}

TEST(ReadMegatron, ContradictionsAreListedAllAtOnce) {
  const LaunchReading reading =
      read_script(kLlama +
                  "--tensor-model-parallel-size 3 --bf16 --fp16 --micro-batch-size 1 --global-batch-size 16 "
                  "--step-batch-size-schedule \"0:8 1B:16\" --overlap-param-gather --recompute-granularity full");
  EXPECT_TRUE(says(reading.broken, "--bf16 and --fp16"));
  EXPECT_TRUE(says(reading.broken, "--step-batch-size-schedule"));
  EXPECT_TRUE(says(reading.broken, "--overlap-param-gather"));
  EXPECT_TRUE(says(reading.broken, "--recompute-method"));
  EXPECT_TRUE(says(reading.broken, "tp=3"));
  EXPECT_NE(reading.why_no_plan.find("multiple of 3"), std::string::npos);
}

TEST(ReadMegatron, WhatIsNotUnderstoodIsListedWithItsPlace) {
  const LaunchReading reading = read_script(kGpt + "--micro-batch-size 1 --frobnicate 3 --log-interval 1");
  int unread = 0;
  for (const Setting& setting : reading.settings.all()) {
    if (setting.state != Setting::State::Unread) continue;
    ++unread;
    EXPECT_EQ(setting.shown, "--frobnicate");
    EXPECT_EQ(setting.place, "run.sh:2");
  }
  EXPECT_EQ(unread, 1);
}

TEST(ReadMegatron, AnUnresolvedValueThatCountsIsAskedFor) {
  EXPECT_EQ(
      refusal([] { return read_script(kGpt + "--tensor-model-parallel-size $TP --micro-batch-size 1"); }),
      "run.sh:2: --tensor-model-parallel-size: its value '${TP}' is a variable whose value is not known; give --set "
      "TP=VALUE.");
}

TEST(ReadMegatron, MixturesAndLatentAttention) {
  const LaunchReading mixture =
      read_script(kLlama +
                  "--num-experts 8 --moe-router-topk 2 --moe-layer-freq '([0]*2+[1]*6)' --expert-model-parallel-size 4 "
                  "--moe-ffn-hidden-size 256 --micro-batch-size 1 --global-batch-size 8");
  EXPECT_EQ(mixture.setup.model.family, "mixtral");
  EXPECT_EQ(mixture.setup.model.more.at("dense_layers"), 2);
  EXPECT_EQ(mixture.setup.degrees.ep, 4);
  std::string flags = kLlama;
  flags.replace(flags.find("--group-query-attention --num-query-groups 4"), 44,
                "--multi-latent-attention --kv-lora-rank 64");
  const LaunchReading latent =
      read_script(flags + "--num-experts 8 --moe-router-topk 2 --micro-batch-size 1 --global-batch-size 8");
  EXPECT_EQ(latent.setup.model.family, "deepseek_v3");
  EXPECT_EQ(latent.setup.model.more.at("kv_rank"), 64);
}

TEST(ReadMegatron, ModulesForFurtherTokensAreBesideTheLossOrWhereTheLayoutSays) {
  std::string flags = kLlama;
  flags.replace(flags.find("--group-query-attention --num-query-groups 4"), 44,
                "--multi-latent-attention --kv-lora-rank 64");
  flags +=
      "--num-experts 8 --moe-router-topk 2 --mtp-num-layers 2 --mtp-loss-scaling-factor 0.2 "
      "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 ";
  const LaunchReading even = read_script(flags);
  EXPECT_EQ(even.setup.model.more.at("mtp"), 2);
  EXPECT_EQ(even.setup.model.factors.at("mtp_weight"), 0.2);
  EXPECT_EQ(degrees_with_layout(even.setup).split.layout, "Et*4|t*4m*2L");
  EXPECT_TRUE(even.broken.empty()) << even.broken.front();
  const LaunchReading layout = read_script(flags + "--pipeline-model-parallel-layout 'Et*5|t*3|m*2|L'");
  EXPECT_EQ(layout.setup.further_stage, 2);
  EXPECT_EQ(degrees_with_layout(layout.setup).split.layout, "Et*5|t*3|m*2|L");
  EXPECT_TRUE(says(read_script(flags + "--pipeline-model-parallel-layout 'Et*5|t*3L'").broken, "names no m"));
  // Mixtures of other attention have them, too.
  const LaunchReading mixture = read_script(
      kLlama +
      "--rotary-percent 0.5 --num-experts 8 --moe-router-topk 2 --mtp-num-layers 1 --moe-router-score-function "
      "sigmoid --moe-router-enable-expert-bias --micro-batch-size 1 --global-batch-size 8");
  EXPECT_EQ(mixture.setup.model.family, "decoder_moe");
  EXPECT_EQ(mixture.setup.model.more.at("mtp"), 1);
  EXPECT_EQ(mixture.setup.model.more.at("rotary_dims"), 32);
  EXPECT_TRUE(says(read_script(kLlama + "--mtp-num-layers 1 --micro-batch-size 1").assumed, "only mixtures of ours"));
}

TEST(ReadMegatron, TestFilesAndRecipesSayTheSame) {
  const std::string yaml =
      "ENV_VARS:\n  CUDA_DEVICE_MAX_CONNECTIONS: 1\nMODEL_ARGS:\n  --num-layers: 8 # eight\n  --hidden-size: 512\n"
      "  --num-attention-heads: 8\n  --seq-length: 256\n  --max-position-embeddings: 256\n  --vocab-size: 1024\n  "
      "--bf16:\n    true\n"
      "  --tensor-model-parallel-size: 2\n  --micro-batch-size: 2\n  --global-batch-size: 16\n  --save: ${DIR}\n";
  const LaunchReading reading = read({{"t.yaml", yaml}}, 1, 8);
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 2);
  const LaunchReading recipe =
      read({{"run.sh",
             "torchrun run_recipe.py --recipe llama3_70b_pretrain_config model.tensor_model_parallel_size=4 "
             "model.pipeline_model_parallel_size=2 train.global_batch_size=128 train.micro_batch_size=1\n"}},
           1, 8);
  EXPECT_EQ(recipe.setup.target, "megatron-bridge");
  EXPECT_EQ(recipe.setup.model.name, "llama-3.1-70b");
  EXPECT_EQ(method_text(recipe.setup.degrees), "megatron:tp=4,pp=2,zero=0,exact=1");
}

TEST(ReadTorchtitan, TomlAndPythonSayTheSame) {
  const std::string toml =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 4\nglobal_batch_size = 32\nseq_len "
      "= 4096\n[parallelism]\n"
      "tensor_parallel_degree = 2\npipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 1\n"
      "pipeline_parallel_schedule = \"Interleaved1F1B\"\n[activation_checkpoint]\nmode = \"full\"\n[compile]\nenable = "
      "true\n";
  const std::string python =
      "def plan():\n  c = llama3_8b()\n  c.training.max_context_length = 4096\n  "
      "c.training.num_tokens_per_microbatch_per_dp_rank = 4096\n"
      "  c.training.num_tokens_per_train_step = 32 * 4096\n  p = c.parallelism\n  p.tensor_parallel_degree, "
      "p.pipeline_parallel_degree = 2, 2\n"
      "  p.pipeline_parallel_schedule = \"Interleaved1F1B\"\n  c.activation_checkpoint = FullAC.Config()\n  return c\n";
  const LaunchReading a = read({{"a.toml", toml}}, 1, 8), b = read({{"b.py", python}}, 1, 8);
  EXPECT_EQ(a.setup.degrees, b.setup.degrees);
  EXPECT_EQ(a.setup.model.layers, 32);
  EXPECT_EQ(a.setup.model.seq, 4096);
  EXPECT_EQ(a.setup.degrees.micro_batches, 16);
  EXPECT_EQ(a.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(a.setup.stage_blocks, (std::vector<int>{8, 9, 8, 7}));  // 34 units in 4 stages, the remainder first
}

TEST(ReadDeepspeed, TheProductRuleFillsTheBatch) {
  const std::string json =
      R"({"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 3, "zero_optimization": {"stage": 2,
    "allgather_bucket_size": 2e8}, "bf16": {"enabled": true}})";
  const LaunchAnswers answers{.model = find_builtin_model("gpt-125m")};
  const LaunchReading reading = read({{"ds.json", json}}, 1, 8, answers);
  EXPECT_EQ(reading.setup.global_batch(), 192);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 3);
  EXPECT_EQ(reading.setup.degrees.zero, 2);
  EXPECT_NE(refusal([&] { return read({{"ds.json", json}}, 1, 8); }).find("give --model"), std::string::npos);
}

TEST(ReadDeepspeed, AModelOfAnyKindMayBeGiven) {
  const std::string json =
      R"({"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}})";
  for (const char* name : {"mlp", "bert-base", "wresnet-250m"})
    EXPECT_EQ(read({{"ds.json", json}}, 1, 8, {.model = find_builtin_model(name)}).setup.global_batch(), 64) << name;
}

TEST(ReadDeepspeed, NeoxFilesHaveAModelAndAPipeline) {
  const std::string yaml =
      "{\n \"pipe_parallel_size\": 2, \"model-parallel-size\": 2,\n \"num_layers\": 4, \"hidden_size\": 64, "
      "\"num_attention_heads\": 4,\n"
      " \"seq_length\": 32, \"max_position_embeddings\": 32, \"pos_emb\": \"rotary\", \"rotary_pct\": 0.25, "
      "\"no_weight_tying\": True,\n"
      " \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4, \"zero_optimization\": {\"stage\": "
      "1,},\n"
      " \"fp16\": {\"enabled\": true}, \"checkpoint_activations\": true,\n}\n";
  const LaunchReading reading = read({{"n.yml", yaml}}, 1, 8);
  EXPECT_EQ(reading.setup.model.family, "gpt_neox");
  EXPECT_EQ(method_text(reading.setup.degrees), "megatron:tp=2,pp=2,zero=1,exact=1");
  EXPECT_EQ(reading.setup.global_batch(), 16);
  EXPECT_EQ(reading.setup.dtype, DType::F16);
}

TEST(ReadAccelerate, HybridShardsAndTheProductOfDegrees) {
  const std::string yaml =
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\nfsdp_config:\n  fsdp_version: "
      "2\n"
      "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n";
  LaunchAnswers answers{.model = find_builtin_model("gpt-125m"), .batch = 16};
  const LaunchReading reading = read({{"a.yaml", yaml}}, 1, 8, answers);
  EXPECT_EQ(reading.setup.shard, 4);
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_FALSE(read({{"a.yaml", yaml}}, 2, 8, answers).why_no_plan.empty());
}

TEST(ReadFlagscale, EveryMeshHasDegreesOfItsOwn) {
  const std::string yaml =
      "system:\n  pipeline_model_parallel_size: 2\n  use_distributed_optimizer: True\n  hetero:\n    enable_hetero: "
      "True\n"
      "    hetero_process_meshes: [2, 1, 1, 1, 1, 1, 1, 1, 2, 1]\n    hetero_pipeline_layer_split: [1, 3]\n"
      "model:\n  num_layers: 4\n  hidden_size: 64\n  num_attention_heads: 4\n  seq_length: 32\n  "
      "max_position_embeddings: 32\n"
      "  micro_batch_size: 2\n  global_batch_size: 8\n  bf16: true\ndata:\n  vocab_size: 128\n";
  const LaunchText text = read_launch_text({.files = {{"t.yaml", yaml}}});
  ASSERT_TRUE(devices_of(text).has_value());
  EXPECT_EQ(devices_of(text)->devices(), 4);
  const LaunchReading reading = read_launch(text, {1, 4}, {});
  ASSERT_EQ(reading.setup.stages.size(), 2u);
  EXPECT_EQ(reading.setup.stages[0].tp, 2);
  EXPECT_EQ(reading.setup.stages[1].dp, 2);
  EXPECT_EQ(reading.setup.stages[1].blocks, 3);
}

TEST(ReadFlagscale, WithoutMeshesItIsMegatron) {
  const std::string yaml =
      "system:\n  tensor_model_parallel_size: 2\n  sequence_parallel: true\nmodel:\n  num_layers: 4\n  hidden_size: "
      "64\n"
      "  num_attention_heads: 4\n  seq_length: 32\n  max_position_embeddings: 32\n  micro_batch_size: 2\n  bf16: true\n"
      "data:\n  vocab_size: 128\n";
  const LaunchReading reading = read({{"t.yaml", yaml}}, 1, 4);
  EXPECT_EQ(method_text(reading.setup.degrees), "megatron:tp=2,pp=1,sp=1,zero=0,exact=1");
  EXPECT_TRUE(reading.setup.stages.empty());
}

// Hydra's groups are folders.
TEST(ReadFlagscale, TheTrainingFileOfAnExperimentLiesInItsFolder) {
  LaunchInput input{.files = {{"conf/train.yaml", "defaults:\n  - train: 7b\nexperiment:\n  exp_name: a\n"}}};
  input.beside = [](const std::string& name) -> std::optional<std::string> {
    if (name != "train/7b.yaml") return std::nullopt;
    return "system:\n  tensor_model_parallel_size: 2\nmodel:\n  num_layers: 4\n  hidden_size: 64\n  "
           "num_attention_heads: 4\n  seq_length: 32\n  max_position_embeddings: ${model.seq_length}\n  "
           "micro_batch_size: 2\n  bf16: true\ndata:\n  vocab_size: 128\n";
  };
  const LaunchReading reading = read_launch(read_launch_text(input), {1, 4}, {});
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(reading.setup.model.seq, 32);
}

// The program says of what kind the model is that the sizes are of.
TEST(ReadFlagscale, TheProgramOfAnExperimentTellsItsModel) {
  const auto with_program = [](const std::string& program) {
    return read({{"t.yaml", "experiment:\n  task:\n    entrypoint: ./flagscale/train/" + program +
                                "\nsystem:\n  bf16: true\nmodel:\n  num_layers: 4\n  hidden_size: 64\n  "
                                "num_attention_heads: 4\n  seq_length: 32\n  max_position_embeddings: 32\n  "
                                "micro_batch_size: 2\ndata:\n  vocab_size: 128\n"}},
                1, 4);
  };
  EXPECT_EQ(refusal([&] { return with_program("train_rwkv.py"); }),
            "t.yaml: train_rwkv.py: its flags describe no model of ours; give --model with a built-in model, sizes or "
            "a config.json.");
  EXPECT_EQ(with_program("train_gpt.py").setup.model.layers, 4);
  const std::vector<std::string> assumed = with_program("train_llava.py").assumed;
  EXPECT_NE(std::find(assumed.begin(), assumed.end(), "the language model alone, without what reads images"),
            assumed.end());
}

// fp8_hybrid is a format, and fp8 whether there is one.
TEST(ReadNemo, FormatsOfEightBitsHoldOnlyWhereTheyAreSwitchedOn) {
  const auto products = [](const std::string& fp8) {
    return read({{"n.yaml",
                  "model:\n  tensor_model_parallel_size: 1\n  num_layers: 4\n  hidden_size: 64\n  "
                  "num_attention_heads: 4\n  encoder_seq_length: 32\n  seq_length: ${.encoder_seq_length}\n  "
                  "micro_batch_size: 2\n  fp8: " +
                      fp8 + "\n  fp8_hybrid: True\n"}},
                1, 4)
        .setup.matmul_dtype;
  };
  EXPECT_EQ(products("False"), "");
  EXPECT_EQ(products("True"), "fp8");
}

TEST(ReadTorchtitan, AFileThatNamesNoModelIsRefusedAsSuch) {
  EXPECT_EQ(refusal([] {
              return read({{"p.toml", "[training]\nlocal_batch_size = 1\n"}}, 1, 4);
            }),
            "p.toml: names no model: neither [model] with name and flavor, nor --module and --config; give the file "
            "that torchtitan is started with, or --model.");
}

// As those of TRL: batch and type are elsewhere in it.
TEST(ReadAccelerate, AFileOfAnotherProgramIsNotTakenForIt) {
  EXPECT_EQ(
      refusal([] {
        return read_launch_text(
            {.files = {{"a.yaml",
                        "model_name_or_path: m\nper_device_train_batch_size: 4\nfsdp_config:\n  fsdp_version: 2\n"}}});
      }),
      "a.yaml: has settings of FSDP and no distributed_type: it is the file of a program that starts accelerate "
      "by itself, whose other settings are not known here; give the file of accelerate, or --as accelerate.");
}

TEST(PlannedFrameworks, AreFoundByTheNamesOfTheirTargets) {
  EXPECT_EQ(find_planned_framework("megatron-bridge").name, "megatron");
  EXPECT_EQ(find_planned_framework("fsdp2").name, "fsdp");
  EXPECT_EQ(find_planned_framework("accelerate").zero, (std::vector<int>{2, 3}));
  EXPECT_FALSE(find_planned_framework("flagscale").contexts);
  EXPECT_NE(refusal([] { return find_planned_framework("jax").name; }).find("unknown framework 'jax'"),
            std::string::npos);
}

TEST(ReadLaunch, AFileOfNoKnownFrameworkIsRefused) {
  EXPECT_NE(refusal([] {
              return read_launch_text({.files = {{"run.sh", "echo hello\n"}}});
            }).find("no command"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              return read_launch_text({.files = {{"a.yaml", "x: 1\n"}}});
            }).find("--as"),
            std::string::npos);
}

// --- published files ---

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Expected {
  const char* file;
  int hosts;
  const char* method;
  std::int64_t micro_batches;
  double billions;  // parameters
};

TEST(PublishedLaunchFiles, HaveTheDegreesAndParametersThatTheirReadmesName) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: no launch files here";
  const std::vector<Expected> all = {
      {"megatron/train_gpt3_175b_distributed.sh", 16, "megatron:tp=8,pp=16,zero=0,exact=1", 1536, 174.6},
      {"megatron/train_mixtral_8x7b_distributed.sh", 4, "megatron:tp=1,pp=4,ep=8,zero=1,exact=1", 32, 46.7},
      {"megatron/tr11-176B-ml.slurm", 24, "megatron:tp=4,pp=12,zero=1,exact=1", 256, 176.2},
      {"megatron/sbatch_mfsdp_deepseek_v3.sh", 16, "megatron:tp=1,pp=1,ep=8,zero=3,exact=1", 4, 682.6},  // with its MTP
      {"torchtitan/llama3_405b.toml", 16, "megatron:tp=8,pp=1,sp=1,zero=3,exact=1", 1, 405.9},
      {"torchtitan/llama3_70b.toml", 8, "megatron:tp=8,pp=1,sp=1,zero=3,exact=1", 1, 70.6},
      {"deepspeed/gpt-neox_20B.yml", 12, "megatron:tp=2,pp=4,zero=1,exact=1", 32, 20.6},
      {"maxtext/a3_llama_3.1_405b_128vm.sh", 128, "megatron:tp=1,pp=1,zero=3,exact=1", 1, 405.9},
  };
  for (const Expected& expected : all) {
    const std::filesystem::path path = std::filesystem::path(data) / "launch" / expected.file;
    const LaunchReading reading = read({{path.string(), slurp(path)}}, expected.hosts, 8);
    EXPECT_EQ(method_text(reading.setup.degrees), expected.method) << expected.file;
    EXPECT_EQ(reading.setup.degrees.micro_batches, expected.micro_batches) << expected.file;
    TrainingOptions options;
    options.batch = 1;
    EXPECT_NEAR(static_cast<double>(parameter_count(build_forward_graph(reading.setup.model, options))) * 1e-9,
                expected.billions, 0.005 * expected.billions)
        << expected.file;
    EXPECT_TRUE(reading.why_no_plan.empty()) << expected.file << ": " << reading.why_no_plan;
  }
}

// Every one is read, or refused with a sentence that says what is missing.
TEST(PublishedLaunchFiles, AreAllReadOrRefusedWithAReason) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: no launch files here";
  int read_whole = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(data) / "launch")) {
    const std::string path = entry.path().string();
    if (!entry.is_regular_file() || path.ends_with(".md") || path.ends_with(".csv")) continue;
    std::vector<GivenFile> files = {{path, slurp(entry.path())}};
    for (const auto& other : std::filesystem::directory_iterator(entry.path().parent_path()))
      if (other.path() != entry.path() && path.find("flagscale") != std::string::npos &&
          path.find("experiment") != std::string::npos &&
          other.path().string().find(path.find("deepseek") != std::string::npos ? "deepseek_hetero_train" : "_train") !=
              std::string::npos)
        files.push_back({other.path().string(), slurp(other.path())});
    LaunchAnswers answers{.batch = 1024};
    if (path.find("accelerate") != std::string::npos || path.ends_with(".json") ||
        path.find("multinode") != std::string::npos)
      answers.model = find_builtin_model("llama-7b");
    try {
      const LaunchText text = read_launch_text({.files = files});
      const LaunchReading reading = read_launch(text, devices_of(text).value_or(LaunchDevices{16, 8}), answers);
      for (const Setting& setting : reading.settings.all())
        EXPECT_NE(setting.place.find(':'), std::string::npos) << path << " " << setting.shown;
      ++read_whole;
    } catch (const InputError& error) {
      EXPECT_NE(path.find("custom_mesh"), std::string::npos) << path << ": " << error.what();
    }
  }
  EXPECT_GE(read_whole, 20);
}

}  // namespace
}  // namespace meshwright::read_launch_test
