// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "report/charts/time_axis.h"
#include "report/page/assets.h"
#include "report/page/chart_html.h"
#include "report/page/document_pages.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

struct Part {
  const char* member;
  Hue hue;
};
constexpr std::array<Part, 3> kStageParts = {
    {{"forward", Hue::Forward}, {"backward", Hue::Backward}, {"update", Hue::Update}}};
constexpr std::array<const char*, 2> kSides = {"first_s", "second_s"};
constexpr std::array<const char*, 2> kSideNames = {"first", "second"};

double side_of(const Json& stage, const Part& part, const char* side) {
  return stage.at(part.member).at(side).get<double>();
}

double length_of(const Json& stage, const char* side) {
  double sum = 0.0;
  for (const Part& part : kStageParts) sum += side_of(stage, part, side);
  return sum;
}

std::string share_text(const Json& share) {
  return share.is_null() ? "" : fmt::format("{:+.1f}", 100.0 * share.get<double>());
}

// A pair of bars for each stage on one scale, the first timing above the second.
Svg pairs_svg(const Json& document) {
  constexpr double kWide = 900, kLabel = 110, kBarHigh = 18, kPairGap = 16, kAbove = 36, kBelow = 60;
  const Json& stages = document.at("stages");
  double most = 0.0;
  for (const Json& stage : stages)
    for (const char* side : kSides) most = std::max(most, length_of(stage, side));
  const double pair = 2 * kBarHigh + 2 + kPairGap, height = kAbove + pair * static_cast<double>(stages.size()) + kBelow;
  const TimeAxis axis{kLabel, kWide - kLabel - 40, to_sim_time(Seconds(most))};
  Svg svg(
      kWide, height, "Both timings of each stage",
      fmt::format("For each of {} stages the forward and the backward pass of a micro-batch and the update: the first "
                  "timing above the second.",
                  stages.size()));
  add_time_axis(svg, axis, kAbove - 10, height - kBelow);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const double top = kAbove + pair * static_cast<double>(s);
    svg.text({kLabel - 10, top + kBarHigh + 5}, fmt::format("stage {}", stages[s].at("stage").get<int>()), "",
             Anchor::End);
    for (std::size_t i = 0; i < kSides.size(); ++i) {
      double begin = 0.0;
      for (const Part& part : kStageParts) {
        const double time = side_of(stages[s], part, kSides[i]);
        const double x = axis.at(to_sim_time(Seconds(begin))), end = axis.at(to_sim_time(Seconds(begin + time)));
        svg.box({x, top + static_cast<double>(i) * (kBarHigh + 2), end - x, kBarHigh}, class_of(part.hue),
                fmt::format("{}: {} of stage {}: {}", kSideNames[i], part.member, stages[s].at("stage").get<int>(),
                            time_text(Seconds(time))));
        begin += time;
      }
    }
  }
  double x = kLabel;
  for (const Part& part : kStageParts) {
    svg.box({x, height - 24, 12, 12}, class_of(part.hue));
    svg.text({x + 17, height - 14}, part.member);
    x += 100;
  }
  return svg;
}

PageSection stages_of_diff(const Json& document) {
  HtmlTable table("Both timings by stage and kind", {{"stage"},
                                                     {"what", HtmlTable::Align::Text},
                                                     {"first, ms"},
                                                     {"second, ms"},
                                                     {"difference, ms"},
                                                     {"of the second, %"}});
  struct Row {
    double apart;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows;
  for (const Json& stage : document.at("stages"))
    for (const Part& part : kStageParts) {
      const double first = side_of(stage, part, kSides[0]), second = side_of(stage, part, kSides[1]);
      rows.push_back({std::abs(first - second),
                      {fmt::format("{}", stage.at("stage").get<int>()), part.member, milliseconds_text(Seconds(first)),
                       milliseconds_text(Seconds(second)), milliseconds_text(Seconds(first - second)),
                       share_text(stage.at(part.member).at("relative_difference"))}});
    }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.apart > b.apart; });
  for (const Row& row : rows) table.add_row(row.cells);
  return {"error",
          "Where the timings differ",
          "Bars are one micro-batch's forward and backward pass and the update of a device, the first timing above the "
          "second. The table begins with what is furthest apart.",
          "<div data-points=\"diff\">" + chart_html(pairs_svg(document)) + "</div>\n" + find_html("diff-rows", "Find") +
              rows_html("diff-rows", table),
          {kPointsJs}};
}

}  // namespace

Page diff_page(Json document) {
  const Json& step = document.at("step_time");
  const Seconds first(step.at("first_s").get<double>()), second(step.at("second_s").get<double>());
  const std::string error = share_text(step.at("relative_difference"));
  Page page{.verb = "diff"};
  page.styles = chart_styles();
  page.answer = fmt::format("The first step takes {}, the second {}{}.", time_text(first), time_text(second),
                            error.empty() ? "" : fmt::format(": {} %", error));
  page.lead = fmt::format("First: {}. Second: {}.", document.at("first").get<std::string>(),
                          document.at("second").get<std::string>());
  page.tiles = {{"First", time_text(first), "a step"},
                {"Second", time_text(second), "a step"},
                {"Difference", error.empty() ? "-" : error + " %", "of the second"}};
  page.sections.push_back(stages_of_diff(document));
  page.document = std::move(document);
  return page;
}

}  // namespace meshwright
