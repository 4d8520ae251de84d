// SPDX-License-Identifier: Apache-2.0
#include "cli/step/step_simulation.h"

#include <algorithm>
#include <cmath>

#include "cli/options/options.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "simulator/report/what_if.h"

namespace meshwright {

namespace {

// Steps until one is like the next: a controller runs ahead of the devices by more with each of them, until it waits.
constexpr int kStepsToSettle = 4;

// [device of the Program] its number in the cluster.
std::vector<DeviceId> devices_in_cluster(const Plan& plan, const Program& program) {
  std::vector<DeviceId> numbers(program.devices.size(), DeviceId(0));
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (std::size_t rank = 0; rank < plan.stages[s].devices.size(); ++rank)
      numbers[program.stages[s].devices[rank].index()] = DeviceId(plan.stages[s].devices[rank]);
  return numbers;
}

// What one device's computations take, in multiples of what they would.
std::vector<double> compute_scale(const Plan& plan, const std::vector<DeviceId>& numbers, const StepRequest& request) {
  if (request.slow_devices.empty()) return {};
  std::vector<double> scale(numbers.size(), 1.0);
  for (const StepRequest::SlowDevice& slow : request.slow_devices) {
    const auto it = std::find(numbers.begin(), numbers.end(), DeviceId(slow.device));
    require(it != numbers.end(),
            "--slow-device: the plan does not use device {}; expected a device of {} that the plan uses.", slow.device,
            plan.cluster.name);
    scale[static_cast<std::size_t>(it - numbers.begin())] = 1.0 / slow.speed;
  }
  return scale;
}

// Replicas sum the gradients of each parameter before the update. If several devices of a stage hold the same gradient,
// each reduces a part of it with its counterparts in the other replicas, which are on other hosts, while the other
// devices of its host do the same.
ProgramTimes with_replicas(const Cluster& cluster, const LoadedPlan& loaded, ProgramTimes times, const CostModel& costs,
                           int replicas) {
  if (replicas == 1) return times;
  std::vector<Bytes> gradients(loaded.program.stages.size(), Bytes(0.0));
  for (const Buffer& buffer : loaded.program.buffers)
    if (loaded.graph.tensor(buffer.local.tensor).kind == TensorKind::Parameter)
      gradients[buffer.stage.index()] += loaded.graph.tensor(buffer.local.tensor).bytes();
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const ProgramStage& stage = loaded.program.stages[s];
    if (!stage.update) continue;
    const Submesh& of = stage.mesh.of;
    LinkCost link = cluster.group(of.group).between_hosts;
    link.beta = static_cast<double>(of.devices_per_host) * link.beta;
    const MeshAxis axis{1, replicas, link, link};
    times.executable[static_cast<std::size_t>(*stage.update)] += to_sim_time(
        costs.on(of.group).collective(CollectiveKind::AllReduce, gradients[s] / stage.mesh.devices(), axis).time);
  }
  return times;
}

// Copies on one device are no messages.
BroadcastCount broadcasts_of(const Program& program, const ProgramFlows& flows) {
  BroadcastCount found;
  for (std::size_t t = 0; t < program.transfers.size(); ++t) {
    if (program.transfers[t].source == program.transfers[t].destination) continue;
    ++found.messages;
    if (flows.along[t] != static_cast<int>(t)) ++found.along;
  }
  return found;
}

// No task waits for anything but others, and flows that share a link leave none of it unused: a step takes at most what
// its tasks do one after the other, each as slow as it can be.
void expect_within_clock(const TaskGraph& graph, const Conditions& conditions, double jitter) {
  constexpr double kClock = 9e18;    // picoseconds
  constexpr double kFarthest = 8.6;  // standard deviations that a random number of 53 bits can be from the mean
  double slowest = std::exp(kFarthest * jitter) * conditions.compute_slowdown * conditions.communication_slowdown;
  for (const double scale : conditions.compute_scale) slowest = std::max(slowest, slowest * scale);
  double total = 0.0;
  for (const std::int32_t task_class : graph.class_numbers())
    total += slowest * static_cast<double>(graph.classes[static_cast<std::size_t>(task_class)].duration.ps);
  require(total < kClock,
          "the step could take longer than the simulated clock runs (106 days); give smaller values for --slow-device, "
          "--slowdown, --jitter or the controller's times.");
}

SimTime step_of(const ProgramGraph& made, const TaskTimes& times, const std::optional<Controller>& controller) {
  return controller ? step_among_many(made, times, std::max(1, controller->fetch_every)) : times.step;
}

}  // namespace

std::vector<Bytes> peak_memory(const StepSimulation& step, const Program& program) {
  std::vector<Bytes> peaks = program.persistent_bytes;
  for (std::size_t d = 0; d < peaks.size(); ++d) peaks[d] += Bytes(static_cast<double>(step.times.peak_memory[d]));
  return peaks;
}

Cluster cluster_of_step(const Cluster& cluster, const StepRequest& request) {
  Cluster own = cluster;
  for (const StepRequest::SlowLinks& slow : request.slow_links)
    own = with_slower_links(std::move(own), slow.kind, slow.speed);
  return own;
}

StepSimulation simulate_step(const Plan& plan, const LoadedPlan& loaded, const ProgramTimes& own_times,
                             const CostModel& costs, const StepRequest& request, int threads) {
  const Program& program = loaded.program;
  StepSimulation step;
  step.conditions = request.conditions;
  step.conditions.jitter = 0.0;
  const std::vector<DeviceId> in_cluster = devices_in_cluster(plan, program);
  step.conditions.compute_scale = compute_scale(plan, in_cluster, request);
  const Cluster cluster = cluster_of_step(plan.cluster, request);
  const ProgramTimes times = with_replicas(cluster, loaded, own_times, costs, request.replicas);

  // What the options point to.
  std::vector<std::vector<Piece>> pieces;
  NetworkFlows flows;
  ProgramGraphOptions options;
  const bool shared = request.network != NetworkModel::Static;
  if (request.overlap || shared) {
    const CutOptions whole{Bytes(0.0), 0};  // collectives as they stand in the Run
    pieces = cut_executables(program, times, costs, request.overlap.value_or(whole));
    (request.overlap ? options.overlap : options.in_order) = &pieces;
  }
  if (shared) {
    step.network.emplace(cluster);
    flows = program_flows(program, in_cluster, *step.network, &pieces, request.broadcast);
    step.link_of = flows.link_of;
    if (request.broadcast == Broadcast::Chain) step.broadcasts = broadcasts_of(program, flows.flows);
    options.flows = &flows.flows;
  }
  options.controller = request.controller;
  for (const DeviceId device : in_cluster) options.host.push_back(plan.cluster.host_of_device(device.value));
  if (request.controller) options.steps = kStepsToSettle + 2 * std::max(1, request.controller->fetch_every);

  step.made = program_graph(program, times, options);
  expect_within_clock(step.made.graph, step.conditions, request.conditions.jitter);
  Simulated simulated = run_tasks(step.made.graph, step.conditions);
  step.times = std::move(simulated.times);
  step.by_events = simulated.by_events;
  step.step = step_of(step.made, step.times, request.controller);

  if (request.controller && request.controller->fetch_every > 0) {
    ProgramGraphOptions silent = options;
    silent.controller->fetch_every = 0;
    const ProgramGraph made = program_graph(program, times, silent);
    step.without_fetches = step_of(made, run_tasks(made.graph, step.conditions).times, silent.controller);
  }
  if (request.samples > 0) {
    Conditions shaky = step.conditions;
    shaky.jitter = request.conditions.jitter;
    step.samples = sample_steps(step.made.graph, shaky, request.samples, threads);
  }
  if (request.failures) {
    FailureModel failures = *request.failures;
    failures.devices = static_cast<int>(program.devices.size()) * request.replicas;
    failures.step = to_seconds(step.step);
    step.goodput = at_place("--failures", [&] { return expected_goodput(failures); });
  }
  return step;
}

}  // namespace meshwright
