// SPDX-License-Identifier: Apache-2.0
// The two families of built-in models, each in its own file.
#pragma once

#include "core/graph/models/models.h"

namespace meshwright {

// The family's forward ops and loss. REQUIRES: `graph` holds the options' batch, microbatches and dtype, checked.
void build_gpt(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_mlp(Graph& graph, const ModelConfig& model, LossReduction reduction);

}  // namespace meshwright
