// SPDX-License-Identifier: Apache-2.0
#include "costmodel/profile_fit.h"

#include <algorithm>

namespace meshwright {

namespace {

// An op counts as large from this share of the largest one's work upwards.
constexpr double kLarge = 0.05;

struct Rate {
  double best = 0.0;   // work per second
  double large = 0.0;  // of the large ops together

  [[nodiscard]] double efficiency(double of) const { return std::min(1.0, large / of); }
};

// These read or write a few rows of an operand whose bytes all count.
bool looks_up(OpKind kind) {
  return kind == OpKind::Embedding || kind == OpKind::EmbeddingBackward || kind == OpKind::PickLabel;
}

// `work_of` returns 0 for ops that do not count.
template <class WorkOf>
Rate rate_of(const std::vector<MeasuredOp>& ops, WorkOf work_of) {
  double largest = 0.0;
  for (const MeasuredOp& op : ops)
    if (!op.added) largest = std::max(largest, work_of(op));
  Rate rate;
  double work = 0.0, time = 0.0;
  for (const MeasuredOp& op : ops) {
    const double seconds = op.profile.time.median.si();
    if (op.added || work_of(op) <= 0.0 || seconds <= 0.0) continue;
    rate.best = std::max(rate.best, work_of(op) / seconds);
    if (work_of(op) < kLarge * largest) continue;
    work += work_of(op);
    time += seconds;
  }
  if (time > 0.0) rate.large = work / time;
  return rate;
}

}  // namespace

// Weighted least squares with weights 1 / time^2: minimise sum ((alpha + beta x - t) / t)^2.
std::optional<LinkCost> fit_link(const std::vector<TransferProfile>& transfers, bool hosts_apart) {
  double w = 0.0, wx = 0.0, wxx = 0.0, wt = 0.0, wxt = 0.0;
  for (const TransferProfile& transfer : transfers) {
    const double t = transfer.time.median.si(), x = static_cast<double>(transfer.size_bytes);
    if (transfer.hosts_apart != hosts_apart || t <= 0.0) continue;
    const double weight = 1.0 / (t * t);
    w += weight, wx += weight * x, wxx += weight * x * x, wt += weight * t, wxt += weight * x * t;
  }
  const double determinant = w * wxx - wx * wx;
  if (!(determinant > 0.0)) return std::nullopt;
  double alpha = (wxx * wt - wx * wxt) / determinant;
  double beta = (w * wxt - wx * wt) / determinant;
  if (alpha < 0.0) alpha = 0.0, beta = wxt / wxx;
  if (beta < 0.0) beta = 0.0, alpha = wt / w;
  return LinkCost{Seconds(alpha), SecondsPerByte(beta)};
}

Cluster fit_cluster(Cluster base, const std::vector<MeasuredOp>& ops, const std::vector<TransferProfile>& transfers,
                    std::optional<BytesPerSecond> copy) {
  DeviceKind& device = base.only().device;
  // A peak that was not measured does not go with an efficiency that was: the measured ones replace them all.
  std::map<std::string, FlopsPerSecond> peaks;
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    const Rate rate = rate_of(ops, [&](const MeasuredOp& op) { return op.dtype == dtype ? op.profile.flops : 0.0; });
    if (rate.best <= 0.0) continue;
    peaks.emplace(name_of(dtype), FlopsPerSecond(rate.best));
    device.matmul_efficiency = rate.efficiency(rate.best);
  }
  if (!peaks.empty()) device.peak = std::move(peaks);
  const Rate memory = rate_of(
      ops, [](const MeasuredOp& op) { return op.profile.flops > 0.0 || looks_up(op.kind) ? 0.0 : op.profile.bytes; });
  if (memory.best > 0.0) {
    device.memory_bandwidth = copy.value_or(BytesPerSecond(memory.best));
    device.memory_efficiency = memory.efficiency(device.memory_bandwidth.si());
  }
  std::optional<Seconds> shortest;
  for (const MeasuredOp& op : ops)
    if (!op.added && (!shortest || op.profile.time.median < *shortest)) shortest = op.profile.time.median;
  if (shortest) device.launch = *shortest;
  if (const std::optional<LinkCost> link = fit_link(transfers)) {
    base.only().within_host = *link;
    if (base.hosts() == 1) base.only().between_hosts = *link;
  }
  if (const std::optional<LinkCost> link = fit_link(transfers, true)) base.only().between_hosts = *link;
  // Exactly what will be read back from the database: the file keeps twelve digits of a link's rate.
  return cluster_from_json(to_json(base), "fitted cluster");
}

}  // namespace meshwright
