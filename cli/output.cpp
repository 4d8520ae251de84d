// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/errors.h"

namespace meshwright {

void print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw SystemError(fmt::format("standard output cannot be written ({}).", std::strerror(errno)));
}

void print(const Json& json) { print(json.dump(2) + "\n"); }

void expect_writable(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw SystemError(fmt::format("{}: cannot be written ({}).", path, std::strerror(errno)));
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (open_) std::fputs("\r\033[K", stderr);
}

void Progress::operator()(const std::string& text) {
  if (terminal_) {
    std::fputs(fmt::format("\r\033[K{}", text.substr(0, 118)).c_str(), stderr);
    open_ = true;
  } else {
    std::fputs((text + "\n").c_str(), stderr);
  }
  std::fflush(stderr);
}

Seconds now() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::string in_milliseconds(Seconds time) { return fmt::format("{:.3f}", time.si() * 1e3); }
std::string in_gibibytes(Bytes bytes) { return fmt::format("{:.4g}", bytes / gibibytes(1)); }
std::string in_percent(double share) { return fmt::format("{:.1f}", share * 100); }
std::string as_text(double value) { return fmt::format("{}", value); }

}  // namespace meshwright
