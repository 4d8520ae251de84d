// SPDX-License-Identifier: Apache-2.0
// Modules for JAX say all of a plan: what is written and read again is the same plan, whatever its stages decide.
#include <gtest/gtest.h>

#include <sstream>

#include "launch/read/launch_reading.h"
#include "launch/setup/setup_of_plan.h"
#include "launch/write/write_launch.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::jax_files_test {
namespace {

constexpr const char* kTied = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";

struct Made {
  Plan plan;
  Graph graph;
};

// On 8 devices, 32 samples in 4 micro-batches.
Made made_by(const std::string& method, const std::string& model = kTied) {
  PlanRequest request = ask(model, "p3.16xlarge:1", method, 32, std::int64_t{4});
  request.training.dtype = DType::F16;
  PlanningResult found = planned(request);
  require(found.plan.has_value(), "{}", found.reason);
  return {*std::move(found.plan), std::move(found.graph)};
}

std::string module_of(const Made& made) {
  const LaunchTarget& to = find_launch_target("jax");
  const LaunchSetup setup = setup_of(made.plan, made.graph, to);
  return launch_files({to, setup, {}, made.plan, made.graph, Launcher::Torchrun}).front().text;
}

LaunchReading read(const Plan& plan, const std::string& text) {
  return read_launch(read_launch_text({.files = {{"sharding_plan.py", text}}}), {1, 8}, {.model = plan.model});
}

Plan read_back(const Plan& plan, const std::string& text) {
  const std::optional<PlanOfGraph> found = decided_plan(read(plan, text).setup, plan.cluster);
  require(found.has_value(), "the module leaves something open");
  return found->plan;
}

// What a plan file says of all that is decided.
std::string decisions(Plan plan) {
  for (StagePlan& stage : plan.stages) {
    stage.forward = stage.backward = stage.update = Seconds(0.0);
    stage.peak_memory = Bytes(0.0);
  }
  const Json json = to_json(plan);
  std::string text;
  for (const char* key : {"training", "schedule", "layer_starts", "graph_fingerprint", "stages"})
    text += json[key].dump(1) + "\n";
  return text + (json.contains("schedule_runs") ? json["schedule_runs"].dump() : "");
}

// The first line in which the plan that is read differs; "": none.
std::string first_difference(const Made& made) {
  std::istringstream wanted(decisions(made.plan)), found(decisions(read_back(made.plan, module_of(made))));
  std::string one, other, before;
  while (std::getline(wanted, one)) {
    if (!std::getline(found, other) || one != other) return before + " " + one + " came back as " + other;
    before = one;
  }
  return std::getline(found, other) ? "more came back: " + other : "";
}

void expect_same(const Made& made) { EXPECT_EQ(first_difference(made), ""); }

ShardingSpec spec(const char* text) { return spec_from_text(text, "test"); }

TEST(JaxFiles, SayHowEachStageSplitsATableThatBothHave) {
  Made made = made_by("megatron:tp=2,pp=2,zero=0,exact=1");
  const std::string read_first = "embed/wte", read_last = "head.logits/wte";
  ASSERT_TRUE(made.plan.stages[0].parameters.contains(read_first));
  ASSERT_TRUE(made.plan.stages[1].parameters.contains(read_last));
  made.plan.stages[0].parameters[read_first] = {spec("RS1"), spec("S0S1"), false};
  made.plan.stages[1].parameters[read_last] = {spec("S1R"), spec("S1R"), false};
  expect_same(made);
}

// Both readers on one stage: the table as a whole for the one, its parts for the other.
TEST(JaxFiles, SayWhichReaderKeepsAParameterOtherwise) {
  Made made = made_by("megatron:tp=2,pp=1,zero=0,exact=1");
  made.plan.stages[0].parameters["embed/wte"] = {spec("RS1"), spec("RS1"), false};
  made.plan.stages[0].parameters["head.logits/wte"] = {spec("S1R"), spec("S1S0"), true};
  expect_same(made);
}

TEST(JaxFiles, SayWhichGradientsAreSummedInEveryMicroBatch) {
  Made made = made_by("zero2");
  int eager = 0;
  for (auto& [name, sharding] : made.plan.stages[0].parameters) {
    ASSERT_TRUE(sharding.eager || sharding.state.used() == 0) << name;
    if (sharding.eager && eager++ % 2 == 0) sharding.eager = false;
  }
  ASSERT_GE(eager, 4);
  expect_same(made);
}

TEST(JaxFiles, SayHowOperatorsAreSplitAndWhatStaysASum) {
  Made made = made_by("megatron:tp=4,pp=2,zero=0");
  StagePlan& stage = made.plan.stages[0];
  OpSharding& first = stage.ops.begin()->second;
  first.axes["no such axis"] = 3;
  first.partial = 2;
  first.result.partial = 1;
  stage.fan_outs[stage.ops.begin()->first] = {first.result, spec("S0RRR")};
  stage.fan_outs.begin()->second.copy.partial = 0;
  stage.fan_outs.begin()->second.gradient.partial = 2;
  made.plan.stages[1].cross_mesh[0] = CrossMesh::Gather;
  made.plan.stages[1].contexts = {.rings = 1, .exchanges = 2};
  expect_same(made);
}

TEST(JaxFiles, SayTheTrainingAndWhichOperatorsAreRecomputed) {
  Made made = made_by("megatron:tp=2,pp=2,zero=0,exact=1");
  TrainingOptions& training = made.plan.training;
  training.optimizer = {.kind = Optimizer::Kind::Momentum,
                        .learning_rate = 3e-4,
                        .momentum = 0.95,
                        .weight_decay = 0.1,
                        .max_norm = 1.0,
                        .loss_scale = 65536.0,
                        .loss_scale_interval = 100};
  training.offload = Offload::Optimizer;
  training.loss = LossReduction::Sum;
  training.recompute_ranges = {{2, 5, Recompute::Full}, {9, 9, Recompute::Selective}};
  made.graph = build_training_graph(made.plan.model, training);
  made.plan.graph_fingerprint = fingerprint_of(made.graph);
  expect_same(made);
}

TEST(JaxFiles, SayWhatEachRankRunsUnderAScheduleOfItsOwn) {
  Made made = made_by("megatron:tp=2,pp=2,zero=0,exact=1");
  made.plan.schedule = ScheduleKind::Custom;
  made.plan.runs =
      Schedule{{*run_from_text("0F0"), *run_from_text("0B0")}, {*run_from_text("1F0"), *run_from_text("1B0")}};
  expect_same(made);
}

TEST(JaxFiles, SayWhoseCostsArePredicted) {
  Made made = made_by("megatron:tp=2,pp=2,zero=0,exact=1");
  made.plan.software = "fsdp2+16-bit-states";
  EXPECT_EQ(read(made.plan, module_of(made)).software, "fsdp2+16-bit-states");
}

std::string without(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  require(at != std::string::npos, "'{}' is not there", from);
  return text.replace(at, text.find(to, at) - at, "");
}

// An edited module that says less is searched, or refused where its tables contradict each other.
TEST(JaxFiles, AreReadInFullOrNotAtAll) {
  const Made made = made_by("megatron:tp=2,pp=1,zero=0,exact=1");
  const std::string text = module_of(made);
  EXPECT_TRUE(
      read(made.plan, without(text, "        'splits'", "        # results kept")).setup.meshes->decided.empty());
  const auto refused = [&](const std::string& of) { return refusal([&] { (void)read_back(made.plan, of); }); };
  EXPECT_NE(refused(without(text, "            'embed': {", "            'blk0.ln1': {")).find("'splits' says of"),
            std::string::npos);
  EXPECT_NE(refused(without(text, "        'received'", "    },")).find("has no 'received'"), std::string::npos);
  EXPECT_NE(refused(without(text, "            'wte': P", "            'blk0.ln1.gamma': P"))
                .find("'parameters' does not say how 'wte'"),
            std::string::npos)
      << refused(without(text, "            'wte': P", "            'blk0.ln1.gamma': P"));
}

}  // namespace
}  // namespace meshwright::jax_files_test
