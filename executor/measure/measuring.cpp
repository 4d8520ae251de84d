// SPDX-License-Identifier: Apache-2.0
#include "executor/measure/measuring.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "executor/runner/device_runner.h"
#include "kernels/cpu/elementwise/random.h"

namespace meshwright {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  // nth_element leaves what is not larger in front of `middle`: its maximum is the lower of the two middle values.
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Repetitions that make one sample last `min_sample`, from the time of one.
int repetitions_for(double once, const MeasureOptions& options) {
  constexpr double kMax = 1e6;
  return static_cast<int>(std::clamp(std::ceil(options.min_sample.si() / std::max(once, 1e-9)), 1.0, kMax));
}

// Ops whose results are sums of products of their operands.
bool multiplies(OpKind kind) {
  using K = OpKind;
  constexpr K kKinds[] = {K::Contract,
                          K::Convolution,
                          K::ConvolutionBackwardInput,
                          K::ConvolutionBackwardWeight,
                          K::Attention,
                          K::AttentionBackward,
                          K::GroupedAttention,
                          K::GroupedAttentionBackward,
                          K::SelectedAttention,
                          K::SelectedAttentionBackward};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

bool holds_slots(const OpCallPlan& call, std::size_t input) {
  return operand_names(call.kind, call.input_shapes.size(), call.attributes)[input] == std::string("slots");
}

// Each of `experts` takes `taken` of the tokens, at equal distances, the first ones shifted from expert to expert.
// REQUIRES: taken <= tokens.
std::vector<std::int32_t> even_slots(std::int64_t rows, std::int64_t tokens, std::int64_t experts, std::int64_t taken) {
  // Bresenham's line: a token is taken where floor((token * taken + shift) / tokens) grows, `taken` times in all.
  std::vector<std::int32_t> slots;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t expert = 0; expert < experts; ++expert) {
        const std::int64_t shift = expert * tokens / experts;
        const std::int64_t before = (token * taken + shift) / tokens, after = ((token + 1) * taken + shift) / tokens;
        slots.push_back(after > before ? static_cast<std::int32_t>(before) : -1);
      }
  return slots;
}

// A shard with part of the tokens has as many slots as belong to them. What is made of slots alone has no capacity;
// there each token goes to one expert.
std::vector<std::int32_t> slots_of(const OpCallPlan& call, std::size_t input) {
  const std::vector<std::int64_t>& shape = call.input_shapes[input];
  const std::int64_t tokens = shape[1], experts = shape[2];
  const std::int64_t all = call.space.axes[static_cast<std::size_t>(call.space.inputs[input][1])].size;
  const std::optional<int> capacity = call.space.find("capacity");
  const std::int64_t slots = capacity ? call.space.axes[static_cast<std::size_t>(*capacity)].size : all / experts;
  return even_slots(shape[0], tokens, experts, std::clamp<std::int64_t>(slots * tokens / all, 1, tokens));
}

}  // namespace

MeasuredTime summarize(const std::vector<double>& seconds) {
  MW_CHECK(!seconds.empty(), "a median of no samples");
  const double middle = median(seconds);
  std::vector<double> deviations;
  for (const double value : seconds) deviations.push_back(std::abs(value - middle));
  return {Seconds(middle), Seconds(median(deviations)), static_cast<int>(seconds.size())};
}

MeasuredTime added_time(const MeasuredTime& with, const MeasuredTime& without) {
  // The two spreads are independent: they add as squares.
  return {std::max(with.median - without.median, Seconds(0.0)),
          Seconds(std::hypot(with.spread.si(), without.spread.si())), with.samples, true};
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// --- MeasuredThreads ---

MeasuredThreads::MeasuredThreads(int threads, const MeasureOptions& options, Of of)
    : threads_(threads), options_(options), of_(of), barrier_(threads, abort_) {}

MeasuredTime MeasuredThreads::run(const std::function<Timed(int thread)>& set_up) {
  times_.assign(static_cast<std::size_t>(threads_), 0.0);
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_; ++t) threads.emplace_back([this, t, &set_up] { guarded(t, set_up); });
  for (std::thread& thread : threads) thread.join();
  if (error_) std::rethrow_exception(error_);
  return summarize(samples_);
}

void MeasuredThreads::guarded(int thread, const std::function<Timed(int)>& set_up) {
  try {
    measure(thread, set_up(thread));
  } catch (const Aborted&) {
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    abort_.raise();
  }
}

void MeasuredThreads::measure(int thread, const Timed& timed) {
  for (int i = 0; i < std::max(options_.warmup, 1); ++i) (void)sample(thread, timed, 1);
  // Every thread computes the same number from the same time, so that their barriers match.
  const int repetitions = repetitions_for(sample(thread, timed, 1), options_);
  for (int i = 0; i < std::max(options_.samples, 1); ++i) {
    const double seconds = sample(thread, timed, repetitions);
    if (thread == 0) samples_.push_back(seconds);
  }
}

// What one repetition took; every thread gets the same number.
double MeasuredThreads::sample(int thread, const Timed& timed, int repetitions) {
  barrier_.arrive_and_wait();
  times_[thread] = timed(repetitions);
  barrier_.arrive_and_wait();
  const double seconds = of_ == Of::Slowest ? *std::max_element(times_.begin(), times_.end())
                                            : std::accumulate(times_.begin(), times_.end(), 0.0) / threads_;
  barrier_.arrive_and_wait();  // nobody writes the next times before all have read these
  return seconds;
}

// --- operands ---

std::vector<std::int32_t> integers_of(const OpCallPlan& call, std::size_t input, std::uint64_t key) {
  if (holds_slots(call, input)) return slots_of(call, input);
  const auto& position = call.space.position_axis;
  std::vector<std::int32_t> integers(static_cast<std::size_t>(call.input_elements(input)));
  kernels::fill_integers(integers.data(), call.input_elements(input), key, 0,
                         position ? call.sizes[static_cast<std::size_t>(*position)] : 1);
  return integers;
}

MeasuredOperands make_operands(const Graph& graph, const Op& op, const OpCallPlan& call, std::uint64_t key,
                               OperandMemory& memory, const std::vector<GivenInput>& given) {
  MeasuredOperands operands;
  const OperandMemory::Range range = multiplies(op.kind) ? OperandMemory::kFactors : OperandMemory::kPositive;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto exists = std::ranges::find(given, i, &GivenInput::number);
    if (exists != given.end()) {
      operands.inputs.push_back(exists->data);
      continue;
    }
    const DType type = graph.tensor(op.inputs[i]).dtype;
    operands.inputs.push_back(type == DType::I32 ? memory.make_integers(integers_of(call, i, key + i))
                                                 : memory.make_numbers(type, call.input_elements(i), key + i, range));
  }
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const auto overwritten = std::find(op.inputs.begin(), op.inputs.end(), op.outputs[o]);
    // An op in place (an update, an accumulation) writes where it reads.
    if (overwritten != op.inputs.end()) {
      operands.outputs.push_back(operands.inputs[static_cast<std::size_t>(overwritten - op.inputs.begin())]);
      continue;
    }
    const DType type = graph.tensor(op.outputs[o]).dtype;
    const std::int64_t elements = call.output_elements(o);
    operands.outputs.push_back(
        type == DType::I32 ? memory.make_integers(std::vector<std::int32_t>(static_cast<std::size_t>(elements), 0))
                           : memory.make_numbers(type, elements, key, range));
  }
  return operands;
}

MeasuredTime time_empty_runs(Backend& backend, const MeasureOptions& options) {
  // One Run is too short to be timed by itself.
  constexpr int kRuns = 1000;
  Program program;
  program.stages.push_back({LogicalMesh{{1, 1}, {}}, {DeviceId(0)}, {}, {}, {}, {}});
  program.executables.push_back({StageId(0), Phase::Forward, {}, {}});
  const Instruction run{Instruction::Kind::Run, 0, MicrobatchId(0), {}, {}, {}};
  program.devices.push_back(std::vector<Instruction>(kRuns, run));
  program.stage_of_device = {StageId(0)};
  program.persistent_bytes = {Bytes(0)};

  const Graph graph;
  const int steps = std::max(options.samples, 1);
  RunContext context(graph, program, {.steps = steps}, backend);
  DeviceRunner runner(context, DeviceId(0));
  std::vector<double> samples;
  for (int i = -options.warmup; i < steps; ++i) {
    const Clock::time_point begin = Clock::now();
    runner.run_step({0, false, false});
    if (i >= 0) samples.push_back(seconds_since(begin) / kRuns);
  }
  return summarize(samples);
}

}  // namespace meshwright
