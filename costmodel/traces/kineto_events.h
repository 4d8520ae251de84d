// SPDX-License-Identifier: Apache-2.0
// The events of a trace of PyTorch's profiler that matter for times of ops, taken from its JSON one by one, so that a
// trace need not fit in memory whole.
//
//   traceEvents[i]  ph "X" | cat | name | pid | tid | ts | dur (us) | args
//     cat "cpu_op"                   args: External id; Input Dims, Input type, Concrete Inputs; of record_param_comms
//                                    what CollectiveArgs has
//     cat "cuda_runtime" and others  args: correlation                                        calls that launch
//     cat "kernel", "gpu_memcpy", "gpu_memset"  args: correlation, External id, device; of NCCL CollectiveArgs
//   deviceProperties[i]  id | name
//   distributedInfo      world_size | nccl_version
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/gzip.h"
#include "costmodel/traces/torch_ops.h"

namespace meshwright {

// A trace may be large, as it is read event by event; beyond that it is no recording of a step.
inline constexpr std::uint64_t kMaxKinetoBytes = std::uint64_t{1} << 33;

struct CollectiveArgs {
  std::string name, dtype;               // "allreduce", "BFloat16"
  std::int64_t in = 0, out = 0;          // elements
  std::int64_t group = 0;                // ranks
  std::vector<std::int64_t> ranks = {};  // which; empty: not recorded
};

struct KinetoEvents {
  using Thread = std::pair<std::string, std::string>;  // process and thread, as written

  struct Operator {
    double start = 0, end = 0;  // us
    std::string name;
    std::optional<std::int64_t> external_id;
    std::optional<TorchCall> call;             // of operators that are known
    std::optional<CollectiveArgs> collective;  // of record_param_comms
  };
  struct Launch {
    int thread;  // number
    double time;
  };
  struct Work {
    enum class Kind { Kernel, Copy, Set } kind = Kind::Kernel;
    int name = 0;  // number
    std::int64_t nanoseconds = 0;
    std::optional<std::int64_t> correlation, external_id;
    std::optional<CollectiveArgs> collective;
  };

  std::vector<std::vector<Operator>> operators;  // by number of their thread, in order of the file
  std::map<std::int64_t, Launch> launches;       // by correlation
  std::vector<Work> work;
  std::vector<std::string> kernel_names;  // by number

  std::string device, host, libraries;  // as far as the trace tells
  std::int64_t world_size = 0;          // 0: not recorded
};

// Throws InputError, as read_kineto_trace.
[[nodiscard]] KinetoEvents read_kineto_events(const ByteSource& bytes, const std::string& place);

}  // namespace meshwright
