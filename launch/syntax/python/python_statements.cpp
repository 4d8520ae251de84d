// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/python/python_reader.h"

namespace meshwright {

namespace {

using LineKind = PythonLine::Kind;
using Tree = PythonExpression::Kind;
using Flow = PythonReader::Flow;

constexpr std::size_t kMaxListed = 200;  // statements that were left out

// What writes for people, and changes no value.
bool only_says(const PythonExpression& call) {
  if (call.kind != Tree::Call) return false;
  const PythonExpression& callee = call.parts[0];
  for (const char* name : {"print", "log", "debug", "info", "warn", "warning", "error", "exception", "critical"})
    if ((callee.kind == Tree::Name || callee.kind == Tree::Attribute) && callee.text == name) return true;
  return false;
}

}  // namespace

void PythonReader::open_scope(std::string condition) {
  scopes_.push_back({++scopes_made_, shortened(condition, 80)});
  heap_.scope = scopes_.back().id;
}

void PythonReader::close_scope() {
  scopes_.pop_back();
  heap_.scope = scopes_.empty() ? 0 : scopes_.back().id;
}

void PythonReader::ignore(const PythonFrame& frame, const PythonLine& line) {
  ++changes_;
  // Within a branch of an unknown condition the condition is listed.
  if (!scopes_.empty() && line.kind != LineKind::If && line.kind != LineKind::Elif && line.kind != LineKind::For &&
      line.kind != LineKind::While)
    return;
  std::string text = fmt::format("{}:{}: {}", frame.module->file.place, line.line, line.text.substr(0, 80));
  if (listed_.size() < kMaxListed && listed_.insert(text).second) config_.ignored.push_back(std::move(text));
}

void PythonReader::run_module(PythonModule& module) {
  if (module.is_run) return;
  module.is_run = true;
  // Whoever asks for it, and under which condition.
  const std::vector<Scope> scopes = std::exchange(scopes_, {});
  const std::size_t scope = std::exchange(heap_.scope, 0), listed = config_.ignored.size();
  const auto* text = text_;
  const auto* place = place_;
  const int line = line_;
  PythonFrame frame;
  frame.module = &module;
  frame.is_module = true;
  (void)block(frame, 0, module.lines.size());
  config_.ignored.resize(std::min(listed, config_.ignored.size()));
  text_ = text;
  place_ = place;
  line_ = line;
  scopes_ = scopes;
  heap_.scope = scope;
}

PythonObject* PythonReader::run_as_function(PythonModule& module, const std::string& root) {
  module.is_run = true;
  PythonFrame frame;
  frame.module = &module;
  frame.is_module = true;
  (void)block(frame, 0, module.lines.size());
  const auto found = module.globals.find(root);
  return found == module.globals.end() ? nullptr : found->second;
}

Flow PythonReader::block(PythonFrame& frame, std::size_t begin, std::size_t end) {
  Flow flow = Flow::Next;
  if (++depth_ > kMaxPythonNesting) {
    if (begin < end) ignore(frame, frame.module->lines[begin]);
  } else {
    for (std::size_t at = begin; at < end && flow == Flow::Next;) flow = statement(frame, at, end);
  }
  --depth_;
  return flow;
}

Flow PythonReader::statement(PythonFrame& frame, std::size_t& at, std::size_t end) {
  Lines& lines = frame.module->lines;
  parse_line(lines, at);
  PythonLine& line = lines[at];
  text_ = &line.text;
  place_ = &frame.module->file.place;
  line_ = line.line;
  heap_.stand_at(*place_, line_);
  heap_.count(1);
  const std::size_t begin = at + 1, behind = line.end;
  switch (line.kind) {
    case LineKind::If:
      return conditions(frame, at, end);
    case LineKind::For:
    case LineKind::While:
      return loop(frame, at, end);
    case LineKind::Try:
      return attempt(frame, at, end);
    case LineKind::With:
      at = behind;
      return block(frame, begin, behind);
    case LineKind::Function:
    case LineKind::Class:
      define(frame, at);
      at = behind;
      return Flow::Next;
    case LineKind::Elif:
    case LineKind::Else:
    case LineKind::Except:
    case LineKind::Finally:
    case LineKind::Other:
      ignore(frame, line);
      at = behind;
      return Flow::Next;
    default:
      at = begin;
      return simple(frame, begin - 1);
  }
}

Flow PythonReader::simple(PythonFrame& frame, std::size_t at) {
  const PythonLine& line = frame.module->lines[at];
  switch (line.kind) {
    case LineKind::Import:
      import(frame, line);
      return Flow::Next;
    case LineKind::Return:
      if (line.value) return give_back(frame, value_of(frame, *line.value));
      if (line.text != "return") return give_back(frame, heap_.unknown(line.text.substr(7)));
      return give_back(frame, heap_.none());
    case LineKind::Raise:
      return raise(frame, line);
    case LineKind::Assert: {
      const auto holds = line.value ? truth_of(*value_of(frame, *line.value)) : std::nullopt;
      return holds == false ? raise(frame, line) : Flow::Next;
    }
    case LineKind::Break:
      return scopes_.empty() ? Flow::Break : Flow::Next;
    case LineKind::Continue:
      return scopes_.empty() ? Flow::Continue : Flow::Next;
    case LineKind::Delete:
      if (line.value) remove(frame, *line.value);
      return Flow::Next;
    case LineKind::Call: {
      if (!line.value) {
        ignore(frame, line);
        return Flow::Next;
      }
      (void)value_of(frame, *line.value);
      // A call that is not followed may change what it is given.
      if (line.value->kind == Tree::Call && !is_followed_ && !only_says(*line.value)) ignore(frame, line);
      return Flow::Next;
    }
    case LineKind::Augment: {
      if (line.targets.size() != 1 || !line.value) {
        ignore(frame, line);
        return Flow::Next;
      }
      PythonRef before = value_of(frame, line.targets[0]), more = value_of(frame, *line.value);
      PythonObject* result = combined(heap_, *before, *more, line.sign);
      if (result == nullptr)
        result = heap_.unknown(fmt::format("{} {} {}", shown_python(*before), line.sign, shown_python(*more)));
      assign(frame, line.targets[0], result, line);
      return Flow::Next;
    }
    case LineKind::Assign: {
      if (line.targets.empty()) {
        ignore(frame, line);
        return Flow::Next;
      }
      PythonRef value = line.value
                            ? value_of(frame, *line.value)
                            : heap_.unknown(line.text.substr(std::min(line.text.find('=') + 2, line.text.size())));
      for (const PythonExpression& target : line.targets) assign(frame, target, value, line);
      return Flow::Next;
    }
    default:
      return Flow::Next;
  }
}

Flow PythonReader::give_back(PythonFrame& frame, PythonRef value) {
  frame.returned.push_back(value);
  if (heap_.scope != frame.scope && frame.may_have_returned.empty()) {
    frame.may_have_returned = "not (" + scopes_.back().condition + ")";
    ++changes_;
  }
  return Flow::Return;
}

Flow PythonReader::raise(const PythonFrame& frame, const PythonLine& line) {
  // Within a branch of an unknown condition it only says that the condition does not hold.
  if (!scopes_.empty()) return Flow::Return;
  const std::string name = line.kind == LineKind::Assert ? "AssertionError" : defined_name(line.text);
  throw PythonRaise(fmt::format("{}:{}: the configuration stops here: {}", frame.module->file.place, line.line,
                                shortened(line.text, 160)),
                    name);
}

bool PythonReader::only_raises(const PythonModule& module, std::size_t begin, std::size_t end) {
  std::size_t last = begin;
  for (std::size_t i = begin; i < end; ++i)
    if (module.lines[i].indent == module.lines[begin].indent) last = i;
  return last < end && module.lines[last].kind == LineKind::Raise;
}

Flow PythonReader::unknown_branch(PythonFrame& frame, const std::string& condition, std::size_t begin,
                                  std::size_t end) {
  const std::size_t open = scopes_.size();
  const bool before = frame.may_have_returned.empty();
  open_scope(condition);
  const Flow flow = block(frame, begin, end);
  while (scopes_.size() > open) close_scope();
  // What stands behind it may not be reached, up to the end of the function.
  if (before && !frame.may_have_returned.empty()) open_scope(frame.may_have_returned);
  return flow;
}

// if, elif, else. A configuration that raises is none, so that an unknown condition under which it does is taken not to
// hold.
Flow PythonReader::conditions(PythonFrame& frame, std::size_t& at, std::size_t end) {
  Lines& lines = frame.module->lines;
  const int indent = lines[at].indent;
  const std::size_t first = at, changes = changes_;
  std::string before;  // unknown conditions of earlier branches
  bool all_return = true, decided = false, is_unknown = false;
  while (at < end) {
    parse_line(lines, at);
    PythonLine& line = lines[at];
    const bool is_else = line.kind == LineKind::Else;
    if (at != first && (line.indent != indent || (line.kind != LineKind::Elif && !is_else))) break;
    const std::size_t begin = at + 1;
    at = line.end;
    if (decided) continue;
    text_ = &line.text;
    line_ = line.line;
    const auto known = [&]() -> std::optional<bool> {
      if (is_else) return true;
      const std::optional<bool> holds = line.value ? truth_of(*value_of(frame, *line.value)) : std::nullopt;
      return !holds && only_raises(*frame.module, begin, line.end) ? std::optional(false) : holds;
    };
    const std::optional<bool> holds = known();
    if (holds == false) continue;
    std::string condition = line.text.substr(is_else ? 0 : line.text.find(' ') + 1);
    if (condition.ends_with(':')) condition.pop_back();
    if (holds == true) {
      decided = true;
      if (before.empty()) {
        const Flow flow = block(frame, begin, line.end);
        const auto follows = [&] { return lines[at].kind == LineKind::Elif || lines[at].kind == LineKind::Else; };
        while (at < end && lines[at].indent == indent && follows()) at = lines[at].end;
        return flow;
      }
      condition = "not (" + before + ")";
    }
    if (holds == true && only_raises(*frame.module, begin, line.end)) continue;
    is_unknown = true;
    all_return = unknown_branch(frame, condition, begin, line.end) == Flow::Return && all_return;
    if (!holds) before += (before.empty() ? "" : " or ") + condition;
  }
  if (!is_unknown) return Flow::Next;
  if (changes_ != changes) ignore(frame, lines[first]);
  return decided && all_return ? Flow::Return : Flow::Next;
}

Flow PythonReader::loop(PythonFrame& frame, std::size_t& at, std::size_t end) {
  Lines& lines = frame.module->lines;
  PythonLine& line = lines[at];
  const std::size_t begin = at + 1, behind = line.end, changes = changes_;
  const bool is_for = line.kind == LineKind::For;
  at = behind;
  bool broken = false;
  std::optional<std::vector<PythonRef>> items;
  if (is_for && line.value && line.targets.size() == 1) items = items_of(*value_of(frame, *line.value));
  const auto condition = [&]() -> std::optional<bool> {
    text_ = &line.text;
    line_ = line.line;
    return line.value ? truth_of(*value_of(frame, *line.value)) : std::nullopt;
  };
  bool unread = is_for ? !items.has_value() : false;
  for (std::size_t turn = 0; !unread && !broken; ++turn) {
    if (is_for) {
      if (turn >= items->size()) break;
      assign(frame, line.targets[0], (*items)[turn], line);
    } else {
      const auto holds = condition();
      unread = !holds.has_value();
      if (holds != true) break;
    }
    heap_.count(1);
    const Flow flow = block(frame, begin, behind);
    if (flow == Flow::Return) return flow;
    broken = flow == Flow::Break;
  }
  if (unread) {
    std::string header = line.text;
    if (header.ends_with(':')) header.pop_back();
    for (const PythonExpression& target : line.targets)
      if (is_for && target.kind == Tree::Name) frame.names[target.text] = heap_.unknown(target.text);
    (void)unknown_branch(frame, header, begin, behind);
    if (changes_ != changes) ignore(frame, line);
  }
  if (at < end && lines[at].kind == LineKind::Else && lines[at].indent == line.indent) {
    const std::size_t body = at + 1, after = lines[at].end;
    at = after;
    if (!broken) return block(frame, body, after);
  }
  return Flow::Next;
}

// try, except, else, finally: the first handler that names what is raised, or any.
Flow PythonReader::attempt(PythonFrame& frame, std::size_t& at, std::size_t end) {
  Lines& lines = frame.module->lines;
  const int indent = lines[at].indent;
  const std::size_t open = scopes_.size(), active = active_.size();
  const int depth = depth_;
  Flow flow = Flow::Next;
  std::optional<std::string> raised;
  std::string what;
  try {
    flow = block(frame, at + 1, lines[at].end);
  } catch (const PythonRaise& error) {
    raised = error.name;
    what = error.what();
    depth_ = depth;
    active_.resize(active);
    while (scopes_.size() > open) close_scope();
  }
  bool handled = !raised;
  for (at = lines[at].end; at < end && lines[at].indent == indent; at = lines[at].end) {
    const PythonLine& line = lines[at];
    const bool handles = line.kind == LineKind::Except, otherwise = line.kind == LineKind::Else,
               last = line.kind == LineKind::Finally;
    if (!handles && !otherwise && !last) break;
    const bool names = line.text == "except:" || line.text.find("Exception") != std::string::npos ||
                       (raised && line.text.find(*raised) != std::string::npos);
    const std::size_t begin = at + 1, behind = line.end;
    if (handles && !handled && names) {
      handled = true;
      flow = block(frame, begin, behind);
    } else if (otherwise && !raised && flow == Flow::Next) {
      flow = block(frame, begin, behind);
    } else if (last) {
      const Flow own = block(frame, begin, behind);
      if (own != Flow::Next) flow = own;
    }
  }
  if (!handled) throw PythonRaise(what, *raised);
  return flow;
}

void PythonReader::import(PythonFrame& frame, const PythonLine& line) {
  for (PythonImport& one : imports_of(line.text)) {
    if (one.name == "*") {
      frame.module->all_of.push_back(std::move(one));
      continue;
    }
    PythonRef made = heap_.make(PythonObject::Kind::Import, one.name.empty() ? one.alias : one.name);
    made->module = frame.module;
    made->names = {one.module, one.name};
    made->dots = one.dots;
    (frame.is_module ? frame.module->globals : frame.names)[one.alias] = made;
  }
}

void PythonReader::define(PythonFrame& frame, std::size_t at) {
  Lines& lines = frame.module->lines;
  const bool is_function = lines[at].kind == LineKind::Function;
  PythonRef made =
      heap_.make(is_function ? PythonObject::Kind::Function : PythonObject::Kind::Class, defined_name(lines[at].text));
  made->module = frame.module;
  made->statement = at;
  if (!frame.is_module) made->closure = std::make_shared<PythonFrame>(frame);
  (frame.is_module ? frame.module->globals : frame.names)[made->text] = made;
  // Decorators of functions that are followed, from the nearest on; others are taken to leave it as it is.
  for (std::size_t i = at; is_function && i > 0 && lines[i - 1].kind == LineKind::Decorator; --i) {
    parse_line(lines, i - 1);
    if (!lines[i - 1].value || lines[i - 1].value->kind == Tree::Call) continue;
    PythonRef decorator = value_of(frame, *lines[i - 1].value);
    if (decorator->kind != PythonObject::Kind::Function) continue;
    PythonObject* result = call(*decorator, {{"", made}}, true);
    if (result != nullptr && result->kind == PythonObject::Kind::Function)
      (frame.is_module ? frame.module->globals : frame.names)[made->text] = result;
  }
}

// --- what is set ---

PythonRef PythonReader::written(PythonObject* before, PythonRef value, std::size_t scope) {
  if (scope == heap_.scope || scopes_.empty()) return value;
  if (before != nullptr && are_equal(*before, *value) == true) return before;
  ++changes_;
  const std::string otherwise =
      before == nullptr || before->is_part ? "" : fmt::format(" else {}", shown_python(*before));
  return heap_.unknown(fmt::format("{} if {}{}", shown_python(*value), scopes_.back().condition, otherwise));
}

void PythonReader::set_member(PythonObject& of, const std::string& name, PythonRef value) {
  PythonEntry* held = of.find(name);
  PythonRef now = written(held == nullptr ? nullptr : held->value, value, of.scope);
  if (held == nullptr) {
    heap_.count(of.entries.size() / 16);
    held = &of.entries.emplace_back();
    held->name = name;
  }
  held->value = now;
  held->line = line_;
  held->place = place_;
}

void PythonReader::assign_name(PythonFrame& frame, const std::string& name, PythonRef value) {
  std::map<std::string, PythonRef>& names = frame.is_module ? frame.module->globals : frame.names;
  const auto held = names.find(name);
  names[name] = written(held == names.end() ? nullptr : held->second, value, frame.scope);
}

void PythonReader::assign_item(PythonFrame& frame, const PythonExpression& target, PythonRef value,
                               const PythonLine& line) {
  PythonRef of = value_of(frame, target.parts[0]);
  PythonRef key = value_of(frame, target.parts[1]);
  if (of->kind == PythonObject::Kind::Dict) {
    if (!is_known(*key)) {
      of->is_open = true;
      return ignore(frame, line);
    }
    return set_key(*of, key, value);
  }
  const bool counts = of->kind == PythonObject::Kind::List && key->kind == PythonObject::Kind::Whole;
  const std::int64_t size = static_cast<std::int64_t>(of->items.size());
  const std::int64_t which = counts && key->whole < 0 ? key->whole + size : key->whole;
  if (!counts || which < 0 || which >= size) return ignore(frame, line);
  PythonRef& held = of->items[static_cast<std::size_t>(which)];
  held = written(held, value, of->scope);
}

void PythonReader::assign(PythonFrame& frame, const PythonExpression& target, PythonRef value, const PythonLine& line) {
  switch (target.kind) {
    case Tree::Name:
      return assign_name(frame, target.text, value);
    case Tree::Attribute: {
      PythonRef of = value_of(frame, target.parts[0]);
      const bool takes = of->kind == PythonObject::Kind::Object || of->kind == PythonObject::Kind::Unknown;
      // A name that nothing says what it is: what it is given is lost.
      if (!takes || (of->kind == PythonObject::Kind::Unknown && of->is_lost)) return ignore(frame, line);
      return set_member(*of, target.text, value);
    }
    case Tree::Subscript:
      return assign_item(frame, target, value, line);
    case Tree::Tuple:
    case Tree::List: {
      const bool listed = value->kind == PythonObject::Kind::Tuple || value->kind == PythonObject::Kind::List;
      const bool fits = listed && value->items.size() == target.parts.size();
      if (!fits) ignore(frame, line);
      for (std::size_t i = 0; i < target.parts.size(); ++i) {
        if (!fits && target.parts[i].kind != Tree::Name) continue;
        assign(frame, target.parts[i], fits ? value->items[i] : heap_.unknown(target.parts[i].text), line);
      }
      return;
    }
    default:
      ignore(frame, line);
  }
}

void PythonReader::remove(PythonFrame& frame, const PythonExpression& target) {
  if (target.kind == Tree::Name) {
    frame.names.erase(target.text);
  } else if (target.kind == Tree::Attribute) {
    PythonRef of = value_of(frame, target.parts[0]);
    const auto named = [&](const PythonEntry& entry) { return entry.name == target.text; };
    if (scopes_.empty()) std::erase_if(of->entries, named);
  } else if (target.kind == Tree::Subscript) {
    PythonRef of = value_of(frame, target.parts[0]);
    PythonRef key = value_of(frame, target.parts[1]);
    if (const PythonEntry* held = find_key(*of, *key); held != nullptr && scopes_.empty())
      of->entries.erase(of->entries.begin() + (held - of->entries.data()));
  }
}

}  // namespace meshwright
