// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates of the flows on links (Bertsekas and Gallager, Data Networks, 6.5.2): the rate of a flow can only
// be raised by lowering that of one that has no more.
//
// Rates change only where they can: a link whose flows would not fill it at their full speed limits none of them, so a
// flow that comes or goes concerns those that it meets, directly or through others, on links that limit. Where there
// are none, it costs an addition per link.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/indexed_vector.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

class MaxMinLinks {
 public:
  // Flows are numbered below `flows`. Keeps the reference to `links`.
  MaxMinLinks(const SharedLinks& links, std::size_t flows);

  // A flow comes, which may go at `speed` (in (0, 1]) of the rate of the narrowest link of its route, and does so
  // unless update() says otherwise.
  void add(int flow, int route, double speed);
  void remove(int flow);
  void set_speed(int flow, double speed);

  // What a flow does from now on, as part of the rate of the narrowest link of its route. Exactly its speed where no
  // link holds it back.
  struct Rate {
    int flow;
    double rate;
  };
  // The rates of all flows whose rate may have changed since the last call.
  [[nodiscard]] const std::vector<Rate>& update();

 private:
  struct Flow {
    double speed = 1.0;
    int route = 0;
    bool present = false, listed = false, fixed = false;
  };
  struct Place {
    int flow;
    std::uint32_t step;  // the link is that step of its route
  };
  struct Link {
    long double demand = 0.0L;  // of its flows at their speeds; wide, as it is added to and taken from for long
    double room = 0.0;          // demand that limits nobody
    bool limited = false;       // at the last update
    bool touched = false, listed = false;
    std::vector<Place> flows;  // in any order
  };
  // The state of a link while rates are computed.
  struct Filling {
    double left = 0.0;  // of its capacity, for
    int open = 0;       // flows without a rate yet
  };

  [[nodiscard]] std::span<const int> route(const Flow& flow) const;
  [[nodiscard]] double full(const Flow& flow) const { return full_[flow.route]; }
  [[nodiscard]] double max_rate(const Flow& flow) const { return flow.speed * full(flow); }
  [[nodiscard]] std::uint32_t* places(int flow) { return places_.data() + static_cast<std::size_t>(flow) * longest_; }
  void demand(int link, double bytes_per_second);
  void list(int link);
  void find_concerned();
  void fill();
  void fix(int flow, double rate);

  const SharedLinks& links_;
  IndexedVector<int, double> full_;                 // [route] bytes/s, alone on its links
  IndexedVector<int, int> first_;                   // [route + 1] in steps_
  std::vector<int> steps_;                          // the links of all routes
  std::size_t longest_ = 0;                         // route, in links
  IndexedVector<int, Flow> flows_;                  // [flow]
  std::vector<std::uint32_t> places_;               // [flow, step of its route] where it is in Link::flows
  IndexedVector<int, Link> of_;                     // [link]
  IndexedVector<int, Filling> filling_;             // [link]
  std::vector<int> touched_links_, touched_flows_;  // since the last update
  std::vector<int> concerned_links_, concerned_;
  std::vector<Rate> rates_;
};

}  // namespace meshwright
