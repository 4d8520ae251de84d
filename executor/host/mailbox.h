// SPDX-License-Identifier: Apache-2.0
// Messages between two devices, one queue per channel. Sending copies the tile out of the sender's buffer and never
// blocks; receiving waits for the message of that transfer and copies it into place. Staging memory is reused, and is
// not counted as any device's memory.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "executor/base/abort.h"
#include "executor/device/backend.h"

namespace meshwright {

class Mailbox {
 public:
  explicit Mailbox(Abort& abort);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  template <class T>
  void send(int transfer, const T* array, const BoxView& box);
  // Overwrites the box, or adds to it. Messages of one transfer come in the order they were sent.
  template <class T>
  void receive(int transfer, T* array, const BoxView& box, bool accumulate);

 private:
  struct Message {
    int transfer = 0;
    std::vector<std::byte> data;
  };
  using MessagePtr = std::unique_ptr<Message>;

  [[nodiscard]] MessagePtr take_spare();
  [[nodiscard]] MessagePtr take(int transfer);  // waits
  [[nodiscard]] MessagePtr find(int transfer);  // null when it has not come yet

  const Abort& abort_;
  std::mutex mutex_;
  std::deque<MessagePtr> waiting_;
  std::vector<MessagePtr> spare_;
  Signal posted_;
};

}  // namespace meshwright
