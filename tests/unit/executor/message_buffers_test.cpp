// SPDX-License-Identifier: Apache-2.0
// How many messages are under way at once: what a receiver that does nothing before somebody needs it makes them.
#include "executor/runner/message_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/fold/folded_program.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::message_buffers_test {
namespace {

const StoredType kAsPlanned = [](DType type) { return type; };

// A device's list up to what it waits for.
class Lists {
 public:
  explicit Lists(const Program& program) : program_(program), at_(program.devices.size()) {}

  // Sends what the next instruction sends, or does the rest of that instruction. False: it waits, or nothing is left.
  bool step(std::size_t device) {
    if (at_[device].next == program_.devices[device].size()) return false;
    const Instruction& instruction = program_.devices[device][at_[device].next];
    if (!at_[device].sent && !instruction.sends.empty()) {
      for (const int number : instruction.sends) {
        sent_.insert(number);
        if (on_send) on_send(number);
      }
      return at_[device].sent = true;
    }
    if (instruction.waits || instruction.kind == Instruction::Kind::Await) {
      for (const int number : instruction.receives)
        if (!sent_.contains(number)) return false;
      for (const int number : instruction.receives) fetched_.insert(number);
    }
    at_[device] = {at_[device].next + 1, false};
    return true;
  }
  [[nodiscard]] bool has_fetched(int number) const { return fetched_.contains(number); }
  std::function<void(int number)> on_send;

 private:
  struct At {
    std::size_t next = 0;
    bool sent = false;
  };
  const Program& program_;
  std::vector<At> at_;
  std::set<int> sent_, fetched_;
};

// The most messages under way from one device to another that goes on only when nobody else can.
std::int64_t most_under_way(const Program& program, DeviceId from, DeviceId to) {
  Lists lists(program);
  std::vector<int> under_way;
  std::int64_t most = 0;
  lists.on_send = [&](int number) {
    const Transfer& transfer = program.transfers[static_cast<std::size_t>(number)];
    if (transfer.source != from || transfer.destination != to) return;
    std::erase_if(under_way, [&](int earlier) { return lists.has_fetched(earlier); });
    under_way.push_back(number);
    most = std::max(most, static_cast<std::int64_t>(under_way.size()));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < program.devices.size(); ++d)
      while (d != to.index() && lists.step(d)) moved = true;
    if (!moved) moved = lists.step(to.index());
  }
  return most;
}

struct Case {
  const char* method;
  int devices;
  std::int64_t microbatches;
  ScheduleKind schedule;
};
std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << of.method << ' ' << of.microbatches << ' ' << name_of(of.schedule);
}
const std::vector<Case> kCases = {{"megatron:tp=1,pp=2", 2, 8, ScheduleKind::OneFOneB},
                                  {"megatron:tp=1,pp=4", 4, 8, ScheduleKind::OneFOneB},
                                  {"megatron:tp=1,pp=4", 4, 8, ScheduleKind::GPipe},
                                  {"megatron:tp=1,pp=2,vpp=2", 2, 8, ScheduleKind::Interleaved},
                                  {"megatron:tp=1,pp=4,vpp=2", 4, 16, ScheduleKind::Interleaved},
                                  {"megatron:tp=2,pp=2,sp=1", 8, 8, ScheduleKind::OneFOneB},
                                  {"megatron:tp=2,pp=4,vpp=2", 8, 8, ScheduleKind::Interleaved}};

Planned plan_of(const Case& of, int layers) {
  PlanRequest request = ask(fmt::format("gpt:layers={},hidden=32,heads=4,seq=8,vocab=64", layers),
                            fmt::format("cpu:{}", of.devices), of.method, 64, of.microbatches);
  request.search.layers = layers;
  request.search.schedule = of.schedule;
  Planned made = planned(request);
  EXPECT_TRUE(made.plan) << made.reason;
  return made;
}

std::vector<DeviceId> all_devices(const Program& program) {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < program.devices.size(); ++d) all.emplace_back(static_cast<int>(d));
  return all;
}

TEST(MessageBuffers, AreAsManyAsTheSenderCanBeAhead) {
  for (const Case& of : kCases) {
    const Planned made = plan_of(of, 8);
    const MessageBuffers buffers(made.program, all_devices(made.program), kAsPlanned);
    std::set<std::pair<DeviceId, DeviceId>> pairs;
    for (const Transfer& transfer : made.program.transfers) pairs.emplace(transfer.source, transfer.destination);
    ASSERT_EQ(buffers.channels().size(), pairs.size()) << of;
    for (const MessageBuffers::Channel& channel : buffers.channels())
      EXPECT_EQ(channel.most, most_under_way(made.program, channel.from, channel.to))
          << of << ": " << channel.from.value << " to " << channel.to.value;
  }
}

// The first rank sends the forward of its second stage when the last rank has sent it what three others have read: it
// is no more than the four ranks' worth of micro-batches ahead, of 64.
TEST(MessageBuffers, OfARingOfRanksAreNotOfAllMicrobatches) {
  const Planned made = plan_of({"megatron:tp=1,pp=4,vpp=2", 4, 64, ScheduleKind::Interleaved}, 8);
  const MessageBuffers buffers(made.program, {DeviceId(0)}, kAsPlanned);
  for (const MessageBuffers::Channel& channel : buffers.channels())
    EXPECT_LE(channel.most, 2 * 4 + 2) << channel.from.value << " to " << channel.to.value;
}

// Whole pages of 2 MiB, where a message is half of one or more.
TEST(MessageBuffers, AreInPages) {
  EXPECT_EQ(in_pages(1000.0), 1000.0);
  EXPECT_EQ(in_pages(1024.0 * 1024), 2048.0 * 1024);
  EXPECT_EQ(in_pages(2049.0 * 1024), 4096.0 * 1024);
}

// What comes from a device's like is taken to come from itself, so that senders with several receivers in a stage may
// seem to know a little more.
TEST(MessageBuffers, OfAFoldedProgramAreNearThoseOfTheWhole) {
  for (const Case& of : kCases) {
    const Planned made = plan_of(of, 8);
    const auto costs = make_analytic_cost_model(made.plan->cluster);
    const FoldedProgram folded = fold_program(made.program, program_costs(made.program, *costs).times);
    const MessageBuffers whole(made.program, all_devices(made.program), kAsPlanned);
    const MessageBuffers part(folded.program, all_devices(folded.program), kAsPlanned, &folded.folded);
    for (const DeviceId device : all_devices(made.program)) {
      if (folded.folded.representative[device.index()] != device) continue;
      EXPECT_LE(part.of(device), whole.of(device)) << of;
      EXPECT_GE(part.of(device), 0.9 * whole.of(device)) << of;
    }
  }
}

}  // namespace
}  // namespace meshwright::message_buffers_test
