// SPDX-License-Identifier: Apache-2.0
#include "core/planner/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/planner/placement/fill_hosts.h"
#include "core/planner/placement/placement_search.h"

namespace meshwright::placement_test {
namespace {

using Placed = std::vector<std::vector<int>>;

// Links whose costs decode by eye: 1 s per byte within a host, 100 s between hosts.
Cluster grid(int hosts, int devices_per_host) {
  Cluster cluster = find_cluster("p3.16xlarge");
  cluster.only().hosts = hosts;
  cluster.only().devices_per_host = devices_per_host;
  cluster.only().within_host = {Seconds(5), SecondsPerByte(1)};
  cluster.only().between_hosts = {Seconds(7), SecondsPerByte(100)};
  return cluster;
}

PlacementRequest stages(std::vector<Submesh> shapes, const std::vector<double>& bytes = {}) {
  PlacementRequest request;
  request.stages = std::move(shapes);
  for (const double b : bytes) request.neighbour_bytes.emplace_back(b);
  return request;
}

// --- neighbours ---

// The largest first would put both pairs of 2 on one host and cut 1|2 and 2|1; in order only 2|2 is cut.
// Between hosts bytes are cheaper here, and messages dearer.
TEST(PlaceStages, WeighsMessagesAgainstBytes) {
  Cluster cluster = grid(2, 4);
  cluster.only().between_hosts = {Seconds(1000), SecondsPerByte(0.5)};
  PlacementRequest request = stages({{1, 2}, {1, 2}, {1, 2}, {1, 2}}, {100, 100, 100});
  request.neighbour_messages = {0, 1, 0};
  const auto placed = place_stages(cluster, request);
  EXPECT_EQ(placed->devices, (Placed{{0, 1}, {4, 5}, {6, 7}, {2, 3}}));
  EXPECT_EQ(placed->crossing, Seconds(205));  // 50 + (100 + 5) + 50
  EXPECT_TRUE(placed->optimal);
}

TEST(PlaceStages, KeepsNeighboursTogether) {
  const auto placed = place_stages(grid(2, 4), stages({{1, 1}, {1, 1}, {1, 2}, {1, 2}, {1, 1}, {1, 1}}));
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->devices, (Placed{{0}, {1}, {2, 3}, {4, 5}, {6}, {7}}));
  EXPECT_EQ(placed->crossing, Seconds(104));  // 1 + 1 + 100 + 1 + 1
  EXPECT_TRUE(placed->optimal);
}

// On the first hosts with room the last three stages of 1, 2, 1 would be torn apart by the hole beside the first.
TEST(PlaceStages, LeavesAHoleRatherThanTearNeighboursApart) {
  const auto placed = place_stages(grid(3, 4), stages({{1, 2}, {1, 4}, {1, 1}, {1, 2}, {1, 1}}));
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->devices, (Placed{{0, 1}, {4, 5, 6, 7}, {8}, {9, 10}, {11}}));
  EXPECT_EQ(placed->crossing, Seconds(202));  // 100 + 100 + 1 + 1
}

TEST(PlaceStages, KeepsThoseTogetherThatSendMost) {
  // 3 | 9 | 3: the middle pair, and the ends share what is left.
  const auto placed = place_stages(grid(2, 4), stages({{1, 2}, {1, 2}, {1, 2}, {1, 2}}, {3, 9, 3}));
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->devices, (Placed{{0, 1}, {4, 5}, {6, 7}, {2, 3}}));
  EXPECT_EQ(placed->crossing, Seconds(609));
}

TEST(PlaceStages, CountsTiedParameters) {
  PlacementRequest request = stages({{1, 2}, {1, 2}, {1, 2}, {1, 2}}, {4, 4, 4});
  EXPECT_EQ(place_stages(grid(2, 4), request)->devices, (Placed{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  request.others = {{3, 0, Bytes(3)}};  // 4 | . | 4 saves 8, . | 4 | . with the ends together 7
  EXPECT_EQ(place_stages(grid(2, 4), request)->crossing, Seconds(708));
  request.others = {{3, 0, Bytes(5)}};
  const auto placed = place_stages(grid(2, 4), request);
  EXPECT_EQ(placed->devices, (Placed{{0, 1}, {4, 5}, {6, 7}, {2, 3}}));
  EXPECT_EQ(placed->crossing, Seconds(809));
}

// A crossing between neighbours adds to theirs, whichever way it is written.
TEST(PlaceStages, AddsUpCrossingsOfAPair) {
  PlacementRequest request = stages({{1, 2}, {1, 2}}, {10});
  request.others = {{0, 1, Bytes(20)}, {1, 0, Bytes(30)}};
  EXPECT_EQ(place_stages(grid(1, 4), request)->crossing, Seconds(60));
}

// Half of the bytes between two hosts and one of them stay there.
TEST(PlaceStages, CountsTheSharedPartOfStagesOnSeveralHosts) {
  const auto placed = place_stages(grid(2, 4), stages({{2, 2}, {1, 2}}, {10}));
  EXPECT_EQ(placed->devices, (Placed{{0, 1, 4, 5}, {2, 3}}));
  EXPECT_EQ(placed->crossing, Seconds(505));  // 5 * 1 + 5 * 100
}

// --- ties ---

TEST(PlaceStages, PacksInOrderAmongEquals) {
  EXPECT_EQ(place_stages(grid(3, 4), stages({{1, 4}, {1, 2}, {1, 4}, {1, 2}}))->devices,
            (Placed{{0, 1, 2, 3}, {4, 5}, {8, 9, 10, 11}, {6, 7}}));
  EXPECT_EQ(place_stages(grid(2, 2), stages({{1, 1}, {1, 1}, {1, 1}}))->devices, (Placed{{0}, {1}, {2}}));
}

TEST(PlaceStages, GivesTheSameEveryTime) {
  std::mt19937 random(3);
  PlacementRequest request;
  for (int s = 0; s < 40; ++s) request.stages.push_back({1, 1 << (random() % 3)});
  for (int s = 0; s < 39; ++s) request.neighbour_bytes.emplace_back(random() % 5);
  const auto placed = place_stages(grid(20, 8), request);
  ASSERT_TRUE(placed);
  EXPECT_EQ(place_stages(grid(20, 8), request)->devices, placed->devices);
}

// --- groups of hosts ---

// Hosts 0, 1 of 4 devices (0..7) and hosts 2, 3 of 2 (8..11), whose network takes 300 s per byte.
Cluster two_groups() {
  Cluster cluster = grid(2, 4);
  cluster.groups.push_back(grid(2, 2).only());
  cluster.groups[1].within_host.beta = SecondsPerByte(2);
  cluster.groups[1].between_hosts.beta = SecondsPerByte(300);
  return cluster;
}

TEST(PlaceStages, TakesHostsOfTheStagesGroup) {
  const auto placed = place_stages(two_groups(), stages({{1, 2, 1}, {1, 4}, {1, 2}, {1, 2, 1}}));
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->devices, (Placed{{8, 9}, {0, 1, 2, 3}, {4, 5}, {10, 11}}));
  EXPECT_EQ(placed->crossing, Seconds(700));  // 300 + 100 + 300: the slower of two networks
  EXPECT_TRUE(placed->optimal);
}

TEST(PlaceStages, DoesNotLetOneGroupTakeOverWhatAnotherLacks) {
  EXPECT_TRUE(place_stages(two_groups(), stages({{2, 2, 1}, {2, 4}})));
  EXPECT_EQ(place_stages(two_groups(), stages({{1, 2, 1}, {1, 2, 1}, {1, 1, 1}})), std::nullopt);
  EXPECT_EQ(place_stages(two_groups(), stages({{1, 4, 1}})), std::nullopt);
  EXPECT_TRUE(place_stages(two_groups(), stages({{1, 4}})));
  EXPECT_THROW((void)place_stages(two_groups(), stages({{1, 1, 2}})), InternalError);
}

// Stages 0 and 2 are no neighbours in the pipeline, but the tied weights draw them together: 1 lies in the other group.
TEST(PlaceStages, KeepsThoseOfAGroupTogetherAcrossTheOther) {
  PlacementRequest request = stages({{1, 2}, {1, 1, 1}, {1, 2}, {1, 2}, {1, 2}}, {7, 7, 3, 3});
  request.others = {{0, 3, Bytes(5)}, {2, 4, Bytes(4)}};
  const auto placed = place_stages(two_groups(), request);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->devices, (Placed{{0, 1}, {8}, {4, 5}, {2, 3}, {6, 7}}));
  EXPECT_EQ(placed->crossing, Seconds(2 * 7 * 300 + 2 * 3 * 100 + 5 + 4));
}

// --- what fits ---

// First come 5 4 | 3 3 3, in order as by size, and one device is left on each host for the last 2. 5 3 2 | 4 3 3 fits.
TEST(PlaceStages, FindsThePackingThatNeitherOrderFinds) {
  const std::vector<Submesh> shapes = {{1, 5}, {1, 4}, {1, 3}, {1, 3}, {1, 3}, {1, 2}};
  const auto placed = place_stages(grid(2, 10), stages(shapes));
  ASSERT_TRUE(placed);
  EXPECT_TRUE(placed->optimal);
  EXPECT_EQ(placed->crossing, Seconds(203));  // 4 3 3 on one host and 3 2 on the other; 5 | 4 and 3 | 3 are cut
}

TEST(PlaceStages, RefusesWhatDoesNotFit) {
  EXPECT_EQ(place_stages(grid(2, 3), stages({{1, 2}, {1, 2}, {1, 2}})), std::nullopt);
  EXPECT_EQ(place_stages(grid(2, 2), stages({{3, 2}})), std::nullopt);
  EXPECT_EQ(place_stages(grid(2, 2), stages({{1, 3}})), std::nullopt);
  EXPECT_EQ(place_stages(grid(2, 4), stages({{2, 3}, {1, 2}})), std::nullopt);
}

TEST(PlaceStages, PlacesNothingOfNothing) { EXPECT_EQ(place_stages(grid(1, 1), stages({}))->devices, Placed{}); }

TEST(PlaceStages, RefusesListsOfTheWrongLength) {
  EXPECT_THROW((void)place_stages(grid(1, 4), stages({{1, 1}, {1, 1}}, {1, 1})), InternalError);
  PlacementRequest request = stages({{1, 1}, {1, 1}});
  request.others = {{0, 2, Bytes(1)}};
  EXPECT_THROW((void)place_stages(grid(1, 4), request), InternalError);
  request.others = {{1, 1, Bytes(1)}};
  EXPECT_THROW((void)place_stages(grid(1, 4), request), InternalError);
}

// Sizes that divide each other leave no holes that the rest needs, however many there are.
TEST(PlaceStages, AlwaysPlacesPowersOfTwoThatFillTheCluster) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    PlacementRequest request;
    int devices = 0;
    while (devices < 20 * 8) {
      const int size = std::min(1 << (random() % 4), (20 * 8 - devices) & -(20 * 8 - devices));
      request.stages.push_back({1, size});
      devices += size;
    }
    std::shuffle(request.stages.begin(), request.stages.end(), random);
    EXPECT_TRUE(place_stages(grid(20, 8), request));
  }
}

// 64 hosts of 16 with nothing to spare: 7 6 3 and 7 5 4, shuffled. In pipeline order every branch within the width of
// the search comes to a dead end.
TEST(PlaceStages, FindsTheTightFitOfManyStages) {
  std::mt19937 random(1);
  PlacementRequest request;
  for (int h = 0; h < 64; h += 2)
    for (const int size : {7, 6, 3, 7, 5, 4}) request.stages.push_back({1, size});
  for (std::size_t s = request.stages.size(); s-- > 1;) std::swap(request.stages[s], request.stages[random() % s]);
  const auto placed = place_stages(grid(64, 16), request);
  ASSERT_TRUE(placed);
  EXPECT_FALSE(placed->optimal);
}

// --- many hosts ---

// 384 hosts of 8: stages of whole hosts, and between them runs of small ones that fill a host each.
TEST(PlaceStages, ProvesThatPackingInOrderIsLeastWhereItLeavesNoHole) {
  const std::vector<std::vector<int>> runs = {{4, 4}, {2, 2, 4}, {1, 1, 2, 4}, {4, 2, 1, 1}};
  PlacementRequest request;
  int hosts = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    request.stages.push_back({23, 8});
    for (const int size : runs[i % 4]) request.stages.push_back({1, size});
    hosts += 24;
  }
  const Cluster cluster = grid(hosts, 8);
  EXPECT_EQ(cluster.devices(), 3072);
  const auto placed = place_stages(cluster, request);
  ASSERT_TRUE(placed);
  EXPECT_TRUE(placed->optimal);
  int next = 0;
  for (const auto& devices : placed->devices)
    for (const int device : devices) EXPECT_EQ(device, next++);
  // 68 stages: 16 runs of 2, 3, 4 and 4 have 1 + 2 + 3 + 3 pairs within each four hosts; the other 31 pairs are cut.
  EXPECT_EQ(placed->crossing, Seconds(4 * 9 * 1 + 31 * 100));
}

// 64 halves of a host: a matching of neighbours. The heavy pairs are the odd ones, so the two ends share a host.
TEST(PlaceStages, FindsTheHeaviestPairsOfManyStages) {
  PlacementRequest request;
  for (int s = 0; s < 64; ++s) request.stages.push_back({1, 4});
  for (int s = 0; s < 63; ++s) request.neighbour_bytes.emplace_back(s % 2 == 1 ? 5 : 4);
  const auto placed = place_stages(grid(32, 8), request);
  ASSERT_TRUE(placed);
  EXPECT_TRUE(placed->optimal);
  EXPECT_EQ(placed->crossing, Seconds(31 * 5 * 1 + 32 * 4 * 100));  // against 32 * 4 * 1 + 31 * 5 * 100 in order
}

// With more skips open at once than the search tells apart, nothing is proved, but the result is still a placement.
TEST(PlaceStages, ClaimsNothingWhereTooManyCrossingsOverlap) {
  PlacementRequest request;
  for (int s = 0; s < 140; ++s) request.stages.push_back({1, 1});
  for (int s = 0; s < 70; ++s) request.others.push_back({s, 139 - s, Bytes(1)});
  const auto placed = place_stages(grid(35, 4), request);
  ASSERT_TRUE(placed);
  EXPECT_FALSE(placed->optimal);
  std::vector<bool> taken(140, false);
  for (const auto& devices : placed->devices) taken.at(static_cast<std::size_t>(devices.at(0))) = true;
  EXPECT_EQ(std::count(taken.begin(), taken.end(), true), 140);
}

// --- the search by itself ---

TEST(FindPacking, SaysWhenItsWidthLeftSomethingAside) {
  PackingProblem problem{8, 16, {}, {}};
  for (int k = 0; k < 24; ++k) problem.items.push_back({1, 1 + k % 5});
  for (int k = 0; k + 5 < 24; ++k) problem.attractions.push_back({k, k + 5, 1.0 + k % 3});
  const auto narrow = find_packing(problem, std::numeric_limits<double>::infinity(), 1);
  ASSERT_TRUE(narrow.packing);
  EXPECT_FALSE(narrow.exhaustive);
  const auto wide = find_packing(problem, std::numeric_limits<double>::infinity(), 500);
  EXPECT_LE(wide.cost, narrow.cost);
  EXPECT_LE(packing_bound(problem), wide.cost);
}

// Of sizes that divide each other, no state is kept that the rest does not fit in: one state is enough to find a
// packing.
TEST(FindPacking, NeverRunsIntoADeadEndWithPowersOfTwo) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    PackingProblem problem{8, 6, {}, {}};
    for (int left = 6 * 8; left > 0;) {
      const int size = std::min(1 << (random() % 3), left & -left);
      problem.items.push_back({1, size});
      left -= size;
    }
    std::shuffle(problem.items.begin(), problem.items.end(), random);
    for (int k = 0; k + 1 < static_cast<int>(problem.items.size()); ++k) problem.attractions.push_back({k, k + 1, 1});
    EXPECT_TRUE(find_packing(problem, std::numeric_limits<double>::infinity(), 1).packing) << "seed " << seed;
  }
}

TEST(FindPacking, ProvesThatNothingIsBelowItsLimit) {
  const PackingProblem problem{4, 2, {{1, 2}, {1, 2}, {1, 2}, {1, 2}}, {{0, 1, 4}, {1, 2, 4}, {2, 3, 4}}};
  const auto found = find_packing(problem, 4.5, 100);
  EXPECT_EQ(found.cost, 4);
  const auto none = find_packing(problem, 4, 100);
  EXPECT_EQ(none.packing, std::nullopt);
  EXPECT_TRUE(none.exhaustive);
}

// 64 hosts of 16 with nothing to spare; 7 7 . leaves a room of 2 that nothing fills.
TEST(FillHosts, FindsTheTightFit) {
  std::vector<int> sizes;
  for (int h = 0; h < 64; h += 2) sizes.insert(sizes.end(), {7, 6, 3, 7, 5, 4});
  const auto hosts = fill_hosts(sizes, 64, 16);
  ASSERT_TRUE(hosts);
  std::vector<int> sum(64, 0);
  for (std::size_t k = 0; k < sizes.size(); ++k) sum.at(static_cast<std::size_t>((*hosts)[k])) += sizes[k];
  EXPECT_EQ(sum, std::vector<int>(64, 16));
  EXPECT_EQ(fill_hosts(sizes, 63, 16), std::nullopt);
}

TEST(FillHosts, RefusesWhatDoesNotFit) {
  EXPECT_EQ(fill_hosts({5, 5, 5}, 2, 8), std::nullopt);
  EXPECT_EQ(fill_hosts({9}, 2, 8), std::nullopt);
  EXPECT_EQ(fill_hosts({1}, 0, 8), std::nullopt);
  EXPECT_EQ(fill_hosts({}, 0, 8), std::vector<int>{});
}

}  // namespace
}  // namespace meshwright::placement_test
