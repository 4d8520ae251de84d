// SPDX-License-Identifier: Apache-2.0
// A picture as SVG: the same marks as a file of its own, which follows the viewer's light or dark scheme, and as a part
// of a page, whose styles hold chart_rules().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/charts/palette.h"

namespace meshwright {

// For XML and HTML alike, as text or in double quotes: none of & < > " ' is left. Control characters and bytes that are
// no UTF-8, which XML cannot hold, become U+FFFD.
[[nodiscard]] std::string xml_text(std::string_view text);

// The style rules of all charts on one ground, each selector after `scope` ("" or ":root[data-theme=dark] ").
[[nodiscard]] std::string chart_rules(std::string_view scope, Ground ground);
// Steps of a sequential scale, of the classes "heat-0" to "heat-8", and texts on them: "on-heat-0".
inline constexpr int kHeatLevels = 9;
// The class of what is painted in a hue: "c-forward".
[[nodiscard]] std::string_view class_of(Hue hue);

struct SvgPoint {
  double x, y;
};
struct SvgBox {
  double x, y, width, height;
};
enum class Anchor { Start, Middle, End };

// Coordinates are written to a hundredth; `tip` is what a pointer sees ("" for none). Classes are those of
// chart_rules: "c-..." of a hue, "line", "grid", "limit", "soft" (secondary
// text), "on" (text on a hue), "outline", "band".
class Svg {
 public:
  // `title`: what the picture is; `description`: what it shows, for who does not see it.
  Svg(double width, double height, std::string_view title, std::string_view description);

  void box(const SvgBox& box, std::string_view classes, std::string_view tip = "");
  void line(SvgPoint from, SvgPoint to, std::string_view classes);
  void circle(SvgPoint centre, double radius, std::string_view classes, std::string_view tip = "");
  // `commands`: "M0 0H3".
  void path(std::string_view commands, std::string_view classes, std::string_view tip = "");
  void text(SvgPoint at, std::string_view text, std::string_view classes = "", Anchor anchor = Anchor::Start);
  // What follows is in a group with the attribute data-point="number", by which a script of the page finds it.
  void begin_point(std::size_t number);
  void end_point();

  [[nodiscard]] int marks() const { return marks_; }                      // boxes, lines, circles, paths and texts
  [[nodiscard]] std::string markup(std::string_view classes = "") const;  // an <svg> element, with more classes
  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] std::string file() const;  // with the XML declaration and styles for both schemes

 private:
  void mark(std::string_view element, std::string_view attributes, std::string_view classes, std::string_view tip);
  [[nodiscard]] std::string head(std::string_view classes) const;

  double width_, height_;
  std::string title_, description_, body_;
  int marks_ = 0;
};

// "12.25", "3": a coordinate.
[[nodiscard]] std::string svg_number(double value);

// About `count` round numbers from `low` to `high`: 1, 2 or 5 times a power of ten apart.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, int count);

}  // namespace meshwright
