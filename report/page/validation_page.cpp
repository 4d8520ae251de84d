// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "report/charts/bars.h"
#include "report/charts/document_charts.h"
#include "report/page/assets.h"
#include "report/page/chart_html.h"
#include "report/page/document_pages.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

// A row with both a prediction and a published time.
struct ComparedRow {
  std::size_t number;  // in the document
  double error;        // predicted over published, less 1
};

std::vector<ComparedRow> compared_rows(const Json& document) {
  std::vector<ComparedRow> found;
  const Json& rows = document.at("rows");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Json &predicted = rows[r].at("predicted_step_time_s"), &published = rows[r].at("published_step_time_s");
    if (predicted.is_null() || published.is_null() || !(published.get<double>() > 0.0)) continue;
    found.push_back({r, predicted.get<double>() / published.get<double>() - 1.0});
  }
  return found;
}

std::string signed_percent(double share) { return fmt::format("{:+.1f}", 100.0 * share); }

// The share of errors that `share` of the rows do not exceed.
double quantile_of(std::vector<double> sizes, double share) {
  std::sort(sizes.begin(), sizes.end());
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sizes.size())));
  return sizes[std::max<std::size_t>(1, at) - 1];
}

// Columns of 10 %, the outermost of all beyond.
Svg histogram_of(const std::vector<ComparedRow>& rows) {
  constexpr int kColumns = 12;
  constexpr double kWidth = 0.1;
  std::vector<Bar> bars;
  for (int c = 0; c < kColumns; ++c) {
    const int low = 10 * (c - kColumns / 2);
    bars.push_back({c == 0              ? fmt::format("below {:+}", low + 10)
                    : c == kColumns - 1 ? fmt::format("above {:+}", low)
                                        : fmt::format("{:+} to {:+}", low, low + 10),
                    0.0, Hue::Forward, ""});
  }
  for (const ComparedRow& row : rows) {
    const int column = static_cast<int>(std::floor(row.error / kWidth)) + kColumns / 2;
    bars[static_cast<std::size_t>(std::clamp(column, 0, kColumns - 1))].value += 1.0;
  }
  for (Bar& bar : bars) bar.tip = fmt::format("{:g} runs with an error of {} %", bar.value, bar.name);
  return bars_svg(bars, {"Errors", "How many runs have which error of the predicted step time.", "runs", "error (%)"});
}

PageSection scatter_section(const Json& document, const std::vector<ComparedRow>& rows) {
  std::string groups;
  HtmlTable table(
      "Errors by source",
      {{"of", HtmlTable::Align::Text}, {"runs"}, {"mean, %"}, {"median, %"}, {"90 % below, %"}, {"bias, %"}});
  for (const Json& summary : document.at("summaries")) {
    const Json& errors = summary.at("step_time");
    if (errors.at("rows").get<int>() == 0) continue;
    const auto percent = [&](const char* key) { return percent_text(errors.at(key).get<double>()); };
    table.add_row({summary.at("name").get<std::string>(), grouped(errors.at("rows").get<std::int64_t>()),
                   percent("mean"), percent("median"), percent("p90"), percent("bias")});
  }
  return {
      "scatter",
      "How far from what was published",
      "On the diagonal a prediction is what was published; dotted bands are 5, 10 and 20 % from it. A point says its "
      "name and its numbers when it is chosen.",
      "<div class=\"beside\" data-points=\"runs\">\n<div>" + chart_html(validation_chart(document)) + "</div>\n<div>" +
          chart_html(histogram_of(rows)) + "</div>\n</div>\n" + said_html("runs") + table.html(),
      {kPointsJs}};
}

PageSection rows_section(const Json& document, std::vector<ComparedRow> compared) {
  std::stable_sort(compared.begin(), compared.end(),
                   [](const ComparedRow& a, const ComparedRow& b) { return std::abs(a.error) > std::abs(b.error); });
  HtmlTable table("Runs, the worst first", {{"run", HtmlTable::Align::Text},
                                            {"source", HtmlTable::Align::Text},
                                            {"software", HtmlTable::Align::Text},
                                            {"predicted, s"},
                                            {"published, s"},
                                            {"error, %"}});
  for (const ComparedRow& of : compared) {
    const Json& row = document.at("rows")[of.number];
    table.add_row({row.at("id").get<std::string>(), row.at("source").get<std::string>(),
                   row.at("software").get<std::string>(),
                   fmt::format("{:.4g}", row.at("predicted_step_time_s").get<double>()),
                   fmt::format("{:.4g}", row.at("published_step_time_s").get<double>()), signed_percent(of.error)});
  }
  return {"rows", "All runs, the worst first",
          fmt::format("{} with a prediction and a published time.",
                      counted(static_cast<std::int64_t>(compared.size()), "run")),
          find_html("worst", "Find runs") + rows_html("worst", table)};
}

}  // namespace

Page validation_page(Json document) {
  const std::vector<ComparedRow> rows = compared_rows(document);
  const auto count = static_cast<std::int64_t>(document.at("rows").size());
  Page page{.verb = "validate"};
  page.styles = chart_styles();
  page.lead = fmt::format("{} of {} have both a prediction and a published step time.",
                          grouped(static_cast<std::int64_t>(rows.size())), counted(count, "run"));
  if (rows.empty()) {
    page.answer = "No run has both a prediction and a published step time.";
  } else {
    std::vector<double> sizes;
    double sum = 0.0, bias = 0.0;
    for (const ComparedRow& row : rows) {
      sizes.push_back(std::abs(row.error));
      sum += std::abs(row.error);
      bias += row.error;
    }
    const auto all = static_cast<double>(rows.size());
    page.answer = fmt::format("Predicted step times are {} % from what was published, on average over {}.",
                              percent_text(sum / all), counted(static_cast<std::int64_t>(rows.size()), "run"));
    page.tiles = {{"Mean error", percent_text(sum / all) + " %", "without its sign"},
                  {"Median", percent_text(quantile_of(sizes, 0.5)) + " %", ""},
                  {"Nine of ten below", percent_text(quantile_of(sizes, 0.9)) + " %", ""},
                  {"Bias", signed_percent(bias / all) + " %", "of predicted over published"}};
    page.sections = {scatter_section(document, rows), rows_section(document, rows)};
  }
  page.document = std::move(document);
  return page;
}

}  // namespace meshwright
