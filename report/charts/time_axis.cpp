// SPDX-License-Identifier: Apache-2.0
#include "report/charts/time_axis.h"

#include <fmt/format.h>

namespace meshwright {

namespace {

constexpr double kLetterWidth = 6.6;
constexpr int kAxisTicks = 8;

}  // namespace

double width_of_text(std::size_t letters) { return kLetterWidth * static_cast<double>(letters); }

double TimeAxis::at(SimTime time) const {
  return end.ps == 0 ? left : left + width * static_cast<double>(time.ps) / static_cast<double>(end.ps);
}

void add_time_axis(Svg& svg, const TimeAxis& axis, double top, double bottom) {
  const double whole = to_seconds(axis.end).si();
  const double unit = whole >= 1.0 ? 1.0 : whole >= 1e-3 ? 1e-3 : 1e-6;
  const std::string_view name = unit == 1.0 ? "s" : unit == 1e-3 ? "ms" : "us";
  for (const double tick : round_ticks(0.0, whole / unit, kAxisTicks)) {
    const double x = whole == 0.0 ? axis.left : axis.left + axis.width * tick * unit / whole;
    svg.line({x, top}, {x, bottom + 4}, "grid");
    svg.text({x, bottom + 16}, tick == 0.0 ? "0" : fmt::format("{:g} {}", tick, name), "soft", Anchor::Middle);
  }
}

}  // namespace meshwright
