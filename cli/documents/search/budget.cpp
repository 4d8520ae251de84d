// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/budget.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <map>

#include "cli/documents/search/dump.h"
#include "cli/documents/search/front.h"
#include "cli/documents/search/step_times.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/planner/bounds/work_bound.h"
#include "core/planner/cluster_size.h"

namespace meshwright {

namespace {

constexpr double kSecondsPerDay = 86400.0;
constexpr double kTooManyTokens = 1e18;

double days_of(Seconds time) { return time.si() / kSecondsPerDay; }
std::string days_text(Seconds time) { return fmt::format("{:.4g}", days_of(time)); }

// The run that is asked for.
struct TrainingRun {
  double tokens = 0.0;
  std::int64_t tokens_per_step = 1;
  std::int64_t batch = 1;
  std::optional<double> deadline_days = {}, max_price = {};
};

TrainingRun run_of(const PlanningOptions& options, const BudgetOptions& budget, const Cluster& cluster) {
  require(!budget.tokens.empty(), "--tokens is missing: {} is of a run of so many tokens; give them, as in 300B.",
          budget.max_price.empty() ? "--deadline-days" : "--max-price");
  // The front of sizes is not that of one cluster's plans, and asks nothing of the method.
  PlanningOptions of_plans = options;
  of_plans.front = false, of_plans.front_folder.clear();
  const PlanRequest request = request_from_options(of_plans, cluster);
  require(request.trains(),
          "--tokens: is of a training run, but --schedule inference serves a trained model; leave one "
          "of them out.");
  require(request.model.seq > 0, "--tokens: model {} has no sequence of tokens; leave the option out.",
          request.model.name);
  constexpr double kMin = std::numeric_limits<double>::min(), kAny = std::numeric_limits<double>::infinity();
  TrainingRun run{tokens_from_text(budget.tokens), request.training.batch * request.model.seq, request.training.batch};
  if (!budget.deadline_days.empty())
    run.deadline_days = number_from_text(budget.deadline_days, "--deadline-days", kMin, kAny,
                                         "a positive number; give days, as in 30 or 0.5");
  if (!budget.max_price.empty())
    run.max_price =
        number_from_text(budget.max_price, "--max-price", kMin, kAny, "a positive number; give a price, as in 50000");
  return run;
}

// What one host of a group costs and draws.
HostRates rates_of_group(const DevicePrices& prices, const Cluster& cluster, std::size_t group) {
  const HostGroup& hosts = cluster.groups[group];
  HostRates rates;
  if (!prices.empty()) rates.price_per_hour = hosts.devices_per_host * prices[group];
  if (hosts.device.watts) rates.watts = hosts.devices_per_host * *hosts.device.watts;
  return rates;
}

// All hosts of the cluster as one.
HostRates rates_of_all(const DevicePrices& prices, const Cluster& cluster) {
  HostRates all{.price_per_hour = 0.0, .watts = 0.0};
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    const HostRates own = rates_of_group(prices, cluster, g);
    const double hosts = cluster.groups[g].hosts;
    all.price_per_hour = all.price_per_hour && own.price_per_hour
                             ? std::optional(*all.price_per_hour + hosts * *own.price_per_hour)
                             : std::nullopt;
    all.watts = all.watts && own.watts ? std::optional(*all.watts + hosts * *own.watts) : std::nullopt;
  }
  return all;
}

std::string price_text(const std::optional<double>& price) { return price ? fmt::format("{:.6g}", *price) : "?"; }

std::string run_line(const TrainingRun& run, const RunCost& cost) {
  std::string text =
      fmt::format("# a run of {:.6g} tokens: {} steps, {} days", run.tokens, cost.steps, days_text(cost.time));
  if (cost.price) text += fmt::format(", price {}", price_text(cost.price));
  if (cost.kilowatt_hours) text += fmt::format(", {} kWh", price_text(cost.kilowatt_hours));
  text += cost.price || cost.kilowatt_hours ? " of all devices of the hosts\n" : "\n";
  if (!cost.price)
    text +=
        "# what a device costs is not known: give --price-per-device-hour, or a cluster file with "
        "price_per_device_hour\n";
  if (!cost.kilowatt_hours) text += "# what a device draws is not known: give a cluster file with watts\n";
  return text;
}

void add_cost(Json& json, const RunCost& cost) {
  json["steps"] = cost.steps;
  json["days"] = days_of(cost.time);
  json["price"] = cost.price ? Json(*cost.price) : Json(nullptr);
  json["kilowatt_hours"] = cost.kilowatt_hours ? Json(*cost.kilowatt_hours) : Json(nullptr);
}

// --- one cluster ---

void report_one(const PlanningOptions& options, const Cluster& cluster, PlanReport report, const TrainingRun& run) {
  const HostRates rates = rates_of_all(device_prices_from_text(options.price, cluster), cluster);
  report.note = [run, rates](const Plan& plan) {
    const RunCost cost = run_cost(run.tokens, run.tokens_per_step, plan.predicted.step_time, 1, rates);
    Json json = {{"tokens", run.tokens}};
    add_cost(json, cost);
    return PlanNote{run_line(run, cost), {{"run", std::move(json)}}};
  };
  const Costs costs = costs_for(cluster, options.profile, options.software);
  plan_and_report(options, cluster, costs, report);
}

// --- the number of hosts ---

// What has no meaning for several clusters, or would be written several times.
void expect_options_of_sizes(const PlanningOptions& options, const TrainingRun& run, const Cluster& cluster) {
  const char* flag = run.deadline_days ? "--deadline-days" : run.max_price ? "--max-price" : "--pareto";
  require(cluster.uniform(),
          "{}: chooses how many hosts of one kind a run needs, but {} has {} kinds; give a cluster of one.", flag,
          cluster.name, cluster.groups.size());
  require(options.stage_profile.empty() && options.write_stage_profile.empty(),
          "{}: {} is of one cluster, but numbers of hosts are compared; leave one of them out.", flag,
          options.stage_profile.empty() ? "--write-stage-profile" : "--stage-profile");
}

// Plans numbers of hosts of a cluster.
class HostPlanner {
 public:
  // `dumps`: the stage tables of the searches are kept.
  HostPlanner(PlanningOptions options, const Cluster& cluster, bool dumps, const Interruption& interruption)
      : options_(std::move(options)), cluster_(cluster), dumps_(dumps), interruption_(interruption) {}

  [[nodiscard]] SizePlanner planner() {
    return {.plan = [this](int hosts) { return plan(hosts); },
            .bound = [this](int hosts) { return bound(hosts); },
            .keep = [this](int /*hosts*/) { kept_ = std::move(latest_); },
            .stop = [this] { return interruption_.requested(); }};
  }
  [[nodiscard]] const std::map<int, Plan>& plans() const { return plans_; }  // by hosts
  // The search of the answer.
  [[nodiscard]] std::shared_ptr<FinishedSearch> kept() const { return kept_; }
  // Why the options suit not even the whole cluster.
  [[nodiscard]] const std::optional<std::string>& refused() const { return refused_; }

 private:
  [[nodiscard]] SizePlanner::Answer plan(int hosts) {
    const Cluster part = take_part(cluster_, hosts, 0);
    try {
      PlanRequest request = request_from_options(options_, part);
      request.stop = [this] { return interruption_.requested(); };
      latest_ = std::make_shared<FinishedSearch>();
      request.record = latest_->considered.get();
      request.stage_profile.keep = dumps_;
      std::optional<StepTimes> steps;
      if (options_.log_steps) request.steps = &steps.emplace();
      const Costs costs = costs_for(part, options_.profile, options_.software);
      PlanningOutcome& outcome = latest_->outcome;
      outcome = search_plan(std::move(request), costs, fmt::format("{} host{}: ", hosts, hosts == 1 ? "" : "s"));
      if (!outcome.planned) return {std::nullopt, outcome.reason};
      const Seconds step = outcome.planned->plan.predicted.step_time;
      plans_.insert_or_assign(hosts, outcome.planned->plan);
      return {step, ""};
    } catch (const InputError& error) {
      // Options may suit some numbers of hosts alone.
      if (hosts == cluster_.hosts()) refused_ = error.what();
      return {std::nullopt, error.what()};
    }
  }

  [[nodiscard]] Seconds bound(int hosts) const {
    const Cluster part = take_part(cluster_, hosts, 0);
    try {
      const Costs costs = costs_for(part, options_.profile, options_.software);
      return work_bound(request_from_options(options_, part), *costs.model);
    } catch (const InputError&) {
      return Seconds(0.0);  // plan() says why
    }
  }

  PlanningOptions options_;
  const Cluster& cluster_;
  const bool dumps_;
  const Interruption& interruption_;
  std::shared_ptr<FinishedSearch> latest_, kept_;
  std::map<int, Plan> plans_;
  std::optional<std::string> refused_;
};

bool is_too_slow(const SizedPlan& sized, const TrainingRun& run) {
  return run.deadline_days && sized.cost->time > Seconds(*run.deadline_days * kSecondsPerDay);
}
bool is_too_dear(const SizedPlan& sized, const TrainingRun& run) {
  return run.max_price && sized.cost->price.value() > *run.max_price;
}

std::string remark_of(const SizedPlan& sized, const SizeSearch& sizes, const TrainingRun& run) {
  if (sized.ruled_out) return "no plan takes less";
  if (!sized.step) return sized.why;
  if (sizes.chosen && *sizes.chosen == sized.hosts) return "chosen";
  if (sized.within) return "";
  const bool slow = is_too_slow(sized, run), dear = is_too_dear(sized, run);
  return slow && dear ? "too slow, too dear" : slow ? "too slow" : "too dear";
}

std::string sizes_text(const SizeSearch& sizes, const TrainingRun& run, const Cluster& cluster) {
  TextTable table({{"hosts", ""},
                   {"devices", ""},
                   {"step", "(ms)"},
                   {"days", ""},
                   {"price", ""},
                   {"energy", "(kWh)"},
                   {"front", ""},
                   {"remark", ""}});
  for (const SizedPlan& sized : sizes.sizes) {
    const auto& cost = sized.cost;
    table.add_row({fmt::format("{}", sized.hosts), fmt::format("{}", sized.hosts * cluster.only().devices_per_host),
                   sized.step ? in_milliseconds(*sized.step) : "",
                   cost ? (sized.ruled_out ? "> " : "") + days_text(cost->time) : "",
                   cost && cost->price ? (sized.ruled_out ? "> " : "") + price_text(cost->price) : "",
                   cost && cost->kilowatt_hours && !sized.ruled_out ? price_text(cost->kilowatt_hours) : "",
                   sized.front ? "*" : "", remark_of(sized, sizes, run)});
  }
  return fmt::format(
             "# numbers of hosts of {} that were looked at: powers of two, all, and what halves the gap beside "
             "the chosen one\n",
             cluster.name) +
         table.to_text();
}

std::string limit_text(const TrainingRun& run) {
  const auto days = [&] { return fmt::format("takes at most {} days", as_text(*run.deadline_days)); };
  const auto price = [&] { return fmt::format("costs at most {}", as_text(*run.max_price)); };
  if (run.deadline_days && run.max_price) return fmt::format("the cheapest of these that {} and {}", days(), price());
  return run.deadline_days ? "the smallest of these that " + days()
         : run.max_price   ? "the fastest of these that " + price()
                           : "the fastest of these";
}

std::string scaling_text(const SizeSearch& sizes, const TrainingRun& run) {
  if (!sizes.scaling_ends) return "";
  return fmt::format(
      "strong scaling ends at {} host{}: with a batch of {} samples no larger number that was planned is "
      "faster",
      *sizes.scaling_ends, *sizes.scaling_ends == 1 ? "" : "s", run.batch);
}

Json sizes_json(const SizeSearch& sizes, const TrainingRun& run, const Cluster& cluster) {
  Json rows = Json::array();
  for (const SizedPlan& sized : sizes.sizes) {
    Json row = {{"hosts", sized.hosts}, {"devices", sized.hosts * cluster.only().devices_per_host}};
    row["step_time_s"] = sized.step ? Json(sized.step->si()) : Json(nullptr);
    if (sized.cost) add_cost(row, *sized.cost);
    row["ruled_out"] = sized.ruled_out;
    row["within"] = sized.within;
    row["front"] = sized.front;
    row["remark"] = remark_of(sized, sizes, run);
    rows.push_back(std::move(row));
  }
  return rows;
}

PlanNote note_of(const SizeSearch& sizes, const TrainingRun& run, const Cluster& cluster) {
  const RunCost& cost = *sizes.at(*sizes.chosen).cost;
  PlanNote note;
  note.text = run_line(run, cost) + sizes_text(sizes, run, cluster) +
              fmt::format("# {} host{}: {}\n", *sizes.chosen, *sizes.chosen == 1 ? "" : "s", limit_text(run));
  const std::string scaling = scaling_text(sizes, run);
  if (!scaling.empty()) note.text += "# " + scaling + "\n";
  if (sizes.interrupted) note.text += "# interrupted: other numbers of hosts were not planned\n";
  Json json = {{"tokens", run.tokens}, {"chosen_hosts", *sizes.chosen}};
  if (run.deadline_days) json["deadline_days"] = *run.deadline_days;
  if (run.max_price) json["max_price"] = *run.max_price;
  add_cost(json, cost);
  json["strong_scaling_ends_at_hosts"] = sizes.scaling_ends ? Json(*sizes.scaling_ends) : Json(nullptr);
  json["interrupted"] = sizes.interrupted;
  json["sizes"] = sizes_json(sizes, run, cluster);
  note.json = {{"run", std::move(json)}};
  return note;
}

std::string on_hosts(const SizedPlan& sized) {
  return fmt::format("on {} host{}", sized.hosts, sized.hosts == 1 ? "" : "s");
}

// One sentence: what can be met of one limit.
std::string why_none_within(const SizeSearch& sizes, const TrainingRun& run, const Cluster& cluster) {
  const bool by_days = run.deadline_days.has_value();
  const SizedPlan& best = sizes.at(by_days ? *sizes.fastest : sizes.cheapest.value_or(*sizes.fastest));
  const std::string what =
      by_days ? fmt::format("takes at most {} days: the fastest found takes {} days", as_text(*run.deadline_days),
                            days_text(best.cost->time))
              : fmt::format("costs at most {}: the cheapest found costs {} and takes {} days", as_text(*run.max_price),
                            price_text(best.cost->price), days_text(best.cost->time));
  const std::string scaling = scaling_text(sizes, run);
  const std::string way = !by_days          ? "allow that price"
                          : scaling.empty() ? fmt::format("allow that, or give more than {} hosts", cluster.hosts())
                                            : fmt::format("{}; allow that, or give a larger batch", scaling);
  return fmt::format("no plan of {} {}, {}; {}.", cluster.name, what, on_hosts(best), way);
}

// The same of both limits: which of them binds, and what meets the other one.
std::string why_none_within_both(const SizeSearch& sizes, const TrainingRun& run, const Cluster& cluster) {
  const auto told = [&](const char* which, int hosts) {
    const SizedPlan& sized = sizes.at(hosts);
    return fmt::format("the {} takes {} days and costs {}, {}", which, days_text(sized.cost->time),
                       price_text(sized.cost->price), on_hosts(sized));
  };
  const auto &by_price = sizes.fastest_in_price, &by_days = sizes.cheapest_in_time;
  const std::string binds = by_price && by_days ? "each can be met, not both"
                            : by_price          ? "the deadline binds, which no plan meets at any price"
                            : by_days           ? "the price binds, which no plan meets in any time"
                                                : "both bind, no plan meets either";
  return fmt::format(
      "no plan of {} takes at most {} days and costs at most {}: {}; {}; {}; allow what one of them needs.",
      cluster.name, as_text(*run.deadline_days), as_text(*run.max_price), binds,
      by_price ? told("fastest within the price", *by_price) : told("cheapest found", *sizes.cheapest),
      by_days ? told("cheapest within the deadline", *by_days) : told("fastest found", *sizes.fastest));
}

std::string why_none(const SizeSearch& sizes, const TrainingRun& run, const Cluster& cluster) {
  if (sizes.interrupted) return "no plan: the search was interrupted before it found one; let it run for longer.";
  if (!sizes.fastest)
    return fmt::format("no feasible plan on 1 to {} hosts of {}: on {} {}", cluster.hosts(), cluster.name,
                       sizes.sizes.back().hosts, sizes.sizes.back().why);
  return run.deadline_days && run.max_price ? why_none_within_both(sizes, run, cluster)
                                            : why_none_within(sizes, run, cluster);
}

// The plans of the front, the fastest first.
std::vector<FrontPoint> front_of_sizes(const SizeSearch& sizes, const std::map<int, Plan>& plans,
                                       const Cluster& cluster) {
  std::vector<FrontPoint> front;
  for (auto sized = sizes.sizes.rbegin(); sized != sizes.sizes.rend(); ++sized)
    if (sized->front) front.push_back({plans.at(sized->hosts), sized->hosts * cluster.only().devices_per_host});
  std::stable_sort(front.begin(), front.end(), [](const FrontPoint& a, const FrontPoint& b) {
    return a.plan.predicted.step_time < b.plan.predicted.step_time;
  });
  return front;
}

void report_sizes(PlanningOptions options, const Cluster& cluster, PlanReport report, const TrainingRun& run) {
  expect_options_of_sizes(options, run, cluster);
  const std::string folder = std::exchange(options.front_folder, "");
  const bool front = std::exchange(options.front, false) || !folder.empty();
  std::vector<std::string> files = files_read(options);
  expect_writable(report.output, files);
  files.push_back(report.output);
  expect_new_folder(folder, report.output);
  expect_writable(report.html, files);
  files.push_back(report.html);
  expect_dump_folder(report.dump, files);
  const DevicePrices prices = device_prices_from_text(options.price, cluster);
  SizeRequest wanted{.max_hosts = cluster.hosts(),
                     .tokens = run.tokens,
                     .tokens_per_step = run.tokens_per_step,
                     .rates = rates_of_group(prices, cluster, 0)};
  require(!run.max_price || wanted.rates.price_per_hour,
          "--max-price: what a device costs is not known; give --price-per-device-hour, or a cluster file with "
          "price_per_device_hour.");
  if (run.deadline_days) wanted.deadline = Seconds(*run.deadline_days * kSecondsPerDay);
  wanted.max_price = run.max_price;
  wanted.every_power = front;
  SizeSearch sizes;
  std::vector<FrontPoint> points;
  {
    const Interruption interruption;
    HostPlanner hosts(options, cluster, !report.dump.empty() || !report.html.empty(), interruption);
    sizes = search_sizes(wanted, hosts.planner());
    if (!sizes.fastest && hosts.refused()) throw InputError(*hosts.refused());
    report.finished = hosts.kept();
    if (!folder.empty()) points = front_of_sizes(sizes, hosts.plans(), cluster);
  }
  if (!sizes.chosen) throw NoFeasiblePlan(why_none(sizes, run, cluster));
  if (!folder.empty()) write_front(points, folder);
  report.note = [&](const Plan&) { return note_of(sizes, run, cluster); };
  const Cluster part = take_part(cluster, *sizes.chosen, 0);
  const Costs costs = costs_for(part, options.profile, options.software);
  plan_and_report(options, part, costs, report);
}

}  // namespace

void add_budget_options(CLI::App& verb, BudgetOptions& options) {
  verb.add_option("--tokens", options.tokens,
                  "also say what a training run of so many tokens takes, such as 1.5e12, 300B or 15T: days, and price "
                  "and energy where the cluster file or --price-per-device-hour has them; with --pareto compare "
                  "numbers of hosts by days and price");
  verb.add_option(
      "--deadline-days", options.deadline_days,
      "with --tokens: plan for as few hosts of the cluster as finish the run in so many days; with --max-price "
      "for as many as do so at the least price");
  verb.add_option("--max-price", options.max_price,
                  "with --tokens: plan for as many hosts of the cluster as finish the run fastest at this price; with "
                  "--deadline-days the price is a limit");
}

double tokens_from_text(const std::string& text) {
  static const std::map<char, double> kFactors = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  const auto factor = text.empty() ? kFactors.end() : kFactors.find(text.back());
  const bool has_factor = factor != kFactors.end();
  const double times = has_factor ? factor->second : 1.0;
  const std::string number = has_factor ? text.substr(0, text.size() - 1) : text;
  // The sentence names the text as it was given.
  try {
    return times * number_from_text(number, "--tokens", 1.0 / times, kTooManyTokens / times, "");
  } catch (const InputError&) {
    throw InputError(fmt::format(
        "--tokens: '{}' is not a number of tokens from 1 to below 1e18; give one such as 1.5e12, 300B or 15T.", text));
  }
}

void plan_run_and_report(const PlanningOptions& options, const BudgetOptions& budget, const Cluster& cluster,
                         PlanReport report) {
  const TrainingRun run = run_of(options, budget, cluster);
  const bool sizes = run.deadline_days || run.max_price || options.front || !options.front_folder.empty();
  if (sizes) return report_sizes(options, cluster, std::move(report), run);
  report_one(options, cluster, std::move(report), run);
}

}  // namespace meshwright
