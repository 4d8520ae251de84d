// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/manual/manual.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

std::string fish_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "'" + escaped + "'";
}

// What follows an option, or stands as an argument.
std::string fish_values(const ValueKind& kind) {
  std::string text = kind.paths == ValueKind::Paths::None ? "" : " -F";
  if (kind.paths == ValueKind::Paths::Folders) return " -f -a '(__fish_complete_directories)'";
  if (!kind.words.empty()) text += " -a " + fish_text(join(kind.words, " "));
  return text;
}

std::string fish_option(const std::string& begin, const ManualOption& option) {
  std::string text = begin + " -l " + option.name.substr(2);
  if (!option.short_name.empty()) text += " -s " + option.short_name.substr(1);
  if (option.takes_value)
    text += (option.value.paths == ValueKind::Paths::None ? " -x" : " -r") + fish_values(option.value);
  return text + " -d " + fish_text(briefly(option.meaning)) + "\n";
}

}  // namespace

std::string fish_completion(const Manual& manual) {
  std::string text =
      fmt::format("# fish completion for {0}, written by `{0} manual`.\ncomplete -c {0} -f\n", manual.name);
  const std::string first = fmt::format("complete -c {} -n __fish_use_subcommand", manual.name);
  for (const ManualOption& option : manual.options) text += fish_option(first, option);
  for (const ManualVerb& verb : manual.verbs) {
    text += fmt::format("{} -a {} -d {}\n", first, verb.name, fish_text(verb.summary));
    const std::string begin = fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", manual.name, verb.name);
    for (const ManualOption& option : verb.options) text += fish_option(begin, option);
    if (!verb.positionals.empty()) text += begin + fish_values(verb.positionals.front().value) + "\n";
  }
  return text;
}

}  // namespace meshwright
