// SPDX-License-Identifier: Apache-2.0
// What measurers of all machines share: operands as they are met in training, threads that are measured together, and
// the figures that become of samples. Internal to executor.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "executor/base/abort.h"
#include "executor/device/backend.h"
#include "executor/measure/measurer.h"
#include "executor/ops/op_kernels.h"

namespace meshwright {

// REQUIRES: at least one.
[[nodiscard]] Sampled summarize(const std::vector<double>& seconds);

// What an op adds to the time of those that it is done with, by the times with it and without it: the difference of the
// medians, 0 at least, and the root of the sum of the squares of both spreads.
[[nodiscard]] Sampled added_time(const Sampled& with, const Sampled& without);

[[nodiscard]] double seconds_since(Clock::time_point begin);

// The same work on several threads at once; a sample is the time of the slowest, of as many repetitions as make it last
// `min_sample`.
class MeasuredThreads {
 public:
  // Does the work so many times and returns what one took, in seconds.
  using Timed = std::function<double(int repetitions)>;

  MeasuredThreads(int threads, const MeasureOptions& options);

  [[nodiscard]] Abort& abort() { return abort_; }
  // `set_up` is called on each thread, so that its memory is its own. Throws what the first thread that fails throws.
  [[nodiscard]] Sampled run(const std::function<Timed(int thread)>& set_up);

 private:
  void guarded(int thread, const std::function<Timed(int)>& set_up);
  void measure(int thread, const Timed& timed);
  [[nodiscard]] double sample(int thread, const Timed& timed, int repetitions);

  const int threads_;
  const MeasureOptions options_;
  Abort abort_;
  Barrier barrier_;
  std::vector<double> times_;  // [thread]
  std::vector<double> samples_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// As measured_integers (executor/measure/profiler.h) says.
[[nodiscard]] std::vector<std::int32_t> integers_of(const OpCallPlan& call, std::size_t input, std::uint64_t key);

// Where operands lie while an op is measured.
class OperandMemory {
 public:
  // Uniform numbers between these: sums of exponentials and second moments are positive.
  static constexpr double kLeast = 0.5, kMost = 1.0;

  virtual ~OperandMemory() = default;
  [[nodiscard]] virtual void* make_numbers(DType type, std::int64_t elements, std::uint64_t key) = 0;
  [[nodiscard]] virtual void* make_integers(const std::vector<std::int32_t>& integers) = 0;
};

struct MeasuredOperands {
  std::vector<void*> inputs, outputs;  // an output that overwrites an input is that input
};
// `first`: the op's first input, which is there already; null: it is made like the others.
[[nodiscard]] MeasuredOperands make_operands(const Graph& graph, const Op& op, const OpCallPlan& call,
                                             std::uint64_t key, OperandMemory& memory, void* first = nullptr);

// Measurer::measure_run_overhead by the host's clock.
[[nodiscard]] Sampled time_empty_runs(Backend& backend, const MeasureOptions& options);

}  // namespace meshwright
