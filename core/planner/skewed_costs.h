// SPDX-License-Identifier: Apache-2.0
// Costs that are off on purpose. A stage's shardings by such costs are others than by the right ones, and a program of
// one of them may take less: the costs of a stage are a sum over its ops and reshardings, a program is simulated.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "core/sharding/cost_model.h"

namespace meshwright {

struct Skew {
  double collectives = 1.0;  // the share of their time that they take
  double noise = 0.0;        // ops and collectives take up to so much more or less of their time, equal ones as much
  std::uint64_t seed = 0;    // of the noise
};

// They are those of one kind of hosts, and of plans whose communication nobody hides.
class SkewedCosts final : public CostModel {
 public:
  // REQUIRES: `costs` outlives this.
  SkewedCosts(const CostModel& costs, const Skew& skew) : costs_(costs), skew_(skew) {}

  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
    TimeEstimate found = costs_.compute(work);
    found.time = noise(static_cast<std::uint64_t>(work.kind), {work.bytes.si(), work.flops.si()}) * found.time;
    return found;
  }
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    TimeEstimate found = costs_.collective(kind, bytes, axis);
    const double size = axis.size();
    found.time = skew_.collectives * noise(~static_cast<std::uint64_t>(kind), {bytes.si(), size}) * found.time;
    return found;
  }
  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    return costs_.transfer(bytes, hosts_apart, concurrent);
  }
  [[nodiscard]] TimeEstimate host_transfer(Bytes bytes) const override { return costs_.host_transfer(bytes); }
  [[nodiscard]] Seconds run_overhead() const override { return costs_.run_overhead(); }

 private:
  // A factor that depends on what is given alone. The numbers are mixed as splitmix64 does (Steele et al., Fast
  // Splittable Pseudorandom Number Generators, OOPSLA 2014).
  [[nodiscard]] double noise(std::uint64_t kind, std::initializer_list<double> sizes) const {
    if (skew_.noise == 0.0) return 1.0;
    std::uint64_t mixed = mix(skew_.seed ^ mix(kind));
    for (const double size : sizes) mixed = mix(mixed ^ std::bit_cast<std::uint64_t>(size));
    const double unit = static_cast<double>(mixed >> 11) * 0x1p-53;  // from 0 to below 1
    return 1.0 + skew_.noise * (2.0 * unit - 1.0);
  }
  static std::uint64_t mix(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  const CostModel& costs_;
  const Skew skew_;
};

}  // namespace meshwright
