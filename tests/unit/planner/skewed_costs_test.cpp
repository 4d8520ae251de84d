// SPDX-License-Identifier: Apache-2.0
// Costs that are off on purpose are off by as much as is asked for, and the same every time.
#include "core/planner/skewed_costs.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/planning_fixture.h"

namespace meshwright::skewed_costs_test {
namespace {

struct Costs {
  Cluster cluster = find_cluster("cpu:4");
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);
  MeshAxis axis = make_logical_mesh(cluster, {1, 4}, {1, 4}).axes[1];
};

TEST(SkewedCosts, OfCollectivesAreTheShareThatIsAskedFor) {
  const Costs of;
  const SkewedCosts half(*of.costs, {.collectives = 0.5});
  const auto time = [&](const CostModel& costs) {
    return costs.collective(CollectiveKind::AllReduce, Bytes(1e6), of.axis).time;
  };
  EXPECT_EQ(time(half), 0.5 * time(*of.costs));
  const OpWork work{OpKind::Contract, DType::F32, Flops(2e6), Bytes(1e6), ""};
  EXPECT_EQ(half.compute(work).time, of.costs->compute(work).time);
}

// A tenth more or less at most, another factor for each size and seed, and within 1 % of none on the mean of 1000.
TEST(SkewedCosts, WithNoiseAreMoreOrLessByNoMoreThanIsAskedFor) {
  const Costs of;
  double sum = 0.0;
  std::set<double> seen;
  for (int i = 1; i <= 500; ++i) {
    const Skew skew{.noise = 0.1, .seed = static_cast<std::uint64_t>(i % 5)};
    const SkewedCosts noisy(*of.costs, skew);
    const OpWork work{OpKind::Contract, DType::F32, Flops(2e6 * i), Bytes(1e6), ""};
    const double computing = noisy.compute(work).time / of.costs->compute(work).time;
    const auto gather = [&](const CostModel& costs) {
      return costs.collective(CollectiveKind::AllGather, Bytes(1e6 * i), of.axis).time;
    };
    const double moving = gather(noisy) / gather(*of.costs);
    for (const double factor : {computing, moving}) {
      EXPECT_GE(factor, 0.9);
      EXPECT_LE(factor, 1.1);
      sum += factor;
      seen.insert(factor);
    }
    EXPECT_EQ(noisy.compute(work).time, SkewedCosts(*of.costs, skew).compute(work).time);
  }
  EXPECT_NEAR(sum / 1000, 1.0, 0.01);
  EXPECT_GT(seen.size(), 990u);
}

}  // namespace
}  // namespace meshwright::skewed_costs_test
