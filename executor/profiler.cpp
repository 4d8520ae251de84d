// SPDX-License-Identifier: Apache-2.0
#include "executor/profiler.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "executor/communicator.h"
#include "executor/device_runner.h"
#include "executor/element_type.h"
#include "executor/host_backend.h"
#include "executor/mailbox.h"
#include "executor/memory_pool.h"
#include "executor/op_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/random.h"

namespace meshwright {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Sampled summarize(const std::vector<double>& seconds) {
  const double middle = median(seconds);
  std::vector<double> deviations;
  for (const double value : seconds) deviations.push_back(std::abs(value - middle));
  return {Seconds(middle), Seconds(median(deviations)), static_cast<int>(seconds.size())};
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Repetitions that make one sample last `min_sample`, from the time of one.
int repetitions_for(double once, const MeasureOptions& options) {
  constexpr double kMost = 1e6;
  return static_cast<int>(std::clamp(std::ceil(options.min_sample.si() / std::max(once, 1e-9)), 1.0, kMost));
}

using Body = std::function<void(int thread)>;

// One body per thread, all at once; a sample is the time of the slowest thread.
class Measurement {
 public:
  Measurement(int threads, const MeasureOptions& options)
      : threads_(threads), options_(options), barrier_(threads, abort_) {}

  Abort& abort() { return abort_; }

  // `set_up` makes a thread's body on that thread, so that its memory is its own.
  Sampled run(const std::function<Body(int thread)>& set_up) {
    times_.assign(static_cast<std::size_t>(threads_), 0.0);
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_; ++t) threads.emplace_back([this, t, &set_up] { guarded(t, set_up); });
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    return summarize(samples_);
  }

 private:
  void guarded(int thread, const std::function<Body(int)>& set_up) {
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

  void measure(int thread, const Body& body) {
    for (int i = 0; i < std::max(options_.warmup, 1); ++i) sample(thread, body, 1);
    const int repetitions = repetitions_for(sample(thread, body, 1), options_);
    for (int i = 0; i < std::max(options_.samples, 1); ++i) {
      const double slowest = sample(thread, body, repetitions);
      if (thread == 0) samples_.push_back(slowest);
    }
  }

  // The same on every thread: time of one repetition on the slowest.
  double sample(int thread, const Body& body, int repetitions) {
    barrier_.arrive_and_wait();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) body(thread);
    times_[static_cast<std::size_t>(thread)] = seconds_since(begin) / repetitions;
    barrier_.arrive_and_wait();
    const double slowest = *std::max_element(times_.begin(), times_.end());
    barrier_.arrive_and_wait();  // nobody writes the next times before all have read these
    return slowest;
  }

  const int threads_;
  const MeasureOptions options_;
  Abort abort_;
  Barrier barrier_;
  std::vector<double> times_;  // [thread]
  std::vector<double> samples_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

bool holds_slots(const OpCallPlan& call, std::size_t input) {
  return operand_names(call.kind, call.input_shapes.size(), call.attributes)[input] == std::string("slots");
}

// Each of `experts` takes `taken` of the tokens, at equal distances, the first ones shifted from expert to expert.
// REQUIRES: taken <= tokens.
std::vector<std::int32_t> even_slots(std::int64_t rows, std::int64_t tokens, std::int64_t experts, std::int64_t taken) {
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

// Of a shard with part of the tokens: as many slots as are theirs. What is made of slots alone has no capacity; there
// each token goes to one expert.
std::vector<std::int32_t> slots_of(const OpCallPlan& call, std::size_t input) {
  const std::vector<std::int64_t>& shape = call.input_shapes[input];
  const std::int64_t tokens = shape[1], experts = shape[2];
  const std::int64_t all = call.space.axes[static_cast<std::size_t>(call.space.inputs[input][1])].size;
  const std::optional<int> capacity = call.space.find("capacity");
  const std::int64_t slots = capacity ? call.space.axes[static_cast<std::size_t>(*capacity)].size : all / experts;
  return even_slots(shape[0], tokens, experts, std::clamp<std::int64_t>(slots * tokens / all, 1, tokens));
}

std::vector<std::int32_t> integers_of(const OpCallPlan& call, std::size_t input, std::uint64_t key) {
  if (holds_slots(call, input)) return slots_of(call, input);
  const auto& position = call.space.position_axis;
  std::vector<std::int32_t> integers(static_cast<std::size_t>(call.input_elements(input)));
  kernels::fill_integers(integers.data(), call.input_elements(input), key, 0,
                         position ? call.sizes[static_cast<std::size_t>(*position)] : 1);
  return integers;
}

// The operands of one op, filled with numbers an op meets in training.
class Operands {
 public:
  Operands(const Graph& graph, const Op& op, const OpCallPlan& call, int thread) {
    const auto key = static_cast<std::uint64_t>(thread);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& tensor = graph.tensor(op.inputs[i]);
      inputs.push_back(make(tensor, call.input_elements(i), key + i));
      if (tensor.dtype == DType::I32) {
        const std::vector<std::int32_t> integers = integers_of(call, i, key + i);
        std::copy(integers.begin(), integers.end(), static_cast<std::int32_t*>(inputs.back()));
      }
    }
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const auto overwritten = std::find(op.inputs.begin(), op.inputs.end(), op.outputs[o]);
      outputs.push_back(overwritten == op.inputs.end()
                            ? make(graph.tensor(op.outputs[o]), call.output_elements(o), key)
                            : inputs[static_cast<std::size_t>(overwritten - op.inputs.begin())]);
    }
  }
  std::vector<void*> inputs, outputs;

 private:
  void* make(const Tensor& tensor, std::int64_t elements, std::uint64_t key) {
    const Block block = pool_.allocate(storage_size(elements, tensor.dtype, DType::F32), Bytes(0));
    // Positive: sums of exponentials and second moments are.
    if (tensor.dtype == DType::I32)
      std::fill_n(static_cast<std::int32_t*>(block.data), elements, 0);
    else
      kernels::fill_uniform(static_cast<float*>(block.data), elements, key, 0, 0.5, 1.0);
    return block.data;
  }
  MemoryPool pool_;
};

void check_threads(const char* what, int threads) {
  require(threads >= 1, "{} cannot be measured on {} threads; give at least 1.", what, threads);
}

}  // namespace

Sampled measure_op(const Graph& graph, const Op& op, const std::vector<std::int64_t>& local_sizes, int concurrency,
                   const MeasureOptions& options) {
  check_threads("an op", concurrency);
  const OpCallPlan call = plan_op(graph, op, local_sizes);
  // An update repeated with a fresh step number each time would drift; one number is as much work.
  const OpMoment moment;
  return Measurement(concurrency, options).run([&](int thread) -> Body {
    const auto operands = std::make_shared<Operands>(graph, op, call, thread);
    return [operands, &call, moment](int) { run_op<float>(call, operands->inputs, operands->outputs, moment); };
  });
}

std::vector<std::int32_t> measured_integers(const Graph& graph, const Op& op,
                                            const std::vector<std::int64_t>& local_sizes, std::size_t input,
                                            std::uint64_t key) {
  MW_CHECK(graph.tensor(op.inputs.at(input)).dtype == DType::I32, "operand {} of '{}' has no integers", input, op.name);
  return integers_of(plan_op(graph, op, local_sizes), input, key);
}

Sampled measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks, const MeasureOptions& options) {
  check_threads("a collective", ranks);
  Measurement measurement(ranks, options);
  Communicator group(ranks, measurement.abort());
  const std::int64_t part = std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)) / ranks, 1);
  const std::int64_t whole = part * ranks;
  return measurement.run([&](int) -> Body {
    const auto in = std::make_shared<std::vector<float>>(static_cast<std::size_t>(whole), 1.0f);
    const auto out = std::make_shared<std::vector<float>>(static_cast<std::size_t>(whole), 0.0f);
    const std::vector<std::int64_t> shape = {part, ranks};
    return [in, out, shape, part, whole, kind, &group](int rank) {
      switch (kind) {
        case CollectiveKind::AllReduce:
          return group.all_reduce(rank, in->data(), out->data(), whole, kernels::Reduction::Sum);
        case CollectiveKind::ReduceScatter:
          return group.reduce_scatter(rank, in->data(), out->data(), 1, part, kernels::Reduction::Sum);
        case CollectiveKind::AllGather:
          return group.all_gather(rank, in->data(), out->data(), 1, part);
        case CollectiveKind::AllToAll:
          return group.all_to_all(rank, in->data(), out->data(), shape, 0, 1);
      }
    };
  });
}

Sampled measure_transfer(std::int64_t size_bytes, const MeasureOptions& options) {
  Measurement measurement(2, options);
  Mailbox there(measurement.abort()), back(measurement.abort());
  const std::vector<std::int64_t> shape = {
      std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)), 1)};
  const std::vector<std::int64_t> origin = {0};
  const Sampled both_ways = measurement.run([&](int) -> Body {
    const auto data = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape[0]), 1.0f);
    return [data, &there, &back, &shape, &origin](int thread) {
      const BoxView whole{shape, origin, shape};
      if (thread == 0) there.send(0, data->data(), whole);
      (thread == 0 ? back : there).receive(0, data->data(), whole, false);
      if (thread == 1) back.send(0, data->data(), whole);
    };
  });
  return {both_ways.median / 2, both_ways.spread / 2, both_ways.samples};
}

Sampled measure_run_overhead(const MeasureOptions& options) {
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
  HostBackend host(DType::F32);
  RunContext context(graph, program, {.steps = steps}, host);
  DeviceRunner runner(context, DeviceId(0));
  std::vector<double> samples;
  for (int i = -options.warmup; i < steps; ++i) {
    const Clock::time_point begin = Clock::now();
    runner.run_step(0, false);
    if (i >= 0) samples.push_back(seconds_since(begin) / kRuns);
  }
  return summarize(samples);
}

std::string describe_device() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(info, line)) {
    const std::size_t colon = line.find(':');
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
    model = line.substr(std::min(colon + 2, line.size()));
    break;
  }
  const unsigned threads = std::max(std::thread::hardware_concurrency(), 1u);
  return fmt::format("{}, {} thread{}", model, threads, threads == 1 ? "" : "s");
}

std::string describe_libraries() {
  return fmt::format("{}; g++ {}.{}.{}", kernels::product_library(), __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
}

}  // namespace meshwright
