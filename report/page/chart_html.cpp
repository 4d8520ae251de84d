// SPDX-License-Identifier: Apache-2.0
#include "report/page/chart_html.h"

namespace meshwright {

std::string chart_styles() {
  const std::string dark = chart_rules("", Ground::Dark);
  return chart_rules("", Ground::Light) + "\n@media (prefers-color-scheme:dark){" + dark + "}\n" +
         chart_rules(":root[data-theme=light] ", Ground::Light) + "\n" +
         chart_rules(":root[data-theme=dark] ", Ground::Dark) +
         "\n.beside{display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start}.beside>div{flex:1 1 "
         "24rem;min-width:0;max-width:100%}"
         ".chart g[data-point]{cursor:pointer}.chart g:focus-visible>*,.chart g.chosen>:first-child{stroke:var(--text);"
         "stroke-width:2.5}tr.chosen>*{background:var(--panel)}\n";
}

std::string chart_html(const Svg& chart) {
  constexpr double kScales = 480;  // a narrower chart keeps its size
  return fmt::format("<div class=\"wide picture\">{}</div>", chart.markup(chart.width() > kScales ? "scales" : ""));
}

std::string said_html(const std::string& points) {
  return fmt::format("<p class=\"info\" id=\"{}-said\" aria-live=\"polite\"></p>\n", escaped(points));
}

std::string find_html(const std::string& rows, const std::string& label) {
  return fmt::format("<div class=\"tools\" hidden><label>{} <input type=\"search\" data-finds=\"{}\"></label></div>\n",
                     escaped(label), escaped(rows));
}

std::string rows_html(const std::string& rows, const HtmlTable& table) {
  return fmt::format("<div data-rows=\"{}\">{}</div>\n", escaped(rows), table.html());
}

}  // namespace meshwright
