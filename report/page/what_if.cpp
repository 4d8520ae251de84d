// SPDX-License-Identifier: Apache-2.0
#include "report/page/what_if.h"

#include <algorithm>

#include "report/page/assets.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

std::string change_text(Seconds step, Seconds own) {
  const double change = step / own - 1.0;
  return step == own ? "" : fmt::format("{}{} %", change > 0.0 ? "+" : "", percent_text(change));
}

std::optional<Seconds> own_step(const WhatIfAxis& axis) {
  for (const WhatIfPoint& point : axis.points)
    if (point.own) return point.step;
  return std::nullopt;
}

Json point_json(const WhatIfPoint& point) {
  return {{"value", point.value},
          {"step_s", point.step ? Json(point.step->si()) : Json(nullptr)},
          {"note", point.note},
          {"own", point.own}};
}

}  // namespace

std::optional<PageSection> what_if_section(Page& page, const std::vector<WhatIfAxis>& axes) {
  HtmlTable table("What a step would be", {{"what", HtmlTable::Align::Text},
                                           {"value"},
                                           {"step, ms"},
                                           {"change"},
                                           {"", HtmlTable::Align::Text},
                                           {"how", HtmlTable::Align::Code}});
  Json members = Json::array();
  std::string sliders;
  for (const WhatIfAxis& axis : axes) {
    const std::optional<Seconds> own = own_step(axis);
    if (axis.points.size() < 2 || !own) continue;
    Json points = Json::array();
    for (const WhatIfPoint& point : axis.points) {
      points.push_back(point_json(point));
      table.add_row({axis.name, point.value, point.step ? milliseconds_text(*point.step) : "none",
                     point.step ? change_text(*point.step, *own) : "", point.own ? "this step" : point.note, axis.how});
    }
    sliders += fmt::format(
        "<div class=\"slider\"><label for=\"what-if-{0}\">{1}</label><input type=\"range\" id=\"what-if-{0}\" "
        "data-axis=\"{0}\" min=\"0\" max=\"{2}\" step=\"1\"><output></output></div>\n",
        members.size(), escaped(axis.name), axis.points.size() - 1);
    members.push_back({{"name", axis.name}, {"points", std::move(points)}});
  }
  if (members.empty()) return std::nullopt;
  page.members["what_if"] = std::move(members);
  return PageSection{
      "what-if",
      "What if",
      "One thing is changed at a time, all else stays as planned. Each position is a simulation made when "
      "this page was written; nothing is interpolated.",
      "<div id=\"what-if-view\" hidden>\n" + sliders + "</div>\n" + details_html("As a table", table.html()),
      {kWhatIfJs}};
}

}  // namespace meshwright
