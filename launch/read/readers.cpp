// SPDX-License-Identifier: Apache-2.0
#include "launch/read/readers.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/rules/launch_rules.h"

namespace meshwright {

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

bool take_given_model(ReadingJob& job, std::optional<std::int64_t> seq) {
  if (!job.answers.model) return false;
  ModelConfig& model = job.reading.setup.model = *job.answers.model;
  if (job.answers.seq)
    model.seq = *job.answers.seq;
  else if (seq && model.seq > 0)
    model.seq = *seq;
  if (job.answers.vocab && model.vocab > 0) model.vocab = *job.answers.vocab;
  return true;
}

namespace {

// Letters and numbers apart, in lower case: "llama3.1-405b" is {llama, 3, 1, 405b}.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::string part;
  for (const char raw : name) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(raw)));
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'z';
    const bool breaks = (digit || letter) && !part.empty() && digit != (part.back() >= '0' && part.back() <= '9') &&
                        !(letter && (c == 'b' || c == 'm' || c == 'x'));
    if ((!digit && !letter) || breaks) {
      if (!part.empty()) parts.push_back(part);
      part.clear();
    }
    if (digit || letter) part += c;
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

// The parts of `name` in order within those of `known`, or the other way round; the size ("405b") must be in both.
int likeness(const std::string& known, const std::vector<std::string>& wanted) {
  const std::vector<std::string> own = parts_of(known);
  int common = 0;
  for (const std::string& part : own)
    if (std::find(wanted.begin(), wanted.end(), part) != wanted.end()) ++common;
  for (const std::string& part : own) {
    const bool size = part.size() > 1 && part.back() == 'b' && part[0] >= '0' && part[0] <= '9';
    if (size && std::find(wanted.begin(), wanted.end(), part) == wanted.end()) return 0;
  }
  const bool same_family = !own.empty() && std::find(wanted.begin(), wanted.end(), own[0]) != wanted.end();
  return same_family ? 100 * common - static_cast<int>(own.size()) : 0;
}

}  // namespace

ModelConfig model_by_name(const std::string& name, const std::string& where) {
  const std::vector<std::string> wanted = parts_of(name);
  const ModelConfig* best = nullptr;
  int best_likeness = 199 - 8;  // two parts in common at least
  const std::vector<ModelConfig> all = builtin_models();
  for (const ModelConfig& model : all) {
    const int own = likeness(model.name, wanted);
    if (own <= best_likeness) continue;
    best_likeness = own;
    best = &model;
  }
  if (best != nullptr) return *best;
  throw InputError(fmt::format(
      "{}: the sizes of '{}' are in the framework's own tables, not in the file; give --model with a built-in "
      "model, sizes or a config.json.",
      where, name));
}

std::int64_t vocabulary(ReadingJob& job, std::optional<std::int64_t> given, std::int64_t unit) {
  constexpr std::int64_t kUsual = 50257;
  if (job.answers.vocab) given = job.answers.vocab;
  if (!given)
    job.assume(fmt::format("a vocabulary of {} words, which the file leaves to the tokenizer (--vocab)", kUsual));
  const std::int64_t words = given.value_or(kUsual);
  const std::int64_t padded = (words + unit - 1) / unit * unit;
  if (padded != words) job.assume(fmt::format("{} words padded to {}, a multiple of {}", words, padded, unit));
  return padded;
}

}  // namespace meshwright
