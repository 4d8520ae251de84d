// SPDX-License-Identifier: Apache-2.0
// The rules by which executables are cut, for all pieces of plans of several methods and any options.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/op_order.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::piece_rules_test {
namespace {

// One executable's pieces with what they are held to.
struct Cut {
  const Program& program;
  const StageExecutable& executable;
  const CostModel& costs;
  const CutOptions& options;
  const std::vector<Piece>& pieces;
  OpOrder order = find_op_order(executable);
  std::vector<int> piece_of = std::vector<int>(executable.ops.size(), -1);

  [[nodiscard]] const LogicalMesh& mesh() const { return program.stages[executable.stage.index()].mesh; }
  [[nodiscard]] const LocalOp& op(int o) const { return executable.ops[static_cast<std::size_t>(o)]; }
  [[nodiscard]] int place(int o) const { return piece_of[static_cast<std::size_t>(o)]; }
  [[nodiscard]] const Piece& piece(int p) const { return pieces[static_cast<std::size_t>(p)]; }
  [[nodiscard]] bool moves(int o) const { return piece(place(o)).kind != Piece::Kind::Compute; }
  [[nodiscard]] Bytes bytes(int o) const { return collective_of(executable, op(o), mesh()).bytes; }
  [[nodiscard]] Bytes bytes(const Piece& of) const {
    Bytes sum(0.0);
    for (const int o : of.ops) sum += bytes(o);
    return sum;
  }
  // Computations before that piece.
  [[nodiscard]] int computations_before(int p) const {
    return static_cast<int>(std::count_if(pieces.begin(), pieces.begin() + p,
                                          [](const Piece& of) { return of.kind == Piece::Kind::Compute; }));
  }
};

const std::vector<const char*> kMethods = {
    "data", "zero2", "zero3", "megatron:tp=2,pp=2", "megatron:tp=2,pp=1,zero=1", "megatron:tp=4,pp=1,sp=1"};

template <class Check>
void for_each_cut(Check check) {
  Random random(5);
  for (const char* method : kMethods) {
    const PlanRequest request = ask("gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:4", method, 16, 2);
    const auto costs = make_analytic_cost_model(request.cluster);
    const Planned result = planned(request);
    const ProgramTimes times = program_costs(result.program, *costs).times;
    for (int draw = 0; draw < 8; ++draw) {
      CutOptions options{Bytes(random.below(4) * 4000.0), random.below(4)};
      if (random.below(3) == 0) options.parameters = ParameterTime::Inside;
      const auto pieces = cut_executables(result.program, times, *costs, options);
      for (std::size_t e = 0; e < pieces.size(); ++e) {
        Cut cut{result.program, result.program.executables[e], *costs, options, pieces[e]};
        for (std::size_t p = 0; p < pieces[e].size(); ++p)
          for (const int o : pieces[e][p].ops) cut.piece_of[static_cast<std::size_t>(o)] = static_cast<int>(p);
        SCOPED_TRACE(fmt::format("{}, executable {}, draw {}", method, e, draw));
        check(cut);
      }
    }
  }
}

// A computation begins with what waits for a collective, and ends with what a collective waits for; a piece waits for
// the pieces that its ops wait for, and reads and writes their buffers.
TEST(PieceRules, AComputationEndsWhereACollectiveBeginsOrIsReadFirst) {
  for_each_cut([](const Cut& cut) {
    std::vector<bool> waited(cut.pieces.size(), false);  // [collective piece] a computation has read it
    for (int p = 0; p < static_cast<int>(cut.pieces.size()); ++p) {
      const Piece& piece = cut.piece(p);
      std::vector<int> after;
      std::vector<BufferId> reads, writes;
      const auto add = [&](const std::vector<int>& slots, std::vector<BufferId>& list) {
        for (const int s : slots)
          if (const auto& buffer = cut.executable.slots[static_cast<std::size_t>(s)].buffer) add_once(list, *buffer);
      };
      for (std::size_t i = 0; i < piece.ops.size(); ++i) {
        const int o = piece.ops[i];
        add(cut.op(o).inputs, reads);
        add(cut.op(o).outputs, writes);
        bool anew = false;
        for (const int other : cut.order.after[o]) {
          if (cut.place(other) != p) add_once(after, cut.place(other));
          if (piece.kind != Piece::Kind::Compute || !cut.moves(other)) continue;
          anew = anew || !waited[static_cast<std::size_t>(cut.place(other))];
        }
        EXPECT_TRUE(!anew || i == 0) << "op " << o;
        for (const int other : cut.order.after[o])
          if (piece.kind == Piece::Kind::Compute) waited[static_cast<std::size_t>(cut.place(other))] = true;
        if (piece.kind != Piece::Kind::Compute) continue;
        const std::vector<int>& readers = cut.order.before[o];
        const bool leads_on = std::any_of(readers.begin(), readers.end(), [&](int other) { return cut.moves(other); });
        EXPECT_TRUE(!leads_on || i + 1 == piece.ops.size()) << "op " << o;
      }
      EXPECT_EQ(piece.after, after);
      EXPECT_EQ(piece.reads, reads);
      EXPECT_EQ(piece.writes, writes);
    }
  });
}

// Those of one kind on one axis, of which none waits for another, as many as the size allows.
TEST(PieceRules, BucketsAreFullAndOfOneKind) {
  int buckets = 0, full = 0;
  for_each_cut([&](const Cut& cut) {
    const Piece* before = nullptr;
    for (const Piece& piece : cut.pieces) {
      if (!piece.of_gradients) {
        before = nullptr;
        continue;
      }
      ++buckets;
      EXPECT_EQ(piece.kind, Piece::Kind::Collective);
      EXPECT_TRUE(piece.ops.size() == 1 || cut.bytes(piece) <= cut.options.bucket);
      const auto goes_with = [&](int o) {
        return cut.op(o).step->kind == cut.op(piece.ops[0]).step->kind &&
               cut.op(o).step->axis == cut.op(piece.ops[0]).step->axis;
      };
      EXPECT_TRUE(std::all_of(piece.ops.begin(), piece.ops.end(), goes_with));
      EXPECT_EQ(piece.axis, cut.op(piece.ops[0]).step->axis);
      if (before != nullptr && goes_with(before->ops[0])) {
        const std::vector<int>& after = cut.order.after[piece.ops[0]];
        const bool chained = std::any_of(after.begin(), after.end(), [&](int other) {
          return std::find(before->ops.begin(), before->ops.end(), other) != before->ops.end();
        });
        ++full;
        EXPECT_TRUE(chained || cut.bytes(*before) + cut.bytes(piece.ops[0]) > cut.options.bucket);
      }
      before = &piece;
    }
  });
  EXPECT_GT(buckets, 50);
  EXPECT_GT(full, 10);
}

// Between a gather and its first reader are `prefetch` computations, or all there are before it, and it may begin after
// the one before these.
TEST(PieceRules, GathersOfParametersComeSoManyComputationsAhead) {
  int gathers = 0, ahead = 0;
  for_each_cut([&](const Cut& cut) {
    for (int p = 0; p < static_cast<int>(cut.pieces.size()); ++p) {
      const Piece& piece = cut.piece(p);
      if (!piece.not_before) continue;
      ++gathers;
      ASSERT_EQ(piece.ops.size(), 1u);
      EXPECT_TRUE(piece.kind == Piece::Kind::HostCopy ||
                  cut.op(piece.ops[0]).step->kind == ReshardStep::Kind::AllGather);
      // A gather that only another gather reads comes as far ahead as that one.
      int reader = static_cast<int>(cut.pieces.size());
      std::vector<int> open = {piece.ops[0]};
      while (!open.empty()) {
        const int o = open.back();
        open.pop_back();
        for (const int other : cut.order.before[o]) {
          if (cut.piece(cut.place(other)).not_before)
            open.push_back(other);
          else
            reader = std::min(reader, cut.place(other));
        }
      }
      const int number = cut.computations_before(reader);
      EXPECT_EQ(number - cut.computations_before(p), std::min(number, cut.options.prefetch));
      EXPECT_EQ(*piece.not_before, number - cut.options.prefetch - 1);
      ahead += number > cut.computations_before(p) ? 1 : 0;
    }
  });
  EXPECT_GT(gathers, 50);
  EXPECT_GT(ahead, 20);
}

// In an analytic model ops cost what they cost alone, and a run beyond them the same.
TEST(PieceRules, DurationsAreTheCostsOfTheOps) {
  for_each_cut([](const Cut& cut) {
    const auto first = std::find_if(cut.pieces.begin(), cut.pieces.end(),
                                    [](const Piece& piece) { return piece.kind == Piece::Kind::Compute; });
    for (auto piece = cut.pieces.begin(); piece != cut.pieces.end(); ++piece) {
      Seconds cost(0.0);
      for (const int o : piece->ops) cost += op_cost(cut.executable, cut.op(o), cut.mesh(), cut.costs).time;
      if (piece == first) cost += cut.costs.run_overhead();
      // A bucket is one collective of all its bytes.
      if (piece->kind == Piece::Kind::Collective)
        cost = cut.costs
                   .collective(collective_of(cut.executable, cut.op(piece->ops[0]), cut.mesh()).kind, cut.bytes(*piece),
                               cut.mesh().axes[static_cast<std::size_t>(piece->axis)])
                   .time;
      EXPECT_NEAR(static_cast<double>(piece->duration.ps), static_cast<double>(to_sim_time(cost).ps), 2.0);
    }
  });
}

}  // namespace
}  // namespace meshwright::piece_rules_test
