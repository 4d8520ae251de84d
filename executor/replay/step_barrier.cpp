// SPDX-License-Identifier: Apache-2.0
#include "executor/replay/step_barrier.h"

#include "executor/peers/peer_tags.h"

namespace meshwright {

StepBarrier::StepBarrier(int devices, Abort& abort, Peers* peers)
    : abort_(abort), peers_(peers), arrived_(devices, abort), released_(devices, abort) {}

void StepBarrier::arrive_and_wait(bool first) {
  arrived_.arrive_and_wait();
  if (peers_ == nullptr) return;
  if (first) meet_peers();
  // Only now may devices of this process go on: all other processes have come.
  released_.arrive_and_wait();
}

bool StepBarrier::agree(bool first, bool wish) {
  if (first) wish_ = wish;
  arrive_and_wait(first);
  const bool agreed = wish_;
  arrived_.arrive_and_wait();  // nobody wishes again before all have read
  return agreed;
}

void StepBarrier::meet_peers() {
  const std::uint64_t tag = peer_tag(PeerTag::Step, 0);
  // Process 0 waits for all others, and then releases them.
  if (peers_->rank() != 0) {
    peers_->send(0, tag, {});
    const std::vector<std::byte> wish = peers_->receive(0, tag, abort_);
    wish_ = wish.size() == 1 && wish[0] != std::byte{0};
    return;
  }
  for (int other = 1; other < peers_->size(); ++other) static_cast<void>(peers_->receive(other, tag, abort_));
  for (int other = 1; other < peers_->size(); ++other) peers_->send(other, tag, {std::byte{wish_}});
}

}  // namespace meshwright
