// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/event_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"

namespace meshwright::event_lanes_test {
namespace {

TEST(EventLanes, HaveNothingPendingAtFirst) { EXPECT_EQ(EventLanes(3, 2).time(), EventLanes::kNever); }

// Against a list that is searched: slots in lanes of durations 0, 7 and 14, loose ones, and some that are moved.
TEST(EventLanes, GiveEventsInTheOrderOfTheirTimes) {
  constexpr std::size_t kSlots = 9;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    EventLanes events(kSlots, 3);
    std::vector<std::int64_t> pending(kSlots, EventLanes::kNever);
    std::int64_t now = 0;
    for (int change = 0; change < 300; ++change) {
      const auto slot = static_cast<std::size_t>(random.below(kSlots));
      if (pending[slot] == EventLanes::kNever) {
        const int lane = random.below(4) - 1;
        pending[slot] = now + (lane == EventLanes::kNoLane ? random.below(30) : 7 * lane);
        events.add(slot, lane, pending[slot]);
      } else if (random.below(4) == 0) {
        pending[slot] = now + random.below(30);
        events.move(slot, pending[slot]);
      }
      ASSERT_EQ(events.time(), *std::min_element(pending.begin(), pending.end())) << "seed " << seed;
      if (random.below(2) == 0 || events.time() == EventLanes::kNever) continue;
      now = events.time();
      const std::size_t taken = events.take();
      ASSERT_EQ(pending[taken], now) << "seed " << seed;
      pending[taken] = random.below(2) == 0 ? EventLanes::kNever : now + 7;
      if (pending[taken] == EventLanes::kNever) {
        events.clear(taken);
      } else {
        events.add(taken, random.below(3) == 0 ? EventLanes::kNoLane : 1, pending[taken]);
      }
    }
  }
}

}  // namespace
}  // namespace meshwright::event_lanes_test
