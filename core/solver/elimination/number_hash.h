// SPDX-License-Identifier: Apache-2.0
// A hash of many numbers one after the other, for tables that are asked with long keys.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwright::elimination {

class NumberHash {
 public:
  void add(std::int64_t number) {
    state_ = (state_ ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15;
    state_ ^= state_ >> 29;
  }
  // Numbers that are lists are told apart from those that follow one another.
  template <class Numbers>
  void add(const Numbers& numbers) requires requires {
    numbers.begin();
  }
  {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const auto& number : numbers) add(static_cast<std::int64_t>(number));
  }
  [[nodiscard]] std::size_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace meshwright::elimination
