// SPDX-License-Identifier: Apache-2.0
// The profiled cost model. Everything it needs is copied out of the database when it is made, so that a cost is two
// hash look-ups at most and the model, never changed afterwards, may be asked from several threads at once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/mesh/device_names.h"
#include "costmodel/cost_models.h"
#include "costmodel/model_per_group.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright {

namespace {

// Look-up by string_view without building a std::string.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

// Seconds over a size, points ascending in x, every x once.
struct Point {
  double x, y;
};
using Curve = std::vector<Point>;

// The first of the two points between or beyond which `x` is. REQUIRES: two points or more.
Curve::const_iterator segment_at(const Curve& curve, double x) {
  const auto above =
      std::lower_bound(curve.begin(), curve.end(), x, [](const Point& p, double value) { return p.x < value; });
  return std::clamp(above, curve.begin() + 1, curve.end() - 1) - 1;
}

// Log-log between the two neighbours; beyond the ends the time per unit of x stays what it is there.
double log_log(const Curve& curve, double x) {
  if (x <= curve.front().x) return curve.front().y * (x / curve.front().x);
  if (x >= curve.back().x) return curve.back().y * (x / curve.back().x);
  const auto a = segment_at(curve, x), b = a + 1;
  const double share = std::log(x / a->x) / std::log(b->x / a->x);
  return a->y * std::pow(b->y / a->y, share);
}

// Straight lines; beyond the ends the nearest segment continues. Noise can tilt an end segment the wrong way: below the
// first point the time is never less than at the first point's rate, above the last one never less than there. A lone
// point is both.
double piecewise_linear(const Curve& curve, double x) {
  const Point first = curve.front(), last = curve.back();
  if (curve.size() == 1) return x <= first.x ? first.y : first.y * (x / first.x);
  const auto a = segment_at(curve, x), b = a + 1;
  const double line = a->y + (b->y - a->y) * ((x - a->x) / (b->x - a->x));
  if (x < first.x) return std::max(line, first.y * (x / first.x));
  if (x > last.x) return std::max(line, last.y);
  return line;
}

TimeEstimate cost_on(const Curve& curve, double x) {
  const auto found =
      std::lower_bound(curve.begin(), curve.end(), x, [](const Point& p, double value) { return p.x < value; });
  if (found != curve.end() && found->x == x) return {Seconds(found->y), Basis::Measured};
  return {Seconds(piecewise_linear(curve, x)), Basis::Interpolated};
}

// What an op's time goes with: its flops where it has any, else its bytes.
double extent(double flops, double bytes) { return flops > 0 ? flops : bytes; }

// Ops of one extent and different shapes become one point: the geometric mean, as the curve is read on logarithmic
// axes.
Curve curve_of(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return std::tie(a.x, a.y) < std::tie(b.x, b.y); });
  Curve curve;
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i;
    double log_sum = 0;
    for (; end < points.size() && points[end].x == points[i].x; ++end) log_sum += std::log(points[end].y);
    curve.push_back({points[i].x, std::exp(log_sum / static_cast<double>(end - i))});
    i = end;
  }
  return curve;
}

class ProfiledCostModel final : public CostModel {
 public:
  // `analytic`: of the same devices, of which there are `devices`.
  ProfiledCostModel(std::unique_ptr<CostModel> analytic, int devices, const ProfileDb& db)
      : analytic_(std::move(analytic)), run_overhead_(analytic_->run_overhead()) {
    add_ops(db.ops(), devices);
    for (const CollectiveProfile& row : db.collectives())
      collectives_[{row.kind, row.ranks, row.hosts}].push_back(
          {static_cast<double>(row.size_bytes), row.time.median.si()});
    for (auto& [key, curve] : collectives_) sort_by_size(curve);
    for (const TransferProfile& row : db.transfers())
      transfers_[row.hosts_apart].push_back({static_cast<double>(row.size_bytes), row.time.median.si()});
    for (Curve& curve : transfers_) sort_by_size(curve);
    const std::map<std::string, Measurement> overheads = db.overheads();
    if (const auto run = overheads.find("run"); run != overheads.end()) run_overhead_ = run->second.median;
    if (const auto work = overheads.find(kMessageWork); work != overheads.end()) blocking_ = share_of(work->second);
  }

  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
    if (const auto op = ops_.find(std::string_view(work.signature)); op != ops_.end())
      return {op->second, Basis::Measured};
    const double x = extent(work.flops.si(), work.bytes.si());
    const auto family = families_.find(family_of(work.signature));
    if (family == families_.end() || x <= 0) return analytic_->compute(work);
    return {Seconds(log_log(family->second, x)), Basis::Interpolated};
  }

  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    const auto curve = collectives_.find({kind, axis.size(), axis.outer});
    if (axis.size() == 1 || curve == collectives_.end()) return analytic_->collective(kind, bytes, axis);
    return cost_on(curve->second, bytes.si());
  }

  // Messages that share the host's network take as long as one message of their total size.
  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    const Curve& curve = transfers_[hosts_apart];
    if (curve.empty()) return analytic_->transfer(bytes, hosts_apart, concurrent);
    MW_CHECK(concurrent >= 1, "{} concurrent messages", concurrent);
    if (!hosts_apart || concurrent == 1) return cost_on(curve, bytes.si());
    return {Seconds(piecewise_linear(curve, concurrent * bytes.si())), Basis::Interpolated};
  }

  [[nodiscard]] TimeEstimate host_transfer(Bytes bytes) const override { return analytic_->host_transfer(bytes); }

  [[nodiscard]] MessageTraits messages() const override { return {.blocking = blocking_}; }
  using CostModel::run_overhead;
  [[nodiscard]] Seconds run_overhead() const override { return run_overhead_; }

 private:
  // Keeps, of each signature, the row of the highest concurrency that is not above `devices`: cores that run together
  // share memory bandwidth and clocks.
  void add_ops(const std::vector<OpProfile>& rows, int devices) {
    std::map<std::string, const OpProfile*> chosen;
    for (const OpProfile& row : rows) {
      if (row.concurrency > devices) continue;
      const auto [found, is_new] = chosen.emplace(row.signature, &row);
      if (!is_new && row.concurrency > found->second->concurrency) found->second = &row;
    }
    std::map<std::string, std::vector<Point>, std::less<>> points;
    for (const auto& [signature, row] : chosen) {
      ops_.emplace(signature, row->time.median);
      const Point point{extent(row->flops, row->bytes), row->time.median.si()};
      if (point.x > 0 && point.y > 0) points[std::string(family_of(signature))].push_back(point);
    }
    for (auto& [family, of_family] : points) families_.emplace(family, curve_of(std::move(of_family)));
  }

  // The share of a message's time in which its ends do not compute; that of messages between hosts where there are
  // such.
  [[nodiscard]] double share_of(const Measurement& work) const {
    const Curve& curve = transfers_[1].empty() ? transfers_[0] : transfers_[1];
    if (curve.empty()) return 0.0;
    const double whole = piecewise_linear(curve, static_cast<double>(kMessageWorkBytes));
    return whole > 0.0 ? std::clamp(work.median.si() / whole, 0.0, 1.0) : 0.0;
  }

  static void sort_by_size(Curve& curve) {
    std::sort(curve.begin(), curve.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  }

  std::unique_ptr<CostModel> analytic_;
  Seconds run_overhead_;
  double blocking_ = 0.0;                                              // MessageTraits::blocking
  ByText<Seconds> ops_;                                                // by signature
  ByText<Curve> families_;                                             // by kind and dtype, over extent
  std::map<std::tuple<CollectiveKind, int, int>, Curve> collectives_;  // by kind, ranks, hosts
  Curve transfers_[2];                                                 // within a host, between hosts
};

// By the name that its driver or its data sheet gives it.
bool has_data_sheet(const std::string& device) {
  return std::any_of(data_sheets().begin(), data_sheets().end(),
                     [&](const DataSheet& sheet) { return device == sheet.name || is_of_model(device, sheet.name); });
}

// The one device that the database measured, or the one that the caller insists on: what was measured on it says
// nothing of another.
std::string measured_device(const Cluster& cluster, const ProfileDb& db, const std::string& as) {
  const std::vector<std::string> measured = db.measured_devices();
  std::vector<std::string> named;
  for (const HostGroup& group : cluster.groups) named.push_back(group.device.name);
  const auto is_named = [&](const std::string& name) {
    return std::find(named.begin(), named.end(), name) != named.end();
  };
  if (!as.empty()) {
    require(is_named(as), "--profile-as: '{}' is no device of cluster '{}', which has {}.", as, cluster.name,
            join(named, ", "));
    return as;
  }
  // The preset's threads are those of any processor; what has a data sheet is none.
  if (named == std::vector<std::string>{kAnyProcessor} &&
      std::none_of(measured.begin(), measured.end(), has_data_sheet))
    return named.front();
  require(measured.size() <= 1,
          "the database mixes measurements of different devices ({}); measure those of cluster '{}' into a separate "
          "database, or insist with --profile-as {}.",
          join(measured, ", "), cluster.name, named.front());
  // Without measurements everything is modelled: there is nothing to mistake.
  if (measured.empty() && cluster.uniform()) return named.front();
  const std::string device = measured.empty() ? "no device" : measured.front();
  // Drivers call a device by another name than clusters do.
  for (const std::string& name : named)
    if (device == name || is_of_model(device, name)) return name;
  throw InputError(fmt::format(
      "the measurements are for {}, but cluster '{}' has {}; measure that, leave the profile out, or insist "
      "with --profile-as {}.",
      device, cluster.name, join(named, ", "), named.front()));
}

}  // namespace

std::unique_ptr<CostModel> make_profiled_cost_model(const Cluster& cluster, const ProfileDb& db,
                                                    const std::string& as) {
  const std::string measured = measured_device(cluster, db, as);
  return model_per_group(cluster, [&](const HostGroup& group) -> std::unique_ptr<CostModel> {
    auto analytic = make_analytic_cost_model({cluster.name, {group}});
    if (group.device.name != measured) return analytic;
    return std::make_unique<ProfiledCostModel>(std::move(analytic), group.devices(), db);
  });
}

}  // namespace meshwright
