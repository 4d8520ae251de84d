// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/prepared_program.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

class Preparation {
 public:
  Preparation(const Graph& graph, const StageExecutable& executable)
      : graph_(graph), executable_(executable), slots_(executable.slots.size()), result_() {}

  PreparedExecutable run() {
    find_roots();
    find_sources();
    for (std::size_t i = 0; i < executable_.ops.size(); ++i) result_.ops.push_back(prepare_op(static_cast<int>(i)));
    find_releases();
    find_loss();
    find_only_next_reads();
    return std::move(result_);
  }

 private:
  const StageExecutable::Slot& slot(int s) const { return executable_.slots[index(s)]; }

  void find_roots() {
    for (std::size_t s = 0; s < slots_; ++s) {
      int root = static_cast<int>(s);
      while (slot(root).alias_of) root = *slot(root).alias_of;
      result_.root.push_back(root);
    }
  }

  // Storage comes from a buffer, from an op's result, or, for a graph input, is made at the start.
  void find_sources() {
    std::vector<bool> written(slots_, false);
    for (const LocalOp& op : executable_.ops)
      for (const int s : op.outputs) written[index(s)] = true;
    provided_.assign(slots_, false);
    touched_.assign(slots_, false);
    result_.accumulated.assign(slots_, false);
    std::vector<BufferId> known;
    for (std::size_t i = 0; i < slots_; ++i) {
      const int s = static_cast<int>(i);
      if (result_.root[i] != s) continue;
      if (slot(s).buffer && slot(s).input) {
        result_.bound.push_back(s);
        known.push_back(*slot(s).buffer);
        provided_[i] = true;
      } else if (!written[i]) {
        const Tensor& tensor = graph_.tensor(slot(s).local.tensor);
        MW_CHECK(tensor.kind == TensorKind::Input, "slot {} ('{}') has neither a buffer nor a producer", s,
                 tensor.name);
        result_.inputs.push_back(s);
        provided_[i] = true;
      }
    }
    for (std::size_t i = 0; i < slots_; ++i) {
      const auto& one = executable_.slots[i];
      if (!one.buffer || !one.output || std::find(known.begin(), known.end(), *one.buffer) != known.end()) continue;
      result_.defines.push_back(static_cast<int>(i));
      known.push_back(*one.buffer);
    }
  }

  PreparedOp prepare_op(int i) {
    const LocalOp& op = executable_.ops[index(i)];
    PreparedOp prepared;
    if (op.kind == LocalOp::Kind::Compute) prepared.call = plan_op(graph_, graph_.op(op.op), op.axis_sizes);
    if (op.kind == LocalOp::Kind::Compute && graph_.op(op.op).kind == OpKind::Accumulate) {
      const int accumulator = result_.root[index(op.inputs[0])];
      prepared.first_touch = !touched_[index(accumulator)];
      if (prepared.first_touch) result_.accumulated[index(accumulator)] = true;
    }
    for (const int s : op.inputs) {
      MW_CHECK(provided_[index(result_.root[index(s)])], "op {} reads slot {} before it is written", i, s);
      touched_[index(result_.root[index(s)])] = true;
    }
    for (const int s : op.outputs) {
      const int root = result_.root[index(s)];
      touched_[index(root)] = true;
      if (provided_[index(root)]) continue;
      provided_[index(root)] = true;
      prepared.allocate.push_back(root);
    }
    return prepared;
  }

  void find_releases() {
    std::vector<int> last_use(slots_, -1);
    std::vector<bool> temporary(slots_, true);
    for (std::size_t s = 0; s < slots_; ++s) {
      const std::size_t root = index(result_.root[s]);
      last_use[root] = std::max(last_use[root], executable_.slots[s].last_use);
      if (executable_.slots[s].buffer) temporary[root] = false;
    }
    for (std::size_t s = 0; s < slots_; ++s)
      if (result_.root[s] == static_cast<int>(s) && temporary[s] && provided_[s]) {
        MW_CHECK(last_use[s] >= 0 && index(last_use[s]) < result_.ops.size(), "temporary slot {} is never used", s);
        result_.ops[index(last_use[s])].release.push_back(static_cast<int>(s));
      }
  }

  void find_loss() {
    if (executable_.phase != Phase::Forward || !graph_.loss) return;
    for (std::size_t i = 0; i < executable_.ops.size(); ++i)
      for (const int s : executable_.ops[i].outputs)
        if (slot(s).local.tensor == *graph_.loss && slot(s).local.spec.partial == 0) {
          result_.loss_op = static_cast<int>(i);
          result_.loss_slot = s;
        }
  }

  void find_only_next_reads() {
    std::vector<int> sharing(slots_, 0);
    for (const int root : result_.root) ++sharing[index(root)];
    for (std::size_t i = 0; i + 1 < executable_.ops.size(); ++i) {
      const LocalOp &op = executable_.ops[i], &next = executable_.ops[i + 1];
      if (op.kind != LocalOp::Kind::Compute || next.kind != LocalOp::Kind::Compute || op.outputs.size() != 1) continue;
      const int s = op.outputs[0];
      const bool temporary = !slot(s).buffer && sharing[index(s)] == 1 && result_.root[index(s)] == s;
      const bool is_loss = result_.loss_op == static_cast<int>(i);
      result_.ops[i].call->only_next_reads = temporary && !is_loss && slot(s).last_use == static_cast<int>(i) + 1;
    }
  }

  const Graph& graph_;
  const StageExecutable& executable_;
  const std::size_t slots_;
  PreparedExecutable result_;
  std::vector<bool> provided_;  // [root] has storage
  std::vector<bool> touched_;   // [root] by an op so far
};

}  // namespace

PreparedExecutable prepare(const Graph& graph, const StageExecutable& executable) {
  return Preparation(graph, executable).run();
}

}  // namespace meshwright
