// SPDX-License-Identifier: Apache-2.0
// Random choices, the same for every run with one seed.
#pragma once

#include <random>
#include <vector>

namespace meshwright {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  template <class T>
  T any(const std::vector<T>& of) {
    return of[std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random_)];
  }

 private:
  std::mt19937 random_;
};

}  // namespace meshwright
