// SPDX-License-Identifier: Apache-2.0
// Computes a Graph op after op on one device, with every tensor whole: what run_reference runs, and a bench on which
// gradients can be checked, because any tensor can be set and read.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "executor/base/initial_values.h"
#include "executor/base/memory_pool.h"
#include "executor/host/host_backend.h"
#include "executor/ops/op_kernels.h"

namespace meshwright {

class GraphInterpreter {
 public:
  // Parameters, optimizer state and accumulators get their initial values.
  GraphInterpreter(const Graph& graph, std::uint64_t seed, DType precision, GivenValues given = {})
      : GraphInterpreter(graph, seed, precision, std::move(given), host_ops(precision)) {}
  GraphInterpreter(const Graph& graph, std::uint64_t seed, DType precision, GivenValues given, HostOps ops);

  [[nodiscard]] std::vector<double> get(TensorId tensor) const;
  void set(TensorId tensor, const std::vector<double>& values);

  void load_inputs(int step, int microbatch);
  void clear_accumulators();
  void run(Phase phase, std::int64_t step = 1, double rate = 1.0);  // every op of the phase, in order
  [[nodiscard]] DType precision() const { return precision_; }
  [[nodiscard]] Bytes allocated() const { return pool_.peak(); }

 private:
  const Graph& graph_;
  int microbatch_ = 0;  // of the inputs loaded last
  DType precision_;
  HostOps ops_;
  InitialValues initial_;
  MemoryPool pool_;
  std::vector<Block> values_;      // [tensor]
  std::vector<OpCallPlan> calls_;  // [op]
};

}  // namespace meshwright
