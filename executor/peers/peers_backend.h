// SPDX-License-Identifier: Apache-2.0
// What one of several processes runs of a Program: a block of its logical devices, by a Backend of its own; groups and
// messages reach those of its peers.
//
// Every process makes the same groups and messages, in the same order. A wait for a peer ends with Aborted when the
// run's Abort is raised, if the Peers watch it.
#pragma once

#include <cstdint>

#include "executor/device/backend.h"
#include "executor/peers/peers.h"

namespace meshwright {

class PeersBackend final : public Backend {
 public:
  // `devices`: of all processes; each runs at least one, else this is an InputError. `local` and `peers` outlive it and
  // what it makes.
  PeersBackend(Backend& local, Peers& peers, int devices);

  // The first device of a process; of process `processes`: how many devices there are.
  [[nodiscard]] static int first_device(int process, int processes, int devices) {
    return static_cast<int>((std::int64_t{process} * devices + processes - 1) / processes);
  }

  [[nodiscard]] bool runs_here(DeviceId device) const override { return process_of(device) == peers_.rank(); }
  [[nodiscard]] Peers* peers() override { return &peers_; }
  [[nodiscard]] bool runs_blocks() const override { return local_.runs_blocks(); }
  [[nodiscard]] DType stored(DType type) const override { return local_.stored(type); }
  [[nodiscard]] std::unique_ptr<Device> make_device(DeviceId device) override;
  [[nodiscard]] std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override;
  [[nodiscard]] bool names_work() const override { return local_.names_work(); }
  [[nodiscard]] std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override;
  // None where something of this process passes through the hosts, which a replayed step leaves out, or is a message to
  // another process, whose buffers are chosen as steps go. REQUIRES: all groups and messages are made.
  [[nodiscard]] ReplayerResult make_replayer(int devices, Abort& abort) override;

 private:
  [[nodiscard]] int process_of(DeviceId device) const;

  Backend& local_;
  Peers& peers_;
  const int devices_;
  std::uint64_t groups_ = 0, channels_ = 0;  // made so far that no process has alone
  bool is_captured_ = true;                  // what those of this process do may be
};

}  // namespace meshwright
