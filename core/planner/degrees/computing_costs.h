// SPDX-License-Identifier: Apache-2.0
// The costs of computation alone: collectives and messages take no time. What a step takes at least where they may all
// go on beside computation.
#pragma once

#include "core/sharding/cost_model.h"

namespace meshwright {

class ComputingCosts final : public CostModel {
 public:
  // REQUIRES: `costs` outlives this, and is of a cluster with one kind of hosts.
  explicit ComputingCosts(const CostModel& costs) : costs_(costs) {}

  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override { return costs_.compute(work); }
  [[nodiscard]] TimeEstimate collective(CollectiveKind /*kind*/, Bytes /*bytes*/,
                                        const MeshAxis& /*axis*/) const override {
    return {Seconds(0.0), Basis::Modelled};
  }
  [[nodiscard]] TimeEstimate transfer(Bytes /*bytes*/, bool /*hosts_apart*/, int /*concurrent*/) const override {
    return {Seconds(0.0), Basis::Modelled};
  }
  [[nodiscard]] std::optional<Seconds> as_one_product(const std::vector<const OpWork*>& products,
                                                      bool summed) const override {
    return costs_.as_one_product(products, summed);
  }
  [[nodiscard]] Seconds run_overhead() const override { return Seconds(0.0); }

 private:
  const CostModel& costs_;
};

}  // namespace meshwright
