// SPDX-License-Identifier: Apache-2.0
// Measures this machine's processor: ops, collectives, copies between devices and the cost of a Run, each on
// `concurrency` threads at once, as they will run in a plan (cores share memory bandwidth and clocks).
//
// A sample is the slowest thread's time, and of an op the mean over threads: between collectives no device waits for
// another. What is short is repeated inside one until it lasts `min_sample`, around sets of operands that caches do not
// hold together, as they do not hold those of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/measure/cold_arrays.h"
#include "executor/measure/measurer.h"

namespace meshwright {

// "Intel(R) Xeon(R) Processor, 2 threads" and "oneDNN 2.6.3; g++ 12.2.0": provenance.
[[nodiscard]] std::string describe_device();
[[nodiscard]] std::string describe_libraries();

struct HostOperands;

// Ops run on `threads` at once; `memory` is what their operands may take together.
class HostMeasurer final : public Measurer {
 public:
  HostMeasurer(int threads, Bytes memory) : threads_(threads), memory_(memory) {}

  [[nodiscard]] std::optional<MeasuredTime> measure_op(const Graph& graph, const Op& op,
                                                       const std::vector<std::int64_t>& local_sizes,
                                                       const MeasureOptions& options) override;
  [[nodiscard]] MeasuredTime measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                                const MeasureOptions& options) override;
  [[nodiscard]] MeasuredTime measure_transfer(std::int64_t size_bytes, const MeasureOptions& options) override;
  [[nodiscard]] MeasuredTime measure_run_overhead(const MeasureOptions& options) override;
  [[nodiscard]] std::optional<MeasuredTime> measure_launch(const MeasureOptions&) override { return std::nullopt; }
  [[nodiscard]] std::optional<BytesPerSecond> measure_copy() override { return std::nullopt; }
  [[nodiscard]] int concurrency() const override { return threads_; }
  [[nodiscard]] Bytes memory_for_operands() const override { return memory_; }
  [[nodiscard]] std::string describe_device() const override;
  [[nodiscard]] std::string describe_libraries() const override;

 private:
  void keep_arrays(int threads);
  struct OpCall {
    const Graph* graph = nullptr;
    OpId op{0};
    std::vector<std::int64_t> local_sizes;
    bool operator==(const OpCall&) const = default;
  };
  int threads_;
  Bytes memory_;
  // What was measured last, and its operands by thread: it is often asked for again at once.
  OpCall asked_;
  std::vector<std::shared_ptr<HostOperands>> operands_;
  std::vector<ColdArrays> arrays_;  // [thread], of collectives and messages
};

}  // namespace meshwright
