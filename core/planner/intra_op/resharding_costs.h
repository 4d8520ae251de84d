// SPDX-License-Identifier: Apache-2.0
// What resharding costs on one mesh, remembered by shape and specs.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "core/sharding/cost_model.h"
#include "core/sharding/resharding.h"

namespace meshwright {

// Remembers what it has computed: not to be shared between threads.
class ReshardingCosts {
 public:
  ReshardingCosts(const LogicalMesh& mesh, const CostModel& costs) : mesh_(mesh), costs_(costs) {}
  [[nodiscard]] Seconds operator()(const Tensor& tensor, const ShardingSpec& from, const ShardingSpec& to);

 private:
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  struct Shape {
    std::vector<std::int64_t> sizes;
    DType dtype;
    bool operator==(const Shape&) const = default;
  };
  struct Hash {
    std::size_t operator()(const ShardingSpec& spec) const;
    std::size_t operator()(const Shape& shape) const;
  };
  using Targets = std::unordered_map<ShardingSpec, Seconds, Hash>;
  using Sources = std::unordered_map<ShardingSpec, Targets, Hash>;
  std::unordered_map<Shape, Sources, Hash> known_;
  std::pair<const Shape, Sources>* last_ = nullptr;  // what is asked for one after the other is often of one shape
};

}  // namespace meshwright
