// SPDX-License-Identifier: Apache-2.0
// Searches under conditions: what `simulate` can price is what the search minimises, and no simple method beats it.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/planner/simple_methods.h"
#include "simulator/what_if/evaluator.h"
#include "simulator/what_if/prediction.h"
#include "simulator/what_if/simulate_step.h"
#include "tests/draw.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::conditions_test {
namespace {

constexpr double kSame = 1.0 + 1e-9;

StepRequest overlap(double slowdown = 1.0) {
  StepRequest conditions;
  conditions.overlap = CutOptions{};
  conditions.conditions.compute_slowdown = conditions.conditions.communication_slowdown = slowdown;
  return conditions;
}

StepRequest on_links(LinkDiscipline discipline) {
  StepRequest conditions;
  conditions.network = discipline == LinkDiscipline::Fifo ? NetworkModel::Fifo : NetworkModel::Fluid;
  conditions.conditions.discipline = discipline;
  return conditions;
}

PlanningResult planned_under(const PlanRequest& request, const StepRequest& conditions) {
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedEvaluator evaluator(*costs, nullptr, conditions);
  return make_plan(request, *costs, evaluator);
}

// What `simulate` says of a plan file under the conditions.
struct Simulated {
  double step;
  Bytes peak;
};
Simulated simulated_as_is(const Plan& plan, const StepRequest& conditions) {
  const auto costs = make_analytic_cost_model(plan.cluster);
  const LoadedPlan loaded = load_plan(plan, *costs);
  const ProgramTimes times = program_costs_within_clock(loaded.program, *costs).times;
  const StepSimulation step = simulate_step(plan, loaded, times, *costs, conditions, 1);
  const std::vector<Bytes> peaks = peak_memory(step, loaded.program);
  return {to_seconds(step.step).si(), *std::max_element(peaks.begin(), peaks.end())};
}

Simulated simulated(const Plan& plan, const StepRequest& conditions) {
  return simulated_as_is(plan_from_json(to_json(plan), "plan"), conditions);
}

class Requests : Draw {
 public:
  using Draw::Draw;

  // Small models on a few devices of one host or of several, with links of any speed and memory from plenty to little.
  PlanRequest next() {
    const auto model = any<std::string>({"mlp:layers=4,hidden=64", "mlp:layers=3,hidden=256",
                                         "gpt:layers=2,hidden=32,heads=4,seq=16,vocab=64",
                                         "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=32"});
    // One after the other: the order in which arguments are made is the compiler's.
    const auto batch = any<std::int64_t>({16, 32, 64});
    const auto cluster = any<std::string>({"cpu:2", "cpu:4", "cpu:8"});
    PlanRequest request = ask(model, cluster, "pipeshard", batch);
    request.search.microbatches = any<OrAuto<std::int64_t>>({std::int64_t{2}, std::int64_t{4}, Auto{}});
    request.search.layers = any<LayerCount>({2, 4, ModelDefault{}});
    request.search.recompute = any<OrAuto<Recompute>>({Recompute::None, Recompute::Full, Auto{}});
    HostGroup& hosts = request.cluster.only();
    if (any<int>({0, 1}) == 1 && hosts.devices_per_host >= 4) {
      hosts.hosts = 2;
      hosts.devices_per_host /= 2;
    }
    hosts.within_host.beta = SecondsPerByte(any<double>({0.1, 1, 10, 100}) * hosts.within_host.beta.si());
    hosts.between_hosts.beta = SecondsPerByte(any<double>({1, 10}) * hosts.within_host.beta.si());
    const PlanningResult free = planned(request);
    const double share = any<double>({0.7, 1.1, 4.0});
    hosts.device.memory = Bytes(share * free.plan->predicted.peak_memory.si());
    hosts.device.usable_memory = 1.0;
    return request;
  }
};

// Megatron's degrees and data parallelism, as a user would plan them one by one without conditions.
void expect_no_method_is_faster(const StepRequest& conditions, unsigned seed, int count) {
  Requests requests(seed);
  int plans = 0;
  count = fewer(count);
  // Where only a few requests are drawn, it may be that none has a plan that fits.
  for (int k = 0; k < count || (kSanitized && plans == 0); ++k) {
    const PlanRequest request = requests.next();
    const PlanningResult found = planned_under(request, conditions);
    const Bytes usable = request.cluster.usable_memory();
    double step = 1e30, bound = 0.0;
    if (found.plan) {
      const Simulated itself = simulated(*found.plan, conditions);
      step = found.plan->predicted.step_time.si(), bound = found.plan->predicted.lower_bound.si();
      EXPECT_EQ(itself.step, step) << k;
      EXPECT_LE(itself.peak, usable) << k;
      EXPECT_EQ(std::max(itself.peak, found.plan->predicted.peak_memory), found.plan->predicted.peak_memory) << k;
      EXPECT_LE(bound, step) << k;
      EXPECT_LE(found.lower_bound_within_layers.si(), step) << k;
    }
    std::vector<std::string> methods = simple_methods(request.cluster);
    if (kSanitized) methods = {"data", "zero3", "megatron:tp=1,pp=2"};
    methods.push_back("pipeshard");
    methods.push_back("shard");
    for (const std::string& text : methods) {
      PlanRequest narrow = request;
      narrow.search.method = method_from_text(text);
      std::optional<Plan> plan;
      try {
        plan = planned(narrow).plan;
      } catch (const InputError&) {
        continue;  // the method does not suit the devices
      }
      if (!plan) continue;
      const Simulated method = simulated(*plan, conditions);
      if (method.peak > usable) continue;
      ++plans;
      EXPECT_LE(step, kSame * method.step) << text << " of request " << k;
      EXPECT_LE(bound, kSame * method.step) << text << " of request " << k;
    }
  }
  EXPECT_GT(plans, kSanitized ? 0 : 5 * count);
}

TEST(PlanUnderConditions, WithOverlapIsNoSlowerThanAnyMethod) { expect_no_method_is_faster(overlap(), 1, 3); }

TEST(PlanUnderConditions, WithOverlapThatSlowsDownIsNoSlowerThanAnyMethod) {
  expect_no_method_is_faster(overlap(1.3), 2, 3);
}

TEST(PlanUnderConditions, OnSharedLinksIsNoSlowerThanAnyMethod) {
  expect_no_method_is_faster(on_links(LinkDiscipline::Fluid), 3, 1);
  expect_no_method_is_faster(on_links(LinkDiscipline::Fifo), 4, 1);
}

TEST(PlanUnderConditions, OnSharedLinksWithOverlapIsNoSlowerThanAnyMethod) {
  StepRequest conditions = overlap();
  conditions.network = NetworkModel::Fluid;
  expect_no_method_is_faster(conditions, 5, 1);
}

TEST(PlanUnderConditions, OfAControllerIsNoSlowerThanAnyMethod) {
  StepRequest conditions;
  conditions.controller = alpa_controller();
  expect_no_method_is_faster(conditions, 6, 2);
}

TEST(PlanUnderConditions, WithJitterIsNoSlowerThanAnyMethod) {
  StepRequest conditions;
  conditions.mean_jitter = 0.1;
  expect_no_method_is_faster(conditions, 7, 2);
  conditions.overlap = CutOptions{};
  expect_no_method_is_faster(conditions, 8, 1);
}

// The simulation is of several steps until one is like the next; a sample is one of them.
TEST(PlanUnderConditions, WithJitterDrawsSingleStepsOfAController) {
  const Plan plan = *planned(ask("mlp:layers=4,hidden=64", "cpu:2", "megatron:pp=2", 16, 4)).plan;
  StepRequest conditions;
  conditions.controller = alpa_controller();
  const double step = simulated(plan, conditions).step;
  conditions.mean_jitter = 1e-6;
  EXPECT_NEAR(simulated(plan, conditions).step, step, 1e-5 * step);
}

// A step ends with its last device: what varies by chance makes it longer.
TEST(PlanUnderConditions, WithMoreJitterIsOfALongerStep) {
  PlanRequest request = ask("gpt:layers=4,hidden=64,heads=4,seq=32,vocab=32", "cpu:4", "megatron:pp=4", 32, 8);
  double step = planned(request).plan->predicted.step_time.si();
  for (const double jitter : {0.1, 0.3, 0.6}) {
    StepRequest conditions;
    conditions.mean_jitter = jitter;
    const double longer = planned_under(request, conditions).plan->predicted.step_time.si();
    EXPECT_GT(longer, step) << jitter;
    step = longer;
  }
}

// Where gathers and sums hide, other shardings win: the plain plan takes a tenth more.
TEST(PlanUnderConditions, IsAPlanThatThePlainSearchRejects) {
  PlanRequest request =
      ask("gpt:layers=2,hidden=1024,heads=16,seq=512,vocab=1024", "p3.16xlarge:1", "pipeshard", 32, std::int64_t{2});
  request.training.dtype = DType::F16;
  request.search.layers = 2;
  const Plan found = *planned_under(request, overlap()).plan, plain = *planned(request).plan;
  EXPECT_LT(1.05 * found.predicted.step_time.si(), simulated(plain, overlap()).step);
  EXPECT_LT(found.predicted.step_time, plain.predicted.step_time);
}

// Methods of one stage do not suit hosts of several kinds, and are left out.
TEST(PlanUnderConditions, IsFoundForUnlikeHosts) {
  PlanRequest request = ask("gpt:layers=2,hidden=64,heads=4,seq=32,vocab=64", "dgx-a100:1+p3.16xlarge:1", "pipeshard",
                            16, std::int64_t{4});
  request.training.dtype = DType::F16;
  request.search.layers = 2;
  const PlanningResult found = planned_under(request, overlap());
  ASSERT_TRUE(found.plan) << found.reason;
  EXPECT_EQ(simulated(*found.plan, overlap()).step, found.plan->predicted.step_time.si());
  EXPECT_LE(found.plan->predicted.step_time.si(), kSame * simulated(*planned(request).plan, overlap()).step);
}

// More than the memory of the plain step: gathered weights wait for their computation, gradients for their bucket.
TEST(PlanUnderConditions, FitsWithTheMemoryThatOverlapTakes) {
  PlanRequest request = ask("mlp:layers=4,hidden=256", "cpu:4", "zero3", 64, 4);
  const Plan plain = *planned(request).plan;
  const Bytes overlapped = simulated(plain, overlap()).peak;
  ASSERT_GT(overlapped, plain.predicted.peak_memory);
  HostGroup& hosts = request.cluster.only();
  hosts.device.usable_memory = 1.0;
  hosts.device.memory = 0.5 * (overlapped + plain.predicted.peak_memory);
  EXPECT_TRUE(planned(request).plan.has_value());
  const PlanningResult found = planned_under(request, overlap());
  if (found.plan) {
    EXPECT_LE(simulated(*found.plan, overlap()).peak, request.cluster.usable_memory());
  } else {
    EXPECT_NE(found.reason.find("needs"), std::string::npos) << found.reason;
  }
}

TEST(PlanUnderConditions, DependsOnNoNumberOfThreads) {
  PlanRequest request = ask("gpt:layers=2,hidden=64,heads=4,seq=32,vocab=64", "cpu:4", "pipeshard", 32, Auto{});
  const std::string one = to_json(*planned_under(request, overlap()).plan).dump();
  request.threads = 3;
  EXPECT_EQ(to_json(*planned_under(request, overlap()).plan).dump(), one);
}

// --- the load of experts ---

constexpr const char* kMixture =
    "mixtral:layers=2,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=64,vocab=64,experts=4,top_k=2";

PlanningResult with_load(const std::string& method, const ExpertLoad& load, const StepRequest& conditions = {}) {
  PlanRequest request = ask(kMixture, "cpu:4", method, 16, 2);
  request.search.layers = 2;
  request.cluster.expert_load = load;
  return planned_under(request, conditions);
}

// Of a device that is alone with all experts the load is even.
TEST(ExpertLoadOfPlans, IsFeltWhereDevicesShareExperts) {
  for (const char* method : {"data", "zero3", "megatron:tp=2,pp=2,exact=1", "expert:ep=4", "megatron:ep=2,exact=1"}) {
    const bool shares = std::string(method).find("ep=") != std::string::npos;
    Seconds step(0.0);
    Bytes peak(0.0);
    for (const double factor : {1.0, 1.25, 2.0, 3.0}) {
      const Plan plan = *with_load(method, {.factor = factor}).plan;
      if (factor > 1.0 && shares && factor <= 2.0) {
        EXPECT_GT(plan.predicted.step_time, step) << method << " " << factor;
        EXPECT_GT(plan.predicted.peak_memory, peak) << method << " " << factor;
      } else if (factor > 1.0 && !shares) {
        EXPECT_EQ(plan.predicted.step_time, step) << method << " " << factor;
        EXPECT_EQ(plan.predicted.peak_memory, peak) << method << " " << factor;
      }
      EXPECT_GE(plan.predicted.step_time, step) << method << " " << factor;
      step = plan.predicted.step_time, peak = plan.predicted.peak_memory;
    }
  }
}
TEST(ExpertLoadOfPlans, NeverMakesASearchedStepFaster) {
  Seconds step(0.0);
  for (const double factor : {1.0, 1.1, 1.5, 4.0}) {
    const Plan plan = *with_load("pipeshard", {.factor = factor}).plan;
    EXPECT_GE(plan.predicted.step_time.si() * kSame, step.si()) << factor;
    EXPECT_LE(plan.predicted.lower_bound, plan.predicted.step_time) << factor;
    step = plan.predicted.step_time;
  }
}
TEST(ExpertLoadOfPlans, NeverMakesAPlanFasterOrSmallerUnderConditions) {
  for (const StepRequest& conditions : {StepRequest{}, overlap(), on_links(LinkDiscipline::Fluid)}) {
    Plan plan = *with_load("expert:ep=4", {}).plan;
    Simulated before{0.0, Bytes(0.0)};
    for (const double factor : {1.0, 1.1, 1.5, 4.0}) {
      plan.cluster.expert_load.factor = factor;
      const Simulated now = simulated_as_is(plan, conditions);
      EXPECT_GT(now.step, before.step) << factor;
      EXPECT_GE(now.peak, before.peak) << factor;
      before = now;
    }
  }
}
// Shares of 0.4, 0.2, 0.2 and 0.2 are 1.2 times the mean on two devices and 1.6 on four.
TEST(ExpertLoadOfPlans, OfAHistogramIsThatOfItsBusiestDevice) {
  const ExpertLoad tokens{.shares = {0.4, 0.2, 0.2, 0.2}};
  EXPECT_EQ(with_load("expert:ep=2", tokens).plan->predicted.step_time,
            with_load("expert:ep=2", {.factor = 1.2}).plan->predicted.step_time);
  EXPECT_EQ(with_load("expert:ep=4", tokens).plan->predicted.step_time,
            with_load("expert:ep=4", {.factor = 1.6}).plan->predicted.step_time);
}
// The program that is run has the shapes of the model.
TEST(ExpertLoadOfPlans, IsInNoPlanFile) {
  const Plan even = *with_load("expert:ep=4", {}).plan;
  Plan plan = even;
  plan.cluster.expert_load.factor = 2.0;
  EXPECT_EQ(to_json(plan).dump(), to_json(even).dump());
}

TEST(PlanUnderConditions, IsRecordedInThePlan) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2", "pipeshard", 16, 2);
  request.conditions = {{"overlap", ""}, {"bucket-mib", "1"}};
  const Plan plan = *planned_under(request, overlap()).plan;
  EXPECT_EQ(plan_from_json(to_json(plan), "plan").conditions, request.conditions);
  Json other = to_json(plan);
  other["conditions"] = {{"overlap", 1}};
  EXPECT_THROW((void)plan_from_json(other, "plan"), InputError);
  EXPECT_FALSE(
      to_json(*planned(ask("mlp:layers=2,hidden=64", "cpu:2", "pipeshard", 16, 2)).plan).contains("conditions"));
}

TEST(SimpleMethods, AreTheGridOfMegatronBesideDataParallelism) {
  const std::vector<std::string> methods = simple_methods(find_cluster("dgx-h100:8"));
  EXPECT_GE(methods.size(), 44u);
  for (const char* text : {"data", "zero1", "zero2", "zero3", "megatron:tp=8,pp=8,sp=1", "megatron:tp=1,pp=64",
                           "megatron:tp=2,pp=4,sp=1,zero=3", "megatron:tp=1,pp=1,zero=0"})
    EXPECT_NE(std::find(methods.begin(), methods.end(), text), methods.end()) << text;
  for (const std::string& text : methods) EXPECT_NO_THROW((void)method_from_text(text)) << text;
}

}  // namespace
}  // namespace meshwright::conditions_test
