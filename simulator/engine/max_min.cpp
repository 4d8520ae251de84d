// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/max_min.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "simulator/engine/link_room.h"

namespace meshwright {

MaxMinLinks::MaxMinLinks(const SharedLinks& links, std::size_t flows)
    : links_(links), first_{0}, flows_(flows), of_(links.capacity.size()), filling_(links.capacity.size()) {
  for (std::size_t l = 0; l < of_.size(); ++l) of_[l].room = links.capacity[l].si() * (1.0 + 2.0 * kRateTolerance);
  for (std::size_t r = 0; r < links.routes.size(); ++r) {
    full_.push_back(narrowest(links, static_cast<int>(r)).si());
    for (const LinkId link : links.routes[r]) steps_.push_back(link.value);
    first_.push_back(static_cast<int>(steps_.size()));
    longest_ = std::max(longest_, links.routes[r].size());
  }
  places_.resize(flows * longest_);
}

std::span<const int> MaxMinLinks::route(const Flow& flow) const {
  const auto r = static_cast<std::size_t>(flow.route);
  return {steps_.data() + first_[r], steps_.data() + first_[r + 1]};
}

// A link that does not limit, before or after, is left alone.
void MaxMinLinks::demand(int l, double bytes_per_second) {
  Link& link = of_[static_cast<std::size_t>(l)];
  link.demand = link.flows.empty() ? 0.0L : link.demand + static_cast<long double>(bytes_per_second);
  if (link.touched || !(link.limited || link.demand > static_cast<long double>(link.room))) return;
  link.touched = true;
  touched_links_.push_back(l);
}

void MaxMinLinks::add(int flow, int route_number, double speed) {
  Flow& own = flows_[static_cast<std::size_t>(flow)];
  own = {speed, route_number, true};
  std::uint32_t* const places = places_.data() + static_cast<std::size_t>(flow) * longest_;
  std::uint32_t step = 0;
  for (const int l : route(own)) {
    std::vector<Place>& there = of_[static_cast<std::size_t>(l)].flows;
    places[step] = static_cast<std::uint32_t>(there.size());
    there.push_back({flow, step++});
    demand(l, most(own));
  }
}

void MaxMinLinks::remove(int flow) {
  Flow& own = flows_[static_cast<std::size_t>(flow)];
  own.present = false;
  const std::uint32_t* place = places_.data() + static_cast<std::size_t>(flow) * longest_;
  for (const int l : route(own)) {
    std::vector<Place>& there = of_[static_cast<std::size_t>(l)].flows;
    const Place last = there.back();
    there[*place] = last;
    places_[static_cast<std::size_t>(last.flow) * longest_ + last.step] = *place++;
    there.pop_back();
    demand(l, -most(own));
  }
}

void MaxMinLinks::set_speed(int flow, double speed) {
  Flow& own = flows_[static_cast<std::size_t>(flow)];
  for (const int l : route(own)) demand(l, (speed - own.speed) * full(own));
  own.speed = speed;
  touched_flows_.push_back(flow);
}

const std::vector<MaxMinLinks::Rate>& MaxMinLinks::update() {
  rates_.clear();
  if (touched_links_.empty() && touched_flows_.empty()) return rates_;
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
    const bool limited = std::exchange(link.limited, link.demand > static_cast<long double>(link.room));
    if (limited || link.limited) list(l);
  }
  const auto concern = [&](int f) {
    Flow& flow = flows_[static_cast<std::size_t>(f)];
    if (flow.listed || !flow.present) return;
    flow.listed = true;
    concerned_.push_back(f);
    for (const int l : route(flow))
      if (of_[static_cast<std::size_t>(l)].limited) list(l);
  };
  for (const int f : touched_flows_) concern(f);
  for (std::size_t next = 0; next < concerned_links_.size(); ++next)
    for (const Place place : of_[static_cast<std::size_t>(concerned_links_[next])].flows) concern(place.flow);
  for (const int l : concerned_links_) of_[static_cast<std::size_t>(l)].listed = false;
  for (const int f : concerned_) flows_[static_cast<std::size_t>(f)].listed = false;
  touched_links_.clear();
  touched_flows_.clear();
}

void MaxMinLinks::fix(int f, double rate) {
  Flow& flow = flows_[static_cast<std::size_t>(f)];
  flow.fixed = true;
  // Its own speed is said exactly, not as a quotient.
  rates_.push_back({f, rate == most(flow) ? flow.speed : rate / full(flow)});
  for (const int l : route(flow)) {
    Filling& link = filling_[static_cast<std::size_t>(l)];
    link.left -= rate;
    --link.open;
  }
}

// Progressive filling: all open flows rise together until one has its full speed, or a link is full.
void MaxMinLinks::fill() {
  std::erase_if(concerned_links_, [&](int l) { return !of_[static_cast<std::size_t>(l)].limited; });
  std::sort(concerned_links_.begin(), concerned_links_.end());
  for (const int l : concerned_links_) {
    const auto number = static_cast<std::size_t>(l);
    filling_[number] = {links_.capacity[number].si(), static_cast<int>(of_[number].flows.size())};
  }
  const auto flow = [&](int f) -> Flow& { return flows_[static_cast<std::size_t>(f)]; };
  for (const int f : concerned_) flow(f).fixed = false;

  while (!concerned_.empty()) {
    double level = std::numeric_limits<double>::infinity();
    int full_link = 0;
    for (const int l : concerned_links_) {
      const Filling& link = filling_[static_cast<std::size_t>(l)];
      if (link.open == 0 || link.left / link.open >= level) continue;
      level = link.left / link.open;
      full_link = l;
    }
    const auto risen =
        std::partition(concerned_.begin(), concerned_.end(), [&](int f) { return most(flow(f)) > level; });
    if (risen != concerned_.end()) {
      // The slowest first, so that what is left of a link is rounded the same whatever came before.
      std::sort(risen, concerned_.end(),
                [&](int a, int b) { return most(flow(a)) != most(flow(b)) ? most(flow(a)) < most(flow(b)) : a < b; });
      for (auto f = risen; f != concerned_.end(); ++f) fix(*f, most(flow(*f)));
      concerned_.erase(risen, concerned_.end());
      continue;
    }
    for (const Place place : of_[static_cast<std::size_t>(full_link)].flows)
      if (!flow(place.flow).fixed) fix(place.flow, level);
    std::erase_if(concerned_, [&](int f) { return flow(f).fixed; });
  }
}

}  // namespace meshwright
