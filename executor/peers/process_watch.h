// SPDX-License-Identifier: Apache-2.0
// Notices at once when another process of this host ends, however it does: the system tells (pidfd_open, Linux 5.3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace meshwright {

class ProcessWatch {
 public:
  ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  // `rank`: what wait() calls it. Where the system cannot tell, the process is not watched.
  void add(int rank, std::int64_t process);
  // Waits for one that ends; nullopt: stop() was called.
  [[nodiscard]] std::optional<int> wait() const;
  void stop();

 private:
  int stop_[2] = {-1, -1};                    // a pipe: wait() reads its end
  std::vector<std::pair<int, int>> watched_;  // rank, descriptor
};

// What numbers of processes are unique in: equal for processes that can watch each other.
[[nodiscard]] std::string process_namespace();
// The calling process's number there.
[[nodiscard]] std::int64_t own_process();
// "node17": the name of this host.
[[nodiscard]] std::string own_host_name();

}  // namespace meshwright
