// SPDX-License-Identifier: Apache-2.0
#include "report/charts/document_charts.h"
#include "report/page/assets.h"
#include "report/page/chart_html.h"
#include "report/page/document_pages.h"
#include "report/page/html.h"

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
  page.sections = {points_section(document), table_section(document)};
  page.document = std::move(document);
  return page;
}

}  // namespace meshwright
