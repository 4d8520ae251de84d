// SPDX-License-Identifier: Apache-2.0
// meshwright export: write a plan as the launch files of a training framework.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/report.h"
#include "cli/documents/search/planning.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/planner/given_plan.h"
#include "launch/read/launch_reading.h"
#include "launch/rules/launch_rules.h"
#include "launch/setup/plan_differences.h"
#include "launch/setup/setup_of_plan.h"
#include "launch/write/write_launch.h"

namespace meshwright {

namespace {

struct ExportOptions {
  std::string plan, to, folder, launcher = "torchrun", threads;
  ProfileSource profile;
  bool nearest = false, json = false;
};

// What is exported, and what it is called in the document.
struct Exported {
  Plan plan;
  LoadedPlan loaded;
  PlanForecast forecast;
  std::optional<Seconds> given = {};          // with --nearest: the step of the plan that was given
  std::vector<std::string> left_out = {};     // with --nearest: of that plan, what files cannot say
  std::vector<std::string> differences = {};  // from what the framework makes of the degrees
};

Costs costs_of_plan(const ExportOptions& options, const Plan& plan) {
  return costs_for(plan.cluster, options.profile, options.profile.empty() ? plan.software : std::string{});
}

Bytes peak_of(const Exported& exported) {
  Bytes peak(0.0);
  for (const MemoryUse& use : memory_use(exported.plan, exported.loaded.program, exported.loaded.check))
    peak = std::max(peak, use.peak);
  return peak;
}

LaunchFigures figures_of(const Exported& exported, const LaunchSetup& setup) {
  const Plan& plan = exported.plan;
  LaunchFigures figures;
  figures.step = plan.predicted.step_time;
  if (exported.forecast.step) figures.interval = {exported.forecast.step->low, exported.forecast.step->high};
  const Throughput rate = throughput(plan, figures.step);
  figures.samples_per_s = rate.samples_per_s;
  figures.tokens_per_s = rate.tokens_per_s;
  figures.tflops_per_device = rate.tflops_per_device;
  const DeviceKind& device = plan.cluster.group(0).device;
  const auto peak = device.peak.find(setup.matmul_dtype.empty() ? name_of(setup.dtype) : setup.matmul_dtype);
  if (plan.cluster.uniform() && peak != device.peak.end())
    figures.mfu = rate.tflops_per_device * 1e12 / peak->second.si();
  figures.given_step = exported.given;
  figures.memory = peak_of(exported);
  figures.device_memory = device.memory;
  if (const auto& memory = exported.forecast.memory) {
    figures.memory = memory->allocated;
    figures.device_memory = memory->device;
    figures.memory_of = exported.forecast.software;
  }
  return figures;
}

void expect_free_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  require(!fs::exists(folder, error) || (fs::is_directory(folder, error) && fs::is_empty(folder, error)),
          "-o {}: already exists and is not an empty folder; give a new or empty one.", folder);
}

void write_files(const std::string& folder, const std::vector<LaunchFile>& files) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: cannot be made a folder: {}", folder, error.message()));
  for (const LaunchFile& file : files) {
    const fs::path path = fs::path(folder) / file.name;
    fs::create_directories(path.parent_path(), error);
    write_file(path.string(), file.text);
    if (file.executable)
      fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, error);
  }
}

// Changes the plan to what the target's files can say, as far as no search is needed for it; a sentence for each
// change.
std::vector<std::string> leave_out_untold(Plan& plan, const LaunchTarget& target) {
  std::vector<std::string> sentences;
  SoftwareName software = software_name_from_text(plan.software);
  const SoftwareName before = software;
  software.setup = told_setup(target, software.setup);
  plan.software = to_text(software);
  if (software.setup != before.setup)
    sentences.push_back(fmt::format("the plan is priced for {}, and what the files for {} say for {}", to_text(before),
                                    target.release, plan.software));
  Optimizer& optimizer = plan.training.optimizer;
  if (optimizer.loss_scale != 0.0 && !tells_loss_scale(target)) {
    sentences.push_back(fmt::format("the scale of the loss, {:g}, which the files for {} leave to the framework",
                                    optimizer.loss_scale, target.release));
    optimizer.loss_scale = 0.0;
  }
  if (plan.training.loss != LossReduction::Mean && !target.own_shardings) {
    sentences.push_back(fmt::format("the loss as {} of the samples', of which the files for {} take the mean",
                                    name_of(plan.training.loss), target.release));
    plan.training.loss = LossReduction::Mean;
  }
  return sentences;
}

// The request whose answer the nearest plan is: what the plan was made for, of plans that the framework launches.
PlanRequest nearest_request(const Plan& plan, const Framework& framework, const ExportOptions& options,
                            const Costs& costs) {
  PlanRequest request;
  request.model = plan.model;
  request.training = plan.training;
  request.training.recompute = Recompute::None;
  request.training.recompute_ranges.clear();
  request.training.recompute_modules = RecomputeModules::None;
  request.cluster = plan.cluster;
  request.software = plan.software;
  request.conditions = plan.conditions;
  request.search.launch_for = &framework;
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  request.stage_profile.cost_fingerprint = costs.fingerprint;
  request.threads = threads_from_text(options.threads);
  return request;
}

Exported nearest_of(const Plan& plan, const LaunchTarget& target, const ExportOptions& options, const Costs& costs) {
  require(!target.framework.empty() && !find_framework(target.framework).own_meshes,
          "--nearest: {} takes a mesh and shardings for every stage, so that there is no nearer plan to search; leave "
          "the option out.",
          target.release);
  const Framework framework = framework_of(target);
  PlanningOutcome found = search_plan(nearest_request(plan, framework, options, costs), costs, "nearest plan: ");
  if (!found.planned) throw NoFeasiblePlan(fmt::format("no feasible plan for {}: {}", target.name, found.reason));
  Exported exported{std::move(found.planned->plan), {}, {}, plan.predicted.step_time};
  const auto graph = std::make_shared<const Graph>(std::move(found.planned->result.graph));
  exported.loaded = load_plan({exported.plan, graph}, *costs.model);
  return exported;
}

// Degrees that follow from stages may stand for another plan: what is free under them is as reading the files finds it.
std::vector<std::string> differences_of(const Exported& exported, const LaunchSetup& setup, const LaunchTarget& target,
                                        const Costs& costs) {
  if (target.own_shardings || !exported.plan.cluster.uniform() || !broken_launch_rules(setup).empty()) return {};
  try {
    LaunchSetup read = setup;
    join_stages(read);
    const PlanOfGraph launched = given_plan(request_of(read, exported.plan.cluster), *costs.model);
    return plan_differences(exported.plan, launched.plan, target.release);
  } catch (const InputError& error) {
    return {fmt::format("no plan here expresses the job, so that they cannot be compared: {}", error.what())};
  }
}

std::string text_of(const Exported& exported, const LaunchSetup& setup, const std::vector<LaunchFile>& files,
                    const ExportOptions& options) {
  const Plan& plan = exported.plan;
  std::string text = header_lines("export", plan);
  text += fmt::format("# for {}\n", find_launch_target(setup.target).release);
  text +=
      fmt::format("# step time {} ms{}\n", in_milliseconds(plan.predicted.step_time), interval_text(exported.forecast));
  if (exported.given)
    text += fmt::format("# nearest plan: {} ms instead of {} ms of the given plan, {:+.1f} %\n",
                        in_milliseconds(plan.predicted.step_time), in_milliseconds(*exported.given),
                        100.0 * (plan.predicted.step_time / *exported.given - 1.0));
  for (const std::string& sentence : exported.left_out) text += fmt::format("# left out: {}\n", sentence);
  for (const std::string& sentence : exported.differences) text += fmt::format("# the job differs: {}\n", sentence);
  text += fmt::format("# {}\n", to_text(throughput(plan, plan.predicted.step_time)));
  text += memory_line(memory_use(plan, exported.loaded.program, exported.loaded.check), plan.software);
  text += memory_line(exported.forecast);
  for (const LaunchFile& file : files)
    text += fmt::format("{}/{}{}\n", options.folder, file.name, file.about.empty() ? "" : "  # " + file.about);
  return text;
}

Json json_of(const Exported& exported, const LaunchSetup& setup, const std::vector<LaunchFile>& files,
             const ExportOptions& options) {
  Json json = header_json("export", exported.plan);
  json["to"] = setup.target;
  json["release"] = setup.release;
  json["step_time_s"] = exported.plan.predicted.step_time.si();
  add_forecast(json, exported.forecast);
  if (exported.given) {
    json["given_step_time_s"] = exported.given->si();
    json["nearest_cost"] = exported.plan.predicted.step_time / *exported.given - 1.0;
  }
  if (!exported.left_out.empty()) json["left_out"] = exported.left_out;
  if (!exported.differences.empty()) json["differences"] = exported.differences;
  add_throughput(json, throughput(exported.plan, exported.plan.predicted.step_time));
  add_memory(json, memory_use(exported.plan, exported.loaded.program, exported.loaded.check));
  Json& names = json["files"] = Json::array();
  for (const LaunchFile& file : files) names.push_back((std::filesystem::path(options.folder) / file.name).string());
  return json;
}

void export_plan(const ExportOptions& options) {
  const LaunchTarget& target =
      at_place("--to", [&]() -> const LaunchTarget& { return find_launch_target(options.to); });
  const Launcher launcher = at_place("--launcher", [&] { return launcher_from_name(options.launcher); });
  require(options.nearest || options.threads.empty(),
          "--threads: only the search of --nearest has threads; leave it out, or give --nearest.");
  expect_free_folder(options.folder);
  Plan plan = read_plan(options.plan);
  expect_model_told(target.name, plan.model);
  std::vector<std::string> left_out;
  if (options.nearest) left_out = leave_out_untold(plan, target);
  const Costs costs = costs_of_plan(options, plan);
  Exported exported = options.nearest ? nearest_of(plan, target, options, costs) : Exported{std::move(plan), {}, {}};
  if (!options.nearest) exported.loaded = load_plan_of(options.plan, exported.plan, *costs.model);
  const LaunchSetup setup = setup_of(exported.plan, *exported.loaded.graph, target);
  exported.forecast = forecast_of(exported.plan, *exported.loaded.graph, exported.loaded.program, nullptr, costs,
                                  exported.plan.predicted.step_time);
  exported.left_out = std::move(left_out);
  exported.differences = differences_of(exported, setup, target, costs);
  const LaunchFigures figures = figures_of(exported, setup);
  std::vector<LaunchFile> files =
      launch_files({target, setup, figures, exported.plan, *exported.loaded.graph, launcher, exported.differences});
  if (options.nearest)
    files.push_back(
        {"plan.json", json_text(to_json(exported.plan), 1) + "\n", false, "the nearest plan, which these files run"});
  write_files(options.folder, files);
  if (options.json) return print(json_of(exported, setup, files, options));
  print(text_of(exported, setup, files, options));
}

std::string target_names() {
  std::vector<std::string> names;
  for (const LaunchTarget& target : launch_targets()) names.push_back(target.name);
  return join(names, ", ");
}

}  // namespace

void add_export(CLI::App& app, Context& context) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* verb = app.add_subcommand("export", "Write a plan as the launch files of a training framework.");
  verb->add_option("plan", options->plan, "plan file")->required();
  verb->add_option("--to", options->to, "framework to write for: " + target_names())->required();
  verb->add_option("-o,--output", options->folder, "folder for the files, which must be new or empty")->required();
  verb->add_option("--launcher", options->launcher,
                   "who starts the processes: torchrun (on every host by hand), slurm (sbatch), mpi (mpirun) or k8s (a "
                   "TrainJob of Kubeflow) (default: torchrun)");
  verb->add_flag("--nearest", options->nearest,
                 "search for the fastest plan that the framework launches for the same model, batch and cluster, and "
                 "write that");
  verb->add_option("--threads", options->threads,
                   "with --nearest: number of threads of the search (default: all cores)");
  add_profile_options(*verb, options->profile, kProfileHelp);
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer("Example:\n  meshwright export plan.json --to megatron -o launch");
  verb->callback([&context, options] { context.action = [options] { export_plan(*options); }; });
}

}  // namespace meshwright
