// SPDX-License-Identifier: Apache-2.0
// meshwright sweep: plan every point of a grid; finished points are kept in a database, so a sweep that was killed or
// interrupted goes on where it was, and several processes with the same command share the points.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/price.h"
#include "cli/documents/search/planning.h"
#include "cli/machine/shared_points.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/verbs/sweep_points.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "report/charts/document_charts.h"
#include "report/page/document_pages.h"

namespace meshwright {

namespace {

struct SweepOptions : SweepGrid {
  std::string db, output;
  std::string html, svg, chart = "heat-map", axes = "step,memory";
};

using Point = SweepPlace;

constexpr double kSecondsPerHour = 3600.0;

// `intervals`: with a column of them.
std::string table_text(const std::vector<Point>& points, std::optional<std::size_t> best, bool intervals) {
  constexpr std::ptrdiff_t kAfterStep = 5;
  std::vector<TextTable::Column> columns = {
      {"best", ""},   {"schedule", ""}, {"layers", ""},          {"micro-batches", ""}, {"step", "(ms)"},
      {"gap", "(%)"}, {"stages", ""},   {"longest wait", "(%)"}, {"memory", "(GiB)"},   {"per device", "(TFLOPS)"},
      {"remark", ""}};
  if (intervals) columns.insert(columns.begin() + kAfterStep, {"90 %", "(ms)"});
  TextTable table(columns);
  const auto add = [&](std::vector<std::string> row, const std::string& interval) {
    if (intervals) row.insert(row.begin() + kAfterStep, interval);
    table.add_row(row);
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const Json& r = point.result;
    if (!point.feasible()) {
      add({"", point.options.schedule, point.options.layers, point.options.micro_batches, "-", "-", "-", "-", "-", "-",
           point.reason()},
          "-");
      continue;
    }
    const auto number = [&](const char* key) { return r.at(key).get<double>(); };
    add({best == i ? "*" : "", r.at("schedule").get<std::string>(),
         fmt::format("{}", r.at("num_layers").get<std::int64_t>()),
         fmt::format("{}", r.at("num_micro_batches").get<std::int64_t>()),
         in_milliseconds(Seconds(number("step_time_s"))), in_percent(number("gap")),
         fmt::format("{}", r.at("num_stages").get<std::int64_t>()), in_percent(number("longest_stage_wait_share")),
         in_gibibytes(Bytes(number("peak_memory_bytes"))), fmt::format("{:.4g}", number("tflops_per_device")), ""},
        interval_of(r, "a point"));
  }
  return table.to_text();
}

// `prices`: of a device of each host group for an hour; empty: not known.
Json points_json(const std::vector<Point>& points, const DevicePrices& prices) {
  Json rows = Json::array();
  for (const Point& point : points) {
    Json row = {{"schedule", point.options.schedule},
                {"layers", point.options.layers},
                {"micro_batches", point.options.micro_batches}};
    for (const auto& [key, value] : point.result.items())
      if (key != kUncertainty && key != kDevicesOfGroups) row[key] = value;
    if (!prices.empty() && point.feasible()) {
      double per_hour = 0.0;
      for (std::size_t g = 0; g < prices.size(); ++g)
        per_hour += prices[g] * point.result.at(kDevicesOfGroups).at(g).get<double>();
      row["price_per_step"] = per_hour * point.step() / kSecondsPerHour;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

struct Sweep {
  std::vector<Point> points;  // those that are finished, in the order of the grid
  std::size_t left = 0;       // others: a signal came before they were
  std::optional<std::size_t> best;
  std::optional<Plan> plan;  // of the best; unset when the point came from the database
};

// The points of a sweep that this process finishes, beside others that may have been started with the same command.
class SweepWork {
 public:
  SweepWork(std::vector<Point>& points, const Costs& costs, const std::string& db)
      : points_(points), costs_(costs), db_path_(db), db_(db, ProfileDb::Mode::ReadWrite), shared_(db + "-points") {
    for (const Point& point : points) keys_.push_back(key_of(point, costs));
    done_.resize(points.size(), false);
  }

  // Fills in the points' results, from the database or by planning; each is committed before the next begins. What
  // another process is planning is waited for, and planned here if that process ends without. A signal ends it; the
  // point whose search it cuts short is as unfinished as those after it.
  void finish_all(const StartedPlace& place) {
    const std::size_t count = points_.size();
    const std::size_t first = count * static_cast<std::size_t>(place.number) / static_cast<std::size_t>(place.of);
    for (;;) {
      bool waits = false;
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t i = (first + k) % count;
        if (!done_[i] && !stop()) waits |= !finish(i);
      }
      if (stop()) return take_all_stored();
      if (!waits) return;
      std::this_thread::sleep_for(kPause);
    }
  }
  [[nodiscard]] bool is_done(std::size_t i) const { return done_[i]; }
  // The plan of point `i`, where it is the best so far and was planned here.
  [[nodiscard]] std::optional<Plan> plan_of(std::size_t i) const { return planned_ == i ? plan_ : std::nullopt; }

 private:
  static constexpr auto kPause = std::chrono::milliseconds(100);

  [[nodiscard]] bool stop() const { return interruption_.requested(); }

  // False: another process has the point.
  bool finish(std::size_t i) {
    if (take_stored(i)) return true;
    if (!shared_.claim(keys_[i])) return false;
    // Another process may have finished it before its claim ended.
    if (!take_stored(i)) plan(i);
    shared_.release(keys_[i]);
    return true;
  }

  [[nodiscard]] std::string lead(std::size_t i, const std::string& left) const {
    return fmt::format("point {}/{}{} {}: ", i + 1, points_.size(), left, name_of_point(points_[i]));
  }

  bool take_stored(std::size_t i) {
    const std::optional<std::string> stored = db_.sweep_result(keys_[i]);
    if (!stored) return false;
    Progress()(lead(i, "") + "stored");
    points_[i].result = stored_result(*stored, db_path_);
    done_[i] = true;
    return true;
  }

  // What an earlier run has stored is finished, though a signal came before it was looked at.
  void take_all_stored() {
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (!done_[i]) (void)take_stored(i);
  }

  void plan(std::size_t i) {
    // Points that are stored take no time: those that were searched tell how long the rest may take.
    const auto open = static_cast<double>(std::count(done_.begin(), done_.end(), false));
    const std::string left =
        searched_ == 0 ? "" : fmt::format(" (about {} left)", roughly(open / searched_ * (now() - begin_)));
    std::optional<Plan> plan;
    std::optional<Json> result = plan_point(
        points_[i], costs_, lead(i, left), [this] { return stop(); }, &plan);
    ++searched_;
    if (!result) return;
    points_[i].result = *std::move(result);
    db_.put_sweep_point({keys_[i], json_text(points_[i].result)});
    done_[i] = true;
    const bool better = points_[i].feasible() && (!planned_ || points_[i].step() < points_[*planned_].step() ||
                                                  (points_[i].step() == points_[*planned_].step() && i < *planned_));
    if (!better) return;
    planned_ = i;
    plan_ = std::move(plan);
  }

  std::vector<Point>& points_;
  const Costs& costs_;
  const std::string& db_path_;
  const Interruption interruption_;
  ProfileDb db_;
  SharedPoints shared_;
  std::vector<std::string> keys_;
  std::vector<bool> done_;
  const Seconds begin_ = now();
  double searched_ = 0.0;
  std::optional<std::size_t> planned_;
  std::optional<Plan> plan_;  // of that
};

Sweep finish(std::vector<Point> points, const Costs& costs, const std::string& db, const StartedPlace& place) {
  SweepWork work(points, costs, db);
  work.finish_all(place);
  Sweep sweep;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!work.is_done(i)) continue;
    sweep.points.push_back(std::move(points[i]));
    const Point& done = sweep.points.back();
    if (!done.feasible() || (sweep.best && sweep.points[*sweep.best].step() <= done.step())) continue;
    sweep.best = sweep.points.size() - 1;
    sweep.plan = work.plan_of(i);
  }
  sweep.left = points.size() - sweep.points.size();
  return sweep;
}

// Points that cannot be told from the best one. Points of a database from before points had an interval are left out.
std::vector<Rival> rivals_of(const Sweep& sweep) {
  std::vector<Rival> rivals;
  if (!sweep.best || !sweep.points[*sweep.best].result.contains(kUncertainty)) return rivals;
  const auto uncertainty_of_point = [&](std::size_t i) {
    return uncertainty_from_json(sweep.points[i].result.at(kUncertainty), "a point");
  };
  const StepUncertainty best = uncertainty_of_point(*sweep.best);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const Point& point = sweep.points[i];
    if (i == *sweep.best || !point.feasible() || !point.result.contains(kUncertainty)) continue;
    const StepComparison comparison = compare_steps(best, uncertainty_of_point(i));
    if (!comparison.decided()) rivals.push_back({name_of_point(point), comparison});
  }
  return rivals;
}

// Planning is deterministic: searching a stored point again gives the plan its figures came from.
void write_best(const Sweep& sweep, const Costs& costs, const SweepOptions& options) {
  const Point& point = sweep.points[*sweep.best];
  std::optional<Plan> plan = sweep.plan;
  if (!plan) (void)plan_point(point, costs, "best point: ", nullptr, &plan);
  require(plan && plan->predicted.step_time.si() == point.step(),
          "{}: the best point is stored with a step time of {} s, but planning it again gives another one; the "
          "database comes from another build or was changed. Give another --db.",
          options.db, point.step());
  write_plan(*plan, options.output);
}

Json to_json(const Sweep& sweep, const PlanRequest& request, const Costs& costs, const DevicePrices& prices) {
  Json json = {{"program", "meshwright"},
               {"version", MESHWRIGHT_VERSION},
               {"verb", "sweep"},
               {"model", request.model.name},
               {"cluster", request.cluster.name},
               {"batch", request.training.batch},
               {"method", request.search.method.text},
               {"costs", costs.source},
               {"points", points_json(sweep.points, prices)}};
  json["best"] = sweep.best ? Json(*sweep.best) : Json(nullptr);
  if (sweep.best) json["step_time_s"] = sweep.points[*sweep.best].step();
  json["undecided"] = rivals_json(rivals_of(sweep), request.software);
  json["interrupted"] = sweep.left > 0;
  json["points_left"] = sweep.left;
  return json;
}

std::string picture_of_sweep(const Json& document, const SweepOptions& options) {
  if (options.chart == "heat-map") return sweep_heat_map(document).file();
  const Json& points = document.at("points");
  const std::string title = fmt::format("Plans of {} on {}", document.at("model").get<std::string>(),
                                        document.at("cluster").get<std::string>());
  return front_chart(points, axes_from_text(options.axes, points, "--axes"), title).file();
}

std::string document(const Sweep& sweep, const PlanRequest& request, const Costs& costs, const SweepOptions& options) {
  const std::string left = sweep.left > 0 ? fmt::format("# interrupted: {} points are missing\n", sweep.left) : "";
  const std::string drawn = options.svg.empty() ? "" : fmt::format("# {} drawn in {}\n", options.chart, options.svg);
  return fmt::format("# meshwright {}  sweep  model {}  cluster {}  batch {}  method {}\n# costs: {}\n",
                     MESHWRIGHT_VERSION, request.model.name, request.cluster.name, request.training.batch,
                     request.search.method.text, costs.source) +
         condition_lines(request.conditions) + table_text(sweep.points, sweep.best, costs.software.has_value()) +
         (sweep.best ? rivals_line("the best point", rivals_of(sweep), request.software) : "") + drawn +
         (options.html.empty() ? "" : html_line(options.html)) + left;
}

void sweep(SweepOptions options, const std::string& command_line) {
  complete(options.planning);
  require(!options.db.empty(), "--db is missing; give the database for the finished points, such as --db sweep.db.");
  (void)seed_from_text(options.planning.seed);
  const Cluster cluster = cluster_from_options(options.planning);
  const Costs costs = costs_for(cluster, options.planning.profile, options.planning.software);
  const DevicePrices prices = device_prices_from_text(options.planning.price, cluster);
  require(options.chart == "heat-map" || options.chart == "front",
          "--chart: '{}' is neither heat-map nor front; give one of them.", options.chart);
  std::vector<Point> points = points_of(options, cluster);
  std::vector<std::string> others = files_read(options.planning);
  others.push_back(options.db);
  expect_writable(options.output, others);
  others.push_back(options.output);
  expect_writable(options.svg, others);
  others.push_back(options.svg);
  expect_writable(options.html, others);
  const PlanRequest request = points.front().request;  // what does not change over the grid
  const StartedPlace place = started_place();
  const Sweep done = finish(std::move(points), costs, options.db, place);
  if (!place.speaks && done.left == 0) return;  // the first process says the same
  const Json json = to_json(done, request, costs, prices);
  const bool all_refused =
      done.left == 0 && std::all_of(done.points.begin(), done.points.end(), [](const Point& point) {
        return !point.feasible() && point.result.at("refused").get<bool>();
      });
  if (all_refused) throw InputError(done.points.front().reason());
  if (done.left == 0 && done.best && !options.output.empty()) write_best(done, costs, options);
  if (!options.html.empty()) {
    Page page = sweep_page(json);
    add_provenance(page, command_line, options.planning.profile);
    write_file(options.html, to_html(page));
  }
  if (!options.svg.empty()) write_file(options.svg, picture_of_sweep(json, options));
  options.planning.json ? print(json) : print(document(done, request, costs, options));
  if (done.left > 0)
    throw Interrupted(
        fmt::format("the sweep was interrupted with {} of {} points finished; they are stored in {}, and the same "
                    "command plans the others.",
                    done.points.size(), done.points.size() + done.left, options.db));
  if (!done.best)
    throw NoFeasiblePlan(fmt::format("no point of the sweep has a feasible plan; reason of the first: {}",
                                     done.points.front().reason()));
}

}  // namespace

void add_sweep(CLI::App& app, Context& context) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* verb = app.add_subcommand("sweep", "Plan every point of a grid of layers, micro-batches and schedules.");
  add_planning_options(*verb, options->planning, GridOptions::Lists);
  verb->add_option("--layers", options->layers, "numbers of layers, such as 4,8,16, or auto")->capture_default_str();
  verb->add_option("--micro-batches", options->micro_batches, "numbers of micro-batches, such as 8,16,32, or auto")
      ->capture_default_str();
  verb->add_option("--schedule", options->schedules,
                   "schedules, such as 1f1b,zb-h1,interleaved:2, or auto (default: as for plan)")
      ->capture_default_str();
  add_software_option(*verb, options->planning.software, kNoSoftware);
  add_software_setup_options(*verb, options->planning.software_setup);
  add_profile_options(*verb, options->planning.profile, kProfileHelp);
  verb->add_option("--db", options->db,
                   "database for the finished points, required; a rerun of the same command resumes from it");
  verb->add_option("-o,--output", options->output, "write the best plan of the whole grid to this file");
  verb->add_option(
      "--html", options->html,
      "write a report to this HTML file: one file that opens from disk, with heat maps, fronts and all points");
  verb->add_option("--svg", options->svg, "draw the points as an SVG picture in this file");
  verb->add_option(
          "--chart", options->chart,
          "what --svg draws: heat-map (a grid of layers and micro-batches per schedule) or front (points by two "
          "numbers, and those that no other beats)")
      ->capture_default_str()
      ->needs(verb->get_option("--svg"));
  verb->add_option(
      "--price-per-device-hour", options->planning.price,
      "price of one device for one hour, such as 2.5, one per host group where the cluster has several: plans "
      "then have a price per step");
  verb->add_option("--axes", options->axes, "of --chart front: two of step, memory, devices and price")
      ->capture_default_str()
      ->needs(verb->get_option("--svg"));
  verb->footer(
      "Example:\n  meshwright sweep --model gpt-1.3b --cluster p3.16xlarge:1 --layers 4,8 --micro-batches 16,32 --db "
      "sweep.db");
  verb->callback(
      [&context, options] { context.action = [&context, options] { sweep(*options, context.command_line); }; });
}

}  // namespace meshwright
