// SPDX-License-Identifier: Apache-2.0
// prime-rl (559b4477): TOML of its trainings on given samples (`sft`), over FSDP2. Defaults are those of its
// configs/sft.py and configs/trainer.py: blocks are recomputed, and optimizer state rests on the host.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// "None" switches a group of settings off; its keys below, or an empty group, switch it on.
bool group_is_on(const Settings& s, const std::string& group, bool otherwise) {
  for (const Setting& setting : s.all()) {
    if (setting.key.starts_with(group + ".")) return true;
    if (setting.key != group) continue;
    const std::string text = setting.value.is_scalar() ? lower_case(setting.value.text) : "";
    if (setting.value.is_scalar()) return text != "none" && text != "null" && text != "false";
    return true;
  }
  return otherwise;
}

void expect_plain_training(ReadingJob& job) {
  Settings& s = job.settings();
  if (group_is_on(s, "model.lora", false)) expect_whole_model(job, "model.lora.rank", "adapters");
  for (const Setting& setting : s.all()) {
    const bool size = setting.key == "model.debug.num_layers" && lower_case(to_text(setting.value)) != "none";
    require(!size || job.answers.model, "{}: {}: changes the size of the model; give --model.", setting.place,
            setting.shown);
    require(!setting.key.starts_with("model.vlm.") || job.answers.model,
            "{}: {}: is of a model that sees images, which none of ours is; give --model.", setting.place,
            setting.shown);
    require(!setting.key.starts_with("model.index_cache.") || job.answers.model,
            "{}: {}: chooses keys as no model of ours does; give --model.", setting.place, setting.shown);
  }
  (void)s.take("model.debug.num_layers");
}

void read_prime_recompute(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const bool offloaded = group_is_on(s, "model.ac_offloading", false);
  if (offloaded) job.assume("activations that stay on the device (model.ac_offloading)");
  (void)s.take("model.ac");
  const std::string mode = s.text("model.ac.mode").value_or("full");
  const std::int64_t every = s.integer("model.ac.freq").value_or(1);
  if (!group_is_on(s, "model.ac", true) && !offloaded) return;
  require(mode == "full" || mode == "selective", "{}: '{}' is unknown; expected full or selective.",
          s.where("model.ac.mode"), printable(mode));
  if (mode == "selective") job.assume("norms and activations recomputed for the targets of model.ac");
  (void)s.take("model.ac.targets");
  const Recompute what = mode == "full" ? Recompute::Full : Recompute::Selective;
  if (every == 1) {
    d.recompute = what;
    return;
  }
  for (std::int64_t layer = 0; layer < job.reading.setup.model.layers; layer += every)
    job.reading.setup.recompute_layers.push_back({static_cast<int>(layer), static_cast<int>(layer), what});
}

void read_prime_offload(ReadingJob& job) {
  Settings& s = job.settings();
  const bool whole = switched_on(s, "model.fsdp_cpu_offload"), states = switched_on(s, "model.optim_cpu_offload", true);
  const bool update = group_is_on(s, "model.full_offload", false);
  (void)s.take("model.full_offload");
  if (states && (whole || update))
    job.broken(fmt::format("{} with optim_cpu_offload, which is on unless it is switched off",
                           whole ? "fsdp_cpu_offload" : "full_offload"));
  if (whole)
    offload_shards(job);
  else if (update)
    offload_update(job);
  else if (states)
    job.reading.setup.offload = Offload::Optimizer;  // fetched, updated on the devices and sent back
}

void read_prime_optimizer(ReadingJob& job) {
  Settings& s = job.settings();
  Optimizer& optimizer = job.reading.setup.optimizer;
  const std::string kind = s.text("optim.type").value_or("adamw");
  if (kind == "sgd")
    optimizer.kind = Optimizer::Kind::Momentum;
  else if (kind == "sign_sgd")
    optimizer.kind = Optimizer::Kind::Sgd;
  else if (kind != "adamw")
    job.assume(fmt::format("Adam in the place of {}", printable(kind)));
  optimizer.weight_decay = std::max(0.0, s.number("optim.weight_decay").value_or(0.01));
  const bool clips = group_is_on(s, "optim.max_norm", true);
  optimizer.max_norm = clips ? std::max(0.0, s.number("optim.max_norm").value_or(1.0)) : 0.0;
  (void)s.take("optim.max_norm");
}

}  // namespace

void read_prime_rl(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "prime-rl 559b4477", "prime-rl");
  job.reading.software = "fsdp2";
  Framework& framework = job.reading.framework;
  framework.contexts = framework.experts = true;
  framework.context_exchanges = {ContextExchange::AllGather, ContextExchange::AllToAll};
  expect_plain_training(job);
  d.cp = degree_of(job, "model.cp");
  const std::string style = s.text("model.cp_style").value_or("ring");
  require(style == "ring" || style == "ulysses", "{}: '{}' is unknown; expected ring or ulysses.",
          s.where("model.cp_style"), printable(style));
  if (d.cp > 1) d.context = style == "ulysses" ? ContextExchange::AllToAll : ContextExchange::AllGather;
  share_devices(job);
  if (!s.has("model.name")) s.add("model.name", "model.name", ConfigValue::scalar("Qwen/Qwen3-0.6B", 0), "its default");
  take_tuned_model(job, "model.name", "data.seq_len", 128);
  const int copies = degree_of(job, "model.dp_replicate");
  const bool experts = shape_of(setup.model).experts > 0;
  const std::string ep = s.text("model.ep").value_or("auto");
  const std::int64_t island = std::max(1, job.devices.devices() / copies);
  d.ep = !experts ? 1 : ep == "auto" ? static_cast<int>(std::min<std::int64_t>(island, 8)) : degree_of(job, "model.ep");
  if (d.ep > 1 && (d.dp * d.cp) % d.ep != 0)
    job.broken_without_plan(fmt::format("ep {} does not divide dp x cp = {}", d.ep, d.dp * d.cp));
  d.folded_experts = d.ep > 1 && d.cp > 1 && d.ep % d.cp == 0;
  framework.whole_experts = d.folded_experts;
  const bool keeps = !switched_on(s, "model.reshard_after_forward", true);
  d.zero = d.dp * d.cp == 1 ? 0 : keeps ? 2 : 3;
  if (d.dp % copies != 0) job.broken_without_plan(fmt::format("dp_replicate {} does not divide dp = {}", copies, d.dp));
  if (copies > 1 && d.zero > 0 && d.dp % copies == 0) setup.shard = d.dp / copies;
  read_prime_recompute(job);
  read_prime_offload(job);
  keep_to(job, {2, 3}, {Recompute::None, Recompute::Full});
  setup.overlap_gradients = setup.overlap_weights = d.zero > 0;
  setup.dtype = DType::BF16;
  setup.software_setup.narrow_states = s.text("model.optimization_dtype").value_or("float32") != "float32";
  (void)s.take("model.reduce_dtype");
  if (group_is_on(s, "model.quantization", false)) setup.matmul_dtype = "fp8";
  if (group_is_on(s, "model.compile", true)) job.assume("blocks that are not compiled");
  (void)s.take("model.compile");
  read_prime_optimizer(job);
  job.assume("samples packed to the whole length");
  share_batch(job, job.answers.micro_batch.value_or(s.integer("data.micro_batch_size").value_or(1)),
              s.integer("data.batch_size").value_or(128));
  s.no_effect([](const std::string& key) {
    return key == "max_steps" || key == "output_dir" || key == "clean" || key == "dry_run" ||
           begins_with_any(key, {"data.",
                                 "ckpt",
                                 "log",
                                 "monitors",
                                 "run",
                                 "tokenizer",
                                 "renderer",
                                 "scheduler",
                                 "val",
                                 "eval",
                                 "inference",
                                 "weight_broadcast",
                                 "resume",
                                 "slurm",
                                 "env_vars",
                                 "deployment",
                                 "optim.",
                                 "gc",
                                 "heartbeat",
                                 "wandb",
                                 "memory_profiler",
                                 "trace_path",
                                 "dist_timeout",
                                 "matmul_precision",
                                 "model.attn",
                                 "model.impl",
                                 "model.trust_remote",
                                 "model.compile.",
                                 "model.quantization.",
                                 "model.seq_len",
                                 "model.conversion_dir",
                                 "model.moe_",
                                 "model.freeze_moe",
                                 "model.fused_lm_head",
                                 "model.ep_comm",
                                 "model.deepep",
                                 "model.ac_offloading",
                                 "model.full_offload.",
                                 "model.debug.",
                                 "max_epochs",
                                 "bench",
                                 "vllm"});
  });
}

}  // namespace meshwright
