// SPDX-License-Identifier: Apache-2.0
#include "core/planner/bounds/held_values.h"

#include <algorithm>

#include "core/graph/recomputation.h"

namespace meshwright {

namespace {

constexpr int kNone = -1;

bool holds(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

// Ops are in topological order. What is overwritten in place is no tensor's producer: these ops end every chain.
std::vector<OpId> heaviest_chain(const Graph& graph, const std::vector<double>& weight) {
  const std::vector<Op>& ops = graph.ops();
  std::vector<double> until(ops.size(), 0.0);
  std::vector<int> before(ops.size(), kNone);
  int last = kNone;
  for (std::size_t o = 0; o < ops.size(); ++o) {
    if (ops[o].phase == Phase::Update) continue;
    for (const TensorId input : ops[o].inputs)
      if (const auto maker = graph.tensor(input).producer; maker && until[maker->index()] > until[o]) {
        until[o] = until[maker->index()];
        before[o] = maker->value;
      }
    until[o] += weight[o];
    if (last == kNone || until[o] > until[static_cast<std::size_t>(last)]) last = static_cast<int>(o);
  }
  std::vector<OpId> chain;
  for (int o = last; o != kNone; o = before[static_cast<std::size_t>(o)]) chain.emplace_back(o);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

class TrunkOrder {
 public:
  TrunkOrder(const Graph& graph, const std::vector<OpId>& trunk)
      : position_(graph.ops().size(), kNone),
        needed_(position_),
        needing_(position_.size(), static_cast<int>(trunk.size())) {
    const std::vector<Op>& ops = graph.ops();
    for (std::size_t t = 0; t < trunk.size(); ++t) position_[trunk[t].index()] = static_cast<int>(t);
    for (std::size_t o = 0; o < ops.size(); ++o) {
      needed_[o] = position_[o];
      for (const TensorId input : ops[o].inputs)
        if (const auto maker = graph.tensor(input).producer) needed_[o] = std::max(needed_[o], needed_[maker->index()]);
    }
    for (std::size_t o = ops.size(); o-- > 0;) {
      if (position_[o] != kNone) needing_[o] = position_[o];
      for (const TensorId input : ops[o].inputs)
        if (const auto maker = graph.tensor(input).producer)
          needing_[maker->index()] = std::min(needing_[maker->index()], needing_[o]);
    }
  }

  [[nodiscard]] int position(OpId op) const { return position_[op.index()]; }
  // The first of the trunk that needs the op, itself among them only if `itself`.
  [[nodiscard]] int first_after(OpId op, bool itself) const {
    const int own = position_[op.index()];
    return own == kNone || itself ? needing_[op.index()] : own + 1;
  }
  // The last of the trunk that the op needs, or the op itself.
  [[nodiscard]] int last_before(OpId op) const { return needed_[op.index()]; }

 private:
  std::vector<int> position_, needed_, needing_;  // [op]
};

// The ops of the trunk by their forward op.
std::vector<HeldValues::Pair> pairs_of(const Graph& graph, const std::vector<OpId>& trunk) {
  std::vector<HeldValues::Pair> pairs;
  std::vector<int> pair_of(graph.ops().size(), kNone);
  for (const OpId id : trunk) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::Forward) {
      pair_of[id.index()] = static_cast<int>(pairs.size());
      pairs.push_back({id, {id}});
    } else if (op.forward && pair_of[op.forward->index()] != kNone && !is_gradient_sum(graph, op)) {
      pairs[static_cast<std::size_t>(pair_of[op.forward->index()])].of_trunk.push_back(id);
    }
  }
  return pairs;
}

bool is_of_samples(const Tensor& tensor) {
  return std::any_of(tensor.dims.begin(), tensor.dims.end(), [](const Dim& dim) { return dim.name == "batch"; });
}

class Repetition {
 public:
  Repetition(const Graph& graph, const std::vector<double>& weight)
      : graph_(graph), weight_(weight), readers_(graph.tensors().size(), 0), read_back_(readers_.size(), false) {
    for (const Op& op : graph.ops())
      for (const TensorId input : op.inputs) {
        if (op.phase == Phase::Forward)
          ++readers_[input.index()];
        else
          read_back_[input.index()] = true;
      }
  }

  // Follows what only the last op of `again` reads.
  void extend(HeldResult& result) const {
    for (;;) {
      const Op& op = graph_.op(result.again.back());
      if (op.block < 0) {
        result.again.clear();
        return;
      }
      const Tensor* own = nullptr;  // of the heaviest maker
      for (const TensorId input : op.inputs) {
        const Tensor& tensor = graph_.tensor(input);
        if (!tensor.producer || readers_[input.index()] != 1 || read_back_[input.index()] || !is_of_samples(tensor))
          continue;
        if (own == nullptr || weight_[tensor.producer->index()] > weight_[own->producer->index()]) own = &tensor;
      }
      if (own == nullptr) return;
      for (HeldValue& value : result.values)
        if (value.of_samples)
          value.bytes = std::min(value.bytes, own->bytes() / static_cast<double>(result.values.size()));
      result.again.push_back(*own->producer);
    }
  }

 private:
  const Graph& graph_;
  const std::vector<double>& weight_;
  std::vector<int> readers_;     // [tensor] forward ops that read it, each as often as it does
  std::vector<bool> read_back_;  // [tensor] by ops of the backward
};

}  // namespace

HeldValues find_held_values(const Graph& graph, const std::vector<double>& weight) {
  const std::vector<OpId> trunk = heaviest_chain(graph, weight);
  const TrunkOrder order(graph, trunk);
  HeldValues found{pairs_of(graph, trunk), {}};
  const auto count = static_cast<int>(found.pairs.size());
  // [pair] the last position in the trunk of its ops and of those of all pairs after it.
  std::vector<int> until(found.pairs.size() + 1, kNone);
  for (int p = count; p-- > 0;) {
    const auto at = static_cast<std::size_t>(p);
    until[at] = std::max(until[at + 1], order.position(found.pairs[at].of_trunk.back()));
  }
  // The first pair that runs, with all after it, between two positions of the trunk.
  const auto first_between = [&](int first, int last) {
    const auto begins = std::partition_point(found.pairs.begin(), found.pairs.end(),
                                             [&](const auto& pair) { return order.position(pair.forward) < first; });
    const auto ends = std::partition_point(until.begin(), until.end(), [&](int position) { return position > last; });
    return static_cast<int>(std::max(begins - found.pairs.begin(), ends - until.begin()));
  };
  std::vector<int> first_of(graph.tensors().size(), count);
  for (const Op& reader : graph.ops()) {
    if (reader.phase != Phase::Backward || !reader.forward || is_gradient_sum(graph, reader)) continue;
    const Op& forward = graph.op(*reader.forward);
    for (const TensorId input : reader.inputs) {
      const auto& maker = graph.tensor(input).producer;
      if (!maker || graph.op(*maker).phase != Phase::Forward) continue;
      const bool read = holds(forward.inputs, input);
      if (!read && !holds(forward.outputs, input)) continue;
      int& first = first_of[input.index()];
      first = std::min(first, first_between(order.first_after(forward.id, read), order.last_before(reader.id)));
    }
  }
  const Repetition repetition(graph, weight);
  for (const Op& maker : graph.ops()) {
    HeldResult result{{}, {maker.id}};
    for (const TensorId output : maker.outputs) {
      const int first = maker.phase == Phase::Forward ? first_of[output.index()] : count;
      const Tensor& tensor = graph.tensor(output);
      if (first < count) result.values.push_back({tensor.bytes(), is_of_samples(tensor), first});
    }
    if (result.values.empty()) continue;
    repetition.extend(result);
    found.results.push_back(std::move(result));
  }
  return found;
}

}  // namespace meshwright
