// SPDX-License-Identifier: Apache-2.0
// What launch files are written from: the setup, what is predicted of it, and the plan itself for the frameworks that
// take its shardings; and the files.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.h"
#include "launch/setup/decoder.h"
#include "launch/setup/launch_setup.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

// What the simulator predicts of the plan, in the words of a training log.
struct LaunchFigures {
  Seconds step{0.0};
  std::optional<std::pair<Seconds, Seconds>> interval = {};  // holds the step nine times in ten
  double samples_per_s = 0.0;
  std::optional<double> tokens_per_s = {};
  double tflops_per_device = 0.0;  // of the model itself, without recomputation
  std::optional<double> mfu = {};  // of the device's peak in the job's type
  Bytes memory{0.0}, device_memory{0.0};
  std::optional<Seconds> given_step = {};  // of the plan to which this one is the nearest
  std::string memory_of = {};              // "megatron": as that software keeps it; "": as this program's executor does
};

// Who starts one process per device on every host.
enum class Launcher { Torchrun, Slurm, Mpi, Kubernetes };
// "torchrun", "slurm", "mpi", "k8s". Throws InputError with the nearest names.
[[nodiscard]] Launcher launcher_from_name(const std::string& name);
[[nodiscard]] const char* name_of(Launcher launcher);

struct LaunchJob {
  const LaunchTarget& target;
  const LaunchSetup& setup;
  const LaunchFigures& figures;
  const Plan& plan;
  const Graph& graph;
  Launcher launcher = Launcher::Torchrun;
  // Sentences for the README: what the plan decides otherwise than the job will.
  std::vector<std::string> differences = {};
};

struct LaunchFile {
  std::string name;  // within the folder
  std::string text;
  bool executable = false;
  std::string about = {};  // half a sentence for the README: "the schedule, one row per pipeline rank"
};

// The first comment of every file: framework and release, model, devices, degrees, the predicted step.
[[nodiscard]] std::vector<std::string> heading(const LaunchJob& job);
// "llama-3.1-8b", of letters, digits, dots and dashes alone, for names of jobs.
[[nodiscard]] std::string job_name(const LaunchSetup& setup);
// "tp 2, pp 4 x 2 stages, cp 1, ep 1, dp 8, ZeRO 1, sequences split over tp"
[[nodiscard]] std::string degrees_in_words(const LaunchSetup& setup);

}  // namespace meshwright
