// SPDX-License-Identifier: Apache-2.0
// The placement of stages against enumeration: every set of hosts for every stage, priced from the device lists.
#include "core/planner/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/planner/placement/fill_hosts.h"
#include "core/planner/placement/placement_search.h"

namespace meshwright::placement_test {
namespace {

constexpr double kWithin = 1, kBetween = 10;  // seconds per byte

Cluster grid(int hosts, int devices_per_host, double within = kWithin, double between = kBetween) {
  Cluster cluster = find_cluster("p3.16xlarge");
  cluster.only().hosts = hosts;
  cluster.only().devices_per_host = devices_per_host;
  cluster.only().within_host = {Seconds(5), SecondsPerByte(within)};
  cluster.only().between_hosts = {Seconds(7), SecondsPerByte(between)};
  return cluster;
}

// Seconds of bytes and messages between two stages whose shares of the devices on each host are `a` and `b`: each host
// sends as much as it can to itself. What leaves it takes the slower network of the two stages' hosts.
double price(const Cluster& cluster, const std::map<int, double>& a, const std::map<int, double>& b, double bytes,
             double messages) {
  double within = 0;
  for (const auto& [host, share] : a) within += std::min(share, b.count(host) > 0 ? b.at(host) : 0.0);
  const HostGroup& from = cluster.group(cluster.group_of_host(a.begin()->first));
  const HostGroup& to = cluster.group(cluster.group_of_host(b.begin()->first));
  const double between = std::max(from.between_hosts.beta.si(), to.between_hosts.beta.si());
  const double later = std::max(from.between_hosts.alpha.si(), to.between_hosts.alpha.si());
  return bytes * (within * from.within_host.beta.si() + (1 - within) * between) +
         messages * (within * from.within_host.alpha.si() + (1 - within) * later);
}

double price(const Cluster& cluster, const PlacementRequest& request,
             const std::vector<std::map<int, double>>& shares) {
  double sum = 0;
  for (std::size_t s = 0; s + 1 < shares.size(); ++s)
    sum += price(cluster, shares[s], shares[s + 1],
                 request.neighbour_bytes.empty() ? 1.0 : request.neighbour_bytes[s].si(),
                 request.neighbour_messages.empty() ? 0.0 : request.neighbour_messages[s]);
  for (const StageTraffic& c : request.others)
    sum += price(cluster, shares[static_cast<std::size_t>(c.from)], shares[static_cast<std::size_t>(c.to)],
                 c.bytes.si(), c.messages);
  return sum;
}

std::vector<int> room_of_hosts(const Cluster& cluster) {
  std::vector<int> room;
  for (const HostGroup& group : cluster.groups)
    room.insert(room.end(), static_cast<std::size_t>(group.hosts), group.devices_per_host);
  return room;
}

// The least price of all ways to give each stage its hosts; nullopt: there is none.
struct Enumeration {
  const Cluster& cluster;
  const PlacementRequest& request;
  std::vector<int> free = room_of_hosts(cluster);
  std::vector<std::map<int, double>> shares = {};
  std::optional<double> least = std::nullopt;

  bool allowed(std::size_t stage, std::size_t host) const {
    return free[host] >= request.stages[stage].devices_per_host &&
           cluster.group_of_host(static_cast<int>(host)) == request.stages[stage].group;
  }
  void run() {
    const std::size_t s = shares.size();
    if (s == request.stages.size()) {
      const double now = price(cluster, request, shares);
      if (!least || now < *least) least = now;
      return;
    }
    const Submesh stage = request.stages[s];
    for (unsigned set = 1; set < 1U << cluster.hosts(); ++set) {
      if (__builtin_popcount(set) != stage.hosts) continue;
      bool room = true;
      std::map<int, double> share;
      for (std::size_t h = 0; h < free.size(); ++h) {
        if ((set >> h & 1) == 0) continue;
        room = room && allowed(s, h);
        share[static_cast<int>(h)] = 1.0 / stage.hosts;
      }
      if (!room) continue;
      for (const auto& [h, part] : share) free[static_cast<std::size_t>(h)] -= stage.devices_per_host;
      shares.push_back(share);
      run();
      shares.pop_back();
      for (const auto& [h, part] : share) free[static_cast<std::size_t>(h)] += stage.devices_per_host;
    }
  }
};

// Checks the device lists and returns their price.
double check_devices(const Cluster& cluster, const PlacementRequest& request, const Placement& placement) {
  std::vector<bool> taken(static_cast<std::size_t>(cluster.devices()), false);
  std::vector<std::map<int, double>> shares;
  EXPECT_EQ(placement.devices.size(), request.stages.size());
  for (std::size_t s = 0; s < placement.devices.size(); ++s) {
    const Submesh stage = request.stages[s];
    std::map<int, double> share;
    EXPECT_TRUE(std::is_sorted(placement.devices[s].begin(), placement.devices[s].end()));
    for (const int device : placement.devices[s]) {
      EXPECT_FALSE(taken.at(static_cast<std::size_t>(device))) << "device " << device << " twice";
      taken[static_cast<std::size_t>(device)] = true;
      share[cluster.host_of_device(device)] += 1.0 / stage.devices();
    }
    EXPECT_EQ(static_cast<int>(placement.devices[s].size()), stage.devices());
    EXPECT_EQ(static_cast<int>(share.size()), stage.hosts);
    for (const auto& [host, part] : share) {
      EXPECT_NEAR(part, 1.0 / stage.hosts, 1e-12);
      EXPECT_EQ(cluster.group_of_host(host), stage.group);
    }
    shares.push_back(share);
  }
  return price(cluster, request, shares);
}

std::string text(const Cluster& cluster, const PlacementRequest& request) {
  std::string out;
  for (const HostGroup& group : cluster.groups)
    out += std::to_string(group.hosts) + "x" + std::to_string(group.devices_per_host) + " ";
  out += ":";
  for (const Submesh& s : request.stages) out += " " + to_text(s);
  for (const Bytes b : request.neighbour_bytes) out += " b" + std::to_string(static_cast<int>(b.si()));
  for (const StageTraffic& c : request.others)
    out += " " + std::to_string(c.from) + "-" + std::to_string(c.to) + "=" + std::to_string(c.bytes.si());
  return out;
}

enum class Outcome { Placed, Refused };
Outcome compare(const Cluster& cluster, const PlacementRequest& request) {
  Enumeration all{cluster, request};
  all.run();
  const auto placement = place_stages(cluster, request);
  EXPECT_EQ(placement.has_value(), all.least.has_value()) << text(cluster, request);
  if (!placement || !all.least) return Outcome::Refused;
  EXPECT_TRUE(placement->optimal) << text(cluster, request);
  EXPECT_NEAR(placement->crossing.si(), *all.least, 1e-9 * (1 + *all.least)) << text(cluster, request);
  EXPECT_NEAR(check_devices(cluster, request, *placement), *all.least, 1e-9 * (1 + *all.least))
      << text(cluster, request);
  return Outcome::Placed;
}

// Calls check(stages) for every list of up to `most` stages out of `shapes`.
template <class Check>
void for_each_list(const std::vector<Submesh>& shapes, std::size_t most, const Check& check) {
  std::vector<Submesh> stages;
  const auto extend = [&](const auto& self) -> void {
    if (!stages.empty()) check(stages);
    if (stages.size() == most) return;
    for (const Submesh& shape : shapes) {
      stages.push_back(shape);
      self(self);
      stages.pop_back();
    }
  };
  extend(extend);
}

TEST(Placement, IsLeastForEveryListOfStagesWithinAHost) {
  int placed = 0, refused = 0;
  for (const int hosts : {1, 2, 3, 4})
    for_each_list({{1, 1}, {1, 2}, {1, 3}, {1, 4}}, 5, [&](const std::vector<Submesh>& stages) {
      PlacementRequest request;
      request.stages = stages;
      ++(compare(grid(hosts, 4), request) == Outcome::Placed ? placed : refused);
    });
  EXPECT_GT(placed, 1000);
  EXPECT_GT(refused, 500);
}

TEST(Placement, IsLeastForEveryListOfThreeRectangles) {
  std::vector<Submesh> shapes;
  for (const int n : {1, 2, 3})
    for (const int m : {1, 2, 3}) shapes.push_back({n, m});
  for_each_list(shapes, 3, [&](const std::vector<Submesh>& stages) {
    PlacementRequest request;
    request.stages = stages;
    compare(grid(3, 3), request);
  });
}

struct Draw {
  std::mt19937 random;
  int operator()(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
};

// Sizes that mostly fill the cluster, unequal bytes, and up to three further crossings (stage 0 to the last among
// them).
PlacementRequest random_request(Draw& draw, const Cluster& cluster, bool rectangles, int most_stages) {
  PlacementRequest request;
  const int stages = draw(1, most_stages), groups = static_cast<int>(cluster.groups.size());
  for (int s = 0; s < stages; ++s) {
    const int g = groups == 1 ? 0 : draw(0, groups - 1);
    const HostGroup& group = cluster.group(g);
    const bool wide = rectangles && draw(0, 2) == 0;
    request.stages.push_back({wide ? draw(1, group.hosts) : 1, draw(1, draw(1, group.devices_per_host)), g});
  }
  for (int s = 0; s + 1 < stages; ++s) request.neighbour_bytes.emplace_back(draw(0, 9));
  for (int c = draw(0, 3); c > 0 && stages > 1; --c) {
    const int from = draw(0, 1) * draw(0, stages - 1);  // often 0
    const int to = draw(0, 1) == 0 ? stages - 1 : draw(0, stages - 1);
    if (from != to) request.others.push_back({from, to, Bytes(draw(1, 20))});
  }
  return request;
}

TEST(Placement, IsLeastWithUnequalBytesAndOtherCrossings) {
  Draw draw{std::mt19937(1)};
  int placed = 0;
  for (int trial = 0; trial < 10000; ++trial) {
    const Cluster cluster = grid(draw(1, 4), draw(1, 4));
    placed += compare(cluster, random_request(draw, cluster, draw(0, 1) == 1, 5)) == Outcome::Placed;
  }
  EXPECT_GT(placed, 1000);
}

// The complete search by itself, which place_stages needs only where its own is cut short: by group.
bool any_packing(const Cluster& cluster, const PlacementRequest& request) {
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    PackingProblem problem{cluster.groups[g].devices_per_host, cluster.groups[g].hosts, {}, {}};
    for (const Submesh& stage : request.stages)
      if (stage.group == static_cast<int>(g)) problem.items.push_back({stage.hosts, stage.devices_per_host});
    if (!find_any_packing(problem)) return false;
  }
  return true;
}

TEST(Placement, IsLeastOnTwoGroupsOfHosts) {
  Draw draw{std::mt19937(2)};
  int placed = 0, refused = 0;
  for (int trial = 0; trial < 10000; ++trial) {
    Cluster cluster = grid(draw(1, 3), draw(1, 4));
    cluster.groups.push_back(grid(draw(1, 2), draw(1, 4), draw(1, 3), draw(4, 20)).only());
    const PlacementRequest request = random_request(draw, cluster, draw(0, 2) == 0, 5);
    const bool fit = compare(cluster, request) == Outcome::Placed;
    EXPECT_EQ(any_packing(cluster, request), fit) << text(cluster, request);
    ++(fit ? placed : refused);
  }
  EXPECT_GT(placed, 500);
  EXPECT_GT(refused, 500);
}

// A host's own links may be the slower ones; then stages that send much are kept apart.
TEST(Placement, IsLeastWhereTheNetworkIsFaster) {
  Draw draw{std::mt19937(3)};
  for (int trial = 0; trial < 5000; ++trial) {
    const Cluster cluster = grid(draw(2, 4), draw(2, 4), 10, draw(1, 10));
    compare(cluster, random_request(draw, cluster, draw(0, 1) == 1, 5));
  }
}

// Bytes may favour one host and messages two, between each pair of stages in another measure.
TEST(Placement, IsLeastWhereMessagesCount) {
  Draw draw{std::mt19937(6)};
  int placed = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    Cluster cluster = grid(draw(2, 4), draw(2, 4), draw(0, 4), draw(0, 4));
    cluster.only().within_host.alpha = Seconds(draw(0, 20));
    cluster.only().between_hosts.alpha = Seconds(draw(0, 20));
    PlacementRequest request = random_request(draw, cluster, draw(0, 1) == 1, 5);
    for (std::size_t s = 0; s + 1 < request.stages.size(); ++s) request.neighbour_messages.push_back(draw(0, 5));
    for (StageTraffic& other : request.others) other.messages = draw(0, 5);
    placed += compare(cluster, request) == Outcome::Placed;
  }
  EXPECT_GT(placed, 1000);
}

// Eight small stages are the most for which the least is promised.
TEST(Placement, IsLeastForEightStagesWithinAHost) {
  Draw draw{std::mt19937(4)};
  for (int trial = 0; trial < 40; ++trial) {
    const Cluster cluster = grid(4, 4);
    PlacementRequest request = random_request(draw, cluster, false, 8);
    request.stages.resize(8, {1, 1});
    request.neighbour_bytes.resize(7, Bytes(draw(1, 9)));
    compare(cluster, request);
  }
}

// Whether the sizes fit on the hosts, by recursion over the sizes (the largest first) with each room tried once.
bool fits(const std::vector<int>& sizes, std::size_t next, const std::vector<int>& rooms,
          std::map<std::vector<int>, bool>& known) {
  if (next == sizes.size()) return true;
  const auto [entry, is_new] = known.try_emplace(rooms, false);  // the rooms left tell how many sizes are placed
  if (!is_new) return entry->second;
  bool found = false;
  for (std::size_t h = 0; h < rooms.size() && !found; ++h) {
    if (rooms[h] < sizes[next]) continue;
    std::vector<int> left = rooms;
    left[h] -= sizes[next];
    std::sort(left.begin(), left.end());
    found = fits(sizes, next + 1, left, known);
  }
  return known[rooms] = found;
}

TEST(Placement, FindsAPackingWhereverThereIsOne) {
  Draw draw{std::mt19937(5)};
  int placed = 0, refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const int hosts = draw(3, 5), devices = draw(6, 11);
    PlacementRequest request;
    std::vector<int> sizes;
    for (int h = 0; h < hosts; ++h)
      for (int room = devices; room > 0;) {
        const int size = std::min(room, draw(2, 5));
        if (size > 1) sizes.push_back(size);
        room -= size;
      }
    std::shuffle(sizes.begin(), sizes.end(), draw.random);
    if (draw(0, 1) == 0) ++sizes[0];  // often one device too many, or one that spoils the fit
    for (const int size : sizes) request.stages.push_back({1, size});
    const Cluster cluster = grid(hosts, devices);
    const auto placement = place_stages(cluster, request);
    std::sort(sizes.rbegin(), sizes.rend());
    std::map<std::vector<int>, bool> known;
    const std::vector<int> rooms(static_cast<std::size_t>(hosts), devices);
    ASSERT_EQ(placement.has_value(), fits(sizes, 0, rooms, known)) << text(cluster, request);
    EXPECT_EQ(fill_hosts(sizes, hosts, devices).has_value(), placement.has_value()) << text(cluster, request);
    PackingProblem problem{devices, hosts, {}, {}};
    for (const Submesh& stage : request.stages) problem.items.push_back({1, stage.devices_per_host});
    const auto packing = find_any_packing(problem);
    ASSERT_EQ(packing.has_value(), placement.has_value()) << text(cluster, request);
    if (packing) {
      std::map<int, int> used;
      for (std::size_t k = 0; k < packing->size(); ++k) used[(*packing)[k].at(0)] += problem.items[k].devices;
      EXPECT_LE(static_cast<int>(used.size()), hosts);
      for (const auto& [host, sum] : used) EXPECT_LE(sum, devices);
    }
    if (placement) check_devices(cluster, request, *placement);
    ++(placement ? placed : refused);
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace meshwright::placement_test
