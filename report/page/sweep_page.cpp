// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "report/charts/document_charts.h"
#include "report/page/assets.h"
#include "report/page/chart_html.h"
#include "report/page/document_pages.h"
#include "report/page/html.h"
#include "report/page/plan_summary.h"
#include "report/page/time_bars.h"

namespace meshwright {

namespace {

bool is_plan(const Json& point) { return point.at("feasible").get<bool>(); }

double number_in(const Json& point, const char* key) { return point.at(key).get<double>(); }

std::string select_html(const std::string& id, const std::string& label, const std::vector<ChartQuantity>& quantities,
                        std::size_t chosen) {
  std::string options;
  for (std::size_t q = 0; q < quantities.size(); ++q)
    options += fmt::format("<option value=\"{}\"{}>{}</option>", quantities[q].name, q == chosen ? " selected" : "",
                           escaped(quantities[q].words));
  return fmt::format("<label>{} <select id=\"{}\">{}</select></label>\n", label, id, options);
}

// The grid and every pair of numbers, in one view: a point that is chosen in one is marked in all.
PageSection points_section(const Json& document) {
  const Json& points = document.at("points");
  const std::vector<ChartQuantity> quantities = quantities_of(points);
  std::string fronts;
  for (const ChartQuantity& x : quantities)
    for (const ChartQuantity& y : quantities) {
      if (x.name == y.name) continue;
      const bool first = x.name == quantities[0].name && y.name == quantities[1].name;
      fronts += fmt::format("<div data-axes=\"{},{}\"{}>{}</div>\n", x.name, y.name, first ? "" : " hidden",
                            chart_html(front_chart(points, {x, y}, "Plans by two numbers")));
    }
  const std::string tools = "<div class=\"tools\" hidden>" + select_html("sweep-x", "Across", quantities, 0) +
                            select_html("sweep-y", "Up", quantities, 1) + "</div>\n";
  return {
      "grid",
      "Which point is best",
      "Each cell is the fastest plan of its point; the best is outlined. Beside it, plans by two numbers: those that "
      "no other beats in both are joined. A point says its numbers when it is chosen.",
      "<div class=\"beside\" data-points=\"sweep\">\n<div>" + chart_html(sweep_heat_map(document)) + "</div>\n<div>" +
          tools + fronts + "</div>\n</div>\n" + said_html("sweep"),
      {kPointsJs}};
}

PageSection table_section(const Json& document) {
  const Json& points = document.at("points");
  HtmlTable table("Points of the sweep", {{"point"},
                                          {"schedule", HtmlTable::Align::Text},
                                          {"layers", HtmlTable::Align::Number},
                                          {"micro-batches"},
                                          {"step, ms"},
                                          {"gap, %"},
                                          {"stages"},
                                          {"devices"},
                                          {"memory, GiB"},
                                          {"TFLOPS a device"},
                                          {"remark", HtmlTable::Align::Text}});
  for (std::size_t p = 0; p < points.size(); ++p) {
    const Json& point = points[p];
    const std::string number = fmt::format("{}", p + 1);
    if (!is_plan(point)) {
      table.add_row({number, point.at("schedule").get<std::string>(), point.at("layers").get<std::string>(),
                     point.at("micro_batches").get<std::string>(), "", "", "", "", "", "",
                     point.at("reason").get<std::string>()});
      continue;
    }
    const auto whole = [&](const char* key) { return grouped(point.at(key).get<std::int64_t>()); };
    table.add_row(
        {number, point.at("schedule").get<std::string>(), whole("num_layers"), whole("num_micro_batches"),
         milliseconds_text(Seconds(number_in(point, "step_time_s"))), percent_text(number_in(point, "gap")),
         whole("num_stages"), whole("num_devices"), gibibytes_text(Bytes(number_in(point, "peak_memory_bytes"))),
         fmt::format("{:.4g}", number_in(point, "tflops_per_device")), document.at("best") == p ? "best" : ""});
  }
  return {"points", "All points",
          fmt::format("{} of the grid, in its order. Where there is no plan, the remark says why.",
                      counted(static_cast<std::int64_t>(points.size()), "point")),
          find_html("sweep", "Find points") + rows_html("sweep", table)};
}

// "2 stages of 1f1b, 8 layers, 32 micro-batches: 88.453 ms, 21.40 GiB"
std::string plan_line(const Json& point) {
  const auto count = [&](const char* key, const char* noun) {
    return counted(point.at(key).get<std::int64_t>(), noun);
  };
  return fmt::format("{} of {}, {}, {}, {}: {}, {} GiB", count("num_stages", "stage"),
                     point.at("schedule").get<std::string>(), count("num_layers", "layer"),
                     count("num_micro_batches", "micro-batch"), count("num_devices", "device"),
                     time_text(Seconds(number_in(point, "step_time_s"))),
                     gibibytes_text(Bytes(number_in(point, "peak_memory_bytes"))));
}

// The plans of the points, the fastest of which are shown where there are too many for a page.
std::optional<PageSection> plans_section(const Json& document) {
  constexpr std::size_t kMaxPlans = 256;
  const Json& points = document.at("points");
  std::vector<std::size_t> known;
  for (std::size_t p = 0; p < points.size(); ++p)
    if (is_plan(points[p]) && points[p].contains("plan")) known.push_back(p);
  if (known.empty()) return std::nullopt;
  const std::size_t all = known.size();
  if (all > kMaxPlans) {
    std::stable_sort(known.begin(), known.end(), [&](std::size_t a, std::size_t b) {
      return number_in(points[a], "step_time_s") < number_in(points[b], "step_time_s");
    });
    known.resize(kMaxPlans);
    std::sort(known.begin(), known.end());
  }
  std::string html = hatch_html() + "<div class=\"plans\">\n";
  for (const std::size_t p : known)
    html += fmt::format("<details class=\"plan\" id=\"sweep-plan-{}\"><summary>Point {}: {}</summary>\n{}</details>\n",
                        p, p + 1, escaped(plan_line(points[p])),
                        plan_summary_html(points[p].at("plan"), fmt::format("point {}", p + 1)));
  return PageSection{
      "plans", "The plan of the chosen point",
      fmt::format("Each bar is one device and adds up to the step. Choose a point above, or its row below.{} The plan "
                  "file itself is what plan writes for the point's layers, micro-batches and schedule.",
                  all > kMaxPlans ? fmt::format(" Of {} plans the {} fastest are here.", all, kMaxPlans) : ""),
      html + "</div>\n"};
}

}  // namespace

Page sweep_page(Json document) {
  const Json& points = document.at("points");
  std::int64_t plans = 0;
  for (const Json& point : points) plans += is_plan(point) ? 1 : 0;
  const auto count = static_cast<std::int64_t>(points.size());
  const std::string model = document.at("model").get<std::string>(),
                    cluster = document.at("cluster").get<std::string>();
  Page page{.verb = "sweep"};
  page.styles = chart_styles();
  page.lead = fmt::format("Batch {}, method {}, costs: {}.", document.at("batch").get<std::int64_t>(),
                          document.at("method").get<std::string>(), document.at("costs").get<std::string>());
  if (document.at("best").is_null()) {
    page.answer = fmt::format("No point of the sweep has a plan for {} on {}.", model, cluster);
  } else {
    const Json& best = points.at(document.at("best").get<std::size_t>());
    const Seconds step(number_in(best, "step_time_s"));
    page.answer = fmt::format(
        "{} trains on {} in {} a step with {}, {} layers and {} micro-batches, the fastest of {}.", model, cluster,
        time_text(step), best.at("schedule").get<std::string>(), best.at("num_layers").get<std::int64_t>(),
        best.at("num_micro_batches").get<std::int64_t>(), counted(count, "point"));
    page.tiles = {{"Step time", time_text(step), "of the best point"},
                  {"Points", grouped(count), fmt::format("{} without a plan", grouped(count - plans))},
                  {"Peak memory", gibibytes_text(Bytes(number_in(best, "peak_memory_bytes"))) + " GiB", "of the best"},
                  {"Above the bound", percent_text(number_in(best, "gap")) + " %", "at most, of the best"}};
  }
  page.sections.push_back(points_section(document));
  if (auto section = plans_section(document)) page.sections.push_back(*std::move(section));
  page.sections.push_back(table_section(document));
  page.document = std::move(document);
  return page;
}

}  // namespace meshwright
