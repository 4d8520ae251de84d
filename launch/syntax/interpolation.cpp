// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/interpolation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/shell.h"

namespace meshwright {

namespace {

constexpr int kMaxSteps = 16;                // from one value to the next
constexpr std::size_t kMaxResolved = 4'096;  // letters of a value

constexpr int kMaxInterpolations = 64;  // of a value

// Where the brace that opens at `open` is closed.
std::size_t closing_brace(const std::string& text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return i;
  }
  return std::string::npos;
}

// --- resolvers that programs give OmegaConf ---

std::vector<std::string> arguments_of(const std::string& text) {
  std::vector<std::string> made;
  for (std::string part : split(text, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (part.size() > 1 && (part[0] == '\'' || part[0] == '"') && part.back() == part[0])
      part = part.substr(1, part.size() - 2);
    made.push_back(std::move(part));
  }
  return made;
}

// `name` of two whole numbers; nullopt: none is known, or it leaves the whole numbers.
std::optional<std::int64_t> of_two(const std::string& name, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  if (a > kLarge * 1024 || b > kLarge || a < -kLarge * 1024 || b < -kLarge) return std::nullopt;
  if (name == "multiply" || name == "mul") return std::abs(a) > kLarge ? std::nullopt : std::optional(a * b);
  if (name == "sum" || name == "add") return a + b;
  if (name == "subtract" || name == "sub") return a - b;
  if (name == "min") return std::min(a, b);
  if (name == "max") return std::max(a, b);
  if (b == 0) return std::nullopt;
  const std::int64_t floor = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  if (name == "floor_div" || name == "int_div" || name == "floordiv") return floor;
  if (name == "ceil_div") return a % b == 0 ? floor : floor + 1;
  if (name == "div" || name == "divide") return a % b == 0 ? std::optional(a / b) : std::nullopt;
  return std::nullopt;
}

// The text of `${name:arguments}`; nullopt: the resolver is unknown, or its result is not.
std::optional<std::string> resolver_result(const std::string& name, const std::string& text) {
  if (name == "oc.decode") return text;
  const std::vector<std::string> given = arguments_of(text);
  if (text.find("${") != std::string::npos) return std::nullopt;
  if (name == "eq" && given.size() == 2) return given[0] == given[1] ? "true" : "false";
  if (name == "neq" && given.size() == 2) return given[0] != given[1] ? "true" : "false";
  if (name == "if" && given.size() == 3) {
    const auto truth = truth_value(given[0]);
    return truth ? std::optional(*truth ? given[1] : given[2]) : std::nullopt;
  }
  if (given.size() < 2) return std::nullopt;
  std::optional<std::int64_t> result = whole_number(given[0]);
  for (std::size_t i = 1; i < given.size() && result; ++i) {
    const auto next = whole_number(given[i]);
    result = next ? of_two(name, *result, *next) : std::nullopt;
  }
  if (result) return fmt::format("{}", *result);
  // What a variable leaves open, all of it does.
  const std::size_t open = text.find(kUnresolved);
  if (open == std::string::npos) return std::nullopt;
  const std::size_t close = text.find('}', open);
  return close == std::string::npos ? std::nullopt : std::optional(text.substr(open, close + 1 - open));
}

using Maps = std::vector<const ConfigValue*>;  // from the file's top to the one that a value stands in

class Interpolations {
 public:
  explicit Interpolations(const ConfigValue& source) : source_(source) {}

  // `to`, which stands in the last of `maps` of the source.
  void resolve(ConfigValue& to, const ConfigValue& from, Maps& maps) const {
    if (to.is_scalar()) to = resolved(to, maps, 0);
    for (std::size_t i = 0; i < to.items.size(); ++i) resolve(to.items[i], from.items[i], maps);
    maps.push_back(&from);
    for (std::size_t i = 0; i < to.members.size(); ++i) resolve(to.members[i].second, from.members[i].second, maps);
    maps.pop_back();
  }

 private:
  // From within: the last "${" has none behind it. What names nothing stays, and so does what is around it.
  [[nodiscard]] ConfigValue resolved(const ConfigValue& value, const Maps& maps, int steps) const {
    ConfigValue made = value;
    std::size_t before = std::string::npos;
    for (int count = 0; count < kMaxInterpolations; ++count) {
      const std::size_t at = made.text.rfind("${", before);
      if (at == std::string::npos) break;
      const std::size_t end = closing_brace(made.text, at + 1);
      if (end == std::string::npos || steps == kMaxSteps) return value;
      const auto found = meaning_of(made.text.substr(at + 2, end - at - 2), maps, steps);
      if (found && at == 0 && end + 1 == made.text.size()) {
        ConfigValue whole = *found;
        whole.line = value.line;
        return whole;
      }
      if (found && made.text.size() + found->text.size() > kMaxResolved) return value;
      if (found) made.text.replace(at, end + 1 - at, found->kind == ConfigValue::Kind::Null ? "null" : found->text);
      // Nothing is looked for in what was put there.
      if (at == 0) break;
      before = at - 1;
    }
    return made;
  }

  [[nodiscard]] std::optional<ConfigValue> meaning_of(const std::string& inner, const Maps& maps, int steps) const {
    const std::size_t colon = inner.find(':');
    if (colon == std::string::npos) return named(inner, maps, steps);
    const auto result = resolver_result(inner.substr(0, colon), inner.substr(colon + 1));
    return result ? std::optional(ConfigValue::scalar(*result, 0)) : std::nullopt;
  }

  // The scalar, or the null, that a path names.
  [[nodiscard]] std::optional<ConfigValue> named(const std::string& path, const Maps& maps, int steps) const {
    const std::size_t dots = std::min(path.find_first_not_of('.'), path.size());
    if (dots == path.size() || dots > maps.size()) return std::nullopt;
    Maps way = dots == 0 ? Maps{} : Maps(maps.begin(), maps.end() - static_cast<std::ptrdiff_t>(dots - 1));
    const ConfigValue* at = way.empty() ? &source_ : way.back();
    if (!way.empty()) way.pop_back();
    for (const std::string& part : split(path.substr(dots), '.')) {
      way.push_back(at);
      at = at->find(part);
      if (at == nullptr) return std::nullopt;
    }
    if (at->kind == ConfigValue::Kind::Null) return *at;
    return at->is_scalar() ? std::optional(resolved(*at, way, steps + 1)) : std::nullopt;
  }

  const ConfigValue& source_;
};

}  // namespace

namespace {

// "${oc.env:NAME,otherwise}" and "${oc.decode:value}" within a text.
std::string with_environment(std::string text, const std::map<std::string, std::string>& variables) {
  constexpr std::string_view kNamed = "${oc.env:", kDecoded = "${oc.decode:";
  for (int step = 0; step < kMaxSteps; ++step) {
    // The last one has none within it.
    const std::size_t at = text.rfind(kNamed);
    if (at == std::string::npos) break;
    const std::size_t comma = text.find_first_of(",}", at);
    int depth = 1;
    std::size_t end = at + 2;
    for (; end < text.size() && depth > 0; ++end) depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
    if (depth > 0 || comma == std::string::npos) break;
    const std::string name = text.substr(at + kNamed.size(), comma - at - kNamed.size());
    const auto given = variables.find(name);
    const std::string value = given != variables.end() ? given->second
                              : text[comma] == ','     ? text.substr(comma + 1, end - comma - 2)
                                                       : std::string(1, kUnresolved) + "{" + name + "}";
    if (text.size() + value.size() > kMaxResolved) break;
    text.replace(at, end - at, value);
  }
  for (std::size_t at = 0; (at = text.find(kDecoded, at)) != std::string::npos;) {
    const std::size_t end = closing_brace(text, at + 1);
    if (end == std::string::npos) break;
    text.erase(end, 1);
    text.erase(at, kDecoded.size());
  }
  return text;
}

}  // namespace

void resolve_environment(ConfigValue& root, const std::map<std::string, std::string>& variables) {
  if (root.is_scalar() && root.text.find("${oc.") != std::string::npos)
    root.text = with_environment(std::move(root.text), variables);
  for (ConfigValue& item : root.items) resolve_environment(item, variables);
  for (auto& [key, value] : root.members) resolve_environment(value, variables);
}

void resolve_interpolations(ConfigValue& root) {
  const ConfigValue source = root;
  Maps maps;
  Interpolations(source).resolve(root, source, maps);
}

}  // namespace meshwright
