// SPDX-License-Identifier: Apache-2.0
// meshwright diff: two timings of a step side by side, as printed by simulate --json and run --json or written by
// --trace.
#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/pages/step_page.h"
#include "cli/documents/step/trace_timeline.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text_table.h"
#include "report/page/document_pages.h"

namespace meshwright {

namespace {

struct Timing {
  double step_s = 0.0;
  std::optional<StepInterval> interval = std::nullopt;  // of a predicted step
  // [stage] -> seconds of "forward", "backward", "update"; mean on one device. A stage may lack some.
  std::map<int, std::map<std::string, double>> stages;
};

constexpr const char* kParts[] = {"forward", "backward", "update"};

constexpr double kMicrosecond = 1e-6;    // the unit of traces
constexpr double kMaxStepSeconds = 1e9;  // seconds: nobody waits longer for a step

double time_in(const Json& object, const std::string& key, const std::string& place, double unit) {
  const double seconds = get<double>(object, key, place) * unit;
  require(seconds >= 0.0 && seconds <= kMaxStepSeconds, "{}: '{}' is {}; a time from 0 to {} was expected.", place, key,
          seconds / unit, kMaxStepSeconds / unit);
  return seconds;
}

// What run --json measured counts, not what it repeats of the prediction.
Timing timing_from_json(const Json& json, const std::string& place) {
  const std::string prefix = json.contains("measured_step_time_s") ? "measured_" : "";
  Timing timing;
  timing.step_s = time_in(json, prefix + "step_time_s", place, 1.0);
  if (prefix.empty() && json.contains("interval_s") && !json.at("interval_s").is_null()) {
    const auto ends = get<std::vector<double>>(json, "interval_s", place);
    require(ends.size() == 2 && ends[0] >= 0.0 && ends[0] <= timing.step_s && timing.step_s <= ends[1] &&
                ends[1] <= kMaxStepSeconds,
            "{}: 'interval_s' must be the two ends of an interval that holds 'step_time_s', within 0 to {}.", place,
            kMaxStepSeconds);
    timing.interval = StepInterval{Seconds(ends[0]), Seconds(ends[1])};
  }
  const Json& stages = member(json, "stages", place);
  require(stages.is_array(), "{}: 'stages' must be a list.", place);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::string where = fmt::format("{}: stages[{}]", place, s);
    const int stage = get<int>(stages[s], "stage", where);
    require(!timing.stages.contains(stage), "{}: stage {} is listed twice.", where, stage);
    auto& parts = timing.stages[stage];
    for (const char* part : kParts) parts[part] = time_in(stages[s], fmt::format("{}{}_s", prefix, part), where, 1.0);
  }
  return timing;
}

// Forward and backward, which may be several spans each: the sum per microbatch and device. The update: per device.
Timing timing_from_trace(const Json& json, const std::string& place) {
  struct Sum {
    double seconds = 0.0;
    std::set<std::pair<int, int>> runs;  // (device, microbatch)
    std::set<int> devices;
  };
  std::map<int, std::map<std::string, Sum>> sums;
  Timing timing;
  const Json& events = member(json, "traceEvents", place);
  require(events.is_array(), "{}: 'traceEvents' must be a list.", place);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::string where = fmt::format("{}: traceEvents[{}]", place, i);
    const auto phase = get<std::string>(events[i], "ph", where);
    if (phase != "M") timing.step_s = std::max(timing.step_s, time_in(events[i], "ts", where, kMicrosecond));
    if (phase != "X") continue;
    const double seconds = time_in(events[i], "dur", where, kMicrosecond);
    timing.step_s = std::max(timing.step_s, time_in(events[i], "ts", where, kMicrosecond) + seconds);
    const Json& args = member(events[i], "args", where);
    const auto what = get<std::string>(events[i], "cat", where);
    Sum& sum = sums[get<int>(args, "stage", where)][what.starts_with("backward") ? "backward" : what];
    const int device = get<int>(events[i], "pid", where);
    sum.seconds += seconds;
    sum.runs.emplace(device, get<int>(args, "microbatch", where));
    sum.devices.insert(device);
  }
  for (auto& [stage, parts] : sums)
    for (const char* part : kParts) {
      const Sum& sum = parts[part];
      const auto count = part == std::string("update") ? sum.devices.size() : sum.runs.size();
      timing.stages[stage][part] = count == 0 ? 0.0 : sum.seconds / static_cast<double>(count);
    }
  return timing;
}

bool is_trace(const Json& json) { return json.is_object() && json.contains("traceEvents"); }

Timing read_timing(const Json& json, const std::string& path) {
  require(is_trace(json) || (json.is_object() && json.contains("step_time_s") && json.contains("stages")),
          "{}: expected the output of simulate --json or run --json, or a trace; make one with `meshwright simulate "
          "plan.json --json > predicted.json`.",
          path);
  Timing timing = is_trace(json) ? timing_from_trace(json, path) : timing_from_json(json, path);
  require(!timing.stages.empty(), "{}: no stage is timed here; was the file cut short?", path);
  return timing;
}

// The rows of both timelines, where both are known: devices are numbered alike in traces of the same plan.
std::optional<Tracks> pairs_of(const std::array<Json, 2>& read, const std::array<std::string, 2>& paths) {
  if (!is_trace(read[0]) || !is_trace(read[1])) return std::nullopt;
  std::vector<Tracks> tracks;
  for (const std::size_t side : {0, 1}) {
    const auto [timeline, devices, title] = timeline_of_trace(read[side], paths[side]);
    tracks.push_back(tracks_of(timeline, row_devices(timeline, devices, nullptr), ShownMessages::All));
  }
  return paired(tracks[0], tracks[1]);
}

// (first - second) / second; nothing to compare where the second is 0.
Json relative(double first, double second) { return second == 0.0 ? Json(nullptr) : Json((first - second) / second); }

std::string percent(const Json& share) {
  if (share.is_null()) return "-";
  const std::string text = fmt::format("{:+.1f}", share.get<double>() * 100);
  return text == "-0.0" ? "+0.0" : text;  // the sign of a rounding is noise
}

// Whether a measured step is where it was predicted.
std::string held_text(const Timing& first, const Timing& second) {
  if (first.interval.has_value() == second.interval.has_value()) return "";
  const StepInterval& interval = first.interval ? *first.interval : *second.interval;
  const Seconds other(first.interval ? second.step_s : first.step_s);
  return fmt::format("# the {} step is {} the interval of the {}\n", first.interval ? "second" : "first",
                     interval.low <= other && other <= interval.high ? "in" : "outside of",
                     first.interval ? "first" : "second");
}

struct DiffOptions {
  std::string first, second, html;
  bool json = false;
};

void compare(const DiffOptions& options, const std::string& command_line) {
  const auto& [first_path, second_path, html, as_json] = options;
  expect_writable(html, {first_path, second_path});
  const std::array<Json, 2> read = {read_json_file(first_path), read_json_file(second_path)};
  const Timing first = read_timing(read[0], first_path), second = read_timing(read[1], second_path);
  require(first.stages.size() == second.stages.size(),
          "{} has {} stages, {} has {}; they are not timings of the same plan.", first_path, first.stages.size(),
          second_path, second.stages.size());
  const Json step = relative(first.step_s, second.step_s);
  Json stages = Json::array();
  TextTable table(
      {{"stage", ""}, {"what", ""}, {"first", "(ms)"}, {"second", "(ms)"}, {"difference", "(% of second)"}});
  for (const auto& [stage, parts] : first.stages) {
    const auto other = second.stages.find(stage);
    require(other != second.stages.end(), "{} has no stage {}; they are not timings of the same plan.", second_path,
            stage);
    Json row = {{"stage", stage}};
    for (const char* part : kParts) {
      const double a = parts.at(part), b = other->second.at(part);
      const Json share = relative(a, b);
      row[part] = {{"first_s", a}, {"second_s", b}, {"relative_difference", share}};
      table.add_row(
          {fmt::format("{}", stage), part, in_milliseconds(Seconds(a)), in_milliseconds(Seconds(b)), percent(share)});
    }
    stages.push_back(std::move(row));
  }
  const Json json = {{"program", "meshwright"},
                     {"version", MESHWRIGHT_VERSION},
                     {"verb", "diff"},
                     {"first", first_path},
                     {"second", second_path},
                     {"step_time",
                      {{"first_s", first.step_s},
                       {"first_interval_s", interval_json(first.interval)},
                       {"second_s", second.step_s},
                       {"second_interval_s", interval_json(second.interval)},
                       {"relative_difference", step}}},
                     {"stages", std::move(stages)}};
  if (!html.empty()) {
    const std::optional<Tracks> pairs = pairs_of(read, {first_path, second_path});
    Page page = diff_page(json, pairs ? &*pairs : nullptr);
    add_provenance(page, command_line, {});
    write_file(html, to_html(page));
  }
  if (as_json) return print(json);
  print(fmt::format("# first {}  second {}\n", first_path, second_path) + table.to_text() +
        fmt::format("# step time {} ms{} against {} ms{}, {} %\n", in_milliseconds(Seconds(first.step_s)),
                    interval_text(first.interval), in_milliseconds(Seconds(second.step_s)),
                    interval_text(second.interval), percent(step)) +
        held_text(first, second) + (html.empty() ? "" : html_line(html)));
}

}  // namespace

void add_diff(CLI::App& app, Context& context) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* verb = app.add_subcommand("diff", "Compare two timings of a step, predicted or measured.");
  verb->add_option("first", options->first, "output of simulate --json or run --json, or a trace file")->required();
  verb->add_option("second", options->second, "the same kind of file; differences are relative to this one")
      ->required();
  verb->add_option("--html", options->html,
                   "write a report to this HTML file: one file that opens from disk, with both timings and where they "
                   "differ; two traces "
                   "also show both timelines");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer(
      "Example:\n  meshwright simulate plan.json --json > predicted.json\n  meshwright run plan.json --json > "
      "measured.json\n"
      "  meshwright diff predicted.json measured.json");
  verb->callback(
      [&context, options] { context.action = [&context, options] { compare(*options, context.command_line); }; });
}

}  // namespace meshwright
