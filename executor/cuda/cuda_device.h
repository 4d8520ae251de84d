// SPDX-License-Identifier: Apache-2.0
// A logical device on a GPU. Internal to executor/cuda.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/cuda_kernel_table.h"
#include "executor/cuda/held_ops.h"
#include "executor/cuda/pinned_memory.h"
#include "executor/device/backend.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/runtime/ranges.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright {

// Memory for the time of one op. Its chunks are allocated once and reused.
class CudaArena final : public CudaWorkspace {
 public:
  explicit CudaArena(kernels::cuda::Stream stream) : stream_(stream) {}
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;
  ~CudaArena() override;
  [[nodiscard]] void* take(std::size_t size) override;
  [[nodiscard]] const void* put(const void* host, std::size_t size) override;
  void begin_op();  // what was taken before is free again
  // One chunk in the place of several, as large as the ops so far need. REQUIRES: the stream is idle.
  void settle();
  // `make_room` is called when an allocation fails, before it is repeated once.
  void on_out_of_memory(std::function<void()> make_room) { make_room_ = std::move(make_room); }
  // Runs `action` without calling make_room, for held ops: they may read blocks that were released since.
  template <class Action>
  void without_room(Action action) {
    std::function<void()> make_room = std::exchange(make_room_, nullptr);
    action();
    make_room_ = std::move(make_room);
  }
  // During a capture: host data is copied into `pinned`, from where replays read it. Null ends this.
  void put_from(PinnedMemory* pinned) { pinned_ = pinned; }
  [[nodiscard]] std::size_t size() const;

 private:
  struct Chunk {
    std::byte* data;
    std::size_t size, used;
  };
  kernels::cuda::Stream stream_;
  PinnedMemory* pinned_ = nullptr;
  std::vector<Chunk> chunks_;
  std::size_t needed_ = 0;  // by one op, at most, so far
  std::function<void()> make_room_;
};

// Page-locked memory of the host, which kernels read and write across the bus, at its address.
class PinnedStorage final : public Storage {
 public:
  [[nodiscard]] void* allocate(std::size_t size) override { return kernels::cuda::allocate_pinned(size); }
  void release(void* data) noexcept override { kernels::cuda::release_pinned(data); }
};

// Work is queued on the stream at once, except for ops that are held back to run with later ones (CudaTogether); any
// other work queues these first. Ranges name the queued work in recordings: ops that run together share one, named by
// their CudaTogether.
class CudaDevice final : public Device {
 public:
  using Stored = std::function<DType(DType)>;
  CudaDevice(int gpu, bool tensor_float, Stored stored, kernels::cuda::ProductTuning tuning = {});
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override;

  void* allocate(std::size_t size) override;
  void release(void* data) noexcept override;
  [[nodiscard]] Storage& storage_on_host() override { return host_storage_; }
  void clear(void* data, std::size_t size) override;
  void copy(void* to, const void* from, std::size_t size) override;
  [[nodiscard]] std::optional<GpuMemory> gpu_memory() const override;
  void write(void* to, const void* host, std::size_t size) override;
  void read(void* host, const void* from, std::size_t size) override;
  void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
              const OpMoment& moment) override;
  void copy_box(const BoxCopy& box) override;
  void add_box(const BoxCopy& box) override;
  void reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
              kernels::Reduction reduction) override;
  Scratch& scratch() override { return scratch_; }
  void begin_work(const std::string& name) override { work_ = name; }
  void end_work() override;
  void read_later(double* into, DType stored, const void* scalar) override;
  int mark() override;
  void finish() override;
  void on_out_of_memory(std::function<void()> give_back) override { arena_.on_out_of_memory(std::move(give_back)); }
  void watch_abort(const Abort& abort) override { abort_ = &abort; }
  // Called whenever finish() waits, again and again; what it throws ends the wait. A device that runs alone calls none.
  void check_while_waiting(std::function<void()> check) { checks_.push_back(std::move(check)); }
  void cancel() noexcept override;
  [[nodiscard]] Clock::time_point time_of(int mark) const override;

  [[nodiscard]] int gpu() const { return gpu_; }
  // The number of ops that are held back.
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  // Both queue the held ops first.
  [[nodiscard]] kernels::cuda::Stream stream() { return queue(); }
  [[nodiscard]] CudaArena& arena() {
    (void)queue();
    return arena_;
  }
  void use() const { kernels::cuda::use_device(gpu_); }  // by the calling thread

  // --- steps that are captured (executor/cuda/cuda_graph.h) ---

  // Before one: the memory of kernels takes no more room than it needs. REQUIRES: the device is idle.
  void settle();
  // Work of the stream in between becomes part of a graph. The calling thread holds `turn`: capturing threads take
  // turns.
  void begin_capture(std::unique_lock<std::mutex>& turn);
  void end_capture();
  // During a capture: host memory that each replay copies to `to`.
  [[nodiscard]] void* feed(void* to, std::size_t size);
  // Before a replay: the scalars of the capture are read again and, `with_marks`, its marks are recorded again.
  void expect_replay(std::int64_t step, bool with_marks);
  // Changes when a capture begins or ends, on all devices together. Streams are idle at these moments, and an event of
  // another epoch must not be waited for: CUDA forbids waits across the border of a capture.
  [[nodiscard]] int epoch() const { return epoch_; }
  // Gives up the turn during wait(), which waits for other threads.
  template <class Wait>
  void let_others(Wait wait) {
    if (turn_ == nullptr) return wait();
    turn_->unlock();
    wait();
    turn_->lock();
  }

 private:
  struct AwaitedScalar {
    double* into;
    DType stored;
  };
  void wait_for(kernels::cuda::Event event) const;
  void hand_out_scalars();  // REQUIRES: their copies are done
  void flush();             // queues what is held
  void open_range();        // of the work
  // The stream, after the held ops are queued and the range of the work is open.
  [[nodiscard]] kernels::cuda::Stream queue();
  [[nodiscard]] kernels::cuda::Event event(std::size_t number);

  const int gpu_;
  const Stored stored_;
  const kernels::cuda::Stream stream_;
  CudaArena arena_;
  Scratch scratch_{*this};
  const bool tensor_float_;
  kernels::cuda::Products products_;
  std::optional<kernels::cuda::CudnnConvolutions> convolutions_;
  std::optional<kernels::cuda::CudnnAttention> attention_;
  std::vector<CudaKernel> kernels_;  // [kind]
  std::vector<DType> input_types_, output_types_;
  HeldOps held_;
  std::string work_;            // the name of the current work, between begin_work and end_work
  bool range_is_open_ = false;  // for the current work; no op is held then
  std::vector<AwaitedScalar> awaited_;
  std::byte* scalars_ = nullptr;  // pinned; 8 bytes for each of awaited_
  std::vector<kernels::cuda::Event> events_;
  std::size_t marks_ = 0;  // events of this step
  std::vector<Clock::time_point> finished_;
  const Abort* abort_ = nullptr;  // null: waits end only with the work
  std::vector<std::function<void()>> checks_;

  std::unique_lock<std::mutex>* turn_ = nullptr;              // during a capture
  std::int64_t *step_on_device_ = nullptr, *step_ = nullptr;  // the number of a replayed step; step_ is pinned
  PinnedMemory captured_memory_;
  PinnedStorage host_storage_;
  std::vector<AwaitedScalar> captured_scalars_;
  std::size_t captured_marks_ = 0;
  int epoch_ = 0;
};

// Calls action(T{}) with the type of stored elements, integers included.
template <class Action>
decltype(auto) with_cuda_element(DType stored, Action&& action) {
  if (stored == DType::I32) return action(std::int32_t{});
  return with_cuda_type(stored, std::forward<Action>(action));
}

// REQUIRES: the device is of a CUDA backend.
[[nodiscard]] inline CudaDevice& on_cuda(Device& device) { return static_cast<CudaDevice&>(device); }

}  // namespace meshwright
