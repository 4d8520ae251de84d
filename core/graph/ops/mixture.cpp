// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts.
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

std::vector<OpRow> mixture_rows() { return {}; }

}  // namespace meshwright::ops
