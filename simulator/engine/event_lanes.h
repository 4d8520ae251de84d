// SPDX-License-Identifier: Apache-2.0
// Pending events in the order of their times, at most one per slot.
//
// What takes the same time ends in the order in which it began. So what takes one of few durations stands in a list per
// duration, its lane, and only the heads of the lanes compete; an event costs the same however many others are pending.
// The others compete by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engine/winner_tree.h"

namespace meshwright {

class EventLanes {
 public:
  static constexpr std::int64_t kNever = WinnerTree::kNever;
  static constexpr int kNoLane = -1;

  EventLanes(std::size_t slots, std::size_t lanes)
      : slots_(slots), lanes_(lanes), others_(lanes), heads_(lanes + 1), loose_(slots) {}

  // The time of the next event; kNever if nothing is pending. Among events of one moment any may be next.
  [[nodiscard]] std::int64_t time() const { return heads_.least().key; }

  // The slot whose event is the next and happens now: what follows is add, move or clear for that slot, before anything
  // else is asked. REQUIRES: time() != kNever.
  std::size_t take() {
    const auto lane = static_cast<std::size_t>(heads_.least().slot);
    if (lane == others_) return static_cast<std::size_t>(loose_.least().slot);
    const auto slot = static_cast<std::size_t>(lanes_[lane].first);
    unlink(slot);
    return slot;
  }

  // REQUIRES: nothing of the slot is pending but what happens now; `time` is not before the last one of the lane.
  void add(std::size_t slot, int lane, std::int64_t time) {
    if (lane == kNoLane) return set_loose(slot, time);
    clear(slot);
    Lane& own = lanes_[static_cast<std::size_t>(lane)];
    slots_[slot] = {time, own.last, kNone, lane};
    if (own.last == kNone) {
      own.first = static_cast<int>(slot);
      heads_.set(static_cast<std::size_t>(lane), time);
    } else {
      slots_[static_cast<std::size_t>(own.last)].after = static_cast<int>(slot);
    }
    own.last = static_cast<int>(slot);
  }

  // The stream may already have a pending event.
  void move(std::size_t slot, std::int64_t time) {
    if (slots_[slot].lane >= 0) unlink(slot);
    set_loose(slot, time);
  }

  // What happens now is followed by nothing.
  void clear(std::size_t slot) {
    if (slots_[slot].lane != kLoose) return;
    set_loose(slot, kNever);
    slots_[slot].lane = kNoLane;
  }

 private:
  static constexpr int kNone = -1, kLoose = -2;
  struct Slot {
    std::int64_t time = 0;
    int before = kNone, after = kNone;  // in its lane
    int lane = kNoLane;                 // kNoLane: nothing is pending
  };
  struct Lane {
    int first = kNone, last = kNone;
  };

  void unlink(std::size_t slot) {
    Slot& own = slots_[slot];
    Lane& lane = lanes_[static_cast<std::size_t>(own.lane)];
    (own.after == kNone ? lane.last : slots_[static_cast<std::size_t>(own.after)].before) = own.before;
    if (own.before == kNone) {
      lane.first = own.after;
      heads_.set(static_cast<std::size_t>(own.lane),
                 own.after == kNone ? kNever : slots_[static_cast<std::size_t>(own.after)].time);
    } else {
      slots_[static_cast<std::size_t>(own.before)].after = own.after;
    }
    own.lane = kNoLane;
  }

  void set_loose(std::size_t slot, std::int64_t time) {
    slots_[slot].lane = kLoose;
    loose_.set(slot, time);
    if (heads_.key(others_) != loose_.least().key) heads_.set(others_, loose_.least().key);
  }

  std::vector<Slot> slots_;
  std::vector<Lane> lanes_;
  std::size_t others_;  // in heads_: those that are in no lane
  WinnerTree heads_;    // [lane] the time of its first
  WinnerTree loose_;    // [slot]
};

}  // namespace meshwright
