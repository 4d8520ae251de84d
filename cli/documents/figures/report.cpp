// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/figures/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

Flops work_of_step(const Plan& plan, const TrainingOptions& training) {
  return static_cast<double>(training.microbatches) *
         graph_flops(build_step_graph(plan.model, training, plan.schedule));
}

// The sum over all devices; nullopt: one has none for the type.
std::optional<FlopsPerSecond> peak_of(const Cluster& cluster, DType dtype) {
  FlopsPerSecond sum(0.0);
  for (const HostGroup& group : cluster.groups) {
    const auto own = group.device.peak.find(name_of(dtype));
    if (own == group.device.peak.end()) return std::nullopt;
    sum += static_cast<double>(group.devices()) * own->second;
  }
  return sum;
}

}  // namespace

Throughput throughput(const Plan& plan, Seconds step, int replicas, std::optional<FlopsPerSecond> peak_of_one) {
  TrainingOptions training = plan.training;
  training.recompute = Recompute::None;
  training.recompute_ranges.clear();
  training.recompute_modules = RecomputeModules::None;
  const Flops work = work_of_step(plan, training);
  Throughput rate;
  rate.samples_per_s = replicas * static_cast<double>(training.batch) / step.si();
  if (plan.model.seq > 0) rate.tokens_per_s = rate.samples_per_s * static_cast<double>(plan.model.seq);
  rate.tflops_per_device = work.si() / step.si() / 1e12 / plan.cluster.devices();
  const int devices = plan.cluster.devices();
  const auto peak = peak_of_one ? static_cast<double>(devices) * *peak_of_one : peak_of(plan.cluster, training.dtype);
  if (!peak || peak->si() <= 0.0) return rate;
  const double mfu = work / *peak / step;
  const bool repeats = recompute_text(plan.training) != name_of(Recompute::None);
  const double hfu = repeats ? work_of_step(plan, plan.training) / *peak / step : mfu;
  if (std::max(mfu, hfu) <= 1.0) {
    rate.mfu = mfu;
    rate.hfu = hfu;
  } else {
    rate.why_none =
        fmt::format("its devices do more than their peak of {:.4g} TFLOPS, which is too low{}",
                    peak->si() / devices / 1e12, peak_of_one ? "" : "; `profile` measures the peak of processors");
  }
  return rate;
}

std::string to_text(const Throughput& rate) {
  const std::string tokens = rate.tokens_per_s ? fmt::format(", {:.6g} tokens/s", *rate.tokens_per_s) : "";
  std::string utilization;
  if (rate.mfu) utilization = fmt::format(", MFU {} %, HFU {} %", in_percent(*rate.mfu), in_percent(*rate.hfu));
  if (!rate.why_none.empty()) utilization = fmt::format(", no MFU: {}", rate.why_none);
  return fmt::format("{:.6g} samples/s{}, {:.4g} TFLOPS per device{}", rate.samples_per_s, tokens,
                     rate.tflops_per_device, utilization);
}

Seconds median(std::vector<Seconds> times) {
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : 0.5 * (times[middle - 1] + times[middle]);
}

double relative_gap(Seconds step, Seconds lower_bound) { return std::max(0.0, (step - lower_bound) / step); }

Bytes stage_peak(const ProgramStage& stage, const std::vector<Bytes>& peak_of_device) {
  Bytes largest(0.0);
  for (const DeviceId device : stage.devices) largest = std::max(largest, peak_of_device[device.index()]);
  return largest;
}

std::vector<MemoryUse> memory_use(const Plan& plan, const Program& program, const ProgramCheck& check) {
  std::map<int, Bytes> peaks;  // by group
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Bytes& peak = peaks.emplace(plan.stages[s].submesh.group, Bytes(0.0)).first->second;
    peak = std::max(peak, stage_peak(program.stages[s], check.peak_memory));
  }
  std::vector<MemoryUse> uses;
  for (const auto& [group, peak] : peaks) {
    const HostGroup& of = plan.cluster.group(group);
    uses.push_back({of.device.name, peak, of.usable_memory()});
  }
  return uses;
}

std::string memory_line(const std::vector<MemoryUse>& uses, const std::string& software) {
  const char* too_large =
      software.empty() ? ": it does not fit" : ": more than this program's own executor has room for";
  std::vector<std::string> parts;
  for (const MemoryUse& use : uses)
    parts.push_back(fmt::format("{} GiB of {} GiB usable per device{}{}", in_gibibytes(use.peak),
                                in_gibibytes(use.usable), uses.size() > 1 ? " of " + use.device : "",
                                use.fits() ? "" : too_large));
  return fmt::format("# peak memory {}\n", join(parts, "; "));
}

std::string to_text(const WaitShares& shares) {
  return fmt::format("waiting {} % (messages {}, bubble {}, idle {})", in_percent(shares.total()),
                     in_percent(shares.messages), in_percent(shares.bubble), in_percent(shares.idle));
}

void add_waiting(Json& json, const WaitShares& shares) {
  json["waiting"] = {{"share", shares.total()},
                     {"messages_share", shares.messages},
                     {"bubble_share", shares.bubble},
                     {"idle_share", shares.idle}};
}

std::string to_text(const StageWaits& waits) {
  return fmt::format("stages wait {} % between their first and last pass, the longest {} %", in_percent(waits.mean),
                     in_percent(waits.longest));
}

void add_stage_waits(Json& json, const StageWaits& waits) {
  json["mean_stage_wait_share"] = waits.mean;
  json["longest_stage_wait_share"] = waits.longest;
}

void add_memory(Json& json, const std::vector<MemoryUse>& uses) {
  const auto tightest = std::max_element(uses.begin(), uses.end(), [](const MemoryUse& a, const MemoryUse& b) {
    return a.peak / a.usable < b.peak / b.usable;
  });
  json["peak_memory_bytes"] = bytes_json(tightest->peak);
  json["usable_memory_bytes"] = bytes_json(tightest->usable);
  if (uses.size() == 1) return;
  for (const MemoryUse& use : uses)
    json["memory"].push_back({{"device", use.device},
                              {"peak_memory_bytes", bytes_json(use.peak)},
                              {"usable_memory_bytes", bytes_json(use.usable)}});
}

namespace {

int used_devices(const Plan& plan) {
  std::set<int> used;
  for (const StagePlan& stage : plan.stages) used.insert(stage.devices.begin(), stage.devices.end());
  return static_cast<int>(used.size());
}

// By form, the boundaries that have it, "0>1": from stage 0 to 1.
std::map<CrossMesh, std::vector<std::string>> boundaries_by_form(const Plan& plan) {
  std::map<CrossMesh, std::vector<std::string>> found;
  for (std::size_t to = 0; to < plan.stages.size(); ++to)
    for (const auto& [from, form] : plan.stages[to].cross_mesh)
      if (form != CrossMesh::Send) found[form].push_back(fmt::format("{}>{}", from, to));
  return found;
}

}  // namespace

std::string cross_mesh_line(const Plan& plan) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> parts;
  for (const auto& [form, boundaries] : boundaries_by_form(plan)) {
    std::vector<std::string> named(
        boundaries.begin(), boundaries.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, boundaries.size())));
    if (named.size() < boundaries.size()) named.push_back(fmt::format("{} more", boundaries.size() - named.size()));
    parts.push_back(fmt::format("{} {}", name_of(form), join(named, " ")));
  }
  return parts.empty() ? "" : fmt::format("# from stage to stage: {}\n", join(parts, ", "));
}

void add_cross_mesh(Json& json, const Plan& plan) {
  for (const auto& [form, boundaries] : boundaries_by_form(plan)) json["cross_mesh"][name_of(form)] = boundaries;
}

namespace {

std::string on_hosts(Offload offload) {
  std::vector<std::string> what;
  for (const auto& [part, name] : {std::pair{Offload::Optimizer, "optimizer state"},
                                   {Offload::Activations, "activations"},
                                   {Offload::Weights, "weights"}})
    if (has(offload, part)) what.emplace_back(name);
  return what.empty() ? "" : join(what, " and ") + " on hosts, ";
}

}  // namespace

std::string header_lines(const std::string& verb, const Plan& plan) {
  const TrainingOptions& training = plan.training;
  const Cluster& cluster = plan.cluster;
  const std::string seq = plan.model.seq > 0 ? fmt::format("seq {}, ", plan.model.seq) : "";
  const bool trains = plan.schedule != ScheduleKind::Inference;
  const std::string optimizer = trains ? fmt::format("{} at {}, recompute {}, ", name_of(training.optimizer.kind),
                                                     training.optimizer.learning_rate, recompute_text(training)) +
                                             on_hosts(training.offload)
                                       : "";
  std::vector<std::string> hosts;
  for (const HostGroup& group : cluster.groups)
    hosts.push_back(fmt::format("{} x {} {}", group.hosts, group.devices_per_host, group.device.name));
  const int used = used_devices(plan);
  const std::string part =
      used < cluster.devices() ? fmt::format(", {} of {} devices used", used, cluster.devices()) : "";
  return fmt::format("# meshwright {}  {}  model {}  cluster {} ({}){}\n", MESHWRIGHT_VERSION, verb, plan.model.name,
                     cluster.name, join(hosts, ", "), part) +
         fmt::format("# batch {} in {} micro-batches, {}{}, {}schedule {}, method {}, {} layers\n", training.batch,
                     training.microbatches, seq, name_of(training.dtype), optimizer, name_of(plan.schedule),
                     plan.method, plan.layer_starts.size()) +
         cross_mesh_line(plan);
}

namespace {

struct Shares {
  double measured, interpolated, modelled;
};

Shares shares(const ProgramCosts& costs) {
  const Seconds total = costs.basis.measured + costs.basis.interpolated + costs.basis.modelled;
  if (total.si() <= 0.0) return {0.0, 0.0, 0.0};
  return {costs.basis.measured / total, costs.basis.interpolated / total, costs.basis.modelled / total};
}

std::string joined(const std::vector<int>& sizes) { return fmt::format("{}", fmt::join(sizes, "x")); }

}  // namespace

std::string cost_line(const std::string& source, const ProgramCosts& costs) {
  const Shares share = shares(costs);
  return fmt::format("# costs: {}; of the computing time {} % measured, {} % interpolated, {} % modelled\n", source,
                     in_percent(share.measured), in_percent(share.interpolated), in_percent(share.modelled));
}

Json header_json(const std::string& verb, const Plan& plan) {
  const TrainingOptions& training = plan.training;
  Json json = {{"program", "meshwright"},
               {"version", MESHWRIGHT_VERSION},
               {"verb", verb},
               {"model", plan.model.name},
               {"cluster", plan.cluster.name},
               {"num_devices", plan.cluster.devices()},
               {"used_devices", used_devices(plan)},
               {"batch", training.batch},
               {"dtype", name_of(training.dtype)},
               {"optimizer", name_of(training.optimizer.kind)},
               {"learning_rate", training.optimizer.learning_rate},
               {"recompute", recompute_text(training)},
               {"method", plan.method},
               {"schedule", name_of(plan.schedule)},
               {"num_stages", plan.stages.size()},
               {"num_micro_batches", training.microbatches},
               {"num_layers", plan.layer_starts.size()}};
  if (plan.model.seq > 0) json["seq"] = plan.model.seq;
  add_cross_mesh(json, plan);
  return json;
}

Json bytes_json(Bytes bytes) {
  const double value = bytes.si();
  return std::abs(value) < 9e15 && value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json basis_json(const ProgramCosts& costs) {
  const Shares share = shares(costs);
  return {{"measured", share.measured}, {"interpolated", share.interpolated}, {"modelled", share.modelled}};
}

void add_throughput(Json& json, const Throughput& rate) {
  json["samples_per_s"] = rate.samples_per_s;
  if (rate.tokens_per_s) json["tokens_per_s"] = *rate.tokens_per_s;
  json["tflops_per_device"] = rate.tflops_per_device;
  if (rate.mfu) json["mfu"] = *rate.mfu;
  if (rate.hfu) json["hfu"] = *rate.hfu;
  if (!rate.why_none.empty()) json["why_no_mfu"] = rate.why_none;
}

std::string layers_text(const StagePlan& stage) { return fmt::format("{}..{}", stage.first_layer, stage.last_layer); }
std::string submesh_text(const StagePlan& stage) { return to_text(stage.submesh); }
Json submesh_json(const StagePlan& stage) {
  Json json = Json::array({stage.submesh.hosts, stage.submesh.devices_per_host});
  if (stage.submesh.group != 0) json.push_back(stage.submesh.group);
  return json;
}
std::string logical_text(const StagePlan& stage) { return joined(stage.logical_shape); }

}  // namespace meshwright
