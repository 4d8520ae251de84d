// SPDX-License-Identifier: Apache-2.0
// The steps of a search on stderr: each with its time and what it made, then the total of each kind.
#pragma once

#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

class StepTimes : public StepLog {
 public:
  StepTimes();
  ~StepTimes() override;  // prints the totals
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  void begin(const char* step) override;
  void end(const std::string& result) override;

 private:
  struct Total {
    std::string step;
    int count = 0;
    Seconds time{0.0};
  };

  std::vector<Total> totals_;  // in the order of the first begin
  std::size_t current_ = 0;    // into totals_
  Seconds opened_, begun_{0.0};
};

}  // namespace meshwright
