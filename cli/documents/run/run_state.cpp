// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/run_state.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <utility>

#include "cli/documents/figures/report.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "executor/weights/checkpoint.h"

namespace meshwright {

namespace {

constexpr long kMaxStepsOfTraining = 1'000'000'000;

LearningRate learning_rate_of(const RunStateOptions& options, const RunOptions& run) {
  LearningRate rate;
  require(options.schedule == "constant" || options.schedule == "linear" || options.schedule == "cosine",
          "--lr-schedule: '{}' is not known; constant, linear and cosine are.", options.schedule);
  if (options.schedule != "constant")
    rate.fall = options.schedule == "linear" ? LearningRate::Fall::Linear : LearningRate::Fall::Cosine;
  rate.warmup = parse_integer(options.warmup, "--lr-warmup", 0, kMaxStepsOfTraining);
  rate.steps = options.steps.empty() ? run.first_step + run.steps
                                     : parse_integer(options.steps, "--lr-steps", 1, kMaxStepsOfTraining);
  rate.least =
      number_from_text(options.least, "--lr-least", 0.0, 1.0, "a share of the learning rate from 0 to below 1");
  require(rate.fall == LearningRate::Fall::None || rate.warmup < rate.steps,
          "--lr-warmup: {} steps of warm-up leave nothing of the {} steps over which the learning rate falls.",
          rate.warmup, rate.steps);
  return rate;
}

// What must be the same for a training to go on: everything but how its work is cut and what is kept.
Json training_of(const Json& plan) {
  Json training = plan.at("training");
  for (const char* free :
       {"microbatches", "recompute", "recompute_ranges", "recompute_modules", "offload", "learning_rate"})
    training.erase(free);
  return training;
}

}  // namespace

void add_run_state_options(CLI::App& verb, RunStateOptions& options) {
  verb.add_option("--checkpoint", options.checkpoint,
                  "keep the state of the training in this folder: after every --every steps, after the last one, and "
                  "when a signal ends the run");
  verb.add_option("--every", options.every, "with --checkpoint: steps from one checkpoint to the next")
      ->capture_default_str();
  verb.add_option("--keep", options.keep, "with --checkpoint: how many checkpoints stay, the newest; 0: all")
      ->capture_default_str();
  verb.add_option("--resume", options.resume,
                  "go on behind the newest whole checkpoint in this folder, also under another plan of the same "
                  "training");
  verb.add_option("--lr-schedule", options.schedule,
                  "how the learning rate falls: constant (not at all), linear or cosine")
      ->capture_default_str();
  verb.add_option("--lr-warmup", options.warmup, "steps over which the learning rate grows at first")
      ->capture_default_str();
  verb.add_option("--lr-steps", options.steps,
                  "step at which the learning rate has fallen, counted from the first of the training (default: the "
                  "last of this run)");
  verb.add_option("--lr-least", options.least, "share of the learning rate that is left then")->capture_default_str();
  verb.add_option("--log", options.log, "write a line of JSON for each step to this file: step, loss, time, rate");
}

RunState::RunState(const RunStateOptions& options, const Plan& plan, const Graph& graph, RunOptions& run,
                   const Peers* peers)
    : options_(options), speaks_(peers == nullptr || peers->rank() == 0) {
  if (!options.resume.empty()) resume(plan, graph, run);
  run.learning_rate = learning_rate_of(options, run);
  if (!options.checkpoint.empty()) {
    CheckpointOptions checkpoint;
    checkpoint.folder = options.checkpoint;
    checkpoint.every = static_cast<int>(count_from_text(options.every, "--every", kMaxStepsOfTraining));
    checkpoint.keep = static_cast<int>(parse_integer(options.keep, "--keep", 0, 1'000'000));
    checkpoint.plan = json_text(to_json(plan));
    run.checkpoint = std::move(checkpoint);
  }
  if (peers == nullptr || run.checkpoint) {
    interruption_.emplace();
    run.stops = [this] { return interruption_->requested(); };
  }
  if (speaks_ && !options.log.empty()) {
    expect_writable(options.log, {});
    log_.open(options.log, run.first_step > 0 ? std::ios::app : std::ios::trunc);
    if (!log_) throw SystemError(fmt::format("{}: the log cannot be written.", options.log));
  }
}

void RunState::resume(const Plan& plan, const Graph& graph, RunOptions& run) {
  require(run.given.start == nullptr, "--resume: the weights are those of the checkpoint; leave out --weights.");
  const std::shared_ptr<const Checkpoint> found = Checkpoint::newest(options_.resume, passed_over_);
  for (const std::string& sentence : passed_over_)
    lines_ +=
        fmt::format("# {}; an older checkpoint is used\n", sentence.substr(0, sentence.find_last_not_of('.') + 1));
  const CheckpointHead& head = found->head();
  const Json now = to_json(plan);
  require(head.plan.is_object() && head.plan.contains("model") && head.plan.contains("training") &&
              head.plan["model"] == now["model"],
          "{}: the checkpoint is of another model than the plan's.", found->folder());
  require(training_of(head.plan) == training_of(now),
          "{}: the checkpoint is of another training than the plan's ({}, not {}).", found->folder(),
          training_of(head.plan).dump(), training_of(now).dump());
  require(head.precision == run.precision, "{}: the checkpoint was computed in {}; give --precision {}.",
          found->folder(), name_of(head.precision), name_of(head.precision));
  found->expect_state_of(graph);
  run.seed = head.seed;
  run.first_step = head.step;
  run.given.start = found;
  lines_ += fmt::format("# resumed from {}, after {} steps\n", found->folder(), head.step);
}

void RunState::tell_steps(RunOptions& run, const Plan& plan, Seconds predicted) {
  const double tokens = static_cast<double>(plan.training.batch * std::max<std::int64_t>(1, plan.model.seq));
  const char* unit = plan.model.seq > 0 ? "tokens" : "samples";
  if (!speaks_) {
    run.on_report = [](const StepReport&) {};
    return;
  }
  const int first = run.first_step, all = run.steps;
  run.on_report = [this, &run, tokens, unit, predicted, first, all](const StepReport& step) {
    if (options_.checkpoint.empty()) end_if_caller_asks();  // else the state is written first
    const std::string loss = step.loss ? fmt::format("loss {:.4g}, ", *step.loss) : "";
    progress_(fmt::format("steps, {}{:.3g} {}/s, {} measured of {} predicted", loss, tokens / step.time.si(), unit,
                          human_seconds(step.time), human_seconds(predicted)),
              static_cast<std::size_t>(step.step + 1), static_cast<std::size_t>(all));
    if (!log_.is_open()) return;
    const int number = first + step.step + 1;
    const Json line = {{"step", number},
                       {"loss", step.loss && std::isfinite(*step.loss) ? Json(*step.loss) : Json(nullptr)},
                       {"time_s", step.time.si()},
                       {"predicted_s", predicted.si()},
                       {fmt::format("{}_per_s", unit), tokens / step.time.si()},
                       {"learning_rate_factor", run.learning_rate.factor(number)}};
    log_ << json_text(line) << '\n' << std::flush;
  };
}

std::string RunState::lines() const {
  std::string lines = lines_;
  if (!options_.checkpoint.empty()) lines += fmt::format("# checkpoints in {}\n", options_.checkpoint);
  if (log_.is_open()) lines += fmt::format("# steps logged in {}\n", options_.log);
  return lines;
}

std::optional<std::string> RunState::end(RunOptions& run, int done, const std::string& plan_file) {
  interruption_.reset();
  run.on_report = {};
  run.stops = {};
  const int asked = std::exchange(run.steps, done);
  if (done == asked) return std::nullopt;
  if (!run.checkpoint)
    return fmt::format("a signal stopped the run after {} of {} steps; what they showed is above.", done, asked);
  return fmt::format(
      "a signal stopped the training after step {}; its state is in {}: go on with `meshwright run {} --resume {}`.",
      run.first_step + done, options_.checkpoint, plan_file, options_.checkpoint);
}

}  // namespace meshwright
