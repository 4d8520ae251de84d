// SPDX-License-Identifier: Apache-2.0
// lingua (437d6805): YAML of its app of plain transformers (apps/main). Defaults are those of apps/main/train.py,
// lingua/transformer.py and lingua/distributed.py; the devices that dp_shard and tp_size leave are copies.
#include <algorithm>
#include <set>
#include <string>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// A part of a program's own that is switched off changes nothing.
bool is_off(const Setting& setting) {
  if (setting.value.kind == ConfigValue::Kind::Null) return true;
  const std::string& text = setting.value.text;
  return setting.value.is_scalar() && (text.empty() || text == "null" || text == "0.0" || truth_value(text) == false);
}

bool is_of_plain_transformer(const std::string& key) {
  static const std::set<std::string> kKeys = {"dim",        "n_layers",    "head_dim",           "n_heads",
                                              "n_kv_heads", "multiple_of", "ffn_dim_multiplier", "norm_eps",
                                              "rope_theta", "max_seqlen",  "init_base_std",      "init_std_factor",
                                              "seed",       "vocab_size",  "weight_tying",       "sliding_window",
                                              "dropout"};
  return kKeys.contains(key.substr(key.find('.') + 1));
}

ModelConfig lingua_model(ReadingJob& job, std::int64_t seq) {
  Settings& s = job.settings();
  ModelFacts facts;
  facts.hidden = s.integer("model.dim").value_or(512);
  facts.layers = s.integer("model.n_layers").value_or(8);
  const auto heads = s.integer("model.n_heads"), head = s.integer("model.head_dim");
  require(heads || head, "{}: neither model.n_heads nor model.head_dim is given; add one, or give --model.",
          job.text.program);
  facts.heads = heads.value_or(facts.hidden / head.value_or(1));
  if (head && *head * facts.heads != facts.hidden) facts.head_dim = head;
  facts.kv_heads = s.integer("model.n_kv_heads").value_or(facts.heads);
  facts.seq = seq;
  if (s.has("model.sliding_window") && s.text_or_nothing("model.sliding_window") != "null")
    facts.window = s.integer("model.sliding_window").value_or(0);
  const double factor = s.number("model.ffn_dim_multiplier").value_or(1.0);
  const std::int64_t unit = s.integer("model.multiple_of").value_or(256);
  const auto width = static_cast<std::int64_t>(factor * static_cast<double>(8 * facts.hidden / 3));
  facts.ffn = (width + unit - 1) / unit * unit;
  facts.gated = facts.rms_norm = true;
  facts.activation = ModelFacts::Activation::Silu;
  facts.bias = false;
  facts.tied = switched_on(s, "model.weight_tying");
  facts.positions = ModelFacts::Positions::Rotary;
  facts.rotary_base = s.number("model.rope_theta").value_or(10000.0);
  facts.vocab = vocabulary(
      job, s.integer("model.vocab_size", -1).value_or(-1) > 0 ? s.integer("model.vocab_size", -1) : std::nullopt, 1);
  return model_of(facts, "", job.text.program, job.reading.assumed);
}

}  // namespace

void read_lingua(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "lingua 437d6805", "lingua");
  job.reading.framework.tensors = true;
  // Its parser takes no other key of the model: one that is not here says what a program's own transformer has.
  for (const Setting& setting : s.all())
    require(job.answers.model || !setting.key.starts_with("model.") || is_of_plain_transformer(setting.key) ||
                is_off(setting),
            "{}: {}: is of another app of lingua than its plain transformers, and only those are read; give --model.",
            setting.place, setting.shown);
  d.tp = degree_of(job, "distributed.tp_size");
  share_devices(job);
  const std::int64_t seq = sequence_of(job, "data.seq_len").value_or(2048);
  if (!take_given_model(job, seq)) setup.model = lingua_model(job, seq);
  const std::string kind = s.text_or_nothing("distributed.fsdp_type");
  const std::int64_t shard = degree_of(job, "distributed.dp_shard");
  d.zero = kind == "full_shard" && d.dp > 1 ? 3 : 0;
  // Without shards the replicas themselves are what full_shard splits over.
  if (d.zero > 0 && shard > 1 && shard < d.dp) setup.shard = as_degree(shard);
  if (d.dp % shard != 0)
    job.broken(fmt::format("distributed.dp_shard {} does not divide the {} replicas", shard, d.dp));
  if (switched_on(s, "distributed.selective_activation_checkpointing")) {
    d.recompute = Recompute::Selective;
    job.assume("norms and activations recomputed, and not products and attention");
  }
  keep_to(job, {0, 3}, {Recompute::None, Recompute::Selective});
  setup.overlap_gradients = setup.overlap_weights = true;
  setup.dtype = s.text_or_nothing("distributed.model_dtype") == "fp32" ? DType::F32 : DType::BF16;
  if (!s.text_or_nothing("distributed.float8_recipe").empty()) setup.matmul_dtype = "fp8";
  if (!switched_on(s, "distributed.compile")) job.assume("blocks as FSDP2 runs them (distributed.compile: false)");
  setup.optimizer.weight_decay = std::max(0.0, s.number("optim.weight_decay").value_or(0.1));
  setup.optimizer.max_norm = std::max(0.0, s.number("optim.clip").value_or(1.0));
  const std::int64_t micro = job.answers.micro_batch.value_or(s.integer("data.batch_size").value_or(2));
  share_batch(job, micro, micro * s.integer("grad_acc_steps").value_or(1) * d.dp);
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"dump_dir",
                                 "name",
                                 "steps",
                                 "probe_",
                                 "seed",
                                 "optim.",
                                 "data.",
                                 "profiling.",
                                 "checkpoint.",
                                 "logging.",
                                 "async_eval",
                                 "eval.",
                                 "env.",
                                 "gc_collect",
                                 "distributed.matmul",
                                 "distributed.allow",
                                 "distributed.detect",
                                 "distributed.compile",
                                 "distributed.spawn",
                                 "distributed.float8",
                                 "model.dropout",
                                 "model.init_",
                                 "model.norm_eps",
                                 "model.seed",
                                 "slurm"});
  });
}

}  // namespace meshwright
