// SPDX-License-Identifier: Apache-2.0
// Threads of a block run on fibers of one host thread. A fiber whose thread has ended takes the next, so that kernels
// without barriers need one fiber and no switching. Contexts are made by ucontext and switched by longjmp, which leaves
// out the system calls.
//
// On a GPU nothing but barriers orders threads. So that a kernel which lacks one is found out, a warp goes on alone
// until it waits for its block, and every other launch has its blocks, the warps of a block and the lanes of a warp
// backwards.
#include "kernels/cuda_on_cpu/threads.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda_on_cpu/activity_on_cpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MW_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MW_ASAN
#endif
#if defined(MW_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace meshwright::kernels::cuda {

constinit thread_local on_cpu::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace on_cpu {

namespace {

constexpr std::size_t kStack = 256 * 1024;
constexpr std::size_t kLanes = 32;
constexpr std::size_t kWidest = 16;  // bytes of a shuffled value
constexpr std::int64_t kMaxThreads = 1024, kMaxDeep = 64, kMaxShared = 227 * 1024;
constexpr std::int64_t kMaxBlocks = 0x7fffffff, kMaxBlocksAcross = 65535;

enum class Waits { No, ForBlock, ForWarp };

struct Copy {
  unsigned char* to;
  const void* from;  // null: zeros
  std::size_t size;
};

struct Fiber {
  ucontext_t context{};
  jmp_buf place;
  bool is_made = false;
  std::unique_ptr<unsigned char[]> stack;
  Index3 index;
  int number = 0;
  Waits waits = Waits::No;
  bool done = true;
  std::vector<Copy> copies;  // that have begun
#if defined(MW_ASAN)
  void* fake_stack = nullptr;
#endif
};

struct Warp {
  std::size_t arrived = 0;
  int line = 0;                 // of the source, of those who have arrived
  std::vector<Fiber*> waiting;  // for its warp or its block, or to go on
  std::array<std::array<unsigned char, kWidest>, kLanes> values;
  std::array<Fiber*, kLanes> fibers;  // those that have begun
};

[[noreturn]] void refuse(const char* kernel, const std::string& why) {
  throw Failure(std::string("kernel '") + kernel + "': " + why);
}

class Block {
 public:
  void run(const char* kernel, std::size_t threads, bool backwards, const std::function<void()>& body) {
    kernel_ = kernel;
    body_ = &body;
    backwards_ = backwards;
    warps_.resize(threads / kLanes);
    for (Warp& warp : warps_) warp.arrived = 0;
    threads_ = threads;
    arrived_ = 0;
    for (std::size_t i = 0; i < warps_.size() && error_ == nullptr; ++i) {
      const std::size_t warp = in_order(i, warps_.size());
      first_ = warp * kLanes;
      next_ = 0;
      while (next_ < kLanes && error_ == nullptr) start();
      (void)go_on(warps_[warp]);
    }
    bool moved = true;
    while (moved && error_ == nullptr) {
      moved = false;
      for (std::size_t i = 0; i < warps_.size() && error_ == nullptr; ++i)
        moved = go_on(warps_[in_order(i, warps_.size())]) || moved;
    }
    const bool all_ended =
        std::all_of(warps_.begin(), warps_.end(), [](const Warp& warp) { return warp.waiting.empty(); });
    forget_waiting();
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
    if (!all_ended) refuse(kernel_, "not all threads of a block, or of a warp, come to a barrier");
  }

  void wait_for_block() {
    if (++arrived_ == threads_) return release_block();
    pause(Waits::ForBlock);
  }
  void wait_for_warp(int line) {
    Warp& warp = own_warp();
    if (warp.arrived > 0 && warp.line != line)
      refuse(kernel_, "lanes of a warp wait for each other in lines " + std::to_string(warp.line) + " and " +
                          std::to_string(line));
    warp.line = line;
    if (++warp.arrived == kLanes) return release_warp(warp);
    pause(Waits::ForWarp);
  }
  void shuffle(const void* mine, void* theirs, std::size_t size, int source, int line) {
    Warp& warp = own_warp();
    std::memcpy(warp.values[static_cast<std::size_t>(lane())].data(), mine, size);
    wait_for_warp(line);
    std::memcpy(theirs, warp.values[static_cast<std::size_t>(source)].data(), size);
    wait_for_warp(line);
  }
  [[nodiscard]] int lane() const { return current_->number % static_cast<int>(kLanes); }
  // What the copy will overwrite is lost at once.
  void begin_copy(const Copy& copy) {
    std::memset(copy.to, 0xff, copy.size);
    current_->copies.push_back(copy);
  }
  void finish_copies() {
    for (const Copy& copy : current_->copies)
      if (copy.from == nullptr)
        std::memset(copy.to, 0, copy.size);
      else
        std::memcpy(copy.to, copy.from, copy.size);
    current_->copies.clear();
  }
  [[noreturn]] void refuse_address(const void* address, std::size_t alignment) const {
    refuse(kernel_, "address " + std::to_string(reinterpret_cast<std::uintptr_t>(address)) + " is no multiple of " +
                        std::to_string(alignment));
  }

 private:
  // What they have on their stacks is lost; they begin anew.
  void forget_waiting() {
    for (Warp& warp : warps_) {
      for (Fiber* fiber : warp.waiting) {
        fiber->done = true;
        fiber->is_made = false;
        spare_.push_back(fiber);
      }
      warp.waiting.clear();
    }
  }

  [[nodiscard]] std::size_t in_order(std::size_t i, std::size_t count) const { return backwards_ ? count - 1 - i : i; }

  // As far as the warp comes without the others of its block; false where it does not come on at all.
  bool go_on(Warp& warp) {
    bool moved = false;
    for (bool again = true; again && error_ == nullptr;) {
      again = false;
      round_.swap(warp.waiting);
      for (Fiber* fiber : round_) {
        if (fiber->waits != Waits::No || error_ != nullptr) {
          warp.waiting.push_back(fiber);
          continue;
        }
        again = moved = true;
        resume(*fiber);
      }
      round_.clear();
    }
    return moved;
  }

  Warp& own_warp() { return warps_[static_cast<std::size_t>(current_->number) / kLanes]; }

  void start() {
    if (spare_.empty()) {
      owned_.push_back(std::make_unique<Fiber>());
      owned_.back()->stack = std::make_unique<unsigned char[]>(kStack);
      spare_.push_back(owned_.back().get());
    }
    Fiber& fiber = *spare_.back();
    spare_.pop_back();
    fiber.done = false;
    fiber.waits = Waits::No;
    resume(fiber);
  }
  // The next thread, on this fiber.
  void take_next(Fiber& fiber) {
    fiber.number = static_cast<int>(first_ + in_order(next_++, kLanes));
    fiber.copies.clear();
    const auto n = static_cast<unsigned>(fiber.number);
    own_warp().fibers[static_cast<std::size_t>(fiber.number) % kLanes] = &fiber;
    threadIdx = fiber.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
  }

  void resume(Fiber& fiber) {
    current_ = &fiber;
    threadIdx = fiber.index;
    switch_to(fiber);
    current_ = nullptr;
    if (fiber.done) {
      spare_.push_back(&fiber);
    } else {
      warps_[static_cast<std::size_t>(fiber.number) / kLanes].waiting.push_back(&fiber);
    }
  }

  void switch_to(Fiber& fiber) {
#if defined(MW_ASAN)
    void* own = nullptr;
    __sanitizer_start_switch_fiber(&own, fiber.stack.get(), kStack);
#endif
    if (_setjmp(scheduler_) == 0) {
      if (fiber.is_made) _longjmp(fiber.place, 1);
      fiber.is_made = true;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &Block::entry, 0);
      setcontext(&fiber.context);
    }
#if defined(MW_ASAN)
    __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
  }

  void back_to_scheduler(Fiber& fiber) {
#if defined(MW_ASAN)
    __sanitizer_start_switch_fiber(&fiber.fake_stack, scheduler_stack_, scheduler_size_);
#endif
    if (_setjmp(fiber.place) == 0) _longjmp(scheduler_, 1);
#if defined(MW_ASAN)
    __sanitizer_finish_switch_fiber(fiber.fake_stack, &scheduler_stack_, &scheduler_size_);
#endif
  }

  void pause(Waits waits) {
    Fiber& fiber = *current_;
    fiber.waits = waits;
    back_to_scheduler(fiber);
  }

  void release_block() {
    arrived_ = 0;
    for (Warp& warp : warps_)
      for (std::size_t t = 0; t < kLanes; ++t) warp.fibers[t]->waits = Waits::No;
  }
  static void release_warp(Warp& warp) {
    warp.arrived = 0;
    for (std::size_t t = 0; t < kLanes; ++t) warp.fibers[t]->waits = Waits::No;
  }

  static void entry();
  [[noreturn]] void work() {
#if defined(MW_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_size_);
#endif
    for (;;) {
      while (next_ < kLanes && error_ == nullptr) {
        take_next(*current_);
        try {
          (*body_)();
        } catch (...) {
          error_ = std::current_exception();
        }
      }
      current_->done = true;
      back_to_scheduler(*current_);
    }
  }

  const char* kernel_ = "";
  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> owned_;
  std::vector<Fiber*> spare_, round_;
  std::vector<Warp> warps_;
  std::size_t threads_ = 0, arrived_ = 0;
  std::size_t first_ = 0, next_ = 0;  // the warp's that begins: its first thread, and how many have begun
  bool backwards_ = false;
  Fiber* current_ = nullptr;
  jmp_buf scheduler_;
  std::exception_ptr error_;
#if defined(MW_ASAN)
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_size_ = 0;
#endif
};

thread_local Block block;
thread_local std::vector<unsigned char> shared;
thread_local bool backwards = false;  // the next launch

void Block::entry() { block.work(); }

}  // namespace

void run_grid(const char* name, GridSize grid, GridSize threads, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  const std::int64_t each = threads.x * threads.y * threads.z;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > kMaxBlocks || grid.y > kMaxBlocksAcross ||
      grid.z > kMaxBlocksAcross)
    refuse(name, "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                     std::to_string(grid.z) + " blocks");
  if (each < 1 || each > kMaxThreads || threads.z > kMaxDeep || each % static_cast<std::int64_t>(kLanes) != 0)
    refuse(name, "a block of " + std::to_string(each) + " threads");
  if (shared_bytes > static_cast<std::size_t>(kMaxShared)) refuse(name, std::to_string(shared_bytes) + " shared bytes");
  const auto index = [](GridSize size) {
    return Index3{static_cast<unsigned>(size.x), static_cast<unsigned>(size.y), static_cast<unsigned>(size.z)};
  };
  const Recorded recorded(Activity::Kind::Kernel, name, 0);
  const bool last_first = std::exchange(backwards, !backwards);
  gridDim = index(grid);
  blockDim = index(threads);
  for (std::int64_t z = 0; z < grid.z; ++z)
    for (std::int64_t y = 0; y < grid.y; ++y)
      for (std::int64_t x = 0; x < grid.x; ++x) {
        // Whatever was there before is no block's to rely on; this is no number of any type.
        shared.assign(std::max<std::size_t>(shared_bytes, 16) + 16, 0xff);
        blockIdx = last_first ? index({grid.x - 1 - x, grid.y - 1 - y, grid.z - 1 - z}) : index({x, y, z});
        block.run(name, static_cast<std::size_t>(each), last_first, thread);
      }
}

unsigned char* dynamic_shared() {
  const auto address = reinterpret_cast<std::uintptr_t>(shared.data());
  return shared.data() + (16 - address % 16) % 16;
}
void block_barrier() { block.wait_for_block(); }
void warp_barrier(int line) { block.wait_for_warp(line); }
void shuffle(const void* mine, void* theirs, std::size_t size, int source_lane, int line) {
  block.shuffle(mine, theirs, size, source_lane, line);
}
int lane() { return block.lane(); }
void begin_copy(void* to, const void* from, std::size_t size) {
  block.begin_copy({static_cast<unsigned char*>(to), from, size});
}
void finish_copies() { block.finish_copies(); }
void refuse_address(const void* address, std::size_t alignment) { block.refuse_address(address, alignment); }

}  // namespace on_cpu
}  // namespace meshwright::kernels::cuda
