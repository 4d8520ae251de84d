// SPDX-License-Identifier: Apache-2.0
#include "core/base/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

void TextTable::add_row(std::vector<std::string> cells) {
  MW_CHECK(cells.size() == columns_.size(), "a row of {} cells in a table of {} columns", cells.size(),
           columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::to_text() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(std::max(column.name.size(), column.unit.size()));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());

  const auto line = [&](const std::string& lead, const auto& cell_at) {
    std::string text = lead;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      text +=
          i + 1 == columns_.size() ? fmt::format("  {}", cell_at(i)) : fmt::format("  {:>{}}", cell_at(i), widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line("#", [&](std::size_t i) { return columns_[i].name; });
  if (std::any_of(columns_.begin(), columns_.end(), [](const Column& c) { return !c.unit.empty(); }))
    text += line("#", [&](std::size_t i) { return columns_[i].unit; });
  for (const auto& row : rows_) text += line(" ", [&](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace meshwright
