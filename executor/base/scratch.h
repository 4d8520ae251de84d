// SPDX-License-Identifier: Apache-2.0
// Memory of one device for the time of one collective or message, given back in the reverse order in which it was
// taken. It stays for the next one: nothing is allocated once each has been done.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/base/memory_pool.h"

namespace meshwright {

class Scratch {
 public:
  explicit Scratch(Storage& storage) : storage_(storage) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  [[nodiscard]] std::size_t size() const {
    std::size_t all = 0;
    for (const Level& level : levels_) all += level.size;
    return all;
  }

  // The contents are whatever they were; given back when it goes.
  class Taken {
   public:
    Taken(Scratch& scratch, std::size_t size);
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken();
    [[nodiscard]] std::byte* data() const { return data_; }

   private:
    Scratch& scratch_;
    std::byte* data_;
  };

 private:
  // One for each depth of nesting, as large as the largest request at that depth.
  struct Level {
    std::byte* data = nullptr;
    std::size_t size = 0;
  };
  Storage& storage_;
  std::vector<Level> levels_;
  std::size_t depth_ = 0;
};

}  // namespace meshwright
