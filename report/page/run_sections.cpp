// SPDX-License-Identifier: Apache-2.0
#include "report/page/run_sections.h"

#include "report/page/html.h"

namespace meshwright {

namespace {

Seconds seconds_of(const Json& object, const char* name) { return Seconds(object.at(name).get<double>()); }
Bytes bytes_of(const Json& object, const char* name) { return Bytes(object.at(name).get<double>()); }

std::string error_text(double error) { return fmt::format("{}{} %", error > 0.0 ? "+" : "", percent_text(error)); }
std::string error_text(Seconds predicted, Seconds measured) {
  return measured.si() == 0.0 ? "" : error_text(predicted / measured - 1.0);
}

std::string loss_text(const Json& loss) {
  return loss.is_number() ? fmt::format("{:.6g}", loss.get<double>()) : "none";
}

std::string steps_html(const Json& document) {
  constexpr std::size_t kListed = 200;
  HtmlTable table("The steps one by one", {{"step"}, {"measured, ms"}, {"loss"}});
  const Json &times = document.at("step_times_s"), &losses = document.at("losses");
  for (std::size_t i = 0; i < std::min(kListed, times.size()); ++i)
    table.add_row({grouped(static_cast<std::int64_t>(i)), milliseconds_text(Seconds(times[i].get<double>())),
                   i < losses.size() ? loss_text(losses[i]) : ""});
  const std::string summary = times.size() > kListed ? fmt::format("The first {} of {} steps", kListed,
                                                                   grouped(static_cast<std::int64_t>(times.size())))
                                                     : "The steps one by one, warm-up first";
  return details_html(summary, table.html());
}

}  // namespace

void add_run_answer(Page& page, const Plan& plan) {
  const Json& document = page.document;
  const Seconds measured = seconds_of(document, "measured_step_time_s"),
                predicted = seconds_of(document, "step_time_s");
  const bool comparable = document.at("comparable").get<bool>();
  page.answer = fmt::format("{} ran on {} in {} a step; {} were predicted", plan.model.name,
                            counted(plan.cluster.devices(), "device"), time_text(measured), time_text(predicted));
  page.lead = fmt::format(
      "{}, {}, {} precision. {}", document.at("device").get<std::string>(), document.at("libraries").get<std::string>(),
      document.at("precision").get<std::string>(),
      comparable ? fmt::format("The prediction is off by {}.", error_text(document.at("error").get<double>()))
                 : fmt::format("The plan is for {}, not for this machine: do not compare the measured "
                               "time with the predicted one.",
                               plan.cluster.name));
  page.tiles.push_back({"Measured step", time_text(measured),
                        fmt::format("median of {}, fastest {}", counted(document.at("steps").get<int>(), "step"),
                                    time_text(seconds_of(document, "fastest_step_time_s")))});
  page.tiles.push_back(
      {"Predicted step", time_text(predicted), "by " + document.at("predicted_by").get<std::string>()});
  if (comparable)
    page.tiles.push_back({"Error", error_text(document.at("error").get<double>()), "predicted over measured"});
  page.tiles.push_back({"Samples / s", fmt::format("{:.5g}", document.at("samples_per_s").get<double>()), ""});
  page.tiles.push_back({"Peak memory", gibibytes_text(bytes_of(document, "measured_peak_memory_bytes")) + " GiB",
                        gibibytes_text(bytes_of(document, "peak_memory_bytes")) + " GiB predicted"});
  const Json& losses = document.at("losses");
  page.tiles.push_back({"Loss", loss_text(losses.back()), loss_text(losses.front()) + " in the first step"});
}

PageSection measured_section(const Json& document) {
  HtmlTable table("Stages, measured beside predicted", {{"stage", HtmlTable::Align::Text},
                                                        {"pass", HtmlTable::Align::Text},
                                                        {"measured, ms"},
                                                        {"predicted, ms"},
                                                        {"error"}});
  for (const Json& stage : document.at("stages"))
    for (const char* pass : {"forward", "backward", "update"}) {
      const Seconds predicted = seconds_of(stage, fmt::format("{}_s", pass).c_str()),
                    measured = seconds_of(stage, fmt::format("measured_{}_s", pass).c_str());
      table.add_row({fmt::format("stage {}", stage.at("stage").get<int>()), pass, milliseconds_text(measured),
                     milliseconds_text(predicted), error_text(predicted, measured)});
    }
  return {
      "measured", "Measured against predicted",
      "Forward and backward are of one micro-batch on one device, the update of one step; an error is predicted over "
      "measured, less 1.",
      table.html() + steps_html(document)};
}

}  // namespace meshwright
