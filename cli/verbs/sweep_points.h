// SPDX-License-Identifier: Apache-2.0
// The points of a sweep: what is planned at each, what its result depends on, and what is kept of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/documents/search/planning.h"
#include "core/base/json.h"

namespace meshwright {

// Lists of the values of its axes, as given.
struct SweepGrid {
  PlanningOptions planning;
  std::string layers = "default", micro_batches = "auto", schedules;
};

struct SweepPlace {
  PlanningOptions options;  // those of the sweep with this point's layers, micro-batches and schedule
  PlanRequest request;
  Json result;  // as stored: {"feasible": true, ...} or {"feasible": false, "refused": wrong input, "reason": ...}
  [[nodiscard]] bool feasible() const { return result.at("feasible").get<bool>(); }
  [[nodiscard]] std::string reason() const { return result.at("reason").get<std::string>(); }
  [[nodiscard]] double step() const { return result.at("step_time_s").get<double>(); }
};

// What points are compared by; kept in the database, and no part of the output.
inline constexpr const char* kUncertainty = "uncertainty";
inline constexpr const char* kDevicesOfGroups = "devices_of_groups";  // what a price is made of; no part of the output

// As the progress and the sentence about rivals name it.
[[nodiscard]] std::string name_of_point(const SweepPlace& point);
// Throws InputError for a point that is there twice.
[[nodiscard]] std::vector<SweepPlace> points_of(const SweepGrid& grid, const Cluster& cluster);
// Everything the result depends on, in a fixed order. Files may change under their names: a manual method's stages,
// given specs and the layers of --layer-starts and follow are spelled out.
[[nodiscard]] std::string key_of(const SweepPlace& point, const Costs& costs);
// A request that makes no sense at this point of the grid (more layers than ops) is a row with its reason, like one
// that does not fit. nullopt: `stop` ended the search before it was done.
[[nodiscard]] std::optional<Json> plan_point(const SweepPlace& point, const Costs& costs, const std::string& lead,
                                             const std::function<bool()>& stop, std::optional<Plan>* plan);
// Reads what plan_point wrote, as far as it is used. Throws InputError for anything else.
[[nodiscard]] Json stored_result(const std::string& text, const std::string& db);
// "12.3 to 14.5", in milliseconds.
[[nodiscard]] std::string interval_of(const Json& result, const std::string& place);

}  // namespace meshwright
