// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/text.h"
#include "launch/syntax/python/python_reader.h"

namespace meshwright {

namespace {

using Tree = PythonExpression::Kind;
using Kind = PythonObject::Kind;

constexpr std::size_t kMaxCalls = 24;  // within one another

std::string last_of(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

}  // namespace

std::vector<PythonArgument> PythonReader::arguments_of(PythonFrame& frame, const PythonExpression& tree,
                                                       bool& all_given) {
  std::vector<PythonArgument> arguments;
  for (std::size_t i = 1; i < tree.parts.size(); ++i) {
    const std::string& name = tree.names[i - 1];
    PythonRef value = value_of(frame, tree.parts[i]);
    if (name == "*") {
      const auto items = items_of(*value);
      all_given = all_given && items.has_value();
      if (items)
        for (PythonRef item : *items) arguments.push_back({"", item});
      else
        arguments.push_back({"", heap_.unknown("*" + source_of(tree.parts[i]))});
    } else if (name == "**") {
      const bool known = value->kind == Kind::Dict && !value->is_open;
      all_given = all_given && known;
      if (known)
        for (const PythonEntry& entry : value->entries) arguments.push_back({entry.key->text, entry.value});
      else
        arguments.push_back({"", heap_.unknown("**" + source_of(tree.parts[i]))});
    } else {
      arguments.push_back({name, value});
    }
  }
  return arguments;
}

PythonRef PythonReader::call_of(PythonFrame& frame, const PythonExpression& tree) {
  const PythonExpression& callee = tree.parts[0];
  PythonObject* of = nullptr;      // whose method it is
  PythonObject* called = nullptr;  // what is called, where it is known
  if (callee.kind == Tree::Attribute) {
    of = value_of(frame, callee.parts[0]);
    if (of->kind == Kind::Object || of->kind == Kind::Unknown) {
      if (const PythonEntry* held = of->find(callee.text)) called = held->value;
    } else if (of->kind == Kind::Module) {
      called = member_of(frame, *of, callee.text, source_of(callee));
      of = nullptr;
    }
  } else {
    called = value_of(frame, callee);
  }
  bool all_given = true;
  const std::vector<PythonArgument> arguments = arguments_of(frame, tree, all_given);
  is_followed_ = true;
  if (called != nullptr && called->kind == Kind::Function) {
    if (PythonObject* result = call(*called, arguments, all_given)) {
      const bool given = std::any_of(arguments.begin(), arguments.end(),
                                     [&](const PythonArgument& one) { return one.value == result; });
      if (!given) result->begun_with = called->text;
      is_followed_ = true;
      return result;
    }
  }
  if (called != nullptr && called->kind == Kind::Class) return made_by(called->text, nullptr, called, arguments);
  if (called != nullptr && called->kind == Kind::Method) {
    of = called->of;
    if (PythonObject* result = method(*of, called->text, arguments)) return result;
  } else if (of != nullptr && called == nullptr && of->kind != Kind::Object && of->kind != Kind::Unknown) {
    if (PythonObject* result = method(*of, callee.text, arguments)) return result;
  }
  std::string name = source_of(callee);
  const bool plain = called != nullptr && (called->kind == Kind::Unknown || called->kind == Kind::Function);
  if (plain) name = called->text;
  if (of != nullptr && of->kind == Kind::Unknown) name = of->text + "." + callee.text;
  if (of != nullptr && of->kind == Kind::Class) name = of->text + "." + callee.text;
  if (of != nullptr && of->kind == Kind::Object) name = callee.text;
  const bool is_class = !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
  const std::string from = plain && called->kind == Kind::Unknown && !called->names.empty() ? called->names[0] : "";
  if (all_given && (of == nullptr || of->kind == Kind::Unknown)) {
    if (PythonObject* result = builtin(frame, name, arguments)) return result;
    const auto known = around_.known ? around_.known("", name) : std::nullopt;
    if (known) return from_config(*known);
  }
  is_followed_ = false;
  if (!from.empty() && !is_class) missing_[from].insert(name);
  return made_by(name, of, nullptr, arguments);
}

PythonRef PythonReader::made_by(const std::string& name, PythonObject* of, const PythonObject* type,
                                const std::vector<PythonArgument>& arguments) {
  PythonRef made = heap_.make(Kind::Object, name);
  made->of = of;
  made->is_given = !arguments.empty();
  const std::string last = last_of(name);
  made->is_class = type != nullptr || (!last.empty() && last[0] >= 'A' && last[0] <= 'Z');
  if (type != nullptr) made->module = type->module;
  int unnamed = 0;
  for (const PythonArgument& argument : arguments) {
    PythonEntry& entry = made->entries.emplace_back();
    entry.name = argument.name.empty() ? fmt::format("#{}", unnamed++) : argument.name;
    entry.value = argument.value;
    entry.line = line_;
    entry.place = place_;
  }
  return made;
}

void PythonReader::bind(PythonFrame& frame, const PythonLine& definition, const std::vector<PythonArgument>& arguments,
                        bool all_given) {
  std::vector<bool> taken(arguments.size(), false);
  std::size_t position = 0;
  const auto next_unnamed = [&]() -> PythonObject* {
    while (position < arguments.size() && !arguments[position].name.empty()) ++position;
    if (position >= arguments.size()) return nullptr;
    taken[position] = true;
    return arguments[position++].value;
  };
  for (const PythonParameter& parameter : definition.parameters) {
    if (parameter.name.starts_with("**")) {
      PythonRef more = heap_.make(Kind::Dict);
      more->is_open = !all_given;
      for (std::size_t i = 0; i < arguments.size(); ++i)
        if (!taken[i] && !arguments[i].name.empty()) set_key(*more, heap_.text(arguments[i].name), arguments[i].value);
      frame.names[parameter.name.substr(2)] = more;
      continue;
    }
    if (parameter.name.starts_with('*')) {
      PythonRef more = heap_.make(all_given ? Kind::Tuple : Kind::Unknown, parameter.name);
      while (PythonObject* value = next_unnamed()) more->items.push_back(value);
      frame.names[parameter.name.substr(1)] = more;
      continue;
    }
    PythonObject* value = nullptr;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name == parameter.name) {
        value = arguments[i].value;
        taken[i] = true;
      }
    if (value == nullptr && all_given) value = next_unnamed();
    if (value == nullptr && all_given && parameter.otherwise) {
      PythonFrame own;
      own.module = frame.module;
      own.outer = frame.outer;
      const auto* text = std::exchange(text_, nullptr);
      value = value_of(own, *parameter.otherwise);
      text_ = text;
    }
    if (value == nullptr) {
      value = heap_.unknown(parameter.name);
      value->is_lost = true;
    }
    frame.names[parameter.name] = value;
  }
}

// Where conditions are not known, what it returns is known where it is the same under all.
PythonRef PythonReader::result_of(PythonFrame& frame, Flow flow) {
  if (frame.returned.empty()) return heap_.none();
  if (frame.may_have_returned.empty()) return frame.returned.back();
  if (flow != Flow::Return) frame.returned.push_back(heap_.none());
  PythonRef first = frame.returned.front();
  const bool same = std::all_of(frame.returned.begin(), frame.returned.end(),
                                [&](PythonRef one) { return are_equal(*first, *one) == true; });
  if (same) return first;
  return heap_.unknown(fmt::format("{} if not ({}) else {}", shown_python(*first), frame.may_have_returned,
                                   shown_python(*frame.returned.back())));
}

PythonObject* PythonReader::call(PythonObject& function, const std::vector<PythonArgument>& arguments, bool all_given) {
  PythonModule& module = *function.module;
  parse_line(module.lines, function.statement);
  const PythonLine& definition = module.lines[function.statement];
  const std::pair<const PythonModule*, std::size_t> own(&module, function.statement);
  const bool again = std::find(active_.begin(), active_.end(), own) != active_.end();
  if (again || active_.size() >= kMaxCalls || definition.makes_a_sequence) {
    const std::string said = fmt::format("{}:{}: {} {}", module.file.place, definition.line, function.text,
                                         definition.makes_a_sequence ? "yields values one by one"
                                         : again                     ? "calls itself"
                                                                     : "is called too deep");
    if (listed_.insert(said).second) config_.ignored.push_back(said);
    return nullptr;
  }
  PythonFrame frame;
  frame.module = &module;
  frame.outer = function.closure;
  frame.scope = heap_.scope;
  const auto* text = text_;
  const auto* place = place_;
  const int line = line_;
  const std::size_t open = scopes_.size();
  active_.push_back(own);
  bind(frame, definition, arguments, all_given);
  const Flow flow = block(frame, function.statement + 1, definition.end);
  active_.pop_back();
  while (scopes_.size() > open) close_scope();
  text_ = text;
  place_ = place;
  line_ = line;
  if (place_ != nullptr) heap_.stand_at(*place_, line_);
  return result_of(frame, flow);
}

}  // namespace meshwright
