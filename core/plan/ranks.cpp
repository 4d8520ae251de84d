// SPDX-License-Identifier: Apache-2.0
#include "core/plan/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/schedule/check_schedule.h"

namespace meshwright {

namespace {

// The number of ranks is that of the lists of devices.
std::size_t count_lists(const Plan& plan) {
  std::set<std::vector<int>> lists;
  for (const StagePlan& stage : plan.stages) lists.insert(stage.devices);
  return lists.size();
}

// Two stages that share some device but are no rank; nothing: there are none.
std::optional<std::string> overlap(const Plan& plan) {
  std::map<int, std::size_t> first;  // [device] stage
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const int device : plan.stages[s].devices) {
      const std::size_t other = first.emplace(device, s).first->second;
      const bool same =
          plan.stages[other].devices == plan.stages[s].devices && plan.stages[other].submesh == plan.stages[s].submesh;
      if (!same)
        return fmt::format(
            "stages {} and {} share device {}; under {} such stages must have one submesh and the same devices in the "
            "same order",
            other, s, device, name_of(plan.schedule));
    }
  return std::nullopt;
}

// The first stage that does not feed the next, as a sentence.
std::optional<std::string> no_line(const Plan& plan, const StageGraph& feeding) {
  for (int s = 0; s + 1 < stages_per_copy(plan); ++s) {
    const std::vector<int>& fed = feeding.feeds[static_cast<std::size_t>(s)];
    if (std::find(fed.begin(), fed.end(), s + 1) == fed.end())
      return fmt::format("under {} every stage must feed the next, but stage {} does not feed stage {}",
                         name_of(plan.schedule), s, s + 1);
  }
  return std::nullopt;
}

std::vector<std::string> not_one_stage_each(const Plan& plan) {
  std::vector<std::string> wrong;
  std::map<int, std::size_t> owner;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const int device : plan.stages[s].devices) {
      const auto [first, added] = owner.emplace(device, s);
      if (!added && first->second != s)
        wrong.push_back(fmt::format("device {} belongs to stage {} and to stage {}", device, first->second, s));
    }
  return wrong;
}

}  // namespace

int chunks_of(const Plan& plan) { return static_cast<int>(plan.stages.size() / count_lists(plan)); }

std::vector<int> rank_of_stages(const Plan& plan) {
  if (plan.schedule == ScheduleKind::Custom) return shape_of(plan.runs.value()).rank_of_stage;
  return ranks_of_stages(plan.schedule, static_cast<int>(plan.stages.size()), chunks_of(plan));
}

int used_devices(const Plan& plan) {
  std::set<int> devices;
  for (const StagePlan& stage : plan.stages) devices.insert(stage.devices.begin(), stage.devices.end());
  return static_cast<int>(devices.size());
}

Schedule schedule_of(const Plan& plan, const StageGraph& feeding) {
  return schedule_of(plan, feeding, static_cast<int>(plan.training.microbatches));
}

Schedule schedule_of(const Plan& plan, const StageGraph& feeding, int microbatches) {
  if (plan.schedule == ScheduleKind::Custom) return plan.runs.value();
  return make_schedule(plan.schedule, feeding.stages_after, microbatches, chunks_of(plan));
}

std::vector<BackwardPasses> backward_passes(const Plan& plan) {
  const ScheduleTraits traits = traits_of(plan.schedule);
  const BackwardPasses every{traits.trains && !traits.splits_backward, traits.splits_backward};
  if (plan.schedule != ScheduleKind::Custom) return std::vector<BackwardPasses>(plan.stages.size(), every);
  std::vector<BackwardPasses> passes(plan.stages.size());
  for (const auto& runs : plan.runs.value())
    for (const ScheduledRun& run : runs) {
      BackwardPasses& own = passes[run.stage.index()];
      own.whole = own.whole || run.pass == Pass::Backward;
      own.halves = own.halves || run.pass == Pass::BackwardInput;
    }
  return passes;
}

std::optional<std::string> wrong_runs(const Schedule& runs, const Plan& plan, const std::string& place) {
  if (auto wrong = wrong_schedule(runs, {.place = place, .numbers = {}})) return wrong;
  const ScheduleShape shape = shape_of(runs);
  if (!shape.trains) return fmt::format("{} has no backward runs; a custom schedule must be for training", place);
  if (shape.microbatches != plan.training.microbatches)
    return fmt::format("{} has {} micro-batches, the plan has {}", place, shape.microbatches,
                       plan.training.microbatches);
  if (shape.rank_of_stage.size() != plan.stages.size())
    return fmt::format("{} has {} stages, the plan has {}", place, shape.stages(), plan.stages.size());
  std::map<std::vector<int>, std::size_t> first_on;  // [devices] stage
  std::map<int, std::size_t> first_of;               // [rank] stage
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int rank = shape.rank_of_stage[s];
    const std::size_t first = first_of.emplace(rank, s).first->second;
    if (plan.stages[s].devices != plan.stages[first].devices)
      return fmt::format("{} has stages {} and {} on rank {}, but the plan has them on different devices", place, first,
                         s, rank);
    const std::size_t other = first_on.emplace(plan.stages[s].devices, s).first->second;
    if (shape.rank_of_stage[other] != rank)
      return fmt::format("{} has stages {} and {} on ranks {} and {}, but the plan has them on the same devices", place,
                         other, s, shape.rank_of_stage[other], rank);
  }
  return std::nullopt;
}

std::vector<std::string> wrong_ranks(const Plan& plan, const StageGraph& feeding) {
  const ScheduleTraits traits = traits_of(plan.schedule);
  if (plan.schedule != ScheduleKind::Custom && plan.runs)
    return {fmt::format("schedule_runs are given, but the schedule is {}; only a custom schedule has them",
                        name_of(plan.schedule))};
  if (traits.chunks == 1) return not_one_stage_each(plan);
  if (const auto shared = overlap(plan)) return {*shared};
  if (plan.schedule == ScheduleKind::Custom) {
    if (!plan.runs) return {"the schedule is custom, but no schedule_runs are given"};
    std::optional<std::string> wrong = wrong_runs(*plan.runs, plan, "schedule_runs");
    if (!wrong) wrong = no_line(plan, feeding);
    return wrong ? std::vector{*wrong} : std::vector<std::string>{};
  }
  const char* kind = name_of(plan.schedule);
  const std::size_t stages = plan.stages.size(), ranks = count_lists(plan);
  const int chunks = static_cast<int>(stages / ranks);
  if (stages % ranks != 0 || (traits.chunks ? chunks != *traits.chunks : chunks < 2))
    return {fmt::format("{} stages are on {} lists of devices; under {} each list must have {} stages", stages, ranks,
                        kind, traits.chunks ? fmt::format("{}", *traits.chunks) : "equally many, at least 2,")};
  const int count = static_cast<int>(stages);
  const std::vector<int> rank_of = ranks_of_stages(plan.schedule, count, chunks);
  for (std::size_t s = 0; s < stages; ++s) {
    const auto first = static_cast<std::size_t>(rank_of[s]);  // stage r is the first of rank r
    if (plan.stages[s].devices != plan.stages[first].devices)
      return {fmt::format("stage {} is not on the devices of stage {}, where {} puts it", s, first, kind)};
  }
  if (const auto line = no_line(plan, feeding)) return {*line};
  if (const auto unmet = unmet_by(plan.schedule, static_cast<int>(ranks), plan.training.microbatches))
    return {fmt::format("{} needs {}", kind, *unmet)};
  return {};
}

}  // namespace meshwright
