// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule_csv.h"

#include <algorithm>
#include <cctype>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/schedule/check_schedule.h"

namespace meshwright {

namespace {

class Reader {
 public:
  Reader(std::string_view text, std::string place) {
    places_ = {std::move(place), "row", "column", 1, {}};
    read(text);
    if (const auto wrong = wrong_schedule(schedule_, places_)) throw InputError(*wrong);
  }
  [[nodiscard]] Schedule take() { return std::move(schedule_); }

 private:
  void read(std::string_view text) {
    std::vector<std::string> lines = split(text, '\n');
    const auto is_blank = [](const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; };
    // Blank lines at the end are no ranks; one before is a rank without runs, which the check refuses.
    while (!lines.empty() && is_blank(lines.back())) lines.pop_back();
    require(!lines.empty(), "{} has no rows; give one row of cells like 0F0 for each rank", places_.place);
    for (const std::string& line : lines) {
      schedule_.emplace_back();
      places_.numbers.emplace_back();
      int column = 0;
      for (const std::string& cell : split(line, ',')) read_cell(cell, ++column);
    }
  }

  // In the last row.
  void read_cell(const std::string& cell, int column) {
    const std::size_t begin = cell.find_first_not_of(" \t\r");
    if (begin == std::string::npos) return;
    const std::string text = cell.substr(begin, cell.find_last_not_of(" \t\r") + 1 - begin);
    schedule_.back().push_back(parse(text, column));
    places_.numbers.back().push_back(column);
  }

  [[nodiscard]] ScheduledRun parse(const std::string& text, int column) const {
    const std::string at = fmt::format("{}, row {}, column {}", places_.place, schedule_.size(), column);
    require(text.front() != '(', "{}: '{}' has several runs in one cell; give each its own cell", at, text);
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto letters = std::find_if_not(text.begin(), text.end(), is_digit);
    const std::string name(letters, std::find_if(letters, text.end(), is_digit));
    // What PyTorch's schedules (torch.distributed.pipelining) have beside F, B, I and W.
    for (const char* action : {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"})
      require(name != action,
              "{}: '{}' is communication; give the compute-only schedule, in which communication is implied", at, text);
    const std::optional<ScheduledRun> run = run_from_text(text);
    require(run.has_value(),
            "{}: '{}' is not a run; expected stage, F, B, I or W, and microbatch, such as 0F0, or an empty cell", at,
            text);
    return *run;
  }

  RunPlaces places_;
  Schedule schedule_;
};

}  // namespace

std::string schedule_to_csv(const Schedule& schedule, int copies) {
  int stages = 1;
  for (const auto& runs : schedule)
    for (const ScheduledRun& run : runs) stages = std::max(stages, run.stage.value + 1);
  // Columns are ticks of unit time: what can run at once is in one column.
  const std::vector<std::vector<int>> ticks = unit_ticks(schedule, line_feeds(stages, copies));
  int columns = 0;
  for (const auto& ticks_of_rank : ticks)
    if (!ticks_of_rank.empty()) columns = std::max(columns, ticks_of_rank.back() + 1);

  std::string text;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    std::vector<std::string> cells(static_cast<std::size_t>(columns));
    for (std::size_t i = 0; i < schedule[rank].size(); ++i)
      cells[static_cast<std::size_t>(ticks[rank][i])] = text_of(schedule[rank][i]);
    text += join(cells, ",") + "\n";
  }
  return text;
}

Schedule schedule_from_csv(std::string_view text, const std::string& place) { return Reader(text, place).take(); }

}  // namespace meshwright
