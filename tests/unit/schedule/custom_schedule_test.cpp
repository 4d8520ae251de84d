// SPDX-License-Identifier: Apache-2.0
// A schedule that is given run by run: how a plan carries it, what is refused of it, and what becomes of it when the
// plan is lowered and used for other work.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/import/find_model.h"
#include "core/plan/lowering/adapt_plan.h"
#include "core/plan/ranks.h"
#include "core/schedule/check_schedule.h"
#include "core/schedule/schedule.h"
#include "core/schedule/schedule_csv.h"
#include "simulator/what_if/simulate_step.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_runs.h"

namespace meshwright::custom_schedule_test {
namespace {

using Sentences = std::vector<std::string>;

constexpr const char* kMlp = "mlp:layers=12,hidden=8";
constexpr const char* kT5 = "t5:layers=1,hidden=8,heads=2,intermediate=8,seq=4,vocab=8";  // its decoder begins anew

// Three stages on two ranks: stages 0 and 2 on the first. Of stage 2 microbatch 0 has its backward in two, of stage 1
// microbatch 1; stage 0 has all of them whole.
constexpr const char* kMixed =
    "0F0,0F1,2F0,2I0,2F1,2B1,0B0,2W0,0B1\n"
    "1F0,1F1,1B0,1I1,1W1\n";

Schedule mixed() { return schedule_from_csv(kMixed, "mixed.csv"); }

TrainingOptions training_of(int microbatches) {
  return {.batch = 8, .microbatches = microbatches, .dtype = DType::F32};
}

// Stages of one device each and of about as many ops.
HandPlan placed(const std::vector<int>& device_of_stage, int microbatches, const std::string& model = kMlp) {
  const Graph graph = build_training_graph(find_model(model), training_of(microbatches));
  const std::vector<OpId> forward = forward_ops(graph);
  std::vector<HandStage> cut;
  for (std::size_t s = 0; s < device_of_stage.size(); ++s)
    cut.push_back({s == 0 ? "" : graph.op(forward[forward.size() * s / device_of_stage.size()]).name, {1, 1}, {}});
  HandPlan made = by_hand(model, fmt::format("cpu:{}", cut.size()), training_of(microbatches), cut);
  for (std::size_t s = 0; s < device_of_stage.size(); ++s) made.plan.stages[s].devices = {device_of_stage[s]};
  return made;
}

HandPlan custom(const Schedule& runs, const std::vector<int>& device_of_stage, int microbatches = 2,
                const std::string& model = kMlp) {
  HandPlan made = placed(device_of_stage, microbatches, model);
  made.plan.schedule = ScheduleKind::Custom;
  made.plan.runs = runs;
  return made;
}

Sentences wrong(const std::string& csv, const std::vector<int>& device_of_stage, int microbatches = 2,
                const std::string& model = kMlp) {
  const HandPlan made = custom(schedule_from_csv(csv, "s.csv"), device_of_stage, microbatches, model);
  return check_plan(made.plan, made.graph);
}

TEST(CustomSchedule, IsNoKindToAskFor) {
  EXPECT_THROW((void)schedule_from_name("custom"), InputError);
  const auto kinds = all_schedules();
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), ScheduleKind::Custom), 0);
}

TEST(CustomSchedule, TravelsInThePlanFile) {
  const HandPlan made = custom(mixed(), {0, 1, 0});
  const Json json = to_json(made.plan);
  EXPECT_EQ(json["schedule"], "custom");
  EXPECT_EQ(json["schedule_runs"][1].dump(), R"(["1F0","1F1","1B0","1I1","1W1"])");
  const Plan back = plan_from_json(json, "plan.json");
  EXPECT_EQ(back.runs, made.plan.runs);
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_FALSE(to_json(placed({0, 1}, 2).plan).contains("schedule_runs"));
}

TEST(CustomSchedule, ACellOfThePlanFileThatIsNoRunIsNamed) {
  Json json = to_json(custom(mixed(), {0, 1, 0}).plan);
  json["schedule_runs"][1][2] = "1X0";
  EXPECT_EQ(refusal([&] { return plan_from_json(json, "plan.json"); }),
            "plan.json: schedule_runs[1][2]: \"1X0\" is not a run; expected stage, F, B, I or W, and microbatch, such "
            "as \"0F0\".");
}

TEST(CustomSchedule, StandsInPlansOfNoOtherKind) {
  HandPlan made = custom(mixed(), {0, 1, 0});
  made.plan.runs.reset();
  EXPECT_EQ(check_plan(made.plan, made.graph), Sentences{"the schedule is custom, but no schedule_runs are given"});
  made.plan.runs = mixed();
  made.plan.schedule = ScheduleKind::GPipe;
  EXPECT_EQ(check_plan(made.plan, made.graph),
            Sentences{"schedule_runs are given, but the schedule is gpipe; only a custom schedule has them"});
}

TEST(CustomSchedule, IsCheckedAgainstThePlan) {
  EXPECT_EQ(wrong(kMixed, {0, 1, 0}), Sentences{});
  EXPECT_EQ(wrong(kMixed, {0, 1, 0}, 4), Sentences{"schedule_runs has 2 micro-batches, the plan has 4"});
  EXPECT_EQ(wrong(kMixed, {0, 1}), Sentences{"schedule_runs has 3 stages, the plan has 2"});
  EXPECT_EQ(wrong(kMixed, {0, 1, 2}),
            Sentences{"schedule_runs has stages 0 and 2 on rank 0, but the plan has them on different devices"});
  EXPECT_EQ(wrong("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n", {0, 0}),
            Sentences{"schedule_runs has stages 0 and 1 on ranks 0 and 1, but the plan has them on the same devices"});
  EXPECT_EQ(wrong("0F0,0F1\n1F0,1F1\n", {0, 1}),
            Sentences{"schedule_runs has no backward runs; a custom schedule must be for training"});
}

TEST(CustomSchedule, IsOfStagesThatFeedOneTheNext) {
  const Schedule line = make_schedule(ScheduleKind::ZeroBubbleH1, line_of(8), 2);
  const HandPlan made = custom(line, {0, 1, 2, 3, 4, 5, 6, 7}, 2, kT5);
  EXPECT_EQ(check_plan(made.plan, made.graph),
            Sentences{"under custom every stage must feed the next, but stage 2 does not feed stage 3"});
}

TEST(CustomSchedule, RunsThatAreWrongAreNamedByRankAndNumber) {
  const auto of = [](Schedule runs) { return wrong_schedule(runs, {.place = "runs", .numbers = {}}).value_or(""); };
  EXPECT_EQ(of(mixed()), "");
  EXPECT_EQ(of({}), "runs has no ranks; give a row of runs per rank");
  Schedule runs = mixed();
  runs[1].pop_back();
  EXPECT_EQ(of(runs), "runs, rank 1: 1W1 is missing; give every stage every microbatch");
  runs = mixed();
  runs[1].push_back(runs[1].front());
  EXPECT_EQ(of(runs), "runs, rank 1, run 5: 1F0 is already in rank 1, run 0; give each run once");
  runs = mixed();
  std::swap(runs[1][3], runs[1][4]);
  EXPECT_EQ(of(runs), "runs, rank 1, run 3: 1W1 comes before 1I1 of run 4; swap them");
  runs = mixed();
  std::swap(runs[0][1], runs[0][6]);  // stage 0 waits for the backward of what stage 1 has not had
  EXPECT_EQ(of(runs),
            "runs: deadlock: rank 0 waits in 0B0 for 1B0, rank 1 waits in 1F1 for 0F1; move one of these runs");
}

TEST(CustomSchedule, IsWhatTheProgramRuns) {
  const HandPlan made = custom(mixed(), {0, 1, 0});
  const Program program = lower(made.plan, made.graph, *made.costs);
  const ProgramCheck check = check_program(program);
  EXPECT_EQ(check.violations, Sentences{});
  std::vector<Sentences> expected;
  for (const auto& runs : mixed()) {
    expected.emplace_back();
    for (const ScheduledRun& run : runs) expected.back().push_back(text_of(run));
  }
  EXPECT_EQ(runs_of(program), expected);
  // A stage has what it runs: whole backwards, halves, or both.
  EXPECT_TRUE(program.stages[0].backward && !program.stages[0].backward_weight);
  for (const std::size_t s : {1, 2})
    EXPECT_TRUE(program.stages[s].backward && program.stages[s].backward_input && program.stages[s].backward_weight);
  const ProgramTimes times = program_costs(program, *made.costs).times;
  EXPECT_EQ(simulate_by_events(program, times).timeline.end, simulate_plain_step(program, times).step);
  const std::vector<StageFit> fits = stage_fits(made.plan, program, check);
  EXPECT_EQ(fits[0].in_flight, max_in_flight(mixed())[0]);
  EXPECT_EQ(fits[1].in_flight, 2);
}

// The kinds' own schedules, given run by run.
TEST(CustomSchedule, OfAKindIsSoundAndRunsTheSame) {
  for (const ScheduleKind kind : all_schedules()) {
    const ScheduleTraits traits = traits_of(kind);
    if (!traits.trains || traits.copies > 1) continue;
    const int chunks = traits.chunks.value_or(2);
    for (const int microbatches : {1, 2, 4, 8}) {
      const HandPlan made = placed(ranks_of_stages(kind, 3 * chunks, chunks), microbatches);
      Plan named = made.plan, given = made.plan;
      named.schedule = kind;
      given.schedule = ScheduleKind::Custom;
      given.runs = make_schedule(kind, line_of(3 * chunks), microbatches, chunks);
      ASSERT_EQ(check_plan(given, made.graph), Sentences{});
      const Program own = lower(named, made.graph, *made.costs), program = lower(given, made.graph, *made.costs);
      EXPECT_EQ(check_program(program).violations, Sentences{}) << name_of(kind) << ", " << microbatches;
      EXPECT_EQ(program.executables.size(), own.executables.size());
      EXPECT_EQ(runs_of(program), runs_of(own));
    }
  }
}

TEST(CustomSchedule, IsTheKindWhoseScheduleItIs) {
  const HandPlan made = placed({0, 1, 1, 0}, 4);
  Plan plan = made.plan;
  plan.schedule = ScheduleKind::ZeroBubbleV;
  PlanChanges changes;
  for (const ScheduleKind kind : {ScheduleKind::VHalf, ScheduleKind::ZeroBubbleV}) {
    changes.runs = make_schedule(kind, line_of(4), 4, 2);
    const Plan used = adapt_soundly(plan, changes);
    EXPECT_EQ(used.schedule, kind);
    EXPECT_FALSE(used.runs.has_value());
  }
  std::swap((*changes.runs)[0][0], (*changes.runs)[0][1]);  // the second microbatch first
  EXPECT_EQ(to_json(adapt_plan(plan, changes).plan)["schedule"], "custom");
}

TEST(CustomSchedule, IsForItsOwnNumberOfMicrobatches) {
  const Plan plan = custom(mixed(), {0, 1, 0}).plan;
  PlanChanges changes;
  changes.microbatches = 4;
  EXPECT_EQ(refusal([&] { return adapt_soundly(plan, changes); }),
            "the plan has a custom schedule for exactly 2 micro-batches; give a schedule for 4 too.");
  changes.microbatches = 2;
  changes.batch = 16;
  EXPECT_EQ(adapt_soundly(plan, changes).runs, plan.runs);
  EXPECT_EQ(fewest_microbatches_that_fit(plan, *make_analytic_cost_model(plan.cluster)), std::nullopt);
}

TEST(CustomSchedule, GivesWayToAKindThatThePlacesAllow) {
  const Schedule v = make_schedule(ScheduleKind::ZeroBubbleV, line_of(4), 2, 2);
  const Plan plan = custom(v, {0, 1, 1, 0}).plan;
  PlanChanges changes;
  changes.schedule = ScheduleKind::VHalf;
  EXPECT_EQ(adapt_soundly(plan, changes).runs, std::nullopt);
  changes.schedule = ScheduleKind::Interleaved;
  EXPECT_EQ(adapt_plan(plan, changes).broken,
            Sentences{"stage 2 is not on the devices of stage 0, where interleaved puts it"});
  changes.schedule = ScheduleKind::Inference;
  EXPECT_EQ(refusal([&] { return adapt_plan(plan, changes); }),
            "a plan for custom cannot be used as inference; make another plan.");
}

}  // namespace
}  // namespace meshwright::custom_schedule_test
