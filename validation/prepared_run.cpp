// SPDX-License-Identifier: Apache-2.0
#include "validation/prepared_run.h"

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/planner/given_plan.h"
#include "costmodel/cost_models.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/what_if/prediction.h"

namespace meshwright {

PreparedRun prepare_run(const PublishedRun& run, const std::string& software) {
  PreparedRun prepared;
  prepared.run = &run;
  prepared.request = request_of_run(run, software);
  const PlanRequest& request = prepared.request.plan;
  const auto costs = make_physical_cost_model(request.cluster, prepared.request.software);
  prepared.plan = given_plan(request, *costs);
  if (worth_folding(prepared.plan)) {
    FoldedPlan small = load_folded_plan(prepared.plan, *costs);
    prepared.loaded = std::move(small.loaded);
    prepared.folded = std::move(small.folded);
  } else {
    prepared.loaded = load_plan(prepared.plan, *costs);
  }
  return prepared;
}

Seconds predicted_step(const Program& program, const FoldedDevices* folded, const Cluster& cluster,
                       const SoftwareProfile& software, const MeasuredKernels* measured) {
  const auto costs = make_physical_cost_model(cluster, software, measured);
  return to_seconds(plain_step(program, program_costs_within_clock(program, *costs).times, folded));
}

Seconds predicted_step(const PreparedRun& run, const SoftwareProfile& software) {
  return predicted_step(run.loaded.program, run.folded ? &*run.folded : nullptr, run.request.plan.cluster, software);
}

PreparedRuns prepare_runs(const std::vector<PublishedRun>& runs, const std::string& software, int threads) {
  std::vector<std::optional<PreparedRun>> made(runs.size());
  std::vector<std::string> reasons(runs.size());
  std::vector<char> wrong(runs.size(), 0);
  for_each_index(runs.size(), threads, [&](std::size_t i) {
    const auto why = runs[i].why_not_a_run();
    if (why || !runs[i].step || runs[i].out_of_memory) {
      reasons[i] = why.value_or("no time is published");
      return;
    }
    try {
      made[i] = prepare_run(runs[i], software);
      // The program is all that further predictions need.
      made[i]->plan = {};
      made[i]->loaded.graph = {};
    } catch (const ContradictionError& error) {
      reasons[i] = error.what();
      wrong[i] = 1;
    } catch (const InputError& error) {
      reasons[i] = error.what();
    }
  });
  PreparedRuns prepared;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (made[i])
      prepared.runs.push_back(*std::move(made[i]));
    else if (wrong[i] != 0)
      prepared.wrong.push_back({runs[i].id, runs[i].place, reasons[i]});
    else
      prepared.left_out.emplace_back(&runs[i], reasons[i]);
  }
  return prepared;
}

}  // namespace meshwright
