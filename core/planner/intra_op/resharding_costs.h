// SPDX-License-Identifier: Apache-2.0
// What resharding costs on one mesh, remembered by shape and specs.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/sharding/cost_model.h"
#include "core/sharding/resharding_times.h"

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
    std::size_t operator()(const Shape& shape) const;
  };
  struct OfShape {
    OfShape(const Tensor& tensor, const LogicalMesh& mesh, const CostModel& costs)
        : even(tensor.dims, tensor.dtype, mesh, costs) {}
    ReshardingTimes even;
    std::map<std::pair<ShardingSpec, ShardingSpec>, Seconds> padded;  // to specs that do not divide, which are few
  };
  std::unordered_map<Shape, OfShape, Hash> known_;
  std::pair<const Shape, OfShape>* last_ = nullptr;  // what is asked for one after the other is often of one shape
};

}  // namespace meshwright
