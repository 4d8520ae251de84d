// SPDX-License-Identifier: Apache-2.0
#include "report/page/variation_section.h"

#include <algorithm>

#include "report/charts/bars.h"
#include "report/page/chart_html.h"
#include "report/page/html.h"
#include "simulator/what_if/variations.h"

namespace meshwright {

namespace {

// How many of the steps lie in each of equally long parts of their range.
std::string spread_html(const std::vector<SimTime>& steps) {
  constexpr std::int64_t kParts = 12;
  const std::int64_t low = steps.front().ps, high = std::max(steps.back().ps, low + 1);
  const auto edge = [&](std::int64_t part) { return low + (high - low) / kParts * part; };
  std::vector<Bar> bars;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const auto count = std::count_if(steps.begin(), steps.end(), [&](SimTime step) {
      return step.ps >= edge(part) && (part + 1 == kParts || step.ps < edge(part + 1));
    });
    const Seconds begin = to_seconds(SimTime{edge(part)}),
                  end = to_seconds(SimTime{part + 1 == kParts ? high : edge(part + 1)});
    bars.push_back({milliseconds_text(begin), static_cast<double>(count), Hue::Forward,
                    fmt::format("{} from {} to {}", counted(count, "step"), time_text(begin), time_text(end))});
  }
  return chart_html(
      bars_svg(bars, {"Step times", "How many of the simulated steps take how long.", "steps", "step time from (ms)"}));
}

}  // namespace

std::optional<PageSection> variation_section(const StepSimulation& step) {
  const std::vector<SimTime>& steps = step.samples;
  if (steps.empty()) return std::nullopt;
  const Seconds without = to_seconds(step.times.step), mean = to_seconds(mean_of(steps));
  const auto at = [&](double share) { return to_seconds(quantile(steps, share)); };
  HtmlTable table("Steps whose durations vary",
                  {{"of the steps", HtmlTable::Align::Text}, {"step time, ms"}, {"over the step without variation"}});
  const auto row = [&](const std::string& name, Seconds time) {
    table.add_row({name, milliseconds_text(time),
                   without.si() == 0.0 ? "" : fmt::format("{:+.1f} %", 100.0 * (time / without - 1.0))});
  };
  row("fastest", to_seconds(steps.front()));
  for (const double share : {0.5, 0.9, 0.99}) row(fmt::format("{:.0f} % take at most", 100.0 * share), at(share));
  row("slowest", to_seconds(steps.back()));
  row("mean", mean);
  std::string lead = fmt::format(
      "{} were simulated in which each duration has a lognormal factor of sigma {:g}: half take at most {}, nine "
      "of ten at most {}. ",
      counted(static_cast<std::int64_t>(steps.size()), "step"), step.jitter, time_text(at(0.5)), time_text(at(0.9)));
  if (step.is_mean) lead += fmt::format("The step time above is their mean, {}. ", time_text(mean));
  lead += fmt::format("All other sections show the step without variation, which takes {}.", time_text(without));
  return PageSection{
      "variation", "How much steps vary", lead,
      "<div class=\"beside\">\n<div>" + spread_html(steps) + "</div>\n<div>" + table.html() + "</div>\n</div>\n"};
}

}  // namespace meshwright
