// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/measured_run.h"

#include <algorithm>
#include <map>

#include "cli/documents/figures/report.h"
#include "cli/documents/pages/step_page.h"
#include "cli/documents/step/breakdown_text.h"
#include "cli/machine/other_load.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"

namespace meshwright {

namespace {

std::string stage_table(const MeasuredRun& run) {
  TextTable table({{"stage", ""},
                   {"devices", ""},
                   {"forward", "(ms)"},
                   {"predicted", "(ms)"},
                   {"backward", "(ms)"},
                   {"predicted", "(ms)"},
                   {"update", "(ms)"},
                   {"predicted", "(ms)"},
                   {"memory", "(GiB)"},
                   {"predicted", "(GiB)"}});
  for (std::size_t s = 0; s < run.plan.stages.size(); ++s) {
    const StageTimes &measured = run.measured_stages[s], &predicted = run.predicted_stages[s];
    const ProgramStage& stage = run.loaded.program.stages[s];
    table.add_row({fmt::format("{}", s), fmt::format("{}", stage.devices.size()), in_milliseconds(measured.forward),
                   in_milliseconds(predicted.forward), in_milliseconds(measured.backward),
                   in_milliseconds(predicted.backward), in_milliseconds(measured.update),
                   in_milliseconds(predicted.update), in_gibibytes(stage_peak(stage, run.result.peak_memory)),
                   in_gibibytes(stage_peak(stage, run.loaded.check.peak_memory))});
  }
  return table.to_text();
}

// Each tensor with such elements has two rows: one for gradients, one for weights.
std::string noise_line(const RunCheck& checked, Optimizer::Kind optimizer) {
  std::int64_t noise = 0;
  for (const CheckedTensor& tensor : checked.all) noise += tensor.noise;
  if (noise == 0) return "";
  if (optimizer == Optimizer::Kind::Adafactor)
    return fmt::format(
        "# check: {} elements have gradients that are zero except for rounding, which Adafactor turns into steps; "
        "their "
        "tensors are compared to within its longest steps (--json names them)\n",
        noise);
  return fmt::format(
      "# check: {} elements have gradients that are zero except for rounding, which Adam turns into full steps; their "
      "gradients are compared to within rounding, their weights to within Adam's steps (--json names the tensors)\n",
      noise / 2);  // each is compared twice
}

// What all devices on the GPU of `device` take of it, with CUDA itself.
Bytes predicted_in_use(const MeasuredRun& run, std::size_t device) {
  Bytes all = kCudaContext;
  for (std::size_t d = 0; d < run.gpu_needs.size(); ++d)
    if (run.machine.gpu_of_device[d] == run.machine.gpu_of_device[device]) all += run.gpu_needs[d].all();
  return all;
}

// The device whose GPU has the most in use.
std::string gpu_memory_line(const MeasuredRun& run) {
  const std::vector<GpuMemory>& devices = run.result.gpu_memory;
  const auto most = std::max_element(devices.begin(), devices.end(),
                                     [](const GpuMemory& a, const GpuMemory& b) { return a.in_use < b.in_use; });
  if (most == devices.end()) return "";
  const auto device = static_cast<std::size_t>(most - devices.begin());
  return fmt::format(
      "# {} of workspaces beside it, {} predicted at most; {} of the GPU in use, other programs included, {} "
      "predicted\n",
      human_bytes(most->workspace), human_bytes(run.gpu_needs[device].workspace), human_bytes(most->in_use),
      human_bytes(predicted_in_use(run, device)));
}

std::string issued_line(const StepReplaySummary& issued) {
  if (issued.replayed > 0) return fmt::format("# the last {} steps replayed as {}\n", issued.replayed, issued.as);
  return issued.why_none.empty() ? "" : fmt::format("# steps issued op by op: {}\n", issued.why_none);
}

}  // namespace

std::string to_text(const MeasuredRun& run, const RunFiles& files) {
  std::string text = header_lines("run", run.plan) + to_text(run.reuse, "run");
  text += fmt::format("# {} of {}; {}; computed in {}, seed {}\n", run.machine.devices, run.machine.device,
                      run.machine.libraries,
                      run.machine.precision == "plan" ? "the plan's types" : run.machine.precision, run.options.seed);
  text += places_text(run.places);
  if (!run.comparable())
    text += fmt::format(
        "# the plan is for {}, not for this machine: do not compare the measured time with the predicted one\n",
        run.plan.cluster.name);
  if (run.product_algorithms > 0)
    text += fmt::format("# products: {} algorithms from {}\n", run.product_algorithms, run.machine.product_library);
  if (run.machine.shares_gpus())
    text += fmt::format("# {}: devices that share a GPU take turns, also in the prediction\n", run.machine.devices);
  text += stage_table(run);
  if (!run.op_times.empty())
    text += measured_breakdown_text(run.time, run.loaded.program) +
            op_times_text(run.op_times, static_cast<int>(run.loaded.program.devices.size()), run.measured);
  text += fmt::format(
      "# step time {} ms measured (median of {}, fastest {}, after {} warm-up), {} ms predicted{} by {}: error {:+.1f} "
      "%\n",
      in_milliseconds(run.measured), run.options.steps - run.warmup, in_milliseconds(run.fastest), run.warmup,
      in_milliseconds(run.predicted), interval_text(run.interval), run.prediction_source, run.error() * 100);
  if (run.interrupted())
    text += fmt::format("# interrupted: {} of {} steps were run, warm-up among them\n", run.options.steps, run.asked);
  text += issued_line(run.result.issued);
  text += other_load_line(run.other_load_cores);
  text += fmt::format("# {}\n", to_text(throughput(run.plan, run.measured, 1, run.measured_peak)));
  text += fmt::format("# peak memory {} bytes measured, {} bytes predicted\n", run.counted_peak().si(),
                      run.loaded.check.largest_peak().si());
  text += gpu_memory_line(run);
  text +=
      fmt::format("# loss {} in the first step, {} in the last\n", run.result.losses.front(), run.result.losses.back());
  if (!run.result.loss_scales.empty())
    text += fmt::format("# loss scale {} after the last step\n", run.result.loss_scales.front());
  if (run.checked) {
    text += fmt::format(
        "# check: {} tensors and losses agree with one device; largest relative difference {:.3g}; nearest to its "
        "bound: '{}', {:.3g} of {:.3g}\n",
        run.checked->all.size(), run.checked->largest_difference, run.checked->worst.name,
        run.checked->worst.difference, run.checked->worst.bound);
    text += noise_line(*run.checked, run.plan.training.optimizer.kind);
  }
  text += run.data_lines;
  if (!files.trace.empty()) text += fmt::format("# trace of the last step written to {}\n", files.trace);
  if (!files.html.empty()) text += html_line(files.html);
  if (!files.db.empty())
    text += fmt::format(
        "# run stored in {}{}\n", files.db,
        run.measures_stages()
            ? fmt::format(", with the times of its {} stages", run.plan.stages.size())
            : fmt::format(
                  ", without stage times: they were measured on this machine in {}, while the plan is for {} in {}",
                  run.machine.precision, run.plan.cluster.name, name_of(run.plan.training.dtype)));
  return text;
}

namespace {

Json seconds_json(const std::vector<Seconds>& times) {
  Json list = Json::array();
  for (const Seconds time : times) list.push_back(time.si());
  return list;
}

Json stages_json(const MeasuredRun& run) {
  Json stages = Json::array();
  for (std::size_t s = 0; s < run.plan.stages.size(); ++s) {
    const StageTimes &measured = run.measured_stages[s], &predicted = run.predicted_stages[s];
    const ProgramStage& stage = run.loaded.program.stages[s];
    stages.push_back({{"stage", s},
                      {"devices", run.plan.stages[s].devices},
                      {"forward_s", predicted.forward.si()},
                      {"measured_forward_s", measured.forward.si()},
                      {"backward_s", predicted.backward.si()},
                      {"measured_backward_s", measured.backward.si()},
                      {"update_s", predicted.update.si()},
                      {"measured_update_s", measured.update.si()},
                      {"peak_memory_bytes", bytes_json(stage_peak(stage, run.loaded.check.peak_memory))},
                      {"measured_peak_memory_bytes", bytes_json(stage_peak(stage, run.result.peak_memory))}});
  }
  return stages;
}

// [device] what its sends and waits of the measured step took, and what it sent.
struct DeviceTraffic {
  Seconds sends{0.0}, waits{0.0}, computing{0.0};
  Bytes sent{0.0};
  std::int64_t messages = 0;
};

std::vector<DeviceTraffic> traffic_of(const MeasuredRun& run) {
  std::vector<DeviceTraffic> traffic(run.loaded.program.devices.size());
  for (const Span& span : run.result.timeline.spans) {
    DeviceTraffic& own = traffic[span.device.index()];
    const Seconds time = to_seconds(span.end - span.begin);
    if (span.kind == Span::Kind::Send) own.sends += time;
    if (span.kind == Span::Kind::Wait) own.waits += time;
    if (is_compute(span.kind)) own.computing += time;
  }
  for (const Transfer& transfer : run.loaded.program.transfers) {
    traffic[transfer.source.index()].sent += transfer.bytes;
    ++traffic[transfer.source.index()].messages;
  }
  return traffic;
}

Json devices_json(const MeasuredRun& run) {
  const Program& program = run.loaded.program;
  const std::vector<DeviceId> in_cluster = devices_in_cluster(run.plan, program);
  const std::vector<DeviceTraffic> traffic = traffic_of(run);
  Json devices = Json::array();
  for (std::size_t d = 0; d < in_cluster.size(); ++d)
    devices.push_back({{"device", in_cluster[d].value},
                       {"stage", program.stage_of_device[d].value},
                       {"peak_memory_bytes", bytes_json(run.loaded.check.peak_memory[d])},
                       {"measured_peak_memory_bytes", bytes_json(run.result.peak_memory[d])},
                       {"measured_computing_s", traffic[d].computing.si()},
                       {"messages", traffic[d].messages},
                       {"sent_bytes", bytes_json(traffic[d].sent)},
                       {"measured_sends_s", traffic[d].sends.si()},
                       {"measured_waits_s", traffic[d].waits.si()}});
  for (std::size_t d = 0; d < run.result.gpu_memory.size(); ++d) {
    devices[d]["workspace_bytes"] = bytes_json(run.result.gpu_memory[d].workspace);
    devices[d]["gpu_memory_in_use_bytes"] = bytes_json(run.result.gpu_memory[d].in_use);
    const GpuMemoryNeed& need = run.gpu_needs[d];
    devices[d]["predicted_workspace_bytes"] = bytes_json(need.workspace);
    devices[d]["predicted_message_bytes"] = bytes_json(need.messages);
    devices[d]["predicted_page_bytes"] = bytes_json(need.pages);
    devices[d]["predicted_kept_bytes"] = bytes_json(need.kept);
    devices[d]["predicted_in_use_bytes"] = bytes_json(predicted_in_use(run, d));
  }
  return devices;
}

// What passes from device to device in a step, by the Program that ran.
Json channels_json(const MeasuredRun& run) {
  const std::vector<DeviceId> in_cluster = devices_in_cluster(run.plan, run.loaded.program);
  struct Channel {
    std::int64_t messages = 0;
    Bytes bytes{0.0};
  };
  std::map<std::pair<int, int>, Channel> found;
  for (const Transfer& transfer : run.loaded.program.transfers) {
    Channel& own = found[{in_cluster[transfer.source.index()].value, in_cluster[transfer.destination.index()].value}];
    ++own.messages;
    own.bytes += transfer.bytes;
  }
  Json channels = Json::array();
  for (const auto& [ends, channel] : found)
    channels.push_back({{"from", ends.first},
                        {"to", ends.second},
                        {"messages", channel.messages},
                        {"bytes", bytes_json(channel.bytes)}});
  return channels;
}

Json check_json(const RunCheck& checked) {
  Json tensors = Json::array();
  for (const CheckedTensor& tensor : checked.all) {
    tensors.push_back({{"name", tensor.name}, {"relative_difference", tensor.difference}, {"bound", tensor.bound}});
    if (tensor.noise > 0) tensors.back()["elements_of_rounding"] = tensor.noise;
  }
  return tensors;
}

}  // namespace

Json to_json(const MeasuredRun& run, const RunFiles& files) {
  Json json = header_json("run", run.plan);
  add_reuse(json, run.made, run.reuse);
  json["seed"] = run.options.seed;
  json["backend"] = run.machine.kind;
  json["precision"] = run.machine.precision;
  json["other_load_cores"] = run.other_load_cores ? Json(*run.other_load_cores) : Json(nullptr);
  json["device"] = run.machine.device;
  json["libraries"] = run.machine.libraries;
  if (run.machine.gpus > 0) json["gpus"] = run.machine.gpus;
  if (run.machine.processes > 1) json["processes"] = run.machine.processes;
  if (!run.places.empty()) json["places"] = places_json(run.places);
  if (run.machine.product_choices != nullptr) json["product_algorithms"] = run.product_algorithms;
  if (run.result.issued.replayed > 0) json["replayed_as"] = run.result.issued.as;
  if (!run.result.issued.why_none.empty()) json["why_not_replayed"] = run.result.issued.why_none;
  json["comparable"] = run.comparable();
  json["steps"] = run.options.steps - run.warmup;
  json["warmup"] = run.warmup;
  json["interrupted"] = run.interrupted();
  json["step_time_s"] = run.predicted.si();
  json["interval_s"] = interval_json(run.interval);
  json["predicted_by"] = run.prediction_source;
  json["fastest_step_time_s"] = run.fastest.si();
  json["measured_step_time_s"] = run.measured.si();
  json["error"] = run.error();
  json["step_times_s"] = seconds_json(run.result.step_times);
  json["losses"] = run.result.losses;
  if (!run.result.loss_scales.empty()) json["loss_scale"] = run.result.loss_scales.front();
  add_throughput(json, throughput(run.plan, run.measured, 1, run.measured_peak));
  json["peak_memory_bytes"] = bytes_json(run.loaded.check.largest_peak());
  json["measured_peak_memory_bytes"] = bytes_json(run.counted_peak());
  json["stages"] = stages_json(run);
  json["devices"] = devices_json(run);
  json["channels"] = channels_json(run);
  add_time(json, run.time, run.loaded.program);
  json["time"]["passes_split_by"] = run.op_times.empty() ? "costs of ops" : "measured ops";
  if (!run.op_times.empty()) json["op_times"] = op_times_json(run.op_times);
  if (run.checked) {
    json["max_relative_difference"] = run.checked->largest_difference;
    json["check"] = check_json(*run.checked);
  }
  if (!files.db.empty()) json["db"] = files.db;
  return json;
}

}  // namespace meshwright
