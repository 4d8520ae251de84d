// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/mesh/cluster.h"
#include "core/mesh/submesh.h"
#include "tests/refusal.h"

namespace meshwright::mesh_test {
namespace {

using Shapes = std::vector<std::vector<int>>;

// Links whose costs decode by eye: within a host alpha 1, beta 10; between hosts alpha 100, beta 1000.
Cluster grid(int hosts, int devices_per_host) {
  Cluster cluster = find_cluster("p3.16xlarge");
  cluster.name = "grid";
  cluster.only().hosts = hosts;
  cluster.only().devices_per_host = devices_per_host;
  cluster.only().within_host = {Seconds(1), SecondsPerByte(10)};
  cluster.only().between_hosts = {Seconds(100), SecondsPerByte(1000)};
  return cluster;
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// --- clusters ---

TEST(Presets, AreFoundByNameAndCount) {
  const Cluster cluster = find_cluster("p3.16xlarge:8");
  EXPECT_EQ(cluster.name, "p3.16xlarge:8");
  EXPECT_EQ(cluster.devices(), 64);
  EXPECT_EQ(cluster.only().device.peak.at("f16"), teraflops(125));
  EXPECT_EQ(cluster.only().device.peak.count("bf16"), 0u);  // V100 has no bf16 units
  EXPECT_EQ(cluster.only().between_hosts.beta, SecondsPerByte(1 / 3.125e9));
  EXPECT_EQ(find_cluster("dgx-h200:2").only().device.memory, Bytes(141e9));
}

TEST(Presets, TellTheHostsOfAllButThisMachine) {
  for (const ClusterPreset& preset : cluster_presets()) {
    const std::string family = preset.pattern.substr(0, preset.pattern.find(':'));
    const DeviceKind device = find_cluster(family + ":1").only().device;
    EXPECT_EQ(device.host_bandwidth.si() > 0, family != "cpu") << family;
    EXPECT_EQ(device.host_memory.si() > 0, family != "cpu") << family;
  }
}

// 0.8 of 15.75 GB/s and of twice and four times that, for two devices behind a switch on V100 and A100.
TEST(Presets, ReachTheHostOverLinksOfTheirGeneration) {
  const auto rate = [](const char* name) { return find_cluster(name).only().device.host_bandwidth.si() * 1e-9; };
  EXPECT_NEAR(rate("p3.16xlarge"), 0.8 * 15.75 / 2, 1e-9);
  EXPECT_NEAR(rate("dgx-a100"), 0.8 * 31.5 / 2, 1e-9);
  EXPECT_NEAR(rate("g6e.48xlarge"), 0.8 * 31.5, 1e-9);
  EXPECT_NEAR(rate("dgx-b200"), 0.8 * 63, 1e-9);
  EXPECT_NEAR(rate("gb300-nvl72"), 0.66 * 450 / 2, 1e-9);
  EXPECT_EQ(find_cluster("dgx-h100").only().device.host_memory, Bytes(2.5e11));
  EXPECT_EQ(find_cluster("p4de.24xlarge").only().device.host_memory, gibibytes(144));
}

TEST(Presets, MeanOneHostWithoutACount) { EXPECT_EQ(find_cluster("dgx-a100").name, "dgx-a100:1"); }

TEST(Presets, TurnThreadsIntoDevicesOfOneHost) {
  const Cluster cluster = find_cluster("cpu:4");
  EXPECT_EQ(cluster.only().hosts, 1);
  EXPECT_EQ(cluster.only().devices_per_host, 4);
  EXPECT_EQ(cluster.only().device.memory, gibibytes(4));  // 16 GiB / 4
}

TEST(Presets, AreAllListedAndAllBuild) {
  for (const ClusterPreset& preset : cluster_presets()) {
    const std::string family = preset.pattern.substr(0, preset.pattern.find(':'));
    EXPECT_GT(find_cluster(family + ":2").usable_memory().si(), 0) << preset.pattern;
    EXPECT_FALSE(preset.what.empty());
  }
}

TEST(Presets, RefuseAnUnknownNameWithTheNearest) {
  const std::string says = refusal([] { (void)find_cluster("dgx-h10:4"); });
  EXPECT_SAYS(says, "dgx-h100:N");
  EXPECT_SAYS(says, "`meshwright clusters`");
}

TEST(Presets, RefuseCountsThatAreNoWholeNumberInRange) {
  EXPECT_SAYS(refusal([] { (void)find_cluster("dgx-a100:2.5"); }), "'2.5'");
  EXPECT_SAYS(refusal([] { (void)find_cluster("dgx-a100:"); }), "whole number");
  EXPECT_SAYS(refusal([] { (void)find_cluster("dgx-a100:0"); }), "1 to 4096");
  EXPECT_SAYS(refusal([] { (void)find_cluster("dgx-a100:4097"); }), "1 to 4096");
  EXPECT_SAYS(refusal([] { (void)find_cluster("cpu:65"); }), "1 to 64");
  EXPECT_SAYS(refusal([] { (void)find_cluster("dgx-a100:2:2"); }), "'2:2'");
}

TEST(TakePart, KeepsTheFirstHostsAndDevicesAndSaysSo) {
  const Cluster part = take_part(find_cluster("p3.16xlarge:8"), 2, 4);
  EXPECT_EQ(part.name, "p3.16xlarge:8[2x4]");
  EXPECT_EQ(part.only().hosts, 2);
  EXPECT_EQ(part.only().devices_per_host, 4);
}

TEST(TakePart, TakesAllForZero) {
  EXPECT_EQ(take_part(find_cluster("p3.16xlarge:8"), 0, 0).name, "p3.16xlarge:8");
  EXPECT_EQ(take_part(find_cluster("p3.16xlarge:8"), 3, 0).name, "p3.16xlarge:8[3x8]");
}

TEST(TakePart, RefusesMoreThanThereIs) {
  const Cluster cluster = find_cluster("p3.16xlarge:2");
  EXPECT_SAYS(refusal([&] { (void)take_part(cluster, 3, 0); }), "has 2 hosts, but 3 were requested");
  EXPECT_SAYS(refusal([&] { (void)take_part(cluster, 0, 9); }), "has 8 devices per host, but 9 were requested");
  EXPECT_SAYS(refusal([&] { (void)take_part(cluster, -1, 0); }), "-1 were requested");
}

// --- cluster files ---

Json preset_json() { return to_json(find_cluster("p3.16xlarge:2")); }
std::string file_refusal(const Json& json) {
  return refusal([&] { (void)cluster_from_json(json, "my.json"); });
}

TEST(ClusterJson, ReadsBackWhatItWrote) {
  for (const ClusterPreset& preset : cluster_presets()) {
    const Cluster cluster = find_cluster(preset.pattern.substr(0, preset.pattern.find(':')) + ":3");
    const Json json = to_json(cluster);
    const Cluster back = cluster_from_json(json, "here");
    EXPECT_EQ(to_json(back), json);
    EXPECT_EQ(back.name, cluster.name);
    EXPECT_EQ(back.only().within_host.beta, cluster.only().within_host.beta);
    EXPECT_EQ(back.only().between_hosts.alpha, cluster.only().between_hosts.alpha);
    EXPECT_EQ(back.only().device.peak, cluster.only().device.peak);
    EXPECT_EQ(back.only().device.launch, cluster.only().device.launch);
  }
}

TEST(ClusterJson, KeepsWhatADeviceCostsAndDraws) {
  Cluster cluster = grid(1, 2);
  EXPECT_FALSE(to_json(cluster)["device"].contains("watts"));
  cluster.only().device.price_per_device_hour = 2.5;
  cluster.only().device.watts = 700;
  const Cluster back = cluster_from_json(to_json(cluster), "here");
  EXPECT_EQ(back.only().device.price_per_device_hour, 2.5);
  EXPECT_EQ(back.only().device.watts, 700);
  Json json = preset_json();
  json["device"]["watts"] = 0;
  EXPECT_SAYS(file_refusal(json), "my.json: device: 'watts' is 0; a positive number was expected.");
}

TEST(ClusterJson, WritesALinkWithoutCostPerByteAsNull) {
  Cluster cluster = grid(1, 2);
  cluster.only().between_hosts.beta = SecondsPerByte(0);
  EXPECT_TRUE(to_json(cluster)["between_hosts"]["bandwidth_bytes_per_s"].is_null());
  EXPECT_EQ(cluster_from_json(to_json(cluster), "here").only().between_hosts.beta, SecondsPerByte(0));
}

TEST(ClusterJson, RefusesANewerVersion) {
  Json json = preset_json();
  json["version"] = 2;
  json["something_new"] = true;
  EXPECT_SAYS(file_refusal(json), "my.json: version 2 was written by a newer meshwright; this one reads version 1");
}

TEST(ClusterJson, RefusesAnotherFormat) {
  Json json = preset_json();
  json["format"] = "meshwright-plan";
  EXPECT_SAYS(file_refusal(json), "'meshwright-plan'");
}

TEST(ClusterJson, NamesThePlaceOfEveryBadNumber) {
  Json json = preset_json();
  json["device"]["memory_bytes"] = -1;
  EXPECT_SAYS(file_refusal(json), "my.json: device: 'memory_bytes' is -1");
  json = preset_json();
  json["within_host"]["bandwidth_bytes_per_s"] = 0;
  EXPECT_SAYS(file_refusal(json), "my.json: within_host: 'bandwidth_bytes_per_s' is 0");
  json = preset_json();
  json["device"]["usable_memory"] = 1.5;
  EXPECT_SAYS(file_refusal(json), "'usable_memory' is 1.5; a share");
  json = preset_json();
  json["hosts"] = 0;
  EXPECT_SAYS(file_refusal(json), "'hosts' is 0");
  json = preset_json();
  json["hosts"] = 1.5;
  EXPECT_SAYS(file_refusal(json), "'hosts' has the wrong type");
}

TEST(ClusterJson, RefusesMissingAndUnknownMembers) {
  Json json = preset_json();
  json["device"].erase("launch_s");
  EXPECT_SAYS(file_refusal(json), "my.json: device: 'launch_s' is missing");
  json = preset_json();
  json["devices_per_hosts"] = 4;
  EXPECT_SAYS(file_refusal(json), "unknown member 'devices_per_hosts'; the nearest known are devices_per_host,");
  json = preset_json();
  json["device"]["peak_flops_per_s"]["fp16"] = 1e12;
  EXPECT_SAYS(file_refusal(json), "my.json: device.peak_flops_per_s: ");
}

TEST(ClusterJson, IsReadFromAFileNamedAsACluster) {
  const std::string path = testing::TempDir() + "mesh_test_" + std::to_string(getpid()) + ".json";
  write_file(path, preset_json().dump(2));
  EXPECT_EQ(find_cluster(path).name, "p3.16xlarge:2");
  write_file(path, "{");
  EXPECT_SAYS(refusal([&] { (void)find_cluster(path); }), path + ":1:");
  std::remove(path.c_str());
}

// --- submeshes ---

TEST(Submeshes, OfEightHostsOfEightAreAlpasSeven) {
  const std::vector<Submesh> expected = {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 8}, {4, 8}, {8, 8}};
  EXPECT_EQ(enumerate_submeshes(grid(8, 8), SubmeshSpace::PowerOfTwo), expected);
  EXPECT_EQ(enumerate_submeshes(grid(2, 8), SubmeshSpace::PowerOfTwo).size(), 5u);
}

TEST(Submeshes, OfTheSmallSpaceStopAtFourHosts) {
  const std::vector<Submesh> expected = {{1, 1}, {1, 2}, {2, 2}, {4, 2}};
  EXPECT_EQ(enumerate_submeshes(grid(16, 2), SubmeshSpace::SmallPowerOfTwo), expected);
}

TEST(Submeshes, OfTheFullSpaceTakeEveryNumberOfHosts) {
  const std::vector<Submesh> expected = {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}};
  EXPECT_EQ(enumerate_submeshes(grid(5, 4), SubmeshSpace::All), expected);
}

TEST(Submeshes, IncludeTheWholeWhereItIsNoPowerOfTwo) {
  const std::vector<Submesh> expected = {{1, 1}, {1, 2}, {1, 4}, {1, 6}, {2, 6}, {3, 6}};
  EXPECT_EQ(enumerate_submeshes(grid(3, 6), SubmeshSpace::PowerOfTwo), expected);
  EXPECT_EQ(enumerate_submeshes(grid(3, 6), SubmeshSpace::SmallPowerOfTwo), expected);
  EXPECT_EQ(enumerate_submeshes(grid(1, 1), SubmeshSpace::PowerOfTwo), (std::vector<Submesh>{{1, 1}}));
}

TEST(Submeshes, SpacesAreNamed) {
  EXPECT_EQ(submesh_space_from_name("small_power_of_two"), SubmeshSpace::SmallPowerOfTwo);
  EXPECT_SAYS(refusal([] { (void)submesh_space_from_name("power_of_tow"); }), "power_of_two");
  EXPECT_EQ(logical_mesh_space_from_name("single_node_model_parallel"), LogicalMeshSpace::SingleNodeModelParallel);
  EXPECT_SAYS(refusal([] { (void)logical_mesh_space_from_name("al"); }), "all");
}

// --- logical meshes ---

// (inner, outer) of each axis.
std::vector<std::pair<int, int>> spread(const LogicalMesh& mesh) {
  std::vector<std::pair<int, int>> axes;
  for (const MeshAxis& axis : mesh.axes) axes.emplace_back(axis.inner, axis.outer);
  return axes;
}

TEST(LogicalMesh, SplitsEachAxisIntoDevicesOfAHostAndHosts) {
  using Spread = std::vector<std::pair<int, int>>;
  const auto over_2x8 = [](std::vector<int> shape) { return spread(make_logical_mesh(grid(2, 8), {2, 8}, shape)); };
  EXPECT_EQ(over_2x8({2, 8}), (Spread{{1, 2}, {8, 1}}));  // rows across hosts, columns inside
  EXPECT_EQ(over_2x8({4, 4}), (Spread{{2, 2}, {4, 1}}));
  EXPECT_EQ(over_2x8({8, 2}), (Spread{{4, 2}, {2, 1}}));
  EXPECT_EQ(over_2x8({16, 1}), (Spread{{8, 2}, {1, 1}}));
  EXPECT_EQ(over_2x8({1, 16}), (Spread{{1, 1}, {8, 2}}));
  EXPECT_EQ(over_2x8({2, 2, 4}), (Spread{{1, 2}, {2, 1}, {4, 1}}));
  EXPECT_EQ(spread(make_logical_mesh(grid(2, 8), {1, 8}, {2, 4})), (Spread{{2, 1}, {4, 1}}));
}

TEST(LogicalMesh, SharesTheHostsNetworkAmongTheDevicesOfTheSubmesh) {
  const LogicalMesh mesh = make_logical_mesh(grid(2, 8), {2, 4}, {2, 4});
  EXPECT_EQ(mesh.axes[0].inner_link.alpha, Seconds(1));
  EXPECT_EQ(mesh.axes[0].inner_link.beta, SecondsPerByte(10));
  EXPECT_EQ(mesh.axes[0].outer_link.alpha, Seconds(100));
  EXPECT_EQ(mesh.axes[0].outer_link.beta, SecondsPerByte(4000));  // 4 devices of a host x 1000
}

TEST(LogicalMesh, NumbersDevicesWithTheLastAxisFastest) {
  const LogicalMesh mesh = make_logical_mesh(grid(1, 8), {1, 8}, {2, 4});
  EXPECT_EQ(mesh.to_text(), "2x4");
  EXPECT_EQ(mesh.coordinates(6), (std::vector<int>{1, 2}));  // 6 = 1*4 + 2
  EXPECT_EQ(mesh.group(6, 0), (std::vector<int>{2, 6}));
  EXPECT_EQ(mesh.group(6, 1), (std::vector<int>{4, 5, 6, 7}));
}

TEST(LogicalMesh, GroupsOfAnAxisPartitionTheDevicesAndFollowTheCoordinate) {
  const LogicalMesh mesh = make_logical_mesh(grid(2, 6), {2, 6}, {2, 2, 3});
  for (int axis = 0; axis < mesh.rank(); ++axis)
    for (int device = 0; device < mesh.devices(); ++device) {
      const std::vector<int> group = mesh.group(device, axis);
      const std::vector<int> own = mesh.coordinates(device);
      for (std::size_t i = 0; i < group.size(); ++i) {
        std::vector<int> expected = own;
        expected[static_cast<std::size_t>(axis)] = static_cast<int>(i);
        EXPECT_EQ(mesh.coordinates(group[i]), expected);
        EXPECT_EQ(mesh.group(group[i], axis), group);
      }
    }
}

TEST(LogicalMesh, RefusesAnAxisThatStraddlesHostsUnevenly) {
  const std::string says = refusal([] { (void)make_logical_mesh(grid(2, 6), {2, 6}, {3, 4}); });
  EXPECT_SAYS(says, "3x4: axis 1");
  EXPECT_THROW((void)make_logical_mesh(grid(2, 8), {2, 8}, {2, 4}), InternalError);  // 8 of 16 devices
}

// Counts devices per host in each group, from the definition alone: equal (inner, outer) everywhere, or nothing.
std::optional<std::pair<int, int>> spread_by_counting(const LogicalMesh& flat, int devices_per_host, int axis) {
  std::optional<std::pair<int, int>> common;
  for (int device = 0; device < flat.devices(); ++device) {
    std::map<int, int> on_host;
    for (const int member : flat.group(device, axis)) ++on_host[member / devices_per_host];
    for (const auto& [host, count] : on_host) {
      const std::pair<int, int> here{count, static_cast<int>(on_host.size())};
      if (common && *common != here) return std::nullopt;
      common = here;
    }
  }
  return common;
}

TEST(LogicalMesh, AgreesWithCountingDevicesPerHost) {
  int accepted = 0, refused = 0;
  for (int hosts = 1; hosts <= 6; ++hosts)
    for (int m = 1; m <= 8; ++m)
      for (int mp = 1; mp <= hosts * m; ++mp) {
        if (hosts * m % mp != 0) continue;
        const std::vector<int> shape = {hosts * m / mp, mp};
        const int n = hosts * m;
        const LogicalMesh flat = make_logical_mesh(grid(1, n), {1, n}, shape);  // one host: never refused
        const auto rows = spread_by_counting(flat, m, 0), columns = spread_by_counting(flat, m, 1);
        if (rows && columns) {
          EXPECT_EQ(spread(make_logical_mesh(grid(hosts, m), {hosts, m}, shape)), (std::vector{*rows, *columns}));
          ++accepted;
        } else {
          EXPECT_THROW((void)make_logical_mesh(grid(hosts, m), {hosts, m}, shape), InputError);
          ++refused;
        }
      }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 10);
}

TEST(LogicalShapes, AreThoseOfTheNamedSpace) {
  const Submesh two_by_eight{2, 8};
  EXPECT_EQ(enumerate_logical_shapes(two_by_eight, LogicalMeshSpace::SameAsPhysical), (Shapes{{2, 8}}));
  EXPECT_EQ(enumerate_logical_shapes(two_by_eight, LogicalMeshSpace::DataParallelOnly), (Shapes{{16, 1}}));
  EXPECT_EQ(enumerate_logical_shapes(two_by_eight, LogicalMeshSpace::ModelParallelOnly), (Shapes{{1, 16}}));
  EXPECT_EQ(enumerate_logical_shapes(two_by_eight, LogicalMeshSpace::SingleNodeModelParallel),
            (Shapes{{16, 1}, {8, 2}, {4, 4}, {2, 8}}));
  EXPECT_EQ(enumerate_logical_shapes(two_by_eight, LogicalMeshSpace::All),
            (Shapes{{16, 1}, {8, 2}, {4, 4}, {2, 8}, {1, 16}}));
  EXPECT_EQ(enumerate_logical_shapes({1, 1}, LogicalMeshSpace::All), (Shapes{{1, 1}}));
}

TEST(LogicalShapes, LeaveOutWhatNoLogicalMeshCanBe) {
  // 2x6: mp = 4 divides 12 and fits a host, but its groups would be 4, 2+2, 4.
  EXPECT_EQ(enumerate_logical_shapes({2, 6}, LogicalMeshSpace::SingleNodeModelParallel),
            (Shapes{{12, 1}, {6, 2}, {4, 3}, {2, 6}}));
  for (const std::vector<int>& shape : enumerate_logical_shapes({3, 6}, LogicalMeshSpace::All))
    EXPECT_NO_THROW((void)make_logical_mesh(grid(3, 6), {3, 6}, shape));
}

}  // namespace
}  // namespace meshwright::mesh_test
