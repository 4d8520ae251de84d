// SPDX-License-Identifier: Apache-2.0
// What read and advise begin with: launch files, the cluster that they run on, and the plan that they stand for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/documents/figures/forecast.h"
#include "cli/options/options.h"
#include "core/planner/make_plan.h"
#include "launch/read/launch_reading.h"

namespace CLI {
class App;
}

namespace meshwright {

struct LaunchOptions {
  std::vector<std::string> files;      // the first is launched
  std::string as, function;            // "": as the file shows
  std::vector<std::string> variables;  // "NAME=VALUE"
  std::string launch;                  // "": the only one
  std::string arguments;               // of the script, between blanks
  std::string cluster, nodes, devices_per_node;
  std::string model, vocab, batch, micro_batch, seq;  // what the file does not say
  std::string software, threads;
  bool json = false;
};
void add_launch_options(CLI::App& verb, LaunchOptions& options);

// A file, read for the devices of a cluster.
struct OpenedLaunch {
  LaunchText text;
  LaunchReading reading;
  Cluster cluster;
  std::vector<std::string> notes = {};  // where the cluster is another than the file's
  std::string software = {};            // whose costs hold; "": none
};
// Throws InputError where the file, or what the options say beside it, is not enough.
[[nodiscard]] OpenedLaunch open_launch(const LaunchOptions& options);

// A plan with what is predicted of it, whether it fits or not.
struct PredictedLaunch {
  Plan plan;
  std::shared_ptr<const Graph> graph;
  Program program;
  ProgramCheck check;
  PlanForecast forecast = {};
  Bytes needs{0.0}, usable{0.0};  // of the fullest device, as the software counts it where that is known
  [[nodiscard]] bool fits() const { return needs <= usable; }
};
// Throws InputError where no plan expresses what the file asks for. REQUIRES: reading.why_no_plan is empty.
[[nodiscard]] PredictedLaunch predict_launch(const OpenedLaunch& opened, const Costs& costs);

// The share of the devices' peak, in the type of the layers' products; nullopt: the cluster does not say that peak.
// The software's name as the setup has it, or as the caller named it with a setup of its own.
[[nodiscard]] std::string software_of(const std::string& software, const LaunchSetup& setup);
[[nodiscard]] std::optional<double> mfu_of(const Plan& plan, const std::string& matmul_dtype);

// "tp 2, pp 4 x 2 stages, dp 8, ZeRO 1, ..."
[[nodiscard]] std::string degrees_words(const LaunchSetup& setup);
[[nodiscard]] Json degrees_json(const LaunchSetup& setup);

}  // namespace meshwright
