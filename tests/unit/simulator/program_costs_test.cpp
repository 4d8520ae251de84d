// SPDX-License-Identifier: Apache-2.0
// What program_costs says of a program's runs and messages, with prices that decode by eye.
#include <gtest/gtest.h>

#include <map>

#include "simulator/program/program_costs.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::program_costs_test {
namespace {

// compute: 1 s per flop; a collective 10 s per byte, times the size of its axis; a message 100 s per byte, times how
// many leave at once, and 10 000 s more between hosts; every run 1000 s.
class DecimalCostsBase : public CostModel {
 public:
  TimeEstimate compute(const OpWork& work) const override { return {Seconds(work.flops.si()), Basis::Measured}; }
  TimeEstimate collective(CollectiveKind, Bytes bytes, const MeshAxis& axis) const override {
    return {Seconds(10 * bytes.si() * axis.size()), Basis::Interpolated};
  }
  TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    return {Seconds(100 * bytes.si() * concurrent + (hosts_apart ? 10000 : 0)), Basis::Modelled};
  }
  Seconds run_overhead() const override { return Seconds(1000.0); }
};
class DecimalCosts final : public DecimalCostsBase {};

LocalOp reshard(ReshardStep::Kind kind, int from, int to) {
  LocalOp op;
  op.kind = LocalOp::Kind::Reshard;
  op.step = ReshardStep{kind, 0, 0, 0, {{0}, 0}};
  op.inputs = {from};
  op.outputs = {to};
  return op;
}

struct Priceable {
  ProgramBuilder builder{3};
  StageId left = builder.stage(2), right = builder.stage(2);
  BufferId small = builder.buffer(left, "small", 4, Kept::Always),
           large = builder.buffer(left, "large", 8, Kept::Always);
  BufferId there = builder.buffer(right, "there", 4, Kept::Always);
  int run = builder.executable(left, Phase::Forward, {small, large}, {});
  StageExecutable& executable() { return builder.program.executables[0]; }
  double price() const { return to_seconds(program_costs(builder.program, DecimalCosts()).times.executable[0]).si(); }
};

// Keeps what is asked of it.
class RunsSeen final : public DecimalCostsBase {
 public:
  using DecimalCostsBase::run_overhead;
  [[nodiscard]] bool run_depends_on_work() const override { return true; }
  [[nodiscard]] Seconds run_overhead(const RunWork& work) const override {
    moves[work.phase] += work.token_moves;
    return Seconds(0.0);
  }
  mutable std::map<Phase, int> moves;
};

TEST(ProgramCostsOf, CountsMovesOfTokensToTheirExpertsAndBack) {
  const PlanRequest request =
      ask("mixtral:layers=3,hidden=32,heads=4,intermediate=64,experts=4,top_k=2,seq=8,vocab=64", "cpu:1", "data", 4, 1);
  const Planned made = planned(request);
  RunsSeen costs;
  (void)program_costs(made.program, costs);
  EXPECT_EQ(costs.moves[Phase::Forward], 3 * 2);
  EXPECT_EQ(costs.moves[Phase::Backward], 3 * 2);
  EXPECT_EQ(costs.moves[Phase::Update], 0);
}

TEST(ProgramCostsOf, PricesACollectiveByTheWholeTensorOfItsGroup) {
  using Step = ReshardStep::Kind;
  struct Case {
    Step kind;
    int from, to;  // slot 0 has 4 bytes, slot 1 has 8
    double seconds;
  };
  for (const Case& c :
       {Case{Step::AllReduce, 0, 0, 10 * 4 * 2}, Case{Step::ReduceScatter, 1, 0, 10 * 8 * 2},
        Case{Step::AllGather, 0, 1, 10 * 8 * 2}, Case{Step::AllToAll, 0, 0, 10 * 4 * 2}, Case{Step::Slice, 1, 0, 0}}) {
    Priceable priceable;
    priceable.executable().ops = {reshard(c.kind, c.from, c.to)};
    EXPECT_DOUBLE_EQ(priceable.price(), 1000 + c.seconds);
  }
}

TEST(ProgramCostsOf, AddsUpOpsAndOverheadAndCountsEveryRunInItsBasis) {
  Priceable priceable;
  LocalOp compute;
  compute.kind = LocalOp::Kind::Compute;
  compute.work.flops = Flops(7.0);
  priceable.executable().ops = {compute, reshard(ReshardStep::Kind::AllReduce, 0, 0), compute};
  for (int device : {0, 1})
    priceable.builder.on(device).run(priceable.run, 0).run(priceable.run, 1).run(priceable.run, 2);
  EXPECT_DOUBLE_EQ(priceable.price(), 7 + 80 + 7 + 1000);
  const ProgramCosts priced = program_costs(priceable.builder.program, DecimalCosts());
  EXPECT_DOUBLE_EQ(priced.basis.measured.si(), 3 * 14);
  EXPECT_DOUBLE_EQ(priced.basis.interpolated.si(), 3 * 80);
  EXPECT_DOUBLE_EQ(priced.basis.modelled.si(), 3 * 1000);
}

TEST(ProgramCostsOf, LetsTheDevicesOfAHostSendAtOnce) {
  Priceable priceable;
  priceable.builder.transfer(0, 2, priceable.small, priceable.there);
  priceable.builder.transfer(1, 3, priceable.small, priceable.there);
  priceable.builder.program.transfers[1].hosts_apart = true;
  const std::vector<SimTime> times = program_costs(priceable.builder.program, DecimalCosts()).times.transfer;
  EXPECT_EQ(times,
            (std::vector<SimTime>{to_sim_time(Seconds(100 * 4 * 2)), to_sim_time(Seconds(100 * 4 * 2 + 10000))}));
}

// 1 s per byte that passes through memory, and of links nothing is known.
class MemoryCosts final : public CostModel {
 public:
  TimeEstimate compute(const OpWork& work) const override { return {Seconds(work.bytes.si()), Basis::Modelled}; }
  TimeEstimate collective(CollectiveKind, Bytes, const MeshAxis&) const override {
    return {Seconds(1e6), Basis::Modelled};
  }
  TimeEstimate transfer(Bytes, bool, int) const override { return {Seconds(1e6), Basis::Modelled}; }
  Seconds run_overhead() const override { return Seconds(0.0); }
};

// Two stages of two devices: collectives of 4 and 8 bytes on the left, and 4 bytes from there to the right.
TEST(ProgramCostsOf, CountsWhatPassesThroughTheMemoryOfASharedDevice) {
  using Step = ReshardStep::Kind;
  Priceable priceable;
  (void)priceable.builder.transfer(0, 2, priceable.small, priceable.there);
  const auto priced = [&](Step kind, int from, int to, const std::vector<int>& physical) {
    priceable.executable().ops = {reshard(kind, from, to)};
    const ProgramTimes times = program_costs(priceable.builder.program, MemoryCosts(), physical).times;
    return std::pair(to_seconds(times.executable[0]).si(), to_seconds(times.transfer[0]).si());
  };
  const std::vector<int> one = {0, 0, 0, 0}, left_alone = {0, 0, 1, 2}, right_shared = {0, 1, 0, 2};
  using Both = std::pair<double, double>;
  EXPECT_EQ(priced(Step::AllReduce, 0, 0, one), Both(3 * 4, 2 * 2 * 4));
  EXPECT_EQ(priced(Step::ReduceScatter, 1, 0, one), Both(8 + 8 / 2, 2 * 2 * 4));
  EXPECT_EQ(priced(Step::AllGather, 0, 1, one), Both(2 * 8, 2 * 2 * 4));
  EXPECT_EQ(priced(Step::AllToAll, 0, 0, one), Both(2 * 4, 2 * 2 * 4));
  EXPECT_EQ(priced(Step::AllReduce, 0, 0, left_alone), Both(3 * 4, 1e6));
  EXPECT_EQ(priced(Step::AllReduce, 0, 0, right_shared), Both(1e6, 2 * 2 * 4));
}

// Prices of DecimalCosts, with messages as some software sends them.
class SendingCosts final : public DecimalCostsBase {
 public:
  explicit SendingCosts(MessageTraits traits) : traits_(traits) {}
  MessageTraits messages() const override { return traits_; }

 private:
  MessageTraits traits_;
};

// The forward on the left makes 4 bytes, which the forward on the right reads: 800 s from each of the two devices.
struct Sent {
  ProgramBuilder builder{3};
  StageId left = builder.stage(2), right = builder.stage(2);
  BufferId made = builder.buffer(left, "made", 4), read = builder.buffer(right, "read", 4);
  BufferId unread = builder.buffer(right, "unread", 4);
  int makes = builder.executable(left, Phase::Forward, {}, {made});
  int reads = builder.executable(right, Phase::Forward, {read}, {});
  int updates = builder.executable(right, Phase::Update, {unread}, {});
  [[nodiscard]] std::vector<double> runs(MessageTraits traits) const {
    std::vector<double> seconds;
    for (const SimTime time : program_costs(builder.program, SendingCosts(traits)).times.executable)
      seconds.push_back(to_seconds(time).si());
    return seconds;
  }
  [[nodiscard]] std::vector<double> messages(MessageTraits traits) const {
    std::vector<double> seconds;
    for (const SimTime time : program_costs(builder.program, SendingCosts(traits)).times.transfer)
      seconds.push_back(to_seconds(time).si());
    return seconds;
  }
};
using List = std::vector<double>;

TEST(ProgramCostsOf, AMessageThatBlocksKeepsBothItsEndsFromComputing) {
  Sent sent;
  sent.builder.transfer(0, 2, sent.made, sent.read);
  sent.builder.transfer(1, 3, sent.made, sent.read);     // of the second device, beside the first
  sent.builder.transfer(0, 2, sent.made, sent.read, 1);  // of the second micro-batch, as the first
  EXPECT_EQ(sent.messages({}), (List{800, 800, 800}));
  EXPECT_EQ(sent.runs({}), (List{1000, 1000, 1000}));
  EXPECT_EQ(sent.messages({.blocking = 0.25}), (List{600, 600, 600}));
  EXPECT_EQ(sent.runs({.blocking = 0.25}), (List{1000 + 200, 1000 + 200, 1000}));
}

TEST(ProgramCostsOf, AMessageThatNoPassReadsBlocksNone) {
  Sent sent;
  sent.builder.transfer(0, 2, sent.made, sent.unread);  // the update alone reads it
  EXPECT_EQ(sent.messages({.blocking = 0.25}), (List{800}));
  EXPECT_EQ(sent.runs({.blocking = 0.25}), (List{1000, 1000, 1000}));
}

TEST(ProgramCostsOf, MessagesThatOthersStandForBlockTheRunsToo) {
  Sent sent;
  sent.builder.transfer(0, 2, sent.made, sent.read);
  sent.builder.program.stood_for = sent.builder.program.transfers;
  EXPECT_EQ(sent.messages({.blocking = 0.25}), (List{600}));
  EXPECT_EQ(sent.runs({.blocking = 0.25}), (List{1000 + 2 * 200, 1000 + 2 * 200, 1000}));
}

TEST(ProgramCostsOf, WhatTwoDevicesOfAHostHoldCrossesHostsInHalves) {
  Sent sent;
  sent.builder.transfer(0, 2, sent.made, sent.read);
  sent.builder.program.transfers[0].hosts_apart = true;
  EXPECT_EQ(sent.messages({}), (List{800 + 10000}));
  EXPECT_EQ(sent.messages({.scattered = true}), (List{400 + 10000}));
  sent.builder.program.transfers[0].form = CrossMesh::Gather;  // whose parts the plan brings together itself
  EXPECT_EQ(sent.messages({.scattered = true}), (List{800 + 10000}));
}

// 1 s per flop; products that are computed as one take half of what they take apart, and a run costs what that saves.
class FusingCosts final : public DecimalCostsBase {
 public:
  using DecimalCostsBase::run_overhead;
  [[nodiscard]] std::optional<Seconds> as_one_product(const std::vector<const OpWork*>& products,
                                                      bool /*summed*/) const override {
    Seconds apart(0.0);
    for (const OpWork* product : products) apart += compute(*product).time;
    return 0.5 * apart;
  }
  [[nodiscard]] bool run_depends_on_work() const override { return true; }
  [[nodiscard]] Seconds run_overhead(const RunWork& work) const override { return work.fused; }
};

// What a run of these ops, on slots of one buffer each, saves.
double saved_by(const std::vector<LocalOp>& ops) {
  Priceable priceable;
  double apart = 0.0;
  for (const LocalOp& op : ops) apart += op.work.flops.si();
  priceable.executable().slots.resize(10, priceable.executable().slots[0]);
  priceable.executable().ops = ops;
  return to_seconds(program_costs(priceable.builder.program, FusingCosts()).times.executable[0]).si() - apart;
}
LocalOp computed(OpKind kind, double flops, std::vector<int> from, int to) {
  LocalOp op;
  op.kind = LocalOp::Kind::Compute;
  op.work = {kind, DType::F32, Flops(flops), Bytes(0.0), ""};
  op.inputs = std::move(from);
  op.outputs = {to};
  return op;
}
LocalOp product(double flops, int from, int to) { return computed(OpKind::Contract, flops, {from, 9}, to); }
LocalOp sum(double flops, int a, int b, int to) { return computed(OpKind::Add, flops, {a, b}, to); }

TEST(FusedProducts, ThatReadOneActivationAreComputedAsOne) {
  EXPECT_EQ(saved_by({product(20, 0, 1), product(200, 0, 2)}), (20 + 200) / 2);
  EXPECT_EQ(saved_by({product(20, 0, 1), product(200, 0, 2), product(2000, 3, 4), product(20000, 3, 5)}), 22220 / 2);
  EXPECT_EQ(saved_by({product(20, 0, 1), product(200, 1, 2)}), 0);
  EXPECT_EQ(saved_by({computed(OpKind::Multiply, 20, {0, 9}, 1), product(200, 0, 2)}), 0);
}

// Three products from 20 to 2000, and what adds them up: 2 and 4.
TEST(FusedProducts, ThatAreOnlyAddedUpAreComputedAsOneWithTheSumsBetweenThem) {
  const std::vector<LocalOp> products = {product(20, 0, 3), product(200, 1, 4), product(2000, 2, 5)};
  const auto with = [&](const std::vector<LocalOp>& sums) {
    std::vector<LocalOp> ops = products;
    ops.insert(ops.end(), sums.begin(), sums.end());
    return saved_by(ops);
  };
  EXPECT_EQ(with({sum(2, 3, 4, 6)}), 2 + 220 / 2);
  EXPECT_EQ(with({sum(2, 3, 4, 6), sum(4, 6, 5, 7)}), 2 + 4 + 2220 / 2);
  EXPECT_EQ(with({sum(2, 3, 4, 6), sum(4, 5, 6, 7)}), 2 + 4 + 2220 / 2);
  // A residual, which no op of the run makes, or which is no product, stays outside.
  EXPECT_EQ(with({sum(2, 3, 8, 6), sum(4, 6, 5, 7)}), 0);
  EXPECT_EQ(with({computed(OpKind::Multiply, 2, {3, 4}, 6), sum(4, 6, 5, 7)}), 0);
  EXPECT_EQ(with({sum(2, 3, 4, 6), sum(4, 6, 8, 7)}), 2 + 220 / 2);
}

// A run takes 1 s, 10 s more once per step, and 100 s more beside a pass of another micro-batch.
class OverheadCosts final : public DecimalCostsBase {
 public:
  using CostModel::run_overhead;
  bool run_depends_on_work() const override { return true; }
  Seconds run_overhead(const RunWork& work) const override {
    return Seconds(1 + (work.once_per_step ? 10 : 0) + (work.interleaved ? 100 : 0));
  }
};

// Two stages of one device.
struct TwoChunks {
  ProgramBuilder builder{2};
  StageId first = builder.stage(), second = builder.stage();
  TwoChunks() { builder.program.stages[second.index()].devices = {DeviceId(0)}; }
  int run_of(StageId stage, Phase phase) { return builder.executable(stage, phase, {}, {}); }
  [[nodiscard]] std::vector<double> seconds() const {
    std::vector<double> found;
    for (const SimTime time : program_costs(builder.program, OverheadCosts()).times.executable)
      found.push_back(to_seconds(time).si());
    return found;
  }
};

TEST(ProgramCostsOf, WhatTheHostDoesOncePerStepBelongsToTheUpdateOfADevicesFirstStage) {
  TwoChunks chunks;
  for (const StageId stage : {chunks.first, chunks.second})
    chunks.builder.program.stages[stage.index()].update = chunks.run_of(stage, Phase::Update);
  chunks.run_of(chunks.first, Phase::Update);  // a part of it that is no update of the whole stage
  chunks.run_of(chunks.first, Phase::Backward);
  EXPECT_EQ(chunks.seconds(), (std::vector<double>{11, 1, 1, 1}));
}

// A forward, and right behind it the backward of the other stage with its second half: a pair.
TEST(ProgramCostsOf, APassIsBesideAnotherWhereAForwardIsRightBeforeABackwardOfTheOtherStage) {
  TwoChunks chunks;
  const int forward = chunks.run_of(chunks.first, Phase::Forward);
  const int backward = chunks.run_of(chunks.second, Phase::Backward);
  const int weights = chunks.run_of(chunks.second, Phase::Backward);
  const int own_backward = chunks.run_of(chunks.first, Phase::Backward);
  chunks.builder.on(0).run(forward, 0).run(forward, 1).run(backward, 0).run(weights, 0).run(own_backward, 0);
  EXPECT_EQ(chunks.seconds(), (std::vector<double>{1, 1, 1, 1}));  // under 1f1b
  chunks.builder.program.schedule = ScheduleKind::DualPipeV;
  EXPECT_EQ(chunks.seconds(), (std::vector<double>{51, 101, 101, 1}));  // of two forwards one
  chunks.builder.program.schedule = ScheduleKind::Interleaved;
  EXPECT_EQ(chunks.seconds(), (std::vector<double>{101, 101, 101, 101}));
}

TEST(ProgramCostsOf, ABackwardOfAnotherStageOrMicrobatchIsNoSecondHalf) {
  TwoChunks chunks;
  chunks.builder.program.schedule = ScheduleKind::DualPipeV;
  const int forward = chunks.run_of(chunks.first, Phase::Forward);
  const int backward = chunks.run_of(chunks.second, Phase::Backward);
  const int own_backward = chunks.run_of(chunks.first, Phase::Backward);
  const int later = chunks.run_of(chunks.second, Phase::Backward);
  chunks.builder.on(0).run(forward, 1).run(backward, 0).run(own_backward, 0).run(later, 1);
  EXPECT_EQ(chunks.seconds(), (std::vector<double>{101, 101, 1, 1}));
  TwoChunks next;
  next.builder.program.schedule = ScheduleKind::DualPipe;
  const int before = next.run_of(next.first, Phase::Forward), one = next.run_of(next.second, Phase::Backward),
            two = next.run_of(next.second, Phase::Backward), same = next.run_of(next.first, Phase::Backward);
  next.builder.on(0).run(before, 1).run(one, 0).run(two, 1).run(before, 2).run(same, 1);
  EXPECT_EQ(next.seconds(), (std::vector<double>{51, 101, 1, 1}));
}

}  // namespace
}  // namespace meshwright::program_costs_test
