// SPDX-License-Identifier: Apache-2.0
// HTML by hand: text that stays text, tables, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/units.h"

namespace meshwright {

// For text and for attributes in double quotes: none of & < > " ' is left.
[[nodiscard]] std::string escaped(std::string_view text);
// JSON between script tags: nothing in it ends the element, whatever its strings hold. Bytes that are no UTF-8 become
// U+FFFD.
[[nodiscard]] std::string script_json(const Json& json);

// A table of escaped cells. The first column is the rows' heading; numbers are aligned to the right.
class HtmlTable {
 public:
  enum class Align { Text, Code, Number };
  struct Column {
    std::string name;
    Align align = Align::Number;
  };
  // `caption`: what the table is of, for those who do not see what stands around it.
  HtmlTable(std::string caption, std::vector<Column> columns);
  // REQUIRES: as many cells as columns.
  void add_row(const std::vector<std::string>& cells);
  [[nodiscard]] std::size_t rows() const { return rows_; }
  // Such a table may scroll sideways; the page never does.
  [[nodiscard]] std::string html() const;

 private:
  std::string caption_;
  std::vector<Column> columns_;
  std::string body_;
  std::size_t rows_ = 0;
};

// A part that is closed at first; print shows it.
[[nodiscard]] std::string details_html(const std::string& summary, const std::string& html);

[[nodiscard]] std::string grouped(std::int64_t number);                    // "420,880"
[[nodiscard]] std::string time_text(Seconds time);                         // "19.931 s", "88.453 ms", "4.200 us", "0"
[[nodiscard]] std::string milliseconds_text(Seconds time);                 // "19,931.124"
[[nodiscard]] std::string gibibytes_text(Bytes bytes);                     // "55.07"
[[nodiscard]] std::string percent_text(double share);                      // "8.4"
[[nodiscard]] std::string ranges_text(const std::vector<int>& ascending);  // "0-127, 130"
[[nodiscard]] Json ranges_json(const std::vector<int>& ascending);         // [[0, 127], [130, 130]]
// "1 stage", "4 stages", "2 micro-batches"
[[nodiscard]] std::string counted(std::int64_t number, std::string_view noun);

}  // namespace meshwright
