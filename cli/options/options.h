// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share. They are kept as the user typed them and turned into values here, so that a wrong
// one is named with its flag, what it was and what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/at_place.h"
#include "cli/options/costs.h"
#include "cli/options/step_options.h"
#include "core/planner/make_plan.h"

namespace CLI {
class App;
}

namespace meshwright {

// The largest number of threads that --threads may name.
constexpr long kMaxThreads = 1024;

struct PlanningOptions {
  std::vector<std::string> dims;  // --dim, each "name=size"
  std::string model, cluster, nodes, devices_per_node, batch, seq, dtype, threads, software;
  SoftwareSetupOptions software_setup;
  ProfileSource profile;
  std::string micro_batches = "auto", layers = "default";
  std::string layer_cut, layer_starts;  // "": not given
  std::string logical_mesh, batch_axis, cross_mesh = "auto";
  std::vector<std::string> forced;  // "tensor=spec"
  bool keep_shardings = false;
  std::string method = "pipeshard";
  std::string launch_for;                                                // "": not given
  std::string schedule, recompute, recompute_layers, recompute_modules;  // "": not given
  std::string optimizer = "adam", learning_rate = "0.001", momentum, weight_decay = "0", max_norm = "0", loss = "mean";
  std::string loss_scale = "0", loss_scale_interval = "2000", offload = "none";
  std::string submesh_space = "power_of_two", logical_mesh_space = "single_node_model_parallel";
  std::string objective = "step-time", min_throughput, max_latency;
  std::string price, front_folder;
  bool front = false;
  std::string stage_profile, stage_profile_mode, write_stage_profile;  // "": not given
  std::string stage_costs = "composition";
  std::string seed = "1";
  ConditionOptions conditions;  // of the step that is searched
  bool json = false;
  bool log_steps = false;
};

// Adds the options above to a verb. A sweep takes lists for --layers, --micro-batches and --schedule and adds these
// itself; what it compares is the step time.
enum class GridOptions { Single, Lists };
void add_planning_options(CLI::App& verb, PlanningOptions& options, GridOptions grid);

// A positive whole number, or "auto" where that is allowed; throws InputError naming `flag`.
[[nodiscard]] long count_from_text(const std::string& text, const char* flag, long high);
// --threads; "" is all cores.
[[nodiscard]] int threads_from_text(const std::string& text);
[[nodiscard]] OrAuto<std::int64_t> count_or_auto(const std::string& text, const char* flag, long high);
// A finite number, low <= number < below; throws InputError: "FLAG: 'TEXT' is not EXPECTED.".
[[nodiscard]] double number_from_text(const std::string& text, const char* flag, double low, double below,
                                      const char* expected);
[[nodiscard]] std::uint64_t seed_from_text(const std::string& text);
[[nodiscard]] Optimizer::Kind optimizer_from_text(const std::string& text);

// The cluster of --cluster with --nodes and --devices-per-node; `otherwise` stands in where --cluster is not given.
[[nodiscard]] Cluster cluster_from_options(const PlanningOptions& options,
                                           std::optional<Cluster> otherwise = std::nullopt);
// Reads "name=size" texts of --dim.
[[nodiscard]] std::map<std::string, std::int64_t> dims_from_texts(const std::vector<std::string>& texts);
// The model of --model with --dim and --seq.
[[nodiscard]] ModelConfig model_from_options(const PlanningOptions& options);
[[nodiscard]] PlanRequest request_from_options(const PlanningOptions& options, const Cluster& cluster);

// What --schedule is where it is not given: 1f1b, or as the method's stages of each rank need it; with a framework's
// degrees all that it has.
[[nodiscard]] std::string usual_schedule(const SearchOptions& search);

// Puts in what other options imply: --for names the software whose costs and memory hold unless --software does, and
// --matmul-dtype and the like how it is set up.
void complete(PlanningOptions& options);

// Every file that planning with these options may read; "" stands for none.
[[nodiscard]] std::vector<std::string> files_read(const PlanningOptions& options);

// Throws InputError naming the file unless it holds a plan, and one that is sound for its model and cluster.
[[nodiscard]] Plan read_plan(const std::string& path);
[[nodiscard]] LoadedPlan load_plan_of(const std::string& path, const Plan& plan, const CostModel& costs);

}  // namespace meshwright
