// SPDX-License-Identifier: Apache-2.0
#include "cli/planning.h"

#include "cli/evaluator.h"
#include "cli/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"

namespace meshwright {

PlanningOutcome search_plan(PlanRequest request, const Costs& costs, const std::string& lead) {
  Progress progress;
  request.progress = [&](const std::string& text) { progress(lead + text); };
  SimulatedEvaluator evaluator(*costs.model);
  const Seconds begin = now();
  PlanningResult result = make_plan(request, *costs.model, evaluator);
  const Seconds wall = now() - begin;
  if (!result.plan) return {std::nullopt, result.reason};
  Plan plan = *std::move(result.plan);
  Prediction prediction = predict(result.program, result.check, *costs.model);
  MW_CHECK(to_sim_time(prediction.step()) == to_sim_time(plan.predicted.step_time),
           "the plan promises a step of {} s, its program takes {} s", plan.predicted.step_time.si(),
           prediction.step().si());
  return {Planned{std::move(plan), std::move(result), std::move(prediction), wall}, ""};
}

namespace {

std::string stage_table(const Planned& planned) {
  TextTable table({{"stage", ""},
                   {"layers", ""},
                   {"submesh", ""},
                   {"logical", ""},
                   {"forward", "(ms)"},
                   {"backward", "(ms)"},
                   {"update", "(ms)"},
                   {"memory", "(GiB)"},
                   {"in-flight", ""}});
  const Plan& plan = planned.plan;
  const int stages = static_cast<int>(plan.stages.size());
  for (int s = 0; s < stages; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const StagePlan& stage = plan.stages[i];
    const StageTimes& times = planned.prediction.stages[i];
    const Bytes peak = stage_peak(planned.result.program.stages[i], planned.result.check.peak_memory);
    table.add_row(
        {fmt::format("{}", s), layers_text(stage), submesh_text(stage), logical_text(stage),
         in_milliseconds(times.forward), in_milliseconds(times.backward), in_milliseconds(times.update),
         in_gibibytes(peak),
         fmt::format("{}", in_flight(plan.schedule, s, stages, static_cast<int>(plan.training.microbatches)))});
  }
  return table.to_text();
}

std::string document(const Planned& planned, const Costs& costs, const PlanReport& report) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = planned.prediction;
  std::string text = header_lines(report.verb, plan) + report.provenance + cost_line(costs.source, prediction.priced);
  text += stage_table(planned);
  text += fmt::format("# step time {} ms; lower bound {} ms, gap {} %\n", in_milliseconds(plan.predicted.step_time),
                      in_milliseconds(plan.predicted.lower_bound), in_percent(relative_gap(plan.predicted)));
  if (planned.result.sharding)
    text += fmt::format(
        "# sharding: {} ms per micro-batch, no other of the method within the memory takes less than {} ms "
        "(gap {} %)\n",
        in_milliseconds(planned.result.sharding->cost), in_milliseconds(planned.result.sharding->bound),
        in_percent(planned.result.sharding->gap()));
  text += fmt::format("# idle share {} %, pipeline bubble {} %\n", in_percent(prediction.summary.bubble),
                      in_percent(prediction.pipeline_bubble));
  text += fmt::format("# {}\n", to_text(throughput(plan, plan.predicted.step_time)));
  text += fmt::format("# peak memory {} GiB of {} GiB usable per device\n",
                      in_gibibytes(planned.result.check.largest_peak()), in_gibibytes(plan.cluster.usable_memory()));
  text +=
      fmt::format("# search: {} programs simulated, {} stage options priced; {} events in the plan's own simulation\n",
                  planned.result.simulations, planned.result.stages_priced, prediction.simulation.events);
  if (!report.output.empty()) text += fmt::format("# written to {}\n", report.output);
  return text;
}

Json stages_json(const Planned& planned) {
  Json stages = Json::array();
  const Plan& plan = planned.plan;
  const int count = static_cast<int>(plan.stages.size());
  for (int s = 0; s < count; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const StagePlan& stage = plan.stages[i];
    const StageTimes& times = planned.prediction.stages[i];
    stages.push_back({{"stage", s},
                      {"layers", Json::array({stage.first_layer, stage.last_layer})},
                      {"submesh", Json::array({stage.submesh.hosts, stage.submesh.devices_per_host})},
                      {"logical_shape", stage.logical_shape},
                      {"devices", stage.devices},
                      {"forward_s", times.forward.si()},
                      {"backward_s", times.backward.si()},
                      {"update_s", times.update.si()},
                      {"peak_memory_bytes",
                       bytes_json(stage_peak(planned.result.program.stages[i], planned.result.check.peak_memory))},
                      {"in_flight", in_flight(plan.schedule, s, count, static_cast<int>(plan.training.microbatches))}});
  }
  return stages;
}

Json twin(const Planned& planned, const Costs& costs, const PlanReport& report, std::uint64_t seed) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = planned.prediction;
  Json json = header_json(report.verb, plan);
  json["seed"] = seed;
  json["costs"] = costs.source;
  json["cost_basis"] = basis_json(prediction.priced);
  json["step_time_s"] = plan.predicted.step_time.si();
  json["lower_bound_s"] = plan.predicted.lower_bound.si();
  json["gap"] = relative_gap(plan.predicted);
  if (const auto& sharding = planned.result.sharding) {
    json["sharding_cost_s"] = sharding->cost.si();
    json["sharding_bound_s"] = sharding->bound.si();
    json["sharding_gap"] = sharding->gap();
  }
  json["idle_share"] = prediction.summary.bubble;
  json["pipeline_bubble"] = prediction.pipeline_bubble;
  add_throughput(json, throughput(plan, plan.predicted.step_time));
  json["peak_memory_bytes"] = bytes_json(planned.result.check.largest_peak());
  json["usable_memory_bytes"] = bytes_json(plan.cluster.usable_memory());
  json["simulations"] = planned.result.simulations;
  json["stages_priced"] = planned.result.stages_priced;
  json["events"] = prediction.simulation.events;
  json["stages"] = stages_json(planned);
  for (const auto& [key, value] : report.extra.items()) json[key] = value;
  if (!report.output.empty()) json["output"] = report.output;
  json["planning_wall_s"] = planned.wall.si();
  return json;
}

}  // namespace

void write_plan(const Plan& plan, const std::string& path) { write_file(path, to_json(plan).dump(1) + "\n"); }

void plan_and_report(const PlanningOptions& options, const Cluster& cluster, const Costs& costs,
                     const PlanReport& report) {
  const std::uint64_t seed = seed_from_text(options.seed);
  const PlanRequest request = request_from_options(options, cluster);
  expect_writable(report.output, files_read(options));
  const PlanningOutcome outcome = search_plan(request, costs, "");
  if (!outcome.planned) throw NoFeasiblePlan(fmt::format("no feasible plan: {}", outcome.reason));
  const Planned& planned = *outcome.planned;
  if (!report.output.empty()) write_plan(planned.plan, report.output);
  if (options.json) return print(twin(planned, costs, report, seed));
  print(document(planned, costs, report));
  tell(fmt::format("planning took {:.3f} s", planned.wall.si()));
}

}  // namespace meshwright
