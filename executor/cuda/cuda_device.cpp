// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/sharding/op_ranges.h"
#include "executor/base/element_type.h"
#include "executor/cuda/on_gpu.h"
#include "kernels/cuda/layout/tiles.h"
#include "kernels/cuda/runtime/graph.h"

namespace meshwright {

namespace cuda = kernels::cuda;

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kMinChunk = std::size_t{1} << 20;
constexpr std::size_t kScalars = 4096;  // results of one step that are read back
constexpr int kYields = 16;             // between two looks at an event: microseconds
constexpr std::chrono::milliseconds kNap{1};
constexpr std::chrono::seconds kPatience{2};

CudaKernel find_kernel(OpKind kind) {
  for (const auto family : {cuda_contraction_kernel, cuda_elementwise_kernel, cuda_normalization_kernel,
                            cuda_attention_kernel, cuda_embedding_kernel, cuda_loss_kernel, cuda_convolution_kernel,
                            cuda_layout_kernel, cuda_mixture_kernel, cuda_optimizer_kernel})
    if (const CudaKernel found = family(kind)) return found;
  throw InputError(
      fmt::format("the CUDA backend has no kernel for {}; run this model with --backend cpu.", name_of(kind)));
}

}  // namespace

// --- CudaArena ---

CudaArena::~CudaArena() {
  for (const Chunk& chunk : chunks_) cuda::release(chunk.data);
}

void* CudaArena::take(std::size_t size) {
  const std::size_t whole = (std::max<std::size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
  // First fit: an op takes few blocks, and begin_op() frees all of them at once, so that chunks do not fragment.
  for (Chunk& chunk : chunks_)
    if (chunk.size - chunk.used >= whole) return chunk.data + std::exchange(chunk.used, chunk.used + whole);
  const std::size_t larger = std::max(whole, kMinChunk);
  const auto allocate = [&] { return static_cast<std::byte*>(cuda::allocate(larger)); };
  std::byte* data = nullptr;
  try {
    data = allocate();
  } catch (const cuda::OutOfMemory&) {
    if (!make_room_) throw;
    make_room_();
    data = allocate();
  }
  chunks_.push_back({data, larger, whole});
  return data;
}

const void* CudaArena::put(const void* host, std::size_t size) {
  void* data = take(size);
  cuda::copy_to_device(data, pinned_ == nullptr ? host : pinned_->copy_of(host, size), size, stream_);
  return data;
}

void CudaArena::begin_op() {
  std::size_t used = 0;
  for (Chunk& chunk : chunks_) used += std::exchange(chunk.used, 0);
  needed_ = std::max(needed_, used);
}

void CudaArena::settle() {
  begin_op();
  if (chunks_.size() < 2) return;
  for (const Chunk& chunk : chunks_) cuda::release(chunk.data);
  chunks_.clear();
  (void)take(needed_);
  begin_op();
}

std::size_t CudaArena::size() const {
  std::size_t all = 0;
  for (const Chunk& chunk : chunks_) all += chunk.size;
  return all;
}

// --- CudaDevice ---

CudaDevice::CudaDevice(int gpu, bool tensor_float, Stored stored, cuda::ProductTuning tuning)
    : gpu_(gpu),
      stored_(std::move(stored)),
      stream_((cuda::use_device(gpu), cuda::make_stream())),
      arena_(stream_),
      tensor_float_(tensor_float),
      products_(tensor_float, std::move(tuning)) {
  scalars_ = static_cast<std::byte*>(cuda::allocate_pinned(kScalars * sizeof(double)));
}

CudaDevice::~CudaDevice() {
  for (const cuda::Event event : events_) cuda::destroy(event);
  cuda::release_pinned(scalars_);
  cuda::release_pinned(step_);
  cuda::release(step_on_device_);
  cuda::destroy(stream_);
}

void* CudaDevice::allocate(std::size_t size) {
  use();
  try {
    return cuda::allocate(size);
  } catch (const cuda::OutOfMemory& error) {
    flush();  // held ops read blocks that the caller may release now
    throw SystemError(fmt::format("GPU {} has {} of {} free", gpu_, human_bytes(Bytes(static_cast<double>(error.free))),
                                  human_bytes(Bytes(static_cast<double>(error.total)))));
  }
}
void CudaDevice::release(void* data) noexcept { cuda::release(data); }
void CudaDevice::clear(void* data, std::size_t size) { cuda::clear(data, size, queue()); }
void CudaDevice::copy(void* to, const void* from, std::size_t size) { cuda::copy(to, from, size, queue()); }
std::optional<GpuMemory> CudaDevice::gpu_memory() const {
  use();
  const cuda::FreeMemory memory = cuda::free_memory();
  const std::size_t workspace = arena_.size() + scratch_.size() + products_.workspace();
  return GpuMemory{Bytes(static_cast<double>(workspace)), Bytes(static_cast<double>(memory.total - memory.free))};
}
void CudaDevice::write(void* to, const void* host, std::size_t size) {
  use();
  cuda::copy_to_device(to, host, size, queue());
}
void CudaDevice::read(void* host, const void* from, std::size_t size) {
  on_gpu("reading from a GPU", [&] {
    use();
    cuda::copy_to_host(host, from, size, queue());
    cuda::synchronize(stream_);
  });
}

void CudaDevice::run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
                        const OpMoment& moment) {
  const auto kind = static_cast<std::size_t>(call.kind);
  // Looked up once per kind of op: run_op is on the path of every launch.
  if (kernels_.size() <= kind) kernels_.resize(kind + 1, nullptr);
  if (kernels_[kind] == nullptr) kernels_[kind] = find_kernel(call.kind);
  input_types_.clear();
  output_types_.clear();
  for (const DType type : call.input_dtypes) input_types_.push_back(stored_(type));
  for (const DType type : call.output_dtypes) output_types_.push_back(stored_(type));
  const CudaOperands o{{call, inputs, outputs, moment},
                       input_types_,
                       output_types_,
                       stream_,
                       arena_,
                       products_,
                       &convolutions_,
                       &attention_,
                       tensor_float_,
                       turn_ == nullptr ? nullptr : step_on_device_};
  // An op that can run together with the held ones joins them. Any other op comes after them on the stream, so they are
  // queued first; it may then be the first of the next ones to hold.
  if (held_.takes_next(o, work_)) return;
  if (!held_.lets_pass(o)) {
    flush();
    if (!range_is_open_ && held_.takes_first(o, work_)) return;
  }
  // After the held ops, which use the arena, too.
  open_range();
  arena_.begin_op();
  kernels_[kind](o);
}

void CudaDevice::flush() {
  if (held_.empty()) return;
  arena_.begin_op();
  const std::string name = held_.name();
  const std::vector<std::string> joined = held_.joined_names();
  if (!name.empty()) cuda::begin_range(name.c_str());
  // The host has released blocks that held ops still read. Giving such blocks back to make room would lose their data.
  arena_.without_room([&] { held_.run(); });
  if (!name.empty()) cuda::end_range();
  for (const std::string& other : joined) {
    cuda::begin_range(joined_range_text(other).c_str());
    cuda::end_range();
  }
}

cuda::Stream CudaDevice::queue() {
  flush();
  open_range();
  return stream_;
}

void CudaDevice::open_range() {
  if (!work_.empty() && !std::exchange(range_is_open_, true)) cuda::begin_range(work_.c_str());
}

void CudaDevice::end_work() {
  if (std::exchange(range_is_open_, false)) cuda::end_range();
  work_.clear();
}

void CudaDevice::copy_box(const BoxCopy& box) {
  with_cuda_element(box.dtype, [&]<class T>(T) {
    cuda::copy_tile<T>(queue(), box.extent, static_cast<const T*>(box.from), box.from_strides, static_cast<T*>(box.to),
                       box.to_strides);
  });
}

void CudaDevice::add_box(const BoxCopy& box) {
  with_cuda_element(box.dtype, [&]<class T>(T) {
    cuda::add_tile<T>(queue(), box.extent, static_cast<const T*>(box.from), box.from_strides, static_cast<T*>(box.to),
                      box.to_strides);
  });
}

void CudaDevice::reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
                        kernels::Reduction reduction) {
  if (n == 0) return;
  with_cuda_element(stored, [&]<class T>(T) {
    (void)queue();
    arena_.begin_op();
    // The pointers to the parts go to the device as an array: any number of parts needs one kernel only.
    const auto* table = static_cast<const T* const*>(arena_.put(parts.data(), parts.size_bytes()));
    cuda::reduce<T>(stream_, table, static_cast<int>(parts.size()), static_cast<T*>(out), n, reduction);
  });
}

void CudaDevice::read_later(double* into, DType stored, const void* scalar) {
  if (awaited_.size() == kScalars) {  // the older ones first
    cuda::synchronize(stream_);
    hand_out_scalars();
  }
  cuda::copy_to_host(scalars_ + awaited_.size() * sizeof(double), scalar, static_cast<std::size_t>(size_of(stored)),
                     queue());
  awaited_.push_back({into, stored});
}

void CudaDevice::hand_out_scalars() {
  for (std::size_t i = 0; i < awaited_.size(); ++i)
    *awaited_[i].into = numbers(scalars_ + i * sizeof(double), awaited_[i].stored, 1)[0];
  awaited_.clear();
}

cuda::Event CudaDevice::event(std::size_t number) {
  while (events_.size() <= number) events_.push_back(cuda::make_event(true));
  return events_[number];
}

int CudaDevice::mark() {
  const cuda::Stream stream = queue();
  if (turn_ == nullptr)
    cuda::record(event(marks_), stream);
  else
    cuda::record_in_graph(event(marks_), stream);
  return static_cast<int>(marks_++);
}

// Polls instead of blocking in CUDA: a thread that blocks there cannot be told that another thread has failed. A device
// that runs alone has no abort_ and may block.
void CudaDevice::wait_for(cuda::Event event) const {
  if (abort_ == nullptr) return cuda::synchronize(event);
  const auto check = [&] {
    abort_->check();
    for (const auto& of_others : checks_) of_others();
  };
  for (check(); !cuda::is_done(event); check())
    for (int i = 0; i < kYields; ++i) std::this_thread::yield();
}

// Releasing memory blocks while a kernel waits for a lost GPU. Where work does not end in time, memory is not released
// at all: the process is about to end with an error.
void CudaDevice::cancel() noexcept {
  try {
    use();
    const cuda::Event last = event(marks_);
    cuda::record(last, stream_);
    const Clock::time_point begin = Clock::now();
    while (!cuda::is_done(last)) {
      if (Clock::now() - begin > kPatience) return cuda::leave_memory();
      std::this_thread::sleep_for(kNap);
    }
  } catch (const std::exception&) {  // this GPU has failed; there is nothing to wait for
  }
}

// Events have only differences of times. The last one is dated by the host's clock when the stream is known to be idle,
// and the others by their distances from it.
void CudaDevice::finish() {
  use();  // this may be the thread's first call, and the event must belong to this GPU
  const cuda::Event last = event(marks_);
  cuda::record(last, queue());
  wait_for(last);
  const Clock::time_point now = Clock::now();
  hand_out_scalars();
  finished_.clear();
  for (std::size_t m = 0; m < marks_; ++m)
    finished_.push_back(now - std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(cuda::seconds_between(events_[m], last))));
  marks_ = 0;
}

Clock::time_point CudaDevice::time_of(int mark) const { return finished_.at(static_cast<std::size_t>(mark)); }

// --- captures ---

void CudaDevice::settle() {
  (void)queue();
  arena_.settle();
}

void CudaDevice::begin_capture(std::unique_lock<std::mutex>& turn) {
  MW_CHECK(awaited_.empty() && marks_ == 0, "device on GPU {} is captured while it works", gpu_);
  if (step_ == nullptr) {
    step_on_device_ = static_cast<std::int64_t*>(allocate(sizeof(std::int64_t)));
    step_ = static_cast<std::int64_t*>(cuda::allocate_pinned(sizeof(std::int64_t)));
  }
  // The copies in a graph read the same addresses in every replay: the host keeps their sources in pinned memory until
  // the next capture.
  captured_memory_.clear();
  arena_.put_from(&captured_memory_);
  turn_ = &turn;
  ++epoch_;
  // The first node of the graph. expect_replay() writes the number of the step before each replay; kernels read it on
  // the device, because their arguments are fixed by the capture.
  cuda::copy_to_device(step_on_device_, step_, sizeof(std::int64_t), stream_);
}

void CudaDevice::end_capture() {
  flush();
  captured_scalars_ = std::exchange(awaited_, {});
  captured_marks_ = std::exchange(marks_, 0);
  arena_.put_from(nullptr);
  turn_ = nullptr;
  ++epoch_;
}

void* CudaDevice::feed(void* to, std::size_t size) {
  void* host = captured_memory_.take(size);
  cuda::copy_to_device(to, host, size, queue());
  return host;
}

void CudaDevice::expect_replay(std::int64_t step, bool with_marks) {
  *step_ = step;
  awaited_ = captured_scalars_;
  marks_ = with_marks ? captured_marks_ : 0;
}

}  // namespace meshwright
