// SPDX-License-Identifier: Apache-2.0
#include "cli/options/step_options.h"

#include <CLI/CLI.hpp>

#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr double kTiny = 1e-12, kAny = 1e12;
constexpr double kLongest = 1e6;  // of what a controller takes, in the unit of its option
constexpr double kMostSlowdown = 1000.0;
constexpr double kMostJitter = 2.0;
constexpr int kDefaultSamples = 200;
constexpr long kMostSamples = 1'000'000;
constexpr long kMostDevices = 1'000'000;
constexpr long kMostSteps = 1'000;

Seconds time_of(const std::string& text, const char* flag, double unit, const char* expected) {
  return Seconds(unit * number_from_text(text, flag, 0.0, kLongest, expected));
}

// "NAME=FACTOR"
std::pair<std::string, double> scaled(const std::string& text, const char* flag, const char* example) {
  const std::vector<std::string> parts = split(text, '=');
  require(parts.size() == 2 && !parts[0].empty(), "{}: '{}' is not NAME=SPEED; give it as in {}.", flag, text, example);
  return {parts[0], number_from_text(parts[1], flag, kTiny, kAny, "a speed above 0; give one such as 0.5")};
}

NetworkModel network_from_text(const std::string& text) {
  if (text == "static") return NetworkModel::Static;
  if (text == "fluid") return NetworkModel::Fluid;
  if (text == "fifo") return NetworkModel::Fifo;
  throw InputError("--network: " +
                   unknown_name("network model", text, {"static", "fluid", "fifo"}, "Give one of these."));
}

void read_overlap(const StepOptions& options, StepRequest& request) {
  const bool details = !options.bucket.empty() || !options.prefetch.empty() || !options.slowdown.empty();
  require(options.overlap || !details,
          "--bucket-mib, --prefetch and --slowdown say how communication runs beside computation; add --overlap.");
  if (!options.overlap) return;
  CutOptions cut;
  if (!options.bucket.empty())
    cut.bucket = Bytes(1048576.0 * number_from_text(options.bucket, "--bucket-mib", 0.0, kAny,
                                                    "a number of MiB that is not negative; give one such as 25"));
  if (!options.prefetch.empty())
    cut.prefetch = static_cast<int>(parse_integer(options.prefetch, "--prefetch", 0, 1 << 20));
  if (!options.slowdown.empty()) {
    const std::vector<std::string> parts = split(options.slowdown, ',');
    require(parts.size() <= 2, "--slowdown: '{}' has {} numbers; give that of computation and that of communication.",
            options.slowdown, parts.size());
    const char* expected = "a number from 1 to 1000; give one such as 1.2";
    request.conditions.compute_slowdown = number_from_text(parts[0], "--slowdown", 1.0, kMostSlowdown, expected);
    request.conditions.communication_slowdown =
        number_from_text(parts.back(), "--slowdown", 1.0, kMostSlowdown, expected);
  }
  request.overlap = cut;
}

void read_controller(const StepOptions& options, StepRequest& request) {
  const bool details = !options.dispatch.empty() || !options.call.empty() || !options.launch.empty() ||
                       !options.fetch.empty() || !options.fetch_every.empty();
  if (options.controller == "none") {
    require(!details,
            "--dispatch-us, --call-ms, --launch-us, --fetch-ms and --fetch-every are what a controller "
            "takes; add --controller single or --controller multi.");
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
    controller.fetch_every = static_cast<int>(parse_integer(options.fetch_every, "--fetch-every", 0, kMostSteps));
  request.controller = controller;
}

void read_disturbances(const StepOptions& options, StepRequest& request) {
  for (const std::string& text : options.slow_devices) {
    const auto [device, speed] = scaled(text, "--slow-device", "3=0.5");
    request.slow_devices.push_back({static_cast<int>(parse_integer(device, "--slow-device", 0, kMostDevices)), speed});
  }
  for (const std::string& text : options.slow_links) {
    const auto [kind, speed] = scaled(text, "--slow-links", "between-hosts=0.5");
    require(kind == "within-host" || kind == "between-hosts",
            "--slow-links: there are no links '{}'; give within-host or between-hosts.", kind);
    request.slow_links.push_back({kind, speed});
  }
  require(!options.jitter.empty() || (options.samples.empty() && options.seed.empty()),
          "--samples and --seed are of simulations that differ; add --jitter.");
  if (options.jitter.empty()) return;
  request.conditions.jitter = number_from_text(options.jitter, "--jitter", kTiny, kMostJitter,
                                               "a spread above 0 and below 2; give one such as 0.05");
  request.samples = kDefaultSamples;
  if (!options.samples.empty())
    request.samples = static_cast<int>(parse_integer(options.samples, "--samples", 1, kMostSamples));
  if (!options.seed.empty()) request.conditions.seed = seed_from_text(options.seed);
}

void read_failures(const StepOptions& options, StepRequest& request) {
  const bool details = !options.checkpoint.empty() || !options.restart.empty() || !options.checkpoint_every.empty();
  require(!options.failures.empty() || !details,
          "--checkpoint-s, --restart-s and --checkpoint-every are of a run in which devices fail; add --failures.");
  if (options.failures.empty()) return;
  FailureModel failures;
  failures.mean_time_between_failures =
      Seconds(3600.0 * number_from_text(options.failures, "--failures", kTiny, kAny,
                                        "a positive number; give the hours between two failures of one device"));
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

void add_step_options(CLI::App& verb, StepOptions& options) {
  verb.add_option("--network", options.network,
                  "how messages share the network: static (each at the price of all that leave a host together), fluid "
                  "(max-min fair on the links of the cluster's network) or fifo (one after the other on each link)");
  verb.add_flag("--broadcast", options.broadcast,
                "with --network fluid or fifo: a tile that a device sends to several goes once along a chain of them");
  verb.add_flag("--overlap", options.overlap, "communication runs beside computation that does not need it");
  verb.add_option("--bucket-mib", options.bucket, "with --overlap: gradients summed at once (25 MB)");
  verb.add_option("--prefetch", options.prefetch,
                  "with --overlap: computations that a weight is gathered ahead of (1)");
  verb.add_option("--slowdown", options.slowdown,
                  "with --overlap: factor by which computation, and after a comma communication, is slower meanwhile");
  verb.add_option("--controller", options.controller,
                  "who issues the work: none (nothing waits), single (one process, Alpa's constants) or multi (each "
                  "host)");
  verb.add_option("--call-ms", options.call, "with --controller: a call to a host in each step");
  verb.add_option("--dispatch-us", options.dispatch, "with --controller: issuing one instruction");
  verb.add_option("--launch-us", options.launch, "with --controller: launching one kernel");
  verb.add_option("--fetch-ms", options.fetch, "with --controller: getting the loss back");
  verb.add_option("--fetch-every", options.fetch_every,
                  "with --controller: wait for the loss every that many steps (0: never)");
  verb.add_option("--slow-device", options.slow_devices, "what if a device is slower: DEVICE=SPEED, as in 3=0.5")
      ->expected(1)
      ->take_all();
  verb.add_option("--slow-links", options.slow_links,
                  "what if links are slower: within-host=SPEED or between-hosts=SPEED")
      ->expected(1)
      ->take_all();
  verb.add_option("--jitter", options.jitter, "what if durations vary: sigma of a lognormal factor, as in 0.05");
  verb.add_option("--samples", options.samples, "with --jitter: simulations (200)");
  verb.add_option("--seed", options.seed, "with --jitter: of the first simulation (0)");
  verb.add_option("--replicas", options.replicas,
                  "what if there were that many times the devices, and the plan on each part");
  verb.add_option("--failures", options.failures, "what if a device fails every that many hours");
  verb.add_option("--checkpoint-s", options.checkpoint, "with --failures: writing a checkpoint (60)");
  verb.add_option("--restart-s", options.restart, "with --failures: from a failure until training goes on (300)");
  verb.add_option("--checkpoint-every", options.checkpoint_every, "with --failures: steps between checkpoints (auto)");
}

bool StepRequest::plain() const {
  return network == NetworkModel::Static && !overlap && !controller && slow_devices.empty() && slow_links.empty() &&
         samples == 0 && !failures && replicas == 1;
}

StepRequest step_request(const StepOptions& options) {
  StepRequest request;
  request.network = network_from_text(options.network);
  if (request.network == NetworkModel::Fifo) request.conditions.discipline = LinkDiscipline::Fifo;
  require(!options.broadcast || request.network != NetworkModel::Static,
          "--broadcast: a tile goes along a chain of devices only where their links are simulated; add --network fluid "
          "or --network fifo.");
  if (options.broadcast) request.broadcast = Broadcast::Chain;
  read_overlap(options, request);
  read_controller(options, request);
  read_disturbances(options, request);
  read_failures(options, request);
  if (!options.replicas.empty())
    request.replicas = static_cast<int>(parse_integer(options.replicas, "--replicas", 1, kMostDevices));
  return request;
}

std::vector<std::string> to_sentences(const StepRequest& request) {
  std::vector<std::string> said;
  if (request.network == NetworkModel::Fluid) said.push_back("messages share the links of the network fairly");
  if (request.network == NetworkModel::Fifo) said.push_back("messages take turns on the links of the network");
  if (request.broadcast == Broadcast::Chain)
    said.push_back("a tile that a device sends to several goes once along a chain of them");
  if (request.overlap)
    said.push_back(fmt::format("communication beside computation, buckets of {} MiB, gathers {} ahead",
                               as_text(request.overlap->bucket.si() / 1048576.0), request.overlap->prefetch));
  if (request.conditions.interferes())
    said.push_back(fmt::format("meanwhile computation takes {} times as long, communication {} times",
                               as_text(request.conditions.compute_slowdown),
                               as_text(request.conditions.communication_slowdown)));
  if (request.controller) {
    const Controller& controller = *request.controller;
    said.push_back(fmt::format("{} controller: {} us a call, {} us an instruction, {} us a kernel, {}",
                               name_of(controller.kind), as_text(1e6 * controller.per_call.si()),
                               as_text(1e6 * controller.per_instruction.si()), as_text(1e6 * controller.launch.si()),
                               controller.fetch_every == 0
                                   ? std::string("the loss is never waited for")
                                   : fmt::format("the loss fetched in {} us every {} steps",
                                                 as_text(1e6 * controller.fetch.si()), controller.fetch_every)));
  }
  for (const auto& slow : request.slow_devices)
    said.push_back(fmt::format("device {} at {} times its speed", slow.device, as_text(slow.speed)));
  for (const auto& slow : request.slow_links)
    said.push_back(fmt::format("{} links at {} times their speed", slow.kind, as_text(slow.speed)));
  if (request.replicas > 1) said.push_back(fmt::format("{} replicas of the plan", request.replicas));
  return said;
}

}  // namespace meshwright
