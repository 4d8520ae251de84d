// SPDX-License-Identifier: Apache-2.0
#include "report/charts/svg.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// The length of the UTF-8 character that begins at `at`; 0: none does.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || at + length > text.size()) return 0;
  char32_t code = lead & (0x7f >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool no_character = code == 0xfffe || code == 0xffff || code > 0x10ffff;
  return code < kLeast[length] || surrogate || no_character ? 0 : length;
}

struct Colours {
  std::string_view ground, text, soft, grid, link;
};

Colours colours_on(Ground ground) {
  return ground == Ground::Light ? Colours{"#ffffff", "#1b1f24", "#57606a", "#d8dee4", "#0b5cad"}
                                 : Colours{"#14171a", "#e6e9ec", "#9aa4af", "#343b42", "#79b8ff"};
}

// The first level is nearly the ground, the last nearly the hue.
double heat_share(int level) { return 0.1 + 0.8 * level / (kHeatLevels - 1); }

std::string_view end_of(Anchor anchor) {
  return anchor == Anchor::Start ? "" : anchor == Anchor::Middle ? " text-anchor=\"middle\"" : " text-anchor=\"end\"";
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::size_t length = character_at(text, at);
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (length == 0 || control || c == 0x7f) {
      safe += "\xef\xbf\xbd";
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (c == '"') {
      safe += "&quot;";
    } else if (c == '\'') {
      safe += "&#39;";
    } else {
      safe += text.substr(at, length);
    }
    at += std::max<std::size_t>(1, length);
  }
  return safe;
}

std::string_view class_of(Hue hue) {
  switch (hue) {
    case Hue::Forward:
      return "c-forward";
    case Hue::Backward:
      return "c-backward";
    case Hue::WeightGradient:
      return "c-weight-gradient";
    case Hue::Update:
      return "c-update";
    case Hue::Message:
      return "c-message";
    case Hue::Collective:
      return "c-collective";
    case Hue::Recompute:
      return "c-recompute";
    case Hue::Idle:
      return "c-idle";
  }
  throw InternalError("a hue without a class");
}

std::string chart_rules(std::string_view scope, Ground ground) {
  const Colours colours = colours_on(ground);
  std::string rules;
  const auto rule = [&](std::string_view selector, std::string_view style) {
    rules += fmt::format("{}.chart {}{{{}}}", scope, selector, style);
  };
  rule("text", fmt::format("fill:{};stroke:none", colours.text));
  rule(".soft", fmt::format("fill:{}", colours.soft));
  rule(".grid", fmt::format("stroke:{};fill:none", colours.grid));
  rule(".line", fmt::format("stroke:{};fill:none", colours.soft));
  rule(".limit", fmt::format("stroke:{};fill:none;stroke-dasharray:6 4;stroke-width:1.5", colours.text));
  rule(".outline", fmt::format("stroke:{};fill:none;stroke-width:2", colours.text));
  rule("text.on", fmt::format("fill:{}", colours.ground));
  rule(".ground", fmt::format("fill:{}", colours.ground));
  rule(".band", fmt::format("stroke:{};fill:none;stroke-dasharray:2 3", colours.soft));
  for (int level = 0; level < kHeatLevels; ++level) {
    const Rgb behind = mixed(rgb_of(shade_of(Hue::Forward).on(ground)), rgb_of(colours.ground), heat_share(level));
    const bool own = contrast(rgb_of(colours.text), behind) >= contrast(rgb_of(colours.ground), behind);
    rule(fmt::format(".heat-{}", level), fmt::format("fill:{}", hex_of(behind)));
    rule(fmt::format(".on-heat-{}", level), fmt::format("fill:{}", own ? colours.text : colours.ground));
  }
  for (int h = 0; h < kHues; ++h) {
    const Hue hue = static_cast<Hue>(h);
    const std::string_view colour = shade_of(hue).on(ground);
    rule(fmt::format(".{}", class_of(hue)), fmt::format("fill:{}", colour));
    rule(fmt::format(".{}.open", class_of(hue)), fmt::format("fill:none;stroke:{};stroke-width:1.5", colour));
  }
  return rules;
}

std::string svg_number(double value) {
  const double hundredths = std::round(value * 100.0);
  std::string text = fmt::format("{:.2f}", hundredths == 0.0 ? 0.0 : hundredths / 100.0);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

Svg::Svg(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height), title_(xml_text(title)), description_(xml_text(description)) {}

void Svg::mark(std::string_view element, std::string_view attributes, std::string_view classes, std::string_view tip) {
  const std::string named = classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
  body_ += tip.empty()
               ? fmt::format("<{}{}{}/>\n", element, attributes, named)
               : fmt::format("<{0}{1}{2}><title>{3}</title></{0}>\n", element, attributes, named, xml_text(tip));
  ++marks_;
}

void Svg::box(const SvgBox& box, std::string_view classes, std::string_view tip) {
  mark("rect",
       fmt::format(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", svg_number(box.x), svg_number(box.y),
                   svg_number(box.width), svg_number(box.height)),
       classes, tip);
}

void Svg::line(SvgPoint from, SvgPoint to, std::string_view classes) {
  path(fmt::format("M{} {}L{} {}", svg_number(from.x), svg_number(from.y), svg_number(to.x), svg_number(to.y)),
       classes);
}

void Svg::circle(SvgPoint centre, double radius, std::string_view classes, std::string_view tip) {
  mark("circle",
       fmt::format(" cx=\"{}\" cy=\"{}\" r=\"{}\"", svg_number(centre.x), svg_number(centre.y), svg_number(radius)),
       classes, tip);
}

void Svg::path(std::string_view commands, std::string_view classes, std::string_view tip) {
  mark("path", fmt::format(" d=\"{}\"", commands), classes, tip);
}

void Svg::text(SvgPoint at, std::string_view text, std::string_view classes, Anchor anchor) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", svg_number(at.x), svg_number(at.y), end_of(anchor),
                       classes.empty() ? "" : fmt::format(" class=\"{}\"", classes), xml_text(text));
  ++marks_;
}

void Svg::begin_point(std::size_t number) { body_ += fmt::format("<g data-point=\"{}\">\n", number); }
void Svg::end_point() { body_ += "</g>\n"; }

std::string Svg::head(std::string_view classes) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart{4}\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" "
      "role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{2}</title>\n<desc>{3}</desc>\n",
      svg_number(width_), svg_number(height_), title_, description_, classes.empty() ? "" : " " + std::string(classes));
}

std::string Svg::markup(std::string_view classes) const { return head(classes) + body_ + "</svg>\n"; }

std::string Svg::file() const {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}<style>{}\n@media (prefers-color-scheme:dark){{{}}}</style>\n"
      "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
      head(""), chart_rules("", Ground::Light), chart_rules("", Ground::Dark), body_);
}

std::vector<double> round_ticks(double low, double high, int count) {
  MW_CHECK(count >= 1 && low <= high, "{} ticks from {} to {}", count, low, high);
  if (low == high) return {low};
  const double raw = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(raw)));
  const double apart = power * (raw / power <= 1.0 ? 1.0 : raw / power <= 2.0 ? 2.0 : raw / power <= 5.0 ? 5.0 : 10.0);
  std::vector<double> ticks;
  const auto first = static_cast<long>(std::ceil(low / apart - 1e-9));
  for (long i = first; static_cast<double>(i) * apart <= high + 1e-9 * apart; ++i)
    ticks.push_back(static_cast<double>(i) * apart);
  return ticks;
}

}  // namespace meshwright
