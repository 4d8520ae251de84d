// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lowering/adapt_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/lowering/lower.h"
#include "core/plan/ranks.h"
#include "core/schedule/schedule.h"

namespace meshwright {

namespace {

constexpr int kTries = 8;  // values looked at on each side of the one that was asked

Graph graph_of(const Plan& plan) { return build_step_graph(plan.model, plan.training, plan.schedule); }

std::string shape_of(const Cluster& cluster) {
  std::vector<std::string> groups;
  for (const HostGroup& group : cluster.groups)
    groups.push_back(fmt::format("{}x{}", group.hosts, group.devices_per_host));
  return join(groups, " + ");
}

void replace_cluster(Plan& plan, const Cluster& cluster) {
  require(shape_of(cluster) == shape_of(plan.cluster),
          "the plan is for {} with {} hosts x devices, but {} has {}; give a cluster of the same shape, or make a plan "
          "for this one.",
          plan.cluster.name, shape_of(plan.cluster), cluster.name, shape_of(cluster));
  for (const HostGroup& group : cluster.groups)
    require(group.device.peak.contains(name_of(plan.training.dtype)),
            "cluster {} has no FLOP rate for {}, the type of the plan's weights; make another plan with --dtype.",
            cluster.name, name_of(plan.training.dtype));
  plan.cluster = cluster;
}

// Expected for other work.
void clear_predictions(Plan& plan) {
  plan.predicted = {};
  for (StagePlan& stage : plan.stages) {
    stage.forward = stage.backward = stage.update = Seconds(0.0);
    stage.peak_memory = Bytes(0.0);
  }
}

Plan changed(Plan plan, const PlanChanges& changes) {
  require(!changes.seq || plan.model.seq > 0, "model {} has no sequence; leave --seq out.", plan.model.name);
  require(!changes.seq || !plan.model.file,
          "model {} is read from a file, which has its own sequence; leave --seq out, or plan it again with --dim.",
          plan.model.name);
  if (changes.seq) plan.model.seq = *changes.seq;
  if (changes.batch) plan.training.batch = *changes.batch;
  if (changes.schedule || changes.runs) {
    const ScheduleKind kind = changes.runs ? ScheduleKind::Custom : *changes.schedule;
    require((kind == ScheduleKind::Inference) == (plan.schedule == ScheduleKind::Inference),
            "a plan for {} cannot be used as {}; make another plan.", name_of(plan.schedule), name_of(kind));
    require(traits_of(kind).copies == traits_of(plan.schedule).copies,
            "a plan for {} cannot be used as {}: under one of them every stage is on the devices of two; make another "
            "plan.",
            name_of(plan.schedule), name_of(kind));
    plan.schedule = kind;
    plan.runs = changes.runs;
  } else if (plan.schedule == ScheduleKind::Custom) {
    // A custom schedule lists the runs of every micro-batch, so their number cannot change alone.
    require(!changes.microbatches || *changes.microbatches == plan.training.microbatches,
            "the plan has a custom schedule for exactly {} micro-batches; give a schedule for {} too.",
            plan.training.microbatches, changes.microbatches.value_or(0));
  }
  if (changes.microbatches) plan.training.microbatches = *changes.microbatches;
  if (changes.cluster) replace_cluster(plan, *changes.cluster);
  clear_predictions(plan);
  return plan;
}

// What is given run by run and is just the schedule of a kind, `likely` or another, is that kind: its messages pass as
// they do there.
void name_schedule(Plan& plan, ScheduleKind likely, const Graph& graph) {
  const StageGraph feeding = stage_graph(plan, graph);
  std::vector<ScheduleKind> kinds = all_schedules();
  if (likely != ScheduleKind::Custom) kinds.insert(kinds.begin(), likely);
  for (const ScheduleKind kind : kinds) {
    if (traits_of(kind).copies > 1) continue;  // every stage of a custom schedule runs every microbatch
    Plan named = plan;
    named.schedule = kind;
    named.runs.reset();
    if (!wrong_ranks(named, feeding).empty() || schedule_of(named, feeding) != *plan.runs) continue;
    plan = std::move(named);
    return;
  }
}

bool is_sound(const Plan& plan, const PlanChanges& changes) {
  try {
    return adapt_plan(plan, changes).broken.empty();
  } catch (const InputError&) {
    return false;  // a sequence that the model does not take
  }
}

// What the sizes of these axes must divide by where ops split them.
std::int64_t common_parts(const Plan& plan, const std::vector<std::string>& names) {
  std::int64_t parts = 1;
  for (const StagePlan& stage : plan.stages)
    for (const auto& [op, sharding] : stage.ops)
      for (const auto& [name, mask] : sharding.axes) {
        if (std::find(names.begin(), names.end(), name) == names.end()) continue;
        std::int64_t product = 1;
        for (std::size_t axis = 0; axis < stage.logical_shape.size(); ++axis)
          if (mask >> axis & 1) product *= stage.logical_shape[axis];
        // Each op divides the axis into its own number of parts: a multiple of all of them suits every op.
        parts = std::lcm(parts, product);
      }
  return parts;
}

// The first of `candidates` with which the plan is sound, as `set` puts it into the changes.
template <class Set>
void add_sound(std::vector<std::int64_t>& values, const Plan& plan, PlanChanges changes,
               const std::vector<std::int64_t>& candidates, const Set& set) {
  for (std::size_t i = 0; i < candidates.size() && i < kTries; ++i) {
    set(changes, candidates[i]);
    if (!is_sound(plan, changes)) continue;
    values.push_back(candidates[i]);
    return;
  }
}

struct BothSides {
  std::vector<std::int64_t> below, above;  // nearest first
};

BothSides multiples(std::int64_t unit, std::int64_t asked) {
  BothSides sides;
  for (std::int64_t i = 0; i < kTries; ++i) {
    const std::int64_t low = ((asked - 1) / unit - i) * unit, high = (asked / unit + 1 + i) * unit;
    if (low > 0) sides.below.push_back(low);
    sides.above.push_back(high);
  }
  return sides;
}

BothSides divisors_beside(std::int64_t whole, std::int64_t asked) {
  BothSides sides;
  for (const std::int64_t divisor : divisors(whole)) {
    if (divisor < asked) sides.below.push_back(divisor);
    if (divisor > asked) sides.above.push_back(divisor);
  }
  std::reverse(sides.below.begin(), sides.below.end());
  return sides;
}

template <class Set>
std::vector<std::int64_t> sound(const Plan& plan, const PlanChanges& changes, const BothSides& sides, const Set& set) {
  std::vector<std::int64_t> values;
  add_sound(values, plan, changes, sides.below, set);
  add_sound(values, plan, changes, sides.above, set);
  return values;
}

Bytes usable_memory(const Plan& plan, std::size_t stage) {
  return plan.cluster.usable_memory_of(plan.stages[stage].devices.front());  // its devices are alike
}

// Microbatches whose activations a stage keeps, with those of other stages on its devices.
int kept_at_most(const Plan& plan, const Program& program, std::size_t stage) {
  if (plan.schedule == ScheduleKind::Custom)
    return max_in_flight(plan.runs.value())[static_cast<std::size_t>(rank_of_stages(plan)[stage])];
  std::vector<int> after;
  for (const ProgramStage& each : program.stages) after.push_back(each.stages_after);
  if (!traits_of(plan.schedule).line)
    return in_flight(plan.schedule, after[stage], program.microbatches, *std::max_element(after.begin(), after.end()));
  const int chunks = chunks_of(plan);
  const int rank = ranks_of_stages(plan.schedule, static_cast<int>(after.size()), chunks)[stage];
  return max_in_flight(
      make_schedule(plan.schedule, after, program.microbatches, chunks))[static_cast<std::size_t>(rank)];
}

std::string flag_text(const char* flag, const std::vector<std::int64_t>& values) {
  return fmt::format("{} {}", flag, fmt::join(values, " or "));
}

}  // namespace

AdaptedPlan adapt_plan(const Plan& plan, const PlanChanges& changes) {
  AdaptedPlan adapted{changed(plan, changes), {}};
  const TrainingOptions& training = adapted.plan.training;
  if (training.batch < 1 || training.microbatches < 1 || training.batch % training.microbatches != 0) {
    adapted.broken.push_back(
        fmt::format("a batch of {} cannot be divided into {} micro-batches", training.batch, training.microbatches));
    return adapted;
  }
  const Graph graph = graph_of(adapted.plan);
  adapted.plan.graph_fingerprint = fingerprint_of(graph);
  adapted.broken = check_plan(adapted.plan, graph, adapted.plan.graph_fingerprint);
  if (changes.runs && adapted.broken.empty()) name_schedule(adapted.plan, plan.schedule, graph);
  return adapted;
}

SoundValues nearest_sound_values(const Plan& plan, const PlanChanges& changes) {
  SoundValues found;
  PlanChanges only_seq, others = changes;
  only_seq.seq = changes.seq;
  if (changes.seq && !is_sound(plan, only_seq)) {
    others.seq = std::nullopt;  // so that the batch is judged by itself
    found.seq = sound(plan, only_seq, multiples(common_parts(plan, {"seq", "kv_seq"}), *changes.seq),
                      [](PlanChanges& c, std::int64_t value) { c.seq = value; });
  }
  if ((!changes.batch && !changes.microbatches) || is_sound(plan, others)) return found;
  const std::int64_t batch = changes.batch.value_or(plan.training.batch);
  const std::int64_t microbatches = changes.microbatches.value_or(plan.training.microbatches);
  // Every micro-batch has to divide, so the batch is a multiple of their number times the parts.
  if (changes.batch && microbatches >= 1)
    found.batch = sound(plan, others, multiples(microbatches * common_parts(plan, {"batch"}), batch),
                        [](PlanChanges& c, std::int64_t value) { c.batch = value; });
  if (batch >= 1)
    found.microbatches = sound(plan, others, divisors_beside(batch, microbatches),
                               [](PlanChanges& c, std::int64_t value) { c.microbatches = value; });
  return found;
}

Plan adapt_soundly(const Plan& plan, const PlanChanges& changes) {
  // The new graph's fingerprint would hide that the plan is for another.
  const std::vector<std::string> before = check_plan(plan, graph_of(plan));
  if (!before.empty()) throw InputError(before.front());
  AdaptedPlan adapted = adapt_plan(plan, changes);
  if (adapted.broken.empty()) return std::move(adapted.plan);
  const SoundValues values = nearest_sound_values(plan, changes);
  std::vector<std::string> batches, works;
  if (!values.batch.empty()) batches.push_back(flag_text("--batch", values.batch));
  if (!values.microbatches.empty()) batches.push_back(flag_text("--micro-batches", values.microbatches));
  if (!batches.empty()) works.push_back(join(batches, ", or "));
  if (!values.seq.empty()) works.push_back(flag_text("--seq", values.seq));
  const std::size_t more = adapted.broken.size() - 1;
  throw InputError(
      fmt::format("{}{}; {}.", adapted.broken.front(), more == 0 ? "" : fmt::format(" (and {} more)", more),
                  works.empty() ? "make another plan for this" : "the nearest that work: " + join(works, "; and ")));
}

std::vector<StageFit> stage_fits(const Plan& plan, const Program& program, const ProgramCheck& check) {
  std::vector<StageFit> fits;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    StageFit fit{Bytes(0.0), usable_memory(plan, s), kept_at_most(plan, program, s)};
    for (const DeviceId device : program.stages[s].devices)
      fit.needs = std::max(fit.needs, check.peak_memory[device.index()]);
    if (!program.host_bytes.empty() && fit.fits()) {
      const Bytes on_host = program.host_bytes[program.stages[s].devices.front().index()];
      const Bytes there = plan.cluster.group(plan.stages[s].submesh.group).device.host_memory;
      if (on_host > there) fit.needs = on_host, fit.usable = there;
    }
    fits.push_back(fit);
  }
  return fits;
}

std::optional<std::int64_t> fewest_microbatches_that_fit(const Plan& plan, const CostModel& costs) {
  if (plan.schedule == ScheduleKind::Custom) return std::nullopt;
  // Fewest first: more microbatches are smaller ones, which keep fewer bytes.
  for (const std::int64_t microbatches : divisors_beside(plan.training.batch, plan.training.microbatches).above) {
    PlanChanges changes;
    changes.microbatches = microbatches;
    const AdaptedPlan adapted = adapt_plan(plan, changes);
    if (!adapted.broken.empty()) continue;
    const Graph graph = graph_of(adapted.plan);
    const Program program = lower(adapted.plan, graph, costs);
    // What lives throughout does not shrink with the microbatches.
    for (std::size_t d = 0; d < program.devices.size(); ++d)
      if (program.persistent_bytes[d] > usable_memory(plan, program.stage_of_device[d].index())) return std::nullopt;
    const std::vector<StageFit> fits = stage_fits(adapted.plan, program, check_program(program));
    if (std::all_of(fits.begin(), fits.end(), [](const StageFit& fit) { return fit.fits(); })) return microbatches;
  }
  return std::nullopt;
}

}  // namespace meshwright
