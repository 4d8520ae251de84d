// SPDX-License-Identifier: Apache-2.0
// Where a device does not compute there are gaps; communication fills them in part. The computations of a stream come
// in their order, and so do its messages: each finds its gap next to that of the one before it.
#include <algorithm>
#include <utility>

#include "simulator/report/step_report.h"

namespace meshwright {

namespace {

constexpr std::int32_t kNoPiece = -1;

struct Stretch {
  std::int64_t begin, end;
};

class Gaps {
 public:
  Gaps(const TaskGraph& graph, const TaskTimes& times)
      : graph_(graph), times_(times), devices_(static_cast<std::size_t>(graph.devices)) {
    for (const TaskClass& own : graph.classes)
      sort_of_.push_back(is_compute(own.kind)         ? Sort::Compute
                         : is_communication(own.kind) ? Sort::Communication
                                                      : Sort::None);
  }

  std::vector<DeviceShares> shares() {
    find_gaps();
    fill_gaps();
    return sum_up();
  }

 private:
  enum class Sort : char { None, Compute, Communication };
  struct Node {
    Stretch piece;
    std::int32_t before;  // in pieces_, does not touch it
  };
  // A time without computation.
  struct Gap {
    Stretch own;
    Node filled;                                        // the latest of the pieces that communication fills
    std::int32_t previous = kNoPiece, next = kNoPiece;  // of its device
    std::int32_t device = 0;                            // kNoPiece: not to be counted
  };
  struct Device {
    std::int64_t computed = 0;  // until then
    std::int32_t first = kNoPiece, last = kNoPiece;
    std::int32_t filled = kNoPiece;  // latest
    bool tangled = false;            // computations overlap, or do not come in the order of time
  };

  template <class Visit>
  void for_each(Sort sort, Visit visit) const {
    const std::int32_t* const class_of = graph_.class_numbers().data();
    const std::int32_t* const stream_of = graph_.stream_numbers().data();
    for (std::size_t t = 0; t < graph_.size(); ++t) {
      if (sort_of_[static_cast<std::size_t>(class_of[t])] != sort) continue;
      const Stretch piece{times_.begin[t].ps, times_.end[t].ps};
      if (piece.begin < piece.end) visit(static_cast<std::size_t>(stream_of[t]), piece);
    }
  }

  void find_gaps() {
    gaps_.reserve(graph_.size() / 4 + devices_.size());
    bool tangled = false;
    for_each(Sort::Compute, [&](std::size_t stream, Stretch piece) {
      const std::int32_t d = graph_.streams[stream].device.value;
      Device& device = devices_[static_cast<std::size_t>(d)];
      device.tangled |= piece.begin < device.computed;
      tangled |= device.tangled;
      compute(d, piece);
    });
    if (tangled) untangle();
    // The gap after the last computation.
    for (std::int32_t d = 0; d < graph_.devices; ++d) append(d, times_.step.ps);
  }

  // Right as long as the computations of a device come in the order of their begins.
  void compute(std::int32_t d, Stretch piece) {
    Device& device = devices_[static_cast<std::size_t>(d)];
    // The first gap is there even if it is empty: a device without computations has one as well.
    if (piece.begin > device.computed || device.first == kNoPiece) append(d, piece.begin);
    device.computed = std::max(device.computed, piece.end);
  }

  // A gap from the end of what is computed to `end`.
  void append(std::int32_t d, std::int64_t end) {
    Device& device = devices_[static_cast<std::size_t>(d)];
    const auto number = static_cast<std::int32_t>(gaps_.size());
    gaps_.push_back({{device.computed, end}, {{end, end}, kNoPiece}, device.last, kNoPiece, d});
    (device.first == kNoPiece ? device.first : gaps_[static_cast<std::size_t>(device.last)].next) = number;
    device.last = number;
  }

  // Finds the gaps of tangled devices again, from computations that are sorted.
  void untangle() {
    std::vector<std::vector<Stretch>> pieces(devices_.size());
    for_each(Sort::Compute, [&](std::size_t stream, Stretch piece) {
      const std::size_t d = graph_.streams[stream].device.index();
      if (devices_[d].tangled) pieces[d].push_back(piece);
    });
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (!devices_[d].tangled) continue;
      // Gaps that were found so far stay in gaps_, and are not counted.
      for (std::int32_t g = devices_[d].first; g != kNoPiece; g = gap(g).next) gap(g).device = kNoPiece;
      devices_[d] = {};
      std::sort(pieces[d].begin(), pieces[d].end(), [](Stretch a, Stretch b) { return a.begin < b.begin; });
      for (const Stretch piece : pieces[d]) compute(static_cast<std::int32_t>(d), piece);
    }
  }

  void fill_gaps() {
    struct Cursors {
      std::int32_t device = kNoPiece, peer = kNoPiece;  // gaps there in which, or before which, its latest one began
    };
    std::vector<Cursors> cursors(graph_.streams.size());
    for (Device& device : devices_) device.filled = device.first;
    for_each(Sort::Communication, [&](std::size_t s, Stretch piece) {
      const Stream& stream = graph_.streams[s];
      fill(devices_[stream.device.index()], cursors[s].device, piece);
      if (stream.peer != stream.device) fill(devices_[stream.peer.index()], cursors[s].peer, piece);
    });
  }

  // A stream's first one looks near the latest of another.
  void fill(Device& device, std::int32_t& cursor, Stretch piece) {
    if (cursor == kNoPiece) cursor = device.filled;
    // Times move on, so that a stream's next gap is near its last one.
    while (gap(cursor).own.begin > piece.begin && gap(cursor).previous != kNoPiece) cursor = gap(cursor).previous;
    while (gap(cursor).own.end <= piece.begin && gap(cursor).next != kNoPiece) cursor = gap(cursor).next;
    device.filled = cursor;
    __builtin_prefetch(gaps_.data() + std::max(gap(cursor).next, 0), 1);
    for (std::int32_t g = cursor; g != kNoPiece && gap(g).own.begin < piece.end; g = gap(g).next) {
      Gap& there = gap(g);
      const Stretch part{std::max(piece.begin, there.own.begin), std::min(piece.end, there.own.end)};
      if (part.begin >= part.end) continue;
      // Empty: nothing has filled the gap yet.
      if (there.filled.piece.begin == there.filled.piece.end) {
        there.filled.piece = part;
      } else {
        unite(there.filled, part);
      }
    }
  }

  // Most come nearly in their order: few are looked at.
  void unite(Node& latest, Stretch part) {
    if (part.begin > latest.piece.end) {
      pieces_.push_back(latest);
      latest = {part, static_cast<std::int32_t>(pieces_.size()) - 1};
      return;
    }
    Node* at = &latest;
    while (part.end < at->piece.begin) {
      if (at->before == kNoPiece || part.begin > node(at->before).piece.end) {
        const auto made = static_cast<std::int32_t>(pieces_.size());
        const Node between{part, std::exchange(at->before, made)};
        pieces_.push_back(between);
        return;
      }
      at = &node(at->before);
    }
    at->piece = {std::min(part.begin, at->piece.begin), std::max(part.end, at->piece.end)};
    // The piece has grown to the left, and may touch those before it.
    while (at->before != kNoPiece && node(at->before).piece.end >= at->piece.begin) {
      at->piece.begin = std::min(at->piece.begin, node(at->before).piece.begin);
      at->before = node(at->before).before;
    }
  }

  Node& node(std::int32_t number) { return pieces_[static_cast<std::size_t>(number)]; }

  std::int64_t filled_of(const Gap& own) {
    std::int64_t sum = own.filled.piece.end - own.filled.piece.begin;
    for (std::int32_t p = own.filled.before; p != kNoPiece; p = node(p).before)
      sum += node(p).piece.end - node(p).piece.begin;
    return sum;
  }

  std::vector<DeviceShares> sum_up() {
    std::vector<DeviceShares> shares(devices_.size());
    for (DeviceShares& own : shares) own.compute = times_.step;
    for (std::size_t g = 0; g < gaps_.size(); ++g) {
      const Gap& own = gaps_[g];
      if (own.device == kNoPiece) continue;
      DeviceShares& of_device = shares[static_cast<std::size_t>(own.device)];
      const Device& device = devices_[static_cast<std::size_t>(own.device)];
      const auto number = static_cast<std::int32_t>(g);
      const SimTime length{own.own.end - own.own.begin}, filled{filled_of(own)};
      of_device.compute = of_device.compute - length;
      of_device.communication += filled;
      // Before its first and after its last computation a device is idle; between, it waits in a bubble.
      (number == device.first || number == device.last ? of_device.idle : of_device.bubble) += length - filled;
    }
    return shares;
  }

  Gap& gap(std::int32_t number) { return gaps_[static_cast<std::size_t>(number)]; }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  std::vector<Sort> sort_of_;    // [class]
  std::vector<Device> devices_;  // [device]
  std::vector<Gap> gaps_;        // by device linked, in the order of time
  std::vector<Node> pieces_;     // but the latest of each gap
};

}  // namespace

std::vector<DeviceShares> device_shares(const TaskGraph& graph, const TaskTimes& times) {
  return Gaps(graph, times).shares();
}

}  // namespace meshwright
