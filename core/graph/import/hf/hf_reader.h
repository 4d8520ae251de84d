// SPDX-License-Identifier: Apache-2.0
// Members of one config.json object, by name; each failure is one sentence with the place and the member. A member that
// is null counts as missing; one that the object leaves out is that of its type's class (hf_class_defaults.h), where
// that is not what all families have.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace meshwright {

class HfReader {
 public:
  HfReader(const Json& object, std::string place);
  // An object in this one. REQUIRES: has(key).
  [[nodiscard]] HfReader part(const char* key) const;

  [[nodiscard]] HfReader part_or_empty(const char* key) const;
  // The same object, with what it lacks from another one as well, which outlives the reader.
  [[nodiscard]] HfReader with_defaults(const Json& defaults) const;

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] const Json& at(const char* key) const;  // REQUIRES: has(key)
  // A member of what is left out of the model: it stays among the unread ones. null: missing.
  [[nodiscard]] Json aside(const char* key) const;

  // A whole number from 1 to a limit far inside 64 bits, under the first of the names that the object has.
  [[nodiscard]] std::int64_t size(std::initializer_list<const char*> keys) const;
  // The same from `least` on; `otherwise` when it is missing.
  [[nodiscard]] std::int64_t size_or(std::initializer_list<const char*> keys, std::int64_t otherwise,
                                     std::int64_t minimum = 1) const;
  [[nodiscard]] double positive_or(const char* key, double otherwise) const;
  [[nodiscard]] bool flag_or(const char* key, bool otherwise) const;
  [[nodiscard]] std::string text_or(const char* key, const std::string& otherwise) const;
  // Throws InputError unless the member is missing or false.
  void refuse(const char* key) const;
  // The members that nobody asked for, of this object and of its parts: "rope_scaling", "text_config.dtype".
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  // The first of the names that the object has, then of those that it leaves out; nullptr: none of them is known.
  [[nodiscard]] const char* first_of(std::initializer_list<const char*> keys) const;
  // What the object leaves out, by name; nullptr: nothing knows it.
  [[nodiscard]] const Json* left_out(const char* key) const;

  const Json& object_;
  std::vector<const Json*> defaults_;
  std::string place_;
  struct Used {
    std::set<std::string> keys;
    std::map<std::string, std::shared_ptr<const HfReader>> parts;
  };
  std::shared_ptr<Used> used_ = std::make_shared<Used>();
};

}  // namespace meshwright
