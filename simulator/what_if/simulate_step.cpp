// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/simulate_step.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "simulator/what_if/variations.h"

namespace meshwright {

namespace {

// Steps until one is like the next: a controller runs ahead of the devices by more with each of them, until it waits.
constexpr int kStepsToSettle = 4;

// [device] what its computations take, in multiples of what they would.
std::vector<double> compute_scale(const std::vector<DeviceId>& numbers, const StepRequest& request) {
  if (request.slow_devices.empty()) return {};
  std::vector<double> scale(numbers.size(), 1.0);
  for (const StepRequest::SlowDevice& slow : request.slow_devices) {
    const auto it = std::find(numbers.begin(), numbers.end(), DeviceId(slow.device));
    MW_CHECK(it != numbers.end(), "device {} is slow, but not of the plan", slow.device);
    scale[static_cast<std::size_t>(it - numbers.begin())] = 1.0 / slow.speed;
  }
  return scale;
}

// Replicas sum the gradients of each parameter over all of them before the update. A gradient that several devices of a
// stage hold in full is divided among them: each sums its part with the same devices of the other replicas, which are
// on hosts of their own, while the other devices of its host do the same.
ProgramTimes with_replicas(const Cluster& cluster, const Graph& graph, const Program& program, ProgramTimes times,
                           const CostModel& costs, int replicas) {
  if (replicas == 1) return times;
  std::vector<Bytes> gradients(program.stages.size(), Bytes(0.0));
  for (const Buffer& buffer : program.buffers)
    if (graph.tensor(buffer.local.tensor).kind == TensorKind::Parameter)
      gradients[buffer.stage.index()] += graph.tensor(buffer.local.tensor).bytes();
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const ProgramStage& stage = program.stages[s];
    if (!stage.update) continue;
    const Submesh& of = stage.mesh.of;
    LinkCost link = cluster.group(of.group).between_hosts;
    // All devices of a host sum at once and share its network.
    link.beta = static_cast<double>(of.devices_per_host) * link.beta;
    const MeshAxis axis{1, replicas, link, link};
    times.executable[static_cast<std::size_t>(*stage.update)] += to_sim_time(
        costs.on(of.group).collective(CollectiveKind::AllReduce, gradients[s] / stage.mesh.devices(), axis).time);
  }
  return times;
}

BroadcastCount broadcasts_of(const Program& program, const ProgramFlows& flows) {
  BroadcastCount found;
  for (std::size_t t = 0; t < program.transfers.size(); ++t) {
    if (program.transfers[t].source == program.transfers[t].destination) continue;
    ++found.messages;
    if (flows.along[t] != static_cast<int>(t)) ++found.along;
  }
  return found;
}

// What the options of a graph point to.
struct GraphInputs {
  std::vector<std::vector<Piece>> pieces;
  NetworkFlows flows;
  ProgramGraphOptions options;
};

CutOptions cut_of(const StepRequest& request) {
  const CutOptions whole{Bytes(0.0), 0, ParameterTime::Inside};  // collectives stay where they are in the Run
  return request.overlap.value_or(whole);
}

void cut_runs(GraphInputs& inputs, const Program& program, const ProgramTimes& times, const CostModel& costs,
              const StepRequest& request) {
  if (!request.overlap && request.network == NetworkModel::Static) return;
  inputs.pieces = cut_executables(program, times, costs, cut_of(request));
  (request.overlap ? inputs.options.overlap : inputs.options.in_order) = &inputs.pieces;
}

void share_network(GraphInputs& inputs, StepSimulation& step, const Program& program, const Cluster& cluster,
                   const std::vector<DeviceId>& in_cluster, const StepRequest& request,
                   const std::optional<NetworkFlows>& folded) {
  if (request.network == NetworkModel::Static) return;
  step.network.emplace(cluster);
  inputs.flows =
      folded ? *folded : program_flows(program, in_cluster, *step.network, &inputs.pieces, request.broadcast);
  step.link_of = inputs.flows.link_of;
  if (request.broadcast == Broadcast::Chain) step.broadcasts = broadcasts_of(program, inputs.flows.flows);
  inputs.options.flows = &inputs.flows.flows;
}

int period_of(const std::optional<Controller>& controller) {
  return controller ? std::max(1, controller->fetch_every) : 1;
}

void issue_work(GraphInputs& inputs, const Cluster& cluster, const std::vector<DeviceId>& in_cluster,
                const StepRequest& request) {
  for (const DeviceId device : in_cluster) inputs.options.host.push_back(cluster.host_of_device(device.value));
  inputs.options.controller = request.controller;
  if (request.controller) inputs.options.steps = kStepsToSettle + 2 * period_of(request.controller);
}

// No task waits for anything but others, and flows that share a link leave none of it unused: a step takes at most what
// its tasks do one after the other, each as slow as it can be.
void expect_within_clock(const TaskGraph& graph, const Conditions& conditions, double jitter) {
  constexpr double kClock = 9e18;    // picoseconds
  constexpr double kFarthest = 8.6;  // standard deviations that a random number of 53 bits can be from the mean
  double scale_of_slowest = 1.0;
  for (const double scale : conditions.compute_scale) scale_of_slowest = std::max(scale_of_slowest, scale);
  const double slowest =
      std::exp(kFarthest * jitter) * conditions.compute_slowdown * conditions.communication_slowdown * scale_of_slowest;
  double total = 0.0;
  for (const std::int32_t task_class : graph.class_numbers())
    total += slowest * static_cast<double>(graph.classes[static_cast<std::size_t>(task_class)].duration.ps);
  require(total < kClock,
          "the step could take longer than the simulated clock runs (106 days); give smaller values for slow devices, "
          "slowdown, jitter or the controller's times.");
}

SimTime step_of(const ProgramGraph& tasks, const TaskTimes& times, const std::optional<Controller>& controller) {
  return controller ? step_among_many(tasks, times, period_of(controller)) : times.step;
}

void run_step(StepSimulation& step, const std::optional<Controller>& controller) {
  SimulatedTasks simulated = run_tasks(step.tasks.graph, step.conditions);
  step.times = std::move(simulated.times);
  step.by_events = simulated.by_events;
  step.period = period_of(controller);
  step.step = step_of(step.tasks, step.times, controller);
}

void run_without_fetches(StepSimulation& step, const Program& program, const ProgramTimes& times,
                         ProgramGraphOptions options) {
  if (!options.controller || options.controller->fetch_every == 0) return;
  // The step once more without fetches tells what these cost.
  options.controller->fetch_every = 0;
  const ProgramGraph silent = program_graph(program, times, options);
  step.without_fetches = step_of(silent, run_tasks(silent.graph, step.conditions).times, options.controller);
}

void draw_samples(StepSimulation& step, const StepRequest& request, int threads) {
  Conditions shaky = step.conditions;
  shaky.jitter = request.drawn_jitter();
  if (shaky.jitter == 0.0) return;
  step.jitter = shaky.jitter;
  step.is_mean = request.mean_jitter.has_value();
  if (request.mean_jitter) shaky.seed = 0;
  step.samples =
      sample_steps(step.tasks.graph, shaky, request.mean_jitter ? StepRequest::kMeanOf : request.samples, threads,
                   [&](const TaskTimes& times) { return step_of(step.tasks, times, request.controller); });
  if (!request.mean_jitter) return;
  const SimTime mean = mean_of(step.samples);
  // What fetches cost is told of steps without jitter.
  if (step.without_fetches) step.without_fetches = *step.without_fetches + (mean - step.step);
  step.step = mean;
}

}  // namespace

StepSimulation simulate_plain_step(const Program& program, const ProgramTimes& times, const FoldedDevices* folded,
                                   bool name_tasks) {
  StepSimulation step;
  ProgramGraphOptions options;
  options.folded = folded;
  options.name_tasks = name_tasks;
  if (name_tasks) step.run_times = times.executable;
  step.tasks = program_graph(program, times, options);
  step.times = run_in_order(step.tasks.graph);
  step.step = step.times.step;
  // Two independent engines must agree to the picosecond.
  const TaskTimes by_events = run_by_events(step.tasks.graph);
  MW_CHECK(step.times.begin == by_events.begin && step.times.end == by_events.end && step.times.step == by_events.step,
           "the event engine ends at {} ps, the pass in order at {} ps", by_events.step.ps, step.times.step.ps);
  return step;
}

SimTime plain_step(const Program& program, const ProgramTimes& times, const FoldedDevices* folded) {
  ProgramGraphOptions options;
  options.folded = folded;
  return run_in_order(program_graph(program, times, options).graph).step;
}

namespace {

StepSimulation simulate(const Plan& plan, const Graph& graph, const Program& program, const FoldedPlan* folded,
                        const ProgramTimes& own_times, const CostModel& costs, const StepRequest& request,
                        int threads) {
  const Cluster cluster = cluster_of_step(plan.cluster, request);
  const std::vector<DeviceId> in_cluster = devices_in_cluster(plan, program);
  const ProgramTimes times = with_replicas(cluster, graph, program, own_times, costs, request.replicas);

  StepSimulation step;
  step.conditions = request.conditions;
  step.conditions.jitter = 0.0;  // of the samples alone
  step.conditions.compute_scale = compute_scale(in_cluster, request);

  GraphInputs inputs;
  cut_runs(inputs, program, times, costs, request);
  share_network(inputs, step, program, cluster, in_cluster, request, folded ? folded->network : std::nullopt);
  if (folded != nullptr) inputs.options.folded = &folded->folded;
  issue_work(inputs, plan.cluster, in_cluster, request);

  inputs.options.name_tasks = request.name_tasks;
  step.tasks = program_graph(program, times, inputs.options);
  expect_within_clock(step.tasks.graph, step.conditions, request.drawn_jitter());
  run_step(step, request.controller);
  run_without_fetches(step, program, times, inputs.options);
  draw_samples(step, request, threads);
  if (request.name_tasks) {
    step.run_times = times.executable;
    step.pieces = std::move(inputs.pieces);
  }
  return step;
}

}  // namespace

StepSimulation simulate_step(const Plan& plan, const LoadedPlan& loaded, const ProgramTimes& times,
                             const CostModel& costs, const StepRequest& request, int threads) {
  return simulate(plan, *loaded.graph, loaded.program, nullptr, times, costs, request, threads);
}

StepSimulation simulate_step(const Plan& plan, const Graph& graph, const Program& program, const ProgramTimes& times,
                             const CostModel& costs, const StepRequest& request, int threads) {
  return simulate(plan, graph, program, nullptr, times, costs, request, threads);
}

StepSimulation simulate_step(const Plan& plan, const FoldedPlan& folded, const ProgramTimes& times,
                             const CostModel& costs, const StepRequest& request) {
  MW_CHECK(keeps_devices_alike(request), "devices under such circumstances are not alike");
  return simulate(plan, *folded.loaded.graph, folded.loaded.program, &folded, times, costs, request, 1);
}

FoldedPlan load_folded_plan(const Plan& plan, const CostModel& costs, const StepRequest& request) {
  if (request.network == NetworkModel::Static) return load_folded_plan(plan, costs);
  const Topology topology(cluster_of_step(plan.cluster, request));
  const NetworkToFold network{topology, cut_of(request)};
  return load_folded_plan(plan, costs, &network);
}

FoldedPlan load_folded_plan(const PlanOfGraph& made, const CostModel& costs, const StepRequest& request) {
  if (request.network == NetworkModel::Static) return load_folded_plan(made, costs);
  const Topology topology(cluster_of_step(made.plan.cluster, request));
  const NetworkToFold network{topology, cut_of(request)};
  return load_folded_plan(made, costs, &network);
}

bool keeps_devices_alike(const StepRequest& request) {
  return request.network != NetworkModel::Fifo && request.broadcast == Broadcast::None && !request.controller &&
         request.slow_devices.empty() && request.drawn_jitter() == 0.0 && request.replicas == 1 &&
         !request.conditions.interferes();
}

Goodput goodput_of(const StepSimulation& step, const Program& program, const StepRequest& request) {
  FailureModel failures = request.failures.value();
  failures.devices = static_cast<int>(program.devices.size()) * request.replicas;
  failures.step = to_seconds(step.step);
  return expected_goodput(failures);
}

std::vector<Bytes> peak_memory(const StepSimulation& step, const Program& program, const FoldedDevices* folded) {
  std::vector<Bytes> peaks = program.persistent_bytes;
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    const std::size_t like = folded == nullptr ? d : folded->representative[d].index();
    peaks[d] += Bytes(static_cast<double>(step.times.peak_memory[like]));
  }
  return peaks;
}

}  // namespace meshwright
