// SPDX-License-Identifier: Apache-2.0
// Replaces groups of primitive ops by the ops they are together: layer and RMS normalisation, GELU in both forms, SiLU,
// rotary embedding, attention with its scale, its masks and its repeated keys.
//
// Masks of attention: what hides later positions, or those beyond a window, is the attention's own, also when the
// mask's values are unknown but it is constant and square; what else a mask hides is an operand.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// The same module with these ops; the notes gain what is different.
[[nodiscard]] Module recognised(const Module& module);

}  // namespace meshwright::primitive
