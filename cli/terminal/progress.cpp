// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>

#include "cli/terminal/output.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr Seconds kBetweenLines(1.0), kBetweenUpdates(0.1);
constexpr std::size_t kWidth = 80;  // of a terminal that does not tell

std::atomic<bool> quiet = false;

std::size_t width_of_terminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kWidth;
}

}  // namespace

void be_quiet() { quiet = true; }
bool is_quiet() { return quiet; }

std::string roughly(Seconds time) {
  constexpr double kMinute = 60.0, kHour = 3600.0;
  const double seconds = std::max(1.0, time.si());
  if (seconds <= 2 * kMinute) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds <= 2 * kHour) return fmt::format("{:.0f} min", std::ceil(seconds / kMinute));
  return fmt::format("{:.0f} h", std::ceil(seconds / kHour));
}

std::string progress_text(std::size_t done, std::size_t total, Seconds elapsed) {
  const std::string counts = fmt::format("{}/{}", done, total);
  if (done == 0 || done >= total) return counts;
  const Seconds left = static_cast<double>(total - done) / static_cast<double>(done) * elapsed;
  return fmt::format("{}, about {} left", counts, roughly(left));
}

std::string fitting_line(const std::string& text, const std::string& end, std::size_t width) {
  constexpr std::size_t kDots = 3;                   // which shortened() adds
  const std::size_t taken = end.size() + kDots + 1;  // the last column stays free: a line that fills it would wrap
  if (text.size() + end.size() < width) return text + end;
  return width > taken ? shortened(text, width - taken) + end : shortened(end, width - std::min(width, kDots + 1));
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1), begin_(now()) {}

Progress::~Progress() {
  if (open_) std::fputs("\r\033[K", stderr);
}

void Progress::operator()(const std::string& text) { show(text, ""); }

void Progress::show(const std::string& text, const std::string& end) {
  if (is_quiet()) return;
  const Seconds time = now();
  if (shown_ && time - *shown_ < (terminal_ ? kBetweenUpdates : kBetweenLines)) return;
  shown_ = time;
  if (terminal_) {
    std::fputs(("\r\033[K" + fitting_line(printable(text), end, width_of_terminal())).c_str(), stderr);
    open_ = true;
  } else {
    std::fputs((printable(text) + end + "\n").c_str(), stderr);
  }
  std::fflush(stderr);
}

void Progress::operator()(const std::string& text, std::size_t done, std::size_t total) {
  show(text, " " + progress_text(done, total, now() - begin_));
}

}  // namespace meshwright
