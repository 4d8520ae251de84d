// SPDX-License-Identifier: Apache-2.0
// Groups in parts against the plain group of the same members, bit for bit.
#include "executor/peers/composite_group.h"

#include <gtest/gtest.h>

#include <numeric>

#include "executor/host/host_backend.h"
#include "executor/peers/peers_across.h"
#include "tests/collective_cases.h"
#include "tests/local_peers.h"

namespace meshwright::composite_group_test {
namespace {

using Sizes = std::vector<int>;

const std::vector<Sizes> kParts = {{1, 1}, {2, 2}, {1, 1, 1}, {3, 1}, {1, 2}, {2, 1, 3}};

void expect_like_a_plain_group(const Sizes& parts, const GroupOf& group_of, Numbers numbers) {
  HostBackend host(DType::F64);
  for (const DType stored : {DType::F32, DType::F64, DType::I32})
    if (stored != DType::I32 || numbers == Numbers::Whole)
      expect_like_a_plain_group(host, parts, group_of, stored, numbers);
}

TEST(CompositeGroup, IsLikeAPlainOneWithLeadersInOneProcess) {
  HostBackend host(DType::F64);
  for (const Sizes& parts : kParts) {
    Abort abort;
    const auto leaders = host.make_group(device_ids(static_cast<int>(parts.size())), abort);
    CompositeGroup group(local_groups(host, parts, abort), std::make_unique<GroupAcross>(leaders, parts));
    expect_like_a_plain_group(
        parts, [&](int) -> Group& { return group; }, Numbers::Whole);
  }
}

// Each process has one part, and a group object of its own.
class Processes {
 public:
  explicit Processes(const Sizes& parts) : peers_(LocalPeers::make(static_cast<int>(parts.size()))) {
    HostBackend host(DType::F64);
    Sizes ranks(parts.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      part_of_.insert(part_of_.end(), static_cast<std::size_t>(parts[rank]), rank);
      std::vector<std::shared_ptr<Group>> locals(parts.size());
      locals[rank] = local_groups(host, {parts[rank]}, abort_)[0];
      groups_.push_back(std::make_unique<CompositeGroup>(
          std::move(locals), std::make_unique<PeersAcross>(*peers_[rank], parts, ranks, 3, abort_)));
    }
  }
  Group& group_of(int member) { return *groups_[part_of_[static_cast<std::size_t>(member)]]; }
  [[nodiscard]] std::size_t bytes_sent(int process) const {
    return peers_[static_cast<std::size_t>(process)]->bytes_sent();
  }

 private:
  Abort abort_;
  std::vector<std::unique_ptr<LocalPeers>> peers_;
  std::vector<std::size_t> part_of_;  // [member]
  std::vector<std::unique_ptr<CompositeGroup>> groups_;
};

TEST(CompositeGroup, IsLikeAPlainOneWithPartsInSeveralProcesses) {
  for (const Sizes& parts : kParts) {
    Processes processes(parts);
    expect_like_a_plain_group(
        parts, [&](int member) -> Group& { return processes.group_of(member); }, Numbers::Whole);
  }
}

// Then sums are made in the order of members, and rounded like those of a plain group.
TEST(CompositeGroup, HasTheBitsOfAPlainOneWhereEachPartHasOneMember) {
  for (const Sizes& parts : {Sizes{1, 1}, Sizes{1, 1, 1, 1, 1}}) {
    Processes processes(parts);
    expect_like_a_plain_group(
        parts, [&](int member) -> Group& { return processes.group_of(member); }, Numbers::Fractions);
  }
}

TEST(CompositeGroup, GivesAllMembersTheSameBits) {
  HostBackend host(DType::F64);
  Processes processes({2, 1, 3});
  for (const std::int64_t n : {100, 5000}) {
    const Collective sum{"all_reduce", n, n, [=](Group& group, const CollectiveCall& call) {
                           group.all_reduce(call, n, kernels::Reduction::Sum);
                         }};
    const std::vector<Memory> results = outcome(
        host, 6, [&](int member) -> Group& { return processes.group_of(member); }, sum, DType::F32, Numbers::Fractions);
    for (const Memory& of_member : results) EXPECT_EQ(of_member, results[0]);
  }
}

// 3 + 2 members, the three being 2 + 1.
TEST(CompositeGroup, MayHavePartsThatAreInPartsThemselves) {
  HostBackend host(DType::F64);
  Abort abort;
  const Sizes inner = {2, 1}, outer = {3, 2};
  const auto first = std::make_shared<CompositeGroup>(
      local_groups(host, inner, abort), std::make_unique<GroupAcross>(host.make_group(device_ids(2), abort), inner));
  CompositeGroup group({first, host.make_group(device_ids(2), abort)},
                       std::make_unique<GroupAcross>(host.make_group(device_ids(2), abort), outer));
  expect_like_a_plain_group(
      outer, [&](int) -> Group& { return group; }, Numbers::Whole);
}

// Of what a process has, 3/4 go to the three others: twice for a sum, once for its parts and for an all-to-all. To
// gather, all of it goes to each.
TEST(CompositeGroup, SendsNoMoreThanMustCross) {
  HostBackend host(DType::F64);
  constexpr std::int64_t n = 4096, bytes = n * 4;
  using kernels::Reduction;
  const auto sent = [&](const auto& call) {
    Processes processes({1, 1, 1, 1});
    static_cast<void>(outcome(
        host, 4, [&](int member) -> Group& { return processes.group_of(member); }, {"", n, 4 * n, call}, DType::F32,
        Numbers::Whole));
    return static_cast<std::int64_t>(processes.bytes_sent(2) / 2);  // it is called twice
  };
  EXPECT_EQ(sent([](Group& group, const CollectiveCall& call) { group.all_reduce(call, n, Reduction::Sum); }),
            2 * bytes * 3 / 4);
  EXPECT_EQ(
      sent([](Group& group, const CollectiveCall& call) { group.reduce_scatter(call, 2, n / 8, Reduction::Sum); }),
      bytes * 3 / 4);
  EXPECT_EQ(sent([](Group& group, const CollectiveCall& call) {
              const std::vector<std::int64_t> shape = {n / 8, 8};
              group.all_to_all(call, shape, 1, 0);
            }),
            bytes * 3 / 4);
  EXPECT_EQ(sent([](Group& group, const CollectiveCall& call) { group.all_gather(call, 1, n); }), bytes * 3);
}

TEST(CompositeGroup, CountsEqualNeighbours) {
  EXPECT_EQ(run_lengths(Sizes{0, 0, 0, 1, 2, 2}), (Sizes{3, 1, 2}));
  EXPECT_EQ(run_lengths(Sizes{4, 1, 4}), (Sizes{1, 1, 1}));
  EXPECT_TRUE(run_lengths({}).empty());
}

}  // namespace
}  // namespace meshwright::composite_group_test
