// SPDX-License-Identifier: Apache-2.0
#include "report/charts/bars.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshwright {

namespace {

constexpr double kBarsHigh = 260, kBarsAbove = 44, kBarsUnder = 78, kBarsSide = 50, kBarsEach = 36;
constexpr int kBarsTicks = 5;

}  // namespace

Svg bars_svg(const std::vector<Bar>& bars, const BarNames& names) {
  const double width = 2 * kBarsSide + kBarsEach * static_cast<double>(bars.size());
  Svg svg(width, kBarsAbove + kBarsHigh + kBarsUnder, names.title, names.description);
  double most = 1.0;
  for (const Bar& bar : bars) most = std::max(most, bar.value);
  const auto y = [&](double value) { return kBarsAbove + kBarsHigh * (1.0 - value / most); };
  svg.text({12, 20}, names.title);
  svg.text({kBarsSide, kBarsAbove - 8}, names.value, "soft");
  for (const double tick : round_ticks(0.0, most, kBarsTicks)) {
    svg.line({kBarsSide, y(tick)}, {width - kBarsSide, y(tick)}, "grid");
    svg.text({kBarsSide - 6, y(tick) + 4}, fmt::format("{:g}", tick), "soft", Anchor::End);
  }
  for (std::size_t b = 0; b < bars.size(); ++b) {
    const double x = kBarsSide + kBarsEach * static_cast<double>(b);
    svg.box({x + 2, y(bars[b].value), kBarsEach - 4, kBarsAbove + kBarsHigh - y(bars[b].value)}, class_of(bars[b].hue),
            bars[b].tip);
    // Names are longer than bars are wide: one of three, and the last.
    if (b % 3 == 0 || b + 1 == bars.size())
      svg.text({x + kBarsEach / 2, kBarsAbove + kBarsHigh + 18}, bars[b].name, "soft", Anchor::Middle);
  }
  svg.text({width / 2, kBarsAbove + kBarsHigh + 62}, names.bars, "", Anchor::Middle);
  return svg;
}

}  // namespace meshwright
