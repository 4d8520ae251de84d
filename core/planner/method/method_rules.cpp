// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/op_table.h"
#include "core/planner/method/method.h"

namespace meshwright {

namespace {

using AllowOp = std::function<bool(const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes)>;

AxisMask bit(int axis) { return static_cast<AxisMask>(1 << axis); }

// The axis named `name` takes every mesh axis of `wanted`, and no other axis takes one; an op without that name, or
// whose axis of that name can never be split, leaves them unused.
bool takes(const IterationSpace& space, const std::vector<AxisMask>& axes, const std::string& name, AxisMask wanted) {
  const auto owner = space.find(name);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool is_owner = owner && static_cast<int>(i) == *owner && space.axes[i].splittable;
    if ((axes[i] & wanted) != (is_owner ? wanted : AxisMask{0})) return false;
  }
  return true;
}

bool unused(const std::vector<AxisMask>& axes, AxisMask mask) {
  return std::all_of(axes.begin(), axes.end(), [mask](AxisMask axis) { return (axis & mask) == 0; });
}

bool splits(const IterationSpace& space, const std::vector<AxisMask>& axes, const std::string& name, AxisMask mask) {
  const auto axis = space.find(name);
  return axis && (axes[*axis] & mask) != 0;
}

// The sequence axis: that of the queries or, for keys and values, the renamed one.
bool takes_sequence(const IterationSpace& space, const std::vector<AxisMask>& axes, AxisMask cp) {
  for (const char* name : {"seq", "kv_seq|seq"})
    if (space.find(name)) return takes(space, axes, name, cp);
  return takes(space, axes, "seq", cp);
}

bool is_attention(OpKind kind) {
  return kind == OpKind::Attention || kind == OpKind::GroupedAttention || kind == OpKind::SelectedAttention;
}

// The axis of the heads that have keys of their own; nullopt: the op is no attention.
std::optional<int> key_heads(const Op& op, const IterationSpace& space) {
  if (!is_attention(op.kind)) return std::nullopt;
  const auto grouped = space.find("kv_heads");
  return grouped ? grouped : space.find("heads");
}

// Mesh axes by role; 0: the role has none.
struct Roles {
  AxisMask dp = 0, cp = 0, ep = 0, tp = 0;
  ContextExchange context = ContextExchange::AllGather;

  // Sequences are split over cp. With all-to-alls an attention has whole sequences and splits its heads.
  [[nodiscard]] bool takes_context(const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) const {
    if (cp == 0) return true;
    const auto heads = context == ContextExchange::AllToAll ? key_heads(op, space) : std::nullopt;
    return heads ? takes(space, axes, space.axes[static_cast<std::size_t>(*heads)].name, cp)
                 : takes_sequence(space, axes, cp);
  }
  [[nodiscard]] ContextAxes contexts() const {
    return {.rings = context == ContextExchange::PointToPoint ? cp : AxisMask{0},
            .exchanges = context == ContextExchange::AllToAll ? cp : AxisMask{0}};
  }
};

// Axes of one device split nothing and have no role.
Roles roles_of(const Method& method, const std::vector<int>& shape) {
  Roles roles;
  roles.context = method.context;
  int axis = 0;
  const auto next = [&](AxisMask& role, bool present) {
    if (!present) return;
    if (shape[axis] > 1) role = bit(axis);
    ++axis;
  };
  // In the order of the logical mesh's axes. There is always one for dp and one for tp.
  next(roles.dp, true);
  next(roles.ep, method.ep > 1);
  next(roles.cp, method.cp > 1);
  next(roles.tp, true);
  return roles;
}

// One of kTensorParallelAxes takes tp; of an op without them the sequence (V. Korthikanti et al., 2022), or nothing.
bool takes_as_megatron(const IterationSpace& space, const std::vector<AxisMask>& axes, AxisMask tp, int parts,
                       bool sequence_parallel) {
  const auto divides = [&](const char* name) {
    const auto axis = space.find(name);
    return axis && space.axes[*axis].splittable && space.axes[*axis].size % parts == 0;
  };
  for (const char* name : kTensorParallelAxes)
    if (divides(name)) return takes(space, axes, name, tp);
  if (sequence_parallel && divides("seq") && !space.find("expert")) return takes(space, axes, "seq", tp);
  return unused(axes, tp);
}

AllowOp megatron_rule(const Roles& roles, bool sequence_parallel) {
  return [roles, sequence_parallel](const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    // Experts take their axis from the data-parallel one, where an op has them.
    const auto expert = space.find("expert");
    const bool has_experts = roles.ep != 0 && expert && space.axes[*expert].splittable;
    const AxisMask batch = has_experts ? roles.dp : static_cast<AxisMask>(roles.dp | roles.ep);
    if (has_experts && !takes(space, axes, "expert", roles.ep)) return false;
    if (batch != 0 && !takes(space, axes, "batch", batch)) return false;
    if (!roles.takes_context(op, space, axes)) return false;
    if (splits(space, axes, "batch", roles.tp)) return false;
    return sequence_parallel || !splits(space, axes, "seq", roles.tp);
  };
}

// What Megatron-LM splits over its ranks and nothing else. The tokens of a rank choose their slots where they are; the
// slots travel to the experts, and back (all-to-all over ep).
class ExactMegatron {
 public:
  ExactMegatron(const Method& method, const std::vector<int>& shape, const Roles& roles)
      : shape_(shape), roles_(roles), tp_(method.tp), sequence_parallel_(method.sequence_parallel) {
    experts_ = roles.ep;
    whole_experts_ = method.etp.value_or(method.tp) == 1;
    if (whole_experts_) experts_ = static_cast<AxisMask>(experts_ | roles.tp);
    if (method.folded) experts_ = static_cast<AxisMask>(experts_ | roles.cp);
  }

  bool operator()(const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) const {
    if (!space.find("expert") || (roles_.ep == 0 && !whole_experts_ && roles_.cp == 0))
      return tokens(op, space, axes) && tensor_parallel(space, axes);
    if (space.find("capacity")) return space.find("seq") ? exchange(space, axes) : experts(space, axes);
    // The router works on tokens. What has neither is of parameters, which follow the ops that read them.
    return (!space.find("batch") && !space.find("seq")) || (tokens(op, space, axes) && tensor_parallel(space, axes));
  }

 private:
  bool tokens(const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) const {
    const auto batch = static_cast<AxisMask>(roles_.dp | roles_.ep);
    if (batch != 0 && !takes(space, axes, "batch", batch)) return false;
    return roles_.takes_context(op, space, axes);
  }

  bool tensor_parallel(const IterationSpace& space, const std::vector<AxisMask>& axes) const {
    if (tp_ == 1) return true;
    return takes_as_megatron(space, axes, roles_.tp, tp_, sequence_parallel_);
  }

  // Slots are chosen from whole sequences, so ranks that share one exchange columns instead of tokens.
  bool exchange(const IterationSpace& space, const std::vector<AxisMask>& axes) const {
    const auto columns = static_cast<AxisMask>(roles_.cp | (whole_experts_ ? roles_.tp : AxisMask{0}));
    return takes(space, axes, "batch", static_cast<AxisMask>(roles_.dp | roles_.ep)) &&
           takes(space, axes, "embed", where_divides(space, "embed", columns)) &&
           (whole_experts_ || unused(axes, roles_.tp));
  }

  bool experts(const IterationSpace& space, const std::vector<AxisMask>& axes) const {
    return takes(space, axes, "expert", experts_) && takes(space, axes, "batch", roles_.dp) &&
           takes(space, axes, "capacity",
                 where_divides(space, "capacity", static_cast<AxisMask>(roles_.cp & ~experts_))) &&
           (whole_experts_ || tensor_parallel(space, axes));
  }

  // `mask`, or nothing where its devices do not divide the axis of that name.
  [[nodiscard]] AxisMask where_divides(const IterationSpace& space, const std::string& name, AxisMask mask) const {
    const auto axis = space.find(name);
    int parts = 1;
    for (std::size_t a = 0; a < shape_.size(); ++a)
      if (mask >> a & 1) parts *= shape_[a];
    return axis && space.axes[*axis].size % parts == 0 ? mask : AxisMask{0};
  }

  std::vector<int> shape_;
  Roles roles_;
  int tp_;
  bool sequence_parallel_;
  AxisMask experts_ = 0;
  bool whole_experts_ = false;  // an expert is not split over tp: tp's ranks have different ones
};

// Every mesh axis splits the largest axis of the result that they all divide; of equal axes the first.
AllowOp largest_axis_rule(const std::vector<int>& shape) {
  return [shape](const Op&, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    AxisMask all = 0;
    std::int64_t parts = 1;
    for (std::size_t a = 0; a < shape.size(); ++a) {
      if (shape[a] > 1) all = static_cast<AxisMask>(all | bit(static_cast<int>(a)));
      parts *= shape[a];
    }
    std::vector<AxisMask> wanted(space.axes.size(), 0);
    int largest = -1;
    for (const int i : space.outputs[0]) {
      const IterationAxis& axis = space.axes[i];
      if (axis.splittable && axis.size % parts == 0 && (largest < 0 || axis.size > space.axes[largest].size))
        largest = i;
    }
    if (largest >= 0) wanted[largest] = all;
    // Each op has one allowed split.
    return axes == wanted;
  };
}

// Applies every rule whose axis exists and divides; earlier rules first.
AllowOp logical_axis_rule(const Method& method, const std::vector<int>& shape) {
  return [rules = method.rules, shape](const Op&, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    std::vector<AxisMask> wanted(space.axes.size(), 0);
    AxisMask used = 0;
    for (const auto& [name, mesh_axis] : rules) {
      const auto axis = space.find(name);
      const std::int64_t parts = shape[mesh_axis];
      if (!axis || parts == 1 || (used & bit(mesh_axis)) != 0) continue;
      const auto i = static_cast<std::size_t>(*axis);
      // Earlier rules may have split this axis already: what they left has to divide.
      std::int64_t size = space.axes[i].size;
      for (std::size_t a = 0; a < shape.size(); ++a)
        if (wanted[i] >> a & 1) size /= shape[a];
      if (!space.axes[i].splittable || size % parts != 0) continue;
      wanted[i] = static_cast<AxisMask>(wanted[i] | bit(mesh_axis));
      used = static_cast<AxisMask>(used | bit(mesh_axis));
    }
    return axes == wanted;
  };
}

}  // namespace

void check_forced(const Graph& graph, const ForcedSpecs& forced) {
  if (forced.empty()) return;
  std::map<std::string, const Tensor*> known;
  std::vector<std::string> names;
  for (const Tensor& tensor : graph.tensors()) {
    const bool result = tensor.producer && graph.op(*tensor.producer).phase == Phase::Forward;
    // Factored moments follow the rest of their parameter's state.
    const bool state = tensor.kind == TensorKind::OptimizerState && tensor.dims == graph.tensor(*tensor.parameter).dims;
    if (!result && tensor.kind != TensorKind::Parameter && !state) continue;
    known[tensor.name] = &tensor;
    names.push_back(tensor.name);
  }
  for (const auto& [name, spec] : forced) {
    const auto found = known.find(name);
    if (found == known.end())
      throw InputError(
          unknown_name("forced tensor", name, names, "Results, parameters and optimizer state can be forced."));
    require(spec.dims.size() == found->second->dims.size(),
            "forced tensor '{}': spec {} has {} dimensions, the tensor is {}; give one R or S group for each.", name,
            spec.to_text(), spec.dims.size(), to_text(found->second->dims));
    require(spec.partial == 0,
            "forced tensor '{}': spec {} leaves a partial sum; give the spec of the complete tensor.", name,
            spec.to_text());
  }
}

namespace {

void check_contexts(const Method& method, const Graph& graph) {
  const int parts = method.cp * method.tp;
  for (const OpId id : forward_ops(graph)) {
    const Op& op = graph.op(id);
    const IterationSpace space = iteration_space(graph, op);
    if (!is_attention(op.kind)) continue;
    const IterationAxis& queries = space.axes[static_cast<std::size_t>(space.inputs[0][1])];
    require(queries.size % method.cp == 0,
            "method '{}': cp={} does not divide the sequence of {} of '{}'; give a cp that does, or another sequence.",
            method.text, method.cp, queries.size, op.name);
    require(method.context != ContextExchange::PointToPoint || op.kind != OpKind::Attention,
            "method '{}': '{}' reads queries, keys and values as one tensor, so no keys can travel around a ring; give "
            "cp-comm=a2a.",
            method.text, op.name);
    require(
        method.context == ContextExchange::AllGather || op.kind != OpKind::SelectedAttention,
        "method '{}': an indexer chooses the keys that '{}' reads among all of them, so each device needs all; give "
        "cp-comm=all-gather.",
        method.text, op.name);
    require(method.context != ContextExchange::PointToPoint || op.attributes.extra != Attributes::Extra::Mask,
            "method '{}': '{}' reads a mask of all keys, none of which travels around a ring; give cp-comm=all-gather.",
            method.text, op.name);
    if (method.context != ContextExchange::AllToAll) continue;
    require(method.tp == 1 || op.attributes.extra == Attributes::Extra::None ||
                op.attributes.extra == Attributes::Extra::Mask,
            "method '{}': '{}' tells its heads from each other, which cp-comm=a2a reorders with tp={}; give tp=1, or "
            "cp-comm=p2p.",
            method.text, op.name, method.tp);
    const IterationAxis& heads = space.axes[static_cast<std::size_t>(*key_heads(op, space))];
    require(
        heads.size % parts == 0,
        "method '{}': cp-comm=a2a splits the {} heads of keys and values of '{}' over cp={} x tp={}, which does not "
        "divide them; give a cp that does, or cp-comm=p2p.",
        method.text, heads.size, op.name, method.cp, method.tp);
  }
}

}  // namespace

void check_axes(const Method& method, const Graph& graph) {
  std::vector<std::string> known;
  for (const OpId id : forward_ops(graph))
    for (const IterationAxis& axis : iteration_space(graph, graph.op(id)).axes)
      if (axis.splittable && std::find(known.begin(), known.end(), axis.name) == known.end())
        known.push_back(axis.name);
  const auto knows = [&](const char* name) { return std::find(known.begin(), known.end(), name) != known.end(); };
  for (const auto& [name, axis] : method.rules)
    if (!knows(name.c_str()))
      throw InputError(fmt::format(
          "method '{}': {}", method.text,
          unknown_name("axis", name, known, fmt::format("All that can be split are {}.", join(known, ", ")))));
  require(method.ep == 1 || knows("expert"),
          "method '{}': no op of the model has experts to split over ep={}; leave ep out or choose another method.",
          method.text, method.ep);
  require(method.cp == 1 || knows("seq"),
          "method '{}': no op of the model has a sequence to split over cp={}; leave cp out or choose another method.",
          method.text, method.cp);
  if (method.cp > 1) check_contexts(method, graph);
}

namespace {

// Data parallelism takes the whole mesh. Axes of one device split nothing.
AxisMask batch_axes(const std::vector<int>& shape) {
  AxisMask mask = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1) mask = static_cast<AxisMask>(mask | bit(static_cast<int>(axis)));
  return mask;
}

}  // namespace

IntraOpRules rules_of(const Method& method, const std::vector<int>& shape) {
  using Kind = Method::Kind;
  using Split = IntraOpRules::Split;
  using Gradients = IntraOpRules::Gradients;
  IntraOpRules rules;
  rules.forced = method.forced;
  // With one device there is nothing to rule.
  if (std::all_of(shape.begin(), shape.end(), [](int size) { return size == 1; })) return rules;
  switch (method.kind) {
    case Kind::Pipeshard:
    case Kind::Shard:
    case Kind::Specs:
    case Kind::Manual:
      break;
    case Kind::Data:
    case Kind::Zero1:
    case Kind::Zero2:
    case Kind::Zero3:
      rules.allow_op = [mask = batch_axes(shape)](const Op&, const IterationSpace& space,
                                                  const std::vector<AxisMask>& axes) {
        return takes(space, axes, "batch", mask);
      };
      if (method.shard) rules.whole_axes = bit(0);
      rules.padding = method.kind != Kind::Data;
      rules.weight = method.kind == Kind::Zero3 ? Split::Most : Split::Whole;
      rules.state = method.kind == Kind::Data ? Split::Whole : Split::Most;
      rules.gradients =
          method.kind == Kind::Zero2 || method.kind == Kind::Zero3 ? Gradients::Eager : Gradients::Delayed;
      rules.split_sums = rules.gradients == Gradients::Eager;
      break;
    case Kind::Megatron: {
      const Roles roles = roles_of(method, shape);
      rules.contexts = roles.contexts();
      if (method.exact)
        rules.allow_op = ExactMegatron(method, shape, roles);
      else
        rules.allow_op = megatron_rule(roles, method.sequence_parallel);
      if (!method.zero) break;
      rules.split_axes = static_cast<AxisMask>(roles.dp | roles.cp | roles.ep);
      rules.weight = *method.zero == 3 ? Split::Most : Split::Whole;
      rules.state = *method.zero == 0 ? Split::Whole : Split::Most;
      rules.gradients = *method.zero >= 2 ? Gradients::Eager : Gradients::Delayed;
      rules.split_sums = rules.gradients == Gradients::Eager;
      rules.padding = *method.zero > 0;
      break;
    }
    case Kind::Expert: {
      Roles roles;
      if (shape[0] > 1) roles.dp = bit(0);
      if (shape[1] > 1) roles.ep = bit(1);
      rules.allow_op = megatron_rule(roles, false);
      break;
    }
    case Kind::Context: {
      Roles roles;
      if (shape[0] > 1) roles.dp = bit(0);
      if (shape[1] > 1) roles.cp = bit(1);
      roles.context = method.context;
      rules.contexts = roles.contexts();
      rules.allow_op = megatron_rule(roles, false);
      break;
    }
    case Kind::Largest:
      rules.allow_op = largest_axis_rule(shape);
      rules.weight = rules.state = Split::Most;
      break;
    case Kind::Rules:
      for (const auto& [name, axis] : method.rules)
        require(axis < static_cast<int>(shape.size()),
                "method '{}': '{}' goes to mesh axis {}, but the logical mesh {} has {}; give --logical-mesh.",
                method.text, name, axis, fmt::join(shape, "x"), shape.size());
      rules.allow_op = logical_axis_rule(method, shape);
      break;
  }
  return rules;
}

void force_batch_axis(IntraOpRules& rules, int axis) {
  rules.allow_op = [before = rules.allow_op, mask = bit(axis)](const Op& op, const IterationSpace& space,
                                                               const std::vector<AxisMask>& axes) {
    if (space.find("batch") && !takes(space, axes, "batch", mask)) return false;
    return !before || before(op, space, axes);
  };
}

void hold_batch_to_axis(IntraOpRules& rules, const std::vector<int>& shape, int axis) {
  const int parts = shape[axis];
  rules.allow_op = [before = rules.allow_op, parts, mask = parts > 1 ? bit(axis) : AxisMask{0}](
                       const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    if (const auto found = space.find("batch")) {
      const IterationAxis& batch = space.axes[*found];
      // A batch of one sample can never be split; that does not make the op one that cannot split batches.
      if (batch.size % parts != 0) return false;
      if (axes[*found] != (batch.splittable ? mask : AxisMask{0})) return false;
    }
    return !before || before(op, space, axes);
  };
}

std::optional<std::vector<int>> logical_shape_of(const Method& method, int devices, const std::string& cluster) {
  using Kind = Method::Kind;
  const auto left = [&](int taken, const char* degrees) {
    require(devices % taken == 0, "method '{}': {} devices of {} do not divide into {}={}.", method.text, devices,
            cluster, degrees, taken);
    return devices / taken;
  };
  switch (method.kind) {
    case Kind::Data:
    case Kind::Zero1:
    case Kind::Zero2:
    case Kind::Zero3:
    case Kind::Largest:
      if (method.shard) return std::vector{left(*method.shard, "shard"), *method.shard};
      return std::vector{devices, 1};
    case Kind::Expert:
      return std::vector{left(method.ep, "ep"), method.ep};
    case Kind::Context:
      return std::vector{left(method.cp, "cp"), method.cp};
    case Kind::Megatron: {
      std::vector<int> shape = {left(method.cp * method.expert_axis() * method.tp, "cp x ep x tp")};
      if (method.ep > 1) shape.push_back(method.expert_axis());
      if (method.cp > 1) shape.push_back(method.cp);
      shape.push_back(method.tp);
      return shape;
    }
    case Kind::Pipeshard:
    case Kind::Shard:
    case Kind::Rules:
    case Kind::Specs:
    case Kind::Manual:
      break;
  }
  return std::nullopt;
}

}  // namespace meshwright
