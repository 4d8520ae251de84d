// SPDX-License-Identifier: Apache-2.0
// When a run keeps its state on disk, and where.
#pragma once

#include <string>

namespace meshwright {

struct CheckpointOptions {
  std::string folder = {};
  int every = 0;          // steps between two; 0: only after the last one
  int keep = 0;           // the newest ones that are kept; 0: all
  std::string plan = {};  // what the run is of, as JSON text
};

}  // namespace meshwright
