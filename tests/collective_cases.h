// SPDX-License-Identifier: Apache-2.0
// Every collective, in sizes that nothing divides, and what each member of a group has after it: for groups that are to
// be like one another.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "executor/base/element_type.h"
#include "executor/device/backend.h"

namespace meshwright {

using Memory = std::vector<std::byte>;

struct Collective {
  std::string name;
  std::int64_t in, out;  // elements
  // The call of one member, from `in` to `out` of its device.
  std::function<void(Group&, const CollectiveCall&)> call;
};

inline std::vector<DeviceId> device_ids(int count) {
  std::vector<DeviceId> ids;
  for (int d = 0; d < count; ++d) ids.emplace_back(d);
  return ids;
}

// Element i of a member: a small whole number, so that sums are the same in every order, or a fraction.
enum class Numbers { Whole, Fractions };
inline Memory operand(int member, std::int64_t n, DType stored, Numbers numbers) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(numbers == Numbers::Whole ? static_cast<double>((7 * i + 3 * member) % 16 - 5)
                                               : 1.0 / static_cast<double>(3 * i + 7 * member + 1));
  return converted(values.data(), DType::F64, n, stored);
}

using GroupOf = std::function<Group&(int member)>;

// What each member has after the call, the second one of two.
inline std::vector<Memory> outcome(Backend& backend, int members, const GroupOf& group_of, const Collective& collective,
                                   DType stored, Numbers numbers) {
  std::vector<Memory> results(static_cast<std::size_t>(members));
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member)
    threads.emplace_back([&, member] {
      const auto device = backend.make_device(DeviceId(member));
      const Memory operands = operand(member, collective.in, stored, numbers);
      Memory kept(operands.size()), &result = results[static_cast<std::size_t>(member)];
      result.assign(static_cast<std::size_t>(collective.out * size_of(stored)), std::byte{0x55});
      void *in = device->allocate(kept.size()), *out = device->allocate(result.size());
      device->write(in, operands.data(), operands.size());
      device->write(out, result.data(), result.size());
      for (int time = 0; time < 2; ++time) collective.call(group_of(member), {member, *device, stored, in, out});
      device->read(kept.data(), in, kept.size());
      device->read(result.data(), out, result.size());
      EXPECT_EQ(kept, operands) << collective.name << " changes its operand";
      device->release(in);
      device->release(out);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline void add_reductions(std::vector<Collective>& all, DType stored) {
  using kernels::Reduction;
  for (const auto reduction : {Reduction::Sum, Reduction::Max})
    for (const std::int64_t n : {1, 13, 1024, 5003})
      all.push_back({fmt::format("all_reduce of {}", n), n, n,
                     [=](Group& group, const CollectiveCall& call) { group.all_reduce(call, n, reduction); }});
  all.push_back({"all_reduce in place", 77, 77, [=](Group& group, const CollectiveCall& call) {
                   call.device.copy(call.out, call.in, static_cast<std::size_t>(77 * size_of(stored)));
                   group.all_reduce(call.with(call.out, call.out), 77, Reduction::Sum);
                 }});
}

inline void add_scatters_and_gathers(std::vector<Collective>& all, int members) {
  for (const std::int64_t outer : {1, 3})
    for (const std::int64_t inner : {1, 5, 700}) {
      const std::int64_t part = outer * inner;
      all.push_back({fmt::format("reduce_scatter to {} x {}", outer, inner), members * part, part,
                     [=](Group& group, const CollectiveCall& call) {
                       group.reduce_scatter(call, outer, inner, kernels::Reduction::Sum);
                     }});
      all.push_back({fmt::format("all_gather of {} x {}", outer, inner), part, members * part,
                     [=](Group& group, const CollectiveCall& call) { group.all_gather(call, outer, inner); }});
    }
}

// Rows that the members' parts do not divide; with 7 more elements than the row has, the last part of 5 is all padding.
inline void add_padded_scatters_and_gathers(std::vector<Collective>& all, int members) {
  for (const std::int64_t outer : {1, 3})
    for (const auto& [inner, padding] :
         {std::pair<std::int64_t, std::int64_t>{5, 1}, {5, 4}, {5, 7}, {700, 130}, {1, members - 1}}) {
      const std::int64_t part = outer * inner, whole = outer * (members * inner - padding);
      all.push_back({fmt::format("reduce_scatter to {} x {}, {} of padding", outer, inner, padding), whole, part,
                     [=, padding = padding, inner = inner](Group& group, const CollectiveCall& call) {
                       group.reduce_scatter(call, outer, inner, kernels::Reduction::Sum, padding);
                     }});
      all.push_back({fmt::format("all_gather of {} x {}, {} of padding", outer, inner, padding), part, whole,
                     [=, padding = padding, inner = inner](Group& group, const CollectiveCall& call) {
                       group.all_gather(call, outer, inner, padding);
                     }});
    }
}

inline void add_exchanges(std::vector<Collective>& all, int members) {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {2 * members, 3}, {3, members}, {2, members, 3, 5}, {members, members, 2}};
  for (const std::vector<std::int64_t>& shape : shapes)
    for (int split = 0; split < static_cast<int>(shape.size()); ++split)
      for (int join = 0; join < static_cast<int>(shape.size()); ++join) {
        if (split == join || shape[static_cast<std::size_t>(split)] % members != 0) continue;
        std::int64_t n = 1;
        for (const std::int64_t size : shape) n *= size;
        all.push_back({fmt::format("all_to_all of {} from {} to {}", n, split, join), n, n,
                       [=](Group& group, const CollectiveCall& call) { group.all_to_all(call, shape, split, join); }});
      }
}

inline std::vector<Collective> collectives(int members, DType stored) {
  std::vector<Collective> all;
  add_reductions(all, stored);
  add_scatters_and_gathers(all, members);
  add_padded_scatters_and_gathers(all, members);
  add_exchanges(all, members);
  for (const Around way : {Around::Forwards, Around::Backwards})
    for (const std::int64_t n : {1, 700})
      all.push_back({fmt::format("pass_on of {} {}", n, way == Around::Forwards ? "forwards" : "backwards"), n, n,
                     [=](Group& group, const CollectiveCall& call) { group.pass_on(call, n, way); }});
  for (int root = 0; root < members; ++root)
    all.push_back({fmt::format("broadcast by {}", root), 29, 29, [=](Group& group, const CollectiveCall& call) {
                     call.device.copy(call.out, call.in, static_cast<std::size_t>(29 * size_of(stored)));
                     group.broadcast(call, 29, root);
                   }});
  return all;
}

// Every collective of `group_of` gives each member what it gives on a plain group of the backend.
inline void expect_like_a_plain_group(Backend& backend, const std::vector<int>& parts, const GroupOf& group_of,
                                      DType stored, Numbers numbers) {
  int members = 0;
  for (const int size : parts) members += size;
  Abort abort;
  const auto plain = backend.make_group(device_ids(members), abort);
  const GroupOf plain_one = [&](int) -> Group& { return *plain; };
  for (const Collective& collective : collectives(members, stored))
    EXPECT_EQ(outcome(backend, members, group_of, collective, stored, numbers),
              outcome(backend, members, plain_one, collective, stored, numbers))
        << collective.name << " of " << name_of(stored) << " by " << fmt::format("{}", fmt::join(parts, "+"));
}

// [part]: a group for the parts of more than one member.
inline std::vector<std::shared_ptr<Group>> local_groups(Backend& backend, const std::vector<int>& parts, Abort& abort) {
  std::vector<std::shared_ptr<Group>> groups;
  for (const int size : parts) groups.push_back(size > 1 ? backend.make_group(device_ids(size), abort) : nullptr);
  return groups;
}

}  // namespace meshwright
