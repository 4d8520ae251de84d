// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/lost.h"

#include <fmt/ranges.h>

#include "cli/documents/figures/report.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::size_t kListed = 10;

std::string mesh_text(const StagePlace& place) {
  const std::string group = place.submesh.group == 0 ? "" : fmt::format("@{}", place.submesh.group);
  return fmt::format("{}x{}{} as {}", place.submesh.hosts, place.submesh.devices_per_host, group,
                     fmt::join(place.shape, "x"));
}

void add_stage_differences(std::vector<std::string>& found, const ConsideredPlan& plan, const ConsideredPlan& chosen) {
  bool cuts = false, shardings = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlace &own = plan.stages[s].name.place, &other = chosen.stages[s].name.place;
    cuts = cuts || own.first != other.first || own.last != other.last;
    if (mesh_text(own) != mesh_text(other))
      found.push_back(fmt::format("stage {}: {} instead of {}", s, mesh_text(own), mesh_text(other)));
    shardings = shardings || plan.stages[s].name != chosen.stages[s].name;
  }
  if (cuts) found.emplace_back("stages cut between other layers");
  if (found.empty() && shardings) found.emplace_back("other shardings in its stages");
}

Json loser_json(const ConsideredPlan& plan, const ConsideredPlan& chosen) {
  Json json = {{"num_layers", plan.layer_starts.size()}, {"micro_batches", plan.microbatches},
               {"schedule", name_of(plan.schedule)},     {"stages", stages_text(plan)},
               {"differs", differences(plan, chosen)},   {"simulated", plan.simulated.has_value()},
               {"reason", reason_text(plan, &chosen)}};
  if (!plan.stages.empty()) json["num_stages"] = plan.stages.size();
  if (!plan.degrees.empty()) json["degrees"] = plan.degrees;
  if (plan.estimated) json["estimated_s"] = plan.estimated->si();
  if (plan.simulated) json["simulated_s"] = plan.simulated->si();
  if (plan.simulated && chosen.simulated) json["slower_s"] = (*plan.simulated - *chosen.simulated).si();
  if (plan.needs) json["needs_bytes"] = bytes_json(*plan.needs);
  return json;
}

struct FateName {
  ConsideredPlan::Fate fate;
  const char* name;
};
constexpr FateName kFates[] = {
    {ConsideredPlan::Fate::Fits, "fit"},
    {ConsideredPlan::Fate::TooLarge, "too_large"},
    {ConsideredPlan::Fate::RuledOut, "too_large_like_another"},
    {ConsideredPlan::Fate::NoPlace, "no_place"},
    {ConsideredPlan::Fate::MissesGoal, "miss_the_goal"},
    {ConsideredPlan::Fate::Bound, "not_expected_to_win"},
    {ConsideredPlan::Fate::Twin, "as_fast_as_another_by_stages"},
    {ConsideredPlan::Fate::Limit, "after_enough_better_ones"},
    {ConsideredPlan::Fate::Inexpressible, "inexpressible"},
};

}  // namespace

std::vector<std::string> differences(const ConsideredPlan& plan, const ConsideredPlan& chosen) {
  std::vector<std::string> found;
  const auto add = [&](const auto& own, const auto& other, const char* format) {
    if (own != other) found.push_back(fmt::format(fmt::runtime(format), own, other));
  };
  const auto degrees = [](const ConsideredPlan& of) {
    return of.degrees.empty() ? std::string("stages of any kind") : of.degrees;
  };
  add(degrees(plan), degrees(chosen), "{} instead of {}");
  if (!plan.stages.empty() && !chosen.stages.empty())
    add(plan.stages.size(), chosen.stages.size(), "{} stages instead of {}");
  if (!plan.layer_starts.empty() && !chosen.layer_starts.empty())
    add(plan.layer_starts.size(), chosen.layer_starts.size(), "{} layers instead of {}");
  add(plan.microbatches, chosen.microbatches, "{} micro-batches instead of {}");
  add(std::string(name_of(plan.schedule)), std::string(name_of(chosen.schedule)), "schedule {} instead of {}");
  add(plan.chunks, chosen.chunks, "{} stages on each rank instead of {}");
  if (plan.stages.size() == chosen.stages.size()) add_stage_differences(found, plan, chosen);
  return found;
}

Json lost_json(const ConsideredPlans& considered) {
  const std::vector<const ConsideredPlan*> ranked = considered.ranked();
  const ConsideredPlan* chosen = considered.chosen();
  Json json = {{"considered", ranked.size()}, {"best", Json::array()}};
  std::size_t simulated = 0;
  std::map<ConsideredPlan::Fate, std::size_t> counts;
  for (const ConsideredPlan* plan : ranked) {
    simulated += plan->simulated ? 1 : 0;
    ++counts[plan->fate];
    if (chosen != nullptr && plan != chosen && json["best"].size() < kListed)
      json["best"].push_back(loser_json(*plan, *chosen));
  }
  json["simulated"] = simulated;
  json["not_simulated"] = ranked.size() - simulated;
  for (const FateName& of : kFates)
    if (counts.contains(of.fate)) json["fates"][of.name] = counts[of.fate];
  return json;
}

}  // namespace meshwright
