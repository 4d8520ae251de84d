// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/interpolation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "launch/syntax/shell.h"

namespace meshwright {

namespace {

constexpr int kMaxSteps = 16;                // from one value to the next
constexpr std::size_t kMaxResolved = 4'096;  // letters of a value

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
  [[nodiscard]] ConfigValue resolved(const ConfigValue& value, const Maps& maps, int steps) const {
    ConfigValue made = value;
    for (std::size_t at = 0; (at = made.text.find("${", at)) != std::string::npos;) {
      const std::size_t end = made.text.find('}', at);
      if (end == std::string::npos || steps == kMaxSteps) return value;
      const auto found = named(made.text.substr(at + 2, end - at - 2), maps, steps);
      if (!found) {
        at = end;
        continue;
      }
      if (at == 0 && end + 1 == made.text.size()) {
        ConfigValue whole = *found;
        whole.line = value.line;
        return whole;
      }
      if (made.text.size() + found->text.size() > kMaxResolved) return value;
      made.text.replace(at, end + 1 - at, found->text);
      at += found->text.size();
    }
    return made;
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
  while (text.starts_with(kDecoded) && text.ends_with('}'))
    text = text.substr(kDecoded.size(), text.size() - kDecoded.size() - 1);
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
