// SPDX-License-Identifier: Apache-2.0
#include "costmodel/occupancy.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace meshwright {

namespace {

constexpr double kLeast = 0.02;        // of a GPU
constexpr double kFilling = 1.0 / 8;   // of a kind's largest op: what fills a GPU
constexpr double kFromTheCache = 1.5;  // of the memory's bandwidth, for operands that lie in the L2

double amount_of(double flops, double bytes) { return flops > 0 ? flops : bytes; }
double rate_of(double flops, double bytes, Seconds time) { return amount_of(flops, bytes) / time.si(); }

struct Limits {
  double flops = std::numeric_limits<double>::infinity(), bytes = flops;
};

// Of the devices that the database measured, the fastest.
Limits limits_of(const ProfileDb& db) {
  Limits limits{0.0, 0.0};
  for (const ProfileSession& session : db.sessions())
    for (const HostGroup& group : session.cluster.groups) {
      for (const auto& [type, peak] : group.device.peak) limits.flops = std::max(limits.flops, peak.si());
      limits.bytes = std::max(limits.bytes, kFromTheCache * group.device.memory_bandwidth.si());
    }
  return limits;
}

}  // namespace

Occupancy::Occupancy(const ProfileDb& db) {
  const Limits limits = limits_of(db);
  struct Row {
    double extent, seconds;
  };
  std::unordered_map<std::string, std::vector<Row>> rows;
  for (const OpProfile& row : db.ops()) {
    if (row.signature.empty() || row.time.median <= Seconds(0.0)) continue;
    if (rate_of(row.flops, row.bytes, row.time.median) > (row.flops > 0 ? limits.flops : limits.bytes)) continue;
    rows[std::string(family_of(row.signature))].push_back({amount_of(row.flops, row.bytes), row.time.median.si()});
  }
  for (const auto& [family, all] : rows) {
    double largest = 0.0;
    for (const Row& row : all) largest = std::max(largest, row.extent);
    Row sum{0.0, 0.0};
    for (const Row& row : all) {
      if (row.extent < kFilling * largest) continue;
      sum.extent += row.extent;
      sum.seconds += row.seconds;
    }
    full_[family] = sum.extent / sum.seconds;
  }
}

double Occupancy::of(const OpWork& work, Seconds time) const {
  if (work.signature.empty() || time <= Seconds(0.0)) return 1.0;
  const auto full = full_.find(std::string(family_of(work.signature)));
  if (full == full_.end() || full->second <= 0.0) return 1.0;
  return std::clamp(rate_of(work.flops.si(), work.bytes.si(), time) / full->second, kLeast, 1.0);
}

}  // namespace meshwright
