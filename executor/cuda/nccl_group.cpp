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
  // There are `members` in all; those from number `first` on are this process's, on `gpus`.
  NcclGroup(int members, int first, const std::vector<int>& gpus, const ncclUniqueId& id, Abort& abort)
      : communicators_(static_cast<std::size_t>(members)), starts_(communicators_.size()), starter_(first) {
    MW_CHECK(!is_repeated(gpus), "NCCL takes each GPU once");
    if (gpus.size() > 1) meeting_.emplace(static_cast<int>(gpus.size()), abort);
    std::vector<ncclComm_t> made(gpus.size(), nullptr);
    nccl::expect(ncclGroupStart(), "joining processes");
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      cuda::use_device(gpus[i]);
      nccl::expect(ncclCommInitRank(&made[i], members, id, first + static_cast<int>(i)), "joining processes");
    }
    // Returns when every member has been joined.
    nccl::expect(ncclGroupEnd(), "joining processes");
    for (std::size_t i = 0; i < gpus.size(); ++i) communicators_[first + static_cast<int>(i)] = nccl::owned(made[i]);
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
    if (!meeting_ || member == starter_) {
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
  std::optional<Barrier> meeting_;  // of this process's members, if several
  int starter_ = 0;                 // the first of them
};

std::shared_ptr<Group> by_memory(int members, Abort& abort) { return std::make_shared<CudaGroup>(members, abort); }

// Members of one process as NCCL sees them: each part has one of them for it.
struct Parts {
  std::vector<int> sizes, leaders;  // members; GPU
};
// One for each run of neighbours on one GPU. A GPU with two runs would be named twice, which NCCL refuses: all are then
// one part, and read each other's memory.
Parts parts_of(const std::vector<int>& gpus) {
  Parts parts{run_lengths(gpus), gpus};
  parts.leaders.erase(std::unique(parts.leaders.begin(), parts.leaders.end()), parts.leaders.end());
  if (!is_repeated(parts.leaders)) return parts;
  expect_shared_memory(parts.leaders);
  return {{static_cast<int>(gpus.size())}, {gpus.front()}};
}

// The group of all members of the parts, of which `count` from `first` on are this process's.
std::shared_ptr<Group> with_locals(std::shared_ptr<NcclGroup> leaders, std::vector<int> sizes, int first,
                                   std::size_t count, Abort& abort) {
  if (std::ranges::all_of(sizes, [](int size) { return size == 1; })) return leaders;
  std::vector<std::shared_ptr<Group>> locals(sizes.size());
  for (std::size_t part = static_cast<std::size_t>(first); part < static_cast<std::size_t>(first) + count; ++part)
    if (sizes[part] > 1) locals[part] = by_memory(sizes[part], abort);
  return std::make_shared<CompositeGroup>(std::move(locals),
                                          std::make_unique<GroupAcross>(std::move(leaders), std::move(sizes)));
}

}  // namespace

std::string describe_nccl() {
  int version = 0;
  nccl::expect(ncclGetVersion(&version), "asking for the version");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::shared_ptr<Group> make_nccl_group_between(Peers& peers, const std::vector<int>& processes,
                                               const std::vector<int>& gpus, std::uint64_t number, Abort& abort) {
  std::vector<int> once = processes;
  once.erase(std::unique(once.begin(), once.end()), once.end());
  if (is_repeated(once)) return nullptr;
  const Parts own = parts_of(gpus);
  const auto sizes_of = nccl::shared_numbers(peers, once, own.sizes, peer_tag(PeerTag::JoinParts, number));
  std::vector<int> sizes;  // [part]
  int first = 0;           // part of this process
  for (std::size_t of = 0; of < once.size(); ++of) {
    if (once[of] == peers.rank()) first = static_cast<int>(sizes.size());
    sizes.insert(sizes.end(), sizes_of[of].begin(), sizes_of[of].end());
  }
  const ncclUniqueId id = nccl::shared_id(peers, once, peer_tag(PeerTag::Join, number));
  auto leaders = on_gpu("joining processes", [&] {
    return std::make_shared<NcclGroup>(static_cast<int>(sizes.size()), first, own.leaders, id, abort);
  });
  return with_locals(std::move(leaders), std::move(sizes), first, own.sizes.size(), abort);
}

std::shared_ptr<Group> make_nccl_group(const std::vector<int>& gpus, Abort& abort) {
  const Parts parts = parts_of(gpus);
  // All devices are on one GPU, or read each other's memory: there is nothing between GPUs for NCCL to do.
  if (parts.sizes.size() == 1 && gpus.size() > 1) return by_memory(static_cast<int>(gpus.size()), abort);
  auto leaders = std::make_shared<NcclGroup>(parts.leaders, abort);
  return with_locals(std::move(leaders), parts.sizes, 0, parts.sizes.size(), abort);
}

}  // namespace meshwright
