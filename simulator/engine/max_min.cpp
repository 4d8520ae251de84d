// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/max_min.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "simulator/engine/link_room.h"

namespace meshwright {

MaxMinLinks::MaxMinLinks(const SharedLinks& links, std::size_t flows)
    : links_(links), first_{0}, flows_(flows), of_(links.capacity.size()), filling_(links.capacity.size()) {
  for (int l = 0; l < of_.count(); ++l)
    // Twice the tolerance of a rate: a demand that only just fills a link, up to rounding, does not limit anybody.
    of_[l].room = links.capacity[LinkId(l).index()].si() * (1.0 + 2.0 * kRateTolerance);
  for (std::size_t r = 0; r < links.routes.size(); ++r) {
    full_.push_back(narrowest(links, static_cast<int>(r)).si());
    for (const LinkId link : links.routes[r]) steps_.push_back(link.value);
    first_.push_back(static_cast<int>(steps_.size()));
    longest_ = std::max(longest_, links.routes[r].size());
  }
  places_.resize(flows * longest_);
}

std::span<const int> MaxMinLinks::route(const Flow& flow) const {
  return {steps_.data() + first_[flow.route], steps_.data() + first_[flow.route + 1]};
}

// Notes that the demand on a link changes. A link that limits nobody, before and after the change, is not touched: then
// no rate depends on it. An empty link begins again at 0, so that what rounding left of the sum does not stay.
void MaxMinLinks::demand(int l, double bytes_per_second) {
  Link& link = of_[l];
  link.demand = link.flows.empty() ? 0.0L : link.demand + static_cast<long double>(bytes_per_second);
  if (link.touched || !(link.limited || link.demand > static_cast<long double>(link.room))) return;
  link.touched = true;
  touched_links_.push_back(l);
}

void MaxMinLinks::add(int flow, int route_number, double speed) {
  Flow& own = flows_[flow];
  own = {speed, route_number, true};
  std::uint32_t* const own_places = places(flow);
  std::uint32_t step = 0;
  for (const int l : route(own)) {
    std::vector<Place>& there = of_[l].flows;
    own_places[step] = static_cast<std::uint32_t>(there.size());
    there.push_back({flow, step++});
    demand(l, max_rate(own));
  }
}

void MaxMinLinks::remove(int flow) {
  Flow& own = flows_[flow];
  own.present = false;
  const std::uint32_t* place = places(flow);
  for (const int l : route(own)) {
    std::vector<Place>& there = of_[l].flows;
    // Swap with the last entry, whose flow must learn its new place: removal takes constant time per link.
    const Place last = there.back();
    there[*place] = last;
    places(last.flow)[last.step] = *place++;
    there.pop_back();
    demand(l, -max_rate(own));
  }
}

void MaxMinLinks::set_speed(int flow, double speed) {
  Flow& own = flows_[flow];
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
  Link& link = of_[l];
  if (!link.listed) concerned_links_.push_back(l);
  link.listed = true;
}

// The flows whose rates may change: those that changed themselves, and all that are connected with a change through
// links that limit or did so until now. Where two flows share only a link that limits neither, the rate of the one does
// not depend on that of the other, so the search stops there and every flow beyond it keeps its rate.
void MaxMinLinks::find_concerned() {
  concerned_links_.clear();
  concerned_.clear();
  for (const int l : touched_links_) {
    Link& link = of_[l];
    link.touched = false;
    const bool limited = std::exchange(link.limited, link.demand > static_cast<long double>(link.room));
    if (limited || link.limited) list(l);
  }
  const auto concern = [&](int f) {
    Flow& flow = flows_[f];
    if (flow.listed || !flow.present) return;
    flow.listed = true;
    concerned_.push_back(f);
    for (const int l : route(flow))
      if (of_[l].limited) list(l);
  };
  for (const int f : touched_flows_) concern(f);
  for (std::size_t next = 0; next < concerned_links_.size(); ++next)
    for (const Place place : of_[concerned_links_[next]].flows) concern(place.flow);
  for (const int l : concerned_links_) of_[l].listed = false;
  for (const int f : concerned_) flows_[f].listed = false;
  touched_links_.clear();
  touched_flows_.clear();
}

void MaxMinLinks::fix(int f, double rate) {
  Flow& flow = flows_[f];
  flow.fixed = true;
  // Its own speed is said exactly, not as a quotient.
  rates_.push_back({f, rate == max_rate(flow) ? flow.speed : rate / full(flow)});
  for (const int l : route(flow)) {
    Filling& link = filling_[l];
    link.left -= rate;
    --link.open;
  }
}

// Progressive filling: all open flows rise together until one has its full speed, or a link is full. Flows that are not
// concerned need not be subtracted from a link first: a concerned link that limits has concerned flows only.
void MaxMinLinks::fill() {
  std::erase_if(concerned_links_, [&](int l) { return !of_[l].limited; });
  // In the order of links, not of discovery: sums and ties then do not depend on what changed first.
  std::sort(concerned_links_.begin(), concerned_links_.end());
  for (const int l : concerned_links_)
    filling_[l] = {links_.capacity[LinkId(l).index()].si(), static_cast<int>(of_[l].flows.size())};
  const auto flow = [&](int f) -> Flow& { return flows_[f]; };
  for (const int f : concerned_) flow(f).fixed = false;

  while (!concerned_.empty()) {
    double level = std::numeric_limits<double>::infinity();
    int full_link = 0;
    for (const int l : concerned_links_) {
      const Filling& link = filling_[l];
      if (link.open == 0 || link.left / link.open >= level) continue;
      level = link.left / link.open;
      full_link = l;
    }
    const auto risen =
        std::partition(concerned_.begin(), concerned_.end(), [&](int f) { return max_rate(flow(f)) > level; });
    if (risen != concerned_.end()) {
      // The slowest first, so that what is left of a link is rounded the same whatever came before.
      std::sort(risen, concerned_.end(), [&](int a, int b) {
        return max_rate(flow(a)) != max_rate(flow(b)) ? max_rate(flow(a)) < max_rate(flow(b)) : a < b;
      });
      for (auto f = risen; f != concerned_.end(); ++f) fix(*f, max_rate(flow(*f)));
      concerned_.erase(risen, concerned_.end());
      continue;
    }
    for (const Place place : of_[full_link].flows)
      if (!flow(place.flow).fixed) fix(place.flow, level);
    std::erase_if(concerned_, [&](int f) { return flow(f).fixed; });
  }
}

}  // namespace meshwright
