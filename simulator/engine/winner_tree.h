// SPDX-License-Identifier: Apache-2.0
// The least of many keys, each of which changes at any time: a tournament (Knuth, The Art of Computer Programming 3,
// 5.4.1). A change is replayed upwards as far as it changes who wins; reading the least is free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshwright {

class WinnerTree {
 public:
  static constexpr std::int64_t kNever = INT64_MAX - 1;  // of a slot that has nothing pending

  struct Entry {
    std::int64_t key;
    std::int64_t slot;
  };

  explicit WinnerTree(std::size_t slots) {
    while (leaves_ < slots) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
    for (std::size_t n = leaves_; n < 2 * leaves_; ++n) nodes_[n] = {kNever, static_cast<std::int64_t>(n - leaves_)};
    for (std::size_t n = leaves_; n-- > 1;) nodes_[n] = nodes_[2 * n];
  }

  // The least key; of equal ones that of the lowest slot.
  [[nodiscard]] const Entry& least() const { return nodes_[1]; }
  [[nodiscard]] std::int64_t key(std::size_t slot) const { return nodes_[leaves_ + slot].key; }

  // REQUIRES: key <= kNever.
  void set(std::size_t slot, std::int64_t key) {
    Entry winner{key, static_cast<std::int64_t>(slot)};
    std::size_t node = leaves_ + slot;
    nodes_[node] = winner;
    for (; node > 1; node /= 2) {
      const Entry other = nodes_[node ^ 1];
      // All ones where the other wins: on the right (an odd node) ties are its own.
      const std::int64_t loses = (other.key - winner.key - static_cast<std::int64_t>(node & 1)) >> 63;
      winner.key = std::min(winner.key, other.key);
      winner.slot ^= (winner.slot ^ other.slot) & loses;
      Entry& parent = nodes_[node / 2];
      if (parent.slot == winner.slot && parent.key == winner.key) return;
      parent = winner;
    }
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<Entry> nodes_;  // [1] the root; [2 n] and [2 n + 1] what meets in n
};

}  // namespace meshwright
