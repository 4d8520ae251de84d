// SPDX-License-Identifier: Apache-2.0
// Links that carry one flow at a time: each has a queue, and a flow goes when it is the first in all of its queues. All
// queues have the order in which flows came, so none waits for ever, and none is passed by one it shares a link with.
#pragma once

#include <deque>
#include <vector>

#include "core/base/errors.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

class LinkQueues {
 public:
  // Flows are numbered below `flows`. Keeps the reference to `links`.
  LinkQueues(const SharedLinks& links, std::size_t flows)
      : links_(links), waiting_(links.capacity.size()), route_(flows), behind_(flows) {}

  // Whether the flow may go at once.
  bool add(int flow, int route) {
    const auto f = static_cast<std::size_t>(flow);
    route_[f] = route;
    behind_[f] = 0;
    for (const LinkId link : links_.routes[static_cast<std::size_t>(route)]) {
      if (!waiting_[link.index()].empty()) ++behind_[f];
      waiting_[link.index()].push_back(flow);
    }
    return behind_[f] == 0;
  }

  // A flow that went has ended: calls go(flow) for those that may go now.
  template <class Go>
  void remove(int flow, Go go) {
    for (const LinkId link : links_.routes[static_cast<std::size_t>(route_[static_cast<std::size_t>(flow)])]) {
      std::deque<int>& queue = waiting_[link.index()];
      MW_CHECK(queue.front() == flow, "flow {} leaves link {} before flow {}", flow, link.value, queue.front());
      queue.pop_front();
      if (!queue.empty() && --behind_[static_cast<std::size_t>(queue.front())] == 0) go(queue.front());
    }
  }

 private:
  const SharedLinks& links_;
  std::vector<std::deque<int>> waiting_;  // [link] the one that goes, and those behind it
  std::vector<int> route_;                // [flow]
  std::vector<int> behind_;               // [flow] links on which another is before it
};

}  // namespace meshwright
