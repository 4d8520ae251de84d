// SPDX-License-Identifier: Apache-2.0
// The circumstances of a simulated step: what shares the network, who issues the work, what is slower than promised.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "simulator/engine/task_graph.h"
#include "simulator/program/dispatch.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/program_flows.h"
#include "simulator/report/goodput.h"

namespace meshwright {

// Static: a message takes what it takes beside all others that may leave its host with it. Fluid, Fifo: messages meet
// on the links of the cluster's network (LinkDiscipline).
enum class NetworkModel { Static, Fluid, Fifo };

struct StepRequest {
  NetworkModel network = NetworkModel::Static;
  Broadcast broadcast = Broadcast::None;  // not where the network is Static
  std::optional<CutOptions> overlap;      // communication runs beside computation
  std::optional<Controller> controller;
  Conditions conditions;  // without compute_scale
  // Sizes of the program depend on it: it counts as the cluster that plans are searched and lowered for has it.
  ExpertLoad expert_load;
  struct SlowDevice {
    int device;    // of the cluster
    double speed;  // of 1
  };
  std::vector<SlowDevice> slow_devices;
  struct SlowLinks {
    std::string kind;  // "within-host", "between-hosts"
    double speed;
  };
  std::vector<SlowLinks> slow_links;
  int samples = 0;  // simulations with jitter; 0: none
  // The step is the mean of kMeanOf simulations with this jitter, of the seeds from 0 on; nullopt: one without any.
  std::optional<double> mean_jitter;
  static constexpr int kMeanOf = 20;
  std::optional<FailureModel> failures;  // its devices and step are those of the simulation
  int replicas = 1;                      // of the whole plan, each on devices of its own
  bool name_tasks = false;               // to tell of each task what it does (ProgramGraph::of)

  // That of the simulations that are drawn; 0: none are.
  [[nodiscard]] double drawn_jitter() const { return mean_jitter.value_or(samples > 0 ? conditions.jitter : 0.0); }
  // Whether the step is the plan's own.
  [[nodiscard]] bool plain() const;
  // How a step runs: the network, overlap, who issues the work, and what varies by chance. Nothing is slow or fails.
  [[nodiscard]] bool is_of_a_plan() const;
};

// Throws InputError for a slow device that the plan does not use.
void check_slow_devices(const StepRequest& request, const Plan& plan);

// The cluster with the request's slow links and load of experts: that of the cost model.
[[nodiscard]] Cluster cluster_of_step(const Cluster& cluster, const StepRequest& request);

}  // namespace meshwright
