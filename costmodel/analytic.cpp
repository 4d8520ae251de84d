// SPDX-License-Identifier: Apache-2.0
// The analytic cost model: every number follows from the Cluster alone, for each group of hosts from its own figures.
#include <algorithm>
#include <array>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/cost_models.h"
#include "costmodel/model_per_group.h"

namespace meshwright {

namespace {

constexpr std::array kDTypes = {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32};

class AnalyticCostModel final : public CostModel {
 public:
  AnalyticCostModel(std::string cluster, HostGroup group) : cluster_(std::move(cluster)), group_(std::move(group)) {
    const DeviceKind& device = group_.device;
    require(device.memory_bandwidth.si() > 0 && device.memory_efficiency > 0 && device.matmul_efficiency > 0,
            "cluster '{}': device '{}' has no memory bandwidth or no efficiency; give positive ones.", cluster_,
            device.name);
    for (const DType dtype : kDTypes)
      if (const auto peak = device.peak.find(name_of(dtype)); peak != device.peak.end())
        matmul_rate_[static_cast<std::size_t>(dtype)] = device.matmul_efficiency * peak->second;
  }

  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
    const DeviceKind& device = group_.device;
    // A roofline (S. Williams et al., 2009): the slower of memory and arithmetic, but no less than a launch.
    Seconds time = std::max(device.launch, work.bytes / (device.memory_efficiency * device.memory_bandwidth));
    if (work.flops.si() > 0) time = std::max(time, work.flops / matmul_rate(work.dtype));
    return {time, Basis::Modelled};
  }

  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    return {hierarchical_collective(kind, bytes, axis), Basis::Modelled};
  }

  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    MW_CHECK(concurrent >= 1, "{} concurrent messages", concurrent);
    const LinkCost& link = hosts_apart ? group_.between_hosts : group_.within_host;
    // Devices of a host have links of their own; between hosts they share the host's network.
    const Bytes on_link = hosts_apart ? concurrent * bytes : bytes;
    return {link.alpha + link.beta * on_link, Basis::Modelled};
  }

  [[nodiscard]] TimeEstimate host_transfer(Bytes bytes) const override {
    require(group_.device.host_bandwidth.si() > 0,
            "cluster '{}': device '{}' has no host_bandwidth_bytes_per_s; give it in a cluster file.", cluster_,
            group_.device.name);
    return {bytes / group_.device.host_bandwidth, Basis::Modelled};
  }

  using CostModel::run_overhead;
  [[nodiscard]] Seconds run_overhead() const override { return group_.device.launch; }

 private:
  [[nodiscard]] FlopsPerSecond matmul_rate(DType dtype) const {
    const auto& rate = matmul_rate_[static_cast<std::size_t>(dtype)];
    if (rate) return *rate;
    std::vector<std::string> known;
    for (const auto& [name, peak] : group_.device.peak) known.push_back(name);
    throw InputError(
        fmt::format("cluster '{}': device '{}' has no FLOP rate for {}, only for {}; choose another dtype or cluster.",
                    cluster_, group_.device.name, name_of(dtype), join(known, ", ")));
  }

  std::string cluster_;  // its name
  HostGroup group_;
  std::array<std::optional<FlopsPerSecond>, kDTypes.size()> matmul_rate_;  // by DType
};

}  // namespace

std::unique_ptr<CostModel> make_analytic_cost_model(const Cluster& cluster) {
  return model_per_group(
      cluster, [&](const HostGroup& group) { return std::make_unique<AnalyticCostModel>(cluster.name, group); });
}

}  // namespace meshwright
