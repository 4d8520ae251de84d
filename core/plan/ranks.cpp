// SPDX-License-Identifier: Apache-2.0
#include "core/plan/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

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

std::vector<std::string> wrong_ranks(const Plan& plan, const StageGraph& feeding) {
  const ScheduleTraits traits = traits_of(plan.schedule);
  if (traits.chunks == 1) return not_one_stage_each(plan);
  if (const auto shared = overlap(plan)) return {*shared};
  const char* kind = name_of(plan.schedule);
  const std::size_t stages = plan.stages.size(), ranks = count_lists(plan);
  const int chunks = static_cast<int>(stages / ranks);
  if (stages % ranks != 0 || (traits.chunks ? chunks != *traits.chunks : chunks < 2))
    return {fmt::format("{} stages lie on {} lists of devices; under {} each list must have {} stages", stages, ranks,
                        kind, traits.chunks ? fmt::format("{}", *traits.chunks) : "equally many, at least 2,")};
  const int count = static_cast<int>(stages);
  const std::vector<int> rank_of = ranks_of_stages(plan.schedule, count, chunks);
  for (std::size_t s = 0; s < stages; ++s) {
    const auto first = static_cast<std::size_t>(rank_of[s]);  // stage r is the first of rank r
    if (plan.stages[s].devices != plan.stages[first].devices)
      return {fmt::format("stage {} does not lie on the devices of stage {}, where {} has it", s, first, kind)};
  }
  for (int s = 0; s + 1 < count; ++s) {
    const std::vector<int>& fed = feeding.feeds[static_cast<std::size_t>(s)];
    if (std::find(fed.begin(), fed.end(), s + 1) == fed.end())
      return {
          fmt::format("under {} every stage must feed the next, but stage {} does not feed stage {}", kind, s, s + 1)};
  }
  return {};
}

}  // namespace meshwright
