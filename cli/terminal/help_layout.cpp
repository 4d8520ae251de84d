// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/help_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace meshwright {

namespace {

constexpr std::size_t kColumn = 30;  // where meanings begin

// A name that reaches the column has its meaning on the next line.
std::string row(const std::string& name, const std::string& meaning) {
  std::string text = "  " + name;
  if (text.size() >= kColumn && !meaning.empty()) text += "\n";
  const std::size_t begin = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  text.resize(std::max(text.size(), begin + kColumn), ' ');
  for (const char c : meaning) {
    text += c;
    if (c == '\n') text.append(kColumn, ' ');
  }
  return text + "\n";
}

std::string named(const char* what, const std::set<CLI::Option*>& options) {
  std::string text = options.empty() ? "" : fmt::format(" {}:", what);
  for (const CLI::Option* option : options) text += " " + option->get_name();
  return text;
}

std::string taken_by(const CLI::Option& option) {
  std::string text;
  if (option.get_type_size() != 0) {
    if (!option.get_type_name().empty()) text += " " + option.get_type_name();
    if (!option.get_default_str().empty()) text += "=" + option.get_default_str();
    if (option.get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    if (option.get_required()) text += " REQUIRED";
  }
  return text + named("Needs", option.get_needs()) + named("Excludes", option.get_excludes());
}

std::string option_row(const CLI::Option& option, bool positional) {
  return row(option.get_name(positional, !positional) + taken_by(option), option.get_description());
}

std::string usage(const CLI::App& app, const std::string& name, const std::vector<const CLI::Option*>& positionals) {
  std::string text = fmt::format("Usage: {} [OPTIONS]", name);
  for (const CLI::Option* option : positionals) {
    const bool several = option->get_expected_max() > 1;
    const std::string shown = option->get_name(true, false) + (several ? "..." : "");
    text += option->get_required() ? " " + shown : " [" + shown + "]";
  }
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) text += " [SUBCOMMAND]";
  return text + "\n";
}

}  // namespace

std::string HelpLayout::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  const auto positionals = app->get_options([](const CLI::Option* option) { return option->get_positional(); });
  const auto options = app->get_options([](const CLI::Option* option) { return option->nonpositional(); });
  const auto verbs = app->get_subcommands([](const CLI::App*) { return true; });
  std::string text = app->get_description() + "\n" + usage(*app, name, positionals);
  if (!positionals.empty()) text += "\nPositionals:\n";
  for (const CLI::Option* option : positionals) text += option_row(*option, true);
  if (!options.empty()) text += "\nOptions:\n";
  for (const CLI::Option* option : options) text += option_row(*option, false);
  if (!verbs.empty()) text += "\nSubcommands:\n";
  for (const CLI::App* verb : verbs) text += row(verb->get_name(), verb->get_description());
  return text + "\n" + app->get_footer() + "\n";
}

}  // namespace meshwright
