// SPDX-License-Identifier: Apache-2.0
// Groups in parts against the plain group of the same members, bit for bit. Where a sum is made in another order, its
// terms are small integers, so that every order gives the same.
#include "executor/composite_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>

#include "executor/element_type.h"
#include "executor/host_backend.h"
#include "executor/peers_across.h"
#include "tests/local_peers.h"

namespace meshwright {
namespace {

using kernels::Reduction;
using Memory = std::vector<std::byte>;
using Sizes = std::vector<int>;

// The call of one member: from `in` to `out`.
using Call = std::function<void(Group&, int member, Device&, const void* in, void* out)>;

struct Collective {
  std::string name;
  std::int64_t in, out;  // elements
  Call call;
};

std::vector<DeviceId> devices(int begin, int count) {
  std::vector<DeviceId> ids;
  for (int d = 0; d < count; ++d) ids.emplace_back(begin + d);
  return ids;
}

// Element i of a member: a whole number, or a fraction whose sums are rounded.
enum class Numbers { Whole, Fractions };
Memory operand(int member, std::int64_t n, DType stored, Numbers numbers) {
  Memory bytes(static_cast<std::size_t>(n * size_of(stored)));
  with_element_type(stored, [&](auto zero) {
    using T = decltype(zero);
    auto* values = reinterpret_cast<T*>(bytes.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t whole = (7 * i + 3 * member) % 16 - 5;
      values[i] = numbers == Numbers::Whole ? static_cast<T>(whole)
                                            : static_cast<T>(1.0 / static_cast<double>(3 * i + 7 * member + 1));
    }
  });
  return bytes;
}

// What each member has after the call, and has had after one before it, on `group_of(member)`.
std::vector<Memory> outcome(int members, const std::function<Group&(int)>& group_of, const Collective& collective,
                            DType stored, Numbers numbers) {
  HostBackend host(DType::F64);
  std::vector<Memory> results(static_cast<std::size_t>(members));
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member)
    threads.emplace_back([&, member] {
      const auto device = host.make_device(DeviceId(member));
      const Memory in = operand(member, collective.in, stored, numbers), kept = in;
      Memory& out = results[static_cast<std::size_t>(member)];
      out.assign(static_cast<std::size_t>(collective.out * size_of(stored)), std::byte{0x55});
      for (int time = 0; time < 2; ++time) collective.call(group_of(member), member, *device, in.data(), out.data());
      EXPECT_EQ(in, kept) << collective.name << ": an operand is overwritten";
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<Collective> collectives(int members, DType stored) {
  std::vector<Collective> all;
  const auto size = [=](std::int64_t n) { return static_cast<std::size_t>(n * size_of(stored)); };
  for (const auto reduction : {Reduction::Sum, Reduction::Max})
    for (const std::int64_t n : {1, 13, 1024, 5003})
      all.push_back({fmt::format("all_reduce of {}", n), n, n,
                     [=](Group& group, int member, Device& device, const void* in, void* out) {
                       group.all_reduce(member, device, stored, in, out, n, reduction);
                     }});
  all.push_back(
      {"all_reduce in place", 77, 77, [=](Group& group, int member, Device& device, const void* in, void* out) {
         std::memcpy(out, in, size(77));
         group.all_reduce(member, device, stored, out, out, 77, Reduction::Sum);
       }});
  for (const std::int64_t outer : {1, 3})
    for (const std::int64_t inner : {1, 5, 700}) {
      const std::int64_t part = outer * inner;
      all.push_back({fmt::format("reduce_scatter to {} x {}", outer, inner), members * part, part,
                     [=](Group& group, int member, Device& device, const void* in, void* out) {
                       group.reduce_scatter(member, device, stored, in, out, outer, inner, Reduction::Sum);
                     }});
      all.push_back({fmt::format("all_gather of {} x {}", outer, inner), part, members * part,
                     [=](Group& group, int member, Device& device, const void* in, void* out) {
                       group.all_gather(member, device, stored, in, out, outer, inner);
                     }});
    }
  const std::vector<std::vector<std::int64_t>> shapes = {
      {2 * members, 3}, {3, members}, {2, members, 3, 5}, {members, members, 2}};
  for (const std::vector<std::int64_t>& shape : shapes)
    for (int split = 0; split < static_cast<int>(shape.size()); ++split)
      for (int join = 0; join < static_cast<int>(shape.size()); ++join) {
        if (split == join || shape[static_cast<std::size_t>(split)] % members != 0) continue;
        const std::int64_t n = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
        all.push_back({fmt::format("all_to_all of {} from {} to {}", n, split, join), n, n,
                       [=](Group& group, int member, Device& device, const void* in, void* out) {
                         group.all_to_all(member, device, stored, in, out, shape, split, join);
                       }});
      }
  for (int root = 0; root < members; ++root)
    all.push_back({fmt::format("broadcast by {}", root), 29, 29,
                   [=](Group& group, int member, Device& device, const void* in, void* out) {
                     std::memcpy(out, in, size(29));
                     group.broadcast(member, device, stored, out, 29, root);
                   }});
  return all;
}

std::vector<std::shared_ptr<Group>> local_groups(const Sizes& parts, const std::function<bool(int)>& is_here,
                                                 Abort& abort) {
  HostBackend host(DType::F64);
  std::vector<std::shared_ptr<Group>> groups;
  for (std::size_t part = 0; part < parts.size(); ++part)
    groups.push_back(
        parts[part] > 1 && is_here(static_cast<int>(part)) ? host.make_group(devices(0, parts[part]), abort) : nullptr);
  return groups;
}

void expect_like_the_plain_group(const Sizes& parts, const std::function<Group&(int)>& group_of, Numbers numbers) {
  const int members = std::accumulate(parts.begin(), parts.end(), 0);
  HostBackend host(DType::F64);
  Abort abort;
  const auto plain = host.make_group(devices(0, members), abort);
  for (const DType stored : {DType::F32, DType::F64, DType::I32}) {
    if (stored == DType::I32 && numbers == Numbers::Fractions) continue;
    for (const Collective& collective : collectives(members, stored))
      EXPECT_EQ(outcome(members, group_of, collective, stored, numbers),
                outcome(
                    members, [&](int) -> Group& { return *plain; }, collective, stored, numbers))
          << collective.name << " of " << name_of(stored) << " by " << fmt::format("{}", fmt::join(parts, "+"));
  }
}

const std::vector<Sizes> kParts = {{1, 1}, {2, 2}, {1, 1, 1}, {3, 1}, {1, 2}, {2, 1, 3}};

TEST(CompositeGroup, IsLikeAPlainOneWithLeadersInOneProcess) {
  HostBackend host(DType::F64);
  for (const Sizes& parts : kParts) {
    Abort abort;
    CompositeGroup group(
        local_groups(
            parts, [](int) { return true; }, abort),
        std::make_unique<GroupAcross>(host.make_group(devices(0, static_cast<int>(parts.size())), abort), parts));
    expect_like_the_plain_group(
        parts, [&](int) -> Group& { return group; }, Numbers::Whole);
  }
}

// Each process has one part, and a group object of its own.
class Processes {
 public:
  explicit Processes(const Sizes& parts) : peers_(LocalPeers::make(static_cast<int>(parts.size()))) {
    Sizes ranks(parts.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
      part_of_.insert(part_of_.end(), static_cast<std::size_t>(parts[static_cast<std::size_t>(rank)]), rank);
      auto across = std::make_unique<PeersAcross>(*peers_[static_cast<std::size_t>(rank)], parts, ranks, 3, abort_);
      groups_.push_back(std::make_unique<CompositeGroup>(local_groups(
                                                             parts, [&](int part) { return part == rank; }, abort_),
                                                         std::move(across)));
    }
  }
  Group& group_of(int member) { return *groups_[static_cast<std::size_t>(part_of_[static_cast<std::size_t>(member)])]; }
  [[nodiscard]] std::size_t bytes_sent(int process) const {
    return peers_[static_cast<std::size_t>(process)]->bytes_sent();
  }

 private:
  Abort abort_;
  std::vector<std::unique_ptr<LocalPeers>> peers_;
  Sizes part_of_;  // [member]
  std::vector<std::unique_ptr<CompositeGroup>> groups_;
};

TEST(CompositeGroup, IsLikeAPlainOneWithPartsInSeveralProcesses) {
  for (const Sizes& parts : kParts) {
    Processes processes(parts);
    expect_like_the_plain_group(
        parts, [&](int member) -> Group& { return processes.group_of(member); }, Numbers::Whole);
  }
}

// Then sums are made in the order of members, and rounded like those of a plain group.
TEST(CompositeGroup, HasTheBitsOfAPlainOneWhereEachPartHasOneMember) {
  for (const Sizes& parts : {Sizes{1, 1}, Sizes{1, 1, 1, 1, 1}}) {
    Processes processes(parts);
    expect_like_the_plain_group(
        parts, [&](int member) -> Group& { return processes.group_of(member); }, Numbers::Fractions);
  }
}

TEST(CompositeGroup, GivesAllMembersTheSameBits) {
  const Sizes parts = {2, 1, 3};
  Processes processes(parts);
  for (const std::int64_t n : {100, 5000}) {
    const Collective sum{"all_reduce", n, n, [=](Group& group, int member, Device& device, const void* in, void* out) {
                           group.all_reduce(member, device, DType::F32, in, out, n, Reduction::Sum);
                         }};
    const std::vector<Memory> results = outcome(
        6, [&](int member) -> Group& { return processes.group_of(member); }, sum, DType::F32, Numbers::Fractions);
    for (const Memory& of_member : results) EXPECT_EQ(of_member, results[0]);
  }
}

// 3 + 2 members, the three being 2 + 1.
TEST(CompositeGroup, MayHavePartsThatAreInPartsThemselves) {
  HostBackend host(DType::F64);
  Abort abort;
  const Sizes inner = {2, 1}, outer = {3, 2};
  auto first =
      std::make_shared<CompositeGroup>(local_groups(
                                           inner, [](int) { return true; }, abort),
                                       std::make_unique<GroupAcross>(host.make_group(devices(0, 2), abort), inner));
  CompositeGroup group({first, host.make_group(devices(3, 2), abort)},
                       std::make_unique<GroupAcross>(host.make_group(devices(0, 2), abort), outer));
  expect_like_the_plain_group(
      outer, [&](int) -> Group& { return group; }, Numbers::Whole);
}

// Of p processes with n elements each: (p - 1)/p of them twice for a sum, once for its parts and for an all-to-all,
// and all of them to each other for a whole.
TEST(CompositeGroup, SendsNoMoreThanMustCross) {
  const std::int64_t n = 4096, bytes = n * 4;
  const auto sent = [&](const Call& call) {
    Processes processes({1, 1, 1, 1});
    const Collective collective{"", n, 4 * n, call};
    static_cast<void>(outcome(
        4, [&](int member) -> Group& { return processes.group_of(member); }, collective, DType::F32, Numbers::Whole));
    return static_cast<std::int64_t>(processes.bytes_sent(2) / 2);  // of one call
  };
  EXPECT_EQ(sent([=](Group& group, int member, Device& device, const void* in, void* out) {
              group.all_reduce(member, device, DType::F32, in, out, n, Reduction::Sum);
            }),
            2 * bytes * 3 / 4);
  EXPECT_EQ(sent([=](Group& group, int member, Device& device, const void* in, void* out) {
              group.reduce_scatter(member, device, DType::F32, in, out, 2, n / 8, Reduction::Sum);
            }),
            bytes * 3 / 4);
  EXPECT_EQ(sent([=](Group& group, int member, Device& device, const void* in, void* out) {
              const std::vector<std::int64_t> shape = {n / 8, 8};
              group.all_to_all(member, device, DType::F32, in, out, shape, 1, 0);
            }),
            bytes * 3 / 4);
  EXPECT_EQ(sent([=](Group& group, int member, Device& device, const void* in, void* out) {
              group.all_gather(member, device, DType::F32, in, out, 1, n);
            }),
            bytes * 3);
}

TEST(CompositeGroup, CountsEqualNeighbours) {
  EXPECT_EQ(run_lengths(Sizes{0, 0, 0, 1, 2, 2}), (Sizes{3, 1, 2}));
  EXPECT_EQ(run_lengths(Sizes{4, 1, 4}), (Sizes{1, 1, 1}));
  EXPECT_TRUE(run_lengths({}).empty());
}

}  // namespace
}  // namespace meshwright
