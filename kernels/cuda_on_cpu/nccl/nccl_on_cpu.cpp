// SPDX-License-Identifier: Apache-2.0
// NCCL in the place of NCCL, where a processor stands in for GPUs: the calls that executor/cuda makes, by threads of
// one process, who may play several. A program that has it calls this and not the library.
//
// Collectives add in the order of ranks, in the type that sums are kept in. Sends are buffered: what NCCL does not
// promise, so that which stream waits for which is not tested here. Whoever waits for a peer for kPatience is told that
// it failed.
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/types.h"
#include "kernels/cuda_on_cpu/capture.h"

namespace {

namespace cuda = meshwright::kernels::cuda;

constexpr std::chrono::seconds kPatience{60};

enum class Kind : std::uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast };

// What one rank brings to a collective.
struct Part {
  const void* in = nullptr;
  void* out = nullptr;
};

struct Meeting {
  Kind kind{};
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t operation{};
  int root = 0;
  std::vector<Part> parts = {};
  int arrived = 0, left = 0;
  bool done = false, fits = true;
};

// The ranks that have joined under one id.
struct Clique {
  explicit Clique(int members) : size(members), begun(static_cast<std::size_t>(members), 0) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  bool aborted = false;
  std::map<std::uint64_t, Meeting> meetings;                                   // by number
  std::vector<std::uint64_t> begun;                                            // [rank] collectives
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;  // by sender and receiver
};

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

template <class T, class W>
void reduce(const Meeting& m, std::size_t begin, std::size_t count, void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    auto total = static_cast<W>(static_cast<const T*>(m.parts[0].in)[begin + i]);
    for (std::size_t r = 1; r < m.parts.size(); ++r) {
      const auto next = static_cast<W>(static_cast<const T*>(m.parts[r].in)[begin + i]);
      total = m.operation == ncclMax ? std::max(total, next) : static_cast<W>(total + next);
    }
    static_cast<T*>(to)[i] = static_cast<T>(total);
  }
}
void reduce(const Meeting& m, std::size_t begin, std::size_t count, void* to) {
  switch (m.type) {
    case ncclFloat64:
      return reduce<double, double>(m, begin, count, to);
    case ncclFloat16:
      return reduce<cuda::F16, float>(m, begin, count, to);
    case ncclBfloat16:
      return reduce<cuda::Bf16, float>(m, begin, count, to);
    case ncclInt32:
      return reduce<std::int32_t, std::int32_t>(m, begin, count, to);
    default:
      return reduce<float, float>(m, begin, count, to);
  }
}

// Results may lie where operands do: all are made before any is written.
void complete(Meeting& m) {
  const std::size_t bytes = m.count * size_of(m.type), ranks = m.parts.size();
  std::vector<std::vector<std::byte>> results;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<std::byte>& result = results.emplace_back(m.kind == Kind::AllGather ? ranks * bytes : bytes);
    if (m.kind == Kind::AllReduce) reduce(m, 0, m.count, result.data());
    if (m.kind == Kind::ReduceScatter) reduce(m, r * m.count, m.count, result.data());
    if (m.kind == Kind::Broadcast) std::memcpy(result.data(), m.parts[static_cast<std::size_t>(m.root)].in, bytes);
    for (std::size_t from = 0; from < ranks && m.kind == Kind::AllGather; ++from)
      std::memcpy(result.data() + from * bytes, m.parts[from].in, bytes);
  }
  for (std::size_t r = 0; r < ranks; ++r) std::memcpy(m.parts[r].out, results[r].data(), results[r].size());
}

// What a call begins, and the wait for its end.
struct Call {
  cudaStream_t stream;
  std::function<void()> begin;
  std::function<ncclResult_t()> end;
};

thread_local int open_groups = 0;
thread_local std::vector<Call> calls;
thread_local std::vector<std::function<ncclResult_t()>> joining;

ncclResult_t perform(const std::vector<Call>& all) {
  for (const Call& call : all) call.begin();
  ncclResult_t result = ncclSuccess;
  for (const Call& call : all)
    if (const ncclResult_t found = call.end(); found != ncclSuccess) result = found;
  return result;
}

// A captured stream does it in each replay, as all of the group then.
ncclResult_t flush() {
  std::vector<Call> all = std::exchange(calls, {});
  if (all.empty()) return ncclSuccess;
  const cuda::Stream first{all.front().stream};
  if (!cuda::on_cpu::is_captured(first)) return perform(all);
  if (std::any_of(all.begin(), all.end(), [&](const Call& call) { return call.stream != first.handle; }))
    return ncclInvalidUsage;  // one GPU of the process alone
  cuda::on_cpu::queue(first, [all = std::move(all)] { (void)perform(all); });
  return ncclSuccess;
}

ncclResult_t add(Call call) {
  calls.push_back(std::move(call));
  return open_groups > 0 ? ncclSuccess : flush();
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank;
};

namespace {

template <class Ready>
ncclResult_t wait(Clique& clique, std::unique_lock<std::mutex>& lock, Ready ready) {
  (void)clique.changed.wait_for(lock, kPatience, [&] { return clique.aborted || ready(); });
  return ready() ? ncclSuccess : ncclRemoteError;  // one that is done may have been left by others since
}

ncclResult_t collective(Meeting wanted, Part part, ncclComm_t of, cudaStream_t stream) {
  const std::shared_ptr<Clique> clique = of->clique;
  const int rank = of->rank;
  const auto number = std::make_shared<std::uint64_t>(0);
  const auto begin = [=] {
    const std::lock_guard lock(clique->mutex);
    *number = clique->begun[static_cast<std::size_t>(rank)]++;
    Meeting& met = clique->meetings.try_emplace(*number, wanted).first->second;
    met.parts.resize(static_cast<std::size_t>(clique->size));
    met.parts[static_cast<std::size_t>(rank)] = part;
    met.fits = met.fits && met.kind == wanted.kind && met.count == wanted.count && met.type == wanted.type;
    if (++met.arrived < clique->size) return;
    if (met.fits) complete(met);
    met.done = true;
    clique->changed.notify_all();
  };
  const auto end = [=]() -> ncclResult_t {
    std::unique_lock lock(clique->mutex);
    Meeting& met = clique->meetings.at(*number);
    const ncclResult_t result = wait(*clique, lock, [&] { return met.done; });
    const bool fits = met.fits;
    if (result == ncclSuccess && ++met.left == clique->size) clique->meetings.erase(*number);
    return fits ? result : ncclInvalidArgument;
  };
  return add({stream, begin, end});
}

// Waits for the other ranks of all that this thread joins.
ncclResult_t join() {
  ncclResult_t result = ncclSuccess;
  for (const auto& one : std::exchange(joining, {}))
    if (const ncclResult_t found = one(); found != ncclSuccess) result = found;
  return result;
}

std::mutex cliques_mutex;
std::uint64_t ids_made = 0;
std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;  // that ranks are still to join

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : result == ncclRemoteError ? "a peer did not come" : "wrong use";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(cliques_mutex);
  const std::uint64_t number = ++ids_made;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* made, int members, ncclUniqueId id, int rank) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::shared_ptr<Clique> clique;
  {
    const std::lock_guard lock(cliques_mutex);
    std::shared_ptr<Clique>& known = cliques[number];
    if (known == nullptr) known = std::make_shared<Clique>(members);
    clique = known;
    if (clique->size != members || rank >= members) return ncclInvalidArgument;
  }
  {
    const std::lock_guard lock(clique->mutex);
    ++clique->joined;
    clique->changed.notify_all();
  }
  joining.push_back([=]() -> ncclResult_t {
    std::unique_lock lock(clique->mutex);
    if (wait(*clique, lock, [&] { return clique->joined == members; }) != ncclSuccess) return ncclRemoteError;
    *made = new ncclComm{clique, rank};
    return ncclSuccess;
  });
  return open_groups > 0 ? ncclSuccess : join();
}

ncclResult_t ncclCommInitAll(ncclComm_t* made, int members, const int* gpus) {
  if (gpus != nullptr && std::set<int>(gpus, gpus + members).size() < static_cast<std::size_t>(members))
    return ncclInvalidUsage;  // it takes each GPU once
  const auto clique = std::make_shared<Clique>(members);
  for (int rank = 0; rank < members; ++rank) made[rank] = new ncclComm{clique, rank};
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  {
    const std::lock_guard lock(communicator->clique->mutex);
    communicator->clique->aborted = true;
    communicator->clique->changed.notify_all();
  }
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--open_groups > 0) return ncclSuccess;
  const ncclResult_t joined = join();
  return joined == ncclSuccess ? flush() : joined;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t of, cudaStream_t stream) {
  return collective({.kind = Kind::AllReduce, .count = count, .type = type, .operation = operation}, {in, out}, of,
                    stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t of, cudaStream_t stream) {
  return collective({.kind = Kind::ReduceScatter, .count = count, .type = type, .operation = operation}, {in, out}, of,
                    stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t of,
                           cudaStream_t stream) {
  return collective({.kind = Kind::AllGather, .count = count, .type = type}, {in, out}, of, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t of,
                           cudaStream_t stream) {
  return collective({.kind = Kind::Broadcast, .count = count, .type = type, .root = root}, {in, out}, of, stream);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t of,
                      cudaStream_t stream) {
  const std::shared_ptr<Clique> clique = of->clique;
  const std::pair<int, int> ends{of->rank, peer};
  const auto begin = [=] {
    const auto* bytes = static_cast<const std::byte*>(from);
    const std::lock_guard lock(clique->mutex);
    clique->messages[ends].emplace_back(bytes, bytes + count * size_of(type));
    clique->changed.notify_all();
  };
  return add({stream, begin, [] { return ncclSuccess; }});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t of, cudaStream_t stream) {
  const std::shared_ptr<Clique> clique = of->clique;
  const std::pair<int, int> ends{peer, of->rank};
  const auto end = [=]() -> ncclResult_t {
    std::unique_lock lock(clique->mutex);
    std::deque<std::vector<std::byte>>& waiting = clique->messages[ends];
    // What was sent before the sender left is still there.
    const bool came = clique->changed.wait_for(lock, kPatience, [&] { return clique->aborted || !waiting.empty(); });
    if (!came || waiting.empty()) return ncclRemoteError;
    const std::vector<std::byte> message = std::move(waiting.front());
    waiting.pop_front();
    if (message.size() != count * size_of(type)) return ncclInvalidArgument;
    std::memcpy(to, message.data(), message.size());
    return ncclSuccess;
  };
  return add({stream, [] {}, end});
}
