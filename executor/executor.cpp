// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/base/errors.h"
#include "executor/base/clock.h"
#include "executor/peers/peer_tags.h"
#include "executor/peers/peers.h"
#include "executor/replay/step_barrier.h"
#include "executor/replay/step_replay.h"
#include "executor/runner/assemble.h"
#include "executor/runner/device_runner.h"
#include "executor/runner/device_threads.h"
#include "executor/runner/held_tiles.h"
#include "executor/runner/prepared_program.h"
#include "executor/runner/run_log.h"
#include "executor/runner/run_part.h"
#include "executor/weights/checkpoint.h"

namespace meshwright {

namespace {

using Runners = std::map<DeviceId, std::unique_ptr<DeviceRunner>>;

Runners make_runners(RunContext& context) {
  Runners runners;
  for (std::size_t d = 0; d < context.program.devices.size(); ++d) {
    const DeviceId device(static_cast<int>(d));
    if (context.backend.runs_here(device)) runners.emplace(device, std::make_unique<DeviceRunner>(context, device));
  }
  MW_CHECK(!runners.empty(), "a process without devices");
  return runners;
}

// The devices here that speak for the loss: where stages have copies, each for the microbatches of its own.
std::vector<DeviceId> loss_owners(const RunContext& context, const Runners& runners) {
  std::vector<DeviceId> owners;
  for (const auto& [device, runner] : runners)
    if (!runner->losses().empty()) owners.push_back(device);
  MW_CHECK(static_cast<int>(owners.size()) <= traits_of(context.program.schedule).copies,
           "the loss of '{}' must be made, whole, by one stage", context.graph.name);
  return owners;
}

std::vector<DeviceId> devices_of(const Runners& runners) {
  std::vector<DeviceId> devices;
  for (const auto& [device, runner] : runners) devices.push_back(device);
  return devices;
}

// What the options of a run that ended after `done` steps would have said.
RunOptions as_done(const RunOptions& options, int done) {
  RunOptions ended = options;
  const int first_recorded = options.steps - options.recorded_steps;
  ended.steps = done;
  ended.recorded_steps = std::max(1, done - first_recorded);  // the last one is, however early it came
  return ended;
}

// What this process knows after the run. Times are relative to its first device's begin of the step.
RunPart own_part(const RunContext& context, const Runners& runners, const RunLog& log, int done) {
  const IndexedVector<int, Clock::time_point> origins = log.origins();
  RunPart part;
  part.losses = log.losses();
  if (!part.losses.empty()) part.losses.resize(static_cast<std::size_t>(done));
  for (const auto& [device, runner] : runners) {
    RunPart::OfDevice& own = part.devices.emplace_back();
    own.device = device;
    own.peak = runner->peak_memory();
    if (const std::optional<GpuMemory> memory = runner->gpu_memory()) {
      own.on_gpu = true;
      own.memory = *memory;
    }
    const IndexedVector<int, StepSpan>& times = log.times(device);
    for (int step = 0; step < done; ++step)
      own.times.push_back({since(origins[step], times[step].begin), since(origins[step], times[step].end)});
    for (const TimedSpan& span : runner->spans()) {
      const Clock::time_point origin = origins[span.step];
      own.spans.push_back(
          {span.step,
           {span.kind, device, span.stage, span.microbatch, since(origin, span.begin), since(origin, span.end)}});
    }
  }
  for (const auto& [device, runner] : runners)
    part.kept.insert(part.kept.end(), runner->kept().begin(), runner->kept().end());
  if (context.options.keep_held)
    for (const auto& [device, runner] : runners) add_held(context, *runner, part.held);
  for (const auto& [device, runner] : runners) add_op_times(runner->op_times(), part.op_times);
  for (const WantedTile& wanted : wanted_tiles(context.graph, context.program, context.options))
    if (const auto found = runners.find(wanted.device); found != runners.end())
      part.tiles.push_back(found->second->persistent(wanted.buffer));
  return part;
}

// The parts of all processes in the first one; none in the others, which send theirs.
std::vector<RunPart> gather_parts(RunPart own, Peers* peers, const Abort& abort) {
  std::vector<RunPart> parts;
  const std::uint64_t tag = peer_tag(PeerTag::Result, 0);
  if (peers != nullptr && peers->rank() != 0) {
    peers->send(0, tag, to_bytes(own));
    return parts;
  }
  parts.push_back(std::move(own));
  if (peers == nullptr) return parts;
  try {
    for (int other = 1; other < peers->size(); ++other)
      parts.push_back(run_part_from_bytes(peers->receive(other, tag, abort)));
  } catch (const Aborted&) {
    throw_failure_of_peer(*peers);
  }
  return parts;
}

// Throws InputError for a program that the backend does not run.
void expect_runnable(const Graph& graph, const Program& program, const Backend& backend) {
  for (const StageExecutable& executable : program.executables) {
    expect_rings_of_attention(graph, program.stages[executable.stage.index()].mesh, executable);
    for (const LocalOp& op : executable.ops)
      require(
          !op.step || !op.step->ring || backend.runs_blocks(),
          "the plan passes keys and values around a ring (cp-comm=p2p), which runs on CPU threads, but not on GPUs; "
          "run it with --backend cpu, or plan with cp-comm=all-gather or a2a.");
  }
}

// One run of a program, from the initial values to the result.
class ProgramRun {
 public:
  // `op_by_op`: why steps are not to be captured; empty: they may be.
  ProgramRun(const Graph& graph, const Program& program, const RunOptions& options, Backend& backend,
             const std::string& op_by_op)
      : context_(graph, program, options, backend),
        peers_(backend.peers()),
        runners_(make_runners(context_)),
        steps_begin_(static_cast<int>(runners_.size()), context_.abort, peers_),
        log_(devices_of(runners_), options.steps, loss_owners(context_, runners_), traits_of(program.schedule).copies),
        replay_(static_cast<int>(runners_.size()), context_, op_by_op),
        watched_(peers_ != nullptr ? std::make_unique<PeerWatch>(*peers_, context_.abort) : nullptr) {}
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  RunResult run() {
    run_on_threads(
        devices_of(runners_), [this](DeviceId device) { run_device(device); }, context_.abort, peers_,
        [this] { cancel(); }, [this] { return where(); });
    WorkRecording work;  // stopped before the devices do anything else
    if (context_.options.steps_with_work > 0) work = context_.backend.recorder()->stop();
    std::vector<RunPart> parts = gather_parts(own_part(context_, runners_, log_, done_), peers_, context_.abort);
    RunResult result;
    if (!parts.empty()) result = assemble(context_.graph, context_.program, as_done(context_.options, done_), parts);
    result.work = std::move(work);
    result.issued = replay_.issued();
    return result;
  }
  [[nodiscard]] bool failed_to_capture() const { return replay_.failed_to_capture(); }

 private:
  // Collectives first: a device may still be in one that the others have left.
  void cancel() {
    context_.groups.clear();
    for (const auto& [device, runner] : runners_) runner->cancel();
  }

  // REQUIRES: the devices' threads have ended.
  [[nodiscard]] std::string where() const {
    std::string text;
    for (const auto& [device, runner] : runners_) text += (text.empty() ? "" : "; ") + runner->where();
    return text;
  }

  void run_device(DeviceId device) {
    const RunOptions& options = context_.options;
    DeviceRunner& runner = *runners_.at(device);
    const auto number = static_cast<int>(std::distance(runners_.begin(), runners_.find(device)));
    runner.initialise();
    bool last = false;
    for (int step = 0; !last; ++step) {
      runner.begin_other("waiting for the other processes to begin a step");
      last = begin_step(number, step);
      if (step + options.steps_with_work == options.steps) {
        if (number == 0) context_.backend.recorder()->start();
        steps_begin_.arrive_and_wait(number == 0);
      }
      const Clock::time_point begin = Clock::now();
      replay_.run_step(number, runner, {step, last || step + options.recorded_steps >= options.steps, last});
      log_.add_times(device, step, {begin, Clock::now()});
      if (!runner.losses().empty()) log_.add_loss(device, step, runner.losses());
      if (!last) replay_.prepare(number, runner);
      if (options.on_report) report(number, step);
      if (options.checkpoint) keep_state(number, runner, step, last);
    }
    runner.begin_other("done with its steps");
  }

  [[nodiscard]] bool leads(int number) const { return number == 0 && (peers_ == nullptr || peers_->rank() == 0); }

  // Where the devices meet before a step; true for the last one.
  bool begin_step(int number, int step) {
    const RunOptions& options = context_.options;
    bool last = step + 1 == options.steps;
    if (!options.stops)
      steps_begin_.arrive_and_wait(number == 0);
    else if (steps_begin_.agree(number == 0, leads(number) && options.stops()))
      last = true;
    if (last && number == 0) done_ = step + 1;
    return last;
  }

  void report(int number, int step) {
    steps_begin_.arrive_and_wait(number == 0);
    if (number == 0) context_.options.on_report(log_.report(step));
    steps_begin_.arrive_and_wait(number == 0);
  }

  // Writes a checkpoint where one is due.
  void keep_state(int number, DeviceRunner& runner, int step, bool last) {
    const RunOptions& options = context_.options;
    const CheckpointOptions& checkpoint = *options.checkpoint;
    const int done = options.first_step + step + 1;
    const bool due = checkpoint.every > 0 && done % checkpoint.every == 0;
    if (!due && !last) return;
    runner.begin_other("writing a checkpoint");
    if (leads(number)) begin_checkpoint(checkpoint, done);
    steps_begin_.arrive_and_wait(number == 0);
    write_checkpoint_part(checkpoint, done, runner.device().value, runner.state());
    steps_begin_.arrive_and_wait(number == 0);
    if (leads(number))
      finish_checkpoint(checkpoint, {done, options.seed, options.precision, parse_json(checkpoint.plan, "plan")});
  }

  RunContext context_;
  int done_ = 0;  // steps, once the last has begun
  Peers* const peers_;
  const Runners runners_;  // of this process
  StepBarrier steps_begin_;
  RunLog log_;
  StepReplay replay_;  // destroyed before the devices whose work it has captured
  // Last: a process that fails raises the abort on another thread, which wakes all that is above.
  const std::unique_ptr<PeerWatch> watched_;
};

}  // namespace

RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check, const RunOptions& options,
                      Backend& backend) {
  require_valid(options);
  expect_runnable(graph, program, backend);
  MW_CHECK(check.violations.empty(), "an unsound program is not run: {}", check.violations.front());
  MW_CHECK(!program.devices.empty(), "a program without devices");
  MW_CHECK(0 <= options.steps_with_work && options.steps_with_work <= options.steps,
           "{1} of {0} steps are to be recorded", options.steps, options.steps_with_work);
  MW_CHECK(options.steps_with_work == 0 || !options.stops, "the last steps of a run are recorded that may end sooner");
  MW_CHECK(options.steps_with_work == 0 || backend.recorder() != nullptr,
           "the backend cannot record what its devices do");
  std::string op_by_op = options.steps_with_work > 0 ? "what devices do is recorded by the names of ops" : "";
  if (options.learning_rate.changes()) op_by_op = "the learning rate changes from step to step";
  if (options.op_times) op_by_op = "ops are timed one by one";
  if (options.keep_logits || options.keep_gradients) op_by_op = "values are kept between the ops of a step";
  {
    ProgramRun run(graph, program, options, backend, op_by_op);
    try {
      return run.run();
    } catch (const SystemError& error) {
      if (!run.failed_to_capture()) throw;
      // The others have gone on.
      if (backend.peers() != nullptr)
        throw SystemError(fmt::format("{}; a step was captured: run with --graphs off.", error.what()));
      op_by_op = error.what();
    }
  }
  return ProgramRun(graph, program, options, backend, op_by_op).run();  // from the beginning
}

}  // namespace meshwright
