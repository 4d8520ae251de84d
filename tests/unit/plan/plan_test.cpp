// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"
#include "core/graph/import/find_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "tests/refusal.h"

namespace meshwright::plan_test {
namespace {

std::string name_of_result(const Graph& graph, const Op& op) { return graph.tensor(op.outputs.front()).name; }

// Forward ops: 0 blk0.up, 1 its bias_add, 2 its relu | 3 blk0.down, 4 its bias_add, 5 its relu, 6 loss. Layer 0 holds
// ops 0..2 on devices 0, 1; layer 1 holds ops 3..6 on devices 2, 3. embed = 6, mlp = 24, 4 samples per microbatch.
class TwoStagePlan : public ::testing::Test {
 protected:
  TwoStagePlan() : graph(make_graph()) {
    plan.cluster = find_cluster("cpu:4");
    plan.method = "pipeshard";
    plan.layer_starts = {0, 3};
    plan.graph_fingerprint = fingerprint_of(graph);
    plan.stages = {stage(0, 0, 3, {0, 1}), stage(1, 3, 7, {2, 3})};
    plan.stages[1].inputs[name_of_result(graph, forward_op(2))] = replicated(2);
    plan.predicted = {Seconds(0.5), Seconds(0.25), Bytes(3.0)};
  }

  Graph make_graph() {
    plan.model = find_model("mlp:layers=1,hidden=6");
    plan.training.batch = 8;
    plan.training.microbatches = 2;
    return build_training_graph(plan.model, plan.training);
  }

  [[nodiscard]] const Op& forward_op(std::size_t i) const { return graph.op(forward_ops(graph)[i]); }

  // Every tensor whole on both devices.
  StagePlan stage(int layer, std::size_t first_op, std::size_t end_op, std::vector<int> devices) {
    StagePlan made{layer, layer, Submesh{1, 2}, {1, 2}, std::move(devices), {}, {}, {}};
    for (std::size_t i = first_op; i < end_op; ++i) {
      const Op& op = forward_op(i);
      made.ops[op.name] = {{}, replicated(graph.tensor(op.outputs.front()).dims.size())};
      for (const TensorId input : op.inputs) {
        const Tensor& tensor = graph.tensor(input);
        if (tensor.kind != TensorKind::Parameter) continue;
        made.parameters[op.name + "/" + tensor.name] = {replicated(tensor.dims.size()), replicated(tensor.dims.size())};
      }
    }
    return made;
  }

  // The one sentence that check_plan has to say.
  std::string complaint() {
    const std::vector<std::string> violations = check_plan(plan, graph);
    EXPECT_EQ(violations.size(), 1u) << join(violations, "\n");
    return violations.empty() ? "" : violations.front();
  }

  Plan plan;
  Graph graph;
};

std::string error_of(const Json& json) {
  return refusal([&] { (void)plan_from_json(json, "plan.json"); });
}

// --- the file ---

TEST_F(TwoStagePlan, ComesBackFromJsonUnchanged) {
  plan.stages[0].ops["blk0.up"] = {{{"mlp", AxisMask{2}}, {"batch", AxisMask{1}}}, spec_from_text("S0S1", "test")};
  plan.stages[0].parameters["blk0.up/blk0.up.weight"] = {spec_from_text("RS1", "test"), spec_from_text("RS01", "test")};
  plan.training.recompute = Recompute::Full;
  plan.training.optimizer = {Optimizer::Kind::Sgd, 0.1};
  plan.training.dtype = DType::F64;
  plan.schedule = ScheduleKind::GPipe;
  const Plan back = plan_from_json(parse_json(to_json(plan).dump(1), "plan.json"), "plan.json");

  EXPECT_EQ(back.model, plan.model);
  EXPECT_EQ(back.training.batch, 8);
  EXPECT_EQ(back.training.microbatches, 2);
  EXPECT_EQ(back.training.dtype, DType::F64);
  EXPECT_EQ(back.training.recompute, Recompute::Full);
  EXPECT_EQ(back.training.optimizer.kind, Optimizer::Kind::Sgd);
  EXPECT_EQ(back.training.optimizer.learning_rate, 0.1);
  EXPECT_EQ(back.cluster.devices(), 4);
  EXPECT_EQ(back.schedule, ScheduleKind::GPipe);
  EXPECT_EQ(back.layer_starts, plan.layer_starts);
  EXPECT_EQ(back.graph_fingerprint, plan.graph_fingerprint);
  ASSERT_EQ(back.stages.size(), 2u);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(back.stages[s].ops, plan.stages[s].ops);
    EXPECT_EQ(back.stages[s].parameters, plan.stages[s].parameters);
    EXPECT_EQ(back.stages[s].inputs, plan.stages[s].inputs);
    EXPECT_EQ(back.stages[s].devices, plan.stages[s].devices);
    EXPECT_EQ(back.stages[s].submesh, plan.stages[s].submesh);
  }
}

// A file without them means the usual values: plans written before there were others stay readable.
TEST_F(TwoStagePlan, KeepsHowItIsTrainedAndReadsFilesThatSayLess) {
  const Json usual = to_json(plan)["training"];
  for (const char* key : {"momentum", "weight_decay", "max_norm", "loss"}) EXPECT_FALSE(usual.contains(key)) << key;
  plan.training.recompute = Recompute::Selective;
  plan.training.loss = LossReduction::TokenWeighted;
  plan.training.optimizer = {Optimizer::Kind::Momentum, 0.1, 0.5, 0.25, 2.0};
  const TrainingOptions back = plan_from_json(parse_json(to_json(plan).dump(1), "plan.json"), "plan.json").training;
  EXPECT_EQ(back.recompute, Recompute::Selective);
  EXPECT_EQ(back.loss, LossReduction::TokenWeighted);
  EXPECT_EQ(back.optimizer.kind, Optimizer::Kind::Momentum);
  EXPECT_EQ(back.optimizer.momentum, 0.5);
  EXPECT_EQ(back.optimizer.weight_decay, 0.25);
  EXPECT_EQ(back.optimizer.max_norm, 2.0);
  Json json = to_json(plan);
  json["training"]["loss"] = "median";
  EXPECT_EQ(error_of(json), "plan.json: training.loss: unknown name 'median'; expected mean, sum or token_weighted.");
}

TEST_F(TwoStagePlan, KeepsEveryBitOfItsTimes) {
  const double awkward[] = {0.1 + 0.2, 1.0 / 3.0, 5e-324, std::numeric_limits<double>::max(), 1.2345678901234567e-7};
  for (const double value : awkward) {
    plan.stages[0].forward = Seconds(value);
    plan.predicted.step_time = Seconds(value);
    const Plan back = plan_from_json(parse_json(to_json(plan).dump(), "plan.json"), "plan.json");
    EXPECT_EQ(back.stages[0].forward.si(), value);
    EXPECT_EQ(back.predicted.step_time.si(), value);
  }
}

TEST_F(TwoStagePlan, WritesTheSameBytesAgainAfterReading) {
  const std::string first = to_json(plan).dump(1);
  EXPECT_EQ(to_json(plan_from_json(parse_json(first, "plan.json"), "plan.json")).dump(1), first);
}

TEST_F(TwoStagePlan, WritesMeshAxesAsListsAndSpecsAsText) {
  plan.stages[0].ops["blk0.up"] = {{{"mlp", AxisMask{3}}}, spec_from_text("RS01", "test")};
  const Json op = to_json(plan)["stages"][0]["ops"]["blk0.up"];
  EXPECT_EQ(op.dump(), R"({"axes":{"mlp":[0,1]},"result":"RS01"})");
}

TEST_F(TwoStagePlan, RefusesANewerVersionNamingBoth) {
  Json json = to_json(plan);
  json["version"] = 7;
  EXPECT_EQ(error_of(json),
            "plan.json: the plan has version 7, but this program reads versions up to 1; use a newer meshwright.");
}

TEST_F(TwoStagePlan, SaysWhatAnotherFileIs) {
  EXPECT_NE(error_of({{"format", "meshwright-cluster"}, {"version", 1}}).find("a file of format 'meshwright-cluster'"),
            std::string::npos);
  EXPECT_NE(error_of({{"traceEvents", Json::array()}}).find("not a plan but a trace"), std::string::npos);
  EXPECT_NE(error_of({{"verb", "plan"}, {"step_time_s", 1}}).find("not a plan but the output of --json"),
            std::string::npos);
  EXPECT_NE(error_of(Json::array({1, 2})).find("not a plan but JSON of type array"), std::string::npos);
}

TEST_F(TwoStagePlan, NamesThePlaceOfEveryMissingMember) {
  const Json whole = to_json(plan);
  for (const auto& item : whole.items()) {
    Json json = whole;
    json.erase(item.key());
    EXPECT_EQ(error_of(json), fmt::format("plan.json: '{}' is missing.", item.key()));
  }
  for (const auto& item : whole["stages"][1].items()) {
    Json json = whole;
    json["stages"][1].erase(item.key());
    EXPECT_EQ(error_of(json), fmt::format("plan.json: stages[1]: '{}' is missing.", item.key()));
  }
}

TEST_F(TwoStagePlan, NamesThePlaceOfWhatHasTheWrongType) {
  const auto with = [&](const char* key, Json value) {
    Json json = to_json(plan);
    json["stages"][1][key] = std::move(value);
    return error_of(json);
  };
  EXPECT_EQ(with("submesh", Json::array({1, 2.5})),
            "plan.json: stages[1].submesh[1]: a whole number was expected, not 2.5.");
  EXPECT_EQ(with("submesh", Json::array({1})),
            "plan.json: stages[1].submesh: [hosts, devices per host] or [hosts, devices per host, group of hosts] was "
            "expected, not "
            "1 numbers.");
  EXPECT_EQ(with("devices", "all"), "plan.json: stages[1].devices: a list of whole numbers was expected.");
  EXPECT_NE(with("devices", Json::array({18446744073709551615ull}))
                .find("stages[1].devices[0]: 18446744073709551615 is out of"),
            std::string::npos);
  EXPECT_NE(with("forward_s", -1.0).find("stages[1].forward_s: a number from 0 upwards"), std::string::npos);
  EXPECT_NE(with("inputs", {{"x", "Q"}}).find("stages[1].inputs.x: 'Q' is not a sharding spec"), std::string::npos);
  EXPECT_NE(with("ops", Json::array()).find("stages[1].ops: an object was expected"), std::string::npos);
}

TEST_F(TwoStagePlan, RefusesAMemberItDoesNotKnow) {
  Json json = to_json(plan);
  json["stages"][0]["device"] = 3;
  EXPECT_EQ(
      error_of(json).find("plan.json: stages[0]: 'device' is not a member of a plan; the nearest known are devices"),
      0u);
}

TEST_F(TwoStagePlan, RefusesAnUnknownScheduleAtItsPlace) {
  Json json = to_json(plan);
  json["schedule"] = "1f1c";
  EXPECT_EQ(error_of(json).find("plan.json: schedule: "), 0u);
  json = to_json(plan);
  json["training"]["optimizer"] = "adamw";
  EXPECT_EQ(error_of(json),
            "plan.json: training.optimizer: unknown name 'adamw'; expected sgd, momentum, adam or adafactor.");
}

TEST_F(TwoStagePlan, RefusesABatchThatDoesNotDivide) {
  Json json = to_json(plan);
  json["training"]["microbatches"] = 3;
  EXPECT_EQ(error_of(json), "plan.json: training: a batch of 8 cannot be divided into 3 micro-batches.");
}

// --- check_plan ---

TEST_F(TwoStagePlan, IsSound) { EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{}); }

TEST_F(TwoStagePlan, StaysSoundWhenSplitEvenly) {
  plan.stages[0].ops["blk0.up"] = {{{"mlp", AxisMask{2}}}, spec_from_text("RS1", "test")};
  plan.stages[0].parameters["blk0.up/blk0.up.weight"] = {spec_from_text("RS1", "test"), spec_from_text("S1R", "test")};
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
}

TEST_F(TwoStagePlan, IsRefusedForAnotherModel) {
  plan.graph_fingerprint = "0123456789abcdef";
  EXPECT_EQ(complaint().find("the plan was made for another model or another version of it"), 0u);
}

TEST_F(TwoStagePlan, NeedsEveryLayerOnceAndInOrder) {
  plan.stages[1].first_layer = 0;
  EXPECT_EQ(complaint(), "stage 1 begins with layer 0, but layer 1 is next");
  plan.stages[1].first_layer = 1;
  plan.stages.pop_back();
  EXPECT_EQ(complaint(), "layers 1..1 belong to no stage");
}

TEST_F(TwoStagePlan, CannotNameALayerThatDoesNotExist) {
  plan.stages[1].last_layer = 2;
  EXPECT_EQ(complaint(), "stage 1 names layer 2, but the plan has layers 0..1");
}

TEST_F(TwoStagePlan, NeedsLayersThatStartInOrderInsideTheModel) {
  plan.layer_starts = {0, 7};
  EXPECT_EQ(complaint(), "layer 1 starts at forward op 7, but the model has only 7");
  plan.layer_starts = {1, 3};
  EXPECT_EQ(complaint(), "the first layer must start at forward op 0");
  plan.layer_starts = {0, 0};
  EXPECT_EQ(complaint(), "layer 1 starts at forward op 0, not after layer 0 (op 0)");
}

TEST_F(TwoStagePlan, CannotShareADeviceBetweenStages) {
  plan.stages[1].devices = {1, 2};
  EXPECT_EQ(complaint(), "device 1 belongs to stage 0 and to stage 1");
}

TEST_F(TwoStagePlan, CannotUseADeviceTheClusterLacks) {
  plan.cluster.only().hosts = 2;  // 2 x 4: device 8 would be on a third host
  plan.stages[1].devices = {8, 9};
  const std::vector<std::string> violations = check_plan(plan, graph);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0], "stage 1 uses device 8, but cluster cpu:4 has devices 0..7");
}

TEST_F(TwoStagePlan, NeedsDevicesThatLieAsTheSubmeshSays) {
  plan.cluster.only().hosts = 2;
  plan.stages[1].devices = {3, 4};  // one on each host, but the submesh is 1x2
  EXPECT_EQ(complaint(), "stage 1: its devices are not on 1 hosts with 2 each");
}

TEST_F(TwoStagePlan, NeedsAMeshOfAsManyDevicesAsTheSubmesh) {
  plan.stages[1].logical_shape = {2, 2};
  EXPECT_EQ(complaint(), "stage 1: a submesh of 2 devices, a logical mesh of 4 and a list of 2 must agree");
  plan.stages[1].logical_shape = {1, 2};
  plan.stages[1].submesh = {1, 5};
  EXPECT_EQ(complaint(), "stage 1 has a submesh of 1x5, but the cluster is 1x4");
}
TEST_F(TwoStagePlan, MustSplitSequencesOverItsRings) {
  plan.stages[0].contexts.rings = 4;
  EXPECT_EQ(complaint(), "stage 0: its rings and exchanges must be different axes of its logical mesh of 2 axes");
  plan.stages[0].contexts = {.rings = 2, .exchanges = 2};
  EXPECT_EQ(complaint(), "stage 0: its rings and exchanges must be different axes of its logical mesh of 2 axes");
  plan.stages[0].contexts = {.rings = 2, .exchanges = 0};
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
  plan.stages[0].ops.at("blk0.up") = {{{"batch", 2}}, {{2, 0}, 0}};
  EXPECT_NE(join(check_plan(plan, graph), "").find("op 'blk0.up': its batch is split over a mesh axis of rings"),
            std::string::npos);
}

TEST_F(TwoStagePlan, MustSayHowEveryOpParameterAndInputLies) {
  const StagePlan whole = plan.stages[1];
  plan.stages[1].ops.erase("blk0.down");
  EXPECT_EQ(complaint(), "stage 1 has no decision for op 'blk0.down'");
  plan.stages[1] = whole;
  plan.stages[1].parameters.erase("blk0.down/blk0.down.weight");
  EXPECT_EQ(complaint(), "stage 1 has no sharding for the parameter 'blk0.down/blk0.down.weight'");
  plan.stages[1] = whole;
  plan.stages[1].inputs.clear();
  EXPECT_EQ(complaint().find("stage 1 has no sharding for the tensor '"), 0u);
}

TEST_F(TwoStagePlan, CannotMentionWhatIsNotInItsLayers) {
  plan.stages[0].ops["blk0.down"] = plan.stages[1].ops["blk0.down"];
  EXPECT_EQ(complaint(), "stage 0 lists the op 'blk0.down', which is not in its layers");
  plan.stages[0].ops.erase("blk0.down");
  plan.stages[0].inputs["y"] = replicated(2);
  EXPECT_EQ(complaint(), "stage 0 lists the input 'y', which is not in its layers");
}

TEST_F(TwoStagePlan, CannotSplitWhatDoesNotDivide) {
  plan.cluster.only().devices_per_host = 8;
  plan.stages[1].submesh = {1, 5};
  plan.stages[1].logical_shape = {1, 5};
  plan.stages[1].devices = {2, 3, 4, 5, 6};
  plan.stages[1].ops["blk0.down"].result = spec_from_text("RS1", "test");  // 6 columns over 5
  EXPECT_EQ(complaint(),
            "stage 1, the result of op 'blk0.down', spec RS1, dimension 'embed': 6 does not divide into 5 shards");
  // What is kept of a parameter is padded.
  plan.stages[1].ops["blk0.down"].result = replicated(2);
  plan.stages[1].parameters["blk0.down/blk0.down.weight"].weight = spec_from_text("S1R", "test");  // 24 rows over 5
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
}

TEST_F(TwoStagePlan, CannotSplitOverAMeshAxisThatDoesNotExist) {
  plan.stages[0].ops["blk0.up"].axes["mlp"] = AxisMask{4};
  EXPECT_EQ(complaint(), "stage 0, op 'blk0.up', axis 'mlp': mesh axis 2 does not exist; the logical mesh has 2 axes");
}

TEST_F(TwoStagePlan, CannotSplitOverAMeshAxisOfOneDevice) {
  plan.stages[0].ops["blk0.up"].result = spec_from_text("S0R", "test");  // the logical mesh is 1x2
  EXPECT_EQ(complaint(),
            "stage 0, the result of op 'blk0.up', spec S0R, dimension 'batch': mesh axis 0 has one device, so nothing "
            "can be split over it");
}

TEST_F(TwoStagePlan, CannotSplitTwoAxesOverOneMeshAxis) {
  plan.stages[0].ops["blk0.up"].axes = {{"batch", AxisMask{2}}, {"mlp", AxisMask{2}}};
  EXPECT_EQ(complaint(), "stage 0, op 'blk0.up': a mesh axis splits two of its axes");
}

TEST_F(TwoStagePlan, CannotSplitAnAxisTheOpLacks) {
  plan.stages[0].ops["blk0.up"].axes["vocab"] = AxisMask{2};
  EXPECT_EQ(complaint(), "stage 0, op 'blk0.up': it has no axis 'vocab'");
}

TEST_F(TwoStagePlan, NeedsSpecsOfTheTensorsRank) {
  plan.stages[0].ops["blk0.up"].result = spec_from_text("R", "test");
  EXPECT_EQ(complaint(), "stage 0, the result of op 'blk0.up': spec R has 1 dimensions, the tensor has 2");
}

// --- partial sums ---

TEST_F(TwoStagePlan, KeepsAResultAsThePartialSumsItIsMadeAs) {
  plan.stages[0].ops["blk0.up"] = {{{"embed", AxisMask{2}}}, spec_from_text("RR+P1", "test")};
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
}

TEST_F(TwoStagePlan, CannotKeepPartialSumsThatAreNotMade) {
  plan.stages[0].ops["blk0.up"].result = spec_from_text("RR+P1", "test");
  EXPECT_EQ(complaint(), "stage 0, op 'blk0.up': its result is produced as RR, so it cannot be stored as RR+P1");
  plan.stages[0].ops["blk0.up"] = {{{"mlp", AxisMask{2}}}, spec_from_text("RR+P1", "test")};
  EXPECT_EQ(complaint(), "stage 0, op 'blk0.up': its result is produced as RS1, so it cannot be stored as RR+P1");
}

TEST_F(TwoStagePlan, CannotSendPartialSumsToAnotherStage) {
  plan.stages[1].ops["blk0.down"] = {{{"mlp", AxisMask{2}}}, spec_from_text("RR+P1", "test")};
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
  const std::string sent = name_of_result(graph, forward_op(2));
  plan.stages[0].ops[forward_op(2).name].result = spec_from_text("RR+P1", "test");
  const std::vector<std::string> violations = check_plan(plan, graph);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[1],
            "stage 0, op '" + forward_op(2).name + "': its result goes to another stage and cannot stay a partial sum");
}

TEST_F(TwoStagePlan, CannotReceivePartialSums) {
  plan.stages[1].inputs.begin()->second = spec_from_text("RR+P1", "test");
  EXPECT_NE(complaint().find("spec RR+P1 leaves a partial sum"), std::string::npos);
}

TEST_F(TwoStagePlan, CannotKeepParametersAsPartialSums) {
  plan.stages[0].parameters["blk0.up/blk0.up.weight"].weight = spec_from_text("RR+P1", "test");
  EXPECT_EQ(complaint(), "stage 0, weight 'blk0.up/blk0.up.weight': spec RR+P1 leaves a partial sum");
}

// A bias would be added on every device, and a rectifier does not distribute over a sum.
TEST_F(TwoStagePlan, CannotPutPartialSumsThroughAnOpThatIsNotLinear) {
  for (const std::size_t i : {1u, 2u}) {
    const OpSharding whole = plan.stages[0].ops.at(forward_op(i).name);
    plan.stages[0].ops[forward_op(i).name].partial = AxisMask{2};
    EXPECT_EQ(complaint(), fmt::format("stage 0, op '{}': a {} cannot work on partial sums", forward_op(i).name,
                                       name_of(forward_op(i).kind)));
    plan.stages[0].ops[forward_op(i).name] = whole;
  }
}

}  // namespace
}  // namespace meshwright::plan_test
