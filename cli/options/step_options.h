// SPDX-License-Identifier: Apache-2.0
// The conditions under which `simulate` predicts a step: the options as typed, and as values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/mesh/cluster.h"
#include "simulator/engine/task_graph.h"
#include "simulator/program/dispatch.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/program_flows.h"
#include "simulator/report/goodput.h"

namespace CLI {
class App;
}

namespace meshwright {

struct StepOptions {
  std::string network = "static", controller = "none";
  bool overlap = false, broadcast = false;
  std::vector<std::string> slow_devices, slow_links;  // "3=0.5", "between-hosts=0.5"
  // "": not given
  std::string bucket, prefetch, slowdown;
  std::string dispatch, call, launch, fetch, fetch_every;
  std::string jitter, samples, seed;
  std::string failures, checkpoint, restart, checkpoint_every;
  std::string replicas;
};
void add_step_options(CLI::App& verb, StepOptions& options);

// How messages share the network: fixed costs that assume all of a host's devices send at once (Static), or links
// shared by the messages that are on them (Fluid: max-min fairly, Fifo: one after the other).
enum class NetworkModel { Static, Fluid, Fifo };

struct StepRequest {
  NetworkModel network = NetworkModel::Static;
  Broadcast broadcast = Broadcast::None;  // not where the network is Static
  std::optional<CutOptions> overlap;
  std::optional<Controller> controller;
  Conditions conditions;  // without compute_scale
  struct SlowDevice {
    int device;  // of the cluster
    double speed;
  };
  std::vector<SlowDevice> slow_devices;
  struct SlowLinks {
    std::string kind;
    double speed;
  };
  std::vector<SlowLinks> slow_links;
  int samples = 0;                       // simulations with jitter; 0: none
  std::optional<FailureModel> failures;  // its devices and step are filled in later
  int replicas = 1;                      // of the whole plan, each on devices of its own

  // Whether the step is simulated under no conditions but the plan's own.
  [[nodiscard]] bool plain() const;
};
// Throws InputError naming the option for an invalid value, and for options that need another one.
[[nodiscard]] StepRequest step_request(const StepOptions& options);

// The conditions in words, one sentence each; none for a plain step.
[[nodiscard]] std::vector<std::string> to_sentences(const StepRequest& request);

}  // namespace meshwright
