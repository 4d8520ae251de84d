// SPDX-License-Identifier: Apache-2.0
// Every expected number can be computed in one's head: a step of 100 s on one host, a run of 864 steps, which is a day.
#include "core/planner/cluster_size.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/errors.h"
#include "core/planner/bounds/work_bound.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::cluster_size_test {
namespace {

constexpr double kTokens = 864e3;  // 864 steps of 1000 tokens
constexpr Seconds kDay(86400.0);

// What a plan of so many hosts takes, and which numbers were planned.
struct Machine {
  std::function<std::optional<Seconds>(int)> step = [](int hosts) { return std::optional(Seconds(100.0 / hosts)); };
  std::function<Seconds(int)> bound = [](int) { return Seconds(0.0); };
  std::vector<int> planned = {}, kept = {};

  SizeSearch find(const SizeRequest& request) {
    return search_sizes(request, {.plan =
                                      [this](int hosts) {
                                        planned.push_back(hosts);
                                        return SizePlanner::Answer{step(hosts), step(hosts) ? "" : "does not fit"};
                                      },
                                  .bound = bound,
                                  .keep = [this](int hosts) { kept.push_back(hosts); }});
  }
};

SizeRequest request(int max_hosts) { return {.max_hosts = max_hosts, .tokens = kTokens, .tokens_per_step = 1000}; }

SizeRequest with_deadline(int max_hosts, double days) {
  SizeRequest wanted = request(max_hosts);
  wanted.deadline = days * kDay;
  return wanted;
}

SizeRequest with_price(int max_hosts, double price) {
  SizeRequest wanted = request(max_hosts);
  wanted.rates.price_per_hour = 10.0;
  wanted.max_price = price;
  return wanted;
}

TEST(ClusterSize, ARunCostsItsHostsForItsDays) {
  const RunCost cost = run_cost(kTokens, 1000, Seconds(100.0), 3, {.price_per_hour = 10.0, .watts = 5000.0});
  EXPECT_EQ(cost.steps, 864);
  EXPECT_DOUBLE_EQ(cost.time.si(), 86400.0);
  EXPECT_DOUBLE_EQ(*cost.price, 3 * 24 * 10.0);
  EXPECT_DOUBLE_EQ(*cost.kilowatt_hours, 3 * 24 * 5.0);
  EXPECT_EQ(run_cost(1001.0, 1000, Seconds(1.0), 1, {}).steps, 2);  // the last step is not full
  EXPECT_FALSE(run_cost(1001.0, 1000, Seconds(1.0), 1, {}).price);
}

TEST(ClusterSize, TheSmallestThatMeetsTheDeadlineIsBisected) {
  Machine machine;
  // A fifth of a day: 5 hosts.
  const SizeSearch sizes = machine.find(with_deadline(64, 0.2));
  EXPECT_EQ(sizes.chosen, 5);
  EXPECT_EQ(machine.planned, (std::vector<int>{1, 2, 4, 8, 6, 5}));
  EXPECT_EQ(machine.kept, (std::vector<int>{8, 6, 5}));
  EXPECT_FALSE(sizes.at(4).within);
  EXPECT_TRUE(sizes.at(5).within);
}

TEST(ClusterSize, WhatNoPlanCanMeetIsNotPlanned) {
  Machine machine;
  machine.bound = [](int hosts) { return Seconds(90.0 / hosts); };
  const SizeSearch sizes = machine.find(with_deadline(64, 0.2));
  EXPECT_EQ(sizes.chosen, 5);
  EXPECT_EQ(machine.planned, (std::vector<int>{8, 6, 5}));
  EXPECT_TRUE(sizes.at(4).ruled_out);
  EXPECT_DOUBLE_EQ(sizes.at(4).cost->time.si(), 864 * 22.5);
}

// 3 hosts take longer than 2: the powers of two find what a plain bisection would not.
TEST(ClusterSize, SizesThatAreNotMonotoneAreFoundByTheirPowers) {
  Machine machine;
  machine.step = [](int hosts) { return std::optional(Seconds((hosts & (hosts - 1)) == 0 ? 100.0 / hosts : 200.0)); };
  EXPECT_EQ(machine.find(with_deadline(12, 0.25)).chosen, 4);
  EXPECT_EQ(machine.find(with_deadline(12, 0.13)).chosen, 8);
}

TEST(ClusterSize, WhereNothingMeetsTheDeadlineTheFastestIsKnown) {
  Machine machine;
  machine.step = [](int hosts) { return std::optional(Seconds(100.0 / hosts)); };
  machine.bound = [](int hosts) { return Seconds(100.0 / hosts); };
  const SizeSearch sizes = machine.find(with_deadline(4, 0.1));
  EXPECT_FALSE(sizes.chosen);
  EXPECT_EQ(machine.planned, (std::vector<int>{4}));  // to say what can be met
  EXPECT_EQ(sizes.fastest, 4);
}

TEST(ClusterSize, TheFastestWithinThePrice) {
  Machine machine;
  // 100 s / h + 10 s: a host takes 110 s. Steps of h hosts: 864 (100 + 10 h) s of one host: 24 h (1 + h / 10) 10 each.
  machine.step = [](int hosts) { return std::optional(Seconds(100.0 / hosts + 10.0)); };
  const SizeSearch sizes = machine.find(with_price(64, 384.001));  // up to 6 hosts
  EXPECT_EQ(sizes.chosen, 6);
  EXPECT_NEAR(*sizes.at(6).cost->price, 240.0 * 1.6, 1e-9);
  EXPECT_EQ(machine.planned, (std::vector<int>{1, 2, 4, 8, 16, 6, 7}));
  EXPECT_EQ(machine.kept, (std::vector<int>{1, 2, 4, 6}));
  EXPECT_EQ(sizes.cheapest, 1);
  const SizeSearch none = machine.find(with_price(64, 240.0));
  EXPECT_FALSE(none.chosen);
  EXPECT_EQ(none.cheapest, 1);
}

// A step of 100 / h + 10 s on h hosts: 1 + h / 10 days / h, at a price of 240 (1 + h / 10).
TEST(ClusterSize, WithBothLimitsTheCheapestInTime) {
  Machine machine;
  machine.step = [](int hosts) { return std::optional(Seconds(100.0 / hosts + 10.0)); };
  SizeRequest wanted = with_price(64, 480.001);  // up to 10 hosts
  wanted.deadline = 0.3001 * kDay;               // from 5 hosts
  const SizeSearch sizes = machine.find(wanted);
  EXPECT_EQ(sizes.chosen, 5);
  EXPECT_NEAR(*sizes.at(5).cost->price, 240.0 * 1.5, 1e-9);
  EXPECT_TRUE(sizes.at(8).within);
  EXPECT_FALSE(sizes.at(4).within);
  EXPECT_EQ(machine.kept.back(), 5);
}

// One host recomputes so much that it is dearer than two: the cheapest in time is not the smallest in time.
TEST(ClusterSize, WithBothLimitsALargerSizeMayBeCheaper) {
  Machine machine;
  machine.step = [](int hosts) { return std::optional(Seconds(hosts < 4 ? 200.0 / hosts : 50.0)); };
  SizeRequest wanted = with_price(8, 1000.0);
  wanted.deadline = 2.5 * kDay;
  EXPECT_EQ(machine.find(wanted).chosen, 1);  // 480 on 1 and 2 hosts, and on 4: the smallest
  machine.step = [](int hosts) { return std::optional(Seconds(hosts < 4 ? 200.0 / hosts : 40.0)); };
  EXPECT_EQ(machine.find(wanted).chosen, 4);  // 4 x 0.4 days x 240 = 384
}

TEST(ClusterSize, OfTwoLimitsThatExcludeEachOtherBothAnswersAreKnown) {
  Machine machine;
  machine.step = [](int hosts) { return std::optional(Seconds(100.0 / hosts + 10.0)); };
  machine.bound = [](int hosts) { return Seconds(100.0 / hosts); };
  SizeRequest wanted = with_price(64, 300.001);  // up to 2 hosts: 240 (1 + 2 / 10) = 288
  wanted.deadline = 0.3001 * kDay;               // from 5 hosts
  SizeSearch sizes = machine.find(wanted);
  EXPECT_FALSE(sizes.chosen);
  EXPECT_EQ(sizes.fastest_in_price, 2);
  EXPECT_EQ(sizes.cheapest_in_time, 5);
  for (const SizedPlan& sized : sizes.sizes) EXPECT_FALSE(sized.within) << sized.hosts;
  wanted.max_price = 10.0;
  sizes = machine.find(wanted);
  EXPECT_FALSE(sizes.fastest_in_price);
  EXPECT_EQ(sizes.cheapest, 1);
  EXPECT_EQ(sizes.cheapest_in_time, 5);
  wanted.max_price = 300.001;
  wanted.deadline = 0.1 * kDay;
  sizes = machine.find(wanted);
  EXPECT_EQ(sizes.fastest_in_price, 2);
  EXPECT_FALSE(sizes.cheapest_in_time);
  EXPECT_EQ(sizes.fastest, 64);
}

// Whatever the times: no size that was planned is a better answer, and all of them are planned where all are powers.
TEST(ClusterSize, WithBothLimitsAgreesWithALookAtAllPowers) {
  std::uint32_t state = 7;
  const auto random = [&] { return (state = state * 1664525u + 1013904223u) >> 24; };
  for (int round = 0; round < 200; ++round) {
    std::map<int, double> steps;
    for (const int hosts : {1, 2, 4}) steps[hosts] = 20.0 + random() / hosts;
    steps[3] = 1e6;
    Machine machine;
    machine.step = [&](int hosts) { return std::optional(Seconds(steps.at(hosts))); };
    machine.bound = [&](int hosts) { return Seconds(0.9 * steps.at(hosts)); };
    SizeRequest wanted = with_price(4, 10.0 * random());
    wanted.deadline = 0.01 * random() * kDay;
    std::optional<int> best;
    const auto cost_on = [&](int hosts) { return run_cost(kTokens, 1000, Seconds(steps[hosts]), hosts, wanted.rates); };
    for (const int hosts : {1, 2, 4}) {
      const RunCost cost = cost_on(hosts);
      if (cost.time > *wanted.deadline || *cost.price > *wanted.max_price) continue;
      if (!best || *cost.price < *cost_on(*best).price) best = hosts;
    }
    EXPECT_EQ(machine.find(wanted).chosen, best) << round;
  }
}

TEST(ClusterSize, StrongScalingEndsWhereLargerSizesAreNoFaster) {
  Machine machine;
  machine.step = [](int hosts) { return std::optional(Seconds(100.0 / std::min(hosts, 8))); };
  SizeRequest wanted = request(64);
  wanted.every_power = true;
  const SizeSearch sizes = machine.find(wanted);
  EXPECT_EQ(sizes.chosen, 8);
  EXPECT_EQ(sizes.scaling_ends, 8);
  machine.step = [](int hosts) { return std::optional(Seconds(100.0 / hosts)); };
  EXPECT_FALSE(machine.find(wanted).scaling_ends);
}

TEST(ClusterSize, TheFrontHoldsWhatIsNotBeatenInDaysAndPrice) {
  // One host does not fit; 4 hosts are dearer than 2 and faster; 8 are no faster than 4; 16 are faster and dear.
  Machine machine;
  const std::map<int, double> steps = {{2, 50.0}, {4, 30.0}, {8, 30.0}, {16, 10.0}};
  machine.step = [&](int hosts) {
    return steps.contains(hosts) ? std::optional(Seconds(steps.at(hosts))) : std::nullopt;
  };
  SizeRequest wanted = with_price(16, 1e9);
  wanted.max_price.reset();
  wanted.every_power = true;
  const SizeSearch sizes = machine.find(wanted);
  std::vector<int> front;
  for (const SizedPlan& sized : sizes.sizes)
    if (sized.front) front.push_back(sized.hosts);
  EXPECT_EQ(front, (std::vector<int>{2, 4, 16}));
  EXPECT_EQ(sizes.at(1).why, "does not fit");
  EXPECT_EQ(sizes.chosen, 16);
}

// Twice the hosts take half as long, for the same price.
TEST(ClusterSize, OfEqualPricesTheSmallestIsTheCheapestAndTheFastestTheFront) {
  Machine machine;
  SizeRequest wanted = with_price(8, 1e9);
  wanted.max_price.reset();
  wanted.every_power = true;
  const SizeSearch sizes = machine.find(wanted);
  EXPECT_EQ(sizes.cheapest, 1);
  EXPECT_EQ(sizes.fastest, 8);
  for (const SizedPlan& sized : sizes.sizes) EXPECT_EQ(sized.front, sized.hosts == 8) << sized.hosts;
}

TEST(ClusterSize, AStopKeepsWhatWasPlanned) {
  int left = 2;
  const SizePlanner planner{.plan =
                                [](int hosts) {
                                  return SizePlanner::Answer{Seconds(100.0 / hosts), ""};
                                },
                            .bound = [](int) { return Seconds(0.0); },
                            .stop = [&left] { return left == 0; }};
  SizePlanner counting = planner;
  counting.plan = [&](int hosts) {
    --left;
    return planner.plan(hosts);
  };
  const SizeSearch sizes = search_sizes(with_deadline(64, 0.7), counting);
  EXPECT_TRUE(sizes.interrupted);
  EXPECT_EQ(sizes.sizes.size(), 1u);  // the second was under way
  EXPECT_FALSE(sizes.chosen);
}

// Real plans: of what any size takes, nothing is less than its bound, and the answer is a size's own plan.
TEST(ClusterSize, OfPlansIsTheSizeOfThePlanItself) {
  const auto request_of = [](int hosts) {
    return ask("mlp:layers=2,hidden=64", "p3.16xlarge:" + std::to_string(hosts));
  };
  const SizePlanner planner{.plan =
                                [&](int hosts) {
                                  const PlanningResult result = planned(request_of(hosts));
                                  return SizePlanner::Answer{result.plan->predicted.step_time, ""};
                                },
                            .bound =
                                [&](int hosts) {
                                  const PlanRequest of = request_of(hosts);
                                  return work_bound(of, *make_analytic_cost_model(of.cluster));
                                }};
  SizeRequest wanted = request(4);
  wanted.every_power = true;
  const SizeSearch sizes = search_sizes(wanted, planner);
  for (const SizedPlan& sized : sizes.sizes) {
    EXPECT_EQ(*sized.step, planned(request_of(sized.hosts)).plan->predicted.step_time);
    EXPECT_GE(*sized.step, planner.bound(sized.hosts));
  }
  EXPECT_EQ(sizes.sizes.size(), 3u);
}

}  // namespace
}  // namespace meshwright::cluster_size_test
