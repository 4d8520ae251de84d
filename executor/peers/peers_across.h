// SPDX-License-Identifier: Apache-2.0
// Collectives between leaders in several processes (executor/peers/peers.h), by messages from each straight to each:
// every element crosses once to each part that needs it. What a GPU has goes through its host's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/peers/across.h"
#include "executor/peers/peers.h"

namespace meshwright {

class PeersAcross final : public Across {
 public:
  // `processes` [part]: where its leader runs. `number`: of the group, below 2^24, the same in every process; no other
  // group of these Peers has it. REQUIRES: fewer than 2^16 parts.
  PeersAcross(Peers& peers, std::vector<int> weights, std::vector<int> processes, std::uint64_t number,
              const Abort& abort);

  void all_reduce(int part, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                  kernels::Reduction reduction) override;
  void reduce_scatter(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit,
                      kernels::Reduction reduction) override;
  void all_gather(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) override;
  void all_to_all(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) override;
  void broadcast(int part, Device& device, DType stored, void* data, std::int64_t n, int root) override;

 private:
  // One leader, during one operation.
  class Leader;
  Peers& peers_;
  const std::vector<int> processes_;  // [part]
  const std::uint64_t number_;
  const Abort& abort_;
};

}  // namespace meshwright
