// SPDX-License-Identifier: Apache-2.0
// The numbers a run starts from and is fed with. Element i of a tensor depends on (seed, the tensor's name, i) alone
// (inputs also on the step), so a device makes its own tile, and every plan sees the same numbers.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/graph/graph.h"
#include "executor/base/given_values.h"

namespace meshwright {

class InitialValues {
 public:
  // What is `given` is not made. Throws InputError where given samples do not fit the graph.
  InitialValues(const Graph& graph, std::uint64_t seed, DType precision, GivenValues given = {});

  // A tile, at `offset` of the whole tensor, of a parameter, a state or an accumulator.
  // Weights: uniform with variance 1 / fan-in; gammas 1; other vectors (biases) uniform in +-0.1, so that a lost one
  // shows. Master copies equal their weights; moments and accumulators are zero.
  void fill(const Tensor& tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
            void* out) const;

  // A tile of an Input in `microbatch` of `step`. The first dimension counts samples: sample s of the step is the same
  // however the batch is cut. Numbers in [-1, 1); integers in 0..(size of the axis they index)-1, or 0 and 1
  // where they index none. A loss's weights are 0, 1/2, 1 or 3/2, the first of a step never 0, so that their total (the
  // same in every microbatch) is exact and above 0. The graph's constants are what they are.
  void fill_input(const Tensor& tensor, int step, int microbatch, std::span<const std::int64_t> offset,
                  std::span<const std::int64_t> shape, void* out) const;

 private:
  void find_followed();
  [[nodiscard]] std::uint64_t input_key(const Tensor& tensor, int step) const;
  [[nodiscard]] double total_weight(int step) const;  // added up once per step, by whoever asks first

  const Graph& graph_;
  std::uint64_t seed_;
  DType precision_;
  GivenValues given_;
  std::set<TensorId> masters_;
  std::map<TensorId, std::int64_t> index_bounds_;  // of I32 inputs
  struct Followed {
    TensorId tokens;
    std::int64_t words;  // how far behind them
  };
  std::map<TensorId, Followed> followed_;  // by the labels that follow tokens

  // Guards the total of the step that was asked for last. Devices ask for that of the same step.
  mutable std::mutex total_mutex_;
  mutable std::optional<std::pair<int, double>> total_;
};

}  // namespace meshwright
