// SPDX-License-Identifier: Apache-2.0
// A group in parts: consecutive members that are near each other, on one GPU or in one process. Members of a part meet
// in a Group of their own; of each part only the first, its leader, meets those of the others.
//
// Sums are made inside each part in the order of members, then in that of parts, and handed on: all members get the
// same bits, in every run. Where each part has one member they are those of a Communicator.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "executor/device/backend.h"
#include "executor/peers/across.h"

namespace meshwright {

// How many of equal neighbours there are, one after the other: 0 0 0 1 2 2 -> 3 1 2.
[[nodiscard]] std::vector<int> run_lengths(std::span<const int> places);

class CompositeGroup final : public Group {
 public:
  // `locals` [part]: the Group of its members; null for a part of one member, and for one whose members are in another
  // process and never call. The weights of `leaders` are the numbers of members.
  CompositeGroup(std::vector<std::shared_ptr<Group>> locals, std::unique_ptr<Across> leaders);

  void all_reduce(int member, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                  kernels::Reduction reduction) override;
  void reduce_scatter(int member, Device& device, DType stored, const void* in, void* out, std::int64_t outer,
                      std::int64_t inner, kernels::Reduction reduction) override;
  void all_gather(int member, Device& device, DType stored, const void* in, void* out, std::int64_t outer,
                  std::int64_t inner) override;
  void all_to_all(int member, Device& device, DType stored, const void* in, void* out,
                  std::span<const std::int64_t> in_shape, int split_dim, int join_dim) override;
  void broadcast(int member, Device& device, DType stored, void* data, std::int64_t n, int root) override;

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

  const std::vector<std::shared_ptr<Group>> locals_;  // [part]
  const std::unique_ptr<Across> leaders_;
};

}  // namespace meshwright
