// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/errors.h"
#include "executor/base/clock.h"
#include "executor/host/host_backend.h"
#include "executor/peers/peer_tags.h"
#include "executor/peers/peers.h"
#include "executor/replay/step_barrier.h"
#include "executor/replay/step_replay.h"
#include "executor/runner/assemble.h"
#include "executor/runner/device_runner.h"
#include "executor/runner/run_part.h"

namespace meshwright {

namespace {

// The first failure of any thread, kept with the blame it came with.
class FirstError {
 public:
  // REQUIRES: called inside a catch block.
  void keep(DeviceId device) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::current_exception();
      device_ = device;
    }
  }
  // As rethrow() would say it.
  [[nodiscard]] std::string sentence() const {
    try {
      rethrow();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  explicit operator bool() const { return error_ != nullptr; }
  void rethrow() const {
    if (!error_) return;
    try {
      std::rethrow_exception(error_);
    } catch (const InputError&) {
      throw;
    } catch (const InternalError& error) {
      throw InternalError(fmt::format("device {}: {}", device_.value, error.what()));
    } catch (const std::exception& error) {
      throw SystemError(fmt::format("device {} failed: {}", device_.value, error.what()));
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  DeviceId device_{0};
};

class ProgramRun {
 public:
  // `op_by_op`: why steps are not to be captured; empty: they may be.
  ProgramRun(const Graph& graph, const Program& program, const RunOptions& options, Backend& backend,
             const std::string& op_by_op)
      : context_(graph, program, options, backend), peers_(backend.peers()) {
    if (peers_ != nullptr) watched_.emplace(*peers_, context_.abort);
    for (std::size_t d = 0; d < program.devices.size(); ++d) {
      const DeviceId device(static_cast<int>(d));
      if (backend.runs_here(device)) runners_.emplace(device, std::make_unique<DeviceRunner>(context_, device));
    }
    MW_CHECK(!runners_.empty(), "a process without devices");
    const auto speaks = [](const auto& of_device) { return !of_device.second->losses().empty(); };
    MW_CHECK(std::count_if(runners_.begin(), runners_.end(), speaks) <= 1,
             "the loss of '{}' must be made, whole, by one stage", graph.name);
    steps_begin_.emplace(static_cast<int>(runners_.size()), context_.abort, peers_);
    replay_.emplace(static_cast<int>(runners_.size()), context_, op_by_op);
    for (const auto& [device, runner] : runners_) {
      times_[device].resize(static_cast<std::size_t>(options.steps));
      if (!runner->losses().empty()) losses_.assign(static_cast<std::size_t>(options.steps), 0.0);
    }
  }
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  RunResult run() {
    run_threads();
    WorkRecording work;  // before anything else is asked of the devices
    if (context_.options.steps_with_work > 0) work = context_.backend.recorder()->stop();
    RunResult result = result_of_all();
    result.work = std::move(work);
    result.issued = replay_->issued();
    return result;
  }
  [[nodiscard]] bool failed_to_capture() const { return replay_->failed_to_capture(); }

 private:
  struct StepTimes {
    Clock::time_point begin, end;
  };

  RunResult result_of_all() {
    std::vector<RunPart> parts;
    parts.push_back(own_part());
    if (peers_ == nullptr) return assemble(context_.graph, context_.program, context_.options, parts);
    const std::uint64_t tag = peer_tag(PeerTag::Result, 0);
    try {
      if (peers_->rank() != 0) {
        peers_->send(0, tag, to_bytes(parts[0]));
        return {};
      }
      for (int other = 1; other < peers_->size(); ++other)
        parts.push_back(run_part_from_bytes(peers_->receive(other, tag, context_.abort)));
    } catch (const Aborted&) {
      blame_peer();
    }
    return assemble(context_.graph, context_.program, context_.options, parts);
  }

  void run_threads() {
    FirstError error;
    std::vector<std::thread> threads;
    const auto keep = [&](DeviceId device) {
      error.keep(device);
      context_.abort.raise();
      if (peers_ != nullptr) peers_->fail(error.sentence());
    };
    const auto work = [&](DeviceId device) {
      try {
        run_device(device);
      } catch (const Aborted&) {
      } catch (...) {
        keep(device);
      }
    };
    for (const auto& [device, runner] : runners_) {
      try {
        threads.emplace_back(work, device);
      } catch (...) {
        keep(device);
        break;
      }
    }
    for (std::thread& thread : threads) thread.join();
    const bool peer_failed = peers_ != nullptr && peers_->failure();
    if (error || peer_failed) {  // collectives first: a device may still be in one that the others have left
      context_.groups.clear();
      for (const auto& [device, runner] : runners_) runner->abandon();
    }
    error.rethrow();
    if (peer_failed) blame_peer();
  }

  [[noreturn]] void blame_peer() const {
    const auto failure = peers_->failure();
    MW_CHECK(failure, "a run was aborted by nobody");
    throw SystemError(fmt::format("process {}: {}", failure->rank, failure->why));
  }

  void run_device(DeviceId device) {
    DeviceRunner& runner = *runners_.at(device);
    std::vector<StepTimes>& times = times_.at(device);
    const auto number = static_cast<int>(std::distance(runners_.begin(), runners_.find(device)));
    runner.initialise();
    for (int step = 0; step < context_.options.steps; ++step) {
      steps_begin_->arrive_and_wait(number == 0);
      if (step + context_.options.steps_with_work == context_.options.steps) {
        if (number == 0) context_.backend.recorder()->start();
        steps_begin_->arrive_and_wait(number == 0);
      }
      StepTimes& of_step = times[static_cast<std::size_t>(step)];
      of_step.begin = Clock::now();
      replay_->run_step(number, runner, step, step + context_.options.recorded_steps >= context_.options.steps);
      of_step.end = Clock::now();
      // One device alone owns the loss, so nobody else writes here.
      const std::vector<double>& losses = runner.losses();
      if (!losses.empty()) losses_[static_cast<std::size_t>(step)] = std::accumulate(losses.begin(), losses.end(), 0.0);
      if (step + 1 < context_.options.steps) replay_->prepare(number, runner);
    }
  }

  RunPart own_part() const {
    std::vector<Clock::time_point> origins;  // [step]
    for (std::size_t step = 0; step < times_.begin()->second.size(); ++step) {
      Clock::time_point origin = times_.begin()->second[step].begin;
      for (const auto& [device, times] : times_) origin = std::min(origin, times[step].begin);
      origins.push_back(origin);
    }
    RunPart part;
    part.losses = losses_;
    for (const auto& [device, runner] : runners_) {
      RunPart::OfDevice& own = part.devices.emplace_back();
      own.device = device;
      own.peak = runner->peak_memory();
      const std::vector<StepTimes>& times = times_.at(device);
      for (std::size_t step = 0; step < times.size(); ++step)
        own.times.push_back({since(origins[step], times[step].begin), since(origins[step], times[step].end)});
      for (const TimedSpan& span : runner->spans()) {
        const Clock::time_point origin = origins[static_cast<std::size_t>(span.step)];
        own.spans.push_back(
            {span.step,
             {span.kind, device, span.stage, span.microbatch, since(origin, span.begin), since(origin, span.end)}});
      }
    }
    for (const WantedTile& wanted : wanted_tiles(context_.graph, context_.program, context_.options))
      if (const auto found = runners_.find(wanted.device); found != runners_.end())
        part.tiles.push_back(found->second->persistent(wanted.buffer));
    return part;
  }

  RunContext context_;
  Peers* const peers_;
  std::optional<Watched> watched_;
  std::optional<StepBarrier> steps_begin_;
  std::map<DeviceId, std::unique_ptr<DeviceRunner>> runners_;  // of this process
  std::map<DeviceId, std::vector<StepTimes>> times_;           // [step]
  std::vector<double> losses_;                                 // [step]
  std::optional<StepReplay> replay_;                           // goes before the devices it has captured
};

}  // namespace

RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check,
                      const RunOptions& options) {
  HostBackend host(options.precision);
  return run_program(graph, program, check, options, host);
}

RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check, const RunOptions& options,
                      Backend& backend) {
  require_valid(options);
  MW_CHECK(check.violations.empty(), "an unsound program is not run: {}", check.violations.front());
  MW_CHECK(!program.devices.empty(), "a program without devices");
  MW_CHECK(0 <= options.steps_with_work && options.steps_with_work <= options.steps,
           "of {} steps {} are to be recorded", options.steps, options.steps_with_work);
  MW_CHECK(options.steps_with_work == 0 || backend.recorder() != nullptr, "nobody records what these devices do");
  std::string op_by_op = options.steps_with_work > 0 ? "what devices do is recorded by the names of ops" : "";
  {
    ProgramRun run(graph, program, options, backend, op_by_op);
    try {
      return run.run();
    } catch (const SystemError& error) {
      if (!run.failed_to_capture()) throw;
      op_by_op = error.what();
    }
  }
  return ProgramRun(graph, program, options, backend, op_by_op).run();  // from the beginning
}

}  // namespace meshwright
