// SPDX-License-Identifier: Apache-2.0
// Measures this machine: ops, collectives, copies between devices and the cost of a Run, each on `concurrency` threads
// at once, as they will run in a plan (cores share memory bandwidth and clocks).
//
// Each figure is the median over samples of the slowest thread's time; spread is the median absolute deviation. The
// mean would be pulled up by interruptions, the minimum by luck.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

struct Sampled {
  Seconds median{0.0}, spread{0.0};
  int samples = 0;
};

struct MeasureOptions {
  int warmup = 2;
  int samples = 7;  // at least; small ops are repeated inside a sample until it lasts `min_sample`
  Seconds min_sample{0.005};
};

[[nodiscard]] Sampled measure_op(const Graph& graph, const Op& op, const std::vector<std::int64_t>& local_sizes,
                                 int concurrency, const MeasureOptions& options);
// The integers that operand `input` (of I32) is given there, row-major. Slots of a mixture (batch, seq, expert) are
// taken evenly: every expert fills its slots, as far as it has tokens, with tokens at equal distances, and no token is
// at more than one expert more than another. Everything else indexes at random what it indexes; `key` chooses how.
[[nodiscard]] std::vector<std::int32_t> measured_integers(const Graph& graph, const Op& op,
                                                          const std::vector<std::int64_t>& local_sizes,
                                                          std::size_t input, std::uint64_t key);
[[nodiscard]] Sampled measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                         const MeasureOptions& options);
[[nodiscard]] Sampled measure_transfer(std::int64_t size_bytes, const MeasureOptions& options);
// One empty Run: dispatch of an instruction and its bookkeeping.
[[nodiscard]] Sampled measure_run_overhead(const MeasureOptions& options);

// "Intel(R) Xeon(R) Processor, 2 threads" and "oneDNN 2.6.3; g++ 12.2.0": provenance.
[[nodiscard]] std::string describe_device();
[[nodiscard]] std::string describe_libraries();

}  // namespace meshwright
