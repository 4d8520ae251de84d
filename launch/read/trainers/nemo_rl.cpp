// SPDX-License-Identifier: Apache-2.0
// NeMo RL (7ea279ab): YAML of its trainings on given samples, and of those by reinforcement the policy's optimizer
// step, by FSDP2 (dtensor_cfg) or Megatron-core (megatron_cfg). A file over others is read with these; what none of
// them says is as in its examples/configs/sft.yaml and grpo_math_1B.yaml.
#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/read/trainers/policies.h"

namespace meshwright {

namespace {

const std::string kPolicy = "policy.", kDtensor = "policy.dtensor_cfg.", kMcore = "policy.megatron_cfg.";

void expect_policy_of_weights(ReadingJob& job) {
  Settings& s = job.settings();
  for (const std::string& key : {kDtensor + "lora_cfg.enabled", kMcore + "peft.enabled"})
    if (switched_on(s, key)) expect_whole_model(job, key, "adapters");
  for (const Setting& setting : s.all())
    if (setting.key.starts_with(kPolicy + "quant_cfg") && setting.value.kind != ConfigValue::Kind::Null &&
        to_text(setting.value) != "null")
      expect_whole_model(job, setting.key, "a quantised model");
  if (switched_on(s, kPolicy + "draft.enabled")) job.assume("without the draft model beside the policy (draft)");
  for (const Setting& setting : s.all())
    for (const char* group : {"dpo.", "rm.", "distillation.", "teacher.", "teachers."})
      if (setting.key.starts_with(group))
        expect_whole_model(job, setting.key, "against further models or pairs of samples");
  for (const Setting& setting : s.all()) {
    const bool sizes = setting.key.starts_with(kPolicy + "hf_config_overrides.") ||
                       (setting.key.starts_with(kMcore + "model_overrides.") && setting.value.is_scalar());
    if (sizes) job.assume(fmt::format("the model's own sizes, without {}", setting.key));
  }
}

// Micro-batches are counted in samples, or filled with tokens.
std::int64_t micro_batch_of_policy(ReadingJob& job, std::int64_t global) {
  Settings& s = job.settings();
  const std::int64_t samples = s.integer(kPolicy + "train_micro_batch_size").value_or(1);
  for (const std::string& group : {kPolicy + "sequence_packing.", kPolicy + "dynamic_batching."}) {
    const bool on = switched_on(s, group + "enabled");
    const std::int64_t tokens = s.integer(group + "train_mb_tokens").value_or(samples * job.reading.setup.model.seq);
    if (on && !job.answers.micro_batch)
      return samples_within(job, tokens, std::max<std::int64_t>(1, global / job.degrees().dp));
  }
  return job.answers.micro_batch.value_or(samples);
}

void say_what_is_left_out(ReadingJob& job, std::int64_t global) {
  Settings& s = job.settings();
  for (const char* kind : {"grpo", "ppo", "gdpo"}) {
    const auto prompts = s.integer(fmt::format("{}.num_prompts_per_step", kind)),
               answers = s.integer(fmt::format("{}.num_generations_per_prompt", kind));
    if (!prompts) continue;
    const std::int64_t all = *prompts * answers.value_or(1);
    say_update_alone(job,
                     fmt::format("one of {} updates of the policy, on {} samples",
                                 std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, global)), global),
                     "rollouts, log probabilities and a reference");
    return;
  }
}

std::string flag_of_mcore(std::string name) {
  static const std::map<std::string, std::string> kOwn = {
      {"num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"},
      {"num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"},
      {"virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"}};
  if (const auto own = kOwn.find(name); own != kOwn.end()) return own->second;
  for (const std::string group : {"optimizer.", "distributed_data_parallel_config."})
    if (name.starts_with(group)) name = name.substr(group.size());
  static const char* const kTaken[] = {"tensor_model_parallel_size",
                                       "pipeline_model_parallel_size",
                                       "context_parallel_size",
                                       "expert_model_parallel_size",
                                       "expert_tensor_parallel_size",
                                       "sequence_parallel",
                                       "pipeline_model_parallel_layout",
                                       "account_for_embedding_in_pipeline_split",
                                       "account_for_loss_in_pipeline_split",
                                       "weight_decay",
                                       "clip_grad",
                                       "lr",
                                       "optimizer",
                                       "sgd_momentum",
                                       "use_distributed_optimizer",
                                       "optimizer_cpu_offload",
                                       "optimizer_offload_fraction",
                                       "overlap_grad_reduce",
                                       "overlap_param_gather",
                                       "bf16",
                                       "fp16"};
  if (std::none_of(std::begin(kTaken), std::end(kTaken), [&](const char* taken) { return name == taken; })) return "";
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void read_policy_by_megatron(ReadingJob& job, std::int64_t global) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  job.degrees().tp = degree_of(job, kMcore + "tensor_model_parallel_size");
  name_as_flags(job, [](const std::string& key) {
    return key.starts_with(kMcore) ? flag_of_mcore(key.substr(kMcore.size())) : std::string();
  });
  const std::string usual = "NeMo RL's default";
  for (const char* flag : {"bf16", "use-distributed-optimizer", "overlap-grad-reduce", "overlap-param-gather"})
    add_usual_flag(job, flag, "true", usual);
  add_usual_flag(job, "expert-tensor-parallel-size", "1", usual);
  if (!s.has("clip-grad")) add_usual_flag(job, "clip-grad", s.text(kPolicy + "max_grad_norm").value_or("0"), usual);
  if (switched_on(s, kMcore + "activation_checkpointing")) {
    const std::string how = s.text(kMcore + "recompute_granularity").value_or("full");
    add_usual_flag(job, "recompute-granularity", how, usual);
    if (how == "full") {
      add_usual_flag(job, "recompute-method", "uniform", usual);
      add_usual_flag(job, "recompute-num-layers", "1", usual);
    } else if (const std::vector<std::string> modules = s.words(kMcore + "recompute_modules"); !modules.empty()) {
      add_usual_flag(job, "recompute-modules", join(modules, " "), usual);
    }
  }
  if (switched_on(s, kMcore + "fp8_cfg.enabled")) add_usual_flag(job, "fp8-format", "e4m3", usual);
  d.pp = degree_of(job, "pipeline-model-parallel-size");
  d.cp = degree_of(job, "context-parallel-size");
  share_devices(job);
  add_usual_flag(job, "micro-batch-size", std::to_string(micro_batch_of_policy(job, global)), usual);
  add_usual_flag(job, "global-batch-size", std::to_string(global), usual);
  read_megatron(job);
}

void read_policy_by_fsdp(ReadingJob& job, std::int64_t global) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.dialect = "nemo-rl";
  Framework& framework = job.reading.framework;
  framework.name = "nemo-rl";
  framework.pipelines = false;
  framework.contexts = framework.experts = framework.tensors = true;
  framework.context_exchanges = {ContextExchange::PointToPoint};
  framework.sequences = Framework::Sequences::Either;
  framework.zero = {0, 1, 2, 3};
  job.reading.software = "fsdp2";
  d.tp = degree_of(job, kDtensor + "tensor_parallel_size");
  d.cp = degree_of(job, kDtensor + "context_parallel_size");
  d.ep = degree_of(job, kDtensor + "expert_parallel_size");
  if (d.cp > 1) d.context = ContextExchange::PointToPoint;
  d.sequence_parallel = switched_on(s, kDtensor + "sequence_parallel") && d.tp > 1;
  share_devices(job);
  const std::int64_t ranks = std::int64_t{d.dp} * d.cp * d.tp;
  if (ranks % d.ep != 0)
    job.broken(fmt::format("expert_parallel_size {} does not divide dp x cp x tp = {}", d.ep, ranks));
  d.whole_experts = d.tp > 1 && d.ep % d.tp == 0;
  d.folded_experts = d.ep > 1 && d.cp > 1 && d.ep % (d.cp * (d.whole_experts ? d.tp : 1)) == 0;
  framework.whole_experts = d.whole_experts || d.folded_experts;
  d.zero = d.dp * d.cp > 1 ? 3 : 0;
  const int copies = degree_of(job, kDtensor + "dp_replicate_size");
  if (copies > 1 && d.dp % copies != 0)
    job.broken_without_plan(fmt::format("dp_replicate_size {} does not divide the {} replicas", copies, d.dp));
  else if (copies > 1 && d.zero > 0 && d.tp * d.cp * d.ep == 1)
    setup.shard = d.dp / copies;
  else if (copies > 1)
    job.assume(fmt::format("weights split over all {} replicas, not over groups of {}", d.dp, d.dp / copies));
  if (switched_on(s, kDtensor + "activation_checkpointing")) d.recompute = Recompute::Full;
  if (switched_on(s, kDtensor + "cpu_offload")) offload_shards(job);
  keep_to(job, {3}, {Recompute::None, Recompute::Full});
  setup.overlap_gradients = setup.overlap_weights = true;
  const std::string type = s.text(kPolicy + "precision").value_or("bfloat16");
  setup.dtype = type == "float32" ? DType::F32 : type == "float16" ? DType::F16 : DType::BF16;
  const std::string optimizer = s.text(kPolicy + "optimizer.name").value_or("torch.optim.AdamW");
  if (optimizer.find("Adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", printable(optimizer)));
  setup.optimizer.weight_decay = std::max(0.0, s.number(kPolicy + "optimizer.kwargs.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number(kPolicy + "max_grad_norm").value_or(0.0));
  share_batch(job, micro_batch_of_policy(job, global), global);
}

bool changes_no_policy(const std::string& key) {
  static const char* const kOfDtensor[] = {
      "_v2",      "enabled", "env_vars", "lora_cfg.",       "automodel_kwargs.force_hf",
      "lora_cfg", "clear_",  "defer_",   "automodel_kwargs"};
  static const char* const kOfMcore[] = {
      "enabled",    "checkpoint", "env_vars",        "scheduler.",      "optimizer.", "distributed_",
      "peft.",      "fp8_cfg.",   "empty_",          "force_",          "freeze_",    "moe_",
      "apply_rope", "bias_",      "defer_",          "use_gloo",        "gradient_",  "pipeline_dtype",
      "cuda_graph", "use_fused",  "fused_",          "recompute_",      "converter_", "train_iters",
      "converter",  "mtp_",       "offload_modules", "model_overrides", "peft",       "layernorm"};
  for (const char* name : kOfDtensor)
    if (key.starts_with(kDtensor + name)) return true;
  for (const char* name : kOfMcore)
    if (key.starts_with(kMcore + name)) return true;
  return false;
}

// The file has settings of both engines, and one of them trains the policy.
void drop_other_engine(ReadingJob& job) {
  const std::string& other = job.text.target == "megatron" ? kDtensor : kMcore;
  job.settings().no_effect([&](const std::string& key) { return key.starts_with(other); });
  Settings& s = job.settings();
  if (switched_on(s, kMcore + "fine_grained_activation_offloading") && job.text.target == "megatron")
    job.assume("activations that stay on the device (fine_grained_activation_offloading)");
  const std::string plan = s.text_or_nothing(kDtensor + "custom_parallel_plan");
  if (!plan.empty() && plan != "null" && job.text.target != "megatron")
    job.assume("tensors split as usual, not by custom_parallel_plan");
}

}  // namespace

void read_nemo_rl(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "NeMo RL 7ea279ab";
  expect_policy_of_weights(job);
  take_tuned_model(job, kPolicy + "model_name", kPolicy + "max_total_sequence_length", 512);
  const std::int64_t said = needed(job, kPolicy + "train_global_batch_size", "policy.train_global_batch_size");
  const std::int64_t global = job.answers.batch.value_or(said);
  say_what_is_left_out(job, global);
  if (job.text.target == "megatron")
    read_policy_by_megatron(job, global);
  else
    read_policy_by_fsdp(job, global);
  drop_other_engine(job);
  s.no_effect([](const std::string& key) {
    return changes_no_policy(key) || begins_with_any(key, {"sft.",
                                                           "grpo.",
                                                           "ppo.",
                                                           "gdpo.",
                                                           "checkpointing.",
                                                           "data.",
                                                           "data",
                                                           "logger.",
                                                           "cluster.",
                                                           "env",
                                                           "loss_fn.",
                                                           "reward_penalties",
                                                           "policy.tokenizer.",
                                                           "policy.generation",
                                                           "policy.logprob",
                                                           "policy.scheduler",
                                                           "policy.optimizer",
                                                           "policy.make_sequence",
                                                           "policy.dynamic_batching.",
                                                           "policy.sequence_packing.",
                                                           "policy.offload_optimizer",
                                                           "policy.max_grad_norm",
                                                           "policy.precision",
                                                           "policy.reward_model_cfg",
                                                           "policy.refit",
                                                           "policy.draft",
                                                           "policy.hf_config",
                                                           "policy.worker",
                                                           "defaults",
                                                           "teacher",
                                                           "value",
                                                           "policy.train_micro",
                                                           "policy.is_generation",
                                                           "policy.router_replay",
                                                           "async",
                                                           "sgd-momentum",
                                                           "optimizer-offload-fraction",
                                                           "on_policy_distillation",
                                                           "data_plane",
                                                           "policy.kl"});
  });
}

}  // namespace meshwright
