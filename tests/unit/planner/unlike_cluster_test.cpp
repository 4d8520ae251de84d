// SPDX-License-Identifier: Apache-2.0
// Clusters whose hosts are not all alike, from the file to the simulated step.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/find_model.h"
#include "core/plan/lowering/lower.h"
#include "core/plan/plan.h"
#include "core/plan/program/check_program.h"
#include "costmodel/cost_models.h"
#include "simulator/program/program_costs.h"
#include "tests/refusal.h"
#include "tests/truth/instruction_engines.h"

namespace meshwright::unlike_cluster_test {
namespace {

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Devices of 100 times `rate` flop/s and 10 times `rate` byte/s, after efficiencies; a link within a host takes 1 s per
// byte, the network 10 * slowness.
HostGroup hosts(int count, int devices_per_host, const std::string& device, double rate, double slowness) {
  HostGroup group;
  group.hosts = count;
  group.devices_per_host = devices_per_host;
  group.device.name = device;
  group.device.peak = {{"f32", FlopsPerSecond(200 * rate)}};
  group.device.matmul_efficiency = 0.5;
  group.device.memory_bandwidth = BytesPerSecond(40 * rate);
  group.device.memory_efficiency = 0.25;
  group.device.memory = Bytes(1e6 * rate);
  group.device.usable_memory = 0.5;
  group.device.launch = Seconds(0);
  group.within_host = {Seconds(0), SecondsPerByte(1)};
  group.between_hosts = {Seconds(0), SecondsPerByte(10 * slowness)};
  return group;
}

// Host 0: devices 0..3 | hosts 1, 2: devices 4, 5 and 6, 7 | host 3: device 8.
Cluster three_kinds() {
  return {"three kinds", {hosts(1, 4, "wide", 8, 1), hosts(2, 2, "narrow", 2, 3), hosts(1, 1, "lone", 1, 7)}};
}

// --- numbers ---

TEST(UnlikeCluster, NumbersHostsGroupByGroupAndDevicesHostByHost) {
  const Cluster cluster = three_kinds();
  EXPECT_FALSE(cluster.uniform());
  EXPECT_THROW((void)cluster.only(), InternalError);
  EXPECT_EQ(cluster.hosts(), 4);
  EXPECT_EQ(cluster.devices(), 9);
  EXPECT_EQ(cluster.first_host(2), 3);
  EXPECT_EQ(cluster.first_device(2), 8);
  std::vector<int> group_of_host, group_of_device, host_of_device;
  for (int host = 0; host < 4; ++host) group_of_host.push_back(cluster.group_of_host(host));
  for (int device = 0; device < 9; ++device) {
    group_of_device.push_back(cluster.group_of_device(device));
    host_of_device.push_back(cluster.host_of_device(device));
  }
  EXPECT_EQ(group_of_host, (std::vector<int>{0, 1, 1, 2}));
  EXPECT_EQ(group_of_device, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2}));
  EXPECT_EQ(host_of_device, (std::vector<int>{0, 0, 0, 0, 1, 1, 2, 2, 3}));
  EXPECT_THROW((void)cluster.host_of_device(9), InternalError);
  EXPECT_THROW((void)cluster.group_of_host(-1), InternalError);
}

TEST(UnlikeCluster, GivesEachDeviceTheMemoryOfItsKind) {
  const Cluster cluster = three_kinds();
  EXPECT_EQ(cluster.usable_memory_of(3), Bytes(4e6));
  EXPECT_EQ(cluster.usable_memory_of(4), Bytes(1e6));
  EXPECT_EQ(cluster.usable_memory_of(8), Bytes(5e5));
}

// --- names ---

TEST(JoinedPresets, AreGroupsInTheOrderOfTheName) {
  const Cluster cluster = find_cluster("dgx-a100:1+p3.16xlarge:2");
  EXPECT_EQ(cluster.name, "dgx-a100:1+p3.16xlarge:2");
  ASSERT_EQ(cluster.groups.size(), 2u);
  EXPECT_EQ(cluster.group(0).device.name, "A100-SXM4-80GB");
  EXPECT_EQ(cluster.group(1).device.name, "V100-SXM2-16GB");
  EXPECT_EQ(cluster.group(1).hosts, 2);
  EXPECT_EQ(cluster.devices(), 24);
}

TEST(JoinedPresets, OfOneKindAreOneGroup) {
  const Cluster cluster = find_cluster("p3.16xlarge:2+dgx-a100+p3.16xlarge:3");
  EXPECT_EQ(cluster.name, "p3.16xlarge:5+dgx-a100:1");
  EXPECT_EQ(cluster.groups.size(), 2u);
  const Cluster alike = find_cluster("dgx-h100:1+dgx-h100:3");
  EXPECT_EQ(to_json(alike), to_json(find_cluster("dgx-h100:4")));
}

TEST(JoinedPresets, AreRefusedNamingThePartThatIsWrong) {
  const auto says = [](const char* name) { return refusal([&] { (void)find_cluster(name); }); };
  EXPECT_SAYS(says("dgx-a100:1+p3.16xlrage:2"), "cluster 'dgx-a100:1+p3.16xlrage:2': unknown cluster 'p3.16xlrage:2'");
  EXPECT_SAYS(says("dgx-a100:1+p3.16xlrage:2"), "p3.16xlarge:N");
  EXPECT_SAYS(says("dgx-a100:0+p3.16xlarge:2"), "cluster 'dgx-a100:0': 0 is out of range");
  EXPECT_SAYS(says("dgx-a100:1+"), "one of its parts is empty");
  EXPECT_SAYS(says("+dgx-a100:1"), "one of its parts is empty");
  EXPECT_SAYS(says("dgx-a100:1+cpu:2"), "'cpu:2' is this machine and cannot be joined with others");
  EXPECT_SAYS(says("dgx-a100:4096+p3.16xlarge:1"), "has 4097 hosts; at most 4096 are supported");
}

TEST(TakePart, OfUnlikeHostsTakesAsManyDevicesOfEach) {
  const Cluster part = take_part(find_cluster("dgx-a100:1+p3.16xlarge:2"), 0, 4);
  EXPECT_EQ(part.name, "dgx-a100:1+p3.16xlarge:2[1x4+2x4]");
  EXPECT_EQ(part.group(0).devices(), 4);
  EXPECT_EQ(part.group(1).devices(), 8);
  EXPECT_EQ(take_part(three_kinds(), 0, 0).name, "three kinds");
}

TEST(TakePart, OfUnlikeHostsRefusesWhatCouldMeanTwoThings) {
  EXPECT_EQ(refusal([] { (void)take_part(three_kinds(), 2, 0); }),
            "cluster 'three kinds' has 3 host groups, so it is unclear which 2 hosts to take; give the hosts by group, "
            "such as dgx-a100:1+p3.16xlarge:2.");
  EXPECT_EQ(refusal([] { (void)take_part(three_kinds(), 0, 2); }),
            "cluster 'three kinds' has 1 devices per host in one of its groups, but 2 were requested; give 1 to 1.");
}

// --- files ---

std::string file_refusal(const Json& json) {
  return refusal([&] { (void)cluster_from_json(json, "my.json"); });
}

TEST(UnlikeClusterJson, ReadsBackWhatItWrote) {
  const Json json = to_json(three_kinds());
  EXPECT_EQ(json["groups"].size(), 3u);
  EXPECT_FALSE(json.contains("hosts"));
  const Cluster back = cluster_from_json(json, "here");
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_EQ(back.name, "three kinds");
  EXPECT_EQ(back.group(1).device.name, "narrow");
  EXPECT_NEAR(back.group(2).between_hosts.beta.si(), 70, 1e-9);
}

TEST(UnlikeClusterJson, OfOneGroupIsWrittenAsAClusterOfLikeHosts) {
  const Json alike = to_json(find_cluster("dgx-a100:2"));
  EXPECT_FALSE(alike.contains("groups"));
  Json listed = {{"format", "meshwright-cluster"}, {"version", 1}, {"name", "dgx-a100:2"}};
  Json group = alike;
  for (const char* key : {"format", "version", "name"}) group.erase(key);
  listed["groups"] = Json::array({group});
  EXPECT_EQ(to_json(cluster_from_json(listed, "here")).dump(), alike.dump());
}

TEST(UnlikeClusterJson, KeepsGroupsThatAreEqual) {
  Json json = to_json(three_kinds());
  json["groups"][1] = json["groups"][0];
  EXPECT_EQ(to_json(cluster_from_json(json, "here")).dump(), json.dump());
}

TEST(UnlikeClusterJson, IsOneFormOrTheOther) {
  Json json = to_json(three_kinds());
  json["devices_per_host"] = 4;
  EXPECT_EQ(file_refusal(json), "my.json: 'devices_per_host' is given beside 'groups'; give it in each group instead.");
}

TEST(UnlikeClusterJson, NamesThePlaceOfWhatIsWrong) {
  Json json = to_json(three_kinds());
  json["groups"][1]["within_host"]["bandwidth_bytes_per_s"] = 0;
  EXPECT_SAYS(file_refusal(json), "my.json: groups[1]: within_host: 'bandwidth_bytes_per_s' is 0; a positive number");
  json = to_json(three_kinds());
  json["groups"][2]["name"] = "lone ones";
  EXPECT_SAYS(file_refusal(json), "my.json: groups[2]: unknown member 'name'");
  json = to_json(three_kinds());
  json["groups"][0].erase("device");
  EXPECT_SAYS(file_refusal(json), "my.json: groups[0]: 'device' is missing");
  json["groups"] = Json::array();
  EXPECT_SAYS(file_refusal(json), "my.json: 'groups' must be a list of at least one group");
  json["groups"] = Json::array({1});
  EXPECT_SAYS(file_refusal(json), "my.json: groups[0]: an object was expected");
  json = to_json(three_kinds());
  json["group"] = json["groups"];
  json.erase("groups");
  EXPECT_SAYS(file_refusal(json), "unknown member 'group'; the nearest known are groups,");
}

TEST(UnlikeClusterJson, HasNoMoreHostsInAllThanOneGroupMayHave) {
  Json json = to_json(three_kinds());
  json["groups"][0]["hosts"] = 4093;
  EXPECT_EQ(cluster_from_json(json, "my.json").hosts(), 4096);  // 4093 + 2 + 1
  json["groups"][1]["hosts"] = 3;
  EXPECT_SAYS(file_refusal(json), "my.json: groups[2]: up to here there are 4097 hosts; at most 4096 are supported");
}

TEST(UnlikeClusterJson, TheExampleIsThePresetsJoined) {
  const std::filesystem::path tests = std::filesystem::path(__FILE__).parent_path();
  const Cluster read = find_cluster(tests / "../../../examples/clusters/8_a100_8_v100.json");
  Cluster joined = find_cluster("dgx-a100:1+p3.16xlarge:1");
  joined.name = read.name;
  ASSERT_EQ(read.groups.size(), 2u);
  for (std::size_t g = 0; g < 2; ++g)
    for (LinkCost HostGroup::*link : {&HostGroup::within_host, &HostGroup::between_hosts}) {
      EXPECT_DOUBLE_EQ((read.groups[g].*link).alpha.si(), (joined.groups[g].*link).alpha.si());
      (joined.groups[g].*link).alpha = (read.groups[g].*link).alpha;
    }
  EXPECT_EQ(to_json(read), to_json(joined));
}

// --- submeshes ---

TEST(UnlikeSubmeshes, AreEnumeratedGroupByGroup) {
  const std::vector<Submesh> expected = {{1, 1, 0}, {1, 2, 0}, {1, 4, 0}, {1, 1, 1}, {1, 2, 1}, {2, 2, 1}, {1, 1, 2}};
  EXPECT_EQ(enumerate_submeshes(three_kinds(), SubmeshSpace::PowerOfTwo), expected);
  EXPECT_EQ(enumerate_submeshes(three_kinds(), SubmeshSpace::All), expected);
}

TEST(UnlikeSubmeshes, HaveTheLinksOfTheirGroup) {
  Cluster cluster = three_kinds();
  cluster.groups[1].within_host.beta = SecondsPerByte(5);
  const LogicalMesh mesh = make_logical_mesh(cluster, {2, 2, 1}, {2, 2});
  EXPECT_EQ(mesh.axes[1].inner_link.beta, SecondsPerByte(5));
  EXPECT_EQ(mesh.axes[0].outer_link.beta, SecondsPerByte(60));  // 2 devices of a host x 30
  EXPECT_THROW((void)make_logical_mesh(cluster, {1, 1, 3}, {1}), InternalError);
}

TEST(UnlikeSubmeshes, AreTextWithTheGroupBehind) {
  EXPECT_EQ(to_text(Submesh{1, 4}), "1x4");
  EXPECT_EQ(to_text(Submesh{2, 8, 1}), "2x8@1");
  const std::vector<Submesh> listed = {{2, 2, 1}, {1, 4, 0}, {1, 1, 2}};
  EXPECT_EQ(submeshes_from_text("2x2@1,1x4,1x1@2", three_kinds()), listed);
}

TEST(UnlikeSubmeshes, AreRefusedNamingTheEntryThatIsWrong) {
  const auto says = [](const char* text) { return refusal([&] { (void)submeshes_from_text(text, three_kinds()); }); };
  EXPECT_EQ(says("1x4,1x"), "devices per host of submesh '1x': '' is not a whole number; give a number from 1 to 4.");
  EXPECT_EQ(says("1x4,2x2"), "hosts of submesh '2x2': 2 is out of range; give a number from 1 to 1.");
  EXPECT_EQ(says("1x4@1"), "devices per host of submesh '1x4@1': 4 is out of range; give a number from 1 to 2.");
  EXPECT_EQ(says("1x1@3"), "group of submesh '1x1@3': 3 is out of range; give a number from 0 to 2.");
  EXPECT_EQ(says("1x4,1x4@0"), "submesh '1x4@0': it is given twice; give it once.");
  EXPECT_SAYS(says("4"), "submesh '4': expected HOSTSxDEVICES such as 2x8");
  EXPECT_SAYS(says(""), "submesh '': expected HOSTSxDEVICES such as 2x8");
  EXPECT_SAYS(says("1x4,"), "submesh '': expected HOSTSxDEVICES such as 2x8");
}

TEST(UnlikeSubmeshes, FitOnlyTheirOwnGroup) {
  EXPECT_TRUE(fits({1, 4, 0}, three_kinds()));
  EXPECT_FALSE(fits({1, 4, 1}, three_kinds()));
  EXPECT_TRUE(fits({2, 2, 1}, three_kinds()));
  EXPECT_FALSE(fits({1, 1, 3}, three_kinds()));
  EXPECT_FALSE(fits({1, 1, -1}, three_kinds()));
  EXPECT_FALSE(fits({0, 1, 0}, three_kinds()));
}

// --- prices ---

TEST(UnlikePrices, AreThoseOfTheGroupAsked) {
  const auto costs = make_analytic_cost_model(three_kinds());
  const OpWork work{OpKind::Contract, DType::F32, Flops(800), Bytes(8), "contract f32 [a]->[a]"};
  EXPECT_EQ(costs->on(0).compute(work).time, Seconds(1));  // at 800 flop/s
  EXPECT_EQ(costs->on(1).compute(work).time, Seconds(4));
  EXPECT_EQ(costs->on(2).compute(work).time, Seconds(8));
  EXPECT_EQ(costs->compute(work).time, Seconds(1));  // of the first
  EXPECT_EQ(costs->on(2).on(2).compute(work).time, Seconds(8));
  EXPECT_EQ(costs->on(0).transfer(Bytes(2), true, 1).time, Seconds(20));
  EXPECT_EQ(costs->on(1).transfer(Bytes(2), true, 2).time, Seconds(120));  // two share a host's network
}

TEST(UnlikePrices, OfLikeHostsAreOneModel) {
  const auto costs = make_analytic_cost_model(find_cluster("dgx-a100:2"));
  EXPECT_EQ(&costs->on(0), costs.get());
}

// --- plans ---

// Forward ops: 0 blk0.up, 1 its bias_add, 2 its relu | 3 blk0.down, 4 its bias_add, 5 its relu, 6 loss. Layer 0 holds
// ops 0..2 on the "wide" devices 1 and 2, layer 1 ops 3..6 on the "narrow" 6 and 7. embed = 6, mlp = 24, 4 samples per
// microbatch.
class UnlikePlan : public ::testing::Test {
 protected:
  UnlikePlan() {
    plan.model = find_model("mlp:layers=1,hidden=6");
    plan.training.batch = 8;
    plan.training.microbatches = 2;
    graph = build_training_graph(plan.model, plan.training);
    plan.cluster = three_kinds();
    plan.method = "pipeshard";
    plan.layer_starts = {0, 3};
    plan.graph_fingerprint = fingerprint_of(graph);
    plan.stages = {stage(0, 0, 3, {1, 2}, {1, 2}), stage(1, 3, 7, {1, 2, 1}, {6, 7})};
    plan.stages[1].inputs[graph.tensor(forward_op(2).outputs.front()).name] = replicated(2);
  }

  [[nodiscard]] const Op& forward_op(std::size_t i) const { return graph.op(forward_ops(graph)[i]); }

  // Every tensor whole on both devices.
  StagePlan stage(int layer, std::size_t first_op, std::size_t end_op, Submesh submesh, std::vector<int> devices) {
    StagePlan made{layer, layer, submesh, {1, 2}, std::move(devices), {}, {}, {}};
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

  std::string complaint() {
    const std::vector<std::string> violations = check_plan(plan, graph);
    EXPECT_EQ(violations.size(), 1u) << join(violations, "\n");
    return violations.empty() ? "" : violations.front();
  }

  // Seconds of an executable without the overhead of running it.
  double forward_seconds(std::size_t s, const CostModel& costs) {
    const Program program = lower(plan, graph, costs);
    const ProgramCosts priced = program_costs(program, costs);
    return to_seconds(priced.times.executable[static_cast<std::size_t>(*program.stages[s].forward)]).si();
  }

  Plan plan;
  Graph graph;
};

TEST_F(UnlikePlan, IsSoundAndComesBackFromItsFile) {
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
  const Json json = to_json(plan);
  EXPECT_EQ(json["stages"][0]["submesh"], Json::array({1, 2}));
  EXPECT_EQ(json["stages"][1]["submesh"], Json::array({1, 2, 1}));
  const Plan back = plan_from_json(json, "plan.json");
  EXPECT_EQ(back.stages[1].submesh, (Submesh{1, 2, 1}));
  EXPECT_EQ(to_json(back).dump(), json.dump());
}

TEST_F(UnlikePlan, IsRefusedWhereASubmeshIsNoListOfTwoOrThree) {
  Json json = to_json(plan);
  json["stages"][0]["submesh"] = {1};
  EXPECT_SAYS(
      refusal([&] { (void)plan_from_json(json, "plan.json"); }),
      "plan.json: stages[0].submesh: [hosts, devices per host] or [hosts, devices per host, group of hosts] was");
  json["stages"][0]["submesh"] = {0, 2};
  EXPECT_SAYS(refusal([&] { (void)plan_from_json(json, "plan.json"); }), "stages[0].submesh: 0x2 is not a submesh");
}

TEST_F(UnlikePlan, NeedsDevicesOfTheGroupOfItsSubmesh) {
  plan.stages[1].devices = {3, 4};  // 3 is "wide"
  EXPECT_EQ(complaint(), "stage 1: device 3 is of group 0 of the cluster, its submesh 1x2@1 of group 1");
  plan.stages[1].devices = {5, 6};  // on two hosts
  EXPECT_EQ(complaint(), "stage 1: its devices are not on 1 hosts with 2 each");
}

TEST_F(UnlikePlan, NeedsASubmeshWithinItsGroup) {
  plan.stages[1].submesh = {1, 4, 1};
  EXPECT_EQ(complaint(), "stage 1 has a submesh of 1x4@1, but group 1 of the cluster is 2x2");
  plan.stages[1].submesh = {1, 2, 3};
  EXPECT_EQ(complaint(), "stage 1 has a submesh of 1x2@3, but the cluster's groups of hosts are 0..2");
}

// The same ops on both kinds: "wide" is four times as fast in flops and in bytes.
TEST_F(UnlikePlan, TakesEachStagesTimesFromItsOwnDevices) {
  const auto costs = make_analytic_cost_model(plan.cluster);
  const double first = forward_seconds(0, *costs), second = forward_seconds(1, *costs);
  plan.stages[0].submesh = {1, 2, 1};
  plan.stages[0].devices = {4, 5};
  EXPECT_EQ(check_plan(plan, graph), std::vector<std::string>{});
  EXPECT_NEAR(forward_seconds(0, *costs), 4 * first, 1e-9);
  EXPECT_NEAR(forward_seconds(1, *costs), second, 1e-9);
}

TEST_F(UnlikePlan, SendsBetweenGroupsAtTheRateOfTheSlowerNetwork) {
  const auto costs = make_analytic_cost_model(plan.cluster);
  const Program program = lower(plan, graph, *costs);
  EXPECT_EQ(check_program(program).violations, std::vector<std::string>{});
  const ProgramCosts priced = program_costs(program, *costs);
  ASSERT_FALSE(program.transfers.empty());
  for (std::size_t t = 0; t < program.transfers.size(); ++t) {
    EXPECT_TRUE(program.transfers[t].hosts_apart);
    // 30 s per byte on the "narrow" side against 10, for two devices of a host at once, there and back.
    EXPECT_NEAR(to_seconds(priced.times.transfer[t]).si(), 2 * 30 * program.transfers[t].bytes.si(), 1e-9);
  }
}

TEST_F(UnlikePlan, IsSimulatedWithItsOwnTimes) {
  const auto costs = make_analytic_cost_model(plan.cluster);
  const Program program = lower(plan, graph, *costs);
  const ProgramCheck check = check_program(program);
  const ProgramCosts priced = program_costs(program, *costs);
  const Timeline timeline = simulate_in_order(program, check.order, priced.times).timeline;
  EXPECT_EQ(simulate_by_events(program, priced.times).timeline.end, timeline.end);
  for (const Span& span : timeline.spans) {
    if (span.kind != Span::Kind::Forward) continue;
    const int forward = *program.stages[span.stage.index()].forward;
    EXPECT_EQ(span.end - span.begin, priced.times.executable[static_cast<std::size_t>(forward)]);
  }
}

}  // namespace
}  // namespace meshwright::unlike_cluster_test
