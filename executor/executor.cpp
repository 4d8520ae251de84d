// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "executor/device_runner.h"
#include "executor/element_type.h"
#include "executor/graph_interpreter.h"
#include "executor/host_backend.h"
#include "kernels/cpu/tiles.h"

namespace meshwright {

namespace {

SimTime since(Clock::time_point origin, Clock::time_point time) {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin).count() * 1000};
}
Seconds seconds(Clock::duration duration) { return Seconds(std::chrono::duration<double>(duration).count()); }

void check_options(const RunOptions& options) {
  require(options.steps >= 1, "{} steps cannot be run; give at least 1.", options.steps);
  require(options.recorded_steps >= 1, "{} steps cannot be recorded; give at least 1.", options.recorded_steps);
  require(options.precision == DType::F32 || options.precision == DType::F64, "cannot compute in {}; give f32 or f64.",
          name_of(options.precision));
}

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

// The parameter that each of Adam's second moments belongs to.
std::map<TensorId, std::string> second_moments_of(const Graph& graph) {
  std::map<TensorId, std::string> names;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::AdamUpdate) continue;
    const std::vector<std::string> operands = operand_names(op.kind, op.inputs.size(), op.attributes);
    const auto at = std::find(operands.begin(), operands.end(), "v") - operands.begin();
    names[op.inputs[static_cast<std::size_t>(at)]] = graph.tensor(op.inputs[0]).name;
  }
  return names;
}

std::map<TensorId, std::string> parameters_of(const Graph& graph) {
  std::map<TensorId, std::string> names;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) names[tensor.id] = tensor.name;
  return names;
}

struct StepTimes {
  Clock::time_point begin, end;
};

class ProgramRun {
 public:
  ProgramRun(const Graph& graph, const Program& program, const RunOptions& options, Backend& backend)
      : context_(graph, program, options, backend),
        steps_begin_(static_cast<int>(program.devices.size()), context_.abort) {
    const std::size_t devices = program.devices.size();
    for (std::size_t d = 0; d < devices; ++d)
      runners_.push_back(std::make_unique<DeviceRunner>(context_, DeviceId(static_cast<int>(d))));
    const auto speaks = [](const auto& runner) { return !runner->losses().empty(); };
    MW_CHECK(std::count_if(runners_.begin(), runners_.end(), speaks) == (graph.loss ? 1 : 0),
             "the loss of '{}' must be made, whole, by one stage", graph.name);
    times_.assign(devices, std::vector<StepTimes>(static_cast<std::size_t>(options.steps)));
    losses_.assign(static_cast<std::size_t>(options.steps), 0.0);
  }

  RunResult run() {
    run_threads();
    RunResult result;
    result.losses = losses_;
    for (std::size_t step = 0; step < losses_.size(); ++step) result.step_times.push_back(step_time(step));
    const int steps = context_.options.steps;
    for (int step = std::max(0, steps - context_.options.recorded_steps); step < steps; ++step)
      result.timelines.push_back(timeline(static_cast<std::size_t>(step)));
    result.timeline = result.timelines.back();
    result.weights = whole(parameters_of(context_.graph));
    result.second_moments = whole(second_moments_of(context_.graph));
    if (context_.graph.loss_scaling) result.loss_scales = loss_scales(*context_.graph.loss_scaling);
    for (const auto& runner : runners_) result.peak_memory.push_back(runner->peak_memory());
    return result;
  }

 private:
  void run_threads() {
    FirstError error;
    std::vector<std::thread> threads;
    const auto work = [&](std::size_t d) {
      try {
        run_device(d);
      } catch (const Aborted&) {
      } catch (...) {
        error.keep(DeviceId(static_cast<int>(d)));
        context_.abort.raise();
      }
    };
    for (std::size_t d = 0; d < runners_.size(); ++d) {
      try {
        threads.emplace_back(work, d);
      } catch (...) {
        error.keep(DeviceId(static_cast<int>(d)));
        context_.abort.raise();
        break;
      }
    }
    for (std::thread& thread : threads) thread.join();
    error.rethrow();
  }

  void run_device(std::size_t d) {
    DeviceRunner& runner = *runners_[d];
    runner.initialise();
    for (int step = 0; step < context_.options.steps; ++step) {
      steps_begin_.arrive_and_wait();
      StepTimes& times = times_[d][static_cast<std::size_t>(step)];
      times.begin = Clock::now();
      runner.run_step(step, step + context_.options.recorded_steps >= context_.options.steps);
      times.end = Clock::now();
      // One device alone owns the loss, so nobody else writes here.
      const std::vector<double>& losses = runner.losses();
      if (!losses.empty()) losses_[static_cast<std::size_t>(step)] = std::accumulate(losses.begin(), losses.end(), 0.0);
    }
  }

  StepTimes whole_step(std::size_t step) const {
    StepTimes whole = times_[0][step];
    for (const auto& of_device : times_)
      whole = {std::min(whole.begin, of_device[step].begin), std::max(whole.end, of_device[step].end)};
    return whole;
  }
  Seconds step_time(std::size_t step) const { return seconds(whole_step(step).end - whole_step(step).begin); }

  Timeline timeline(std::size_t step) const {
    const StepTimes whole = whole_step(step);
    Timeline timeline;
    timeline.end = since(whole.begin, whole.end);
    for (std::size_t d = 0; d < runners_.size(); ++d)
      for (const TimedSpan& span : runners_[d]->spans())
        if (span.step == static_cast<int>(step))
          timeline.spans.push_back({span.kind, DeviceId(static_cast<int>(d)), span.stage, span.microbatch,
                                    since(whole.begin, span.begin), since(whole.begin, span.end)});
    std::sort(timeline.spans.begin(), timeline.spans.end(), [](const Span& a, const Span& b) {
      return std::tie(a.begin, a.device, a.end) < std::tie(b.begin, b.device, b.end);
    });
    return timeline;
  }

  // Whole tensors, by the names given, from the tiles of their owning stage.
  std::map<std::string, std::vector<double>> whole(const std::map<TensorId, std::string>& names) const {
    std::map<std::string, std::vector<double>> tensors;
    for (const Buffer& buffer : context_.program.buffers) {
      const Tensor& tensor = context_.graph.tensor(buffer.local.tensor);
      const auto name = names.find(tensor.id);
      if (!buffer.persistent || name == names.end() || buffer.name != tensor.name) continue;
      std::vector<double>& values = tensors[name->second];
      values.resize(static_cast<std::size_t>(tensor.elements()));
      for (const DeviceId device : context_.program.stages[buffer.stage.index()].devices)
        place_tile(buffer, *runners_[device.index()], tensor, values);
    }
    return tensors;
  }

  std::vector<double> loss_scales(const LossScaling& scaling) const {
    std::vector<double> scales;
    for (const Buffer& buffer : context_.program.buffers) {
      if (buffer.local.tensor != scaling.state) continue;
      for (const DeviceId device : context_.program.stages[buffer.stage.index()].devices)
        scales.push_back(
            std::ldexp(scaling.first, static_cast<int>(runners_[device.index()]->persistent(buffer.id)[0])));
    }
    return scales;
  }

  void place_tile(const Buffer& buffer, const DeviceRunner& runner, const Tensor& tensor,
                  std::vector<double>& whole) const {
    std::vector<std::int64_t> shape;
    for (const Dim& dim : tensor.dims) shape.push_back(dim.size);
    const std::vector<std::int64_t> strides = kernels::row_major_strides(shape),
                                    offset = runner.tile_offset(buffer.stage, buffer.local);
    std::int64_t first = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) first += offset[d] * strides[d];
    const std::vector<double> tile = runner.persistent(buffer.id);
    kernels::copy_tile<double>(buffer.local.shape, tile.data(), kernels::row_major_strides(buffer.local.shape),
                               whole.data() + first, strides);
  }

  RunContext context_;
  Barrier steps_begin_;
  std::vector<std::unique_ptr<DeviceRunner>> runners_;
  std::vector<std::vector<StepTimes>> times_;  // [device][step]
  std::vector<double> losses_;                 // [step]
};

}  // namespace

RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check,
                      const RunOptions& options) {
  HostBackend host(options.precision);
  return run_program(graph, program, check, options, host);
}

RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check, const RunOptions& options,
                      Backend& backend) {
  check_options(options);
  MW_CHECK(check.violations.empty(), "an unsound program is not run: {}", check.violations.front());
  MW_CHECK(!program.devices.empty(), "a program without devices");
  return ProgramRun(graph, program, options, backend).run();
}

namespace {

// One device doing everything: what the reference's timeline shows.
void add_span(Timeline& timeline, Span::Kind kind, int microbatch, Clock::time_point origin, Clock::time_point begin) {
  timeline.spans.push_back(
      {kind, DeviceId(0), StageId(0), MicrobatchId(microbatch), since(origin, begin), since(origin, Clock::now())});
}

}  // namespace

RunResult run_reference(const Graph& graph, const RunOptions& options, const StepObserver& after_backward) {
  check_options(options);
  GraphInterpreter interpreter(graph, options.seed, options.precision);
  RunResult result;
  for (int step = 0; step < options.steps; ++step) {
    Timeline timeline;
    double loss = 0.0;
    const Clock::time_point origin = Clock::now();
    interpreter.clear_accumulators();
    for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
      Clock::time_point begin = Clock::now();
      interpreter.load_inputs(step, m);
      interpreter.run(Phase::Forward);
      add_span(timeline, Span::Kind::Forward, m, origin, begin);
      if (graph.loss) loss += interpreter.get(*graph.loss)[0];
      begin = Clock::now();
      interpreter.run(Phase::Backward);
      add_span(timeline, Span::Kind::Backward, m, origin, begin);
    }
    if (after_backward) after_backward(interpreter);
    const Clock::time_point begin = Clock::now();
    interpreter.run(Phase::Update, step + 1);
    add_span(timeline, Span::Kind::Update, 0, origin, begin);
    timeline.end = timeline.spans.back().end;
    result.losses.push_back(loss);
    result.step_times.push_back(to_seconds(timeline.end));
    result.timeline = std::move(timeline);
  }
  for (const auto& [id, name] : parameters_of(graph)) result.weights[name] = interpreter.get(id);
  for (const auto& [id, name] : second_moments_of(graph)) result.second_moments[name] = interpreter.get(id);
  if (const auto& scaling = graph.loss_scaling)
    result.loss_scales = {std::ldexp(scaling->first, static_cast<int>(interpreter.get(scaling->state)[0]))};
  result.peak_memory = {interpreter.allocated()};
  return result;
}

}  // namespace meshwright
