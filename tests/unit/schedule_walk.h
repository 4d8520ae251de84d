// SPDX-License-Identifier: Apache-2.0
// A schedule played by hand: the longest path through its runs, written to be read and not to be fast. It shares
// nothing with the library but the schedule.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/schedule/schedule.h"

namespace meshwright {

struct WalkTimes {
  std::int64_t forward, backward_input, backward_weight;  // of one stage; a backward in one pass takes both
  std::int64_t message = 0;                               // between stages on different ranks
  // Of each group of as many microbatches as there are ranks, only the first waits for what comes from the last rank to
  // the first or back.
  bool only_first_waits_at_the_wrap = false;
};

struct Walked {
  std::int64_t step = 0;
  std::vector<std::int64_t> begin, end, work;  // [rank]

  [[nodiscard]] std::int64_t longest_span() const {
    std::int64_t longest = 0;
    for (std::size_t r = 0; r < begin.size(); ++r) longest = std::max(longest, end[r] - begin[r]);
    return longest;
  }
};

// Of a line of stages, or of so many alike. `times` of each stage.
inline Walked walk(const Schedule& schedule, const std::vector<WalkTimes>& times, int lines = 1) {
  const int stages = static_cast<int>(times.size()), of_a_line = stages / lines;
  const int ranks = static_cast<int>(schedule.size());
  std::vector<int> rank_of(times.size(), 0);
  std::size_t left = 0;
  for (int r = 0; r < ranks; ++r)
    for (const ScheduledRun& run : schedule[static_cast<std::size_t>(r)]) {
      rank_of[run.stage.index()] = r;
      ++left;
    }
  std::map<std::pair<int, int>, std::int64_t> forward, gradient;  // (stage, microbatch) -> end
  std::vector<std::size_t> done(schedule.size(), 0);
  Walked walked;
  walked.begin.assign(schedule.size(), 0);
  walked.end = walked.work = walked.begin;

  const auto run_next = [&](std::size_t r) {
    if (done[r] == schedule[r].size()) return false;
    const ScheduledRun& run = schedule[r][done[r]];
    const int s = run.stage.value, m = run.microbatch.value;
    const WalkTimes& mine = times[run.stage.index()];
    std::int64_t begin = walked.end[r];
    const auto waits = [&](const std::map<std::pair<int, int>, std::int64_t>& ends, int stage) {
      const auto end = ends.find({stage, m});
      if (end == ends.end()) return false;
      begin = std::max(
          begin, end->second + (rank_of[static_cast<std::size_t>(stage)] == static_cast<int>(r) ? 0 : mine.message));
      return true;
    };
    const auto wraps = [&](int other) {
      const bool at_wrap = s / ranks != other / ranks && m % ranks != 0;
      return mine.only_first_waits_at_the_wrap && at_wrap;
    };
    std::int64_t takes = mine.forward;
    if (run.pass == Pass::Forward) {
      if (s % of_a_line > 0 && !wraps(s - 1) && !waits(forward, s - 1)) return false;
    } else if (run.pass == Pass::BackwardWeight) {
      takes = mine.backward_weight;
      if (!waits(gradient, s)) return false;
    } else {
      takes = mine.backward_input + (run.pass == Pass::Backward ? mine.backward_weight : 0);
      if (!waits(forward, s)) return false;
      if ((s + 1) % of_a_line > 0 && !wraps(s + 1) && !waits(gradient, s + 1)) return false;
    }
    if (done[r]++ == 0) walked.begin[r] = begin;
    walked.end[r] = begin + takes;
    walked.work[r] += takes;
    if (run.pass == Pass::Forward) forward[{s, m}] = walked.end[r];
    if (run.pass == Pass::Backward || run.pass == Pass::BackwardInput) gradient[{s, m}] = walked.end[r];
    --left;
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < schedule.size(); ++r)
      while (run_next(r)) progress = true;
  }
  EXPECT_EQ(left, 0U) << "runs wait for ever";
  for (const std::int64_t end : walked.end) walked.step = std::max(walked.step, end);
  return walked;
}

inline Walked walk(const Schedule& schedule, int stages, const WalkTimes& times, int lines = 1) {
  return walk(schedule, std::vector<WalkTimes>(static_cast<std::size_t>(stages), times), lines);
}

}  // namespace meshwright
