// SPDX-License-Identifier: Apache-2.0
// Where the devices of a run meet before each step, those of other processes too. Internal to the executor.
#pragma once

#include "executor/base/abort.h"
#include "executor/peers/peers.h"

namespace meshwright {

class StepBarrier {
 public:
  // `devices`: of this process; `peers`: null where it runs them all.
  StepBarrier(int devices, Abort& abort, Peers* peers);
  // By each device's thread; `first` by one of them.
  void arrive_and_wait(bool first);
  // The same; all get what the first device of the first process wishes.
  [[nodiscard]] bool agree(bool first, bool wish);

 private:
  void meet_peers();

  const Abort& abort_;
  Peers* const peers_;
  Barrier arrived_, released_;
  bool wish_ = false;
};

}  // namespace meshwright
