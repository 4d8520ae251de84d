// SPDX-License-Identifier: Apache-2.0
// A tensor that several devices of the next stage need: who sends what, in which round.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/plan/lowering/tile_messages.h"
#include "core/plan/program/check_program.h"
#include "core/sharding/sharding_spec.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::cross_mesh_test {
namespace {

using Sentences = std::vector<std::string>;

// Hosts of so many devices each, one mesh after the other.
HostsOfRanks hosts_of(const LogicalMesh& source, const LogicalMesh& destination, int each) {
  HostsOfRanks hosts;
  int device = 0;
  for (int rank = 0; rank < source.devices(); ++rank) hosts.source.push_back(device++ / each);
  for (int rank = 0; rank < destination.devices(); ++rank) hosts.destination.push_back(device++ / each);
  return hosts;
}

// Round, ranks, first row at both ends, rows.
using Message = std::tuple<int, int, int, std::int64_t, std::int64_t, std::int64_t>;
std::vector<Message> messages_of_vector(std::int64_t rows, const char* from, const LogicalMesh& source, const char* to,
                                        const LogicalMesh& destination, CrossMesh form, int each) {
  std::vector<Message> found;
  for (const auto& [copy, round] : tile_messages({{"a", rows}}, spec(from), source, spec(to), destination, form,
                                                 hosts_of(source, destination, each)))
    found.emplace_back(round, copy.source_rank, copy.destination_rank, copy.source_offset[0],
                       copy.destination_offset[0], copy.extent[0]);
  std::sort(found.begin(), found.end());
  return found;
}

// Of 8 rows, which both senders hold, each receiver gets two and passes on two in each round.
TEST(Gather, SendsEachDeviceOfAHostItsPartAndPassesThemAroundARing) {
  const std::vector<Message> expected = {
      {0, 0, 0, 0, 0, 2}, {0, 0, 2, 4, 4, 2}, {0, 1, 1, 2, 2, 2}, {0, 1, 3, 6, 6, 2},
      {1, 0, 1, 0, 0, 2}, {1, 1, 2, 2, 2, 2}, {1, 2, 3, 4, 4, 2}, {1, 3, 0, 6, 6, 2},
      {2, 0, 1, 6, 6, 2}, {2, 1, 2, 0, 0, 2}, {2, 2, 3, 2, 2, 2}, {2, 3, 0, 4, 4, 2},
      {3, 0, 1, 4, 4, 2}, {3, 1, 2, 6, 6, 2}, {3, 2, 3, 0, 0, 2}, {3, 3, 0, 2, 2, 2}};
  EXPECT_EQ(messages_of_vector(8, "R", mesh_of({2}), "R", mesh_of({4}), CrossMesh::Gather, 8), expected);
}

// Two hosts of two: each gets all 8 rows from the source, half a tile for each device.
TEST(Gather, StaysWithinHosts) {
  const std::vector<Message> expected = {{0, 0, 0, 0, 0, 4}, {0, 0, 2, 0, 0, 4}, {0, 1, 1, 4, 4, 4},
                                         {0, 1, 3, 4, 4, 4}, {1, 0, 1, 0, 0, 4}, {1, 1, 0, 4, 4, 4},
                                         {1, 2, 3, 0, 0, 4}, {1, 3, 2, 4, 4, 4}};
  EXPECT_EQ(messages_of_vector(8, "R", mesh_of({2}), "R", mesh_of({4}), CrossMesh::Gather, 2), expected);
}

// The same two hosts get a quarter of the tile for each device: the first ones of both hosts bring each other rows 0 to
// 3, the second ones rows 4 to 7, and then all of a host the other half.
TEST(Broadcast, SendsOneCopyAndCrossesBetweenHostsOnce) {
  const std::vector<Message> expected = {{0, 0, 0, 0, 0, 2}, {0, 0, 1, 4, 4, 2}, {0, 1, 2, 2, 2, 2},
                                         {0, 1, 3, 6, 6, 2}, {1, 0, 2, 0, 0, 2}, {1, 1, 3, 4, 4, 2},
                                         {1, 2, 0, 2, 2, 2}, {1, 3, 1, 6, 6, 2}, {2, 0, 1, 0, 0, 4},
                                         {2, 1, 0, 4, 4, 4}, {2, 2, 3, 0, 0, 4}, {2, 3, 2, 4, 4, 4}};
  EXPECT_EQ(messages_of_vector(8, "R", mesh_of({2}), "R", mesh_of({4}), CrossMesh::Broadcast, 2), expected);
}

TEST(Broadcast, OnOneHostGathers) {
  EXPECT_EQ(messages_of_vector(8, "R", mesh_of({2}), "R", mesh_of({4}), CrossMesh::Broadcast, 8),
            messages_of_vector(8, "R", mesh_of({2}), "R", mesh_of({4}), CrossMesh::Gather, 8));
}

// Three rows have no part for each of four devices: whole tiles, from both senders alike.
TEST(CrossMeshForms, SendTilesWholeThatAreTooSmall) {
  const std::vector<Message> expected = {
      {0, 0, 0, 0, 0, 3}, {0, 0, 2, 0, 0, 3}, {0, 1, 1, 0, 0, 3}, {0, 1, 3, 0, 0, 3}};
  for (const CrossMesh form : {CrossMesh::Gather, CrossMesh::Broadcast})
    EXPECT_EQ(messages_of_vector(3, "R", mesh_of({2}), "R", mesh_of({4}), form, 8), expected);
}

TEST(CrossMeshForms, OfTilesThatOneDeviceNeedsAreTheSame) {
  for (const CrossMesh form : {CrossMesh::Gather, CrossMesh::Broadcast})
    EXPECT_EQ(messages_of_vector(8, "S0", mesh_of({2}), "S0", mesh_of({4}), form, 2),
              (std::vector<Message>{{0, 0, 0, 0, 0, 2}, {0, 0, 1, 2, 0, 2}, {0, 1, 2, 0, 0, 2}, {0, 1, 3, 2, 0, 2}}));
  EXPECT_FALSE(has_replicas(spec("S0"), mesh_of({4})));
  EXPECT_TRUE(has_replicas(spec("S0"), mesh_of({2, 2})));
}

// A sender on the receiver's host comes before others, whatever it has sent.
TEST(CrossMeshForms, TakeWhatLiesOnTheSameHost) {
  // Hosts of four: source ranks 0 to 3 on host 0, 4 and 5 with destination ranks 0 and 1 on host 1.
  const auto found = messages_of_vector(8, "R", mesh_of({6}), "R", mesh_of({4}), CrossMesh::Gather, 4);
  for (const auto& [round, from, to, source_row, row, rows] : found) {
    if (round > 0) continue;
    EXPECT_EQ(from >= 4, to < 2) << from << " to " << to;
  }
}

// Elements of the whole tensor: first index and size along each dimension of what a rank holds.
using Box = std::vector<TileRows>;
Box box_of(const std::vector<Dim>& dims, const ShardingSpec& as, const LogicalMesh& mesh, int rank) {
  Box box;
  for (std::size_t d = 0; d < dims.size(); ++d)
    box.push_back(tile_rows(dims[d].size, as.dims[d], mesh, mesh.coordinates(rank)));
  return box;
}

// Follows the messages round by round, element by element.
void expect_each_element_once(const std::vector<Dim>& dims, const ShardingSpec& from, const LogicalMesh& source,
                              const ShardingSpec& to, const LogicalMesh& destination, CrossMesh form, int each) {
  std::vector<TileMessage> messages =
      tile_messages(dims, from, source, to, destination, form, hosts_of(source, destination, each));
  std::stable_sort(messages.begin(), messages.end(),
                   [](const TileMessage& a, const TileMessage& b) { return a.round < b.round; });
  using Element = std::pair<std::int64_t, std::int64_t>;                                      // of the whole tensor
  std::vector<std::map<Element, int>> come(static_cast<std::size_t>(destination.devices()));  // in which round
  for (const auto& [copy, round] : messages) {
    const Box a =
        round == 0 ? box_of(dims, from, source, copy.source_rank) : box_of(dims, to, destination, copy.source_rank);
    const Box b = box_of(dims, to, destination, copy.destination_rank);
    for (std::int64_t i = 0; i < copy.extent[0]; ++i)
      for (std::int64_t j = 0; j < copy.extent[1]; ++j) {
        const Element element{b[0].begin + copy.destination_offset[0] + i, b[1].begin + copy.destination_offset[1] + j};
        ASSERT_EQ(element.first, a[0].begin + copy.source_offset[0] + i);
        ASSERT_EQ(element.second, a[1].begin + copy.source_offset[1] + j);
        ASSERT_TRUE(copy.source_offset[0] + i < a[0].count && copy.source_offset[1] + j < a[1].count);
        ASSERT_TRUE(copy.destination_offset[0] + i < b[0].count && copy.destination_offset[1] + j < b[1].count);
        if (round > 0) {
          const auto& had = come[static_cast<std::size_t>(copy.source_rank)];
          ASSERT_TRUE(had.contains(element) && had.at(element) < round);
        }
        ASSERT_TRUE(come[static_cast<std::size_t>(copy.destination_rank)].emplace(element, round).second);
      }
  }
  for (int rank = 0; rank < destination.devices(); ++rank) {
    const Box box = box_of(dims, to, destination, rank);
    ASSERT_EQ(static_cast<std::int64_t>(come[static_cast<std::size_t>(rank)].size()), box[0].count * box[1].count);
  }
}

TEST(CrossMeshForms, BringEveryElementOnceAndPassOnWhatHasCome) {
  const std::vector<Dim> dims = {{"a", 12}, {"b", 6}};
  const std::vector<std::vector<int>> shapes = {{1, 1}, {1, 2}, {2, 2}, {2, 3}, {3, 4}};
  for (const auto& a : shapes)
    for (const auto& b : shapes)
      for (const ShardingSpec& from : enumerate_specs(dims, mesh_of(a)))
        for (const ShardingSpec& to : enumerate_specs(dims, mesh_of(b)))
          for (const CrossMesh form : {CrossMesh::Gather, CrossMesh::Broadcast})
            for (const int each : {1, 2, 3, 16}) {
              SCOPED_TRACE(
                  fmt::format("{} to {}, {}, {} devices on a host", from.to_text(), to.to_text(), name_of(form), each));
              expect_each_element_once(dims, from, mesh_of(a), to, mesh_of(b), form, each);
              if (HasFatalFailure()) return;
            }
}

// --- in programs ---

HandPlan two_stages(CrossMesh form, ScheduleKind schedule = ScheduleKind::OneFOneB) {
  HandPlan made = by_hand("mlp:layers=2,hidden=16", "cpu:6", {.batch = 64, .microbatches = 2},
                          {{"", {2, 1}, {{"batch", 1}}}, {"blk1.up", {1, 4}, {{"mlp", 2}}}}, schedule);
  if (form != CrossMesh::Send) made.plan.stages[1].cross_mesh[0] = form;
  made.program = lower(made.plan, made.graph, *made.costs);
  made.check = check_program(made.program);
  return made;
}

// Each micro-batch is 32 rows, of which each sender has half: a quarter for each of four receivers, then three rounds.
// The gradients go back as before.
TEST(CrossMeshForms, OfAPlanAreThoseOfItsProgram) {
  const HandPlan sends = two_stages(CrossMesh::Send), made = two_stages(CrossMesh::Gather);
  EXPECT_EQ(check_plan(made.plan, made.graph), Sentences{});
  EXPECT_EQ(made.check.violations, Sentences{});
  EXPECT_EQ(made.check.peak_memory, sends.check.peak_memory);
  const auto count = [](const Program& program, bool back) {
    std::map<double, int> messages;  // by bytes
    for (const Transfer& transfer : program.transfers)
      if ((transfer.destination.value < 2) == back) ++messages[transfer.bytes.si()];
    return messages;
  };
  const double row = 16 * 4;
  EXPECT_EQ(count(sends.program, false), (std::map<double, int>{{16 * row, 2 * 4 * 2}}));
  EXPECT_EQ(count(made.program, false), (std::map<double, int>{{8 * row, 2 * (4 + 4 * 3)}}));
  EXPECT_EQ(count(made.program, true), count(sends.program, true));
}

TEST(CrossMeshForms, NeedTheBuffersOfPlainSends) {
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference,
                                      ScheduleKind::EagerOneFOneB, ScheduleKind::ZeroBubbleH1})
    for (const CrossMesh form : {CrossMesh::Gather, CrossMesh::Broadcast}) {
      const HandPlan made = two_stages(form, schedule);
      EXPECT_EQ(made.check.violations, Sentences{});
      EXPECT_EQ(made.check.peak_memory, two_stages(CrossMesh::Send, schedule).check.peak_memory);
    }
}

TEST(CrossMeshForms, AreReadBackFromAPlanFile) {
  const Plan plan = two_stages(CrossMesh::Broadcast).plan;
  const Json json = to_json(plan);
  EXPECT_EQ(json["stages"][1]["cross_mesh"], Json({{"0", "broadcast"}}));
  EXPECT_FALSE(json["stages"][0].contains("cross_mesh"));
  EXPECT_EQ(plan_from_json(json, "plan.json").stages[1].cross_mesh, plan.stages[1].cross_mesh);
}

TEST(CrossMeshForms, OfAPlanFileAreRefusedWhereTheyMeanNothing) {
  const auto error_of = [](const Json& forms) {
    Json json = to_json(two_stages(CrossMesh::Send).plan);
    json["stages"][1]["cross_mesh"] = forms;
    return refusal([&] { (void)plan_from_json(json, "plan.json"); });
  };
  EXPECT_EQ(error_of({{"0", "ring"}}),
            "plan.json: stages[1].cross_mesh.0: unknown form 'ring'; expected send, gather or broadcast.");
  EXPECT_EQ(error_of({{"00", "send"}}), "plan.json: stages[1].cross_mesh: '00' is not the number of a stage.");
  HandPlan made = two_stages(CrossMesh::Send);
  for (const int from : {1, 2, -1}) {
    made.plan.stages[1].cross_mesh = {{from, CrossMesh::Gather}};
    EXPECT_EQ(
        check_plan(made.plan, made.graph),
        Sentences{fmt::format("stage 1 says how it receives from stage {} ('gather'), which sends it nothing", from)});
  }
}

// --- what check_program knows of parts ---

// Device 0 sends both halves of a tile to devices 1 and 2, which bring them to each other.
struct Halves {
  ProgramBuilder builder;
  StageId source = builder.stage(), to = builder.stage(2);
  BufferId made = builder.buffer(source, "made", 8), tile = builder.buffer(to, "tile", 8);
  int make = builder.executable(source, Phase::Forward, {}, {made});
  int read = builder.executable(to, Phase::Forward, {tile}, {});
  int left = half(0, 1, made, 0), right = half(0, 2, made, 1), back = half(1, 2, tile, 0), forth = half(2, 1, tile, 1);

  int half(int from, int into, BufferId buffer, int which) {
    const int t = builder.transfer(from, into, buffer, tile);
    Transfer& transfer = builder.program.transfers[static_cast<std::size_t>(t)];
    transfer.source_offset = transfer.destination_offset = {which};
    transfer.extent = {1};
    return t;
  }
  // Receives a part, and then the other.
  ProgramBuilder& on(int device, int first, std::vector<int> sends, std::vector<int> receives) {
    builder.on(device).exchange({}, {first}).exchange(std::move(sends), std::move(receives));
    builder.program.devices[static_cast<std::size_t>(device)].back().buffers.clear();
    return builder.run(read).free({tile});
  }
  Sentences violations() {
    builder.on(0).run(make).exchange({left, right}, {}).free({made});
    return check_program(builder.program).violations;
  }
};

TEST(CheckProgram, LetsABufferComeInSeveralExchanges) {
  Halves halves;
  halves.on(1, halves.left, {halves.back}, {halves.forth});
  halves.on(2, halves.right, {halves.forth}, {halves.back});
  EXPECT_EQ(halves.violations(), Sentences{});
}

TEST(CheckProgram, FlagsAPartThatIsPassedOnBeforeItHasCome) {
  Halves halves;
  halves.builder.program.transfers[static_cast<std::size_t>(halves.back)].source_offset = {1};
  halves.on(1, halves.left, {halves.back}, {halves.forth});
  halves.on(2, halves.right, {halves.forth}, {halves.back});
  EXPECT_EQ(halves.violations(),
            Sentences{"device 1 at #1 sends transfer 2 ('tile' of microbatch 0, device 1 to 2), of "
                      "which 0 of 1 elements have come"});
}

TEST(CheckProgram, FlagsAPartThatComesTwice) {
  Halves halves;
  halves.builder.program.transfers[static_cast<std::size_t>(halves.back)].destination_offset = {1};
  halves.on(1, halves.left, {halves.back}, {halves.forth});
  halves.on(2, halves.right, {halves.forth}, {halves.back});
  EXPECT_EQ(halves.violations(), Sentences{"device 2 at #1 receives a part of buffer 'tile' of microbatch 0 a second "
                                           "time"});
}

}  // namespace
}  // namespace meshwright::cross_mesh_test
