// SPDX-License-Identifier: Apache-2.0
// OLMo-core (18b8fb66): the config.json that a run saves. Batches are in tokens. Its scripts build it as they run.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"

namespace meshwright {

namespace {

const std::string kBlock = "model.block.", kTrain = "train_module.";

// Of newer releases the attention is one of several mixers of a sequence.
std::string attention_of(const Settings& s) {
  return s.has(kBlock + "sequence_mixer.n_heads") ? kBlock + "sequence_mixer." : kBlock + "attention.";
}

ModelFacts core_facts(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string attention = attention_of(s);
  const auto need = [&](const std::string& key) { return needed(job, key, "'" + key + "'"); };
  ModelFacts facts;
  facts.layers = need("model.n_layers");
  facts.hidden = need("model.d_model");
  facts.heads = need(attention + "n_heads");
  facts.kv_heads = s.integer(attention + "n_kv_heads");
  facts.head_dim = s.integer(attention + "head_dim");
  if (facts.head_dim && *facts.head_dim * facts.heads == facts.hidden) facts.head_dim.reset();
  const std::int64_t words = need("model.vocab_size");
  facts.vocab = job.answers.vocab.value_or(words);
  facts.experts = s.integer(kBlock + "feed_forward_moe.num_experts").value_or(0);
  if (facts.experts > 0) {
    facts.top_k = s.integer(kBlock + "feed_forward_moe.router.top_k").value_or(1);
    facts.expert_ffn = facts.ffn = need(kBlock + "feed_forward_moe.hidden_size");
    facts.shared_ffn = s.integer(kBlock + "feed_forward_moe.shared_mlp.hidden_size");
  } else {
    facts.ffn = need(kBlock + "feed_forward.hidden_size");
  }
  facts.positions = ModelFacts::Positions::Rotary;
  facts.rotary_base = s.number(attention + "rope.theta").value_or(500000.0);
  facts.activation = ModelFacts::Activation::Silu;
  facts.gated = facts.rms_norm = true;
  facts.tied = false;
  facts.bias = false;
  facts.qkv_bias = s.boolean(attention + "bias").value_or(false);
  facts.qk_norm = std::any_of(s.all().begin(), s.all().end(), [&](const Setting& one) {
    return one.key.starts_with(attention + "qk_norm.") && one.value.kind != ConfigValue::Kind::Null;
  });
  if (const Setting* pattern = s.take(attention + "sliding_window.pattern");
      pattern != nullptr && pattern->value.is_list() && !pattern->value.items.empty()) {
    // [4096, 4096, 4096, -1]: of so many layers the last sees all keys.
    const ConfigValue& first = pattern->value.items.front();
    facts.window = parse_integer(first.text, s.where(attention + "sliding_window.pattern"), 1, 1 << 30);
    facts.full_every = pattern->value.items.back().text == "-1" ? std::ssize(pattern->value.items) : 0;
  }
  return facts;
}

void read_core_degrees(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto degree = [&](const char* name) {
    const auto value = s.integer(kTrain + name + ".degree", -1).value_or(1);
    return static_cast<int>(std::clamp<std::int64_t>(value, 1, 1 << 20));
  };
  d.tp = degree("tp_config");
  d.cp = degree("cp_config");
  d.pp = degree("pp_config");
  const std::string exchange = s.text_or_nothing(kTrain + "cp_config.ulysses.head_stride");
  d.context = exchange.empty() ? ContextExchange::PointToPoint : ContextExchange::AllToAll;
  share_devices(job);
  const std::string kind = s.text(kTrain + "dp_config.name").value_or("ddp");
  d.zero = kind == "ddp" || d.dp * d.cp == 1 ? 0 : 3;
  if (s.boolean(kTrain + "dp_config.reshard_after_forward").value_or(true) == false && d.zero == 3) d.zero = 2;
  const auto copies = s.integer(kTrain + "dp_config.num_replicas"),
             shard = s.integer(kTrain + "dp_config.shard_degree");
  if (kind == "hsdp") {
    const std::int64_t of_group = shard    ? *shard
                                  : copies ? std::max<std::int64_t>(1, d.dp / *copies)
                                           : job.devices.devices_per_host;
    if (d.dp % of_group != 0 || (copies && d.dp % *copies != 0))
      job.broken(
          fmt::format("dp_config: {} replicas of {} devices are not the {} of dp", copies.value_or(0), of_group, d.dp));
    else
      job.reading.setup.shard = static_cast<int>(of_group);
  }
  // "-1": the experts lie on all devices of a group that splits the states.
  if (const auto experts = s.integer(kTrain + "ep_config.degree", -1))
    d.ep = static_cast<int>(*experts == -1 ? job.reading.setup.shard.value_or(d.dp)
                                           : std::min<std::int64_t>(*experts, 1 << 20));
  if (d.ep < 1) d.ep = 1;
}

void read_core_recompute(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string mode = s.text(kTrain + "ac_config.mode").value_or("");
  if (mode.empty()) return;
  if (mode == "full") {
    job.degrees().recompute = Recompute::Full;
  } else if (mode == "selected_blocks") {
    const std::int64_t every = s.integer(kTrain + "ac_config.block_interval").value_or(1);
    for (std::int64_t b = 0; b < job.reading.setup.model.layers; b += every)
      job.reading.setup.recompute_layers.push_back({static_cast<int>(b), static_cast<int>(b), Recompute::Full});
  } else {
    job.degrees().recompute = Recompute::Selective;
    job.assume(fmt::format("norms, activations and attention recomputed for ac_config.mode {}", mode));
  }
}

void read_core_batch(ReadingJob& job, std::int64_t seq) {
  Settings& s = job.settings();
  const std::int64_t tokens = needed(job, kTrain + "rank_microbatch_size", "'train_module.rank_microbatch_size'");
  const auto global = s.integer("data_loader.global_batch_size");
  if (tokens % seq != 0)
    job.broken(fmt::format("rank_microbatch_size {} is not a multiple of the sequence of {}", tokens, seq));
  if (global && *global % seq != 0)
    job.broken(fmt::format("global_batch_size {} is not a multiple of the sequence of {}", *global, seq));
  const std::int64_t micro = job.answers.micro_batch.value_or(std::max<std::int64_t>(1, tokens / seq));
  share_batch(job, micro, global ? std::optional(std::max<std::int64_t>(1, *global / seq)) : std::nullopt);
}

}  // namespace

void read_olmo_core(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "OLMo-core 18b8fb66";
  setup.dialect = "olmo-core";
  Framework& framework = job.reading.framework;
  framework.name = "OLMo-core";
  framework.pipelines = framework.experts = true;
  framework.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Interleaved};
  framework.recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
  framework.zero_in_pipes = framework.zero;
  framework.context_exchanges = {ContextExchange::PointToPoint, ContextExchange::AllToAll};
  framework.sequences = Framework::Sequences::Always;
  job.reading.software = "fsdp2";
  read_core_degrees(job);
  job.degrees().sequence_parallel = job.degrees().tp > 1;
  auto seq = sequence_of(job, kTrain + "max_sequence_length");
  const auto of_data = s.integer("dataset.sequence_length");
  if (!seq) seq = of_data;
  require(seq.has_value(), "{}: 'train_module.max_sequence_length' is missing; add it, or give --seq.",
          job.text.program);
  if (!take_given_model(job, seq)) {
    ModelFacts facts = core_facts(job);
    facts.seq = *seq;
    setup.model = model_of(facts, "", job.text.program, job.reading.assumed);
  }
  read_core_recompute(job);
  const std::string type =
      s.text(kTrain + "dp_config.param_dtype").value_or(s.text_or_nothing(kTrain + "autocast_precision"));
  setup.dtype = type == "bfloat16" ? DType::BF16 : type == "float16" ? DType::F16 : DType::F32;
  if (s.boolean(kTrain + "float8_config.enabled").value_or(false)) setup.matmul_dtype = "fp8";
  if (s.text_or_nothing("model.lm_head.loss_implementation") == "fused_linear")
    setup.software_setup.loss_chunks = kFittingLossChunks;
  setup.optimizer.weight_decay = std::max(0.0, s.number(kTrain + "optim.weight_decay").value_or(0.0));
  setup.optimizer.max_norm = std::max(0.0, s.number(kTrain + "max_grad_norm").value_or(0.0));
  setup.overlap_gradients = setup.overlap_weights = job.degrees().zero > 0;
  read_core_batch(job, *seq);
  s.no_effect([](const std::string& key) {
    for (const char* group : {"launch",
                              "dataset",
                              "data_loader",
                              "trainer",
                              "init_seed",
                              "run_name",
                              "tokenizer",
                              "common",
                              "beaker",
                              "train_module.optim.",
                              "train_module.scheduler",
                              "train_module.compile_model",
                              "train_module.z_loss",
                              "train_module.state_dict",
                              "train_module.label_ignore",
                              "train_module.dp_config.reduce_dtype",
                              "train_module.dp_config.wrapping",
                              "train_module.dp_config.prefetch",
                              "train_module.float8_config",
                              "train_module.validate",
                              "train_module.ac_config",
                              "train_module.load_key",
                              "model.init",
                              "model.lm_head",
                              "model.dtype",
                              "model.freeze",
                              "model.embed",
                              "backend"})
      if (key.starts_with(group)) return true;
    for (const char* ending : {"_CLASS_", ".name", ".dtype", ".bias", ".eps", ".full_precision", ".use_flash",
                               ".dropout", ".backend", ".clip_qkv", ".lb_loss_weight", ".z_loss_weight"})
      if (key.ends_with(ending) && (key.starts_with("model.") || key.ends_with("_CLASS_"))) return true;
    return key.starts_with("model.block.attention.qk_norm") || key.starts_with("model.block.sequence_mixer.qk_norm") ||
           key.starts_with("model.block.layer_norm") || key.find(".sliding_window.") != std::string::npos;
  });
}

}  // namespace meshwright
