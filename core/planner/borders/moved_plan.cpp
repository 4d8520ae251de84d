// SPDX-License-Identifier: Apache-2.0
#include "core/planner/borders/moved_plan.h"

#include <algorithm>
#include <set>

namespace meshwright {

namespace {

// The same ops, split in the same way, with stages that begin elsewhere.
class Rearrangement {
 public:
  Rearrangement(const PlanOfGraph& made, const StagePieces& pieces)
      : plan_(made.plan), graph_(*made.graph), pieces_(pieces), forward_(forward_ops(graph_)) {
    was_.assign(graph_.ops().size(), -1);
    assign(pieces.first_of_stage, was_);
  }

  [[nodiscard]] Plan with(const std::vector<int>& firsts) const {
    Plan plan = plan_;
    set_layers(plan, firsts);
    std::vector<int> now(graph_.ops().size(), -1);
    assign(firsts, now);
    for (StagePlan& stage : plan.stages) {
      stage.ops.clear();
      stage.parameters.clear();
      stage.inputs.clear();
      stage.fan_outs.clear();
      stage.cross_mesh.clear();
    }
    std::vector<bool> sent(graph_.tensors().size(), false);  // [tensor] another stage reads it now
    for (const OpId id : forward_) move_op(plan, graph_.op(id), now, sent);
    for (const OpId id : forward_) move_fan_outs(plan, graph_.op(id), now, sent);
    for (const Op& op : graph_.ops())
      if (op.phase == Phase::Backward && op.forward) move_backward_inputs(plan, op, now);
    return plan;
  }

 private:
  [[nodiscard]] int begin_of(int piece) const { return pieces_.pieces[static_cast<std::size_t>(piece)].begin; }

  void assign(const std::vector<int>& firsts, std::vector<int>& stage_of) const {
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      const auto end = s + 1 < firsts.size() ? static_cast<std::size_t>(begin_of(firsts[s + 1])) : forward_.size();
      for (auto p = static_cast<std::size_t>(begin_of(firsts[s])); p < end; ++p)
        stage_of[forward_[p].index()] = static_cast<int>(s);
    }
  }

  // Layers begin where they did, and where stages do now.
  void set_layers(Plan& plan, const std::vector<int>& firsts) const {
    std::set<int> starts(plan.layer_starts.begin(), plan.layer_starts.end());
    for (const int first : firsts) starts.insert(begin_of(first));
    plan.layer_starts.assign(starts.begin(), starts.end());
    const auto layer_at = [&](int begin) {
      return static_cast<int>(std::lower_bound(plan.layer_starts.begin(), plan.layer_starts.end(), begin) -
                              plan.layer_starts.begin());
    };
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      StagePlan& stage = plan.stages[s];
      const int end = s + 1 < firsts.size() ? firsts[s + 1] : static_cast<int>(pieces_.pieces.size());
      stage.first_layer = layer_at(begin_of(firsts[s]));
      stage.last_layer =
          s + 1 < firsts.size() ? layer_at(begin_of(end)) - 1 : static_cast<int>(plan.layer_starts.size()) - 1;
      PieceTimes times;
      for (int p = firsts[s]; p < end; ++p) times += pieces_.pieces[static_cast<std::size_t>(p)];
      stage.forward = times.forward;
      stage.backward = times.backward;
      stage.update = times.update;
    }
  }

  [[nodiscard]] const StagePlan& before(const Op& op) const {
    return plan_.stages[static_cast<std::size_t>(was_[op.id.index()])];
  }

  // The sharding in which the stage that had `reader` got or kept the tensor.
  [[nodiscard]] ShardingSpec spec_for(const Tensor& tensor, const Op& reader) const {
    const StagePlan& stage = before(reader);
    if (const auto input = stage.inputs.find(tensor.name); input != stage.inputs.end()) return input->second;
    ShardingSpec spec = before(graph_.op(*tensor.producer)).ops.at(graph_.op(*tensor.producer).name).result;
    spec.partial = 0;
    return spec;
  }

  void move_op(Plan& plan, const Op& op, const std::vector<int>& now, std::vector<bool>& sent) const {
    const int of = now[op.id.index()];
    StagePlan& stage = plan.stages[static_cast<std::size_t>(of)];
    stage.ops.emplace(op.name, before(op).ops.at(op.name));
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph_.tensor(input);
      if (tensor.kind == TensorKind::Parameter) {
        const std::string key = op.name + "/" + tensor.name;
        stage.parameters.emplace(key, before(op).parameters.at(key));
      } else if (tensor.producer && now[tensor.producer->index()] != of) {
        stage.inputs.emplace(tensor.name, spec_for(tensor, op));
        sent[input.index()] = true;
      }
    }
  }

  // Where another stage reads the tensor now, none fans it out.
  void move_fan_outs(Plan& plan, const Op& op, const std::vector<int>& now, const std::vector<bool>& sent) const {
    const TensorId made = op.outputs.front();
    const auto found = before(op).fan_outs.find(graph_.tensor(made).name);
    if (found == before(op).fan_outs.end() || sent[made.index()]) return;
    plan.stages[static_cast<std::size_t>(now[op.id.index()])].fan_outs.insert(*found);
  }

  // What a stage got for its backward alone, it gets still.
  void move_backward_inputs(Plan& plan, const Op& op, const std::vector<int>& now) const {
    const int of = now[op.forward->index()];
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph_.tensor(input);
      if (!tensor.producer || now[tensor.producer->index()] < 0 || now[tensor.producer->index()] == of) continue;
      const StagePlan& stage = before(graph_.op(*op.forward));
      if (const auto found = stage.inputs.find(tensor.name); found != stage.inputs.end())
        plan.stages[static_cast<std::size_t>(of)].inputs.insert(*found);
    }
  }

  const Plan& plan_;
  const Graph& graph_;
  const StagePieces& pieces_;
  const std::vector<OpId> forward_;
  std::vector<int> was_;  // [op] its stage in the plan; -1: not a forward op
};

}  // namespace

bool same_meshes(const StagePlan& a, const StagePlan& b) {
  return a.submesh == b.submesh && a.logical_shape == b.logical_shape && a.contexts == b.contexts;
}

Plan moved_plan(const PlanOfGraph& made, const StagePieces& pieces, const std::vector<int>& first_of_stage) {
  return Rearrangement(made, pieces).with(first_of_stage);
}

}  // namespace meshwright
