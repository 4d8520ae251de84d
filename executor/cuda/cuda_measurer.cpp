// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_measurer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_graph.h"
#include "executor/cuda/on_gpu.h"
#include "executor/cuda/ops_in_a_row.h"
#include "kernels/cuda/elementwise/random.h"
#include "kernels/cuda/measure/copy_bandwidth.h"
#include "kernels/cuda/runtime/clocks.h"

namespace meshwright {

namespace cuda = kernels::cuda;

namespace {

constexpr int kMaxRepetitions = 100;    // of an op, in one measurement
constexpr std::size_t kMaxBodies = 2;   // that take turns
constexpr double kOperandShare = 0.6;   // of free memory; the rest is for workspaces
constexpr std::size_t kArenaShare = 8;  // a device whose workspace took more than 1 / this of the free memory is remade
constexpr std::size_t kCopiedL2s = 8;   // a copy of so many times the L2 leaves it behind
constexpr std::size_t kMinFlushed = std::size_t{1} << 20;
constexpr int kLaunches = 200;
constexpr int kReplayed = 8;  // collectives or messages in one graph

// Out of memory is no failure where it is awaited.
template <class Action>
decltype(auto) measure_on_gpu(Action&& action) {
  return on_gpu("measuring a GPU", std::forward<Action>(action));
}

CudaOptions on_gpus(int gpus, std::shared_ptr<cuda::ProductChoices> choices) {
  CudaOptions options;
  options.gpus = gpus;
  options.time_products = choices != nullptr;
  options.product_choices = std::move(choices);
  return options;
}

std::string describe_clocks(int gpu) {
  const std::optional<cuda::Clocks> clocks = cuda::clocks_of(gpu);
  return clocks ? fmt::format("{} MHz and {:.0f} W", clocks->multiprocessors_mhz, clocks->watts) : "";
}

// Numbers on a device, for collectives and messages.
DeviceMemory make_floats(CudaDevice& device, std::int64_t n) {
  DeviceMemory data(device.allocate(static_cast<std::size_t>(n) * sizeof(float)));
  cuda::fill_uniform(device.stream(), static_cast<float*>(data.get()), n, 0, 0, OperandMemory::kPositive.low,
                     OperandMemory::kPositive.high);
  return data;
}

}  // namespace

namespace {

// The ops that are joined and those that are not, as often as each occurs.
MeasuredTime mixed_time(double share, const MeasuredTime& joined, const MeasuredTime& alone) {
  return {share * joined.median + (1.0 - share) * alone.median, share * joined.spread + (1.0 - share) * alone.spread,
          std::min(joined.samples, alone.samples), joined.added};
}

}  // namespace

// --- operands ---

void* CudaOperandMemory::allocate(DType type, std::int64_t elements) {
  device_.use();
  owned_.emplace_back(cuda::allocate(static_cast<std::size_t>(elements * size_of(type))));
  return owned_.back().get();
}

void* CudaOperandMemory::make_numbers(DType type, std::int64_t elements, std::uint64_t key, Range range) {
  void* data = allocate(type, elements);
  with_cuda_type(type, [&](auto zero) {
    cuda::fill_uniform(device_.stream(), static_cast<decltype(zero)*>(data), elements, key, 0, range.low, range.high);
  });
  return data;
}

void* CudaOperandMemory::make_integers(const std::vector<std::int32_t>& integers) {
  void* data = allocate(DType::I32, static_cast<std::int64_t>(integers.size()));
  device_.write(data, integers.data(), integers.size() * sizeof(std::int32_t));
  cuda::synchronize(device_.stream());  // before the host's go
  return data;
}

// --- time ---

class CudaMeasurer::Interval {
 public:
  Interval() : begin_(cuda::make_event(true)) {
    try {
      end_ = cuda::make_event(true);
    } catch (...) {
      cuda::destroy(begin_);
      throw;
    }
  }
  Interval(const Interval&) = delete;
  Interval& operator=(const Interval&) = delete;
  ~Interval() {
    cuda::destroy(begin_);
    cuda::destroy(end_);
  }
  void begin(cuda::Stream stream) { cuda::record(begin_, stream); }
  void end(cuda::Stream stream) { cuda::record(end_, stream); }
  [[nodiscard]] double seconds() const {  // waits
    cuda::synchronize(end_);
    return cuda::seconds_between(begin_, end_);
  }

 private:
  cuda::Event begin_, end_;
};

CudaMeasurer::CudaMeasurer(int gpus, int devices, std::shared_ptr<cuda::ProductChoices> choices)
    : backend_(on_gpus(gpus, std::move(choices)), devices), l2_(0), devices_(static_cast<std::size_t>(devices)) {
  measure_on_gpu([&] {
    const cuda::DeviceFacts facts = cuda::facts_of(0);
    device_name_ = fmt::format("{}, {} multiprocessors", facts.name, facts.multiprocessors);
    libraries_ = fmt::format("{}; driver for {}", facts.libraries, facts.driver);
    l2_ = facts.l2;
    cuda::use_device(0);
    flushed_.reset(cuda::allocate(flushed_size()));
    // Made once: measurements use the same events again.
    while (intervals_.size() < kMaxRepetitions * kMaxBodies) intervals_.push_back(std::make_unique<Interval>());
    clocks_ = describe_clocks(0);
  });
}

CudaMeasurer::~CudaMeasurer() = default;

CudaDevice& CudaMeasurer::device(int number) {
  auto& made = devices_.at(static_cast<std::size_t>(number));
  if (made == nullptr) made = backend_.make_device(DeviceId(number));
  CudaDevice& device = on_cuda(*made);
  device.use();
  return device;
}

void CudaMeasurer::forget_devices() {
  for (auto& device : devices_) device.reset();
}

std::size_t CudaMeasurer::flushed_size() const { return std::max(2 * l2_, kMinFlushed); }

std::vector<MeasuredTime> CudaMeasurer::time_each(CudaDevice& device, const std::vector<std::function<void()>>& bodies,
                                                  const std::vector<Recent>& recent, const MeasureOptions& options) {
  const std::size_t turns = bodies.size();
  std::vector<std::vector<double>> seconds(turns);
  const auto repeat = [&](int repetitions) {
    const std::size_t intervals = static_cast<std::size_t>(repetitions) * turns;
    for (std::size_t i = 0; i < intervals; ++i) {
      // Overwrites twice the L2, so that each repetition reads its operands from memory, as in a step.
      cuda::clear(flushed_.get(), flushed_size(), device.stream());
      for (const Recent& one : recent) cuda::copy_by_kernel(device.stream(), one.data, one.data, one.size);
      intervals_[i]->begin(device.stream());
      bodies[i % turns]();
      intervals_[i]->end(device.stream());
    }
    // After all are queued: to wait for one interval would let the device run dry before the next.
    for (std::size_t i = 0; i < intervals; ++i) seconds[i % turns].push_back(intervals_[i]->seconds());
  };
  for (int i = 0; i < std::max(options.warmup, 1); ++i)
    for (const auto& body : bodies) {
      body();
      (void)device.stream();  // what it holds is not done together with the next
    }
  cuda::synchronize(device.stream());
  const Clock::time_point begin = Clock::now();
  // The first repetition shows how many fill samples * min_sample.
  repeat(1);
  const double fitting = std::ceil(options.samples * options.min_sample.si() / std::max(seconds_since(begin), 1e-9));
  const int minimum = std::clamp(options.samples, 1, kMaxRepetitions);
  repeat(static_cast<int>(std::clamp(fitting, 1.0 * minimum, 1.0 * kMaxRepetitions)) - 1);
  std::vector<MeasuredTime> sampled;
  for (const std::vector<double>& of_one : seconds) sampled.push_back(summarize(of_one));
  return sampled;
}

MeasuredThreads::Timed CudaMeasurer::time_queued(CudaDevice& device, std::function<void()> body) const {
  device.use();
  return [&device, body = std::move(body), interval = std::make_shared<Interval>()](int repetitions) {
    interval->begin(device.stream());
    for (int i = 0; i < repetitions; ++i) body();
    interval->end(device.stream());
    return interval->seconds() / repetitions;
  };
}

MeasuredThreads::Timed CudaMeasurer::time_replayed(std::shared_ptr<CudaStepGraph> graph, int number, CudaDevice& device,
                                                   std::function<void()> body) const {
  device.use();
  return [&device, number, graph = std::move(graph), body = std::move(body), interval = std::make_shared<Interval>(),
          runs = std::make_shared<int>(0)](int repetitions) {
    // The first run takes what memory it needs, and all devices are idle when the second begins, which captures.
    if ((*runs)++ == 0) {
      interval->begin(device.stream());
      for (int i = 0; i < repetitions; ++i) body();
      interval->end(device.stream());
      return interval->seconds() / repetitions;
    }
    if (*runs == 2)
      graph->capture(number, device, [&] {
        for (int i = 0; i < kReplayed; ++i) body();
      });
    const int replays = (repetitions + kReplayed - 1) / kReplayed;
    interval->begin(device.stream());
    for (int i = 0; i < replays; ++i) graph->replay(number, device, 0, false);
    interval->end(device.stream());
    return interval->seconds() / (replays * kReplayed);
  };
}

// --- what is measured ---

std::optional<MeasuredTime> CudaMeasurer::measure_op(const Graph& graph, const Op& op,
                                                     const std::vector<std::int64_t>& local_sizes,
                                                     const MeasureOptions& options) {
  return measure_on_gpu([&]() -> std::optional<MeasuredTime> {
    std::optional<MeasuredTime> sampled;
    std::size_t workspace = 0;
    try {
      CudaDevice& first = device(0);
      const auto [share, ops] = with_their_rows(graph, op, local_sizes);
      if (share > 0.0) {
        OpsInARow row(graph, ops, local_sizes, first);
        if (row.done_together()) {
          // Runs with and without the op take turns, under the same clocks: its time is the difference.
          const auto times = time_each(first, {row.running(ops.size()), row.running(ops.size() - 1)},
                                       row.recent<Recent>(graph, *ops.front(), l2_), options);
          sampled = added_time(times[0], times[1]);
        }
      }
      if (!sampled || share < 1.0) {
        OpsInARow alone(graph, {&op}, local_sizes, first);
        const MeasuredTime own = time_each(first, {alone.running(1)}, alone.recent<Recent>(graph, op, l2_), options)[0];
        sampled = sampled ? mixed_time(share, *sampled, own) : own;
      }
      workspace = first.arena().size();
    } catch (const cuda::OutOfMemory&) {
      forget_devices();
      return std::nullopt;
    }
    // The next op may need for its operands what this one has taken for its work.
    if (workspace > cuda::free_memory().free / kArenaShare) forget_devices();
    return sampled;
  });
}

MeasuredTime CudaMeasurer::measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                              const MeasureOptions& options) {
  const int maximum = static_cast<int>(devices_.size());
  require(ranks >= 1 && ranks <= maximum, "a collective over {} ranks cannot be measured on {} devices; give 1 to {}.",
          ranks, maximum, maximum);
  // The size is that of the whole array, of which each rank has a part.
  const std::int64_t part = std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)) / ranks, 1);
  const std::int64_t whole = part * ranks;
  return measure_on_gpu([&] {
    MeasuredThreads measurement(ranks, options);
    std::vector<DeviceId> members;
    for (int rank = 0; rank < ranks; ++rank) {
      members.emplace_back(rank);
      (void)device(rank);
    }
    const std::shared_ptr<Group> group = backend_.make_group(members, measurement.abort());
    const auto graph = std::make_shared<CudaStepGraph>(ranks, measurement.abort());
    return measurement.run([&](int rank) {
      CudaDevice& own = device(rank);
      const std::shared_ptr<void> in = make_floats(own, whole), out = make_floats(own, whole);
      const std::vector<std::int64_t> shape = {part, ranks};
      return time_replayed(graph, rank, own, [=, &own] {
        const CollectiveCall call{rank, own, DType::F32, in.get(), out.get()};
        switch (kind) {
          case CollectiveKind::AllReduce:
            return group->all_reduce(call, whole, kernels::Reduction::Sum);
          case CollectiveKind::ReduceScatter:
            return group->reduce_scatter(call, 1, part, kernels::Reduction::Sum);
          case CollectiveKind::AllGather:
            return group->all_gather(call, 1, part);
          case CollectiveKind::AllToAll:
            return group->all_to_all(call, shape, 0, 1);
        }
      });
    });
  });
}

MeasuredTime CudaMeasurer::measure_transfer(std::int64_t size_bytes, const MeasureOptions& options) {
  require(devices_.size() >= 2, "a message cannot be measured on one device; give 2.");
  const std::vector<std::int64_t> shape = {
      std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)), 1)};
  const std::vector<std::int64_t> origin = {0};
  return measure_on_gpu([&]() -> MeasuredTime {
    MeasuredThreads measurement(2, options);
    (void)device(0), (void)device(1);
    const std::unique_ptr<Messages> there = backend_.make_messages(DeviceId(0), DeviceId(1), measurement.abort());
    const std::unique_ptr<Messages> back = backend_.make_messages(DeviceId(1), DeviceId(0), measurement.abort());
    const auto graph = std::make_shared<CudaStepGraph>(2, measurement.abort());
    const MeasuredTime both_ways = measurement.run([&](int thread) {
      CudaDevice& own = device(thread);
      const std::shared_ptr<void> data = make_floats(own, shape[0]);
      return time_replayed(graph, thread, own, [&, thread, data] {
        const BoxView whole{shape, origin, shape};
        if (thread == 0) there->send(own, 0, DType::F32, data.get(), whole);
        (thread == 0 ? back : there)->receive(own, 0, DType::F32, data.get(), whole, false);
        if (thread == 1) back->send(own, 0, DType::F32, data.get(), whole);
      });
    });
    // There and back is one repetition on one device's clock: half of it is one way.
    return {both_ways.median / 2, both_ways.spread / 2, both_ways.samples};
  });
}

MeasuredTime CudaMeasurer::measure_run_overhead(const MeasureOptions& options) {
  return measure_on_gpu([&] { return time_empty_runs(backend_, options); });
}

std::optional<MeasuredTime> CudaMeasurer::measure_launch(const MeasureOptions& options) {
  return measure_on_gpu([&] {
    CudaDevice& first = device(0);
    constexpr std::size_t kBytes = 16;
    const DeviceMemory data(first.allocate(2 * kBytes));
    first.clear(data.get(), 2 * kBytes);
    auto* from = static_cast<std::byte*>(data.get());
    // A kernel with next to no work: many in a row take what their launches take.
    const MeasuredThreads::Timed timed =
        time_queued(first, [&] { cuda::copy_by_kernel(first.stream(), from, from + kBytes, kBytes); });
    for (int i = 0; i < std::max(options.warmup, 1); ++i) (void)timed(kLaunches);
    std::vector<double> seconds;
    for (int i = 0; i < std::max(options.samples, 1); ++i) seconds.push_back(timed(kLaunches));
    return summarize(seconds);
  });
}

std::optional<BytesPerSecond> CudaMeasurer::measure_copy() {
  return measure_on_gpu([&] {
    cuda::use_device(0);
    return BytesPerSecond(cuda::copy_bandwidth(kCopiedL2s * std::max(l2_, kMinFlushed)));
  });
}

Bytes CudaMeasurer::memory_for_operands() const {
  return measure_on_gpu([] {
    cuda::use_device(0);
    return kOperandShare * Bytes(static_cast<double>(cuda::free_memory().free));
  });
}

std::string CudaMeasurer::describe_device() const { return device_name_; }

std::string CudaMeasurer::describe_libraries() const {
  const std::string now = describe_clocks(0);
  return clocks_.empty() || now.empty() ? libraries_
                                        : fmt::format("{}; at {} before, {} after", libraries_, clocks_, now);
}

}  // namespace meshwright
