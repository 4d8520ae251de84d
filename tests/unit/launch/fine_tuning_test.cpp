// SPDX-License-Identifier: Apache-2.0
// Files and commands of programs that fine-tune over Hugging Face's trainer or Megatron-LM: LLaMA-Factory, axolotl,
// ms-swift, TRL, verl.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::fine_tuning_test {
namespace {

LaunchReading read_files(std::vector<GivenFile> files, LaunchDevices devices = {1, 8}) {
  return read_launch(read_launch_text({.files = std::move(files)}), devices, {});
}
LaunchReading read(const std::string& name, const std::string& text) { return read_files({{name, text}}); }
std::string refused(const std::string& name, const std::string& text) {
  return refusal([&] { (void)read(name, text); });
}
LaunchReading run(const std::string& script) { return read("run.sh", script); }
std::string refused_run(const std::string& script) { return refused("run.sh", script); }
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

// --- LLaMA-Factory ---

// lora_rank and lora_targets of the model.
using Adapters = std::pair<std::int64_t, std::int64_t>;
Adapters adapters_of(const LaunchReading& reading) {
  const auto& more = reading.setup.model.more;
  return {more.at("lora_rank"), more.at("lora_targets")};
}

const std::string kFactory =
    "model_name_or_path: meta-llama/Llama-3.1-8B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: full\n"
    "dataset: d\ncutoff_len: 4096\noutput_dir: o\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n"
    "bf16: true\nlearning_rate: 1.0e-5\n";
const std::string kZero3 = R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "overlap_comm": true}})";

TEST(LlamaFactory, TakesTheStatesFromItsDeepSpeedFile) {
  const LaunchReading reading =
      read_files({{"sft.yaml", kFactory + "deepspeed: examples/ds_z3.json\n"}, {"ds_z3.json", kZero3}});
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.global_batch(), 64);  // 2 samples x 4 x 8 devices
  EXPECT_EQ(reading.setup.model.name, "llama-3.1-8b");
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_FALSE(says(reading.assumed, "bf16, which the file leaves"));
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(LlamaFactory, IsNotReadWithoutTheFileThatHasItsStates) {
  EXPECT_NE(refused("sft.yaml", kFactory + "deepspeed: ds_z3.json\n").find("names DeepSpeed's file 'ds_z3.json'"),
            std::string::npos);
}

TEST(LlamaFactory, SplitsNothingWithoutDeepSpeedOrFsdp) {
  const LaunchReading plain = read("sft.yaml", kFactory + "disable_gradient_checkpointing: true\n");
  EXPECT_EQ(plain.setup.degrees.zero, 0);
  EXPECT_EQ(plain.setup.degrees.recompute, Recompute::None);
  const LaunchReading fsdp =
      read_files({{"sft.yaml", kFactory},
                  {"acc.yaml",
                   "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 1\nfsdp_config:\n  fsdp_version: 2\n"
                   "  fsdp_reshard_after_forward: False\n"}});
  EXPECT_EQ(fsdp.setup.degrees.zero, 2);
}

TEST(LlamaFactory, TrainsAdaptersUnlessItSaysFull) {
  std::string lora = kFactory;
  lora.replace(lora.find("finetuning_type: full\n"), 22, "");
  EXPECT_EQ(adapters_of(read("sft.yaml", lora)), (Adapters{8, 0}));  // of all products
  const std::string rank = "lora_rank: 64\nlora_target: q_proj,v_proj\n";
  EXPECT_EQ(adapters_of(read("sft.yaml", lora + "finetuning_type: lora\n" + rank)), (Adapters{64, 3}));
  EXPECT_EQ(adapters_of(read("sft.yaml", kFactory)), (Adapters{0, 0}));
  EXPECT_NE(refused("sft.yaml", lora + "finetuning_type: oft\n").find("trains oft"), std::string::npos);
  EXPECT_NE(refused("sft.yaml", lora + "quantization_bit: 4\n").find("a quantised model"), std::string::npos);
  std::string dpo = kFactory;
  dpo.replace(dpo.find("stage: sft"), 10, "stage: dpo");
  EXPECT_NE(refused("sft.yaml", dpo).find("trains by dpo"), std::string::npos);
}

// --- axolotl ---

const std::string kAxolotl =
    "base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 8192\nsample_packing: true\nmicro_batch_size: 1\n"
    "gradient_accumulation_steps: 2\nbf16: auto\noptimizer: adamw_torch_fused\nlearning_rate: 2e-5\n"
    "datasets:\n  - path: p\n    type: alpaca\n";

TEST(Axolotl, SaysItsDegrees) {
  const LaunchReading reading =
      read("full.yaml", kAxolotl +
                            "dp_shard_size: 2\ncontext_parallel_size: 2\ntensor_parallel_size: 2\nfsdp_version: 2\n"
                            "fsdp_config:\n  reshard_after_forward: true\n  state_dict_type: FULL_STATE_DICT\n");
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.cp, d.dp, d.zero}), (std::vector<int>{2, 2, 2, 3}));
  EXPECT_EQ(reading.setup.global_batch(), 4);  // 1 sample x 2 x 2 replicas
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Axolotl, AssertsThatTheSizesAreTheDevices) {
  const LaunchReading reading =
      read("full.yaml", kAxolotl + "dp_shard_size: 2\ntensor_parallel_size: 2\nfsdp_version: 2\n");
  EXPECT_TRUE(says(reading.broken, "tensor_parallel_size 2 is not the number of devices, 8"));
}

TEST(Axolotl, SplitsExpertsOverReplicasWithoutFsdp) {
  const LaunchReading reading =
      read("ep.yaml",
           "base_model: Qwen/Qwen3-30B-A3B\nsequence_len: 2048\nsample_packing: true\nmicro_batch_size: 1\n"
           "expert_parallel_size: 4\nbf16: true\noptimizer: adamw_torch\n");
  EXPECT_EQ(reading.setup.degrees.ep, 4);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
}

TEST(Axolotl, RefusesAdaptersAndQuantisedModels) {
  EXPECT_NE(refused("lora.yaml", kAxolotl + "adapter: qlora\n").find("trains qlora"), std::string::npos);
  EXPECT_NE(refused("q.yaml", kAxolotl + "load_in_4bit: true\n").find("trains a quantised model"), std::string::npos);
}

// --- ms-swift ---

TEST(MsSwift, IsMegatronWithDefaultsOfItsOwn) {
  const LaunchReading reading =
      read("sft.sh",
           "NPROC_PER_NODE=8 megatron sft --model LLM-Research/Meta-Llama-3.1-8B-Instruct --dataset d "
           "--tensor_model_parallel_size 4 --sequence_parallel true --max_length 4096 --micro_batch_size 2\n");
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.dp, d.zero}), (std::vector<int>{4, 2, 1}));
  EXPECT_EQ(d.recompute, Recompute::Selective);
  EXPECT_EQ(reading.setup.global_batch(), 16);
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(MsSwift, RefusesWhatTrainsNotAllWeights) {
  const std::string command = "megatron sft --model llama-3.1-8b --tensor_model_parallel_size 2 --tuner_type ";
  EXPECT_NE(refused("sft.sh", command + "lora_llm\n").find("trains lora_llm"), std::string::npos);
  EXPECT_EQ(adapters_of(read("sft.sh", command + "lora\n")), (Adapters{8, 0}));
  EXPECT_EQ(adapters_of(read("sft.sh", command + "lora --lora_rank 32 --target_modules linear_qkv linear_proj\n")),
            (Adapters{32, 1}));
  EXPECT_NE(
      refused("dpo.sh", "megatron rlhf --model llama-3.1-8b --tensor_model_parallel_size 2\n").find("megatron rlhf"),
      std::string::npos);
}

// --- ms-swift, `swift sft` ---

const std::string kSwift =
    "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-14B --tuner_type full --dataset d --torch_dtype bfloat16 "
    "--per_device_train_batch_size 1 --gradient_accumulation_steps 2 --packing true --max_length 8192 ";

TEST(SwiftSft, HasDeepSpeedsSettingsByName) {
  const LaunchReading reading = run(kSwift + "--deepspeed zero2\n");
  EXPECT_EQ(reading.setup.target, "deepspeed");
  EXPECT_EQ(reading.setup.degrees.zero, 2);
  EXPECT_EQ(reading.setup.global_batch(), 16);  // 1 sample x 2 x 8 devices
  EXPECT_EQ(reading.setup.model.name, "qwen2.5-14b");
  EXPECT_EQ(reading.setup.model.seq, 8192);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);  // unless it is told otherwise
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_EQ(run(kSwift + "--deepspeed zero3_offload\n").setup.offload, Offload::Optimizer | Offload::Weights);
  EXPECT_EQ(run(kSwift + "--gradient_checkpointing false\n").setup.degrees.recompute, Recompute::None);
}

TEST(SwiftSft, SharesSequencesAndTensors) {
  const LaunchReading reading =
      run(kSwift + "--deepspeed zero1 --sequence_parallel_size 2 --deepspeed_autotp_size 2\n");
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.cp, d.dp, d.zero}), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(reading.setup.global_batch(), 4);  // 1 sample x 2 x 2 replicas
}

TEST(SwiftSft, TakesSixteenSamplesWhereNothingIsSaid) {
  const LaunchReading reading = run("NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --tuner_type full\n");
  EXPECT_EQ(reading.setup.global_batch(), 16);  // 2 times 8
  EXPECT_TRUE(says(reading.assumed, "16 samples a step"));
  EXPECT_TRUE(says(reading.assumed, "samples of 2048 tokens: max_length is not given"));
}

TEST(SwiftSft, CountsTheProcessesOfItsVariables) {
  const LaunchText four = read_launch_text({.files = {{"run.sh", "NNODES=4 NPROC_PER_NODE=8 swift pt --model m\n"}}});
  EXPECT_EQ(four.hosts, 4);
  EXPECT_EQ(four.devices_per_host, 8);
  EXPECT_EQ(read_launch_text({.files = {{"run.sh", "swift sft --model m\n"}}}).devices, 1);
  EXPECT_EQ(read_launch_text({.files = {{"run.sh", "NPROC_PER_NODE=2 swift sft --model m\n"}}}).hosts, 1);
}

TEST(SwiftSft, TakesPythonFilesAsValuesOfItsFlags) {
  const LaunchReading reading =
      run("swift sft --external_plugins a.py b.py --model Qwen/Qwen2.5-7B --tuner_type full\n");
  EXPECT_EQ(reading.setup.model.name, "qwen2.5-7b");
}

TEST(SwiftSft, TrainsAllWeightsOrIsRefused) {
  EXPECT_EQ(adapters_of(run("swift sft --model Qwen/Qwen2.5-7B\n")), (Adapters{8, 0}));
  EXPECT_EQ(adapters_of(run("swift sft --model Qwen/Qwen2.5-7B --lora_rank 16 --target_modules q_proj k_proj\n")),
            (Adapters{16, 2}));
  EXPECT_NE(refused_run("swift sft --model Qwen/Qwen2.5-7B --tuner_type adalora\n").find("trains adalora"),
            std::string::npos);
  EXPECT_NE(refused_run(kSwift + "--freeze_llm true\n").find("what is beside a frozen language model"),
            std::string::npos);
  EXPECT_NE(refused_run(kSwift + "--freeze_parameters_ratio 0.5\n").find("a part of the weights"), std::string::npos);
  EXPECT_NE(refused_run(kSwift + "--quant_bits 4\n").find("a quantised model"), std::string::npos);
  EXPECT_NE(refused_run(kSwift + "--deepspeed zero4\n").find("names DeepSpeed's file 'zero4'"), std::string::npos);
}

TEST(MegatronSft, TakesItsFlagsFromAFile) {
  const LaunchReading reading =
      read_files({{"run.sh", "NPROC_PER_NODE=8 megatron sft sft.yaml --micro_batch_size 2\n"},
                  {"sft.yaml",
                   "model: Qwen/Qwen2.5-14B\ntensor_model_parallel_size: 4\nglobal_batch_size: 32\n"
                   "max_length: 4096\n"}});
  EXPECT_EQ(reading.setup.degrees.tp, 4);
  EXPECT_EQ(reading.setup.degrees.micro_batch, 2);
  EXPECT_EQ(reading.setup.global_batch(), 32);
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_NE(refused_run("megatron sft sft.yaml\n").find("names the file 'sft.yaml'"), std::string::npos);
  EXPECT_NE(refused_run("megatron sft --model Qwen/Qwen2.5-14B --freeze_llm true\n").find("a frozen language model"),
            std::string::npos);
}

// --- TRL ---

TEST(TrlSft, HasAcceleratesSettingsByNameAndDefaultsOfItsOwn) {
  const LaunchReading reading =
      run("trl sft --model_name_or_path meta-llama/Llama-3.1-8B --dataset_name d --accelerate_config zero3\n");
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.model.seq, 1024);
  EXPECT_EQ(reading.setup.global_batch(), 64);  // 8 samples x 8 devices
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_NE(refused_run("trl sft --model_name_or_path m --accelerate_config mine.yaml\n")
                .find("accelerate's file 'mine.yaml'"),
            std::string::npos);
}

const std::string kTrl =
    "model_name_or_path: meta-llama/Llama-3.1-8B\ndataset_name: d\nmax_length: 4096\nper_device_train_batch_size: 2\n"
    "gradient_checkpointing: false\n";

TEST(TrlSft, IsReadFromItsFileAloneOrBesideAccelerates) {
  const LaunchReading alone = read_files({{"sft.yaml", kTrl}});
  EXPECT_EQ(alone.setup.model.seq, 4096);
  EXPECT_EQ(alone.setup.global_batch(), 16);  // 2 samples x 8 devices
  EXPECT_EQ(alone.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(alone.setup.degrees.zero, 0);
  const LaunchReading beside =
      read_files({{"sft.yaml", kTrl}, {"fsdp.yaml", "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"}});
  EXPECT_EQ(beside.setup.degrees.zero, 3);
}

TEST(TrlSft, OfPreferencesIsRefused) {
  const std::string why = refusal([] { (void)read_files({{"dpo.yaml", kTrl + "beta: 0.1\n"}}); });
  EXPECT_NE(why.find("beta: trains against further models or samples"), std::string::npos) << why;
}

// --- LLaMA-Factory and axolotl ---

TEST(TrainerCommands, NameTheFileAndChangeItsSettings) {
  const LaunchReading reading = read_files(
      {{"run.sh", "FORCE_TORCHRUN=1 llamafactory-cli train sft.yaml cutoff_len=8192\n"}, {"sft.yaml", kFactory}});
  EXPECT_EQ(reading.setup.dialect, "llama-factory");
  EXPECT_EQ(reading.setup.model.seq, 8192);
  EXPECT_EQ(reading.setup.global_batch(), 64);  // 2 samples x 4 x 8 devices
  EXPECT_NE(refused_run("llamafactory-cli train sft.yaml\n").find("run.sh:1: names the file 'sft.yaml'"),
            std::string::npos);
  const LaunchReading axolotl =
      read_files({{"run.sh", "accelerate launch -m axolotl.cli.train fft.yaml\n"},
                  {"fft.yaml", "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 4\n"}});
  EXPECT_EQ(axolotl.setup.dialect, "axolotl");
  EXPECT_EQ(axolotl.setup.global_batch(), 32);  // 4 samples x 8 devices
}

const std::string kSecondForm =
    "model: Qwen/Qwen3-0.6B\nmodel_class: llm\ntrain_dataset: d.yaml\nmicro_batch_size: 1\ncutoff_len: 2048\n";

TEST(LlamaFactoryV1, SplitsByItsDistConfig) {
  const LaunchReading reading =
      read_files({{"sft.yaml",
                   kSecondForm + "cp_size: 2\nglobal_batch_size: 8\ndist_config:\n  name: fsdp2\n  dcp_path: null\n"}});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.cp, d.dp, d.zero}), (std::vector<int>{2, 4, 3}));
  EXPECT_EQ(reading.setup.global_batch(), 8);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_EQ(read_files({{"sft.yaml", kSecondForm}}).setup.degrees.zero, 0);
  const std::string deepspeed = "dist_config:\n  name: deepspeed\n  config_file: ds.json\n";
  EXPECT_EQ(read_files({{"sft.yaml", kSecondForm + deepspeed}, {"ds.json", R"({"zero_optimization": {"stage": 2}})"}})
                .setup.degrees.zero,
            2);
  const auto with_part = [](const char* name) {
    return read_files({{"sft.yaml", kSecondForm + "peft_config:\n  name: " + name + "\n  r: 16\n"}});
  };
  EXPECT_EQ(adapters_of(with_part("lora")), (Adapters{16, 0}));
  const std::string why = refusal([&] { (void)with_part("freeze"); });
  EXPECT_NE(why.find("peft_config.name: trains freeze"), std::string::npos) << why;
}

// --- verl ---

// 8 devices in 4 groups of 2 that split a sequence: 64 samples are 4 micro-batches of 4 each.
TEST(Verl, TrainsOnGivenSamplesOverFsdp) {
  const std::string call =
      "torchrun --standalone --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer data.train_files=$HOME/a.parquet "
      "+data.response_dict_keys=['answer'] data.train_batch_size=64 data.micro_batch_size_per_gpu=4 "
      "data.max_length=2048 model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct trainer.logger=console optim.lr=1e-4 "
      "ulysses_sequence_parallel_size=2 use_remove_padding=true ";
  const LaunchReading reading = run(call + "\n");
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.cp, d.dp, d.zero}), (std::vector<int>{2, 4, 3}));
  EXPECT_EQ(d.context, ContextExchange::AllToAll);
  EXPECT_EQ(reading.setup.global_batch(), 64);
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(reading.setup.model.name, "qwen2.5-0.5b");
  EXPECT_EQ(reading.setup.model.seq, 2048);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_TRUE(reading.broken.empty()) << reading.broken.front();
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_EQ(run(call + "model.enable_gradient_checkpointing=False\n").setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(adapters_of(run(call + "model.lora_rank=32\n")), (Adapters{32, 0}));
}

// 4 of the samples of 2,048 tokens in the 8,192 that a device takes.
TEST(Verl, CountsTokensInItsNewerTrainer) {
  const std::string call =
      "torchrun --nproc_per_node 8 -m verl.trainer.sft_trainer model.path=Qwen/Qwen2.5-0.5B data.max_length=2048 "
      "data.train_batch_size=64 ";
  const LaunchReading reading = run(call + "engine=fsdp engine.strategy=fsdp2\n");
  EXPECT_EQ(reading.setup.degrees.micro_batch, 4);
  EXPECT_EQ(reading.setup.global_batch(), 64);
  EXPECT_EQ(reading.software, "fsdp2");
  EXPECT_NE(refused_run(call + "engine=veomni\n").find("verl's engine 'veomni' is not read"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::fine_tuning_test
