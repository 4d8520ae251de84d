// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule_csv.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

struct Cell {
  int row, column;  // from 1
};

// A run of the file, for comparing: stage, microbatch, pass.
using Key = std::tuple<int, int, Pass>;

class Reader {
 public:
  Reader(std::string_view text, std::string place) : place_(std::move(place)) {
    read(text);
    check_runs();
    check_order();
    check_progress();
  }
  [[nodiscard]] Schedule take() { return std::move(schedule_); }

 private:
  [[nodiscard]] std::string at(Cell cell) const {
    return fmt::format("{}, row {}, column {}", place_, cell.row, cell.column);
  }

  void read(std::string_view text) {
    std::vector<std::string> lines = split(text, '\n');
    const auto is_blank = [](const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; };
    while (!lines.empty() && is_blank(lines.back())) lines.pop_back();
    require(!lines.empty(), "{} has no rows; give one row of cells like 0F0 for each rank", place_);
    for (const std::string& line : lines) {
      const int rank = static_cast<int>(schedule_.size());
      schedule_.emplace_back();
      int column = 0;
      for (const std::string& cell : split(line, ',')) read_cell(cell, rank, {rank + 1, ++column});
      require(!schedule_.back().empty(), "{}, row {} has no runs; give rank {} at least one stage", place_, rank + 1,
              rank);
    }
  }

  void read_cell(const std::string& cell, int rank, Cell where) {
    const std::size_t begin = cell.find_first_not_of(" \t\r");
    if (begin == std::string::npos) return;
    const std::string text = cell.substr(begin, cell.find_last_not_of(" \t\r") + 1 - begin);
    const ScheduledRun run = parse(text, where);
    const auto [owner, is_new] = rank_of_.try_emplace(run.stage.value, rank);
    require(owner->second == rank,
            "{}: {} is a run of stage {}, which rank {} has already; give each stage to one rank", at(where), text,
            run.stage.value, owner->second);
    const auto [first, is_first] = cells_.try_emplace(key_of(run), where);
    require(is_first, "{}: {} stands in row {}, column {} already; give each run once", at(where), text,
            first->second.row, first->second.column);
    microbatches_ = std::max(microbatches_, run.microbatch.value + 1);
    trains_ = trains_ || run.pass != Pass::Forward;
    schedule_[static_cast<std::size_t>(rank)].push_back(run);
  }

  [[nodiscard]] ScheduledRun parse(const std::string& text, Cell where) const {
    require(text.front() != '(', "{}: '{}' runs several passes at once; give them in cells of their own", at(where),
            text);
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto letters = std::find_if_not(text.begin(), text.end(), is_digit);
    const auto number = std::find_if(letters, text.end(), is_digit);
    const std::string name(letters, number);
    for (const char* action : {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"})
      require(name != action, "{}: '{}' is communication; give the compute-only schedule, where it is implied",
              at(where), text);
    const std::map<std::string, Pass> passes = {
        {"F", Pass::Forward}, {"B", Pass::Backward}, {"I", Pass::BackwardInput}, {"W", Pass::BackwardWeight}};
    const auto pass = passes.find(name);
    require(letters != text.begin() && pass != passes.end() && number != text.end() &&
                std::all_of(number, text.end(), is_digit),
            "{}: '{}' is no run; give stage, F, B, I or W, and microbatch, as in 0F0, or nothing", at(where), text);
    const auto value = [&](std::string digits) {
      return static_cast<int>(parse_integer(digits, at(where), 0, 1000000));
    };
    return {pass->second, MicrobatchId(value({number, text.end()})), StageId(value({text.begin(), letters}))};
  }

  static Key key_of(const ScheduledRun& run) { return {run.stage.value, run.microbatch.value, run.pass}; }
  [[nodiscard]] const Cell* find(int stage, int microbatch, Pass pass) const {
    const auto cell = cells_.find({stage, microbatch, pass});
    return cell == cells_.end() ? nullptr : &cell->second;
  }

  // Every stage runs every microbatch, forward and, if anything goes back, backward in one or two passes.
  void check_runs() const {
    const int stages = rank_of_.rbegin()->first + 1;
    for (int s = 0; s < stages; ++s) {
      require(rank_of_.count(s) != 0, "{} has runs of stage {} and none of stage {}; number the stages without gaps",
              place_, stages - 1, s);
      for (int m = 0; m < microbatches_; ++m) check_microbatch(s, m);
    }
  }

  void check_microbatch(int s, int m) const {
    const auto missing = [&](const char* name, Pass pass) {
      require(find(s, m, pass) != nullptr, "{}, row {}: {}{}{} is missing; give every stage every microbatch", place_,
              rank_of_.at(s) + 1, s, name, m);
    };
    missing("F", Pass::Forward);
    if (!trains_) return;
    const Cell* whole = find(s, m, Pass::Backward);
    for (const Pass half : {Pass::BackwardInput, Pass::BackwardWeight}) {
      const Cell* cell = find(s, m, half);
      if (whole != nullptr && cell != nullptr)
        require(false, "{}: {} stands beside {}{}{} of column {}; give either B or both I and W", at(*cell),
                text_of({half, MicrobatchId(m), StageId(s)}), s, "B", m, whole->column);
    }
    if (whole != nullptr) return;
    if (find(s, m, Pass::BackwardInput) == nullptr && find(s, m, Pass::BackwardWeight) == nullptr)
      missing("B", Pass::Backward);
    missing("I", Pass::BackwardInput);
    missing("W", Pass::BackwardWeight);
  }

  // What a run reads of its own stage is made before it on the same rank.
  void check_order() const {
    for (const auto& [key, cell] : cells_) {
      const auto& [stage, microbatch, pass] = key;
      if (pass == Pass::Forward) continue;
      const Pass earlier = pass == Pass::BackwardWeight ? Pass::BackwardInput : Pass::Forward;
      const ScheduledRun before{earlier, MicrobatchId(microbatch), StageId(stage)};
      const int column = cells_.at(key_of(before)).column;
      require(column < cell.column, "{}: {} comes before {} of column {}; give them the other way round", at(cell),
              text_of({pass, MicrobatchId(microbatch), StageId(stage)}), text_of(before), column);
    }
  }

  // The run of another rank, or of another stage of the same, that `run` waits for.
  [[nodiscard]] std::optional<ScheduledRun> waits_for(const ScheduledRun& run) const {
    const int s = run.stage.value;
    const bool is_forward = run.pass == Pass::Forward;
    const int other = is_forward ? s - 1 : s + 1;
    if (run.pass == Pass::BackwardWeight || rank_of_.count(other) == 0) return std::nullopt;
    ScheduledRun before{Pass::Forward, run.microbatch, StageId(other)};
    if (!is_forward)
      before.pass = find(other, run.microbatch.value, Pass::Backward) ? Pass::Backward : Pass::BackwardInput;
    return before;
  }

  void check_progress() const {
    std::vector<std::size_t> done(schedule_.size(), 0);
    std::set<Key> ended;
    const auto run_next = [&](std::size_t rank) {
      if (done[rank] == schedule_[rank].size()) return false;
      const ScheduledRun& run = schedule_[rank][done[rank]];
      const std::optional<ScheduledRun> before = waits_for(run);
      if (before && ended.count(key_of(*before)) == 0) return false;
      ended.insert(key_of(run));
      ++done[rank];
      return true;
    };
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
        while (run_next(rank)) progress = true;
    }
    for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
      if (done[rank] < schedule_[rank].size()) throw InputError(circle(rank, done));
  }

  // A rank that cannot go on waits for a run of a rank that cannot either: following them ends in a circle.
  [[nodiscard]] std::string circle(std::size_t rank, const std::vector<std::size_t>& done) const {
    const auto next_of = [&](std::size_t r) -> const ScheduledRun& { return schedule_[r][done[r]]; };
    const auto blocker = [&](std::size_t r) {
      return static_cast<std::size_t>(rank_of_.at(waits_for(next_of(r))->stage.value));
    };
    for (std::size_t steps = 0; steps < schedule_.size(); ++steps) rank = blocker(rank);
    std::vector<std::size_t> ranks = {rank};
    for (std::size_t r = blocker(rank); r != rank; r = blocker(r)) ranks.push_back(r);
    std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()), ranks.end());
    std::vector<std::string> waits;
    for (const std::size_t r : ranks)
      waits.push_back(
          fmt::format("rank {} waits in {} for {}", r, text_of(next_of(r)), text_of(*waits_for(next_of(r)))));
    return fmt::format("{}: the ranks wait for each other for ever: {}; move one of these runs", place_,
                       join(waits, ", "));
  }

  std::string place_;
  Schedule schedule_;
  std::map<int, int> rank_of_;  // [stage]
  std::map<Key, Cell> cells_;
  int microbatches_ = 0;
  bool trains_ = false;
};

}  // namespace

std::string schedule_to_csv(const Schedule& schedule) {
  int stages = 1;
  for (const auto& runs : schedule)
    for (const ScheduledRun& run : runs) stages = std::max(stages, run.stage.value + 1);
  const std::vector<std::vector<int>> ticks = unit_ticks(schedule, line_feeds(stages));
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
