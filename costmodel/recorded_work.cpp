// SPDX-License-Identifier: Apache-2.0
#include "costmodel/recorded_work.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/errors.h"

namespace meshwright {

namespace {

Seconds seconds(double nanoseconds) { return Seconds(1e-9 * nanoseconds); }
Seconds seconds(std::int64_t nanoseconds) { return seconds(static_cast<double>(nanoseconds)); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// Work of one device in one range, in order of its beginning: how long the device was busy, and how long it was not in
// between.
struct Occurrence {
  std::int64_t busy = 0;
  Seconds gaps{0.0};
};
template <class Iterator>
Occurrence occurrence_of(Iterator first, Iterator last) {
  Occurrence found;
  std::int64_t until = first->interval.start;
  for (; first != last; ++first) {
    found.gaps += seconds(std::max<std::int64_t>(0, first->interval.start - until));
    found.busy += std::max<std::int64_t>(0, first->interval.end - std::max(until, first->interval.start));
    until = std::max(until, first->interval.end);
  }
  return found;
}

// Every device's kernel lasts from when it comes until all have come and the data are through: the one that came last
// waited for nobody. What is n-th on one device is n-th on the others.
std::vector<std::int64_t> without_waiting(const std::map<std::int64_t, std::vector<std::int64_t>>& by_device) {
  std::vector<std::int64_t> shortest;
  for (const auto& [device, times] : by_device)
    for (std::size_t n = 0; n < times.size(); ++n) {
      if (n == shortest.size()) shortest.push_back(times[n]);
      shortest[n] = std::min(shortest[n], times[n]);
    }
  return shortest;
}

}  // namespace

Measurement measurement_of(const std::vector<std::int64_t>& nanoseconds) {
  MW_CHECK(!nanoseconds.empty(), "a median of nothing");
  std::vector<double> times(nanoseconds.begin(), nanoseconds.end());
  const double middle = median(times);
  for (double& time : times) time = std::abs(time - middle);
  return {seconds(middle), seconds(median(times)), static_cast<int>(nanoseconds.size())};
}

void RangeTree::add(std::int64_t thread, Interval interval, MarkedRange range) {
  std::vector<Node>& nodes = threads_[thread];
  MW_CHECK(nodes.empty() || nodes.back().interval.start <= interval.start, "a range that begins at {} is added late",
           interval.start);
  std::optional<std::size_t> parent;
  if (!nodes.empty()) parent = nodes.size() - 1;
  while (parent && nodes[*parent].interval.end < interval.end) parent = nodes[*parent].parent;
  nodes.push_back({interval, ranges_.size(), parent});
  ranges_.push_back(std::move(range));
}

std::optional<std::size_t> RangeTree::innermost(std::int64_t thread, std::int64_t time) const {
  const auto nodes = threads_.find(thread);
  if (nodes == threads_.end()) return std::nullopt;
  const auto after = std::upper_bound(nodes->second.begin(), nodes->second.end(), time,
                                      [](std::int64_t t, const Node& node) { return t < node.interval.start; });
  if (after == nodes->second.begin()) return std::nullopt;
  const Node* node = &*(after - 1);
  while (node->interval.end < time) {
    if (!node->parent) return std::nullopt;
    node = &nodes->second[*node->parent];
  }
  return node->range;
}

RecordedTimes times_of(const RangeTree& ranges, std::vector<AttributedWork> work) {
  using Times = std::vector<std::int64_t>;
  using CollectiveKey = std::tuple<CollectiveKind, int, int, std::int64_t>;
  struct OpTimes {
    const OpRange* op = nullptr;
    Times times;
  };
  std::map<std::string_view, OpTimes> ops;
  std::map<CollectiveKey, std::map<std::int64_t, Times>> collectives;  // by device
  RecordedTimes found;

  const auto place = [](const AttributedWork& w) {
    return std::tie(w.range, w.device, w.interval.start, w.interval.end);
  };
  std::sort(work.begin(), work.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (auto first = work.begin(); first != work.end();) {
    const auto last = std::find_if(first, work.end(),
                                   [&](const auto& w) { return w.range != first->range || w.device != first->device; });
    const Occurrence occurrence = occurrence_of(first, last);
    found.gaps += occurrence.gaps;
    const MarkedRange& range = ranges.range(first->range);
    if (const auto* op = std::get_if<OpRange>(&range)) {
      OpTimes& known = ops[op->signature];
      if (known.op == nullptr) known.op = op;
      known.times.push_back(occurrence.busy);
    } else {
      const auto& [kind, ranks, hosts, size] = std::get<CollectiveRange>(range);
      collectives[{kind, ranks, hosts, size}][first->device].push_back(occurrence.busy);
    }
    first = last;
  }

  for (const auto& [signature, known] : ops)
    found.ops.push_back(
        {std::string(signature), 1, known.op->flops.si(), known.op->bytes.si(), measurement_of(known.times)});
  for (const auto& [key, by_device] : collectives) {
    const auto& [kind, ranks, hosts, size] = key;
    found.collectives.push_back({kind, ranks, hosts, size, measurement_of(without_waiting(by_device))});
  }
  return found;
}

}  // namespace meshwright
