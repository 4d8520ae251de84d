// SPDX-License-Identifier: Apache-2.0
#include "validation/prepared_run.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/planner/given_plan.h"
#include "costmodel/cost_models.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/what_if/prediction.h"
#include "validation/memory_interval.h"

namespace meshwright {

namespace {

PreparedRun prepare(const PublishedRun& run, RunRequest request) {
  PreparedRun prepared;
  prepared.run = &run;
  prepared.request = std::move(request);
  const PlanRequest& plan = prepared.request.plan;
  const auto costs = make_physical_cost_model(plan.cluster, prepared.request.software);
  PlanOfGraph made = given_plan(plan, *costs);
  if (worth_folding(made.plan)) {
    FoldedPlan small = load_folded_plan(made, *costs);
    prepared.loaded = std::move(small.loaded);
    prepared.folded = std::move(small.folded);
  } else {
    prepared.loaded = load_plan(made, *costs);
  }
  prepared.plan = std::move(made.plan);
  return prepared;
}

FrameworkMemory memory_with(const PreparedRun& run, std::optional<Recompute> recompute) {
  Plan kept = run.plan;
  if (recompute) {
    kept.training.recompute = *recompute;
    kept.training.recompute_ranges.clear();
  }
  return framework_memory(kept, *run.loaded.graph, run.request.software);
}

// How many of `layers`, spread evenly, have to be recomputed whole. What is kept falls in proportion to their number.
// nullopt: more than half of them; a software whose states are smaller than its profile says explains that better.
std::optional<int> fewest_whole_layers(const PreparedRun& run, int layers) {
  const double none = memory_with(run, Recompute::None).allocated().si();
  const double all = memory_with(run, Recompute::Full).allocated().si();
  const double room = allocator_room(run.request.plan.cluster.only().device.memory).si();
  if (all > room) return std::nullopt;
  const int whole = std::max(1, static_cast<int>(std::ceil((none - room) / (none - all) * layers)));
  return 2 * whole <= layers ? std::optional(whole) : std::nullopt;
}

bool fits_with(const PreparedRun& run, std::optional<Recompute> recompute) {
  return fits_on(memory_with(run, recompute).allocated(), run.request.plan.cluster.only().device.memory);
}

}  // namespace

FrameworkMemory memory_of(const PreparedRun& run) { return memory_with(run, run.request.recompute_in_memory); }

PreparedRun prepare_run(const PublishedRun& run, const std::string& software) {
  PreparedRun prepared = prepare(run, request_of_run(run, software));
  RunRequest& request = prepared.request;
  if (!request.recompute_is_open || run.out_of_memory) return prepared;
  if (fits_with(prepared, request.recompute_in_memory)) {
    request.assumed.push_back("no recomputation");
    return prepared;
  }
  if (request.software.selective_by_cost && fits_with(prepared, Recompute::Selective)) {
    request.recompute_in_memory = Recompute::Selective;
    request.assumed.push_back("norms and activation functions are recomputed, so that it fits");
    prepared.recompute_from_memory = true;
    return prepared;
  }
  const int layers = static_cast<int>(*run.layers);
  const std::optional<int> whole = fewest_whole_layers(prepared, layers);
  if (!whole) {
    request.assumed.push_back("no recomputation");
    // Something was recomputed that is not known: whether the plan fits cannot be said.
    prepared.recompute_from_memory = true;
    return prepared;
  }
  request.plan.search.recompute_layers = spread_recompute(layers, *whole);
  request.assumed.push_back(fmt::format("{} of {} layers are recomputed, so that it fits", *whole, layers));
  prepared = prepare(run, std::move(request));
  prepared.recompute_from_memory = true;
  return prepared;
}

Seconds predicted_step(const Program& program, const FoldedDevices* folded, const Cluster& cluster,
                       const SoftwareProfile& software, const MeasuredKernels* measured) {
  const auto costs = make_physical_cost_model(cluster, software, measured);
  return plain_step_time(program, *costs, folded);
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
