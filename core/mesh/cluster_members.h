// SPDX-License-Identifier: Apache-2.0
// Readers for the members of a cluster file. Each throws InputError naming the place of a value it does not accept.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/text.h"

namespace meshwright {

inline void require_only(const Json& object, const std::vector<std::string>& known, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  for (const auto& [key, value] : object.items())
    require(std::find(known.begin(), known.end(), key) != known.end(),
            "{}: unknown member '{}'; the nearest known are {}.", place, key, join(nearest_names(key, known), ", "));
}

inline double positive(const Json& object, std::string_view key, const std::string& place) {
  const auto value = get<double>(object, key, place);
  require(std::isfinite(value) && value > 0, "{}: '{}' is {}; a positive number was expected.", place, key, value);
  return value;
}

// Beyond these limits, products with the sizes of a model could overflow a double.
constexpr double kLongestTime = 1e6, kLowestRate = 1e-6;

inline double seconds(const Json& object, std::string_view key, const std::string& place) {
  const auto value = get<double>(object, key, place);
  require(value >= 0 && value <= kLongestTime, "{}: '{}' is {}; a number of seconds from 0 to {} was expected.", place,
          key, value, kLongestTime);
  return value;
}

inline double rate(const Json& object, std::string_view key, const std::string& place) {
  const double value = positive(object, key, place);
  require(value >= kLowestRate, "{}: '{}' is {}; a number from {} upwards was expected.", place, key, value,
          kLowestRate);
  return value;
}

inline double share(const Json& object, std::string_view key, const std::string& place) {
  const double value = positive(object, key, place);
  require(value <= 1, "{}: '{}' is {}; a share from 0 to 1 was expected.", place, key, value);
  return value;
}

inline int count(const Json& object, std::string_view key, const std::string& place, int limit) {
  const int value = get<int>(object, key, place);
  require(value >= 1 && value <= limit, "{}: '{}' is {}; a number from 1 to {} was expected.", place, key, value,
          limit);
  return value;
}

}  // namespace meshwright
