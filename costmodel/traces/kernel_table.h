// SPDX-License-Identifier: Apache-2.0
// Tables of measured kernels as a profile of one device: products, attention and collectives as ops and collectives.
#pragma once

#include <string>
#include <vector>

#include "costmodel/traces/trace_rows.h"

namespace meshwright {

// Rows of eight bits, whose tensors no graph has, and passes over memory, whose rows do not say the op's shape, are
// left out. Throws InputError naming `place` when the rows are of several devices, or none becomes an op or a
// collective.
[[nodiscard]] TraceImport profile_of_kernels(const std::vector<KernelRow>& rows, const std::string& place);

}  // namespace meshwright
