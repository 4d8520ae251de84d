// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/validation_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cli/documents/errors.h"

namespace meshwright {

namespace {

constexpr double kSize = 640, kEdge = 60;  // of the plot, in its own units
constexpr std::array kColours = {"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
                                 "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

struct Point {
  double published, predicted;
  std::string source, id;
};

std::vector<Point> points_of(const std::vector<ValidatedRun>& results) {
  std::vector<Point> points;
  for (const ValidatedRun& result : results)
    if (result.step && result.run->step && !result.run->out_of_memory)
      points.push_back({result.run->step->si(), result.step->si(), result.run->source, result.run->id});
  return points;
}

// Both axes logarithmic, whole decades.
std::string plot(const std::vector<Point>& points) {
  if (points.empty()) return "<p>No run has both a prediction and a published time.</p>\n";
  double least = points.front().published, most = least;
  std::map<std::string, std::size_t> colour_of;
  for (const Point& point : points) {
    least = std::min({least, point.published, point.predicted});
    most = std::max({most, point.published, point.predicted});
    colour_of.emplace(point.source, colour_of.size());
  }
  const int low = static_cast<int>(std::floor(std::log10(least)));
  const int high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))));
  const auto at = [&](double seconds) {
    return kEdge + (std::log10(seconds) - low) / (high - low) * (kSize - 2 * kEdge);
  };
  std::string svg =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {0}\" role=\"img\">\n", kSize);
  for (int decade = low; decade <= high; ++decade) {
    const double seconds = std::pow(10.0, decade), x = at(seconds);
    svg += fmt::format("<path d=\"M{0:.1f} {1}V{2}M{1} {3:.1f}H{2}\" stroke=\"#ddd\"/>", x, kEdge, kSize - kEdge,
                       kSize - x);
    svg +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g} s</text>", x, kSize - kEdge + 16, seconds);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g} s</text>\n", kEdge - 6, kSize - x + 4,
                       seconds);
  }
  svg += fmt::format("<path d=\"M{0} {1}L{1} {0}\" stroke=\"#888\"/>\n", kEdge, kSize - kEdge);
  for (const Point& point : points)
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\" fill-opacity=\"0.6\"><title>{}: predicted {:.4g} s, "
        "published {:.4g} s</title></circle>\n",
        at(point.published), kSize - at(point.predicted), kColours[colour_of.at(point.source) % kColours.size()],
        escaped(point.id), point.predicted, point.published);
  return svg + "</svg>\n";
}

std::string cell(const ErrorSummary& errors) {
  return errors.rows == 0 ? "<td></td><td></td>"
                          : fmt::format("<td>{}</td><td>{}</td>", errors.rows, errors_with_bias(errors));
}

}  // namespace

std::string validation_page(const std::vector<ValidatedRun>& results, SummaryKey key) {
  std::string rows;
  for (const ValidationSummary& summary : summarize(results, key))
    if (summary.step.rows + summary.memory.rows > 0)
      rows +=
          fmt::format("<tr><th>{}</th>{}{}</tr>\n", escaped(summary.name), cell(summary.step), cell(summary.memory));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Predicted against published</title>\n"
      "<style>body{{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 "
      "1em}}svg{{max-width:44em;font-size:11px}}"
      "table{{border-collapse:collapse}}th,td{{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}}"
      "th{{text-align:left}}</style></head><body>\n<h1>Predicted against published step times</h1>\n{}"
      "<p>Errors in %: mean / median / 90th percentile / bias of predicted over published, less 1.</p>\n"
      "<table><tr><th></th><th>rows</th><th>step "
      "time</th><th>rows</th><th>memory</th></tr>\n{}</table>\n</body></html>\n",
      plot(points_of(results)), rows);
}

}  // namespace meshwright
