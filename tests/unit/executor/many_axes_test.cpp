// SPDX-License-Identifier: Apache-2.0
// Logical meshes of more than two axes: which there are, and that further axes leave the best plan as fast.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::many_axes_test {
namespace {

using Shapes = std::vector<std::vector<int>>;

bool can_be_made(const Submesh& submesh, const std::vector<int>& shape) {
  const Cluster cluster = take_part(find_cluster("p3.16xlarge:8"), submesh.hosts, submesh.devices_per_host);
  try {
    (void)make_logical_mesh(cluster, submesh, shape);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

TEST(ThreeDimensional, OfEightDevicesAddsTheirOneCube) {
  EXPECT_EQ(enumerate_logical_shapes({1, 8}, LogicalMeshSpace::ThreeDimensional),
            (Shapes{{8, 1}, {4, 2}, {2, 4}, {1, 8}, {2, 2, 2}}));
}

// Everything of All, then every product of three sizes from 2 on that make_logical_mesh takes, and nothing else.
TEST(ThreeDimensional, IsEveryShapeOfThreeSizesThatCanBeMade) {
  for (const Submesh submesh : {Submesh{1, 2}, Submesh{1, 8}, Submesh{2, 4}, Submesh{2, 8}, Submesh{3, 4},
                                Submesh{2, 6}, Submesh{8, 8}, Submesh{5, 1}}) {
    const Shapes found = enumerate_logical_shapes(submesh, LogicalMeshSpace::ThreeDimensional);
    const std::set<std::vector<int>> distinct(found.begin(), found.end());
    EXPECT_EQ(distinct.size(), found.size());
    std::set<std::vector<int>> expected;
    const int n = submesh.devices();
    for (const auto& shape : enumerate_logical_shapes(submesh, LogicalMeshSpace::All)) expected.insert(shape);
    for (int a = 2; a <= n; ++a)
      for (int b = 2; a * b <= n; ++b)
        if (n % (a * b) == 0 && n / (a * b) >= 2 && can_be_made(submesh, {a, b, n / (a * b)}))
          expected.insert({a, b, n / (a * b)});
    EXPECT_EQ(distinct, expected) << submesh.hosts << "x" << submesh.devices_per_host;
  }
}

// A mesh of more axes can split whatever one of fewer can: each axis of 8x1, 4x2, 2x4 or 1x8 is some axes of 2x2x2, and
// within a host all links are equal. Only what no axis divides (the loss, a squared norm) is reduced axis after axis
// at full size, three small all-reduces for one: with links without latency that is less than a hundredth.
TEST(ManyAxes, AreHardlyWorseThanTheirMerges) {
  for (const char* model : {"mlp:layers=1,hidden=32", "gpt:layers=1,hidden=32,heads=4,seq=8,vocab=32"})
    for (const double slowness : {1.0, 100.0}) {
      const auto cost = [&](const std::vector<int>& shape) {
        PlanRequest request = ask(model, "cpu:8", "shard", 16, 1);
        request.training.dtype = DType::F32;
        request.cluster.only().within_host = {Seconds(0.0),
                                              SecondsPerByte(slowness * request.cluster.only().within_host.beta.si())};
        request.search.logical_mesh = shape;
        return planned(request).sharding->cost.si();
      };
      const double cube = cost({2, 2, 2});
      for (const std::vector<int>& merged : Shapes{{8, 1}, {4, 2}, {2, 4}, {1, 8}})
        EXPECT_LE(cube, cost(merged) * 1.01) << model << " " << slowness << " " << merged[0];
    }
}

TEST(ManyAxes, OfOneDeviceChangeNothing) {
  const auto step = [&](const std::vector<int>& shape) {
    PlanRequest request = ask("mlp:layers=2,hidden=32", "cpu:4", "shard", 16, 2);
    request.search.logical_mesh = shape;
    return planned(request).plan->predicted.step_time.si();
  };
  const double plain = step({2, 2});
  for (const std::vector<int>& shape : Shapes{{2, 1, 2}, {1, 2, 2}, {2, 2, 1}, {1, 2, 1, 2, 1}})
    EXPECT_NEAR(step(shape), plain, 1e-9 * plain);
}

}  // namespace
}  // namespace meshwright::many_axes_test
