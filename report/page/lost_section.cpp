// SPDX-License-Identifier: Apache-2.0
#include "report/page/lost_section.h"

#include <map>

#include "core/base/text.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

std::optional<Seconds> time_of_plan(const ConsideredPlan& plan) {
  return plan.simulated ? plan.simulated : plan.estimated;
}

// Simulations are held against simulations, estimates against estimates.
std::optional<Seconds> loss_of(const ConsideredPlan& plan, const ConsideredPlan* chosen) {
  if (chosen == nullptr) return std::nullopt;
  if (plan.simulated && chosen->simulated) return *plan.simulated - *chosen->simulated;
  if (!plan.simulated && plan.estimated && chosen->estimated) return *plan.estimated - *chosen->estimated;
  return std::nullopt;
}

const char* group_of(ConsideredPlan::Fate fate) {
  switch (fate) {
    case ConsideredPlan::Fate::Fits:
      return "simulated and fit";
    case ConsideredPlan::Fate::TooLarge:
    case ConsideredPlan::Fate::RuledOut:
      return "do not fit in memory";
    case ConsideredPlan::Fate::NoPlace:
      return "find no place side by side";
    case ConsideredPlan::Fate::MissesGoal:
      return "miss the goal";
    case ConsideredPlan::Fate::Bound:
      return "were not expected to beat the best found before";
    case ConsideredPlan::Fate::Twin:
      return "take as long as others with as many stages";
    case ConsideredPlan::Fate::Limit:
      return "came after enough better ones";
    case ConsideredPlan::Fate::Inexpressible:
      return "are expressed by no plan";
  }
  throw InternalError("unknown fate of a plan");
}

std::string counts_html(const std::vector<const ConsideredPlan*>& ranked) {
  std::map<std::string, std::int64_t> counts;
  for (const ConsideredPlan* plan : ranked) ++counts[group_of(plan->fate)];
  HtmlTable table("What became of all plans that were considered", {{"plans that", HtmlTable::Align::Text}, {"count"}});
  for (const auto& [group, count] : counts) table.add_row({group, grouped(count)});
  return table.html();
}

}  // namespace

namespace {

// "0..3 on 1x4 as 2x2; ...": the stages without the number of their sharding.
std::string without_options(const std::string& stages) {
  std::string text;
  for (const std::string& stage : split(stages, ';')) text += stage.substr(0, stage.rfind(" #")) + ";";
  return text;
}

std::string name_of_plan(const ConsideredPlan& plan) { return plan.degrees.empty() ? stages_text(plan) : plan.degrees; }

// Stages behind each other that are alike but for their layers are one: "0..13 in 14 stages, each on 1x4 as 2x2 #0".
std::string in_short(const ConsideredPlan& plan) {
  if (!plan.degrees.empty() || plan.stages.empty()) return name_of_plan(plan);
  std::vector<std::string> parts;
  for (std::size_t s = 0; s < plan.stages.size();) {
    std::size_t last = s;
    const auto alike = [&](const ConsideredStage& a, const ConsideredStage& b) {
      const StagePlace &one = a.name.place, &other = b.name.place;
      return one.submesh == other.submesh && one.shape == other.shape && one.batch_axis == other.batch_axis &&
             a.name.option == b.name.option && one.last - one.first == other.last - other.first &&
             other.first > one.last;
    };
    while (last + 1 < plan.stages.size() && alike(plan.stages[last], plan.stages[last + 1])) ++last;
    ConsideredPlan one = plan;
    one.stages = {plan.stages[s]};
    const std::string text = stages_text(one);
    const std::size_t on = text.find(" on ");
    parts.push_back(last == s ? text
                              : fmt::format("{}..{} in {} stages, each{}", plan.stages[s].name.place.first,
                                            plan.stages[last].name.place.last, last - s + 1, text.substr(on)));
    s = last + 1;
  }
  return join(parts, "; ");
}

// What the chosen plan is held against: "" where nothing is known.
std::string bound_text(const Plan& plan) {
  const Seconds bound = plan.predicted.lower_bound, step = plan.predicted.step_time;
  if (bound.si() <= 0.0 || step.si() <= 0.0) return "";
  return fmt::format(
      " No plan at all takes less than {}, by the search's bound; the chosen one takes {}, a gap of {} %.",
      time_text(bound), time_text(step), percent_text(1.0 - bound / step));
}

std::string likeness_of(const ConsideredPlan& plan) {
  const std::optional<Seconds> time = time_of_plan(plan);
  return fmt::format("{} {} {} {} {} {}", without_options(name_of_plan(plan)), plan.layer_starts.size(),
                     plan.microbatches, name_of(plan.schedule), static_cast<int>(plan.fate),
                     time ? milliseconds_text(*time) : "");
}

}  // namespace

PageSection lost_section(const ConsideredPlans& considered, const Plan& chosen_plan) {
  constexpr std::size_t kNext = 10;
  const std::vector<const ConsideredPlan*> ranked = considered.ranked();
  const ConsideredPlan* chosen = considered.chosen();
  HtmlTable table("The plans that lost", {{"rank"},
                                          {"stages: layers on submesh as logical mesh", HtmlTable::Align::Code},
                                          {"plans"},
                                          {"layers"},
                                          {"micro-batches"},
                                          {"schedule", HtmlTable::Align::Text},
                                          {"step, ms"},
                                          {"more, ms"},
                                          {"more, %"},
                                          {"memory, GiB"},
                                          {"known by", HtmlTable::Align::Text},
                                          {"why it lost", HtmlTable::Align::Text}});
  std::map<std::string, std::int64_t> alike;
  for (const ConsideredPlan* plan : ranked)
    if (plan != chosen) ++alike[likeness_of(*plan)];
  std::map<ConsideredPlan::Fate, int> others;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const ConsideredPlan& plan = *ranked[i];
    const auto like = alike.find(likeness_of(plan));
    if (&plan == chosen || like == alike.end()) continue;  // or it is one of a row's
    // Three plans of each reason say enough of what was not simulated to the end.
    if (table.rows() >= kNext && (plan.fate == ConsideredPlan::Fate::Fits || ++others[plan.fate] > 3)) continue;
    const std::int64_t plans = like->second;
    alike.erase(like);
    const std::optional<Seconds> time = time_of_plan(plan);
    const std::optional<Seconds> more = loss_of(plan, chosen);
    table.add_row({grouped(static_cast<std::int64_t>(i + 1)), in_short(plan), grouped(plans),
                   plan.layer_starts.empty() ? "" : fmt::format("{}", plan.layer_starts.size()),
                   grouped(plan.microbatches), name_of(plan.schedule), time ? milliseconds_text(*time) : "",
                   more ? milliseconds_text(*more) : "", more && time ? percent_text(*more / (*time - *more)) : "",
                   plan.needs ? gibibytes_text(*plan.needs) : "",
                   plan.simulated ? "simulation"
                   : time         ? "estimate"
                                  : "",
                   reason_text(plan, chosen)});
  }
  const std::string lead =
      table.rows() == 0
          ? "No other plan was considered."
          : fmt::format(
                "{} lost to the chosen one. The next are listed, then some of each other reason; plans that differ in "
                "shardings alone (#) and take as long are one row. An estimate is of the stages alone, or a bound, and "
                "held against that of the chosen plan.",
                counted(static_cast<std::int64_t>(ranked.size()) - (chosen == nullptr ? 0 : 1), "plan"));
  return {"lost", "What lost, and by how much", lead + bound_text(chosen_plan),
          table.rows() == 0 ? ""
                            : "<div class=\"steps\">" + table.html() + "</div>\n" +
                                  details_html("All plans by what became of them", counts_html(ranked))};
}

}  // namespace meshwright
