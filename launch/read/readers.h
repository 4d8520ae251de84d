// SPDX-License-Identifier: Apache-2.0
// The readers of single frameworks, and what they share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "launch/read/launch_reading.h"
#include "launch/read/model_facts.h"

namespace meshwright {

// A reading in the making.
// What is trained in the place of the model's weights (adapters.h).
struct AdaptersOfJob {
  std::string place;  // of the setting that says so
  std::int64_t rank;
  std::int64_t targets;  // the model's lora_targets
};

struct ReadingJob {
  const LaunchText& text;
  const LaunchDevices& devices;
  const LaunchAnswers& answers;
  LaunchReading reading;
  std::optional<AdaptersOfJob> adapters = {};

  Settings& settings() { return reading.settings; }
  Degrees& degrees() { return reading.setup.degrees; }
  void assume(std::string what) {
    for (const std::string& known : reading.assumed)
      if (known == what) return;
    reading.assumed.push_back(std::move(what));
  }
  void broken(std::string what) { reading.broken.push_back(std::move(what)); }
  void no_plan(const std::string& why) {
    if (reading.why_no_plan.empty()) reading.why_no_plan = why;
  }
  // What is broken leaves no plan, unless the way out is taken.
  void broken_without_plan(const std::string& why, const char* way_out = "") {
    broken(why);
    no_plan(why + way_out);
  }
};

void read_megatron(ReadingJob& job);    // flags, YAML of tests, FlagScale, Megatron-Bridge (keys made alike)
void read_torchtitan(ReadingJob& job);  // TOML and Python
// Settings of torchtitan before 0.2 ([training] with degrees, [experimental]) as 0.2.2 calls them.
void name_as_torchtitan_now(Settings& settings);
void read_deepspeed(ReadingJob& job);  // JSON
void read_neox(ReadingJob& job);
void read_maxtext(ReadingJob& job);
void read_accelerate(ReadingJob& job);
void read_torch_program(ReadingJob& job);  // the script that export writes for FSDP2 and accelerate

void read_jax(ReadingJob& job);       // modules with meshes and PartitionSpecs
void read_alpa(ReadingJob& job);      // modules with a PipeshardParallel
void read_nnscaler(ReadingJob& job);  // YAML of its trainer's arguments

void read_nanotron(ReadingJob& job);   // YAML with a model, its tokens and degrees
void read_olmo(ReadingJob& job);       // YAML of OLMo's first trainer
void read_olmo_core(ReadingJob& job);  // the JSON that its runs save
void read_foundry(ReadingJob& job);    // YAML of llm-foundry's trainer
void read_torchtune(ReadingJob& job);  // YAML of its recipes for all weights
void read_litgpt(ReadingJob& job);     // YAML of `litgpt pretrain` and `litgpt finetune_full`
void read_nanogpt(ReadingJob& job);    // assignments of its configurations
void read_lingua(ReadingJob& job);     // YAML of its plain transformers
void read_levanter(ReadingJob& job);   // YAML of its language models
void read_veomni(ReadingJob& job);     // YAML of its trainings of texts
void read_llm_c(ReadingJob& job);      // commands of its program
void read_automodel(ReadingJob& job);  // recipes of NeMo Automodel
void read_fast_llm(ReadingJob& job);   // YAML of `fast-llm train gpt`
void read_nanochat(ReadingJob& job);   // flags of its scripts/base_train.py
void read_picotron(ReadingJob& job);   // the JSON of its train.py
void read_prime_rl(ReadingJob& job);   // TOML of prime-rl's trainings on given samples

void read_llama_factory(ReadingJob& job);  // YAML of a fine-tuning of all weights
void read_llama_factory_v1(ReadingJob& job);
void read_axolotl(ReadingJob& job);
void read_verl(ReadingJob& job);           // words of Hydra behind its trainers on given samples
void read_verl_megatron(ReadingJob& job);  // the same with the engine megatron
void read_verl_actor(ReadingJob& job);     // of its trainings by reinforcement the update of the actor
void read_nemo_rl(ReadingJob& job);        // NeMo RL's policy, over FSDP2 or Megatron-core
void read_ms_swift(ReadingJob& job);       // flags or YAML of `swift sft`; `megatron sft` is Megatron-LM's

// --- shared ---

// More than any cluster has ranks, and small enough that no product of degrees overflows.
constexpr std::int64_t kMaxDegree = 1 << 20;
[[nodiscard]] inline int as_degree(std::int64_t given) { return static_cast<int>(std::min(given, kMaxDegree)); }

// The degree that a setting gives; 1: it is not given. Throws InputError for more than any cluster has.
[[nodiscard]] int degree_of(ReadingJob& job, const std::string& key);
// The length of the sequences: of the answers, or of a setting; nullopt: neither has it.
[[nodiscard]] std::optional<std::int64_t> sequence_of(ReadingJob& job, const std::string& key);

// Keys of DeepSpeed's JSON, each with `prefix` in front; what it leaves to the trainer ("auto") is in `type`, or
// assumed.
void read_deepspeed_keys(ReadingJob& job, const std::string& prefix, std::optional<DType> type = std::nullopt);
// Where DeepSpeed keeps the optimizer state: "cpu" is the host; on "nvme" there is no plan.
void offload_optimizer(ReadingJob& job, const std::string& device_key);
// The same of the weights, which ZeRO 3 gathers from there.
void offload_weights(ReadingJob& job, const std::string& device_key);
// Optimizer state on the host, where the framework updates the weights, too.
void offload_update(ReadingJob& job);
// What DeepSpeed's file says of both, with `prefix` before its keys.
void read_deepspeed_offload(ReadingJob& job, const std::string& prefix);
// FSDP's: weights and optimizer state lie on the host, and the weights are gathered from there.
void offload_shards(ReadingJob& job);
// A number, or nothing where the trainer fills it in ("auto").
[[nodiscard]] std::optional<std::int64_t> number_or_auto(Settings& settings, const std::string& key);
// train = micro x accumulation x dp; any two are enough, of which the trainer's arguments give what the file leaves
// out.
struct TrainerArguments;
void read_deepspeed_batch(ReadingJob& job, const std::string& prefix, const TrainerArguments& trainer);

// The model of the caller, else a built-in one that an argument of the program which the framework starts names
// ("--model_name_or_path facebook/opt-1.3b"), with the program's sequence length. Throws InputError where there is
// none.
void take_model_of_program(ReadingJob& job, const std::string& framework);

// Weights that are trained are all of the model's; what else is trained (`kind`, by the key's setting) is no plan here:
// throws InputError.
[[noreturn]] void expect_whole_model(ReadingJob& job, const std::string& key, const std::string& kind);

// SGD with a momentum, or without one where it is 0; throws InputError that begins with `where` for other numbers.
void use_sgd(Optimizer& optimizer, double momentum, const std::string& where);
// A trainer of replicas and FSDP that splits no tensors; `dialect` is the framework's name too.
void use_plain_fsdp(ReadingJob& job, const char* release, const char* dialect);
// What advice may change of the states and of recomputation, where the framework can be told these alone; the file's
// own are among them.
void keep_to(ReadingJob& job, std::vector<int> zero, std::vector<Recompute> recompute);

// dp of what is left beside tp, pp and cp; where these do not divide the devices there is no plan.
void share_devices(ReadingJob& job);
// Micro-batches of `micro_batch` samples that a global batch makes; nullopt: one micro-batch of every replica. Where
// they do not divide there is no plan.
void share_batch(ReadingJob& job, std::int64_t micro_batch, std::optional<std::int64_t> global);
// The model of the answers instead of the file's; true: there is one.
bool take_given_model(ReadingJob& job, std::optional<std::int64_t> seq);
// One of the built-in models whose name is nearest to a framework's own ("llama3", "405B", "llama3.1-405b"); throws
// InputError that asks for --model where none has all its parts.
[[nodiscard]] ModelConfig model_by_name(const std::string& name, const std::string& where);
// The number without which no plan can be made; throws InputError, which names it as `shown`, where it is not given.
[[nodiscard]] std::int64_t needed(ReadingJob& job, const std::string& key, const std::string& shown);
// The number of words: of the file, of the answers, or an assumed one; `unit` pads it.
[[nodiscard]] std::int64_t vocabulary(ReadingJob& job, std::optional<std::int64_t> given, std::int64_t unit);

}  // namespace meshwright
