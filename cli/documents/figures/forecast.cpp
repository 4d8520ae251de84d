// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/figures/forecast.h"

#include <algorithm>
#include <cmath>

#include "cli/documents/figures/report.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "simulator/fold/folded_plan.h"

namespace meshwright {

namespace {

// Whether the error of these costs is known for this plan: a software's profile was held against runs that train.
bool is_known(const Plan& plan, const Costs& costs) {
  return costs.software.has_value() && plan.schedule != ScheduleKind::Inference;
}

std::string basis_of(const Plan& plan, const Costs& costs) {
  if (!costs.software)
    return costs.db ? "steps of such measurements were held against no runs"
                    : "costs of the cluster's description alone were held against no runs";
  const std::string& name = costs.software->name;
  if (!is_known(plan, costs)) return fmt::format("the profile {} was held against training alone", name);
  return costs.software->fitted
             ? fmt::format("errors of the profile {} on the runs that it was fitted to", name)
             : fmt::format("errors on published runs of profiles that were not fitted, such as {}", name);
}

UncertainStep uncertain_plan(const Plan& plan, const Program& program, const FoldedDevices* folded,
                             const Costs& costs) {
  const SoftwareProfile& software = costs.software.value();
  return uncertain_step(plan.cluster, plan.model, plan.training.dtype, software,
                        predictor_of(program, folded, plan.cluster, software, costs.kernels.get()));
}

// "over 99 %" is not certain.
std::string probability_text(double probability) {
  if (probability > 0.99 && probability < 1.0) return "over 99 %";
  if (probability < 0.01 && probability > 0.0) return "under 1 %";
  return fmt::format("{:.0f} %", 100 * probability);
}

// What would tell two plans apart, and the command that takes it.
struct Settlement {
  std::string what, command;
};

Settlement settlement_of(const StepComparison& comparison, const std::string& software) {
  const auto& term = comparison.term;
  const bool alone = term == Term::Products || term == Term::Attention || term == Term::Collectives;
  // Where no term alone makes the difference uncertain, only steps settle it.
  if (alone && comparison.share >= 0.5 && !comparison.what.empty())
    return {"the time of " + comparison.what,
            "meshwright import KERNELS.csv --db kernels.db --source ... --licence ..., then --profile kernels.db"};
  return {"a short run of each",
          fmt::format("meshwright calibrate --from-run RUNS.csv --software {} -o own.json", software)};
}

PlanForecast unknown_forecast(const Plan& plan, const Costs& costs) {
  return {.step = {}, .basis = basis_of(plan, costs), .memory = {}, .software = {}};
}

// `deviation`: of log(predicted / true). REQUIRES: is_known(plan, costs).
PlanForecast known_forecast(const Plan& plan, const Graph& graph, double deviation, const Costs& costs, Seconds step) {
  const SoftwareProfile& software = costs.software.value();
  return {.step = interval_of(step, deviation),
          .basis = basis_of(plan, costs),
          .memory = forecast_memory(plan, graph, software),
          .software = software.name};
}

}  // namespace

PlanForecast forecast_of(const Plan& plan, const Graph& graph, const Program& program, const FoldedDevices* folded,
                         const Costs& costs, Seconds step) {
  if (!is_known(plan, costs)) return unknown_forecast(plan, costs);
  const UncertainStep uncertain = uncertain_plan(plan, program, folded, costs);
  return known_forecast(plan, graph, deviation_of(uncertain, uncertain.predict(*costs.software)), costs, step);
}

PlanForecast forecast_of(const Plan& plan, const Graph& graph, const std::optional<StepUncertainty>& uncertainty,
                         const Costs& costs, Seconds step) {
  return uncertainty ? known_forecast(plan, graph, uncertainty->deviation, costs, step) : unknown_forecast(plan, costs);
}

std::string interval_text(const std::optional<StepInterval>& interval) {
  if (!interval) return "";
  return fmt::format(" (90 %: {} to {})", in_milliseconds(interval->low), in_milliseconds(interval->high));
}

std::string interval_text(const PlanForecast& forecast) {
  return forecast.step ? interval_text(forecast.step) : " (no interval known)";
}

std::string memory_line(const PlanForecast& forecast) {
  if (!forecast.memory) return "";
  const MemoryForecast& memory = *forecast.memory;
  return fmt::format("# memory as {} keeps it {} GiB (90 %: {} to {}) of {} GiB per device; fits with {}\n",
                     forecast.software, in_gibibytes(memory.allocated), in_gibibytes(memory.interval.low),
                     in_gibibytes(memory.interval.high), in_gibibytes(memory.device),
                     probability_text(memory.fit_probability));
}

Json interval_json(const std::optional<StepInterval>& interval) {
  return interval ? Json::array({interval->low.si(), interval->high.si()}) : Json(nullptr);
}
Json interval_json(const std::optional<MemoryInterval>& interval) {
  return interval ? Json::array({interval->low.si(), interval->high.si()}) : Json(nullptr);
}

void add_forecast(Json& json, const PlanForecast& forecast) {
  json["interval_s"] = interval_json(forecast.step);
  json["interval_basis"] = forecast.basis;
  const auto& memory = forecast.memory;
  json["software_memory_bytes"] = memory ? Json(memory->allocated.si()) : Json(nullptr);
  json["memory_interval_bytes"] = interval_json(memory ? std::optional(memory->interval) : std::nullopt);
  json["fit_probability"] = memory ? Json(memory->fit_probability) : Json(nullptr);
}

std::optional<StepUncertainty> uncertainty_of_plan(const Plan& plan, const Program& program,
                                                   const FoldedDevices* folded, const Costs& costs) {
  if (!is_known(plan, costs)) return std::nullopt;
  const UncertainStep uncertain = uncertain_plan(plan, program, folded, costs);
  return uncertainty_of(uncertain, uncertain.predict(*costs.software), work_of_step(program, *costs.model));
}

std::optional<StepUncertainty> uncertainty_of_plan(const Plan& plan, const Costs& costs) {
  if (!is_known(plan, costs)) return std::nullopt;
  if (worth_folding(plan)) {
    const FoldedPlan small = load_folded_plan(plan, *costs.model);
    return uncertainty_of_plan(plan, small.loaded.program, &small.folded, costs);
  }
  return uncertainty_of_plan(plan, load_plan(plan, *costs.model).program, nullptr, costs);
}

Json to_json(const StepUncertainty& uncertainty) {
  Json work = Json::array();
  for (const StepWork& some : uncertainty.work)
    work.push_back({{"term", name_of(some.term)}, {"what", some.what}, {"time_s", some.time.si()}});
  Json slopes = Json::object();
  for (std::size_t t = 0; t < kTerms; ++t) slopes[name_of(static_cast<Term>(t))] = uncertainty.slopes[t];
  return {{"step_time_s", uncertainty.step.si()},
          {"deviation", uncertainty.deviation},
          {"slopes", std::move(slopes)},
          {"work", std::move(work)}};
}

StepUncertainty uncertainty_from_json(const Json& json, const std::string& place) {
  StepUncertainty uncertainty{.step = Seconds(get<double>(json, "step_time_s", place)),
                              .deviation = get<double>(json, "deviation", place)};
  const Json& slopes = member(json, "slopes", place);
  for (std::size_t t = 0; t < kTerms; ++t)
    uncertainty.slopes[t] = get<double>(slopes, name_of(static_cast<Term>(t)), place);
  for (const Json& some : member(json, "work", place)) {
    const auto name = get<std::string>(some, "term", place);
    std::size_t term = 0;
    while (term < kTerms && name != name_of(static_cast<Term>(term))) ++term;
    require(term < kTerms, "{}: unknown term '{}'.", place, name);
    uncertainty.work.push_back(
        {static_cast<Term>(term), get<std::string>(some, "what", place), Seconds(get<double>(some, "time_s", place))});
  }
  return uncertainty;
}

std::vector<Rival> rivals_of_front(const std::vector<FrontPoint>& front, const Costs& costs) {
  std::vector<Rival> rivals;
  if (front.size() < 2 || !is_known(front.front().plan, costs)) return rivals;
  const StepUncertainty fastest = *uncertainty_of_plan(front.front().plan, costs);
  for (std::size_t i = 1; i < front.size(); ++i) {
    // The error of a difference is not larger than those of both steps together; a slower plan is not lowered.
    const double away = std::log(front[i].plan.predicted.step_time / front.front().plan.predicted.step_time);
    if (away > 2.0 * kDeviationsOfInterval * fastest.deviation) break;
    const StepComparison comparison = compare_steps(fastest, *uncertainty_of_plan(front[i].plan, costs));
    if (!comparison.decided()) rivals.push_back({fmt::format("front {}", i + 1), comparison});
  }
  return rivals;
}

std::string rivals_line(const std::string& best, const std::vector<Rival>& rivals, const std::string& software) {
  if (rivals.empty()) return "";
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> names;
  for (const Rival& rival : rivals)
    if (names.size() < kNamed) names.push_back(rival.name);
  if (rivals.size() > kNamed) names.push_back(fmt::format("{} more", rivals.size() - kNamed));
  const std::string lead = fmt::format("# {} and {} are too close to tell apart", best, join(names, ", "));
  const Rival* closest = nullptr;
  const auto distance = [](const Rival& rival) { return std::abs(rival.comparison.log_ratio); };
  for (const Rival& rival : rivals)
    if (!rival.comparison.alike() && (closest == nullptr || distance(rival) < distance(*closest))) closest = &rival;
  if (closest == nullptr) return lead + ": they are predicted alike\n";
  const StepComparison& comparison = closest->comparison;
  const Settlement settlement = settlement_of(comparison, software);
  const std::string differ = comparison.what.empty() ? "" : fmt::format("; they differ most in {}", comparison.what);
  return fmt::format(
      "{}: {} is {:.1f} % {}, and the order of two such plans is known beyond {:.1f} % only{}; {} would settle it: "
      "{}\n",
      lead, closest->name, 100 * std::abs(std::expm1(-comparison.log_ratio)),
      comparison.log_ratio > 0.0 ? "faster" : "slower", 100 * std::expm1(kDeviationsOfInterval * comparison.deviation),
      differ, settlement.what, settlement.command);
}

Json rivals_json(const std::vector<Rival>& rivals, const std::string& software) {
  Json list = Json::array();
  for (const Rival& rival : rivals) {
    const StepComparison& comparison = rival.comparison;
    const Settlement settlement = settlement_of(comparison, software);
    list.push_back({{"name", rival.name},
                    {"relative_difference", comparison.alike() ? 0.0 : std::expm1(-comparison.log_ratio)},
                    {"deviation", comparison.deviation},
                    {"probability_slower", comparison.first_is_faster()},
                    {"term", comparison.term ? Json(name_of(*comparison.term)) : Json(nullptr)},
                    {"differ_in", comparison.what},
                    {"settled_by", settlement.what},
                    {"command", settlement.command}});
  }
  return list;
}

}  // namespace meshwright
