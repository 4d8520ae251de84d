// SPDX-License-Identifier: Apache-2.0
#include "launch/read/adapters.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// By the number of a model's lora_targets.
constexpr std::array<const char*, 4> kTargets = {"all products of attention and of dense feed-forward layers",
                                                 "the products of attention", "queries, keys and values",
                                                 "queries and values"};

bool names_any(const std::vector<std::string>& targets, const std::vector<const char*>& parts) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const char* part) { return target.find(part) != std::string::npos; });
  });
}

// The least of the numbers above that has every product of the targets.
std::int64_t number_of(std::vector<std::string> targets) {
  for (std::string& target : targets) target = lower_case(target);
  const auto is_one_of = [&](const std::vector<std::string>& words) {
    return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
      return std::find(words.begin(), words.end(), target.substr(target.rfind('.') + 1)) != words.end();
    });
  };
  if (names_any(targets, {"mlp", "fc1", "fc2", "gate", "up_proj", "down_proj", "h_to_4h", "all", "c_fc", "layers"}) ||
      is_one_of({"w1", "w2", "w3", "*_proj", "*proj", "linear", "fc_in", "fc_out"}))
    return 0;
  if (names_any(targets, {"o_proj", "out_proj", "linear_proj", "c_proj", "dense", "output_proj", "wo"}) ||
      is_one_of({"attention", "o", "proj"}))
    return 1;
  if (names_any(targets, {"k_proj", "qkv", "query_key_value", "c_attn", "w_pack", "wk"}) || is_one_of({"k", "key"}))
    return 2;
  return 3;
}

}  // namespace

void take_adapters(ReadingJob& job, const std::string& key, std::int64_t rank, std::vector<std::string> targets) {
  job.adapters = AdaptersOfJob{job.settings().where(key), rank, number_of(std::move(targets))};
}

std::vector<std::string> listed_words(Settings& settings, const std::string& key) {
  const Setting* setting = settings.take(key);
  if (setting == nullptr) return {};
  std::vector<std::string> words;
  const auto add = [&](std::string text) {
    for (char& c : text)
      if (c == ',' || c == '[' || c == ']' || c == '\'' || c == '"') c = ' ';
    for (const std::string& word : split(text, ' '))
      if (!word.empty()) words.push_back(word);
  };
  if (setting->value.is_scalar()) add(setting->value.text);
  for (const ConfigValue& item : setting->value.items)
    if (item.is_scalar()) add(item.text);
  return words;
}

void finish_adapters(ReadingJob& job) {
  if (!job.adapters) return;
  ModelConfig& model = job.reading.setup.model;
  require(model.more.contains("lora_rank"),
          "{}: trains adapters, which models of family {} have none of here; give --model with a decoder.",
          job.adapters->place, model.family);
  model.more["lora_rank"] = job.adapters->rank;
  model.more["lora_targets"] = job.adapters->targets;
  const bool experts = model.more.contains("experts") && model.more.at("experts") > 0;
  job.assume(fmt::format("adapters of rank {} of {}{}; all else stays as it is", job.adapters->rank,
                         kTargets[static_cast<std::size_t>(job.adapters->targets)],
                         experts ? ", but of no expert" : ""));
}

}  // namespace meshwright
