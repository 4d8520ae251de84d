// SPDX-License-Identifier: Apache-2.0
// Logical meshes and prices made by hand, for tests of shardings.
#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/sharding/cost_model.h"
#include "core/sharding/sharding_spec.h"

namespace meshwright {

// A grid of devices on one host, every link with a latency of 1 and `betas` seconds per byte (1 where none is given).
inline LogicalMesh mesh_of(const std::vector<int>& shape, const std::vector<double>& betas = {}) {
  LogicalMesh mesh;
  int devices = 1;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    const LinkCost link{Seconds(1), SecondsPerByte(betas.empty() ? 1.0 : betas[a])};
    mesh.axes.push_back({shape[a], 1, link, link});
    devices *= shape[a];
  }
  mesh.of = {1, devices};
  return mesh;
}

inline ShardingSpec spec(const std::string& text) { return spec_from_text(text, "test"); }

// A collective costs 1 per kibibyte (so that what is moved decides) plus a fixed price of its kind.
struct HandPrices : CostModel {
  std::map<CollectiveKind, double> of_kind;
  double of_kibibyte = 1.0;
  explicit HandPrices(std::map<CollectiveKind, double> prices = {}, double kibibyte = 1.0)
      : of_kind(std::move(prices)), of_kibibyte(kibibyte) {}
  [[nodiscard]] TimeEstimate compute(const OpWork&) const override { return {Seconds(0), Basis::Modelled}; }
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis&) const override {
    const auto fixed = of_kind.find(kind);
    return {Seconds(of_kibibyte * bytes.si() / 1024 + (fixed == of_kind.end() ? 0.0 : fixed->second)), Basis::Modelled};
  }
  [[nodiscard]] TimeEstimate transfer(Bytes, bool, int) const override { return {Seconds(0), Basis::Modelled}; }
  [[nodiscard]] Seconds run_overhead() const override { return Seconds(0); }
};

// Every spec of enumerate_specs with every set of the axes left over as partial sums.
inline std::vector<ShardingSpec> with_partial_sums(const std::vector<Dim>& dims, const LogicalMesh& mesh) {
  std::vector<ShardingSpec> found;
  for (const ShardingSpec& whole : enumerate_specs(dims, mesh))
    for (int partial = 0; partial < 1 << mesh.rank(); ++partial) {
      bool possible = (whole.used() & partial) == 0;
      for (int axis = 0; axis < mesh.rank(); ++axis)
        if (partial >> axis & 1) possible = possible && mesh.axes[static_cast<std::size_t>(axis)].size() > 1;
      if (possible) found.push_back({whole.dims, static_cast<AxisMask>(partial)});
    }
  return found;
}

// Prices that make now one, now another collective the cheap one.
inline std::vector<HandPrices> many_prices() {
  std::mt19937 random(7);
  std::vector<HandPrices> found = {HandPrices({}, 1000.0)};
  for (int i = 0; i < 3; ++i) {
    std::map<CollectiveKind, double> fixed;
    for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather,
                            CollectiveKind::AllToAll})
      fixed[kind] = static_cast<double>(random() % 100);
    found.emplace_back(fixed, static_cast<double>(random() % 1000));
  }
  return found;
}

}  // namespace meshwright
