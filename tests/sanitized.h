// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer watches this build, where searches take five to ten times the processor time: slow tests draw
// fewer cases there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace meshwright {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// As many as are asked for; under a sanitizer a tenth of them, but one.
template <class Count>
constexpr Count fewer(Count count) {
  return kSanitized ? std::max(Count{1}, static_cast<Count>(count / 10)) : count;
}

// The first of them, as many as `fewer` says.
template <class T>
std::vector<T> fewer_of(std::vector<T> all) {
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(fewer(all.size())), all.end());
  return all;
}

}  // namespace meshwright
