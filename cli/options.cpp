// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <thread>

#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr long kMostSamples = 1L << 40;
constexpr long kMostMicrobatches = 1L << 20;
constexpr long kMostThreads = 1024;

double learning_rate_from_text(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0.0,
          "--learning-rate: '{}' is not a positive number; give one such as 0.001.", text);
  return value;
}

Recompute recompute_from_text(const std::string& text) {
  require(text == "none" || text == "full", "--recompute: '{}' is not known; give none or full.", text);
  return text == "full" ? Recompute::Full : Recompute::None;
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
  verb.add_option("--model", options.model, "built-in name, or a size as in mlp:layers=2,hidden=2048");
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
  verb.add_option("--method", options.method, "pipeshard, shard, data, zero2, zero3, megatron:tp=8,pp=4 or manual:FILE")
      ->capture_default_str();
  verb.add_option("--recompute", options.recompute, "none or full")->capture_default_str();
  verb.add_option("--dtype", options.dtype, "f64, f32, bf16 or f16 (default: the model's)");
  verb.add_option("--optimizer", options.optimizer, "adam or sgd")->capture_default_str();
  verb.add_option("--learning-rate", options.learning_rate)->capture_default_str();
  verb.add_option("--submesh-space", options.submesh_space, "power_of_two, small_power_of_two or all")
      ->capture_default_str();
  verb.add_option("--logical-mesh-space", options.logical_mesh_space,
                  "same_as_physical, data_parallel_only, model_parallel_only, single_node_model_parallel or all")
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
  require(text == "adam" || text == "sgd", "--optimizer: '{}' is not known; give adam or sgd.", text);
  return text == "adam" ? Optimizer::Kind::Adam : Optimizer::Kind::Sgd;
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
  training.recompute = recompute_from_text(options.recompute);
  request.layers = static_cast<int>(count_or_auto(options.layers, "--layers", 1 << 20));
  request.schedule = at_place("--schedule", [&] { return schedule_from_name(options.schedule); });
  request.method = at_place("--method", [&] { return method_from_text(options.method); });
  request.submesh_space = at_place("--submesh-space", [&] { return submesh_space_from_name(options.submesh_space); });
  request.logical_mesh_space =
      at_place("--logical-mesh-space", [&] { return logical_mesh_space_from_name(options.logical_mesh_space); });
  request.threads = options.threads.empty()
                        ? static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))
                        : static_cast<int>(count_from_text(options.threads, "--threads", kMostThreads));
  return request;
}

std::vector<std::string> files_read(const PlanningOptions& options) {
  constexpr std::string_view kManual = "manual:";
  return {options.profile, options.cluster,
          options.method.starts_with(kManual) ? options.method.substr(kManual.size()) : ""};
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

const char* name_of(Optimizer::Kind kind) { return kind == Optimizer::Kind::Adam ? "adam" : "sgd"; }
const char* name_of(Recompute recompute) { return recompute == Recompute::Full ? "full" : "none"; }

}  // namespace meshwright
