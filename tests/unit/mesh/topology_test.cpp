// SPDX-License-Identifier: Apache-2.0
// The network of a cluster: its links, the routes through it, and the file that describes it.
#include "core/mesh/topology.h"

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <set>

#include "core/base/text.h"
#include "tests/refusal.h"
#include "tests/unit/network_fixture.h"

namespace meshwright::topology_test {
namespace {

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Within a host 1 s and 100 byte/s, between hosts 2 s and 10 byte/s.
HostGroup hosts(int count, int devices_per_host) {
  return slow_hosts(count, devices_per_host, {Seconds(2), SecondsPerByte(1.0 / 10)});
}

Cluster with_network(Cluster cluster, const std::string& network) {
  cluster.network = network_from_json(parse_json(network, "here"), cluster.groups, "my.json: network");
  return cluster;
}

// Two devices to a PCIe switch of 50 byte/s, a NIC of 20 byte/s for every two devices, two hosts to a leaf.
Cluster leaf_and_spine() {
  return with_network({"leaf and spine", {hosts(4, 4)}},
                      R"({"groups": [{"nvlink": "switch", "pcie": {"devices_per_switch": 2, "bandwidth_bytes_per_s":
                          50}, "nics": {"per_host": 2, "bandwidth_bytes_per_s": 20}}],
                          "leaves": {"hosts_per_leaf": 2, "oversubscription": 4}, "hop_latency_s": 0.5})");
}
Cluster in_pairs() { return with_network({"pairs", {hosts(2, 3)}}, R"({"groups": [{"nvlink": "pairs"}]})"); }
Cluster over_pcie() {
  return with_network({"pcie", {hosts(2, 4)}}, R"({"groups": [{"nvlink": "none", "pcie": {"devices_per_switch": 2,
                                                   "bandwidth_bytes_per_s": 50}}]})");
}

std::vector<std::string> way(const Topology& topology, int source, int destination) {
  const Route route = topology.route(DeviceId(source), DeviceId(destination));
  std::vector<std::string> nodes = {fmt::format("device {}", source)};
  for (const NetworkLinkId link : route.links) {
    EXPECT_EQ(to_text(topology.link(link).from), nodes.back());
    nodes.push_back(to_text(topology.link(link).to));
  }
  return nodes;
}

double seconds(const Route& route, double bytes) { return (route.cost.alpha + route.cost.beta * Bytes(bytes)).si(); }

// --- without a description ---

TEST(DerivedTopology, TakesForAMessageAloneWhatItsLinkCostSaysToTheLastBit) {
  for (const char* name : {"p3.16xlarge:2", "dgx-a100:2", "dgx-h100:2", "dgx-h200:2"}) {
    const Cluster cluster = find_cluster(name);
    const Topology topology(cluster);
    for (const double bytes : {0.0, 1.0, 3.0, 12345.0, 7e9}) {
      const auto static_price = [&](const LinkCost& link) { return (link.alpha + link.beta * Bytes(bytes)).si(); };
      EXPECT_EQ(seconds(topology.route(DeviceId(2), DeviceId(7)), bytes), static_price(cluster.only().within_host));
      EXPECT_EQ(seconds(topology.route(DeviceId(2), DeviceId(8)), bytes), static_price(cluster.only().between_hosts));
    }
  }
}

TEST(DerivedTopology, HasOneNicForAllDevicesOfAHost) {
  const Topology topology(find_cluster("dgx-a100:2"));
  EXPECT_EQ(way(topology, 3, 12),
            (std::vector<std::string>{"device 3", "NIC 0 of host 0", "leaf 0", "NIC 0 of host 1", "device 12"}));
  EXPECT_EQ(topology.route(DeviceId(3), DeviceId(12)).links[1], topology.route(DeviceId(7), DeviceId(8)).links[1]);
  EXPECT_EQ(way(topology, 8, 15), (std::vector<std::string>{"device 8", "NVSwitch of host 1", "device 15"}));
}

TEST(DerivedTopology, BetweenUnlikeHostsTakesTheLargerAlphaAndTheLargerBeta) {
  HostGroup slow_start = hosts(1, 2);
  slow_start.between_hosts = {Seconds(7), SecondsPerByte(1.0 / 40)};
  const Topology topology({"two kinds", {hosts(1, 2), slow_start}});
  EXPECT_DOUBLE_EQ(seconds(topology.route(DeviceId(1), DeviceId(2)), 30), 7 + 30.0 / 10);
  EXPECT_DOUBLE_EQ(seconds(topology.route(DeviceId(2), DeviceId(1)), 30), 7 + 30.0 / 10);
}

TEST(DerivedTopology, OfALinkOnWhichSizeCostsNothingHasFreeLinks) {
  HostGroup free = hosts(2, 2);
  free.between_hosts.beta = free.within_host.beta = SecondsPerByte(0);
  const Topology topology({"free", {free}});
  EXPECT_EQ(seconds(topology.route(DeviceId(0), DeviceId(3)), 1e9), 2);
  EXPECT_EQ(seconds(topology.route(DeviceId(0), DeviceId(1)), 1e9), 1);
}

TEST(Route, FromADeviceToItselfIsFree) {
  const Route route = Topology(leaf_and_spine()).route(DeviceId(5), DeviceId(5));
  EXPECT_TRUE(route.links.empty());
  EXPECT_EQ(seconds(route, 1e9), 0);
}

TEST(Topology, OfThousandsOfHostsFindsARouteWithoutListingTheirLinks) {
  const Topology topology(find_cluster("dgx-h100:4096"));
  EXPECT_EQ(topology.links(), 4096 * 2 * (8 + 8 + 1));
  EXPECT_EQ(way(topology, 0, 4096 * 8 - 1),
            (std::vector<std::string>{"device 0", "NIC 0 of host 0", "leaf 0", "NIC 0 of host 4095", "device 32767"}));
}

// --- with a description ---

TEST(Topology, LeadsOverPcieAdapterLeafAndSpine) {
  const Topology topology(leaf_and_spine());
  EXPECT_EQ(way(topology, 3, 8),
            (std::vector<std::string>{"device 3", "PCIe switch 1 of host 0", "NIC 1 of host 0", "leaf 0", "the spine",
                                      "leaf 1", "NIC 0 of host 2", "PCIe switch 0 of host 2", "device 8"}));
  EXPECT_EQ(way(topology, 3, 4),
            (std::vector<std::string>{"device 3", "PCIe switch 1 of host 0", "NIC 1 of host 0", "leaf 0",
                                      "NIC 0 of host 1", "PCIe switch 0 of host 1", "device 4"}));
  EXPECT_EQ(way(topology, 3, 0), (std::vector<std::string>{"device 3", "NVSwitch of host 0", "device 0"}));
}

TEST(Topology, AddsTheLatencyOfEachHopBetweenAdaptersAndSwitches) {
  const Topology topology(leaf_and_spine());
  EXPECT_DOUBLE_EQ(topology.route(DeviceId(0), DeviceId(1)).cost.alpha.si(), 1);
  EXPECT_DOUBLE_EQ(topology.route(DeviceId(0), DeviceId(4)).cost.alpha.si(), 2 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(topology.route(DeviceId(0), DeviceId(8)).cost.alpha.si(), 2 + 4 * 0.5);
}

TEST(Topology, MovesBytesAtTheRateOfTheNarrowestLink) {
  const Topology topology(leaf_and_spine());
  EXPECT_DOUBLE_EQ(topology.route(DeviceId(0), DeviceId(1)).cost.beta.si(), 1.0 / 100);  // NVLink
  EXPECT_DOUBLE_EQ(topology.route(DeviceId(0), DeviceId(4)).cost.beta.si(), 1.0 / 20);   // a NIC
  // A leaf's two hosts send 2 * 2 * 20 byte/s at most, a quarter of it goes up.
  const NetworkLink up = topology.link(topology.route(DeviceId(0), DeviceId(8)).links[3]);
  EXPECT_EQ(to_text(up.from) + " -> " + to_text(up.to), "leaf 0 -> the spine");
  EXPECT_DOUBLE_EQ(up.cost.beta.si(), 1.0 / (2 * 2 * 20 / 4));
}

TEST(Topology, GivesALeafThatIsNotFullTheUplinksOfAFullOne) {
  const Cluster cluster =
      with_network({"three hosts", {hosts(3, 1)}}, R"({"leaves": {"hosts_per_leaf": 2, "oversubscription": 2}})");
  const Topology topology(cluster);
  const Route route = topology.route(DeviceId(2), DeviceId(0));
  EXPECT_DOUBLE_EQ(topology.link(route.links[2]).cost.beta.si(), 1.0 / (2 * 10 / 2));  // from leaf 1
}

TEST(Topology, CountsUplinksThatAreGivenByNumber) {
  const Topology topology(
      with_network({"uplinks", {hosts(2, 1)}},
                   R"({"leaves": {"hosts_per_leaf": 1, "uplinks": 3, "uplink_bandwidth_bytes_per_s": 2}})"));
  EXPECT_DOUBLE_EQ(topology.route(DeviceId(0), DeviceId(1)).cost.beta.si(), 1.0 / (3 * 2));
}

TEST(Topology, SharesNicsEvenlyAndKeepsADeviceToItsOwn) {
  const Topology topology(with_network({"nics", {hosts(2, 8)}},
                                       R"({"groups": [{"nics": {"per_host": 3, "bandwidth_bytes_per_s": 5},
                                           "pcie": {"devices_per_switch": 8, "bandwidth_bytes_per_s": 50}}]})"));
  std::vector<std::string> nics;
  for (int device = 0; device < 8; ++device) nics.push_back(way(topology, device, 8 + device)[2]);
  std::vector<std::string> wanted;
  for (const int nic : {0, 0, 0, 1, 1, 1, 2, 2}) wanted.push_back(fmt::format("NIC {} of host 0", nic));
  EXPECT_EQ(nics, wanted);
}

TEST(Topology, LinksEveryPairOfItsOwn) {
  const Topology topology(in_pairs());
  EXPECT_EQ(topology.links(), 2 * 2 * (3 + 3 + 1));
  EXPECT_EQ(way(topology, 3, 5), (std::vector<std::string>{"device 3", "device 5"}));
  EXPECT_EQ(way(topology, 0, 3).size(), 5u);
  EXPECT_DOUBLE_EQ(seconds(topology.route(DeviceId(3), DeviceId(5)), 300), 1 + 300.0 / 100);
}

TEST(Topology, WithoutNvLinkLeadsOverPcieSwitchesAndTheHostBridge) {
  const Topology topology(over_pcie());
  EXPECT_EQ(way(topology, 0, 1), (std::vector<std::string>{"device 0", "PCIe switch 0 of host 0", "device 1"}));
  EXPECT_EQ(way(topology, 1, 2), (std::vector<std::string>{"device 1", "PCIe switch 0 of host 0", "bridge of host 0",
                                                           "PCIe switch 1 of host 0", "device 2"}));
}

TEST(Topology, OfLeavesWithoutUplinksNamesTheTwoDevicesAndThePlace) {
  const Cluster islands =
      with_network({"islands", {hosts(4, 2)}}, R"({"leaves": {"hosts_per_leaf": 2, "uplinks": 0}})");
  const Topology topology(islands);
  EXPECT_EQ(way(topology, 0, 2).size(), 5u);
  EXPECT_EQ(refusal([&] { return topology.route(DeviceId(1), DeviceId(6)); }),
            "my.json: network: no path leads from device 1 (host 0) to device 6 (host 3); give the leaves 'uplinks', "
            "or more hosts each.");
}

// --- properties ---

std::vector<Cluster> all_kinds() {
  return {leaf_and_spine(), in_pairs(), over_pcie(), find_cluster("dgx-a100:2+p3.16xlarge:2"),
          with_network({"unlike", {hosts(2, 4), hosts(3, 2)}},
                       R"({"groups": [{"nvlink": "pairs", "nics": {"per_host": 4, "bandwidth_bytes_per_s": 30}}, {}],
                           "leaves": {"hosts_per_leaf": 2, "oversubscription": 2}})")};
}

TEST(Topology, HasEachLinkBothWays) {
  for (const Cluster& cluster : all_kinds()) {
    const Topology topology(cluster);
    std::set<std::pair<NetworkNode, NetworkNode>> seen;
    for (int l = 0; l < topology.links(); ++l) {
      const NetworkLink there = topology.link(NetworkLinkId(l));
      const NetworkLink back = topology.link(Topology::reverse(NetworkLinkId(l)));
      EXPECT_EQ(there.from, back.to);
      EXPECT_EQ(there.to, back.from);
      EXPECT_EQ(there.cost.beta, back.cost.beta);
      EXPECT_TRUE(seen.insert({there.from, there.to}).second) << to_text(there.from) << " -> " << to_text(there.to);
    }
  }
}

TEST(Route, BackUsesTheReverseLinksInReverseOrder) {
  for (const Cluster& cluster : all_kinds()) {
    const Topology topology(cluster);
    for (int a = 0; a < cluster.devices(); ++a)
      for (int b = 0; b < cluster.devices(); ++b) {
        const Route there = topology.route(DeviceId(a), DeviceId(b)), back = topology.route(DeviceId(b), DeviceId(a));
        std::vector<NetworkLinkId> reversed;
        for (auto link = back.links.rbegin(); link != back.links.rend(); ++link)
          reversed.push_back(Topology::reverse(*link));
        ASSERT_EQ(there.links, reversed) << cluster.name << " " << a << " " << b;
        EXPECT_EQ(there.cost.alpha, back.cost.alpha);
        EXPECT_EQ(there.cost.beta, back.cost.beta);
      }
  }
}

// Links from `source` to each device where other devices pass nothing on, by a search over all links of the network.
std::map<int, int> hops_from(const Topology& topology, int source) {
  std::map<NetworkNode, std::vector<NetworkNode>> next;
  std::map<NetworkNode, int> hops;
  std::deque<NetworkNode> open;
  for (int l = 0; l < topology.links(); ++l) {
    const NetworkLink link = topology.link(NetworkLinkId(l));
    next[link.from].push_back(link.to);
    if (link.from.kind == NodeKind::Device && link.from.number == source && hops.emplace(link.from, 0).second)
      open.push_back(link.from);
  }
  std::map<int, int> found;
  for (; !open.empty(); open.pop_front()) {
    const NetworkNode at = open.front();
    if (at.kind == NodeKind::Device) found[at.number] = hops.at(at);
    if (at.kind == NodeKind::Device && at.number != source) continue;
    for (const NetworkNode& to : next.at(at))
      if (hops.emplace(to, hops.at(at) + 1).second) open.push_back(to);
  }
  return found;
}

TEST(Route, IsTheShortestOfTheWholeNetwork) {
  for (const Cluster& cluster : all_kinds()) {
    const Topology topology(cluster);
    for (int a = 0; a < cluster.devices(); ++a)
      for (const auto& [b, hops] : hops_from(topology, a))
        EXPECT_EQ(topology.route(DeviceId(a), DeviceId(b)).links.size(), static_cast<std::size_t>(hops))
            << cluster.name << " " << a << " " << b;
  }
}

TEST(Routes, AreThoseOfTheTopologyAndStayWhereTheyAre) {
  const Topology topology(leaf_and_spine());
  Routes routes(topology);
  const Route& first = routes.between(DeviceId(0), DeviceId(9));
  for (int device = 0; device < 16; ++device) (void)routes.between(DeviceId(device), DeviceId(3));
  EXPECT_EQ(&first, &routes.between(DeviceId(0), DeviceId(9)));
  EXPECT_EQ(first.links, topology.route(DeviceId(0), DeviceId(9)).links);
}

// --- the file ---

TEST(NetworkJson, ReadsBackWhatItWrote) {
  for (const Cluster& cluster : all_kinds()) {
    const Json json = to_json(cluster);
    EXPECT_EQ(json.contains("network"), cluster.network.has_value());
    EXPECT_EQ(to_json(cluster_from_json(json, "there")).dump(), json.dump());
  }
  const Cluster back = cluster_from_json(to_json(leaf_and_spine()), "there");
  EXPECT_EQ(back.network->place, "there: network");
  EXPECT_EQ(back.network->groups.at(0).nics->count, 2);
  EXPECT_EQ(back.network->leaves->hosts, 2);
}

TEST(NetworkJson, OfNothingIsWhatFollowsFromTheGroups) {
  const Cluster plain{"plain", {hosts(2, 4)}};
  const Topology derived(plain), described(with_network(plain, "{}"));
  EXPECT_EQ(derived.links(), described.links());
  for (const int to : {1, 5}) {
    EXPECT_EQ(derived.route(DeviceId(0), DeviceId(to)).links, described.route(DeviceId(0), DeviceId(to)).links);
    EXPECT_EQ(derived.route(DeviceId(0), DeviceId(to)).cost.beta, described.route(DeviceId(0), DeviceId(to)).cost.beta);
  }
}

TEST(NetworkJson, RefusesWhatItDoesNotTakeNamingThePlace) {
  const auto says = [](const std::string& text) {
    return refusal([&] { return with_network({"two groups", {hosts(2, 4), hosts(1, 100)}}, text); });
  };
  const auto of_group = [&](const std::string& text) { return says(R"({"groups": [{}, )" + text + "]}"); };
  EXPECT_SAYS(says("[]"), "my.json: network: an object was expected");
  EXPECT_SAYS(says(R"({"leafs": {}})"), "my.json: network: unknown member 'leafs'; the nearest known are leaves");
  EXPECT_SAYS(says(R"({"groups": [{}]})"), "one entry for each group of hosts, 2 in all");
  EXPECT_SAYS(says(R"({"hop_latency_s": -1})"), "'hop_latency_s' is -1");
  EXPECT_SAYS(of_group(R"({"nvlink": "swich"})"), "my.json: network: groups[1]: unknown nvlink 'swich'");
  EXPECT_SAYS(of_group(R"({"nvlink": "none"})"), "connected by 'pcie' only");
  EXPECT_SAYS(of_group(R"({"nvlink": "pairs"})"), "100 devices per host are too many");
  EXPECT_SAYS(of_group(R"({"nics": {"per_host": 0, "bandwidth_bytes_per_s": 1}})"),
              "groups[1]: nics: 'per_host' is 0; a number from 1");
  EXPECT_SAYS(of_group(R"({"nics": {"per_host": 1}})"), "'bandwidth_bytes_per_s' is missing");
  for (const char* rate : {"0", "-2", "1e-300"})
    EXPECT_SAYS(of_group(fmt::format(R"({{"pcie": {{"devices_per_switch": 1, "bandwidth_bytes_per_s": {}}}}})", rate)),
                "my.json: network: groups[1]: pcie: 'bandwidth_bytes_per_s' is ");
  EXPECT_SAYS(of_group(R"({"pcie": {"devices_per_switch": 1, "bandwidth_bytes_per_s": null}})"), "has the wrong type");
  EXPECT_SAYS(says(R"({"leaves": {"hosts_per_leaf": 1, "oversubscription": 0.5}})"),
              "my.json: network: leaves: 'oversubscription' is 0.5; a number from 1");
  EXPECT_SAYS(says(R"({"leaves": {"hosts_per_leaf": 1, "oversubscription": 1, "uplinks": 2}})"), "give one of them");
  EXPECT_SAYS(says(R"({"leaves": {"hosts_per_leaf": 1, "uplinks": 2}})"), "'uplink_bandwidth_bytes_per_s' is missing");
  EXPECT_SAYS(says(R"({"leaves": {"hosts_per_leaf": 1, "uplink_bandwidth_bytes_per_s": 2}})"),
              "is given without 'uplinks'");
  EXPECT_SAYS(says(R"({"leaves": {"hosts_per_leaf": 1, "uplinks": -1}})"), "'uplinks' is -1");
}

TEST(NetworkJson, RefusesRatesThatAreNotFinite) {
  Json json = Json::object();
  json["leaves"] = {{"hosts_per_leaf", 1}, {"oversubscription", std::numeric_limits<double>::infinity()}};
  EXPECT_SAYS(refusal([&] { return network_from_json(json, {hosts(1, 1)}, "my.json: network"); }),
              "my.json: network: leaves: 'oversubscription' is inf; a positive number was expected");
  json["leaves"]["oversubscription"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_SAYS(refusal([&] { return network_from_json(json, {hosts(1, 1)}, "my.json: network"); }), "is nan");
}

TEST(NetworkJson, StaysWithAPartOfTheCluster) {
  const Cluster part = take_part(leaf_and_spine(), 2, 2);
  const Topology topology(part);
  EXPECT_EQ(way(topology, 1, 2).at(2), "NIC 1 of host 0");
}

TEST(ExampleClusters, OfALeafAndSpineNetworkHasWhatItsNameSays) {
  const std::filesystem::path tests = std::filesystem::path(__FILE__).parent_path();
  const Topology topology(find_cluster(tests / "../../../examples/clusters/16_dgx_a100_leaf_spine.json"));
  EXPECT_EQ(topology.cluster().devices(), 16 * 8);
  EXPECT_EQ(way(topology, 0, 127).size(), 9u);  // 8 links, spine in the middle
  // One of eight HDR adapters; the whole host's network is what the preset has.
  const double nic = topology.route(DeviceId(0), DeviceId(8)).cost.beta.si();
  EXPECT_NEAR(nic / 8, find_cluster("dgx-a100:16").only().between_hosts.beta.si(), 1e-20);
}

}  // namespace
}  // namespace meshwright::topology_test
