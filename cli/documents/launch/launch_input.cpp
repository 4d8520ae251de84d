// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/launch/launch_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/documents/figures/report.h"
#include "cli/options/at_place.h"
#include "core/base/text.h"
#include "core/graph/import/find_model.h"
#include "core/planner/given_plan.h"
#include "costmodel/sheets/data_sheet.h"
#include "launch/read/launch_choice.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/what_if/evaluator.h"
#include "simulator/what_if/prediction.h"

namespace meshwright {

namespace {

namespace fs = std::filesystem;

// A regular file of a launch file's size; "" for any other.
std::optional<std::string> small_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > 4'000'000 || error) return std::nullopt;
  return read_file(path.string());
}

// The file of that path in a folder, or in one of those around it: programs are started from the root of their
// repository, and name files from there.
std::optional<std::string> file_from_root(const fs::path& folder, const fs::path& name) {
  std::error_code error;
  fs::path at = fs::absolute(folder, error).lexically_normal();
  constexpr int kMaxAbove = 8;
  for (int above = 0; !error && above <= kMaxAbove; ++above) {
    if (auto found = small_file(at / name)) return found;
    if (fs::exists(at / ".git", error) || at == at.parent_path()) break;
    at = at.parent_path();
  }
  return std::nullopt;
}

// The folders in which Python looks for what the file of a folder imports: that one, those around it up to the root of
// its repository, and the `src` of the root.
std::vector<fs::path> python_roots(const fs::path& folder) {
  std::vector<fs::path> roots;
  std::error_code error;
  fs::path at = fs::absolute(folder, error).lexically_normal();
  constexpr int kMaxAbove = 12;
  for (int above = 0; !error && above <= kMaxAbove; ++above) {
    roots.push_back(at);
    if (fs::exists(at / ".git", error) || fs::exists(at / "pyproject.toml", error)) {
      roots.push_back(at / "src");
      break;
    }
    if (at == at.parent_path()) break;
    at = at.parent_path();
  }
  return roots;
}

// A module's file, as "a/b.py" or "a/b/__init__.py" below `root`; a link that leads out of `tree` is none. Throws
// InputError for one that is larger than a launch file.
std::optional<GivenFile> python_file(const fs::path& root, const fs::path& name, const fs::path& tree) {
  std::error_code error;
  for (const fs::path& path : {fs::path(root / name).concat(".py"), root / name / "__init__.py"}) {
    if (!fs::is_regular_file(path, error) || error) continue;
    const fs::path real = fs::canonical(path, error), top = fs::canonical(tree, error);
    if (error || std::mismatch(top.begin(), top.end(), real.begin(), real.end()).first != top.end()) continue;
    require(fs::file_size(path, error) <= 4'000'000 && !error,
            "{}:1: is imported and larger than 4 MB; launch files are shorter.", path.string());
    return GivenFile{path.string(), read_file(path.string())};
  }
  return std::nullopt;
}

// Of names with dots the first has to be a package that the importing file lies in, or lie beside it or at the root of
// its repository: what other folders above have is not the file's.
std::optional<GivenFile> python_module(const std::string& importer, int dots, const std::string& module) {
  const fs::path folder = fs::path(importer).parent_path();
  const std::vector<fs::path> roots = python_roots(folder);
  if (roots.empty()) return std::nullopt;
  const std::vector<std::string> names = split(module, '.');
  fs::path path;
  for (const std::string& name : names) {
    const bool plain =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c >= 0x80; });
    if (!plain || (name.empty() && (dots == 0 || names.size() > 1))) return std::nullopt;
    path /= name;
  }
  const fs::path& here = roots.front();
  if (dots > 0) {
    if (static_cast<std::size_t>(dots) > roots.size()) return std::nullopt;
    const fs::path& from = roots[static_cast<std::size_t>(dots) - 1];
    return path.empty() ? python_file(from, "", from) : python_file(from, path, from);
  }
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const fs::path package = roots[i] / names.front();
    const bool around = std::mismatch(package.begin(), package.end(), here.begin(), here.end()).first == package.end();
    const bool is_root = i == 0 || roots[i].filename() == "src" || i + 2 == roots.size();
    if (!around && !is_root) continue;
    if (auto found = python_file(roots[i], path, roots[i])) return found;
  }
  return std::nullopt;
}

// Files that a launch file names lie beside it, or where it says from there or from the root of its repository.
LaunchInput input_of(const LaunchOptions& options) {
  LaunchInput input;
  for (const std::string& path : options.files) {
    std::error_code error;
    if (fs::exists(path, error))
      require(fs::is_regular_file(path, error) && fs::file_size(path, error) <= 4'000'000,
              "{}: is no launch file: a folder, or larger than 4 MB.", path);
    input.files.push_back({path, read_file(path)});
  }
  input.as = options.as;
  input.function = options.function;
  for (const std::string& given : options.variables) {
    const std::size_t equal = given.find('=');
    require(equal != std::string::npos && equal > 0, "--set: '{}' is not NAME=VALUE.", given);
    input.variables[given.substr(0, equal)] = given.substr(equal + 1);
  }
  for (const std::string& word : split(options.arguments, ' '))
    if (!word.empty()) input.arguments.push_back(word);
  const fs::path folder = fs::path(options.files.front()).parent_path();
  input.beside = [folder](const std::string& name) -> std::optional<std::string> {
    if (name.empty() || name.front() == '/') return std::nullopt;
    const fs::path path = fs::path(name).lexically_normal();
    if (path.has_parent_path())
      if (auto found = file_from_root(folder, path)) return found;
    return small_file(folder / path.filename());
  };
  input.module = python_module;
  return input;
}

LaunchAnswers answers_of(const LaunchOptions& options) {
  LaunchAnswers answers;
  if (!options.model.empty()) answers.model = at_place("--model", [&] { return find_model(options.model); });
  const auto count = [](const std::string& text, const char* flag, std::optional<std::int64_t>& into) {
    if (!text.empty()) into = count_from_text(text, flag, 1L << 40);
  };
  count(options.vocab, "--vocab", answers.vocab);
  count(options.batch, "--batch", answers.batch);
  count(options.micro_batch, "--micro-batch", answers.micro_batch);
  count(options.seq, "--seq", answers.seq);
  return answers;
}

// The devices of a preset's host where that is no server but an NVLink domain of several; nullopt: it is a server, or
// there is no such preset.
std::optional<int> domain_of(const std::string& preset) {
  constexpr int kServer = 8;  // no server has more
  for (const ClusterPreset& known : cluster_presets())
    if (known.pattern == preset + ":N") {
      const int devices = find_cluster(preset + ":1").only().devices_per_host;
      return devices > kServer ? std::optional(devices) : std::nullopt;
    }
  return std::nullopt;
}

// The file's devices as hosts of the cluster, whose host is an NVLink domain of several servers: as few domains as hold
// them, each with as many.
LaunchDevices in_domains(const LaunchDevices& servers, int domain) {
  const std::int64_t devices = std::int64_t{servers.hosts} * servers.devices_per_host;
  std::int64_t each = std::min<std::int64_t>(devices, domain);
  while (devices % each != 0) --each;
  return {static_cast<int>(std::min<std::int64_t>(devices / each, kMaxHosts)), static_cast<int>(each)};
}

// A cluster of the option; a preset without a number has as many hosts as the file.
Cluster cluster_of(const LaunchOptions& options, const std::optional<LaunchDevices>& devices, const LaunchText& text) {
  const std::string hint = text.device.empty() ? "" : fmt::format(" (it asks for {})", text.device);
  const std::string open = text.open_hosts.empty() ? "" : fmt::format(" ({})", text.open_hosts);
  require(!options.cluster.empty(),
          "--cluster is missing: {} does not say what its {}devices are{}; give a preset such as dgx-h100, whose hosts "
          "are then those of the file, or dgx-h100:16.",
          options.files.front(), devices ? fmt::format("{} x {} ", devices->hosts, devices->devices_per_host) : "",
          hint);
  std::string name = options.cluster;
  std::error_code error;
  const bool counted = name.find(':') != std::string::npos || fs::exists(name, error);
  std::optional<LaunchDevices> wanted = devices;
  PlanningOptions planning;
  planning.nodes = options.nodes;
  planning.devices_per_node = options.devices_per_node;
  if (!counted) {
    if (const auto domain = domain_of(name); wanted && domain) wanted = in_domains(*wanted, *domain);
    int hosts = wanted ? wanted->hosts : 0;
    if (!options.nodes.empty()) hosts = static_cast<int>(count_from_text(options.nodes, "--nodes", kMaxHosts));
    require(hosts > 0,
            "--cluster {}: {} does not say how many hosts it runs on{}; give them, as in --cluster {}:4, or --nodes.",
            name, options.files.front(), open, name);
    name += fmt::format(":{}", hosts);
  }
  planning.cluster = name;
  Cluster cluster = cluster_from_options(planning);
  // Fewer devices of each host are part of the file.
  if (!counted && wanted && options.devices_per_node.empty() && cluster.uniform() &&
      wanted->devices_per_host < cluster.only().devices_per_host)
    cluster = take_part(std::move(cluster), 0, wanted->devices_per_host);
  return cluster;
}

}  // namespace

void add_launch_options(CLI::App& verb, LaunchOptions& options) {
  verb.add_option(
          "files", options.files,
          "launch file: a shell or sbatch script, a YAML, JSON or TOML file or a Python configuration, then the "
          "files that it refers to, where they do not lie beside it")
      ->required();
  const auto add = [&](const char* flag, std::string& value, const std::string& help) {
    verb.add_option(flag, value, help);
  };
  add("--as", options.as,
      "framework of the file: megatron, megatron-bridge, torchtitan, deepspeed, fsdp2, accelerate, maxtext, jax, "
      "alpa, nnscaler or flagscale "
      "(default: as the file shows)");
  add("--function", options.function, "function of a Python configuration (default: the last one)");
  verb.add_option("--set", options.variables,
                  "NAME=VALUE: a variable that the script takes from its environment or from a command; repeatable")
      ->take_all();
  add("--launch", options.launch, "which of the trainings that a script launches, from 1 (default: the only one)");
  add("--args", options.arguments, "arguments of the script, $1 and on, separated by blanks");
  add("--cluster", options.cluster,
      "preset such as dgx-h100, with the hosts of the file, or dgx-h100:16; or a cluster file");
  add("--nodes", options.nodes, "use this many hosts (default: those of the file, or of the cluster)");
  add("--devices-per-node", options.devices_per_node, "use only this many devices of each host (default: all)");
  add("--model", options.model, "model in the place of the file's: built in, a family with sizes, or a config.json");
  add("--vocab", options.vocab, "words of the vocabulary (default: the file's, or 50257)");
  add("--batch", options.batch, "samples per step (default: the file's)");
  add("--micro-batch", options.micro_batch, "samples of a micro-batch of one replica (default: the file's)");
  add("--seq", options.seq, "sequence length in tokens (default: the file's)");
  add_software_option(verb, options.software, "that of the framework");
  add("--threads", options.threads, "threads of a search (default: all cores); the result does not depend on it");
  verb.add_flag("--json", options.json, "print the result as JSON");
}

std::string software_of(const std::string& software, const LaunchSetup& setup) {
  if (software.empty()) return "";
  SoftwareName name = software_name_from_text(software);
  if (name.setup != SoftwareSetup()) return software;
  name.setup = setup.software_setup;
  name.setup.eight_bit_products = setup.matmul_dtype == "fp8";
  if (name.setup.fused_attention == find_software_profile(software).fused_attention) name.setup.fused_attention.reset();
  return to_text(name);
}

namespace {

OpenedLaunch open_one(const LaunchInput& input, const LaunchOptions& options) {
  OpenedLaunch opened;
  opened.text = read_launch_text(input);
  const std::optional<LaunchDevices> own = devices_of(opened.text);
  opened.cluster = cluster_of(options, own, opened.text);
  require(opened.cluster.uniform(),
          "--cluster: {} has several kinds of hosts, and launch files are read for one; give one kind.",
          opened.cluster.name);
  const HostGroup& hosts = opened.cluster.only();
  const LaunchDevices devices{hosts.hosts, hosts.devices_per_host};
  if (own && own->devices() != devices.devices())
    opened.notes.push_back(fmt::format("the file launches {} devices ({} x {}); it is read for {}", own->devices(),
                                       own->hosts, own->devices_per_host, devices.devices()));
  opened.reading = read_launch(opened.text, devices, answers_of(options));
  LaunchSetup& setup = opened.reading.setup;
  setup.device = hosts.device.name;
  // A name that is none is the caller's mistake, not the file's.
  if (!options.software.empty() && options.software != kNoSoftware)
    (void)costs_for(opened.cluster, {}, options.software);
  opened.software = options.software.empty()          ? opened.reading.software
                    : options.software == kNoSoftware ? ""
                                                      : options.software;
  opened.software = software_of(opened.software, setup);
  return opened;
}

}  // namespace

OpenedLaunch open_launch(const LaunchOptions& options) {
  LaunchInput input = input_of(options);
  if (!options.launch.empty()) input.launch = count_from_text(options.launch, "--launch", 1L << 20);
  const LaunchChoice choice =
      choose_launch(input, [&](const LaunchInput& one) { return open_one(one, options).reading; });
  input.launch = choice.launch;
  OpenedLaunch opened = open_one(input, options);
  opened.notes.insert(opened.notes.end(), choice.notes.begin(), choice.notes.end());
  return opened;
}

PredictedLaunch predict_launch(const OpenedLaunch& opened, const Costs& costs) {
  std::optional<PlanOfGraph> decided = decided_plan(opened.reading.setup, opened.cluster);
  PlanOfGraph made =
      decided ? *std::move(decided) : given_plan(request_of(opened.reading.setup, opened.cluster), *costs.model);
  made.plan.software = opened.software;
  PredictedLaunch predicted;
  std::optional<FoldedDevices> folded;
  if (is_to_fold(made.plan, {})) {
    FoldedPlan small = load_folded_plan(made, *costs.model);
    predicted.program = std::move(small.loaded.program);
    predicted.check = std::move(small.loaded.check);
    folded = std::move(small.folded);
  } else {
    LoadedPlan loaded = load_plan(made, *costs.model);
    predicted.program = std::move(loaded.program);
    predicted.check = std::move(loaded.check);
  }
  const FoldedDevices* alike = folded ? &*folded : nullptr;
  made.plan.predicted.step_time = plain_step_time(predicted.program, *costs.model, alike);
  predicted.graph = made.graph;
  predicted.forecast =
      forecast_of(made.plan, *made.graph, predicted.program, alike, costs, made.plan.predicted.step_time);
  predicted.plan = std::move(made.plan);
  Plan& plan = predicted.plan;
  plan.predicted.peak_memory = predicted.check.largest_peak();
  plan.predicted.lower_bound = Seconds(0.0);
  const SimulatedEvaluator evaluator(*costs.model, costs.software ? &*costs.software : nullptr);
  if (const auto memory = evaluator.software_memory(plan, *predicted.graph)) {
    predicted.needs = memory->needs;
    predicted.usable = memory->usable;
  } else {
    predicted.needs = predicted.check.largest_peak();
    predicted.usable = plan.cluster.usable_memory();
  }
  return predicted;
}

std::optional<double> mfu_of(const Plan& plan, const std::string& matmul_dtype) {
  const DeviceKind& device = plan.cluster.group(0).device;
  const char* type = matmul_dtype == "fp8" ? "f8" : name_of(plan.training.dtype);
  double rate = 0.0;
  if (const auto peak = device.peak.find(type); peak != device.peak.end()) rate = peak->second.si();
  if (rate == 0.0)
    if (const DataSheet* sheet = find_data_sheet(device.name); sheet != nullptr)
      if (const auto peak = sheet->peak.find(type); peak != sheet->peak.end()) rate = peak->second.si();
  if (rate == 0.0 || plan.predicted.step_time <= Seconds(0.0)) return std::nullopt;
  return throughput(plan, plan.predicted.step_time).tflops_per_device * 1e12 / rate;
}

std::string degrees_words(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  if (!setup.stages.empty()) {
    std::vector<std::string> stages;
    for (const StageSetup& stage : setup.stages)
      stages.push_back(fmt::format("tp {} dp {} ep {} with {} blocks, recompute {}", stage.tp, stage.dp, stage.ep,
                                   stage.blocks, name_of(stage.recompute)));
    return "stages of their own: " + join(stages, ", ");
  }
  std::string text = fmt::format("tp {}, pp {}", d.tp, d.pp);
  if (d.chunks > 1) text += fmt::format(" x {} stages each", d.chunks);
  text += fmt::format(", cp {}", d.cp);
  if (d.cp > 1) text += fmt::format(" ({})", name_of(d.context));
  text += fmt::format(", ep {}{}{}, dp {}, ZeRO {}", d.ep, d.whole_experts ? " of whole experts" : "",
                      d.folded_experts ? " over cp" : "", d.dp, d.zero);
  if (setup.shard) text += fmt::format(" in groups of {}", *setup.shard);
  if (d.sequence_parallel) text += ", sequences split over tp";
  if (d.pp > 1) text += fmt::format(", schedule {}", name_of(d.schedule));
  return text;
}

Json degrees_json(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  Json json = {{"dp", d.dp},
               {"tp", d.tp},
               {"pp", d.pp},
               {"vpp", d.chunks},
               {"cp", d.cp},
               {"ep", d.ep},
               {"whole_experts", d.whole_experts},
               {"folded_experts", d.folded_experts},
               {"sequence_parallel", d.sequence_parallel},
               {"zero", d.zero},
               {"schedule", name_of(d.schedule)},
               {"recompute", name_of(d.recompute)},
               {"micro_batch", d.micro_batch},
               {"micro_batches", d.micro_batches}};
  if (setup.shard) json["shard"] = *setup.shard;
  if (!setup.stage_blocks.empty()) json["stage_blocks"] = setup.stage_blocks;
  if (!setup.recompute_layers.empty()) json["recompute_layers"] = to_text(setup.recompute_layers);
  if (setup.degrees.recompute_modules != RecomputeModules::None)
    json["recompute_modules"] = name_of(setup.degrees.recompute_modules);
  Json stages = Json::array();
  for (const StageSetup& stage : setup.stages)
    stages.push_back(
        {{"blocks", stage.blocks}, {"dp", stage.dp}, {"tp", stage.tp}, {"cp", stage.cp}, {"ep", stage.ep}});
  if (!stages.empty()) json["stages"] = std::move(stages);
  return json;
}

}  // namespace meshwright
