// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/expected_share.h"

#include <algorithm>
#include <limits>

#include "core/planner/search/candidates.h"

namespace meshwright {

namespace {

constexpr double kFalls = 0.98;  // what is expected of a whole program may fall so far while candidates are tried
struct Shares {
  double expected;  // before a program was seen
  double doubt;     // times the minimum share seen: the next may be less
};
constexpr Shares kOfLarge{0.97, 0.995}, kOfSmall{0.94, 0.96};
constexpr std::int64_t kFirstSeen = 32;  // so many programs leave all of the doubt
constexpr double kExpectedHidden = 0.9;  // where communication hides, times what is expected before one was seen

}  // namespace

double expected_share(const Programs& programs, ScheduleKind schedule, int chunks, const PlanIncumbent& incumbent) {
  const Shares& shares = programs.large ? kOfLarge : kOfSmall;
  if (const auto seen = incumbent.min_share(schedule, chunks)) {
    // The more programs were seen, the less is the next one expected to fall below all of them.
    const double certain = std::clamp(static_cast<double>(kFirstSeen) / static_cast<double>(seen->programs), 0.25, 1.0);
    return (1.0 - (1.0 - shares.doubt) * certain) * seen->share;
  }
  return programs.hide_communication ? kExpectedHidden * shares.expected : shares.expected;
}

std::optional<Seconds> to_beat(const Programs& programs, ScheduleKind schedule, const PlanIncumbent& incumbent) {
  if (!incumbent.score()) return std::nullopt;
  // Schedules have a number of stages on each rank, or may have any.
  const std::optional<int> given = traits_of(schedule).chunks;
  double least = std::numeric_limits<double>::infinity();
  for (int chunks = given.value_or(2); chunks <= given.value_or(CandidateRequest::kMaxChunks); ++chunks)
    least = std::min(least, expected_share(programs, schedule, chunks, incumbent));
  return *incumbent.score() / (kFalls * least * incumbent.near_share());
}

}  // namespace meshwright
