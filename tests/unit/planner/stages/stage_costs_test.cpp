// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/stage_costs.h"
#include "core/graph/import/find_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/planner/search/candidates.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::stage_costs_test {
namespace {

constexpr int kLayers = 4;

// An MLP of four layers on `devices` devices of one host, as a mesh devices x 1.
class SpanCostsTest : public testing::Test {
 protected:
  void on(int devices) {
    training_.batch = 8;
    model_ = find_model("mlp:layers=4,hidden=64");
    graph_ = build_training_graph(model_, training_);
    cluster_ = find_cluster(fmt::format("cpu:{}", devices));
    layers_ = make_layers(graph_, kLayers);
    structure_ = std::make_unique<StepStructure>(graph_, layers_);
    costs_ = make_analytic_cost_model(cluster_);
    StageSearchOptions options;
    options.usable_memory = cluster_.usable_memory();
    mesh_ = {0, 0, {1, devices}, {devices, 1}};
    spans_.emplace(*structure_, make_logical_mesh(cluster_, mesh_.submesh, mesh_.shape), *costs_, options);
  }
  [[nodiscard]] StageProfileTable none() const {
    StageProfileKey key = stage_profile_key(model_, graph_, training_, cluster_, layers_);
    key.numbering = StageProfileKey::Numbering{"pipeshard", "1f1b", 1, cluster_.usable_memory(), "modelled"};
    return StageProfileTable(key);
  }
  [[nodiscard]] StagePlace place(int first, int last) const {
    StagePlace place = mesh_;
    place.first = first;
    place.last = last;
    return place;
  }
  [[nodiscard]] SpanCosts costs(const StageCostOptions& options) const {
    return {*spans_, mesh_, kLayers, false, options};
  }
  [[nodiscard]] std::string fingerprint(int first, int last, int price) const {
    return sharding_fingerprint(spans_->plan(first, last, price));
  }

  ModelConfig model_;
  TrainingOptions training_;
  Graph graph_;
  Cluster cluster_;
  Layers layers_;
  std::unique_ptr<StepStructure> structure_;
  std::unique_ptr<CostModel> costs_;
  StagePlace mesh_{0, 0, {1, 1}, {1}};
  std::optional<MeshSpans> spans_;
};

// Prices of memory and meshes of one shape change costs alone: an order is searched for once per layer class with both
// borders open (matrices) and once with both fixed (shardings), whatever the number of prices and meshes.
TEST_F(SpanCostsTest, OrdersOfEliminationAreFoundOnce) {
  on(4);
  StageSearchOptions options;
  options.usable_memory = cluster_.usable_memory();
  const auto solve = [&] {
    return MeshSpans(*structure_, make_logical_mesh(cluster_, mesh_.submesh, mesh_.shape), *costs_, options).options();
  };
  EXPECT_EQ(solve(), 5);
  const std::size_t searched = options.eliminations->searched();
  EXPECT_GE(searched, 2u);
  EXPECT_LE(searched, 2u * kLayers);
  EXPECT_EQ(solve(), 5);
  EXPECT_EQ(options.eliminations->searched(), searched);
}

// forward n, backward 10 n, step 100 n, resident 1000 n, ...
StageProfile entry_of(double n) {
  StageProfile entry;
  entry.forward = Seconds(n);
  entry.backward = Seconds(10 * n);
  entry.step = Seconds(100 * n);
  entry.memory = StageMemory{Bytes(1e3 * n), Bytes(1e4 * n), Bytes(1e5 * n), Bytes(5e5 * n), Bytes(1e6 * n)};
  return entry;
}

TEST_F(SpanCostsTest, AreAsModelledWhereNothingIsKnown) {
  on(2);
  const StageProfileTable nothing = none();
  const SpanCosts found = costs({.known = &nothing});
  for (int first = 0; first < kLayers; ++first)
    for (int last = first; last < kLayers; ++last)
      for (int price = 0; price < spans_->options(); ++price) {
        EXPECT_EQ(found.cost(first, last, price).forward, spans_->cost(first, last, price).forward);
        EXPECT_EQ(found.cost(first, last, price).saved, spans_->cost(first, last, price).saved);
      }
}

TEST_F(SpanCostsTest, TakeWhatIsKnownOfASpan) {
  on(2);
  StageProfileTable known = none();
  known.add({place(1, 2), 1, ""}, entry_of(3));
  const SpanCosts found = costs({.known = &known});
  EXPECT_EQ(found.cost(1, 2, 1).backward, Seconds(30));
  EXPECT_EQ(found.cost(1, 2, 1).saved, Bytes(3e4));
  EXPECT_EQ(found.cost(1, 2, 1).recomputed_at_once, Bytes(15e5));
  EXPECT_EQ(found.cost(1, 2, 0).backward, spans_->cost(1, 2, 0).backward);
  EXPECT_EQ(found.cost(1, 3, 1).backward, spans_->cost(1, 3, 1).backward);
}

TEST_F(SpanCostsTest, TakeWhatWasRunForTheOptionsOfThatSharding) {
  on(2);
  StageProfile ran = entry_of(3);
  ran.memory.reset();
  ran.measured = StageProfile::Measured{5, Seconds(0.25), Seconds(0.5), Seconds(0)};
  StageProfileTable known = none();
  known.add({place(1, 2), 0, fingerprint(1, 2, 0)}, ran);
  const SpanCosts found = costs({.known = &known});
  EXPECT_EQ(found.cost(1, 2, 0).forward, Seconds(3));
  EXPECT_EQ(found.cost(1, 2, 0).resident, spans_->cost(1, 2, 0).resident);
  for (int price = 1; price < spans_->options(); ++price)
    EXPECT_EQ(found.cost(1, 2, price).forward == Seconds(3), fingerprint(1, 2, price) == fingerprint(1, 2, 0));
  StageProfileTable stored = none();
  found.add_to(stored, *structure_);
  EXPECT_EQ(stored.find(place(1, 2), 0)->measured, ran.measured);
  EXPECT_FALSE(stored.find(place(1, 3), 0)->measured.has_value());
}

TEST_F(SpanCostsTest, WhollyNamesTheFirstMissingEntry) {
  on(1);
  StageProfileTable known = none();
  for (int price = 0; price < spans_->options(); ++price) known.add({place(0, 0), price, ""}, entry_of(1));
  EXPECT_EQ(refusal([&] { return costs({.known = &known, .mode = StageProfileMode::Wholly}).cost(0, 0, 0); }),
            "stage profile: layers 0..1 on 1x1 as 1x1, option 0 is missing; add it, or take what is there with "
            "--stage-profile-mode partly.");
}

TEST_F(SpanCostsTest, AStoredTableServesAWholeSearchAsItself) {
  on(2);
  StageProfileTable stored = none();
  SpanCosts(*spans_, mesh_, kLayers, false, {}).add_to(stored, *structure_);
  const int spans = kLayers * (kLayers + 1) / 2;
  EXPECT_EQ(static_cast<int>(stored.entries().size()), spans * spans_->options());
  StageProfileTable again = none();
  costs({.known = &stored, .mode = StageProfileMode::Wholly}).add_to(again, *structure_);
  EXPECT_EQ(again.entries(), stored.entries());
}

// 33 s and a step of 300 s for layers that are modelled in less than a second.
TEST_F(SpanCostsTest, CandidatesTellWhatTheyMakeOfAStep) {
  on(2);
  StageProfileTable known = none();
  known.add({place(0, kLayers - 1), 0, ""}, entry_of(3));
  const auto simulated = [&](const StageProfileTable* of, int option) {
    StageSearchOptions options;
    options.usable_memory = cluster_.usable_memory();
    options.stage_costs.known = of;
    const StageSearch search(*structure_, cluster_, *costs_, {mesh_.submesh}, {{0, mesh_.shape}}, options);
    SimulatedStep evaluator(*costs_);
    CandidateRanking ranking(*structure_, search, cluster_, *costs_, evaluator);
    const CandidateRequest wanted{
        .schedule = ScheduleKind::OneFOneB, .microbatches = 1, .samples = 8, .goal = {}, .stages = {}, .devices = {2}};
    return *ranking.simulate({.stages = {{0, kLayers - 1, 0, option}}}, wanted);
  };
  const Candidate stored = simulated(&known, 0);
  EXPECT_NEAR(stored.step.si(), 333.0, 1e-5);
  EXPECT_DOUBLE_EQ(stored.known, stored.step / simulated(nullptr, 0).step);
  EXPECT_EQ(simulated(&known, 1).known, 1.0);
  EXPECT_EQ(simulated(nullptr, 0).known, 1.0);
}

// --- individual ---

TEST_F(SpanCostsTest, IndividualAddsUpLayers) {
  on(1);
  StageProfileTable known = none();
  for (int layer = 0; layer < kLayers; ++layer)
    for (int price = 0; price < spans_->options(); ++price)
      known.add({place(layer, layer), price, ""}, entry_of(1 << layer));  // powers of two: sums are exact
  known.add({place(1, 2), 0, ""}, entry_of(1000));                        // of several layers: not read
  const SpanCosts found =
      costs({.known = &known, .mode = StageProfileMode::Wholly, .costs = StageCostSource::Individual});
  for (int first = 0; first < kLayers; ++first)
    for (int last = first; last < kLayers; ++last) {
      const StepCost& cost = found.cost(first, last, 0);
      const double sum = (2 << last) - (1 << first), most = 1 << last;
      EXPECT_EQ(cost.forward, Seconds(sum));
      EXPECT_EQ(cost.backward, Seconds(10 * sum));
      EXPECT_EQ(cost.step, Seconds(100 * sum));
      EXPECT_EQ(cost.resident, Bytes(1e3 * sum));
      EXPECT_EQ(cost.saved, Bytes(1e4 * sum));
      EXPECT_EQ(cost.recomputed, Bytes(1e5 * sum));
      EXPECT_EQ(cost.recomputed_at_once, Bytes(5e5 * most));
      EXPECT_EQ(cost.working, Bytes(1e6 * most));
    }
}

TEST_F(SpanCostsTest, IndividualIsCompositionWhereCostsAreAdditive) {
  on(1);  // nothing is resharded on one device
  const SpanCosts found = costs({.costs = StageCostSource::Individual});
  for (int first = 0; first < kLayers; ++first)
    for (int last = first; last < kLayers; ++last) {
      const StepCost &sum = found.cost(first, last, 0), &whole = spans_->cost(first, last, 0);
      EXPECT_NEAR(sum.forward / whole.forward, 1.0, 1e-12);
      EXPECT_NEAR(sum.backward / whole.backward, 1.0, 1e-12);
      EXPECT_NEAR(sum.step / whole.step, 1.0, 1e-12);
      EXPECT_EQ(sum.resident, whole.resident);
      EXPECT_EQ(sum.saved, whole.saved);
      EXPECT_EQ(sum.working, whole.working);
    }
}

TEST_F(SpanCostsTest, IndividualIsNoMoreThanCompositionAtNoMemoryPrice) {
  on(4);  // a composed span also pays for resharding between its layers
  const SpanCosts found = costs({.costs = StageCostSource::Individual});
  const auto total = [](const StepCost& cost) { return cost.forward + cost.backward + cost.step; };
  for (int first = 0; first < kLayers; ++first)
    for (int last = first; last < kLayers; ++last)
      EXPECT_LE(total(found.cost(first, last, 0)).si(), total(spans_->cost(first, last, 0)).si() * (1 + 1e-12));
}

TEST_F(SpanCostsTest, IndividualIsRefusedForMethodsOfOneStage) {
  on(1);
  EXPECT_EQ(refusal([&] {
              return SpanCosts(*spans_, mesh_, kLayers, true, {.costs = StageCostSource::Individual}).cost(0, 3, 0);
            }),
            "the costs of single layers make no stage of a method that has one stage; give --stage-costs composition.");
}

// --- borders ---

TEST_F(SpanCostsTest, CountWhatCrossesTheSpansBorders) {
  on(1);
  EXPECT_EQ(stage_boundary(*structure_, 0, 3).in, Bytes(0));
  EXPECT_EQ(stage_boundary(*structure_, 0, 3).out, Bytes(0));
  for (int layer = 0; layer + 1 < kLayers; ++layer) {
    EXPECT_EQ(stage_boundary(*structure_, 0, layer).out, stage_boundary(*structure_, layer + 1, 3).in);
    EXPECT_EQ(stage_boundary(*structure_, layer, layer).out, Bytes(8 * 64 * 4));  // batch x hidden, f32
  }
}

}  // namespace
}  // namespace meshwright::stage_costs_test
