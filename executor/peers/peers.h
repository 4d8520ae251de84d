// SPDX-License-Identifier: Apache-2.0
// The processes that run one Program together. Each has the whole Program and runs one block of its devices. Data
// crosses from process to process through this interface, in the hosts' memory.
//
// All functions may be called by several threads at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "executor/base/abort.h"

namespace meshwright {

// The error of a process whose peer was lost: each of those that are left says it for itself, and then cannot leave
// together with the others.
struct PeerLost : SystemError {
  using SystemError::SystemError;
};

class Peers {
 public:
  virtual ~Peers() = default;
  [[nodiscard]] virtual int rank() const = 0;  // of this process, 0 for the first
  [[nodiscard]] virtual int size() const = 0;
  // "MPI, 4 processes on 2 hosts"
  [[nodiscard]] virtual std::string describe() const = 0;
  // The number of its host, 0 for that of the first process; its rank among the processes of its host, and their
  // number.
  [[nodiscard]] virtual int host() const = 0;
  [[nodiscard]] virtual int rank_on_host() const = 0;
  [[nodiscard]] virtual int size_on_host() const = 0;
  // Where each process runs, by rank.
  struct Place {
    int host;  // its number
    std::string host_name;
    std::int64_t process;  // the system's number of it
  };
  [[nodiscard]] virtual std::vector<Place> places() const = 0;

  // Does not wait. Messages with the same tag from one process to another arrive in order.
  virtual void send(int to, std::uint64_t tag, std::vector<std::byte> data) = 0;
  // Waits for the next message; throws Aborted if `abort` is raised before it arrives.
  [[nodiscard]] virtual std::vector<std::byte> receive(int from, std::uint64_t tag, const Abort& abort) = 0;

  // Raises `abort` when another process fails, until forget().
  virtual void watch(Abort& abort) = 0;
  virtual void forget(Abort& abort) = 0;
  // Tells the other processes that this one has failed. Only the first call has an effect.
  virtual void fail(const std::string& why) = 0;
  struct Failure {
    int rank;
    std::string why;
    bool lost = false;  // it reports nothing any more: it has died, or hangs
  };
  // The first that another process reported, or that was noticed of it.
  [[nodiscard]] virtual std::optional<Failure> failure() const = 0;
};

// During its lifetime the failure of another process raises `abort`.
class PeerWatch {
 public:
  PeerWatch(Peers& peers, Abort& abort) : peers_(peers), abort_(abort) { peers_.watch(abort_); }
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch() { peers_.forget(abort_); }

 private:
  Peers& peers_;
  Abort& abort_;
};

}  // namespace meshwright
