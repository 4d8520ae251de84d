// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/manual.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

namespace meshwright {

namespace {

constexpr std::size_t kBrief = 90;  // columns of a completion's explanation

std::string typed_name(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames()[0];
  return option.nonpositional() ? "-" + option.get_snames()[0] : option.get_name(true, false);
}

std::vector<std::string> names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;
  for (const CLI::Option* option : options) names.insert(typed_name(*option));
  return {names.begin(), names.end()};
}

ManualOption describe(const CLI::Option& option, const std::string& verb) {
  ManualOption described;
  described.name = typed_name(option);
  if (!option.get_snames().empty()) described.short_name = "-" + option.get_snames()[0];
  described.meaning = option.get_description();
  described.usual = option.get_default_str();
  described.takes_value = option.get_expected_max() > 0 && option.get_items_expected_max() > 0;
  if (described.takes_value) described.value = value_kind(verb, described.name);
  described.required = option.get_required();
  described.repeatable = option.get_expected_max() > 1;
  described.excludes = names_of(option.get_excludes());
  described.needs = names_of(option.get_needs());
  return described;
}

}  // namespace

Manual manual_of(const CLI::App& app, const std::string& version) {
  Manual manual{app.get_name(), version, app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options()) manual.options.push_back(describe(*option, ""));
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    ManualVerb described{verb->get_name(), verb->get_description(), verb->get_footer(), {}, {}};
    for (const CLI::Option* option : verb->get_options())
      (option->nonpositional() ? described.options : described.positionals)
          .push_back(describe(*option, described.name));
    manual.verbs.push_back(std::move(described));
  }
  return manual;
}

std::string briefly(const std::string& meaning) {
  std::string brief = meaning;
  for (const char* end : {" (", ": ", "; "}) brief = brief.substr(0, brief.find(end));
  if (brief.size() <= kBrief) return brief;
  return brief.substr(0, brief.rfind(' ', kBrief)) + " ...";
}

std::vector<ManualFile> manual_files(const Manual& manual) {
  const std::string& name = manual.name;
  std::vector<ManualFile> files = {{fmt::format("man/man1/{}.1", name), man_page(manual)}};
  for (const ManualVerb& verb : manual.verbs)
    files.push_back({fmt::format("man/man1/{}-{}.1", name, verb.name), man_page(manual, verb)});
  files.push_back({fmt::format("bash-completion/completions/{}", name), bash_completion(manual)});
  files.push_back({fmt::format("zsh/vendor-completions/_{}", name), zsh_completion(manual)});
  files.push_back({fmt::format("fish/vendor_completions.d/{}.fish", name), fish_completion(manual)});
  return files;
}

}  // namespace meshwright
