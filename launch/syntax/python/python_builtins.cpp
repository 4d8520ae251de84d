// SPDX-License-Identifier: Apache-2.0
// Functions and methods that every Python has, as far as configurations call them.
#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python/python_reader.h"

namespace meshwright {

namespace {

using Kind = PythonObject::Kind;

constexpr std::int64_t kMaxRange = 100'000;

bool is_plain(const PythonObject& value) {
  return value.kind != Kind::Unknown && value.kind != Kind::Object && value.kind != Kind::Import &&
         value.kind != Kind::Module && value.kind != Kind::Class && value.kind != Kind::Function;
}
bool holds_members(const PythonObject& value) { return value.kind == Kind::Object || value.kind == Kind::Unknown; }

const PythonArgument* named(const std::vector<PythonArgument>& arguments, const std::string& name) {
  for (const PythonArgument& one : arguments)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace

std::optional<std::vector<PythonRef>> PythonReader::items_of(const PythonObject& value) {
  std::vector<PythonRef> items;
  if (value.kind == Kind::List || value.kind == Kind::Tuple) {
    items = value.items;
  } else if (value.kind == Kind::Dict && !value.is_open) {
    for (const PythonEntry& entry : value.entries) items.push_back(entry.key);
  } else if (value.kind == Kind::Text) {
    for (const char c : value.text) items.push_back(heap_.text(std::string(1, c)));
  } else {
    return std::nullopt;
  }
  heap_.count(items.size());
  return items;
}

PythonEntry* PythonReader::find_key(PythonObject& dict, const PythonObject& key) {
  heap_.count(dict.entries.size() / 8);
  for (PythonEntry& entry : dict.entries)
    if (entry.key != nullptr && are_equal(*entry.key, key) == true) return &entry;
  return nullptr;
}

void PythonReader::set_key(PythonObject& dict, PythonRef key, PythonRef value) {
  PythonEntry* held = find_key(dict, *key);
  PythonRef now = written(held == nullptr ? nullptr : held->value, value, dict.scope);
  if (held == nullptr) held = &dict.entries.emplace_back();
  held->key = key;
  held->value = now;
  held->line = line_;
  held->place = place_;
}

bool PythonReader::may_change(PythonObject& of) {
  if (scopes_.empty() || of.scope == heap_.scope) return true;
  ++changes_;
  of.text = shortened(fmt::format("{} or what it is if {}", shown_python(of), scopes_.back().condition), 200);
  of.kind = Kind::Unknown;
  return false;
}

std::optional<bool> PythonReader::is_instance(const PythonObject& value, PythonObject& type) {
  if (is_sequence(type)) {
    bool known = true;
    for (PythonRef one : type.items) {
      const auto is = is_instance(value, *one);
      if (is == true) return true;
      known = known && is.has_value();
    }
    return known ? std::optional(false) : std::nullopt;
  }
  static const std::map<std::string, std::vector<Kind>> kinds = {
      {"str", {Kind::Text}},  {"int", {Kind::Whole, Kind::Bool}}, {"bool", {Kind::Bool}}, {"float", {Kind::Real}},
      {"list", {Kind::List}}, {"tuple", {Kind::Tuple}},           {"dict", {Kind::Dict}}, {"set", {Kind::List}}};
  if (value.kind == Kind::Unknown || value.kind == Kind::Import) return std::nullopt;
  const auto known = kinds.find(type.text);
  if (known != kinds.end() && value.kind != Kind::Object)
    return std::find(known->second.begin(), known->second.end(), value.kind) != known->second.end();
  if (is_plain(value)) return false;
  if (value.kind != Kind::Object || !value.is_class) return std::nullopt;
  if (known != kinds.end()) return false;
  const auto last = [](const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); };
  return last(value.text) == last(type.text) ? std::optional(true) : std::nullopt;
}

PythonRef PythonReader::copy_of(PythonObject& value, bool deep, std::map<const PythonObject*, PythonRef>& made) {
  if (is_plain(value) && !is_sequence(value) && value.kind != Kind::Dict) return &value;
  if (value.kind == Kind::Function || value.kind == Kind::Class || value.kind == Kind::Module) return &value;
  if (const auto known = made.find(&value); known != made.end()) return known->second;
  PythonRef copy = heap_.make(value.kind);
  const std::size_t scope = copy->scope;
  *copy = value;
  copy->scope = scope;
  made[&value] = copy;
  for (PythonEntry& entry : copy->entries) {
    const bool is_part = entry.value->is_part && entry.value->of == &value;
    if (deep || is_part) entry.value = copy_of(*entry.value, deep, made);
    if (is_part) entry.value->of = copy;
  }
  if (deep)
    for (PythonRef& item : copy->items) item = copy_of(*item, deep, made);
  return copy;
}

PythonObject* PythonReader::builtin(PythonFrame& frame, const std::string& name,
                                    const std::vector<PythonArgument>& arguments) {
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* one) { return name == one; });
  };
  if (name == "print") return heap_.none();
  if (is_one_of({"getattr", "hasattr", "setattr", "isinstance", "replace", "dataclasses.replace", "copy.deepcopy",
                 "deepcopy", "copy.copy"}))
    return on_members(frame, name, arguments);
  if (is_one_of({"int", "float", "str", "bool", "abs", "round", "divmod"})) return converted(name, arguments);
  return on_sequences(name, arguments);
}

PythonObject* PythonReader::on_members(PythonFrame& frame, const std::string& name,
                                       const std::vector<PythonArgument>& arguments) {
  if (arguments.empty()) return nullptr;
  PythonRef of = arguments[0].value;
  if (name == "isinstance") {
    const auto is = arguments.size() == 2 ? is_instance(*of, *arguments[1].value) : std::nullopt;
    return is ? heap_.truth(*is) : nullptr;
  }
  if (name.ends_with("copy")) {
    std::map<const PythonObject*, PythonRef> made;
    return copy_of(*of, name.ends_with("deepcopy"), made);
  }
  if (name.ends_with("replace")) {
    if (!holds_members(*of)) return nullptr;
    std::map<const PythonObject*, PythonRef> made;
    PythonRef copy = copy_of(*of, false, made);
    for (const PythonArgument& argument : arguments)
      if (!argument.name.empty()) set_member(*copy, argument.name, argument.value);
    return copy;
  }
  if (arguments.size() < 2 || arguments[1].value->kind != Kind::Text) return nullptr;
  const std::string& member = arguments[1].value->text;
  if (name == "setattr") {
    if (arguments.size() != 3 || !holds_members(*of)) return nullptr;
    set_member(*of, member, arguments[2].value);
    return heap_.none();
  }
  const bool asks = name == "hasattr";
  if (is_plain(*of)) {
    if (asks) return heap_.truth(false);
    return arguments.size() > 2 ? arguments[2].value : nullptr;
  }
  PythonObject* found = member_of(frame, *of, member, shown_python(*of) + "." + member);
  if (found == nullptr || found->kind == Kind::Unknown) return asks ? nullptr : found;
  return asks ? heap_.truth(true) : found;
}

PythonObject* PythonReader::converted(const std::string& name, const std::vector<PythonArgument>& arguments) {
  if (arguments.empty()) return nullptr;
  const PythonObject& value = *arguments[0].value;
  if (name == "divmod") {
    if (arguments.size() != 2) return nullptr;
    PythonObject* whole = combined(heap_, *arguments[0].value, *arguments[1].value, "//");
    PythonObject* rest = combined(heap_, *arguments[0].value, *arguments[1].value, "%");
    if (whole == nullptr || rest == nullptr) return nullptr;
    PythonRef pair = heap_.make(Kind::Tuple);
    pair->items = {whole, rest};
    return pair;
  }
  if (name == "bool") {
    const auto holds = truth_of(value);
    return holds ? heap_.truth(*holds) : nullptr;
  }
  if (name == "str") {
    const auto text = str_of(value);
    return text ? heap_.text(*text) : nullptr;
  }
  const bool counts = value.kind == Kind::Whole || value.kind == Kind::Bool;
  if (name == "int" && counts) return heap_.whole(value.whole);
  if (name == "int" && value.kind == Kind::Text) {
    const auto number = whole_number(value.text);
    return number ? heap_.whole(*number) : nullptr;
  }
  constexpr double kExact = 9e15;
  const bool exact = value.kind == Kind::Real && std::abs(value.real) < kExact;
  if ((name == "int" || name == "round") && exact && arguments.size() == 1)
    return heap_.whole(static_cast<std::int64_t>(name == "int" ? std::trunc(value.real) : std::nearbyint(value.real)));
  if (name == "round" && counts) return heap_.whole(value.whole);
  if (name == "abs" && counts && value.whole != INT64_MIN) return heap_.whole(std::abs(value.whole));
  if (name == "abs" && value.kind == Kind::Real) return heap_.real(std::abs(value.real));
  if (name != "float") return nullptr;
  if (counts) return heap_.real(static_cast<double>(value.whole));
  if (value.kind == Kind::Real) return arguments[0].value;
  const auto number = value.kind == Kind::Text ? real_number(value.text) : std::nullopt;
  return number ? heap_.real(*number) : nullptr;
}

PythonObject* PythonReader::on_sequences(const std::string& name, const std::vector<PythonArgument>& arguments) {
  if (name == "dict") {
    PythonRef made = heap_.make(Kind::Dict);
    for (const PythonArgument& argument : arguments) {
      if (!argument.name.empty()) {
        set_key(*made, heap_.text(argument.name), argument.value);
      } else if (argument.value->kind == Kind::Dict) {
        made->entries = argument.value->entries;
        made->is_open = argument.value->is_open;
      } else {
        return nullptr;
      }
    }
    return made;
  }
  if (arguments.empty()) return name == "list" || name == "set" ? heap_.make(Kind::List) : nullptr;
  const PythonObject& first = *arguments[0].value;
  if (name == "range") {
    std::vector<std::int64_t> ends;
    for (const PythonArgument& argument : arguments)
      if (argument.value->kind == Kind::Whole) ends.push_back(argument.value->whole);
    if (ends.size() != arguments.size() || ends.size() > 3) return nullptr;
    const std::int64_t from = ends.size() > 1 ? ends[0] : 0, to = ends.size() > 1 ? ends[1] : ends[0];
    const std::int64_t step = ends.size() > 2 ? ends[2] : 1;
    const bool far = std::abs(static_cast<double>(to) - static_cast<double>(from)) >
                     static_cast<double>(kMaxRange) * std::abs(static_cast<double>(step));
    if (step == 0 || far) return nullptr;
    PythonRef made = heap_.make(Kind::List);
    for (std::int64_t i = from; step > 0 ? i < to : i > to; i += step) made->items.push_back(heap_.whole(i));
    return made;
  }
  if (name == "min" || name == "max") {
    const auto items = arguments.size() == 1 ? items_of(first) : std::nullopt;
    std::vector<PythonRef> all = items.value_or(std::vector<PythonRef>());
    if (arguments.size() > 1)
      for (const PythonArgument& argument : arguments) {
        if (!argument.name.empty()) return nullptr;
        all.push_back(argument.value);
      }
    if (all.empty()) return nullptr;
    PythonRef best = all.front();
    for (PythonRef one : all) {
      const auto better = compares(*one, *best, name == "min" ? "<" : ">");
      if (!better) return nullptr;
      if (*better) best = one;
    }
    return best;
  }
  if (name == "len") {
    const bool counts = is_sequence(first) || first.kind == Kind::Text || (first.kind == Kind::Dict && !first.is_open);
    const std::size_t size = first.kind == Kind::Text   ? first.text.size()
                             : first.kind == Kind::Dict ? first.entries.size()
                                                        : first.items.size();
    return counts ? heap_.whole(static_cast<std::int64_t>(size)) : nullptr;
  }
  if (name != "list" && name != "tuple" && name != "set" && name != "frozenset" && name != "sum" && name != "any" &&
      name != "all" && name != "enumerate" && name != "zip" && name != "reversed")
    return nullptr;
  const auto items = items_of(first);
  if (!items) return nullptr;
  if (name == "sum") {
    PythonObject* sum = heap_.whole(0);
    for (PythonRef item : *items) {
      sum = combined(heap_, *sum, *item, "+");
      if (sum == nullptr) return nullptr;
    }
    return sum;
  }
  if (name == "any" || name == "all") {
    const bool ends = name == "any";
    bool known = true;
    for (PythonRef item : *items) {
      const auto holds = truth_of(*item);
      if (holds == ends) return heap_.truth(ends);
      known = known && holds.has_value();
    }
    return known ? heap_.truth(!ends) : nullptr;
  }
  PythonRef made = heap_.make(name == "tuple" ? Kind::Tuple : Kind::List);
  if (name == "enumerate" || name == "zip") {
    const auto other = name == "zip" && arguments.size() == 2 ? items_of(*arguments[1].value) : std::nullopt;
    if (name == "zip" ? !other : arguments.size() > 1) return nullptr;
    for (std::size_t i = 0; i < items->size() && (!other || i < other->size()); ++i) {
      PythonRef pair = heap_.make(Kind::Tuple);
      pair->items = {other ? (*items)[i] : heap_.whole(static_cast<std::int64_t>(i)),
                     other ? (*other)[i] : (*items)[i]};
      made->items.push_back(pair);
    }
    return made;
  }
  made->items = *items;
  if (name == "reversed") std::reverse(made->items.begin(), made->items.end());
  return made;
}

// --- methods ---

PythonObject* PythonReader::method(PythonObject& of, const std::string& name,
                                   const std::vector<PythonArgument>& arguments) {
  heap_.count(arguments.size());
  if (of.kind == Kind::Text) return text_method(of, name, arguments);
  if (of.kind == Kind::Dict) return dict_method(of, name, arguments);
  return of.kind == Kind::List ? list_method(of, name, arguments) : nullptr;
}

PythonObject* PythonReader::text_method(PythonObject& of, const std::string& name,
                                        const std::vector<PythonArgument>& arguments) {
  const std::string& text = of.text;
  if (arguments.empty() && name == "lower") return heap_.text(lower_case(text));
  if (arguments.empty() && name == "upper") {
    std::string upper = text;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return heap_.text(std::move(upper));
  }
  if (arguments.empty() && name == "strip") {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
    return heap_.text(text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin));
  }
  if (arguments.empty()) return nullptr;
  const PythonObject& first = *arguments[0].value;
  if (name == "startswith" || name == "endswith") {
    std::vector<PythonRef> all = is_sequence(first) ? first.items : std::vector<PythonRef>{arguments[0].value};
    bool found = false;
    for (PythonRef one : all) {
      if (one->kind != Kind::Text) return nullptr;
      found = found || (name == "startswith" ? text.starts_with(one->text) : text.ends_with(one->text));
    }
    return heap_.truth(found);
  }
  if (name == "join") {
    const auto items = items_of(first);
    if (!items) return nullptr;
    std::vector<std::string> parts;
    std::size_t size = 0;
    for (PythonRef item : *items) {
      size += item->text.size() + text.size();
      if (item->kind != Kind::Text || size > 100'000) return nullptr;
      parts.push_back(item->text);
    }
    return heap_.text(join(parts, text));
  }
  if (first.kind != Kind::Text) return nullptr;
  if (name == "split" && first.text.size() == 1) {
    PythonRef made = heap_.make(Kind::List);
    for (const std::string& part : split(text, first.text[0])) made->items.push_back(heap_.text(part));
    return made;
  }
  if (name == "replace" && arguments.size() == 2 && arguments[1].value->kind == Kind::Text && !first.text.empty()) {
    const std::string& with = arguments[1].value->text;
    std::string result;
    std::size_t at = 0;
    for (std::size_t found = text.find(first.text); found != std::string::npos; found = text.find(first.text, at)) {
      result += text.substr(at, found - at) + with;
      at = found + first.text.size();
      if (result.size() > 100'000) return nullptr;
    }
    return heap_.text(result + text.substr(at));
  }
  return nullptr;
}

PythonObject* PythonReader::list_method(PythonObject& of, const std::string& name,
                                        const std::vector<PythonArgument>& arguments) {
  if (name == "copy" && arguments.empty()) {
    PythonRef made = heap_.make(Kind::List);
    made->items = of.items;
    return made;
  }
  if (arguments.size() != 1) return nullptr;
  PythonRef value = arguments[0].value;
  if (name == "append") {
    if (may_change(of)) of.items.push_back(value);
    return heap_.none();
  }
  const auto more = name == "extend" ? items_of(*value) : std::nullopt;
  if (!more) return nullptr;
  if (may_change(of)) of.items.insert(of.items.end(), more->begin(), more->end());
  return heap_.none();
}

PythonObject* PythonReader::dict_method(PythonObject& of, const std::string& name,
                                        const std::vector<PythonArgument>& arguments) {
  if (arguments.empty() && (name == "keys" || name == "values" || name == "items") && !of.is_open) {
    PythonRef made = heap_.make(Kind::List);
    heap_.count(of.entries.size());
    for (const PythonEntry& entry : of.entries) {
      if (name != "items") {
        made->items.push_back(name == "keys" ? entry.key : entry.value);
        continue;
      }
      PythonRef pair = heap_.make(Kind::Tuple);
      pair->items = {entry.key, entry.value};
      made->items.push_back(pair);
    }
    return made;
  }
  if (name == "copy" && arguments.empty()) {
    std::map<const PythonObject*, PythonRef> made;
    return copy_of(of, false, made);
  }
  if (name == "update") {
    for (const PythonArgument& argument : arguments) {
      if (!argument.name.empty()) {
        set_key(of, heap_.text(argument.name), argument.value);
        continue;
      }
      if (argument.value->kind != Kind::Dict) {
        of.is_open = true;
        return nullptr;
      }
      of.is_open = of.is_open || argument.value->is_open;
      for (const PythonEntry& entry : std::vector<PythonEntry>(argument.value->entries))
        if (entry.key != nullptr) set_key(of, entry.key, entry.value);
    }
    return heap_.none();
  }
  if (arguments.empty() || arguments.size() > 2 || named(arguments, "default") != nullptr) return nullptr;
  const PythonObject& key = *arguments[0].value;
  PythonEntry* held = is_known(key) ? find_key(of, key) : nullptr;
  if (held == nullptr && (of.is_open || !is_known(key))) return nullptr;
  PythonRef otherwise = arguments.size() == 2 ? arguments[1].value : heap_.none();
  if (name == "get") return held == nullptr ? otherwise : held->value;
  if (name == "setdefault") {
    if (held != nullptr) return held->value;
    set_key(of, arguments[0].value, otherwise);
    return otherwise;
  }
  if (name != "pop") return nullptr;
  PythonRef value = held == nullptr ? otherwise : held->value;
  if (held != nullptr && may_change(of)) of.entries.erase(of.entries.begin() + (held - of.entries.data()));
  return value;
}

}  // namespace meshwright
