// SPDX-License-Identifier: Apache-2.0
// Is what the devices computed together what one device computes alone?
//
// The reference is the training graph with no shards and one microbatch (the same microbatches where the loss depends
// on them: batch norm, scores over a batch), from the same seed. Both sides do the same
// real-number arithmetic in different orders, so in f64 they agree to kBoundF64. In float the bound follows from the
// rounding:
//
//   A sum of K products rounded at random has a relative error of about sqrt(K) u, u = 2^-24. Through the d
//   contractions of the longest path, forward and backward, both sides' errors together change the gradients,
//   norm-wise, by
//     delta = 2 d sqrt(K_max) u.
//   SGD carries that to the weights: |dw| <= lr (|g_1| + ... + |g_T|) delta. The sum is the length of the path of the
//   weights; it is estimated as sqrt(T) times the distance covered, which is exact for orthogonal gradients of equal
//   norm and an over-estimate for aligned ones. Adam divides each element by its own magnitude: where |g| < delta
//   rms(g) the sign itself may flip. Elements of a smooth density do so in a share of order delta, each moving by up to
//   2 lr, so a step adds at most
//     |d update| <= lr sqrt(N) sqrt(4 delta).
//   Adafactor divides by the root of row and column means or, of vectors, by the element's own magnitude: no larger a
//   share of its moves, whose root mean square is at most 1, flips.
//   Storing the weight rounds by u per step. With N elements, relative to |w|:
//     Adam, Adafactor   T lr sqrt(4 delta) sqrt(N) / |w| + T u
//     SGD    sqrt(T) |w - w_0| delta / |w| + T u
//   A loss feels the rounding of the forward pass and the weights' deviation, which each contraction on the way passes
//   on once:
//     delta + d (largest weight bound).
//
// Where a gradient of Adafactor's is rounding alone in all elements that share a mean (the bias of attention's keys),
// no two orders of summation agree, and the run is said to be one that cannot be checked.
//
// Elements of a gradient that are rounding alone (executor/check/gradient_noise.h) are made whole steps by Adam, in a
// direction that means nothing: their weights are not compared with the others of their tensor. Instead
//   their gradients  must be rounding in the run as well: its second moment may be at most what gradients of delta
//                    times the size of their terms make. |g_t| <= sqrt(v_T / ((1 - beta2) beta2^(T-t))) holds of every
//                    step t, so that the last v tells of all;
//   their weights    may differ by as far as Adam goes in T steps (D. Kingma, J. Ba, arXiv:1412.6980, 2.1), each way:
//                    T lr max(1, (1 - beta1) / sqrt(1 - beta2)).
// Both stand in the result as rows of their own, named with the number of such elements. What such a weight does to
// the loss is its gradient times its way, rounding again.
//
// The bounds hold while training is stable. Where it is not (a learning rate too large), one step's rounding grows in
// the next until no two orders of summation agree, and nothing can be said about a run. Before a disagreement is called
// a fault, the reference is therefore held against itself with other rounding: sums in another order where the batch
// can be cut freely, else weights that begin a few last places off.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/autodiff.h"
#include "core/graph/models/models.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"
#include "executor/check/gradient_noise.h"

namespace meshwright {

constexpr double kBoundF64 = 1e-12;

// What the bound needs to know of a graph.
struct RoundingShape {
  double longest_sum = 1.0;  // K_max: elements in the largest reduction of any op
  double depth = 0.0;        // d: contractions and convolutions (attention and scans count two) on the longest path
};
[[nodiscard]] RoundingShape rounding_shape(const Graph& graph);

// Whether an optimizer divides gradients by their own size, so that rounding makes whole steps.
[[nodiscard]] bool divides_by_size(Optimizer::Kind kind);
// delta above.
[[nodiscard]] double gradient_error(const RoundingShape& shape);

struct WeightBoundInput {
  Optimizer optimizer;
  int steps = 1;
  double elements = 1.0;  // N
  double norm = 1.0;      // |w|
  double distance = 0.0;  // |w - w_0|; SGD only
};
// Relative bound of one weight tensor in float. REQUIRES: norm > 0.
[[nodiscard]] double float32_bound(const RoundingShape& shape, const WeightBoundInput& weight);

// How far Adam moves a weight in `steps` steps at most, in learning rates.
[[nodiscard]] double reach_of_adam(int steps, const Attributes& update);

struct CheckedTensor {
  std::string name;   // a parameter, or "loss of step 0"
  double difference;  // |a - b| / |b|; |a| where b is 0; for rounding noise: its size over its terms'
  double bound;
  std::int64_t noise = 0;  // elements whose gradients are rounding; the row is of their gradients or weights alone
};

// Losses, then weights, of `run` against those of `reference`, in order of the steps and the names. `initial`: weights
// before the first step, needed for SGD in f32. `noise`: the reference's, whose elements are compared as such.
// REQUIRES: both have the same steps and parameters.
struct CheckInput {
  const Graph& reference_graph;
  Optimizer optimizer;
  RunOptions options;
  const RunResult& run;
  const RunResult& reference;
  std::map<std::string, std::vector<double>> initial;
  std::map<std::string, GradientNoise> noise = {};
};
[[nodiscard]] std::vector<CheckedTensor> compare_runs(const CheckInput& input);

// What was run: the model, and how it was trained, if it was (`trains` false: forward only).
struct CheckedWork {
  ModelConfig model;
  TrainingOptions training;
  bool trains = true;
};
// What one device does alone: no microbatches, unless they change what is trained, and nothing recomputed.
[[nodiscard]] Graph graph_of_reference(const CheckedWork& work);
// What the repetition on one device allocates: every tensor of the whole batch at once.
[[nodiscard]] Bytes memory_of_reference(const CheckedWork& work, DType precision);

// Repeats the run's steps on one device and compares. Throws InternalError naming the tensor farthest beyond its bound,
// or InputError when the training itself cannot be checked: it diverges, or amplifies rounding beyond the bounds.
[[nodiscard]] std::vector<CheckedTensor> check_run(const CheckedWork& work, const RunOptions& options,
                                                   const RunResult& run);

}  // namespace meshwright
