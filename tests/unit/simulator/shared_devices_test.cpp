// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/shared_devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/errors.h"
#include "tests/unit/task_graph_fixture.h"

namespace meshwright::shared_devices_test {
namespace {

TEST(SharedDevices, HaveHalfTheSpeedWhileTwoCompute) {
  HandmadeGraph made(2);
  const TaskId longer = made.forward(0, 100), shorter = made.forward(1, 30);
  const TaskTimes times = run_by_events(share_devices(made.graph, {0, 0}));
  EXPECT_EQ(times.end[shorter.index()].ps, 60);  // half of the speed
  EXPECT_EQ(times.end[longer.index()].ps, 130);  // 30 done by 60, the other 70 alone
}

TEST(SharedDevices, LoseNothingToEachOtherOneAfterTheOther) {
  HandmadeGraph made(3);
  const TaskId first = made.forward(0, 100);
  const TaskId second = made.forward(1, 50, {first});
  const TaskId apart = made.forward(2, 70);
  const TaskTimes times = run_by_events(share_devices(made.graph, {4, 4, 7}));
  EXPECT_EQ(times.end[second.index()].ps, 150);
  EXPECT_EQ(times.end[apart.index()].ps, 70);
}

TEST(SharedDevices, LeaveDevicesOfTheirOwnAsTheyWere) {
  HandmadeGraph made(2);
  const StreamId channel = made.channel(0, 1);
  const TaskId first = made.forward(0, 100);
  const TaskId sent = made.message(channel, 10, TaskClass::kNoRoute, {first});
  made.forward(1, 50, {sent});
  made.forward(0, 20);
  const TaskGraph shared = share_devices(made.graph, {1, 0});
  check_task_graph(shared);
  EXPECT_TRUE(shared.links.routes.empty());
  EXPECT_EQ(run_by_events(shared).end, run_by_events(made.graph).end);
}

TEST(SharedDevices, DoTwoHalvesAtFullSpeedAndThreeInTurns) {
  const auto ends_of = [](int devices, double part) {
    HandmadeGraph made(devices);
    for (int d = 0; d < devices; ++d) made.forward(d, 100);
    const std::vector<int> one(static_cast<std::size_t>(devices), 0);
    const std::vector<double> parts(made.graph.classes.size(), part);
    return run_by_events(share_devices(made.graph, one, parts)).step.ps;
  };
  EXPECT_EQ(ends_of(1, 0.5), 100);  // no faster alone
  EXPECT_EQ(ends_of(2, 0.5), 100);
  EXPECT_EQ(ends_of(3, 0.5), 150);
  EXPECT_EQ(ends_of(2, 1.0), 200);
}

TEST(SharedDevices, GiveALargeTaskWhatASmallOneLeaves) {
  HandmadeGraph made(2);
  const TaskId large = made.forward(0, 100), small = made.forward(1, 100);
  const TaskTimes times = run_by_events(share_devices(made.graph, {0, 0}, {1.0, 0.25}));
  EXPECT_EQ(times.end[small.index()].ps, 100);  // a quarter is less than its half
  EXPECT_EQ(times.end[large.index()].ps, 125);  // three quarters for 100, then the last 25 alone
}

// However the work depends: all of it is done, by one device no faster than one after the other, and never sooner than
// on devices of their own.
TEST(SharedDevices, TakeNoLessThanTheirWork) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    HandmadeGraph made(4);
    std::int64_t work = 0;
    std::vector<TaskId> all;
    for (int t = 0; t < 30; ++t) {
      const auto ps = std::uniform_int_distribution<std::int64_t>(0, 1000)(random);
      work += ps;
      std::vector<TaskId> after;
      if (!all.empty() && random() % 2 == 0) after.push_back(all[random() % all.size()]);
      all.push_back(made.forward(static_cast<int>(random() % 4), ps, after));
    }
    const SimTime alone = run_by_events(made.graph).step;
    const SimTime together = run_by_events(share_devices(made.graph, {0, 0, 0, 0})).step;
    // Ends are rounded to a picosecond each.
    EXPECT_NEAR(static_cast<double>(together.ps), static_cast<double>(work), 30.0);
    const SimTime by_two = run_by_events(share_devices(made.graph, {0, 1, 0, 1})).step;
    EXPECT_GE(by_two.ps, alone.ps - 30);
    EXPECT_LE(by_two.ps, together.ps + 30);
  }
}

}  // namespace
}  // namespace meshwright::shared_devices_test
