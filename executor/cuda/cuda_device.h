// SPDX-License-Identifier: Apache-2.0
// A logical device on a GPU. Internal to executor/cuda.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "executor/backend.h"
#include "executor/cuda/cuda_kernel_table.h"
#include "executor/cuda/held_ops.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/ranges.h"
#include "kernels/cuda/stream.h"

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
  [[nodiscard]] std::size_t size() const;

 private:
  struct Chunk {
    std::byte* data;
    std::size_t size, used;
  };
  kernels::cuda::Stream stream_;
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
  // With all that was asked for so far queued on it, or using it.
  [[nodiscard]] kernels::cuda::Stream stream() { return queue(); }
  [[nodiscard]] CudaArena& arena() {
    (void)queue();
    return arena_;
  }
  void use() const { kernels::cuda::use_device(gpu_); }  // by the calling thread

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
};

// Calls action(T{}) with the type of stored elements, integers included.
template <class Action>
decltype(auto) with_cuda_element(DType stored, Action&& action) {
  if (stored == DType::I32) return action(std::int32_t{});
  return with_cuda_type(stored, std::forward<Action>(action));
}

}  // namespace meshwright
