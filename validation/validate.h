// SPDX-License-Identifier: Apache-2.0
// Holds predictions against published runs: every row as a plan, predicted by the planner's core and the simulator.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/calibration/residuals.h"
#include "validation/interval.h"
#include "validation/memory_interval.h"
#include "validation/published_runs.h"

namespace meshwright {

struct ValidatedRun {
  const PublishedRun* run = nullptr;
  std::optional<Seconds> step = std::nullopt;                    // nullopt: not predicted, see `reason`
  std::optional<StepInterval> interval = std::nullopt;           // of 90 %
  std::optional<Bytes> memory = std::nullopt;                    // of the fullest device, as the row counts it
  std::optional<MemoryInterval> memory_interval = std::nullopt;  // of 90 %
  std::optional<bool> fits = std::nullopt;                       // on the device, beside what its driver needs
  std::optional<double> fit_probability = std::nullopt;
  Bytes device_memory{0.0};
  std::string software = {};
  std::string reason = {};                // why there is no prediction
  bool wrong = false;                     // the row contradicts itself
  std::vector<std::string> assumed = {};  // what the row leaves open
};

// In the order of the runs, each on one of `threads`. `software`: of all of them; "": of each one's framework.
// `progress`: called with the number of runs that are done, by any thread and one at a time.
[[nodiscard]] std::vector<ValidatedRun> predict_runs(const std::vector<PublishedRun>& runs, const std::string& software,
                                                     int threads,
                                                     const std::function<void(std::size_t)>& progress = {});

// Rows with both a prediction and a published value, of one source or group.
struct ValidationSummary {
  std::string name;
  ErrorSummary step;
  int covered = 0;  // rows whose published time is in the interval
  ErrorSummary memory;
  // Whether rows fit: as published and predicted, where a row says that it ran or ran out of memory.
  struct Fits {
    int right = 0, wrongly_too_large = 0, wrongly_fitting = 0;
  } fits;
};

// How well predictions choose among plans of one group: groups of at least three rows with times.
struct RankingSummary {
  std::string name;
  int groups = 0;
  double spearman = 0.0;  // mean over groups, of predicted against published times
  double mean_regret = 0.0,
         max_regret = 0.0;  // published time of the plan predicted fastest over the fastest's, less 1
};

enum class SummaryKey { Source, Group };
// By name, with "all" as the last where there are several.
[[nodiscard]] std::vector<ValidationSummary> summarize(const std::vector<ValidatedRun>& results, SummaryKey key);
// By source.
[[nodiscard]] std::vector<RankingSummary> rank_within_groups(const std::vector<ValidatedRun>& results);

// Spearman's rank correlation of two lists of one length; ties share their mean rank. 0 where either does not vary.
[[nodiscard]] double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace meshwright
