// SPDX-License-Identifier: Apache-2.0
#include "report/page/answer.h"

#include <cmath>
#include <optional>
#include <set>

#include "core/base/text.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

std::optional<double> number(const Json& document, const char* name) {
  const auto found = document.find(name);
  return found == document.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

std::string rate_text(double rate) {
  return rate >= 1000.0 ? grouped(std::llround(rate)) : fmt::format("{:.4g}", rate);
}

// "64 x 8 H100-SXM5-80GB"
std::string cluster_text(const Cluster& cluster) {
  std::vector<std::string> groups;
  for (const HostGroup& group : cluster.groups)
    groups.push_back(fmt::format("{} x {} {}", group.hosts, group.devices_per_host, group.device.name));
  return join(groups, " and ");
}

std::string answer_of(const Json& document, const Plan& plan) {
  const bool trains = plan.schedule != ScheduleKind::Inference;
  std::string text = fmt::format("{} {} on {} in {} a step", plan.model.name, trains ? "trains" : "is served",
                                 cluster_text(plan.cluster), time_text(Seconds(*number(document, "step_time_s"))));
  if (const auto tokens = number(document, "tokens_per_s"))
    return text + fmt::format(", {} tokens a second", rate_text(*tokens));
  return text + fmt::format(", {} samples a second", rate_text(*number(document, "samples_per_s")));
}

// "4 stages of 128 devices", "3 stages of 2 to 8 devices"
std::string stages_of(const Plan& plan) {
  std::set<std::size_t> sizes;
  for (const StagePlan& stage : plan.stages) sizes.insert(stage.devices.size());
  const auto stages = static_cast<std::int64_t>(plan.stages.size());
  if (sizes.size() == 1)
    return fmt::format("{} of {}", counted(stages, "stage"),
                       counted(static_cast<std::int64_t>(*sizes.begin()), "device"));
  return fmt::format("{} of {} to {} devices", counted(stages, "stage"), *sizes.begin(), *sizes.rbegin());
}

std::string basis_of(const Json& document) {
  const Json& basis = document.at("cost_basis");
  const auto share = [&](const char* name) { return percent_text(basis.at(name).get<double>()); };
  return fmt::format("Costs: {}; of the computing time {} % is measured, {} % interpolated, {} % modelled.",
                     document.at("costs").get<std::string>(), share("measured"), share("interpolated"),
                     share("modelled"));
}

std::string lead_of(const Json& document, const Plan& plan) {
  std::string text =
      fmt::format("{}; {}, {}, batch {}.", stages_of(plan), counted(plan.training.microbatches, "micro-batch"),
                  name_of(plan.schedule), grouped(plan.training.batch));
  if (const auto bound = number(document, "lower_bound_s")) {
    text += fmt::format(" No plan can be faster than {} by our bound, so that this one is within {} %",
                        time_text(Seconds(*bound)), percent_text(*number(document, "gap")));
    if (const auto within = number(document, "lower_bound_within_layers_s"))
      text += fmt::format("; with these layers and micro-batches none is faster than {}, within {} %",
                          time_text(Seconds(*within)), percent_text(*number(document, "gap_within_layers")));
    text += '.';
  }
  if (const Json& circumstances = document.value("circumstances", Json::array()); !circumstances.empty()) {
    std::vector<std::string> sentences;
    for (const Json& sentence : circumstances) sentences.push_back(sentence.get<std::string>());
    text += fmt::format(" {}.", join(sentences, "; "));
  }
  if (const auto fetch = number(document, "fetch_cost_s"))
    text += fmt::format(" Fetching the loss takes {} of a step.", time_text(Seconds(*fetch)));
  if (document.value("interrupted", false))
    text += " The search was interrupted: this is the best plan that it had found.";
  return text + " " + basis_of(document);
}

std::string interval_of(const Json& document) {
  const Json& interval = document.value("interval_s", Json());
  if (const Json& quantiles = document.value("quantiles_s", Json()); quantiles.is_object() && quantiles.contains("0.9"))
    return fmt::format("predicted without variation; with it, 9 of 10 steps take at most {}",
                       time_text(Seconds(quantiles.at("0.9").get<double>())));
  if (!interval.is_array()) return "predicted";
  return fmt::format("predicted, 90 %: {} to {}", time_text(Seconds(interval[0].get<double>())),
                     time_text(Seconds(interval[1].get<double>())));
}

}  // namespace

void add_answer(Page& page, const Plan& plan) {
  const Json& document = page.document;
  page.answer = answer_of(document, plan);
  page.lead = lead_of(document, plan);
  const Seconds step(*number(document, "step_time_s"));
  page.tiles.push_back({"Step time", time_text(step), interval_of(document)});
  if (const auto bound = number(document, "lower_bound_s"))
    page.tiles.push_back(
        {"Lower bound", time_text(Seconds(*bound)), fmt::format("gap {} %", percent_text(*number(document, "gap")))});
  const double samples = *number(document, "samples_per_s");
  if (const auto tokens = number(document, "tokens_per_s")) {
    page.tiles.push_back({"Tokens / s", rate_text(*tokens), rate_text(samples) + " samples / s"});
  } else {
    page.tiles.push_back({"Samples / s", rate_text(samples), ""});
  }
  const std::string tflops = fmt::format("{:.4g} TFLOPS a device", *number(document, "tflops_per_device"));
  if (const auto mfu = number(document, "mfu"))
    page.tiles.push_back({"Model FLOPs used (MFU)", percent_text(*mfu) + " %",
                          fmt::format("{}; HFU {} %", tflops, percent_text(*number(document, "hfu")))});
  else
    page.tiles.push_back({"Work", tflops, ""});
  if (const auto peak = number(document, "peak_memory_bytes")) {
    // What a training software keeps decides whether its plan fits; our own program's count stands beside it.
    const std::string own = gibibytes_text(Bytes(*peak)),
                      usable = gibibytes_text(Bytes(*number(document, "usable_memory_bytes")));
    const auto kept = number(document, "software_memory_bytes"), fits = number(document, "fit_probability");
    if (kept && fits)
      page.tiles.push_back({"Peak memory", gibibytes_text(Bytes(*kept)) + " GiB",
                            fmt::format("as {} keeps it; fits with {} %. As meshwright run would: {} of {} GiB usable",
                                        plan.software, percent_text(*fits), own, usable)});
    else
      page.tiles.push_back({"Peak memory", own + " GiB", fmt::format("of {} GiB usable", usable)});
  }
  if (document.contains("waiting")) {
    const Json& waiting = document.at("waiting");
    const auto percent = [&](const char* part) { return percent_text(waiting.at(part).get<double>()); };
    page.tiles.push_back({"Waiting", percent("share") + " %",
                          fmt::format("messages {}, bubble {}, idle {} % of all devices' time",
                                      percent("messages_share"), percent("bubble_share"), percent("idle_share"))});
  }
  if (const Json& goodput = document.value("goodput", Json()); goodput.is_object())
    page.tiles.push_back({"Goodput", percent_text(goodput.at("share").get<double>()) + " %",
                          goodput.at("share").get<double>() == 0.0
                              ? "devices fail so often that no checkpoint is ever reached"
                              : fmt::format("what failures leave; {} of wall time per step kept",
                                            time_text(Seconds(goodput.at("wall_per_step_s").get<double>())))});
  if (const auto price = number(document, "price_per_step"))
    page.tiles.push_back({"Price of a step", fmt::format("{:.4g}", *price),
                          fmt::format("{:.4g} a million samples", *number(document, "price_per_million_samples"))});
}

PageSection provenance_section(const std::string& lead, const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : rows) html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  return {"provenance", "Provenance", lead, html + "</dl>\n"};
}

}  // namespace meshwright
