// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/stage_degrees.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "core/graph/op_table.h"
#include "core/planner/intra_op/intra_op_rules.h"
#include "core/planner/method/method.h"

namespace meshwright {

namespace {

// The stage's mesh without its axes of one device, and what becomes of a mask of them; Megatron's mesh has an axis for
// dp and one for tp at least, of one device where need be.
struct Candidate {
  Degrees degrees;
  std::vector<int> shape;          // as the method's logical mesh
  std::vector<AxisMask> stage_of;  // [axis of `shape`] the axes of the stage that make it up; 0: one device
};

// `mask` in the candidate's axes; nullopt: it takes a part of one.
std::optional<AxisMask> in_axes_of(const Candidate& candidate, AxisMask mask) {
  AxisMask made = 0;
  for (std::size_t a = 0; a < candidate.stage_of.size(); ++a) {
    const AxisMask part = candidate.stage_of[a];
    if (part == 0 || (mask & part) == 0) continue;
    if ((mask & part) != part) return std::nullopt;
    made = static_cast<AxisMask>(made | (1 << a));
    mask = static_cast<AxisMask>(mask & ~part);
  }
  return mask == 0 ? std::optional(made) : std::nullopt;
}

// The ways to read the mesh: its axes in order are dp, ep, cp, tp, some of them missing, and neighbours may be one.
// Those with the axes in their own order come first.
class Candidates {
 public:
  explicit Candidates(const StagePlan& stage) {
    for (std::size_t a = 0; a < stage.logical_shape.size(); ++a)
      if (stage.logical_shape[a] > 1) axes_.emplace_back(static_cast<int>(a), stage.logical_shape[a]);
    parts_.assign(4, {});
    contexts_ = stage.contexts;
    assign(0, 0);
    // Within a host all links are alike, so that it does not matter which of its axes is the inner one.
    if (stage.submesh.hosts == 1)
      while (std::next_permutation(axes_.begin(), axes_.end())) assign(0, 0);
  }

  std::vector<Candidate> all() && { return std::move(found_); }

 private:
  // Axes from `axis` on go to the roles from `role` on.
  void assign(std::size_t axis, std::size_t role) {
    if (axis == axes_.size()) return add();
    for (std::size_t r = role; r < parts_.size(); ++r) {
      parts_[r].push_back(axes_[axis]);
      assign(axis + 1, r);
      parts_[r].pop_back();
    }
  }

  void add() {
    const auto size = [&](std::size_t role) {
      return std::accumulate(parts_[role].begin(), parts_[role].end(), 1,
                             [](int product, const auto& axis) { return product * axis.second; });
    };
    const auto mask = [&](std::size_t role) {
      AxisMask made = 0;
      for (const auto& axis : parts_[role]) made = static_cast<AxisMask>(made | (1 << axis.first));
      return made;
    };
    Candidate candidate;
    Degrees& d = candidate.degrees;
    d.tp = size(3);
    d.cp = size(2);
    d.ep = size(1);
    d.dp = size(0) * d.ep;
    if (d.cp > 1 && contexts_.rings == mask(2)) d.context = ContextExchange::PointToPoint;
    if (d.cp > 1 && contexts_.exchanges == mask(2)) d.context = ContextExchange::AllToAll;
    for (const std::size_t role : {0, 1, 2, 3}) {
      const bool always = role == 0 || role == 3;
      if (!always && parts_[role].empty()) continue;
      candidate.shape.push_back(size(role));
      candidate.stage_of.push_back(mask(role));
    }
    const auto with_sequences = [&] {
      for (const bool split : {false, true}) {
        if (split && d.tp == 1) continue;
        d.sequence_parallel = split;
        found_.push_back(candidate);
      }
    };
    with_sequences();
    // Experts of an ep group may lie on its tp and cp ranks, too.
    const int own = d.ep;
    for (const bool whole : {false, true})
      for (const bool folded : {false, true}) {
        if (own == 1 || (!whole && !folded) || (whole && d.tp == 1) || (folded && d.cp == 1)) continue;
        d.whole_experts = whole;
        d.folded_experts = folded;
        d.ep = own * (whole ? d.tp : 1) * (folded ? d.cp : 1);
        with_sequences();
      }
  }

  std::vector<std::pair<int, int>> axes_;                // (axis of the stage, its devices)
  std::vector<std::vector<std::pair<int, int>>> parts_;  // [dp, ep, cp, tp] axes
  ContextAxes contexts_;
  std::vector<Candidate> found_;
};

const Op* op_named(const std::map<std::string, const Op*>& ops, const std::string& name) {
  const auto found = ops.find(name);
  return found == ops.end() ? nullptr : found->second;
}

// The operators that the degrees would split otherwise.
std::vector<std::string> others(const Candidate& candidate, const StagePlan& stage, const Graph& graph,
                                const std::map<std::string, const Op*>& ops) {
  Degrees plain = candidate.degrees;
  plain.zero = 0;
  const IntraOpRules rules = rules_of(method_from_text(method_text(plain)), candidate.shape);
  std::vector<std::string> found;
  if (!rules.allow_op) return found;
  for (const auto& [name, sharding] : stage.ops) {
    const Op* op = op_named(ops, name);
    if (op == nullptr) continue;
    const IterationSpace space = iteration_space(graph, *op);
    std::vector<AxisMask> axes(space.axes.size(), 0);
    bool whole = true;  // of the candidate's axes
    for (const auto& [axis, mask] : sharding.axes) {
      const auto at = space.find(axis);
      const auto made = in_axes_of(candidate, mask);
      whole = whole && at && made;
      if (at && made) axes[static_cast<std::size_t>(*at)] = *made;
    }
    if (!whole || !rules.allow_op(*op, space, axes)) found.push_back(name);
  }
  return found;
}

// The level of one parameter, over the mesh axes of `replicas`.
int level_of(const ParameterSharding& parameter, AxisMask replicas) {
  if ((parameter.weight.used() & replicas) != 0) return 3;
  if ((parameter.state.used() & replicas) == 0) return 0;
  return parameter.eager ? 2 : 1;
}

// The ZeRO level of most bytes of the stage's parameters; nullopt: a hundredth of them or more is split otherwise.
std::optional<int> zero_of(const StagePlan& stage, const Graph& graph, AxisMask replicas) {
  // A parameter that several operators read has its state where the first of them is.
  std::map<std::string, double> bytes;  // by "<first reader>/<parameter>"
  std::set<TensorId> read;
  for (const OpId id : forward_ops(graph))
    for (const TensorId input : graph.op(id).inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.kind == TensorKind::Parameter && read.insert(input).second)
        bytes[graph.op(id).name + "/" + tensor.name] = tensor.bytes().si();
    }
  std::map<int, double> of_level;
  double all = 0.0;
  for (const auto& [key, parameter] : stage.parameters) {
    const auto own = bytes.find(key);
    if (own == bytes.end()) continue;
    of_level[level_of(parameter, replicas)] += own->second;
    all += own->second;
  }
  if (of_level.empty()) return 0;
  const auto most = std::max_element(of_level.begin(), of_level.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (all - most->second > 0.01 * all) return std::nullopt;
  return most->first;
}

std::string axes_text(const OpSharding& sharding) {
  std::string text;
  for (const auto& [axis, mask] : sharding.axes)
    if (mask != 0) text += (text.empty() ? "" : ", ") + axis;
  return text.empty() ? "does not split" : fmt::format("splits {} of", text);
}

}  // namespace

std::variant<Degrees, NoDegrees> degrees_of_stage(const StagePlan& stage, const Graph& graph) {
  std::map<std::string, const Op*> ops;
  for (const OpId id : forward_ops(graph)) ops[graph.op(id).name] = &graph.op(id);
  std::optional<std::pair<Candidate, std::vector<std::string>>> nearest;
  for (const Candidate& candidate : Candidates(stage).all()) {
    std::vector<std::string> other = others(candidate, stage, graph, ops);
    if (!other.empty()) {
      if (!nearest || other.size() < nearest->second.size()) nearest = {candidate, std::move(other)};
      continue;
    }
    AxisMask replicas = 0;
    for (std::size_t a = 0; a + 1 < candidate.stage_of.size(); ++a)
      replicas = static_cast<AxisMask>(replicas | candidate.stage_of[a]);
    const auto zero = zero_of(stage, graph, replicas);
    if (!zero) return NoDegrees{"splits some parameters and their optimizer state over its replicas and others not"};
    Degrees degrees = candidate.degrees;
    degrees.zero = *zero;
    return degrees;
  }
  const Degrees& of = nearest->first.degrees;
  const std::string& name = nearest->second.front();
  return NoDegrees{fmt::format("{} '{}', which dp {} and tp {} would not (so {} of its {} operators)",
                               axes_text(stage.ops.at(name)), name, of.dp, of.tp, nearest->second.size(),
                               stage.ops.size())};
}

}  // namespace meshwright
