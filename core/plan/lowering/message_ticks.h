// SPDX-License-Identifier: Apache-2.0
// Internal to lower(): before which run of a rank each message is exchanged.
//
// An Exchange may wait for all its peers. To avoid deadlock, sender and receiver exchange a message in the same tick:
// after the tick of the run that produces it, at the latest in that of the run that reads it. The Exchanges before a
// run have the ticks after the begin of the previous run, up to that of the run, so an Exchange only waits for earlier
// ticks.
//
// Under 1f1b it is the tick of the reading run, so no other run waits for the message, and the Exchange waits. Under
// gpipe and inference all messages of a phase go one way and there are no ticks: a message leaves after its run and
// arrives before the reading run. Under all other schedules other runs may be between the two: the message is exchanged
// in the first tick, in parallel with them, and an Await before the reading run waits.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/plan/lowering/lowering.h"

namespace meshwright {

class MessageTicks {
 public:
  MessageTicks(const Plan& plan, const StageAssignment& stages, int microbatches);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  // Whether all messages before a run are exchanged together by a waiting Exchange. Otherwise each tick has its own
  // Exchange, in the order of ticks, and runs await what they read.
  [[nodiscard]] bool together() const { return one_way_ || kind_ == ScheduleKind::OneFOneB; }
  // What a run receives and sends: 0 results of forwards, 1 results of backwards; nullopt: nothing (the second half of
  // a backward).
  [[nodiscard]] static std::optional<std::size_t> phase_of(Pass pass);

  // For the results that `stage` sends to stage `to` in a phase of a microbatch: the tick of the message, and the run
  // before which it is sent or received; the number of runs: after all of them.
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
