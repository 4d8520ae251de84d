// SPDX-License-Identifier: Apache-2.0
#include "executor/replay/step_replay.h"

#include <algorithm>
#include <utility>

namespace meshwright {

namespace {
constexpr int kMaxAttempts = 3;
}

StepReplay::StepReplay(int devices, RunContext& context, std::string why_not)
    : states_(static_cast<std::size_t>(devices)), votes_(states_.size(), 0), voted_(devices, context.abort) {
  if (why_not.empty())
    replayer_ = context.backend.make_replayer(devices, context.abort);
  else
    replayer_.why_none = std::move(why_not);
}

void StepReplay::run_step(int device, DeviceRunner& runner, const StepTurn& turn) {
  State& own = states_[device];
  if (!own.replays) return runner.run_step(turn);
  runner.replay_step(*replayer_.replayer, device, turn);
  ++own.replayed;
  capturing_ = false;
}

// A step that takes memory may be followed by one that does not: the first finds what it needs in no pool yet.
void StepReplay::prepare(int device, DeviceRunner& runner) {
  State& own = states_[device];
  if (replayer_.replayer == nullptr || own.replays || own.attempts == kMaxAttempts) return;
  ++own.attempts;
  capturing_ = true;
  const bool settled = runner.capture_step(*replayer_.replayer, device);
  // Either all devices replay or none: their steps meet in collectives.
  own.replays = all_say(device, settled);
  if (!own.replays) capturing_ = false;
}

bool StepReplay::all_say(int device, bool yes) {
  votes_[device] = yes ? 1 : 0;
  voted_.arrive_and_wait();
  const bool all = std::count(votes_.begin(), votes_.end(), 0) == 0;
  // Nobody votes again before all have counted.
  voted_.arrive_and_wait();
  return all;
}

StepReplaySummary StepReplay::issued() const {
  const State& state = states_.front();
  if (state.replayed > 0) return {state.replayed, replayer_.replayer->description(), ""};
  if (replayer_.replayer == nullptr) return {0, "", replayer_.why_none};
  return {0, "", state.attempts > 0 ? "each step took new memory" : "there was but one step"};
}

}  // namespace meshwright
