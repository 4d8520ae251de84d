// SPDX-License-Identifier: Apache-2.0
// A table of aligned text columns with a row of names and a row of units, both marked as comments with '#'.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

class TextTable {
 public:
  struct Column {
    std::string name;
    std::string unit;  // "" when it has none
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: as many cells as columns.
  void add_row(std::vector<std::string> cells);
  // Numbers and everything else are aligned to the right, the last column to the left.
  [[nodiscard]] std::string to_text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace meshwright
