// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lowering/adapt_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::adapt_plan_test {
namespace {

const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64";
const char* const kMlp = "mlp:layers=2,hidden=64";

using Values = std::vector<std::int64_t>;

TrainingOptions training(std::int64_t batch, std::int64_t microbatches) {
  TrainingOptions options;
  options.batch = batch;
  options.microbatches = microbatches;
  return options;
}

// One stage of four devices, all ops split by their batch.
Plan data_parallel(const char* model = kGpt) {
  return by_hand(model, "cpu:4", training(32, 4), {{"", {4}, {{"batch", 1}}}}).plan;
}
// The same split by the sequence wherever an op has one that can be.
Plan sequence_parallel() { return by_hand(kGpt, "cpu:4", training(32, 4), {{"", {4}, {{"seq", 1}}}}).plan; }
// Two stages of one device.
Plan pipeline(ScheduleKind schedule = ScheduleKind::OneFOneB) {
  return by_hand(kGpt, "cpu:2", training(32, 4), {{"", {1}, {}}, {"blk1.ln1", {1}, {}}}, schedule).plan;
}

PlanChanges batch_of(std::int64_t batch) {
  PlanChanges changes;
  changes.batch = batch;
  return changes;
}
PlanChanges seq_of(std::int64_t seq) {
  PlanChanges changes;
  changes.seq = seq;
  return changes;
}
PlanChanges microbatches_of(std::int64_t microbatches) {
  PlanChanges changes;
  changes.microbatches = microbatches;
  return changes;
}
PlanChanges cluster_of(const Cluster& cluster) {
  PlanChanges changes;
  changes.cluster = cluster;
  return changes;
}

LoadedPlan loaded(const Plan& plan) { return load_plan(plan, *make_analytic_cost_model(plan.cluster)); }

TEST(AdaptPlan, WithoutChangesOnlyClearsWhatWasPredicted) {
  Plan plan = data_parallel();
  plan.predicted.step_time = Seconds(3.0);
  plan.stages[0].forward = Seconds(1.0);
  const AdaptedPlan adapted = adapt_plan(plan, {});
  EXPECT_TRUE(adapted.broken.empty());
  EXPECT_EQ(adapted.plan.predicted.step_time.si(), 0.0);
  EXPECT_EQ(adapted.plan.stages[0].forward.si(), 0.0);
  plan.predicted.step_time = plan.stages[0].forward = Seconds(0.0);
  EXPECT_EQ(to_json(adapted.plan), to_json(plan));
}

TEST(AdaptPlan, ADoubledBatchDoublesEveryTensorOfAMicrobatch) {
  const Plan plan = data_parallel(), doubled = adapt_plan(plan, batch_of(64)).plan;
  const LoadedPlan before = loaded(plan), after = loaded(doubled);
  EXPECT_NE(doubled.graph_fingerprint, plan.graph_fingerprint);
  ASSERT_EQ(after.graph->tensors().size(), before.graph->tensors().size());
  for (const Tensor& tensor : before.graph->tensors()) {
    const bool of_a_batch =
        std::any_of(tensor.dims.begin(), tensor.dims.end(), [](const Dim& dim) { return dim.name == "batch"; });
    EXPECT_EQ(after.graph->tensor(tensor.id).elements(), (of_a_batch ? 2 : 1) * tensor.elements()) << tensor.name;
  }
}

TEST(AdaptPlan, NamesTheStageTheOpAndTheShardsOfABatchThatDoesNotDivide) {
  const AdaptedPlan adapted = adapt_plan(data_parallel(kMlp), batch_of(12));  // 3 samples per microbatch
  ASSERT_FALSE(adapted.broken.empty());
  EXPECT_EQ(adapted.broken.front(), "stage 0, op 'blk0.up', axis 'batch': 3 does not divide into 4 shards");
}

TEST(AdaptPlan, SaysWhichValuesNearbyDivide) {
  // 4 microbatches over 4 devices: batches are multiples of 16; 40 samples divide over 4 devices in 1, 2, 5 or 10
  // parts.
  const SoundValues values = nearest_sound_values(data_parallel(), batch_of(40));
  EXPECT_EQ(values.batch, (Values{32, 48}));
  EXPECT_EQ(values.microbatches, (Values{2, 5}));
  EXPECT_TRUE(values.seq.empty());
  EXPECT_EQ(nearest_sound_values(data_parallel(), batch_of(12)).batch, (Values{16}));
  // 32 samples in 16 parts are 2 for 4 devices.
  EXPECT_EQ(nearest_sound_values(data_parallel(), microbatches_of(16)).microbatches, (Values{8}));
  EXPECT_TRUE(nearest_sound_values(data_parallel(), microbatches_of(16)).batch.empty());
  EXPECT_EQ(nearest_sound_values(sequence_parallel(), seq_of(10)).seq, (Values{8, 12}));
  PlanChanges both = batch_of(12);
  both.seq = 10;
  EXPECT_EQ(nearest_sound_values(sequence_parallel(), both).seq, (Values{8, 12}));
  EXPECT_TRUE(nearest_sound_values(sequence_parallel(), both).batch.empty())
      << "a batch of 12 divides where it is whole";
}

TEST(AdaptPlan, EveryValueItNamesGivesASoundPlan) {
  for (const std::int64_t batch : {1, 7, 12, 40, 100, 1000}) {
    const SoundValues values = nearest_sound_values(data_parallel(), batch_of(batch));
    EXPECT_FALSE(values.batch.empty()) << batch;
    for (const std::int64_t value : values.batch)
      EXPECT_TRUE(loaded(adapt_soundly(data_parallel(), batch_of(value))).check.violations.empty()) << value;
    for (const std::int64_t value : values.microbatches) {
      PlanChanges both = batch_of(batch);
      both.microbatches = value;
      EXPECT_TRUE(loaded(adapt_soundly(data_parallel(), both)).check.violations.empty()) << batch << " in " << value;
    }
  }
}

TEST(AdaptPlan, RefusesInOneSentenceWithTheNearestValues) {
  const std::string text = refusal([] { return adapt_soundly(data_parallel(kMlp), batch_of(40)); });
  EXPECT_TRUE(text.starts_with("stage 0, op 'blk0.up', axis 'batch': 10 does not divide into 4 shards (and ")) << text;
  EXPECT_TRUE(text.ends_with(" more); the nearest that work: --batch 32 or 48, or --micro-batches 2 or 5.")) << text;
  EXPECT_EQ(refusal([] { return adapt_soundly(pipeline(), batch_of(30)); }),
            "a batch of 30 cannot be divided into 4 micro-batches; the nearest that work: --batch 28 or 32, or "
            "--micro-batches 3 or 5.");
  EXPECT_TRUE(refusal([] {
                return adapt_soundly(sequence_parallel(), seq_of(10));
              }).ends_with("; the nearest that work: --seq 8 or 12."));
}

TEST(AdaptPlan, RefusesWhatSuitsNoPlanOfItsKind) {
  EXPECT_EQ(refusal([] { return adapt_plan(data_parallel(kMlp), seq_of(16)); }),
            "model mlp has no sequence; leave --seq out.");
  PlanChanges inference;
  inference.schedule = ScheduleKind::Inference;
  EXPECT_EQ(refusal([&] { return adapt_plan(pipeline(), inference); }),
            "a plan for 1f1b cannot be used as inference; make another plan.");
  EXPECT_NE(refusal([] { return adapt_plan(pipeline(), cluster_of(find_cluster("cpu:4"))); }).find("cpu:4 has 1x4"),
            std::string::npos);
  Cluster without_f32 = find_cluster("cpu:2");
  without_f32.only().device.peak.erase("f32");
  EXPECT_NE(refusal([&] { return adapt_plan(pipeline(), cluster_of(without_f32)); }).find("no FLOP rate for f32"),
            std::string::npos);
}

TEST(AdaptPlan, AnotherClusterOfTheSameShapeKeepsTheProgramAndChangesItsPrice) {
  const Plan plan = pipeline();
  Cluster slower = plan.cluster;
  slower.only().device.peak.at("f32") = 0.5 * slower.only().device.peak.at("f32");
  const Plan adapted = adapt_plan(plan, cluster_of(slower)).plan;
  EXPECT_EQ(adapted.graph_fingerprint, plan.graph_fingerprint);
  const LoadedPlan before = loaded(plan), after = loaded(adapted);
  EXPECT_EQ(after.check.peak_memory, before.check.peak_memory);
  const auto fast = make_analytic_cost_model(plan.cluster), slow = make_analytic_cost_model(slower);
  EXPECT_GT(SimulatedStep(*slow).step_of(after.program, after.check),
            SimulatedStep(*fast).step_of(before.program, before.check));
}

struct PlannedMethods : testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, PlannedMethods,
                         testing::Values("pipeshard", "shard", "data", "zero2", "zero3", "megatron:tp=2,pp=2"));
TEST_P(PlannedMethods, GivePlansThatLowerForTwiceTheSamplesTheTokensAndTheMicrobatches) {
  PlanRequest request = ask(kGpt, "cpu:4", GetParam(), 64, 4);
  request.search.layers = 2;
  const Planned found = planned(request);
  ASSERT_TRUE(found.plan) << found.reason;
  PlanChanges changes = batch_of(128);
  changes.microbatches = 8;
  const LoadedPlan same_parts = loaded(adapt_soundly(*found.plan, changes));
  EXPECT_EQ(same_parts.program.microbatches, 8);
  changes.seq = 16;
  const LoadedPlan longer = loaded(adapt_soundly(*found.plan, changes));
  EXPECT_GT(longer.check.largest_peak(), same_parts.check.largest_peak());
}

TEST(StageFits, AreTheCheckedPeaksAndTheSchedulesMicrobatches) {
  const Plan plan = pipeline();
  const LoadedPlan checked = loaded(plan);
  const std::vector<StageFit> fits = stage_fits(plan, checked.program, checked.check);
  ASSERT_EQ(fits.size(), 2u);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(fits[s].needs, checked.check.peak_memory[s]);
    EXPECT_EQ(fits[s].usable, plan.cluster.usable_memory());
    EXPECT_TRUE(fits[s].fits());
  }
  EXPECT_EQ(fits[0].in_flight, 2);
  EXPECT_EQ(fits[1].in_flight, 1);
}

TEST(FewestMicrobatches, FitAndNoFewerDo) {
  Plan plan = adapt_soundly(pipeline(), batch_of(256));  // 64 samples in each of 4 microbatches
  const auto largest = [&](std::int64_t microbatches) {
    return loaded(adapt_soundly(plan, microbatches_of(microbatches))).check.largest_peak();
  };
  ASSERT_GT(largest(8), largest(16));
  const Bytes usable = 0.5 * (largest(8) + largest(16));
  plan.cluster.only().device.usable_memory = 1.0;
  plan.cluster.only().device.memory = usable;
  const auto costs = make_analytic_cost_model(plan.cluster);
  EXPECT_EQ(fewest_microbatches_that_fit(plan, *costs), 16);
  plan.cluster.only().device.memory = Bytes(1024.0);
  EXPECT_EQ(fewest_microbatches_that_fit(plan, *costs), std::nullopt);
}

}  // namespace
}  // namespace meshwright::adapt_plan_test
