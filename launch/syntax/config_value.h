// SPDX-License-Identifier: Apache-2.0
// What YAML, JSON, TOML and Python configurations hold, in one form: scalars as they are written, lists and maps, each
// with the line it stands on.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace meshwright {

struct ConfigValue {
  enum class Kind { Null, Scalar, List, Map } kind = Kind::Null;
  std::string text = {};  // Scalar, without its quotes; Map: of a Python call, what is called
  bool quoted = false;
  int line = 0;
  std::vector<ConfigValue> items = {};                            // List
  std::vector<std::pair<std::string, ConfigValue>> members = {};  // Map, in the order of the file
  std::string file = {};  // where that is not the file that is read: of the statement that sets it

  [[nodiscard]] bool is_map() const { return kind == Kind::Map; }
  [[nodiscard]] bool is_list() const { return kind == Kind::List; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::Scalar; }
  // nullptr: no such member, or no map.
  [[nodiscard]] const ConfigValue* find(const std::string& key) const;
  // Replaces a member of the same name, as the languages that allow two do.
  void set(const std::string& key, ConfigValue value);

  static ConfigValue scalar(std::string text, int line, bool quoted = false);
  static ConfigValue map(int line);
  static ConfigValue list(int line);
};

// The value as one line of text: 1F1B, [2, 4], {a: 1}; long ones are cut.
[[nodiscard]] std::string to_text(const ConfigValue& value);

// No launch file is larger, nests deeper or makes more values: larger ones are refused instead of read for ever.
inline constexpr std::size_t kMaxLaunchFile = 4'000'000, kMaxLaunchValues = 400'000;
inline constexpr int kMaxLaunchDepth = 64;

}  // namespace meshwright
