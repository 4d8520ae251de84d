// SPDX-License-Identifier: Apache-2.0
// Stage tables on the command line: taken from a file or a profile database before a search, stored after it.
#pragma once

#include <optional>

#include "cli/options/options.h"
#include "core/planner/stages/stage_profile.h"

namespace meshwright {

void add_stage_profile_options(CLI::App& verb, PlanningOptions& options);

// What a search is to know of its stages, and where its table goes.
class StageProfileUse {
 public:
  // Reads and looks at everything that can be refused before the search: throws InputError naming the flag or the file.
  // `others` are the files that the command works with.
  StageProfileUse(const PlanningOptions& options, const Cluster& cluster, const Costs& costs,
                  const std::vector<std::string>& others);
  // REQUIRES: this outlives the search.
  void put_into(PlanRequest& request) const;
  // Stores the table of the plan's search where that was asked for. A database keeps what else it holds.
  void store(const PlanningResult& result) const;

 private:
  std::optional<StageProfileFile> known_;
  StageProfileMode mode_ = StageProfileMode::Partly;
  StageCostSource costs_ = StageCostSource::Composition;
  std::string cost_fingerprint_, output_;
};

}  // namespace meshwright
