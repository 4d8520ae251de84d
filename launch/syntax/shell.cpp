// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/config_value.h"
#include "launch/syntax/shell_assignments.h"
#include "launch/syntax/shell_builtins.h"
#include "launch/syntax/shell_commands.h"
#include "launch/syntax/shell_filters.h"
#include "launch/syntax/shell_glob.h"
#include "launch/syntax/shell_reader.h"

namespace meshwright {

std::string shown(std::string text) {
  std::replace(text.begin(), text.end(), kUnresolved, '$');
  return text;
}

namespace {

constexpr std::size_t kMaxShellCommands = 20'000;
constexpr int kMaxTurns = 1'000;
constexpr int kMaxCalls = 32;

}  // namespace

ShellReader::ShellReader(const std::string& place, const ShellInput& input)
    : place_(place), file_(place), input_(input), words_(result_, place_) {
  for (const auto& [name, value] : input.variables) words_.set(name, value, 0);
  for (const std::string& argument : input.arguments) words_.arguments.push_back({argument, 0});
  words_.output_of_call = [this](const ShellNode& call) { return output_of(call); };
  words_.text_of_file = [this](const std::string& path) { return script_of(path); };
}

void ShellReader::read(const std::string& text, int first_line) {
  std::string clean = text;
  std::erase(clean, kUnresolved);
  const ShellTree tree = parse_shell(clean, place_, first_line);
  running_ = {text};
  add_directives(tree);
  run(tree.nodes, 0);
}

ShellResult ShellReader::result() && {
  for (const std::string& name : exported_)
    if (const auto found = words_.variables.find(name);
        found != words_.variables.end() && !found->second.values.empty())
      result_.environment[name] = found->second.values[0].text;
  for (const auto& [name, value] : input_.variables) result_.unresolved.erase(name);
  return std::move(result_);
}

void ShellReader::note(int line, const std::string& sentence) {
  const std::string text = fmt::format("{}:{}: {}", file_, line, sentence);
  if (result_.notes.size() < 200 && std::find(result_.notes.begin(), result_.notes.end(), text) == result_.notes.end())
    result_.notes.push_back(text);
}

void ShellReader::leave_out(int line, const std::string& sentence) {
  unsure_ = true;
  note(line, sentence);
}

// What Slurm sets is known from the lines that ask for it.
void ShellReader::add_directives(const ShellTree& tree) {
  for (const RawWord& raw : tree.directives) {
    const std::size_t comment = raw.text.find(" #");
    for (const std::string& word : split(words_.text({raw.text.substr(0, comment), raw.line}), ' '))
      if (!word.empty()) result_.directives.push_back({word, raw.line});
  }
  const std::vector<ShellWord>& given = result_.directives;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t equal = given[i].text.find('=');
    const std::vector<std::string> names = slurm_variables(given[i].text.substr(0, equal));
    if (names.empty()) continue;
    const std::string value = equal != std::string::npos ? given[i].text.substr(equal + 1)
                              : i + 1 < given.size()     ? given[i + 1].text
                                                         : "";
    if (value.empty() || !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    for (const std::string& name : names)
      if (!words_.variables.contains(name)) words_.set(name, value, given[i].line);
  }
}

Truth ShellReader::run(const std::vector<ShellNode>& nodes, int depth) {
  require(depth < kMaxLaunchDepth, "{}: its blocks and calls are nested too deeply.", place_);
  Truth last = true;
  const auto is_piped = [&](std::size_t i) { return i < nodes.size() && nodes[i].before == '|'; };
  for (std::size_t begin = 0, end = 0; begin < nodes.size(); begin = end) {
    const ShellNode& node = nodes[begin];
    for (end = begin + 1; is_piped(end);) ++end;
    if (stopped_ || leaves()) return last;
    if ((node.before == '&' && last == Truth{false}) || (node.before == 'o' && last == Truth{true})) continue;
    if ((node.before == '&' || node.before == 'o') && !last) {
      leave_out(node.line, "runs only if the test before it holds, which is not known: left out");
      continue;
    }
    last = end == begin + 1 ? run(node, depth) : run_pipe({&node, end - begin}, depth);
    if (node.negated) last = negated(last);
    require(++count_ <= kMaxShellCommands, "{}: runs more than {} commands; launch scripts are shorter.", place_,
            kMaxShellCommands);
  }
  return last;
}

// What the programs between pipes do to text is computed; what `grep` finds in it decides the test that it ends.
Truth ShellReader::run_pipe(std::span<const ShellNode> pipe, int depth) {
  const bool finds =
      pipe.back().kind == ShellNode::Kind::Simple && !pipe.back().words.empty() && pipe.back().words[0].text == "grep";
  if (printed_ != nullptr || (finds && conditions_ > 0)) {
    const auto text = words_.piped(pipe, pipe[0].line);
    if (printed_ != nullptr && text && !text->empty()) *printed_ += *text + "\n";
    unsure_ = unsure_ || (printed_ != nullptr && !text);
    return text ? Truth{!finds || !text->empty()} : Truth{};
  }
  if (write_output(pipe)) return true;
  Truth last = true;
  for (const ShellNode& node : pipe) last = run(node, depth);
  return last;
}

// "sed s/BATCH/8/ template.json | sed ... > config.json", of text that is known: the files of a launch are made so.
bool ShellReader::write_output(std::span<const ShellNode> pipe) {
  if (pipe.back().output.empty() || pipe.back().kind != ShellNode::Kind::Simple) return false;
  std::vector<ShellNode> printing(pipe.begin(), pipe.end());
  printing.back().output.clear();
  const auto text = words_.piped(printing, pipe[0].line);
  if (text) result_.written[words_.text({pipe.back().output, pipe.back().line})] = *text + "\n";
  return text.has_value();
}

// "cp template.json config.json", "sed -i s/BATCH/8/ config.json".
bool ShellReader::change_file(const ShellCommand& command) {
  const std::string& name = command.words[0].text;
  std::vector<std::string> words;
  for (const ShellWord& word : command.words)
    if (!(name == "cp" && word.text.starts_with('-')) && word.text != "-i") words.push_back(word.text);
  const bool in_place = name == "sed" && words.size() + 1 == command.words.size() && words.size() > 2;
  if (!in_place && !(name == "cp" && words.size() == 3)) return false;
  if (!std::all_of(words.begin(), words.end(), [](const std::string& word) { return is_resolved(word); })) return false;
  const auto before = script_of(in_place ? words.back() : words[1]);
  const std::string path = words.back();
  words.pop_back();
  const auto after = before && in_place ? filtered(words, *before) : before;
  if (after) result_.written[path] = *after;
  return after.has_value();
}

Truth ShellReader::run(const ShellNode& node, int depth) {
  using Kind = ShellNode::Kind;
  switch (node.kind) {
    case Kind::Simple:
      return simple(node, depth);
    case Kind::If:
      return run_if(node, depth);
    case Kind::For:
      return run_for(node, depth);
    case Kind::Loop:
      return run_loop(node, depth);
    case Kind::Case:
      return run_case(node, depth);
    case Kind::Function:
      kept_.push_back(std::make_unique<ShellNode>(node));
      words_.functions[node.name] = kept_.back().get();
      return true;
    case Kind::Group:
      return run(node.lists[0], depth + 1);
    case Kind::Test:
      return test(node.words, node.line);
    case Kind::Arithmetic:
      return counted(node.words[0].text, node.line, words_);
  }
  return true;
}

Truth ShellReader::run_if(const ShellNode& node, int depth) {
  ++branches_;
  Truth result = true;
  bool doubts = false;
  for (std::size_t i = 0; i < node.lists.size(); i += 2) {
    if (i + 1 == node.lists.size()) {
      doubts_ += doubts ? 1 : 0;
      result = run(node.lists[i], depth + 1);
      doubts_ -= doubts ? 1 : 0;
      break;
    }
    doubted_ = false;
    const Truth condition = this->condition(node.lists[i], depth + 1);
    doubts = doubts || doubted_;
    if (!condition) {
      leave_out(node.line, "its condition is not known without running the script: no branch of it is taken");
      break;
    }
    if (*condition) {
      doubts_ += doubts ? 1 : 0;
      result = run(node.lists[i + 1], depth + 1);
      doubts_ -= doubts ? 1 : 0;
      break;
    }
  }
  --branches_;
  return result;
}

Truth ShellReader::run_for(const ShellNode& node, int depth) {
  std::vector<ShellWord> items;
  for (const RawWord& word : node.words)
    for (ShellWord& field : words_.fields(word)) items.push_back(std::move(field));
  for (const ShellWord& item : items) {
    if (!is_resolved(item.text)) {
      leave_out(node.line, fmt::format("a loop over {} is left out: it is not known", shown(item.text)));
      return true;
    }
  }
  ++branches_;
  for (const ShellWord& item : items) {
    words_.set(node.name, item.text, item.line);
    if (!run_turn(node.lists[0], depth)) break;
  }
  --branches_;
  return true;
}

bool ShellReader::run_turn(const std::vector<ShellNode>& body, int depth) {
  ++loops_;
  (void)run(body, depth + 1);
  --loops_;
  if (breaks_ > 0) {
    --breaks_;
    return false;
  }
  continues_ = false;
  return !stopped_ && !returns_;
}

// while, until and for ((;;)), as often as their conditions are known to hold.
Truth ShellReader::run_loop(const ShellNode& node, int depth) {
  const bool until = node.words.size() == 1 && node.words[0].text == "until";
  const std::vector<std::string> parts =
      node.words.empty() || until ? std::vector<std::string>{} : split(node.words[0].text, ';');
  if (parts.size() == 3) (void)counted(parts[0], node.line, words_);
  ++branches_;
  for (int turn = 0;; ++turn) {
    const Truth holds = parts.size() == 3 ? counted(parts[1], node.line, words_) : condition(node.lists[0], depth + 1);
    if (!holds || turn == kMaxTurns) {
      leave_out(node.line, "a loop is left out: how often it runs is not known without running it");
      break;
    }
    if (*holds == until) break;
    const auto before = words_.state();
    if (!run_turn(node.lists[1], depth)) break;
    if (parts.size() == 3) (void)counted(parts[2], node.line, words_);
    if (words_.state() == before) {
      note(node.line, "a loop that changes nothing is read once");
      break;
    }
  }
  --branches_;
  return true;
}

// A command that is none of the shell's may succeed or fail.
Truth ShellReader::condition(const std::vector<ShellNode>& nodes, int depth) {
  ++conditions_;
  const Truth truth = run(nodes, depth);
  --conditions_;
  return truth;
}

Truth ShellReader::run_case(const ShellNode& node, int depth) {
  const std::string subject = if_unset_empty(words_.text(node.words[0]), node.line);
  if (!is_resolved(subject)) {
    leave_out(node.line, fmt::format("{} is not known: no branch of this 'case' is taken", shown(subject)));
    return true;
  }
  for (std::size_t i = 0; i < node.patterns.size(); ++i)
    for (const std::string& pattern : node.patterns[i]) {
      if (!matches_glob(words_.text({pattern, node.line}), subject)) continue;
      ++branches_;
      const Truth result = run(node.lists[i], depth + 1);
      --branches_;
      return result;
    }
  return true;
}

// A variable that nobody sets is empty where it is tested.
std::string ShellReader::if_unset_empty(const std::string& text, int line) {
  std::string known;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text[at] == kUnresolved ? text.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      known += text[at++];
      continue;
    }
    const std::string name = text.substr(at + 2, end - at - 2);
    if (name.starts_with("output_of_") || name.starts_with("value_of_")) {
      known += text.substr(at, end + 1 - at);
    } else {
      const bool argument = !name.empty() && name[0] >= '0' && name[0] <= '9';
      doubted_ = true;
      note(line, fmt::format("{} is taken for unset in a test; give {} if it is not", name,
                             argument ? "--args" : "--set " + name + "=VALUE"));
    }
    at = end + 1;
  }
  return known;
}

Truth ShellReader::test(const std::vector<RawWord>& raw, int line) {
  std::vector<std::string> parts;
  for (const RawWord& word : raw) parts.push_back(if_unset_empty(words_.text(word), line));
  return condition_of(parts, words_);
}

Truth ShellReader::simple(const ShellNode& node, int depth) {
  if (node.words.empty()) {
    for (const ShellNode::Assignment& made : node.assignments) assign(made, words_);
    return true;
  }
  ShellCommand command;
  command.line = node.line;
  command.file = file_;
  for (const RawWord& word : node.words)
    for (ShellWord& field : words_.fields(word)) command.words.push_back(std::move(field));
  const bool declares = node.words[0].text == "export" || node.words[0].text == "declare" ||
                        node.words[0].text == "local" || node.words[0].text == "readonly" ||
                        node.words[0].text == "typeset";
  if (declares && std::any_of(command.words.begin(), command.words.end(),
                              [](const ShellWord& word) { return word.text == "-A"; })) {
    for (const ShellNode::Assignment& made : node.assignments) words_.variables[made.name] = {{}, true, true};
    for (std::size_t i = 1; i < command.words.size(); ++i)
      if (!command.words[i].text.starts_with('-')) words_.variables[command.words[i].text] = {{}, true, true};
  }
  // "NAME=value command": for the command alone, but what it launches is the same.
  for (const ShellNode::Assignment& made : node.assignments) {
    assign(made, words_);
    if (node.words[0].text == "export" || !declares) exported_.insert(made.name);
  }
  if (command.words.empty()) return true;
  if (node.has_document)
    command.input = node.input_quoted ? node.input : words_.document(node.input, node.line);
  else if (!node.input.empty())
    command.input = words_.text({node.input, node.line});
  if (!node.output.empty()) command.output = words_.text({node.output, node.line});
  return call(std::move(command), node, depth);
}

Truth ShellReader::call(ShellCommand command, const ShellNode& node, int depth) {
  const std::string name = command.words[0].text;
  if (words_.functions.contains(name)) return call_function(command, depth);
  if (name == "[" || name == "test") {
    std::vector<RawWord> parts(node.words.begin() + 1, node.words.end());
    if (name == "[" && !parts.empty() && parts.back().text == "]") parts.pop_back();
    return test(parts, node.line);
  }
  if (name == "echo" && !command.output.empty()) result_.written[command.output] = echoed(command);
  if (name == "echo" && command.output.empty() && printed_ != nullptr) *printed_ += echoed(command);
  if (name == "printf") unsure_ = true;
  if (const auto done = builtin(name, command, node)) return *done;
  if (!command.input.empty() && name == "cat" && !command.output.empty()) {
    result_.written[command.output] = command.input;
    return true;
  }
  if (change_file(command) || (name == "sed" && write_output({&node, 1})) || read_inner(command, depth)) return true;
  unsure_ = true;
  result_.commands.push_back(std::move(command));
  return conditions_ > 0 && !finds_programs(name) ? Truth{} : Truth{true};
}

Truth ShellReader::call_function(const ShellCommand& command, int depth) {
  const std::string& name = command.words[0].text;
  require(depth < kMaxLaunchDepth, "{}:{}: '{}' calls itself too often.", file_, command.line, name);
  const std::vector<ShellWord> before = words_.arguments;
  words_.arguments.assign(command.words.begin() + 1, command.words.end());
  const int outer_doubts = std::exchange(doubts_, 0), outer_loops = std::exchange(loops_, 0);
  ++calls_;
  const Truth result = run(words_.functions.at(name)->lists[0], depth + 1);
  --calls_;
  doubts_ = outer_doubts;
  loops_ = outer_loops;
  words_.arguments = before;
  return std::exchange(returns_, false) ? returned_ : result;
}

// What `call` prints, a call of a function that only prints and counts; what it sets ends with it, as in a subshell.
std::optional<std::string> ShellReader::output_of(const ShellNode& call) {
  if (calls_ >= kMaxCalls) return std::nullopt;
  const auto variables = words_.variables;
  const std::size_t commands = result_.commands.size();
  std::string text;
  std::string* const outer = std::exchange(printed_, &text);
  const bool outer_unsure = std::exchange(unsure_, false), outer_stopped = stopped_;
  const int outer_branches = std::exchange(branches_, 0), outer_conditions = std::exchange(conditions_, 0);
  (void)run(call, calls_);
  const bool known = !unsure_ && result_.commands.size() == commands;
  result_.commands.erase(result_.commands.begin() + static_cast<std::ptrdiff_t>(commands), result_.commands.end());
  words_.variables = variables;
  printed_ = outer;
  unsure_ = outer_unsure;
  stopped_ = outer_stopped;
  branches_ = outer_branches;
  conditions_ = outer_conditions;
  return known ? std::optional(text) : std::nullopt;
}

// `exit` in a branch is mostly that of a script that is told too little, and `return` where a variable is unset, too.
Truth ShellReader::leave(const std::string& name, const ShellCommand& command) {
  const bool exits = name == "exit";
  if (exits ? branches_ > 0 : doubts_ > 0) {
    leave_out(command.line, fmt::format("'{}' in a branch is not followed", name));
    return true;
  }
  const auto status = command.words.size() > 1 ? words_.arithmetic(command.words[1].text, command.line) : 0;
  (exits ? stopped_ : returns_) = true;
  returned_ = status ? Truth{*status == 0} : Truth{};
  return returned_;
}

std::optional<Truth> ShellReader::builtin(const std::string& name, const ShellCommand& command, const ShellNode& node) {
  if (name == "export") {
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const std::string& word = command.words[i].text;
      const std::size_t equal = word.find('=');
      if (word.starts_with('-')) continue;
      if (equal != std::string::npos) words_.set(word.substr(0, equal), word.substr(equal + 1), command.line);
      exported_.insert(word.substr(0, equal));
    }
    return Truth{true};
  }
  if (name == "unset") {
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      words_.variables.erase(command.words[i].text);
      unset_.insert(command.words[i].text);
    }
    return Truth{true};
  }
  if (name == "shift") {
    const auto by = command.words.size() > 1 ? words_.arithmetic(command.words[1].text, node.line) : 1;
    if (!by || *by < 0 || *by > static_cast<std::int64_t>(words_.arguments.size())) return Truth{false};
    words_.arguments.erase(words_.arguments.begin(), words_.arguments.begin() + *by);
    return Truth{true};
  }
  if (name == "let") {
    Truth last = true;
    for (std::size_t i = 1; i < command.words.size(); ++i) last = counted(command.words[i].text, node.line, words_);
    return last;
  }
  if ((name == "break" || name == "continue") && loops_ > 0) {
    const auto levels = command.words.size() > 1 ? words_.arithmetic(command.words[1].text, node.line) : 1;
    breaks_ = static_cast<int>(std::clamp<std::int64_t>(levels.value_or(1), 1, loops_)) - (name == "continue" ? 1 : 0);
    continues_ = name == "continue";
    return Truth{true};
  }
  if (name == "set") {  // "set -- WORDS": the arguments from here on
    const auto from = std::find_if(command.words.begin() + 1, command.words.end(),
                                   [](const ShellWord& word) { return word.text == "--"; });
    if (from != command.words.end()) words_.arguments.assign(from + 1, command.words.end());
    return Truth{true};
  }
  if (name == "read") return read_into(command, words_);
  if (name == "exit" || name == "return") return leave(name, command);
  if (name == "false") return Truth{false};
  if (sets_nothing(name)) return Truth{true};
  return std::nullopt;
}
ShellResult read_shell(const std::string& text, const std::string& place, const ShellInput& input) {
  ShellReader reader(place, input);
  reader.read(text, 1);
  return std::move(reader).result();
}

}  // namespace meshwright
