// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/text.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python/python_reader.h"

namespace meshwright {

namespace {

using Tree = PythonExpression::Kind;
using Kind = PythonObject::Kind;

constexpr int kMaxBases = 12;

}  // namespace

std::string PythonReader::source_of(const PythonExpression& tree) const {
  if (text_ == nullptr || tree.end > text_->size() || tree.begin >= tree.end) return tree.text;
  return text_->substr(tree.begin, tree.end - tree.begin);
}

PythonRef PythonReader::unknown(const PythonFrame& frame, const PythonExpression& tree) {
  (void)frame;
  return heap_.unknown(source_of(tree));
}

PythonRef PythonReader::value_of(PythonFrame& frame, const PythonExpression& tree) {
  heap_.count(1);
  struct Depth {
    int& depth;
    explicit Depth(int& of) : depth(of) { ++depth; }
    ~Depth() { --depth; }
  } const here(depth_);
  if (depth_ > kMaxPythonNesting) return unknown(frame, tree);
  switch (tree.kind) {
    case Tree::Number: {
      const bool whole = tree.text.find_first_of(".eEjJ") == std::string::npos;
      const auto number = whole ? whole_number(tree.text) : std::nullopt;
      const auto real = whole ? std::nullopt : real_number(tree.text);
      if (!number && !real) return unknown(frame, tree);
      PythonRef made = heap_.make(number ? Kind::Whole : Kind::Real, tree.text);
      made->whole = number.value_or(0);
      made->real = real.value_or(0.0);
      return made;
    }
    case Tree::Text:
      return heap_.text(tree.text);
    case Tree::Format:
      return filled_text(frame, tree);
    case Tree::Name:
      return name_of(frame, tree);
    case Tree::Attribute:
      return attribute(frame, tree);
    case Tree::Call:
      return call_of(frame, tree);
    case Tree::Subscript:
      return subscript(frame, tree);
    case Tree::List:
    case Tree::Set:
    case Tree::Tuple: {
      PythonRef made = heap_.make(tree.kind == Tree::Tuple ? Kind::Tuple : Kind::List);
      for (const PythonExpression& part : tree.parts) {
        if (part.kind != Tree::Starred) {
          made->items.push_back(value_of(frame, part));
          continue;
        }
        const auto more = items_of(*value_of(frame, part.parts[0]));
        if (!more) return unknown(frame, tree);
        made->items.insert(made->items.end(), more->begin(), more->end());
      }
      return made;
    }
    case Tree::Dict:
      return dictionary(frame, tree);
    case Tree::Unary:
    case Tree::Binary:
      return operation(frame, tree);
    case Tree::Compare:
      return comparison(frame, tree);
    case Tree::Choice: {
      const auto holds = truth_of(*value_of(frame, tree.parts[1]));
      if (holds) return value_of(frame, tree.parts[*holds ? 0 : 2]);
      PythonRef one = value_of(frame, tree.parts[0]), other = value_of(frame, tree.parts[2]);
      return are_equal(*one, *other) == true ? one : unknown(frame, tree);
    }
    case Tree::Comprehension:
      return comprehension(frame, tree);
    default:
      return unknown(frame, tree);
  }
}

// --- names ---

PythonRef PythonReader::name_of(PythonFrame& frame, const PythonExpression& tree) {
  const std::string& name = tree.text;
  const auto held = [&](PythonRef& value) {
    if (value->kind == Kind::Import) value = resolved(*value);
    return value;
  };
  for (PythonFrame* at = &frame; at != nullptr; at = at->outer.get())
    if (const auto found = at->names.find(name); found != at->names.end()) return held(found->second);
  if (PythonObject* found = lookup(*frame.module, name)) return found;
  if (name == "None") return heap_.none();
  if (name == "True" || name == "False") return heap_.truth(name == "True");
  if (name == "TYPE_CHECKING") return heap_.truth(false);
  if (name == "__name__") return heap_.text("configuration");
  PythonRef made = heap_.unknown(name);
  made->is_lost = true;
  return made;
}

PythonObject* PythonReader::lookup(PythonModule& module, const std::string& name) {
  run_module(module);
  if (const auto found = module.globals.find(name); found != module.globals.end()) {
    PythonRef value = found->second;
    if (value->kind != Kind::Import) return value;
    PythonRef meant = resolved(*value);
    module.globals[name] = meant;
    return meant;
  }
  if (depth_ > kMaxPythonNesting) return nullptr;
  ++depth_;
  PythonObject* found = nullptr;
  for (std::size_t i = 0; i < module.all_of.size() && found == nullptr; ++i) {
    PythonModule* from = modules_.find(module, module.all_of[i].dots, module.all_of[i].module);
    if (from != nullptr && from != &module) found = lookup(*from, name);
  }
  --depth_;
  return found;
}

// A name of another module. Names that stand for one another in a circle stand for nothing.
PythonRef PythonReader::resolved(PythonObject& import) {
  const std::string &module = import.names[0], &name = import.names[1];
  PythonRef unknown = heap_.unknown(import.text);
  if (import.is_looked_up || depth_ > kMaxPythonNesting) {
    const std::string said = fmt::format("{}: imports '{}' in a circle", import.module->file.place, import.text);
    if (listed_.insert(said).second) config_.ignored.push_back(said);
    return unknown;
  }
  import.is_looked_up = true;
  ++depth_;
  const auto as_module = [&](PythonModule* found, const std::string& dotted) {
    PythonRef made = heap_.make(Kind::Module, import.text);
    made->module = found;
    made->of = &import;
    made->names = {dotted};
    return made;
  };
  PythonModule* found = modules_.find(*import.module, import.dots, module);
  PythonObject* value = nullptr;
  if (name.empty()) {
    value = as_module(found, module);
  } else {
    if (found != nullptr && found != import.module) value = lookup(*found, name);
    const std::string within = module.empty() ? name : module + "." + name;
    if (value == nullptr)
      if (PythonModule* inner = modules_.find(*import.module, import.dots, within)) value = as_module(inner, within);
    if (value == nullptr) {
      value = unknown;
      value->names = {std::string(static_cast<std::size_t>(import.dots), '.') + module};
    }
  }
  --depth_;
  import.is_looked_up = false;
  return value;
}

// --- members ---

PythonRef PythonReader::attribute(PythonFrame& frame, const PythonExpression& tree) {
  PythonRef of = value_of(frame, tree.parts[0]);
  if (PythonObject* found = member_of(frame, *of, tree.text, source_of(tree))) return found;
  return unknown(frame, tree);
}

PythonRef PythonReader::from_config(const ConfigValue& value) {
  if (value.kind == ConfigValue::Kind::Null) return heap_.none();
  if (value.quoted) return heap_.text(value.text);
  if (value.text == "True" || value.text == "False") return heap_.truth(value.text == "True");
  if (const auto number = whole_number(value.text)) return heap_.whole(*number);
  return heap_.unknown(value.text);
}

PythonObject* PythonReader::known_member(const PythonObject& of, const std::string& name) {
  if (!around_.known || of.kind != Kind::Object) return nullptr;
  std::string whose = of.text;
  for (const PythonObject* at = &of; at != nullptr && at->kind == Kind::Object; at = at->of)
    for (const PythonEntry& entry : at->entries)
      if (entry.name == "#0" && entry.value->kind == Kind::Text) whose = entry.value->text;
  const auto known = around_.known(whose, name);
  return known ? from_config(*known) : nullptr;
}

PythonObject* PythonReader::member_of(PythonFrame& frame, PythonObject& of, const std::string& name,
                                      const std::string& shown) {
  switch (of.kind) {
    case Kind::Module: {
      PythonModule& importer = *of.of->module;
      PythonObject* found = of.module == nullptr ? nullptr : lookup(*of.module, name);
      const std::string within = of.names[0].empty() ? name : of.names[0] + "." + name;
      if (found != nullptr) return found;
      PythonModule* inner = modules_.find(importer, of.of->dots, within);
      PythonRef made = heap_.make(inner == nullptr ? Kind::Unknown : Kind::Module, of.text + "." + name);
      made->module = inner;
      made->of = of.of;
      made->names = {within};
      if (inner == nullptr) {
        made->of = nullptr;
        made->names.clear();
      }
      return made;
    }
    case Kind::Function:
      return name == "__name__" ? heap_.text(of.text) : nullptr;
    case Kind::Class: {
      if (name == "__name__") return heap_.text(of.text);
      bool is_open = false;
      // Members of an enumeration are names, not their values.
      const PythonLine& line = of.module->lines[of.statement];
      PythonObject* found = line.text.find('(') == std::string::npos ? default_of(of, name, is_open, 0) : nullptr;
      return found != nullptr ? found : heap_.unknown(of.text + "." + name);
    }
    case Kind::Object:
    case Kind::Unknown: {
      if (PythonEntry* held = of.find(name)) return held->value;
      bool is_open = false;
      PythonObject* type = of.kind == Kind::Object && of.module != nullptr ? lookup(*of.module, of.text) : nullptr;
      PythonObject* value = nullptr;
      if (type != nullptr && type->kind == Kind::Class) value = default_of(*type, name, is_open, 0);
      if (value == nullptr) value = known_member(of, name);
      const bool changes =
          value != nullptr && (value->kind == Kind::Object || value->kind == Kind::List || value->kind == Kind::Dict);
      if (value != nullptr && !changes) return value;
      if (value == nullptr) {
        const bool plain = of.kind == Kind::Unknown && !of.text.empty() && !of.is_part;
        value = heap_.unknown(plain ? of.text + "." + name : shown);
        value->is_part = true;
        value->is_lost = of.is_lost;
        value->of = &of;
      }
      value->scope = of.scope;
      PythonEntry& entry = of.entries.emplace_back();
      entry.name = name;
      entry.value = value;
      entry.line = line_;
      entry.place = place_;
      return value;
    }
    default: {
      PythonRef made = heap_.make(Kind::Method, name);
      made->of = &of;
      (void)frame;
      return made;
    }
  }
}

PythonObject* PythonReader::default_of(PythonObject& type, const std::string& name, bool& is_open, int depth) {
  PythonModule& module = *type.module;
  parse_line(module.lines, type.statement);
  const PythonLine& header = module.lines[type.statement];
  if (depth > kMaxBases) {
    is_open = true;
    return nullptr;
  }
  const auto* text = text_;
  PythonFrame own;
  own.module = &module;
  PythonObject* found = nullptr;
  for (std::size_t i = type.statement + 1; i < header.end; i = std::max(i + 1, module.lines[i].end)) {
    const PythonLine& line = module.lines[i];
    const bool sets =
        line.kind == PythonLine::Kind::Function && defined_name(line.text).find("init__") != std::string::npos;
    // What it makes of its members as it is made.
    if (sets || (line.kind == PythonLine::Kind::Function && defined_name(line.text) == name)) is_open = true;
    if (line.kind != PythonLine::Kind::Assign || !line.text.starts_with(name)) continue;
    parse_line(module.lines, i);
    if (line.targets.size() != 1 || line.targets[0].kind != Tree::Name || line.targets[0].text != name || !line.value)
      continue;
    const PythonExpression* value = &*line.value;
    text_ = &line.text;
    if (value->kind == Tree::Call && value->parts[0].text == "field") {
      const PythonExpression* given = nullptr;
      bool made = false;
      for (std::size_t a = 0; a < value->names.size(); ++a)
        if (value->names[a] == "default" || value->names[a] == "default_factory") {
          given = &value->parts[a + 1];
          made = value->names[a] == "default_factory";
        }
      if (given == nullptr) {
        is_open = true;
      } else if (!made) {
        found = value_of(own, *given);
      } else if (PythonRef maker = value_of(own, *given); maker->kind == Kind::Class) {
        found = heap_.make(Kind::Object, maker->text);
        found->module = maker->module;
        found->is_class = true;
      } else if (maker->text == "list" || maker->text == "dict") {
        found = heap_.make(maker->text == "list" ? Kind::List : Kind::Dict);
      } else {
        is_open = true;
      }
    } else {
      found = value_of(own, *value);
    }
  }
  text_ = text;
  if (found != nullptr || is_open) return is_open ? nullptr : found;
  if (!header.value || header.value->kind != Tree::Call) return nullptr;
  for (std::size_t i = 1; i < header.value->parts.size() && found == nullptr; ++i) {
    if (!header.value->names[i - 1].empty()) continue;
    PythonRef base = value_of(own, header.value->parts[i]);
    if (base->kind == Kind::Class)
      found = default_of(*base, name, is_open, depth + 1);
    else
      is_open = true;
    if (is_open) return nullptr;
  }
  return found;
}

PythonRef PythonReader::subscript(PythonFrame& frame, const PythonExpression& tree) {
  PythonRef of = value_of(frame, tree.parts[0]);
  PythonRef which = value_of(frame, tree.parts[1]);
  if (of->kind == Kind::Dict) {
    const PythonEntry* held = find_key(*of, *which);
    return held != nullptr && is_known(*which) ? held->value : unknown(frame, tree);
  }
  const std::int64_t size = static_cast<std::int64_t>(of->kind == Kind::Text ? of->text.size() : of->items.size());
  if ((which->kind != Kind::Whole && which->kind != Kind::Bool) ||
      (of->kind != Kind::List && of->kind != Kind::Tuple && of->kind != Kind::Text))
    return unknown(frame, tree);
  const std::int64_t at = which->whole < 0 ? which->whole + size : which->whole;
  if (at < 0 || at >= size) return unknown(frame, tree);
  const auto place = static_cast<std::size_t>(at);
  return of->kind == Kind::Text ? heap_.text(of->text.substr(place, 1)) : of->items[place];
}

// --- operators ---

PythonRef PythonReader::operation(PythonFrame& frame, const PythonExpression& tree) {
  PythonRef left = value_of(frame, tree.parts[0]);
  if (tree.kind == Tree::Unary) {
    if (tree.text == "not") {
      const auto holds = truth_of(*left);
      return holds ? heap_.truth(!*holds) : unknown(frame, tree);
    }
    const bool minus = tree.text == "-";
    if (left->kind == Kind::Whole && tree.text != "~") {
      PythonRef made = heap_.make(Kind::Whole, (minus ? "-" : "") + left->text);
      made->whole = minus ? -left->whole : left->whole;
      return made;
    }
    if (left->kind == Kind::Real && tree.text != "~") {
      PythonRef made = heap_.make(Kind::Real, (minus ? "-" : "") + left->text);
      made->real = minus ? -left->real : left->real;
      return made;
    }
    return unknown(frame, tree);
  }
  if (tree.text == "and" || tree.text == "or") {
    const bool ends = tree.text == "or";  // which truth of the left decides
    const auto holds = truth_of(*left);
    if (holds) return *holds == ends ? left : value_of(frame, tree.parts[1]);
    PythonRef right = value_of(frame, tree.parts[1]);
    // Whatever the left is, the whole is as true as the right.
    return truth_of(*right) == ends ? heap_.truth(ends) : unknown(frame, tree);
  }
  PythonRef right = value_of(frame, tree.parts[1]);
  PythonObject* result = combined(heap_, *left, *right, tree.text);
  return result == nullptr ? unknown(frame, tree) : result;
}

PythonRef PythonReader::comparison(PythonFrame& frame, const PythonExpression& tree) {
  bool known = true;
  PythonRef left = value_of(frame, tree.parts[0]);
  for (std::size_t i = 0; i < tree.names.size(); ++i) {
    PythonRef right = value_of(frame, tree.parts[i + 1]);
    const std::string& sign = tree.names[i];
    std::optional<bool> holds;
    if (sign == "==" || sign == "!=") {
      holds = are_equal(*left, *right);
    } else if (sign == "is" || sign == "is not") {
      const bool to_none = right->kind == Kind::None || left->kind == Kind::None;
      const bool plain = right->kind == Kind::Bool && left->kind == Kind::Bool;
      if (to_none)
        holds = is_none(right->kind == Kind::None ? *left : *right);
      else if (plain)
        holds = left->whole == right->whole;
      else if (left == right && left->kind != Kind::Unknown)
        holds = true;
    } else if (sign == "in" || sign == "not in") {
      holds = is_in(*left, *right);
    } else {
      holds = compares(*left, *right, sign);
    }
    if (holds && (sign == "!=" || sign == "is not" || sign == "not in")) holds = !*holds;
    if (holds == false) return heap_.truth(false);
    known = known && holds.has_value();
    left = right;
  }
  return known ? heap_.truth(true) : unknown(frame, tree);
}

PythonRef PythonReader::dictionary(PythonFrame& frame, const PythonExpression& tree) {
  PythonRef made = heap_.make(Kind::Dict);
  int unnamed = 0;
  for (std::size_t i = 0; i + 1 < tree.parts.size(); i += 2) {
    PythonRef value = value_of(frame, tree.parts[i + 1]);
    if (tree.parts[i].kind != Tree::Starred) {
      PythonRef key = value_of(frame, tree.parts[i]);
      set_key(*made, key, value);
      made->is_open = made->is_open || !is_known(*key);
      continue;
    }
    if (value->kind == Kind::Dict) {
      for (const PythonEntry& entry : std::vector<PythonEntry>(value->entries)) {
        if (entry.key != nullptr)
          set_key(*made, entry.key, entry.value);
        else
          made->entries.push_back(entry);
      }
      made->is_open = made->is_open || value->is_open;
      continue;
    }
    made->is_open = true;
    PythonEntry& entry = made->entries.emplace_back();
    entry.name = fmt::format("#{}", unnamed++);
    entry.value = value;
  }
  return made;
}

PythonRef PythonReader::filled_text(PythonFrame& frame, const PythonExpression& tree) {
  std::string text;
  for (std::size_t i = 0; i < tree.parts.size(); ++i) {
    const auto part = str_of(*value_of(frame, tree.parts[i]));
    if (!part || tree.names[i] == "!") return unknown(frame, tree);
    text += *part;
    constexpr std::size_t kMaxText = 100'000;
    if (text.size() > kMaxText) return unknown(frame, tree);
  }
  return heap_.text(std::move(text));
}

// false: a clause is not known.
bool PythonReader::comprehend(PythonFrame& frame, const PythonExpression& tree, std::size_t clause,
                              PythonObject& into) {
  if (clause >= tree.parts.size()) {
    PythonRef made = value_of(frame, tree.parts[0]);
    if (into.kind == Kind::Dict)
      set_key(into, made, value_of(frame, tree.parts[1]));
    else if (tree.text != "{" || is_in(*made, into) != true)
      into.items.push_back(made);
    return true;
  }
  if (tree.names[clause] == "if") {
    const auto holds = truth_of(*value_of(frame, tree.parts[clause]));
    return holds && (!*holds || comprehend(frame, tree, clause + 1, into));
  }
  const auto items = items_of(*value_of(frame, tree.parts[clause + 1]));
  if (!items) return false;
  static const PythonLine kNone;
  for (PythonRef item : *items) {
    heap_.count(1);
    assign(frame, tree.parts[clause], item, kNone);
    if (!comprehend(frame, tree, clause + 2, into)) return false;
  }
  return true;
}

PythonRef PythonReader::comprehension(PythonFrame& frame, const PythonExpression& tree) {
  PythonRef made = heap_.make(tree.text == "{:" ? Kind::Dict : Kind::List);
  const std::size_t first = tree.text == "{:" ? 2 : 1;
  // Its names are its own.
  PythonFrame own = frame;
  own.scope = heap_.scope;
  own.is_module = false;
  if (!comprehend(own, tree, first, *made)) return unknown(frame, tree);
  return made;
}

}  // namespace meshwright
