// SPDX-License-Identifier: Apache-2.0
// Tables of comma-separated values (RFC 4180) whose first row names the columns; gzip files are unpacked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// A row with its line end; cells that hold a comma, a quote or the end of a line are put in quotes.
[[nodiscard]] std::string csv_row(const std::vector<std::string>& cells);

class CsvTable {
 public:
  // A row, for as long as its table lives. A place is "FILE, line 7, column 'heads'".
  class Row {
   public:
    [[nodiscard]] int line() const { return line_; }
    [[nodiscard]] std::string place() const;
    [[nodiscard]] std::string place(std::string_view column) const;

    // The text of the cell; "" where the table has no such column.
    [[nodiscard]] std::string_view text(std::string_view column) const;
    // nullopt: the cell is empty or the column missing. Throws InputError naming the place for anything that is not a
    // finite number.
    [[nodiscard]] std::optional<double> number(std::string_view column) const;
    // The same for whole numbers from `low` to `high`.
    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view column, std::int64_t low,
                                                      std::int64_t high) const;

   private:
    friend class CsvTable;
    const CsvTable* table_ = nullptr;
    int line_ = 0;  // from 1; of the row's first line
    std::vector<std::string> cells_;
  };

  // Throws SystemError when the file cannot be read. Throws InputError for no rows, columns named twice, a row of
  // another length than the first, or quotes that do not close.
  [[nodiscard]] static CsvTable read(const std::string& path);
  [[nodiscard]] static CsvTable parse(std::string_view text, const std::string& place);

  [[nodiscard]] bool has(std::string_view column) const { return number_of_.find(column) != number_of_.end(); }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] const std::string& place() const { return place_; }

  CsvTable(CsvTable&& other) noexcept;
  CsvTable& operator=(CsvTable&&) = delete;

 private:
  explicit CsvTable(std::string place) : place_(std::move(place)) {}

  std::string place_;
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t, std::less<>> number_of_;  // of a column
  std::vector<Row> rows_;
};

}  // namespace meshwright
