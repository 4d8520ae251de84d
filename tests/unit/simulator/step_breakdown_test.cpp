// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes, held against other readings of the same step.
#include "simulator/report/step_breakdown.h"

#include <gtest/gtest.h>

#include <random>

#include "simulator/report/measured_breakdown.h"
#include "simulator/report/step_report.h"
#include "simulator/report/step_terms.h"
#include "simulator/report/top_ops.h"
#include "simulator/what_if/breakdown.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::step_breakdown_test {
namespace {

constexpr const char* kModel = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";
constexpr const char* kMixture = "mixtral:layers=2,hidden=32,heads=2,intermediate=64,seq=16,vocab=64,experts=4,top_k=2";

struct Made {
  PlanRequest request;
  std::unique_ptr<CostModel> costs;
  Planned planned;

  explicit Made(PlanRequest asked) : request(std::move(asked)), costs(make_analytic_cost_model(request.cluster)) {
    SimulatedStep evaluator(*costs);
    planned = with_program(make_plan(request, *costs, evaluator), *costs);
    MW_CHECK(planned.plan.has_value(), "no plan: {}", planned.reason);
  }
  [[nodiscard]] RunParts parts() const { return {planned.program, planned.graph, request.cluster, *costs}; }
  [[nodiscard]] StepSimulation simulate(StepRequest conditions) const {
    conditions.name_tasks = true;
    const ProgramTimes times = program_costs(planned.program, *costs).times;
    return simulate_step(*planned.plan, planned.graph, planned.program, times, *costs, conditions, 1);
  }
  [[nodiscard]] StepBreakdown breakdown(const StepSimulation& step) const {
    return breakdown_of(step, planned.program, parts());
  }
};

PlanRequest request_of(const char* method, std::int64_t microbatches = 4,
                       ScheduleKind schedule = ScheduleKind::OneFOneB, Recompute recompute = Recompute::None,
                       const char* model = kModel) {
  PlanRequest request = ask(model, "cpu:4", method, 32, microbatches);
  request.search.schedule = schedule;
  request.search.recompute = recompute;
  return request;
}

StepRequest overlapping() {
  StepRequest request;
  request.overlap.emplace();
  return request;
}
StepRequest on_links(StepRequest request) {
  request.network = NetworkModel::Fluid;
  return request;
}

template <class Wanted>
SimTime exposed(const TimeParts& parts, Wanted wanted) {
  SimTime sum{0};
  for (const auto& [part, time] : parts)
    if (wanted(part)) sum += time.exposed;
  return sum;
}
SimTime exposed_as(const TimeParts& parts, TimeKind kind) {
  return exposed(parts, [&](const TimePart& part) { return part.kind == kind; });
}
SimTime hidden_as(const TimeParts& parts, TimeKind kind) {
  SimTime sum{0};
  for (const auto& [part, time] : parts)
    if (part.kind == kind) sum += time.hidden;
  return sum;
}

std::vector<Made> drawn_plans(int count) {
  std::mt19937 random(11);
  const std::vector<const char*> methods = {"data",  "zero2",     "zero3",         "shard",
                                            "shard", "pipeshard", "megatron:pp=4", "megatron:tp=2,pp=2"};
  const std::vector<ScheduleKind> schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::ZeroBubbleH1};
  const std::vector<Recompute> recomputes = {Recompute::None, Recompute::Full, Recompute::Selective};
  const std::vector<const char*> models = {kModel, kMixture};
  const auto any = [&](const auto& list) { return list[random() % list.size()]; };
  std::vector<Made> plans;
  for (int i = 0; i < count; ++i)
    plans.emplace_back(request_of(any(methods), 1 << random() % 4, any(schedules), any(recomputes), any(models)));
  return plans;
}

// simulator/report/device_shares.cpp reads the same off the gaps of each device.
TEST(StepBreakdown, AgreesWithTheSharesOfDevices) {
  for (const Made& made : drawn_plans(12))
    for (const StepRequest& conditions : {StepRequest{}, overlapping()}) {
      const StepSimulation step = made.simulate(conditions);
      const std::vector<DeviceShares> shares = device_shares(step.tasks.graph, step.times);
      const bool in_runs = !conditions.overlap;
      for (const DeviceBreakdown& device : made.breakdown(step).devices) {
        const DeviceShares& own = shares[device.device.index()];
        EXPECT_EQ(exposed_as(device.parts, TimeKind::Bubble), own.bubble);
        EXPECT_EQ(exposed_as(device.parts, TimeKind::Idle), own.idle);
        const SimTime moves = exposed(device.parts, [&](const TimePart& part) {
          return part.kind == TimeKind::Message || part.kind == TimeKind::HostCopy ||
                 (!in_runs && is_collective(part.kind));
        });
        EXPECT_EQ(moves, own.communication);
        EXPECT_EQ(exposed_of(device.parts), step.times.step);
      }
    }
}

// simulator/report/step_terms.cpp adds up the same ops by other terms. Every end of an op is rounded to a picosecond.
TEST(StepBreakdown, AgreesWithTheTermsOfThePlainStep) {
  for (const Made& made : drawn_plans(12)) {
    const TermsOfStep terms = terms_of_step(made.planned.program, made.planned.graph, *made.costs);
    const TimeParts all = made.breakdown(made.simulate({})).of_all();
    double runs = 0.0;
    for (const auto& list : made.planned.program.devices) runs += static_cast<double>(list.size());
    for (const StageExecutable& executable : made.planned.program.executables)
      runs += 2.0 * static_cast<double>(executable.ops.size()) * static_cast<double>(terms.devices);
    const double rounding = 8.0 * runs;
    const auto near = [&](SimTime found, StepTerm term) {
      EXPECT_NEAR(static_cast<double>(found.ps), static_cast<double>(terms.of_all[term].ps), rounding) << name_of(term);
    };
    near(exposed_as(all, TimeKind::TensorCollective) + exposed_as(all, TimeKind::ExpertCollective),
         StepTerm::Collectives);
    near(exposed_as(all, TimeKind::GradientCollective), StepTerm::GradientSync);
    near(exposed_as(all, TimeKind::WeightGather), StepTerm::WeightGathers);
    near(exposed(all, [](const TimePart& part) { return part.pass == TimePass::Recompute; }), StepTerm::Recompute);
    near(exposed_as(all, TimeKind::Message), StepTerm::Messages);
  }
}

TEST(StepBreakdown, AddsUpToTheStepOnSharedLinks) {
  for (const Made& made : drawn_plans(6))
    for (const StepRequest& conditions : {on_links({}), on_links(overlapping())}) {
      const StepSimulation step = made.simulate(conditions);
      for (const DeviceBreakdown& device : made.breakdown(step).devices) {
        EXPECT_EQ(exposed_of(device.parts), step.times.step);
        for (const auto& [part, time] : device.parts) {
          EXPECT_GE(time.exposed.ps, 0);
          EXPECT_GE(time.hidden.ps, 0);
        }
      }
    }
}

// What is hidden and what is exposed of the gradients' sums is all of them, as long as buckets save nothing.
TEST(StepBreakdown, OverlapHidesSumsOfGradients) {
  const Made made(request_of("data", 1));
  StepRequest beside = overlapping();
  beside.overlap->bucket = Bytes(0.0);
  const TimeParts plain = made.breakdown(made.simulate({})).of_all();
  const TimeParts hidden = made.breakdown(made.simulate(beside)).of_all();
  EXPECT_EQ(hidden_as(plain, TimeKind::GradientCollective), SimTime{0});
  EXPECT_GT(hidden_as(hidden, TimeKind::GradientCollective), SimTime{0});
  const SimTime whole =
      hidden_as(hidden, TimeKind::GradientCollective) + exposed_as(hidden, TimeKind::GradientCollective);
  EXPECT_NEAR(static_cast<double>(whole.ps), static_cast<double>(exposed_as(plain, TimeKind::GradientCollective).ps),
              1e4);
}

TEST(StepBreakdown, TellsTheCollectivesThatBringTokensToExperts) {
  const Made dense(request_of("megatron:tp=4,pp=1"));
  const Made experts(request_of("megatron:tp=1,pp=1,ep=4", 1, ScheduleKind::OneFOneB, Recompute::None, kMixture));
  const TimeParts without = dense.breakdown(dense.simulate({})).of_all();
  const TimeParts with = experts.breakdown(experts.simulate({})).of_all();
  EXPECT_GT(exposed_as(without, TimeKind::TensorCollective), SimTime{0});
  EXPECT_EQ(exposed_as(without, TimeKind::ExpertCollective), SimTime{0});
  EXPECT_GT(exposed_as(with, TimeKind::ExpertCollective), SimTime{0});
}

// 128 devices as those that stand for all, and one by one.
TEST(StepBreakdown, OfFoldedDevicesIsThatOfAll) {
  const Made made(ask(kModel, "p3.16xlarge:16", "megatron:tp=4,pp=2", 64, std::int64_t{4}));
  const FoldedPlan small = load_folded_plan(*made.planned.plan, *made.costs);
  const ProgramTimes times = program_costs(small.loaded.program, *made.costs).times;
  const StepSimulation folded = simulate_plain_step(small.loaded.program, times, &small.folded, true);
  const RunParts parts(small.loaded.program, *small.loaded.graph, made.request.cluster, *made.costs);
  const StepBreakdown few = breakdown_of(folded, small.loaded.program, parts, &small.folded);
  const StepBreakdown all = made.breakdown(made.simulate({}));
  EXPECT_LT(few.devices.size(), all.devices.size());
  EXPECT_EQ(few.count(), all.count());
  const TimeParts one = few.of_all(), other = all.of_all();
  ASSERT_EQ(one.size(), other.size());
  for (const auto& [part, time] : other) EXPECT_EQ(one.at(part).exposed, time.exposed) << name_of(part.kind);
}

// The steps run into one another; each still has the Runs of one.
TEST(StepBreakdown, OfAStepThatAControllerIssuesHasTheWorkOfOne) {
  for (const int fetch_every : {0, 1, 3}) {
    const Made made(request_of("megatron:tp=2,pp=2"));
    StepRequest request;
    Controller& controller = request.controller.emplace();
    controller.per_instruction = Seconds(1e-4);
    controller.fetch = Seconds(1e-3);
    controller.fetch_every = fetch_every;
    const StepSimulation issued = made.simulate(request);
    const StepBreakdown breakdown = made.breakdown(issued), plain = made.breakdown(made.simulate({}));
    EXPECT_EQ(breakdown.step, issued.step);
    // Without a fetch in every step one may begin before the one before it ends.
    if (fetch_every == 1) {
      EXPECT_GT(breakdown.step, plain.step);
    }
    const auto works = [](const TimePart& part) { return part.kind < TimeKind::Message; };
    for (std::size_t d = 0; d < plain.devices.size(); ++d) {
      EXPECT_EQ(exposed_of(breakdown.devices[d].parts), breakdown.step);
      // Ends are rounded once, after the division by the number of steps.
      EXPECT_NEAR(static_cast<double>(exposed(breakdown.devices[d].parts, works).ps),
                  static_cast<double>(exposed(plain.devices[d].parts, works).ps), 2.0 * kTimeKinds);
    }
  }
}

// A simulated step read as a measured one, without messages: the split of passes is that of the costs.
TEST(MeasuredBreakdown, OfASimulatedStepIsItsBreakdown) {
  const Made made(request_of("shard"));
  const StepSimulation step = made.simulate({});
  const Timeline timeline = to_timeline(step.tasks.graph, step.times);
  const MeasuredOpTimes none(made.planned.program.executables.size());
  const StepBreakdown simulated = made.breakdown(step),
                      measured = measured_breakdown(made.planned.program, made.parts(), timeline, none);
  EXPECT_EQ(measured.step, simulated.step);
  ASSERT_EQ(measured.devices.size(), simulated.devices.size());
  for (std::size_t d = 0; d < simulated.devices.size(); ++d)
    for (const auto& [part, time] : simulated.devices[d].parts) {
      const auto same = measured.devices[d].parts.find(part);
      ASSERT_NE(same, measured.devices[d].parts.end()) << name_of(part.kind);
      EXPECT_NEAR(static_cast<double>(same->second.exposed.ps), static_cast<double>(time.exposed.ps), 100.0);
    }
}

// One device: forward of 100, a gap of 20, backward of 200, and 30 until the step ends.
TEST(MeasuredBreakdown, SplitsByTheTimesOfOpsAndCallsTheRestLaunches) {
  const Made made([] {
    PlanRequest request = ask(kModel, "cpu:1", "data", 32, std::int64_t{1});
    return request;
  }());
  const Program& program = made.planned.program;
  std::vector<Span> spans;
  SimTime end{0};
  for (const Instruction& instruction : program.devices.front()) {
    if (instruction.kind != Instruction::Kind::Run) continue;
    spans.push_back({Span::Kind::Forward, DeviceId(0), StageId(0), MicrobatchId(0), end, end + SimTime{100'000'000}});
    end = spans.back().end + SimTime{20'000'000};
  }
  Timeline timeline{spans, end + SimTime{10'000'000}};
  MeasuredOpTimes times;
  for (const StageExecutable& executable : program.executables) times.emplace_back(executable.ops.size(), Seconds(0.0));
  times[0][0] = Seconds(6e-5);  // of 100 us
  const StepBreakdown found = measured_breakdown(program, made.parts(), timeline, times);
  const auto runs = static_cast<std::int64_t>(spans.size());
  const TimeParts& parts = found.devices.front().parts;
  EXPECT_EQ(exposed_as(parts, TimeKind::Bubble), SimTime{(runs - 1) * 20'000'000});
  EXPECT_EQ(exposed_as(parts, TimeKind::Idle), SimTime{30'000'000});
  const TimeKind first = made.parts().part_of(program.executables[0], program.executables[0].ops[0]).kind;
  ASSERT_NE(first, TimeKind::Launch);
  EXPECT_EQ(exposed_as(parts, first), SimTime{60'000'000});
  EXPECT_EQ(exposed_as(parts, TimeKind::Launch), SimTime{runs * 100'000'000 - 60'000'000});
}

// Runs and sends at random, a picosecond at a time.
TEST(MeasuredBreakdown, PartsEveryMomentOfADeviceWithoutARun) {
  const Made made(request_of("megatron:pp=4"));
  const Program& program = made.planned.program;
  const RunParts parts = made.parts();
  const MeasuredOpTimes none(program.executables.size());
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
    Timeline timeline{{}, SimTime{0}};
    const auto add = [&](Span::Kind kind, int device, std::int64_t begin, std::int64_t length) {
      timeline.spans.push_back(
          {kind, DeviceId(device), StageId(device), MicrobatchId(0), SimTime{begin}, SimTime{begin + length}});
      timeline.end = std::max(timeline.end, timeline.spans.back().end);
    };
    for (int d = 0; d < 4; ++d) {
      std::int64_t now = below(9);
      for (const Instruction& instruction : program.devices[static_cast<std::size_t>(d)]) {
        if (instruction.kind != Instruction::Kind::Run) continue;
        add(Span::Kind::Forward, d, now, 1 + below(9));
        now += below(12);  // queues may go on beside each other
      }
      for (std::int64_t sends = below(9); sends > 0; --sends) add(Span::Kind::Send, d, below(120), below(9));
    }
    timeline.end += SimTime{below(9)};
    const StepBreakdown found = measured_breakdown(program, parts, timeline, none);
    for (int d = 0; d < 4; ++d) {
      const auto is = [&](std::int64_t now, auto wanted) {
        return std::any_of(timeline.spans.begin(), timeline.spans.end(), [&](const Span& span) {
          return span.device.value == d && wanted(span.kind) && span.begin.ps <= now && now < span.end.ps;
        });
      };
      std::vector<TimeKind> moments;
      std::int64_t first = timeline.end.ps, last = -1;
      for (std::int64_t now = 0; now < timeline.end.ps; ++now) {
        const bool computes = is(now, [](Span::Kind kind) { return is_compute(kind); });
        if (computes) first = std::min(first, now), last = now;
        moments.push_back(computes                                                            ? TimeKind::Products
                          : is(now, [](Span::Kind kind) { return kind == Span::Kind::Send; }) ? TimeKind::Message
                                                                                              : TimeKind::Idle);
      }
      for (std::int64_t now = first; now < last; ++now) {
        TimeKind& own = moments[static_cast<std::size_t>(now)];
        if (own == TimeKind::Idle) own = TimeKind::Bubble;
      }
      const TimeParts& own = found.devices[static_cast<std::size_t>(d)].parts;
      for (const TimeKind kind : {TimeKind::Message, TimeKind::Bubble, TimeKind::Idle})
        EXPECT_EQ(exposed_as(own, kind).ps, std::count(moments.begin(), moments.end(), kind))
            << "seed " << seed << ", device " << d << ", " << name_of(kind);
      EXPECT_EQ(exposed_of(own), timeline.end);
    }
  }
}

// An op of its kind that costs something, by executable and number.
std::pair<int, int> find_op(const Made& made, LocalOp::Kind kind) {
  const Program& program = made.planned.program;
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
    for (std::size_t o = 0; o < executable.ops.size(); ++o)
      if (executable.ops[o].kind == kind && executable.ops[o].is_collective() == (kind == LocalOp::Kind::Reshard) &&
          op_cost(executable, executable.ops[o], mesh, *made.costs).time > Seconds(0.0))
        return {static_cast<int>(e), static_cast<int>(o)};
  }
  return {-1, -1};
}

Seconds cost_of_op(const Made& made, std::pair<int, int> op) {
  const StageExecutable& executable = made.planned.program.executables[static_cast<std::size_t>(op.first)];
  return op_cost(executable, executable.ops[static_cast<std::size_t>(op.second)],
                 made.planned.program.stages[executable.stage.index()].mesh, *made.costs)
      .time;
}

Piece piece_of(Piece::Kind kind, int op, std::int64_t ps) {
  Piece piece;
  piece.kind = kind;
  piece.ops = {op};
  piece.duration = SimTime{ps};
  return piece;
}

TEST(PartsOfAPiece, AreLaunchWhereAComputationTakesLongerThanItsOps) {
  const Made made(request_of("megatron:tp=2,pp=2"));
  const auto [e, o] = find_op(made, LocalOp::Kind::Compute);
  const SimTime own = to_sim_time(cost_of_op(made, {e, o}));
  constexpr std::int64_t kBeyond = 5'000'000;
  Piece piece = piece_of(Piece::Kind::Compute, o, own.ps + kBeyond);
  EXPECT_NEAR(static_cast<double>(exposed_as(made.parts().of_piece(e, piece), TimeKind::Launch).ps), kBeyond, 2.0);
  piece.duration = own;
  EXPECT_EQ(exposed_as(made.parts().of_piece(e, piece), TimeKind::Launch), SimTime{0});
  // What a collective waits for is no launch.
  const auto [f, c] = find_op(made, LocalOp::Kind::Reshard);
  const Piece collective = piece_of(Piece::Kind::Collective, c, own.ps + kBeyond);
  EXPECT_EQ(exposed_as(made.parts().of_piece(f, collective), TimeKind::Launch), SimTime{0});
}

TEST(PartsOfAPiece, HideWhatARingDoesBesideTheAttentionThatItFeeds) {
  Made made(request_of("megatron:tp=2,pp=2"));
  const auto [e, c] = find_op(made, LocalOp::Kind::Reshard);
  const SimTime whole = to_sim_time(cost_of_op(made, {e, c}));
  const Piece piece = piece_of(Piece::Kind::Collective, c, whole.ps / 4);
  for (const bool ring : {false, true}) {
    made.planned.program.executables[static_cast<std::size_t>(e)].ops[static_cast<std::size_t>(c)].step->ring = ring;
    const TimeParts parts = made.parts().of_piece(e, piece);
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts.begin()->second.exposed.ps, whole.ps / 4);
    EXPECT_NEAR(static_cast<double>(parts.begin()->second.hidden.ps), ring ? 0.75 * static_cast<double>(whole.ps) : 0.0,
                2.0);
  }
}

// All of the computing time that is not the cost of a Run itself, which is a launch in the analytic model.
TEST(TopOps, AddUpToTheComputingTime) {
  const Made made(request_of("megatron:tp=2,pp=2"));
  const RunParts parts = made.parts();
  Seconds ops(0.0);
  std::int64_t runs = 0;
  for (const TopOp& op : top_ops(made.planned.program, made.planned.graph, parts, *made.costs)) {
    ops += op.device_time;
    EXPECT_LE(op.roofline, 1.0 + 1e-9);
  }
  for (const auto& list : made.planned.program.devices)
    for (const Instruction& instruction : list) runs += instruction.kind == Instruction::Kind::Run ? 1 : 0;
  const TimeParts all = made.breakdown(made.simulate({})).of_all();
  const SimTime computing = exposed(all, [](const TimePart& part) { return part.kind <= TimeKind::Launch; });
  const Seconds launches = static_cast<double>(runs) * made.costs->run_overhead();
  EXPECT_NEAR((ops + launches).si(), to_seconds(computing).si(), 1e-9);
}

TEST(TopOps, AreOfExecutablesThatRunAlone) {
  Made made(request_of("data"));
  const auto count = [&](bool updates) {
    int found = 0;
    for (const TopOp& op : top_ops(made.planned.program, made.planned.graph, made.parts(), *made.costs)) {
      EXPECT_GT(op.runs, 0);
      found += (op.part.pass == TimePass::Update) == updates ? 1 : 0;
    }
    return found;
  };
  const int passes = count(false);
  EXPECT_GT(count(true), 0);
  for (auto& list : made.planned.program.devices)
    std::erase_if(list, [&](const Instruction& instruction) {
      return instruction.kind == Instruction::Kind::Run &&
             made.planned.program.executables[static_cast<std::size_t>(instruction.executable)].phase == Phase::Update;
    });
  EXPECT_EQ(count(true), 0);
  EXPECT_EQ(count(false), passes);
}

}  // namespace
}  // namespace meshwright::step_breakdown_test
