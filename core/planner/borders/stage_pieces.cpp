// SPDX-License-Identifier: Apache-2.0
#include "core/planner/borders/stage_pieces.h"

#include <algorithm>
#include <optional>

#include "core/plan/lowering/collective_op.h"
#include "core/plan/lowering/lower.h"

namespace meshwright {

namespace {

// A piece that takes a smaller share of the mean stage is none of its own.
constexpr double kLeastShare = 1.0 / 32;

class Cutter {
 public:
  Cutter(const PlanOfGraph& made, const CostModel& costs)
      : plan_(made.plan), graph_(*made.graph), costs_(costs), forward_(forward_ops(graph_)) {
    position_of_op_.assign(graph_.ops().size(), 0);
    reader_of_parameter_.assign(graph_.tensors().size(), -1);
    for (int p = 0; p < ops(); ++p) position_of_op_[forward_[p].index()] = p;
    for (const Op& op : graph_.ops())
      if (op.phase == Phase::Backward && op.forward) position_of_op_[op.id.index()] = position_of(*op.forward);
    for (int p = ops() - 1; p >= 0; --p)
      for (const TensorId input : graph_.op(forward_[p]).inputs) reader_of_parameter_[input.index()] = p;
    times_.resize(forward_.size());
  }

  StagePieces cut() {
    add_times();
    find_stage_begins();
    StagePieces found;
    Seconds mean(0.0);
    for (const PieceTimes& of : times_) mean += of.pass();
    mean = (1.0 / static_cast<double>(begins_.size())) * mean;
    const std::vector<bool> allowed = allowed_begins();
    std::size_t stage = 0;
    for (int p = 0; p < ops(); ++p) {
      const bool begins_stage = stage < begins_.size() && begins_[stage] == p;
      if (begins_stage) {
        // A piece too short to stand alone at a stage's end stays with the piece before.
        merge_short(found, mean);
        found.first_of_stage.push_back(static_cast<int>(found.pieces.size()));
        ++stage;
      }
      const bool long_enough = found.pieces.empty() || found.pieces.back().pass() >= kLeastShare * mean;
      if (begins_stage || (allowed[static_cast<std::size_t>(p)] && long_enough)) found.pieces.push_back({{}, p});
      found.pieces.back() += times_[static_cast<std::size_t>(p)];
    }
    merge_short(found, mean);
    scale_to_plan(found);
    return found;
  }

 private:
  [[nodiscard]] int ops() const { return static_cast<int>(forward_.size()); }
  [[nodiscard]] int position_of(OpId op) const { return position_of_op_[op.index()]; }

  static void merge_short(StagePieces& found, Seconds mean) {
    const std::size_t first = found.first_of_stage.empty() ? 0 : static_cast<std::size_t>(found.first_of_stage.back());
    if (found.pieces.size() < first + 2 || found.pieces.back().pass() >= kLeastShare * mean) return;
    const StagePiece last = found.pieces.back();
    found.pieces.pop_back();
    found.pieces.back() += last;
  }

  void find_stage_begins() {
    for (int s = 0; s < stages_per_copy(plan_); ++s)
      begins_.push_back(plan_.layer_starts[static_cast<std::size_t>(plan_.stages[s].first_layer)]);
  }

  // [position] no more bytes of forward tensors cross there than where the plan's stages begin.
  [[nodiscard]] std::vector<bool> allowed_begins() const {
    std::vector<Bytes> crossing(forward_.size() + 1, Bytes(0.0));  // differences first
    std::vector<int> last_reader(graph_.tensors().size(), -1);
    for (int p = 0; p < ops(); ++p)
      for (const TensorId input : graph_.op(forward_[p]).inputs) last_reader[input.index()] = p;
    for (int p = 0; p < ops(); ++p)
      for (const TensorId output : graph_.op(forward_[p]).outputs) {
        const int last = last_reader[output.index()];
        if (last <= p) continue;
        crossing[static_cast<std::size_t>(p) + 1] += graph_.tensor(output).bytes();
        crossing[static_cast<std::size_t>(last) + 1] -= graph_.tensor(output).bytes();
      }
    for (std::size_t p = 1; p < crossing.size(); ++p) crossing[p] += crossing[p - 1];
    Bytes most(0.0);
    for (std::size_t s = 1; s < begins_.size(); ++s)
      most = std::max(most, crossing[static_cast<std::size_t>(begins_[s])]);
    std::vector<bool> allowed;
    for (int p = 0; p < ops(); ++p) allowed.push_back(crossing[static_cast<std::size_t>(p)] <= most);
    return allowed;
  }

  // The position of the forward op that a tensor of the update belongs to.
  [[nodiscard]] std::optional<int> position_of_tensor(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    const TensorId of = tensor.parameter.value_or(id);
    if (graph_.tensor(of).kind == TensorKind::Parameter && reader_of_parameter_[of.index()] >= 0)
      return reader_of_parameter_[of.index()];
    if (tensor.producer && graph_.op(*tensor.producer).phase != Phase::Update) return position_of(*tensor.producer);
    return std::nullopt;
  }

  [[nodiscard]] std::optional<int> position_of_local(const StageExecutable& executable, const LocalOp& op) const {
    if (op.kind == LocalOp::Kind::Compute) {
      const Op& of = graph_.op(op.op);
      if (of.phase != Phase::Update) return position_of(of.id);
      for (const TensorId input : of.inputs)
        if (const auto found = position_of_tensor(input)) return found;
      return std::nullopt;
    }
    return position_of_tensor(executable.slots[static_cast<std::size_t>(op.inputs.front())].local.tensor);
  }

  [[nodiscard]] Seconds time_of(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh) const {
    const CostModel& costs = costs_.on(mesh.of.group);
    if (op.kind == LocalOp::Kind::Compute) return costs.compute(op.work).time;
    if (!op.is_collective()) return Seconds(0.0);
    const CollectiveOp collective = collective_of(executable, op, mesh);
    return costs.collective(collective.kind, collective.bytes, mesh.axes[static_cast<std::size_t>(op.step->axis)]).time;
  }

  void add_executable(const Program& program, const ProgramStage& stage, std::optional<int> number,
                      const std::vector<Seconds PieceTimes::*>& to) {
    if (!number) return;
    const StageExecutable& executable = program.executables[static_cast<std::size_t>(*number)];
    for (const LocalOp& op : executable.ops) {
      const std::optional<int> at = position_of_local(executable, op);
      if (!at) continue;
      const Seconds time = time_of(executable, op, stage.mesh);
      for (Seconds PieceTimes::*const part : to) times_[static_cast<std::size_t>(*at)].*part += time;
    }
  }

  void add_times() {
    LoweredStages lowered(plan_, graph_, costs_);
    const Program& program = lowered.of_one_microbatch();
    for (int s = 0; s < stages_per_copy(plan_); ++s) {
      const ProgramStage& stage = program.stages[static_cast<std::size_t>(s)];
      add_executable(program, stage, stage.forward, {&PieceTimes::forward});
      if (stage.backward_input || stage.backward_weight) {
        add_executable(program, stage, stage.backward_input, {&PieceTimes::backward});
        add_executable(program, stage, stage.backward_weight, {&PieceTimes::backward, &PieceTimes::weight});
      } else {
        add_executable(program, stage, stage.backward, {&PieceTimes::backward});
      }
      for (const std::optional<int>& once : {stage.sync, stage.norm, stage.update})
        add_executable(program, stage, once, {&PieceTimes::update});
    }
  }

  // What a software adds to ops, or hides, is spread over the pieces of a stage.
  void scale_to_plan(StagePieces& found) const {
    for (std::size_t s = 0; s < found.first_of_stage.size(); ++s) {
      const auto begin = found.pieces.begin() + found.first_of_stage[s];
      const auto end =
          s + 1 < found.first_of_stage.size() ? found.pieces.begin() + found.first_of_stage[s + 1] : found.pieces.end();
      const auto scale = [&](Seconds PieceTimes::*part, Seconds told) {
        Seconds sum(0.0);
        for (auto piece = begin; piece != end; ++piece) sum += (*piece).*part;
        if (told <= Seconds(0.0) || sum <= Seconds(0.0)) return 1.0;
        for (auto piece = begin; piece != end; ++piece) (*piece).*part = (told / sum) * (*piece).*part;
        return told / sum;
      };
      const StagePlan& stage = plan_.stages[s];
      scale(&PieceTimes::forward, stage.forward);
      const double backward = scale(&PieceTimes::backward, stage.backward);
      for (auto piece = begin; piece != end; ++piece) piece->weight = backward * piece->weight;
      scale(&PieceTimes::update, stage.update);
    }
  }

  const Plan& plan_;
  const Graph& graph_;
  const CostModel& costs_;
  const std::vector<OpId> forward_;
  std::vector<int> position_of_op_;       // [op]
  std::vector<int> reader_of_parameter_;  // [tensor] position of its first forward reader; -1: none
  std::vector<PieceTimes> times_;         // [position]
  std::vector<int> begins_;               // [stage] position
};

}  // namespace

StagePieces cut_into_pieces(const PlanOfGraph& made, const CostModel& costs) { return Cutter(made, costs).cut(); }

}  // namespace meshwright
