// SPDX-License-Identifier: Apache-2.0
// Events in the order of (time, sequence): of two at the same time the one pushed first comes first, so a simulation is
// a function of its input alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/errors.h"
#include "core/base/units.h"

namespace meshwright {

struct Event {
  SimTime time;
  std::uint32_t sequence;
  std::int32_t what;
};

class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }

  // REQUIRES: `time` is not before that of the last event popped.
  void push(SimTime time, std::int32_t what) {
    heap_.push_back({time, sequence_++, what});
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }
  Event pop() {
    MW_CHECK(!heap_.empty(), "pop of an empty queue");
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
    }
  };

  std::vector<Event> heap_;
  std::uint32_t sequence_ = 0;
};

}  // namespace meshwright
