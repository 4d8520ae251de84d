// SPDX-License-Identifier: Apache-2.0
#include "report/page/time_bars.h"

#include <algorithm>
#include <utility>

#include "report/page/html.h"

namespace meshwright {

std::string hatch_html() {
  return "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" "
         "height=\"6\" "
         "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"t-idle\" width=\"6\" "
         "height=\"6\"/><rect class=\"hatch\" width=\"2\" height=\"6\"/></pattern></defs></svg>\n";
}

KindTimes kinds_of(const TimeParts& parts) {
  KindTimes sums{};
  for (const auto& [part, time] : parts) sums[static_cast<std::size_t>(part.kind)] += time.exposed.ps;
  return sums;
}

TimeOfPage time_of(const StepOfPage& of) { return {of.plan, of.program, of.breakdown, of.folded, &of.ops}; }

std::vector<AlikeDevices> alike_devices(const TimeOfPage& of) {
  const std::vector<std::vector<int>> stood_for = row_devices(of.plan, of.program, of.folded).numbers;
  std::vector<AlikeDevices> rows;
  const auto same_parts = [](const TimeParts& a, const TimeParts& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
      return one.first == other.first && one.second.exposed == other.second.exposed &&
             one.second.hidden == other.second.hidden;
    });
  };
  for (const DeviceBreakdown& device : of.breakdown.devices) {
    auto same = std::find_if(rows.begin(), rows.end(), [&](const AlikeDevices& row) {
      return row.stage == device.stage && same_parts(row.parts, device.parts);
    });
    if (same == rows.end()) same = rows.insert(rows.end(), {device.stage, {}, device.parts});
    const std::vector<int>& devices = stood_for[device.device.index()];
    same->devices.insert(same->devices.end(), devices.begin(), devices.end());
  }
  for (AlikeDevices& row : rows) std::sort(row.devices.begin(), row.devices.end());
  std::stable_sort(rows.begin(), rows.end(), [](const AlikeDevices& a, const AlikeDevices& b) {
    return std::pair(a.stage, a.devices.front()) < std::pair(b.stage, b.devices.front());
  });
  return rows;
}

double share_of_step(std::int64_t ps, SimTime step) {
  return step.ps == 0 ? 0.0 : static_cast<double>(ps) / static_cast<double>(step.ps);
}

namespace {

std::string class_of_kind(TimeKind kind) {
  std::string name = name_of(kind);
  std::replace(name.begin(), name.end(), ' ', '-');
  return "t-" + name;
}

}  // namespace

// The widths are SVG attributes: a page has no style attributes. Labels of narrow parts show on wide screens alone, or
// not at all.
std::string time_bar(const KindTimes& times, SimTime step) {
  constexpr double kLabel = 0.08, kLabelOnPhones = 0.2;
  std::string parts;
  double x = 0.0;
  for (std::size_t k = 0; k < times.size(); ++k) {
    if (times[k] == 0) continue;
    const auto kind = static_cast<TimeKind>(k);
    const double share = share_of_step(times[k], step);
    parts += fmt::format(
        "<rect class=\"{}\" x=\"{:.4f}%\" width=\"{:.4f}%\" height=\"100%\"><title>{}: {}, {} %</title></rect>",
        class_of_kind(kind), 100.0 * x, 100.0 * share, name_of(kind), time_text(to_seconds(SimTime{times[k]})),
        percent_text(share));
    if (share >= kLabel)
      parts += fmt::format("<text class=\"{}{}\" x=\"{:.4f}%\" y=\"50%\">{} %</text>",
                           kind >= TimeKind::Bubble ? "dark" : "light", share < kLabelOnPhones ? " roomy" : "",
                           100.0 * (x + share / 2), percent_text(share));
    x += share;
  }
  return "<svg class=\"bar\" aria-hidden=\"true\">" + parts + "</svg>";
}

std::string legend_of(const KindTimes& all) {
  std::string text = "<ul class=\"legend\">";
  for (std::size_t k = 0; k < all.size(); ++k)
    if (all[k] > 0)
      text +=
          fmt::format("<li><svg aria-hidden=\"true\"><rect class=\"{}\" width=\"100%\" height=\"100%\"/></svg>{}</li>",
                      class_of_kind(static_cast<TimeKind>(k)), name_of(static_cast<TimeKind>(k)));
  return text + "</ul>\n";
}

}  // namespace meshwright
