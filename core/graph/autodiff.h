// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation and the optimizer: turn a forward Graph with a loss into the whole training step, in the
// same op set.
//
// Every backward op carries the forward op it came from. Each use of a parameter gets its own accumulator (so that uses
// on different stages need no exchange before the update); the update sums them. Losses carry the scale 1 / (terms in
// the whole batch), so plain sums over microbatches are right for every loss reduction.
#pragma once

#include <optional>

#include "core/graph/graph.h"

namespace meshwright {

enum class Recompute { None, Full };
struct Optimizer {
  enum class Kind { Sgd, Adam } kind = Kind::Adam;
  double learning_rate = 1e-3;
};

// Appends the backward ops of `graph.loss` and accumulators, then the update ops of every parameter.
// Recompute::Full keeps of each block only what enters it and repeats the block's forward ops at the start of its
// backward.
void append_training_step(Graph& graph, const Optimizer& optimizer, Recompute recompute);

// append_training_step's two halves.
//
// Appends the backward of `output` and the accumulation of parameter gradients. `seed` = d(objective)/d(`output`), for
// graphs whose objective is not part of the graph; without it `output` is the result of a loss op.
void append_backward(Graph& graph, TensorId output, std::optional<TensorId> seed, Recompute recompute);
// Appends, for every parameter that has accumulators, their sum and the optimizer's update.
void append_updates(Graph& graph, const Optimizer& optimizer);

}  // namespace meshwright
