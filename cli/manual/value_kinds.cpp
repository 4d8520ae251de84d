// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/value_kinds.h"

#include <CLI/CLI.hpp>
#include <map>

#include "core/graph/models/builtin_models.h"
#include "core/graph/models/families.h"
#include "core/mesh/cluster.h"
#include "core/planner/method/framework.h"
#include "core/schedule/schedule.h"
#include "costmodel/sheets/software_profile.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

namespace {

using Paths = ValueKind::Paths;
using Words = std::vector<std::string>;

ValueKind one_of(Words words) { return {"NAME", Paths::None, std::move(words)}; }

Words model_words() {
  Words words;
  for (const BuiltInModel& model : builtin_sizes()) words.emplace_back(model.name);
  for (const Family& family : families()) words.push_back(std::string(family.name) + ":");
  return words;
}

// "p3.16xlarge:N" goes on behind its colon.
Words cluster_words() {
  Words words;
  for (const ClusterPreset& preset : cluster_presets())
    words.push_back(preset.pattern.substr(0, preset.pattern.rfind(':') + 1));
  return words;
}

Words schedule_words() {
  Words words = {"auto"};
  for (const ScheduleKind schedule : all_schedules()) words.push_back(name_of(schedule));
  return words;
}

Words software_words() {
  Words words = {"none"};
  for (const SoftwareProfile& profile : software_profiles()) words.push_back(profile.name);
  return words;
}

Words target_words() {
  Words words;
  for (const LaunchTarget& target : launch_targets()) words.push_back(target.name);
  return words;
}

using Rows = std::map<std::string, ValueKind>;

void add_rows(Rows& rows, const ValueKind& kind, const Words& names) {
  for (const std::string& name : names) rows[name] = kind;
}

// A row is of an option, or of "verb option" where a verb differs.
Rows all_rows() {
  const ValueKind file{"FILE", Paths::Files, {}}, folder{"FOLDER", Paths::Folders, {}};
  const ValueKind count{"COUNT", Paths::None, {}}, number{"NUMBER", Paths::None, {}};
  const ValueKind counts{"COUNT,...", Paths::None, {}};
  const ValueKind any_count{"COUNT|auto", Paths::None, {"auto"}};
  const ValueKind any_counts{"COUNT,...|auto", Paths::None, {"auto"}};
  Rows rows;
  add_rows(rows, file,
           {"--profile",
            "--stage-profile",
            "--write-stage-profile",
            "--schedule-csv",
            "--write-schedule",
            "--trace",
            "--output",
            "--db",
            "--html",
            "--svg",
            "--from-run",
            "--log",
            "solve --check",
            "profile --plan",
            "plan",
            "other",
            "first",
            "second",
            "files",
            "rows",
            "problem",
            "db"});
  add_rows(rows, folder,
           {"--pareto-dir", "--dump", "export --output", "folder", "--weights", "--save-weights", "--checkpoint",
            "--resume"});
  add_rows(rows, count,
           {"--nodes",
            "--devices-per-node",
            "--batch",
            "--seq",
            "--batch-axis",
            "--seed",
            "--threads",
            "--loss-scale-interval",
            "--every",
            "--keep",
            "--lr-warmup",
            "--lr-steps",
            "--prefetch",
            "--fetch-every",
            "--samples",
            "--replicas",
            "--steps",
            "--warmup",
            "--gpus",
            "--vocab",
            "--micro-batch",
            "--budget",
            "--every",
            "--keep",
            "--lr-warmup",
            "--lr-steps",
            "--trace-limit-mb",
            "--patience",
            "simulate --micro-batches",
            "run --micro-batches"});
  add_rows(rows, number,
           {"--min-throughput", "--max-latency", "--learning-rate", "--momentum",    "--weight-decay",  "--max-norm",
            "--loss-scale",     "--bucket-mib",  "--call-ms",       "--dispatch-us", "--launch-us",     "--fetch-ms",
            "--jitter",         "--failures",    "--checkpoint-s",  "--restart-s",   "--deadline-days", "--max-price",
            "--holdout",        "--time-limit",  "--tokens",        "--lr-least"});
  add_rows(rows, any_count, {"--micro-batches", "--checkpoint-every"});
  add_rows(rows, any_counts, {"sweep --micro-batches", "sweep --layers"});
  add_rows(rows, {"NUMBER,...", Paths::None, {}}, {"--price-per-device-hour", "--slowdown"});
  rows["profile --micro-batches"] = counts;
  rows["--layers"] = {"COUNT|auto", Paths::None, {"auto", "default"}};
  rows["--model"] = rows["model"] = {"MODEL", Paths::Files, model_words()};
  rows["--cluster"] = {"CLUSTER", Paths::Files, cluster_words()};
  rows["--software"] = {"NAME|FILE", Paths::Files, software_words()};
  rows["--method"] = {"METHOD",
                      Paths::None,
                      {"pipeshard", "shard", "largest", "data", "zero1", "zero2", "zero3", "fsdp",
                       "megatron:", "megatron:auto", "expert:", "context:", "rules:", "specs:", "manual:"}};
  rows["--for"] = one_of(names_of_planned_frameworks());
  rows["--to"] = one_of(target_words());
  rows["--as"] =
      one_of({"megatron", "megatron-bridge", "torchtitan", "deepspeed", "fsdp2", "accelerate", "maxtext", "flagscale"});
  rows["--schedule"] = {"SCHEDULE", Paths::None, schedule_words()};
  rows["sweep --schedule"] = {"SCHEDULE,...", Paths::None, schedule_words()};
  rows["--objective"] = one_of({"step-time", "latency", "throughput"});
  rows["--stage-profile-mode"] = one_of({"partly", "wholly"});
  rows["--stage-costs"] = one_of({"composition", "individual"});
  rows["--layer-cut"] = one_of({"flops", "bytes", "count", "uniform", "blocks", "follow:"});
  rows["run --dump"] = {"WHAT FILE", Paths::Files, {"logits", "loss", "gradients"}};
  rows["--inputs"] = {"FILE|INPUT=FILE", Paths::Files, {"tokens=", "labels=", "images="}};
  rows["--lr-schedule"] = one_of({"constant", "linear", "cosine"});
  rows["--layer-starts"] = {"OP,...|FILE", Paths::Files, {}};
  rows["--logical-mesh"] = {"SHAPE", Paths::None, {}};
  rows["--cross-mesh"] = one_of({"auto", "send", "gather", "broadcast"});
  rows["--force"] = {"SPEC", Paths::None, {}};
  rows["--recompute"] = one_of({"none", "full", "selective", "auto"});
  rows["--recompute-layers"] = {"LAYERS:NAME,...", Paths::None, {}};
  rows["simulate --chart"] = one_of({"timeline", "memory"});
  rows["sweep --chart"] = one_of({"heat-map", "front"});
  rows["--axes"] = {"NAME,NAME", Paths::None, {"step,memory", "step,devices", "step,price", "memory,devices"}};
  rows["--dtype"] = one_of({"f64", "f32", "bf16", "f16"});
  rows["--matmul-dtype"] = one_of({"fp8"});
  rows["--states"] = {"NAME,...", Paths::None, {"16-bit", "16-bit-moments", "8-bit-moments"}};
  rows["--attention"] = one_of({"fused", "unfused"});
  rows["--token-dispatch"] = one_of({"experts", "hosts", "all"});
  rows["--recompute-modules"] = {
      "NAME,...",
      Paths::None,
      {"none", "core_attn", "layernorm", "moe_act", "mla_up_proj", "mlp", "moe", "shared_experts"}};
  rows["--loss-chunks"] = {"NUMBER", Paths::None, {"auto"}};
  rows["--optimizer"] = one_of({"adam", "adafactor", "momentum", "sgd"});
  rows["--offload"] = {"NAME,...", Paths::None, {"none", "auto", "optimizer", "activations", "weights"}};
  rows["--lr-schedule"] = one_of({"constant", "linear", "cosine"});
  rows["--loss"] = one_of({"mean", "sum", "token_weighted"});
  rows["--submesh-space"] = one_of({"power_of_two", "small_power_of_two", "all", "manual:"});
  rows["--logical-mesh-space"] = one_of({"same_as_physical", "data_parallel_only", "model_parallel_only",
                                         "single_node_model_parallel", "all", "three_dimensional"});
  rows["--network"] = one_of({"static", "fluid", "fifo"});
  rows["--controller"] = one_of({"none", "single", "multi"});
  rows["--expert-imbalance"] = {"NUMBER,...|FILE", Paths::Files, {}};
  rows["--slow-device"] = {"SPEED", Paths::None, {}};
  rows["--slow-links"] = {"SPEED", Paths::None, {"within-host=", "between-hosts="}};
  rows["run --dump"] = {"WHAT FILE", Paths::None, {"logits", "loss", "gradients"}};
  rows["--inputs"] = {"FILE", Paths::Files, {}};
  rows["--dim"] = {"SIZE", Paths::None, {}};
  rows["--set"] = {"VALUE", Paths::None, {}};
  rows["--launch"] = {"NUMBER", Paths::None, {}};
  rows["--args"] = {"ARGUMENTS", Paths::None, {}};
  rows["--function"] = {"NAME", Paths::None, {}};
  rows["--profile-as"] = {"DEVICE", Paths::None, {}};
  rows["--devices"] = {"DEVICE,...", Paths::None, {}};
  rows["--tensor"] = {"TENSOR", Paths::None, {}};
  rows["--precision"] = one_of({"f32", "f64", "plan", "bf16", "f16"});
  rows["--backend"] = one_of({"cpu", "cuda"});
  rows["--graphs"] = one_of({"auto", "off"});
  rows["--transport"] = one_of({"inproc", "mpi", "nccl", "mpi+nccl"});
  rows["--launcher"] = one_of({"torchrun", "slurm", "mpi", "k8s"});
  rows["--fit"] = {"NAME,...", Paths::None, {"terms", "matmul", "attention", "network", "memory", "launch", "steps"}};
  rows["--by"] = one_of({"source", "group"});
  rows["--source"] = rows["--licence"] = {"SENTENCE", Paths::None, {}};
  rows["--progress"] = one_of({"auto", "line", "plain", "none"});
  rows["--chart"] = one_of({"timeline", "memory"});
  rows["--color"] = one_of({"auto", "always", "never"});
  return rows;
}

}  // namespace

const ValueKind& value_kind(const std::string& verb, const std::string& name) {
  static const Rows kRows = all_rows();
  static const ValueKind kText;
  for (const std::string& key : {verb + " " + name, name})
    if (const auto row = kRows.find(key); row != kRows.end()) return row->second;
  return kText;
}

void name_values(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    for (CLI::Option* option : verb->get_options()) {
      const std::string name =
          option->get_lnames().empty() ? option->get_name(true, false) : "--" + option->get_lnames()[0];
      if (option->get_expected_max() > 0) option->type_name(value_kind(verb->get_name(), name).shown);
    }
}

}  // namespace meshwright
