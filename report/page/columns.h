// SPDX-License-Identifier: Apache-2.0
// The numbers of a page that are too many for JSON: named columns, little-endian, deflated, in base64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace meshwright {

class Columns {
 public:
  // Each begins at a multiple of its element's size. REQUIRES: the name is new.
  void add(const std::string& name, const std::vector<double>& values);        // "f64", bytes of equal weight together
  void add(const std::string& name, const std::vector<std::int32_t>& values);  // "i32"
  void add(const std::string& name, const std::vector<std::uint8_t>& values);  // "u8"
  void add(const std::string& name, const std::string& text);                  // "text", UTF-8

  // {"task.begin_ps": {"type": "f64", "offset": 0, "length": 900, "shuffle": 8}, ...}; length in elements.
  [[nodiscard]] const Json& index() const { return index_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] std::string packed() const;

 private:
  Json& enter(const std::string& name, const char* type, std::size_t size, std::size_t length);

  std::string bytes_;
  Json index_ = Json::object();
};

}  // namespace meshwright
