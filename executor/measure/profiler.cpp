// SPDX-License-Identifier: Apache-2.0
#include "executor/measure/profiler.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include "core/base/errors.h"
#include "executor/base/element_type.h"
#include "executor/base/memory_pool.h"
#include "executor/host/communicator.h"
#include "executor/host/host_backend.h"
#include "executor/host/mailbox.h"
#include "executor/measure/measuring.h"
#include "executor/ops/op_kernels.h"
#include "kernels/cpu/elementwise/random.h"
#include "kernels/cpu/products/gemm.h"

namespace meshwright {

namespace {

// On the thread that measures.
template <class Body>
MeasuredThreads::Timed by_the_clock(Body body) {
  return [body](int repetitions) { return seconds_per_run(body, repetitions); };
}

// Everything is computed in F32. Numbers of one key and count are made once, and copied where they are asked for again.
class HostMemory final : public OperandMemory {
 public:
  void* make_numbers(DType type, std::int64_t elements, std::uint64_t key) override {
    void* data = allocate(type, elements);
    const auto [made, is_new] = made_.try_emplace({key, elements}, data);
    if (is_new)
      kernels::fill_uniform(static_cast<float*>(data), elements, key, 0, kMin, kMax);
    else
      std::memcpy(data, made->second, static_cast<std::size_t>(elements) * sizeof(float));  // faster
    return data;
  }
  void* make_integers(const std::vector<std::int32_t>& integers) override {
    void* data = allocate(DType::I32, static_cast<std::int64_t>(integers.size()));
    std::copy(integers.begin(), integers.end(), static_cast<std::int32_t*>(data));
    return data;
  }

 private:
  void* allocate(DType type, std::int64_t elements) {
    return pool_.allocate(storage_size(elements, type, DType::F32), Bytes(0)).data;
  }
  MemoryPool pool_;
  std::map<std::pair<std::uint64_t, std::int64_t>, void*> made_;  // by key and elements
};

// In a step an op finds most operands where ops long before it have left them: in memory, as steps touch far more than
// the caches hold. So what is repeated goes around sets of operands that together are as large as a small step, in an
// order in which none is next to the one before: the processor cannot fetch it ahead.
constexpr std::size_t kBytesOfSets = std::size_t{64} << 20, kMostSets = 1024;
constexpr double kGoldenRatio = 0.618033988749895;

// Has no divisor in common with `count`, and is about the golden part of it: a walk in such steps comes everywhere.
std::size_t step_through(std::size_t count) {
  std::size_t step = std::max<std::size_t>(1, static_cast<std::size_t>(kGoldenRatio * static_cast<double>(count)));
  while (std::gcd(step, count) != 1) --step;
  return step;
}

std::size_t bytes_of(const OpCallPlan& call) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < call.input_shapes.size(); ++i) elements += call.input_elements(i);
  for (std::size_t o = 0; o < call.output_shapes.size(); ++o) elements += call.output_elements(o);
  return static_cast<std::size_t>(elements) * sizeof(float);
}

}  // namespace

// Ops that read what the op before them made, or one a few ops before, find it in the core's own cache if it fits
// there.
constexpr int kNear = 4;
constexpr std::int64_t kBytesOfCache = std::int64_t{1} << 20;

// The input that was made last, if it was made so near.
std::optional<std::size_t> warm_input(const Graph& graph, const Op& op, const OpCallPlan& call) {
  for (int before = 1; before <= kNear && before <= op.id.value; ++before)
    for (const TensorId made : graph.op(OpId(op.id.value - before)).outputs) {
      const auto input = std::find(op.inputs.begin(), op.inputs.end(), made);
      if (input == op.inputs.end()) continue;
      const auto number = static_cast<std::size_t>(input - op.inputs.begin());
      if (call.input_elements(number) * static_cast<std::int64_t>(sizeof(float)) <= kBytesOfCache) return number;
    }
  return std::nullopt;
}

// Memory and operands of one thread.
struct HostOperands {
  HostOperands(const Graph& graph, const Op& op, const OpCallPlan& call, int thread) {
    const std::size_t count = std::min(kMostSets, kBytesOfSets / bytes_of(call) + 1);
    const std::optional<std::size_t> warm = warm_input(graph, op, call);
    for (std::size_t i = 0; i < count; ++i) {
      sets.push_back(make_operands(graph, op, call, static_cast<std::uint64_t>(thread), memory));
      if (warm) share(*warm, sets.front(), sets.back());
    }
    step = step_through(count);
  }
  // Gives a set the input of another one; what is written in its place, too.
  static void share(std::size_t input, const MeasuredOperands& from, MeasuredOperands& to) {
    std::replace(to.outputs.begin(), to.outputs.end(), to.inputs[input], from.inputs[input]);
    to.inputs[input] = from.inputs[input];
  }
  [[nodiscard]] const MeasuredOperands& next() {
    at = (at + step) % sets.size();
    return sets[at];
  }
  HostMemory memory;
  std::vector<MeasuredOperands> sets;
  std::size_t at = 0, step = 1;
};

namespace {

void check_threads(const char* what, int threads) {
  require(threads >= 1, "{} cannot be measured on {} threads; give at least 1.", what, threads);
}

}  // namespace

std::optional<MeasuredTime> HostMeasurer::measure_op(const Graph& graph, const Op& op,
                                                     const std::vector<std::int64_t>& local_sizes,
                                                     const MeasureOptions& options) {
  check_threads("an op", threads_);
  const OpCallPlan call = plan_op(graph, op, local_sizes);
  // An update repeated with a fresh step number each time would drift; one number is as much work.
  const OpMoment moment;
  const OpCall asked{&graph, op.id, local_sizes};
  if (asked_ != asked) operands_.assign(static_cast<std::size_t>(threads_), nullptr);
  asked_ = asked;
  return MeasuredThreads(threads_, options).run([&](int thread) {
    std::shared_ptr<HostOperands>& operands = operands_[static_cast<std::size_t>(thread)];
    if (operands == nullptr) operands = std::make_shared<HostOperands>(graph, op, call, thread);
    return by_the_clock([operands, &call, moment] {
      const MeasuredOperands& set = operands->next();
      run_op<float>(call, set.inputs, set.outputs, moment);
    });
  });
}

MeasuredTime HostMeasurer::measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                              const MeasureOptions& options) {
  check_threads("a collective", ranks);
  MeasuredThreads measurement(ranks, options);
  Communicator group(ranks, measurement.abort());
  // The size is that of the whole array, of which each rank has a part.
  const std::int64_t part = std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)) / ranks, 1);
  const std::int64_t whole = part * ranks;
  return measurement.run([&](int rank) {
    const auto in = std::make_shared<std::vector<float>>(static_cast<std::size_t>(whole), 1.0f);
    const auto out = std::make_shared<std::vector<float>>(static_cast<std::size_t>(whole), 0.0f);
    const std::vector<std::int64_t> shape = {part, ranks};
    return by_the_clock([in, out, shape, part, whole, kind, rank, &group] {
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
    });
  });
}

MeasuredTime HostMeasurer::measure_transfer(std::int64_t size_bytes, const MeasureOptions& options) {
  MeasuredThreads measurement(2, options);
  Mailbox there(measurement.abort()), back(measurement.abort());
  const std::vector<std::int64_t> shape = {
      std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)), 1)};
  const std::vector<std::int64_t> origin = {0};
  const MeasuredTime both_ways = measurement.run([&](int thread) {
    const auto data = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape[0]), 1.0f);
    return by_the_clock([data, thread, &there, &back, &shape, &origin] {
      const BoxView whole{shape, origin, shape};
      if (thread == 0) there.send(0, data->data(), whole);
      (thread == 0 ? back : there).receive(0, data->data(), whole, false);
      if (thread == 1) back.send(0, data->data(), whole);
    });
  });
  // There and back is one repetition: half of it is one way.
  return {both_ways.median / 2, both_ways.spread / 2, both_ways.samples};
}

MeasuredTime HostMeasurer::measure_run_overhead(const MeasureOptions& options) {
  HostBackend host(DType::F32);
  return time_empty_runs(host, options);
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

std::string HostMeasurer::describe_device() const { return meshwright::describe_device(); }
std::string HostMeasurer::describe_libraries() const { return meshwright::describe_libraries(); }

}  // namespace meshwright
