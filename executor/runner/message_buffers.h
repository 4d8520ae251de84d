// SPDX-License-Identifier: Apache-2.0
// The memory in which messages between GPUs of one process lie until they are fetched, known before a Program runs.
//
// Sending waits for nobody, and a channel has a buffer for each message under way: as many as a sender can be ahead of
// a receiver. A message has been fetched when the sender has since received anything, over whatever devices, that was
// sent after that. What collectives wait for is left out, so that there may be fewer.
#pragma once

#include <vector>

#include "core/base/units.h"
#include "core/plan/program/folded_devices.h"
#include "core/plan/program/program.h"
#include "executor/ops/gpu_workspace.h"

namespace meshwright {

// In whole pages of this size the driver hands out memory; blocks of less than half of it share pages.
inline constexpr Bytes kGpuPage{2.0 * (1 << 20)};
// What a block takes of them.
[[nodiscard]] double in_pages(double bytes);
// A message's bytes, as its tensor is stored.
[[nodiscard]] double message_bytes(const Program& program, const Transfer& transfer, const StoredType& stored);

class MessageBuffers {
 public:
  // Follows what `senders` send and receive over as many devices as kMaxDevices; of more, what they know of each other
  // is left out. Of a folded Program only those that stand for others have lists: a message from a device that is
  // alike is taken to come from the one that stands for it, so that one or two may seem to be fetched sooner than they
  // are known to be in the whole program. REQUIRES: the program is sound (check_program).
  MessageBuffers(const Program& program, const std::vector<DeviceId>& senders, const StoredType& stored,
                 const FoldedDevices* folded = nullptr);
  static constexpr std::size_t kMaxDevices = 256;

  // What one device sends to another.
  struct Channel {
    DeviceId from{0}, to{0};
    std::int64_t most = 0;  // messages under way
    double largest = 0.0;   // bytes of one
  };
  [[nodiscard]] const std::vector<Channel>& channels() const { return channels_; }
  // The buffers that a device sends from, to all others. REQUIRES: it is one of the senders, or was reached from them.
  [[nodiscard]] Bytes of(DeviceId sender) const;

 private:
  std::vector<Channel> channels_;  // by sender, then by receiver
};

}  // namespace meshwright
