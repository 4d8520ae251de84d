// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lowering/message_ticks.h"

#include <algorithm>

#include "core/plan/ranks.h"

namespace meshwright {

MessageTicks::MessageTicks(const Plan& plan, const StageAssignment& stages, int microbatches)
    : kind_(plan.schedule),
      one_way_(kind_ == ScheduleKind::GPipe || kind_ == ScheduleKind::Inference),
      stages_(stages),
      schedule_(schedule_of(plan, stages.feeding, microbatches)) {
  if (kind_ == ScheduleKind::OneFOneB) {
    // In step: forwards begin as late as they may.
    for (const auto& runs : schedule_) {
      std::vector<int>& ticks = ticks_.emplace_back();
      for (const ScheduledRun& run : runs)
        ticks.push_back(tick_of(run, stages.feeding.stages_after[run.stage.index()]));
    }
  } else if (!one_way_) {
    ticks_ = unit_ticks(schedule_, stages.feeding.feeds);
  }
  const std::vector<std::size_t> none(static_cast<std::size_t>(microbatches), 0);
  position_.assign(stages.rank_of_stage.size(), {none, none});
  for (const auto& runs : schedule_)
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (const auto phase = phase_of(runs[i].pass))
        position_[runs[i].stage.index()][*phase][runs[i].microbatch.index()] = i;
}

std::optional<std::size_t> MessageTicks::phase_of(Pass pass) {
  if (pass == Pass::BackwardWeight) return std::nullopt;
  return pass == Pass::Forward ? 0 : 1;
}

int MessageTicks::tick(int stage, std::size_t phase, int microbatch, int to) const {
  if (one_way_) return 0;
  // In 1F1B a message passes in the tick of the run that reads it, else in the tick after the run that makes it.
  if (kind_ == ScheduleKind::OneFOneB) return ticks_[rank_of(to)][position(to, phase, microbatch)];
  return ticks_[rank_of(stage)][position(stage, phase, microbatch)] + 1;
}

std::size_t MessageTicks::first_at(std::size_t rank, int tick) const {
  return static_cast<std::size_t>(std::lower_bound(ticks_[rank].begin(), ticks_[rank].end(), tick) -
                                  ticks_[rank].begin());
}

std::size_t MessageTicks::sent_before(int stage, std::size_t phase, int microbatch, int to) const {
  // One way: sent right after the run that makes it, received right before the run that reads it.
  if (one_way_) return position(stage, phase, microbatch) + 1;
  return first_at(rank_of(stage), tick(stage, phase, microbatch, to));
}

std::size_t MessageTicks::received_before(int stage, std::size_t phase, int microbatch, int to) const {
  if (one_way_) return position(to, phase, microbatch);
  return first_at(rank_of(to), tick(stage, phase, microbatch, to));
}

}  // namespace meshwright
