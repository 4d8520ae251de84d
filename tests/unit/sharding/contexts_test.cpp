// SPDX-License-Identifier: Apache-2.0
// What a mesh says of context parallelism and of the load of experts, in shapes and in reshardings. Numbers decode by
// eye.
#include <gtest/gtest.h>

#include "core/sharding/resharding.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::contexts_test {
namespace {

using Kind = ReshardStep::Kind;

// An all-gather and a reduce-scatter of a byte are 1 s for each host; the other collectives 1000 s.
struct RingPrices final : HandPrices {
  double of_ring = 1.0;
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    const bool ring = kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
    return {Seconds(ring ? of_ring * bytes.si() * axis.outer : 1000.0), Basis::Modelled};
  }
};

LogicalMesh ring_of(int devices) {
  LogicalMesh mesh = mesh_of({devices});
  mesh.contexts.rings = 1;
  return mesh;
}

// Keys of 8 positions, 2 heads of 1: 16 bytes in 8-byte numbers for each position.
const std::vector<Dim> kKeys = {{"batch", 1}, {"kv_seq", 8}, {"kv_heads", 2}, {"head_dim", 1}};
const std::vector<Dim> kQueries = {{"batch", 1}, {"seq", 8}, {"kv_heads", 2}, {"group", 1}, {"head_dim", 1}};

TEST(Ring, PassesBlocksOnWhereKeysWereGathered) {
  const Resharding way = find_resharding(kKeys, DType::F64, spec("RS0RR"), spec("RRRR"), ring_of(4), RingPrices());
  ASSERT_EQ(way.steps.size(), 1U);
  EXPECT_EQ(way.steps[0].kind, Kind::AllGather);
  EXPECT_TRUE(way.steps[0].ring);
  EXPECT_EQ(way.time, Seconds(128));  // the three steps of an all-gather of all keys
}
TEST(Ring, BringsSumsOfGradientsHome) {
  const Resharding way = find_resharding(kKeys, DType::F64, spec("RRRR+P0"), spec("RS0RR"), ring_of(4), RingPrices());
  ASSERT_EQ(way.steps.size(), 1U);
  EXPECT_EQ(way.steps[0].kind, Kind::ReduceScatter);
  EXPECT_TRUE(way.steps[0].ring);
  EXPECT_DOUBLE_EQ(way.time.si(), 128.0 * 4 / 3);  // four steps of the scatter's three
}
// Though the ring is the dearer: what a plan says is not exchanged for another form.
TEST(Ring, IsNeverLeftForACollective) {
  RingPrices dear;
  dear.of_ring = 1e6;
  for (const auto& [from, to] : {std::pair{"RS0RR", "RRRR"}, std::pair{"RRRR+P0", "RS0RR"}})
    EXPECT_TRUE(find_resharding(kKeys, DType::F64, spec(from), spec(to), ring_of(2), dear).steps.at(0).ring);
}
// Two hosts of two devices: a block leaves a host by one device, as if each of the four were on a host of its own.
TEST(Ring, WaitsForTheDeviceThatSendsToTheNextHost) {
  LogicalMesh mesh = ring_of(4);
  mesh.axes[0] = {2, 2, mesh.axes[0].inner_link, mesh.axes[0].outer_link};
  mesh.of = {2, 2};
  EXPECT_EQ(ring_time(Bytes(40), false, 0, mesh, RingPrices()), Seconds(40 * 4));
}
// A byte takes a second. Two of four devices on a host: the rings of the other two send at the same time.
TEST(Ring, HasTheAdapterThatItsDevicesShare) {
  struct ByBandwidth final : HandPrices {
    [[nodiscard]] TimeEstimate collective(CollectiveKind, Bytes bytes, const MeshAxis& axis) const override {
      return {axis.outer_link.beta * bytes, Basis::Modelled};
    }
  };
  Cluster cluster{"hosts", {{}}};
  cluster.only().hosts = 2;
  cluster.only().devices_per_host = 4;
  cluster.only().between_hosts.beta = SecondsPerByte(1.0);
  const auto ring = [&](std::vector<int> shape, int axis) {
    return ring_time(Bytes(1), false, axis, make_logical_mesh(cluster, {2, 4}, shape), ByBandwidth());
  };
  EXPECT_EQ(ring({8}, 0), Seconds(4));  // an adapter for each device, of a fourth of the network
  cluster.only().adapters = 2;
  EXPECT_EQ(ring({8}, 0), Seconds(2));
  cluster.only().adapters = 1;
  EXPECT_EQ(ring({8}, 0), Seconds(1));
  EXPECT_EQ(ring({4, 2}, 0), Seconds(2));  // two rings
  EXPECT_EQ(ring({2, 4}, 0), Seconds(4));  // all four devices send
  cluster.network.emplace().groups = {HostNetwork{.nics = NetworkAdapters{4, BytesPerSecond(0.25)}}};
  EXPECT_EQ(ring({8}, 0), Seconds(4));  // what the network says counts
}
TEST(Ring, KeepsTwoBlocksOfAllKeys) {
  EXPECT_EQ(local_shape(kKeys, spec("RRRR"), ring_of(4)), (std::vector<std::int64_t>{1, 4, 2, 1}));
  EXPECT_EQ(local_shape(kKeys, spec("RRRR+P0"), ring_of(4)), (std::vector<std::int64_t>{1, 4, 2, 1}));
  EXPECT_EQ(local_shape(kKeys, spec("RS0RR"), ring_of(4)), (std::vector<std::int64_t>{1, 2, 2, 1}));
  EXPECT_EQ(local_shape(kKeys, spec("RRRR"), ring_of(2)), (std::vector<std::int64_t>{1, 8, 2, 1}));
  EXPECT_EQ(local_shape(kQueries, spec("RRRRR"), ring_of(4)), (std::vector<std::int64_t>{1, 8, 2, 1, 1}));
}

// Mesh (cp, tp): the heads that tp splits are split further, by one exchange, and back.
class Exchange : public testing::Test {
 protected:
  Exchange() {
    mesh.contexts.exchanges = 1;
    dims[2].size = 4;
  }
  std::vector<ReshardStep> steps(const char* from, const char* to, double collective = 1000.0) const {
    std::map<CollectiveKind, double> prices;
    for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather})
      prices[kind] = collective;
    prices[CollectiveKind::AllToAll] = 1000.0;
    return find_resharding(dims, DType::F64, spec(from), spec(to), mesh, HandPrices(prices, 0.0)).steps;
  }
  LogicalMesh mesh = mesh_of({2, 2});
  std::vector<Dim> dims = kQueries;
};
TEST_F(Exchange, SplitsTheHeadsThatADeviceHas) {
  for (const auto& [from, to] : {std::pair{"RS0S1RR", "RRS01RR"}, std::pair{"RRS01RR", "RS0S1RR"}}) {
    ASSERT_EQ(steps(from, to).size(), 1U) << from;
    EXPECT_EQ(steps(from, to)[0].kind, Kind::AllToAll);
    EXPECT_EQ(steps(from, to)[0].axis, 0);
  }
}
// However cheap gathering is: heads that were gathered and cut again would be in another order.
TEST_F(Exchange, IsTheOnlyWayToSuchHeads) {
  EXPECT_EQ(steps("RS0S1RR", "RRS01RR", 1.0).size(), 1U);
  const std::vector<ReshardStep> from_whole = steps("RRRRR", "RRS01RR", 1.0);
  EXPECT_EQ(from_whole.back().kind, Kind::AllToAll);
  EXPECT_EQ(from_whole.back().after.to_text(), "RRS01RR");
  mesh.contexts.exchanges = 0;
  for (const ReshardStep& step : steps("RRRRR", "RRS01RR", 1.0)) EXPECT_EQ(step.kind, Kind::Slice);
}
TEST_F(Exchange, ReordersHeadsThatInnerAxesCutAndNoOthers) {
  EXPECT_TRUE(reorders_heads(dims, spec("RRS01RR"), mesh));
  EXPECT_FALSE(reorders_heads(dims, spec("RRS0RR"), mesh));
  EXPECT_FALSE(reorders_heads(dims, spec("RS0S1RR"), mesh));
  EXPECT_FALSE(reorders_heads({{"embed", 4}, {"kv_heads", 4}}, spec("RS01"), mesh));  // a weight has no sequence
}

// --- experts ---

const std::vector<Dim> kSlots = {{"expert", 4}, {"batch", 2}, {"capacity", 3}, {"embed", 1}};

TEST(ExpertLoadOf, AFactorIsThatOfTheBusiestOfSeveralDevices) {
  const ExpertLoad load{.factor = 1.5};
  EXPECT_EQ(load.busiest(1), 1.0);
  EXPECT_EQ(load.busiest(4), 1.5);
  EXPECT_EQ(ExpertLoad{.factor = 9.0}.busiest(4), 4.0);  // all tokens
  EXPECT_TRUE(ExpertLoad{}.even());
  EXPECT_FALSE(load.even());
}
// Neighbouring experts lie together: of 0.4 + 0.2 and 0.2 + 0.2 the first has 1.2 times its half.
TEST(ExpertLoadOf, AHistogramFollowsThePlacement) {
  const ExpertLoad load{.shares = {0.4, 0.2, 0.2, 0.2}};
  EXPECT_EQ(load.busiest(1), 1.0);
  EXPECT_NEAR(load.busiest(2), 1.2, 1e-12);
  EXPECT_NEAR(load.busiest(4), 1.6, 1e-12);
}
TEST(ExpertLoadOf, TheBusiestDeviceFillsMoreSlots) {
  LogicalMesh mesh = mesh_of({2});
  mesh.expert_load.factor = 1.5;
  EXPECT_EQ(local_shape(kSlots, spec("S0RRR"), mesh), (std::vector<std::int64_t>{2, 2, 5, 1}));  // 4.5 slots
  EXPECT_EQ(local_shape(kSlots, spec("RS0RR"), mesh), (std::vector<std::int64_t>{4, 1, 3, 1}));  // all experts
}
// Its exchange is of what it gets: 2 x 2 x 5 numbers, where it gives 4 x 1 x 3.
TEST(ExpertLoadOf, TheBusiestDeviceGetsMoreThanItGives) {
  LogicalMesh mesh = mesh_of({2});
  const auto time = [&] {
    return find_resharding(kSlots, DType::F64, spec("RS0RR"), spec("S0RRR"), mesh, HandPrices({}, 1024.0)).time;
  };
  EXPECT_EQ(time(), Seconds(8 * 12));
  mesh.expert_load.factor = 1.5;
  EXPECT_EQ(time(), Seconds(8 * 20));
}

}  // namespace
}  // namespace meshwright::contexts_test
