// SPDX-License-Identifier: Apache-2.0
// One pipeline as a whole program: lowered, checked, simulated, and held against the best so far.
#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/point_search.h"

namespace meshwright {

std::optional<PointSearch::Lowered> PointSearch::lower_pipeline(const TablePipeline& pipeline, ScheduleKind schedule) {
  auto plan = make(pipeline, schedule);
  if (!plan) {
    if (incumbent_.result.reason.empty())
      incumbent_.result.reason = fmt::format("the stages' submeshes have no place side by side on the {} hosts of {}",
                                             request_.cluster.hosts(), request_.cluster.name);
    return std::nullopt;
  }
  const Built& built = graph_of(*plan);
  Lowered lowered{built.graph, std::move(*plan), {}, {}};
  const std::vector<std::string> wrong = check_plan(lowered.plan, *lowered.graph, built.fingerprint);
  MW_CHECK(wrong.empty(), "the planner made a bad plan: {}", wrong.front());
  lowered.program = lower(lowered.plan, *lowered.graph, incumbent_.costs);
  lowered.check = check_program(lowered.program);
  MW_CHECK(lowered.check.violations.empty(), "the plan lowers to a bad program: {}", lowered.check.violations.front());
  for (std::size_t d = 0; d < lowered.check.peak_memory.size(); ++d) {
    Bytes& peak = lowered.plan.stages[lowered.program.stage_of_device[d].index()].peak_memory;
    peak = std::max(peak, lowered.check.peak_memory[d]);
  }
  lowered.plan.predicted.peak_memory = lowered.check.largest_peak();
  return lowered;
}

bool PointSearch::judge(Lowered lowered, const Candidate* candidate) {
  PlanningResult& result = incumbent_.result;
  for (const StagePlan& stage : lowered.plan.stages)
    if (stage.peak_memory > request_.cluster.group(stage.submesh.group).usable_memory()) {
      note_too_large(lowered);
      return false;
    }
  const Seconds step = incumbent_.evaluator.step_time(lowered.program, lowered.check);
  ++result.log.simulations;
  lowered.plan.predicted.step_time = step;
  lowered.plan.predicted.lower_bound = std::min(step, modelled_bound_);
  Seconds score = step;
  const Objective& objective = request_.objective;
  if (objective.kind != Objective::Kind::StepTime) {
    Plan alone = lowered.plan;
    alone.training.batch /= alone.training.microbatches;
    alone.training.microbatches = 1;
    const Program one = lower(alone, *lowered.graph, incumbent_.costs);
    const Seconds latency = incumbent_.evaluator.step_time(one, check_program(one));
    const double throughput = static_cast<double>(training_.batch) / step.si();
    if (throughput < objective.least_throughput || (objective.most_latency && latency > *objective.most_latency)) {
      incumbent_.most_throughput = std::max(incumbent_.most_throughput.value_or(throughput), throughput);
      incumbent_.least_latency = std::min(incumbent_.least_latency.value_or(latency), latency);
      if (!result.plan)
        result.reason =
            objective.most_latency
                ? fmt::format("the least latency found is {}; ask for no less, or give more or faster devices",
                              human_seconds(*incumbent_.least_latency))
                : fmt::format(
                      "the most that is found to be served is {:.6g} samples/s; ask for no more, or give more "
                      "or faster devices",
                      *incumbent_.most_throughput);
      return false;
    }
    if (objective.kind == Objective::Kind::Latency) score = latency;
  }
  if (candidate) {
    score = candidate->known * score;
    const Seconds quick = objective.kind == Objective::Kind::Latency ? candidate->alone : candidate->step;
    // What one schedule's programs take more than their stages tells it from the others.
    const double share = request_.any_schedule ? score / quick : std::min(1.0, score / quick);
    const auto [seen, is_new] =
        incumbent_.least_seen.emplace(std::pair{lowered.plan.schedule, candidate->pipeline.chunks}, share);
    if (!is_new) seen->second = std::min(seen->second, share);
  }
  if (request_.front)
    incumbent_.seen.push_back({lowered.plan, static_cast<int>(lowered.program.stage_of_device.size())});
  incumbent_.say("{} layers, {} micro-batches, {}: {} stages, {}; best {}, here at least {}", layers_.count,
                 training_.microbatches, name_of(lowered.plan.schedule), lowered.plan.stages.size(),
                 human_seconds(score), human_seconds(std::min(score, incumbent_.score.value_or(score))),
                 human_seconds(std::min(score, bound_)));
  if (incumbent_.score && *incumbent_.score <= score) return false;
  incumbent_.score = score;
  result.plan = std::move(lowered.plan);
  result.graph = *lowered.graph;
  result.program = std::move(lowered.program);
  result.check = std::move(lowered.check);
  result.too_large.reset();
  return true;
}

// Remembers why the least hungry of the plans that are too large does not fit.
void PointSearch::note_too_large(const Lowered& lowered) {
  const auto& stages = lowered.plan.stages;
  std::size_t worst = 0;
  const auto excess = [&](std::size_t s) {
    return stages[s].peak_memory - request_.cluster.group(stages[s].submesh.group).usable_memory();
  };
  for (std::size_t s = 1; s < stages.size(); ++s)
    if (excess(s) > excess(worst)) worst = s;
  if (!incumbent_.least_excess || excess(worst) < *incumbent_.least_excess) incumbent_.least_excess = excess(worst);
  PlanningResult& result = incumbent_.result;
  if (result.plan) return;
  const StagePlan& stage = stages[worst];
  const Bytes usable = request_.cluster.group(stage.submesh.group).usable_memory();
  if (result.too_large && result.too_large->needs - result.too_large->usable <= excess(worst)) return;
  result.too_large = PlanningResult::TooLarge{static_cast<int>(worst),
                                              static_cast<int>(stages.size()),
                                              stage.first_layer,
                                              stage.last_layer,
                                              stage.peak_memory,
                                              usable,
                                              incumbent_.evaluator.step_time(lowered.program, lowered.check)};
  result.reason = fmt::format("stage {} of {} (layers {}..{} on {}x{}) needs {} of {} per device", worst, stages.size(),
                              stage.first_layer, stage.last_layer, stage.submesh.hosts, stage.submesh.devices_per_host,
                              human_bytes(stage.peak_memory), human_bytes(usable));
}

}  // namespace meshwright
