// SPDX-License-Identifier: Apache-2.0
#include "report/charts/timing_bars.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"
#include "report/charts/time_axis.h"

namespace meshwright {

namespace {

constexpr double kPairsWide = 900, kBarLabel = 130, kPairsRight = 40, kBarHigh = 18, kPairGap = 16, kPairsAbove = 36,
                 kPairsBelow = 60;

Seconds time_of(const TimingPart& part, std::size_t side) { return side == 0 ? part.first : part.second; }

Seconds longest_of(const std::vector<TimingBars>& pairs) {
  Seconds longest(0.0);
  for (const TimingBars& pair : pairs)
    for (const std::size_t side : {0, 1}) {
      Seconds sum(0.0);
      for (const TimingPart& part : pair.parts) sum += time_of(part, side);
      longest = std::max(longest, sum);
    }
  return longest;
}

// Each kind of part once, in the order of the first pair that has it.
void add_legend(Svg& svg, const std::vector<TimingBars>& pairs, double y) {
  std::vector<std::string> seen;
  double x = kBarLabel;
  for (const TimingBars& pair : pairs)
    for (const TimingPart& part : pair.parts) {
      if (std::find(seen.begin(), seen.end(), part.name) != seen.end()) continue;
      seen.push_back(part.name);
      svg.box({x, y - 10, 12, 12}, class_of(part.hue));
      svg.text({x + 17, y}, part.name);
      x += 17 + width_of_text(part.name.size()) + 18;
    }
}

}  // namespace

Svg timing_bars_svg(const std::vector<TimingBars>& pairs, std::string_view title, std::string_view description,
                    const std::array<std::string, 2>& names) {
  const double pair_high = 2 * kBarHigh + 2 + kPairGap;
  const double height = kPairsAbove + pair_high * static_cast<double>(pairs.size()) + kPairsBelow;
  const TimeAxis axis{kBarLabel, kPairsWide - kBarLabel - kPairsRight, to_sim_time(longest_of(pairs))};
  Svg svg(kPairsWide, height, title, description);
  add_time_axis(svg, axis, kPairsAbove - 10, height - kPairsBelow);
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const double top = kPairsAbove + pair_high * static_cast<double>(p);
    svg.text({kBarLabel - 10, top + kBarHigh + 5}, pairs[p].label, "", Anchor::End);
    for (const std::size_t side : {0, 1}) {
      Seconds begin(0.0);
      for (const TimingPart& part : pairs[p].parts) {
        const Seconds time = time_of(part, side);
        const double x = axis.at(to_sim_time(begin)), end = axis.at(to_sim_time(begin + time));
        svg.box({x, top + static_cast<double>(side) * (kBarHigh + 2), end - x, kBarHigh}, class_of(part.hue),
                fmt::format("{} of {}, {}: {}", part.name, pairs[p].label, names[side], human_seconds(time)));
        begin += time;
      }
    }
  }
  add_legend(svg, pairs, height - 14);
  return svg;
}

}  // namespace meshwright
