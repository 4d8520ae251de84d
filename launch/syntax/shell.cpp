// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/config_value.h"
#include "launch/syntax/shell_assignments.h"
#include "launch/syntax/shell_commands.h"
#include "launch/syntax/shell_conditions.h"
#include "launch/syntax/shell_glob.h"
#include "launch/syntax/shell_words.h"

namespace meshwright {

std::string shown(std::string text) {
  std::replace(text.begin(), text.end(), kUnresolved, '$');
  return text;
}

namespace {

constexpr std::size_t kMaxShellCommands = 20'000;

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class ShellReader {
 public:
  ShellReader(const std::string& place, const ShellInput& input)
      : place_(place), input_(input), words_(result_, place_) {
    for (const auto& [name, value] : input.variables) words_.set(name, value, 0);
    for (const std::string& argument : input.arguments) words_.arguments.push_back({argument, 0});
  }

  void read(const std::string& text, int first_line) {
    std::string clean = text;
    std::erase(clean, kUnresolved);
    const ShellTree tree = parse_shell(clean, place_, first_line);
    running_ = {text};
    add_directives(tree);
    run(tree.nodes, 0);
  }

  ShellResult result() && {
    for (const std::string& name : exported_)
      if (const auto found = words_.variables.find(name);
          found != words_.variables.end() && !found->second.values.empty())
        result_.environment[name] = found->second.values[0].text;
    for (const auto& [name, value] : input_.variables) result_.unresolved.erase(name);
    return std::move(result_);
  }

 private:
  void note(int line, const std::string& sentence) {
    const std::string text = fmt::format("{}:{}: {}", place_, line, sentence);
    if (result_.notes.size() < 200 &&
        std::find(result_.notes.begin(), result_.notes.end(), text) == result_.notes.end())
      result_.notes.push_back(text);
  }

  // What Slurm sets is known from the lines that ask for it.
  void add_directives(const ShellTree& tree) {
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

  // --- what is evaluated ---

  // The truth of the last node.
  Truth run(const std::vector<ShellNode>& nodes, int depth) {
    require(depth < kMaxLaunchDepth, "{}: its blocks and calls are nested too deeply.", place_);
    Truth last = true;
    for (const ShellNode& node : nodes) {
      if (stopped_) return last;
      const bool skipped = (node.before == '&' && last == Truth{false}) || (node.before == 'o' && last == Truth{true});
      if (skipped) continue;
      const bool unsure = (node.before == '&' || node.before == 'o') && !last;
      if (unsure) {
        note(node.line, "runs only if the test before it holds, which is not known: left out");
        continue;
      }
      last = run(node, depth);
      if (node.negated) last = negated(last);
      require(++count_ <= kMaxShellCommands, "{}: runs more than {} commands; launch scripts are shorter.", place_,
              kMaxShellCommands);
    }
    return last;
  }

  Truth run(const ShellNode& node, int depth) {
    using Kind = ShellNode::Kind;
    switch (node.kind) {
      case Kind::Simple:
        return simple(node, depth);
      case Kind::If:
        return run_if(node, depth);
      case Kind::For:
        return run_for(node, depth);
      case Kind::Loop:
        note(node.line, "a loop is left out: how often it runs is not known without running it");
        return true;
      case Kind::Case:
        return run_case(node, depth);
      case Kind::Function:
        functions_[node.name] = &keep(node);
        return true;
      case Kind::Group:
        return run(node.lists[0], depth + 1);
      case Kind::Test:
        return test(node.words, node.line);
      case Kind::Arithmetic:
        return arithmetic(node);
    }
    return true;
  }

  // Nodes outlive the text that they were parsed of.
  const ShellNode& keep(const ShellNode& node) {
    kept_.push_back(std::make_unique<ShellNode>(node));
    return *kept_.back();
  }

  Truth run_if(const ShellNode& node, int depth) {
    ++branches_;
    Truth result = true;
    for (std::size_t i = 0; i < node.lists.size(); i += 2) {
      if (i + 1 == node.lists.size()) {
        result = run(node.lists[i], depth + 1);
        break;
      }
      const Truth condition = run(node.lists[i], depth + 1);
      if (!condition) {
        note(node.line, "its condition is not known without running the script: no branch of it is taken");
        break;
      }
      if (*condition) {
        result = run(node.lists[i + 1], depth + 1);
        break;
      }
    }
    --branches_;
    return result;
  }

  Truth run_for(const ShellNode& node, int depth) {
    std::vector<ShellWord> items;
    for (const RawWord& word : node.words)
      for (ShellWord& field : words_.fields(word)) items.push_back(std::move(field));
    for (const ShellWord& item : items) {
      if (!is_resolved(item.text)) {
        note(node.line, fmt::format("a loop over {} is left out: it is not known", shown(item.text)));
        return true;
      }
    }
    ++branches_;
    for (const ShellWord& item : items) {
      words_.set(node.name, item.text, item.line);
      (void)run(node.lists[0], depth + 1);
    }
    --branches_;
    return true;
  }

  Truth run_case(const ShellNode& node, int depth) {
    const std::string subject = if_unset_empty(words_.text(node.words[0]), node.line);
    if (!is_resolved(subject)) {
      note(node.line, fmt::format("{} is not known: no branch of this 'case' is taken", shown(subject)));
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

  Truth arithmetic(const ShellNode& node) {
    const std::string& text = node.words[0].text;
    // "(( x = 3 ))", "(( x += 1 ))"
    const std::size_t equal = text.find('=');
    if (equal != std::string::npos && equal > 0 && (equal + 1 >= text.size() || text[equal + 1] != '=') &&
        std::string("<>!=").find(text[equal - 1]) == std::string::npos) {
      std::string name = text.substr(0, equal);
      std::string expression = text.substr(equal + 1);
      if (std::string("+-*/%").find(name.back()) != std::string::npos) {
        const char op = name.back();
        name.pop_back();
        expression = fmt::format("({}) {} ({})", name, op, expression);
      }
      std::erase_if(name, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
      const auto value = words_.arithmetic(expression, node.line);
      words_.set(name, value ? fmt::format("{}", *value) : fmt::format("{}{{value_of_{}}}", kUnresolved, name),
                 node.line);
      return value ? Truth{*value != 0} : std::nullopt;
    }
    const auto value = words_.arithmetic(text, node.line);
    return value ? Truth{*value != 0} : std::nullopt;
  }

  // --- tests ---

  // A variable that nobody sets is empty where it is tested.
  std::string if_unset_empty(const std::string& text, int line) {
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
        note(line, fmt::format("{} is taken for unset in a test; give {} if it is not", name,
                               argument ? "--args" : "--set " + name + "=VALUE"));
      }
      at = end + 1;
    }
    return known;
  }

  Truth test(const std::vector<RawWord>& raw, int line) {
    std::vector<std::string> parts;
    for (const RawWord& word : raw) parts.push_back(if_unset_empty(words_.text(word), line));
    return condition_of(parts, words_);
  }

  // --- simple commands ---

  Truth simple(const ShellNode& node, int depth) {
    if (node.words.empty()) {
      for (const ShellNode::Assignment& made : node.assignments) assign(made, words_);
      return true;
    }
    ShellCommand command;
    command.line = node.line;
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

  Truth call(ShellCommand command, const ShellNode& node, int depth) {
    const std::string name = command.words[0].text;
    if (const auto function = functions_.find(name); function != functions_.end()) {
      require(depth < kMaxLaunchDepth, "{}:{}: '{}' calls itself too often.", place_, node.line, name);
      const std::vector<ShellWord> before = words_.arguments;
      words_.arguments.assign(command.words.begin() + 1, command.words.end());
      const Truth result = run(function->second->lists[0], depth + 1);
      words_.arguments = before;
      return result;
    }
    if (name == "[" || name == "test") {
      std::vector<RawWord> parts(node.words.begin() + 1, node.words.end());
      if (name == "[" && !parts.empty() && parts.back().text == "]") parts.pop_back();
      return test(parts, node.line);
    }
    if (name == "echo" && !command.output.empty()) result_.written[command.output] = echoed(command);
    if (const auto done = builtin(name, command, node)) return *done;
    if (!command.input.empty() && name == "cat" && !command.output.empty()) {
      result_.written[command.output] = command.input;
      return true;
    }
    if (read_inner(command, depth)) return true;
    result_.commands.push_back(std::move(command));
    return true;
  }

  // nullopt: it is no command of the shell itself.
  std::optional<Truth> builtin(const std::string& name, const ShellCommand& command, const ShellNode& node) {
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
      if (!words_.arguments.empty()) words_.arguments.erase(words_.arguments.begin());
      return Truth{true};
    }
    if (name == "set") {  // "set -- WORDS": the arguments from here on
      const auto from = std::find_if(command.words.begin() + 1, command.words.end(),
                                     [](const ShellWord& word) { return word.text == "--"; });
      if (from != command.words.end()) words_.arguments.assign(from + 1, command.words.end());
      return Truth{true};
    }
    if (name == "read") return read_line(command);
    if (name == "exit" || name == "return") {
      if (branches_ == 0 && name == "exit")
        stopped_ = true;
      else
        note(node.line, fmt::format("'{}' in a branch is not followed", name));
      return Truth{true};
    }
    if (name == "false") return Truth{false};
    if (sets_nothing(name)) return Truth{true};
    return std::nullopt;
  }

  // "IFS='=' read -r KEY VALUE <<< text".
  std::optional<Truth> read_line(const ShellCommand& command) {
    std::vector<std::string> names;
    for (std::size_t i = 1; i < command.words.size(); ++i)
      if (!command.words[i].text.starts_with('-')) names.push_back(command.words[i].text);
    const auto found = words_.variables.find("IFS");
    const std::string separators =
        found == words_.variables.end() || found->second.values.empty() ? " \t\n" : found->second.values[0].text;
    std::string rest = command.input.substr(0, command.input.find('\n'));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::size_t end = i + 1 < names.size() ? rest.find_first_of(separators) : std::string::npos;
      words_.set(names[i], rest.substr(0, end), command.line);
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    words_.variables.erase("IFS");
    return Truth{true};
  }

  // Scripts within the script: `bash -c "..."`, `sbatch <<EOF`, `source FILE`, `bash FILE ARGUMENTS`.
  bool read_inner(const ShellCommand& command, int depth) {
    const std::string name = base_name(command.words[0].text);
    if ((name == "exec" || name == "nohup" || name == "time" || name == "command") && command.words.size() > 1) {
      ShellCommand rest = command;
      rest.words.erase(rest.words.begin());
      return read_inner(rest, depth);
    }
    if (name == "eval") {
      std::string text;
      for (std::size_t i = 1; i < command.words.size(); ++i) text += command.words[i].text + " ";
      return run_text(text, command.words[0].line, depth);
    }
    const bool batch = name == "sbatch" || name == "bash" || name == "sh";
    if (batch && !command.input.empty()) {
      for (std::size_t i = 1; i < command.words.size(); ++i) result_.directives.push_back(command.words[i]);
      return run_text(command.input, command.line + 1, depth);
    }
    for (std::size_t i = 0; i + 2 < command.words.size(); ++i) {
      const std::string& option = command.words[i + 1].text;
      const std::string shell = base_name(command.words[i].text);
      if (!(shell == "bash" || shell == "sh" || shell == "zsh")) continue;
      std::size_t at = i + 1;
      while (at + 1 < command.words.size() && command.words[at].text.starts_with('-') &&
             !command.words[at].text.ends_with('c'))
        ++at;
      if (!command.words[at].text.starts_with('-') || !command.words[at].text.ends_with('c') || option == "--")
        continue;
      if (at + 1 >= command.words.size()) continue;
      // What runs the shell (srun, docker) says something of the devices.
      if (i > 0)
        result_.commands.push_back(
            {{command.words.begin(), command.words.begin() + static_cast<std::ptrdiff_t>(i)}, "", "", command.line});
      return run_text(command.words[at + 1].text, command.words[at + 1].line, depth);
    }
    return called_script(command, name, depth) || launched_script(command, depth);
  }

  // "torchrun --no-python bash FILE", of a file that the script has written.
  bool launched_script(const ShellCommand& command, int depth) {
    for (std::size_t i = 1; i + 1 < command.words.size(); ++i) {
      const std::string shell = base_name(command.words[i].text);
      if ((shell != "bash" && shell != "sh") || !written_script(command.words[i + 1].text)) continue;
      const auto begin = command.words.begin();
      const auto launcher_end = begin + static_cast<std::ptrdiff_t>(i);
      result_.commands.push_back({{begin, launcher_end}, "", "", command.line});
      return called_script({{launcher_end, command.words.end()}, "", "", command.line}, shell, depth);
    }
    return false;
  }

  const std::string* written_script(const std::string& path) const {
    for (const auto& [file, text] : result_.written)
      if (base_name(file) == base_name(path)) return &text;
    return nullptr;
  }

  bool called_script(const ShellCommand& command, const std::string& name, int depth) {
    const bool calls = name == "bash" || name == "sh" || name == "source" || name == "." || name == "sbatch";
    const std::size_t at = calls ? 1 : 0;
    if (at >= command.words.size()) return false;
    const std::string file = base_name(command.words[at].text);
    if (!calls && !file.ends_with(".sh")) return false;
    const auto given = input_.files.find(file);
    std::optional<std::string> found;
    if (given != input_.files.end())
      found = given->second;
    else if (const std::string* written = written_script(file))
      found = *written;
    else if (input_.beside && is_resolved(file) && !file.empty()) {
      found = input_.beside(command.words[at].text);
      if (!found) found = input_.beside(file);
    }
    if (!found) {
      if (name == "source" || name == ".")
        note(command.line,
             fmt::format("{} is not read; give it as a further file if it sets what is missing", shown(file)));
      return name == "source" || name == ".";
    }
    if (std::find(running_.begin(), running_.end(), *found) != running_.end()) {
      note(command.line, fmt::format("{} starts itself again, which is not followed", shown(file)));
      return true;
    }
    require(depth < kMaxLaunchDepth, "{}:{}: scripts call one another without end.", place_, command.line);
    const std::vector<ShellWord> before = words_.arguments;
    if (command.words.size() > at + 1)
      words_.arguments.assign(command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1, command.words.end());
    running_.push_back(*found);
    const ShellTree tree = parse_shell(*found, file, 1);
    add_directives(tree);
    run(tree.nodes, depth + 1);
    running_.pop_back();
    words_.arguments = before;
    return true;
  }

  bool run_text(const std::string& text, int line, int depth) {
    require(depth + 1 < kMaxLaunchDepth, "{}:{}: scripts within the script are nested too deeply.", place_, line);
    const ShellTree tree = parse_shell(text, place_, line);
    add_directives(tree);
    run(tree.nodes, depth + 1);
    return true;
  }

  std::string place_;
  std::vector<std::string> running_;  // the texts of scripts, each called by the one before it
  const ShellInput& input_;
  ShellResult result_;
  ShellWords words_;
  std::map<std::string, const ShellNode*> functions_;
  std::vector<std::unique_ptr<ShellNode>> kept_;
  std::set<std::string> exported_, unset_;
  int branches_ = 0;
  bool stopped_ = false;
  std::size_t count_ = 0;
};

}  // namespace

ShellResult read_shell(const std::string& text, const std::string& place, const ShellInput& input) {
  ShellReader reader(place, input);
  reader.read(text, 1);
  return std::move(reader).result();
}

}  // namespace meshwright
