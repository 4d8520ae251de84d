// SPDX-License-Identifier: Apache-2.0
// Checks a plan against its graph and cluster from first principles; shares only the naming of axes with the planner
// and with lowering.
#include <algorithm>
#include <cstdint>
#include <set>

#include "core/base/text.h"
#include "core/graph/op_table.h"
#include "core/graph/recomputation.h"
#include "core/plan/plan.h"
#include "core/plan/ranks.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

namespace {

constexpr int kMaxMeshAxes = 8;  // bits of an AxisMask

class PlanChecker {
 public:
  PlanChecker(const Plan& plan, const Graph& graph) : plan_(plan), graph_(graph), forward_(forward_ops(graph)) {}

  std::vector<std::string> check(const std::string& fingerprint) {
    // Everything below would only repeat, op by op, that this is another graph.
    if (plan_.graph_fingerprint != fingerprint) {
      say("the plan was made for another model or another version of it: the model's graph has the fingerprint {}, the "
          "plan has '{}'",
          fingerprint, plan_.graph_fingerprint);
      return violations_;
    }
    check_layers();
    if (!violations_.empty()) return violations_;  // which stage holds which op is not known
    assign_stages();
    find_read_in_backward();
    check_devices();
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      if (s >= stages_per_copy(plan_))
        check_copy(s);
      else if (check_mesh(s))
        check_contents(s);
    }
    check_cross_mesh();
    return violations_;
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> sentence, Args&&... args) {
    violations_.push_back(fmt::format(sentence, std::forward<Args>(args)...));
  }

  [[nodiscard]] const StagePlan& stage(int s) const { return plan_.stages[static_cast<std::size_t>(s)]; }

  void check_layers() {
    const auto& starts = plan_.layer_starts;
    const int ops = static_cast<int>(forward_.size());
    if (starts.empty() || starts.front() != 0) return say("the first layer must start at forward op 0");
    for (std::size_t i = 1; i < starts.size(); ++i)
      if (starts[i] <= starts[i - 1])
        say("layer {} starts at forward op {}, not after layer {} (op {})", i, starts[i], i - 1, starts[i - 1]);
    if (starts.back() >= ops)
      say("layer {} starts at forward op {}, but the model has only {}", starts.size() - 1, starts.back(), ops);

    const int layers = static_cast<int>(starts.size()), copies = traits_of(plan_.schedule).copies;
    if (plan_.stages.size() % static_cast<std::size_t>(copies) != 0)
      return say("{} stages are not {} copies of the same; under {} the second half repeats the first",
                 plan_.stages.size(), copies, name_of(plan_.schedule));
    int next = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(stages_per_copy(plan_)); ++s) {
      const StagePlan& stage = plan_.stages[s];
      if (stage.first_layer != next)
        say("stage {} begins with layer {}, but layer {} is next", s, stage.first_layer, next);
      if (stage.last_layer < stage.first_layer)
        say("stage {} has no layers ({}..{})", s, stage.first_layer, stage.last_layer);
      if (stage.last_layer >= layers)
        say("stage {} names layer {}, but the plan has layers 0..{}", s, stage.last_layer, layers - 1);
      next = stage.last_layer + 1;
    }
    if (next < layers) say("layers {}..{} belong to no stage", next, layers - 1);
  }

  // A copy differs from its stage in its devices, and in where they are.
  void check_copy(int s) {
    const int of = s % stages_per_copy(plan_);
    const StagePlan &copy = stage(s), &first = stage(of);
    check_hosts(s);
    const auto differs = [&](const char* what) {
      say("stage {} is the copy of stage {} under {}, but has other {}", s, of, name_of(plan_.schedule), what);
    };
    if (copy.first_layer != first.first_layer || copy.last_layer != first.last_layer) return differs("layers");
    if (copy.submesh != first.submesh || copy.logical_shape != first.logical_shape || copy.contexts != first.contexts ||
        copy.devices.size() != first.devices.size())
      return differs("submeshes or logical meshes");
    if (copy.ops != first.ops || copy.parameters != first.parameters || copy.inputs != first.inputs ||
        copy.fan_outs != first.fan_outs)
      return differs("shardings");
  }

  void assign_stages() {
    stage_of_op_.assign(graph_.ops().size(), -1);
    for (std::size_t s = 0; s < static_cast<std::size_t>(stages_per_copy(plan_)); ++s) {
      const StagePlan& stage = plan_.stages[s];
      const std::size_t after = static_cast<std::size_t>(stage.last_layer) + 1;
      const std::size_t begin =
          static_cast<std::size_t>(plan_.layer_starts[static_cast<std::size_t>(stage.first_layer)]);
      const std::size_t end =
          after < plan_.layer_starts.size() ? static_cast<std::size_t>(plan_.layer_starts[after]) : forward_.size();
      for (std::size_t i = begin; i < end; ++i) stage_of_op_[forward_[i].index()] = static_cast<int>(s);
    }
  }

  // Where a loss is cut, an op may read in the backward what another stage made and no forward op of its stage reads.
  void find_read_in_backward() {
    read_in_backward_.resize(plan_.stages.size());
    for (const Op& op : graph_.ops()) {
      if (op.phase != Phase::Backward || !op.forward) continue;
      const int reader = stage_of_op_[op.forward->index()];
      for (const TensorId input : op.inputs) {
        const auto producer = graph_.tensor(input).producer;
        if (!producer || graph_.op(*producer).phase != Phase::Forward) continue;
        if (stage_of_op_[producer->index()] != reader)
          read_in_backward_[static_cast<std::size_t>(reader)].insert(input);
      }
    }
  }

  void check_devices() {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      std::set<int> listed;
      for (const int device : plan_.stages[s].devices) {
        if (device < 0 || device >= plan_.cluster.devices())
          say("stage {} uses device {}, but cluster {} has devices 0..{}", s, device, plan_.cluster.name,
              plan_.cluster.devices() - 1);
        if (!listed.insert(device).second) say("stage {} lists device {} twice", s, device);
      }
    }
    for (std::string& wrong : wrong_ranks(plan_, stage_graph(plan_, graph_))) violations_.push_back(std::move(wrong));
  }

  // False: the specs of this stage cannot be judged.
  bool check_mesh(int s) {
    const StagePlan& stage = this->stage(s);
    if (stage.logical_shape.empty() || stage.logical_shape.size() > kMaxMeshAxes) {
      say("stage {} has a logical mesh of {} axes; 1 to {} are possible", s, stage.logical_shape.size(), kMaxMeshAxes);
      return false;
    }
    std::int64_t product = 1;
    for (const int size : stage.logical_shape) product = size < 1 ? 0 : std::min<std::int64_t>(product * size, 1 << 30);
    const auto devices = static_cast<std::int64_t>(stage.devices.size());
    if (!fits(stage.submesh, plan_.cluster)) {
      say("stage {} has a submesh of {}, but {}", s, to_text(stage.submesh), what_there_is(stage.submesh.group));
      return false;
    }
    if (stage.submesh.devices() != product || devices != product) {
      say("stage {}: a submesh of {} devices, a logical mesh of {} and a list of {} must agree", s,
          stage.submesh.devices(), product, devices);
      return false;
    }
    check_hosts(s);
    check_contexts(s);
    return true;
  }

  // Rings and exchanges are of axes that split sequences; where they split batches instead, sizes would be wrong.
  void check_contexts(int s) {
    const StagePlan& stage = this->stage(s);
    const int masks = stage.contexts.rings | stage.contexts.exchanges;
    if (masks >> stage.logical_shape.size() != 0 || (stage.contexts.rings & stage.contexts.exchanges) != 0)
      return say("stage {}: its rings and exchanges must be different axes of its logical mesh of {} axes", s,
                 stage.logical_shape.size());
    for (const auto& [name, op] : stage.ops)
      if (const auto batch = op.axes.find("batch"); batch != op.axes.end() && (batch->second & masks) != 0)
        return say(
            "stage {}, op '{}': its batch is split over a mesh axis of rings or exchanges, which split sequences", s,
            name);
  }

  [[nodiscard]] std::string what_there_is(int group) const {
    const int groups = static_cast<int>(plan_.cluster.groups.size());
    if (group < 0 || group >= groups) return fmt::format("the cluster's groups of hosts are 0..{}", groups - 1);
    const HostGroup& of = plan_.cluster.group(group);
    return fmt::format("{} is {}x{}", groups == 1 ? "the cluster" : fmt::format("group {} of the cluster", group),
                       of.hosts, of.devices_per_host);
  }

  // The costs of a submesh hold only when its devices are placed as it says: in its group, the same number on each of
  // its hosts.
  void check_hosts(int s) {
    const StagePlan& stage = this->stage(s);
    const Cluster& cluster = plan_.cluster;
    std::map<int, int> on_host;
    for (const int device : stage.devices) {
      if (device < 0 || device >= cluster.devices()) return;  // said before
      if (cluster.group_of_device(device) != stage.submesh.group)
        return say("stage {}: device {} is of group {} of the cluster, its submesh {} of group {}", s, device,
                   cluster.group_of_device(device), to_text(stage.submesh), stage.submesh.group);
      ++on_host[cluster.host_of_device(device)];
    }
    const bool even = std::all_of(on_host.begin(), on_host.end(),
                                  [&](const auto& entry) { return entry.second == stage.submesh.devices_per_host; });
    if (!even || static_cast<int>(on_host.size()) != stage.submesh.hosts)
      say("stage {}: its devices are not on {} hosts with {} each", s, stage.submesh.hosts,
          stage.submesh.devices_per_host);
  }

  void check_contents(int s) {
    const StagePlan& stage = this->stage(s);
    std::set<std::string> ops, parameters, inputs;
    for (const OpId id : forward_) {
      if (stage_of_op_[id.index()] != s) continue;
      const Op& op = graph_.op(id);
      ops.insert(op.name);
      check_op(s, op);
      for (const TensorId input : op.inputs) {
        const Tensor& tensor = graph_.tensor(input);
        if (tensor.kind == TensorKind::Parameter) {
          const std::string key = op.name + "/" + tensor.name;
          if (parameters.insert(key).second) check_parameter(s, key, tensor);
        } else if (tensor.producer && stage_of_op_[tensor.producer->index()] != s) {
          if (inputs.insert(tensor.name).second) check_input(s, tensor);
        }
      }
    }
    for (const TensorId input : read_in_backward_[static_cast<std::size_t>(s)]) {
      const Tensor& tensor = graph_.tensor(input);
      if (stage.inputs.contains(tensor.name) && inputs.insert(tensor.name).second) check_input(s, tensor);
    }
    check_names(s, "op", stage.ops, ops);
    check_names(s, "parameter", stage.parameters, parameters);
    check_names(s, "input", stage.inputs, inputs);
    for (const auto& [name, fan_out] : stage.fan_outs) check_fan_out(s, name, fan_out);
  }

  // Forward tensors come from stages that feed this one, gradients from those that it feeds.
  void check_cross_mesh() {
    if (std::all_of(plan_.stages.begin(), plan_.stages.end(),
                    [](const StagePlan& stage) { return stage.cross_mesh.empty(); }))
      return;
    const StageGraph graph = stage_graph(plan_, graph_);
    const int stages = static_cast<int>(plan_.stages.size());
    for (int s = 0; s < stages; ++s)
      for (const auto& [from, form] : stage(s).cross_mesh)
        if (from < 0 || from >= stages || !graph.neighbours(from, s))
          say("stage {} says how it receives from stage {} ('{}'), which sends it nothing", s, from, name_of(form));
  }

  // A tensor of the stage that no other stage reads, brought to a copy it can be brought to.
  void check_fan_out(int s, const std::string& name, const FanOut& fan_out) {
    const Op* maker = nullptr;
    for (const OpId id : forward_)
      if (stage_of_op_[id.index()] == s && graph_.tensor(graph_.op(id).outputs.front()).name == name)
        maker = &graph_.op(id);
    if (maker == nullptr) return say("stage {} fans out '{}', which none of its ops produces first", s, name);
    const Tensor& tensor = graph_.tensor(maker->outputs.front());
    for (const OpId id : forward_)
      if (stage_of_op_[id.index()] != s && reads(graph_.op(id), tensor.id))
        return say("stage {} fans out '{}', which another stage also reads", s, name);
    const auto made = stage(s).ops.find(maker->name);
    if (made == stage(s).ops.end()) return;  // said before
    const std::string what = fmt::format("the copy of '{}'", name);
    if (fan_out.copy != made->second.result) check_spec(s, tensor, fan_out.copy, [&] { return what; });
    const std::string sums = fmt::format("the gradient of '{}'", name);
    check_spec(s, tensor, whole_sums(fan_out.gradient), [&] { return sums; });
    if (fan_out.gradient.dims != fan_out.copy.dims)
      say("stage {}, {}: it is split as {}, its copy as {}; they must agree", s, sums, fan_out.gradient.to_text(),
          fan_out.copy.to_text());
    check_cut(s, 0, fan_out.gradient.partial, [&] { return sums; });
    if (fan_out.gradient.partial != 0) check_partial_gradient(s, tensor, fan_out.gradient);
  }

  static bool reads(const Op& op, TensorId tensor) {
    return std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end();
  }

  // Whole sums cannot be taken apart: every contribution must be made as just these partial sums.
  void check_partial_gradient(int s, const Tensor& tensor, const ShardingSpec& gradient) {
    for (const Op& sum : graph_.ops()) {
      if (!is_gradient_sum(graph_, sum) || graph_.op(*sum.forward).outputs.front() != tensor.id) continue;
      for (const TensorId input : sum.inputs) {
        const Op& maker = graph_.op(*graph_.tensor(input).producer);
        if (is_gradient_sum(graph_, maker) && graph_.tensor(input).gradient_of == tensor.id) continue;
        const auto split = maker.forward ? stage(s).ops.find(graph_.op(*maker.forward).name) : stage(s).ops.end();
        if (split == stage(s).ops.end()) continue;  // said before
        const auto at = std::find(maker.outputs.begin(), maker.outputs.end(), input) - maker.outputs.begin();
        const ShardingSpec made =
            raw_result(iteration_space(graph_, maker), static_cast<std::size_t>(at), split->second.axes);
        if (graph_.tensor(input).gradient_of != tensor.id || made != gradient)
          say("stage {}, the gradient of '{}': '{}' leaves its contribution as {}, so it cannot be added as {}", s,
              tensor.name, maker.name, made.to_text(), gradient.to_text());
      }
    }
  }

  template <class Value>
  void check_names(int s, const char* what, const std::map<std::string, Value>& listed,
                   const std::set<std::string>& real) {
    for (const auto& [name, value] : listed)
      if (!real.contains(name)) say("stage {} lists the {} '{}', which is not in its layers", s, what, name);
  }

  void check_op(int s, const Op& op) {
    const auto found = stage(s).ops.find(op.name);
    if (found == stage(s).ops.end()) return say("stage {} has no decision for op '{}'", s, op.name);
    const IterationSpace space = iteration_space(graph_, op);
    AxisMask used = 0;
    for (const auto& [name, mask] : found->second.axes) {
      const std::optional<int> axis = space.find(name);
      if (!axis) {
        say("stage {}, op '{}': it has no axis '{}'", s, op.name, name);
        continue;
      }
      const IterationAxis& what = space.axes[static_cast<std::size_t>(*axis)];
      if (mask != 0 && !what.splittable) say("stage {}, op '{}': axis '{}' cannot be split", s, op.name, name);
      if ((used & mask) != 0) say("stage {}, op '{}': a mesh axis splits two of its axes", s, op.name);
      used = static_cast<AxisMask>(used | mask);
      const auto name_it = [&, axis_name = &name] { return fmt::format("op '{}', axis '{}'", op.name, *axis_name); };
      check_cut(s, what.size, mask, name_it);
    }
    ShardingSpec result = found->second.result;
    if (found->second.partial != 0 || result.partial != 0) {
      check_partial_sums(s, op, space, found->second, used);
      result.partial = 0;
    }
    const auto name_it = [&] { return fmt::format("the result of op '{}'", op.name); };
    check_spec(s, graph_.tensor(op.outputs.front()), result, name_it);
  }

  // Partial sums go through linear ops only, are kept as they are made, and stay on their stage.
  void check_partial_sums(int s, const Op& op, const IterationSpace& space, const OpSharding& sharding, AxisMask used) {
    if (sharding.partial != 0 && row_of(op.kind).linear_operands == 0)
      say("stage {}, op '{}': a {} cannot work on partial sums", s, op.name, name_of(op.kind));
    if ((used & sharding.partial) != 0)
      say("stage {}, op '{}': a mesh axis splits one of its axes and carries partial sums", s, op.name);
    check_cut(s, 0, sharding.partial, [&] { return fmt::format("op '{}', partial sums", op.name); });
    if (sharding.partial != 0) check_partial_operands(s, op, space, sharding);
    if (sharding.result.partial == 0) return;
    ShardingSpec made = raw_result(space, 0, sharding.axes);
    made.partial = static_cast<AxisMask>(made.partial | sharding.partial);
    if (sharding.result != made)
      say("stage {}, op '{}': its result is produced as {}, so it cannot be stored as {}", s, op.name, made.to_text(),
          sharding.result.to_text());
    for (const OpId id : forward_)
      for (const TensorId input : graph_.op(id).inputs)
        if (input == op.outputs.front() && stage_of_op_[id.index()] != s)
          say("stage {}, op '{}': its result goes to another stage and cannot stay a partial sum", s, op.name);
  }

  // Whole sums cannot be taken apart: what is read as partial sums must have been kept as just these.
  void check_partial_operands(int s, const Op& op, const IterationSpace& space, const OpSharding& sharding) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if ((row_of(op.kind).linear_operands >> i & 1u) == 0) continue;
      const Tensor& tensor = graph_.tensor(op.inputs[i]);
      ShardingSpec wanted = operand_spec(space, i, sharding.axes);
      wanted.partial = sharding.partial;
      const bool made_here = tensor.producer && stage_of_op_[tensor.producer->index()] == s;
      const auto maker = made_here ? stage(s).ops.find(graph_.op(*tensor.producer).name) : stage(s).ops.end();
      if (maker == stage(s).ops.end() || maker->second.result != wanted)
        say("stage {}, op '{}': it reads '{}' as {}, but no op of the stage gives it this sharding", s, op.name,
            tensor.name, wanted.to_text());
    }
  }

  void check_parameter(int s, const std::string& key, const Tensor& tensor) {
    const auto found = stage(s).parameters.find(key);
    if (found == stage(s).parameters.end()) return say("stage {} has no sharding for the parameter '{}'", s, key);
    check_spec(
        s, tensor, found->second.weight, [&] { return fmt::format("weight '{}'", key); }, Padding::Allowed);
    check_spec(
        s, tensor, found->second.state, [&] { return fmt::format("the state of '{}'", key); }, Padding::Allowed);
  }

  void check_input(int s, const Tensor& tensor) {
    const auto found = stage(s).inputs.find(tensor.name);
    if (found == stage(s).inputs.end())
      return say("stage {} has no sharding for the tensor '{}' that it receives", s, tensor.name);
    check_spec(s, tensor, found->second, [&] { return fmt::format("input '{}'", tensor.name); });
  }

  // Whether tiles may be unequal, the last ones ending in padding.
  enum class Padding { None, Allowed };

  // What is kept between ops is whole: partial sums are resolved by the op that made them. `what` returns the name of
  // what is checked: a sentence is rarely said, so its words are put together only then.
  template <class Name>
  void check_spec(int s, const Tensor& tensor, const ShardingSpec& spec, const Name& what,
                  Padding padding = Padding::None) {
    if (spec.dims.size() != tensor.dims.size())
      return say("stage {}, {}: spec {} has {} dimensions, the tensor has {}", s, what(), spec.to_text(),
                 spec.dims.size(), tensor.dims.size());
    if (spec.partial != 0) say("stage {}, {}: spec {} leaves a partial sum", s, what(), spec.to_text());
    AxisMask used = 0;
    for (std::size_t i = 0; i < spec.dims.size(); ++i) {
      if ((used & spec.dims[i]) != 0) say("stage {}, {}: spec {} uses a mesh axis twice", s, what(), spec.to_text());
      used = static_cast<AxisMask>(used | spec.dims[i]);
      const auto name_it = [&] {
        return fmt::format("{}, spec {}, dimension '{}'", what(), spec.to_text(), tensor.dims[i].name);
      };
      check_cut(s, tensor.dims[i].size, spec.dims[i], name_it, padding);
    }
  }

  template <class Name>
  void check_cut(int s, std::int64_t size, AxisMask mask, const Name& what, Padding padding = Padding::None) {
    const auto& shape = stage(s).logical_shape;
    std::int64_t parts = 1;
    for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
      if (!(mask >> axis & 1)) continue;
      if (axis >= static_cast<int>(shape.size()))
        return say("stage {}, {}: mesh axis {} does not exist; the logical mesh has {} axes", s, what(), axis,
                   shape.size());
      const int devices = shape[static_cast<std::size_t>(axis)];
      // Harmless, but a layout must have one spec only: resharding has no step over such an axis.
      if (devices == 1)
        return say("stage {}, {}: mesh axis {} has one device, so nothing can be split over it", s, what(), axis);
      parts *= devices;
    }
    if (size % parts != 0 && padding == Padding::None)
      say("stage {}, {}: {} does not divide into {} shards", s, what(), size, parts);
  }

  const Plan& plan_;
  const Graph& graph_;
  const std::vector<OpId> forward_;
  std::vector<int> stage_of_op_;                      // [op]; -1: not a forward op
  std::vector<std::set<TensorId>> read_in_backward_;  // [stage] forward tensors of other stages
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> check_plan(const Plan& plan, const Graph& graph) {
  return check_plan(plan, graph, fingerprint_of(graph));
}

std::vector<std::string> check_plan(const Plan& plan, const Graph& graph, const std::string& fingerprint) {
  return PlanChecker(plan, graph).check(fingerprint);
}

}  // namespace meshwright
