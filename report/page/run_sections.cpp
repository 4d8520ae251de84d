// SPDX-License-Identifier: Apache-2.0
#include "report/page/run_sections.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/charts/line_chart.h"
#include "report/page/chart_html.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

Seconds seconds_of(const Json& object, const char* name) { return Seconds(object.at(name).get<double>()); }
Bytes bytes_of(const Json& object, const char* name) { return Bytes(object.at(name).get<double>()); }

std::string error_text(double error) { return fmt::format("{}{} %", error > 0.0 ? "+" : "", percent_text(error)); }
std::string error_text(Seconds predicted, Seconds measured) {
  return measured.si() == 0.0 ? "" : error_text(predicted / measured - 1.0);
}

std::string mebibytes_text(Bytes bytes) { return fmt::format("{:.3f}", bytes.si() / (1 << 20)); }

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
  if (document.at("interrupted").get<bool>())
    page.lead += fmt::format(" A signal ended the run after {}, warm-up among them.",
                             counted(static_cast<std::int64_t>(document.at("step_times_s").size()), "step"));
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

std::optional<PageSection> loss_section(const Json& document) {
  std::vector<double> losses, times;
  for (const Json& loss : document.at("losses"))
    losses.push_back(loss.is_number() ? loss.get<double>() : std::numeric_limits<double>::quiet_NaN());
  for (const Json& time : document.at("step_times_s")) times.push_back(1e3 * time.get<double>());
  const auto known = [](const std::vector<double>& values) {
    return std::count_if(values.begin(), values.end(), [](double value) { return std::isfinite(value); }) > 1;
  };
  if (!known(losses)) return std::nullopt;
  const std::string steps = counted(static_cast<std::int64_t>(losses.size()), "step");
  std::string html =
      "<div class=\"beside\">\n<div>" +
      chart_html(
          line_svg(losses, {"Loss", fmt::format("The loss of each of {}.", steps), "step", "loss"}, Hue::Forward)) +
      "</div>\n";
  if (known(times))
    html += "<div>" +
            chart_html(line_svg(
                times, {"Step times", fmt::format("How long each of {} took.", steps), "step", "step time, ms"},
                Hue::Update)) +
            "</div>\n";
  return PageSection{
      "loss", "Loss and step times",
      fmt::format("The loss went from {} to {} in {}; warm-up is among them.", loss_text(document.at("losses").front()),
                  loss_text(document.at("losses").back()), steps),
      html + "</div>\n"};
}

namespace {

constexpr std::size_t kDevicesListed = 64;

std::string cut_text(std::size_t all, std::size_t listed, const char* what) {
  return all <= listed ? "" : fmt::format(" The first {} of {} {} are listed.", listed, all, what);
}

}  // namespace

PageSection measured_memory_section(const Json& document, const PageSection* predicted) {
  const Json& devices = document.at("devices");
  HtmlTable table(
      "Peak memory of each device",
      {{"device"}, {"stage"}, {"measured, bytes"}, {"predicted, bytes"}, {"difference, bytes"}, {"measured, GiB"}});
  std::size_t equal = 0;
  for (const Json& device : devices) {
    const auto measured = bytes_of(device, "measured_peak_memory_bytes"),
               expected = bytes_of(device, "peak_memory_bytes");
    equal += measured == expected ? 1 : 0;
    if (table.rows() >= kDevicesListed) continue;
    const auto whole = [](Bytes bytes) { return grouped(std::llround(bytes.si())); };
    table.add_row({fmt::format("{}", device.at("device").get<int>()), fmt::format("{}", device.at("stage").get<int>()),
                   whole(measured), whole(expected), whole(measured - expected), gibibytes_text(measured)});
  }
  PageSection section{"memory", "Memory",
                      fmt::format("The fullest device held {} GiB, as the pools of the run counted; {} of {} peaked at "
                                  "the predicted byte.{}{}",
                                  gibibytes_text(bytes_of(document, "measured_peak_memory_bytes")), equal,
                                  counted(static_cast<std::int64_t>(devices.size()), "device"),
                                  cut_text(devices.size(), kDevicesListed, "devices"),
                                  predicted == nullptr ? "" : " The curve is the predicted one."),
                      table.html()};
  if (predicted != nullptr) {
    section.html += predicted->html;
    section.scripts = predicted->scripts;
  }
  return section;
}

std::optional<PageSection> measured_links_section(const Json& document, const std::vector<CollectiveRow>& collectives) {
  const Json &devices = document.at("devices"), &channels = document.at("channels");
  if (channels.empty() && collectives.empty()) return std::nullopt;
  PageSection section{"links", "Messages and collectives", "", ""};
  Bytes sent(0.0);
  std::int64_t messages = 0;
  for (const Json& channel : channels) {
    sent += bytes_of(channel, "bytes");
    messages += channel.at("messages").get<std::int64_t>();
  }
  if (!channels.empty())
    section.lead = fmt::format("{} with {} GiB pass between {} of devices in a step.", counted(messages, "message"),
                               gibibytes_text(sent), counted(static_cast<std::int64_t>(channels.size()), "pair"));
  section.lead += cut_text(channels.size(), kDevicesListed, "pairs");
  const double step = document.at("measured_step_time_s").get<double>();
  if (!channels.empty()) {
    HtmlTable by_device("Sending and waiting of each device in the last step", {{"device"},
                                                                                {"messages"},
                                                                                {"sent, MiB"},
                                                                                {"sending, ms"},
                                                                                {"while sending, GB/s"},
                                                                                {"waiting for others, ms"},
                                                                                {"waiting, % of the step"},
                                                                                {"computing, ms"}});
    for (const Json& device : devices) {
      if (by_device.rows() >= kDevicesListed) break;
      const Seconds sends = seconds_of(device, "measured_sends_s"), waits = seconds_of(device, "measured_waits_s");
      const Bytes bytes = bytes_of(device, "sent_bytes");
      by_device.add_row(
          {fmt::format("{}", device.at("device").get<int>()), grouped(device.at("messages").get<std::int64_t>()),
           mebibytes_text(bytes), milliseconds_text(sends),
           sends.si() > 0.0 && bytes.si() > 0.0 ? fmt::format("{:.3g}", bytes.si() / sends.si() / 1e9) : "",
           milliseconds_text(waits), step > 0.0 ? percent_text(waits.si() / step) : "",
           milliseconds_text(seconds_of(device, "measured_computing_s"))});
    }
    HtmlTable pairs("What passes between devices in a step",
                    {{"channel", HtmlTable::Align::Text}, {"messages"}, {"MiB"}, {"over the step, MB/s"}});
    for (const Json& channel : channels) {
      if (pairs.rows() >= kDevicesListed) break;
      const Bytes bytes = bytes_of(channel, "bytes");
      pairs.add_row({fmt::format("device {} to {}", channel.at("from").get<int>(), channel.at("to").get<int>()),
                     grouped(channel.at("messages").get<std::int64_t>()), mebibytes_text(bytes),
                     step > 0.0 ? fmt::format("{:.3g}", bytes.si() / step / 1e6) : ""});
    }
    section.html += by_device.html() + pairs.html();
  }
  if (!collectives.empty()) {
    HtmlTable table("Collectives of a step on one device of each stage", {{"stage"},
                                                                          {"collective", HtmlTable::Align::Text},
                                                                          {"in", HtmlTable::Align::Text},
                                                                          {"devices"},
                                                                          {"count"},
                                                                          {"MiB"},
                                                                          {"predicted, ms"},
                                                                          {"predicted, GB/s"}});
    for (const CollectiveRow& row : collectives)
      table.add_row({fmt::format("{}", row.stage), name_of(row.kind), row.phase, fmt::format("{}", row.group),
                     grouped(row.count), mebibytes_text(row.bytes), milliseconds_text(row.time),
                     row.time.si() > 0.0 ? fmt::format("{:.3g}", row.bytes.si() / row.time.si() / 1e9) : ""});
    section.lead += " Collectives are parts of passes; what they took by themselves was not measured.";
    section.html += table.html();
  }
  return section;
}

}  // namespace meshwright
