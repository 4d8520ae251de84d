// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/output.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "cli/terminal/progress.h"
#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

std::mutex receivers_mutex;
Redirection::Receive receive_data, receive_warning;  // empty: stdout, stderr

// False: nobody receives, so the text is to be written.
bool received(const Redirection::Receive& receiver, const std::string& text) {
  const std::lock_guard<std::mutex> lock(receivers_mutex);
  if (!receiver) return false;
  receiver(text);
  return true;
}

}  // namespace

Redirection::Redirection(Receive data, Receive warning) {
  const std::lock_guard<std::mutex> lock(receivers_mutex);
  MW_CHECK(!receive_data && !receive_warning, "two callers of one command");
  receive_data = std::move(data);
  receive_warning = std::move(warning);
}

Redirection::~Redirection() {
  const std::lock_guard<std::mutex> lock(receivers_mutex);
  receive_data = receive_warning = {};
}

void print(const std::string& text) { print_drawing(printable_lines(text)); }

void print_drawing(const std::string& drawing) {
  if (received(receive_data, drawing)) return;
  const bool written =
      std::fwrite(drawing.data(), 1, drawing.size(), stdout) == drawing.size() && std::fflush(stdout) == 0;
  if (!written) throw SystemError(fmt::format("standard output cannot be written ({}).", std::strerror(errno)));
}

void print(const Json& json) { print(json_text(json, 2) + "\n"); }

void tell(const std::string& line) {
  if (!is_quiet()) warn(line);
}

void warn(const std::string& line) {
  const std::string shown = printable(line);
  if (!received(receive_warning, shown)) std::fputs((shown + "\n").c_str(), stderr);
}

void expect_writable(const std::string& path, const std::vector<std::string>& others) {
  if (path.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  const auto location = [&](const std::string& file) {
    const fs::path whole = fs::weakly_canonical(file, error);
    return error ? fs::path(file) : whole;
  };
  for (const std::string& other : others)
    require(other.empty() || location(path) != location(other),
            "{}: the output would replace a file this command works with; give another path.", path);
  // A file is replaced, not overwritten: a device or a pipe of that name would be gone.
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    throw SystemError(fmt::format("{}: cannot be written (it is not a file); give another path.", path));
  const fs::path folder = fs::path(write_target(path)).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw SystemError(fmt::format("{}: cannot be written ({}).", path, std::strerror(errno)));
}

Seconds now() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::string in_milliseconds(Seconds time) { return fmt::format("{:.3f}", time.si() * 1e3); }
std::string in_gibibytes(Bytes bytes) { return fmt::format("{:.4g}", bytes / gibibytes(1)); }
std::string in_percent(double share) { return fmt::format("{:.1f}", share * 100); }
std::string as_text(double value) { return fmt::format("{}", value); }

}  // namespace meshwright
