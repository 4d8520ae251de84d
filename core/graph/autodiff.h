// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation and the optimizer: turn a forward Graph with a loss into the whole training step, in the
// same op set.
//
// Every backward op carries the forward op it came from. Each use of a parameter gets its own accumulator (so that uses
// on different stages need no exchange before the update); the update sums them. Losses carry the scale 1 / (terms in
// the whole batch), so plain sums over microbatches are right for every loss reduction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/recompute_modules.h"

namespace meshwright {

// What the backward recomputes instead of keeping it from the forward.
//   None       nothing
//   Selective  of each block, results that cost little and are made from what is kept anyway: normalisations,
//              activations, masks (core/graph/selective_recomputation.h). What is kept is never more than under None.
//   Full       of each block, everything but what enters it
enum class Recompute { None, Full, Selective };
[[nodiscard]] const char* name_of(Recompute recompute);                // "none", "full", "selective"
[[nodiscard]] Recompute recompute_from_name(const std::string& name);  // throws InputError

// The forward ops at positions first..last of forward_ops(graph), for which another Recompute holds. What a range makes
// again it makes from what enters it: a tensor that another range reads in its backward is kept, like one that another
// block reads. Ops between two ranges are a range of their own.
struct RecomputeRange {
  int first, last;
  Recompute recompute;
  bool operator==(const RecomputeRange&) const = default;
};

// The update of a weight w with gradient g, as PyTorch's optimizers do it. With max_norm > 0, g is first scaled by
// min(1, max_norm / (norm + 1e-6)), norm = the Euclidean norm of all gradients of the step together.
//
// With loss_scale > 0, gradients are made of s times the loss and read as 1/s of what they are, so that 16-bit
// gradients do not vanish. A step whose gradients have no finite norm is left out: weights and states stay, Adam does
// not count it, and s halves. After loss_scale_interval steps in a row that were not left out, s doubles; it starts at
// loss_scale.
//   Sgd       w -= rate (g + decay w)
//   Momentum  v = momentum v + g + decay w;  w -= rate v
//   Adam      w -= rate decay w (decoupled: AdamW, arXiv:1711.05101), then Adam's move for g
//   Adafactor  w -= rate decay w, then rate U / max(1, RMS(U)) of N. Shazeer and M. Stern, "Adafactor" (ICML 2018,
//             arXiv:1804.04235), with its proposed numbers (algorithm 6): e1 = 1e-30, d = 1, 1 - t^-0.8 of the second
//             moments kept in step t. U = g / sqrt(V). Where a weight has two dimensions longer than 1 or more, V is
//             factored (algorithm 4) over the two longest (of equal ones the first): V = R C / mean(R), with R and C
//             the means over either, for each index of the others; they are all the state it has. Otherwise V is kept
//             whole (algorithm 5). Neither relative steps (section 8: `learning_rate` is the step) nor momentum.
struct Optimizer {
  enum class Kind { Sgd, Momentum, Adam, Adafactor } kind = Kind::Adam;
  double learning_rate = 1e-3;
  double momentum = 0.9;  // Momentum only; from 0 to below 1
  double weight_decay = 0.0;
  double max_norm = 0.0;                    // 0: gradients are not clipped
  double loss_scale = 0.0;                  // 0: the loss is not scaled
  std::int64_t loss_scale_interval = 2000;  // at least 1
};
[[nodiscard]] const char* name_of(Optimizer::Kind kind);                     // "sgd", "momentum", "adam", "adafactor"
[[nodiscard]] Optimizer::Kind optimizer_from_name(const std::string& name);  // throws InputError

// Appends the backward ops of `graph.loss` and accumulators, then the update ops of every parameter. `recompute` holds
// for the ops outside of `ranges` and of `modules`. Throws InputError for ranges that overlap, stand out of order or
// end behind the last forward op.
void append_training_step(Graph& graph, const Optimizer& optimizer, Recompute recompute,
                          const std::vector<RecomputeRange>& ranges = {},
                          RecomputeModules modules = RecomputeModules::None);

// append_training_step's two halves.
//
// Appends the backward of `output` and the accumulation of parameter gradients. `seed` = d(objective)/d(`output`), for
// graphs whose objective is not part of the graph; without it `output` is the result of a loss op or
// a sum (Add) of such.
void append_backward(Graph& graph, TensorId output, std::optional<TensorId> seed, Recompute recompute,
                     const std::vector<RecomputeRange>& ranges = {}, RecomputeModules modules = RecomputeModules::None);
// Appends, for every parameter that has accumulators, their sum and the optimizer's update. Gradients that are clipped
// or scaled are first measured: "<w>.sum_squares" of each, added up in the order of the parameters' first readers (each
// sum is stamped with that reader: a stage adds up its own); every update then reads the last of the sums,
// "gradient_norm". Where the loss is scaled, the update of the scale ends the step. Throws InputError when a number of
// `optimizer` is out of its range.
void append_updates(Graph& graph, const Optimizer& optimizer);
// Sets graph.loss_scaling where `optimizer` scales the loss; before the backward that reads it is appended.
void append_loss_scaling(Graph& graph, const Optimizer& optimizer);

}  // namespace meshwright
