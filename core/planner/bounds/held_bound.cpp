// SPDX-License-Identifier: Apache-2.0
#include "core/planner/bounds/held_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/graph/recomputation.h"

namespace meshwright {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Weights of a byte that are tried, each sqrt(2) times the one before; at 2^0 all of the room weighs as much as all
// devices.
constexpr double kLeastPrice = -9.0;  // as a power of two
constexpr int kPrices = 17;
constexpr int kRounds = 2;  // without what is made again, the rest is weighed more closely

// What the devices have for what is held: all memory but for what is there from the first to the last instruction.
Bytes room_of(const Graph& graph, const HostGroup& hosts) {
  Bytes room = static_cast<double>(hosts.devices()) * hosts.usable_memory();
  for (const Tensor& tensor : graph.tensors()) {
    const bool stays = (tensor.kind == TensorKind::Parameter && !graph.weights_on_host) ||
                       (tensor.kind == TensorKind::OptimizerState && !graph.states_on_host) ||
                       tensor.kind == TensorKind::Accumulator;
    if (stays) room -= tensor.bytes();
  }
  return room;
}

// [op] of it whole: which ops are heavy.
std::vector<double> times_of_whole_ops(const Graph& graph, const CostModel& costs) {
  std::map<std::string, double> known;
  std::vector<double> times;
  for (const Op& op : graph.ops()) {
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
    const OpWork work = op_work(graph, op, space, sizes);
    const auto [found, is_new] = known.try_emplace(work.signature, 0.0);
    if (is_new) found->second = costs.compute(work).time.si();
    times.push_back(found->second);
  }
  return times;
}

bool is_alone(const Graph& graph, const Op& op) {
  return op.phase == Phase::Update || (op.phase == Phase::Backward && (!op.forward || is_gradient_sum(graph, op)));
}

}  // namespace

HeldBound::HeldBound(const Graph& graph, const PlanRequest& request, const CostModel& costs)
    : graph_(graph),
      devices_(request.cluster.devices()),
      may_recompute_(request.any_recompute() || request.recomputes_parts()),
      parts_(graph, request.cluster.only(), costs.on(0)) {
  const HostGroup& hosts = request.cluster.only();
  std::vector<bool> trunk(graph.ops().size(), false);
  // A software keeps tensors in its own way, and what waits on hosts has room there.
  if (request.software.empty() && !graph.activations_on_host) {
    held_ = find_held_values(graph, times_of_whole_ops(graph, costs.on(0)));
    room_ = room_of(graph, hosts);
    for (const HeldValues::Pair& pair : held_.pairs)
      for (const OpId op : pair.of_trunk) trunk[op.index()] = true;
  }
  // Conditions of the step, and some software, hide communication.
  const bool exposed = request.conditions.empty() && request.software.empty();
  groups_.emplace(graph, hosts, costs.on(0), trunk, exposed, request.threads);
}

// Ops that are split as no other is.
double HeldBound::least_alone(const Op& op, std::int64_t microbatches) {
  const OpParts::Parts& of = parts_.of(op);
  const std::int64_t samples = of.of_samples ? of.samples * graph_.microbatches / microbatches : 1;
  double least = kNever;
  for (const OpPart& part : of.all)
    if (const auto devices = parts_.devices(of, part, samples))
      least = std::min(least, static_cast<double>(*devices) * part.time);
  return least;
}

// What holding these results, or making them again, adds to a micro-batch when a byte that is held weighs `price`
// devices. `results` leaves here without those that are made again.
double HeldBound::waiting(const Shares& shares, std::int64_t microbatches, double price,
                          std::vector<const HeldResult*>& results) const {
  const double samples = static_cast<double>(graph_.microbatches) / static_cast<double>(microbatches);
  const auto bytes_of = [&](const HeldValue& value) { return (value.of_samples ? samples : 1.0) * value.bytes.si(); };
  const std::size_t count = held_.pairs.size();
  std::vector<double> most(count + 1, 0.0);  // bytes that may be held while a pair runs
  for (const HeldResult* result : results)
    for (const HeldValue& value : result->values) most[static_cast<std::size_t>(value.first)] += bytes_of(value);
  std::vector<double> slope(count + 1, 0.0);  // [pair] seconds per byte that is held while it and those after it run
  double held = 0.0;
  for (std::size_t p = 0; p < count; ++p) {
    held += most[p];
    const double beside = std::min(held, room_.si());
    if (beside <= 0.0) continue;
    const auto& of = shares[static_cast<std::size_t>(groups_->class_of().at(held_.pairs[p].forward))];
    double least = kNever;
    for (const OpGroups::Share& share : of) least = std::min(least, share.together + price * beside * share.trunk);
    slope[p] = std::max(0.0, (least - of.front().together) / beside);
  }
  for (std::size_t p = count; p-- > 0;) slope[p] += slope[p + 1];
  double all = 0.0;
  std::erase_if(results, [&](const HeldResult* result) {
    double holding = 0.0, again = 0.0;
    for (const HeldValue& value : result->values)
      holding += bytes_of(value) * slope[static_cast<std::size_t>(value.first)];
    for (const OpId op : result->again)
      again += shares[static_cast<std::size_t>(groups_->class_of().at(op))].front().forward;
    const bool is_held = !may_recompute_ || result->again.empty() || holding <= again;
    all += is_held ? holding : again;
    return !is_held;
  });
  return all;
}

Seconds HeldBound::at(std::int64_t microbatches) {
  Shares shares;
  for (int of_class = 0; of_class < groups_->classes(); ++of_class) {
    shares.push_back(groups_->shares(of_class, microbatches));
    if (shares.back().empty()) return Seconds(kNever);  // no stage can run it
  }
  const auto runs = static_cast<double>(microbatches);
  double busy = 0.0;
  for (const auto& [forward, of_class] : groups_->class_of())
    busy += runs * shares[static_cast<std::size_t>(of_class)].front().together;
  std::map<std::string, double> alone;
  for (const Op& op : graph_.ops()) {
    if (!is_alone(graph_, op)) continue;
    const auto [known, is_new] = alone.try_emplace(parts_.key(op), 0.0);
    if (is_new) known->second = least_alone(op, microbatches);
    busy += (op.phase == Phase::Update ? 1.0 : runs) * known->second;
  }
  double bound = busy / devices_;
  if (held_.results.empty() || room_ <= Bytes(0.0)) return Seconds(bound);
  for (int step = 0; step < kPrices; ++step) {
    const double price = std::exp2(kLeastPrice + 0.5 * step) * devices_ / room_.si();
    std::vector<const HeldResult*> results;
    for (const HeldResult& result : held_.results) results.push_back(&result);
    double added = 0.0;
    for (int round = 0; round < kRounds; ++round)
      added = std::max(added, waiting(shares, microbatches, price, results));
    bound = std::max(bound, (busy + runs * added) / (devices_ + price * room_.si()));
  }
  return Seconds(bound);
}

}  // namespace meshwright
