// SPDX-License-Identifier: Apache-2.0
#include "core/planner/placement/placement.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"
#include "core/planner/placement/fill_hosts.h"
#include "core/planner/placement/placement_search.h"

namespace meshwright {

namespace {

struct Assignment {
  IndexedVector<int, std::vector<int>> hosts;  // of each stage, ascending
  std::vector<int> order;                      // of the stages on each host
};

constexpr std::size_t kNarrow = 16;       // often enough to reach the bound
constexpr std::size_t kWidest = 1024;     // more than the partitions of 7 stages
constexpr std::size_t kMaxStates = 8192;  // of all stages together

// The first neighbouring hosts with room, or empty.
std::vector<int> first_room(const IndexedVector<int, int>& free, const Submesh& stage) {
  int run = 0;
  for (int host = 0; host < free.count(); ++host) {
    run = free[host] >= stage.devices_per_host ? run + 1 : 0;
    if (run < stage.hosts) continue;
    std::vector<int> hosts(run);
    std::iota(hosts.begin(), hosts.end(), host - run + 1);
    return hosts;
  }
  return {};
}

// Any packing. Items on one host each have a way of their own: searching host by host instead of item by item finds out
// sooner that room is lost.
std::optional<Packing> any_packing(const PackingProblem& problem) {
  const bool one_host_each =
      std::all_of(problem.items.begin(), problem.items.end(), [](const auto& item) { return item.hosts == 1; });
  if (!one_host_each) return find_any_packing(problem);
  std::vector<int> sizes;
  for (const auto& item : problem.items) sizes.push_back(item.devices);
  const auto hosts = fill_hosts(sizes, problem.hosts, problem.devices_per_host);
  if (!hosts) return std::nullopt;
  Packing packing;
  for (const int host : *hosts) packing.push_back({host});
  return packing;
}

// On hosts that are alike.
class Placer {
 public:
  Placer(const HostGroup& group, const PlacementRequest& request)
      : group_(group), request_(request), stages_(static_cast<int>(request.stages.size())) {
    for (int s = 0; s + 1 < stages_; ++s) {
      Traffic& between = traffic_[{s, s + 1}];
      between.bytes += request.neighbour_bytes.empty() ? 1.0 : request.neighbour_bytes[s].si();
      if (!request.neighbour_messages.empty()) between.messages += request.neighbour_messages[s];
    }
    for (const StageTraffic& c : request.others) {
      Traffic& between = traffic_[std::minmax(c.from, c.to)];
      between.bytes += c.bytes.si();
      between.messages += c.messages;
    }
    // Bytes add up exactly, so that ties are ties: the time saved on a host is counted in bytes.
    const double per_byte = group.between_hosts.beta.si() - group.within_host.beta.si();
    const double per_message = group.between_hosts.alpha.si() - group.within_host.alpha.si();
    const double unit = per_byte != 0.0 ? std::abs(per_byte) : 1.0;
    for (auto& [pair, of] : traffic_)
      of.attraction = (per_byte < 0.0 ? -of.bytes : per_byte > 0.0 ? of.bytes : 0.0) + per_message / unit * of.messages;
  }

  std::optional<Placement> place() const {
    auto best = place_by_rule();
    const auto problem = pose();
    if (!problem) return std::nullopt;
    // The packing by rule is often optimal already. Its cost is the limit of the search.
    double cost = best ? apart(*best) : std::numeric_limits<double>::infinity();
    const double tolerance = 1e-9 * total();
    // The search counts only pairs that can share a host.
    const double beyond_search = unshareable();
    const double bound = packing_bound(*problem) + beyond_search;
    bool optimal = cost <= bound + tolerance;
    // The wide search runs only where the narrow one does not reach the bound.
    for (const std::size_t width : {kNarrow, widest(*problem)}) {
      if (optimal) break;
      const PackingResult found = find_packing(*problem, cost - tolerance - beyond_search, width);
      if (found.packing) {
        Assignment next = number_hosts(*found.packing);
        // With attractions left out of the search, its cost is not the whole cost.
        if (const double now = apart(next); !best || now < cost - tolerance) {
          cost = now;
          best = std::move(next);
        }
      }
      // Without a packing by rule the limit is infinite: an exhaustive search that finds none proves that there is
      // none.
      if (found.exhaustive && !best) return std::nullopt;
      optimal = found.exhaustive || cost <= bound + tolerance;
    }
    if (!best) {
      const auto any = any_packing(*problem);
      if (!any) return std::nullopt;
      best = number_hosts(*any);
    }
    // Where links within and between hosts are alike, every placement is optimal.
    return Placement{devices(*best), crossing(*best), optimal || total() == 0.0};
  }

 private:
  [[nodiscard]] const Submesh& stage(int s) const { return request_.stages[s]; }
  [[nodiscard]] bool takes_whole_hosts(int s) const { return stage(s).devices_per_host == group_.devices_per_host; }

  // In pipeline order, else the largest first.
  [[nodiscard]] std::optional<Assignment> place_by_rule() const {
    std::vector<int> order = pipeline_order();
    if (auto in_order = place_one_by_one(order)) return in_order;
    // Largest first: small stages fill the gaps that are left.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stage(a).devices() > stage(b).devices(); });
    return place_one_by_one(order);
  }
  [[nodiscard]] IndexedVector<int, std::vector<int>> none_placed() const {
    return IndexedVector<int, std::vector<int>>(request_.stages.size());
  }
  [[nodiscard]] std::vector<int> pipeline_order() const {
    std::vector<int> order(request_.stages.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  [[nodiscard]] std::optional<Assignment> place_one_by_one(const std::vector<int>& order) const {
    IndexedVector<int, int> free(group_.hosts, group_.devices_per_host);
    Assignment placed{none_placed(), order};
    for (const int s : order) {
      auto& hosts = placed.hosts[s];
      hosts = first_room(free, stage(s));
      if (hosts.empty()) return std::nullopt;
      for (const int host : hosts) free[host] -= stage(s).devices_per_host;
    }
    return placed;
  }

  [[nodiscard]] bool may_share(int a, int b) const {
    return stage(a).devices_per_host + stage(b).devices_per_host <= group_.devices_per_host;
  }

  // nullopt: the stages of whole hosts alone do not fit. They have nothing to choose: their hosts are set aside.
  [[nodiscard]] std::optional<PackingProblem> pose() const {
    PackingProblem problem{group_.devices_per_host, group_.hosts, {}, {}};
    IndexedVector<int, int> item_of(request_.stages.size(), -1);
    for (int s = 0; s < stages_; ++s) {
      if (stage(s).devices_per_host > group_.devices_per_host) return std::nullopt;
      if (takes_whole_hosts(s)) {
        if ((problem.hosts -= stage(s).hosts) < 0) return std::nullopt;
        continue;
      }
      item_of[s] = static_cast<int>(problem.items.size());
      problem.items.push_back({stage(s).hosts, stage(s).devices_per_host});
    }
    for (const auto& [pair, of] : traffic_)
      if (may_share(pair.first, pair.second) && of.attraction != 0.0)
        problem.attractions.push_back({item_of[pair.first], item_of[pair.second], of.attraction});
    return problem;
  }

  [[nodiscard]] static std::size_t widest(const PackingProblem& problem) {
    const std::size_t share = kMaxStates / std::max<std::size_t>(1, problem.items.size());
    return std::clamp(share, kNarrow, kWidest);
  }

  // Hosts in pipeline order of first use.
  [[nodiscard]] Assignment number_hosts(const Packing& packing) const {
    int unused = 0;
    std::map<int, int> host_of_id;
    Assignment numbered{none_placed(), pipeline_order()};
    std::size_t item = 0;
    for (int s = 0; s < stages_; ++s) {
      auto& hosts = numbered.hosts[s];
      if (takes_whole_hosts(s)) {
        for (int h = 0; h < stage(s).hosts; ++h) hosts.push_back(unused++);
        continue;
      }
      for (const int id : packing[item++]) {
        const auto [known, is_new] = host_of_id.try_emplace(id, unused);
        unused += is_new;
        hosts.push_back(known->second);
      }
      std::sort(hosts.begin(), hosts.end());
    }
    return numbered;
  }

  // What crossing between hosts costs more than within, in the unit of attractions.
  [[nodiscard]] double apart(const Assignment& placed) const {
    double sum = 0.0;
    for (const auto& [pair, of] : traffic_) sum += of.attraction * (1 - shared(placed, pair.first, pair.second));
    return sum;
  }
  [[nodiscard]] double unshareable() const {
    double sum = 0.0;
    for (const auto& [pair, of] : traffic_)
      if (!may_share(pair.first, pair.second)) sum += of.attraction;
    return sum;
  }
  [[nodiscard]] double total() const {
    return std::accumulate(traffic_.begin(), traffic_.end(), 0.0,
                           [](double sum, const auto& entry) { return sum + std::abs(entry.second.attraction); });
  }
  [[nodiscard]] static double shared(const Assignment& placed, int a, int b) {
    const auto& x = placed.hosts[a];
    const auto& y = placed.hosts[b];
    std::vector<int> both;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(std::max(x.size(), y.size()));
  }
  [[nodiscard]] Seconds crossing(const Assignment& placed) const {
    Seconds sum(0);
    for (const auto& traffic : traffic_) {
      const auto& of = traffic.second;
      const double within = shared(placed, traffic.first.first, traffic.first.second);
      const auto on = [&](const LinkCost& link, double share) {
        return link.beta * Bytes(of.bytes * share) + share * of.messages * link.alpha;
      };
      sum += on(group_.within_host, within) + on(group_.between_hosts, 1 - within);
    }
    return sum;
  }

  [[nodiscard]] std::vector<std::vector<int>> devices(const Assignment& placed) const {
    IndexedVector<int, int> used(group_.hosts, 0);
    IndexedVector<int, std::vector<int>> devices = none_placed();
    for (const int s : placed.order)
      for (const int host : placed.hosts[s])
        for (int d = 0; d < stage(s).devices_per_host; ++d)
          devices[s].push_back(host * group_.devices_per_host + used[host]++);
    return std::move(devices).values();
  }

  const HostGroup& group_;
  const PlacementRequest& request_;
  int stages_;
  struct Traffic {
    double bytes = 0.0, messages = 0.0;
    double attraction = 0.0;  // what the two save on one host; negative: what they lose
  };
  std::map<std::pair<int, int>, Traffic> traffic_;
};

// Hosts of different groups share nothing, so that what stages of one group cost apart does not depend on the others.
class PlacerByGroup {
 public:
  PlacerByGroup(const Cluster& cluster, const PlacementRequest& request) : cluster_(cluster), request_(request) {
    for (std::size_t s = 0; s < request.stages.size(); ++s) {
      const int group = request.stages[s].group;
      MW_CHECK(group >= 0 && group < static_cast<int>(cluster.groups.size()), "a stage of group {} of {}", group,
               cluster.groups.size());
      stages_of_[group].push_back(static_cast<int>(s));
    }
  }

  std::optional<Placement> place() const {
    Placement all{std::vector<std::vector<int>>(request_.stages.size()), between_groups(), true};
    for (const auto& [group, stages] : stages_of_) {
      const PlacementRequest own = part(stages);
      const auto placed = Placer(cluster_.group(group), own).place();
      if (!placed) return std::nullopt;
      all.crossing += placed->crossing;
      all.optimal = all.optimal && placed->optimal;
      for (std::size_t i = 0; i < stages.size(); ++i)
        for (const int device : placed->devices[i])
          all.devices[stages[i]].push_back(cluster_.first_device(group) + device);
    }
    return all;
  }

 private:
  [[nodiscard]] int group_of(int s) const { return request_.stages[s].group; }
  [[nodiscard]] StageTraffic neighbours(int s) const {
    return {s, s + 1, request_.neighbour_bytes.empty() ? Bytes(1.0) : request_.neighbour_bytes[s],
            request_.neighbour_messages.empty() ? 0.0 : request_.neighbour_messages[s]};
  }

  // The stages of one group, numbered by themselves; what they exchange with others is left out.
  [[nodiscard]] PlacementRequest part(const std::vector<int>& stages) const {
    PlacementRequest own;
    std::map<int, int> number;
    for (const int s : stages) {
      if (!own.stages.empty()) {
        const int before = stages[own.stages.size() - 1];
        // Stages that follow each other in the group but not in the pipeline send each other nothing here.
        const StageTraffic traffic = before + 1 == s ? neighbours(before) : StageTraffic{0, 1, Bytes(0.0)};
        own.neighbour_bytes.push_back(traffic.bytes);
        own.neighbour_messages.push_back(traffic.messages);
      }
      number[s] = static_cast<int>(own.stages.size());
      own.stages.push_back(request_.stages[s]);
    }
    for (const StageTraffic& c : request_.others)
      if (number.contains(c.from) && number.contains(c.to))
        own.others.push_back({number[c.from], number[c.to], c.bytes, c.messages});
    return own;
  }

  [[nodiscard]] Seconds between_groups() const {
    Seconds sum(0.0);
    const auto add = [&](const StageTraffic& traffic) {
      if (group_of(traffic.from) == group_of(traffic.to)) return;
      // A transfer between groups takes as long as the slower of the two links.
      const LinkCost &a = cluster_.group(group_of(traffic.from)).between_hosts,
                     &b = cluster_.group(group_of(traffic.to)).between_hosts;
      sum += std::max(a.beta, b.beta) * traffic.bytes + traffic.messages * std::max(a.alpha, b.alpha);
    };
    for (int s = 0; s + 1 < static_cast<int>(request_.stages.size()); ++s) add(neighbours(s));
    for (const StageTraffic& c : request_.others) add(c);
    return sum;
  }

  const Cluster& cluster_;
  const PlacementRequest& request_;
  std::map<int, std::vector<int>> stages_of_;  // [group], in pipeline order
};

void check(const PlacementRequest& request) {
  const int stages = static_cast<int>(request.stages.size());
  for (const Submesh& s : request.stages)
    MW_CHECK(s.hosts >= 1 && s.devices_per_host >= 1, "a stage of {}x{} devices", s.hosts, s.devices_per_host);
  MW_CHECK(request.neighbour_bytes.empty() || request.neighbour_bytes.size() + 1 == request.stages.size(),
           "{} stages, {} pairs of neighbours", stages, request.neighbour_bytes.size());
  MW_CHECK(request.neighbour_messages.empty() || request.neighbour_messages.size() + 1 == request.stages.size(),
           "{} stages, messages of {} pairs of neighbours", stages, request.neighbour_messages.size());
  for (const StageTraffic& c : request.others)
    MW_CHECK(std::min(c.from, c.to) >= 0 && std::max(c.from, c.to) < stages && c.from != c.to,
             "a crossing {}->{} of {} stages", c.from, c.to, stages);
}

}  // namespace

std::optional<Placement> place_stages(const Cluster& cluster, const PlacementRequest& request) {
  check(request);
  return PlacerByGroup(cluster, request).place();
}

}  // namespace meshwright
