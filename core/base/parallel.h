// SPDX-License-Identifier: Apache-2.0
// Independent work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace meshwright {

// work(0), ..., work(count - 1), each once, in any order, on `threads` threads including the caller's. When all have
// ended, rethrows the exception of the lowest index that failed.
template <class Work>
void for_each_index(std::size_t count, int threads, const Work& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(static_cast<std::size_t>(std::max(threads, 1)), count); ++t)
    others.emplace_back(run);
  run();
  others.clear();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace meshwright
