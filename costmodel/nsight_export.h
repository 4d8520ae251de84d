// SPDX-License-Identifier: Apache-2.0
// Reads the times of ops and collectives from a recording of Nsight Systems (`nsys profile --trace=cuda,nvtx`, then
// `nsys export --type sqlite`).
//
// A kernel, copy or memset belongs to the innermost range of core/sharding/op_ranges.h that its launch is in: its
// correlationId and process lead to the call that launched it, the call's thread and beginning to the range. An
// occurrence of an op is one range on one device, and its time is how long its work kept the device busy (the union of
// its kernels, memsets and copies on all streams). The gaps between an op's own kernels are not part of it: while a
// profiler watches they are mostly the time of slowed launches. An op's figures are the median over its occurrences,
// and their median absolute deviation.
//
// Collectives likewise; of the occurrences on several devices of one recording, the shortest counts, as it holds no
// waiting for the others. In a recording of one device alone that waiting is in the time.
//
// Copies from one device to another outside of such ranges are transfers within a host, by their size. Copies within a
// device and to and from the host are left out unless they belong to a range.
//
// Exports are lazy: a table is there only if it has rows. Columns are looked up by name, others are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "costmodel/profile_db.h"

namespace meshwright {

struct NsightExport {
  // As far as the export tells, else "": "NVIDIA H200, 132 multiprocessors"; the host's name; "CUDA driver 13.0; Nsight
  // Systems 2026.1.1"; when recording began, "2026-11-20T18:03:42Z".
  std::string device, host, libraries, date_utc;

  std::vector<OpProfile> ops;                  // concurrency 1; by signature
  std::vector<CollectiveProfile> collectives;  // by kind, ranks, hosts and size
  std::vector<TransferProfile> transfers;      // by size

  struct Kernels {
    std::int64_t count = 0;
    Seconds time{0.0};  // the sum of theirs
  };
  Kernels attributed;                // launched in a range
  Kernels unattributed;              // of computation, launched in none
  Kernels unattributed_collectives;  // of NCCL, launched in none: their names do not tell what size they moved
  Seconds gaps{0.0};                 // between kernels of one occurrence: part of no op's time
};

// Throws InputError naming the file when it is not such an export, is one of an older schema, says something impossible
// (a kernel that ends before it begins, GPUs of several kinds), or has neither an op nor a collective nor a transfer;
// SystemError when it cannot be read.
[[nodiscard]] NsightExport read_nsight_export(const std::string& path);

}  // namespace meshwright
