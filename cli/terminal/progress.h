// SPDX-License-Identifier: Apache-2.0
// Where long work stands, on stderr.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/base/units.h"

namespace meshwright {

// One updating line on a terminal, as wide as that is; elsewhere plain lines, at most one a second. The line of a
// terminal is cleared by the destructor, so that what follows starts afresh. Nothing at all after be_quiet().
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void operator()(const std::string& text);
  // `done` of `total` like pieces of work are over: the line tells both, and about how long the rest takes.
  void operator()(const std::string& text, std::size_t done, std::size_t total);

 private:
  void show(const std::string& text, const std::string& end);

  const bool terminal_;
  const Seconds begin_;
  std::optional<Seconds> shown_;  // when, the latest
  bool open_ = false;
};

// "1 s", "40 s", "3 min", "2 h": rounded up.
[[nodiscard]] std::string roughly(Seconds time);

// "3/12, about 40 s left": what is left takes as long as what is done, piece by piece. Without a time while none is.
[[nodiscard]] std::string progress_text(std::size_t done, std::size_t total, Seconds elapsed);

// The line of a terminal of `width` columns: `text` gives way to `end`, which tells how far the work is.
[[nodiscard]] std::string fitting_line(const std::string& text, const std::string& end, std::size_t width);

// For the rest of the process: no progress, and nothing by tell.
void be_quiet();
[[nodiscard]] bool is_quiet();

}  // namespace meshwright
