// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <thread>

#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr long kMostSamples = 1L << 40;
constexpr long kMostMicrobatches = 1L << 20;
constexpr long kMostThreads = 1024;

double number_from_text(const std::string& text, const char* flag, double low, double below, const char* expected) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= low && value < below,
      "{}: '{}' is not {}.", flag, text, expected);
  return value;
}

double learning_rate_from_text(const std::string& text) {
  return number_from_text(text, "--learning-rate", std::numeric_limits<double>::min(),
                          std::numeric_limits<double>::infinity(), "a positive number; give one such as 0.001");
}

std::vector<int> logical_mesh_from_text(const std::string& text, const PlanRequest& request) {
  if (text.empty()) return {};
  require(request.method.one_stage(), "--logical-mesh: method '{}' has stages of its own; leave the option out.",
          request.method.text);
  std::vector<int> shape;
  std::int64_t devices = 1;
  for (const std::string& part : split(text, 'x')) {
    shape.push_back(static_cast<int>(parse_integer(part, "--logical-mesh", 1, 1 << 20)));
    devices = std::min<std::int64_t>(devices * shape.back(), std::int64_t{1} << 40);
  }
  require(shape.size() <= 8, "--logical-mesh: {} has {} axes; give at most 8.", text, shape.size());
  require(devices == request.cluster.devices(), "--logical-mesh: {} has {} devices, but {} has {}.", text, devices,
          request.cluster.name, request.cluster.devices());
  const auto expected = at_place(
      "--method", [&] { return logical_shape_of(request.method, request.cluster.devices(), request.cluster.name); });
  require(!expected || *expected == shape, "--logical-mesh: method '{}' makes the mesh {}; leave the option out.",
          request.method.text, expected ? fmt::format("{}", fmt::join(*expected, "x")) : "");
  return shape;
}

LayerOptions layer_options_of(const PlanningOptions& options, int layers) {
  require(options.layer_cut.empty() || options.layer_starts.empty(),
          "--layer-starts: says where the layers are cut, and so does --layer-cut; leave one of them out.");
  if (options.layer_cut.empty() && options.layer_starts.empty()) return {};
  const char* flag = options.layer_cut.empty() ? "--layer-starts" : "--layer-cut";
  LayerOptions found = at_place(flag, [&] {
    return options.layer_cut.empty() ? layer_starts_from_text(options.layer_starts)
                                     : layer_cut_from_text(options.layer_cut);
  });
  require(layers == 0 || !found.fixes_count(),
          "{}: says how many layers there are, and so does --layers {}; leave "
          "--layers out.",
          flag, layers);
  return found;
}

std::string fingerprint(const ProfileDb& db) {
  std::string text;
  for (const OpProfile& op : db.ops())
    text += fmt::format("{} {} {}\n", op.signature, op.concurrency, op.time.median.si());
  for (const CollectiveProfile& c : db.collectives())
    text += fmt::format("{} {} {} {} {}\n", name_of(c.kind), c.ranks, c.hosts, c.size_bytes, c.time.median.si());
  for (const TransferProfile& t : db.transfers())
    text += fmt::format("transfer {} {} {}\n", t.hosts_apart, t.size_bytes, t.time.median.si());
  for (const auto& [name, time] : db.overheads()) text += fmt::format("{} {}\n", name, time.median.si());
  return fmt::format("{:016x}", stable_hash(text));
}

}  // namespace

void add_planning_options(CLI::App& verb, PlanningOptions& options, GridOptions grid) {
  verb.add_option("--model", options.model,
                  "built-in name, a size as in mlp:layers=2,hidden=2048, or a Hugging Face config.json");
  verb.add_option("--cluster", options.cluster, "preset as in p3.16xlarge:8, or a JSON file");
  verb.add_option("--nodes", options.nodes, "use only this many hosts of the cluster");
  verb.add_option("--devices-per-node", options.devices_per_node, "use only this many devices of each host");
  verb.add_option("--batch", options.batch, "samples per step (default: the model's)");
  verb.add_option("--seq", options.seq, "sequence length (default: the model's)");
  if (grid == GridOptions::Single) {
    verb.add_option("--micro-batches", options.micro_batches, "number, or auto")->capture_default_str();
    verb.add_option("--layers", options.layers, "number of layers the model is cut into, or auto")
        ->capture_default_str();
    verb.add_option("--schedule", options.schedule, "1f1b, gpipe or inference")->capture_default_str();
  }
  verb.add_option("--layer-cut", options.layer_cut,
                  "what layers share evenly: flops, bytes, count (of ops) or uniform (whole blocks); blocks: each is a "
                  "layer; follow:PLAN.json: cut like that plan (default: flops; methods of one stage: blocks)");
  verb.add_option("--layer-starts", options.layer_starts,
                  "first op of each layer, as in embed,blk4.ln1, or a JSON file with the list");
  verb.add_option("--method", options.method,
                  "pipeshard, shard, largest, data, zero1, zero2, zero3 (fsdp), megatron:tp=8,pp=4[,ep=,cp=,sp=1], "
                  "expert:ep=8, "
                  "context:cp=4, rules:batch=0,heads=1,..., specs:FILE or manual:FILE")
      ->capture_default_str();
  verb.add_option("--logical-mesh", options.logical_mesh, "shape of the one stage's mesh, as in 8x8 or 2x4x8");
  verb.add_option("--batch-axis", options.batch_axis, "mesh axis that every batch is split over, and nothing else");
  verb.add_option("--force", options.forced, "TENSOR=SPEC: how a tensor must lie, as in blk0.mlp.up=S0RS1; repeatable")
      ->take_all();
  verb.add_option("--recompute", options.recompute, "none, full or selective")->capture_default_str();
  verb.add_option("--dtype", options.dtype, "f64, f32, bf16 or f16 (default: the model's)");
  verb.add_option("--optimizer", options.optimizer, "adam, momentum or sgd")->capture_default_str();
  verb.add_option("--learning-rate", options.learning_rate)->capture_default_str();
  verb.add_option("--momentum", options.momentum, "of --optimizer momentum (default: 0.9)");
  verb.add_option("--weight-decay", options.weight_decay, "decoupled with adam (AdamW), else added to the gradient")
      ->capture_default_str();
  verb.add_option("--max-norm", options.max_norm, "gradients are clipped to this global norm; 0: not")
      ->capture_default_str();
  verb.add_option("--loss", options.loss, "mean, sum or token_weighted")->capture_default_str();
  verb.add_option("--submesh-space", options.submesh_space, "power_of_two, small_power_of_two or all")
      ->capture_default_str();
  verb.add_option("--logical-mesh-space", options.logical_mesh_space,
                  "same_as_physical, data_parallel_only, model_parallel_only, single_node_model_parallel, all or "
                  "three_dimensional")
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "recorded; the search itself draws no random numbers")->capture_default_str();
  verb.add_option("--threads", options.threads,
                  "threads of the search (default: all); the result does not depend on it");
  verb.add_flag("--json", options.json, "print the document as JSON");
}

long count_from_text(const std::string& text, const char* flag, long high) {
  return parse_integer(text, flag, 1, high);
}

long count_or_auto(const std::string& text, const char* flag, long high) {
  return text == "auto" ? 0 : count_from_text(text, flag, high);
}

std::uint64_t seed_from_text(const std::string& text) {
  return static_cast<std::uint64_t>(parse_integer(text, "--seed", 0, std::numeric_limits<long>::max()));
}

Optimizer::Kind optimizer_from_text(const std::string& text) {
  return at_place("--optimizer", [&] { return optimizer_from_name(text); });
}

Cluster cluster_from_options(const PlanningOptions& options, std::optional<Cluster> otherwise) {
  require(
      !options.cluster.empty() || otherwise.has_value(),
      "--cluster is missing; give a preset such as p3.16xlarge:8 (`meshwright clusters` lists them) or a JSON file.");
  const auto part = [](const std::string& text, const char* flag) {
    return text.empty() ? 0 : static_cast<int>(count_from_text(text, flag, 1 << 20));
  };
  const int nodes = part(options.nodes, "--nodes");
  const int devices = part(options.devices_per_node, "--devices-per-node");
  return take_part(options.cluster.empty() ? *otherwise : find_cluster(options.cluster), nodes, devices);
}

ModelConfig model_from_options(const PlanningOptions& options) {
  require(!options.model.empty(), "--model is missing; `meshwright models` lists the built-in ones.");
  ModelConfig model = find_model(options.model);
  if (options.seq.empty()) return model;
  require(model.seq > 0, "--seq: model '{}' has no sequence; leave the option out.", model.name);
  model.seq = count_from_text(options.seq, "--seq", 10'000'000);
  return model;
}

PlanRequest request_from_options(const PlanningOptions& options, const Cluster& cluster) {
  PlanRequest request;
  request.model = model_from_options(options);
  request.cluster = cluster;
  TrainingOptions& training = request.training;
  training.batch =
      options.batch.empty() ? request.model.default_batch : count_from_text(options.batch, "--batch", kMostSamples);
  training.microbatches = count_or_auto(options.micro_batches, "--micro-batches", kMostMicrobatches);
  require(
      training.microbatches == 0 || training.batch % training.microbatches == 0,
      "--micro-batches: a batch of {} does not divide into {} micro-batches; give a number that divides it, or auto.",
      training.batch, training.microbatches);
  training.dtype = options.dtype.empty() ? request.model.default_dtype
                                         : at_place("--dtype", [&] { return dtype_from_name(options.dtype); });
  require(cluster.device.peak.contains(name_of(training.dtype)),
          "cluster {} has no rate for {}, the type of the weights; choose another with --dtype.", cluster.name,
          name_of(training.dtype));
  training.optimizer.kind = optimizer_from_text(options.optimizer);
  training.optimizer.learning_rate = learning_rate_from_text(options.learning_rate);
  constexpr double kAny = std::numeric_limits<double>::infinity();
  require(options.momentum.empty() || training.optimizer.kind == Optimizer::Kind::Momentum,
          "--momentum: optimizer {} has none; leave the option out or choose --optimizer momentum.", options.optimizer);
  if (!options.momentum.empty())
    training.optimizer.momentum =
        number_from_text(options.momentum, "--momentum", 0.0, 1.0, "a number from 0 to below 1");
  training.optimizer.weight_decay =
      number_from_text(options.weight_decay, "--weight-decay", 0.0, kAny, "a number from 0 upwards");
  training.optimizer.max_norm =
      number_from_text(options.max_norm, "--max-norm", 0.0, kAny, "a number from 0 upwards; 0 does not clip");
  training.loss = at_place("--loss", [&] { return loss_reduction_from_name(options.loss); });
  training.recompute = at_place("--recompute", [&] { return recompute_from_name(options.recompute); });
  request.layers = static_cast<int>(count_or_auto(options.layers, "--layers", 1 << 20));
  request.layer_options = layer_options_of(options, request.layers);
  request.schedule = at_place("--schedule", [&] { return schedule_from_name(options.schedule); });
  request.method = at_place("--method", [&] { return method_from_text(options.method); });
  request.logical_mesh = logical_mesh_from_text(options.logical_mesh, request);
  if (!options.batch_axis.empty())
    request.batch_axis = static_cast<int>(parse_integer(options.batch_axis, "--batch-axis", 0, 7));
  for (const std::string& text : options.forced) at_place("--force", [&] { add_forced(request.forced, text); });
  request.submesh_space = at_place("--submesh-space", [&] { return submesh_space_from_name(options.submesh_space); });
  request.logical_mesh_space =
      at_place("--logical-mesh-space", [&] { return logical_mesh_space_from_name(options.logical_mesh_space); });
  request.threads = options.threads.empty()
                        ? static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))
                        : static_cast<int>(count_from_text(options.threads, "--threads", kMostThreads));
  return request;
}

std::vector<std::string> files_read(const PlanningOptions& options) {
  const auto file_after = [](const std::string& text, std::string_view kind) {
    return text.starts_with(kind) ? text.substr(kind.size()) : std::string();
  };
  const auto json_file = [](const std::string& text) { return text.ends_with(".json") ? text : std::string(); };
  return {options.profile,
          options.cluster,
          json_file(options.model),
          file_after(options.method, "manual:"),
          file_after(options.method, "specs:"),
          file_after(options.layer_cut, "follow:"),
          json_file(options.layer_starts)};
}

Costs costs_for(const Cluster& cluster, const std::string& profile_path) {
  Costs costs;
  if (profile_path.empty()) {
    costs.model = make_analytic_cost_model(cluster);
    costs.source = "modelled (roofline, alpha-beta)";
    return costs;
  }
  costs.db = std::make_unique<ProfileDb>(profile_path, ProfileDb::Mode::ReadOnly);
  costs.model = make_profiled_cost_model(cluster, *costs.db);
  costs.source = fmt::format("{} ({} ops, {} collectives, {} transfers measured)", profile_path, costs.db->ops().size(),
                             costs.db->collectives().size(), costs.db->transfers().size());
  costs.fingerprint = fingerprint(*costs.db);
  return costs;
}

Plan read_plan(const std::string& path) { return plan_from_json(read_json_file(path), path); }

LoadedPlan load_plan_of(const std::string& path, const Plan& plan, const CostModel& costs) {
  return at_place(path, [&] { return load_plan(plan, costs); });
}

}  // namespace meshwright
