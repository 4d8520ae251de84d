// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/nccl_group.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"
#include "executor/base/exchange_shape.h"
#include "executor/base/padded_row.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_group.h"
#include "executor/cuda/nccl_calls.h"
#include "executor/cuda/on_gpu.h"
#include "executor/peers/composite_group.h"
#include "executor/peers/peer_tags.h"
#include "kernels/cuda/layout/tiles.h"

namespace meshwright {

namespace cuda = kernels::cuda;

namespace {

// Whether one is named twice.
bool is_repeated(std::vector<int> gpus) {
  std::sort(gpus.begin(), gpus.end());
  return std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
}

void expect_shared_memory(const std::vector<int>& gpus) {
  for (const int gpu : gpus)
    for (const int other : gpus)
      if (other != gpu && !on_gpu("joining GPUs", [&] { return cuda::share_memory(gpu, other); }))
        throw SystemError(
            fmt::format("GPU {} cannot reach the memory of GPU {}, on which devices of one group lie in "
                        "turns; run with as many GPUs as devices.",
                        gpu, other));
}

class NcclGroup final : public Group {
 public:
  NcclGroup(const std::vector<int>& gpus, Abort& abort)
      : communicators_(gpus.size()),
        starts_(gpus.size()),
        meeting_(std::in_place, static_cast<int>(gpus.size()), abort) {
    MW_CHECK(!is_repeated(gpus), "NCCL takes each GPU once");
    std::vector<ncclComm_t> made(gpus.size(), nullptr);
    nccl::expect(ncclCommInitAll(made.data(), static_cast<int>(gpus.size()), gpus.data()), "joining GPUs");
    std::transform(made.begin(), made.end(), communicators_.begin(), nccl::owned);
  }
  // One of `members`, which are in as many processes.
  NcclGroup(int members, int own, const ncclUniqueId& id)
      : communicators_(static_cast<std::size_t>(members)), starts_(communicators_.size()) {
    ncclComm_t made = nullptr;
    // Returns when every member has called it.
    nccl::expect(ncclCommInitRank(&made, members, id, own), "joining processes");
    communicators_[own] = nccl::owned(made);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) override {
    CudaDevice& device = begin(call);
    start_all(call.member, device, [=, this, own = of(call.member), queue = stream(device)] {
      nccl::expect(ncclAllReduce(call.in, call.out, count(n), nccl::type_of(call.dtype), nccl::operation_of(reduction),
                                 own, queue),
                   "all-reduce");
    });
  }

  void reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, kernels::Reduction reduction,
                      std::int64_t padding) override {
    CudaDevice& device = begin(call);
    with_cuda_element(call.dtype, [&]<class T>(T) {
      const T* parts = static_cast<const T*>(call.in);
      if (outer > 1 || padding > 0) {
        // NCCL reduces contiguous parts of equal length, one after the other.
        const PaddedRow row(members(), inner, padding);
        T* packed = device.arena().take_array<T>(members() * outer * inner);
        if (padding > 0)
          cuda::clear(packed, static_cast<std::size_t>(members() * outer * inner) * sizeof(T), device.stream());
        const std::vector<std::int64_t> part_strides = {inner, 1}, whole_strides = {row.length, 1};
        for (int part = 0; part < members(); ++part) {
          const std::vector<std::int64_t> extent = {outer, row.count(part)};
          if (row.count(part) > 0)
            cuda::copy_tile<T>(device.stream(), extent, parts + row.begin(part), whole_strides,
                               packed + part * outer * inner, part_strides);
        }
        parts = packed;
      }
      start_all(call.member, device, [=, this, own = of(call.member), queue = stream(device)] {
        nccl::expect(ncclReduceScatter(parts, call.out, count(outer * inner), nccl::type_of(call.dtype),
                                       nccl::operation_of(reduction), own, queue),
                     "reduce-scatter");
      });
    });
  }

  void all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, std::int64_t padding) override {
    CudaDevice& device = begin(call);
    const bool packs = outer > 1 || padding > 0;
    with_cuda_element(call.dtype, [&]<class T>(T) {
      T* whole = static_cast<T*>(call.out);
      T* parts = packs ? device.arena().take_array<T>(members() * outer * inner) : whole;
      start_all(call.member, device, [=, this, own = of(call.member), queue = stream(device)] {
        nccl::expect(ncclAllGather(call.in, parts, count(outer * inner), nccl::type_of(call.dtype), own, queue),
                     "all-gather");
      });
      if (!packs) return;
      // The copies follow the collective on the same stream.
      const PaddedRow row(members(), inner, padding);
      const std::vector<std::int64_t> part_strides = {inner, 1}, whole_strides = {row.length, 1};
      for (int part = 0; part < members(); ++part) {
        const std::vector<std::int64_t> extent = {outer, row.count(part)};
        if (row.count(part) > 0)
          cuda::copy_tile<T>(device.stream(), extent, parts + part * outer * inner, part_strides,
                             whole + row.begin(part), whole_strides);
      }
    });
  }

  void all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                  int join_dim) override {
    CudaDevice& device = begin(call);
    const ExchangeShape shape(in_shape, split_dim, join_dim, members());
    const std::vector<std::int64_t> packed = kernels::row_major_strides(shape.tile);
    const std::int64_t part = shape.tile_elements();
    with_cuda_element(call.dtype, [&]<class T>(T) {
      // NCCL sends contiguous arrays: pieces are packed before the exchange and unpacked after it.
      T* leaving = device.arena().take_array<T>(members() * part);
      T* coming = device.arena().take_array<T>(members() * part);
      for (int peer = 0; peer < members(); ++peer)
        cuda::copy_tile<T>(device.stream(), shape.tile, static_cast<const T*>(call.in) + peer * shape.in_step,
                           shape.in_strides, leaving + peer * part, packed);
      start_all(call.member, device, [=, this, own = of(call.member), queue = stream(device)] {
        for (int peer = 0; peer < members(); ++peer) {
          nccl::expect(ncclSend(leaving + peer * part, count(part), nccl::type_of(call.dtype), peer, own, queue),
                       "all-to-all");
          nccl::expect(ncclRecv(coming + peer * part, count(part), nccl::type_of(call.dtype), peer, own, queue),
                       "all-to-all");
        }
      });
      for (int peer = 0; peer < members(); ++peer)
        cuda::copy_tile<T>(device.stream(), shape.tile, coming + peer * part, packed,
                           static_cast<T*>(call.out) + peer * shape.out_step, shape.out_strides);
    });
  }

  void broadcast(const CollectiveCall& call, std::int64_t n, int root) override {
    CudaDevice& device = begin(call);
    start_all(call.member, device, [=, this, own = of(call.member), queue = stream(device)] {
      nccl::expect(ncclBroadcast(call.out, call.out, count(n), nccl::type_of(call.dtype), root, own, queue),
                   "broadcast");
    });
  }

  void pass_on(const CollectiveCall& call, std::int64_t n, Around way) override {
    CudaDevice& device = begin(call);
    const int to = next_in_ring(call.member, members(), way), from = previous_in_ring(call.member, members(), way);
    start_all(call.member, device, [=, this, own = of(call.member), queue = stream(device)] {
      nccl::expect(ncclSend(call.in, count(n), nccl::type_of(call.dtype), to, own, queue), "passing on");
      nccl::expect(ncclRecv(call.out, count(n), nccl::type_of(call.dtype), from, own, queue), "passing on");
    });
  }

 private:
  [[nodiscard]] int members() const { return communicators_.count(); }
  [[nodiscard]] ncclComm_t of(int member) const { return communicators_[member].get(); }
  static std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }
  static cudaStream_t stream(CudaDevice& device) { return nccl::stream_of(device.stream()); }
  CudaDevice& begin(const CollectiveCall& call) {
    CudaDevice& device = on_cuda(call.device);
    device.use();
    if (!std::exchange(is_checked_[call.member], true))
      device.check_while_waiting(
          [of = std::weak_ptr(communicators_[call.member]), gpu = device.gpu()] { nccl::expect_no_failure(of, gpu); });
    // This member's stream runs collectives in order: blocks of the last one may be used again.
    device.arena().begin_op();
    return device;
  }
  // Returns when the collective is queued on the streams of all members in this process. `start` is called once, by any
  // thread, and perhaps after its member has left: it keeps what it needs.
  void start_all(int member, CudaDevice& device, std::function<void()> start) {
    starts_[member] = std::move(start);
    if (meeting_) meeting_->arrive_and_wait();
    if (!meeting_ || member == 0) {
      // Until the kernels of all members are queued, no thread may allocate or release memory: that could wait for a
      // kernel that waits for one not queued yet.
      const auto held = cuda::hold_memory();
      nccl::expect(ncclGroupStart(), "a collective");
      for (const auto& of_member : starts_)
        if (of_member) of_member();
      nccl::expect(ncclGroupEnd(), "a collective");
      device.use();
    }
    if (meeting_) meeting_->arrive_and_wait();
  }

  IndexedVector<int, nccl::Communicator> communicators_;  // [member]; null: in another process
  IndexedVector<int, char> is_checked_ = IndexedVector<int, char>(communicators_.size());  // [member] by its device
  IndexedVector<int, std::function<void()>> starts_;                                       // [member]
  std::optional<Barrier> meeting_;  // of all members; none where each has a process
};

}  // namespace

std::string describe_nccl() {
  int version = 0;
  nccl::expect(ncclGetVersion(&version), "asking for the version");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::shared_ptr<Group> make_nccl_group_between(Peers& peers, const std::vector<int>& processes, int gpu,
                                               std::uint64_t number) {
  const auto own = std::find(processes.begin(), processes.end(), peers.rank());
  MW_CHECK(own != processes.end(), "process {} has no part of this group", peers.rank());
  const ncclUniqueId id = nccl::shared_id(peers, processes, peer_tag(PeerTag::Join, number));
  on_gpu("joining processes", [&] { cuda::use_device(gpu); });
  return std::make_shared<NcclGroup>(static_cast<int>(processes.size()), static_cast<int>(own - processes.begin()), id);
}

std::shared_ptr<Group> make_nccl_group(const std::vector<int>& gpus, Abort& abort) {
  const auto by_memory = [&](std::size_t members) {
    return std::make_shared<CudaGroup>(static_cast<int>(members), abort);
  };
  std::vector<int> of_leaders = gpus;
  // One leader for each run of neighbours on one GPU.
  of_leaders.erase(std::unique(of_leaders.begin(), of_leaders.end()), of_leaders.end());
  // All devices are on one GPU: there is nothing between GPUs for NCCL to do.
  if (of_leaders.size() == 1 && gpus.size() > 1) return by_memory(gpus.size());
  // A GPU with two runs would be named twice, which NCCL refuses: its devices read each other's memory.
  if (is_repeated(of_leaders)) {
    expect_shared_memory(of_leaders);
    return by_memory(gpus.size());
  }
  const auto leaders = std::make_shared<NcclGroup>(of_leaders, abort);
  if (of_leaders.size() == gpus.size()) return leaders;
  const std::vector<int> sizes = run_lengths(gpus);
  std::vector<std::shared_ptr<Group>> locals;
  for (const int size : sizes) locals.push_back(size > 1 ? by_memory(static_cast<std::size_t>(size)) : nullptr);
  return std::make_shared<CompositeGroup>(std::move(locals), std::make_unique<GroupAcross>(leaders, sizes));
}

}  // namespace meshwright
