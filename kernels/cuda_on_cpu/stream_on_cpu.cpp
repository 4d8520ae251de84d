// SPDX-License-Identifier: Apache-2.0
// "The device" is this process: what is queued has happened when the call returns.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "kernels/cuda/stream.h"
#include "kernels/cuda_on_cpu/activity_on_cpu.h"
#include "kernels/cuda_on_cpu/threads.h"

namespace meshwright::kernels::cuda {

std::atomic<bool> on_cpu::is_stuck{false};

namespace {

constexpr std::size_t kMemory = std::size_t{4} << 30;
constexpr std::size_t kAlignment = 256;
constexpr int kDevices = 2;

struct Allocations {
  std::mutex mutex;
  std::unordered_map<void*, std::size_t> size_of;
  std::size_t taken = 0;
};
Allocations& allocations() {
  static Allocations all;
  return all;
}

std::atomic<bool> memory_is_left{false};

struct Moment {
  std::chrono::steady_clock::time_point at;
};

thread_local int device_in_use = 0;

}  // namespace

int on_cpu::used_device() { return device_in_use; }

OutOfMemory::OutOfMemory(std::size_t bytes, std::size_t left, std::size_t all)
    : Failure("out of device memory: " + std::to_string(bytes) + " bytes wanted, " + std::to_string(left) + " of " +
              std::to_string(all) + " free"),
      wanted(bytes),
      free(left),
      total(all) {}

int device_count() { return kDevices; }
std::string why_none() { return {}; }
DeviceFacts facts_of(int) {
  return {"processor in the place of a GPU", "none", "none", kMemory, 0, 0, 1, std::size_t{1} << 20};
}
void use_device(int device) {
  if (device < 0 || device >= kDevices) throw Failure("there is no device " + std::to_string(device));
  device_in_use = device;
}

bool share_memory(int, int) { return true; }

// Filled with what is a NaN in every type, so that nothing reads what nobody has written and gets away with it.
void* allocate(std::size_t size) {
  Allocations& all = allocations();
  const std::size_t whole = (std::max<std::size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(all.mutex);
  if (all.taken + whole > kMemory) throw OutOfMemory(size, kMemory - all.taken, kMemory);
  void* data = std::aligned_alloc(kAlignment, whole);
  if (data == nullptr) throw OutOfMemory(size, 0, kMemory);
  std::memset(data, 0xff, whole);
  all.size_of.emplace(data, whole);
  all.taken += whole;
  return data;
}
void release(void* data) noexcept {
  if (data == nullptr || memory_is_left) return;
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  const auto found = all.size_of.find(data);
  if (found == all.size_of.end()) std::abort();  // it was never allocated, or is released twice
  all.taken -= found->second;
  all.size_of.erase(found);
  std::free(data);
}
void* allocate_pinned(std::size_t size) {
  void* data = std::malloc(std::max<std::size_t>(size, 1));
  if (data == nullptr) throw Failure("no host memory for " + std::to_string(size) + " bytes");
  return data;
}
void release_pinned(void* data) noexcept { std::free(data); }
std::unique_lock<std::mutex> hold_memory() {
  static std::mutex nobody_else_waits;
  return std::unique_lock(nobody_else_waits);
}
void leave_memory() noexcept { memory_is_left = true; }
FreeMemory free_memory() {
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  return {kMemory - all.taken, kMemory};
}

Stream make_stream() { return {}; }
void destroy(Stream) noexcept {}
Event make_event(bool) { return {new Moment{std::chrono::steady_clock::now()}}; }
void destroy(Event event) noexcept { delete static_cast<Moment*>(event.handle); }

void copy_to_device(void* to, const void* host, std::size_t size, Stream) {
  const on_cpu::Recorded copied(Activity::Kind::Copy, "copy", size);
  std::memcpy(to, host, size);
}
void copy_to_host(void* host, const void* from, std::size_t size, Stream) {
  const on_cpu::Recorded copied(Activity::Kind::Copy, "copy", size);
  std::memcpy(host, from, size);
}
void copy(void* to, const void* from, std::size_t size, Stream) {
  const on_cpu::Recorded copied(Activity::Kind::Copy, "copy", size);
  std::memmove(to, from, size);
}
void clear(void* data, std::size_t size, Stream) {
  const on_cpu::Recorded cleared(Activity::Kind::Clear, "clear", size);
  std::memset(data, 0, size);
}

void record(Event event, Stream) { static_cast<Moment*>(event.handle)->at = std::chrono::steady_clock::now(); }
void wait(Stream, Event) {}
void synchronize(Stream) {}
void synchronize(Event) {}
bool is_done(Event) { return !on_cpu::is_stuck; }
double seconds_between(Event begin, Event end) {
  return std::chrono::duration<double>(static_cast<Moment*>(end.handle)->at - static_cast<Moment*>(begin.handle)->at)
      .count();
}

}  // namespace meshwright::kernels::cuda
