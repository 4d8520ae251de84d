// SPDX-License-Identifier: Apache-2.0
// Collectives between leaders in several processes (executor/peers/peers.h), by direct messages: every element is sent
// once to each part that needs it. Elements of a GPU go through its host's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/peers/across.h"
#include "executor/peers/peers.h"

namespace meshwright {

class PeersAcross final : public Across {
 public:
  // `processes` [part]: where its leader runs. `number`: of the group, below 2^24, the same in every process; no other
  // group of these Peers has it. REQUIRES: fewer than 2^16 parts.
  PeersAcross(Peers& peers, std::vector<int> weights, std::vector<int> processes, std::uint64_t number,
              const Abort& abort);

  void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) override;
  void reduce_scatter(const CollectiveCall& call, std::int64_t unit, kernels::Reduction reduction) override;
  void all_gather(const CollectiveCall& call, std::int64_t unit) override;
  void all_to_all(const CollectiveCall& call, std::int64_t unit) override;
  void broadcast(const CollectiveCall& call, std::int64_t n, int root) override;
  void pass_on(const CollectiveCall& call, std::int64_t n, Around way) override;

 private:
  // One leader, during one operation.
  class Leader;
  Peers& peers_;
  const IndexedVector<int, int> processes_;  // [part]
  const std::uint64_t number_;
  const Abort& abort_;
};

}  // namespace meshwright
