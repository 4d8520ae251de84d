// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/resharding.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "costmodel/cost_models.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::resharding_test {
namespace {

using Kind = ReshardStep::Kind;

const char* letter(Kind kind) {
  switch (kind) {
    case Kind::AllReduce:
      return "sum";
    case Kind::ReduceScatter:
      return "scatter";
    case Kind::AllGather:
      return "gather";
    case Kind::AllToAll:
      return "exchange";
    case Kind::Slice:
      return "slice";
  }
  return "?";
}

// "gather0 S1R, slice0 S1S0"
std::string text(const Resharding& way) {
  std::string found;
  for (const ReshardStep& step : way.steps)
    found += (found.empty() ? "" : ", ") + std::string(letter(step.kind)) + std::to_string(step.axis) + " " +
             step.after.to_text();
  return found;
}

// Of a 16 x 16 tensor of floats: 1 KiB.
const std::vector<Dim> kSquare = {{"a", 16}, {"b", 16}};
Resharding way(const char* from, const char* to, const LogicalMesh& mesh, const CostModel& costs = HandPrices()) {
  return find_resharding(kSquare, DType::F32, spec(from), spec(to), mesh, costs);
}

// --- single steps ---

TEST(SingleStep, AnythingToItselfIsNothing) {
  const LogicalMesh mesh = mesh_of({2, 2});
  EXPECT_TRUE(way("S0S1", "S0S1", mesh).steps.empty());
  EXPECT_EQ(way("S0S1", "S0S1", mesh).time, Seconds(0));
}
TEST(SingleStep, AWholeTensorIsSlicedForNothing) {
  const Resharding found = way("RR", "S0R", mesh_of({2, 2}));
  EXPECT_EQ(text(found), "slice0 S0R");
  EXPECT_EQ(found.time, Seconds(0));
  EXPECT_EQ(found.steps[0].to_dim, 0);
}
TEST(SingleStep, ASplitIsGatheredAtThePriceOfTheWhole) {
  const Resharding found = way("RS1", "RR", mesh_of({2, 2}));
  EXPECT_EQ(text(found), "gather1 RR");
  EXPECT_EQ(found.time, Seconds(1));
  EXPECT_EQ(found.steps[0].from_dim, 1);
}
TEST(SingleStep, ASplitMovesToAnotherDimensionByOneAllToAllOfTheTile) {
  const Resharding found = way("S0R", "RS0", mesh_of({4, 2}));
  EXPECT_EQ(text(found), "exchange0 RS0");
  EXPECT_EQ(found.time, Seconds(0.25));  // a quarter of 1 KiB lies on each device
  EXPECT_EQ(found.steps[0].from_dim, 0);
  EXPECT_EQ(found.steps[0].to_dim, 1);
}
TEST(SingleStep, APartialSumIsAllReduced) {
  const Resharding found = way("RR+P0", "RR", mesh_of({2, 2}));
  EXPECT_EQ(text(found), "sum0 RR");
  EXPECT_EQ(found.time, Seconds(1));
}
TEST(SingleStep, APartialSumIsReduceScatteredIntoASplit) {
  const Resharding found = way("RR+P0", "S0R", mesh_of({2, 2}), HandPrices({{CollectiveKind::AllReduce, 10.0}}));
  EXPECT_EQ(text(found), "scatter0 S0R");
  EXPECT_EQ(found.time, Seconds(1));
  EXPECT_EQ(found.steps[0].to_dim, 0);
}

// --- sequences ---

TEST(Sequences, TheInnermostCutIsGatheredFirst) {
  // 1/2 KiB is whole again after the first gather, 1 KiB after the second.
  const Resharding found = way("S01R", "RR", mesh_of({2, 2}));
  EXPECT_EQ(text(found), "gather1 S0R, gather0 RR");
  EXPECT_EQ(found.time, Seconds(1.5));
}
TEST(Sequences, CutsAreMadeFromTheOutermostIn) {
  EXPECT_EQ(text(way("RR", "RS01", mesh_of({2, 2}))), "slice0 RS0, slice1 RS01");
}
// Moving axis 1 over first would leave axis 0 to be cut inside it; the lowest axis is always outermost.
TEST(Sequences, AnOuterCutIsNeverMadeInsideAnInnerOne) {
  const Resharding found = way("S01R", "RS01", mesh_of({2, 2}));
  EXPECT_EQ(text(found), "gather1 S0R, exchange0 RS0, slice1 RS01");
  EXPECT_EQ(found.time, Seconds(0.5 + 0.5));
}
TEST(Sequences, AnOuterCutUnderAnInnerOneIsReachedThroughTheOtherDimension) {
  // Gathering both and slicing again would be 0.5 + 1.
  const Resharding found = way("S01R", "S1R", mesh_of({2, 2}));
  EXPECT_EQ(text(found), "exchange1 S0S1, gather0 RS1, exchange1 S1R");
  EXPECT_EQ(found.time, Seconds(0.25 + 0.5 + 0.5));
}
TEST(Sequences, SlicingBeforeGatheringMovesLess) {
  // Gathering 1 KiB and slicing it would be 1.
  const Resharding found = way("S0R", "S1R", mesh_of({2, 4}));
  EXPECT_EQ(text(found), "slice1 S0S1, gather0 RS1, exchange1 S1R");
  EXPECT_EQ(found.time, Seconds(0.25 + 0.25));
}
TEST(Sequences, TwoPartialAxesAreScatteredOntoTwoDimensions) {
  const HandPrices costs({{CollectiveKind::AllReduce, 10.0}, {CollectiveKind::AllToAll, 10.0}});
  const Resharding found = way("RR+P01", "S0S1", mesh_of({2, 2}), costs);
  EXPECT_EQ(found.time, Seconds(1.5));  // 1 KiB, then the half that is left
  EXPECT_EQ(found.steps.size(), 2u);
}

TEST(Sequences, AnInnerPartialAxisIsScatteredIntoTheCut) {
  const Resharding found = way("S0R+P1", "S01R", mesh_of({2, 2}), HandPrices({{CollectiveKind::AllReduce, 10.0}}));
  EXPECT_EQ(text(found), "scatter1 S01R");
  EXPECT_EQ(found.time, Seconds(0.5));
}

// --- padding: 10 x 16 floats over 4 devices, tiles of 3 rows of which the last has one ---

const std::vector<Dim> kUneven = {{"a", 10}, {"b", 16}};
Resharding uneven(const char* from, const char* to, const LogicalMesh& mesh, const CostModel& costs = HandPrices()) {
  return find_resharding(kUneven, DType::F32, spec(from), spec(to), mesh, costs);
}
TEST(Padded, TilesAreMovedWithTheirPadding) {
  const LogicalMesh mesh = mesh_of({4, 1});
  EXPECT_EQ(text(uneven("S0R", "RR", mesh)), "gather0 RR");
  EXPECT_EQ(uneven("S0R", "RR", mesh).time, Seconds(0.75));  // 12 rows of 64 bytes
  const HandPrices costs({{CollectiveKind::AllReduce, 10.0}});
  EXPECT_EQ(text(uneven("RR+P0", "S0R", mesh, costs)), "scatter0 S0R");
  EXPECT_EQ(uneven("RR+P0", "S0R", mesh, costs).time, Seconds(0.75));
  EXPECT_EQ(text(uneven("RR", "S0R", mesh)), "slice0 S0R");
  EXPECT_EQ(uneven("RR", "S0R", mesh).time, Seconds(0));
}
TEST(Padded, TilesAreNestedAxisByAxis) {
  const LogicalMesh mesh = mesh_of({2, 4});
  EXPECT_EQ(text(uneven("RR", "S01R", mesh)), "slice0 S0R, slice1 S01R");
  // 4 tiles of 2 rows make up 5, whose two halves are the 10.
  const Resharding back = uneven("S01R", "RR", mesh);
  EXPECT_EQ(text(back), "gather1 S0R, gather0 RR");
  EXPECT_EQ(back.time, Seconds(0.5 + 0.625));
}
// Hybrid sharding: scattered within a group, and the tile summed over the groups.
TEST(Padded, TilesAreSummedOverAnotherAxis) {
  const HandPrices costs({{CollectiveKind::AllReduce, 1.0}, {CollectiveKind::AllGather, 10.0}});
  const Resharding found = uneven("RR+P01", "S1R", mesh_of({2, 4}), costs);
  EXPECT_EQ(text(found), "scatter1 S1R+P0, sum0 S1R");
  EXPECT_EQ(found.time, Seconds(0.75 + 1.1875));
}
// There is no all-to-all of tiles that are not equal.
TEST(Padded, TilesAreGatheredBeforeTheyAreCutElsewhere) {
  EXPECT_EQ(text(uneven("S0R", "RS0", mesh_of({4, 1}))), "gather0 RR, slice0 RS0");
  EXPECT_EQ(text(uneven("RS0", "S0R", mesh_of({4, 1}))), "gather0 RR, slice0 S0R");
}
// Between even specs everything is as if padding did not exist.
TEST(Padded, TilesAreNotOnTheWayBetweenEvenOnes) {
  for (const HandPrices& costs : many_prices())
    for (const auto& shape : {std::vector<int>{4, 1}, {2, 4}, {3, 2}}) {
      const LogicalMesh mesh = mesh_of(shape);
      for (const ShardingSpec& from : with_partial_sums(kUneven, mesh))
        for (const ShardingSpec& to : enumerate_specs(kUneven, mesh))
          for (const ReshardStep& step : find_resharding(kUneven, DType::F32, from, to, mesh, costs).steps)
            EXPECT_TRUE(divides(kUneven, step.after, mesh)) << from.to_text() << " to " << to.to_text();
    }
}

// --- the cheapest by price ---

TEST(CheapestByPrice, ADearAllReduceIsAReduceScatterAndAnAllGather) {
  const LogicalMesh mesh = mesh_of({2, 2});
  const Resharding found = way("RR+P0", "RR", mesh, HandPrices({{CollectiveKind::AllReduce, 10.0}}));
  ASSERT_EQ(found.steps.size(), 2u);
  EXPECT_EQ(found.steps[0].kind, Kind::ReduceScatter);
  EXPECT_EQ(found.steps[1].kind, Kind::AllGather);
  EXPECT_EQ(found.time, Seconds(1 + 1));
}
TEST(CheapestByPrice, OfEquallyCheapWaysTheShortestIsTaken) {
  // All-reduce 1 + 1, reduce-scatter 1 and all-gather 1.
  EXPECT_EQ(text(way("RR+P0", "RR", mesh_of({2, 2}), HandPrices({{CollectiveKind::AllReduce, 1.0}}))), "sum0 RR");
}
TEST(CheapestByPrice, ADearAllToAllIsAGatherAndASlice) {
  const HandPrices costs({{CollectiveKind::AllToAll, 10.0}});
  EXPECT_EQ(text(way("S0R", "RS0", mesh_of({4, 2}), costs)), "gather0 RR, slice0 RS0");
}
TEST(CheapestByPrice, TheSlowAxisMovesTheSmallerPiece) {
  // Both axes partial, on axis 0 a byte costs 100 times as much: scattered on axis 1 first, a quarter is left for 0.
  const LogicalMesh mesh = mesh_of({2, 4}, {100e-6, 1e-6});
  const auto costs = make_analytic_cost_model(find_cluster("p3.16xlarge:2"));
  const std::vector<Dim> large = {{"a", 4096}, {"b", 4096}};
  const Resharding found = find_resharding(large, DType::F32, spec("RR+P01"), spec("RR"), mesh, *costs);
  ASSERT_EQ(found.steps.size(), 3u);
  EXPECT_EQ(letter(found.steps[0].kind) + std::to_string(found.steps[0].axis), "scatter1");
  EXPECT_EQ(letter(found.steps[1].kind) + std::to_string(found.steps[1].axis), "sum0");
  EXPECT_EQ(letter(found.steps[2].kind) + std::to_string(found.steps[2].axis), "gather1");
}
// By the ring formulas an all-reduce costs exactly its two halves; rounding must not take it apart.
TEST(CheapestByPrice, APartialSumIsOneAllReduceByTheAnalyticPrices) {
  for (const char* name : {"p3.16xlarge:6", "dgx-h100:4", "cpu:6"})
    for (const std::int64_t rows : {24, 96, 1000, 4096, 5120})
      for (int hosts : {1, 2, 3, 4}) {
        const Cluster cluster = find_cluster(name);
        if (hosts > cluster.only().hosts) continue;
        const Submesh submesh{hosts, cluster.only().devices_per_host};
        const LogicalMesh mesh = make_logical_mesh(cluster, submesh, {submesh.devices(), 1});
        const auto costs = make_analytic_cost_model(cluster);
        const std::vector<Dim> dims = {{"a", rows * submesh.devices()}, {"b", 5120}};
        const Resharding found = find_resharding(dims, DType::F16, spec("RR+P0"), spec("RR"), mesh, *costs);
        EXPECT_EQ(text(found), "sum0 RR") << name << ", " << hosts << " hosts, " << rows << " rows";
      }
}

TEST(AllAtOnce, GivesWhatEachTargetAloneGives) {
  const LogicalMesh mesh = mesh_of({2, 4});
  const auto targets = enumerate_specs(kSquare, mesh);
  for (const char* from : {"RR", "S0S1", "S01R", "S1R+P0", "RR+P01"}) {
    const auto ways = find_reshardings(kSquare, DType::F32, spec(from), targets, mesh, HandPrices());
    ASSERT_EQ(ways.size(), targets.size());
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const Resharding alone = find_resharding(kSquare, DType::F32, spec(from), targets[t], mesh, HandPrices());
      EXPECT_EQ(ways[t].steps, alone.steps) << from << " to " << targets[t].to_text();
      EXPECT_EQ(ways[t].time, alone.time);
    }
  }
}
TEST(AllAtOnce, NothingBecomesAPartialSum) { EXPECT_THROW((void)way("RR", "RR+P0", mesh_of({2, 2})), InternalError); }

}  // namespace
}  // namespace meshwright::resharding_test
