// SPDX-License-Identifier: Apache-2.0
#include "report/charts/document_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "report/charts/heat_map.h"
#include "report/charts/scatter.h"

namespace meshwright {

namespace {

constexpr double kGibibyte = 1073741824.0;

bool is_feasible(const Json& point) { return point.value("feasible", true); }

// A point's number as it came out, or as it was asked for: "8", "auto".
std::string text_of(const Json& point, const char* out, const char* asked) {
  if (is_feasible(point) && point.contains(out)) return fmt::format("{}", point.at(out).get<std::int64_t>());
  return point.contains(asked) ? point.at(asked).get<std::string>() : "";
}

double number_of(const Json& point, const ChartQuantity& quantity) {
  return point.at(std::string(quantity.member)).get<double>() / quantity.unit;
}

std::string name_of_point(const Json& point) {
  return fmt::format("{}, {} layers, {} micro-batches", point.at("schedule").get<std::string>(),
                     text_of(point, "num_layers", "layers"), text_of(point, "num_micro_batches", "micro_batches"));
}

std::string tip_of(const Json& point) {
  std::string tip = name_of_point(point);
  if (!is_feasible(point)) return tip + ": " + point.at("reason").get<std::string>();
  for (const ChartQuantity& quantity : chart_quantities())
    if (point.contains(std::string(quantity.member)))
      tip += fmt::format(", {} {:.5g}", quantity.words, number_of(point, quantity));
  return tip;
}

// Adds the text where it is not yet; its place.
std::size_t place_of(std::vector<std::string>& known, const std::string& text) {
  const auto found = std::find(known.begin(), known.end(), text);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  known.push_back(text);
  return known.size() - 1;
}

HeatCell cell_of(const Json& point, std::size_t number) {
  HeatCell cell{std::nullopt, "", tip_of(point), number};
  if (!is_feasible(point)) return cell;
  cell.value = point.at("step_time_s").get<double>();
  cell.text = human_seconds(Seconds(*cell.value));
  return cell;
}

}  // namespace

const std::vector<ChartQuantity>& chart_quantities() {
  static const std::vector<ChartQuantity> quantities = {{"step", "step time (s)", "step_time_s", 1.0},
                                                        {"memory", "peak memory (GiB)", "peak_memory_bytes", kGibibyte},
                                                        {"devices", "devices", "num_devices", 1.0},
                                                        {"price", "price per step", "price_per_step", 1.0}};
  return quantities;
}

std::vector<ChartQuantity> quantities_of(const Json& points) {
  std::vector<ChartQuantity> found;
  for (const ChartQuantity& quantity : chart_quantities())
    if (std::all_of(points.begin(), points.end(), [&](const Json& point) {
          return !is_feasible(point) || point.contains(std::string(quantity.member));
        }))
      found.push_back(quantity);
  return found;
}

ChartAxes axes_from_text(std::string_view text, const Json& points, std::string_view place) {
  const std::vector<ChartQuantity> known = quantities_of(points);
  std::vector<std::string> names;
  for (const ChartQuantity& quantity : known) names.emplace_back(quantity.name);
  const std::vector<std::string> parts = split(text, ',');
  const auto find = [&](const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    require(found != names.end() && parts.size() == 2 && parts[0] != parts[1],
            "{}: '{}' is not two of {}; give two, such as step,memory{}.", place, text, join(names, ", "),
            known.size() == chart_quantities().size() ? "" : " (price needs --price-per-device-hour)");
    return known[static_cast<std::size_t>(found - names.begin())];
  };
  return {find(parts.front()), find(parts.back())};
}

Svg sweep_heat_map(const Json& document) {
  const Json& points = document.at("points");
  std::vector<std::string> schedules, rows, columns;
  for (const Json& point : points) {
    (void)place_of(schedules, point.at("schedule").get<std::string>());
    (void)place_of(rows, point.at("layers").get<std::string>());
    (void)place_of(columns, point.at("micro_batches").get<std::string>());
  }
  std::vector<HeatMap> maps;
  for (const std::string& schedule : schedules)
    maps.push_back({schedule, columns, rows, std::vector<std::optional<HeatCell>>(rows.size() * columns.size())});
  for (std::size_t p = 0; p < points.size(); ++p) {
    const Json& point = points[p];
    const std::size_t row = place_of(rows, point.at("layers").get<std::string>()),
                      column = place_of(columns, point.at("micro_batches").get<std::string>());
    maps[place_of(schedules, point.at("schedule").get<std::string>())].cells[row * columns.size() + column] =
        cell_of(point, p);
  }
  const std::string title = fmt::format("Step time of {} on {}", document.at("model").get<std::string>(),
                                        document.at("cluster").get<std::string>());
  const Json& best = document.at("best");
  return heat_map_svg(maps, {title, "micro-batches", "layers", "Step time"},
                      best.is_null() ? std::nullopt : std::optional(best.get<std::size_t>()));
}

Svg front_chart(const Json& points, const ChartAxes& axes, std::string_view title) {
  std::vector<ScatterPoint> shown;
  for (std::size_t p = 0; p < points.size(); ++p)
    if (is_feasible(points[p]))
      shown.push_back({number_of(points[p], axes.x), number_of(points[p], axes.y),
                       points[p].at("schedule").get<std::string>(), tip_of(points[p]), ScatterPoint::Mark::Filled, p});
  const std::string description = fmt::format("{} plans by {} and {}; those that no other beats in both are joined.",
                                              shown.size(), axes.x.words, axes.y.words);
  return scatter_svg(shown, {title, description, axes.x.words, axes.y.words}, FrontLine::Drawn);
}

Svg validation_chart(const Json& document) {
  std::vector<ScatterPoint> shown;
  std::size_t close = 0;
  constexpr double kClose = 0.1;
  const Json& rows = document.at("rows");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Json& row = rows[r];
    if (row.at("predicted_step_time_s").is_null() || row.at("published_step_time_s").is_null()) continue;
    const double predicted = row.at("predicted_step_time_s").get<double>(),
                 published = row.at("published_step_time_s").get<double>();
    if (!(predicted > 0.0) || !(published > 0.0)) continue;
    close += std::abs(predicted / published - 1.0) <= kClose ? 1 : 0;
    shown.push_back(
        {published, predicted, row.at("source").get<std::string>(),
         fmt::format("{}: predicted {:.4g} s, published {:.4g} s, {:+.1f} %", row.at("id").get<std::string>(),
                     predicted, published, 100.0 * (predicted / published - 1.0)),
         ScatterPoint::Mark::Filled, r});
  }
  const std::string description =
      fmt::format("{} runs, of which {} are predicted within 10 % of what was published; bands of 5, 10 and 20 %.",
                  shown.size(), close);
  return agreement_svg(shown, {"Predicted against published step times", description, "published step time (s)",
                               "predicted step time (s)"});
}

}  // namespace meshwright
