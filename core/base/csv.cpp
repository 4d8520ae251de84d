// SPDX-License-Identifier: Apache-2.0
#include "core/base/csv.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/base/file.h"
#include "core/base/gzip.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// The records of a text, one after the other.
class CsvRecords {
 public:
  CsvRecords(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  // The cells of the next record that is not an empty line; none at the end.
  std::vector<std::string> next() {
    std::vector<std::string> cells;
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) skip_line_end();
    first_line_ = line_;
    while (at_ < text_.size()) {
      cells.push_back(text_[at_] == '"' ? quoted_cell() : plain_cell());
      if (at_ == text_.size()) break;
      if (text_[at_] != ',') {
        skip_line_end();
        break;
      }
      ++at_;
      if (at_ == text_.size()) cells.emplace_back();  // a comma ends the text: an empty cell follows it
    }
    return cells;
  }
  [[nodiscard]] int first_line() const { return first_line_; }

 private:
  void skip_line_end() {
    if (text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
  }
  std::string plain_cell() {
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    std::string cell(text_.substr(at_, end - at_));
    at_ = end;
    return cell;
  }
  // Two quotes stand for one; commas and line ends are text.
  std::string quoted_cell() {
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        cell += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[++at_];
      } else {
        ++at_;
        require(at_ == text_.size() || text_.find_first_of(",\r\n", at_) == at_,
                "{}, line {}: text follows a closing quote; put a comma or the end of the line there.", place_, line_);
        return cell;
      }
    }
    throw InputError(fmt::format("{}, line {}: a quote does not close; add the closing '\"'.", place_, first_line_));
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
  int line_ = 1, first_line_ = 1;
};

}  // namespace

std::string CsvTable::Row::place() const { return fmt::format("{}, line {}", table_->place_, line_); }
std::string CsvTable::Row::place(std::string_view column) const {
  return fmt::format("{}, column '{}'", place(), column);
}

std::string_view CsvTable::Row::text(std::string_view column) const {
  const auto found = table_->number_of_.find(column);
  return found == table_->number_of_.end() ? std::string_view() : cells_[found->second];
}

std::optional<double> CsvTable::Row::number(std::string_view column) const {
  const std::string_view written = text(column);
  if (written.empty()) return std::nullopt;
  double value = 0.0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  require(error == std::errc() && end == written.data() + written.size() && std::isfinite(value),
          "{}: '{}' is not a finite number; write one such as 12.5, or leave the cell empty.", place(column), written);
  return value;
}

std::optional<std::int64_t> CsvTable::Row::integer(std::string_view column, std::int64_t low, std::int64_t high) const {
  const std::optional<double> value = number(column);
  if (!value) return std::nullopt;
  require(*value == std::floor(*value) && *value >= static_cast<double>(low) && *value <= static_cast<double>(high),
          "{}: '{}' is not a whole number from {} to {}.", place(column), text(column), low, high);
  return static_cast<std::int64_t>(*value);
}

CsvTable::CsvTable(CsvTable&& other) noexcept
    : place_(std::move(other.place_)),
      columns_(std::move(other.columns_)),
      number_of_(std::move(other.number_of_)),
      rows_(std::move(other.rows_)) {
  for (Row& row : rows_) row.table_ = this;
}

CsvTable CsvTable::read(const std::string& path) { return parse(read_all(open_unpacked(path, kMaxTextBytes)), path); }

CsvTable CsvTable::parse(std::string_view text, const std::string& place) {
  CsvTable table(place);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  CsvRecords records(text, table.place_);
  table.columns_ = records.next();
  require(!table.columns_.empty(), "{} is empty; expected a first row with the names of the columns.", place);
  for (std::size_t i = 0; i < table.columns_.size(); ++i)
    require(table.number_of_.emplace(table.columns_[i], i).second, "{}: two columns are named '{}'; rename one.", place,
            table.columns_[i]);
  for (std::vector<std::string> cells = records.next(); !cells.empty(); cells = records.next()) {
    Row row;
    row.table_ = &table;
    row.line_ = records.first_line();
    require(cells.size() == table.columns_.size(), "{}, line {}: {} cells, but the table has {} columns.", place,
            row.line_, cells.size(), table.columns_.size());
    row.cells_ = std::move(cells);
    table.rows_.push_back(std::move(row));
  }
  require(!table.rows_.empty(), "{} has no rows below the names of its columns; add some.", place);
  return table;
}

std::string csv_row(const std::vector<std::string>& cells) {
  std::string row;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) row += ',';
    if (cells[c].find_first_of(",\"\n\r") == std::string::npos) {
      row += cells[c];
      continue;
    }
    row += '"';
    for (const char letter : cells[c]) row += letter == '"' ? std::string("\"\"") : std::string(1, letter);
    row += '"';
  }
  return row + '\n';
}

}  // namespace meshwright
