// SPDX-License-Identifier: Apache-2.0
// A forward op together with the ops that autodiff made from it, which are split as it is: what a way to split them
// takes on each device that has a part.
//
// Beside the ops' own time a plan has, of a product of an activation and a parameter,
//   - where the axis that it sums over is split, to add up what it makes: of that tensor, or where only linear ops read
//     it of theirs, down to the first that another op reads;
//   - where an axis of the parameter is split that is not the activation's, to add up the activation's gradient, which
//     a plan keeps as whole sums;
//   - where samples (or any axis that the parameter lacks) are split, to add the whole tile of the gradient to the
//     accumulator in every micro-batch, or to add the gradient up before in every micro-batch.
// Adding up over n devices takes at least a reduce-scatter, (n - 1) / n of the bytes. What several products may share
// is divided among them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/mesh/cluster.h"
#include "core/planner/bounds/op_parts.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

class OpGroups {
 public:
  // `trunk` [op]: whether its time is counted in Share::trunk. Collectives are counted if they are `exposed` and the
  // model has formulas for all. REQUIRES: all but `trunk` outlive this.
  OpGroups(const Graph& graph, const HostGroup& hosts, const CostModel& costs, const std::vector<bool>& trunk,
           bool exposed, int threads);

  // The forward op and what was made of it run in a micro-batch on so many devices: the time of all these together, and
  // of the ops of the trunk on each. `forward`: the least that devices together take for the forward op, in any way.
  struct Share {
    double together, trunk, forward;
  };
  // Groups that differ in names alone are of one class.
  [[nodiscard]] int classes() const { return static_cast<int>(classes_.size()); }
  [[nodiscard]] const std::map<OpId, int>& class_of() const { return class_of_; }  // of the forward op
  // The ways to run a group in one of so many micro-batches that are best for some weight of `trunk`: the least of
  // `together` first.
  [[nodiscard]] std::vector<Share> shares(int of_class, std::int64_t microbatches);

 private:
  struct Accumulation {
    double time;              // with the whole tile of a device's gradient
    Bytes gradient{0.0};      // the tile
    std::int64_t elements;    // of it
    std::int64_t in_samples;  // into how many parts axes are split that it lacks, but for the samples
    OpId op;
  };
  struct Part {
    std::int64_t samples = 1, parts = 1;
    double time = 0.0, trunk = 0.0, forward = 0.0;
    std::vector<Accumulation> accumulations = {};
  };
  struct Class {
    OpParts::Parts samples;  // of the forward op, without its parts
    std::vector<Part> parts = {};
  };
  // What a product shares of the sums that it needs; 0: it is none.
  struct Sums {
    double result = 0.0, activation = 0.0;
    int activation_operand = 0;
  };
  class Splitting;

  void find_rate();
  void find_sums();
  [[nodiscard]] double part_of_result(const Op& product, std::vector<std::vector<TensorId>>& paths) const;
  [[nodiscard]] double accumulate_time(OpId op, std::int64_t elements);
  [[nodiscard]] double least_of(OpId op);
  [[nodiscard]] double reduce_time(Bytes bytes, std::int64_t devices) const {
    return rate_ * bytes.si() * (1.0 - 1.0 / static_cast<double>(devices));
  }

  const Graph& graph_;
  const HostGroup& hosts_;
  const CostModel& costs_;
  OpParts parts_;
  double rate_ = 0.0;  // seconds per byte
  std::map<OpId, Sums> sums_;
  std::vector<std::vector<OpId>> forward_readers_;  // [tensor]
  std::map<OpId, int> class_of_;
  std::vector<Class> classes_;
  std::map<std::pair<OpId, std::int64_t>, double> accumulate_times_;
};

}  // namespace meshwright
