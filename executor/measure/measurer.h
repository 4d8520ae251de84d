// SPDX-License-Identifier: Apache-2.0
// Measures a machine piece by piece: ops, collectives, messages between devices and the cost of a Run, as they will run
// in a plan. HostMeasurer (executor/measure/profiler.h) measures threads of the processor, CudaMeasurer
// (executor/cuda/) GPUs; each says there what exactly it times.
//
// Each figure is the median over samples; spread is the median absolute deviation. The mean would be pulled up by
// interruptions, the minimum by luck.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

struct MeasuredTime {
  Seconds median{0.0}, spread{0.0};
  int samples = 0;
  bool added = false;  // of an op: see Measurer::measure_op
};

struct MeasureOptions {
  int warmup = 2;
  int samples = 7;            // at least
  Seconds min_sample{0.005};  // short work is repeated until a sample lasts this long
  // What one device touches in a step, or a small step's: what is repeated goes around operands that are as large
  // together, so that it finds in the caches what a step leaves there.
  Bytes step{64.0 * (1 << 20)};
};

class Measurer {
 public:
  virtual ~Measurer() = default;

  // `local_sizes`: of the shard, in the order of the op's IterationSpace. If the device computes the op together with
  // the ops before it, the result is the time that it adds to theirs (`added`), never negative: not a rate of the
  // device. nullopt: the device has too little memory.
  [[nodiscard]] virtual std::optional<MeasuredTime> measure_op(const Graph& graph, const Op& op,
                                                               const std::vector<std::int64_t>& local_sizes,
                                                               const MeasureOptions& options) = 0;
  // `size_bytes` as in CostModel::collective. Throws InputError for ranks that are not there.
  [[nodiscard]] virtual MeasuredTime measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                                        const MeasureOptions& options) = 0;
  // One message from a device to another. Throws InputError where there is no other.
  [[nodiscard]] virtual MeasuredTime measure_transfer(std::int64_t size_bytes, const MeasureOptions& options) = 0;
  // One empty Run: dispatch of an instruction and its bookkeeping.
  [[nodiscard]] virtual MeasuredTime measure_run_overhead(const MeasureOptions& options) = 0;
  // One nearly empty kernel among others like it. nullopt: the device has no kernel launches.
  [[nodiscard]] virtual std::optional<MeasuredTime> measure_launch(const MeasureOptions& options) = 0;
  // Bytes per second that a device reads and writes when it copies its own memory. nullopt: not measured; the ops tell.
  [[nodiscard]] virtual std::optional<BytesPerSecond> measure_copy() = 0;

  [[nodiscard]] virtual int concurrency() const = 0;            // devices that run an op at the same time
  [[nodiscard]] virtual Bytes memory_for_operands() const = 0;  // of these devices together, in one measurement

  // Provenance: "Intel(R) Xeon(R) Processor, 2 threads" and "oneDNN 2.6.3; g++ 12.2.0".
  [[nodiscard]] virtual std::string describe_device() const = 0;
  [[nodiscard]] virtual std::string describe_libraries() const = 0;
};

}  // namespace meshwright
