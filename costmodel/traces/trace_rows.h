// SPDX-License-Identifier: Apache-2.0
// What a trace of another program says, as rows of a profile: ops by signature, collectives by kind, group and size,
// and the same as measured kernels. Every nanosecond that is handed in either finds a row or is left out under a
// reason, so that the shares add up to the whole.
//
// Knows nothing of files. Readers of one format each fill a TraceRows: kineto_trace.h, chakra_trace.h, nccl_tests.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/units.h"
#include "core/sharding/cost_model.h"
#include "costmodel/calibration/kernel_rows.h"
#include "costmodel/profile_db.h"

namespace meshwright {

// An op of a trace on one device.
struct TracedOp {
  OpWork work{OpKind::Contract, DType::F32, Flops(0.0), Bytes(0.0), ""};
  // What measured kernels know it by; the type may be one that tensors do not have (tf32).
  std::optional<std::variant<ProductShape, AttentionShape>> kernel = std::nullopt;
  std::string kernel_dtype = {};
};
struct TracedCollective {
  CollectiveKind kind;
  int ranks, hosts;
  std::int64_t size_bytes;  // as CostModel::collective counts it
  std::string dtype;        // "f32"
};

struct TraceImport {
  std::string format;                             // "PyTorch profiler trace"
  std::string device, host, libraries, date_utc;  // as far as the trace tells, else ""

  std::vector<OpProfile> ops;                  // concurrency 1; by signature
  std::vector<CollectiveProfile> collectives;  // by kind, ranks, hosts and size
  std::vector<KernelRow> kernels;  // products, attention and collectives once more; their device is `device`

  struct Work {
    std::int64_t count = 0;  // kernels, copies and the like
    Seconds time{0.0};       // the sum of theirs
  };
  Work found;                            // in rows
  std::map<std::string, Work> left_out;  // by reason

  [[nodiscard]] Seconds total() const;
};

class TraceRows {
 public:
  // One occurrence of an op, in `kernels` kernels that took this long together.
  void add(const TracedOp& op, std::int64_t nanoseconds, std::int64_t kernels = 1);
  void add(const TracedCollective& collective, std::int64_t nanoseconds);
  void leave_out(const std::string& reason, std::int64_t nanoseconds, std::int64_t count = 1);

  // The rows: medians over occurrences with their median absolute deviation. `library` names in kernel rows what ran
  // them. Throws InputError naming `place` when nothing found a row.
  [[nodiscard]] TraceImport finish(std::string format, const std::string& library, const std::string& place) const;

 private:
  struct OpTimes {
    TracedOp op;
    std::vector<std::int64_t> nanoseconds;
  };
  using CollectiveKey = std::tuple<CollectiveKind, int, int, std::int64_t, std::string>;
  std::map<std::pair<std::string, std::string>, OpTimes> ops_;  // by signature and type of the kernel
  std::map<CollectiveKey, std::vector<std::int64_t>> collectives_;
  TraceImport::Work found_;
  std::map<std::string, TraceImport::Work> left_out_;
};

// Microseconds of a trace in nanoseconds. Throws InputError naming `place` for what no kernel takes: a time below 0, or
// above an hour.
[[nodiscard]] std::int64_t nanoseconds_of(double microseconds, const std::string& place);

}  // namespace meshwright
