// SPDX-License-Identifier: Apache-2.0
// The search as a whole: over schedules and layers, stopped early, for fronts and for other objectives, on unlike
// hosts and with branches.
#include <gtest/gtest.h>

#include "tests/oracle/whole_plan_truth.h"

namespace meshwright::plan_search_test {
namespace {

constexpr double kSame = 1.0 + 1e-9;

const char* const kTwoTower =
    "two_tower:layers=2,hidden=16,heads=4,image=16,patch=4,text_layers=2,text_hidden=16,text_heads=4,seq=16,vocab=32,"
    "embed=8";

// Four devices on slow links, where pipelines pay.
PlanRequest on_slow_links(const std::string& model = "mlp:layers=4,hidden=64", double slowness = 100) {
  PlanRequest request = ask(model, "cpu:4", "pipeshard", 64, 4);
  request.search.layers = 4;
  HostGroup& hosts = request.cluster.only();
  hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
  return request;
}

Seconds step_of(const PlanRequest& request) { return planned(request).plan->predicted.step_time; }

TEST(Search, OverSchedulesIsAsGoodAsEachAlone) {
  PlanRequest request = on_slow_links();
  std::optional<Seconds> best;
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
    request.search.schedule = schedule;
    best = std::min(best.value_or(Seconds(1e30)), step_of(request));
  }
  request.search.schedule = Auto{};
  EXPECT_LE(step_of(request).si(), kSame * best->si());
}

TEST(Search, OverLayersIsAsGoodAsWithoutIt) {
  PlanRequest request = on_slow_links("gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64");
  request.search.layers = ModelDefault{};
  const Seconds as_found = step_of(request);
  request.search.layers = Auto{};
  EXPECT_LE(step_of(request), as_found);
}

// Stages that a method gives may fit though the table, which counts each by itself, says that none does: of a request
// too large to try every number of micro-batches (4096 samples on 2 devices), each number is still no better than all.
TEST(Search, OverMicrobatchesOfGivenStagesFindsThoseThatFitByTheirProgram) {
  PlanRequest request =
      ask("gpt:layers=4,hidden=64,heads=4,seq=16,vocab=64", "cpu:2", "megatron:pp=2,vpp=2", 4096, std::int64_t{64});
  request.search.layers = 4;
  request.search.schedule = ScheduleKind::Interleaved;
  request.search.chunks = 2;
  const Bytes needed = planned(request).check.largest_peak();
  DeviceKind& device = request.cluster.only().device;
  device.memory = (1.0001 / device.usable_memory) * needed;
  const Seconds of_64 = step_of(request);
  request.search.microbatches = Auto{};
  EXPECT_LE(step_of(request), of_64);
}

// Memory for 8 samples at a time, not for 12: of 96, in 12 microbatches. 8 and 16 are looked at first.
TEST(Search, OverMicrobatchesLooksBetweenTheNeighboursOfTheBest) {
  for (const char* cluster : {"cpu:1", "cpu:2"}) {
    PlanRequest request = ask("gpt:layers=2,hidden=16,heads=4,seq=64,vocab=32", cluster, "pipeshard", 96);
    request.search.layers = 4;
    const auto in = [&](std::int64_t microbatches) {
      request.search.microbatches = microbatches;
      return planned(request);
    };
    const Bytes of_eight = in(12).check.largest_peak(), of_twelve = in(8).check.largest_peak();
    DeviceKind& device = request.cluster.only().device;
    device.memory = (0.5 / device.usable_memory) * (of_eight + of_twelve);
    EXPECT_FALSE(in(8).plan) << cluster;
    request.search.microbatches = Auto{};
    const Planned searched = planned(request);
    ASSERT_TRUE(searched.plan) << cluster;
    EXPECT_EQ(searched.plan->training.microbatches, 12) << cluster;
    EXPECT_EQ(searched.plan->predicted.step_time, in(12).plan->predicted.step_time) << cluster;
    EXPECT_LT(searched.plan->predicted.step_time, in(16).plan->predicted.step_time) << cluster;
  }
}

class NamesOfSteps : public StepLog {
 public:
  void begin(const char* step) override {
    EXPECT_FALSE(open) << step << " begins inside " << names.back();
    open = true;
    names.push_back(step);
  }
  void end(const std::string& result) override {
    EXPECT_TRUE(open);
    EXPECT_FALSE(result.empty());
    open = false;
  }
  std::vector<std::string> names;
  bool open = false;
};

TEST(Search, TellsItsStepsInOrderAndFindsTheSamePlan) {
  PlanRequest request = on_slow_links();
  const std::string plan = to_json(*planned(request).plan).dump();
  NamesOfSteps steps;
  request.steps = &steps;
  EXPECT_EQ(to_json(*planned(request).plan).dump(), plan);
  EXPECT_FALSE(steps.open);
  const std::vector<std::string> wanted = {"cut", "structure", "span", "bound", "cost", "rank", "lower", "judge"};
  ASSERT_GE(steps.names.size(), wanted.size());
  EXPECT_EQ(std::vector(steps.names.begin(), steps.names.begin() + static_cast<std::ptrdiff_t>(wanted.size())), wanted);
}

// Asked for the k-th time it says stop: there is a sound plan that fits, or none yet; never a wrong one.
TEST(Search, StopsWhenAsked) {
  PlanRequest request = on_slow_links();
  request.search.microbatches = Auto{};
  const Seconds whole = step_of(request);
  int with_plan = 0, without = 0;
  for (const int calls : {0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 1000}) {
    int left = calls;
    request.stop = [&] { return left-- <= 0; };
    const Planned result = planned(request);
    EXPECT_EQ(result.log.interrupted, left < 0) << calls;
    (result.plan ? with_plan : without) += 1;
    if (!result.plan) continue;
    EXPECT_EQ(check_plan(*result.plan, result.graph), std::vector<std::string>{});
    EXPECT_LE(result.check.largest_peak(), request.cluster.usable_memory());
    EXPECT_GE(result.plan->predicted.step_time, whole) << calls;
  }
  EXPECT_GT(with_plan, 1);
  EXPECT_GT(without, 1);
}

// The first program is a plan, as there is plenty of memory. Whichever loop asks: it ends what it has begun, and none
// goes on.
TEST(Search, EndsWithTheProgramAtHandOnceItHasAPlanAndIsAskedToStop) {
  PlanRequest request = ask("mlp:layers=2,hidden=32", "cpu:3", "pipeshard", 6, Auto{});
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  request.search.layers = Auto{};
  const auto costs = make_analytic_cost_model(request.cluster);
  int asks = 0;
  request.stop = [&] { return ++asks < 0; };
  SimulatedStep whole(*costs);
  (void)make_plan(request, *costs, whole);
  const int all = asks;
  int checked = 0;
  for (int part = 1; part < 12; ++part) {
    SimulatedStep evaluator(*costs);
    std::optional<int> simulated;
    int left = part * all / 12;
    request.stop = [&] {
      if (left-- <= 0 && !simulated) simulated = evaluator.calls;
      return simulated.has_value();
    };
    const PlanningResult result = make_plan(request, *costs, evaluator);
    ASSERT_TRUE(simulated && result.log.interrupted) << part;
    if (*simulated == 0) continue;
    EXPECT_LE(evaluator.calls, *simulated + 1) << part;
    ++checked;
  }
  EXPECT_GT(checked, 8);
}

// Many devices: what the method gives, or pipelines of like stages.
TEST(Search, OnManyDevicesHasAPlanThoughItIsStoppedAtOnce) {
  for (const char* method : {"pipeshard", "megatron:tp=2,pp=4", "zero2"}) {
    PlanRequest request = ask("gpt:layers=8,hidden=32,heads=4,seq=8,vocab=64", "cpu:32", method, 64, Auto{});
    request.stop = [] { return true; };
    const Planned result = planned(request);
    EXPECT_TRUE(result.log.interrupted) << method;
    ASSERT_TRUE(result.plan) << method;
    EXPECT_EQ(check_plan(*result.plan, result.graph), std::vector<std::string>{});
    EXPECT_LE(result.check.largest_peak(), request.cluster.usable_memory());
  }
}

// A first plan keeps the least where the request leaves open what is recomputed, and else what it gives.
TEST(Search, ThatIsStoppedAtOnceRecomputesEverythingUnlessToldOtherwise) {
  PlanRequest request = ask("gpt:layers=8,hidden=32,heads=4,seq=8,vocab=64", "cpu:32", "pipeshard", 64, Auto{});
  request.stop = [] { return true; };
  const std::vector<std::pair<OrAuto<Recompute>, Recompute>> all = {
      {Auto{}, Recompute::Full}, {Recompute::None, Recompute::None}, {Recompute::Selective, Recompute::Selective}};
  for (const auto& [asked, wanted] : all) {
    request.search.recompute = asked;
    const Planned result = planned(request);
    ASSERT_TRUE(result.plan);
    EXPECT_EQ(result.plan->training.recompute, wanted);
  }
}

// --- fronts ---

void expect_front(const PlanRequest& request, std::size_t least) {
  const Planned result = planned(request);
  ASSERT_GE(result.front.size(), least);
  EXPECT_EQ(result.front.front().plan.predicted.step_time, result.plan->predicted.step_time);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  for (const FrontPoint& point : result.front) {
    const LoadedPlan loaded = load_plan(point.plan, *costs);  // with check_plan
    EXPECT_EQ(evaluator.step_of(loaded.program, loaded.check), point.plan.predicted.step_time);
    EXPECT_EQ(loaded.check.largest_peak(), point.plan.predicted.peak_memory);
    EXPECT_EQ(static_cast<int>(loaded.program.stage_of_device.size()), point.devices);
    for (const StagePlan& stage : point.plan.stages)
      EXPECT_LE(stage.peak_memory, request.cluster.group(stage.submesh.group).usable_memory());
    for (const FrontPoint& other : result.front) {
      const PlanPrediction &a = other.plan.predicted, &b = point.plan.predicted;
      EXPECT_TRUE(&other == &point || a.step_time > b.step_time || a.peak_memory > b.peak_memory ||
                  other.devices > point.devices);
    }
  }
}

Cluster two_unlike_hosts() {
  Cluster cluster = find_cluster("cpu:2");
  cluster.name = "unlike";
  cluster.groups.push_back(cluster.groups[0]);
  DeviceKind& device = cluster.groups[1].device;
  device.name = "slower";
  for (auto& [dtype, peak] : device.peak) peak = FlopsPerSecond(0.5 * peak.si());
  return cluster;
}

TEST(Front, HasNoBeatenPointAndOnlySoundPlans) {
  PlanRequest request = on_slow_links();
  request.goal.front = true;
  expect_front(request, 2);
}
TEST(Front, OfUnlikeHostsHasNoBeatenPointAndOnlySoundPlans) {
  PlanRequest request = on_slow_links();
  request.goal.front = true;
  request.cluster = two_unlike_hosts();
  expect_front(request, 2);
}

// --- unlike hosts ---

TEST(UnlikeHosts, AreNeverSlowerThanTheirBetterGroupAlone) {
  for (const char* model : {"mlp:layers=4,hidden=64", "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", kTwoTower})
    for (const double slowness : {1.0, 30.0}) {
      PlanRequest request = on_slow_links(model);
      request.cluster = two_unlike_hosts();
      for (HostGroup& group : request.cluster.groups)
        group.within_host.beta = SecondsPerByte(slowness * group.within_host.beta.si());
      const Seconds together = step_of(request);
      for (const HostGroup& group : two_unlike_hosts().groups) {
        PlanRequest alone = request;
        alone.cluster.groups = {group};
        alone.cluster.groups[0].within_host.beta = SecondsPerByte(slowness * group.within_host.beta.si());
        EXPECT_LE(together.si(), kSame * step_of(alone).si()) << model << " " << slowness;
      }
    }
}

// Two hosts of one device each: written as one group, or as two that are equal, the same stages can be made of them
// but those over both hosts.
TEST(EqualGroups, TakeTheTimeOfOneGroupWhereStagesStayOnAHost) {
  PlanRequest request = on_slow_links();
  HostGroup& hosts = request.cluster.only();
  hosts.hosts = 2;
  hosts.devices_per_host = 2;
  request.search.submeshes = std::vector<Submesh>{{1, 1}, {1, 2}};
  const Seconds as_one = step_of(request);
  hosts.hosts = 1;
  request.cluster.groups.push_back(request.cluster.groups[0]);
  request.search.submeshes = std::vector<Submesh>{{1, 1, 0}, {1, 2, 0}, {1, 1, 1}, {1, 2, 1}};
  EXPECT_NEAR(step_of(request).si(), as_one.si(), 1e-9 * as_one.si());
}

// --- objectives ---

// Against every pipeline of the table: the least latency among those with the throughput asked for, and the most
// throughput among those within the latency.
TEST(Objective, OfServingIsMetAsWellAsByAnyPipeline) {
  PlanRequest request = on_slow_links("mlp:layers=3,hidden=64");
  request.search.layers = 3;
  request.search.schedule = ScheduleKind::Inference;
  request.search.logical_mesh_space = LogicalMeshSpace::DataParallelOnly;
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  WholeSpace space(request, *costs, evaluator);
  const auto pipelines = space.pipelines(2000);
  ASSERT_TRUE(pipelines);
  std::vector<std::pair<Seconds, Seconds>> served;  // step, latency of one microbatch
  for (const auto& stages : *pipelines) {
    const auto truth = space.judge(stages);
    if (!truth || !space.fits(*truth)) continue;
    Plan alone = *space.plan(stages);
    alone.training.batch /= alone.training.microbatches;
    alone.training.microbatches = 1;
    const Program one = lower(alone, space.graph(), *costs);
    served.emplace_back(truth->step, evaluator.step_of(one, check_program(one)));
  }
  const auto [fastest, slowest] = std::minmax_element(served.begin(), served.end());
  for (const double share : {0.0, 0.3, 0.7, 1.0}) {
    const Seconds limit = fastest->first + (1.0 - share) * (slowest->first - fastest->first);
    std::optional<Seconds> truth;
    for (const auto& [step, latency] : served)
      if (step <= limit) truth = std::min(truth.value_or(latency), latency);
    request.goal = {.objective = Goal::Objective::Latency, .min_throughput = 64 / (kSame * limit.si())};
    const Planned found = with_program(make_plan(request, *costs, evaluator), *costs);
    ASSERT_TRUE(found.plan) << share << " " << found.reason;
    Seconds latency(0.0);
    for (const auto& [step, own] : served)
      if (step == found.plan->predicted.step_time) latency = std::max(latency, own);
    EXPECT_LE(latency.si(), kSame * truth->si()) << share;
  }
  for (const auto& [step, most] : served) {
    if (most < fastest->second && step > slowest->first) continue;
    std::optional<Seconds> truth;
    for (const auto& [other, latency] : served)
      if (latency <= most) truth = std::min(truth.value_or(other), other);
    request.goal = {.objective = Goal::Objective::Throughput, .max_latency = kSame * most};
    const Planned found = with_program(make_plan(request, *costs, evaluator), *costs);
    ASSERT_TRUE(found.plan) << most.si() << " " << found.reason;
    EXPECT_LE(found.plan->predicted.step_time.si(), kSame * truth->si()) << most.si();
  }
}

// What is asked for is the least that is enough, not the most that is too little.
TEST(Objective, ThatAPlanJustMeetsIsMet) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2", "data", 64, 4);
  request.search.schedule = ScheduleKind::Inference;
  const Planned any = planned(request);
  ASSERT_TRUE(any.plan) << any.reason;
  const double throughput = 64 / any.plan->predicted.step_time.si();
  for (const auto& [share, met] : {std::pair(1.0, true), std::pair(1.001, false)}) {
    request.goal = {.objective = Goal::Objective::Throughput, .min_throughput = share * throughput};
    EXPECT_EQ(planned(request).plan.has_value(), met) << share;
  }
}

// --- branches ---

// The towers side by side: no line of stages over the same table takes less.
TEST(TwoTowers, TakeNoLongerThanTheBestLine) {
  for (const double slowness : {1.0, 30.0}) {
    const PlanRequest request = on_slow_links(kTwoTower, slowness);
    const auto costs = make_analytic_cost_model(request.cluster);
    SimulatedStep evaluator(*costs);
    WholeSpace space(request, *costs, evaluator);
    const StageTable prices = space.search().table(1.0);
    const auto line = fastest_training(prices, {.devices = {4}, .all_devices = false, .microbatches = 4});
    ASSERT_TRUE(line);
    EXPECT_LE(make_plan(request, *costs, evaluator).plan->predicted.step_time, space.judge(line->stages)->step);
  }
}

}  // namespace
}  // namespace meshwright::plan_search_test
