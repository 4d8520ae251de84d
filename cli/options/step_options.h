// SPDX-License-Identifier: Apache-2.0
// The conditions under which `simulate` predicts a step: the options as typed, and the request they make.
#pragma once

#include <string>
#include <vector>

#include "simulator/what_if/step_request.h"

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

// Throws InputError naming the option for an invalid value, and for options that need another one.
[[nodiscard]] StepRequest step_request(const StepOptions& options);

// The conditions in words, one sentence each; none for a plain step.
[[nodiscard]] std::vector<std::string> to_sentences(const StepRequest& request);

}  // namespace meshwright
