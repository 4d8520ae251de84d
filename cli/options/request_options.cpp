// SPDX-License-Identifier: Apache-2.0
// What is planned, of the options that say it.
#include <cmath>
#include <limits>
#include <tuple>

#include "cli/options/keep_shardings.h"
#include "cli/options/options.h"
#include "core/base/text.h"
#include "core/planner/degrees/degrees_bounds.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

namespace {

constexpr long kMaxBatch = 1L << 40;
constexpr long kMaxMicrobatches = 1L << 16;

double learning_rate_from_text(const std::string& text) {
  return number_from_text(text, "--learning-rate", std::numeric_limits<double>::min(),
                          std::numeric_limits<double>::infinity(), "a positive number; give one such as 0.001");
}

std::vector<int> logical_mesh_from_text(const std::string& text, const PlanRequest& request) {
  const Method& method = request.search.method;
  require(method.one_stage(),
          "--logical-mesh: method '{}' chooses the meshes of its stages itself; leave the option out.", method.text);
  std::vector<int> shape;
  std::int64_t devices = 1;
  for (const std::string& part : split(text, 'x')) {
    shape.push_back(static_cast<int>(parse_integer(part, "--logical-mesh", 1, 1 << 20)));
    devices = std::min<std::int64_t>(devices * shape.back(), std::int64_t{1} << 40);
  }
  require(shape.size() <= 8, "--logical-mesh: {} has {} axes; give at most 8.", text, shape.size());
  require(devices == request.cluster.devices(), "--logical-mesh: {} has {} devices, but {} has {}.", text, devices,
          request.cluster.name, request.cluster.devices());
  const auto expected =
      at_place("--method", [&] { return logical_shape_of(method, request.cluster.devices(), request.cluster.name); });
  require(!expected || *expected == shape, "--logical-mesh: method '{}' fixes the mesh as {}; leave the option out.",
          method.text, expected ? fmt::format("{}", fmt::join(*expected, "x")) : "");
  return shape;
}

LayerOptions layer_cut_of(const PlanningOptions& options, const LayerCount& layers) {
  require(options.layer_cut.empty() || options.layer_starts.empty(),
          "--layer-starts: both this and --layer-cut say where layers are cut; leave one of them out.");
  if (options.layer_cut.empty() && options.layer_starts.empty()) return {};
  const char* flag = options.layer_cut.empty() ? "--layer-starts" : "--layer-cut";
  LayerOptions found = at_place(flag, [&] {
    return options.layer_cut.empty() ? layer_starts_from_text(options.layer_starts)
                                     : layer_cut_from_text(options.layer_cut);
  });
  const auto* given = std::get_if<int>(&layers);
  require(given == nullptr || !found.fixes_count(),
          "{}: both this and --layers {} fix the number of layers; leave --layers out.", flag,
          given != nullptr ? *given : 0);
  return found;
}

Goal goal_of(const PlanningOptions& options, bool trains) {
  static const std::vector<std::pair<std::string, Goal::Objective>> kNames = {
      {"step-time", Goal::Objective::StepTime},
      {"latency", Goal::Objective::Latency},
      {"throughput", Goal::Objective::Throughput}};
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [&](const auto& name) { return name.first == options.objective; });
  require(found != kNames.end(), "--objective: unknown objective '{}'; expected step-time, latency or throughput.",
          options.objective);
  Goal goal{.objective = found->second};
  require(goal.objective == Goal::Objective::StepTime || !trains,
          "--objective: {} is for serving a trained model; add --schedule inference, or leave the option out.",
          options.objective);
  require(options.min_throughput.empty() || goal.objective == Goal::Objective::Latency,
          "--min-throughput: only applies to --objective latency, but the objective is {}; leave one of them out.",
          options.objective);
  require(options.max_latency.empty() || goal.objective == Goal::Objective::Throughput,
          "--max-latency: only applies to --objective throughput, but the objective is {}; leave one of them out.",
          options.objective);
  constexpr double kMin = std::numeric_limits<double>::min(), kAny = std::numeric_limits<double>::infinity();
  if (!options.min_throughput.empty())
    goal.min_throughput = number_from_text(options.min_throughput, "--min-throughput", kMin, kAny,
                                           "a positive number; give samples per second, as in 200");
  if (!options.max_latency.empty())
    goal.max_latency = Seconds(number_from_text(options.max_latency, "--max-latency", kMin, kAny,
                                                "a positive number; give seconds, as in 0.05"));
  goal.front = options.front || !options.front_folder.empty();
  return goal;
}

// The name of a schedule, with the number of stages per rank where that is free: "interleaved:2". "": usual_schedule.
void read_schedule(SearchOptions& search, const std::string& given) {
  const std::string text = given.empty() ? usual_schedule(search) : given;
  const int vpp = search.method.chunks;
  if (text == "auto") {
    require(vpp == 1, "'auto' searches the schedules, but method '{}' has vpp={}; leave one of them out.",
            search.method.text, vpp);
    search.schedule = Auto{};
    return;
  }
  const std::size_t colon = text.find(':');
  const ScheduleKind schedule = schedule_from_name(text.substr(0, colon));
  search.schedule = schedule;
  const auto fixed = traits_of(schedule).chunks;
  require(vpp == 1 || !fixed || *fixed == vpp,
          "{} has {} stages on each rank, but method '{}' has vpp={}; leave one out.", name_of(schedule),
          fixed.value_or(0), search.method.text, vpp);
  if (vpp > 1 && !fixed) search.chunks = vpp;
  if (colon == std::string::npos) return;
  require(!fixed,
          "'{}' gives a number of stages per device, but {} takes none; leave the number out, or give interleaved:2.",
          text, name_of(schedule));
  search.chunks = static_cast<int>(parse_integer(text.substr(colon + 1), "V of interleaved:V", 2, 1024));
  require(vpp == 1 || std::get<int>(search.chunks) == vpp, "'{}' contradicts vpp={} of method '{}'.", text, vpp,
          search.method.text);
}

void read_layers(SearchOptions& search, const PlanningOptions& options) {
  const bool any = options.layers == "auto";
  if (any)
    search.layers = Auto{};
  else if (options.layers != "default")
    search.layers = static_cast<int>(count_from_text(options.layers, "--layers", 1 << 20));
  search.layer_cut = layer_cut_of(options, search.layers);
  require(!any || search.method.kind == Method::Kind::Pipeshard,
          "--layers: auto searches for the best number of layers, but method '{}' fixes the stages; give a number, or "
          "leave --layers out.",
          search.method.text);
  require(!any || !search.layer_cut.fixes_count(),
          "--layers: auto searches for the number of layers, but {} fixes it; leave one of them out.",
          options.layer_cut.empty() ? "--layer-starts" : "--layer-cut " + options.layer_cut);
}

void read_recompute(SearchOptions& search, const PlanningOptions& options) {
  if (options.recompute == "auto" || (options.recompute.empty() && search.launch_for != nullptr))
    search.recompute = Auto{};
  else if (!options.recompute.empty())
    search.recompute = at_place("--recompute", [&] { return recompute_from_name(options.recompute); });
  if (!options.recompute_modules.empty())
    search.recompute_modules =
        at_place("--recompute-modules", [&] { return recompute_modules_from_name(options.recompute_modules); });
  require(search.recompute_modules == RecomputeModules::None ||
              (options.recompute_layers.empty() && (options.recompute.empty() || options.recompute == "none")),
          "--recompute-modules: parts of blocks are recomputed where blocks are not; leave out --recompute and "
          "--recompute-layers.");
  if (options.recompute_layers.empty()) return;
  require(!is_auto(search.recompute),
          "--recompute-layers: --recompute auto already chooses what each layer recomputes; leave one of them out.");
  search.recompute_layers =
      at_place("--recompute-layers", [&] { return layer_recompute_from_text(options.recompute_layers); });
}

void read_submeshes(SearchOptions& search, const std::string& text, const Cluster& cluster) {
  constexpr std::string_view kManual = "manual:";
  at_place("--submesh-space", [&] {
    if (text.starts_with(kManual))
      search.submeshes = submeshes_from_text(text.substr(kManual.size()), cluster);
    else
      search.submeshes = submesh_space_from_name(text);
  });
}

std::string types_of(const DeviceKind& device) {
  std::vector<std::string> names;
  for (const auto& [name, rate] : device.peak) names.push_back(name);
  return join(names, ", ");
}

OrAuto<CrossMesh> cross_mesh_from_text(const std::string& text) {
  for (const CrossMesh form : kCrossMeshForms)
    if (text == name_of(form)) return form;
  require(text == "auto", "--cross-mesh: unknown form '{}'; expected send, gather, broadcast or auto.", text);
  return Auto{};
}

// An option that changes nothing is refused: whoever gives it expects that it does.
void expect_options_that_count(const PlanningOptions& options, const PlanRequest& request) {
  const PlanningOptions usual;
  require(options.loss_scale_interval == usual.loss_scale_interval || request.training.optimizer.loss_scale > 0.0,
          "--loss-scale-interval: has no effect without loss scaling; add --loss-scale, or leave the option out.");
  if (request.trains()) return;
  for (const auto& [name, given, default_value] :
       {std::tuple{"--recompute", options.recompute, usual.recompute},
        std::tuple{"--recompute-layers", options.recompute_layers, usual.recompute_layers},
        std::tuple{"--recompute-modules", options.recompute_modules, usual.recompute_modules},
        std::tuple{"--max-norm", options.max_norm, usual.max_norm},
        std::tuple{"--offload", options.offload, usual.offload},
        std::tuple{"--loss-scale", options.loss_scale, usual.loss_scale}})
    require(given == default_value,
            "{}: only applies to training, but --schedule inference serves a trained model; leave one of them out.",
            name);
}

Optimizer optimizer_of(const PlanningOptions& options) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  Optimizer optimizer;
  optimizer.kind = optimizer_from_text(options.optimizer);
  optimizer.learning_rate = learning_rate_from_text(options.learning_rate);
  require(options.momentum.empty() || optimizer.kind == Optimizer::Kind::Momentum,
          "--momentum: optimizer {} has no momentum factor; leave the option out, or give --optimizer momentum.",
          options.optimizer);
  if (!options.momentum.empty())
    optimizer.momentum = number_from_text(options.momentum, "--momentum", 0.0, 1.0, "a number from 0 to below 1");
  optimizer.weight_decay =
      number_from_text(options.weight_decay, "--weight-decay", 0.0, kAny, "a number from 0 upwards");
  optimizer.max_norm =
      number_from_text(options.max_norm, "--max-norm", 0.0, kAny, "a number from 0 upwards; 0 does not clip");
  optimizer.loss_scale =
      number_from_text(options.loss_scale, "--loss-scale", 0.0, kAny, "a number from 0 upwards; 0 does not scale");
  optimizer.loss_scale_interval = count_from_text(options.loss_scale_interval, "--loss-scale-interval", 1'000'000'000);
  return optimizer;
}

void read_training(PlanRequest& request, const PlanningOptions& options) {
  TrainingOptions& training = request.training;
  training.batch =
      options.batch.empty() ? request.model.default_batch : count_from_text(options.batch, "--batch", kMaxBatch);
  request.search.microbatches = count_or_auto(options.micro_batches, "--micro-batches", kMaxMicrobatches);
  if (const auto* given = std::get_if<std::int64_t>(&request.search.microbatches))
    require(training.batch % *given == 0,
            "--micro-batches: a batch of {} cannot be divided into {} micro-batches; give a number that divides it, or "
            "auto.",
            training.batch, *given);
  training.dtype = options.dtype.empty() ? request.model.default_dtype
                                         : at_place("--dtype", [&] { return dtype_from_name(options.dtype); });
  for (const HostGroup& group : request.cluster.groups)
    require(group.device.peak.contains(name_of(training.dtype)),
            "cluster {} has no FLOP rate for {}, the type of the weights{}; expected --dtype with one of {}.",
            request.cluster.name, name_of(training.dtype),
            request.cluster.uniform() ? "" : fmt::format(", on {}", group.device.name), types_of(group.device));
  expect_setup_of(options.software, training.dtype);
  training.optimizer = optimizer_of(options);
  request.search.any_offload = options.offload == "auto";
  if (!request.search.any_offload)
    training.offload = at_place("--offload", [&] { return offload_from_name(options.offload); });
  for (const HostGroup& group : request.cluster.groups)
    require((training.offload == Offload::None && !request.search.any_offload) ||
                (group.device.host_memory.si() > 0 && group.device.host_bandwidth.si() > 0),
            "--offload: cluster {} does not say what memory of its host a {} has, and how fast it gets there; give a "
            "cluster file with host_memory_bytes and host_bandwidth_bytes_per_s.",
            request.cluster.name, group.device.name);
  require(options.launch_for.empty() ||
              (!has(training.offload, Offload::Activations) && !has(training.offload, Offload::Weights)),
          "--offload {}: launch files of frameworks keep optimizer state alone on the hosts; give --offload optimizer, "
          "or leave --for out.",
          options.offload);
  training.loss = at_place("--loss", [&] { return loss_reduction_from_name(options.loss); });
}

// Whatever method is given has to be one that the framework launches.
void expect_launchable(const Framework& framework, const PlanRequest& request) {
  const Method& method = request.search.method;
  require(
      method.kind == Method::Kind::Megatron && method.exact,
      "--for: {} takes one set of degrees for the whole job, which method '{}' does not give; leave --method out, or "
      "give one such as megatron:tp=8,pp=4,exact=1.",
      framework.name, method.text);
  Degrees degrees = degrees_of(method, request.cluster.devices());
  degrees.schedule = request.first_schedule();
  if (!request.any_recompute()) degrees.recompute = std::get<Recompute>(request.search.recompute);
  if (const auto* given = std::get_if<std::int64_t>(&request.search.microbatches)) degrees.micro_batches = *given;
  const std::vector<std::string> broken = broken_rules(framework, shape_of(request.model), degrees);
  require(broken.empty(), "--for: {} does not launch method '{}': {}.", framework.name, method.text,
          join(broken, "; "));
}

const Framework* framework_of(const PlanningOptions& options) {
  const bool any_degrees = options.method == "megatron:auto";
  if (options.launch_for.empty()) return any_degrees ? &find_framework("megatron") : nullptr;
  const Framework* framework = at_place("--for", [&] { return &find_planned_framework(options.launch_for); });
  require(!any_degrees || framework->name == "megatron",
          "--for: {} contradicts --method megatron:auto; leave one of them out.", framework->name);
  return framework;
}

// A framework whose stages have their own meshes launches what the search finds, of its schedules.
void expect_own_meshes(const Framework& framework, const PlanRequest& request) {
  require(!request.any_schedule() && framework.has(request.first_schedule()),
          "--for: {} has no schedule {}; give --schedule 1f1b or gpipe.", framework.name,
          request.any_schedule() ? "auto" : name_of(request.first_schedule()));
  require(!request.any_recompute() && framework.has(std::get<Recompute>(request.search.recompute)),
          "--for: {} recomputes all layers or none; give --recompute none or full.", framework.name);
}

// What the degrees leave nothing to: these options would be ignored.
void expect_options_of_degrees(const PlanningOptions& options) {
  const PlanningOptions usual;
  for (const auto& [name, given, default_value] :
       {std::tuple{"--layers", options.layers, usual.layers},
        std::tuple{"--layer-cut", options.layer_cut, usual.layer_cut},
        std::tuple{"--layer-starts", options.layer_starts, usual.layer_starts},
        std::tuple{"--recompute-layers", options.recompute_layers, usual.recompute_layers},
        std::tuple{"--recompute-modules", options.recompute_modules, usual.recompute_modules},
        std::tuple{"--batch-axis", options.batch_axis, usual.batch_axis},
        std::tuple{"--cross-mesh", options.cross_mesh, usual.cross_mesh},
        std::tuple{"--logical-mesh", options.logical_mesh, usual.logical_mesh},
        std::tuple{"--submesh-space", options.submesh_space, usual.submesh_space},
        std::tuple{"--logical-mesh-space", options.logical_mesh_space, usual.logical_mesh_space},
        std::tuple{"--stage-profile", options.stage_profile, usual.stage_profile},
        std::tuple{"--write-stage-profile", options.write_stage_profile, usual.write_stage_profile}})
    require(given == default_value,
            "{}: has no effect where degrees are searched whole (--for, megatron:auto); leave it "
            "out.",
            name);
  require(options.forced.empty(), "--force: a framework's degrees say how tensors are split; leave it or --for out.");
  require(!options.front && options.front_folder.empty(),
          "--pareto: is not made of plans that a framework launches; leave it or --for out.");
}

}  // namespace

std::string usual_schedule(const SearchOptions& search) {
  if (search.launch_for != nullptr) return "auto";
  return name_of(search.method.chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB);
}

void complete(PlanningOptions& options) {
  if (options.software == kNoSoftware)
    options.software.clear();
  else if (const Framework* framework = framework_of(options); framework != nullptr && options.software.empty())
    options.software = framework->software;
  options.software = with_setup(options.software, options.software_setup);
  if (const std::string& dispatch = options.software_setup.token_dispatch; !dispatch.empty())
    options.software = with_token_dispatch(options.software, dispatch, model_from_options(options));
}

// The order of the checks is that of the sentences a user sees first.
PlanRequest request_from_options(const PlanningOptions& options, const Cluster& cluster) {
  PlanRequest request;
  SearchOptions& search = request.search;
  request.model = model_from_options(options);
  request.cluster = cluster;
  read_training(request, options);
  const Framework* framework = framework_of(options);
  const bool given = options.method != "megatron:auto";
  search.method = at_place("--method", [&] { return method_from_text(given ? options.method : "pipeshard"); });
  // The file's shardings are those of one mesh of all devices.
  if (options.keep_shardings && search.method.kind == Method::Kind::Pipeshard)
    search.method = method_from_text("shard");
  const bool by_degrees = framework != nullptr && !framework->own_meshes;
  if (by_degrees && search.method.kind == Method::Kind::Pipeshard) search.launch_for = framework;
  read_recompute(search, options);
  read_layers(search, options);
  at_place("--schedule", [&] { read_schedule(search, options.schedule); });
  if (search.launch_for != nullptr)
    expect_options_of_degrees(options);
  else if (by_degrees) {
    expect_launchable(*framework, request);
    // Frameworks cut along blocks; other layers are for the user to ask for.
    if (options.layers == "default" && options.layer_cut.empty() && options.layer_starts.empty())
      search.layer_cut.cut = cut_of(degrees_of(search.method, cluster.devices()), shape_of(request.model).blocks);
  } else if (framework != nullptr)
    expect_own_meshes(*framework, request);
  request.goal = goal_of(options, request.trains());
  expect_options_that_count(options, request);
  require(!request.goal.front || !search.method.one_stage(),
          "--pareto: method '{}' puts one stage on all devices, so there is one plan only; leave the option out.",
          search.method.text);
  if (!options.logical_mesh.empty()) search.logical_mesh = logical_mesh_from_text(options.logical_mesh, request);
  if (!options.batch_axis.empty())
    search.batch_axis = static_cast<int>(parse_integer(options.batch_axis, "--batch-axis", 0, 7));
  search.cross_mesh = cross_mesh_from_text(options.cross_mesh);
  require(
      is_auto(search.cross_mesh) || !search.method.one_stage(),
      "--cross-mesh: method '{}' puts one stage on all devices, so that nothing goes from stage to stage; leave the "
      "option out.",
      search.method.text);
  for (const std::string& text : options.forced) at_place("--force", [&] { add_forced(search.forced, text); });
  if (options.keep_shardings) keep_shardings(request);
  read_submeshes(search, options.submesh_space, cluster);
  search.logical_mesh_space =
      at_place("--logical-mesh-space", [&] { return logical_mesh_space_from_name(options.logical_mesh_space); });
  request.software = options.software;
  request.cluster.expert_load = conditions_of(options.conditions).expert_load;
  expect_experts(request.cluster.expert_load, request.model);
  request.conditions = to_plan(options.conditions);
  request.threads = threads_from_text(options.threads);
  return request;
}

}  // namespace meshwright
