// SPDX-License-Identifier: Apache-2.0
// Inside of lower(): before which run of a rank each message passes.
//
// An Exchange may wait for all its peers, so a message must be at both ends where neither keeps the other from getting
// there: in one tick after that of the run that makes it, up to that of the run that reads it. The Exchanges before a
// run have the ticks after the begin of the run before them, up to that of the run, so whatever one waits for has
// earlier ticks.
//
// Under 1f1b it is the tick of the run that reads, so that no other run waits for the message, and the Exchange does.
// Under gpipe and inference every message goes one way for a whole phase, and there are no ticks: it leaves after its
// run and comes before the one that reads. Under all other schedules other runs may lie between the two: it is the
// first tick, so that the message passes beside them, and an Await before the one that reads waits.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/plan/lowering/lowering.h"

namespace meshwright {

class MessageTicks {
 public:
  MessageTicks(const Plan& plan, const StageAssignment& stages);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  // Whether all messages before a run pass together, and Exchanges wait. Otherwise those of each tick pass by
  // themselves, in the order of ticks, and runs await what they read.
  [[nodiscard]] bool together() const { return one_way_ || kind_ == ScheduleKind::OneFOneB; }
  // What a run receives and sends: 0 what forwards make, 1 what backwards make, nothing (the second half of a
  // backward).
  [[nodiscard]] static std::optional<std::size_t> phase_of(Pass pass);

  // Of what `stage` makes for stage `to` in a phase of a microbatch: its tick, and the run before which it passes at
  // either end; the number of runs: after all of them.
  [[nodiscard]] int tick(int stage, std::size_t phase, int microbatch, int to) const;
  [[nodiscard]] std::size_t sent_before(int stage, std::size_t phase, int microbatch, int to) const;
  [[nodiscard]] std::size_t received_before(int stage, std::size_t phase, int microbatch, int to) const;

 private:
  [[nodiscard]] std::size_t rank_of(int stage) const {
    return static_cast<std::size_t>(stages_.rank_of_stage[static_cast<std::size_t>(stage)]);
  }
  [[nodiscard]] std::size_t position(int stage, std::size_t phase, int microbatch) const {
    return position_[static_cast<std::size_t>(stage)][phase][static_cast<std::size_t>(microbatch)];
  }
  [[nodiscard]] std::size_t first_at(std::size_t rank, int tick) const;

  ScheduleKind kind_;
  bool one_way_;
  const StageAssignment& stages_;
  Schedule schedule_;
  std::vector<std::vector<int>> ticks_;                            // [rank][run]; none where messages go one way
  std::vector<std::array<std::vector<std::size_t>, 2>> position_;  // [stage][phase][microbatch] in its rank's runs
};

}  // namespace meshwright
