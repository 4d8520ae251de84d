// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/process_watch.h"

#include <sys/poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/errors.h"

namespace meshwright {

ProcessWatch::ProcessWatch() {
  if (pipe(stop_) != 0) throw SystemError(fmt::format("watching processes: {}", std::strerror(errno)));
}

ProcessWatch::~ProcessWatch() {
  for (const int end : stop_) close(end);
  for (const auto& [rank, descriptor] : watched_) close(descriptor);
}

void ProcessWatch::add(int rank, std::int64_t process) {
#ifdef SYS_pidfd_open
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor >= 0) watched_.emplace_back(rank, descriptor);
#else
  static_cast<void>(rank), static_cast<void>(process);
#endif
}

std::optional<int> ProcessWatch::wait() const {
  std::vector<pollfd> all = {{stop_[0], POLLIN, 0}};
  for (const auto& [rank, descriptor] : watched_) all.push_back({descriptor, POLLIN, 0});
  constexpr int kForEver = -1;
  while (poll(all.data(), all.size(), kForEver) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  if (all.front().revents != 0) return std::nullopt;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].revents != 0) return watched_[i - 1].first;
  return std::nullopt;
}

void ProcessWatch::stop() {
  constexpr char kAnything = 0;
  [[maybe_unused]] const ssize_t written = write(stop_[1], &kAnything, 1);
}

std::string process_namespace() {
  std::array<char, 128> text{};
  const ssize_t size = readlink("/proc/self/ns/pid", text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
}

std::int64_t own_process() { return getpid(); }

std::string own_host_name() {
  std::array<char, 256> text{};
  if (gethostname(text.data(), text.size() - 1) != 0) return "unknown";
  return text.data();
}

}  // namespace meshwright
