// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "report/charts/timing_bars.h"
#include "report/page/assets.h"
#include "report/page/chart_html.h"
#include "report/page/document_pages.h"
#include "report/page/html.h"
#include "report/page/timings_section.h"

namespace meshwright {

namespace {

struct Part {
  const char* member;
  Hue hue;
};
constexpr std::array<Part, 3> kStageParts = {
    {{"forward", Hue::Forward}, {"backward", Hue::Backward}, {"update", Hue::Update}}};
constexpr std::array<const char*, 2> kSides = {"first_s", "second_s"};

double side_of(const Json& stage, const Part& part, const char* side) {
  return stage.at(part.member).at(side).get<double>();
}

std::string share_text(const Json& share) {
  return share.is_null() ? "" : fmt::format("{:+.1f}", 100.0 * share.get<double>());
}

// A pair of bars for each stage on one scale, the first timing above the second.
Svg pairs_svg(const Json& document) {
  std::vector<TimingBars> pairs;
  for (const Json& stage : document.at("stages")) {
    TimingBars& pair = pairs.emplace_back(TimingBars{fmt::format("stage {}", stage.at("stage").get<int>()), {}});
    for (const Part& part : kStageParts)
      pair.parts.push_back(
          {part.member, part.hue, Seconds(side_of(stage, part, kSides[0])), Seconds(side_of(stage, part, kSides[1]))});
  }
  return timing_bars_svg(pairs, "Both timings of each stage",
                         fmt::format("For each of {} stages the forward and the backward pass of a micro-batch and the "
                                     "update: the first timing above the second.",
                                     pairs.size()),
                         {"first", "second"});
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

Page diff_page(Json document, const Tracks* pairs) {
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
  if (pairs != nullptr) {
    const TimingNames names{"first", "second"};
    page.sections.push_back(paired_timeline_section(page, *pairs, names));
    page.sections.push_back(differences_section(*pairs, names));
  } else {
    page.lead += " Traces of both (simulate --trace, run --trace) would show the two timelines.";
  }
  page.sections.push_back(stages_of_diff(document));
  page.document = std::move(document);
  return page;
}

}  // namespace meshwright
