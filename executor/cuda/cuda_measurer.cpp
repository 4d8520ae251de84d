// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_measurer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_graph.h"
#include "executor/cuda/on_gpu.h"
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
constexpr int kReplayed = 8;              // collectives or messages in one graph
constexpr std::ptrdiff_t kRecentOps = 2;  // whose results the L2 still holds

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

// --- ops that are done together ---

namespace {

std::ptrdiff_t readers_of(const Graph& graph, TensorId tensor) {
  return std::ranges::count_if(graph.ops(), [&](const Op& op) { return std::ranges::count(op.inputs, tensor) > 0; });
}

// The input that the op right before makes; nullopt: it makes none.
std::optional<std::size_t> input_made_before(const Graph& graph, const Op& op) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (const std::optional<OpId> producer = graph.tensor(op.inputs[i]).producer;
        producer && producer->index() + 1 == op.id.index())
      return i;
  return std::nullopt;
}

// Ends with `op`; begins with the product that it may be done with, if there is one. Each is the one before the next in
// the graph, which reads its result.
std::vector<const Op*> with_its_product(const Graph& graph, const Op& op) {
  std::vector<const Op*> ops = {&op};
  // What the kernel of a product may compute at its end.
  constexpr OpKind kEnds[] = {OpKind::BiasAdd, OpKind::Gelu, OpKind::Relu, OpKind::Add, OpKind::Accumulate};
  if (std::find(std::begin(kEnds), std::end(kEnds), op.kind) == std::end(kEnds)) return ops;
  while (ops.front()->kind != OpKind::Contract) {
    const Op& first = *ops.front();
    // A product is joined only with ops that follow it without a gap in the graph's list.
    const std::optional<std::size_t> made = input_made_before(graph, first);
    if (!made) return {&op};
    ops.insert(ops.begin(), &graph.op(*graph.tensor(first.inputs[*made]).producer));
    const OpKind kind = ops.front()->kind;
    // Another reader of the product needs its own result in memory, so that nothing is joined.
    if (kind != OpKind::BiasAdd && (kind != OpKind::Contract || readers_of(graph, first.inputs[*made]) > 1))
      return {&op};
  }
  return ops;
}

bool are_alike(const Graph& graph, const Op& a, const Op& b) {
  if (a.kind != b.kind || a.inputs.size() != b.inputs.size()) return false;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    const Tensor &x = graph.tensor(a.inputs[i]), &y = graph.tensor(b.inputs[i]);
    if (x.dtype != y.dtype || !std::ranges::equal(x.dims, y.dims, {}, &Dim::size, &Dim::size)) return false;
  }
  return true;
}

// Of the ops whose time an op's stands for, those of its kind and shape: the share that may be done with a product, and
// one of them, `op` itself if it may.
struct WithProducts {
  double share = 0.0;
  std::vector<const Op*> ops;
};
WithProducts with_their_products(const Graph& graph, const Op& op) {
  WithProducts found{0.0, with_its_product(graph, op)};
  int all = 0, joined = 0;
  for (const Op& other : graph.ops()) {
    if (!are_alike(graph, op, other)) continue;
    ++all;
    const std::vector<const Op*> ops = with_its_product(graph, other);
    if (ops.size() == 1) continue;
    ++joined;
    if (found.ops.size() == 1) found.ops = ops;
  }
  found.share = static_cast<double>(joined) / all;
  return found;
}

// The ops that are joined and those that are not, as often as each occurs.
MeasuredTime mixed_time(double share, const MeasuredTime& joined, const MeasuredTime& alone) {
  return {share * joined.median + (1.0 - share) * alone.median, share * joined.spread + (1.0 - share) * alone.spread,
          std::min(joined.samples, alone.samples), joined.added};
}

// An op and those before it, each of which reads what the one before it leaves.
class OpsInARow {
 public:
  // `sizes`: of the last one's shard.
  OpsInARow(const Graph& graph, const std::vector<const Op*>& ops, const std::vector<std::int64_t>& sizes,
            CudaDevice& device)
      : device_(device), memory_(device) {
    calls_.push_back(plan_op(graph, *ops.back(), sizes));
    for (std::size_t i = ops.size() - 1; i > 0; --i)
      calls_.insert(calls_.begin(), plan_op(graph, *ops[i - 1], sizes_before(graph, *ops[i - 1], calls_.front())));
    for (std::size_t i = 0; i < ops.size(); ++i) {
      calls_[i].only_next_reads = i + 1 < ops.size() && readers_of(graph, ops[i]->outputs[0]) == 1;
      GivenInput left;
      if (i > 0) left = {operands_.back().outputs[0], input_made_before(graph, *ops[i]).value()};
      operands_.push_back(make_operands(graph, *ops[i], calls_[i], 0, memory_, left));
    }
  }

  // Operands of the first one that were made just before it, and no larger than `l2`.
  template <class Recent>
  [[nodiscard]] std::vector<Recent> recent(const Graph& graph, const Op& first, std::size_t l2) const {
    std::vector<Recent> found;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      const std::optional<OpId> producer = graph.tensor(first.inputs[i]).producer;
      if (!producer || first.id.index() - producer->index() > kRecentOps || producer->index() >= first.id.index())
        continue;
      const auto size =
          static_cast<std::size_t>(calls_.front().input_elements(i) * size_of(graph.tensor(first.inputs[i]).dtype));
      if (size > 0 && size <= l2) found.push_back({operands_.front().inputs[i], size});
    }
    return found;
  }

  // The first `count` of them.
  [[nodiscard]] std::function<void()> running(std::size_t count) {
    return [this, count] {
      // An update repeated with a fresh step number each time would drift; one number is as much work.
      for (std::size_t i = 0; i < count; ++i)
        device_.run_op(calls_[i], operands_[i].inputs, operands_[i].outputs, OpMoment{});
    };
  }
  // Whether the device takes them as ops to be done together. Runs them.
  [[nodiscard]] bool done_together() {
    running(calls_.size())();
    const bool together = device_.held() == calls_.size();
    (void)device_.stream();
    return together;
  }

 private:
  static std::vector<std::int64_t> sizes_before(const Graph& graph, const Op& op, const OpCallPlan& next) {
    std::vector<std::int64_t> sizes;
    // Axes that both ops have keep the shard's size; those that only the earlier op has are whole.
    for (const IterationAxis& axis : iteration_space(graph, op).axes) {
      const std::optional<int> shared = next.space.find(axis.name);
      sizes.push_back(shared ? next.sizes[static_cast<std::size_t>(*shared)] : axis.size);
    }
    return sizes;
  }

  CudaDevice& device_;
  CudaOperandMemory memory_;
  std::vector<OpCallPlan> calls_;
  std::vector<MeasuredOperands> operands_;
};

}  // namespace

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
      const auto [share, ops] = with_their_products(graph, op);
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
