// SPDX-License-Identifier: Apache-2.0
// Reads the output of nccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf) as text, one or
// several tables among other lines of a log:
//
//   #  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3
//   #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw
//   #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
//       33554432       8388608     float     sum      -1   195.40  171.72  300.51       0   195.40  171.73  300.52
//
// The first time of a row is out of place, and it is the row; that in place is counted as left out. Ranks, hosts and
// device are those listed above the table. Which collective it is follows from the name of the program, or from the
// reduction and what busbw is of algbw. Bandwidths have to fit times and ranks, which also tells their units.
#pragma once

#include <string>
#include <string_view>

#include "costmodel/traces/trace_rows.h"

namespace meshwright {

// Whether the beginning of a text is one of such a log.
[[nodiscard]] bool is_nccl_tests(std::string_view text);

// Throws InputError naming the line where the log is none, mixes devices, or has numbers that contradict each other.
[[nodiscard]] TraceImport read_nccl_tests(std::string_view text, const std::string& place);

}  // namespace meshwright
