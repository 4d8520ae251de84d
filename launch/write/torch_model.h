// SPDX-License-Identifier: Apache-2.0
// The model as a module of plain PyTorch, for frameworks that train whatever module they are given.
#pragma once

#include "launch/write/launch_job.h"

namespace meshwright {

// model.py: the sizes as constants, the blocks, the whole model and its loss. Weights are random, tokens too. Tensor
// parallelism, where the framework leaves it to the model, is over a process group that the blocks are given.
[[nodiscard]] LaunchFile torch_model(const LaunchJob& job);

// The constants that the training scripts of all these frameworks have: sizes of the batch, steps, optimizer.
[[nodiscard]] std::string training_constants(const LaunchSetup& setup);

}  // namespace meshwright
