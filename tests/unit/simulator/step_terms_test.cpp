// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/step_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "simulator/program/program_graph.h"
#include "simulator/what_if/prediction.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::step_terms_test {
namespace {

constexpr const char* kModel = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";

struct Taken {
  Plan plan;
  TermsOfStep terms;
  std::vector<StepTerms> runs;
  ProgramTimes times;
};

Taken take_apart(const PlanRequest& request) {
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  Planned result = with_program(make_plan(request, *costs, evaluator), *costs);
  MW_CHECK(result.plan.has_value(), "no plan: {}", result.reason);
  const ProgramTimes times = program_costs(result.program, *costs).times;
  return {*std::move(result.plan), terms_of_step(result.program, result.graph, *costs),
          executable_terms(result.program, result.graph, *costs, times), times};
}

PlanRequest request_of(const char* method, std::int64_t microbatches = 4,
                       ScheduleKind schedule = ScheduleKind::OneFOneB, Recompute recompute = Recompute::None) {
  PlanRequest request = ask(kModel, "cpu:4", method, 32, microbatches);
  request.search.schedule = schedule;
  request.search.recompute = recompute;
  return request;
}

SimTime sum_of_differences(const TermsOfStep& a, const TermsOfStep& b) {
  SimTime sum{0};
  for (std::size_t t = 0; t < kStepTerms; ++t) sum += b.of_busiest.times[t] - a.of_busiest.times[t];
  return sum;
}

// Plans of one model and batch that have nothing else in common.
TEST(StepTerms, OfAnyTwoPlansAddUpToTheDifferenceOfTheirSteps) {
  std::mt19937 random(7);
  const std::vector<const char*> methods = {"data",
                                            "zero1",
                                            "zero2",
                                            "zero3",
                                            "shard",
                                            "pipeshard",
                                            "megatron:pp=4",
                                            "megatron:tp=2,pp=2",
                                            "megatron:tp=4,pp=1"};
  const std::vector<ScheduleKind> schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::EagerOneFOneB,
                                               ScheduleKind::ZeroBubbleH1};
  const std::vector<Recompute> recomputes = {Recompute::None, Recompute::Full, Recompute::Selective};
  const auto any = [&](const auto& list) { return list[random() % list.size()]; };
  std::vector<Taken> plans;
  for (int i = 0; i < 12; ++i)
    plans.push_back(take_apart(request_of(any(methods), 1 << random() % 4, any(schedules), any(recomputes))));
  for (const Taken& a : plans) {
    EXPECT_EQ(a.terms.of_busiest.total(), a.terms.step);
    EXPECT_EQ(a.terms.of_all.total().ps, a.terms.devices * a.terms.step.ps);
    EXPECT_EQ(a.terms.step, to_sim_time(a.plan.predicted.step_time));
    for (const Taken& b : plans) EXPECT_EQ(sum_of_differences(a.terms, b.terms), b.terms.step - a.terms.step);
    for (std::size_t e = 0; e < a.runs.size(); ++e) EXPECT_EQ(a.runs[e].total(), a.times.executable[e]);
  }
}

TEST(StepTerms, OneStageNeverWaits) {
  const Taken data = take_apart(request_of("data"));
  for (const StepTerm term : {StepTerm::Messages, StepTerm::Fill, StepTerm::Waiting, StepTerm::Drain})
    EXPECT_EQ(data.terms.of_busiest[term], SimTime{0}) << name_of(term);
  EXPECT_GT(data.terms.of_busiest[StepTerm::GradientSync], SimTime{0});
  EXPECT_EQ(data.terms.of_busiest[StepTerm::WeightGathers], SimTime{0});
  EXPECT_EQ(data.terms.of_busiest[StepTerm::Recompute], SimTime{0});
  // All devices do the same.
  for (std::size_t t = 0; t < kStepTerms; ++t)
    EXPECT_EQ(data.terms.of_all.times[t].ps, 4 * data.terms.of_busiest.times[t].ps);
}

TEST(StepTerms, SayWhatAMethodAdds) {
  const Taken zero3 = take_apart(request_of("zero3"));
  EXPECT_GT(zero3.terms.of_busiest[StepTerm::WeightGathers], SimTime{0});
  const Taken none = take_apart(request_of("data")),
              full = take_apart(request_of("data", 4, ScheduleKind::OneFOneB, Recompute::Full));
  EXPECT_GT(full.terms.of_busiest[StepTerm::Recompute], SimTime{0});
  EXPECT_NEAR(to_seconds(full.terms.of_busiest[StepTerm::Compute]).si(),
              to_seconds(none.terms.of_busiest[StepTerm::Compute]).si(), 1e-10);
  const Taken split = take_apart(request_of("megatron:tp=4,pp=1"));
  EXPECT_GT(split.terms.of_busiest[StepTerm::Collectives], none.terms.of_busiest[StepTerm::Collectives]);
  EXPECT_EQ(split.terms.of_busiest[StepTerm::GradientSync] < none.terms.of_busiest[StepTerm::GradientSync], true);
}

// State at 1 GB/s to and from the hosts, nothing else changed. Rounding: a picosecond for each of two ends of an op.
TEST(StepTerms, OfStateOnTheHostsAreItsTransfers) {
  PlanRequest request = request_of("data");
  request.cluster.only().device.host_memory = Bytes(1e9);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  const Taken here = take_apart(request);
  request.training.offload = Offload::Optimizer;
  const Taken there = take_apart(request);
  EXPECT_EQ(here.terms.of_busiest[StepTerm::HostTransfers], SimTime{0});
  EXPECT_EQ(sum_of_differences(here.terms, there.terms), there.terms.step - here.terms.step);
  const Graph graph = build_step_graph(request.model, request.training, ScheduleKind::OneFOneB);
  Bytes state(0.0);
  std::int64_t tensors = 0;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState) state += tensor.bytes(), ++tensors;
  EXPECT_NEAR(static_cast<double>(there.terms.of_busiest[StepTerm::HostTransfers].ps), 2.0 * 1e3 * state.si(),
              2.0 * static_cast<double>(tensors));
  for (const StepTerm term : {StepTerm::Compute, StepTerm::Update, StepTerm::GradientSync})
    EXPECT_NEAR(static_cast<double>(there.terms.of_busiest[term].ps),
                static_cast<double>(here.terms.of_busiest[term].ps), 2.0 * static_cast<double>(tensors))
        << name_of(term);
}

// GPipe on a line: the last stage waits for the forwards of the others, the first for their backwards.
TEST(StepTerms, AGPipeLineFillsAndDrains) {
  const Taken made = take_apart(request_of("megatron:pp=4", 4, ScheduleKind::GPipe));
  for (const StepTerm term : {StepTerm::Fill, StepTerm::Drain, StepTerm::Waiting, StepTerm::Messages})
    EXPECT_GT(made.terms.of_all[term], SimTime{0}) << name_of(term);
  const Taken one = take_apart(request_of("megatron:pp=4", 1, ScheduleKind::GPipe));
  // With one micro-batch one stage works at a time: three of four devices wait, but for what is left of the update.
  const double idle = to_seconds(one.terms.of_all[StepTerm::Fill] + one.terms.of_all[StepTerm::Drain] +
                                 one.terms.of_all[StepTerm::Waiting] + one.terms.of_all[StepTerm::Messages])
                          .si() /
                      to_seconds(one.terms.step).si() / 4;
  EXPECT_GT(idle, 0.6);
  EXPECT_LT(idle, 0.75);
}

// A device's waiting before its first and after its last computation, moment by moment: without its messages.
struct Ends {
  SimTime fill{0}, drain{0};
};
Ends counted_ends(const TaskGraph& graph, const TaskTimes& times, int device) {
  std::vector<std::pair<SimTime, SimTime>> computed, moved;
  std::set<SimTime> moments = {SimTime{0}, times.step};
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const Stream& stream = graph.streams[graph.stream_of(TaskId(t)).index()];
    const TaskKind kind = graph.of(TaskId(t)).kind;
    const std::pair when(times.begin[static_cast<std::size_t>(t)], times.end[static_cast<std::size_t>(t)]);
    if (is_compute(kind) && stream.device.value == device && when.first < when.second) computed.push_back(when);
    if (is_communication(kind) && (stream.device.value == device || stream.peer.value == device)) moved.push_back(when);
    moments.insert({when.first, when.second});
  }
  Ends ends;
  for (auto at = moments.begin(); std::next(at) != moments.end(); ++at) {
    const SimTime from = *at, to = *std::next(at);
    const auto goes_on = [&](const auto& when) { return when.first <= from && to <= when.second; };
    if (std::any_of(moved.begin(), moved.end(), goes_on)) continue;
    if (std::all_of(computed.begin(), computed.end(), [&](const auto& when) { return to <= when.first; }))
      ends.fill += to - from;
    else if (std::all_of(computed.begin(), computed.end(), [&](const auto& when) { return when.second <= from; }))
      ends.drain += to - from;
  }
  return ends;
}

// Messages come to a stage before its first computation, and leave it after its last.
TEST(StepTerms, FillAndDrainAreWhatNoMessageFillsBeforeAndAfterTheComputations) {
  for (const char* method : {"megatron:pp=4", "megatron:tp=2,pp=2", "data"})
    for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
      const PlanRequest request = request_of(method, 2, schedule);
      const auto costs = make_analytic_cost_model(request.cluster);
      const Planned result = planned(request);
      const ProgramGraph tasks = program_graph(result.program, program_costs(result.program, *costs).times);
      const TaskTimes times = run_in_order(tasks.graph);
      const TermsOfStep terms = terms_of_step(result.program, result.graph, *costs);
      SimTime fill{0}, drain{0};
      for (int d = 0; d < tasks.graph.devices; ++d) {
        const Ends ends = counted_ends(tasks.graph, times, d);
        fill += ends.fill;
        drain += ends.drain;
        if (terms.busiest.value != d) continue;
        EXPECT_EQ(terms.of_busiest[StepTerm::Fill], ends.fill) << method;
        EXPECT_EQ(terms.of_busiest[StepTerm::Drain], ends.drain) << method;
      }
      EXPECT_EQ(terms.of_all[StepTerm::Fill], fill) << method;
      EXPECT_EQ(terms.of_all[StepTerm::Drain], drain) << method;
    }
}

// 128 devices are folded; the devices that stand for others count for them.
TEST(StepTerms, OfFoldedDevicesCountAll) {
  const Taken made = take_apart(ask(kModel, "p3.16xlarge:16", "megatron:tp=4,pp=2", 64, std::int64_t{4}));
  EXPECT_EQ(made.terms.devices, 128);
  EXPECT_EQ(made.terms.of_all.total().ps, 128 * made.terms.step.ps);
  EXPECT_EQ(made.terms.of_busiest.total(), made.terms.step);
}

}  // namespace
}  // namespace meshwright::step_terms_test
