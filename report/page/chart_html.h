// SPDX-License-Identifier: Apache-2.0
// Charts of report/charts as parts of a page, and what is around them.
#pragma once

#include <string>

#include "report/charts/svg.h"
#include "report/page/html.h"

namespace meshwright {

// The rules of all charts in both schemes, as Page::styles.
[[nodiscard]] std::string chart_styles();

// The chart in a box that scrolls sideways where it is too wide.
[[nodiscard]] std::string chart_html(const Svg& chart);

// For assets/points.js: where the numbers of a chosen point are said; a search of a table; a table whose rows are the
// points in their order.
[[nodiscard]] std::string said_html(const std::string& points);
[[nodiscard]] std::string find_html(const std::string& rows, const std::string& label);
[[nodiscard]] std::string rows_html(const std::string& rows, const HtmlTable& table);

}  // namespace meshwright
