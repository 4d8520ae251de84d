// SPDX-License-Identifier: Apache-2.0
// Which commands of a script launch trainings, and which of them is read.
#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/yaml.h"

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

// YAML may be any framework's; of other files those that programs name which are not known themselves.
bool is_configuration(const std::string& name, const std::string& text) {
  if (name.ends_with(".toml"))
    return text.find("[data]") != std::string::npos && text.find("[model]") != std::string::npos;
  if (!name.ends_with(".json")) return true;
  try {
    return is_picotron(value_from_yaml(text, name));
  } catch (const InputError&) {
    return false;
  }
}

constexpr std::size_t kShownParts = 6, kShownLaunches = 16, kShownText = 60;

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

bool TextReader::named_configuration(const std::string& place) {
  for (const ShellCommand& command : looked_at()) {
    const ProgramCall call = program_call(command.words);
    if (!why_not_read(call).empty() && !has_file_of_settings(call)) return false;
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const std::string word = command.words[i].text, name = word.substr(word.find('=') + 1);
      const auto found =
          ends_with_any(name, {".yml", ".yaml", ".toml", ".json"}) ? written_or_named(name) : std::nullopt;
      if (!found || !is_configuration(name, *found)) continue;
      if (name.ends_with(".toml"))
        read_toml({name, *found});
      else
        read_yaml({name, *found});
      text_.program = fmt::format("{}:{}: {}", command.file, call.line, file_name(name));
      // What else the program is told may change what is in the file.
      Settings more;
      add_flags(more, call.arguments, place, FlagStyle::Own);
      for (const Setting& flag : more.all()) {
        const std::string value = flag.value.is_scalar() ? flag.value.text : "";
        if (value == name || value == word) continue;
        // "data.batch_size=8", "--trainer.train_batch_size 512": in the place of the file's.
        std::string key = flag.key;
        if (text_.variant == "prime-rl") std::replace(key.begin(), key.end(), '-', '_');
        const bool of_file = key.find('.') != std::string::npos || text_.settings.has(key);
        if (flag.key == "(word)" && value == "@") continue;  // before the name of a file
        text_.settings.add(of_file ? key : "program:" + flag.key, flag.shown, flag.value, flag.place);
      }
      if (text_.variant == "prime-rl") count_prime_rl();
      if (text_.variant == "NeMo RL") settle_nemo_rl();
      add_launcher(text_, script_.directives);
      add_launcher(text_, call.launcher.empty() ? command.words : call.launcher);
      if (!text_.devices && starts_one_process(call.launcher))
        text_.devices_per_host = text_.devices_per_host.value_or(1);
      return true;
    }
  }
  return false;
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
      if (sharing[part] < launches.size() && part != call.program && words.size() <= kShownParts)
        words.push_back(part.size() <= kShownText ? part : part.substr(0, kShownText) + "...");
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
  const std::string name = lower_case(file.path);
  if (ends_with_any(name, {".json", ".toml", ".py"})) return {};
  if (ends_with_any(name, {".yaml", ".yml"})) {
    const ConfigValue root = value_from_yaml(file.text, place_of(file));
    if (!input_.as.empty() || !root.is_map() || !is_wrapped(root)) return {};
    read_shell_of(unwrapped(root, place_of(file)));
  } else {
    read_shell_of(file);
  }
  return texts_of(found_launches());
}

}  // namespace meshwright
