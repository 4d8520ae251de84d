// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <thread>

#include "cli/options/stage_profiles.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/graph/import/find_model.h"
#include "core/planner/method/framework.h"

namespace meshwright {

namespace {

// Adds options that are kept as text. The help shows a default only where the text is not empty.
struct TextOptions {
  CLI::App& verb;
  void operator()(const char* flag, std::string& value, const std::string& help) const {
    verb.add_option(flag, value, help)->capture_default_str();
  }
};

// What is the best plan, and which others are of interest.
void add_goals(CLI::App& verb, PlanningOptions& options) {
  const TextOptions add{verb};
  add("--objective", options.objective,
      "what to optimise: step-time (minimise); with --schedule inference also latency (minimise the time "
      "of one micro-batch) or throughput (maximise samples per second)");
  add("--min-throughput", options.min_throughput,
      "with --objective latency: the smallest throughput to accept, in samples per second");
  add("--max-latency", options.max_latency,
      "with --objective throughput: the largest latency of a micro-batch to accept, in seconds");
  add("--price-per-device-hour", options.price,
      "price of one device for one hour, such as 2.5; one price per host group where the cluster has "
      "several, such as 2.5,1.1");
  verb.add_flag("--pareto", options.front,
                "also print the Pareto front: the plans that no other plan beats in step time, memory and number of "
                "devices at once");
  add("--pareto-dir", options.front_folder,
      "write the plans of the Pareto front into this folder, which must be new or empty (implies --pareto)");
}

}  // namespace

void add_planning_options(CLI::App& verb, PlanningOptions& options, GridOptions grid) {
  const TextOptions add{verb};
  add("--model", options.model,
      "built-in model such as gpt-2.6b, a family with sizes such as mlp:layers=2,hidden=2048, a Hugging Face "
      "config.json, either with other sizes such as config.json:layers=4, or a file of ops (.onnx, .pt2, .hlo)");
  verb.add_option("--dim", options.dims, "NAME=SIZE: size of a dimension that the model's file leaves open; repeatable")
      ->allow_extra_args(false);
  add("--cluster", options.cluster,
      "preset such as p3.16xlarge:8, several joined such as dgx-a100:1+p3.16xlarge:2, or a cluster file");
  add("--nodes", options.nodes, "use only this many hosts of the cluster (default: all)");
  add("--devices-per-node", options.devices_per_node, "use only this many devices of each host (default: all)");
  add("--batch", options.batch, "samples per step (default: the model's)");
  add("--seq", options.seq, "sequence length in tokens (default: the model's)");
  if (grid == GridOptions::Single) {
    add("--micro-batches", options.micro_batches,
        "number of micro-batches, which must divide the batch; auto: search for the best number");
    add("--layers", options.layers,
        "number of layers the model is cut into; auto: search for the best number; default: chosen from "
        "the model's size");
    add("--schedule", options.schedule,
        "pipeline schedule: 1f1b, gpipe, eager-1f1b, zb-h1, zb-h2, zb-v, v-half, dualpipe-v, dualpipe (from both ends, "
        "weights twice), interleaved (searches 2 to 4 stages per device), interleaved:V (V stages per device) or "
        "inference; auto: search the schedules for training (default: 1f1b; with --for all that the framework has)");
    add_goals(verb, options);
    add_stage_profile_options(verb, options);
    verb.add_flag("--log-steps", options.log_steps,
                  "print each step of the search to stderr: its name, what it made and the time it took");
  }
  add("--layer-cut", options.layer_cut,
      "what to balance between layers: flops, bytes, count (of ops) or uniform (of whole blocks); blocks: every block "
      "is a layer; follow:PLAN.json: the same cuts as that plan (default: flops; for methods with one stage: blocks)");
  add("--layer-starts", options.layer_starts,
      "first op of each layer, such as embed,blk4.ln1, or a JSON file with the list");
  add("--method", options.method,
      "parallelisation method: pipeshard, shard, largest, data, zero1[:shard=8], zero2[:shard=8], "
      "zero3[:shard=8] (fsdp), "
      "megatron:tp=8,pp=4[,vpp=,first=,last=,layout=,ep=,cp=,cp-comm=p2p,sp=1,zero=,exact=1,etp=1,fold=1], "
      "megatron:auto, expert:ep=8, "
      "context:cp=4[,cp-comm=a2a], rules:batch=0,heads=1,..., specs:FILE or manual:FILE");
  add("--for", options.launch_for,
      fmt::format(
          "only plans that this framework launches: {}; their degrees, schedule, recomputation and micro-batches "
          "are searched whole (default: any plan)",
          join(framework_names(), ", ")));
  add("--logical-mesh", options.logical_mesh,
      "for methods with one stage: shape of its logical mesh, such as 8x8 or 2x4x8");
  add("--batch-axis", options.batch_axis,
      "split every batch dimension over this mesh axis (0, 1, ...) and over no other");
  add("--cross-mesh", options.cross_mesh,
      "how a tensor gets to several devices of the next stage that need the same tile: send (to each of them), gather "
      "(a part to each device of a host, which gather), broadcast (a part to each device of all hosts) or auto (as is "
      "fastest at each boundary; with --software and --for: send)");
  verb.add_option("--force", options.forced,
                  "TENSOR=SPEC: force the sharding of a tensor, such as blk0.mlp.up=S0RS1; repeatable")
      ->take_all();
  verb.add_flag(
      "--keep-shardings", options.keep_shardings,
      "force the shardings that the model's file (.mlir, .hlo) has for its parameters, on one mesh of all devices");
  add("--recompute", options.recompute,
      "what to recompute in the backward pass: none, full or selective; auto: search per layer (default: none; with "
      "--for all that the framework has)");
  add("--recompute-layers", options.recompute_layers,
      "exceptions to --recompute by layer, such as 0-3:full,5:selective");
  add("--recompute-modules", options.recompute_modules,
      "parts of every block that are recomputed by themselves: none, or some of core_attn, layernorm, moe_act, "
      "mla_up_proj, mlp, moe and shared_experts (docs/memory.md)");
  add("--dtype", options.dtype, "type of weights and activations: f64, f32, bf16 or f16 (default: the model's)");
  add("--optimizer", options.optimizer, "optimizer: adam, adafactor, momentum or sgd");
  add("--learning-rate", options.learning_rate, "factor of the optimizer's step");
  add("--momentum", options.momentum, "with --optimizer momentum: its factor, from 0 to below 1 (default: 0.9)");
  add("--weight-decay", options.weight_decay,
      "weight decay per step: decoupled with adam (AdamW) and adafactor, otherwise added to the gradient");
  add("--max-norm", options.max_norm, "clip gradients to this global norm; 0: no clipping");
  add("--loss-scale", options.loss_scale,
      "initial scale of dynamic loss scaling, such as 65536, halved when gradients overflow; 0: no scaling");
  add("--loss-scale-interval", options.loss_scale_interval,
      "with --loss-scale: steps without overflow after which the scale doubles");
  add("--offload", options.offload,
      "what is kept in the hosts' memory instead of the devices': none, or some of optimizer (its state), activations "
      "(from forward to backward) and weights (fetched by every pass), separated by commas; auto: what makes the "
      "fastest plan");
  add("--loss", options.loss, "how the samples' losses are reduced: mean, sum or token_weighted");
  add("--submesh-space", options.submesh_space,
      "submeshes that stages may take: power_of_two, small_power_of_two, all, or a list of HOSTSxDEVICES "
      "such as manual:1x4,2x8 (1x4@1: hosts of group 1)");
  add("--logical-mesh-space", options.logical_mesh_space,
      "logical mesh shapes to search: same_as_physical, data_parallel_only, model_parallel_only, "
      "single_node_model_parallel, all or three_dimensional");
  add_condition_options(verb, options.conditions);
  verb.add_option("--jitter", options.conditions.jitter,
                  "judge plans by the mean of 20 simulated steps whose durations vary: sigma of a lognormal factor on "
                  "each, such as 0.05");
  add("--seed", options.seed, "recorded in the plan; the search draws no random numbers");
  add("--threads", options.threads, "threads of the search (default: all cores); the result does not depend on it");
  verb.add_flag("--json", options.json, "print the result as JSON");
}

int threads_from_text(const std::string& text) {
  return text.empty() ? static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))
                      : static_cast<int>(count_from_text(text, "--threads", kMaxThreads));
}

long count_from_text(const std::string& text, const char* flag, long high) {
  return parse_integer(text, flag, 1, high);
}

OrAuto<std::int64_t> count_or_auto(const std::string& text, const char* flag, long high) {
  if (text == "auto") return Auto{};
  return std::int64_t{count_from_text(text, flag, high)};
}

double number_from_text(const std::string& text, const char* flag, double low, double below, const char* expected) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= low && value < below,
      "{}: '{}' is not {}.", flag, text, expected);
  return value;
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

std::map<std::string, std::int64_t> dims_from_texts(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    require(equals != std::string::npos && equals > 0, "--dim: '{}' is not name=size; give one such as seq=1024.",
            text);
    const std::string name = text.substr(0, equals);
    const std::int64_t size = parse_integer(text.substr(equals + 1), fmt::format("--dim {}", name), 0, 1'000'000'000);
    require(dims.emplace(name, size).second, "--dim: '{}' is given twice; give each dimension once.", name);
  }
  return dims;
}

ModelConfig model_from_options(const PlanningOptions& options) {
  require(!options.model.empty(), "--model is missing; `meshwright models` lists the built-in ones.");
  ModelConfig model = find_model(options.model, dims_from_texts(options.dims));
  if (const std::vector<std::string> left_out = left_out_of_model(options.model); !left_out.empty())
    warn(fmt::format("{}: not understood, and left out of the model: {}", options.model, join(left_out, ", ")));
  if (const std::vector<std::string> assumed = assumed_of_model(options.model); !assumed.empty())
    warn(fmt::format("{}: taken for granted: {}", options.model, join(assumed, "; ")));
  if (options.seq.empty()) return model;
  require(!model.file, "--seq: '{}' has its own sequence; give the dimensions that it leaves open by --dim.",
          options.model);
  require(model.seq > 0, "--seq: model '{}' has no sequence; leave the option out.", model.name);
  model.seq = count_from_text(options.seq, "--seq", 10'000'000);
  return model;
}

std::vector<std::string> files_read(const PlanningOptions& options) {
  const auto file_after = [](const std::string& text, std::string_view kind) {
    return text.starts_with(kind) ? text.substr(kind.size()) : std::string();
  };
  const auto json_file = [](const std::string& text) { return text.ends_with(".json") ? text : std::string(); };
  return {options.profile.path,
          options.stage_profile,
          options.cluster,
          config_file_of_model(options.model),
          file_after(options.method, "manual:"),
          file_after(options.method, "specs:"),
          file_after(options.layer_cut, "follow:"),
          json_file(options.layer_starts)};
}

Plan read_plan(const std::string& path) {
  Plan plan = plan_from_json(read_json_file(path), path);
  (void)at_place(path, [&] { return conditions_of(conditions_from_plan(plan.conditions)); });
  return plan;
}

LoadedPlan load_plan_of(const std::string& path, const Plan& plan, const CostModel& costs) {
  return at_place(path, [&] { return load_plan(plan, costs); });
}

}  // namespace meshwright
