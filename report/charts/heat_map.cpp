// SPDX-License-Identifier: Apache-2.0
#include "report/charts/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "report/charts/time_axis.h"

namespace meshwright {

namespace {

constexpr double kCellWidth = 84, kCellHeight = 30, kGridEdge = 12, kGridHead = 30, kMapHead = 40, kMapFoot = 40;

struct Scale {
  double low, high;
  // The scale is logarithmic: a step twice as long is as far from one as four times is from twice.
  [[nodiscard]] int level(double value) const {
    if (!(low > 0.0) || high <= low) return 0;
    const double share = std::log(value / low) / std::log(high / low);
    return std::clamp(static_cast<int>(std::lround(share * (kHeatLevels - 1))), 0, kHeatLevels - 1);
  }
};

Scale scale_of(const std::vector<HeatMap>& maps) {
  std::optional<Scale> scale;
  for (const HeatMap& map : maps)
    for (const auto& cell : map.cells) {
      if (!cell || !cell->value) continue;
      if (!scale) scale = {*cell->value, *cell->value};
      scale->low = std::min(scale->low, *cell->value);
      scale->high = std::max(scale->high, *cell->value);
    }
  return scale.value_or(Scale{0.0, 0.0});
}

double label_width(const std::vector<HeatMap>& maps, const HeatMapNames& names) {
  std::size_t letters = names.rows.size();
  for (const HeatMap& map : maps)
    for (const std::string& row : map.rows) letters = std::max(letters, row.size());
  return width_of_text(letters) + 10;
}

void add_cell(Svg& svg, const HeatCell& cell, const Scale& scale, SvgPoint corner) {
  const SvgBox box{corner.x + 1, corner.y + 1, kCellWidth - 2, kCellHeight - 2};
  const std::string level = cell.value ? fmt::format("{}", scale.level(*cell.value)) : "";
  svg.begin_point(cell.point);
  svg.box(box, cell.value ? "heat-" + level : std::string(class_of(Hue::Idle)), cell.tip);
  svg.text({corner.x + kCellWidth / 2, corner.y + kCellHeight / 2 + 4}, cell.value ? cell.text : "no plan",
           cell.value ? "on-heat-" + level : "soft", Anchor::Middle);
  svg.end_point();
}

void add_map(Svg& svg, const HeatMap& map, const HeatMapNames& names, const Scale& scale, SvgPoint corner, double label,
             std::optional<std::size_t> best) {
  MW_CHECK(map.cells.size() == map.rows.size() * map.columns.size(), "{} cells in {} rows of {}", map.cells.size(),
           map.rows.size(), map.columns.size());
  svg.text({corner.x, corner.y + 14}, map.title);
  svg.text({corner.x + label - 8, corner.y + 32}, names.rows, "soft", Anchor::End);
  const double top = corner.y + kMapHead;
  std::optional<SvgPoint> outlined;
  for (std::size_t c = 0; c < map.columns.size(); ++c)
    svg.text({corner.x + label + kCellWidth * (static_cast<double>(c) + 0.5), corner.y + 32}, map.columns[c], "",
             Anchor::Middle);
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + kCellHeight * static_cast<double>(r);
    svg.text({corner.x + label - 8, y + kCellHeight / 2 + 4}, map.rows[r], "", Anchor::End);
    for (std::size_t c = 0; c < map.columns.size(); ++c) {
      const auto& cell = map.cells[r * map.columns.size() + c];
      if (!cell) continue;
      const SvgPoint at{corner.x + label + kCellWidth * static_cast<double>(c), y};
      add_cell(svg, *cell, scale, at);
      if (best && cell->point == *best && cell->value) outlined = at;
    }
  }
  svg.text({corner.x + label, top + kCellHeight * static_cast<double>(map.rows.size()) + 18}, names.columns, "soft");
  // Above all neighbours.
  if (outlined) svg.box({outlined->x + 1, outlined->y + 1, kCellWidth - 2, kCellHeight - 2}, "outline");
}

}  // namespace

Svg heat_map_svg(const std::vector<HeatMap>& maps, const HeatMapNames& names, std::optional<std::size_t> best) {
  const Scale scale = scale_of(maps);
  const double label = label_width(maps, names);
  double width = 2 * kGridEdge + width_of_text(names.title.size()), height = kGridHead + kGridEdge;
  std::size_t with = 0, without = 0;
  for (const HeatMap& map : maps) {
    width = std::max(width, 2 * kGridEdge + label + kCellWidth * static_cast<double>(map.columns.size()));
    height += kMapHead + kCellHeight * static_cast<double>(map.rows.size()) + kMapFoot;
    for (const auto& cell : map.cells) {
      with += cell && cell->value ? 1 : 0;
      without += cell && !cell->value ? 1 : 0;
    }
  }
  Svg svg(width, height, names.title,
          fmt::format("{} by {} and {}: {} cells have a plan, {} have none; the best is outlined.", names.value,
                      names.columns, names.rows, with, without));
  svg.text({kGridEdge, 20}, names.title);
  double y = kGridHead;
  for (const HeatMap& map : maps) {
    add_map(svg, map, names, scale, {kGridEdge, y}, label, best);
    y += kMapHead + kCellHeight * static_cast<double>(map.rows.size()) + kMapFoot;
  }
  return svg;
}

}  // namespace meshwright
