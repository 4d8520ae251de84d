// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

// The field without the labels that are not kept: nodes with one label left vanish into the costs of their neighbours
// and the limits of their rows; rows that cannot be exceeded any more, or that a neighbouring row implies, are dropped.
// `kept` is side by side: the labels of node 0, then those of node 1, ...; the lift leads to labels of `reduced`.
struct ShrunkField {
  Reduced reduced;
  std::vector<int> rows;  // which rows are left
};
[[nodiscard]] ShrunkField shrink(const Reduced& reduced, const std::vector<bool>& kept);

}  // namespace meshwright::portfolio
