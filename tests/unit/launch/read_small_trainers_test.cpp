// SPDX-License-Identifier: Apache-2.0
// Trainers whose settings are in one file or one command: lingua, Levanter, VeOmni, llm.c, MegaBlocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_small_trainers_test {
namespace {

LaunchReading read(std::vector<GivenFile> files, LaunchDevices devices = {1, 8}, LaunchAnswers answers = {}) {
  return read_launch(read_launch_text({.files = std::move(files)}), devices, std::move(answers));
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
std::int64_t parameters_of(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return parameter_count(build_forward_graph(reading.setup.model, options));
}

// --- lingua ---

const std::string kLingua =
    "name: large_lm\nsteps: 60_000\noptim:\n  lr: 3e-3\n  weight_decay: 0.033\n  clip: 1.0\n"
    "distributed:\n  fsdp_type: full_shard\n  compile: true\n  model_dtype: bf16\n  tp_size: 1\n  dp_shard: 8\n"
    "  selective_activation_checkpointing: false\nmodel:\n  dim: 2048\n  n_layers: 25\n  n_heads: 16\n"
    "  vocab_size: 100512\ndata:\n  batch_size: 4\n  seq_len: 4096\ngrad_acc_steps: 2\n";

TEST(Lingua, ReadsModelBatchAndShards) {
  const LaunchReading reading = read({{"a.yaml", kLingua}}, {2, 8});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.dp, 16);
  EXPECT_EQ(d.zero, 3);
  EXPECT_EQ(reading.setup.shard, 8);  // dp_shard, with two copies
  EXPECT_EQ(d.micro_batch, 4);
  EXPECT_EQ(d.micro_batches, 2);
  EXPECT_EQ(reading.setup.model.more.at("intermediate"), 5632);  // 8 x 2048 / 3 = 5461, in steps of 256
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.optimizer.weight_decay, 0.033);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Lingua, WordsOfTheCommandReplaceTheFiles) {
  const LaunchReading reading =
      read({{"run.sh", "torchrun --nproc_per_node 8 -m apps.main.train config=a.yaml data.batch_size=8\n"},
            {"a.yaml", kLingua}});
  EXPECT_EQ(reading.setup.degrees.micro_batch, 8);
  EXPECT_NE(refused({{"run.sh", "torchrun -m apps.main.train config=a.yaml\n"}}).find("give that as a further file"),
            std::string::npos);
}

TEST(Lingua, OtherAppsAreRefused) {
  std::string other = kLingua;
  other.insert(other.find("  n_heads"), "  n_future_heads: 4\n");
  EXPECT_NE(refused({{"a.yaml", other}}).find("is of another app of lingua"), std::string::npos);
}

// --- Levanter ---

const std::string kLevanter =
    "data:\n  tokenizer: NousResearch/Llama-2-7b-hf\nmodel:\n  type: llama\n  seq_len: 4096\n  hidden_dim: 4096\n"
    "  intermediate_dim: 11008\n  num_layers: 32\n  num_heads: 32\n  num_kv_heads: 32\n  gradient_checkpointing: true\n"
    "trainer:\n  mp: p=f32,c=bfloat16\n  model_axis_size: 2\n  train_batch_size: 64\n  per_device_parallelism: 4\n"
    "  num_train_steps: 100\noptimizer:\n  weight_decay: 0.1\n";

TEST(Levanter, ReadsModelBatchAndAxes) {
  const LaunchReading reading = read({{"a.yaml", kLevanter}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.tp, 2);
  EXPECT_EQ(d.dp, 4);
  EXPECT_EQ(d.zero, 3);
  EXPECT_EQ(d.micro_batch, 4);
  EXPECT_EQ(d.micro_batches, 4);  // 64 of 4 replicas x 4
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_EQ(parameters_of(reading), 6'738'415'616);  // Llama 2 7B
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

// --- VeOmni ---

const std::string kVeOmni =
    "model:\n  model_path: Qwen3-8B-Base\ndata:\n  train_path: x\n  max_seq_len: 2048\ntrain:\n  accelerator:\n"
    "    ulysses_size: 2\n    fsdp_config:\n      fsdp_mode: fsdp2\n  gradient_checkpointing:\n    enable: true\n"
    "  global_batch_size: 16\n  micro_batch_size: 1\n  optimizer:\n    type: adamw\n    max_grad_norm: 1.0\n";

TEST(VeOmni, ReadsDegreesByNewAndOlderNames) {
  const std::string older =
      "model:\n  model_path: Qwen3-8B-Base\ndata:\n  max_seq_len: 2048\ntrain:\n  ulysses_parallel_size: 2\n"
      "  data_parallel_mode: fsdp2\n  enable_gradient_checkpointing: true\n  global_batch_size: 16\n"
      "  micro_batch_size: 1\n  max_grad_norm: 1.0\n";
  for (const std::string& file : {kVeOmni, older}) {
    const LaunchReading reading = read({{"a.yaml", file}});
    const Degrees& d = reading.setup.degrees;
    EXPECT_EQ(d.cp, 2);
    EXPECT_EQ(d.context, ContextExchange::AllToAll);
    EXPECT_EQ(d.dp, 4);
    EXPECT_EQ(d.zero, 3);
    EXPECT_EQ(d.micro_batches, 4);
    EXPECT_EQ(d.recompute, Recompute::Full);
    EXPECT_EQ(reading.setup.model.name, "qwen3-8b");
    EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  }
}

TEST(VeOmni, PreferencesAreRefused) {
  EXPECT_NE(refused({{"a.yaml", kVeOmni + "dpo_config:\n  beta: 0.1\n"}}).find("against further models"),
            std::string::npos);
}

// --- llm.c ---

const std::string kLlmC =
    "mpirun -np 8 ./train_gpt2cu -i \"dev/*.bin\" -o log -v 250 -s 300000 -h 1 -b 16 -t 1024 -d 1048576 -r 0 -z 1 "
    "-c 0.1 -k cosine -l 0.0006 -e d48\n";

TEST(LlmC, ReadsTheLettersOfItsCommand) {
  const LaunchText text = read_launch_text({.files = {{"run.sh", kLlmC}}});
  EXPECT_EQ(text.devices, 8);
  const LaunchReading reading = read_launch(text, {1, 8}, {});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.zero, 1);
  EXPECT_EQ(d.micro_batch, 16);
  EXPECT_EQ(d.micro_batches, 8);  // 1024 sequences of 8 devices x 16
  EXPECT_EQ(d.recompute, Recompute::None);
  EXPECT_EQ(reading.setup.model.layers, 48);
  EXPECT_NEAR(static_cast<double>(parameters_of(reading)), 1558e6, 1e6);  // as its script calls the model
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(LlmC, CopiesOfItsProgramStartNothing) {
  const std::string script =
      "P=/home/llm.c/train_gpt2cu\nscp -r $P host2:$P\nmpirun -np 16 --host a:8,b:8 $P -b 64 -t 1024 "
      "-d 2097152 -r 0 -z 1 -e d12\n";
  EXPECT_EQ(read({{"run.sh", script}}, {2, 8}).setup.degrees.micro_batches, 2);  // 2048 sequences of 16 x 64
}

// --- nanoGPT's command, and Composer's files ---

TEST(NanoGptCommand, ChangesItsConfiguration) {
  const std::string config =
      "batch_size = 12\nblock_size = 1024\ngradient_accumulation_steps = 5 * 8\nmax_iters = 600000\n";
  const LaunchReading reading =
      read({{"run.sh", "torchrun --standalone --nproc_per_node=8 train.py config/train_gpt2.py --batch_size=5\n"},
            {"config/train_gpt2.py", config}});
  EXPECT_EQ(reading.setup.degrees.micro_batch, 5);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 5);  // 40 of all devices
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Composer, ModelsOfOtherProgramsAreRefused) {
  const std::string file =
      "max_seq_len: 4096\nmodel:\n  name: mosaic_llama2_7b\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n"
      "train_loader:\n  name: text\nglobal_train_batch_size: 32\ndevice_train_microbatch_size: 4\n";
  EXPECT_NE(refused({{"a.yaml", file}}).find("models of 'mosaic_llama2_7b' are not read"), std::string::npos);
}

// --- MegaBlocks, and flags of experts that nobody has ---

const std::string kGpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 --num-attention-heads 8 "
    "--seq-length 128 --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 32 --vocab-size 1024 ";

TEST(MegaBlocks, ExpertsAreSplitOverTheReplicas) {
  const LaunchReading reading = read({{"run.sh", kGpt + "--moe-num-experts=64 --moe-loss-weight=0.1 --moe-top-k=1 "
                                                        "--moe-expert-model-parallelism --fp16\n"}});
  EXPECT_EQ(reading.setup.degrees.ep, 8);
  EXPECT_EQ(reading.setup.model.more.at("experts"), 64);
  EXPECT_EQ(reading.setup.model.more.at("top_k"), 1);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(MegaBlocks, ExpertsByUnknownFlagsAreRefused) {
  EXPECT_NE(refused({{"run.sh", kGpt + "--my-experts 16\n"}}).find("--my-experts: may give the model experts"),
            std::string::npos);
  EXPECT_FALSE(says(read({{"run.sh", kGpt + "--bf16\n"}}).assumed, "experts"));
}

}  // namespace
}  // namespace meshwright::read_small_trainers_test
