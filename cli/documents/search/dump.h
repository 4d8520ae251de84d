// SPDX-License-Identifier: Apache-2.0
// The folder of --dump: what a search knew and what the plan consists of, as files (docs/files.md). The same request
// gives the same bytes, whatever the number of threads.
#pragma once

#include <string>
#include <vector>

#include "cli/documents/search/planning.h"
#include "core/planner/considered_plans.h"

namespace meshwright {

// To be asked before the search; "" is no folder. Throws InputError when the path is something else than a folder, or
// one of the files that the command reads or writes would be one of the dump's (`others`; "" stands for none);
// SystemError when no files can be written there.
void expect_dump_folder(const std::string& folder, const std::vector<std::string>& others);

// Creates the folder and writes all files; those of an earlier dump are replaced, and programs beyond this plan's
// removed. Throws SystemError. REQUIRES: `considered` has heard of the search that made the plan.
void write_dump(const std::string& folder, const PredictedPlan& planned, const ConsideredPlans& considered,
                const CostModel& costs);
// Where the search found no plan: candidates.csv alone.
void write_candidates(const std::string& folder, const ConsideredPlans& considered);

}  // namespace meshwright
