// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/model_names.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <vector>

#include "core/base/text.h"
#include "core/graph/graph.h"
#include "core/graph/models/builtin_models.h"

namespace meshwright {

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
  std::string text = lower_case(name);
  // "1p5b" is 1.5b.
  for (std::size_t i = 1; i + 1 < text.size(); ++i)
    if (text[i] == 'p' && is_digit(text[i - 1]) && is_digit(text[i + 1])) text[i] = '.';
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
// The number in a size such as "2.6b"; "8x7b" has two, which count for nothing.
std::optional<double> billions_of(const std::string& size) {
  double value = 0.0;
  const char* last = size.data() + size.size() - 1;
  const auto [end, error] = std::from_chars(size.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}
bool is_among(const std::string& part, const std::vector<std::string>& parts) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// {1, 5} of {qwen, 1, 5, 7b}: the numbers behind the word, two at most.
std::vector<std::string> numbers_behind(const std::string& word, const std::vector<std::string>& parts) {
  std::vector<std::string> numbers;
  for (auto at = std::find(parts.begin(), parts.end(), word); at != parts.end() && ++at != parts.end();) {
    if (!is_number(*at) || numbers.size() == 2) break;
    numbers.push_back(*at);
  }
  return numbers;
}

// A model of Qwen 3 stands for none of Qwen 3.6 where models of Qwen 3.5 are known.
bool has_models_with_minor(const std::string& word, const std::string& version) {
  return std::any_of(builtin_sizes().begin(), builtin_sizes().end(), [&](const BuiltInModel& published) {
    const std::vector<std::string> numbers = numbers_behind(word, parts_of(published.name));
    return numbers.size() == 2 && numbers[0] == version;
  });
}

// A letter of a known name that a name has to have, if only as "base", "large" or "huge": ViT-L/16 is no ViT-B/16. That
// of a version (v3), of active sizes (a3b) and of experts (16e) may be missing.
bool lacks_letter(const std::string& letter, const std::vector<std::string>& wanted) {
  if (letter == "a" || letter == "v" || letter == "e" || is_among(letter, wanted)) return false;
  for (const char* word : {"base", "large", "huge"})
    if (letter[0] == word[0] && is_among(word, wanted)) return false;
  return true;
}

// Letters behind a number with which a name is that of another model: Gemma 3n, GLM-4.5V, T5 v1.1; Falcon H1 behind the
// word. "h100" is a device.
bool has_letter_of_another(const std::vector<std::string>& wanted, const std::vector<std::string>& own) {
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    const std::string &letter = wanted[i], next = i + 1 < wanted.size() ? wanted[i + 1] : "";
    if (is_among(letter, own)) continue;
    if ((letter == "n" || letter == "v") && is_number(wanted[i - 1])) return true;
    if (letter == "h" && (is_number(wanted[i - 1]) || wanted[i - 1] == own[0]) && next.size() < 2) return true;
  }
  return false;
}

// How many parts of `known` are among those wanted, the same names with fewer parts first; 0: it is another model. Its
// sizes, words, letters and the first number behind a word must be wanted; further numbers of a version ("llama3" is
// Llama 3.1) and active sizes need not be. A version that is wanted must be its own.
int likeness(const std::string& known, const std::vector<std::string>& wanted) {
  const std::vector<std::string> own = parts_of(known);
  if (own.empty()) return 0;
  if (const std::vector<std::string> version = numbers_behind(own[0], wanted); !version.empty()) {
    if (!is_among(version[0], own)) return 0;
    const bool minor = version.size() == 2 && numbers_behind(own[0], own).size() < 2;
    if (minor && has_models_with_minor(own[0], version[0])) return 0;
  }
  if (has_letter_of_another(wanted, own)) return 0;
  int common = 0;
  bool active = false, behind_a_word = false;
  for (const std::string& part : own) {
    const bool found = is_among(part, wanted), number = is_number(part), letter = !number && part.size() == 1;
    common += found ? 1 : 0;
    const bool needed = is_size(part) ? !active : number ? behind_a_word : !letter || lacks_letter(part, wanted);
    if (!found && needed) return 0;
    behind_a_word = !number && !is_size(part);
    active = active || part == "a";
  }
  return !is_among(own[0], wanted) ? 0 : 100 * common - static_cast<int>(own.size());
}

// Words with which a name is that of a smaller or of another kind of model of the same family.
constexpr const char* kOther[] = {
    "lite",   "mini",   "small",    "tiny",  "nano",  "proxy",      "test",   "debug",     "light",     "distill",
    "vl",     "vision", "omni",     "audio", "next",  "debugmodel", "ocr",    "embedding", "embed",     "guard",
    "reward", "rm",     "reranker", "flash", "air",   "pro",        "ultra",  "super",     "max",       "mamba",
    "neo",    "flan",   "asr",      "tts",   "llava", "clip",       "siglip", "speech",    "multimodal"};

// Of the sizes that the name has, those that the known model's name lacks must be its parameters, all or active ones.
bool has_sizes(const ModelConfig& known, const std::string& by_name, const std::vector<std::string>& wanted) {
  const std::vector<std::string> own = parts_of(by_name);
  if (is_among("moe", wanted) && known.more.count("experts") == 0) return false;
  std::vector<double> billions;
  for (const std::string& part : wanted) {
    const bool differs = std::any_of(std::begin(kOther), std::end(kOther),
                                     [&](const char* word) { return part == word && !is_among(part, own); });
    if (differs) return false;
    const auto number = is_size(part) ? billions_of(part) : std::nullopt;
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

// "1_7b" in {qwen, 3, 1, 7b} is 1.7b, where it is no version and size: {qwen, 3, 1.7b}.
std::vector<std::string> with_sizes_joined(const std::vector<std::string>& parts) {
  std::vector<std::string> joined;
  for (const std::string& part : parts)
    if (!joined.empty() && is_number(joined.back()) && is_size(part))
      joined.back() += "." + part;
    else
      joined.push_back(part);
  return joined;
}

std::optional<ModelConfig> most_like(const std::vector<std::string>& wanted) {
  std::optional<ModelConfig> best;
  int best_likeness = 199 - 8;  // two parts in common at least
  for (const BuiltInModel& published : builtin_sizes())
    for (const std::string& known : split(fmt::format("{} {}", published.name, published.also), ' ')) {
      const int own = likeness(known, wanted);
      if (own <= best_likeness) continue;
      ModelConfig model = find_builtin_model(published.name);
      if (!has_sizes(model, known, wanted)) continue;
      best_likeness = own;
      best = std::move(model);
    }
  return best;
}

}  // namespace

std::optional<ModelConfig> builtin_model_like(const std::string& name) {
  const std::string own = lower_case(name.substr(name.rfind('/') + 1));
  for (const BuiltInModel& published : builtin_sizes())
    if (!own.empty() && (own == published.name || is_among(own, split(published.also, ' '))))
      return find_builtin_model(published.name);
  const std::vector<std::string> parts = parts_of(name);
  auto model = most_like(parts);
  return model ? std::move(model) : most_like(with_sizes_joined(parts));
}

}  // namespace meshwright
