// SPDX-License-Identifier: Apache-2.0
// Collectives and messages between logical devices of one process, on one GPU or on several that see each other's
// memory. Internal to executor/cuda.
//
// Host threads meet to publish the addresses of their operands. Each stream then waits for the events of the members
// whose data it reads, and no stream overwrites an operand before the streams that read it are done.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/cuda/cuda_device.h"
#include "executor/device/backend.h"

namespace meshwright {

class CudaGroup final : public Group {
 public:
  CudaGroup(int members, Abort& abort);
  CudaGroup(const CudaGroup&) = delete;
  CudaGroup& operator=(const CudaGroup&) = delete;
  ~CudaGroup() override;

  void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) override;
  void reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, kernels::Reduction reduction,
                      std::int64_t padding) override;
  void all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, std::int64_t padding) override;
  void all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                  int join_dim) override;
  void broadcast(const CollectiveCall& call, std::int64_t n, int root) override;
  void pass_on(const CollectiveCall& call, std::int64_t n, Around way) override;

 private:
  struct Member {
    const void* in = nullptr;
    void* out = nullptr;
    kernels::cuda::Event ready, reduced, done;  // made on the member's own GPU when it first comes
    bool has_events = false;
  };
  using EventOf = kernels::cuda::Event Member::*;
  [[nodiscard]] int members() const { return members_.count(); }
  [[nodiscard]] Member& of(int member) { return members_[member]; }
  // Records the member's event, meets the others, and lets the member's stream wait for theirs.
  void meet(int member, CudaDevice& device, EventOf event);
  void publish(CudaDevice& device, const CollectiveCall& call);
  template <class T>
  void reduce(CudaDevice& device, const std::vector<const T*>& parts, T* out, std::int64_t n,
              kernels::Reduction reduction);

  IndexedVector<int, Member> members_;
  Barrier barrier_;
};

class CudaMessages final : public Messages {
 public:
  explicit CudaMessages(Abort& abort);
  CudaMessages(const CudaMessages&) = delete;
  CudaMessages& operator=(const CudaMessages&) = delete;
  ~CudaMessages() override;

  void send(Device& device, int transfer, DType stored, const void* array, const BoxView& box) override;
  void receive(Device& device, int transfer, DType stored, void* array, const BoxView& box, bool accumulate) override;

 private:
  // A packed tile in the sender's memory.
  struct Message {
    int transfer = 0;
    std::byte* data = nullptr;
    std::size_t size = 0, capacity = 0;
    int gpu = 0;
    kernels::cuda::Event packed{}, unpacked{};
    bool was_unpacked = false;
    int epoch = 0;  // in which it was unpacked
  };
  [[nodiscard]] std::unique_ptr<Message> take_spare(CudaDevice& device, std::size_t size);
  [[nodiscard]] std::unique_ptr<Message> take(CudaDevice& device, int transfer);  // waits

  const Abort& abort_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Message>> waiting_;
  std::vector<std::unique_ptr<Message>> spare_;
  Signal posted_;
};

}  // namespace meshwright
