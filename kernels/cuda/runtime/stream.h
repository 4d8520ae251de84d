// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime as the rest of the program sees it: devices, memory, streams and events, without NVIDIA's headers.
//
// Two libraries implement it. mw_kernels_cuda calls the CUDA runtime; mw_cuda_on_cpu (kernels/cuda_on_cpu) does the
// same things at once on the processor, so that everything above can be tested on a machine without a GPU. A program
// links one of them.
//
// Whatever takes a Stream is queued there and may not have happened when the call returns; the pointers are of the
// device. Every call is about the device that the calling thread uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

namespace meshwright::kernels::cuda {

// A queue of work on one device, which is done in its order. Streams wait for each other through events alone.
struct Stream {
  void* handle = nullptr;
};
// A moment in a stream: when all that was queued before record() is done.
struct Event {
  void* handle = nullptr;
};

// A call of the CUDA runtime, or of a library on it, failed: what was done, and what CUDA says of it.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what) : std::runtime_error(what) {}
};
class OutOfMemory : public Failure {
 public:
  OutOfMemory(std::size_t wanted, std::size_t free, std::size_t total);
  std::size_t wanted, free, total;  // bytes
};

// How many there are: 0 without a driver, or with one that is too old, and then why_none says so in a sentence.
[[nodiscard]] int device_count();
[[nodiscard]] std::string why_none();

struct DeviceFacts {
  std::string name;    // "NVIDIA H200"
  std::string driver;  // "CUDA 13.0": the newest that the driver knows
  std::string libraries;
  std::size_t memory = 0;  // bytes
  int major = 0, minor = 0, multiprocessors = 0;
  std::size_t l2 = 0;  // bytes
};
[[nodiscard]] DeviceFacts facts_of(int device);
// By the calling thread, from now on.
void use_device(int device);
// Lets kernels on one device read and write the memory of another; false where they cannot. Copies always can.
[[nodiscard]] bool share_memory(int device, int other);

[[nodiscard]] void* allocate(std::size_t size);  // throws OutOfMemory
void release(void* data) noexcept;
// Memory of this process's host, such that copies need no detour.
[[nodiscard]] void* allocate_pinned(std::size_t size);
void release_pinned(void* data) noexcept;
struct FreeMemory {
  std::size_t free, total;
};
[[nodiscard]] FreeMemory free_memory();
// While it is held no other thread allocates or releases: both may wait for whatever is queued, on other devices, too,
// and would wait for ever for kernels that wait for others which are not queued yet.
[[nodiscard]] std::unique_lock<std::mutex> hold_memory();
// From now on nothing is released: that would wait for a device that does not answer. All of it goes with the process.
void leave_memory() noexcept;

// For the device that the calling thread uses. `timed`: seconds_between may ask for the event.
[[nodiscard]] Stream make_stream();
void destroy(Stream stream) noexcept;
[[nodiscard]] Event make_event(bool timed);
void destroy(Event event) noexcept;

// What `host` has may change once the call returns, unless it is pinned: then only once the copy is done.
void copy_to_device(void* to, const void* host, std::size_t size, Stream stream);
void copy_to_host(void* host, const void* from, std::size_t size, Stream stream);
void copy(void* to, const void* from, std::size_t size, Stream stream);  // between devices, too
void clear(void* data, std::size_t size, Stream stream);                 // to zero bytes

void record(Event event, Stream stream);
void wait(Stream stream, Event event);  // what is queued from now on
void synchronize(Stream stream);        // the calling thread waits
void synchronize(Event event);
[[nodiscard]] bool is_done(Event event);
// REQUIRES: both are timed and done.
[[nodiscard]] double seconds_between(Event begin, Event end);

}  // namespace meshwright::kernels::cuda
