// SPDX-License-Identifier: Apache-2.0
#include "simulator/max_min.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "simulator/link_room.h"

namespace meshwright {

MaxMinLinks::MaxMinLinks(const SharedLinks& links, std::size_t flows) : links_(links), flows_(flows) {
  for (const BytesPerSecond capacity : links.capacity) of_.push_back(Link{capacity.si(), {}});
  for (std::size_t r = 0; r < links.routes.size(); ++r) full_.push_back(narrowest(links, static_cast<int>(r)).si());
}

const std::vector<LinkId>& MaxMinLinks::route(const Flow& flow) const {
  return links_.routes[static_cast<std::size_t>(flow.route)];
}

bool MaxMinLinks::limits(const Link& link) { return link.demand > link.capacity * (1.0 + 2.0 * kRateTolerance); }

void MaxMinLinks::demand(const Flow& flow, double bytes_per_second) {
  for (const LinkId l : route(flow)) {
    Link& link = of_[l.index()];
    link.demand = link.flows.empty() ? 0.0L : link.demand + static_cast<long double>(bytes_per_second);
    if (!link.touched) touched_links_.push_back(l.value);
    link.touched = true;
  }
}

void MaxMinLinks::add(int flow, int route_number, double speed) {
  Flow& own = flows_[static_cast<std::size_t>(flow)];
  own.route = route_number;
  own.speed = speed;
  own.full = full_[static_cast<std::size_t>(route_number)];
  own.present = true;
  for (const LinkId l : route(own)) {
    std::vector<int>& there = of_[l.index()].flows;
    there.insert(std::lower_bound(there.begin(), there.end(), flow), flow);
  }
  demand(own, own.speed * own.full);
  touched_flows_.push_back(flow);
}

void MaxMinLinks::remove(int flow) {
  Flow& own = flows_[static_cast<std::size_t>(flow)];
  own.present = false;
  for (const LinkId l : route(own)) {
    std::vector<int>& there = of_[l.index()].flows;
    there.erase(std::lower_bound(there.begin(), there.end(), flow));
  }
  demand(own, -own.speed * own.full);
}

void MaxMinLinks::set_speed(int flow, double speed) {
  Flow& own = flows_[static_cast<std::size_t>(flow)];
  demand(own, (speed - own.speed) * own.full);
  own.speed = speed;
  touched_flows_.push_back(flow);
}

const std::vector<MaxMinLinks::Rate>& MaxMinLinks::update() {
  rates_.clear();
  if (touched_links_.empty()) return rates_;
  find_concerned();
  fill();
  return rates_;
}

void MaxMinLinks::list(int l) {
  Link& link = of_[static_cast<std::size_t>(l)];
  if (!link.listed) concerned_links_.push_back(l);
  link.listed = true;
}

// The flows that changed, those on links that they have made limit or have relieved, and from there on through links
// that limit.
void MaxMinLinks::find_concerned() {
  concerned_links_.clear();
  concerned_.clear();
  for (const int l : touched_links_) {
    Link& link = of_[static_cast<std::size_t>(l)];
    link.touched = false;
    const bool limited = std::exchange(link.limited, limits(link));
    if (limited || link.limited) list(l);
  }
  const auto concern = [&](int f) {
    Flow& flow = flows_[static_cast<std::size_t>(f)];
    if (flow.listed || !flow.present) return;
    flow.listed = true;
    concerned_.push_back(f);
    for (const LinkId l : route(flow))
      if (of_[l.index()].limited) list(l.value);
  };
  for (const int f : touched_flows_) concern(f);
  for (std::size_t next = 0; next < concerned_links_.size(); ++next)
    for (const int f : of_[static_cast<std::size_t>(concerned_links_[next])].flows) concern(f);
  for (const int l : concerned_links_) of_[static_cast<std::size_t>(l)].listed = false;
  for (const int f : concerned_) flows_[static_cast<std::size_t>(f)].listed = false;
  touched_links_.clear();
  touched_flows_.clear();
}

void MaxMinLinks::fix(int f, double rate) {
  Flow& flow = flows_[static_cast<std::size_t>(f)];
  flow.fixed = true;
  // Its own speed is said exactly, not as a quotient.
  const bool free = rate == flow.speed * flow.full;
  rates_.push_back({f, free ? flow.speed : rate / flow.full});
  for (const LinkId l : route(flow)) {
    Link& link = of_[l.index()];
    link.left -= rate;
    --link.open;
  }
}

// Progressive filling: all open flows rise together until one has its full speed, or a link is full.
void MaxMinLinks::fill() {
  std::erase_if(concerned_links_, [&](int l) { return !of_[static_cast<std::size_t>(l)].limited; });
  std::sort(concerned_links_.begin(), concerned_links_.end());
  for (const int l : concerned_links_) {
    Link& link = of_[static_cast<std::size_t>(l)];
    link.left = link.capacity;
    link.open = static_cast<int>(link.flows.size());
  }
  const auto speed = [&](int f) {
    return flows_[static_cast<std::size_t>(f)].speed * flows_[static_cast<std::size_t>(f)].full;
  };
  std::sort(concerned_.begin(), concerned_.end(),
            [&](int a, int b) { return speed(a) != speed(b) ? speed(a) < speed(b) : a < b; });
  for (const int f : concerned_) flows_[static_cast<std::size_t>(f)].fixed = false;

  for (std::size_t slowest = 0; slowest < concerned_.size();) {
    double level = std::numeric_limits<double>::infinity();
    const Link* full = nullptr;
    for (const int l : concerned_links_) {
      const Link& link = of_[static_cast<std::size_t>(l)];
      if (link.open == 0 || link.left / link.open >= level) continue;
      level = link.left / link.open;
      full = &link;
    }
    bool risen = false;
    for (; slowest < concerned_.size(); ++slowest) {
      const int f = concerned_[slowest];
      if (flows_[static_cast<std::size_t>(f)].fixed) continue;
      if (speed(f) > level) break;
      fix(f, speed(f));
      risen = true;
    }
    if (risen || full == nullptr) continue;
    for (const int f : full->flows)
      if (!flows_[static_cast<std::size_t>(f)].fixed) fix(f, level);
  }
}

}  // namespace meshwright
