// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "cli/manual/manual.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Between single quotes, in a specification of _arguments, where brackets and colons mean something.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'')
      escaped += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      escaped += std::string("\\") + c;
    else
      escaped += c;
  }
  return escaped;
}

// Words of one kind are completed by one function, named by its number.
class ZshActions {
 public:
  std::string action(const ValueKind& kind) {
    if (kind.words.empty() && kind.paths == ValueKind::Paths::None) return " ";
    if (kind.words.empty()) return kind.paths == ValueKind::Paths::Files ? "_files" : "_files -/";
    const auto [entry, is_new] = functions_.try_emplace(body(kind), functions_.size());
    return fmt::format("_meshwright_values_{}", entry->second);
  }

  std::string text() const {
    std::string text;
    for (const auto& [body, number] : functions_)
      text += fmt::format("_meshwright_values_{}() {{\n{}}}\n", number, body);
    return text;
  }

 private:
  static std::string body(const ValueKind& kind) {
    std::vector<std::string> whole, begun;
    for (const std::string& word : kind.words)
      (word.ends_with(':') || word.ends_with('=') ? begun : whole).push_back(word);
    std::string text;
    if (!whole.empty()) text += fmt::format("  compadd -- {}\n", join(whole, " "));
    if (!begun.empty()) text += fmt::format("  compadd -S '' -- {}\n", join(begun, " "));
    if (kind.paths == ValueKind::Paths::Files) text += "  _files\n";
    return text;
  }

  std::map<std::string, std::size_t> functions_;
};

std::string zsh_option(const ManualOption& option, ZshActions& actions) {
  const std::string meaning = zsh_text(briefly(option.meaning));
  const std::string value =
      option.takes_value ? fmt::format(":{}:{}", zsh_text(option.value.shown), actions.action(option.value)) : "";
  const std::string before = option.repeatable ? "*" : "";
  std::string text;
  for (const std::string& name : {option.short_name, option.name})
    if (!name.empty())
      text += fmt::format(" \\\n        '{}{}{}[{}]{}'", before, name,
                          option.takes_value && name.starts_with("--") ? "=" : "", meaning, value);
  return text;
}

std::string zsh_verb(const ManualVerb& verb, ZshActions& actions) {
  std::string text = fmt::format("      {})\n        _arguments", verb.name);
  for (const ManualOption& option : verb.options) text += zsh_option(option, actions);
  for (const ManualOption& positional : verb.positionals)
    text += fmt::format(" \\\n        '{}{}:{}:{}'", positional.repeatable ? "*" : "", positional.required ? "" : ":",
                        zsh_text(positional.name), actions.action(positional.value));
  return text + " ;;\n";
}

}  // namespace

std::string zsh_completion(const Manual& manual) {
  ZshActions actions;
  std::string verbs, names, own;
  for (const ManualVerb& verb : manual.verbs) {
    names += fmt::format("    '{}:{}'\n", verb.name, zsh_text(verb.summary));
    verbs += zsh_verb(verb, actions);
  }
  for (const ManualOption& option : manual.options) own += zsh_option(option, actions);
  std::string text = fmt::format("#compdef {0}\n# zsh completion for {0}, written by `{0} manual`.\n", manual.name);
  text += actions.text();
  text +=
      fmt::format("_{}() {{\n  local curcontext=\"$curcontext\" state line ret=1\n  local -a verbs\n  verbs=(\n{}  )\n",
                  manual.name, names);
  text += fmt::format("  _arguments -C{} \\\n        '1:verb:->verb' '*::argument:->argument' && ret=0\n", own);
  text += "  case $state in\n    verb) _describe verb verbs && ret=0 ;;\n    argument)\n      case $words[1] in\n";
  text += verbs + "      esac && ret=0 ;;\n  esac\n  return ret\n}\n";
  return text + fmt::format("_{} \"$@\"\n", manual.name);
}

}  // namespace meshwright
