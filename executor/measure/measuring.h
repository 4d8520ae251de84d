// SPDX-License-Identifier: Apache-2.0
// What measurers of all machines share: operands as in training, threads that are measured together, and the statistics
// of samples. Internal to executor.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/base/abort.h"
#include "executor/device/backend.h"
#include "executor/measure/measurer.h"
#include "executor/ops/op_kernels.h"

namespace meshwright {

// REQUIRES: at least one.
[[nodiscard]] MeasuredTime summarize(const std::vector<double>& seconds);

// The time that an op adds to the ops that it runs with: the difference of the medians with and without it, at least 0.
// Its spread is the root of the sum of the squares of both spreads.
[[nodiscard]] MeasuredTime added_time(const MeasuredTime& with, const MeasuredTime& without);

[[nodiscard]] double seconds_since(Clock::time_point begin);
// The mean over runs one after the other.
template <class Body>
[[nodiscard]] double seconds_per_run(Body& body, int repetitions) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < repetitions; ++i) body();
  return seconds_since(begin) / repetitions;
}

// The same work on several threads at once, as many repetitions a sample as make it last `min_sample`. A sample is the
// time of the slowest thread, for whom the others wait in what they do together; or the mean, what a thread by itself
// takes beside others that are as busy.
class MeasuredThreads {
 public:
  enum class Of : std::uint8_t { Slowest, Mean };
  // Does the work so many times and returns what one took, in seconds.
  using Timed = std::function<double(int repetitions)>;

  MeasuredThreads(int threads, const MeasureOptions& options, Of of = Of::Slowest);

  [[nodiscard]] Abort& abort() { return abort_; }
  // `set_up` is called on each thread, which then first touches its memory. Throws the first failing thread's
  // exception.
  [[nodiscard]] MeasuredTime run(const std::function<Timed(int thread)>& set_up);

 private:
  void guarded(int thread, const std::function<Timed(int)>& set_up);
  void measure(int thread, const Timed& timed);
  [[nodiscard]] double sample(int thread, const Timed& timed, int repetitions);

  const int threads_;
  const MeasureOptions options_;
  const Of of_;
  Abort abort_;
  Barrier barrier_;
  IndexedVector<int, double> times_;  // [thread]
  std::vector<double> samples_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// The integers of operand `input` (of I32) of a measured op, row-major. Slots of a mixture (batch, seq, expert) are
// taken evenly: every expert fills its slots, as far as it has tokens, with tokens at equal distances, and the numbers
// of experts of two tokens differ by at most 1. All other integers are random indices into what they index; `key` is
// their seed.
[[nodiscard]] std::vector<std::int32_t> integers_of(const OpCallPlan& call, std::size_t input, std::uint64_t key);

// Where operands lie while an op is measured.
class OperandMemory {
 public:
  // Uniform numbers between these. Factors are of both signs, as in training: sums that never change their sign take
  // less power, and a GPU runs faster on them. Others are positive, as sums of exponentials and second moments are.
  struct Range {
    double low, high;
  };
  static constexpr Range kFactors{-1.0, 1.0}, kPositive{0.5, 1.0};

  virtual ~OperandMemory() = default;
  [[nodiscard]] virtual void* make_numbers(DType type, std::int64_t elements, std::uint64_t key, Range range) = 0;
  [[nodiscard]] virtual void* make_integers(const std::vector<std::int32_t>& integers) = 0;
};

struct MeasuredOperands {
  std::vector<void*> inputs, outputs;  // an output that overwrites an input is that input
};
// An input that exists already.
struct GivenInput {
  void* data;
  std::size_t number;
};
[[nodiscard]] MeasuredOperands make_operands(const Graph& graph, const Op& op, const OpCallPlan& call,
                                             std::uint64_t key, OperandMemory& memory,
                                             const std::vector<GivenInput>& given = {});

// Measurer::measure_run_overhead by the host's clock.
[[nodiscard]] MeasuredTime time_empty_runs(Backend& backend, const MeasureOptions& options);

}  // namespace meshwright
