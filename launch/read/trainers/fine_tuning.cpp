// SPDX-License-Identifier: Apache-2.0
#include "launch/read/trainers/fine_tuning.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

bool has_deepspeed(const Settings& s) {
  return std::any_of(s.all().begin(), s.all().end(), [](const Setting& one) { return one.key.starts_with("ds."); });
}

bool switched_on(Settings& s, const std::string& key, bool otherwise) {
  const std::string text = s.text_or_nothing(key);
  return text.empty() ? otherwise : truth_value(text).value_or(true);
}

void take_attention_kernel(ReadingJob& job, const std::string& key) {
  if (job.settings().text_or_nothing(key) == "eager") job.reading.setup.software_setup.fused_attention = false;
}

void take_loss_by_tokens(ReadingJob& job, std::int64_t tokens) {
  const Degrees& d = job.degrees();
  const std::int64_t all = d.micro_batch * job.reading.setup.model.seq / d.cp;
  job.reading.setup.software_setup.loss_chunks = as_degree(std::max<std::int64_t>(1, (all + tokens - 1) / tokens));
}

void use_liger(ReadingJob& job, const std::string& said_by) {
  job.reading.setup.software_setup.loss_chunks = kFittingLossChunks;
  job.assume("a model whose loss Liger's kernels take in chunks" + said_by);
}

void take_liger(ReadingJob& job, const std::string& key) {
  if (switched_on(job.settings(), key)) use_liger(job, fmt::format(" ({})", key));
}

void take_tuned_model(ReadingJob& job, const std::string& key, const std::string& seq_key, std::int64_t seq_otherwise) {
  Settings& s = job.settings();
  const auto given = s.integer(seq_key);
  const std::int64_t seq = job.answers.seq ? *job.answers.seq : given.value_or(seq_otherwise);
  const std::string name = s.name_or_nothing(key);
  if (take_given_model(job, seq)) return;
  require(!name.empty(), "{}: '{}' is missing, and no plan can be made without it; add it, or give --model.",
          job.text.program, key);
  ModelConfig& model = job.reading.setup.model = model_by_name(name, s.where(key));
  job.reading.setup.model_name = name;
  model.seq = seq;
  if (job.answers.vocab) model.vocab = *job.answers.vocab;
  job.assume(fmt::format("the sizes of {} for '{}'", model.name, name));
}

void read_fsdp_keys(ReadingJob& job, const std::string& prefix) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string strategy = s.text_or_nothing(prefix + "sharding_strategy");
  const bool reshard = switched_on(s, prefix + "reshard_after_forward", true);
  d.zero = strategy.starts_with("NO_SHARD") ? 0 : strategy.starts_with("SHARD_GRAD") || !reshard ? 2 : 3;
  if (strategy.starts_with("HYBRID")) job.reading.setup.shard = job.devices.devices_per_host;
  if (switched_on(s, prefix + "activation_checkpointing")) d.recompute = Recompute::Full;
  if (switched_on(s, prefix + "offload_params")) {
    offload_shards(job);
  }
  job.reading.setup.overlap_gradients = job.reading.setup.overlap_weights = true;
}

void use_deepspeed(ReadingJob& job) {
  Framework& framework = job.reading.framework = find_framework("deepspeed");
  framework.pipelines = framework.experts = false;
  job.reading.software = framework.software;
}

void read_deepspeed_below(ReadingJob& job, DType type) {
  Settings& s = job.settings();
  for (const char* key :
       {"ds.train_batch_size", "ds.train_micro_batch_size_per_gpu", "ds.gradient_accumulation_steps"}) {
    const std::string text = s.text_or_nothing(key);
    if (!text.empty() && text != "auto")
      job.assume(fmt::format("the trainer's batch, not {}", std::string(key).substr(3)));
  }
  read_deepspeed_keys(job, "ds.", type);
}

bool has_other_states(const std::string& optimizer) {
  static constexpr const char* kParts[] = {"galore",       "apollo", "mini", "ademamix",
                                           "anyprecision", "lomo",   "muon", "came"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return optimizer.find(part) != std::string::npos; });
}

void read_optimizer_of_trainer(ReadingJob& job, const std::string& key) {
  Settings& s = job.settings();
  const std::string optimizer = lower_case(s.text_or_nothing(key));
  take_narrow_moments(job, optimizer);
  if (optimizer == "sgd")
    job.reading.setup.optimizer.kind = Optimizer::Kind::Sgd;
  else if (!optimizer.empty() && (optimizer.find("adam") == std::string::npos || has_other_states(optimizer)))
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  job.reading.setup.optimizer.weight_decay = std::max(0.0, s.number("weight_decay").value_or(0.0));
  job.reading.setup.optimizer.max_norm = std::max(0.0, s.number("max_grad_norm").value_or(1.0));
}

void take_narrow_moments(ReadingJob& job, const std::string& optimizer) {
  if (optimizer.find("8bit") != std::string::npos) job.reading.setup.software_setup.moment_bits = 8;
  if (optimizer.find("4bit") != std::string::npos) {
    job.reading.setup.software_setup.moment_bits = 8;
    job.assume(fmt::format("moments of 8 bits ({})", printable(optimizer)));
  }
}

void share_trainer_batch(ReadingJob& job, const std::string& micro_key, std::int64_t otherwise) {
  Settings& s = job.settings();
  const auto given = s.integer(micro_key);
  const std::int64_t micro = job.answers.micro_batch ? *job.answers.micro_batch : given.value_or(otherwise);
  const std::int64_t steps = s.integer("gradient_accumulation_steps").value_or(1);
  share_batch(job, micro, micro * steps * job.degrees().dp);
}

bool begins_with_any(const std::string& key, std::initializer_list<const char*> groups) {
  return std::any_of(groups.begin(), groups.end(), [&](const char* group) { return key.starts_with(group); });
}

}  // namespace meshwright
