// SPDX-License-Identifier: Apache-2.0
#include "report/charts/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "report/charts/time_axis.h"

namespace meshwright {

namespace {

constexpr double kPlot = 520, kPlotLeft = 76, kPlotHead = 52, kPlotFoot = 56, kPlotSide = 16, kMarkRadius = 4;
constexpr int kPlotTicks = 6;
constexpr double kPlotRoom = 1.06;  // beyond the largest number

// Idle and message are not told apart on all grounds as small marks.
constexpr std::array kGroupHues = {Hue::Forward,    Hue::Backward,  Hue::Update,
                                   Hue::Collective, Hue::Recompute, Hue::WeightGradient};

// A group's colour, and its shape where colours are used up.
struct Look {
  std::string_view colour;
  std::size_t shape = 0;  // circle, square, diamond, triangle
};
constexpr std::size_t kMarkShapes = 4;

std::map<std::string, Look> looks_of(const std::vector<ScatterPoint>& points) {
  std::map<std::string, Look> looks;
  std::size_t count = 0;
  for (const ScatterPoint& point : points) looks.try_emplace(point.group);
  for (auto& [group, look] : looks) {
    look = {class_of(kGroupHues[count % kGroupHues.size()]), count / kGroupHues.size() % kMarkShapes};
    ++count;
  }
  return looks;
}

void add_mark(Svg& svg, SvgPoint at, const Look& look, ScatterPoint::Mark mark, std::string_view tip) {
  const std::string classes = std::string(look.colour) + (mark == ScatterPoint::Mark::Open ? " open" : "");
  const auto n = [](double value) { return svg_number(value); };
  switch (look.shape) {
    case 0:
      return svg.circle(at, kMarkRadius, classes, tip);
    case 1:
      return svg.box({at.x - kMarkRadius, at.y - kMarkRadius, 2 * kMarkRadius, 2 * kMarkRadius}, classes, tip);
    case 2:
      return svg.path(fmt::format("M{} {}l5 5l-5 5l-5 -5z", n(at.x), n(at.y - 5)), classes, tip);
    default:
      return svg.path(fmt::format("M{} {}l5 9h-10z", n(at.x), n(at.y - 5)), classes, tip);
  }
}

struct Field {
  double x_high, y_high;
  [[nodiscard]] double x(double value) const { return kPlotLeft + kPlot * value / x_high; }
  [[nodiscard]] double y(double value) const { return kPlotHead + kPlot * (1.0 - value / y_high); }
};

void add_names(Svg& svg, const ScatterNames& names) {
  svg.text({kPlotSide, 20}, names.title);
  svg.text({kPlotLeft + kPlot / 2, kPlotHead + kPlot + 40}, names.x, "", Anchor::Middle);
  svg.text({kPlotLeft, kPlotHead - 4}, names.y);
}

// At the right; groups without a name have none.
void add_groups(Svg& svg, const std::map<std::string, Look>& looks) {
  double y = kPlotHead + 12;
  for (const auto& [group, look] : looks) {
    if (group.empty()) continue;
    add_mark(svg, {kPlotLeft + kPlot + 66, y - 4}, look, ScatterPoint::Mark::Filled, "");
    svg.text({kPlotLeft + kPlot + 78, y}, group);
    y += 18;
  }
}

Svg canvas_for(const std::map<std::string, Look>& looks, const ScatterNames& names) {
  std::size_t letters = 0, rows = 0;
  for (const auto& [group, look] : looks) {
    letters = std::max(letters, group.size());
    rows += group.empty() ? 0 : 1;
  }
  const double legend = letters == 0 ? 60 : 100 + width_of_text(letters);
  const double width = std::max(kPlotLeft + kPlot + legend, 2 * kPlotSide + width_of_text(names.title.size()));
  return {width, std::max(kPlotHead + kPlot + kPlotFoot, kPlotHead + 18.0 * static_cast<double>(rows) + 20),
          names.title, names.description};
}

void add_points(Svg& svg, const std::vector<ScatterPoint>& points, const std::map<std::string, Look>& looks,
                const auto& place) {
  for (const ScatterPoint& point : points) {
    svg.begin_point(point.number);
    add_mark(svg, place(point), looks.at(point.group), point.mark, point.tip);
    svg.end_point();
  }
}

}  // namespace

std::vector<std::size_t> front_of(const std::vector<ScatterPoint>& points) {
  std::vector<std::size_t> order(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(points[a].x, points[a].y) < std::tie(points[b].x, points[b].y);
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order)
    if (front.empty() || points[i].y < points[front.back()].y) front.push_back(i);
  return front;
}

Svg scatter_svg(const std::vector<ScatterPoint>& points, const ScatterNames& names, FrontLine front) {
  const std::map<std::string, Look> looks = looks_of(points);
  Svg svg = canvas_for(looks, names);
  Field field{0.0, 0.0};
  for (const ScatterPoint& point : points) {
    field.x_high = std::max(field.x_high, kPlotRoom * point.x);
    field.y_high = std::max(field.y_high, kPlotRoom * point.y);
  }
  if (field.x_high <= 0.0) field.x_high = 1.0;
  if (field.y_high <= 0.0) field.y_high = 1.0;
  add_names(svg, names);
  for (const double tick : round_ticks(0.0, field.x_high, kPlotTicks)) {
    svg.line({field.x(tick), kPlotHead}, {field.x(tick), kPlotHead + kPlot + 4}, "grid");
    svg.text({field.x(tick), kPlotHead + kPlot + 18}, fmt::format("{:g}", tick), "soft", Anchor::Middle);
  }
  for (const double tick : round_ticks(0.0, field.y_high, kPlotTicks)) {
    svg.line({kPlotLeft - 4, field.y(tick)}, {kPlotLeft + kPlot, field.y(tick)}, "grid");
    svg.text({kPlotLeft - 8, field.y(tick) + 4}, fmt::format("{:g}", tick), "soft", Anchor::End);
  }
  if (front == FrontLine::Drawn) {
    std::string commands;
    for (const std::size_t i : front_of(points)) {
      const std::string x = svg_number(field.x(points[i].x)), y = svg_number(field.y(points[i].y));
      commands += commands.empty() ? fmt::format("M{} {}", x, y) : fmt::format("H{}V{}", x, y);
    }
    if (!commands.empty()) svg.path(commands, "line");
  }
  add_points(svg, points, looks, [&](const ScatterPoint& point) {
    return SvgPoint{field.x(point.x), field.y(point.y)};
  });
  add_groups(svg, looks);
  return svg;
}

Svg agreement_svg(const std::vector<ScatterPoint>& points, const ScatterNames& names) {
  const std::map<std::string, Look> looks = looks_of(points);
  Svg svg = canvas_for(looks, names);
  double least = points.empty() ? 1.0 : points.front().x, most = least;
  for (const ScatterPoint& point : points) {
    least = std::min({least, point.x, point.y});
    most = std::max({most, point.x, point.y});
  }
  const int low = static_cast<int>(std::floor(std::log10(least)));
  const int high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))));
  const auto share = [&](double value) {
    return std::clamp((std::log10(value) - low) / static_cast<double>(high - low), 0.0, 1.0);
  };
  const auto at = [&](double x, double y) {
    return SvgPoint{kPlotLeft + kPlot * share(x), kPlotHead + kPlot * (1.0 - share(y))};
  };
  add_names(svg, names);
  const double first = std::pow(10.0, low), last = std::pow(10.0, high);
  for (int decade = low; decade <= high; ++decade) {
    const double value = std::pow(10.0, decade);
    svg.line(at(value, first), at(value, last), "grid");
    svg.line(at(first, value), at(last, value), "grid");
    svg.text({at(value, first).x, kPlotHead + kPlot + 18}, fmt::format("{:g}", value), "soft", Anchor::Middle);
    svg.text({kPlotLeft - 8, at(first, value).y + 4}, fmt::format("{:g}", value), "soft", Anchor::End);
  }
  svg.line(at(first, first), at(last, last), "line");
  constexpr double kLabelHeight = 11.0;
  double labelled = 0.0;
  for (const double band : {0.05, 0.1, 0.2}) {
    const double over = 1.0 + band, under = 1.0 - band;
    svg.line(at(first, first * over), at(last / over, last), "band");
    svg.line(at(first / under, first), at(last, last * under), "band");
    // Where there are many decades, the bands are too close for a label each.
    const SvgPoint label = at(last, last * under);
    if (label.y - labelled < kLabelHeight) continue;
    svg.text({label.x + 4, label.y + 4}, fmt::format("{:g} %", -100 * band), "soft");
    labelled = label.y;
  }
  add_points(svg, points, looks, [&](const ScatterPoint& point) { return at(point.x, point.y); });
  add_groups(svg, looks);
  return svg;
}

}  // namespace meshwright
