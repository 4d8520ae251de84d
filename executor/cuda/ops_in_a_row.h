// SPDX-License-Identifier: Apache-2.0
// Ops that a device does in one pass with ops before them (CudaTogether), as they are measured: what an op adds to
// those before it. Internal to executor/cuda.
#pragma once

#include <functional>
#include <vector>

#include "executor/cuda/cuda_measurer.h"

namespace meshwright {

// Of the ops whose time an op's stands for, those of its kind and shape: the share that may be done with ops before
// them, and one of them, `op` itself if it may, behind those.
struct WithRows {
  double share = 0.0;
  std::vector<const Op*> ops;
};
// `sizes`: of the op's shard.
[[nodiscard]] WithRows with_their_rows(const Graph& graph, const Op& op, const std::vector<std::int64_t>& sizes);

// An op and those before it, each of which reads what one before it leaves or reads.
class OpsInARow {
 public:
  // `sizes`: of the last one's shard.
  OpsInARow(const Graph& graph, const std::vector<const Op*>& ops, const std::vector<std::int64_t>& sizes,
            CudaDevice& device);

  // Operands of the first one that were made just before it, and no larger than `l2`.
  template <class Recent>
  [[nodiscard]] std::vector<Recent> recent(const Graph& graph, const Op& first, std::size_t l2) const {
    constexpr std::ptrdiff_t kRecentOps = 2;  // whose results the L2 still holds
    std::vector<Recent> found;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      const std::optional<OpId> producer = graph.tensor(first.inputs[i]).producer;
      if (!producer || first.id.index() - producer->index() > kRecentOps || producer->index() >= first.id.index())
        continue;
      const auto size =
          static_cast<std::size_t>(calls_.front().input_elements(i) * size_of(graph.tensor(first.inputs[i]).dtype));
      if (size > 0 && size <= l2) found.push_back({operands_.front().inputs[i], size});
    }
    return found;
  }

  // The first `count` of them.
  [[nodiscard]] std::function<void()> running(std::size_t count);
  // Whether the device takes them as ops to be done together. Runs them.
  [[nodiscard]] bool done_together();

 private:
  CudaDevice& device_;
  CudaOperandMemory memory_;
  std::vector<OpCallPlan> calls_;
  std::vector<MeasuredOperands> operands_;
};

}  // namespace meshwright
