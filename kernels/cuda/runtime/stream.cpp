// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/stream.h"

#include <algorithm>
#include <atomic>

#include "kernels/cuda/runtime/cublaslt.h"
#include "kernels/cuda/runtime/failures.h"
#ifdef MESHWRIGHT_CUDNN
#include <cudnn.h>
#endif

namespace meshwright::kernels::cuda {

namespace {

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t of(Event event) { return static_cast<cudaEvent_t>(event.handle); }

// CUDA counts 13020 for 13.2.
std::string version_of(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

std::string libraries() {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  std::string all = "CUDA runtime " + version_of(runtime);
  std::string part = ", cuBLASLt ";
  for (const libraryPropertyType property : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int number = 0;
    check(cublas_lt().get_property(property, &number), "asking for cuBLASLt's version");
    all += part + std::to_string(number);
    part = ".";
  }
#ifdef MESHWRIGHT_CUDNN
  const std::size_t version = cudnnGetVersion();  // 91900 for 9.19.0
  all += ", cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
#endif
  return all;
}

// CUDA copies pageable memory to pinned memory of its own before the call returns ("API synchronization behavior" in
// its manual), but need not where the device walks the host's page tables itself.
bool may_read_later(const void* host) {
  int device = 0, walks = 0;
  check(cudaGetDevice(&device), "asking for the device in use");
  check(cudaDeviceGetAttribute(&walks, cudaDevAttrPageableMemoryAccessUsesHostPageTables, device), "asking how device ",
        device, " reads the host's memory");
  if (walks == 0) return false;
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, host), "asking whose memory it is");
  return found.type == cudaMemoryTypeUnregistered;
}

std::mutex memory_mutex;
std::atomic<bool> memory_is_left{false};

// Never throws, and leaves no error behind.
struct Count {
  int devices = 0;
  cudaError_t error = cudaSuccess;
};
Count count_devices() noexcept {
  Count count;
  count.error = cudaGetDeviceCount(&count.devices);
  if (count.error != cudaSuccess) {
    count.devices = 0;
    (void)cudaGetLastError();
  }
  return count;
}

}  // namespace

OutOfMemory::OutOfMemory(std::size_t bytes, std::size_t left, std::size_t all)
    : Failure("out of device memory: " + std::to_string(bytes) + " bytes wanted, " + std::to_string(left) + " of " +
              std::to_string(all) + " free"),
      wanted(bytes),
      free(left),
      total(all) {}

// --- devices ---

int device_count() { return count_devices().devices; }

std::string why_none() {
  const Count count = count_devices();
  if (count.devices > 0) return {};
  int driver = 0, runtime = 0;
  // Without a driver both succeed, and the driver's version is 0.
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaGetLastError();
  if (count.error == cudaErrorStubLibrary)
    return "the libcuda.so.1 that is found first is the CUDA toolkit's stub, not a driver's";
  if (driver == 0) return "there is no NVIDIA driver on this machine (no libcuda.so.1 was found)";
  if (count.error == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is too old: this program needs one for CUDA " + version_of(runtime) +
           ", and the driver here knows CUDA " + version_of(driver);
  if (count.error == cudaSuccess || count.error == cudaErrorNoDevice)
    return "the NVIDIA driver (CUDA " + version_of(driver) +
           ") sees no device; CUDA_VISIBLE_DEVICES may hide what there is";
  return "the NVIDIA driver (CUDA " + version_of(driver) +
         ") cannot be used: " + std::string(cudaGetErrorString(count.error)) + " (" + cudaGetErrorName(count.error) +
         ")";
}

DeviceFacts facts_of(int device) {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, device), "asking for the properties of device ", device);
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  DeviceFacts facts;
  facts.name = found.name;
  facts.driver = "CUDA " + version_of(driver);
  facts.libraries = libraries();
  facts.memory = found.totalGlobalMem;
  facts.major = found.major;
  facts.minor = found.minor;
  facts.multiprocessors = found.multiProcessorCount;
  facts.l2 = static_cast<std::size_t>(found.l2CacheSize);
  return facts;
}

void use_device(int device) { check(cudaSetDevice(device), "turning to device ", device); }

bool share_memory(int device, int other) {
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, device, other), "asking whether device ", device, " reaches device ", other);
  if (can == 0) return false;
  use_device(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    check(error, "letting device ", device, " reach device ", other);
  return true;
}

// --- memory ---

void* allocate(std::size_t size) {
  void* data = nullptr;
  const auto held = hold_memory();
  const cudaError_t error = cudaMalloc(&data, std::max<std::size_t>(size, 1));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    const FreeMemory left = free_memory();
    throw OutOfMemory(size, left.free, left.total);
  }
  check(error, "allocating ", size, " bytes");
  return data;
}

// A device that is lost refuses this too, and has then been reported by what waited for it.
void release(void* data) noexcept {
  if (memory_is_left) return;
  const auto held = hold_memory();
  if (cudaFree(data) != cudaSuccess) (void)cudaGetLastError();
}

std::unique_lock<std::mutex> hold_memory() { return std::unique_lock(memory_mutex); }
void leave_memory() noexcept { memory_is_left = true; }

void* allocate_pinned(std::size_t size) {
  void* data = nullptr;
  // Portable: pinned for every device, whichever the calling thread uses.
  check(cudaHostAlloc(&data, std::max<std::size_t>(size, 1), cudaHostAllocPortable), "pinning ", size,
        " bytes of host memory");
  return data;
}

void release_pinned(void* data) noexcept {
  if (memory_is_left) return;
  if (cudaFreeHost(data) != cudaSuccess) (void)cudaGetLastError();
}

FreeMemory free_memory() {
  FreeMemory memory{};
  check(cudaMemGetInfo(&memory.free, &memory.total), "asking for the free memory");
  return memory;
}

// --- streams and events ---

Stream make_stream() {
  cudaStream_t stream = nullptr;
  // Non-blocking: it waits for nothing that is queued on the default stream.
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return {stream};
}

void destroy(Stream stream) noexcept {
  if (stream.handle != nullptr && cudaStreamDestroy(of(stream)) != cudaSuccess) (void)cudaGetLastError();
}

Event make_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), "making an event");
  return {event};
}

void destroy(Event event) noexcept {
  if (event.handle != nullptr && cudaEventDestroy(of(event)) != cudaSuccess) (void)cudaGetLastError();
}

void copy_to_device(void* to, const void* host, std::size_t size, Stream stream) {
  check(cudaMemcpyAsync(to, host, size, cudaMemcpyHostToDevice, of(stream)), "copying ", size, " bytes to the device");
  if (may_read_later(host)) synchronize(stream);
}

void copy_to_host(void* host, const void* from, std::size_t size, Stream stream) {
  check(cudaMemcpyAsync(host, from, size, cudaMemcpyDeviceToHost, of(stream)), "copying ", size, " bytes to the host");
}

// Default: each address tells which device it is on.
void copy(void* to, const void* from, std::size_t size, Stream stream) {
  check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, of(stream)), "copying ", size, " bytes between devices");
}

void clear(void* data, std::size_t size, Stream stream) {
  check(cudaMemsetAsync(data, 0, size, of(stream)), "clearing ", size, " bytes");
}

void record(Event event, Stream stream) { check(cudaEventRecord(of(event), of(stream)), "recording an event"); }
void wait(Stream stream, Event event) {
  check(cudaStreamWaitEvent(of(stream), of(event), 0), "letting a stream wait for an event");
}
void synchronize(Stream stream) { check(cudaStreamSynchronize(of(stream)), "waiting for a stream"); }
void synchronize(Event event) { check(cudaEventSynchronize(of(event)), "waiting for an event"); }

bool is_done(Event event) {
  const cudaError_t status = cudaEventQuery(of(event));
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // it is no error, but is kept like one
    return false;
  }
  check(status, "looking at an event");
  return true;
}

double seconds_between(Event begin, Event end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, of(begin), of(end)), "reading the time between two events");
  return static_cast<double>(milliseconds) * 1e-3;
}

// As launch.h declares it where nvcc reads it.
void check_launch(const char* kernel);
void check_launch(const char* kernel) { check(cudaGetLastError(), "starting kernel '", kernel, "'"); }

}  // namespace meshwright::kernels::cuda
