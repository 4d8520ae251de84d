// SPDX-License-Identifier: Apache-2.0
#include "executor/measure/profiler.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "executor/base/element_type.h"
#include "executor/base/memory_pool.h"
#include "executor/host/communicator.h"
#include "executor/host/host_backend.h"
#include "executor/host/mailbox.h"
#include "executor/measure/cold_arrays.h"
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

// Memory that op after op is measured in: its pages are there after the first.
class Arena {
 public:
  // 64-byte aligned.
  void* allocate(std::size_t size) {
    const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    while (at_ < chunks_.size() && chunks_[at_].size - used_ < rounded) next_chunk();
    if (at_ == chunks_.size()) {
      const std::size_t chunk = std::max(kChunk, rounded);
      chunks_.push_back({pool_.allocate(chunk, Bytes(0)).data, chunk});
    }
    void* data = static_cast<std::byte*>(chunks_[at_].data) + used_;
    used_ += rounded;
    return data;
  }
  // Nothing that was allocated is used any more. What one large op has taken is returned.
  void clear() {
    std::size_t held = 0;
    for (const Chunk& chunk : chunks_) held += chunk.size;
    if (held > kHeld) {
      for (const Chunk& chunk : chunks_) pool_.release({chunk.data, chunk.size, Bytes(0)});
      pool_.give_back();
      chunks_.clear();
    }
    at_ = used_ = 0;
  }

 private:
  static constexpr std::size_t kAlignment = 64, kChunk = std::size_t{80} << 20, kHeld = 8 * kChunk;
  struct Chunk {
    void* data;
    std::size_t size;
  };
  void next_chunk() {
    ++at_;
    used_ = 0;
  }
  MemoryPool pool_;
  std::vector<Chunk> chunks_;
  std::size_t at_ = 0, used_ = 0;  // the chunk in use, and its bytes in use
};

// Everything is computed in F32. Numbers of one key and count are made once, and copied where they are asked for again.
class HostMemory final : public OperandMemory {
 public:
  void* make_numbers(DType type, std::int64_t elements, std::uint64_t key, Range range) override {
    void* data = allocate(type, elements);
    const auto [made, is_new] = made_.try_emplace({key, elements, range.low}, data);
    if (is_new)
      kernels::fill_uniform(static_cast<float*>(data), elements, key, 0, range.low, range.high);
    else
      std::memcpy(data, made->second, static_cast<std::size_t>(elements) * sizeof(float));  // faster
    return data;
  }
  void* make_integers(const std::vector<std::int32_t>& integers) override {
    void* data = allocate(DType::I32, static_cast<std::int64_t>(integers.size()));
    std::copy(integers.begin(), integers.end(), static_cast<std::int32_t*>(data));
    return data;
  }
  void clear() {
    made_.clear();
    arena_.clear();
  }

 private:
  void* allocate(DType type, std::int64_t elements) {
    return arena_.allocate(storage_size(elements, type, DType::F32));
  }
  Arena arena_;
  std::map<std::tuple<std::uint64_t, std::int64_t, double>, void*> made_;  // by key, elements and lowest number
};

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

// The input that was made last, if it was made so near.
std::optional<std::size_t> warm_input(const Graph& graph, const Op& op, const OpCallPlan& call) {
  for (int before = 1; before <= kNear && before <= op.id.value; ++before)
    for (const TensorId made : graph.op(OpId(op.id.value - before)).outputs) {
      const auto input = std::find(op.inputs.begin(), op.inputs.end(), made);
      if (input == op.inputs.end()) continue;
      const auto number = static_cast<std::size_t>(input - op.inputs.begin());
      if (call.input_elements(number) * static_cast<std::int64_t>(sizeof(float)) <= kBytesOfCoreCache) return number;
    }
  return std::nullopt;
}

// Memory and operands of one thread.
struct HostOperands {
  void make(const Graph& graph, const Op& op, const OpCallPlan& call, int thread, Bytes step) {
    sets.clear();
    memory.clear();
    order = ColdOrder(bytes_of(call), step);
    const std::optional<std::size_t> warm = warm_input(graph, op, call);
    for (std::size_t i = 0; i < order.count(); ++i) {
      sets.push_back(make_operands(graph, op, call, static_cast<std::uint64_t>(thread), memory));
      if (warm) share(*warm, sets.front(), sets.back());
    }
  }
  // Gives a set the input of another one; what is written in its place, too.
  static void share(std::size_t input, const MeasuredOperands& from, MeasuredOperands& to) {
    std::replace(to.outputs.begin(), to.outputs.end(), to.inputs[input], from.inputs[input]);
    to.inputs[input] = from.inputs[input];
  }
  [[nodiscard]] const MeasuredOperands& next() { return sets[order.next()]; }

  HostMemory memory;
  std::vector<MeasuredOperands> sets;
  ColdOrder order;
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
  const bool again = std::exchange(asked_, OpCall{}) == asked;
  operands_.resize(static_cast<std::size_t>(threads_));
  const MeasuredTime time = MeasuredThreads(threads_, options, MeasuredThreads::Of::Mean).run([&](int thread) {
    std::shared_ptr<HostOperands>& operands = operands_[static_cast<std::size_t>(thread)];
    if (operands == nullptr) operands = std::make_shared<HostOperands>();
    if (!again) operands->make(graph, op, call, thread, options.step);
    return by_the_clock([&of_thread = *operands, &call, moment] {
      const MeasuredOperands& set = of_thread.next();
      run_op<float>(call, set.inputs, set.outputs, moment);
    });
  });
  asked_ = asked;
  return time;
}

MeasuredTime HostMeasurer::measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                              const MeasureOptions& options) {
  check_threads("a collective", ranks);
  MeasuredThreads measurement(ranks, options);
  Communicator group(ranks, measurement.abort());
  // The size is that of the whole array, of which each rank has a part.
  const std::int64_t part = std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)) / ranks, 1);
  const std::int64_t whole = part * ranks;
  const std::vector<std::int64_t> shape = {part, ranks};
  keep_arrays(ranks);
  return measurement.run([&](int rank) {
    ColdArrays& arrays = arrays_[static_cast<std::size_t>(rank)];
    arrays.resize(whole, options.step);
    return by_the_clock([&arrays, &shape, part, whole, kind, rank, &group] {
      arrays.next();
      switch (kind) {
        case CollectiveKind::AllReduce:
          return group.all_reduce(rank, arrays.in(), arrays.out(), whole, kernels::Reduction::Sum);
        case CollectiveKind::ReduceScatter:
          return group.reduce_scatter(rank, arrays.in(), arrays.out(), 1, part, kernels::Reduction::Sum);
        case CollectiveKind::AllGather:
          return group.all_gather(rank, arrays.in(), arrays.out(), 1, part);
        case CollectiveKind::AllToAll:
          return group.all_to_all(rank, arrays.in(), arrays.out(), shape, 0, 1);
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
  keep_arrays(2);
  const MeasuredTime both_ways = measurement.run([&](int thread) {
    ColdArrays& arrays = arrays_[static_cast<std::size_t>(thread)];
    arrays.resize(shape[0], options.step);
    return by_the_clock([&arrays, thread, &there, &back, &shape, &origin] {
      const BoxView whole{shape, origin, shape};
      arrays.next();
      if (thread == 0) there.send(0, arrays.in(), whole);
      (thread == 0 ? back : there).receive(0, arrays.out(), whole, false);
      if (thread == 1) back.send(0, arrays.in(), whole);
    });
  });
  // There and back is one repetition: half of it is one way.
  return {both_ways.median / 2, both_ways.spread / 2, both_ways.samples};
}

// A thread makes its own arrays, which then lie near it.
void HostMeasurer::keep_arrays(int threads) {
  arrays_.resize(std::max(arrays_.size(), static_cast<std::size_t>(threads)));
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
