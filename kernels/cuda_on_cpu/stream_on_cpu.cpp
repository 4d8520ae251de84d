// SPDX-License-Identifier: Apache-2.0
// "The device" is this process: what is queued has happened when the call returns, unless the stream is captured.
#include "kernels/cuda/runtime/stream.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "kernels/cuda_on_cpu/activity_on_cpu.h"
#include "kernels/cuda_on_cpu/capture.h"
#include "kernels/cuda_on_cpu/streams.h"
#include "kernels/cuda_on_cpu/threads.h"

namespace meshwright::kernels::cuda {

std::atomic<bool> on_cpu::is_stuck{false};

namespace {

constexpr std::size_t kMemory = std::size_t{4} << 30;
constexpr std::size_t kAlignment = 256;
constexpr int kDevices = 4;

struct Allocations {
  std::mutex mutex;
  std::unordered_map<void*, std::size_t> size_of;
  std::size_t taken = 0;
  std::map<const std::byte*, std::size_t> pinned;  // by where they begin
};
Allocations& allocations() {
  static Allocations all;
  return all;
}

std::atomic<bool> memory_is_left{false};

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
  Allocations& all = allocations();
  void* data = std::malloc(std::max<std::size_t>(size, 1));
  if (data == nullptr) throw Failure("no host memory for " + std::to_string(size) + " bytes");
  const std::lock_guard lock(all.mutex);
  all.pinned.emplace(static_cast<const std::byte*>(data), std::max<std::size_t>(size, 1));
  return data;
}
void release_pinned(void* data) noexcept {
  if (data == nullptr) return;
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  all.pinned.erase(static_cast<const std::byte*>(data));
  std::free(data);
}
bool on_cpu::is_pinned(const void* data, std::size_t size) {
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  const auto* begin = static_cast<const std::byte*>(data);
  auto found = all.pinned.upper_bound(begin);
  if (found == all.pinned.begin()) return false;
  --found;
  return begin + size <= found->first + found->second;
}
// Nothing waits for a device here; and who waits for a peer while he holds it must not keep that one waiting.
std::unique_lock<std::mutex> hold_memory() {
  thread_local std::mutex own;
  return std::unique_lock(own);
}
void leave_memory() noexcept { memory_is_left = true; }
FreeMemory free_memory() {
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  return {kMemory - all.taken, kMemory};
}

namespace {

// Copies between the host and the device, of which CUDA captures those of pinned memory.
void queue_copy(void* to, const void* from, const void* host, std::size_t size, Stream stream) {
  if (on_cpu::is_captured(stream) && !on_cpu::is_pinned(host, size))
    on_cpu::expect_no_capture(stream, "copying from or to host memory that is not pinned");
  on_cpu::queue(stream, [=] {
    const on_cpu::Recorded copied(Activity::Kind::Copy, "copy", size);
    if (size > 0) std::memcpy(to, from, size);  // nothing may be nowhere
  });
}

}  // namespace

void copy_to_device(void* to, const void* host, std::size_t size, Stream stream) {
  queue_copy(to, host, host, size, stream);
}
void copy_to_host(void* host, const void* from, std::size_t size, Stream stream) {
  queue_copy(host, from, host, size, stream);
}
void copy(void* to, const void* from, std::size_t size, Stream stream) {
  on_cpu::queue(stream, [=] {
    const on_cpu::Recorded copied(Activity::Kind::Copy, "copy", size);
    std::memmove(to, from, size);
  });
}
void clear(void* data, std::size_t size, Stream stream) {
  on_cpu::queue(stream, [=] {
    const on_cpu::Recorded cleared(Activity::Kind::Clear, "clear", size);
    std::memset(data, 0, size);
  });
}

}  // namespace meshwright::kernels::cuda
