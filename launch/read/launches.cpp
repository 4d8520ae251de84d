// SPDX-License-Identifier: Apache-2.0
// Which commands of a script launch trainings, and which of them is read.
#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"

namespace meshwright {

namespace {

// Flags with the words behind them, and single words.
std::vector<std::string> parts_of(const std::vector<ShellWord>& words) {
  std::vector<std::string> parts;
  bool behind_flag = false;
  for (const ShellWord& word : words) {
    const bool flag = word.text.starts_with("-");
    if (behind_flag && !flag)
      parts.back() += " " + word.text;
    else
      parts.push_back(word.text);
    behind_flag = flag ? word.text.find('=') == std::string::npos : false;
  }
  return parts;
}

std::vector<ShellWord> words_of(const ProgramCall& call) {
  std::vector<ShellWord> words = call.launcher;
  if (call.program.empty()) return words;
  words.push_back({call.program, call.line});
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  return words;
}

constexpr std::size_t kShownParts = 6, kShownLaunches = 16;

}  // namespace

std::vector<TextReader::Launch> TextReader::found_launches() const {
  std::vector<Launch> known, unread;
  std::set<std::vector<std::string>> seen;
  const auto is_new = [&](const ProgramCall& call) {
    std::vector<std::string> words;
    for (const ShellWord& word : words_of(call)) words.push_back(word.text);
    return seen.insert(std::move(words)).second;
  };
  for (std::size_t i = 0; i < script_.commands.size(); ++i) {
    Launch launch{i, program_call(script_.commands[i].words), {}, {}};
    launch.target = target_of(launch.call);
    if (is_unread_training(launch.call)) launch.why_not = why_not_read(launch.call);
    if (launch.target.empty() && launch.why_not.empty()) continue;
    if (!is_new(launch.call)) continue;
    (launch.why_not.empty() ? known : unread).push_back(std::move(launch));
  }
  const bool by_file = known.empty();
  for (std::size_t i = 0; i < script_.commands.size() && by_file; ++i) {
    Launch launch{i, program_call(script_.commands[i].words), {}, {}};
    if (is_new(launch.call) && launches_by_file(i)) known.push_back(std::move(launch));
  }
  if (known.empty()) return {};
  known.insert(known.end(), unread.begin(), unread.end());
  std::stable_sort(known.begin(), known.end(), [](const Launch& a, const Launch& b) { return a.command < b.command; });
  return known;
}

bool TextReader::launches_by_file(std::size_t command) const {
  const std::vector<ShellWord>& words = script_.commands[command].words;
  const bool names_file = std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
    return ends_with_any(word.text, {".py", ".yml", ".yaml", ".toml", ".json", "cu"});
  });
  if (!names_file) return false;
  TextReader alone = *this;
  alone.only_ = command;
  try {
    return alone.read_by_file("");
  } catch (const InputError&) {
    return true;
  }
}

bool TextReader::read_by_file(const std::string& place) {
  return started_torch_program() || llm_c() || nanogpt_call() || named_configuration(place);
}

std::vector<ShellCommand> TextReader::looked_at() const {
  if (!only_) return script_.commands;
  return {script_.commands[*only_]};
}

std::vector<std::string> TextReader::texts_of(const std::vector<Launch>& launches) const {
  std::map<std::string, std::size_t> sharing;
  for (const Launch& launch : launches) {
    const std::vector<std::string> parts = parts_of(words_of(launch.call));
    for (const std::string& part : std::set<std::string>(parts.begin(), parts.end())) ++sharing[part];
  }
  std::vector<std::string> texts;
  for (const Launch& launch : launches) {
    const ProgramCall& call = launch.call;
    std::vector<std::string> words = {call.program.empty() ? call.launcher[0].text : file_name(call.program)};
    for (const std::string& part : parts_of(words_of(call)))
      if (sharing[part] < launches.size() && part != call.program && words.size() <= kShownParts) words.push_back(part);
    texts.push_back(
        fmt::format("{}:{}: {}", script_.commands[launch.command].file, call.line, printable(shown(join(words, " ")))));
  }
  return texts;
}

std::string numbered(const std::vector<std::string>& launches) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(launches.size(), kShownLaunches); ++i)
    parts.push_back(fmt::format("{} ({})", i + 1, launches[i]));
  if (launches.size() > kShownLaunches) parts.push_back(fmt::format("and so on to {}", launches.size()));
  return join(parts, ", ");
}

std::optional<TextReader::Launch> TextReader::chosen_launch() {
  const std::vector<Launch> all = found_launches();
  const auto place = [&] { return place_of(input_.files.front()); };
  const auto count = static_cast<std::int64_t>(all.size());
  if (input_.launch)
    require(*input_.launch >= 1 && *input_.launch <= std::max<std::int64_t>(1, count),
            "--launch: {} has {} commands that launch trainings{}; give one from 1 to {}.", place(), count,
            count == 0 ? "" : ": " + numbered(texts_of(all)), std::max<std::int64_t>(1, count));
  if (all.empty()) return std::nullopt;
  require(input_.launch || all.size() == 1, "{}: launches {} trainings: {}; choose one with --launch N.", place(),
          all.size(), numbered(texts_of(all)));
  Launch chosen = all[static_cast<std::size_t>(input_.launch.value_or(1) - 1)];
  require(chosen.why_not.empty(), "{}:{}: {} {}.", script_.commands[chosen.command].file, chosen.call.line,
          chosen.call.program.empty() ? file_name(shown(chosen.call.launcher[0].text)) : shown(chosen.call.program),
          chosen.why_not);
  only_ = chosen.command;
  return chosen;
}

std::vector<std::string> TextReader::launches() && {
  const GivenFile& file = input_.files.front();
  if (ends_with_any(lower_case(file.path), {".json", ".yaml", ".yml", ".toml", ".py"})) return {};
  read_shell_of(file);
  return texts_of(found_launches());
}

}  // namespace meshwright
