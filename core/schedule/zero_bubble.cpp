// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/schedule_rules.h"

namespace meshwright {

Schedule alternating_split(const std::vector<int>& ahead, const std::vector<int>& late, int microbatches) {
  Schedule schedule;
  for (std::size_t s = 0; s < ahead.size(); ++s) {
    const StageId stage(static_cast<int>(s));
    std::vector<ScheduledRun>& runs = schedule.emplace_back();
    for (int m = 0; m < ahead[s]; ++m) runs.push_back({Pass::Forward, MicrobatchId(m), stage});
    for (int m = 0; m < microbatches; ++m) {
      if (ahead[s] + m < microbatches) runs.push_back({Pass::Forward, MicrobatchId(ahead[s] + m), stage});
      runs.push_back({Pass::BackwardInput, MicrobatchId(m), stage});
      if (m >= late[s]) runs.push_back({Pass::BackwardWeight, MicrobatchId(m - late[s]), stage});
    }
    // Nobody waits for these: they fill the time in which the earlier ranks end.
    for (int m = std::max(0, microbatches - late[s]); m < microbatches; ++m)
      runs.push_back({Pass::BackwardWeight, MicrobatchId(m), stage});
  }
  return schedule;
}

}  // namespace meshwright
