// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/goodput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/base/errors.h"

namespace meshwright::goodput_test {
namespace {

// A year between failures of one device, 10 s a step.
FailureModel model(int devices, double checkpoint, double restart) {
  FailureModel model;
  model.mean_time_between_failures = Seconds(3e7);
  model.devices = devices;
  model.step = Seconds(10.0);
  model.checkpoint = Seconds(checkpoint);
  model.restart = Seconds(restart);
  return model;
}

TEST(Goodput, OfDevicesThatHardlyFailIsAllOfTheTime) {
  FailureModel never = model(1, 0.0, 0.0);
  never.mean_time_between_failures = Seconds(1e15);
  EXPECT_NEAR(expected_goodput(never).share, 1.0, 1e-9);
}

TEST(Goodput, LosesTheCheckpointsWhereNothingFails) {
  FailureModel never = model(1, 5.0, 60.0);
  never.mean_time_between_failures = Seconds(1e15);
  never.steps_between_checkpoints = 2;  // 20 s of training, 5 s of writing
  EXPECT_NEAR(expected_goodput(never).share, 20.0 / 25.0, 1e-9);
}

TEST(Goodput, FailuresOfManyDevicesComeAsOftenAsThereAreDevices) {
  EXPECT_DOUBLE_EQ(expected_goodput(model(10000, 30.0, 300.0)).between_failures.si(), 3000.0);
}

// Young's first-order interval: sqrt(2 * checkpoint * between failures) = sqrt(2 * 30 * 30000) = 1342 s.
TEST(Goodput, BestIntervalIsNearYoungsWhereFailuresAreRare) {
  EXPECT_NEAR(expected_goodput(model(1000, 30.0, 300.0)).steps_between_checkpoints, 134, 3);
}

TEST(Goodput, NoOtherIntervalIsBetterThanTheBest) {
  for (const int devices : {16, 1000, 10000, 100000}) {
    FailureModel asked = model(devices, 20.0, 120.0);
    const Goodput best = expected_goodput(asked);
    for (int steps = 1; steps < 3000; ++steps) {
      asked.steps_between_checkpoints = steps;
      ASSERT_LE(expected_goodput(asked).share, best.share * (1 + 1e-12)) << devices << " devices, " << steps;
    }
  }
}

TEST(Goodput, FallsWithEveryThingThatGetsWorse) {
  const double share = expected_goodput(model(5000, 30.0, 300.0)).share;
  EXPECT_LT(expected_goodput(model(6000, 30.0, 300.0)).share, share);
  EXPECT_LT(expected_goodput(model(5000, 40.0, 300.0)).share, share);
  EXPECT_LT(expected_goodput(model(5000, 30.0, 400.0)).share, share);
}

// An own simulation: runs of 50 steps and a checkpoint (530 s), done again from their begin after a failure and a
// restart (200 s) that may fail, too.
TEST(Goodput, IsWhatManyRandomFailuresLeave) {
  FailureModel asked = model(20000, 30.0, 200.0);  // 1500 s between failures
  asked.steps_between_checkpoints = 50;
  std::mt19937_64 random(7);
  std::exponential_distribution<double> until_failure(1.0 / 1500.0);
  double wall = 0.0;
  constexpr int kRuns = 40000;
  for (int run = 0; run < kRuns; ++run) {
    for (double failure = until_failure(random); failure < 530.0; failure = until_failure(random)) {
      wall += failure;
      for (double again = until_failure(random); again < 200.0; again = until_failure(random)) wall += again;
      wall += 200.0;
    }
    wall += 530.0;
  }
  const double published = expected_goodput(asked).wall_per_step.si() * 50;
  EXPECT_NEAR(wall / kRuns / published, 1.0, 0.01);
}

TEST(Goodput, RefusesWhatCannotBe) {
  EXPECT_THROW((void)expected_goodput(model(0, 1.0, 1.0)), InputError);
  EXPECT_THROW((void)expected_goodput(model(1, -1.0, 1.0)), InputError);
  EXPECT_THROW((void)expected_goodput(model(1, 1.0, -1.0)), InputError);
  FailureModel asked = model(1, 1.0, 1.0);
  asked.mean_time_between_failures = Seconds(0.0);
  EXPECT_THROW((void)expected_goodput(asked), InputError);
  asked = model(1, 1.0, 1.0);
  asked.steps_between_checkpoints = 0;
  EXPECT_THROW((void)expected_goodput(asked), InputError);
}

TEST(Goodput, IsNothingWhereNoStepEverEnds) {
  FailureModel asked = model(1, 1.0, 1.0);
  asked.mean_time_between_failures = Seconds(1e-3);
  asked.steps_between_checkpoints = 100;
  EXPECT_EQ(expected_goodput(asked).share, 0.0);
  EXPECT_TRUE(std::isinf(expected_goodput(asked).wall_per_step.si()));
}

}  // namespace
}  // namespace meshwright::goodput_test
