// SPDX-License-Identifier: Apache-2.0
// Grids of cells whose colour is a number: light for what is best, dark for what is worst.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/charts/svg.h"

namespace meshwright {

struct HeatCell {
  std::optional<double> value;  // nullopt: there is none, as `tip` says
  std::string text;             // in the cell: "19.93"
  std::string tip;
  std::size_t point = 0;  // its number, for a script of the page
};

// Cells that lie in a plane: by row, then by column; nullopt where there is no such point.
struct HeatMap {
  std::string title;  // "1f1b"
  std::vector<std::string> columns, rows;
  std::vector<std::optional<HeatCell>> cells;
};

struct HeatMapNames {
  std::string_view title, columns, rows, value;  // "step of ...", "micro-batches", "layers", "step (ms)"
};

// One map under the other, on one scale of colours; `best`: the point that is outlined.
[[nodiscard]] Svg heat_map_svg(const std::vector<HeatMap>& maps, const HeatMapNames& names,
                               std::optional<std::size_t> best);

}  // namespace meshwright
