// SPDX-License-Identifier: Apache-2.0
#include "report/page/html.h"

#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

std::string escaped(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string script_json(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest.front() == '<') {
      safe += "\\u003c";
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {  // the separators U+2028, U+2029
      safe += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      safe += rest.front();
    }
  }
  return safe;
}

namespace {

const char* class_of(HtmlTable::Align align) {
  return align == HtmlTable::Align::Number ? " class=\"n\"" : align == HtmlTable::Align::Code ? " class=\"c\"" : "";
}

}  // namespace

HtmlTable::HtmlTable(std::string caption, std::vector<Column> columns)
    : caption_(std::move(caption)), columns_(std::move(columns)) {}

void HtmlTable::add_row(const std::vector<std::string>& cells) {
  MW_CHECK(cells.size() == columns_.size(), "{} cells in a table of {} columns", cells.size(), columns_.size());
  body_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i)
    body_ += i == 0 ? fmt::format("<th scope=\"row\"{}>{}</th>", class_of(columns_[i].align), escaped(cells[i]))
                    : fmt::format("<td{}>{}</td>", class_of(columns_[i].align), escaped(cells[i]));
  body_ += "</tr>\n";
  ++rows_;
}

std::string HtmlTable::html() const {
  std::string head;
  for (const Column& column : columns_)
    head += fmt::format("<th scope=\"col\"{}>{}</th>", class_of(column.align), escaped(column.name));
  return fmt::format(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption "
      "class=\"heard\">{0}</caption><thead><tr>{1}</tr></thead><tbody>\n{2}</tbody></table></div>\n",
      escaped(caption_), head, body_);
}

std::string details_html(const std::string& summary, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escaped(summary), html);
}

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

namespace {

// Fixed digits with thousands apart; what rounds to nothing has no sign.
std::string fixed_text(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find_first_not_of("-0.") == std::string::npos) return "0";
  if (std::abs(value) >= 9e15) return text;
  const std::size_t point = text.find('.');
  const std::string whole = text.substr(0, point);
  const bool below_zero = whole.front() == '-';
  const std::string apart = grouped(std::stoll(below_zero ? whole.substr(1) : whole));
  return (below_zero ? "-" : "") + apart + (point == std::string::npos ? "" : text.substr(point));
}

}  // namespace

std::string time_text(Seconds time) {
  const double seconds = std::abs(time.si());
  if (seconds == 0.0) return "0";
  if (seconds >= 1.0) return fixed_text(time.si(), 3) + " s";
  if (seconds >= 1e-3) return fixed_text(time.si() * 1e3, 3) + " ms";
  return fixed_text(time.si() * 1e6, 3) + " us";
}

std::string milliseconds_text(Seconds time) { return fixed_text(time.si() * 1e3, 3); }
std::string gibibytes_text(Bytes bytes) {
  const double gib = bytes / gibibytes(1);
  return std::abs(gib) >= 0.01 || gib == 0.0 ? fixed_text(gib, 2) : fmt::format("{:.2g}", gib);
}
std::string percent_text(double share) { return fixed_text(share * 100.0, 1); }

namespace {

std::vector<std::pair<int, int>> ranges_of_numbers(const std::vector<int>& ascending) {
  std::vector<std::pair<int, int>> ranges;
  for (const int number : ascending) {
    if (!ranges.empty() && ranges.back().second + 1 == number) {
      ranges.back().second = number;
    } else {
      ranges.emplace_back(number, number);
    }
  }
  return ranges;
}

}  // namespace

std::string ranges_text(const std::vector<int>& ascending) {
  std::vector<std::string> parts;
  for (const auto& [first, last] : ranges_of_numbers(ascending))
    parts.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  return join(parts, ", ");
}

Json ranges_json(const std::vector<int>& ascending) {
  Json ranges = Json::array();
  for (const auto& [first, last] : ranges_of_numbers(ascending)) ranges.push_back(Json::array({first, last}));
  return ranges;
}

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : noun.ends_with("ch") ? "es" : "s");
}

}  // namespace meshwright
