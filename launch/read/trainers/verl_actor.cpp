// SPDX-License-Identifier: Apache-2.0
// verl's trainings by reinforcement (b178a3cd, main_ppo and programs like it): of these the update of the actor on a
// mini-batch, under Megatron-core or FSDP. Defaults are those of its config/ppo_trainer.yaml and
// ppo_megatron_trainer.yaml. Its trainer on given samples with the engine megatron is read the same way.
#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/read/trainers/policies.h"

namespace meshwright {

namespace {

const std::string kActor = "actor_rollout_ref.actor.", kModelOfActor = "actor_rollout_ref.model.";

// verl's names below `actor.megatron.` or `engine.`, which are mostly Megatron-core's own.
std::string flag_of_engine(std::string name) {
  static const std::map<std::string, std::string> kOwn = {
      {"virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
      {"num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"},
      {"num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"}};
  for (const std::string group : {"override_transformer_config.", "override_ddp_config."})
    if (name.starts_with(group)) name = name.substr(group.size());
  for (const char* other : {"param_offload",
                            "grad_offload",
                            "optimizer_offload",
                            "use_mbridge",
                            "vanilla_mbridge",
                            "dist_checkpointing",
                            "use_dist_checkpointing",
                            "load_weight",
                            "forward_only",
                            "seed",
                            "dtype",
                            "strategy",
                            "override_mcore",
                            "use_remove_padding",
                            "_target_",
                            "bias_",
                            "persist_layer_norm",
                            "deallocate_pipeline",
                            "masked_softmax",
                            "gradient_accumulation_fusion",
                            "moe_permute_fusion",
                            "moe_grouped_gemm",
                            "apply_rope",
                            "attention_backend",
                            "moe_router_dtype",
                            "moe_aux_loss",
                            "moe_z_loss",
                            "moe_token_dispatcher"})
    if (name.starts_with(other)) return "log-" + name;  // no effect of their own
  if (const auto own = kOwn.find(name); own != kOwn.end()) return own->second;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string flag_of_optimizer(const std::string& name) {
  const std::string whole = "override_optimizer_config.";
  if (name.starts_with(whole)) {
    std::string flag = name.substr(whole.size());
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
  }
  return name == "lr"             ? "lr"
         : name == "weight_decay" ? "weight-decay"
         : name == "clip_grad"    ? "clip-grad"
         : name == "optimizer"    ? "optimizer"
                                  : "";
}

void expect_actor_of_weights(ReadingJob& job) {
  Settings& s = job.settings();
  for (const std::string& key : {kModelOfActor + "lora_rank", kModelOfActor + "lora.rank",
                                 std::string("model.lora_rank"), std::string("model.lora.rank")})
    if (s.integer(key, 0).value_or(0) > 0) expect_whole_model(job, key, "adapters");
  for (const std::string& key : {kModelOfActor + "lora_adapter_path", kModelOfActor + "lora.adapter_path"})
    if (const std::string path = s.name_or_nothing(key); !path.empty() && path != "null" && path != "None")
      expect_whole_model(job, key, "adapters");
  if (switched_on(s, kModelOfActor + "mtp.enable_train"))
    job.assume("without the modules that predict further tokens (mtp)");
}

struct MiniBatch {
  std::int64_t samples = 0;  // of all replicas
  std::int64_t micro = 1;
};

// ppo_mini_batch_size counts prompts, each with rollout.n answers.
MiniBatch mini_batch_of_actor(ReadingJob& job) {
  Settings& s = job.settings();
  const Degrees& d = job.degrees();
  MiniBatch mini;
  const std::int64_t prompts = s.integer(kActor + "ppo_mini_batch_size").value_or(256);
  const std::int64_t answers = s.integer("actor_rollout_ref.rollout.n").value_or(1);
  mini.samples = job.answers.batch.value_or(prompts * answers);
  const std::int64_t of_replica = std::max<std::int64_t>(1, mini.samples / d.dp);
  const auto each = s.integer(kActor + "ppo_micro_batch_size_per_gpu"),
             all = s.integer(kActor + "ppo_micro_batch_size");
  const std::int64_t tokens = s.integer(kActor + "ppo_max_token_len_per_gpu").value_or(16384) * d.cp;
  const bool by_tokens = switched_on(s, kActor + "use_dynamic_bsz");
  require(by_tokens || each || all || job.answers.micro_batch,
          "{}: says no samples of a micro-batch; add {}ppo_micro_batch_size_per_gpu, or give --micro-batch.",
          job.text.program, kActor);
  if (by_tokens && tokens < job.reading.setup.model.seq)
    job.broken(
        fmt::format("ppo_max_token_len_per_gpu x the ranks of a sequence = {} is less than the longest sample, {}",
                    tokens, job.reading.setup.model.seq));
  mini.micro = by_tokens ? samples_within(job, tokens, of_replica) : each.value_or(all.value_or(1) / d.dp);
  mini.micro = job.answers.micro_batch.value_or(std::max<std::int64_t>(1, mini.micro));
  const std::int64_t generated = s.integer("data.train_batch_size").value_or(1024);
  const std::int64_t updates = std::max<std::int64_t>(1, generated / std::max<std::int64_t>(1, prompts)) *
                               s.integer(kActor + "ppo_epochs").value_or(1);
  say_update_alone(
      job, fmt::format("an update of the actor on {} samples, of which an iteration has {}", mini.samples, updates),
      "rollouts, their log probabilities, a critic and a reference");
  return mini;
}

MiniBatch batch_of_samples(ReadingJob& job) {
  Settings& s = job.settings();
  MiniBatch mini;
  mini.samples = job.answers.batch.value_or(s.integer("data.train_batch_size").value_or(256));
  const std::int64_t each = s.integer("data.micro_batch_size_per_gpu").value_or(4);
  const std::int64_t tokens = s.integer("data.max_token_len_per_gpu").value_or(8192) * job.degrees().cp;
  mini.micro = switched_on(s, "data.use_dynamic_bsz", true)
                   ? samples_within(job, tokens, std::max<std::int64_t>(1, mini.samples / job.degrees().dp))
                   : each;
  mini.micro = job.answers.micro_batch.value_or(mini.micro);
  return mini;
}

// Prompts and answers, which follow one another.
void take_actor(ReadingJob& job) {
  Settings& s = job.settings();
  const std::int64_t prompt = s.integer("data.max_prompt_length").value_or(512),
                     answer = s.integer("data.max_response_length").value_or(512);
  take_tuned_model(job, kModelOfActor + "path", "(sequence)", prompt + answer);
  job.assume(fmt::format("prompts and answers as long as they may be, {} tokens", prompt + answer));
}

void no_effect_of_verl(Settings& s) {
  s.no_effect([](const std::string& key) {
    for (const char* word : {"clip_ratio",
                             "entropy",
                             "kl_",
                             "use_kl",
                             "policy_loss",
                             "loss_",
                             "checkpoint",
                             "profiler",
                             "shuffle",
                             "data_loader_seed",
                             "tau_",
                             "router_replay",
                             "use_torch_compile",
                             "optim.",
                             "use_fused_kernels",
                             "use_prefix",
                             "freeze_vision",
                             "calculate_",
                             "sum_pi",
                             "fsdp_config.",
                             "strategy",
                             "_target_",
                             "use_remove_padding",
                             "rollout_n",
                             "load_weight",
                             "megatron.",
                             "policy_drift",
                             "use_rollout_log_probs",
                             "use_unbiased",
                             "global_batch_info"})
      if (key.starts_with(kActor + word)) return true;
    for (const char* word : {"use_remove_padding", "use_fused_kernels", "fused_kernel", "use_shm", "trust_remote",
                             "external_lib", "override_config", "tokenizer", "use_liger", "custom_chat", "lora",
                             "target_modules", "exclude_modules", "mtp.", "hf_config", "_target_", "torch_dtype"})
      if (key.starts_with(kModelOfActor + word)) return true;
    return key == "config_path" || key == "config_name" || key == "hydra.searchpath" ||
           begins_with_any(key, {"algorithm.",
                                 "data.",
                                 "trainer.",
                                 "critic.",
                                 "reward",
                                 "custom_reward",
                                 "ray_",
                                 "actor_rollout_ref.rollout.",
                                 "actor_rollout_ref.ref.",
                                 "actor_rollout_ref.hybrid",
                                 "actor_rollout_ref.nccl",
                                 "global_profiler",
                                 "transfer_queue",
                                 "rollout.",
                                 "async_",
                                 "reward_manager",
                                 "log-",
                                 "checkpoint.",
                                 "model.",
                                 "optim.",
                                 "profiler.",
                                 "hydra.",
                                 "model_engine",
                                 "engine",
                                 "optim",
                                 "distillation",
                                 "global_tool"});
  });
}

// --- Megatron-core ---

void read_by_megatron(ReadingJob& job, bool actor) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string engine = actor ? kActor + "megatron." : "engine.", optimizer = actor ? kActor + "optim." : "optim.";
  name_as_flags(job, [&](const std::string& key) {
    if (key.starts_with(engine)) return flag_of_engine(key.substr(engine.size()));
    if (key.starts_with(optimizer)) return flag_of_optimizer(key.substr(optimizer.size()));
    return std::string();
  });
  const std::string usual = "verl's default";
  for (const char* flag : {"bf16", "use-distributed-optimizer"}) add_usual_flag(job, flag, "true", usual);
  d.tp = degree_of(job, "tensor-model-parallel-size");
  d.pp = degree_of(job, "pipeline-model-parallel-size");
  d.cp = degree_of(job, "context-parallel-size");
  const bool split = s.boolean("sequence-parallel").value_or(true) && d.tp > 1;
  name_as_flags(job, [](const std::string& key) { return key == "sequence-parallel" ? "log-sequence-parallel" : ""; });
  if (split) add_usual_flag(job, "sequence-parallel", "true", usual);
  share_devices(job);
  if (actor)
    take_actor(job);
  else
    take_tuned_model(job, "model.path", "data.max_length", 1024);
  const MiniBatch mini = actor ? mini_batch_of_actor(job) : batch_of_samples(job);
  add_usual_flag(job, "micro-batch-size", std::to_string(mini.micro), usual);
  add_usual_flag(job, "global-batch-size", std::to_string(mini.samples), usual);
  const bool on_host = switched_on(s, "log-param_offload") || switched_on(s, "log-optimizer_offload");
  if (on_host) job.assume("weights and states on the devices, to which each update brings them from the host");
  read_megatron(job);
}

// --- FSDP ---

void read_actor_by_fsdp(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  Framework& framework = job.reading.framework;
  framework.name = "verl";
  framework.tensors = false;
  framework.context_exchanges = {ContextExchange::AllToAll};
  const std::string below = kActor + "fsdp_config.";
  const bool own = s.has(kActor + "ulysses_sequence_parallel_size");
  d.cp = degree_of(job, own ? kActor + "ulysses_sequence_parallel_size" : below + "ulysses_sequence_parallel_size");
  if (d.cp > 1) d.context = ContextExchange::AllToAll;
  share_devices(job);
  take_actor(job);
  const std::int64_t group = s.integer(below + "fsdp_size", -1).value_or(-1), ranks = std::int64_t{d.dp} * d.cp;
  d.zero = ranks == 1 ? 0 : switched_on(s, below + "reshard_after_forward", true) ? 3 : 2;
  if (group > 0 && group < ranks && ranks % group == 0 && d.cp == 1) setup.shard = as_degree(group);
  if (group > 0 && group < ranks && d.cp > 1)
    job.assume(fmt::format("weights split over all {} ranks, not over groups of {}", ranks, group));
  const std::string strategy = s.text(kActor + "strategy").value_or("fsdp");
  job.reading.software = strategy == "fsdp2" ? "fsdp2" : "fsdp";
  setup.dtype = DType::BF16;
  setup.software_setup.narrow_states = s.text(below + "model_dtype").value_or("fp32") != "fp32";
  if (switched_on(s, kModelOfActor + "enable_gradient_checkpointing", true)) d.recompute = Recompute::Full;
  if (switched_on(s, kModelOfActor + "enable_activation_offload"))
    job.assume("activations that stay on the device (enable_activation_offload)");
  if (switched_on(s, below + "offload_policy"))
    offload_shards(job);
  else if (switched_on(s, below + "param_offload") || switched_on(s, below + "optimizer_offload"))
    job.assume("weights and states on the devices, to which each update brings them from the host");
  keep_to(job, {}, {Recompute::None, Recompute::Full});
  const MiniBatch mini = mini_batch_of_actor(job);
  share_batch(job, mini.micro, mini.samples);
  if (switched_on(s, kModelOfActor + "use_fused_kernels")) take_loss_by_tokens(job, 512);
  const std::string optimizer = s.text(kActor + "optim.optimizer").value_or("AdamW");
  if (optimizer.find("Adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", printable(optimizer)));
  setup.optimizer.weight_decay = std::max(0.0, s.number(kActor + "optim.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number(kActor + "grad_clip").value_or(1.0));
  setup.overlap_gradients = setup.overlap_weights = true;
}

}  // namespace

void read_verl_actor(ReadingJob& job) {
  LaunchSetup& setup = job.reading.setup;
  setup.release = "verl b178a3cd";
  expect_actor_of_weights(job);
  if (job.text.target == "megatron") {
    read_by_megatron(job, true);
  } else {
    setup.dialect = "verl";
    const std::string strategy = job.settings().text(kActor + "strategy").value_or("fsdp");
    require(strategy.starts_with("fsdp"), "{}: '{}' is not read; expected fsdp, fsdp2 or megatron.",
            job.settings().where(kActor + "strategy"), printable(strategy));
    read_actor_by_fsdp(job);
  }
  no_effect_of_verl(job.settings());
}

void read_verl_megatron(ReadingJob& job) {
  job.reading.setup.release = "verl b178a3cd";
  expect_actor_of_weights(job);
  read_by_megatron(job, false);
  no_effect_of_verl(job.settings());
}

}  // namespace meshwright
