// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_object.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

using Kind = PythonObject::Kind;

constexpr std::size_t kMaxSteps = 4'000'000, kMaxText = 100'000;

bool is_number(const PythonObject& value) {
  return value.kind == Kind::Bool || value.kind == Kind::Whole || value.kind == Kind::Real;
}
double number_of(const PythonObject& value) {
  return value.kind == Kind::Real ? value.real : static_cast<double>(value.whole);
}

}  // namespace

PythonEntry* PythonObject::find(const std::string& name) {
  for (PythonEntry& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

PythonRef PythonHeap::make(Kind kind, std::string text) {
  count(1);
  if (objects_.size() >= kMaxLaunchValues)
    throw InputError(fmt::format("{}:{}: names and calls stand for more than {} values; no configuration has so many.",
                                 at_ == nullptr ? place_ : *at_, line_, kMaxLaunchValues));
  PythonObject& made = objects_.emplace_back();
  made.kind = kind;
  made.text = std::move(text);
  made.scope = scope;
  return &made;
}

PythonRef PythonHeap::truth(bool value) {
  PythonRef made = make(Kind::Bool, value ? "True" : "False");
  made->whole = value ? 1 : 0;
  return made;
}

PythonRef PythonHeap::whole(std::int64_t value) {
  PythonRef made = make(Kind::Whole, fmt::format("{}", value));
  made->whole = value;
  return made;
}

PythonRef PythonHeap::real(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  PythonRef made = make(Kind::Real, std::move(text));
  made->real = value;
  return made;
}

PythonRef PythonHeap::unknown(std::string expression) {
  constexpr std::size_t kMost = 240;
  return make(Kind::Unknown, shortened(expression, kMost));
}

void PythonHeap::count(std::size_t steps) {
  steps_ += steps;
  if (steps_ > kMaxSteps)
    throw InputError(fmt::format("{}:{}: takes more than {} steps to read; no configuration needs so many.",
                                 at_ == nullptr ? place_ : *at_, line_, kMaxSteps));
}

bool is_known(const PythonObject& value) {
  if (value.kind == Kind::Unknown || value.kind == Kind::Import || value.is_open) return false;
  return std::all_of(value.items.begin(), value.items.end(), [](PythonRef item) { return is_known(*item); });
}

std::optional<bool> truth_of(const PythonObject& value) {
  switch (value.kind) {
    case Kind::None:
      return false;
    case Kind::Bool:
    case Kind::Whole:
      return value.whole != 0;
    case Kind::Real:
      return value.real != 0.0;
    case Kind::Text:
      return !value.text.empty();
    case Kind::List:
    case Kind::Tuple:
      return !value.items.empty();
    case Kind::Dict:
      return value.is_open && value.entries.empty() ? std::nullopt : std::optional(!value.entries.empty());
    case Kind::Function:
    case Kind::Class:
    case Kind::Method:
      return true;
    case Kind::Object:
      return value.is_class ? std::optional(true) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<bool> is_none(const PythonObject& value) {
  if (value.kind == Kind::None) return true;
  if (value.kind == Kind::Unknown || value.kind == Kind::Import) return std::nullopt;
  if (value.kind == Kind::Object && !value.is_class) return std::nullopt;
  return false;
}

std::optional<bool> are_equal(const PythonObject& a, const PythonObject& b) {
  if (&a == &b && a.kind != Kind::Real) return true;
  if (is_number(a) && is_number(b))
    return a.kind == Kind::Real || b.kind == Kind::Real ? number_of(a) == number_of(b) : a.whole == b.whole;
  const auto none_a = is_none(a), none_b = is_none(b);
  if (none_a && none_b && (*none_a || *none_b)) return *none_a && *none_b;
  const auto is_open = [](const PythonObject& value) {
    return value.kind == Kind::Unknown || value.kind == Kind::Import || value.kind == Kind::Object || value.is_open;
  };
  // What is the same expression need not be the same value: it may be a call.
  if (is_open(a) || is_open(b)) return std::nullopt;
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::Text) return a.text == b.text;
  if (is_sequence(a)) {
    if (a.items.size() != b.items.size()) return false;
    bool known = true;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
      const auto equal = are_equal(*a.items[i], *b.items[i]);
      if (equal == false) return false;
      known = known && equal.has_value();
    }
    return known ? std::optional(true) : std::nullopt;
  }
  if (a.kind == Kind::Dict) return a.entries.empty() && b.entries.empty() ? std::optional(true) : std::nullopt;
  return a.kind == Kind::Function || a.kind == Kind::Class ? std::optional(false) : std::nullopt;
}

std::optional<bool> is_in(const PythonObject& one, const PythonObject& all) {
  if (all.kind == Kind::Text && one.kind == Kind::Text) return all.text.find(one.text) != std::string::npos;
  if (!is_sequence(all) && all.kind != Kind::Dict) return std::nullopt;
  bool known = !all.is_open;
  const auto holds = [&](const PythonObject* held) {
    const auto equal = are_equal(one, *held);
    known = known && equal.has_value();
    return equal == true;
  };
  const bool found = std::any_of(all.items.begin(), all.items.end(), holds) ||
                     std::any_of(all.entries.begin(), all.entries.end(),
                                 [&](const PythonEntry& entry) { return entry.key != nullptr && holds(entry.key); });
  if (found) return true;
  return known ? std::optional(false) : std::nullopt;
}

std::optional<bool> compares(const PythonObject& a, const PythonObject& b, const std::string& sign) {
  int order = 0;
  if (a.kind == Kind::Text && b.kind == Kind::Text) {
    order = a.text.compare(b.text);
  } else if (is_number(a) && is_number(b)) {
    const bool whole = a.kind != Kind::Real && b.kind != Kind::Real;
    order = whole ? (a.whole > b.whole) - (a.whole < b.whole)
                  : (number_of(a) > number_of(b)) - (number_of(a) < number_of(b));
  } else {
    return std::nullopt;
  }
  return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
}

namespace {

std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? quotient - 1 : quotient;
}

PythonObject* of_wholes(PythonHeap& heap, std::int64_t a, std::int64_t b, const std::string& sign) {
  std::int64_t result = 0;
  if (sign == "+") return __builtin_add_overflow(a, b, &result) ? nullptr : heap.whole(result);
  if (sign == "-") return __builtin_sub_overflow(a, b, &result) ? nullptr : heap.whole(result);
  if (sign == "*") return __builtin_mul_overflow(a, b, &result) ? nullptr : heap.whole(result);
  if (sign == "|") return heap.whole(a | b);
  if (sign == "&") return heap.whole(a & b);
  constexpr int kBits = 62;
  if (sign == "<<") return a >= 0 && b >= 0 && b < kBits && a <= INT64_MAX >> b ? heap.whole(a << b) : nullptr;
  if (sign == "**") {
    if (b < 0 || b > kBits) return nullptr;
    result = 1;
    for (std::int64_t i = 0; i < b; ++i)
      if (__builtin_mul_overflow(result, a, &result)) return nullptr;
    return heap.whole(result);
  }
  if (b == 0 || (b == -1 && a == INT64_MIN)) return nullptr;
  if (sign == "/") return heap.real(static_cast<double>(a) / static_cast<double>(b));
  if (sign == "//") return heap.whole(floor_of(a, b));
  return sign == "%" ? heap.whole(a - floor_of(a, b) * b) : nullptr;
}

PythonObject* of_reals(PythonHeap& heap, double a, double b, const std::string& sign) {
  double result = 0.0;
  if (sign == "+")
    result = a + b;
  else if (sign == "-")
    result = a - b;
  else if (sign == "*")
    result = a * b;
  else if (sign == "**")
    result = std::pow(a, b);
  else if (b == 0.0)
    return nullptr;
  else if (sign == "/")
    result = a / b;
  else if (sign == "//")
    result = std::floor(a / b);
  else
    return nullptr;
  return std::isfinite(result) ? heap.real(result) : nullptr;
}

PythonObject* repeated(PythonHeap& heap, const PythonObject& of, std::int64_t times) {
  const std::size_t count = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  if (of.kind == Kind::Text) {
    if (count > kMaxText || of.text.size() * count > kMaxText) return nullptr;
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += of.text;
    return heap.text(std::move(text));
  }
  if (count > kMaxLaunchValues || of.items.size() * count > kMaxLaunchValues) return nullptr;
  PythonRef made = heap.make(of.kind);
  heap.count(of.items.size() * count);
  for (std::size_t i = 0; i < count; ++i) made->items.insert(made->items.end(), of.items.begin(), of.items.end());
  return made;
}

}  // namespace

PythonObject* combined(PythonHeap& heap, PythonObject& a, PythonObject& b, const std::string& sign) {
  const bool numbers = is_number(a) && is_number(b);
  if (numbers && a.kind != Kind::Real && b.kind != Kind::Real) return of_wholes(heap, a.whole, b.whole, sign);
  if (numbers) return of_reals(heap, number_of(a), number_of(b), sign);
  if (sign == "+" && a.kind == Kind::Text && b.kind == Kind::Text)
    return a.text.size() + b.text.size() > kMaxText ? nullptr : heap.text(a.text + b.text);
  if (sign == "+" && is_sequence(a) && a.kind == b.kind) {
    PythonRef made = heap.make(a.kind);
    heap.count(a.items.size() + b.items.size());
    made->items = a.items;
    made->items.insert(made->items.end(), b.items.begin(), b.items.end());
    return made;
  }
  const auto repeats = [](const PythonObject& of) { return is_sequence(of) || of.kind == Kind::Text; };
  if (sign == "*" && repeats(a) && b.kind == Kind::Whole) return repeated(heap, a, b.whole);
  if (sign == "*" && repeats(b) && a.kind == Kind::Whole) return repeated(heap, b, a.whole);
  if (sign == "|" && a.kind == Kind::Dict && b.kind == Kind::Dict) {
    PythonRef made = heap.make(Kind::Dict);
    made->is_open = a.is_open || b.is_open;
    made->entries = a.entries;
    heap.count(a.entries.size() * b.entries.size());
    for (const PythonEntry& entry : b.entries) {
      const auto same = std::find_if(made->entries.begin(), made->entries.end(), [&](const PythonEntry& held) {
        return held.key != nullptr && entry.key != nullptr && are_equal(*held.key, *entry.key) == true;
      });
      if (same == made->entries.end())
        made->entries.push_back(entry);
      else
        *same = entry;
    }
    return made;
  }
  return nullptr;
}

namespace {

void show(std::string& text, const PythonObject& value, int depth) {
  constexpr std::size_t kMost = 120;
  constexpr int kDeepest = 4;
  if (text.size() > kMost || depth > kDeepest) {
    text += "...";
    return;
  }
  const auto listed = [&](const std::vector<PythonRef>& items) {
    for (std::size_t i = 0; i < items.size() && text.size() <= kMost; ++i) {
      if (i > 0) text += ", ";
      show(text, *items[i], depth + 1);
    }
  };
  switch (value.kind) {
    case Kind::Text:
      text += '"' + shortened(value.text, kMost) + '"';
      return;
    case Kind::List:
      text += '[';
      listed(value.items);
      text += ']';
      return;
    case Kind::Tuple:
      text += '(';
      listed(value.items);
      text += ')';
      return;
    case Kind::Dict:
      text += value.entries.empty() ? "{}" : "{...}";
      return;
    case Kind::Object:
      text += value.text + (value.entries.empty() ? "()" : "(...)");
      return;
    default:
      text += value.text;
  }
}

}  // namespace

std::string shown_python(const PythonObject& value) {
  std::string text;
  show(text, value, 0);
  return text;
}

std::optional<std::string> str_of(const PythonObject& value) {
  switch (value.kind) {
    case Kind::None:
    case Kind::Bool:
    case Kind::Whole:
    case Kind::Real:
    case Kind::Text:
      return value.text;
    case Kind::List:
    case Kind::Tuple:
      return is_known(value) ? std::optional(shown_python(value)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

namespace {

class ConfigWriter {
 public:
  explicit ConfigWriter(const std::string& place) : place_(place) {}

  ConfigValue value_of(const PythonObject& value, int line, const std::string* at, int depth) {
    if (++count_ > kMaxLaunchValues)
      throw InputError(
          fmt::format("{}:{}: names and calls stand for more than {} values; no configuration has so many.", place_,
                      line, kMaxLaunchValues));
    if (depth > kMaxLaunchDepth) return placed(ConfigValue::scalar(value.text, line), at);
    switch (value.kind) {
      case Kind::None:
        return placed(null_at(line), at);
      case Kind::Text:
        return placed(ConfigValue::scalar(value.text, line, true), at);
      case Kind::List:
      case Kind::Tuple: {
        ConfigValue list = ConfigValue::list(line);
        for (PythonRef item : value.items) list.items.push_back(value_of(*item, line, at, depth + 1));
        return placed(std::move(list), at);
      }
      case Kind::Dict:
      case Kind::Object:
        return map_of(value, line, at, depth);
      case Kind::Unknown:
        if (has_members(value)) return map_of(value, line, at, depth);
        return placed(ConfigValue::scalar(value.text, line), at);
      default:
        return placed(ConfigValue::scalar(value.text, line), at);
    }
  }

 private:
  static ConfigValue null_at(int line) {
    ConfigValue none;
    none.line = line;
    return none;
  }
  [[nodiscard]] ConfigValue placed(ConfigValue value, const std::string* at) const {
    if (at != nullptr && *at != place_) value.file = *at;
    return value;
  }
  // What is asked of a part and never set is none of its members.
  static bool is_said(const PythonObject& of, const PythonEntry& entry) {
    return !(entry.value->is_part && entry.value->of == &of && !has_members(*entry.value));
  }
  static bool has_members(const PythonObject& value, int depth = 0) {
    if (value.kind != Kind::Unknown || depth > kMaxLaunchDepth) return true;
    return std::any_of(value.entries.begin(), value.entries.end(), [&](const PythonEntry& entry) {
      return !(entry.value->is_part && entry.value->of == &value) || has_members(*entry.value, depth + 1);
    });
  }

  ConfigValue map_of(const PythonObject& value, int line, const std::string* at, int depth) {
    ConfigValue map = ConfigValue::map(line);
    if (value.kind == Kind::Object) map.text = value.text;
    for (const PythonEntry& entry : value.entries) {
      if (!is_said(value, entry)) continue;
      std::string name = entry.name;
      if (entry.key != nullptr) name = entry.key->text.empty() ? shown_python(*entry.key) : entry.key->text;
      const bool placed_itself = entry.place != nullptr;
      // Names of a dictionary and members have been compared already.
      map.members.emplace_back(std::move(name), value_of(*entry.value, placed_itself ? entry.line : line,
                                                         placed_itself ? entry.place : at, depth + 1));
    }
    if (value.kind == Kind::Object && value.of != nullptr && value.of->kind == Kind::Object)
      map.set("(of)", value_of(*value.of, line, at, depth + 1));
    return placed(std::move(map), at);
  }

  const std::string& place_;
  std::size_t count_ = 0;
};

}  // namespace

ConfigValue config_value_of(const PythonObject& value, int line, const std::string& place) {
  return ConfigWriter(place).value_of(value, line, nullptr, 0);
}

}  // namespace meshwright
