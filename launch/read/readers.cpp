// SPDX-License-Identifier: Apache-2.0
#include "launch/read/readers.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/graph.h"
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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "2.6b" from its dot on: digits, then the b that ends the word.
bool ends_a_size(const std::string& text, std::size_t dot) {
  std::size_t at = dot + 1;
  while (at < text.size() && is_digit(text[at])) ++at;
  const bool size = at > dot + 1 && at < text.size() && text[at] == 'b';
  return size && (at + 1 == text.size() || std::isalnum(static_cast<unsigned char>(text[at + 1])) == 0);
}

// Letters and numbers apart, in lower case: "llama3.1-405b" is {llama, 3, 1, 405b}.
std::vector<std::string> parts_of(const std::string& name) {
  const std::string text = lower_case(name);
  std::vector<std::string> parts;
  std::string part;
  const auto add = [&] {
    const bool version = part.size() == 2 && is_digit(part[0]) && is_digit(part[1]);
    if (version) {  // "llama31" is Llama 3.1
      parts.push_back(part.substr(0, 1));
      parts.push_back(part.substr(1));
    } else if (!part.empty()) {
      parts.push_back(part);
    }
    part.clear();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool digit = is_digit(c), letter = c >= 'a' && c <= 'z';
    if (c == '.' && !part.empty() && is_digit(part.back()) && ends_a_size(text, at)) {
      part += c;
      continue;
    }
    const bool breaks = (digit || letter) && !part.empty() && digit != is_digit(part.back()) && part.back() != '.' &&
                        !(letter && (c == 'b' || c == 'm' || c == 'x'));
    if ((!digit && !letter) || breaks) add();
    if (digit || letter) part += c;
  }
  add();
  return parts;
}

bool is_number(const std::string& part) {
  return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}
// "405b", "8x7b".
bool is_size(const std::string& part) {
  return part.size() > 1 && part.back() == 'b' && part[0] >= '0' && part[0] <= '9';
}
bool is_among(const std::string& part, const std::vector<std::string>& parts) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// How many parts of `known` are among those wanted, the same names with fewer parts first; 0: it is another model. Its
// sizes, words and the first number behind a word must be wanted; further numbers of a version ("llama3" is Llama 3.1)
// and active sizes need not be.
int likeness(const std::string& known, const std::vector<std::string>& wanted) {
  const std::vector<std::string> own = parts_of(known);
  int common = 0;
  bool active = false, behind_a_word = false;
  for (const std::string& part : own) {
    const bool found = is_among(part, wanted), number = is_number(part), letter = !number && part.size() == 1;
    common += found ? 1 : 0;
    const bool needed = is_size(part) ? !active : number ? behind_a_word : !letter;
    if (!found && needed) return 0;
    behind_a_word = !number && !is_size(part);
    active = active || part == "a";
  }
  return own.empty() || !is_among(own[0], wanted) ? 0 : 100 * common - static_cast<int>(own.size());
}

// Words with which a name is that of a smaller model of the same family.
constexpr const char* kSmaller[] = {"lite", "mini",  "small", "tiny",       "nano",   "proxy",
                                    "test", "debug", "light", "debugmodel", "distill"};

// Of the sizes that the name has, those that the known model's name lacks must be its parameters, all or active ones.
bool has_sizes(const ModelConfig& known, const std::vector<std::string>& wanted) {
  const std::vector<std::string> own = parts_of(known.name);
  std::vector<double> billions;
  for (const std::string& part : wanted) {
    const bool smaller = std::any_of(std::begin(kSmaller), std::end(kSmaller),
                                     [&](const char* word) { return part == word && !is_among(part, own); });
    if (smaller) return false;
    const auto number = is_size(part) ? real_number(part.substr(0, part.size() - 1)) : std::nullopt;
    if (number && !is_among(part, own)) billions.push_back(*number);
  }
  if (billions.empty()) return true;
  TrainingOptions options;
  options.batch = 1;
  const Graph graph = build_forward_graph(known, options);
  const double all = static_cast<double>(parameter_count(graph)) * 1e-9;
  const double active = static_cast<double>(active_parameter_count(graph)) * 1e-9;
  const auto is_near = [](double size, double own_size) { return size > 0.9 * own_size && size < 1.1 * own_size; };
  return std::all_of(billions.begin(), billions.end(),
                     [&](double size) { return is_near(size, all) || is_near(size, active); });
}

}  // namespace

ModelConfig model_by_name(const std::string& name, const std::string& where) {
  const std::vector<std::string> wanted = parts_of(name);
  const ModelConfig* best = nullptr;
  int best_likeness = 199 - 8;  // two parts in common at least
  const std::vector<ModelConfig> all = builtin_models();
  for (const ModelConfig& model : all) {
    const int own = likeness(model.name, wanted);
    if (own <= best_likeness || !has_sizes(model, wanted)) continue;
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
