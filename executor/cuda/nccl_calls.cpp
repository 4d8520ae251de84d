// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/nccl_calls.h"

#include <cstring>
#include <span>

namespace meshwright::nccl {

void expect(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw SystemError(fmt::format("{}: NCCL says '{}'", what, ncclGetErrorString(result)));
}

ncclDataType_t type_of(DType stored) {
  switch (stored) {
    case DType::F64:
      return ncclFloat64;
    case DType::F32:
      return ncclFloat32;
    case DType::BF16:
      return ncclBfloat16;
    case DType::F16:
      return ncclFloat16;
    case DType::I32:
      return ncclInt32;
  }
  throw InternalError("a type that NCCL does not know");
}

ncclRedOp_t operation_of(kernels::Reduction reduction) {
  return reduction == kernels::Reduction::Max ? ncclMax : ncclSum;
}

Communicator owned(ncclComm_t communicator) {
  return {communicator, [](ncclComm_t of) { (void)ncclCommAbort(of); }};
}

void expect_no_failure(const std::weak_ptr<ncclComm>& of, int gpu) {
  const Communicator communicator = of.lock();
  if (communicator == nullptr) return;
  ncclResult_t state = ncclSuccess;
  if (ncclCommGetAsyncError(communicator.get(), &state) != ncclSuccess) return;
  if (state != ncclSuccess && state != ncclInProgress)
    throw SystemError(
        fmt::format("a collective of GPU {} failed under way: NCCL says '{}'; NCCL_DEBUG=WARN tells more.", gpu,
                    ncclGetErrorString(state)));
}

ncclUniqueId shared_id(Peers& peers, const std::vector<int>& processes, std::uint64_t tag) {
  ncclUniqueId id{};
  if (processes.front() == peers.rank()) {
    expect(ncclGetUniqueId(&id), "joining processes");
    const auto bytes = std::as_bytes(std::span(id.internal));
    for (std::size_t other = 1; other < processes.size(); ++other)
      peers.send(processes[other], tag, {bytes.begin(), bytes.end()});
    return id;
  }
  Abort abort;
  const PeerWatch watched(peers, abort);
  const std::vector<std::byte> bytes = peers.receive(processes.front(), tag, abort);
  MW_CHECK(bytes.size() == sizeof(id.internal), "an id of NCCL's has {} bytes", bytes.size());
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

std::vector<std::vector<int>> shared_numbers(Peers& peers, const std::vector<int>& processes,
                                             const std::vector<int>& own, std::uint64_t tag) {
  const auto bytes = std::as_bytes(std::span(own));
  for (const int other : processes)
    if (other != peers.rank()) peers.send(other, tag, {bytes.begin(), bytes.end()});
  Abort abort;
  const PeerWatch watched(peers, abort);
  std::vector<std::vector<int>> all;
  for (const int other : processes) {
    if (other == peers.rank()) {
      all.push_back(own);
      continue;
    }
    const std::vector<std::byte> received = peers.receive(other, tag, abort);
    MW_CHECK(received.size() % sizeof(int) == 0, "numbers of {} bytes", received.size());
    std::memcpy(all.emplace_back(received.size() / sizeof(int)).data(), received.data(), received.size());
  }
  return all;
}

}  // namespace meshwright::nccl
