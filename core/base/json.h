// SPDX-License-Identifier: Apache-2.0
// Reading and writing JSON with errors that name the file and the place in it.
//
// Every reader takes a `place` ("plan.json: stages[2]") that is put in front of what was expected. What is read is
// bounded in size, depth and number of values, and gives every member of an object once.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors.h"
#include "core/base/file.h"

namespace meshwright {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMaxJsonDepth = 128;
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 24;

// Throws SystemError when the file cannot be read, InputError when it is not JSON (with line and column), exceeds the
// limits above, or gives a member twice.
[[nodiscard]] Json read_json_file(const std::string& path);
[[nodiscard]] Json parse_json(const std::string& text, const std::string& place);

// The text of a document. Bytes that are not UTF-8, as names of files may hold, are written as "\xff" is.
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);

// A value in an error's sentence: numbers and the beginning of a text as they are, others by their size.
[[nodiscard]] std::string brief(const Json& value);

// What a text of JSON consists of, in the order in which it stands there.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void begin_object() = 0;
  virtual void key(const std::string& name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void integer(std::int64_t value) = 0;
  virtual void other(const Json& value) = 0;  // text, true, null, a fraction, an integer beyond 64 bits
};

// Walks over a text that need never be whole in memory: `next_piece` returns its next bytes, or none at the end. Throws
// InputError naming the byte when it is not JSON, and what the visitor throws. Nesting costs a bit per level, no stack.
void visit_json(const std::function<std::string_view()>& next_piece, JsonVisitor& visitor, const std::string& place);

// The member `key` of `object`; throws InputError "PLACE: 'key' is missing".
[[nodiscard]] const Json& member(const Json& object, std::string_view key, const std::string& place);

// `value` as an integer; throws where it is a floating-point number, a bool or out of T's range.
template <class T>
[[nodiscard]] T exact_integer(const Json& value) {
  if (!value.is_number_integer()) throw InputError("");
  const auto wide = value.get<std::int64_t>();
  const bool beyond = value.is_number_unsigned() && wide < 0;
  if (beyond || static_cast<std::int64_t>(static_cast<T>(wide)) != wide) throw InputError("");
  return static_cast<T>(wide);
}

// The member `key` as T (bool, int, std::int64_t, double, std::string or a vector of these); throws InputError naming
// the place and the type it found. Integers are not taken from floating-point or out-of-range numbers.
template <class T>
[[nodiscard]] T get(const Json& object, std::string_view key, const std::string& place) {
  const Json& value = member(object, key, place);
  try {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return exact_integer<T>(value);
    } else if constexpr (std::is_same_v<T, std::vector<int>>) {
      if (!value.is_array()) throw InputError("");
      std::vector<int> numbers;
      for (const Json& number : value) numbers.push_back(exact_integer<int>(number));
      return numbers;
    } else {
      if constexpr (std::is_same_v<T, double>)
        if (!value.is_number()) throw InputError("");
      return value.get<T>();
    }
  } catch (const std::exception&) {
    throw InputError(
        fmt::format("{}: '{}' has the wrong type ({}); see docs/files.md for the format.", place, key, brief(value)));
  }
}

}  // namespace meshwright
