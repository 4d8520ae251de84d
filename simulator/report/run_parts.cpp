// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/run_parts.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/recomputation.h"
#include "simulator/program/parameter_moves.h"

namespace meshwright {

const char* name_of(TimeKind kind) {
  switch (kind) {
    case TimeKind::Products:
      return "products";
    case TimeKind::Attention:
      return "attention";
    case TimeKind::OtherCompute:
      return "other compute";
    case TimeKind::MemoryBound:
      return "memory-bound ops";
    case TimeKind::Launch:
      return "launches";
    case TimeKind::TensorCollective:
      return "tensor collectives";
    case TimeKind::ExpertCollective:
      return "expert collectives";
    case TimeKind::GradientCollective:
      return "gradient collectives";
    case TimeKind::WeightGather:
      return "weight gathers";
    case TimeKind::HostCopy:
      return "host copies";
    case TimeKind::Message:
      return "messages";
    case TimeKind::Bubble:
      return "bubble";
    case TimeKind::Idle:
      return "idle";
  }
  throw InternalError("unknown kind of time");
}

bool is_collective(TimeKind kind) { return kind >= TimeKind::TensorCollective && kind <= TimeKind::WeightGather; }

const char* name_of(TimePass pass) {
  switch (pass) {
    case TimePass::Forward:
      return "forward";
    case TimePass::Recompute:
      return "recompute";
    case TimePass::Backward:
      return "backward";
    case TimePass::Update:
      return "update";
    case TimePass::None:
      return "";
  }
  throw InternalError("unknown pass");
}

void add_parts(TimeParts& sum, const TimeParts& more, std::int64_t times) {
  for (const auto& [part, time] : more) {
    PartTime& own = sum[part];
    own.exposed.ps += times * time.exposed.ps;
    own.hidden.ps += times * time.hidden.ps;
  }
}

SimTime exposed_of(const TimeParts& parts) {
  SimTime sum{0};
  for (const auto& [part, time] : parts) sum += time.exposed;
  return sum;
}

TimeParts scaled_to(const TimeParts& parts, SimTime whole) {
  const SimTime sum = exposed_of(parts);
  if (sum == whole) return parts;
  MW_CHECK(sum > SimTime{0} || whole == SimTime{0}, "nothing to make {} ps of", whole.ps);
  TimeParts scaled;
  // Ends are rounded, not times, so that these add up.
  std::int64_t before = 0, told = 0;
  const double scale = sum.ps == 0 ? 0.0 : static_cast<double>(whole.ps) / static_cast<double>(sum.ps);
  for (const auto& [part, time] : parts) {
    before += time.exposed.ps;
    const std::int64_t end = before == sum.ps ? whole.ps : std::llround(scale * static_cast<double>(before));
    scaled[part] = {SimTime{end - told}, time.hidden};
    told = end;
  }
  return scaled;
}

namespace {

bool is_product(OpKind kind) {
  return kind == OpKind::Contract || kind == OpKind::Convolution || kind == OpKind::ConvolutionBackwardInput ||
         kind == OpKind::ConvolutionBackwardWeight;
}

bool is_attention(OpKind kind) {
  return (kind >= OpKind::Attention && kind <= OpKind::IndexScores) || kind == OpKind::SelectedAttention ||
         kind == OpKind::SelectedAttentionBackward;
}

TimePass pass_of(const StageExecutable& executable) {
  switch (executable.phase) {
    case Phase::Forward:
      return TimePass::Forward;
    case Phase::Backward:
      return TimePass::Backward;
    case Phase::Update:
      return TimePass::Update;
  }
  throw InternalError("unknown phase");
}

bool computes(TimeKind kind) { return kind <= TimeKind::Launch; }

}  // namespace

Seconds RunParts::roofline_of(const StageExecutable& executable, const LocalOp& op) const {
  const DeviceKind& device = cluster_.group(mesh_of(executable).of.group).device;
  Seconds time = op.work.bytes / device.memory_bandwidth;
  const auto peak = device.peak.find(name_of(op.work.dtype));
  if (op.work.flops.si() > 0 && peak != device.peak.end()) time = std::max(time, op.work.flops / peak->second);
  return time;
}

TimePart RunParts::part_of(const StageExecutable& executable, const LocalOp& op) const {
  TimePart part{.pass = pass_of(executable)};
  if (op.kind == LocalOp::Kind::Compute) {
    if (executable.phase == Phase::Backward && is_recomputation(graph_, graph_.op(op.op)))
      part.pass = TimePass::Recompute;
    const Seconds launch = cluster_.group(mesh_of(executable).of.group).device.launch;
    part.kind = roofline_of(executable, op) < launch ? TimeKind::Launch
                : is_product(op.work.kind)           ? TimeKind::Products
                : is_attention(op.work.kind)         ? TimeKind::Attention
                : op.work.flops.si() > 0             ? TimeKind::OtherCompute
                                                     : TimeKind::MemoryBound;
    return part;
  }
  if (!op.is_collective()) {
    part.kind = op.kind == LocalOp::Kind::HostCopy ? TimeKind::HostCopy : TimeKind::MemoryBound;
    return part;
  }
  const LogicalMesh& mesh = mesh_of(executable);
  part.collective = collective_of(executable, op, mesh).kind;
  part.axis = op.step->axis;
  if (ParameterMoves(program_, executable).is_one(op)) {
    part.kind = part.collective == CollectiveKind::AllGather ? TimeKind::WeightGather : TimeKind::GradientCollective;
    return part;
  }
  part.kind = TimeKind::TensorCollective;
  if (part.collective == CollectiveKind::AllToAll) {
    const TensorId tensor = executable.slots[static_cast<std::size_t>(op.inputs[0])].local.tensor;
    const std::vector<Dim>& dims = graph_.tensor(tensor).dims;
    if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.name == "expert"; }))
      part.kind = TimeKind::ExpertCollective;
  }
  return part;
}

// Returns all that it takes.
Seconds RunParts::add_op(const StageExecutable& executable, const LocalOp& op, Amounts& amounts) const {
  const LogicalMesh& mesh = mesh_of(executable);
  const Seconds time = op_cost(executable, op, mesh, costs_).time;
  const Seconds moved = host_transfers(executable, op, mesh, costs_);
  const TimePart part = part_of(executable, op);
  if (time > moved) amounts[part].exposed += (time - moved).si();
  if (moved > Seconds(0.0)) amounts[{.pass = part.pass, .kind = TimeKind::HostCopy}].exposed += moved.si();
  return time;
}

// `times`: of all ops of the executable.
void RunParts::add_overhead(const StageExecutable& executable, const std::vector<Seconds>& times,
                            Amounts& amounts) const {
  const LogicalMesh& mesh = mesh_of(executable);
  const CostModel& costs = costs_.on(mesh.of.group);
  const Seconds inside = run_overhead(program_, executable, mesh, costs, times);
  const Seconds apart = run_overhead(program_, executable, mesh, costs, times, ParameterTime::Apart);
  const auto hide = [&](double lack, auto is_hidden) {
    double sum = 0.0;
    for (const auto& [part, amount] : amounts) sum += is_hidden(part.kind) ? amount.exposed : 0.0;
    const double taken = std::clamp(lack, 0.0, sum);
    if (taken == 0.0) return 0.0;
    for (auto& [part, amount] : amounts) {
      if (!is_hidden(part.kind)) continue;
      const double share = taken / sum * amount.exposed;
      amount.exposed -= share;
      // Products that are computed as one take less; only what moves goes on beside them.
      if (!computes(part.kind)) amount.hidden += share;
    }
    return taken;
  };
  double beyond = inside.si();
  beyond += hide((apart - inside).si(),
                 [](TimeKind kind) { return kind == TimeKind::GradientCollective || kind == TimeKind::WeightGather; });
  beyond += hide(-beyond, [](TimeKind kind) { return computes(kind); });
  beyond += hide(-beyond, [](TimeKind kind) { return !computes(kind); });
  if (beyond > 0.0) amounts[{.pass = pass_of(executable), .kind = TimeKind::Launch}].exposed += beyond;
}

namespace {

// The exposed times add up to `whole`, in proportion.
template <class Amounts>
TimeParts in_picoseconds(const Amounts& amounts, SimTime whole, TimePass pass) {
  double sum = 0.0;
  for (const auto& [part, amount] : amounts) sum += amount.exposed;
  TimeParts parts;
  if (sum <= 0.0) {
    if (whole != SimTime{0}) parts[{.pass = pass, .kind = TimeKind::Launch}].exposed = whole;
    return parts;
  }
  const double scale = static_cast<double>(whole.ps) / sum;
  double end = 0.0;
  std::int64_t told = 0;
  for (const auto& [part, amount] : amounts) {
    end += amount.exposed;
    const std::int64_t rounded = std::llround(scale * end);
    parts[part] = {SimTime{rounded - told}, to_sim_time(Seconds(amount.hidden))};
    told = rounded;
  }
  // The sum of all is rounded like `whole`, but for the last bit of a double.
  parts.rbegin()->second.exposed.ps += whole.ps - told;
  return parts;
}

}  // namespace

TimeParts RunParts::of_run(int number, SimTime whole) const {
  const StageExecutable& executable = program_.executables[static_cast<std::size_t>(number)];
  Amounts amounts;
  std::vector<Seconds> times;
  for (const LocalOp& op : executable.ops) times.push_back(add_op(executable, op, amounts));
  add_overhead(executable, times, amounts);
  double known = 0.0;
  for (const auto& [part, amount] : amounts) known += amount.exposed;
  const double beyond = to_seconds(whole).si() - known;
  if (beyond > 1e-12 + 1e-9 * known) {
    const bool updates = executable.phase == Phase::Update;
    const TimePart part = updates ? TimePart{.pass = TimePass::Update, .kind = TimeKind::GradientCollective}
                                  : TimePart{.kind = TimeKind::Message};
    amounts[part].exposed += beyond;
  }
  return in_picoseconds(amounts, whole, pass_of(executable));
}

TimeParts RunParts::of_measured_run(int number, const std::vector<Seconds>& op_times, SimTime whole) const {
  const StageExecutable& executable = program_.executables[static_cast<std::size_t>(number)];
  Amounts amounts;
  if (op_times.empty()) {
    std::vector<Seconds> times;
    for (const LocalOp& op : executable.ops) times.push_back(add_op(executable, op, amounts));
    add_overhead(executable, times, amounts);
    for (auto& [part, amount] : amounts) amount.hidden = 0.0;  // nothing of it was measured
    return in_picoseconds(amounts, whole, pass_of(executable));
  }
  MW_CHECK(op_times.size() == executable.ops.size(), "{} times of {} ops", op_times.size(), executable.ops.size());
  Seconds inside(0.0);
  for (std::size_t o = 0; o < op_times.size(); ++o) {
    amounts[part_of(executable, executable.ops[o])].exposed += op_times[o].si();
    inside += op_times[o];
  }
  if (const Seconds beyond = to_seconds(whole) - inside; beyond > Seconds(0.0))
    amounts[{.pass = pass_of(executable), .kind = TimeKind::Launch}].exposed += beyond.si();
  return in_picoseconds(amounts, whole, pass_of(executable));
}

TimeParts RunParts::of_piece(int number, const Piece& piece) const {
  const StageExecutable& executable = program_.executables[static_cast<std::size_t>(number)];
  Amounts amounts;
  Seconds apart(0.0);  // what the ops take, each for itself
  for (const int o : piece.ops) apart += add_op(executable, executable.ops[static_cast<std::size_t>(o)], amounts);
  const SimTime duration = piece.duration;
  const double left = apart.si() - to_seconds(duration).si();
  const bool ring =
      piece.kind == Piece::Kind::Collective && executable.ops[static_cast<std::size_t>(piece.ops.front())].step->ring;
  if (piece.kind == Piece::Kind::Compute && left < -1e-12)
    amounts[{.pass = pass_of(executable), .kind = TimeKind::Launch}].exposed -= left;
  TimeParts parts = in_picoseconds(amounts, duration, pass_of(executable));
  // A ring goes on beside the attention that it feeds.
  if (ring && left > 0.0) parts.begin()->second.hidden = to_sim_time(Seconds(left));
  return parts;
}

}  // namespace meshwright
