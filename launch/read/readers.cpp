// SPDX-License-Identifier: Apache-2.0
#include "launch/read/readers.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/graph.h"
#include "core/graph/models/model_names.h"
#include "launch/read/trainers/trainer_arguments.h"
#include "launch/rules/launch_rules.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

int degree_of(ReadingJob& job, const std::string& key) {
  const std::int64_t value = job.settings().integer(key).value_or(1);
  require(value <= kMaxDegree, "{}: {} is more than any cluster has.", job.settings().where(key), value);
  return static_cast<int>(value);
}

std::optional<std::int64_t> sequence_of(ReadingJob& job, const std::string& key) {
  if (!job.answers.seq) return job.settings().integer(key);
  (void)job.settings().take(key);
  return job.answers.seq;
}

void use_plain_fsdp(ReadingJob& job, const char* release, const char* dialect) {
  job.reading.setup.release = release;
  job.reading.setup.dialect = dialect;
  job.reading.framework.name = dialect;
  job.reading.framework.tensors = job.reading.framework.contexts = false;
  job.reading.software = "fsdp";
}

void use_sgd(Optimizer& optimizer, double momentum, const std::string& where) {
  require(momentum >= 0.0 && momentum < 1.0, "{}: {} is no momentum; give one from 0 to below 1.", where, momentum);
  optimizer.kind = momentum > 0.0 ? Optimizer::Kind::Momentum : Optimizer::Kind::Sgd;
  if (momentum > 0.0) optimizer.momentum = momentum;
}

void keep_to(ReadingJob& job, std::vector<int> zero, std::vector<Recompute> recompute) {
  const Degrees& d = job.degrees();
  if (std::find(zero.begin(), zero.end(), d.zero) == zero.end()) zero.insert(zero.begin(), d.zero);
  if (std::find(recompute.begin(), recompute.end(), d.recompute) == recompute.end())
    recompute.insert(recompute.begin(), d.recompute);
  std::sort(zero.begin(), zero.end());
  job.reading.framework.zero = std::move(zero);
  job.reading.framework.recompute = std::move(recompute);
}

void share_devices(ReadingJob& job) {
  Degrees& degrees = job.degrees();
  const int all = job.devices.devices();
  const std::int64_t taken = std::int64_t{degrees.tp} * degrees.pp * degrees.cp;
  if (taken >= 1 && taken <= all && all % taken == 0) {
    degrees.dp = static_cast<int>(all / taken);
    return;
  }
  degrees.dp = 1;
  const std::string why = fmt::format("tp={} x pp={} x cp={} needs a multiple of {} devices, and there are {}{}",
                                      degrees.tp, degrees.pp, degrees.cp, taken, all, nearest_multiples(all, taken));
  job.no_plan(why + "; give --cluster or --nodes with as many");
}

void share_batch(ReadingJob& job, std::int64_t micro_batch, std::optional<std::int64_t> global) {
  Degrees& degrees = job.degrees();
  degrees.micro_batch = micro_batch;
  if (job.answers.batch) global = job.answers.batch;
  const std::int64_t samples = micro_batch * degrees.dp;
  job.reading.setup.batch = global.value_or(samples);
  degrees.micro_batches = std::max<std::int64_t>(1, *job.reading.setup.batch / samples);
  if (*job.reading.setup.batch % samples == 0) return;
  const std::string why =
      fmt::format("a batch of {} is not a multiple of micro-batch x dp = {} x {}{}", *job.reading.setup.batch,
                  micro_batch, degrees.dp, nearest_multiples(*job.reading.setup.batch, samples));
  job.no_plan(why);
}

std::int64_t needed(ReadingJob& job, const std::string& key, const std::string& shown) {
  const auto value = job.settings().integer(key);
  require(value.has_value(), "{}: {} is missing, and no plan can be made without it; add it, or give --model.",
          job.text.program, shown);
  return *value;
}

namespace {

void set_model(ReadingJob& job, ModelConfig model, std::optional<std::int64_t> seq) {
  if (job.answers.seq)
    model.seq = *job.answers.seq;
  else if (seq && model.seq > 0)
    model.seq = *seq;
  if (job.answers.vocab && model.vocab > 0) model.vocab = *job.answers.vocab;
  job.reading.setup.model = std::move(model);
}

}  // namespace

bool take_given_model(ReadingJob& job, std::optional<std::int64_t> seq) {
  if (!job.answers.model) return false;
  set_model(job, *job.answers.model, seq);
  return true;
}

void take_model_of_program(ReadingJob& job, const std::string& framework) {
  Settings& s = job.settings();
  const std::string length = argument_of_program(
      s, {"max_seq_len", "max_seq_length", "max_length", "seq_length", "block_size", "model_max_length", "cutoff_len",
          "max_len", "seq_len", "sequence_length", "context_length"});
  auto seq = length.empty() ? std::nullopt : sequence_of(job, length);
  // Prompts and answers, which follow one another.
  const std::string source = argument_of_program(s, {"source_max_len", "max_source_length"}),
                    target = argument_of_program(s, {"target_max_len", "max_target_length"});
  if (!seq && !job.answers.seq && !source.empty() && !target.empty())
    seq = s.integer(source).value_or(0) + s.integer(target).value_or(0);
  if (take_given_model(job, seq)) return;
  const std::string key = argument_of_program(s, {"model_name_or_path", "pretrained_model_name_or_path", "model_name",
                                                  "model_id", "model_path", "model", "pretrain"});
  const std::string name = key.empty() ? "" : s.name_or_nothing(key);
  auto model = builtin_model_like(name);
  require(model.has_value(),
          "{}: {}'s files say nothing of the model{}; give --model with a built-in model, sizes or a config.json.",
          job.text.program, framework,
          name.empty() ? "" : fmt::format(", and the program's '{}' is not built in", printable(name)));
  job.reading.setup.model_name = name;
  const std::string type_key = argument_of_program(s, {"model_type"}), type = lower_case(s.text_or_nothing(type_key));
  require(type.find("moe") == std::string::npos || shape_of(*model).experts > 0,
          "{}: {} has experts, and {}, of the name '{}', has none; give --model with a built-in model, sizes or a "
          "config.json.",
          s.where(type_key), type, model->name, printable(name));
  job.assume(fmt::format("the sizes of {} for the program's '{}'", model->name, name));
  if (!argument_of_program(s, {"vision_tower", "mm_vision_tower", "vision_model_name_or_path", "image_folder"}).empty())
    job.assume("the language model alone, without what reads images");
  if (!seq && !job.answers.seq && model->seq > 0)
    job.assume(
        fmt::format("samples of {} tokens: no argument of the program says how long they are (--seq)", model->seq));
  set_model(job, *std::move(model), seq);
}

void expect_whole_model(ReadingJob& job, const std::string& key, const std::string& kind) {
  throw InputError(
      fmt::format("{}: trains {}, and only trainings of all weights are predicted; give a file without it.",
                  job.settings().where(key), kind));
}

ModelConfig model_by_name(const std::string& name, const std::string& where) {
  if (auto model = builtin_model_like(name)) return *std::move(model);
  throw InputError(fmt::format(
      "{}: '{}' is the name of no built-in model, and its sizes are not in the file; give --model with a built-in "
      "model, sizes or a config.json.",
      where, shown(name)));
}

std::int64_t vocabulary(ReadingJob& job, std::optional<std::int64_t> given, std::int64_t unit) {
  constexpr std::int64_t kWordsOfGpt2 = 50257;
  if (job.answers.vocab) given = job.answers.vocab;
  if (!given)
    job.assume(fmt::format("a vocabulary of {} words, which the file leaves to the tokenizer (--vocab)", kWordsOfGpt2));
  const std::int64_t words = given.value_or(kWordsOfGpt2);
  const std::int64_t padded = (words + unit - 1) / unit * unit;
  if (padded != words) job.assume(fmt::format("{} words padded to {}, a multiple of {}", words, padded, unit));
  return padded;
}

}  // namespace meshwright
