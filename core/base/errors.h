// SPDX-License-Identifier: Apache-2.0
// Errors by who has to act: each type ends the command with its own exit code (cli/main.cpp).
//
//   InputError      2  the caller's input is wrong; one sentence: the place, what was expected, what to do
//   InternalError   3  a bug in this program; caught by main only
//   SystemError     4  a file, SQLite, a thread, a device driver
//   NoFeasiblePlan  5  the input is right, but nothing fits; the message names the limit
//
// Expected outcomes (no plan inside a search, no profile entry) are values, not exceptions; NoFeasiblePlan is thrown
// only where a whole command has nothing left to return.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace meshwright {

struct InputError : std::runtime_error {
  using runtime_error::runtime_error;
};
struct InternalError : std::logic_error {
  using logic_error::logic_error;
};
struct SystemError : std::runtime_error {
  using runtime_error::runtime_error;
};
struct NoFeasiblePlan : std::runtime_error {
  using runtime_error::runtime_error;
};

// Throws InputError with the formatted sentence unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> sentence, Args&&... args) {
  if (!condition) throw InputError(fmt::format(sentence, std::forward<Args>(args)...));
}

}  // namespace meshwright

// An invariant of this program, checked in every build: throws InternalError with the place and the formatted sentence.
#define MW_CHECK(condition, ...)                                                                                 \
  do {                                                                                                           \
    if (!(condition))                                                                                            \
      throw ::meshwright::InternalError(                                                                         \
          fmt::format("{}:{}: {} does not hold: {}", __FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__))); \
  } while (false)
