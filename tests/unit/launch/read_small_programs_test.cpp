// SPDX-License-Identifier: Apache-2.0
// Programs of one kind of model: nanochat, picotron, prime-rl.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_small_programs_test {
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
std::int64_t parameters_of(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return parameter_count(build_forward_graph(reading.setup.model, options));
}

// --- nanochat ---

const std::string kNanochat = "torchrun --standalone --nproc_per_node=8 -m scripts.base_train -- ";

TEST(Nanochat, MakesModelAndBatchOfItsDepth) {
  const LaunchReading reading = read({{"run.sh", kNanochat + "--depth=24 --device-batch-size=16 --fp8 --run=x\n"}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(reading.setup.model.hidden, 1536);
  EXPECT_EQ(reading.setup.model.heads, 12);
  EXPECT_EQ(reading.setup.model.seq, 2048);
  // 12 x 24 x 1536^2 in blocks, two tables of 32768 x 1536, and norms, which nanochat has without weights.
  EXPECT_NEAR(static_cast<double>(parameters_of(reading)), 12.0 * 24 * 1536 * 1536 + 2.0 * 32768 * 1536, 1.0e5);
  // 2^19 x (729.8 / 110.1 million)^0.383 = 2^20.04 tokens
  EXPECT_EQ(reading.setup.global_batch(), 512);
  EXPECT_EQ(d.micro_batch, 16);
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(d.zero, 1);
  EXPECT_EQ(reading.setup.matmul_dtype, "fp8");
  EXPECT_TRUE(says(reading.assumed, "12 embeddings that are added to values, 0.604 billion parameters"));
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Nanochat, CountsTheBatchInTokens) {
  const LaunchReading reading =
      read({{"run.sh", kNanochat + "--depth 12 --max-seq-len=1024 --total-batch-size=524288 --window-pattern L\n"}});
  EXPECT_EQ(reading.setup.global_batch(), 512);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 2);  // 512 / 8 / 32
}

TEST(Nanochat, RefusesOlderFlagsAndWhatComesLater) {
  EXPECT_NE(refused({{"run.sh", kNanochat + "--depth=20 --device_batch_size=16\n"}}).find("releases of 2025"),
            std::string::npos);
  EXPECT_NE(refused({{"run.sh", "torchrun --nproc_per_node=8 -m scripts.chat_sft -- --run=x\n"}})
                .find("trains nanochat's checkpoint further"),
            std::string::npos);
}

// --- picotron ---

std::string picotron(const std::string& degrees, const std::string& more = "") {
  return "{\"distributed\": {" + degrees + ", \"pp_engine\": \"afab\", \"use_cpu\": false}, \"model\": {\"name\": " +
         "\"HuggingFaceTB/SmolLM-1.7B\", \"num_hidden_layers\": 15" + more +
         "}, \"training\": {\"seq_length\": 1024, \"micro_batch_size\": 4, \"gradient_accumulation_steps\": 8}}";
}

TEST(Picotron, HasAllDegreesAndTheSizesThatItChanges) {
  const std::string text = picotron(R"("tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2)");
  EXPECT_EQ(read_launch_text({.files = {{"a.json", text}}}).devices, 8);
  const LaunchReading reading = read({{"a.json", text}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.tp, 2);
  EXPECT_EQ(d.pp, 2);
  EXPECT_EQ(d.dp, 2);
  EXPECT_EQ(d.zero, 0);
  EXPECT_EQ(d.schedule, ScheduleKind::GPipe);
  EXPECT_EQ(d.micro_batches, 8);
  EXPECT_EQ(reading.setup.global_batch(), 64);  // 4 x 8 x 2
  EXPECT_EQ(reading.setup.model.layers, 15);
  EXPECT_EQ(reading.setup.stage_blocks, (std::vector<int>{8, 7}));
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
  EXPECT_EQ(reading.setup.optimizer.max_norm, 0.0);
}

TEST(Picotron, IsNamedByItsCommandAndCounted) {
  const std::string text = picotron(R"("tp_size": 4, "cp_size": 1, "pp_size": 1, "dp_size": 2)");
  EXPECT_EQ(
      read({{"run.sh", "torchrun --nproc_per_node 8 train.py --config a.json\n"}, {"a.json", text}}).setup.degrees.tp,
      4);
  EXPECT_NE(read({{"a.json", text}}, {2, 8}).why_no_plan.find("is not the number of devices, 16"), std::string::npos);
}

// --- prime-rl ---

const std::string kPrime =
    "max_steps = 20\n[model]\nname = \"PrimeIntellect/Qwen3-1.7B\"\n[data]\nname = \"x/y\"\nseq_len = 1024\n"
    "batch_size = 64\nmicro_batch_size = 2\n[optim]\nlr = 1e-5\n";

TEST(PrimeRl, IsNotReadAsTorchtitan) {
  const LaunchReading reading = read({{"sft.toml", kPrime}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(reading.setup.release, "prime-rl 559b4477");
  EXPECT_EQ(d.zero, 3);
  EXPECT_EQ(d.recompute, Recompute::Full);               // model.ac, which is on unless it is switched off
  EXPECT_EQ(reading.setup.offload, Offload::Optimizer);  // optim_cpu_offload, too
  EXPECT_EQ(reading.setup.global_batch(), 64);
  EXPECT_EQ(d.micro_batch, 2);
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(reading.setup.model.seq, 1024);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(PrimeRl, SwitchesGroupsOff) {
  std::string text = kPrime;
  text.insert(text.find("[data]"), "ac = \"None\"\noptim_cpu_offload = false\ncp = 2\ncp_style = \"ulysses\"\n");
  const LaunchReading reading = read({{"sft.toml", text}});
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(reading.setup.offload, Offload::None);
  EXPECT_EQ(reading.setup.degrees.cp, 2);
  EXPECT_EQ(reading.setup.degrees.context, ContextExchange::AllToAll);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 8);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
}

TEST(PrimeRl, RunsOnOneDeviceUnlessItIsTold) {
  EXPECT_EQ(read_launch_text({.files = {{"sft.toml", kPrime}}}).devices_per_host, 1);
  EXPECT_EQ(read_launch_text({.files = {{"sft.toml", kPrime + "[deployment]\nnum_train_gpus = 8\n"}}}).devices_per_host,
            8);
  const LaunchText command = read_launch_text(
      {.files = {{"run.sh", "uv run sft @ sft.toml --deployment.num-train-gpus 4\n"}, {"sft.toml", kPrime}}});
  EXPECT_EQ(command.devices_per_host, 4);
}

TEST(PrimeRl, RefusesRewardsAndAdapters) {
  EXPECT_NE(refused({{"rl.toml", kPrime + "[orchestrator]\nbatch_size = 128\n"}}).find("learns by reinforcement"),
            std::string::npos);
  EXPECT_NE(refused({{"sft.toml", kPrime + "[model.lora]\nrank = 8\n"}}).find("adapters"), std::string::npos);
  EXPECT_NE(refused({{"part.toml", "[slurm]\npartition = \"a\"\n"}}).find("shows what framework it is for"),
            std::string::npos);
}

// --- Fast-LLM ---

const std::string kFastLlm =
    "training:\n  train_iters: 100\ndata:\n  micro_batch_size: 8192\n  maximum_document_length: 4096\n"
    "optimizer:\n  weight_decay: 0.1\nschedule:\n  depth_first_micro_batches: 4\nmodel:\n  base_model:\n"
    "    hidden_size: 4096\n    embeddings:\n      vocab_size: 32000\n    decoder:\n      num_blocks: 32\n"
    "      block:\n        mixer:\n          type: attention\n          rotary:\n            type: default\n"
    "          heads: 32\n          head_groups: 8\n          head_size: 128\n          add_linear_biases: false\n"
    "        mlp:\n          intermediate_size: 14336\n          add_linear_biases: false\n          gated: true\n"
    "          activation: silu\n        normalization:\n          type: rms_norm\n"
    "  multi_stage:\n    zero_stage: 2\n  distributed:\n    compute_dtype: bf16\n    tensor_parallel: 2\n"
    "    sequence_tensor_parallel: true\n";

TEST(FastLlm, CountsMicroBatchesInTokens) {
  const LaunchReading reading = read({{"a.yaml", kFastLlm}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(parameters_of(reading), 7'241'732'096);  // Mistral 7B
  EXPECT_EQ(d.tp, 2);
  EXPECT_TRUE(d.sequence_parallel);
  EXPECT_EQ(d.dp, 4);
  EXPECT_EQ(d.zero, 2);
  EXPECT_EQ(d.micro_batch, 2);  // 8192 tokens in documents of 4096
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(FastLlm, HasPipelinesAndSplitSequences) {
  std::string split = kFastLlm;
  split.replace(split.find("depth_first"), 11, "breadth_first");
  const LaunchReading reading =
      read({{"a.yaml", split + "    pipeline_parallel: 2\n    sequence_data_parallel: 2\n"}}, {1, 8});
  EXPECT_EQ(reading.setup.degrees.pp, 2);
  EXPECT_EQ(reading.setup.degrees.cp, 2);
  EXPECT_EQ(reading.setup.degrees.dp, 1);
  EXPECT_EQ(reading.setup.degrees.schedule, ScheduleKind::GPipe);
  EXPECT_EQ(reading.why_no_plan, "");
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
}

TEST(FastLlm, RefusesOtherBlocks) {
  std::string other = kFastLlm;
  other.replace(other.find("type: attention"), 15, "type: mamba");
  EXPECT_NE(refused({{"a.yaml", other}}).find("'mamba' is of a model that no family of ours has"), std::string::npos);
}

// --- scripts within YAML ---

TEST(WrappedScripts, HaveTheHostsDevicesAndVariablesOfTheirFile) {
  const std::string sky =
      "resources:\n  accelerators: A100:8\nnum_nodes: 2\nenvs:\n  MODEL: meta-llama/Llama-3.1-8B\nrun: |\n"
      "  N=$(echo \"$SKYPILOT_NODE_IPS\" | wc -l)\n"
      "  torchrun --nnodes $N --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE train.py --model_name_or_path $MODEL "
      "--per_device_train_batch_size 2 --max_length 2048 --fsdp full_shard --bf16\n";
  const LaunchText text = read_launch_text({.files = {{"sky.yaml", sky}}});
  EXPECT_EQ(text.hosts, 2);
  EXPECT_EQ(text.devices_per_host, 8);
  EXPECT_EQ(text.device, "A100");
  EXPECT_EQ(text.program, "sky.yaml:8: train.py");
  const LaunchReading reading = read_launch(text, {2, 8}, {});
  EXPECT_EQ(reading.setup.model.layers, 32);
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.global_batch(), 32);
}

TEST(WrappedScripts, AreListsOfCommandsToo) {
  const std::string task =
      "type: task\nnodes: 2\nenv:\n  - BATCH=4\ncommands:\n  - pip install x\n  - torchrun --nnodes $DSTACK_NODES_NUM "
      "--nproc_per_node $DSTACK_GPUS_PER_NODE train.py --model_name_or_path meta-llama/Llama-3.1-8B "
      "--per_device_train_batch_size $BATCH --max_length 2048 --fsdp full_shard --bf16\nresources:\n  gpu: H100:8\n";
  const LaunchText text = read_launch_text({.files = {{"task.yaml", task}}});
  EXPECT_EQ(text.hosts, 2);
  EXPECT_EQ(read_launch(text, {2, 8}, {}).setup.degrees.micro_batch, 4);
}

// --- tables and configurations that are not read ---

TEST(PythonFiles, OfOtherFrameworksAreNotTorchtitans) {
  EXPECT_NE(refused({{"gpt2.py", "from libai.config import LazyCall\nfrom .common.train import train\n"}})
                .find("is a configuration of LiBai"),
            std::string::npos);
  EXPECT_NE(refused({{"suite.py", "from benchmark_parallel_utils import BenchmarkCase\nsuite = {}\n"}})
                .find("is a table of cases that Alpa's benchmark.py runs"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::read_small_programs_test
