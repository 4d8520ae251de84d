// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/nccl_messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "executor/cuda/cuda_device.h"
#include "executor/cuda/nccl_calls.h"
#include "executor/cuda/on_gpu.h"
#include "executor/peers/peer_tags.h"
#include "kernels/cuda/layout/tiles.h"

namespace meshwright {

namespace cuda = kernels::cuda;

namespace {

class NcclMessages final : public Messages {
 public:
  NcclMessages(nccl::Communicator communicator, bool sends)
      : communicator_(std::move(communicator)), peer_(sends ? 1 : 0), stream_(cuda::make_stream()) {}
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;
  ~NcclMessages() override {
    communicator_.reset();  // ends what is under way
    for (const Buffer& buffer : buffers_) {
      cuda::release(buffer.data);
      cuda::destroy(buffer.ready);
      cuda::destroy(buffer.free);
    }
    cuda::destroy(stream_);
  }

  void send(Device& any, int, DType stored, const void* array, const BoxView& box) override {
    CudaDevice& device = begin(any);
    const auto size = static_cast<std::size_t>(box.elements() * size_of(stored));
    Buffer& buffer = take(device, size);
    const std::vector<std::int64_t> strides = kernels::row_major_strides(box.shape);
    const std::int64_t first = box.first(strides);
    with_cuda_element(stored, [&]<class T>(T) {
      cuda::copy_tile<T>(device.stream(), box.extent, static_cast<const T*>(array) + first, strides,
                         reinterpret_cast<T*>(buffer.data), kernels::row_major_strides(box.extent));
    });
    cuda::record(buffer.ready, device.stream());
    cuda::wait(stream_, buffer.ready);
    start([&] {
      nccl::expect(ncclSend(buffer.data, size, ncclInt8, peer_, communicator_.get(), nccl::stream_of(stream_)),
                   "a message");
    });
    cuda::record(buffer.free, stream_);
  }

  void receive(Device& any, int, DType stored, void* array, const BoxView& box, bool accumulate) override {
    CudaDevice& device = begin(any);
    const auto size = static_cast<std::size_t>(box.elements() * size_of(stored));
    Buffer& buffer = take(device, size);
    start([&] {
      nccl::expect(ncclRecv(buffer.data, size, ncclInt8, peer_, communicator_.get(), nccl::stream_of(stream_)),
                   "a message");
    });
    cuda::record(buffer.ready, stream_);
    cuda::wait(device.stream(), buffer.ready);
    const std::vector<std::int64_t> strides = kernels::row_major_strides(box.shape);
    const std::int64_t first = box.first(strides);
    with_cuda_element(stored, [&]<class T>(T) {
      const T* from = reinterpret_cast<const T*>(buffer.data);
      T* to = static_cast<T*>(array) + first;
      const std::vector<std::int64_t> packed = kernels::row_major_strides(box.extent);
      if (accumulate)
        cuda::add_tile<T>(device.stream(), box.extent, from, packed, to, strides);
      else
        cuda::copy_tile<T>(device.stream(), box.extent, from, packed, to, strides);
    });
    cuda::record(buffer.free, device.stream());
  }

 private:
  struct Buffer {
    std::byte* data;
    std::size_t size;
    cuda::Event ready, free;
  };

  CudaDevice& begin(Device& any) {
    CudaDevice& device = on_cuda(any);
    device.use();
    if (!std::exchange(is_checked_, true))
      device.check_while_waiting(
          [of = std::weak_ptr(communicator_), gpu = device.gpu()] { nccl::expect_no_failure(of, gpu); });
    return device;
  }

  // A buffer whose last message has left it; a stream that waited for that would wait for the receiver.
  Buffer& take(CudaDevice& device, std::size_t size) {
    const auto spare = std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& buffer) {
      return buffer.size >= size && cuda::is_done(buffer.free);
    });
    if (spare != buffers_.end()) return *spare;
    buffers_.push_back(
        {static_cast<std::byte*>(device.allocate(size)), size, cuda::make_event(false), cuda::make_event(false)});
    return buffers_.back();
  }

  template <class Start>
  static void start(Start call) {
    const auto held = cuda::hold_memory();
    call();
  }

  nccl::Communicator communicator_;
  const int peer_;  // its number in the communicator: 0 sends
  const cuda::Stream stream_;
  std::vector<Buffer> buffers_;
  bool is_checked_ = false;
};

}  // namespace

std::unique_ptr<Messages> make_nccl_messages(Peers& peers, int process, bool sends, int gpu, std::uint64_t number) {
  const std::vector<int> processes = sends ? std::vector{peers.rank(), process} : std::vector{process, peers.rank()};
  const ncclUniqueId id = nccl::shared_id(peers, processes, peer_tag(PeerTag::JoinChannel, number));
  return on_gpu("joining processes", [&] {
    cuda::use_device(gpu);
    ncclComm_t made = nullptr;
    // Returns when both have called it.
    nccl::expect(ncclCommInitRank(&made, 2, id, sends ? 0 : 1), "joining processes");
    return std::make_unique<NcclMessages>(nccl::owned(made), sends);
  });
}

}  // namespace meshwright
