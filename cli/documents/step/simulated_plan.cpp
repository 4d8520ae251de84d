// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/step/simulated_plan.h"

#include "simulator/fold/folded_plan.h"
#include "simulator/what_if/breakdown.h"

namespace meshwright {

namespace {

SimulatedPlan simulated_plainly(const Plan& plan, const std::string& path, const Costs& costs,
                                const StepRequest& request, DeviceFolding folding) {
  SimulatedPlan simulated;
  const bool fold = folding == DeviceFolding::WherePossible && worth_folding(plan);
  std::int64_t events = 0;
  if (fold) {
    FoldedPlan folded = at_place(path, [&] { return load_folded_plan(plan, *costs.model); });
    simulated.loaded = std::move(folded.loaded);
    simulated.folded = std::move(folded.folded);
    events = folded.events;
  } else {
    simulated.loaded = load_plan_of(path, plan, *costs.model);
  }
  ProgramCosts own = program_costs_within_clock(simulated.loaded.program, *costs.model);
  simulated.step = simulate_plain_step(simulated.loaded.program, own.times, simulated.alike(), request.name_tasks);
  simulated.prediction = prediction_of(simulated.loaded.program, std::move(own), simulated.step, simulated.alike());
  if (fold) simulated.prediction.events = events;
  return simulated;
}

SimulatedPlan simulated_under_circumstances(const Plan& plan, const std::string& path, const Costs& costs,
                                            const StepRequest& request, DeviceFolding folding, int threads) {
  SimulatedPlan simulated;
  at_place("--slow-device", [&] { check_slow_devices(request, plan); });
  ProgramCosts own;
  if (folding == DeviceFolding::WherePossible && worth_folding(plan) && keeps_devices_alike(request)) {
    FoldedPlan folded = at_place(path, [&] { return load_folded_plan(plan, *costs.model, request); });
    own = program_costs_within_clock(folded.loaded.program, *costs.model);
    simulated.step = simulate_step(plan, folded, own.times, *costs.model, request);
    simulated.loaded = std::move(folded.loaded);
    simulated.folded = std::move(folded.folded);
  } else {
    simulated.loaded = load_plan_of(path, plan, *costs.model);
    own = program_costs_within_clock(simulated.loaded.program, *costs.model);
    simulated.step = simulate_step(plan, simulated.loaded, own.times, *costs.model, request, threads);
  }
  simulated.prediction = prediction_of(simulated.loaded.program, std::move(own), simulated.step, simulated.alike());
  simulated.loaded.check.peak_memory = peak_memory(simulated.step, simulated.loaded.program, simulated.alike());
  return simulated;
}

}  // namespace

SimulatedPlan simulated_plan(const Plan& plan, const std::string& path, const Costs& costs, const StepRequest& request,
                             DeviceFolding folding, int threads) {
  return request.plain() ? simulated_plainly(plan, path, costs, request, folding)
                         : simulated_under_circumstances(plan, path, costs, request, folding, threads);
}

Breakdown find_breakdown(const SimulatedPlan& simulated, const Plan& plan, const Costs& costs) {
  const Program& program = simulated.loaded.program;
  const RunParts parts(program, *simulated.loaded.graph, plan.cluster, *costs.model);
  return {breakdown_of(simulated.step, program, parts, simulated.alike()),
          top_ops(program, *simulated.loaded.graph, parts, *costs.model, simulated.alike())};
}

}  // namespace meshwright
