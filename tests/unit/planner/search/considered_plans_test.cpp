// SPDX-License-Identifier: Apache-2.0
#include "core/planner/considered_plans.h"

#include <gtest/gtest.h>

#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::considered_plans_test {
namespace {

constexpr const char* kModel = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";

struct Searched {
  ConsideredPlans considered;
  PlanningResult result;
};

std::unique_ptr<Searched> search(PlanRequest request) {
  auto searched = std::make_unique<Searched>();
  request.record = &searched->considered;
  searched->result = planned(request);
  return searched;
}

std::vector<std::string> lines_of(const ConsideredPlans& considered) {
  std::vector<std::string> lines;
  for (const ConsideredPlan* plan : considered.ranked())
    lines.push_back(fmt::format("{} {} {} {} {} {}", stages_text(*plan), plan->degrees, plan->microbatches,
                                name_of(plan->schedule), plan->estimated ? plan->estimated->si() : 0.0,
                                reason_text(*plan, considered.chosen())));
  return lines;
}

void expect_begins_with_answer(const Searched& searched) {
  const ConsideredPlan* chosen = searched.considered.chosen();
  ASSERT_NE(chosen, nullptr);
  const Plan& plan = *searched.result.plan;
  EXPECT_EQ(searched.considered.ranked().front(), chosen);
  EXPECT_EQ(chosen->simulated, plan.predicted.step_time);
  EXPECT_EQ(chosen->layer_starts, plan.layer_starts);
  ASSERT_EQ(chosen->stages.size(), plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlace& place = chosen->stages[s].name.place;
    EXPECT_EQ(place.first, plan.stages[s].first_layer);
    EXPECT_EQ(place.last, plan.stages[s].last_layer);
    EXPECT_EQ(place.submesh, plan.stages[s].submesh);
    EXPECT_EQ(place.shape, plan.stages[s].logical_shape);
  }
}

TEST(ConsideredPlans, BeginWithTheAnswer) {
  for (const char* method : {"pipeshard", "data", "shard", "megatron:tp=2,pp=2"}) {
    SCOPED_TRACE(method);
    expect_begins_with_answer(*search(ask(kModel, "cpu:4", method)));
  }
}

// The model is cut into two layers; the answer's first stage ends inside of one, and its ops are then split anew.
TEST(ConsideredPlans, BeginWithAnAnswerWhoseBorderIsInsideALayer) {
  for (const bool any_submesh : {false, true}) {
    PlanRequest request = ask("gpt:layers=2,hidden=32,heads=2,seq=9,vocab=32", "cpu:4", "pipeshard", 1, 1);
    request.training.dtype = DType::F32;
    request.search.recompute = Recompute::Selective;
    if (!any_submesh) request.search.submeshes = std::vector<Submesh>{{1, 1}, {1, 2}};
    const auto searched = search(request);
    const PlanningResult& result = searched->result;
    ASSERT_EQ(result.plan->layer_starts.size(), 3u) << any_submesh;
    expect_begins_with_answer(*searched);
    // The bound of two layers is none of three, and that of all layers is left.
    EXPECT_EQ(result.lower_bound_within_layers, result.plan->predicted.lower_bound) << any_submesh;
  }
}

TEST(ConsideredPlans, DoNotDependOnTheThreads) {
  PlanRequest request = ask("mlp:layers=4,hidden=32", "cpu:4", "pipeshard", 32, Auto{});
  request.search.schedule = Auto{};
  const auto one = search(request);
  request.threads = 3;
  const auto three = search(request);
  EXPECT_GT(one->considered.ranked().size(), 10u);
  EXPECT_EQ(lines_of(one->considered), lines_of(three->considered));
}

// Numbers of micro-batches and cuts are searched side by side.
TEST(ConsideredPlans, OfEverythingOpenDoNotDependOnTheThreadsEither) {
  PlanRequest request = ask("mlp:layers=3,hidden=32", "cpu:3", "pipeshard", kSanitized ? 3 : 12, Auto{});
  request.search.layers = Auto{};
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  const auto one = search(request);
  request.threads = 5;
  const auto five = search(request);
  EXPECT_EQ(to_json(*one->result.plan), to_json(*five->result.plan));
  EXPECT_EQ(one->result.log.points, five->result.log.points);
  EXPECT_EQ(one->result.log.ranked, five->result.log.ranked);
  EXPECT_EQ(one->result.log.simulations, five->result.log.simulations);
  EXPECT_EQ(lines_of(one->considered), lines_of(five->considered));
}

TEST(ConsideredPlans, ChangeNothingInTheSearch) {
  PlanRequest request = ask(kModel, "cpu:4", "pipeshard", 32, Auto{});
  const PlanningResult plain = planned(request);
  const auto searched = search(request);
  EXPECT_EQ(to_json(*plain.plan), to_json(*searched->result.plan));
  EXPECT_EQ(plain.log.simulations, searched->result.log.simulations);
  EXPECT_EQ(plain.log.how, searched->result.log.how);
}

TEST(ConsideredPlans, OfAFrameworkAreAllItsDegrees) {
  Framework framework = find_framework("megatron");
  framework.recomputes_modules = false;  // what is tried beside them
  PlanRequest request = ask(kModel, "cpu:4");
  request.search.launch_for = &framework;
  request.search.microbatches = Auto{};
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  const auto searched = search(request);
  ASSERT_TRUE(searched->result.plan);
  EXPECT_EQ(searched->considered.chosen()->simulated, searched->result.plan->predicted.step_time);
  const auto plans = searched->considered.ranked();
  for (const ConsideredPlan* plan : plans) EXPECT_NE(plan->degrees, "");
  // "megatron launches 62 of 80 combinations of degrees; ..."
  EXPECT_NE(searched->result.log.how.find(fmt::format("launches {} of", plans.size())), std::string::npos)
      << searched->result.log.how << ", " << plans.size();
}

TEST(ConsideredPlans, SayWhatDoesNotFit) {
  const auto searched = search(ask("gpt-39b", "p3.16xlarge:1", "megatron:tp=8,pp=1", 1024, std::int64_t{1024}));
  EXPECT_FALSE(searched->result.plan);
  EXPECT_EQ(searched->considered.chosen(), nullptr);
  const auto plans = searched->considered.ranked();
  ASSERT_FALSE(plans.empty());
  EXPECT_TRUE(reason_text(*plans.front(), nullptr).starts_with("does not fit: stage 0 needs "))
      << reason_text(*plans.front(), nullptr);
}

// What comes again with more known of it takes the place of what came before.
TEST(ConsideredPlans, KeepWhatWasFollowedUpFurther) {
  using Fate = ConsideredPlan::Fate;
  ConsideredPlans considered;
  ConsideredPlan plan;
  plan.degrees = "tp=2";
  plan.estimated = Seconds(2.0);
  considered.add(plan);
  ConsideredPlan simulated = plan;
  simulated.estimated.reset();
  simulated.fate = Fate::Fits;
  simulated.simulated = simulated.score = Seconds(3.0);
  considered.add(simulated);
  considered.add(plan);
  ASSERT_EQ(considered.ranked().size(), 1u);
  EXPECT_EQ(considered.chosen()->simulated, Seconds(3.0));
  EXPECT_EQ(considered.chosen()->estimated, Seconds(2.0));
  ConsideredPlan other = simulated;
  other.degrees = "tp=4";
  other.score = other.simulated = Seconds(3.5);
  considered.add(other);
  EXPECT_EQ(reason_text(*considered.ranked()[1], considered.chosen()), "slower by 500.000 ms");
}

// The incumbent of a search gives way to better plans alone: of equal ones the first that was simulated stays.
TEST(ConsideredPlans, ChooseOfEqualOnesTheFirstSimulated) {
  ConsideredPlans considered;
  ConsideredPlan first, second;
  first.degrees = "tp=2", second.degrees = "tp=4";
  considered.add(second);  // considered first, not simulated
  for (ConsideredPlan* plan : {&first, &second}) {
    plan->fate = ConsideredPlan::Fate::Fits;
    plan->simulated = plan->score = Seconds(1.0);
    considered.add(*plan);
  }
  EXPECT_EQ(considered.chosen()->degrees, "tp=2");
  EXPECT_EQ(considered.ranked().front()->degrees, "tp=2");
}

}  // namespace
}  // namespace meshwright::considered_plans_test
