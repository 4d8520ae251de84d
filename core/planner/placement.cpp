// SPDX-License-Identifier: Apache-2.0
#include "core/planner/placement.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/planner/fill_hosts.h"
#include "core/planner/placement_search.h"

namespace meshwright {

namespace {

struct Assignment {
  std::vector<std::vector<int>> hosts;  // of each stage, ascending
  std::vector<int> order;               // of the stages on each host
};

constexpr std::size_t kNarrow = 16;        // often enough to reach the bound
constexpr std::size_t kWidest = 1024;      // more than the partitions of 7 stages
constexpr std::size_t kMostStates = 8192;  // of all stages together

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The first neighbouring hosts with room that may be used, or empty.
std::vector<int> first_room(const std::vector<int>& free, const Submesh& stage, const std::vector<int>& kind_of_host,
                            std::optional<int> kind) {
  int run = 0;
  for (int host = 0; host < static_cast<int>(free.size()); ++host) {
    const bool fits = free[at(host)] >= stage.devices_per_host && (!kind || kind_of_host[at(host)] == *kind);
    run = fits ? run + 1 : 0;
    if (run < stage.hosts) continue;
    std::vector<int> hosts(at(run));
    std::iota(hosts.begin(), hosts.end(), host - run + 1);
    return hosts;
  }
  return {};
}

// Any packing. Items on one host each of hosts that are alike have a way of their own: searching host by host instead
// of item by item finds out sooner that room is lost.
std::optional<Packing> any_packing(const PackingProblem& problem) {
  const bool one_host_each =
      std::all_of(problem.items.begin(), problem.items.end(), [](const auto& item) { return item.hosts == 1; });
  if (problem.hosts_of_kind.size() > 1 || !one_host_each) return find_any_packing(problem);
  std::vector<int> sizes;
  for (const auto& item : problem.items) sizes.push_back(item.devices);
  const auto hosts = fill_hosts(sizes, problem.hosts_of_kind[0], problem.devices_per_host);
  if (!hosts) return std::nullopt;
  Packing packing;
  for (const int host : *hosts) packing.push_back({{host, 0}});
  return packing;
}

class Placer {
 public:
  Placer(const Cluster& cluster, const PlacementRequest& request)
      : cluster_(cluster), request_(request), stages_(static_cast<int>(request.stages.size())) {
    check();
    name_kinds();
    // Bytes add up exactly, so that ties are ties.
    saving_ = cluster.between_hosts.beta.si() - cluster.within_host.beta.si();
    for (int s = 0; s + 1 < stages_; ++s)
      bytes_[{s, s + 1}] += request.neighbour_bytes.empty() ? 1.0 : request.neighbour_bytes[at(s)].si();
    for (const Crossing& c : request.others) bytes_[std::minmax(c.from, c.to)] += c.bytes.si();
  }

  std::optional<Placement> place() const {
    if (!kinds_exist_) return std::nullopt;
    auto best = place_by_rule();
    const auto problem = pose();
    if (!problem) return std::nullopt;
    double cost = best ? apart(*best) : std::numeric_limits<double>::infinity();
    const double tolerance = 1e-9 * total();
    // The search prices only pairs that can share a host.
    const double beyond_search = unshareable();
    const double bound = packing_bound(*problem) + beyond_search;
    bool optimal = cost <= bound + tolerance;
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
      if (found.exhaustive && !best) return std::nullopt;
      optimal = found.exhaustive || cost <= bound + tolerance;
    }
    if (!best) {
      const auto any = any_packing(*problem);
      if (!any) return std::nullopt;
      best = number_hosts(*any);
    }
    return Placement{devices(*best), crossing(*best), optimal || saving_ == 0.0};
  }

 private:
  [[nodiscard]] const Submesh& stage(int s) const { return request_.stages[at(s)]; }
  [[nodiscard]] bool takes_whole_hosts(int s) const { return stage(s).devices_per_host == cluster_.devices_per_host; }

  void check() const {
    for (const Submesh& s : request_.stages)
      MW_CHECK(s.hosts >= 1 && s.devices_per_host >= 1, "a stage of {}x{} devices", s.hosts, s.devices_per_host);
    MW_CHECK(request_.neighbour_bytes.empty() || request_.neighbour_bytes.size() + 1 == request_.stages.size(),
             "{} stages, {} pairs of neighbours", stages_, request_.neighbour_bytes.size());
    MW_CHECK(request_.kind_of_host.empty() || request_.kind_of_host.size() == at(cluster_.hosts), "{} hosts, {} kinds",
             cluster_.hosts, request_.kind_of_host.size());
    MW_CHECK(request_.kind_of_stage.empty() || request_.kind_of_stage.size() == at(stages_), "{} stages, {} kinds",
             stages_, request_.kind_of_stage.size());
    for (const Crossing& c : request_.others)
      MW_CHECK(std::min(c.from, c.to) >= 0 && std::max(c.from, c.to) < stages_ && c.from != c.to,
               "a crossing {}->{} of {} stages", c.from, c.to, stages_);
  }

  // Kinds as 0, 1, ...; where no stage asks for one, all hosts are of one kind.
  void name_kinds() {
    const auto& asked = request_.kind_of_stage;
    kind_of_host_.assign(at(cluster_.hosts), 0);
    kind_of_stage_.assign(at(stages_), std::nullopt);
    hosts_of_kind_ = {cluster_.hosts};
    if (std::all_of(asked.begin(), asked.end(), [](const auto& kind) { return !kind; })) return;
    std::vector<int> names = request_.kind_of_host;
    if (names.empty()) names.assign(at(cluster_.hosts), 0);
    std::map<int, int> number;
    for (const int name : names) number.try_emplace(name, static_cast<int>(number.size()));
    hosts_of_kind_.assign(number.size(), 0);
    for (std::size_t h = 0; h < names.size(); ++h) ++hosts_of_kind_[at(kind_of_host_[h] = number.at(names[h]))];
    for (std::size_t s = 0; s < asked.size(); ++s) {
      if (!asked[s]) continue;
      const auto known = number.find(*asked[s]);
      if (known == number.end())
        kinds_exist_ = false;
      else
        kind_of_stage_[s] = known->second;
    }
  }

  // In pipeline order, else the largest first.
  [[nodiscard]] std::optional<Assignment> place_by_rule() const {
    std::vector<int> order = pipeline_order();
    if (auto in_order = place_one_by_one(order)) return in_order;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stage(a).devices() > stage(b).devices(); });
    return place_one_by_one(order);
  }
  [[nodiscard]] std::vector<int> pipeline_order() const {
    std::vector<int> order(at(stages_));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  [[nodiscard]] std::optional<Assignment> place_one_by_one(const std::vector<int>& order) const {
    std::vector<int> free(at(cluster_.hosts), cluster_.devices_per_host);
    Assignment placed{std::vector<std::vector<int>>(at(stages_)), order};
    for (const int s : order) {
      auto& hosts = placed.hosts[at(s)];
      hosts = first_room(free, stage(s), kind_of_host_, kind_of_stage_[at(s)]);
      if (hosts.empty()) return std::nullopt;
      for (const int host : hosts) free[at(host)] -= stage(s).devices_per_host;
    }
    return placed;
  }

  // A stage of whole hosts of a known kind has nothing to choose: its hosts are set aside.
  [[nodiscard]] std::optional<int> kind_set_aside(int s) const {
    if (!takes_whole_hosts(s)) return std::nullopt;
    return hosts_of_kind_.size() == 1 ? 0 : kind_of_stage_[at(s)];
  }
  [[nodiscard]] bool may_share(int a, int b) const {
    const auto& x = kind_of_stage_[at(a)];
    const auto& y = kind_of_stage_[at(b)];
    return stage(a).devices_per_host + stage(b).devices_per_host <= cluster_.devices_per_host && (!x || !y || *x == *y);
  }
  [[nodiscard]] double attraction(double bytes) const { return saving_ < 0 ? -bytes : bytes; }

  // nullopt: the stages of whole hosts alone do not fit.
  [[nodiscard]] std::optional<PackingProblem> pose() const {
    PackingProblem problem{cluster_.devices_per_host, hosts_of_kind_, {}, {}};
    std::vector<int> item_of(at(stages_), -1);
    for (int s = 0; s < stages_; ++s) {
      if (stage(s).devices_per_host > cluster_.devices_per_host) return std::nullopt;
      if (const auto kind = kind_set_aside(s)) {
        if ((problem.hosts_of_kind[at(*kind)] -= stage(s).hosts) < 0) return std::nullopt;
        continue;
      }
      item_of[at(s)] = static_cast<int>(problem.items.size());
      problem.items.push_back({stage(s).hosts, stage(s).devices_per_host, kind_of_stage_[at(s)]});
    }
    for (const auto& [pair, bytes] : bytes_)
      if (may_share(pair.first, pair.second) && bytes != 0.0)
        problem.attractions.push_back({item_of[at(pair.first)], item_of[at(pair.second)], attraction(bytes)});
    return problem;
  }

  [[nodiscard]] static std::size_t widest(const PackingProblem& problem) {
    const std::size_t share = kMostStates / std::max<std::size_t>(1, problem.items.size());
    return std::clamp(share, kNarrow, kWidest);
  }

  // Hosts in pipeline order of first use, ascending within each kind.
  [[nodiscard]] Assignment number_hosts(const Packing& packing) const {
    std::vector<std::vector<int>> unused(hosts_of_kind_.size());  // descending
    for (int host = cluster_.hosts - 1; host >= 0; --host) unused[at(kind_of_host_[at(host)])].push_back(host);
    const auto next = [&](int kind) {
      const int host = unused[at(kind)].back();
      unused[at(kind)].pop_back();
      return host;
    };
    std::map<int, int> host_of_id;
    Assignment numbered{std::vector<std::vector<int>>(at(stages_)), pipeline_order()};
    std::size_t item = 0;
    for (int s = 0; s < stages_; ++s) {
      auto& hosts = numbered.hosts[at(s)];
      if (const auto kind = kind_set_aside(s)) {
        for (int h = 0; h < stage(s).hosts; ++h) hosts.push_back(next(*kind));
        continue;
      }
      for (const PackedHost& host : packing[item++]) {
        const auto [known, is_new] = host_of_id.try_emplace(host.id, -1);
        if (is_new) known->second = next(host.kind);
        hosts.push_back(known->second);
      }
      std::sort(hosts.begin(), hosts.end());
    }
    return numbered;
  }

  // Bytes between hosts (with the sign of what they cost more than within).
  [[nodiscard]] double apart(const Assignment& placed) const {
    double sum = 0.0;
    for (const auto& [pair, bytes] : bytes_) sum += attraction(bytes) * (1 - shared(placed, pair.first, pair.second));
    return sum;
  }
  [[nodiscard]] double unshareable() const {
    double sum = 0.0;
    for (const auto& [pair, bytes] : bytes_)
      if (!may_share(pair.first, pair.second)) sum += attraction(bytes);
    return sum;
  }
  [[nodiscard]] double total() const {
    return std::accumulate(bytes_.begin(), bytes_.end(), 0.0,
                           [](double sum, const auto& entry) { return sum + entry.second; });
  }
  [[nodiscard]] static double shared(const Assignment& placed, int a, int b) {
    const auto& x = placed.hosts[at(a)];
    const auto& y = placed.hosts[at(b)];
    std::vector<int> both;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
    return static_cast<double>(both.size()) / static_cast<double>(std::max(x.size(), y.size()));
  }
  [[nodiscard]] Seconds crossing(const Assignment& placed) const {
    Seconds sum(0);
    for (const auto& [pair, bytes] : bytes_) {
      const double within = shared(placed, pair.first, pair.second);
      sum +=
          cluster_.within_host.beta * Bytes(bytes * within) + cluster_.between_hosts.beta * Bytes(bytes * (1 - within));
    }
    return sum;
  }

  [[nodiscard]] std::vector<std::vector<int>> devices(const Assignment& placed) const {
    std::vector<int> used(at(cluster_.hosts), 0);
    std::vector<std::vector<int>> devices(at(stages_));
    for (const int s : placed.order)
      for (const int host : placed.hosts[at(s)])
        for (int d = 0; d < stage(s).devices_per_host; ++d)
          devices[at(s)].push_back(host * cluster_.devices_per_host + used[at(host)]++);
    return devices;
  }

  const Cluster& cluster_;
  const PlacementRequest& request_;
  int stages_;
  double saving_;  // seconds per byte that does not leave its host
  std::map<std::pair<int, int>, double> bytes_;
  std::vector<int> kind_of_host_, hosts_of_kind_;
  std::vector<std::optional<int>> kind_of_stage_;
  bool kinds_exist_ = true;
};

}  // namespace

std::optional<Placement> place_stages(const Cluster& cluster, const PlacementRequest& request) {
  return Placer(cluster, request).place();
}

std::optional<std::vector<std::vector<int>>> place_submeshes(const Cluster& cluster,
                                                             const std::vector<Submesh>& submeshes) {
  PlacementRequest request;
  request.stages = submeshes;
  auto placement = place_stages(cluster, request);
  if (!placement) return std::nullopt;
  return std::move(placement->devices);
}

}  // namespace meshwright
