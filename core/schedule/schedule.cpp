// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule.h"

#include <algorithm>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr ScheduleKind kKinds[] = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference};

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::OneFOneB:
      return "1f1b";
    case ScheduleKind::GPipe:
      return "gpipe";
    case ScheduleKind::Inference:
      return "inference";
  }
  throw InternalError("a schedule without a name");
}

ScheduleKind schedule_from_name(const std::string& name) {
  std::vector<std::string> known;
  for (const ScheduleKind kind : kKinds) {
    if (name == name_of(kind)) return kind;
    known.emplace_back(name_of(kind));
  }
  throw InputError(unknown_name("schedule", name, known, "Give one of these."));
}

Schedule make_schedule(ScheduleKind kind, const std::vector<int>& stages_after, int microbatches) {
  MW_CHECK(!stages_after.empty() && microbatches >= 1, "a schedule of {} stages and {} microbatches",
           stages_after.size(), microbatches);
  using Pass = ScheduledRun::Pass;
  Schedule schedule;
  for (const int after : stages_after) {
    MW_CHECK(after >= 0, "{} stages after one", after);
    std::vector<ScheduledRun>& runs = schedule.emplace_back();
    // Forwards before the first backward, the one that alternates with it not counted.
    const int ahead = kind == ScheduleKind::OneFOneB ? std::min(after, microbatches) : microbatches;
    for (int m = 0; m < ahead; ++m) runs.push_back({Pass::Forward, MicrobatchId(m)});
    if (kind == ScheduleKind::Inference) continue;
    // Backwards run in microbatch order under every schedule, so gradients are summed in one order and the weights come
    // out the same to the last bit.
    for (int m = 0; m < microbatches; ++m) {
      if (ahead + m < microbatches) runs.push_back({Pass::Forward, MicrobatchId(ahead + m)});
      runs.push_back({Pass::Backward, MicrobatchId(m)});
    }
  }
  return schedule;
}

std::vector<int> line_of(int stages) {
  MW_CHECK(stages >= 1, "a line of {} stages", stages);
  std::vector<int> after(static_cast<std::size_t>(stages));
  for (std::size_t s = 0; s < after.size(); ++s) after[s] = stages - 1 - static_cast<int>(s);
  return after;
}

int in_flight(ScheduleKind kind, int stages_after, int microbatches) {
  MW_CHECK(stages_after >= 0, "{} stages after one", stages_after);
  switch (kind) {
    case ScheduleKind::OneFOneB:
      return stages_after < microbatches ? stages_after + 1 : microbatches;
    case ScheduleKind::GPipe:
      return microbatches;
    case ScheduleKind::Inference:
      return 1;
  }
  throw InternalError("a schedule without a rule for what is in flight");
}

namespace {

using Feeds = std::vector<std::vector<int>>;

// The tick of every run when each takes one: a forward waits for the stages that feed its own, a backward for those
// that its own feeds.
std::vector<std::vector<int>> unit_ticks(const Schedule& schedule, const Feeds& feeds) {
  using Pass = ScheduledRun::Pass;
  int microbatches = 0;
  for (const auto& runs : schedule)
    for (const ScheduledRun& run : runs) microbatches = std::max(microbatches, run.microbatch.value + 1);
  Feeds fed_by(schedule.size());
  for (std::size_t s = 0; s < feeds.size(); ++s)
    for (const int t : feeds[s]) fed_by.at(static_cast<std::size_t>(t)).push_back(static_cast<int>(s));

  using Ends = std::vector<std::vector<std::optional<int>>>;  // [stage][microbatch]
  Ends forward(schedule.size(), std::vector<std::optional<int>>(static_cast<std::size_t>(microbatches)));
  Ends backward = forward;
  std::vector<std::vector<int>> ticks(schedule.size());
  std::vector<int> clock(schedule.size(), 0);

  const auto run_next = [&](std::size_t stage) {
    if (ticks[stage].size() == schedule[stage].size()) return false;
    const ScheduledRun& run = schedule[stage][ticks[stage].size()];
    const std::size_t m = run.microbatch.index();
    const bool is_forward = run.pass == Pass::Forward;
    Ends& ends = is_forward ? forward : backward;
    int tick = clock[stage];
    if (!is_forward && !forward[stage][m]) return false;
    for (const int other : (is_forward ? fed_by : feeds)[stage]) {
      const std::optional<int> ready = ends[static_cast<std::size_t>(other)][m];
      if (!ready) return false;
      tick = std::max(tick, *ready);
    }
    ticks[stage].push_back(tick);
    clock[stage] = tick + 1;
    ends[stage][m] = tick + 1;
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t stage = 0; stage < schedule.size(); ++stage)
      while (run_next(stage)) progress = true;
  }
  for (std::size_t stage = 0; stage < schedule.size(); ++stage)
    MW_CHECK(ticks[stage].size() == schedule[stage].size(), "stage {} waits for ever for its run {}", stage,
             ticks[stage].size());
  return ticks;
}

}  // namespace

std::string draw(const Schedule& schedule) {
  Feeds line(schedule.size());
  for (std::size_t s = 1; s < line.size(); ++s) line[s - 1] = {static_cast<int>(s)};
  return draw(schedule, line);
}

std::string draw(const Schedule& schedule, const std::vector<std::vector<int>>& feeds) {
  MW_CHECK(feeds.size() == schedule.size(), "{} stages, of which {} say whom they feed", schedule.size(), feeds.size());
  const std::vector<std::vector<int>> ticks = unit_ticks(schedule, feeds);
  int columns = 0;
  int largest = 0;
  for (std::size_t stage = 0; stage < schedule.size(); ++stage) {
    if (!ticks[stage].empty()) columns = std::max(columns, ticks[stage].back() + 1);
    for (const ScheduledRun& run : schedule[stage]) largest = std::max(largest, run.microbatch.value);
  }
  const std::size_t cell_width = fmt::formatted_size("F{}", largest);
  const std::size_t stage_width = fmt::formatted_size("{}", schedule.size() - 1);

  std::string text;
  for (std::size_t stage = 0; stage < schedule.size(); ++stage) {
    std::vector<std::string> cells(static_cast<std::size_t>(columns), ".");
    for (std::size_t i = 0; i < schedule[stage].size(); ++i) {
      const ScheduledRun& run = schedule[stage][i];
      cells[static_cast<std::size_t>(ticks[stage][i])] =
          fmt::format("{}{}", run.pass == ScheduledRun::Pass::Forward ? 'F' : 'B', run.microbatch.value);
    }
    for (std::string& cell : cells) cell = fmt::format("{:>{}}", cell, cell_width);
    text += fmt::format("stage {:>{}} | {}\n", stage, stage_width, join(cells, "  "));
  }
  return text;
}

}  // namespace meshwright
