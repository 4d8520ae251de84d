// SPDX-License-Identifier: Apache-2.0
// What the names in model files tell.
#pragma once

#include <string>

#include "core/base/text.h"  // `printable`: names come from files and go into messages

namespace meshwright {

// The part of a path up to its first number of its own: "model.layers.0" of "model.layers.0.mlp.weight" and of
// "/model/layers.0/mlp/MatMul", "layers.3" of PyTorch's "model: Llama/layers.3: Block/...". Empty: there is none.
[[nodiscard]] std::string block_of(const std::string& path);

// Why an op is refused, as a sentence with a full stop; where it names no next action, the documentation is that.
[[nodiscard]] std::string refusal_sentence(const std::string& why);

}  // namespace meshwright
