// SPDX-License-Identifier: Apache-2.0
// Reads the times of ops and collectives from a trace of PyTorch's profiler (Kineto): Chrome's JSON, plain or gzip, as
// `profile(record_shapes=True).export_chrome_trace` writes it.
//
// A kernel, copy or memset belongs to the operator around its launch: its correlation leads to the call that launched
// it, the call's thread and time to the innermost operator there; where the call was not recorded, its "External id"
// does. From there outwards, the first operator that is known (torch_ops.h) is the op. An occurrence of an op is one
// call, and its time the sum of its kernels.
//
// A trace without work of a device may be one of a host whose devices were not recorded, or of a step that processors
// took: only the caller knows. Of the latter an op takes as long as its innermost known operator.
//
// A collective has its kind, type, sizes and group from the arguments of its kernel or of the record_param_comms around
// its launch. In a trace of one rank its time holds the waiting for the others.
#pragma once

#include <string>
#include <string_view>

#include "core/base/gzip.h"
#include "costmodel/traces/trace_rows.h"

namespace meshwright {

enum class RecordedOn { Gpus, Processors };

// `devices_per_host`: ranks follow one another host by host. Throws InputError naming the file when it is no such
// trace, is damaged, mixes devices, says something impossible (a kernel of negative time), or has nothing that finds a
// row, or when a trace of processors has work of GPUs; SystemError when it cannot be read.
[[nodiscard]] TraceImport read_kineto_trace(const std::string& path, int devices_per_host,
                                            RecordedOn on = RecordedOn::Gpus);
[[nodiscard]] TraceImport read_kineto_trace(const ByteSource& bytes, const std::string& place, int devices_per_host,
                                            RecordedOn on = RecordedOn::Gpus);

}  // namespace meshwright
