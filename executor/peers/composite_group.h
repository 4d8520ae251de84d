// SPDX-License-Identifier: Apache-2.0
// A group in parts: consecutive members that are near each other, on one GPU or in one process. The members of a part
// form a Group of their own; only the first member of each part, its leader, communicates with the other parts.
//
// Elements are summed inside each part in the order of members, then over the parts in their order, and the result is
// distributed: all members get the same bits, in every run. If each part has one member, the bits are a Communicator's.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "executor/device/backend.h"
#include "executor/peers/across.h"

namespace meshwright {

// The lengths of runs of equal neighbours: 0 0 0 1 2 2 -> 3 1 2.
[[nodiscard]] std::vector<int> run_lengths(std::span<const int> places);

class CompositeGroup final : public Group {
 public:
  // `locals` [part]: the Group of its members; null for a part of one member, and for a part of another process, whose
  // members never call here. The weights of `leaders` are the parts' numbers of members.
  CompositeGroup(std::vector<std::shared_ptr<Group>> locals, std::unique_ptr<Across> leaders);

  void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) override;
  void reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, kernels::Reduction reduction,
                      std::int64_t padding) override;
  void all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, std::int64_t padding) override;
  void all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                  int join_dim) override;
  void broadcast(const CollectiveCall& call, std::int64_t n, int root) override;
  void pass_on(const CollectiveCall& call, std::int64_t n, Around way) override;

 private:
  // Where a member is.
  struct Place {
    int part;
    int local;     // its number in the part, 0 for the leader
    Group* group;  // of the part; null where it is alone
  };
  [[nodiscard]] std::pair<int, int> split(int member) const;  // part and number in it
  [[nodiscard]] Place place_of(int member) const;             // of one that calls
  [[nodiscard]] int members() const { return leaders_->before(leaders_->parts()); }

  const IndexedVector<int, std::shared_ptr<Group>> locals_;  // [part]
  const std::unique_ptr<Across> leaders_;
};

}  // namespace meshwright
