// SPDX-License-Identifier: Apache-2.0
#include "executor/measure/profiler.h"

#include <algorithm>
#include <fstream>
#include <memory>
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
  return [body](int repetitions) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) body();
    return seconds_since(begin) / repetitions;
  };
}

// Everything is computed in F32.
class HostMemory final : public OperandMemory {
 public:
  void* make_numbers(DType type, std::int64_t elements, std::uint64_t key) override {
    void* data = allocate(type, elements);
    kernels::fill_uniform(static_cast<float*>(data), elements, key, 0, kMin, kMax);
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
};

// Memory and operands of one thread, freed with the last copy of the function that holds them.
struct HostOperands {
  HostOperands(const Graph& graph, const Op& op, const OpCallPlan& call, int thread)
      : all(make_operands(graph, op, call, static_cast<std::uint64_t>(thread), memory)) {}
  HostMemory memory;
  MeasuredOperands all;
};

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
  return MeasuredThreads(threads_, options).run([&](int thread) {
    const auto operands = std::make_shared<HostOperands>(graph, op, call, thread);
    return by_the_clock(
        [operands, &call, moment] { run_op<float>(call, operands->all.inputs, operands->all.outputs, moment); });
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
