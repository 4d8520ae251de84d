// SPDX-License-Identifier: Apache-2.0
// Replaces groups of primitive ops by the ops they are together: layer and RMS normalisation, GELU in both forms, SiLU,
// rotary embedding, attention with its scale, its masks and its repeated keys.
//
// Masks of attention: one that hides every later position makes the attention causal, also when its values are unknown
// but it is constant and square. Other masks are left out, with a note: training batches are taken as full.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// The same module with these ops; the notes gain what is different.
[[nodiscard]] Module recognised(const Module& module);

}  // namespace meshwright::primitive
