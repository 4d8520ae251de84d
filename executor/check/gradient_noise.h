// SPDX-License-Identifier: Apache-2.0
// Which elements of the gradients are nothing but rounding?
//
// A gradient that is zero in real numbers is, in floating point, what its terms leave when they cancel: that of a key's
// bias, which adds the same to all scores of a row and so nothing to the softmax. Adam and Adafactor divide a gradient
// by its own size and make whole steps of it, in a direction that another order of summation changes.
//
// The gradient of a bias is a plain sum of terms t. Where each carries an independent relative error of at most delta
// (executor/check/check_run.h), the sum's error is at most
//   e = delta sqrt(sum t^2),
// and an element with |g| <= e in every step is taken for rounding. A sum of n terms that do not cancel is about
// 1 / delta as large. Gradients that are made otherwise than as such a sum are never taken for rounding.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "executor/check/graph_interpreter.h"

namespace meshwright {

struct GradientNoise {
  std::vector<std::size_t> elements;  // of the parameter, ascending; at least one
  // [of elements] with Adam, the second moment that it would have of gradients of size sqrt(sum t^2) in every step;
  // above 0.
  std::vector<double> moments_of_terms;
};

// Watches a training on one device; run_reference calls `note` after each step's backward.
class GradientNoiseFinder {
 public:
  // REQUIRES: `graph` has one microbatch and, if it is trained, is trained by Adam or Adafactor.
  GradientNoiseFinder(const Graph& graph, double delta);

  // Steps that loss scaling leaves out tell nothing.
  void note(const GraphInterpreter& interpreter);
  // By parameter, after the last step: those that have such elements.
  [[nodiscard]] std::map<std::string, GradientNoise> found() const;

 private:
  // A bias, the ops that sum its gradient (one for each use), and what is known of each element so far.
  struct Bias {
    std::vector<OpId> sums;
    double beta2 = 0.0;
    std::vector<bool> is_noise;
    std::vector<double> moments;  // of the terms
  };
  [[nodiscard]] bool is_left_out(const GraphInterpreter& interpreter) const;
  void note(const GraphInterpreter& interpreter, Bias& bias, double scale) const;
  void add_squares(const GraphInterpreter& interpreter, const Op& op, std::vector<double>& squares) const;

  const Graph& graph_;
  const double delta_;
  std::map<TensorId, Bias> biases_;
};

}  // namespace meshwright
