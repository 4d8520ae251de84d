// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/ran.h"

#include "cli/documents/report.h"
#include "cli/machine/other_load.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"

namespace meshwright {

namespace {

std::string stage_table(const Ran& ran) {
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
  for (std::size_t s = 0; s < ran.plan.stages.size(); ++s) {
    const StageTimes &measured = ran.measured_stages[s], &predicted = ran.predicted_stages[s];
    const ProgramStage& stage = ran.loaded.program.stages[s];
    table.add_row({fmt::format("{}", s), fmt::format("{}", stage.devices.size()), in_milliseconds(measured.forward),
                   in_milliseconds(predicted.forward), in_milliseconds(measured.backward),
                   in_milliseconds(predicted.backward), in_milliseconds(measured.update),
                   in_milliseconds(predicted.update), in_gibibytes(stage_peak(stage, ran.result.peak_memory)),
                   in_gibibytes(stage_peak(stage, ran.loaded.check.peak_memory))});
  }
  return table.to_text();
}

// Of each tensor with such elements there are two rows: their gradients and their weights.
std::string noise_line(const Checked& checked) {
  std::int64_t twice = 0;
  for (const CheckedTensor& tensor : checked.all) twice += tensor.noise;
  if (twice == 0) return "";
  return fmt::format(
      "# check: {} elements have gradients that are zero except for rounding, which Adam turns into full steps; their "
      "gradients are compared to within rounding, their weights to within Adam's steps (--json names the tensors)\n",
      twice / 2);
}

std::string issued_line(const StepReplaySummary& issued) {
  if (issued.replayed > 0) return fmt::format("# the last {} steps replayed as {}\n", issued.replayed, issued.as);
  return issued.why_none.empty() ? "" : fmt::format("# steps issued op by op: {}\n", issued.why_none);
}

}  // namespace

std::string to_text(const Ran& ran, const RanFiles& files) {
  std::string text = header_lines("run", ran.plan) + to_text(ran.reuse, "run");
  text += fmt::format("# {} of {}; {}; computed in {}, seed {}\n", ran.machine.devices, ran.machine.device,
                      ran.machine.libraries,
                      ran.machine.precision == "plan" ? "the plan's types" : ran.machine.precision, ran.options.seed);
  if (!ran.comparable())
    text += fmt::format(
        "# the plan is for {}, not for this machine: do not compare the measured time with the predicted one\n",
        ran.plan.cluster.name);
  if (ran.product_algorithms > 0)
    text += fmt::format("# products: {} algorithms from {}\n", ran.product_algorithms, ran.machine.product_library);
  if (ran.machine.shares_gpus())
    text += fmt::format("# {}: devices that share a GPU take turns, also in the prediction\n", ran.machine.devices);
  text += stage_table(ran);
  text += fmt::format(
      "# step time {} ms measured (median of {}, fastest {}, after {} warm-up), {} ms predicted by {}: error {:+.1f} "
      "%\n",
      in_milliseconds(ran.measured), ran.options.steps - ran.warmup, in_milliseconds(ran.fastest), ran.warmup,
      in_milliseconds(ran.predicted), ran.prediction_source, ran.error() * 100);
  text += issued_line(ran.result.issued);
  text += other_load_line(ran.other_load_cores);
  text += fmt::format("# {}\n", to_text(throughput(ran.plan, ran.measured)));
  text += fmt::format("# peak memory {} bytes measured, {} bytes predicted\n", ran.counted_peak().si(),
                      ran.loaded.check.largest_peak().si());
  text +=
      fmt::format("# loss {} in the first step, {} in the last\n", ran.result.losses.front(), ran.result.losses.back());
  if (!ran.result.loss_scales.empty())
    text += fmt::format("# loss scale {} after the last step\n", ran.result.loss_scales.front());
  if (ran.checked) {
    text += fmt::format(
        "# check: {} tensors and losses agree with one device; largest relative difference {:.3g}; nearest to its "
        "bound: '{}', {:.3g} of {:.3g}\n",
        ran.checked->all.size(), ran.checked->largest_difference, ran.checked->worst.name,
        ran.checked->worst.difference, ran.checked->worst.bound);
    text += noise_line(*ran.checked);
  }
  if (!files.trace.empty()) text += fmt::format("# trace of the last step written to {}\n", files.trace);
  if (!files.db.empty())
    text += fmt::format(
        "# run stored in {}{}\n", files.db,
        ran.measures_stages()
            ? fmt::format(", with the times of its {} stages", ran.plan.stages.size())
            : fmt::format(
                  ", without stage times: they were measured on this machine in {}, while the plan is for {} in {}",
                  ran.machine.precision, ran.plan.cluster.name, name_of(ran.plan.training.dtype)));
  return text;
}

namespace {

Json seconds_json(const std::vector<Seconds>& times) {
  Json list = Json::array();
  for (const Seconds time : times) list.push_back(time.si());
  return list;
}

Json stages_json(const Ran& ran) {
  Json stages = Json::array();
  for (std::size_t s = 0; s < ran.plan.stages.size(); ++s) {
    const StageTimes &measured = ran.measured_stages[s], &predicted = ran.predicted_stages[s];
    const ProgramStage& stage = ran.loaded.program.stages[s];
    stages.push_back({{"stage", s},
                      {"devices", ran.plan.stages[s].devices},
                      {"forward_s", predicted.forward.si()},
                      {"measured_forward_s", measured.forward.si()},
                      {"backward_s", predicted.backward.si()},
                      {"measured_backward_s", measured.backward.si()},
                      {"update_s", predicted.update.si()},
                      {"measured_update_s", measured.update.si()},
                      {"peak_memory_bytes", bytes_json(stage_peak(stage, ran.loaded.check.peak_memory))},
                      {"measured_peak_memory_bytes", bytes_json(stage_peak(stage, ran.result.peak_memory))}});
  }
  return stages;
}

Json check_json(const Checked& checked) {
  Json tensors = Json::array();
  for (const CheckedTensor& tensor : checked.all) {
    tensors.push_back({{"name", tensor.name}, {"relative_difference", tensor.difference}, {"bound", tensor.bound}});
    if (tensor.noise > 0) tensors.back()["elements_of_rounding"] = tensor.noise;
  }
  return tensors;
}

}  // namespace

Json to_json(const Ran& ran, const RanFiles& files) {
  Json json = header_json("run", ran.plan);
  add_reuse(json, ran.made, ran.reuse);
  json["seed"] = ran.options.seed;
  json["backend"] = ran.machine.kind;
  json["precision"] = ran.machine.precision;
  json["other_load_cores"] = ran.other_load_cores ? Json(*ran.other_load_cores) : Json(nullptr);
  json["device"] = ran.machine.device;
  json["libraries"] = ran.machine.libraries;
  if (ran.machine.gpus > 0) json["gpus"] = ran.machine.gpus;
  if (ran.machine.processes > 1) json["processes"] = ran.machine.processes;
  if (ran.machine.product_choices != nullptr) json["product_algorithms"] = ran.product_algorithms;
  if (ran.result.issued.replayed > 0) json["replayed_as"] = ran.result.issued.as;
  if (!ran.result.issued.why_none.empty()) json["why_not_replayed"] = ran.result.issued.why_none;
  json["comparable"] = ran.comparable();
  json["steps"] = ran.options.steps - ran.warmup;
  json["warmup"] = ran.warmup;
  json["step_time_s"] = ran.predicted.si();
  json["predicted_by"] = ran.prediction_source;
  json["fastest_step_time_s"] = ran.fastest.si();
  json["measured_step_time_s"] = ran.measured.si();
  json["error"] = ran.error();
  json["step_times_s"] = seconds_json(ran.result.step_times);
  json["losses"] = ran.result.losses;
  if (!ran.result.loss_scales.empty()) json["loss_scale"] = ran.result.loss_scales.front();
  add_throughput(json, throughput(ran.plan, ran.measured));
  json["peak_memory_bytes"] = bytes_json(ran.loaded.check.largest_peak());
  json["measured_peak_memory_bytes"] = bytes_json(ran.counted_peak());
  json["stages"] = stages_json(ran);
  if (ran.checked) {
    json["max_relative_difference"] = ran.checked->largest_difference;
    json["check"] = check_json(*ran.checked);
  }
  if (!files.db.empty()) json["db"] = files.db;
  return json;
}

}  // namespace meshwright
