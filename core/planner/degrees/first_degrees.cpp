// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/first_degrees.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/planner/degrees/too_large_degrees.h"

namespace meshwright {

ReplicaBytes bytes_of_replica(const Graph& graph) {
  ReplicaBytes replica;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Parameter && !graph.weights_on_host) replica.weights += tensor.bytes();
    if (tensor.kind == TensorKind::OptimizerState && !graph.states_on_host) replica.states += tensor.bytes();
  }
  return replica;
}

namespace {

constexpr double kStateShare = 0.5;  // of the memory; the rest is for activations

}  // namespace

Bytes state_estimate(const Degrees& degrees, const ReplicaBytes& replica) {
  const double experts = degrees.whole_experts ? degrees.ep : static_cast<double>(degrees.ep) * degrees.tp;
  const double parts = degrees.pp * (degrees.ep > 1 ? experts : degrees.tp);
  const double devices = static_cast<double>(degrees.dp) * degrees.tp * degrees.pp * degrees.cp;
  // ZeRO levels 1, 2 and 3 split states, gradients and weights over all replicas.
  const auto split_from = [&](int level) { return degrees.zero >= level ? devices : parts; };
  return replica.states / split_from(1) + replica.weights / split_from(2) + replica.weights / split_from(3);
}

std::vector<Degrees> in_order_of_trial(std::vector<Degrees> degrees, const ReplicaBytes& replica, Bytes usable) {
  const auto rank = [&](const Degrees& d) {
    const bool large = state_estimate(d, replica) > kStateShare * usable;
    return std::tuple(large, kept_share(d.recompute), d.micro_batch, d.tp * d.cp * d.pp, -d.tp, -d.ep, -d.zero,
                      d.chunks);
  };
  std::stable_sort(degrees.begin(), degrees.end(),
                   [&](const Degrees& a, const Degrees& b) { return rank(a) < rank(b); });
  return degrees;
}

}  // namespace meshwright
