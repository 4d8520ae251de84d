// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python_config.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/python_syntax.h"

namespace meshwright {

namespace {

class FunctionReader {
 public:
  // What a call of a function of the same file returns; nullopt where the file has no function of that name.
  using Call = std::function<std::optional<ConfigValue>(const ConfigValue& call)>;
  using Locals = std::map<std::string, ConfigValue>;

  // `root`: the name that the function returns; "": it returns what it constructs. `locals`: its parameters. `copied`
  // counts the values for which names and calls stood.
  FunctionReader(PythonConfig& config, const std::string& place, std::string root, Locals locals, Call call,
                 std::size_t& copied)
      : config_(config),
        place_(place),
        root_(std::move(root)),
        locals_(std::move(locals)),
        call_(std::move(call)),
        copied_(copied) {
    config_.values = ConfigValue::map(1);
  }

  // Members of `more` in the place of those of the same name.
  static void merge(ConfigValue& into, const ConfigValue& more) {
    for (const auto& [key, value] : more.members) {
      ConfigValue* held = nullptr;
      for (auto& [name, member] : into.members)
        if (name == key) held = &member;
      if (held != nullptr && held->is_map() && value.is_map() && value.text.empty())
        merge(*held, value);
      else
        into.set(key, value);
    }
  }

  void read(const PythonStatement& statement) {
    const std::string& text = statement.text;
    if (text.starts_with("return ")) {
      const auto result = python_value(text, statement.line, 7);
      if (result && result->is_map())
        merge(config_.values, with_locals(*result, 1));
      else if (!result)
        ignore(statement);
      return;
    }
    const bool is_text = text.starts_with("\"") || text.starts_with("'");
    if (is_text || text.starts_with("from ") || text.starts_with("import ") || text == "pass") return;
    const std::size_t equal = assignment_of(text);
    if (equal == std::string::npos) return ignore(statement);
    std::vector<std::string> targets = split(text.substr(0, equal), ',');
    for (std::string& target : targets) {
      std::erase_if(target, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
      if (const std::size_t type = target.find(':'); type != std::string::npos) target.resize(type);
    }
    const auto value = python_value(text, statement.line, equal + 1);
    if (!value) return ignore(statement);
    // What the configuration begins with is looked up by its name.
    if (targets.size() == 1) return assign(targets[0], with_locals(*value, targets[0] == root_ ? 0 : 1), statement);
    if (!value->is_list() || value->items.size() != targets.size()) return ignore(statement);
    for (std::size_t i = 0; i < targets.size(); ++i) assign(targets[i], value->items[i], statement);
  }

  // Whether "if x:", "if not x:", "if x is None:", "if x is not None:" or one of their like with elif holds; nullopt:
  // nobody knows without running it.
  [[nodiscard]] std::optional<bool> holds(const std::string& text) const {
    std::vector<std::string> words = split(text, ' ');
    if (words.size() < 2 || !words.back().ends_with(':')) return std::nullopt;
    words.back().pop_back();
    words.erase(words.begin());
    const bool negated = words[0] == "not";
    if (negated) words.erase(words.begin());
    if (words.empty()) return std::nullopt;
    const auto known = locals_.find(words[0]);
    if (known == locals_.end()) return std::nullopt;
    const ConfigValue& value = known->second;
    const bool none = value.kind == ConfigValue::Kind::Null;
    words.erase(words.begin());
    if (words == std::vector<std::string>{"is", "None"}) return none != negated;
    if (words == std::vector<std::string>{"is", "not", "None"}) return none == negated;
    if (!words.empty()) return std::nullopt;
    if (none || (value.is_scalar() && (value.text == "False" || value.text == "0" || value.text.empty())))
      return negated;
    if (value.is_scalar() && (value.text == "True" || value.quoted)) return !negated;
    return std::nullopt;
  }

 private:
  // Names of values in the place of which these stand. At depth 0 a call is left as it is.
  ConfigValue with_locals(ConfigValue value, int depth) const {
    if (depth > kMaxLaunchDepth) return value;
    if (value.is_scalar() && !value.quoted) {
      if (const ConfigValue* member = member_of(value.text)) return *member;
      const auto known = locals_.find(value.text);
      if (known == locals_.end()) return value;
      count_values(known->second, value.line);
      return known->second;
    }
    for (ConfigValue& item : value.items) item = with_locals(std::move(item), depth + 1);
    for (auto& [key, member] : value.members) member = with_locals(std::move(member), depth + 1);
    if (depth == 0 || !value.is_map() || value.text.empty()) return value;
    auto returned = call_(value);
    if (!returned) return value;
    count_values(*returned, value.line);
    return *std::move(returned);
  }

  // Names that stand for names may stand for more values than any memory holds.
  void count_values(const ConfigValue& value, int line) const {
    if (++copied_ > kMaxLaunchValues)
      throw InputError(
          fmt::format("{}:{}: names and calls stand for more than {} values; no configuration has so many.", place_,
                      line, kMaxLaunchValues));
    for (const ConfigValue& item : value.items) count_values(item, line);
    for (const auto& [key, member] : value.members) count_values(member, line);
  }

  // "c.model.seq", where the configuration has a value there already; nullptr: it has none, or a part.
  [[nodiscard]] const ConfigValue* member_of(const std::string& text) const {
    const std::vector<std::string> names = split(text, '.');
    const auto part = names.size() < 2 ? parts_.end() : parts_.find(names[0]);
    if (part == parts_.end()) return nullptr;
    const ConfigValue* at = &config_.values;
    for (std::size_t i = 0; at != nullptr && i < part->second.size(); ++i) at = at->find(part->second[i]);
    for (std::size_t i = 1; at != nullptr && i < names.size(); ++i) at = at->find(names[i]);
    return at != nullptr && at->is_scalar() ? at : nullptr;
  }

  static std::size_t assignment_of(const std::string& text) {
    int open = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '(' || text[i] == '[' || text[i] == '"' || text[i] == '\'') ++open;
      if (open > 0) return std::string::npos;
      if (text[i] == '=' && (i + 1 >= text.size() || text[i + 1] != '=')) {
        const char before = i > 0 ? text[i - 1] : ' ';
        return before == ' ' || is_python_name_part(before) ? i : std::string::npos;
      }
    }
    return std::string::npos;
  }

  void ignore(const PythonStatement& statement) {
    config_.ignored.push_back(fmt::format("{}:{}: {}", place_, statement.line, statement.text.substr(0, 80)));
  }

  // "c.parallelism.tensor_parallel_degree", of which the first name is the configuration or stands for a part of it.
  void assign(const std::string& target, const ConfigValue& value, const PythonStatement& statement) {
    std::vector<std::string> names = split(target, '.');
    if (names.size() == 1) return name_value(target, value);
    const auto known = parts_.find(names[0]);
    if (known == parts_.end()) return ignore(statement);
    std::vector<std::string> path = known->second;
    path.insert(path.end(), names.begin() + 1, names.end());
    if (path.size() > static_cast<std::size_t>(kMaxLaunchDepth)) return ignore(statement);
    ConfigValue* table = &config_.values;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      ConfigValue* inner = nullptr;
      for (auto& [name, member] : table->members)
        if (name == path[i]) inner = &member;
      if (inner == nullptr || !inner->is_map()) {
        table->set(path[i], ConfigValue::map(statement.line));
        for (auto& [name, member] : table->members)
          if (name == path[i]) inner = &member;
      }
      table = inner;
    }
    table->set(path.back(), value);
  }

  // A name for the whole configuration (what a function returns), or for a part of it.
  void name_value(const std::string& name, const ConfigValue& value) {
    if (name != root_ && !(value.is_scalar() && parts_.contains(split(value.text, '.')[0]))) {
      locals_[name] = value;
      return;
    }
    if (value.is_map() && !value.text.empty()) {
      parts_[name] = {};
      if (value.members.empty())
        config_.base = value.text;
      else
        merge(config_.values, value);
      return;
    }
    const std::vector<std::string> names = split(value.text, '.');
    const auto known = value.is_scalar() ? parts_.find(names[0]) : parts_.end();
    if (known == parts_.end()) return;  // a number or text of its own
    std::vector<std::string> path = known->second;
    path.insert(path.end(), names.begin() + 1, names.end());
    if (path.size() < static_cast<std::size_t>(kMaxLaunchDepth)) parts_[name] = path;
  }

  PythonConfig& config_;
  const std::string& place_;
  std::string root_;
  std::map<std::string, std::vector<std::string>> parts_;
  Locals locals_;
  Call call_;
  std::size_t& copied_;
};

// The names of `NAME, NAME = value` or `NAME: type = value`, whose value begins at `begin`; none: the statement assigns
// to no names alone.
std::vector<std::string> assigned_names(const std::string& line, std::size_t& begin) {
  std::vector<std::string> names;
  std::size_t end = 0;
  const auto skip = [&](std::string_view blanks) { end = std::min(line.size(), line.find_first_not_of(blanks, end)); };
  do {
    if (!names.empty()) skip(", ");
    const std::size_t from = end;
    while (end < line.size() && is_python_name_part(line[end])) ++end;
    if (end == from) return {};
    names.push_back(line.substr(from, end - from));
    skip(" ");
  } while (end < line.size() && line[end] == ',');
  const bool has_type = names.size() == 1 && end < line.size() && line[end] == ':';
  if (has_type && names[0] != "else" && names[0] != "try") end = std::min(line.size(), line.find('=', end));
  if (end + 1 >= line.size() || line[end] != '=' || line[end + 1] == '=') return {};
  begin = end + 1;
  return names;
}

struct Parameter {
  std::string name;
  std::optional<ConfigValue> value;  // where the call gives none
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t begin, end;  // statements of its body
};

// "def name(a, b: int = 1, *, c=None) -> T:"
Function function_of(const PythonStatement& statement) {
  const std::string& text = statement.text;
  Function function{"", {}, 0, 0};
  std::size_t at = 4;
  while (at < text.size() && is_python_name_part(text[at])) function.name += text[at++];
  at = std::min(text.find('(', at), text.size() - 1);
  std::string parameter;
  const auto add = [&] {
    const std::size_t equal = parameter.find('=');
    std::string name = parameter.substr(0, std::min(equal, parameter.find(':')));
    std::erase_if(name, [](char c) { return !is_python_name_part(c); });
    if (!name.empty())
      function.parameters.push_back(
          {name, equal == std::string::npos ? std::nullopt : python_value(parameter, statement.line, equal + 1)});
    parameter.clear();
  };
  int open = 1;
  for (++at; at < text.size(); ++at) {
    const char c = text[at];
    open += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (open == 0) break;
    if (c == ',' && open == 1)
      add();
    else
      parameter += c;
  }
  add();
  return function;
}

// The functions of a file and what they return.
class Module {
 public:
  Module(const std::string& text, const std::string& place)
      : statements_(python_statements(text, place)), place_(place) {
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      const PythonStatement& statement = statements_[i];
      std::size_t begin = 0;
      if (statement.indent == 0 && statement.text.starts_with("def ")) {
        functions_.push_back(function_of(statement));
        functions_.back().begin = functions_.back().end = i + 1;
        while (functions_.back().end < statements_.size() && statements_[functions_.back().end].indent > 0)
          ++functions_.back().end;
      } else if (const std::vector<std::string> names = assigned_names(statement.text, begin);
                 statement.indent == 0 && names.size() == 1) {
        if (auto value = python_value(statement.text, statement.line, begin); value && value->is_scalar())
          constants_[names[0]] = *std::move(value);
      }
    }
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Function& function : functions_) names.push_back(function.name);
    return names;
  }

  // "": of the last function, or without one of all statements.
  PythonConfig config(const std::string& name) {
    if (name.empty() && functions_.empty()) {
      PythonConfig config;
      FunctionReader reader(
          config, place_, "c", {}, [](const ConfigValue&) { return std::nullopt; }, copied_);
      for (const PythonStatement& statement : statements_) reader.read(statement);
      return config;
    }
    const Function* function = name.empty() ? &functions_.back() : find(name);
    if (function == nullptr)
      throw InputError(fmt::format("{}:1: has no function '{}'; it has {}.", place_, name,
                                   functions_.empty() ? "none" : join(names(), ", ")));
    return config_of(*function, ConfigValue::map(1), 0);
  }

 private:
  static constexpr int kMaxDepth = 8, kMaxCalls = 200;  // no configuration needs more

  [[nodiscard]] const Function* find(const std::string& name) const {
    const Function* found = nullptr;
    for (const Function& function : functions_)
      if (function.name == name) found = &function;
    return found;
  }

  // The name that it returns; "": it returns what it constructs.
  [[nodiscard]] std::string root_of(const Function& function) const {
    std::string root;
    for (std::size_t i = function.begin; i < function.end; ++i)
      if (const std::string& line = statements_[i].text; line.starts_with("return "))
        if (std::all_of(line.begin() + 7, line.end(), is_python_name_part)) root = line.substr(7);
    return root;
  }

  PythonConfig config_of(const Function& function, const ConfigValue& call, int depth) {
    FunctionReader::Locals locals = constants_;
    for (std::size_t p = 0; p < function.parameters.size(); ++p) {
      const Parameter& parameter = function.parameters[p];
      const ConfigValue* given = call.find(parameter.name);
      if (given == nullptr) given = call.find(fmt::format("#{}", p));
      if (given != nullptr)
        locals[parameter.name] = *given;
      else if (parameter.value)
        locals[parameter.name] = *parameter.value;
      else
        locals.erase(parameter.name);
    }
    PythonConfig config;
    config.function = function.name;
    std::vector<std::string> ignored;  // by the functions that are called
    const auto result_of = [&](const ConfigValue& of) -> std::optional<ConfigValue> {
      const Function* called = find(of.text);
      if (called == nullptr || called == &function || depth >= kMaxDepth || ++calls_ > kMaxCalls) return std::nullopt;
      PythonConfig result = config_of(*called, of, depth + 1);
      ignored.insert(ignored.end(), result.ignored.begin(), result.ignored.end());
      return std::move(result.values);
    };
    FunctionReader reader(config, place_, root_of(function), std::move(locals), result_of, copied_);
    read_body(function, reader);
    config.ignored.insert(config.ignored.begin(), ignored.begin(), ignored.end());
    // A function of the same file that it begins with.
    const Function* base = config.base.empty() || config.base == function.name ? nullptr : find(config.base);
    if (base == nullptr || depth >= kMaxDepth) return config;
    PythonConfig changed = config_of(*base, ConfigValue::map(1), depth + 1);
    FunctionReader::merge(changed.values, config.values);
    changed.function = config.function;
    changed.ignored.insert(changed.ignored.end(), config.ignored.begin(), config.ignored.end());
    if (changed.base.empty()) changed.name_of_model = config.base;
    return changed;
  }

  // Branches that are known not to be taken are left out.
  void read_body(const Function& function, FunctionReader& reader) const {
    std::map<int, std::optional<bool>> taken;  // by indent: whether a branch of the last condition was
    constexpr int kNone = 1 << 30;
    int left_out = kNone;  // the indent of the condition
    for (std::size_t i = function.begin; i < function.end; ++i) {
      const PythonStatement& statement = statements_[i];
      if (statement.indent > left_out) continue;
      left_out = kNone;
      const bool other = statement.text == "else:", elif = statement.text.starts_with("elif ");
      if (!other && !elif && !statement.text.starts_with("if ")) {
        reader.read(statement);
        continue;
      }
      const std::optional<bool> before = other || elif ? taken[statement.indent] : std::optional(false);
      const std::optional<bool> now = other ? std::optional(true) : reader.holds(statement.text);
      if (before == true || now == false) left_out = statement.indent;
      if (!before || !now) reader.read(statement);  // which lists it
      taken[statement.indent] = before == true ? before : before && now ? now : std::nullopt;
    }
  }

  std::vector<PythonStatement> statements_;
  const std::string& place_;
  std::vector<Function> functions_;
  FunctionReader::Locals constants_;
  int calls_ = 0;
  std::size_t copied_ = 0;
};

}  // namespace

PythonConfig config_from_python(const std::string& text, const std::string& name, const std::string& place) {
  return Module(text, place).config(name);
}

std::vector<std::string> functions_of_python(const std::string& text, const std::string& place) {
  return Module(text, place).names();
}

std::vector<PythonValue> values_from_python(const std::string& text, const std::string& place) {
  std::vector<PythonValue> values;
  for (const PythonStatement& statement : python_statements(text, place)) {
    const std::string& line = statement.text;
    std::size_t begin = 0;
    std::vector<std::string> names = assigned_names(line, begin);
    if (names.empty() && line.starts_with("return ")) begin = 7;
    if (names.empty() && line.starts_with("@")) begin = 1;
    auto value = python_value(line, statement.line, begin);
    if (!value) continue;
    if (names.size() > 1 && value->is_list() && value->items.size() == names.size()) {
      for (std::size_t i = 0; i < names.size(); ++i)
        values.push_back({std::move(names[i]), std::move(value->items[i]), statement.line});
    } else if (names.size() == 1) {
      values.push_back({std::move(names.front()), *std::move(value), statement.line});
    } else if (names.empty() && value->is_map()) {
      values.push_back({"", *std::move(value), statement.line});
    }
  }
  return values;
}

}  // namespace meshwright
