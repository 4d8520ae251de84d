// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/prepared_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr std::size_t kKeys = 1, kValues = 2;  // operands of an attention, and the places of their gradients

bool is_ring(const LocalOp& op) { return op.kind == LocalOp::Kind::Reshard && op.step && op.step->ring; }

bool is_attention(const LocalOp& op) {
  return op.kind == LocalOp::Kind::Compute &&
         (op.work.kind == OpKind::GroupedAttention || op.work.kind == OpKind::GroupedAttentionBackward);
}

// [slot] the ring that brings its value, if one does.
std::map<int, int> rings_by_slot(const StageExecutable& executable) {
  std::map<int, int> rings;
  for (const LocalOp& op : executable.ops)
    if (is_ring(op) && op.step->kind == ReshardStep::Kind::AllGather) rings.emplace(op.outputs[0], op.step->axis);
  return rings;
}

std::optional<int> ring_of_attention(const std::map<int, int>& rings, const LocalOp& op) {
  if (!is_attention(op)) return std::nullopt;
  const auto ring_of = [&](std::size_t operand) {
    const auto found = rings.find(op.inputs[operand]);
    return found == rings.end() ? std::nullopt : std::optional(found->second);
  };
  const std::optional<int> keys = ring_of(kKeys);
  MW_CHECK(keys == ring_of(kValues), "keys and values of op {} travel apart", op.op.value);
  return keys;
}

class Preparation {
 public:
  Preparation(const Graph& graph, const StageExecutable& executable)
      : graph_(graph),
        executable_(executable),
        slots_(static_cast<int>(executable.slots.size())),
        provided_(executable.slots.size(), false),
        touched_(executable.slots.size(), false) {}

  PreparedExecutable run() {
    find_roots();
    find_sources();
    find_definitions();
    for (int i = 0; i < ops(); ++i) result_.ops.push_back(prepare_op(i));
    find_releases();
    find_rings();
    find_loss();
    find_only_next_reads();
    find_single_readers();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const StageExecutable::Slot& slot(int s) const {
    return executable_.slots[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] const LocalOp& op(int i) const { return executable_.ops[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int ops() const { return static_cast<int>(executable_.ops.size()); }

  void find_roots() {
    for (int s = 0; s < slots_; ++s) {
      int root = s;
      // Aliases may form chains: a slot, a view of it, a view of that.
      while (slot(root).alias_of) root = *slot(root).alias_of;
      result_.root.push_back(root);
    }
  }

  // The storage of a root slot comes from a buffer, from the op that writes it, or, for a graph input, is allocated
  // when the Run starts.
  void find_sources() {
    IndexedVector<int, bool> written(executable_.slots.size(), false);
    for (const LocalOp& writer : executable_.ops)
      for (const int s : writer.outputs) written[s] = true;
    result_.accumulated.assign(executable_.slots.size(), false);
    for (int s = 0; s < slots_; ++s) {
      if (result_.root[s] != s) continue;
      if (slot(s).buffer && slot(s).input) {
        result_.bound.push_back(s);
        provided_[s] = true;
      } else if (!written[s]) {
        const Tensor& tensor = graph_.tensor(slot(s).local.tensor);
        MW_CHECK(tensor.kind == TensorKind::Input, "slot {} ('{}') has neither a buffer nor a producer", s,
                 tensor.name);
        result_.inputs.push_back(s);
        provided_[s] = true;
      }
    }
  }

  // Several slots may write one buffer; the first of them defines it.
  void find_definitions() {
    std::set<BufferId> known;
    for (const int s : result_.bound) known.insert(*slot(s).buffer);
    for (int s = 0; s < slots_; ++s) {
      const StageExecutable::Slot& one = slot(s);
      if (one.buffer && one.output && known.insert(*one.buffer).second) result_.defines.push_back(s);
    }
  }

  PreparedOp prepare_op(int i) {
    const LocalOp& local = op(i);
    PreparedOp prepared;
    if (local.kind == LocalOp::Kind::Compute) prepared.call = plan_op(graph_, graph_.op(local.op), local.axis_sizes);
    if (local.kind == LocalOp::Kind::Compute && graph_.op(local.op).kind == OpKind::Accumulate) {
      const int accumulator = result_.root[local.inputs[0]];
      // The first op on a sum that counts as zero may copy into it, if it accumulates; any other op reads it and needs
      // the zeros.
      prepared.first_touch = !touched_[accumulator];
      if (prepared.first_touch) result_.accumulated[accumulator] = true;
    }
    for (const int s : local.inputs) {
      MW_CHECK(provided_[result_.root[s]], "op {} reads slot {} before it is written", i, s);
      touched_[result_.root[s]] = true;
    }
    for (const int s : local.outputs) {
      const int root = result_.root[s];
      touched_[root] = true;
      // Storage may exist already: a buffer's, or from an earlier op on the same root.
      if (provided_[root]) continue;
      provided_[root] = true;
      prepared.allocate.push_back(root);
    }
    return prepared;
  }

  // A temporary's storage is released after the last use of any slot that shares it.
  void find_releases() {
    IndexedVector<int, int> last_use(executable_.slots.size(), -1);
    IndexedVector<int, bool> temporary(executable_.slots.size(), true);
    for (int s = 0; s < slots_; ++s) {
      const int root = result_.root[s];
      last_use[root] = std::max(last_use[root], slot(s).last_use);
      if (slot(s).buffer) temporary[root] = false;
    }
    for (int s = 0; s < slots_; ++s) {
      if (result_.root[s] != s || !temporary[s] || !provided_[s]) continue;
      MW_CHECK(last_use[s] >= 0 && last_use[s] < result_.ops.count(), "temporary slot {} is never used", s);
      result_.ops[last_use[s]].release.push_back(s);
    }
  }

  void find_rings() {
    const std::map<int, int> rings = rings_by_slot(executable_);
    for (int i = 0; i < ops(); ++i) {
      const std::optional<int> axis = ring_of_attention(rings, op(i));
      if (!axis) continue;
      PreparedOp& prepared = result_.ops[i];
      prepared.ring = axis;
      const auto released = [&](std::size_t input) {
        const std::vector<int>& last = prepared.release;
        return std::find(last.begin(), last.end(), result_.root[op(i).inputs[input]]) != last.end();
      };
      prepared.last_of_ring = released(1) && released(2);
    }
  }

  void find_loss() {
    if (executable_.phase != Phase::Forward || !graph_.loss) return;
    for (int i = 0; i < ops(); ++i)
      for (const int s : op(i).outputs)
        // A partial loss is still to be reduced.
        if (slot(s).local.tensor == *graph_.loss && slot(s).local.spec.partial == 0) {
          result_.loss_op = i;
          result_.loss_slot = s;
        }
  }

  // See OpCallPlan::only_next_reads. A slot that shares storage, or whose value outlives the Run, is read elsewhere.
  void find_only_next_reads() {
    IndexedVector<int, int> sharing(executable_.slots.size(), 0);
    for (const int root : result_.root) ++sharing[root];
    for (int i = 0; i + 1 < ops(); ++i) {
      if (op(i).kind != LocalOp::Kind::Compute || op(i + 1).kind != LocalOp::Kind::Compute) continue;
      if (op(i).outputs.size() != 1) continue;
      const int s = op(i).outputs[0];
      const bool temporary = !slot(s).buffer && sharing[s] == 1 && result_.root[s] == s;
      const bool is_loss = result_.loss_op == i;
      result_.ops[i].call->only_next_reads = temporary && !is_loss && slot(s).last_use == i + 1;
    }
  }

  // See OpCallPlan::one_reader.
  void find_single_readers() {
    IndexedVector<int, int> sharing(executable_.slots.size(), 0), readers(executable_.slots.size(), 0);
    for (const int root : result_.root) ++sharing[root];
    for (const LocalOp& reader : executable_.ops)
      for (const int s : reader.inputs) ++readers[s];
    for (int i = 0; i < ops(); ++i) {
      if (op(i).kind != LocalOp::Kind::Compute || op(i).outputs.empty()) continue;
      const int s = op(i).outputs[0];
      const bool temporary = !slot(s).buffer && sharing[s] == 1 && result_.root[s] == s;
      result_.ops[i].call->one_reader = temporary && result_.loss_op != i && readers[s] == 1;
    }
  }

  const Graph& graph_;
  const StageExecutable& executable_;
  const int slots_;
  PreparedExecutable result_;
  IndexedVector<int, bool> provided_;  // [root] has storage
  IndexedVector<int, bool> touched_;   // [root] by an op so far
};

}  // namespace

PreparedExecutable prepare(const Graph& graph, const StageExecutable& executable) {
  return Preparation(graph, executable).run();
}

void expect_rings_of_attention(const Graph& graph, const LogicalMesh& mesh, const StageExecutable& executable) {
  const auto in_blocks = [&](int s) {
    const LocalTensor& local = executable.slots[static_cast<std::size_t>(s)].local;
    const std::vector<Dim>& dims = graph.tensor(local.tensor).dims;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d].name == kKeySequence)
        return shards(static_cast<AxisMask>(mesh.contexts.rings & ~local.spec.dims[d]), mesh) > 1;
    return false;
  };
  for (const LocalOp& op : executable.ops) {
    if (is_ring(op) || is_attention(op)) continue;
    for (const std::vector<int>* slots : {&op.inputs, &op.outputs})
      for (const int s : *slots)
        require(!in_blocks(s),
                "the plan uses '{}' apart from attention while it travels around a ring (cp-comm=p2p), which is "
                "simulated, but not run; plan with cp-comm=all-gather.",
                graph.tensor(executable.slots[static_cast<std::size_t>(s)].local.tensor).name);
  }
}

}  // namespace meshwright
