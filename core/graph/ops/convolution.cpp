// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling.
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

std::vector<OpRow> convolution_rows() { return {}; }

}  // namespace meshwright::ops
