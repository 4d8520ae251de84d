// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/manual/manual.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Text as roff takes it: a backslash, a dash and a dot or quote at the start of a line mean something there.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped;
}

std::string title(const Manual& manual, const std::string& name) {
  std::string upper;
  for (const char c : name) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", roff(upper), manual.name, manual.version);
}

std::string without_stop(const std::string& sentence) {
  return sentence.ends_with('.') ? sentence.substr(0, sentence.size() - 1) : sentence;
}

std::string option_text(const ManualOption& option) {
  std::string head = fmt::format("\\fB{}\\fR", roff(option.name));
  if (!option.short_name.empty()) head = fmt::format("\\fB{}\\fR, {}", roff(option.short_name), head);
  if (option.takes_value) head += fmt::format(" \\fI{}\\fR", roff(option.value.shown));
  std::string text = fmt::format(".TP\n{}\n{}.", head, roff(option.meaning));
  const auto add = [&](const std::string& sentence) { text += "\n" + roff(sentence); };
  if (!option.usual.empty()) add(fmt::format("Default: {}.", option.usual));
  if (option.required) add("Required.");
  if (option.repeatable) add("May be given several times.");
  if (!option.needs.empty()) add(fmt::format("Needs {}.", join(option.needs, ", ")));
  if (!option.excludes.empty()) add(fmt::format("Not with {}.", join(option.excludes, ", ")));
  return text + "\n";
}

std::string option_list(const std::string& heading, const std::vector<ManualOption>& options) {
  if (options.empty()) return "";
  std::string text = fmt::format(".SH {}\n", heading);
  for (const ManualOption& option : options) text += option_text(option);
  return text;
}

// Lines of a footer that begin with blanks are commands, behind a line that says so; the others are sentences. Those
// about exit codes have a section of their own.
std::string footer_text(const std::string& footer) {
  std::string notes, codes, examples;
  for (const std::string& line : split(footer, '\n')) {
    constexpr std::string_view kCodes = "Exit codes: ";
    if (line.starts_with("  "))
      examples += roff(line.substr(2)) + "\n";
    else if (line.starts_with(kCodes))
      codes += roff(line.substr(kCodes.size())) + "\n";
    else if (!line.empty() && !line.starts_with("Example"))
      notes += ".PP\n" + roff(line) + "\n";
  }
  std::string text;
  if (!notes.empty()) text += ".SH NOTES\n" + notes;
  if (!codes.empty()) text += ".SH EXIT STATUS\n" + codes;
  if (!examples.empty()) text += ".SH EXAMPLES\n.nf\n" + examples + ".fi\n";
  return text;
}

}  // namespace

std::string man_page(const Manual& manual) {
  std::string text = title(manual, manual.name);
  text += fmt::format(".SH NAME\n{} \\- plan, explain, simulate and run the training of neural networks on clusters\n",
                      manual.name);
  text += fmt::format(
      ".SH SYNOPSIS\n\\fB{0}\\fR \\fIVERB\\fR [\\fIOPTION\\fR ...]\n.br\n\\fB{0} \\fIVERB\\fR \\fB\\-\\-help\\fR\n",
      manual.name);
  text += fmt::format(".SH DESCRIPTION\n{}\n.SH VERBS\n", roff(manual.summary));
  for (const ManualVerb& verb : manual.verbs)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", verb.name, roff(verb.summary));
  text += option_list("OPTIONS", manual.options) + footer_text(manual.footer) + ".SH SEE ALSO\n";
  std::vector<std::string> pages;
  for (const ManualVerb& verb : manual.verbs)
    pages.push_back(fmt::format("\\fB{}\\-{}\\fR(1)", manual.name, roff(verb.name)));
  return text + join(pages, ",\n") + "\n";
}

std::string man_page(const Manual& manual, const ManualVerb& verb) {
  std::string text = title(manual, manual.name + "-" + verb.name);
  std::string summary = without_stop(verb.summary);
  if (!summary.empty()) summary[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(summary[0])));
  text += fmt::format(".SH NAME\n{}\\-{} \\- {}\n", manual.name, roff(verb.name), roff(summary));
  text += fmt::format(".SH SYNOPSIS\n\\fB{} {}\\fR [\\fIOPTION\\fR ...]", manual.name, roff(verb.name));
  for (const ManualOption& positional : verb.positionals) {
    const std::string name = roff(positional.name) + (positional.repeatable ? " ..." : "");
    const std::string styled = fmt::format("\\fI{}\\fR", name);
    text += positional.required ? " " + styled : fmt::format(" [{}]", styled);
  }
  text += fmt::format("\n.SH DESCRIPTION\n{}\n", roff(verb.summary));
  text += option_list("ARGUMENTS", verb.positionals) + option_list("OPTIONS", verb.options) + footer_text(verb.footer);
  return text + fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1)\n", manual.name);
}

}  // namespace meshwright
