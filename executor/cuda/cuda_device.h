// SPDX-License-Identifier: Apache-2.0
// A logical device on a GPU. Internal to executor/cuda.
#pragma once

#include <array>
#include <functional>
#include <mutex>
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

// Memory for the time of one op, taken from chunks that stay.
class CudaArena final : public CudaWorkspace {
 public:
  explicit CudaArena(kernels::cuda::Stream stream) : stream_(stream) {}
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;
  ~CudaArena() override;
  [[nodiscard]] void* take(std::size_t size) override;
  [[nodiscard]] const void* put(const void* host, std::size_t size) override;
  void begin_op();  // what was taken before is free again
  // Called where there is no memory, before it is asked for once more.
  void when_short(std::function<void()> make_room) { make_room_ = std::move(make_room); }
  // It is not called meanwhile: ops that were held read what was given back to it since.
  template <class Action>
  void without_room(Action action) {
    std::function<void()> make_room = std::exchange(make_room_, nullptr);
    action();
    make_room_ = std::move(make_room);
  }
  // What is put from now on is copied from there: the stream is captured. Null: no longer.
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
  std::function<void()> make_room_;
};

// What it is asked for is queued on its stream at once, but for ops that are held back for those that may follow
// (CudaTogether): whatever else is asked for queues these first. Ranges are opened around what is queued: ops that are
// done together have one, which the CudaTogether names, instead of one each.
class CudaDevice final : public Device {
 public:
  using Stored = std::function<DType(DType)>;
  CudaDevice(int gpu, bool tensor_float, Stored stored, kernels::cuda::ProductTuning tuning = {});
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override;

  void* allocate(std::size_t size) override;
  void release(void* data) noexcept override;
  void clear(void* data, std::size_t size) override;
  void copy(void* to, const void* from, std::size_t size) override;
  void write(void* to, const void* host, std::size_t size) override;
  void read(void* host, const void* from, std::size_t size) override;
  void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
              const OpMoment& moment) override;
  void copy_box(DType stored, std::span<const std::int64_t> extent, const void* from,
                std::span<const std::int64_t> from_strides, void* to,
                std::span<const std::int64_t> to_strides) override;
  void add_box(DType stored, std::span<const std::int64_t> extent, const void* from,
               std::span<const std::int64_t> from_strides, void* to, std::span<const std::int64_t> to_strides) override;
  void reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
              kernels::Reduction reduction) override;
  Scratch& scratch() override { return scratch_; }
  void begin_work(const std::string& name) override { work_ = name; }
  void end_work() override;
  void read_later(double* into, DType stored, const void* scalar) override;
  int mark() override;
  void finish() override;
  void when_short(std::function<void()> give_back) override { arena_.when_short(std::move(give_back)); }
  void heed(const Abort& abort) override { abort_ = &abort; }
  void abandon() noexcept override;
  [[nodiscard]] Clock::time_point time_of(int mark) const override;

  [[nodiscard]] int gpu() const { return gpu_; }
  // So many of the ops that it was asked for last are held back, to be done together.
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  // With all that was asked for so far queued on it, or using it.
  [[nodiscard]] kernels::cuda::Stream stream() { return queue(); }
  [[nodiscard]] CudaArena& arena() {
    (void)queue();
    return arena_;
  }
  void use() const { kernels::cuda::use_device(gpu_); }  // by the calling thread

  // --- steps that are captured (executor/cuda/cuda_graph.h) ---

  // What the stream is asked for in between becomes part of a graph. `turn` is held by the thread that asks.
  void begin_capture(std::unique_lock<std::mutex>& turn);
  void end_capture();
  // While it is captured: host memory that each replay brings to `to`.
  [[nodiscard]] void* feed(void* to, std::size_t size);
  // What was captured is about to be done again: scalars, and marks where they are wanted, are those of the capture.
  void expect_replay(std::int64_t step, bool with_marks);
  // Changes when a capture begins or ends, of all devices together: before it their streams are idle, and an event of
  // another epoch is not waited for, as none may wait across its borders.
  [[nodiscard]] int epoch() const { return epoch_; }
  // `wait` waits for other threads, whose turn it may be.
  template <class Wait>
  void let_others(Wait wait) {
    if (turn_ == nullptr) return wait();
    turn_->unlock();
    wait();
    turn_->lock();
  }

 private:
  struct Awaited {
    double* into;
    DType stored;
  };
  void wait_for(kernels::cuda::Event event) const;
  void hand_out_scalars();  // REQUIRES: their copies are done
  void flush();             // queues what is held
  // For what comes next: after what is held, in the range of the work.
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
  std::vector<CudaKernel> kernels_;  // [kind]
  std::vector<DType> input_types_, output_types_;
  HeldOps held_;
  std::string work_;            // its name, between begin_work and end_work
  bool range_is_open_ = false;  // of this work; nothing is held then
  std::vector<Awaited> awaited_;
  std::byte* scalars_ = nullptr;  // pinned: 8 bytes for each that is awaited
  std::vector<kernels::cuda::Event> events_;
  std::size_t marks_ = 0;  // events of this step
  std::vector<Clock::time_point> finished_;
  const Abort* abort_ = nullptr;  // null: there is nobody whose failure would end a wait

  std::unique_lock<std::mutex>* turn_ = nullptr;              // while it is captured
  std::int64_t *step_on_device_ = nullptr, *step_ = nullptr;  // of a replay; the latter pinned
  PinnedMemory captured_memory_;
  std::vector<Awaited> captured_scalars_;
  std::size_t captured_marks_ = 0;
  int epoch_ = 0;
};

// Calls action(T{}) with the type of stored elements, integers included.
template <class Action>
decltype(auto) with_cuda_element(DType stored, Action&& action) {
  if (stored == DType::I32) return action(std::int32_t{});
  return with_cuda_type(stored, std::forward<Action>(action));
}

}  // namespace meshwright
