// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/draw_schedule.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Whether rank r has stage r and no other.
bool has_one_stage_per_rank(const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    for (const ScheduledRun& run : schedule[rank])
      if (run.stage.index() != rank) return false;
  return true;
}

}  // namespace

std::string draw(const Schedule& schedule) {
  int stages = static_cast<int>(schedule.size());
  for (const auto& runs : schedule)
    for (const ScheduledRun& run : runs) stages = std::max(stages, run.stage.value + 1);
  return draw(schedule, line_feeds(stages));
}

std::string draw(const Schedule& schedule, const Feeds& feeds) {
  const std::vector<std::vector<int>> ticks = unit_ticks(schedule, feeds);
  const bool one_stage = has_one_stage_per_rank(schedule);
  const auto cell_of = [&](const ScheduledRun& run) {
    const std::string text = text_of(run);
    return one_stage ? text.substr(text.find_first_not_of("0123456789")) : text;
  };
  std::size_t columns = 0;
  std::size_t cell_width = 1;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    if (!ticks[rank].empty()) columns = std::max(columns, static_cast<std::size_t>(ticks[rank].back()) + 1);
    for (const ScheduledRun& run : schedule[rank]) cell_width = std::max(cell_width, cell_of(run).size());
  }
  const std::size_t rank_width = fmt::formatted_size("{}", schedule.size() - 1);

  std::string text;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    std::vector<std::string> cells(columns, ".");
    for (std::size_t i = 0; i < schedule[rank].size(); ++i)
      cells[static_cast<std::size_t>(ticks[rank][i])] = cell_of(schedule[rank][i]);
    for (std::string& cell : cells) cell = fmt::format("{:>{}}", cell, cell_width);
    text += fmt::format("{} {:>{}} | {}\n", one_stage ? "stage" : "rank", rank, rank_width, join(cells, "  "));
  }
  return text;
}

}  // namespace meshwright
