// SPDX-License-Identifier: Apache-2.0
// Reading and writing JSON with errors that name the file and the place in it.
//
// Every reader takes a `place` ("plan.json: stages[2]") that is put in front of what was expected. Files are written
// whole or not at all (temporary file, then rename).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/errors.h"

namespace meshwright {

using Json = nlohmann::ordered_json;

// Throws SystemError when the file cannot be read, InputError when it is not JSON (with line and column).
[[nodiscard]] Json read_json_file(const std::string& path);
[[nodiscard]] Json parse_json(const std::string& text, const std::string& place);

// Throws SystemError; an existing file is replaced only once the new one is complete on disk.
void write_file(const std::string& path, const std::string& contents);

// The member `key` of `object`; throws InputError "PLACE: 'key' is missing".
[[nodiscard]] const Json& member(const Json& object, std::string_view key, const std::string& place);

// The member `key` as T (bool, int, std::int64_t, double, std::string or a vector of these); throws InputError naming
// the place and the type it found. Integers are not taken from floating-point or out-of-range numbers.
template <class T>
[[nodiscard]] T get(const Json& object, std::string_view key, const std::string& place) {
  const Json& value = member(object, key, place);
  try {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!value.is_number_integer()) throw InputError("");
      const auto wide = value.get<std::int64_t>();
      if (static_cast<std::int64_t>(static_cast<T>(wide)) != wide) throw InputError("");
      return static_cast<T>(wide);
    } else {
      if constexpr (std::is_same_v<T, double>)
        if (!value.is_number()) throw InputError("");
      return value.get<T>();
    }
  } catch (const std::exception&) {
    throw InputError(fmt::format("{}: '{}' has the wrong type ({}); see ARCHITECTURE.md for the file's format.", place,
                                 key, value.dump().substr(0, 40)));
  }
}

}  // namespace meshwright
