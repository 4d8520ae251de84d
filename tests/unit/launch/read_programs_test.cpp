// SPDX-License-Identifier: Apache-2.0
// Files of programs that have files of their own above the frameworks: nanotron, OLMo, Megatron-Bridge, and the scripts
// that export writes.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "core/schedule/schedule_csv.h"
#include "launch/advise/advice.h"
#include "launch/read/launch_reading.h"
#include "launch/read/readers.h"
#include "tests/refusal.h"

namespace meshwright::read_programs_test {
namespace {

LaunchReading read_files(std::vector<GivenFile> files, LaunchDevices devices = {1, 8},
                         const LaunchAnswers& answers = {}) {
  return read_launch(read_launch_text({.files = std::move(files)}), devices, answers);
}
LaunchReading read(const std::string& name, const std::string& text, LaunchDevices devices = {1, 8}) {
  return read_files({{name, text}}, devices);
}
std::string refused(const std::string& name, const std::string& text) {
  return refusal([&] { (void)read(name, text); });
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
double billions(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return static_cast<double>(parameter_count(build_forward_graph(reading.setup.model, options))) * 1e-9;
}
std::vector<std::string> unread(const LaunchReading& reading) {
  std::vector<std::string> names;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) names.push_back(setting.key);
  return names;
}

// --- nanotron ---

const std::string kNanotron =
    "general: {project: p, run: r}\n"
    "model:\n"
    "  dtype: bfloat16\n"
    "  make_vocab_size_divisible_by: 1\n"
    "  model_config:\n"
    "    is_llama_config: true\n"
    "    hidden_size: 2048\n"
    "    intermediate_size: 8192\n"
    "    num_attention_heads: 32\n"
    "    num_hidden_layers: 16\n"
    "    num_key_value_heads: 8\n"
    "    tie_word_embeddings: true\n"
    "    vocab_size: 128256\n"
    "    max_position_embeddings: 4096\n"
    "tokens: {sequence_length: 4096, train_steps: 100, micro_batch_size: 2, batch_accumulation_per_replica: 8}\n"
    "optimizer: {zero_stage: 1, weight_decay: 0.01, clip_grad: 1.0, accumulate_grad_in_fp32: true,\n"
    "            optimizer_factory: {name: adamW}}\n";
const std::string kDegrees =
    "parallelism: {dp: 2, pp: 2, tp: 2, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER, recompute_layer: true}\n";

// Llama 3.2 1B has 1.236 billion parameters; 2 samples x 8 micro-batches x 2 replicas are 32.
TEST(Nanotron, SaysModelDegreesAndBatch) {
  const LaunchReading reading = read("job.yaml", kNanotron + kDegrees);
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(reading.setup.release, "nanotron 00708b80");
  EXPECT_EQ((std::vector<int>{d.tp, d.pp, d.dp, d.zero}), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_TRUE(d.sequence_parallel);
  EXPECT_EQ(d.schedule, ScheduleKind::OneFOneB);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.global_batch(), 32);
  EXPECT_EQ(reading.software, "nanotron");
  EXPECT_NEAR(billions(reading), 1.236, 0.001);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Nanotron, HasItsOwnDefaults) {
  const LaunchReading reading = read("job.yaml", kNanotron + "parallelism: {dp: 2, pp: 2, tp: 2}\n");
  EXPECT_EQ(reading.setup.degrees.schedule, ScheduleKind::GPipe);  // "afab"
  EXPECT_FALSE(reading.setup.degrees.sequence_parallel);           // "ALL_REDUCE"
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
}

TEST(Nanotron, AssertsThatTheDegreesAreTheDevices) {
  const LaunchReading reading = read("job.yaml", kNanotron + kDegrees, {2, 8});
  EXPECT_TRUE(says(reading.broken, "tp 2 x cp 1 x dp 2 x pp 2 = 8 is not the number of devices, 16"));
  EXPECT_NE(reading.why_no_plan, "");
}

TEST(Nanotron, NamesWhatItDoesNotKnow) {
  const LaunchReading reading = read("job.yaml", kNanotron + kDegrees + "domino: {num_input_batches: 2}\n");
  EXPECT_EQ(unread(reading), (std::vector<std::string>{"domino.num_input_batches"}));
  EXPECT_NE(refused("job.yaml", kNanotron + "parallelism: {dp: x, tp: 2}\n").find("expected a whole number"),
            std::string::npos);
}

TEST(Nanotron, ExpertsLieOnRanksOfTheirOwn) {
  std::string moe = kNanotron;
  moe.replace(moe.find("    vocab_size"), 0, "    moe_config: {num_experts: 8, top_k: 2}\n");
  const LaunchReading reading = read("job.yaml", moe + "parallelism: {dp: 8, pp: 1, tp: 1, expert_parallel_size: 4}\n");
  EXPECT_EQ(reading.setup.degrees.ep, 4);
  EXPECT_EQ(reading.setup.model.more.at("experts"), 8);
  const LaunchReading wrong = read("job.yaml", moe + "parallelism: {dp: 8, pp: 1, tp: 1, expert_parallel_size: 3}\n");
  EXPECT_TRUE(says(wrong.broken, "does not divide the 8 devices"));
}

// --- OLMo ---

const std::string kOlmo =
    "run_name: r\n"
    "model:\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n  mlp_hidden_size: 22016\n  weight_tying: false\n  rope: "
    "true\n"
    "  include_bias: false\n  activation_type: swiglu\n  max_sequence_length: 4096\n  vocab_size: 50280\n"
    "  embedding_size: 50304\n  layer_norm_type: rms\n"
    "optimizer: {name: adamw, weight_decay: 0.1}\n"
    "global_train_batch_size: 512\ndevice_train_microbatch_size: 2\nprecision: amp_bf16\n"
    "fsdp: {wrapping_strategy: by_block, precision: mixed}\nmax_grad_norm: 1.0\n";

// OLMo 7B has 6.89 billion parameters; what is written of a gated layer is the width of both halves.
TEST(Olmo, SplitsAllStatesUnlessItSaysOtherwise) {
  const LaunchReading reading = read("olmo.yaml", kOlmo, {8, 8});
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.degrees.dp, 64);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 4);  // 512 samples, 2 of each of 64 replicas
  EXPECT_EQ(reading.setup.model.more.at("intermediate"), 11008);
  EXPECT_NEAR(billions(reading), 6.89, 0.01);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_EQ(read("olmo.yaml", kOlmo + "distributed_strategy: ddp\n", {8, 8}).setup.degrees.zero, 0);
}

TEST(Olmo, RecomputesSomeOfSoManyBlocks) {
  EXPECT_EQ(read("olmo.yaml", kOlmo + "activation_checkpointing: false\n", {8, 8}).setup.degrees.recompute,
            Recompute::None);
  const LaunchReading every_other = read("olmo.yaml", kOlmo + "activation_checkpointing: one_in_two\n", {8, 8});
  EXPECT_EQ(every_other.setup.recompute_layers.size(), 16u);
  EXPECT_EQ(every_other.setup.recompute_layers[1].first, 2);
  const LaunchReading most = read("olmo.yaml", kOlmo + "activation_checkpointing: three_in_four\n", {8, 8});
  EXPECT_EQ(most.setup.recompute_layers.size(), 24u);
  EXPECT_EQ(most.setup.recompute_layers[0].first, 1);
  EXPECT_NE(refused("olmo.yaml", kOlmo + "activation_checkpointing: some\n").find("'some' is unknown"),
            std::string::npos);
}

// OLMo 2 7B has 7.30 billion parameters; the batch is 1,024 sequences of 4,096 tokens, 2 of them a micro-batch.
TEST(OlmoCore, ReadsWhatARunSaves) {
  const std::string text =
      R"({"run_name": "r", "model": {"_CLASS_": "TransformerConfig", "d_model": 4096, "n_layers": 32, "vocab_size": 100352,
      "block": {"_CLASS_": "B", "name": "reordered_norm",
                "attention": {"_CLASS_": "A", "n_heads": 32, "bias": false, "rope": {"_CLASS_": "R", "theta": 500000},
                              "qk_norm": {"_CLASS_": "N", "name": "rms"}},
                "feed_forward": {"_CLASS_": "F", "hidden_size": 11008, "bias": false}}},
      "train_module": {"_CLASS_": "T", "rank_microbatch_size": 8192, "max_sequence_length": 4096, "max_grad_norm": 1.0,
        "optim": {"_CLASS_": "O", "weight_decay": 0.1}, "compile_model": true,
        "dp_config": {"_CLASS_": "D", "name": "hsdp", "param_dtype": "bfloat16", "num_replicas": 4},
        "ac_config": {"_CLASS_": "C", "mode": "full"}},
      "data_loader": {"_CLASS_": "L", "global_batch_size": 4194304}})";
  const LaunchReading reading = read("config.json", text, {4, 8});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.pp, d.dp, d.zero}), (std::vector<int>{1, 1, 32, 3}));
  EXPECT_EQ(reading.setup.shard, 8);  // 32 devices in 4 replicas
  EXPECT_EQ(reading.setup.global_batch(), 1024);
  EXPECT_EQ(d.micro_batch, 2);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_NEAR(billions(reading), 7.30, 0.01);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(OlmoCore, ScriptsAreAskedForWhatTheySave) {
  EXPECT_NE(
      refused("train.py", "from olmo_core.train import TrainerConfig\n").find("the config.json that a run of it saves"),
      std::string::npos);
}

// --- accelerate ---

TEST(Accelerate, HasDegreesOfMegatron) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("llama-3.1-8b");
  answers.micro_batch = 1;
  const LaunchReading reading =
      read_files({{"acc.yaml",
                   "compute_environment: LOCAL_MACHINE\ndistributed_type: MEGATRON_LM\nmegatron_lm_config:\n"
                   "  megatron_lm_tp_degree: 2\n  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 4\n"
                   "  megatron_lm_sequence_parallelism: true\n  megatron_lm_recompute_activations: true\n"
                   "  megatron_lm_use_distributed_optimizer: true\n  megatron_lm_gradient_clipping: 1.0\n"
                   "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"}},
                 {1, 8}, answers);
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.pp, d.dp, d.zero}), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_TRUE(d.sequence_parallel);
  EXPECT_EQ(d.recompute, Recompute::Selective);
  EXPECT_EQ(reading.setup.global_batch(), 8);  // 1 sample x 4 micro-batches x 2 replicas
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_EQ(setting_text(reading.setup.dialect, LaunchProperty::Tensor, d), "megatron_lm_tp_degree: 2");
}

TEST(Accelerate, ReadsTruthValuesInEveryCase) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("llama-3.1-8b");
  answers.batch = 64;
  for (const auto& [value, zero] : {std::pair{"False", 2}, {"false", 2}, {"True", 3}, {"true", 3}}) {
    const LaunchReading reading =
        read_files({{"acc.yaml", fmt::format("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"
                                             "  fsdp_reshard_after_forward: {}\nnum_machines: 1\nnum_processes: 8\n",
                                             value)}},
                   {1, 8}, answers);
    EXPECT_EQ(reading.setup.degrees.zero, zero) << value;
  }
}

// --- Megatron-Bridge ---

TEST(MegatronBridge, NamesItsPrecision) {
  const auto of = [](const std::string& name) {
    return read("run.sh",
                "torchrun run_recipe.py --recipe llama31_8b_pretrain_config --mode pretrain "
                "train.micro_batch_size=1 mixed_precision=" +
                    name + "\n")
        .setup;
  };
  EXPECT_EQ(of("bf16_mixed").dtype, DType::BF16);
  EXPECT_EQ(of("fp16_mixed").dtype, DType::F16);
  EXPECT_EQ(of("bf16_mixed").matmul_dtype, "");
  EXPECT_EQ(of("bf16_with_fp8_delayed_scaling_mixed").matmul_dtype, "fp8");
}

const std::string kPerformance =
    "torchrun --nnodes 2 --nproc-per-node 8 scripts/performance/run_script.py --model_family_name qwen "
    "--model_recipe_name qwen3_30b_a3b --gpu h100 --num_gpus 16 --gpus_per_node 8 --compute_dtype fp8_cs ";

TEST(MegatronBridge, ScriptsOfPerformanceSayTheRecipeAndItsDegrees) {
  const LaunchReading reading =
      read("run.sh", kPerformance +
                         "--tensor_model_parallel_size 2 --pipeline_model_parallel_size 2 "
                         "--virtual_pipeline_model_parallel_size 4 --expert_model_parallel_size 4 "
                         "--global_batch_size 64 --micro_batch_size 1 --seq_length 2048 --recompute_modules moe_act\n");
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.pp, d.chunks, d.ep, d.zero}), (std::vector<int>{2, 2, 4, 4, 1}));
  EXPECT_TRUE(d.sequence_parallel);
  EXPECT_EQ(reading.setup.degrees.recompute_modules, RecomputeModules::ExpertActivations);
  EXPECT_EQ(reading.setup.matmul_dtype, "fp8");
  EXPECT_EQ(reading.setup.model.layers, 48);
  EXPECT_EQ(reading.setup.model.seq, 2048);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(MegatronBridge, ScriptsOfPerformanceThatLeaveAllToTheRecipeAreRefused) {
  const std::string why = refused("run.sh", kPerformance + "--max_steps 50\n");
  EXPECT_NE(why.find("--model_recipe_name: its degrees and batch are those of the program's own recipe"),
            std::string::npos)
      << why;
}

TEST(MegatronBridge, ScriptsOfPerformanceSayTheHosts) {
  const auto devices = [](const std::string& more) {
    return devices_of(read_launch_text({.files = {{"run.sh",
                                                   "python scripts/performance/run_script.py "
                                                   "--model_recipe_name llama3_8b --global_batch_size 16 " +
                                                       more + "\n"}}}));
  };
  EXPECT_EQ(devices("--num_gpus 16 --gpus_per_node 4")->hosts, 4);
  EXPECT_EQ(devices("--num_gpus 16 --gpus_per_node 0")->hosts, 2);  // of eight
}

// Qwen3 235B has 94 layers, DeepSeek-V3 61: 96 and 63 with the embedding and the loss.
TEST(MegatronBridge, StagesOfARecipeComeOutAsEvenAsTheEndsAllow) {
  const auto blocks = [](const std::string& recipe, int pp) {
    return read("run.sh",
                fmt::format("torchrun run_recipe.py --recipe {} model.pipeline_model_parallel_size={} "
                            "train.micro_batch_size=1 train.global_batch_size=64\n",
                            recipe, pp),
                {pp, 1})
        .setup.stage_blocks;
  };
  EXPECT_EQ(blocks("qwen3_235b_a22b_pretrain_config", 8), (std::vector<int>{11, 12, 12, 12, 12, 12, 12, 11}));
  EXPECT_EQ(blocks("deepseek_v3_pretrain_config", 8), (std::vector<int>{7, 8, 8, 8, 8, 8, 8, 6}));
  EXPECT_EQ(blocks("deepseek_v3_pretrain_config", 60).back(), 0);  // the loss alone
  EXPECT_TRUE(blocks("deepseek_v3_pretrain_config", 64).empty());
}

// --- DeepSpeed, FlagScale, MaxText ---

TEST(DeepSpeed, WithBothTypesOffTrainsIn32Bits) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("gpt-125m");
  answers.batch = 8;
  const auto of = [&](const char* text) { return read_files({{"ds.json", text}}, {1, 8}, answers); };
  EXPECT_EQ(of(R"({"train_batch_size": 8, "bf16": {"enabled": false}, "fp16": {"enabled": false}})").setup.dtype,
            DType::F32);
  EXPECT_EQ(of(R"({"train_batch_size": 8, "bf16": {"enabled": "auto"}, "fp16": {"enabled": false}})").setup.dtype,
            DType::BF16);
  EXPECT_TRUE(says(of(R"({"zero_optimization": {"stage": 1}})").assumed, "bf16, which the file leaves to the trainer"));
}

TEST(DeepSpeed, SaysThatExpertsAreNotSplitWhereNothingSaysHow) {
  const auto says_so = [&](const char* model, const char* more) {
    LaunchAnswers answers;
    answers.model = find_builtin_model(model);
    const std::string text = fmt::format(R"({{"train_batch_size": 8, "bf16": {{"enabled": true}}{}}})", more);
    return says(read_files({{"ds.json", text}}, {1, 8}, answers).assumed,
                "all experts on every device: nothing that is given says how they are split");
  };
  EXPECT_TRUE(says_so("mixtral-8x7b", ""));
  EXPECT_FALSE(says_so("mixtral-8x7b", R"(, "expert_parallel": {"enabled": true, "autoep_size": 4})"));
  EXPECT_FALSE(says_so("gpt-125m", ""));
}

TEST(DeepSpeed, SaysTheDecayOfItsWeights) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("gpt-125m");
  const auto of = [&](const char* decay) {
    return read_files({{"ds.json", fmt::format(R"({{"train_batch_size": 8, "optimizer": {{"type": "AdamW",
      "params": {{"lr": 0.001, "weight_decay": {}}}}}}})",
                                               decay)}},
                      {1, 8}, answers)
        .setup.optimizer.weight_decay;
  };
  EXPECT_EQ(of("0.1"), 0.1);
  EXPECT_EQ(of("\"auto\""), 0.0);
}

TEST(FlagScale, MeshesOfTheSameDegreesAreOneSetOfThem) {
  const auto of = [](const std::string& meshes, const std::string& split) {
    return read(
        "f.yaml",
        "system:\n  use_distributed_optimizer: true\n  pipeline_model_parallel_size: 2\n  bf16: true\n  hetero:\n"
        "    enable_hetero: true\n    hetero_process_meshes: " +
            meshes + "\n    hetero_pipeline_layer_split: " + split +
            "\nmodel:\n  num_layers: 8\n  hidden_size: 64\n  num_attention_heads: 4\n  seq_length: 32\n"
            "  max_position_embeddings: 32\n  vocab_size: 128\n  micro_batch_size: 1\n  global_batch_size: 8\n");
  };
  const LaunchReading same = of("[2, 1, 1, 2, 2]", "[3, 5]");
  EXPECT_TRUE(same.setup.stages.empty());
  EXPECT_EQ(same.setup.stage_blocks, (std::vector<int>{3, 5}));
  EXPECT_EQ(same.setup.degrees.zero, 1);
  EXPECT_EQ(of("[2, 1, 1, 2, 1, 1, 1, 1, 4, 1]", "[3, 5]").setup.stages.size(), 2u);
}

TEST(MaxText, KeepsTheResultsOfAllProductsAsItsFilesForPlansWithoutRecomputationDo) {
  const std::string model =
      "per_device_batch_size: 1\nbase_emb_dim: 64\nbase_num_query_heads: 4\nbase_num_kv_heads: 4\n"
      "base_mlp_dim: 128\nbase_num_decoder_layers: 4\n";
  EXPECT_EQ(read("r.yml", model + "remat_policy: minimal_with_context\n").setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(read("r.yml", model + "remat_policy: minimal\n").setup.degrees.recompute, Recompute::Selective);
  EXPECT_EQ(read("r.yml", model).setup.degrees.recompute, Recompute::Full);
}

// --- scripts that export writes for FSDP2 and accelerate ---

std::string torch_program(const std::string& imports, const std::string& degrees, const std::string& more = "") {
  return imports + "\nimport model\n\nDP_REPLICATE, DP_SHARD, CP, TP, PP, EP = " + degrees +
         "\nZERO = 3\nMICRO_BATCH, MICRO_BATCHES, STEPS = 2, 4, 20\nDTYPE = torch.bfloat16\nRECOMPUTE = True\n"
         "LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 0.001, 0.1, 1.0\n" +
         more + "\ndef main():\n    A = 3\n";
}
const LaunchAnswers kSmall{.model = find_builtin_model("llama:layers=2,hidden=64,heads=4,kv_heads=4,seq=32,vocab=64,"
                                                       "intermediate=128")};

TEST(TorchPrograms, SayAllInTheConstantsAtTheirHead) {
  const std::string fsdp =
      torch_program("from torch.distributed.fsdp import fully_shard", "1, 2, 2, 2, 1, 1",
                    "OPTIMIZER = functools.partial(torch.optim.SGD, lr=LEARNING_RATE, momentum=0.9)\n");
  const LaunchReading reading = read_files({{"train.py", fsdp}}, {1, 8}, kSmall);
  EXPECT_EQ(reading.setup.target, "fsdp2");
  EXPECT_EQ(method_text(reading.setup.degrees), "megatron:tp=2,pp=1,cp=2,zero=3,exact=1");
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.global_batch(), 16);
  EXPECT_EQ(reading.setup.optimizer.kind, Optimizer::Kind::Momentum);
  EXPECT_EQ(reading.setup.optimizer.momentum, 0.9);
  EXPECT_EQ(reading.setup.optimizer.weight_decay, 0.1);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
  EXPECT_TRUE(unread(reading).empty());
  const LaunchReading groups = read_files(
      {{"train.py", torch_program("from accelerate import Accelerator", "2, 4, 1, 1, 1, 1")}}, {1, 8}, kSmall);
  EXPECT_EQ(groups.setup.target, "accelerate");
  EXPECT_EQ(groups.setup.shard, 4);
  EXPECT_EQ(groups.setup.optimizer.kind, Optimizer::Kind::Adam);
}

TEST(TorchPrograms, AreRefusedWhereTheyAreNoneOfOurs) {
  const auto why = [&](const std::string& degrees, const std::string& more) {
    return refusal([&] {
      (void)read_files({{"train.py", torch_program("import torch", degrees, more)}}, {1, 8}, kSmall);
    });
  };
  EXPECT_NE(why("1, 2, 1, 1, 1", "").find("train.py:4: 6 names and 5 values"), std::string::npos);
  EXPECT_NE(why("1, 8, one, 1, 1, 1", "").find("train.py:4: CP is 'one'"), std::string::npos);
  EXPECT_NE(why("1, 8, 1, 1, 1, 1", "OPTIMIZER = torch.optim.SGD(momentum=much)\n").find("is no momentum"),
            std::string::npos);
  EXPECT_NE(refusal([] { (void)read("train.py", torch_program("import torch", "1, 8, 1, 1, 1, 1")); }).find("--model"),
            std::string::npos);
  const LaunchReading other =
      read_files({{"train.py", torch_program("import torch", "1, 4, 1, 1, 1, 1")}}, {1, 8}, kSmall);
  EXPECT_EQ(other.why_no_plan, "DP_REPLICATE 1 x DP_SHARD 4 x CP 1 x TP 1 is not the 8 devices");
}

// --- torchtitan ---

// Its FSDP takes in the ranks of cp: there are no plain replicas of them.
TEST(Torchtitan, SplitsStatesOverTheSequence) {
  Degrees degrees;
  degrees.dp = 4;
  degrees.cp = 2;
  const ModelShape shape = shape_of(find_builtin_model("llama-3.1-8b"));
  EXPECT_EQ(broken_rules(find_framework("torchtitan"), shape, degrees),
            (std::vector<std::string>{"torchtitan has no ZeRO level 0 with cp=2"}));
  degrees.zero = 3;
  EXPECT_TRUE(broken_rules(find_framework("torchtitan"), shape, degrees).empty());
}

const std::string kPipeline =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 4\nseq_len = 8192\n[parallelism]\n"
    "pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"PipelineScheduleSingle\"\n"
    "pipeline_parallel_schedule_csv = \"schedule.csv\"\n";

// Two stages and four micro-batches, whose weight gradients fill what waits.
TEST(Torchtitan, KnowsTheScheduleOfAFileByItsOrder) {
  const Schedule h1 = make_schedule(ScheduleKind::ZeroBubbleH1, line_of(2), 4);
  const auto with = [](const std::string& csv) {
    return read_files({{"plan.toml", kPipeline}, {"schedule.csv", csv}}, {1, 2});
  };
  EXPECT_EQ(with(schedule_to_csv(h1)).setup.degrees.schedule, ScheduleKind::ZeroBubbleH1);
  EXPECT_EQ(with(schedule_to_csv(h1)).why_no_plan, "");
  EXPECT_EQ(with(schedule_to_csv(make_schedule(ScheduleKind::GPipe, line_of(2), 4))).setup.degrees.schedule,
            ScheduleKind::GPipe);
  const LaunchReading other = with(schedule_to_csv(make_schedule(ScheduleKind::GPipe, line_of(2), 3)));
  EXPECT_NE(other.why_no_plan.find("is none of ours for 2 stages and 4 micro-batches"), std::string::npos);
  EXPECT_NE(read("plan.toml", kPipeline, {1, 2}).why_no_plan.find("give it as a further file"), std::string::npos);
}

// --- names of models ---

TEST(ModelsByName, AreOfTheSizeThatIsNamed) {
  const auto named = [](const char* name) { return model_by_name(name, "x").name; };
  EXPECT_EQ(named("llama3 70B"), "llama-3.1-70b");
  EXPECT_EQ(named("llama31_70b_pretrain_config"), "llama-3.1-70b");
  EXPECT_EQ(named("meta-llama/Llama-2-70b-hf"), "llama-70b");
  EXPECT_EQ(named("llama3.1-405b"), "llama-3.1-405b");
  EXPECT_EQ(named("deepseek_v3_pretrain_config"), "deepseek-v3");
  EXPECT_EQ(named("deepseek_v3 671B"), "deepseek-v3");
  EXPECT_EQ(named("Qwen/Qwen3-30B-A3B-Instruct-2507"), "qwen3-30b-a3b");
  EXPECT_EQ(named("qwen3_235b_a22b"), "qwen3-235b-a22b");
  EXPECT_EQ(named("mixtral_8x7b"), "mixtral-8x7b");
  EXPECT_EQ(named("meta-llama/Llama-4-Scout-17B-16E"), "llama4-scout");
  EXPECT_EQ(named("gpt-2.6b"), "gpt-2.6b");
}

// The program that DeepSpeed starts names the model; a name that stands for none is in the refusal.
TEST(ModelsByName, AreArgumentsOfTheProgramThatDeepSpeedStarts) {
  const auto read_script = [](const std::string& arguments) {
    const LaunchText text = read_launch_text(
        {.files = {{"run.sh", "deepspeed main.py --deepspeed --deepspeed_config ds.json " + arguments + "\n"},
                   {"ds.json",
                    R"({"train_batch_size": 16, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})"}}});
    return read_launch(text, {1, 8}, LaunchAnswers{});
  };
  const LaunchReading reading = read_script("--model_name_or_path facebook/opt-1.3b --max-seq-len 512");
  EXPECT_EQ(reading.setup.model.name, "opt-1.3b");
  EXPECT_EQ(reading.setup.model.seq, 512);
  EXPECT_NE(refusal([&] {
              return read_script("--model_name_or_path acme/opt-9b");
            }).find("DeepSpeed's files say nothing of the model, and the program's 'acme/opt-9b' is not built in"),
            std::string::npos);
}

TEST(ModelsByName, OfNoKnownSizeAreAskedFor) {
  for (const char* name :
       {"deepseek_v3 18B", "deepseek_v3_lite_pretrain_config", "deepseek_v3 debugmodel", "Qwen/Qwen3-9B",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-33B", "gpt-2.7b", "llama4 17bx64e", "kimi-k1", "qwen3_vl 8B"})
    EXPECT_NE(refusal([&] { (void)model_by_name(name, "x"); }).find("give --model"), std::string::npos) << name;
}

}  // namespace
}  // namespace meshwright::read_programs_test
