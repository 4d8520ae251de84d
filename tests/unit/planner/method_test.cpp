// SPDX-License-Identifier: Apache-2.0
// Parallel methods as the user writes them, and where stages are placed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/graph/import/find_model.h"
#include "core/planner/make_plan.h"
#include "core/planner/placement/placement.h"
#include "tests/refusal.h"

namespace meshwright::method_test {
namespace {

std::string complaint_about(const std::string& text) {
  return refusal([&] { (void)method_from_text(text); });
}

// --- texts ---

TEST(MethodText, NamesAreTheMethods) {
  using K = Method::Kind;
  for (const auto& [text, kind] :
       {std::pair{"pipeshard", K::Pipeshard}, std::pair{"shard", K::Shard}, std::pair{"data", K::Data},
        std::pair{"zero2", K::Zero2}, std::pair{"zero3", K::Zero3}}) {
    EXPECT_EQ(method_from_text(text).kind, kind);
    EXPECT_EQ(method_from_text(text).text, text);
  }
}
TEST(MethodText, MegatronTakesItsDegreesInAnyOrder) {
  const Method all = method_from_text("megatron:pp=4,tp=8,dp=2");
  EXPECT_EQ(all.kind, Method::Kind::Megatron);
  EXPECT_EQ(all.dp, 2);
  EXPECT_EQ(all.tp, 8);
  EXPECT_EQ(all.pp, 4);
  const Method some = method_from_text("megatron:tp=2");
  EXPECT_EQ(some.dp, 0);  // what is left
  EXPECT_EQ(some.pp, 1);
  EXPECT_EQ(some.text, "megatron:tp=2");
}

TEST(MethodText, ExpertsAreSplitAsTheRestOrNotAtAll) {
  EXPECT_EQ(method_from_text("megatron:tp=2,etp=2,exact=1").etp, 2);
  EXPECT_EQ(method_from_text("megatron:tp=2,ep=4,etp=1,exact=1").etp, 1);
  EXPECT_NE(complaint_about("megatron:tp=2,ep=3,etp=1,exact=1")
                .find("with etp=1 the ep=3 ranks of experts hold those of tp=2"),
            std::string::npos);
  EXPECT_NE(complaint_about("megatron:tp=4,ep=4,etp=2,exact=1").find("etp=2 is neither 1 nor tp=4"), std::string::npos);
}
TEST(MethodText, ZeroTakesTheDevicesItSplitsOver) {
  for (const auto& [text, kind] :
       {std::pair{"zero1:shard=4", Method::Kind::Zero1}, std::pair{"zero2:shard=4", Method::Kind::Zero2},
        std::pair{"zero3:shard=4", Method::Kind::Zero3}, std::pair{"fsdp:shard=4", Method::Kind::Zero3}}) {
    const Method method = method_from_text(text);
    EXPECT_EQ(method.kind, kind);
    EXPECT_EQ(method.shard, 4);
    EXPECT_EQ(method.text, text);
    EXPECT_EQ(logical_shape_of(method, 12, "c"), (std::vector<int>{3, 4}));  // copies x shard
    EXPECT_EQ(refusal([&] { (void)logical_shape_of(method, 6, "six"); }),
              fmt::format("method '{}': 6 devices of six do not divide into shard=4.", text));
  }
}

struct RefusedMethod : testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(RefusedMethod, IsQuotedWithWhatIsWrong) {
  const auto& [text, what] = GetParam();
  const std::string complaint = complaint_about(text);
  EXPECT_NE(complaint.find(what), std::string::npos) << text << ": " << complaint;
  EXPECT_NE(complaint.find(text), std::string::npos) << text << ": " << complaint;
}
INSTANTIATE_TEST_SUITE_P(Names, RefusedMethod,
                         testing::Values(std::pair{"", "unknown method"}, std::pair{"pipeshar", "pipeshard"},
                                         std::pair{"Data", "data"}, std::pair{"shard:2", "unknown method"},
                                         std::pair{"megatron", "megatron:tp=8,pp=4"},
                                         std::pair{"megatron:", "unknown method"},
                                         std::pair{"manual:", "manual:FILE"}));
INSTANTIATE_TEST_SUITE_P(MegatronKeys, RefusedMethod,
                         testing::Values(std::pair{"megatron:tp", "not KEY=NUMBER"},
                                         std::pair{"megatron:tp=2,", "not KEY=NUMBER"},
                                         std::pair{"megatron:tp=2=3", "not KEY=NUMBER"},
                                         std::pair{"megatron:xp=2", "unknown key 'xp'"},
                                         std::pair{"megatron:tp=0", "from 1"}, std::pair{"megatron:tp=-2", "tp"},
                                         std::pair{"megatron:tp=two", "not a whole number"},
                                         std::pair{"megatron:pp=1.5", "pp"}, std::pair{"megatron:pp=65537", "65536"}));
INSTANTIATE_TEST_SUITE_P(ZeroKeys, RefusedMethod,
                         testing::Values(std::pair{"zero3:8", "not KEY=NUMBER; write zero3:shard=8."},
                                         std::pair{"zero3:", "write zero3:shard=8."},
                                         std::pair{"zero2:tp=8", "unknown key 'tp'; the only key is shard"},
                                         std::pair{"fsdp:shard=0", "from 1"},
                                         std::pair{"data:shard=8", "unknown method"}));
// Which of the two would be meant?
INSTANTIATE_TEST_SUITE_P(MegatronKeyTwice, RefusedMethod, testing::Values(std::pair{"megatron:tp=2,tp=4", "tp"}));

// --- files of stages ---

class ManualFile : public testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  Method read(const std::string& contents) {
    write_file(path_, contents);
    return method_from_text("manual:" + path_);
  }
  // The complaint must begin with the place.
  std::string complaint(const std::string& contents) {
    write_file(path_, contents);
    const std::string said = complaint_about("manual:" + path_);
    EXPECT_EQ(said.rfind(path_, 0), 0u) << contents << ": " << said;
    return said;
  }
  static std::string stage(const std::string& layers, const std::string& submesh, const std::string& shape) {
    return R"({"layers": )" + layers + R"(, "submesh": )" + submesh + R"(, "logical_shape": )" + shape + "}";
  }
  static std::string stages(const std::string& list) { return R"({"stages": [)" + list + "]}"; }
  const std::string path_ = testing::TempDir() + "stages_" + std::to_string(getpid()) + ".json";
};

TEST_F(ManualFile, GivesLayersSubmeshesAndShapes) {
  const Method method = read(stages(stage("[0, 2]", "[1, 4]", "[2, 2]") + "," + stage("[3, 3]", "[2, 8]", "[16]")));
  EXPECT_EQ(method.kind, Method::Kind::Manual);
  ASSERT_EQ(method.stages.size(), 2u);
  EXPECT_EQ(method.stages[0].last_layer, 2);
  EXPECT_EQ(method.stages[0].submesh, (Submesh{1, 4}));
  EXPECT_EQ(method.stages[1].first_layer, 3);
  EXPECT_EQ(method.stages[1].logical_shape, (std::vector<int>{16}));
}

TEST_F(ManualFile, NeedsAListOfStages) {
  EXPECT_NE(complaint("{}").find("'stages'"), std::string::npos);
  EXPECT_NE(complaint(R"({"stages": {}})").find("list"), std::string::npos);
  EXPECT_NE(complaint(R"({"stages": []})").find("at least one"), std::string::npos);
  EXPECT_THROW((void)method_from_text("manual:/nowhere/stages.json"), SystemError);
  EXPECT_FALSE(complaint("{").empty());
}
TEST_F(ManualFile, NeedsLayersThatFollowEachOther) {
  EXPECT_NE(complaint(stages(stage("[1, 0]", "[1, 1]", "[1]"))).find("[first, last]"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0]", "[1, 1]", "[1]"))).find("[first, last]"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[1, 2]", "[1, 1]", "[1]"))).find("layer 0 comes next"), std::string::npos);
  const std::string gap = stages(stage("[0, 1]", "[1, 1]", "[1]") + "," + stage("[3, 4]", "[1, 1]", "[1]"));
  EXPECT_NE(complaint(gap).find("stages[1]: begins at layer 3, but layer 2 comes next"), std::string::npos);
}
TEST_F(ManualFile, NeedsAShapeOfTheSubmeshesDevices) {
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[1, 4]", "[2, 4]"))).find("8 devices, 'submesh' 4"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[1, 4]", "[0, 4]"))).find("size of 0"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[4]", "[4]"))).find("'submesh'"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[0, 4]", "[4]"))).find("'submesh'"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[1, 0]", "[0]"))).find("'submesh'"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[1, 2]", R"("1x2")"))).find("'logical_shape'"), std::string::npos);
}
TEST_F(ManualFile, GivesABatchAxisToTheStagesThatNameOne) {
  const std::string held = R"({"layers": [0, 1], "submesh": [1, 2], "logical_shape": [2, 1], "batch_axis": 0})";
  const Method method = read(stages(held + "," + stage("[2, 3]", "[1, 2]", "[2, 1]")));
  ASSERT_EQ(method.stages.size(), 2u);
  EXPECT_EQ(method.stages[0].batch_axis, 0);
  EXPECT_EQ(method.stages[1].batch_axis, std::nullopt);
}
TEST_F(ManualFile, NeedsABatchAxisOfTheShape) {
  const auto with = [](const std::string& axis) {
    return stages(R"({"layers": [0, 1], "submesh": [1, 4], "logical_shape": [2, 2], "batch_axis": )" + axis + "}");
  };
  EXPECT_EQ(read(with("1")).stages[0].batch_axis, 1);
  EXPECT_NE(complaint(with("2")).find("stages[0]: 'batch_axis' is 2, but 'logical_shape' has axes 0..1"),
            std::string::npos);
  EXPECT_NE(complaint(with("-1")).find("'batch_axis' is -1"), std::string::npos);
  EXPECT_NE(complaint(with("0.5")).find("'batch_axis'"), std::string::npos);
  EXPECT_NE(complaint(with("true")).find("'batch_axis'"), std::string::npos);
  EXPECT_NE(complaint(with("null")).find("'batch_axis'"), std::string::npos);
}
TEST_F(ManualFile, NeedsLayersThatOverlapNowhere) {
  const std::string twice = stages(stage("[0, 2]", "[1, 1]", "[1]") + "," + stage("[2, 3]", "[1, 1]", "[1]"));
  EXPECT_NE(complaint(twice).find("stages[1]: begins at layer 2, but layer 3 comes next"), std::string::npos);
}
TEST_F(ManualFile, NeedsMembersItKnows) {
  EXPECT_NE(complaint(R"({"stages": [)" + stage("[0, 1]", "[1, 1]", "[1]") + R"(], "stage": []})").find("'stage'"),
            std::string::npos);
  EXPECT_NE(complaint(stages("7")).find("an object was expected"), std::string::npos);
  const std::string misspelled =
      R"({"layers": [0, 1], "submesh": [1, 1], "logical_shape": [1], "logical_shapes": [2]})";
  EXPECT_NE(complaint(stages(misspelled)).find("logical_shapes"), std::string::npos);
}
// An AxisMask has eight bits, and a mesh of no axes is no mesh.
TEST_F(ManualFile, NeedsAShapeOfOneToEightAxes) {
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[1, 1]", "[]"))).find("'logical_shape'"), std::string::npos);
  EXPECT_NE(complaint(stages(stage("[0, 1]", "[1, 2]", "[1,1,1,1,1,1,1,1,2]"))).find("'logical_shape'"),
            std::string::npos);
  EXPECT_EQ(read(stages(stage("[0, 1]", "[1, 2]", "[1,1,1,1,1,1,1,2]"))).stages.size(), 1u);
}

// --- a stage's batches ---

// Whether the rules allow an op whose axis `name` lies over the first mask and whose width lies over the second.
bool allows(const IntraOpRules& rules, const std::string& name, AxisMask batch, AxisMask width) {
  static const Graph graph = build_forward_graph(find_model("mlp:layers=1,hidden=8"), {.batch = 16});
  IterationSpace space;
  space.axes = {{name, 16, false, true}, {"width", 16, false, true}};
  return rules.allow_op(graph.ops().front(), space, {batch, width});
}
IntraOpRules held(const std::vector<int>& shape, int axis) {
  IntraOpRules rules;
  hold_batch_to_axis(rules, shape, axis);
  return rules;
}

TEST(HoldBatchToAxis, GivesTheBatchThatAxisAndNoOther) {
  const IntraOpRules first = held({2, 4}, 0);
  EXPECT_TRUE(allows(first, "batch", 0b01, 0b00));
  EXPECT_TRUE(allows(first, "batch", 0b01, 0b10));
  EXPECT_FALSE(allows(first, "batch", 0b00, 0b10));
  EXPECT_FALSE(allows(first, "batch", 0b10, 0b01));
  EXPECT_FALSE(allows(first, "batch", 0b11, 0b00));  // force_batch_axis allows this
  EXPECT_TRUE(allows(held({2, 4}, 1), "batch", 0b10, 0b01));
}
TEST(HoldBatchToAxis, LeavesTheBatchWholeWhereTheAxisIsOneDevice) {
  EXPECT_TRUE(allows(held({1, 4}, 0), "batch", 0b00, 0b10));
  EXPECT_FALSE(allows(held({1, 4}, 0), "batch", 0b10, 0b00));
}
TEST(HoldBatchToAxis, AllowsNothingWhereTheAxisDoesNotDivideTheBatch) {
  EXPECT_FALSE(allows(held({3, 2}, 0), "batch", 0b01, 0b00));  // 16 samples
  EXPECT_FALSE(allows(held({3, 2}, 0), "batch", 0b00, 0b00));
}
TEST(HoldBatchToAxis, SaysNothingOfOpsWithoutABatch) { EXPECT_TRUE(allows(held({2, 4}, 0), "height", 0b10, 0b00)); }
TEST(HoldBatchToAxis, AddsToWhatTheMethodDemands) {
  IntraOpRules rules;
  rules.allow_op = [](const Op&, const IterationSpace&, const std::vector<AxisMask>& axes) { return axes[1] == 0; };
  hold_batch_to_axis(rules, {2, 4}, 0);
  EXPECT_TRUE(allows(rules, "batch", 0b01, 0b00));
  EXPECT_FALSE(allows(rules, "batch", 0b01, 0b10));
  EXPECT_FALSE(allows(rules, "batch", 0b00, 0b00));
}

// --- placement ---

using Placed = std::vector<std::vector<int>>;
Cluster hosts(int count, int devices) { return take_part(find_cluster("p3.16xlarge:4"), count, devices); }
// For as many bytes between every two neighbours.
std::optional<Placed> place(const Cluster& cluster, const std::vector<Submesh>& submeshes) {
  auto placed = place_stages(cluster, {submeshes, {}, {}});
  if (!placed) return std::nullopt;
  return std::move(placed->devices);
}

TEST(Placement, PacksStagesInOrder) {
  EXPECT_EQ(place(hosts(2, 4), {{1, 2}, {1, 1}, {1, 1}, {1, 4}}), (Placed{{0, 1}, {2}, {3}, {4, 5, 6, 7}}));
}
TEST(Placement, GivesWholeHostsTheirDevicesInRowMajorOrder) {
  EXPECT_EQ(place(hosts(3, 2), {{2, 2}, {1, 2}}), (Placed{{0, 1, 2, 3}, {4, 5}}));
}
TEST(Placement, FillsEarlierHolesWithLaterStages) {
  EXPECT_EQ(place(hosts(2, 4), {{1, 2}, {1, 4}, {1, 2}}), (Placed{{0, 1}, {4, 5, 6, 7}, {2, 3}}));
}
// In order, 2 + 1 and 3 leave one device on each host for the last 2. The largest first: 3, then 2 + 2, then 1.
TEST(Placement, PlacesTheLargestFirstWhereOrderLeavesHoles) {
  EXPECT_EQ(place(hosts(2, 4), {{1, 2}, {1, 1}, {1, 3}, {1, 2}}), (Placed{{4, 5}, {3}, {0, 1, 2}, {6, 7}}));
}
// Any order of powers of two that fill the cluster has a place.
TEST(Placement, AlwaysPlacesPowersOfTwoThatFillTheCluster) {
  std::vector<int> sizes = {1, 1, 1, 1, 2, 2, 4, 4};
  do {
    std::vector<Submesh> submeshes;
    for (const int size : sizes) submeshes.push_back({1, size});
    const auto placed = place(hosts(4, 4), submeshes);
    ASSERT_TRUE(placed);
    std::vector<bool> taken(16, false);
    for (std::size_t s = 0; s < placed->size(); ++s) {
      ASSERT_EQ(static_cast<int>((*placed)[s].size()), sizes[s]);
      for (const int device : (*placed)[s]) {
        ASSERT_FALSE(taken[static_cast<std::size_t>(device)]);
        ASSERT_EQ(device / 4, (*placed)[s].front() / 4);  // on one host
        taken[static_cast<std::size_t>(device)] = true;
      }
    }
  } while (std::next_permutation(sizes.begin(), sizes.end()));
}
TEST(Placement, RefusesWhatDoesNotFit) {
  EXPECT_EQ(place(hosts(2, 4), {{1, 4}, {1, 4}, {1, 1}}), std::nullopt);
  EXPECT_EQ(place(hosts(2, 3), {{1, 2}, {1, 2}, {1, 2}}), std::nullopt);  // one device is left on each host
  EXPECT_EQ(place(hosts(2, 4), {{1, 3}, {1, 2}, {1, 3}}), std::nullopt);  // the same
  EXPECT_EQ(place(hosts(2, 2), {{3, 2}}), std::nullopt);
}

}  // namespace
}  // namespace meshwright::method_test
