// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/schedule/schedule.h"

namespace meshwright {

namespace {

// Runs the schedule in unit time. A forward waits for those of the stages that feed its own; a backward, or its first
// half, for its own forward and the same of the stages that its own feeds; a second half for the first.
class Clock {
 public:
  Clock(const Schedule& schedule, const Feeds& feeds) : schedule_(schedule), feeds_(feeds), fed_by_(feeds.size()) {
    for (std::size_t s = 0; s < feeds.size(); ++s)
      for (const int t : feeds[s]) fed_by_.at(static_cast<std::size_t>(t)).push_back(static_cast<int>(s));
    for (const auto& runs : schedule)
      for (const ScheduledRun& run : runs) {
        microbatches_ = std::max(microbatches_, run.microbatch.index() + 1);
        MW_CHECK(run.stage.index() < feeds.size(), "a run of stage {} of {}", run.stage.value, feeds.size());
      }
    forward_.assign(feeds.size() * microbatches_, kNotYet);
    gradient_ = forward_;
    ticks_.resize(schedule.size());
    now_.assign(schedule.size(), 0);
  }

  std::vector<std::vector<int>> run() {
    // In any order of ranks the ticks are the same: each follows from the runs that a run waits for.
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
        while (run_next(rank)) progress = true;
    }
    for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
      MW_CHECK(ticks_[rank].size() == schedule_[rank].size(), "rank {} waits for ever for its run {}", rank,
               ticks_[rank].size());
    return std::move(ticks_);
  }

 private:
  static constexpr int kNotYet = -1;

  // The tick from which `run` may begin; kNotYet while something it waits for has not run.
  [[nodiscard]] int ready(const ScheduledRun& run) const {
    const auto at = [&](const std::vector<int>& ends, std::size_t stage) {
      return ends[stage * microbatches_ + run.microbatch.index()];
    };
    const std::size_t stage = run.stage.index();
    if (run.pass == Pass::BackwardWeight) return at(gradient_, stage);
    const bool is_forward = run.pass == Pass::Forward;
    int tick = is_forward ? 0 : at(forward_, stage);
    for (const int other : (is_forward ? fed_by_ : feeds_)[stage]) {
      const int end = at(is_forward ? forward_ : gradient_, static_cast<std::size_t>(other));
      if (end == kNotYet || tick == kNotYet) return kNotYet;
      tick = std::max(tick, end);
    }
    return tick;
  }

  bool run_next(std::size_t rank) {
    if (ticks_[rank].size() == schedule_[rank].size()) return false;
    const ScheduledRun& run = schedule_[rank][ticks_[rank].size()];
    const int from = ready(run);
    if (from == kNotYet) return false;
    const int tick = std::max(now_[rank], from);
    ticks_[rank].push_back(tick);
    now_[rank] = tick + 1;
    const std::size_t at = run.stage.index() * microbatches_ + run.microbatch.index();
    if (run.pass == Pass::Forward) forward_[at] = tick + 1;
    if (run.pass == Pass::Backward || run.pass == Pass::BackwardInput) gradient_[at] = tick + 1;
    return true;
  }

  const Schedule& schedule_;
  const Feeds& feeds_;
  Feeds fed_by_;
  std::size_t microbatches_ = 0;
  std::vector<int> forward_, gradient_;  // [stage * microbatches + microbatch] the tick after the run
  std::vector<std::vector<int>> ticks_;
  std::vector<int> now_;  // [rank]
};

}  // namespace

std::vector<std::vector<int>> unit_ticks(const Schedule& schedule, const Feeds& feeds) {
  return Clock(schedule, feeds).run();
}

}  // namespace meshwright
