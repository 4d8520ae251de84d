// SPDX-License-Identifier: Apache-2.0
#include "report/charts/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr double kLineWide = 620, kLineHigh = 260, kLineLeft = 78, kLineTop = 34, kLineFoot = 50, kLineRight = 16;
constexpr std::size_t kLineColumns = 1000;
constexpr std::size_t kMarkedPoints = 60;  // so few have a circle each

struct LineFrame {
  double low, high;  // of the values
  std::size_t count;
  [[nodiscard]] double x(double place) const {
    const double last = std::max(1.0, static_cast<double>(count) - 1.0);
    return kLineLeft + place / last * (kLineWide - kLineLeft - kLineRight);
  }
  [[nodiscard]] double y(double value) const {
    return kLineTop + (1.0 - (value - low) / (high - low)) * (kLineHigh - kLineTop - kLineFoot);
  }
};

LineFrame frame_of(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  MW_CHECK(low <= high, "a line chart of {} values without a finite one", values.size());
  // A flat line is in the middle.
  constexpr double kRoom = 0.08;
  const double room = high > low ? kRoom * (high - low) : std::max(std::abs(high), 1.0) * kRoom;
  return {low - room, high + room, values.size()};
}

// Where there are too many values, each of few columns has its least and its greatest.
std::string commands_of(const std::vector<double>& values, const LineFrame& frame) {
  std::string commands;
  bool drawing = false;
  const auto to = [&](double place, double value) {
    commands += fmt::format("{}{} {}", drawing ? "L" : "M", svg_number(frame.x(place)), svg_number(frame.y(value)));
    drawing = true;
  };
  const std::size_t per = (values.size() + kLineColumns - 1) / kLineColumns;
  for (std::size_t begin = 0; begin < values.size(); begin += per) {
    const std::size_t end = std::min(values.size(), begin + per);
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::size_t i = begin; i < end; ++i)
      if (std::isfinite(values[i])) low = std::min(low, values[i]), high = std::max(high, values[i]);
    if (low > high) {
      drawing = false;
      continue;
    }
    to(static_cast<double>(begin), low);
    if (high > low) to(static_cast<double>(end - 1), high);
  }
  return commands;
}

}  // namespace

Svg line_svg(const std::vector<double>& values, const LineNames& names, Hue hue) {
  const LineFrame frame = frame_of(values);
  Svg svg(kLineWide, kLineHigh, names.title, names.description);
  svg.text({8, 18}, names.y);
  const double bottom = kLineHigh - kLineFoot, right = kLineWide - kLineRight;
  for (const double tick : round_ticks(frame.low, frame.high, 5)) {
    if (tick < frame.low || tick > frame.high) continue;
    svg.line({kLineLeft, frame.y(tick)}, {right, frame.y(tick)}, "grid");
    svg.text({kLineLeft - 8, frame.y(tick) + 4}, fmt::format("{:.6g}", tick), "soft", Anchor::End);
  }
  for (const double tick : round_ticks(0.0, static_cast<double>(values.size() - 1), 8)) {
    if (tick != std::floor(tick)) continue;
    svg.text({frame.x(tick), bottom + 18}, fmt::format("{:.0f}", tick), "soft", Anchor::Middle);
  }
  svg.text({right, bottom + 38}, names.x, "", Anchor::End);
  svg.path(commands_of(values, frame), std::string(class_of(hue)) + " open");
  if (values.size() <= kMarkedPoints)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isfinite(values[i]))
        svg.circle({frame.x(static_cast<double>(i)), frame.y(values[i])}, 3.5, class_of(hue),
                   fmt::format("{} {}: {:.6g}", names.x, i, values[i]));
  return svg;
}

}  // namespace meshwright
