// SPDX-License-Identifier: Apache-2.0
// The memory that a stage table may fill. The table estimates what a plan takes; its lowered program is counted
// exactly. Where the two differ, a new table is made for memory that is smaller, or larger, by the difference.
#pragma once

#include "core/base/units.h"

namespace meshwright {

class MemoryRequest {
 public:
  explicit MemoryRequest(Bytes usable) : usable_(usable), asked_(usable) {}
  [[nodiscard]] Bytes asked() const { return asked_; }

  struct Outcome {
    Bytes estimate, peak;  // of the table's first plan
    bool found;            // some plan fits, of this request or of an earlier one
    bool memory_binds;     // with more memory the plan could be faster
  };
  // Whether to ask again for a plan of one stage, whose search spends all it is given.
  [[nodiscard]] bool again(const Outcome& outcome);

 private:
  Bytes usable_, asked_;
  int requests_ = 1;
};

}  // namespace meshwright
