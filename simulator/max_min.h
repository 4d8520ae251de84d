// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates of the flows on links (Bertsekas and Gallager, Data Networks, 6.5.2): the rate of a flow can only
// be raised by lowering that of one that has no more.
//
// Rates change only where they can: a link whose flows would not fill it at their full speed limits none of them, so a
// flow that comes or goes concerns those that it meets, directly or through others, on links that limit.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/task_graph.h"

namespace meshwright {

class MaxMinLinks {
 public:
  // Flows are numbered below `flows`. Keeps the reference to `links`.
  MaxMinLinks(const SharedLinks& links, std::size_t flows);

  // A flow comes, which may go at `speed` (in (0, 1]) of the rate of the narrowest link of its route.
  void add(int flow, int route, double speed);
  void remove(int flow);
  void set_speed(int flow, double speed);

  // What a flow does from now on, as part of the rate of the narrowest link of its route. Exactly its speed where no
  // link holds it back.
  struct Rate {
    int flow;
    double rate;
  };
  // Of the flows that may have another rate than before, after all changes since the last call.
  [[nodiscard]] const std::vector<Rate>& update();

 private:
  struct Flow {
    int route = 0;
    double speed = 1.0;
    double full = 0.0;  // bytes/s
    bool present = false, listed = false, fixed = false;
  };
  struct Link {
    double capacity;            // bytes/s
    std::vector<int> flows;     // ascending, so that sums are the same whatever came before
    long double demand = 0.0L;  // of its flows at their speeds; wide, as it is added to and taken from for long
    bool limited = false;       // at the last update
    bool touched = false, listed = false;
    double left = 0.0;  // of its capacity, for
    int open = 0;       // flows without a rate yet
  };

  [[nodiscard]] const std::vector<LinkId>& route(const Flow& flow) const;
  [[nodiscard]] static bool limits(const Link& link);
  void demand(const Flow& flow, double bytes_per_second);
  void list(int link);
  void find_concerned();
  void fill();
  void fix(int flow, double rate);

  const SharedLinks& links_;
  std::vector<double> full_;                        // [route] bytes/s
  std::vector<Flow> flows_;                         // [flow]
  std::vector<Link> of_;                            // [link]
  std::vector<int> touched_links_, touched_flows_;  // since the last update
  std::vector<int> concerned_links_, concerned_;
  std::vector<Rate> rates_;
};

}  // namespace meshwright
