// SPDX-License-Identifier: Apache-2.0
// When a run keeps its state on disk, and where.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace meshwright {

struct CheckpointOptions {
  std::string folder = {};
  int every = 0;          // steps between two; 0: only when the run is to stop
  int keep = 0;           // the newest ones that are kept; 0: all
  std::string plan = {};  // what the run is of, as JSON text
  // Whether the run is to stop after this step; asked by one thread. Empty: it is not.
  std::function<bool()> stops = {};
};

// A run that stopped before its last step, as CheckpointOptions::stops asked; its state is on disk.
struct RunStopped : std::runtime_error {
  explicit RunStopped(int done) : std::runtime_error("the run was stopped"), steps(done) {}
  int steps;  // done, those of earlier runs included
};

}  // namespace meshwright
