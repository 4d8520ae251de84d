// SPDX-License-Identifier: Apache-2.0
// The constraints that a parallel method puts on the strategies of ops and parameters.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/op_table.h"
#include "core/sharding/sharding_spec.h"

namespace meshwright {

// Tensors that must have a given layout: results as they are kept, parameters between uses, optimizer state.
using ForcedSpecs = std::map<std::string, ShardingSpec>;

// Constraints of a parallel method.
struct IntraOpRules {
  std::function<bool(const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes)> allow_op;
  // The layout of parameters and of their optimizer state: as the solver likes, whole on every device, or split over as
  // many mesh axes as divide.
  enum class Split { Free, Whole, Most } weight = Split::Free, state = Split::Free;
  // When gradients are synchronised: as the solver likes, once per step, or in every microbatch where that makes the
  // accumulator smaller.
  enum class Gradients { Free, Delayed, Eager } gradients = Gradients::Free;
  ForcedSpecs forced = {};                          // by tensor name
  AxisMask split_axes = static_cast<AxisMask>(~0);  // the mesh axes that Whole and Most count; others are free
  AxisMask whole_axes = 0;                          // the mesh axes over which parameters and their state are whole
  // Whether a parameter that `split_axes` do not divide evenly, and its state, may be split with padding.
  bool padding = false;
  // Whether every reader of a parameter that several ops read may sum its gradient split, as the first one does in the
  // sharding of the state; false: the others sum it as they make it.
  bool split_sums = false;
  // How attention brings queries to keys over the mesh's axes; the mesh has it, too.
  ContextAxes contexts = {};
  // Where communication runs beside computation: what gathers a parameter hides behind the `ahead` computations before
  // the op that reads it, each of which ends where another parameter is read, as if all devices of the mesh shared them
  // evenly; what sums its gradient behind the parameter's share of a micro-batch's whole backward. An estimate for
  // ranking, and no bound.
  struct Hiding {
    bool beside = false;
    int ahead = 0;
    SecondsPerByte backward{0.0};  // of a device of the mesh, for each byte of the model's parameters
  } hiding = {};
};

}  // namespace meshwright
