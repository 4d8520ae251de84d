// SPDX-License-Identifier: Apache-2.0
#include "costmodel/recorded_work.h"

#include <algorithm>
#include <cmath>
#include <functional>
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
// between. `interval_of` gives when an element went on.
struct Occurrence {
  std::int64_t busy = 0;
  Seconds gaps{0.0};
};
template <class Iterator, class IntervalOf>
Occurrence occurrence_of(Iterator first, Iterator last, IntervalOf interval_of) {
  Occurrence found;
  // Where the work seen so far ends: intervals may overlap, and their common part counts once.
  std::int64_t until = std::invoke(interval_of, *first).start;
  for (; first != last; ++first) {
    const Interval& interval = std::invoke(interval_of, *first);
    found.gaps += seconds(std::max<std::int64_t>(0, interval.start - until));
    found.busy += std::max<std::int64_t>(0, interval.end - std::max(until, interval.start));
    until = std::max(until, interval.end);
  }
  return found;
}

std::string kind_of(const MarkedRange& range) {
  if (const auto* op = std::get_if<OpRange>(&range)) return op->signature.substr(0, op->signature.find(' '));
  return name_of(std::get<CollectiveRange>(range).kind);
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
  // Ranges of one thread nest: the innermost one that has not ended is the parent.
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
  // The last range that begins by then; where it has ended, the one around it.
  const Node* node = &*(after - 1);
  while (node->interval.end < time) {
    if (!node->parent) return std::nullopt;
    node = &nodes->second[*node->parent];
  }
  return node->range;
}

Seconds union_of(std::vector<Interval> intervals) {
  if (intervals.empty()) return Seconds(0.0);
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return std::tie(a.start, a.end) < std::tie(b.start, b.end); });
  return seconds(occurrence_of(intervals.begin(), intervals.end(), std::identity{}).busy);
}

RecordedTimes times_of(std::span<const MarkedRange> ranges, std::vector<AttributedWork> work) {
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
  // The intervals of one device in one range are then neighbours.
  std::sort(work.begin(), work.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (auto first = work.begin(); first != work.end();) {
    const auto last = std::find_if(first, work.end(),
                                   [&](const auto& w) { return w.range != first->range || w.device != first->device; });
    const Occurrence occurrence = occurrence_of(first, last, &AttributedWork::interval);
    found.gaps += occurrence.gaps;
    const MarkedRange& range = ranges[first->range];
    RecordedTimes::Kind& of_kind = found.kinds[kind_of(range)];
    ++of_kind.occurrences;
    of_kind.time += seconds(occurrence.busy);
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

  // Ops that others' kernels computed: they occurred, in no time of their own.
  for (const MarkedRange& range : ranges) {
    const auto* op = std::get_if<OpRange>(&range);
    if (op == nullptr || !op->joined) continue;
    ++found.kinds[kind_of(range)].occurrences;
    OpTimes& known = ops[op->signature];
    if (known.op == nullptr) known.op = op;
    known.times.push_back(0);
  }

  for (const auto& [signature, known] : ops) {
    ++found.kinds[kind_of(*known.op)].different;
    found.ops.push_back(
        {std::string(signature), 1, known.op->flops.si(), known.op->bytes.si(), measurement_of(known.times)});
  }
  for (const auto& [key, by_device] : collectives) {
    const auto& [kind, ranks, hosts, size] = key;
    ++found.kinds[name_of(kind)].different;
    found.collectives.push_back({kind, ranks, hosts, size, measurement_of(without_waiting(by_device))});
  }
  return found;
}

}  // namespace meshwright
