// SPDX-License-Identifier: Apache-2.0
#include "cli/options/step_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>

#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/planner/method/framework.h"

namespace meshwright {

namespace {

constexpr double kTiny = 1e-12, kAny = 1e12;
constexpr double kLongest = 1e6;  // of what a controller takes, in the unit of its option
constexpr double kMaxSlowdown = 1000.0;
constexpr double kMaxJitter = 2.0;
constexpr int kDefaultSamples = 200;
constexpr long kMaxSamples = 1'000'000;
constexpr long kMaxDevices = 1'000'000;
constexpr long kMaxSteps = 1'000;

Seconds time_of(const std::string& text, const char* flag, double unit, const char* expected) {
  return Seconds(unit * number_from_text(text, flag, 0.0, kLongest, expected));
}

// "NAME=FACTOR"
std::pair<std::string, double> scaled(const std::string& text, const char* flag, const char* example) {
  const std::vector<std::string> parts = split(text, '=');
  require(parts.size() == 2 && !parts[0].empty(), "{}: '{}' is not NAME=SPEED; expected a value such as {}.", flag,
          text, example);
  return {parts[0], number_from_text(parts[1], flag, kTiny, kAny, "a speed above 0; give one such as 0.5")};
}

NetworkModel network_from_text(const std::string& text) {
  if (text.empty() || text == "static") return NetworkModel::Static;
  if (text == "fluid") return NetworkModel::Fluid;
  if (text == "fifo") return NetworkModel::Fifo;
  throw InputError("--network: " +
                   unknown_name("network model", text, {"static", "fluid", "fifo"}, "Give one of these."));
}

void read_overlap(const ConditionOptions& options, StepRequest& request) {
  const bool details = !options.bucket.empty() || !options.prefetch.empty() || !options.slowdown.empty();
  require(options.overlap || !details,
          "--bucket-mib, --prefetch and --slowdown have no effect without overlap; add --overlap.");
  if (!options.overlap) return;
  CutOptions cut;
  if (!options.bucket.empty())
    cut.bucket = Bytes(1048576.0 * number_from_text(options.bucket, "--bucket-mib", 0.0, kAny,
                                                    "a number of MiB that is not negative; give one such as 25"));
  if (!options.prefetch.empty())
    cut.prefetch = static_cast<int>(parse_integer(options.prefetch, "--prefetch", 0, 1 << 20));
  if (!options.slowdown.empty()) {
    const std::vector<std::string> parts = split(options.slowdown, ',');
    require(parts.size() <= 2,
            "--slowdown: '{}' has {} numbers; expected one for computation and optionally one for communication, such "
            "as 1.2,1.1.",
            options.slowdown, parts.size());
    const char* expected = "a number from 1 to 1000; give one such as 1.2";
    request.conditions.compute_slowdown = number_from_text(parts[0], "--slowdown", 1.0, kMaxSlowdown, expected);
    request.conditions.communication_slowdown =
        number_from_text(parts.back(), "--slowdown", 1.0, kMaxSlowdown, expected);
  }
  request.overlap = cut;
}

void read_controller(const ConditionOptions& options, StepRequest& request) {
  const bool details = !options.dispatch.empty() || !options.call.empty() || !options.launch.empty() ||
                       !options.fetch.empty() || !options.fetch_every.empty();
  if (options.controller.empty() || options.controller == "none") {
    require(!details,
            "--dispatch-us, --call-ms, --launch-us, --fetch-ms and --fetch-every have no effect without a controller; "
            "add --controller single or --controller multi.");
    return;
  }
  Controller controller;
  if (options.controller == "single") {
    controller = alpa_controller();
  } else if (options.controller != "multi") {
    throw InputError("--controller: " +
                     unknown_name("controller", options.controller, {"none", "single", "multi"}, "Give one of these."));
  }
  controller.kind = options.controller == "single" ? Controller::Kind::Single : Controller::Kind::Multi;
  const char* expected = "a time from 0 to a million; give a number such as 5";
  if (!options.dispatch.empty())
    controller.per_instruction = time_of(options.dispatch, "--dispatch-us", 1e-6, expected);
  if (!options.call.empty()) controller.per_call = time_of(options.call, "--call-ms", 1e-3, expected);
  if (!options.launch.empty()) controller.launch = time_of(options.launch, "--launch-us", 1e-6, expected);
  if (!options.fetch.empty()) controller.fetch = time_of(options.fetch, "--fetch-ms", 1e-3, expected);
  if (!options.fetch_every.empty())
    controller.fetch_every = static_cast<int>(parse_integer(options.fetch_every, "--fetch-every", 0, kMaxSteps));
  request.controller = controller;
}

double tokens_of(const std::string& text, const std::string& place) {
  double tokens = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  require(error == std::errc() && end == text.data() + text.size() && std::isfinite(tokens) && tokens >= 0.0,
          "--expert-imbalance: {} has '{}' tokens; give a number that is not negative.", place, text);
  return tokens;
}

// "40,20,20,20" as it is; of a file, the list in it in the same form.
std::string token_list(const std::string& text) {
  if (!text.ends_with(".json")) return text;
  const Json json = read_json_file(text);
  require(json.is_array() && json.size() > 1,
          "--expert-imbalance: {} is no list of numbers; give the tokens of each expert, as in [40, 20, 20, 20].",
          text);
  std::vector<std::string> tokens;
  for (const Json& entry : json) {
    require(entry.is_number(), "--expert-imbalance: {}: entry {} is no number; give the tokens of each expert.", text,
            tokens.size());
    tokens.push_back(as_text(entry.get<double>()));
  }
  return join(tokens, ",");
}

ExpertLoad expert_load_from_text(const std::string& given) {
  if (given.empty()) return {};
  const std::vector<std::string> parts = split(token_list(given), ',');
  if (parts.size() == 1)
    return {.factor = number_from_text(given, "--expert-imbalance", 1.0, kAny,
                                       "a factor from 1 on, a list or a file of the tokens of each expert; give one "
                                       "such as 1.5, 40,20,20,20 or tokens.json")};
  ExpertLoad load;
  for (std::size_t expert = 0; expert < parts.size(); ++expert)
    load.shares.push_back(tokens_of(parts[expert], fmt::format("expert {}", expert)));
  const double all = std::accumulate(load.shares.begin(), load.shares.end(), 0.0);
  require(std::isfinite(all) && all > 0.0,
          "--expert-imbalance: '{}' gives no expert tokens; give some to at least one of them.", given);
  for (double& share : load.shares) share /= all;
  return load;
}

double jitter_from_text(const std::string& text) {
  return number_from_text(text, "--jitter", kTiny, kMaxJitter, "a spread above 0 and below 2; give one such as 0.05");
}

void read_disturbances(const StepOptions& options, StepRequest& request) {
  for (const std::string& text : options.slow_devices) {
    const auto [device, speed] = scaled(text, "--slow-device", "3=0.5");
    request.slow_devices.push_back({static_cast<int>(parse_integer(device, "--slow-device", 0, kMaxDevices)), speed});
  }
  for (const std::string& text : options.slow_links) {
    const auto [kind, speed] = scaled(text, "--slow-links", "between-hosts=0.5");
    require(kind == "within-host" || kind == "between-hosts",
            "--slow-links: unknown links '{}'; expected within-host or between-hosts.", kind);
    request.slow_links.push_back({kind, speed});
  }
  require(!options.jitter.empty() || (options.samples.empty() && options.seed.empty()),
          "--samples and --seed have no effect without jitter; add --jitter.");
  if (options.jitter.empty()) return;
  request.conditions.jitter = jitter_from_text(options.jitter);
  request.samples = kDefaultSamples;
  if (!options.samples.empty())
    request.samples = static_cast<int>(parse_integer(options.samples, "--samples", 1, kMaxSamples));
  if (!options.seed.empty()) request.conditions.seed = seed_from_text(options.seed);
}

void read_failures(const StepOptions& options, StepRequest& request) {
  const bool details = !options.checkpoint.empty() || !options.restart.empty() || !options.checkpoint_every.empty();
  require(!options.failures.empty() || !details,
          "--checkpoint-s, --restart-s and --checkpoint-every have no effect without failures; add --failures.");
  if (options.failures.empty()) return;
  FailureModel failures;
  failures.mean_time_between_failures =
      Seconds(3600.0 * number_from_text(options.failures, "--failures", kTiny, kAny,
                                        "a positive number; give the mean hours between two failures of one device"));
  const char* expected = "a time from 0 to a million; give seconds, as in 60";
  failures.checkpoint = Seconds(60.0);
  failures.restart = Seconds(300.0);
  if (!options.checkpoint.empty()) failures.checkpoint = time_of(options.checkpoint, "--checkpoint-s", 1.0, expected);
  if (!options.restart.empty()) failures.restart = time_of(options.restart, "--restart-s", 1.0, expected);
  if (!options.checkpoint_every.empty() && options.checkpoint_every != "auto")
    failures.steps_between_checkpoints =
        static_cast<int>(count_from_text(options.checkpoint_every, "--checkpoint-every", 1 << 30));
  request.failures = failures;
}

}  // namespace

void add_condition_options(CLI::App& verb, ConditionOptions& options) {
  verb.add_option("--network", options.network,
                  "how messages share the network: static (fixed costs that assume all of a host's devices send at "
                  "once), fluid (max-min fair sharing of each link) or fifo (one message at a time on each link)");
  verb.add_flag(
      "--broadcast", options.broadcast,
      "with --network fluid or fifo: send a tile that several devices need along a chain of them, once over each link");
  verb.add_flag("--overlap", options.overlap, "overlap communication with computation that does not depend on it");
  verb.add_option("--bucket-mib", options.bucket,
                  "with --overlap: size of a gradient bucket in MiB (default: 25 MB, about 23.8)");
  verb.add_option("--prefetch", options.prefetch,
                  "with --overlap: how many computations ahead a weight is gathered (default: 1)");
  verb.add_option("--slowdown", options.slowdown,
                  "with --overlap: factor by which overlapped computation slows down, and after a comma communication, "
                  "such as 1.2,1.1 (default: 1,1)");
  verb.add_option("--controller", options.controller,
                  "who issues the work: none (issuing takes no time), single (one process for all hosts, with Alpa's "
                  "constants) or multi (one process per host) (default: none)");
  verb.add_option("--call-ms", options.call, "with --controller: milliseconds of one call to a host per step");
  verb.add_option("--dispatch-us", options.dispatch, "with --controller: microseconds to issue one instruction");
  verb.add_option("--launch-us", options.launch, "with --controller: microseconds to launch one kernel");
  verb.add_option("--fetch-ms", options.fetch, "with --controller: milliseconds to fetch the loss");
  verb.add_option("--fetch-every", options.fetch_every,
                  "with --controller: fetch the loss every this many steps; 0: never");
  verb.add_option(
      "--expert-imbalance", options.expert_imbalance,
      "how unevenly experts get tokens: those of the busiest device of an expert-parallel group over their "
      "mean, such as 1.5; or the tokens of each expert, such as 40,20,20,20, or a .json file of such a list "
      "(default: 1)");
}

void add_step_options(CLI::App& verb, StepOptions& options) {
  add_condition_options(verb, options.conditions);
  verb.add_option("--slow-device", options.slow_devices,
                  "what if a device is slower: DEVICE=SPEED, such as 3=0.5 for half speed; repeatable")
      ->expected(1)
      ->take_all();
  verb.add_option(
          "--slow-links", options.slow_links,
          "what if links are slower: within-host=SPEED or between-hosts=SPEED, such as between-hosts=0.5; repeatable")
      ->expected(1)
      ->take_all();
  verb.add_option("--jitter", options.jitter,
                  "what if durations vary: sigma of a lognormal factor on each, such as 0.05");
  verb.add_option("--samples", options.samples, "with --jitter: number of simulations (default: 200)");
  verb.add_option("--seed", options.seed, "with --jitter: seed of the first simulation (default: 0)");
  verb.add_option("--replicas", options.replicas,
                  "what if this many copies of the cluster each ran the plan and summed their gradients (default: 1)");
  verb.add_option("--failures", options.failures,
                  "what if devices fail: mean hours between two failures of one device");
  verb.add_option("--checkpoint-s", options.checkpoint, "with --failures: seconds to write a checkpoint (default: 60)");
  verb.add_option("--restart-s", options.restart,
                  "with --failures: seconds from a failure until training resumes (default: 300)");
  verb.add_option("--checkpoint-every", options.checkpoint_every,
                  "with --failures: steps between checkpoints (default: auto, the best number)");
}

StepRequest conditions_of(const ConditionOptions& options) {
  StepRequest request;
  request.network = network_from_text(options.network);
  if (request.network == NetworkModel::Fifo) request.conditions.discipline = LinkDiscipline::Fifo;
  require(!options.broadcast || request.network != NetworkModel::Static,
          "--broadcast: chains of devices need simulated links; add --network fluid or --network fifo.");
  if (options.broadcast) request.broadcast = Broadcast::Chain;
  read_overlap(options, request);
  read_controller(options, request);
  request.expert_load = expert_load_from_text(options.expert_imbalance);
  if (!options.jitter.empty()) request.mean_jitter = jitter_from_text(options.jitter);
  return request;
}

StepRequest step_request(const StepOptions& options) {
  StepRequest request = conditions_of(options.conditions);
  read_disturbances(options, request);
  read_failures(options, request);
  if (!options.replicas.empty())
    request.replicas = static_cast<int>(parse_integer(options.replicas, "--replicas", 1, kMaxDevices));
  return request;
}

namespace {

// The names of the options that take a value, in the order of the help.
struct TextOption {
  const char* name;
  std::string ConditionOptions::*value;
};
constexpr TextOption kTexts[] = {{"network", &ConditionOptions::network},
                                 {"bucket-mib", &ConditionOptions::bucket},
                                 {"prefetch", &ConditionOptions::prefetch},
                                 {"slowdown", &ConditionOptions::slowdown},
                                 {"controller", &ConditionOptions::controller},
                                 {"call-ms", &ConditionOptions::call},
                                 {"dispatch-us", &ConditionOptions::dispatch},
                                 {"launch-us", &ConditionOptions::launch},
                                 {"fetch-ms", &ConditionOptions::fetch},
                                 {"fetch-every", &ConditionOptions::fetch_every},
                                 {"expert-imbalance", &ConditionOptions::expert_imbalance},
                                 {"jitter", &ConditionOptions::jitter}};
struct Flag {
  const char* name;
  bool ConditionOptions::*value;
};
constexpr Flag kFlags[] = {{"broadcast", &ConditionOptions::broadcast}, {"overlap", &ConditionOptions::overlap}};

}  // namespace

bool ConditionOptions::given() const {
  return std::any_of(std::begin(kTexts), std::end(kTexts),
                     [&](const TextOption& option) { return !(this->*option.value).empty(); }) ||
         std::any_of(std::begin(kFlags), std::end(kFlags), [&](const Flag& flag) { return this->*flag.value; });
}

std::map<std::string, std::string> to_plan(const ConditionOptions& options) {
  std::map<std::string, std::string> conditions;
  // Both name what holds without them.
  const auto usual = [](const TextOption& option, const std::string& value) {
    return (option.value == &ConditionOptions::network && value == "static") ||
           (option.value == &ConditionOptions::controller && value == "none") ||
           (option.value == &ConditionOptions::expert_imbalance && expert_load_from_text(value).even());
  };
  for (const TextOption& option : kTexts)
    if (const std::string& value = options.*option.value; !value.empty() && !usual(option, value))
      conditions[option.name] = value;
  // A plan needs no other file.
  if (const auto load = conditions.find("expert-imbalance"); load != conditions.end())
    load->second = token_list(load->second);
  for (const Flag& flag : kFlags)
    if (options.*flag.value) conditions[flag.name] = "";
  return conditions;
}

ConditionOptions conditions_from_plan(const std::map<std::string, std::string>& conditions) {
  ConditionOptions options;
  for (const auto& [name, value] : conditions) {
    const auto named = [&name = name](const auto& option) { return name == option.name; };
    if (const auto* text = std::find_if(std::begin(kTexts), std::end(kTexts), named); text != std::end(kTexts)) {
      options.*text->value = value;
      continue;
    }
    const auto* flag = std::find_if(std::begin(kFlags), std::end(kFlags), named);
    require(flag != std::end(kFlags) && value.empty(),
            "conditions: '{}' with the value '{}' is no condition of a step; was the plan made by a newer program?",
            name, value);
    options.*flag->value = true;
  }
  return options;
}

std::vector<std::string> to_sentences(const StepRequest& request) {
  std::vector<std::string> said;
  if (request.network == NetworkModel::Fluid) said.push_back("messages share the links of the network fairly");
  if (request.network == NetworkModel::Fifo) said.push_back("messages take turns on the links of the network");
  if (request.broadcast == Broadcast::Chain) said.push_back("tiles that several devices need go along a chain of them");
  if (request.overlap)
    said.push_back(fmt::format(
        "communication overlaps computation: gradient buckets of {} MiB, weights gathered {} computations ahead",
        as_text(request.overlap->bucket.si() / 1048576.0), request.overlap->prefetch));
  if (request.conditions.interferes())
    said.push_back(fmt::format("while they overlap, computation takes {} times as long and communication {} times",
                               as_text(request.conditions.compute_slowdown),
                               as_text(request.conditions.communication_slowdown)));
  if (request.controller) {
    const Controller& controller = *request.controller;
    said.push_back(fmt::format("{} controller: {} us per call, {} us per instruction, {} us per kernel, {}",
                               name_of(controller.kind), as_text(1e6 * controller.per_call.si()),
                               as_text(1e6 * controller.per_instruction.si()), as_text(1e6 * controller.launch.si()),
                               controller.fetch_every == 0
                                   ? std::string("the loss is never fetched")
                                   : fmt::format("the loss fetched in {} us every {} steps",
                                                 as_text(1e6 * controller.fetch.si()), controller.fetch_every)));
  }
  if (!request.expert_load.shares.empty())
    said.push_back(fmt::format("the busiest of {} experts has {:.3g} times the mean of their tokens",
                               request.expert_load.shares.size(),
                               request.expert_load.busiest(static_cast<int>(request.expert_load.shares.size()))));
  else if (!request.expert_load.even())
    said.push_back(fmt::format("the busiest device of an expert-parallel group has {} times the mean of their tokens",
                               as_text(request.expert_load.factor)));
  if (request.mean_jitter)
    said.push_back(fmt::format(
        "the step is the mean of {} simulated ones, in which each duration has a lognormal factor of sigma {}",
        StepRequest::kMeanOf, as_text(*request.mean_jitter)));
  for (const auto& slow : request.slow_devices)
    said.push_back(fmt::format("device {} at {} times its speed", slow.device, as_text(slow.speed)));
  for (const auto& slow : request.slow_links)
    said.push_back(fmt::format("{} links at {} times their speed", slow.kind, as_text(slow.speed)));
  if (request.replicas > 1) said.push_back(fmt::format("{} replicas of the plan", request.replicas));
  return said;
}

void expect_experts(const ExpertLoad& load, const ModelConfig& model) {
  if (load.even()) return;
  const std::int64_t experts = shape_of(model).experts;
  require(experts > 0, "--expert-imbalance: model '{}' has no experts; leave the option out.", model.name);
  require(load.shares.empty() || static_cast<std::int64_t>(load.shares.size()) == experts,
          "--expert-imbalance: it gives {} experts tokens, but model '{}' has {}; give a number for each of them.",
          load.shares.size(), model.name, experts);
}

std::string condition_lines(const std::map<std::string, std::string>& conditions) {
  std::string text;
  for (const std::string& sentence : to_sentences(conditions_of(conditions_from_plan(conditions))))
    text += fmt::format("# {}\n", sentence);
  return text;
}

}  // namespace meshwright
