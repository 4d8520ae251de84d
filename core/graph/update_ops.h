// SPDX-License-Identifier: Apache-2.0
// Whose update an op of the update phase is part of.
#pragma once

#include <optional>

#include "core/graph/graph.h"

namespace meshwright {

// The parameter that `op` updates, or whose gradient or optimizer state it works on; nullopt for ops of the whole step:
// the sums of several parameters' squares, and the update of the loss scale. REQUIRES: op.phase is Update.
[[nodiscard]] std::optional<TensorId> updated_parameter(const Graph& graph, const Op& op);

}  // namespace meshwright
