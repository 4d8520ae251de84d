// SPDX-License-Identifier: Apache-2.0
// The CostModel of a cluster, made of one for each of its groups of hosts.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/mesh/cluster.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

// on(group) is the group's model; the functions called without it use the first group's.
class CostModelPerGroup final : public CostModel {
 public:
  // REQUIRES: at least one.
  explicit CostModelPerGroup(std::vector<std::unique_ptr<CostModel>> models) : models_(std::move(models)) {}

  [[nodiscard]] const CostModel& on(int group) const override { return *models_.at(static_cast<std::size_t>(group)); }
  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override { return on(0).compute(work); }
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    return on(0).collective(kind, bytes, axis);
  }
  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    return on(0).transfer(bytes, hosts_apart, concurrent);
  }
  [[nodiscard]] TimeEstimate host_transfer(Bytes bytes) const override { return on(0).host_transfer(bytes); }
  [[nodiscard]] Seconds run_overhead() const override { return on(0).run_overhead(); }
  [[nodiscard]] MessageTraits messages() const override { return on(0).messages(); }
  [[nodiscard]] MoveShares gathers() const override { return on(0).gathers(); }
  [[nodiscard]] MoveShares sums(DType of) const override { return on(0).sums(of); }
  [[nodiscard]] HostTimes host_times() const override { return on(0).host_times(); }
  [[nodiscard]] Seconds beside_host(Seconds device, Seconds host) const override {
    return on(0).beside_host(device, host);
  }
  [[nodiscard]] std::optional<Seconds> as_one_product(const std::vector<const OpWork*>& products,
                                                      bool summed) const override {
    return on(0).as_one_product(products, summed);
  }
  [[nodiscard]] bool run_depends_on_work() const override { return on(0).run_depends_on_work(); }
  [[nodiscard]] Seconds run_overhead(const RunWork& work) const override { return on(0).run_overhead(work); }

 private:
  std::vector<std::unique_ptr<CostModel>> models_;
};

// make(group) for each group of hosts; where they are all alike, that model alone.
template <class Make>
[[nodiscard]] std::unique_ptr<CostModel> model_per_group(const Cluster& cluster, const Make& make) {
  if (cluster.uniform()) return make(cluster.only());
  std::vector<std::unique_ptr<CostModel>> models;
  for (const HostGroup& group : cluster.groups) models.push_back(make(group));
  return std::make_unique<CostModelPerGroup>(std::move(models));
}

}  // namespace meshwright
