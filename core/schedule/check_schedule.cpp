// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/check_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// For comparing runs: stage, microbatch, pass.
using Key = std::tuple<int, int, Pass>;
Key key_of(const ScheduledRun& run) { return {run.stage.value, run.microbatch.value, run.pass}; }

using Sentence = std::optional<std::string>;

class Checker {
 public:
  Checker(const Schedule& schedule, const RunPlaces& places) : schedule_(schedule), places_(places) {}

  Sentence check() {
    // Each check relies on those before it.
    Sentence wrong = collect();
    if (!wrong) wrong = check_runs();
    if (!wrong) wrong = check_order();
    if (!wrong) wrong = check_progress();
    return wrong;
  }

 private:
  struct Cell {
    int rank, run;
  };

  [[nodiscard]] std::string rank_text(int rank) const {
    return fmt::format("{} {}", places_.rank, rank + places_.first);
  }
  [[nodiscard]] std::string run_text(Cell cell) const {
    const auto rank = static_cast<std::size_t>(cell.rank), run = static_cast<std::size_t>(cell.run);
    return fmt::format("{} {}", places_.run,
                       places_.numbers.empty() ? cell.run + places_.first : places_.numbers[rank][run]);
  }
  [[nodiscard]] std::string at(Cell cell) const {
    return fmt::format("{}, {}, {}", places_.place, rank_text(cell.rank), run_text(cell));
  }

  Sentence collect() {
    if (schedule_.empty()) return fmt::format("{} has no ranks; give a row of runs per rank", places_.place);
    for (int rank = 0; rank < static_cast<int>(schedule_.size()); ++rank) {
      const std::vector<ScheduledRun>& runs = schedule_[static_cast<std::size_t>(rank)];
      if (runs.empty())
        return fmt::format("{}, {} has no runs; give rank {} at least one stage", places_.place, rank_text(rank), rank);
      for (int i = 0; i < static_cast<int>(runs.size()); ++i)
        if (Sentence wrong = add(runs[static_cast<std::size_t>(i)], {rank, i})) return wrong;
    }
    return std::nullopt;
  }

  Sentence add(const ScheduledRun& run, Cell cell) {
    // The first run of a stage says on which rank it is.
    const auto [owner, is_new] = rank_of_.try_emplace(run.stage.value, cell.rank);
    if (owner->second != cell.rank)
      return fmt::format("{}: {} is a run of stage {}, which is on rank {}; give each stage to one rank", at(cell),
                         text_of(run), run.stage.value, owner->second);
    const auto [first, is_first] = cells_.try_emplace(key_of(run), cell);
    if (!is_first)
      return fmt::format("{}: {} is already in {}, {}; give each run once", at(cell), text_of(run),
                         rank_text(first->second.rank), run_text(first->second));
    microbatches_ = std::max(microbatches_, run.microbatch.value + 1);
    trains_ = trains_ || run.pass != Pass::Forward;
    return std::nullopt;
  }

  [[nodiscard]] const Cell* find(int stage, int microbatch, Pass pass) const {
    const auto cell = cells_.find({stage, microbatch, pass});
    return cell == cells_.end() ? nullptr : &cell->second;
  }

  // Every stage runs every microbatch, forward and, if anything goes back, backward in one or two passes.
  [[nodiscard]] Sentence check_runs() const {
    const int stages = rank_of_.rbegin()->first + 1;
    for (int s = 0; s < stages; ++s) {
      if (!rank_of_.contains(s))
        return fmt::format("{} has runs of stage {} and none of stage {}; number the stages without gaps",
                           places_.place, stages - 1, s);
      for (int m = 0; m < microbatches_; ++m)
        if (Sentence wrong = check_microbatch(s, m)) return wrong;
    }
    return std::nullopt;
  }

  [[nodiscard]] Sentence check_microbatch(int s, int m) const {
    const auto run = [&](Pass pass) { return text_of({pass, MicrobatchId(m), StageId(s)}); };
    const auto missing = [&](Pass pass) -> Sentence {
      if (find(s, m, pass) != nullptr) return std::nullopt;
      return fmt::format("{}, {}: {} is missing; give every stage every microbatch", places_.place,
                         rank_text(rank_of_.at(s)), run(pass));
    };
    if (Sentence wrong = missing(Pass::Forward); wrong || !trains_) return wrong;
    const Cell* whole = find(s, m, Pass::Backward);
    const Cell* halves[] = {find(s, m, Pass::BackwardInput), find(s, m, Pass::BackwardWeight)};
    for (const Cell* half : halves)
      if (whole != nullptr && half != nullptr)
        return fmt::format("{}: {} is given beside {} of {}; give either B or both I and W", at(*half),
                           run(half == halves[0] ? Pass::BackwardInput : Pass::BackwardWeight), run(Pass::Backward),
                           run_text(*whole));
    if (whole != nullptr) return std::nullopt;
    if (halves[0] == nullptr && halves[1] == nullptr) return missing(Pass::Backward);
    Sentence wrong = missing(Pass::BackwardInput);
    return wrong ? wrong : missing(Pass::BackwardWeight);
  }

  // What a run reads of its own stage is made before it on the same rank.
  [[nodiscard]] Sentence check_order() const {
    for (const auto& [key, cell] : cells_) {
      const auto& [stage, microbatch, pass] = key;
      if (pass == Pass::Forward) continue;
      const Pass earlier = pass == Pass::BackwardWeight ? Pass::BackwardInput : Pass::Forward;
      const ScheduledRun before{earlier, MicrobatchId(microbatch), StageId(stage)};
      const Cell& first = cells_.at(key_of(before));
      if (first.run > cell.run)
        return fmt::format("{}: {} comes before {} of {}; swap them", at(cell),
                           text_of({pass, MicrobatchId(microbatch), StageId(stage)}), text_of(before), run_text(first));
    }
    return std::nullopt;
  }

  // The run of another rank, or of another stage of the same, that `run` waits for.
  [[nodiscard]] std::optional<ScheduledRun> waits_for(const ScheduledRun& run) const {
    const int s = run.stage.value;
    const bool is_forward = run.pass == Pass::Forward;
    // The stages of a custom schedule form a line.
    const int other = is_forward ? s - 1 : s + 1;
    if (run.pass == Pass::BackwardWeight || !rank_of_.contains(other)) return std::nullopt;
    ScheduledRun before{Pass::Forward, run.microbatch, StageId(other)};
    if (!is_forward)
      before.pass = find(other, run.microbatch.value, Pass::Backward) ? Pass::Backward : Pass::BackwardInput;
    return before;
  }

  [[nodiscard]] Sentence check_progress() const {
    // Runs whatever can run, rank by rank: what is left in the end waits for itself.
    std::vector<std::size_t> done(schedule_.size(), 0);
    std::set<Key> ended;
    const auto run_next = [&](std::size_t rank) {
      if (done[rank] == schedule_[rank].size()) return false;
      const ScheduledRun& run = schedule_[rank][done[rank]];
      const std::optional<ScheduledRun> before = waits_for(run);
      if (before && !ended.contains(key_of(*before))) return false;
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
      if (done[rank] < schedule_[rank].size()) return circle(rank, done);
    return std::nullopt;
  }

  // A rank that cannot go on waits for a run of a rank that cannot either: following them ends in a circle.
  [[nodiscard]] std::string circle(std::size_t rank, const std::vector<std::size_t>& done) const {
    const auto next_of = [&](std::size_t r) -> const ScheduledRun& { return schedule_[r][done[r]]; };
    const auto blocker = [&](std::size_t r) {
      return static_cast<std::size_t>(rank_of_.at(waits_for(next_of(r))->stage.value));
    };
    // After as many steps as there are ranks, the walk is in the circle.
    for (std::size_t steps = 0; steps < schedule_.size(); ++steps) rank = blocker(rank);
    std::vector<std::size_t> ranks = {rank};
    for (std::size_t r = blocker(rank); r != rank; r = blocker(r)) ranks.push_back(r);
    // Begins at the smallest rank, whichever one the walk came to first.
    std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()), ranks.end());
    std::vector<std::string> waits;
    for (const std::size_t r : ranks)
      waits.push_back(
          fmt::format("rank {} waits in {} for {}", r, text_of(next_of(r)), text_of(*waits_for(next_of(r)))));
    return fmt::format("{}: deadlock: {}; move one of these runs", places_.place, join(waits, ", "));
  }

  const Schedule& schedule_;
  const RunPlaces& places_;
  std::map<int, int> rank_of_;  // [stage]
  std::map<Key, Cell> cells_;
  int microbatches_ = 0;
  bool trains_ = false;
};

}  // namespace

std::optional<std::string> wrong_schedule(const Schedule& schedule, const RunPlaces& places) {
  return Checker(schedule, places).check();
}

ScheduleShape shape_of(const Schedule& schedule) {
  ScheduleShape shape;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    for (const ScheduledRun& run : schedule[rank]) {
      shape.microbatches = std::max(shape.microbatches, run.microbatch.value + 1);
      shape.trains = shape.trains || run.pass != Pass::Forward;
      if (shape.rank_of_stage.size() <= run.stage.index()) shape.rank_of_stage.resize(run.stage.index() + 1);
      shape.rank_of_stage[run.stage.index()] = static_cast<int>(rank);
    }
  return shape;
}

}  // namespace meshwright
