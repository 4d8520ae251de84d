// SPDX-License-Identifier: Apache-2.0
// A sweep over the flows of each link, in the order of their begins. Most links need no sweep: each of their flows
// begins when the flows with smaller numbers have ended.
#include <algorithm>
#include <vector>

#include "core/base/indexed_vector.h"
#include "simulator/engine/link_room.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

namespace {

// A task while it is on its links: [begin, end).
struct Flow {
  std::int64_t begin, end;
  std::int32_t task;
  double rate;  // bytes/s
};

struct Found {
  std::int64_t time;
  Meeting meeting;
};

// The first moment at which a flow comes to a link that has no room for it.
class Sweep {
 public:
  Sweep(double capacity, LinkDiscipline discipline)
      : discipline_(discipline), room_(capacity * (1.0 + kRateTolerance)) {}

  std::optional<Found> find(std::vector<Flow> flows, LinkId link) {
    std::sort(flows.begin(), flows.end(),
              [](const Flow& a, const Flow& b) { return a.begin != b.begin ? a.begin < b.begin : a.task < b.task; });
    for (const Flow& flow : flows) {
      leave(flow.begin);
      sum_ += flow.rate;
      const bool full = discipline_ == LinkDiscipline::Fifo ? !there_.empty() : static_cast<double>(sum_) > room_;
      // A flow alone is at most as fast as the link, so a full link carries another flow.
      if (full && !there_.empty()) return Found{flow.begin, {TaskId(there_.front().task), TaskId(flow.task), link}};
      there_.push_back(flow);
      std::push_heap(there_.begin(), there_.end(), ends_later);
    }
    return std::nullopt;
  }

 private:
  static bool ends_later(const Flow& a, const Flow& b) { return a.end != b.end ? a.end > b.end : a.task > b.task; }

  void leave(std::int64_t now) {
    while (!there_.empty() && there_.front().end <= now) {
      sum_ -= there_.front().rate;
      std::pop_heap(there_.begin(), there_.end(), ends_later);
      there_.pop_back();
    }
    if (there_.empty()) sum_ = 0.0L;
  }

  const LinkDiscipline discipline_;
  const double room_;
  std::vector<Flow> there_;  // a heap, the first to end in front
  long double sum_ = 0.0L;   // of their rates; long double, because rounding errors of many changes add up
};

class Flows {
 public:
  Flows(const TaskGraph& graph, const TaskTimes& times) : graph_(graph), times_(times) {
    for (const TaskClass& own : graph.classes) {
      route_of_.push_back(own.route);
      latency_of_.push_back(own.latency.ps);
    }
    for (std::size_t r = 0; r < graph.links.routes.size(); ++r)
      rate_of_.push_back(narrowest(graph.links, static_cast<int>(r)).si());
  }

  // Calls visit(task, route) for every task that is on links for some time.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t t = 0; t < graph_.size(); ++t) {
      const int route = route_of_[class_of(t)];
      if (route != TaskClass::kNoRoute && begin(t) != times_.end[t].ps)
        visit(t, graph_.links.routes[static_cast<std::size_t>(route)]);
    }
  }
  [[nodiscard]] std::int64_t begin(std::size_t task) const {
    return times_.begin[task].ps + latency_of_[class_of(task)];
  }
  [[nodiscard]] std::int64_t end(std::size_t task) const { return times_.end[task].ps; }
  [[nodiscard]] Flow flow(std::size_t task) const {
    return {begin(task), end(task), static_cast<std::int32_t>(task), rate_of_[route_of_[class_of(task)]]};
  }

 private:
  [[nodiscard]] int class_of(std::size_t task) const { return graph_.class_numbers()[task]; }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  IndexedVector<int, int> route_of_;             // [class]
  IndexedVector<int, std::int64_t> latency_of_;  // [class]
  IndexedVector<int, double> rate_of_;           // [route]
};

}  // namespace

std::optional<Meeting> find_meeting(const TaskGraph& graph, const TaskTimes& times, LinkDiscipline discipline) {
  if (graph.links.routes.empty()) return std::nullopt;
  const Flows flows(graph, times);
  // Tasks are numbered in about the order of their begins, so one pass over them finds most links free of meetings: a
  // flow comes when the latest has ended, or fits into the gap before the latest. Only crowded links are sorted.
  struct Link {
    std::int64_t free = 0, last_begin = 0;  // of the flow that ends last so far
    std::int64_t gap = 0;                   // the end of the one before that
    bool crowded = false;
    std::vector<std::int32_t> tasks;  // if so
  };
  std::vector<Link> links(graph.links.capacity.size());
  flows.for_each([&](std::size_t task, const std::vector<LinkId>& route) {
    const std::int64_t begin = flows.begin(task), end = flows.end(task);
    for (const LinkId l : route) {
      Link& link = links[l.index()];
      if (begin >= link.free) {
        link.gap = link.free;
        link.last_begin = begin;
        link.free = end;
      } else if (begin >= link.gap && end <= link.last_begin) {
        link.gap = end;
      } else {
        link.crowded = true;
      }
    }
  });
  if (std::none_of(links.begin(), links.end(), [](const Link& link) { return link.crowded; })) return std::nullopt;

  flows.for_each([&](std::size_t task, const std::vector<LinkId>& route) {
    for (const LinkId l : route)
      if (links[l.index()].crowded) links[l.index()].tasks.push_back(static_cast<std::int32_t>(task));
  });
  std::optional<Found> first;
  for (std::size_t l = 0; l < links.size(); ++l) {
    if (!links[l].crowded) continue;
    std::vector<Flow> on_link;
    for (const std::int32_t task : links[l].tasks) on_link.push_back(flows.flow(static_cast<std::size_t>(task)));
    const std::optional<Found> found =
        Sweep(graph.links.capacity[l].si(), discipline).find(std::move(on_link), LinkId(static_cast<int>(l)));
    if (found && (!first || found->time < first->time)) first = found;
  }
  if (!first) return std::nullopt;
  return first->meeting;
}

}  // namespace meshwright
