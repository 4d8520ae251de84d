// SPDX-License-Identifier: Apache-2.0
#include "costmodel/traces/trace_rows.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/recorded_work.h"

namespace meshwright {

namespace {

constexpr double kLongest = 3600e6;  // us

Seconds seconds(std::int64_t nanoseconds) { return Seconds(1e-9 * static_cast<double>(nanoseconds)); }

void count(TraceImport::Work& work, std::int64_t nanoseconds, std::int64_t count) {
  work.count += count;
  work.time += seconds(nanoseconds);
}

// The three that most of the time was left out for.
std::string largest_reasons(const std::map<std::string, TraceImport::Work>& left_out) {
  std::vector<std::pair<Seconds, std::string>> by_time;
  for (const auto& [reason, work] : left_out) by_time.emplace_back(work.time, reason);
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (const auto& [time, reason] : by_time)
    if (names.size() < 3) names.push_back(reason);
  return join(names, ", ");
}

}  // namespace

std::int64_t nanoseconds_of(double microseconds, const std::string& place) {
  require(microseconds >= 0 && microseconds <= kLongest,
          "{}: a duration of {} microseconds is none that a kernel takes; check that the times are in microseconds.",
          place, microseconds);
  return std::llround(1e3 * microseconds);
}

Seconds TraceImport::total() const {
  Seconds sum = found.time;
  for (const auto& [reason, work] : left_out) sum += work.time;
  return sum;
}

void TraceRows::add(const TracedOp& op, std::int64_t nanoseconds, std::int64_t kernels) {
  OpTimes& times = ops_[{op.work.signature, op.kernel_dtype}];
  if (times.nanoseconds.empty()) times.op = op;
  times.nanoseconds.push_back(nanoseconds);
  count(found_, nanoseconds, kernels);
}

void TraceRows::add(const TracedCollective& collective, std::int64_t nanoseconds) {
  collectives_[{collective.kind, collective.ranks, collective.hosts, collective.size_bytes, collective.dtype}]
      .push_back(nanoseconds);
  count(found_, nanoseconds, 1);
}

void TraceRows::leave_out(const std::string& reason, std::int64_t nanoseconds, std::int64_t count_of) {
  count(left_out_[reason], nanoseconds, count_of);
}

TraceImport TraceRows::finish(std::string format, const std::string& library, const std::string& place) const {
  if (ops_.empty() && collectives_.empty() && left_out_.empty())
    throw InputError(fmt::format(
        "{}: the {} has no kernel of a device and no collective; record one of a step on GPUs.", place, format));
  require(!ops_.empty() || !collectives_.empty(), "{}: nothing of the {} found a row ({}); {}.", place, format,
          largest_reasons(left_out_),
          library == "nccl-tests" ? "measure one of all_reduce, all_gather, reduce_scatter and alltoall"
                                  : "record operands' shapes too (docs/files.md says what is read)");
  TraceImport made;
  made.format = std::move(format);
  made.found = found_;
  made.left_out = left_out_;
  std::map<std::string, std::vector<std::int64_t>> by_signature;
  for (const auto& [key, times] : ops_) {
    std::vector<std::int64_t>& all = by_signature[key.first];
    all.insert(all.end(), times.nanoseconds.begin(), times.nanoseconds.end());
    const Measurement time = measurement_of(times.nanoseconds);
    if (!times.op.kernel || time.median <= Seconds(0.0)) continue;
    KernelRow row;
    row.dtype = times.op.kernel_dtype;
    row.library = library;
    std::visit([&](const auto& shape) { row.kernel = shape; }, *times.op.kernel);
    row.time = time.median;
    row.place = place;
    made.kernels.push_back(std::move(row));
  }
  for (const auto& [signature, times] : by_signature) {
    const OpWork& work = ops_.lower_bound({signature, ""})->second.op.work;
    made.ops.push_back({signature, 1, work.flops.si(), work.bytes.si(), measurement_of(times)});
  }
  std::map<std::tuple<CollectiveKind, int, int, std::int64_t>, std::vector<std::int64_t>> by_size;
  for (const auto& [key, times] : collectives_) {
    const auto& [kind, ranks, hosts, size, dtype] = key;
    std::vector<std::int64_t>& all = by_size[{kind, ranks, hosts, size}];
    all.insert(all.end(), times.begin(), times.end());
    const Measurement time = measurement_of(times);
    if (time.median <= Seconds(0.0)) continue;
    KernelRow row;
    row.dtype = dtype;
    row.library = library;
    row.kernel = MeasuredCollective{kind, ranks, hosts, "", Bytes(static_cast<double>(size))};
    row.time = time.median;
    row.place = place;
    made.kernels.push_back(std::move(row));
  }
  for (const auto& [key, times] : by_size) {
    const auto& [kind, ranks, hosts, size] = key;
    made.collectives.push_back({kind, ranks, hosts, size, measurement_of(times)});
  }
  return made;
}

}  // namespace meshwright
