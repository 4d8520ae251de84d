// SPDX-License-Identifier: Apache-2.0
// The conditions under which a step is predicted: the options as typed, and the request they make. How a step runs is
// for `simulate` and for the verbs that search plans; what is slow or fails for `simulate` alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulator/what_if/step_request.h"

namespace CLI {
class App;
}

namespace meshwright {

// "": not given.
struct ConditionOptions {
  std::string network, controller;
  bool overlap = false, broadcast = false;
  std::string bucket, prefetch, slowdown;
  std::string dispatch, call, launch, fetch, fetch_every;
  std::string expert_imbalance;
  std::string jitter;  // of the steps whose mean plans are judged by

  [[nodiscard]] bool given() const;
};
void add_condition_options(CLI::App& verb, ConditionOptions& options);

// Throws InputError naming the option for an invalid value, and for options that need another one.
[[nodiscard]] StepRequest conditions_of(const ConditionOptions& options);

// Throws InputError where an uneven load is not of the model's experts.
void expect_experts(const ExpertLoad& load, const ModelConfig& model);

// For Plan::conditions; empty for a plain step. REQUIRES: conditions_of accepts them.
[[nodiscard]] std::map<std::string, std::string> to_plan(const ConditionOptions& options);
// Those of a plan, from Plan::conditions. Throws InputError for an option that is none.
[[nodiscard]] ConditionOptions conditions_from_plan(const std::map<std::string, std::string>& conditions);

struct StepOptions {
  ConditionOptions conditions;
  std::vector<std::string> slow_devices, slow_links;  // "3=0.5", "between-hosts=0.5"
  // "": not given
  std::string jitter, samples, seed;
  std::string failures, checkpoint, restart, checkpoint_every;
  std::string replicas;
};
void add_step_options(CLI::App& verb, StepOptions& options);

// As conditions_of.
[[nodiscard]] StepRequest step_request(const StepOptions& options);

// The conditions in words, one sentence each; none for a plain step.
[[nodiscard]] std::vector<std::string> to_sentences(const StepRequest& request);
// The sentences on a plan's conditions, a line each.
[[nodiscard]] std::string condition_lines(const std::map<std::string, std::string>& conditions);

}  // namespace meshwright
