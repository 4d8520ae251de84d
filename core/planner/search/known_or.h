// SPDX-License-Identifier: Apache-2.0
// A map that several threads fill.
#pragma once

#include <mutex>
#include <utility>

namespace meshwright {

// What `known` has under the key, or what `make` returns. Made without the lock: two threads that ask for the same make
// the same. REQUIRES: entries stay where they are, as those of a std::map do.
template <class Map, class Key, class Make>
const typename Map::mapped_type& known_or(std::mutex& mutex, Map& known, const Key& key, const Make& make) {
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  auto made = make();
  const std::lock_guard lock(mutex);
  return known.try_emplace(key, std::move(made)).first->second;
}

}  // namespace meshwright
