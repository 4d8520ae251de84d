// SPDX-License-Identifier: Apache-2.0
// What plan, simulate, sweep and explain say of how far a prediction may be off: the interval of the step, that of the
// memory of the training software, and whether two plans can be told apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "core/plan/program/folded_devices.h"
#include "validation/compare_steps.h"
#include "validation/memory_interval.h"

namespace meshwright {

struct PlanForecast {
  std::optional<StepInterval> step;      // nullopt: nothing is known of these costs
  std::string basis;                     // what the interval rests on, or why there is none
  std::optional<MemoryForecast> memory;  // as forecast_memory
  std::string software;                  // whose memory it is
};
// `program`: of the plan, as its own step is predicted; `step`: as printed, of the same plan also under other
// circumstances, whose interval is in proportion to that of the plan's own step.
[[nodiscard]] PlanForecast forecast_of(const Plan& plan, const Graph& graph, const Program& program,
                                       const FoldedDevices* folded, const Costs& costs, Seconds step);
// The same where the plan's uncertainty is known already. `uncertainty`: uncertainty_of_plan.
[[nodiscard]] PlanForecast forecast_of(const Plan& plan, const Graph& graph,
                                       const std::optional<StepUncertainty>& uncertainty, const Costs& costs,
                                       Seconds step);

[[nodiscard]] std::string interval_text(const std::optional<StepInterval>& interval);  // " (90 %: 1.2 to 1.4)" or ""
[[nodiscard]] std::string interval_text(const PlanForecast& forecast);                 // or " (no interval known)"
// One line, "" where nothing is known of it: the memory and how likely it fits.
[[nodiscard]] std::string memory_line(const PlanForecast& forecast);
// Members interval_s, interval_basis, memory_interval_bytes and fit_probability.
void add_forecast(Json& json, const PlanForecast& forecast);
// [low, high] in seconds or bytes; null without an interval.
[[nodiscard]] Json interval_json(const std::optional<StepInterval>& interval);
[[nodiscard]] Json interval_json(const std::optional<MemoryInterval>& interval);

// nullopt: nothing is known of these costs. Arguments as for forecast_of.
[[nodiscard]] std::optional<StepUncertainty> uncertainty_of_plan(const Plan& plan, const Program& program,
                                                                 const FoldedDevices* folded, const Costs& costs);
// The same for a plan that is not lowered yet.
[[nodiscard]] std::optional<StepUncertainty> uncertainty_of_plan(const Plan& plan, const Costs& costs);
// In a database of sweep points.
[[nodiscard]] Json to_json(const StepUncertainty& uncertainty);
// Throws InputError for other JSON.
[[nodiscard]] StepUncertainty uncertainty_from_json(const Json& json, const std::string& place);

// A plan whose step is not told from the fastest one's.
struct Rival {
  std::string name;  // "point 3"
  StepComparison comparison;
};
// Those of the front that cannot be told from its first, which is the fastest: "front 3".
[[nodiscard]] std::vector<Rival> rivals_of_front(const std::vector<FrontPoint>& front, const Costs& costs);
// One line, "" without rivals: that `best` and they are too close to tell apart, and what would settle the closest one.
[[nodiscard]] std::string rivals_line(const std::string& best, const std::vector<Rival>& rivals,
                                      const std::string& software);
[[nodiscard]] Json rivals_json(const std::vector<Rival>& rivals, const std::string& software);

}  // namespace meshwright
