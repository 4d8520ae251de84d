// SPDX-License-Identifier: Apache-2.0
// Costs under which stages of finished plans are sharded anew, and what that is for: the plan is no slower than others.
#include "core/planner/sharding_refinement.h"

#include <gtest/gtest.h>

#include "core/planner/search/near_plans.h"
#include "core/planner/spans/mesh_spans.h"
#include "simulator/what_if/evaluator.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::sharding_refinement_test {
namespace {

constexpr double kSame = 1.0 + 1e-9;

// One layer of all ops on two devices.
struct OneLayer {
  Cluster cluster = find_cluster("cpu:2");
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);
  TrainingOptions training = {.batch = 8};
  std::shared_ptr<const Graph> graph = std::make_shared<const Graph>(build_training_graph(
      find_model("llama:layers=1,hidden=64,heads=4,kv_heads=2,seq=16,vocab=1000,intermediate=64"), training));
  Layers layers = assign_layers(*graph, {0});
  StepStructure structure{*graph, layers};
  LogicalMesh mesh = make_logical_mesh(cluster, {1, 2}, {1, 2});

  // With these tensors forced to be kept as they are here.
  [[nodiscard]] MeshSpans spans(const ForcedSpecs& forced, bool once_per_value) const {
    StageSearchOptions options{
        .usable_memory = cluster.usable_memory(), .only_from = {0}, .once_per_value = once_per_value};
    options.rules = [&forced](const LogicalMesh&) {
      IntraOpRules rules;
      rules.forced = forced;
      return rules;
    };
    return {structure, mesh, *costs, options};
  }
};

const ShardingSpec kWhole{{0, 0, 0}, 0}, kAlongLast{{0, 0, 2}, 0};
const ForcedSpecs kSplitEmbedding = {{"embed", kAlongLast}, {"blk0.ln1", kWhole}, {"blk0.attn.residual", kWhole}};

// The embedding is split along its last axis, and both who read it, a norm and a residual, want it whole. A model that
// counts each reader pays for two all-gathers, the program for one.
TEST(OncePerValue, ATensorThatTwoOpsReadIsGatheredOnce) {
  const OneLayer of;
  const StepCost each = of.spans(kSplitEmbedding, false).cost(0, 0, 0);
  const StepCost once = of.spans(kSplitEmbedding, true).cost(0, 0, 0);
  Bytes embedding(0.0);
  for (const Tensor& tensor : of.graph->tensors())
    if (tensor.name == "embed") embedding = tensor.bytes();
  const Seconds gather = of.costs->collective(CollectiveKind::AllGather, embedding, of.mesh.axes[1]).time;
  ASSERT_GT(gather, Seconds(0.0));
  EXPECT_NEAR((each.forward - once.forward).si(), gather.si(), 1e-9 * gather.si());
  EXPECT_NEAR(each.backward.si(), once.backward.si(), 1e-9 * once.backward.si());
}

// So does the program of that sharding.
TEST(OncePerValue, AProgramGathersATensorThatTwoOpsReadOnce) {
  const OneLayer of;
  const MeshSpans spans = of.spans(kSplitEmbedding, true);
  Plan plan;
  plan.model = find_model("llama:layers=1,hidden=64,heads=4,kv_heads=2,seq=16,vocab=1000,intermediate=64");
  plan.training = of.training;
  plan.cluster = of.cluster;
  plan.method = "pipeshard";
  plan.layer_starts = {0};
  plan.stages = {spans.plan(0, 0, 0)};
  plan.stages.front().devices = {0, 1};
  plan.graph_fingerprint = fingerprint_of(*of.graph);
  const LoadedPlan loaded = load_plan({plan, of.graph}, *of.costs);
  const StageExecutable& forward =
      loaded.program.executables[static_cast<std::size_t>(*loaded.program.stages.front().forward)];
  int gathers = 0;
  for (const LocalOp& op : forward.ops) {
    const TensorId moved = forward.slots[static_cast<std::size_t>(op.outputs.front())].local.tensor;
    if (op.is_collective() && of.graph->tensor(moved).name == "embed") ++gathers;
  }
  EXPECT_EQ(gathers, 1);
}

// Under overlap, what hides is an estimate: slower links showed plans that gather less, and are faster on any links.
TEST(WorseCluster, WithSlowerLinksShowsNoPlanUnderOverlapThatWasMissed) {
  StepRequest overlap;
  overlap.overlap = CutOptions{};
  const PlanRequest request = ask("bert:layers=5,hidden=64,heads=4,seq=16,vocab=1000", "cpu:2", "pipeshard", 4, 1);
  const auto planned_on = [&](const Cluster& cluster) {
    PlanRequest own = request;
    own.cluster = cluster;
    const auto costs = make_analytic_cost_model(cluster);
    SimulatedEvaluator evaluator(*costs, nullptr, overlap);
    return make_plan(own, *costs, evaluator);
  };
  Cluster slower = request.cluster;
  LinkCost& links = slower.only().within_host;
  links.beta = SecondsPerByte(4.0 * links.beta.si());
  const PlanningResult own = planned_on(request.cluster), other = planned_on(slower);
  ASSERT_TRUE(own.plan && other.plan);
  Plan moved = *other.plan;
  moved.cluster = request.cluster;
  const auto costs = make_analytic_cost_model(request.cluster);
  const SimulatedEvaluator evaluator(*costs, nullptr, overlap);
  const Seconds step = evaluator.outcome({moved, std::make_shared<const Graph>(other.graph)}).step;
  EXPECT_LE(own.plan->predicted.step_time.si(), kSame * step.si());
}

// So many stages of one layer each, or one of both, with a step of so long.
Plan plan_of(int stages, const char* weight, double step, std::int64_t microbatches = 1) {
  Plan made;
  made.layer_starts = {0, 10};
  made.training.microbatches = microbatches;
  for (int s = 0; s < stages; ++s) {
    StagePlan stage{s, stages == 1 ? 1 : s, {1, 2}, {1, 2}, {0, 1}, {}, {}, {}};
    stage.parameters[weight] = {};
    made.stages.push_back(stage);
  }
  made.predicted.step_time = Seconds(step);
  return made;
}

// Step and programs.
using Found = std::vector<std::pair<double, std::int64_t>>;
Found found_of(const NearPlans& near, const NearPlans::Limit& all, const NearPlans::Limit& choices) {
  Found found;
  for (const NearPlans::Near& of : near.fastest(all, choices))
    found.emplace_back(of.made.plan.predicted.step_time.si(), of.programs);
  return found;
}

constexpr NearPlans::Limit kNone{0, 1.0};

// Of a plan and one that is sharded in another way, the faster; then one of two stages, and none that takes much
// longer.
TEST(NearPlans, AreTheFastestOfThoseThatDifferInShardingAlone) {
  NearPlans near;
  for (const Plan& of : {plan_of(1, "a", 1.00), plan_of(1, "b", 0.90), plan_of(1, "c", 0.95), plan_of(2, "a", 0.91)})
    near.add(of, nullptr);
  EXPECT_EQ(found_of(near, {6, 1.02}, kNone), (Found{{0.90, 4}, {0.91, 4}}));
  EXPECT_EQ(found_of(near, {6, 1.001}, kNone), (Found{{0.90, 4}}));
  EXPECT_EQ(found_of(near, {1, 1.02}, kNone), (Found{{0.90, 4}}));
}

TEST(NearPlans, JoinOthersAsIfTheyHadBeenAdded) {
  const std::vector<Plan> plans = {plan_of(1, "a", 1.00),    plan_of(2, "a", 0.91, 4), plan_of(1, "b", 0.90),
                                   plan_of(2, "b", 0.93, 4), plan_of(1, "c", 0.95),    plan_of(3, "a", 0.90)};
  NearPlans added, joined;
  for (const Plan& of : plans) added.add(of, nullptr);
  for (std::size_t first = 0; first < plans.size(); first += 2) {
    NearPlans others;
    others.add(plans[first], nullptr);
    others.add(plans[first + 1], nullptr);
    joined.join(std::move(others));
  }
  const Found found = found_of(added, {6, 2.0}, {6, 2.0});
  EXPECT_EQ(found, (Found{{0.90, 4}, {0.90, 4}, {0.91, 2}}));
  EXPECT_EQ(found_of(joined, {6, 2.0}, {6, 2.0}), found);
}

// Two and four micro-batches are choices: of each the fastest, also where others of the first come before it.
TEST(NearPlans, HaveTheFastestOfEveryChoiceThatCouldHaveBeenMade) {
  NearPlans near;
  for (const Plan& of : {plan_of(1, "a", 0.90, 2), plan_of(2, "a", 0.91, 2), plan_of(1, "a", 0.96, 4),
                         plan_of(2, "a", 0.95, 4), plan_of(2, "a", 0.97, 8)})
    near.add(of, nullptr);
  EXPECT_EQ(found_of(near, kNone, {6, 1.06}), (Found{{0.90, 2}, {0.95, 2}}));
  for (const NearPlans::Near& of : near.fastest({6, 1.06}, {6, 1.06}))
    EXPECT_EQ(of.of_choice, of.made.plan.stages.size() == (of.made.plan.training.microbatches == 2 ? 1u : 2u));
  EXPECT_EQ(found_of(near, kNone, {6, 1.10}), (Found{{0.90, 2}, {0.95, 2}, {0.97, 1}}));
  EXPECT_EQ(found_of(near, kNone, {1, 1.10}), (Found{{0.90, 2}}));
  EXPECT_EQ(found_of(near, {2, 1.02}, {2, 1.10}), (Found{{0.90, 2}, {0.91, 2}, {0.95, 2}}));
}

// Borders are those of plans with two stages, whatever plans of one stage are faster.
TEST(NearPlans, CountThoseAloneThatSuit) {
  NearPlans near;
  EXPECT_TRUE(near.empty());
  for (const Plan& of :
       {plan_of(1, "a", 0.90), plan_of(1, "a", 0.91, 4), plan_of(2, "a", 0.92), plan_of(2, "a", 0.93, 4)})
    near.add(of, nullptr);
  EXPECT_FALSE(near.empty());
  const auto has_borders = [](const Plan& plan) { return plan.stages.size() > 1; };
  std::vector<double> steps;
  for (const NearPlans::Near& of : near.fastest({1, 1.02}, {2, 1.02}, has_borders))
    steps.push_back(of.made.plan.predicted.step_time.si());
  EXPECT_EQ(steps, (std::vector<double>{0.92, 0.93}));
}

// Only a request that leaves the recomputation of layers open has mixtures, whatever their number: they leave room for
// the plan that recomputes nothing.
TEST(NearPlans, TakeMixturesOfRecomputationForOneChoice) {
  NearPlans near;
  for (const int first : {1, 2, 3}) {
    Plan mixture = plan_of(1, "a", 0.90 + 0.01 * first);
    mixture.training.recompute_ranges = {{first, first, Recompute::Full}};
    mixture.graph_fingerprint = fmt::format("mixture {}", first);
    near.add(mixture, nullptr);
  }
  near.add(plan_of(1, "a", 0.95), nullptr);
  EXPECT_EQ(found_of(near, kNone, {2, 1.10}), (Found{{0.91, 3}, {0.95, 1}}));
}

// The sharding that costs least is a program that takes longer than that of another one, which costs a little more; the
// likely costs do not show it.
TEST(Refinement, ByCostsWithNoiseFindsWhatLikelyCostsDoNot) {
  PlanRequest request = ask("gpt:layers=1,hidden=40,heads=2,seq=9,vocab=50", "cpu:4", "shard", 1, 1);
  request.training.dtype = DType::F32;
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedEvaluator evaluator(*costs);
  const PlanningResult found = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(found.plan);
  PlanOfGraph made{*found.plan, std::make_shared<const Graph>(found.graph)};
  while (const auto likely = refine_shardings(request, {{made, 100, 1.0}}, ShardingCosts::Likely, *costs, evaluator))
    made = {likely->plan, likely->graph};
  const auto noisy = refine_shardings(request, {{made, 100, 1.0}}, ShardingCosts::Noisy, *costs, evaluator);
  ASSERT_TRUE(noisy.has_value());
  EXPECT_LT(noisy->plan.predicted.step_time, 0.998 * made.plan.predicted.step_time);
  EXPECT_EQ(evaluator.outcome({noisy->plan, noisy->graph}).step, noisy->plan.predicted.step_time);
}

// A program that is simulated is lowered: large ones are left as they are.
TEST(Refinement, LeavesPlansOfManyMicroBatchesAlone) {
  const PlanRequest request = ask("mlp:layers=3,hidden=256", "cpu:4", "pipeshard", 1024, 1024);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedEvaluator evaluator(*costs);
  const PlanningResult found = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(found.plan);
  const PlanOfGraph made{*found.plan, std::make_shared<const Graph>(found.graph)};
  for (const ShardingCosts kind : {ShardingCosts::Likely, ShardingCosts::Noisy})
    EXPECT_FALSE(refine_shardings(request, {{made, 1, 1.0}}, kind, *costs, evaluator).has_value());
}

}  // namespace
}  // namespace meshwright::sharding_refinement_test
