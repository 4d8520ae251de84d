// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "cli/manual/manual.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Words of an own list: bash splits the line at ':' and '=' too, where names of clusters and models go on.
constexpr const char* kBashHead = R"(# bash completion for {0}, written by `{0} manual`.
_{0}() {{
  COMPREPLY=()
  local line=${{COMP_LINE:0:COMP_POINT}} verb= option= words= paths= options= i
  local -a typed
  read -ra typed <<<"$line"
  [[ $line == *[[:space:]] ]] && typed+=("")
  local current=${{typed[-1]}}
  for ((i = 1; i < ${{#typed[@]}} - 1; ++i)); do
    [[ ${{typed[i]}} == -* ]] || {{ verb=${{typed[i]}}; break; }}
  done
  ((${{#typed[@]}} > 2)) && option=${{typed[-2]}}
  [[ $current == --*=* ]] && {{ option=${{current%%=*}}; current=${{current#*=}}; }}
)";

constexpr const char* kBashTail = R"(  local -a found=()
  case $words$paths in
    -) ;;
    *)
      [[ -n $words ]] && mapfile -t found < <(compgen -W "$words" -- "$current")
      if [[ $paths == files ]]; then
        mapfile -t -O ${{#found[@]}} found < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
      elif [[ $paths == folders ]]; then
        mapfile -t -O ${{#found[@]}} found < <(compgen -d -- "$current")
        compopt -o filenames 2>/dev/null
      fi ;;
  esac
  # Readline replaces only what follows the last ':' or '='.
  local before=${{current%"${{current##*[:=]}}"}} word
  for word in "${{found[@]}}"; do [[ $word == "$before" ]] || COMPREPLY+=("${{word#"$before"}}"); done
  [[ ${{#found[@]}} -eq 1 && ${{found[0]}} == *[:=] ]] && compopt -o nospace 2>/dev/null
  return 0
}}
complete -F _{0} {0}
)";

const char* paths_word(ValueKind::Paths paths) {
  return paths == ValueKind::Paths::Files ? "files" : paths == ValueKind::Paths::Folders ? "folders" : "";
}

std::string setting_of(const ValueKind& kind) {
  std::string text;
  if (!kind.words.empty()) text = fmt::format("words='{}'", join(kind.words, " "));
  if (kind.paths != ValueKind::Paths::None)
    text += fmt::format("{}paths={}", text.empty() ? "" : " ", paths_word(kind.paths));
  return text.empty() ? "paths=-" : text;  // something that cannot be listed: no completion
}

std::string names_of_options(const ManualVerb& verb) {
  std::vector<std::string> names;
  for (const ManualOption& option : verb.options) names.push_back(option.name);
  return join(names, " ");
}

}  // namespace

std::string bash_completion(const Manual& manual) {
  std::string text = fmt::format(kBashHead, manual.name);
  std::vector<std::string> verbs, own;
  for (const ManualVerb& verb : manual.verbs) verbs.push_back(verb.name);
  for (const ManualOption& option : manual.options) own.push_back(option.name);
  std::map<std::string, std::vector<std::string>> by_setting;
  text += "  case $verb in\n";
  for (const ManualVerb& verb : manual.verbs) {
    const std::string argument =
        verb.positionals.empty() ? "words=$options" : setting_of(verb.positionals.front().value);
    text += fmt::format("    {}) options='{}' {} ;;\n", verb.name, names_of_options(verb), argument);
    for (const ManualOption& option : verb.options) {
      if (!option.takes_value) continue;
      std::vector<std::string>& patterns = by_setting[setting_of(option.value)];
      patterns.push_back(verb.name + option.name);
      if (!option.short_name.empty()) patterns.push_back(verb.name + option.short_name);
    }
  }
  text += fmt::format("    *) options='{}' words='{}' ;;\n  esac\n", join(own, " "), join(verbs, " "));
  text += "  [[ $current == -* ]] && { words=$options; paths=; }\n  case $verb$option in\n";
  for (const auto& [setting, patterns] : by_setting)
    text += fmt::format("    {}) words= paths=; {} ;;\n", join(patterns, "|"), setting);
  text += "  esac\n";
  return text + fmt::format(kBashTail, manual.name);
}

}  // namespace meshwright
