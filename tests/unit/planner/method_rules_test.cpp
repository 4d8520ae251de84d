// SPDX-License-Identifier: Apache-2.0
// What each method demands of every op, read off the plans it gives; and what no method can be asked.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/graph/op_table.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::method_rules_test {
namespace {

const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=32";
const char* const kLlama = "llama:layers=2,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=8,vocab=32";
const char* const kMixtral =
    "mixtral:layers=2,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=4,top_k=2";
const char* const kMlp = "mlp:layers=2,hidden=16";

PlanRequest request_of(const char* model, const char* cluster, const std::string& method) {
  PlanRequest request = ask(model, cluster, method, 16, 2);
  request.training.dtype = DType::F32;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  return request;
}

// One op of a plan: its iteration space and the mesh axes that split each axis.
struct SplitOp {
  std::string name;
  IterationSpace space;
  Names axes;
  [[nodiscard]] AxisMask of(const std::string& axis) const { return axes.contains(axis) ? axes.at(axis) : AxisMask{0}; }
  [[nodiscard]] bool can_split(const std::string& axis) const {
    const auto found = space.find(axis);
    return found && space.axes[static_cast<std::size_t>(*found)].splittable;
  }
  [[nodiscard]] AxisMask used() const {
    AxisMask all = 0;
    for (const auto& [axis, mask] : axes) all = static_cast<AxisMask>(all | mask);
    return all;
  }
};

std::vector<SplitOp> ops_of(const PlanningResult& result) {
  std::vector<SplitOp> found;
  if (!result.plan) {
    ADD_FAILURE() << result.reason;
    return found;
  }
  std::map<std::string, const Op*> by_name;
  for (const Op& op : result.graph.ops()) by_name[op.name] = &op;
  for (const StagePlan& stage : result.plan->stages)
    for (const auto& [name, sharding] : stage.ops)
      found.push_back({name, iteration_space(result.graph, *by_name.at(name)), sharding.axes});
  return found;
}

std::vector<std::vector<int>> shapes_of(const Plan& plan) {
  std::vector<std::vector<int>> shapes;
  for (const StagePlan& stage : plan.stages) shapes.push_back(stage.logical_shape);
  return shapes;
}

// --- expert ---

// Mesh (dp, ep) = (2, 2).
TEST(Expert, SplitsExpertsOverTheSecondAxisAndTheRestOfTheBatchOverBoth) {
  const PlanningResult result = planned(request_of(kMixtral, "cpu:4", "expert:ep=2"));
  int experts = 0, others = 0;
  for (const SplitOp& op : ops_of(result)) {
    if (op.can_split("expert")) {
      EXPECT_EQ(op.of("expert"), 2) << op.name;
      EXPECT_EQ(op.of("batch"), 1) << op.name;
      ++experts;
    } else if (op.can_split("batch")) {
      EXPECT_EQ(op.of("batch"), 3) << op.name;
      ++others;
    }
  }
  EXPECT_EQ(shapes_of(*result.plan), (std::vector<std::vector<int>>{{2, 2}}));
  EXPECT_GE(experts, 10);  // of two blocks
  EXPECT_GE(others, 20);
}

// --- context ---

TEST(Context, SplitsEverySequenceThatCanBeSplitOverTheSecondAxis) {
  for (const char* model : {kLlama, kGpt}) {
    const PlanningResult result = planned(request_of(model, "cpu:4", "context:cp=2"));
    int sequences = 0;
    for (const SplitOp& op : ops_of(result)) {
      if (op.can_split("seq")) {
        EXPECT_EQ(op.of("seq"), 2) << op.name;
        ++sequences;
      }
      if (op.can_split("kv_seq|seq")) {
        EXPECT_EQ(op.of("kv_seq|seq"), 2) << op.name;
      }
      if (op.can_split("batch")) {
        EXPECT_EQ(op.of("batch"), 1) << op.name;
      }
      EXPECT_EQ(op.used() & ~(op.of("seq") | op.of("kv_seq|seq") | op.of("batch")), 0) << op.name;
    }
    EXPECT_GE(sequences, 20);
  }
}
// Fused attention cannot be split along its sequence: over cp its devices do the same work.
TEST(Context, LeavesFusedAttentionWhole) {
  for (const SplitOp& op : ops_of(planned(request_of(kGpt, "cpu:4", "context:cp=2"))))
    if (op.name.ends_with(".attn.core")) {
      EXPECT_FALSE(op.can_split("seq"));
      EXPECT_EQ(op.used(), 1) << op.name;
    }
}

// With all-to-alls an attention has whole sequences and some of the heads, packed or not; nothing else changes.
TEST(Context, WithAllToAllsSplitsTheHeadsOfAttention) {
  for (const char* model : {kLlama, kGpt}) {
    const PlanningResult result = planned(request_of(model, "cpu:4", "context:cp=2,cp-comm=a2a"));
    int attentions = 0;
    for (const SplitOp& op : ops_of(result)) {
      const bool attention = op.name.ends_with(".attn.core");
      const char* heads = model == kGpt ? "heads" : "kv_heads";
      if (attention) {
        EXPECT_EQ(op.of(heads), 2) << op.name;
        EXPECT_EQ(op.of("seq"), 0) << op.name;
      } else if (op.can_split("seq")) {
        EXPECT_EQ(op.of("seq"), 2) << op.name;
      }
      attentions += attention ? 1 : 0;
    }
    EXPECT_EQ(attentions, 2);
    EXPECT_EQ(result.plan->stages[0].contexts, (ContextAxes{.rings = 0, .exchanges = 2}));
  }
}
// The shardings of a ring are those of gathered keys: what differs is how they get there.
TEST(Context, InARingIsSplitAsWithGatheredKeys) {
  const Plan ring = *planned(request_of(kLlama, "cpu:4", "context:cp=2,cp-comm=p2p")).plan;
  const Plan gathered = *planned(request_of(kLlama, "cpu:4", "context:cp=2,cp-comm=all-gather")).plan;
  EXPECT_EQ(ring.stages[0].ops, gathered.stages[0].ops);
  EXPECT_EQ(ring.stages[0].contexts, (ContextAxes{.rings = 2, .exchanges = 0}));
  EXPECT_EQ(gathered.stages[0].contexts, ContextAxes{});
  EXPECT_EQ(plan_from_json(to_json(ring), "plan").stages[0].contexts, ring.stages[0].contexts);
  EXPECT_EQ(to_json(gathered).dump().find("rings"), std::string::npos);
}
// Of the keys of eight positions on four devices it has two blocks of two, not all.
TEST(Context, InARingTakesLessMemoryThanWithGatheredKeys) {
  const auto peak = [](const char* method) {
    return planned(request_of("llama:layers=1,hidden=64,heads=4,kv_heads=4,intermediate=8,seq=256,vocab=8", "cpu:4",
                              method))
        .plan->predicted.peak_memory;
  };
  EXPECT_LT(peak("context:cp=4,cp-comm=p2p"), peak("context:cp=4"));
}
// Mesh (dp, cp, tp) = (2, 2, 2): the heads of a tensor-parallel rank are split further.
TEST(Megatron, ExchangesTheHeadsOfATensorParallelRank) {
  const char* model = "llama:layers=2,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=8,vocab=32";
  for (const char* method : {"megatron:tp=2,cp=2,cp-comm=a2a", "megatron:tp=2,cp=2,cp-comm=a2a,sp=1,exact=1"})
    for (const SplitOp& op : ops_of(planned(request_of(model, "cpu:8", method))))
      if (op.name.ends_with(".attn.core")) {
        EXPECT_EQ(op.of("kv_heads"), 6) << op.name;
      }
}

// --- megatron ---

TEST(Megatron, OrdersItsMeshByDataExpertsContextAndTensor) {
  const auto shape = [](const char* method) { return *logical_shape_of(method_from_text(method), 16, "a cluster"); };
  EXPECT_EQ(shape("megatron:tp=2"), (std::vector<int>{8, 2}));
  EXPECT_EQ(shape("megatron:tp=2,cp=4"), (std::vector<int>{2, 4, 2}));
  EXPECT_EQ(shape("megatron:tp=2,ep=4"), (std::vector<int>{2, 4, 2}));
  EXPECT_EQ(shape("megatron:tp=2,cp=2,ep=4"), (std::vector<int>{1, 4, 2, 2}));
  // Whole experts lie on the tensor-parallel ranks, too.
  EXPECT_EQ(shape("megatron:tp=2,ep=4,exact=1,etp=1"), (std::vector<int>{4, 2, 2}));
  EXPECT_EQ(shape("megatron:cp=2"), (std::vector<int>{8, 2, 1}));
}

// Mesh (dp, ep, tp) = (2, 2, 2).
TEST(Megatron, SpreadsExpertsOverThePartOfTheDataParallelDevicesThatEpNames) {
  const PlanningResult result = planned(request_of(kMixtral, "cpu:8", "megatron:tp=2,ep=2"));
  int experts = 0, tensor_parallel = 0;
  for (const SplitOp& op : ops_of(result)) {
    if (op.can_split("expert")) {
      EXPECT_EQ(op.of("expert") & 3, 2) << op.name;
      ++experts;
    }
    if (op.can_split("batch")) {
      EXPECT_EQ(op.of("batch"), op.can_split("expert") ? 1 : 3) << op.name;
    }
    EXPECT_EQ(op.of("seq"), 0) << op.name;
    tensor_parallel += (op.used() & 4) != 0 ? 1 : 0;
  }
  EXPECT_GE(experts, 10);
  EXPECT_GT(tensor_parallel, 0);
}

// Mesh (dp, ep, tp) = (2, 2, 2).
TEST(ExactMegatron, TokensChooseTheirSlotsWhereTheyAreAndTravelToTheirExperts) {
  int exchanges = 0, of_experts = 0;
  for (const SplitOp& op : ops_of(planned(request_of(kMixtral, "cpu:8", "megatron:tp=2,ep=2,exact=1")))) {
    const bool slots = op.space.find("capacity").has_value();
    if (slots && op.space.find("seq")) {
      EXPECT_EQ(op.of("batch"), 3) << op.name;
      EXPECT_EQ(op.of("expert"), 0) << op.name;
      ++exchanges;
    } else if (slots) {
      EXPECT_EQ(op.of("batch"), 1) << op.name;
      EXPECT_EQ(op.of("expert"), 2) << op.name;
      EXPECT_EQ(op.of("mlp"), op.can_split("mlp") ? 4 : 0) << op.name;
      ++of_experts;
    } else if (op.can_split("batch")) {
      EXPECT_EQ(op.of("batch"), 3) << op.name;
      EXPECT_EQ(op.of("expert"), 0) << op.name;
    }
  }
  EXPECT_EQ(exchanges, 2 * 2);  // dispatch and combine of two blocks
  EXPECT_EQ(of_experts, 2 * 5);
}
// Mesh (dp, ep, tp) = (2, 2, 2): four experts on the ranks of ep and tp.
TEST(ExactMegatron, WholeExpertsTakeTheTensorParallelRanks) {
  int of_experts = 0;
  for (const SplitOp& op : ops_of(planned(request_of(kMixtral, "cpu:8", "megatron:tp=2,ep=4,exact=1,etp=1,sp=1")))) {
    if (!op.space.find("capacity") || op.space.find("seq")) continue;
    EXPECT_EQ(op.of("expert"), 6) << op.name;
    EXPECT_EQ(op.of("mlp"), 0) << op.name;
    ++of_experts;
  }
  EXPECT_EQ(of_experts, 2 * 5);
}
// Mesh (dp, ep, cp, tp) = (2, 2, 2, 1): no rank computes slots that another has.
TEST(ExactMegatron, ContextParallelRanksShareTheSlotsOfAnExpert) {
  for (const SplitOp& op : ops_of(planned(request_of(kMixtral, "cpu:8", "megatron:ep=2,cp=2,exact=1")))) {
    if (!op.space.find("capacity")) continue;
    EXPECT_EQ(op.of(op.space.find("seq") ? "embed" : "capacity"), 4) << op.name;
  }
}

// Mesh (dp, ep, cp, tp) = (1, 1, 2, 2): four experts on four ranks that share every sequence.
TEST(ExactMegatron, FoldedExpertsTakeTheContextParallelRanks) {
  int of_experts = 0;
  for (const SplitOp& op :
       ops_of(planned(request_of(kMixtral, "cpu:4", "megatron:tp=2,cp=2,ep=4,exact=1,etp=1,fold=1,sp=1")))) {
    if (!op.space.find("capacity") || op.space.find("seq")) continue;
    EXPECT_EQ(op.of("expert"), 12) << op.name;
    EXPECT_EQ(op.of("capacity"), 0) << op.name;
    ++of_experts;
  }
  EXPECT_EQ(of_experts, 2 * 5);
}
TEST(Refused, FoldsThatDoNotDivide) {
  EXPECT_NE(refusal([] { (void)method_from_text("megatron:cp=4,ep=2,exact=1,fold=1"); }).find("hold the 4 of cp,"),
            std::string::npos);
  EXPECT_NE(refusal([] { (void)method_from_text("megatron:tp=2,ep=2,exact=1,fold=1"); }).find("cp=2 or more"),
            std::string::npos);
}

// Mesh (dp, cp, tp) = (2, 2, 2).
TEST(Megatron, SplitsSequencesOverCpOnly) {
  for (const SplitOp& op : ops_of(planned(request_of(kLlama, "cpu:8", "megatron:tp=2,cp=2"))))
    if (op.can_split("seq")) {
      EXPECT_EQ(op.of("seq"), 2) << op.name;
    }
}
TEST(Megatron, SplitsSequencesOverTpOnlyWithSp) {
  const auto over_tp = [](const char* method) {
    int count = 0;
    for (const SplitOp& op : ops_of(planned(request_of(kLlama, "cpu:4", method))))
      count += (op.of("seq") & 2) != 0 ? 1 : 0;
    return count;
  };
  EXPECT_EQ(over_tp("megatron:tp=2"), 0);
  EXPECT_GT(over_tp("megatron:tp=2,sp=1"), 0);
}

// --- rules ---

TEST(Rules, SplitWhatTheyNameAndNothingElse) {
  PlanRequest request = request_of(kGpt, "cpu:4", "rules:batch=0,heads=1,mlp=1");
  request.search.logical_mesh = {2, 2};
  int heads = 0, mlps = 0;
  for (const SplitOp& op : ops_of(planned(request))) {
    Names expected;
    if (op.can_split("batch")) expected["batch"] = 1;
    if (op.can_split("heads")) expected["heads"] = 2;
    if (op.can_split("mlp")) expected["mlp"] = 2;
    EXPECT_EQ(op.axes, expected) << op.name;
    heads += op.can_split("heads") ? 1 : 0;
    mlps += op.can_split("mlp") ? 1 : 0;
  }
  EXPECT_GE(heads, 8);
  EXPECT_GE(mlps, 8);
}
// The 8 rows of a micro-batch go over both axes together.
TEST(Rules, MayGiveOneNameSeveralMeshAxes) {
  PlanRequest request = request_of(kMlp, "cpu:4", "rules:batch=0,batch=1");
  request.search.logical_mesh = {2, 2};
  for (const SplitOp& op : ops_of(planned(request)))
    if (op.can_split("batch")) {
      EXPECT_EQ(op.of("batch"), 3) << op.name;
    }
}
// Both name mesh axis 0: an op with both gives it to the first.
TEST(Rules, GiveAMeshAxisToTheFirstThatNamesIt) {
  PlanRequest request = request_of(kMlp, "cpu:4", "rules:mlp=0,embed=0");
  request.search.logical_mesh = {4, 1};
  for (const SplitOp& op : ops_of(planned(request))) {
    if (op.can_split("mlp")) {
      EXPECT_EQ(op.axes, (Names{{"mlp", 1}})) << op.name;
    } else if (op.can_split("embed")) {
      EXPECT_EQ(op.axes, (Names{{"embed", 1}})) << op.name;
    }
  }
}
// Four heads over eight devices: the rule is not followed there, the others are.
TEST(Rules, LeaveWholeWhatDoesNotDivide) {
  PlanRequest request = request_of(kGpt, "cpu:8", "rules:heads=0,mlp=0");
  request.search.logical_mesh = {8, 1};
  for (const SplitOp& op : ops_of(planned(request))) {
    EXPECT_EQ(op.of("heads"), 0) << op.name;
    if (op.can_split("mlp")) {
      EXPECT_EQ(op.of("mlp"), 1) << op.name;
    }
  }
}

// --- largest ---

TEST(Largest, GivesEveryMeshAxisToTheLargestDimensionOfTheResult) {
  PlanRequest request = request_of(kMlp, "cpu:4", "largest");  // batch 8, mlp 64, embed 16
  request.search.logical_mesh = {2, 2};
  for (const SplitOp& op : ops_of(planned(request)))
    if (op.name == "blk0.up" || op.name == "blk1.up") {
      EXPECT_EQ(op.axes, (Names{{"mlp", 3}})) << op.name;
    } else if (op.name == "blk0.down" || op.name == "blk1.down") {
      EXPECT_EQ(op.axes, (Names{{"embed", 3}})) << op.name;
    }
}

// --- the batch on one axis ---

TEST(BatchAxis, HoldsEveryBatchAndNothingElse) {
  for (const int axis : {0, 1}) {
    PlanRequest request = request_of(kLlama, "cpu:4", "shard");
    request.search.logical_mesh = {2, 2};
    request.search.batch_axis = axis;
    const AxisMask mask = static_cast<AxisMask>(1 << axis);
    for (const SplitOp& op : ops_of(planned(request))) {
      if (!op.space.find("batch")) continue;
      EXPECT_EQ(op.of("batch") & mask, mask) << op.name;
      for (const auto& [name, split] : op.axes)
        if (name != "batch") {
          EXPECT_EQ(split & mask, 0) << op.name << " " << name;
        }
    }
  }
}

// --- specs ---

TEST(Specs, AreReadFromAFileAndObeyed) {
  const std::string path = testing::TempDir() + "specs_" + std::to_string(getpid()) + ".json";
  write_file(path, R"({"blk0.up": "RS0", "blk1.down.weight": "RS0"})");
  PlanRequest request = request_of(kMlp, "cpu:4", "specs:" + path);
  request.search.logical_mesh = {4, 1};
  const PlanningResult result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(result.plan->stages[0].ops.at("blk0.up").result.to_text(), "RS0");
  EXPECT_EQ(result.plan->stages[0].parameters.at("blk1.down/blk1.down.weight").weight.to_text(), "RS0");
  write_file(path, "[]");
  EXPECT_THROW((void)method_from_text("specs:" + path), InputError);
  write_file(path, R"({"blk0.up": "Q"})");
  EXPECT_THROW((void)method_from_text("specs:" + path), InputError);
  std::remove(path.c_str());
}

// --- what cannot be asked ---

std::string complaint(const PlanRequest& request) {
  return refusal([&] { (void)planned(request); });
}

TEST(Refused, MethodsThatNameAnAxisTheModelLacks) {
  EXPECT_EQ(complaint(request_of(kGpt, "cpu:4", "expert:ep=2")),
            "method 'expert:ep=2': no op of the model has experts to split over ep=2; leave ep out or choose another "
            "method.");
  EXPECT_NE(complaint(request_of(kGpt, "cpu:4", "megatron:tp=2,ep=2")).find("no op of the model has experts"),
            std::string::npos);
  EXPECT_NE(complaint(request_of(kMlp, "cpu:4", "context:cp=2")).find("no op of the model has a sequence"),
            std::string::npos);
  const std::string misspelled = complaint(request_of(kGpt, "cpu:4", "rules:batch=0,heds=1"));
  EXPECT_EQ(misspelled.find("method 'rules:batch=0,heds=1': unknown axis 'heds'; the nearest known are heads"), 0u)
      << misspelled;
}
TEST(Refused, RulesForAMeshAxisThatIsNotThere) {
  PlanRequest request = request_of(kMlp, "cpu:4", "rules:batch=2");
  request.search.logical_mesh = {2, 2};
  EXPECT_NE(complaint(request).find("mesh axis 2, but the logical mesh 2x2 has 2"), std::string::npos);
}
TEST(Refused, DegreesThatDoNotDivideTheDevices) {
  EXPECT_NE(complaint(request_of(kMixtral, "cpu:4", "expert:ep=3")).find("4 devices of cpu:4 do not divide into ep=3"),
            std::string::npos);
  EXPECT_NE(complaint(request_of(kLlama, "cpu:4", "context:cp=8")).find("do not divide into cp=8"), std::string::npos);
}
TEST(Refused, ABatchAxisThatNoMeshHas) {
  PlanRequest request = request_of(kMlp, "cpu:4", "shard");
  request.search.batch_axis = 2;
  EXPECT_EQ(complaint(request),
            "the batch is to be split over mesh axis 2, but the logical meshes have axes 0..1; choose one of them.");
}

TEST(Refused, SequencesAndHeadsThatCpDoesNotDivide) {
  const char* six = "llama:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=6,vocab=32";
  EXPECT_EQ(
      complaint(request_of(six, "cpu:4", "context:cp=4")),
      "method 'context:cp=4': cp=4 does not divide the sequence of 6 of 'blk0.attn.core'; give a cp that does, or "
      "another sequence.");
  EXPECT_EQ(complaint(request_of(kLlama, "cpu:4", "megatron:tp=2,cp=2,cp-comm=a2a")),
            "method 'megatron:tp=2,cp=2,cp-comm=a2a': cp-comm=a2a splits the 2 heads of keys and values of "
            "'blk0.attn.core' over cp=2 x tp=2, which does not divide them; give a cp that does, or cp-comm=p2p.");
  EXPECT_NE(complaint(request_of(kGpt, "cpu:4", "context:cp=2,cp-comm=p2p")).find("give cp-comm=a2a."),
            std::string::npos);
}
TEST(Refused, FormsOfContextParallelismThatThereAreNot) {
  EXPECT_NE(refusal([] { (void)method_from_text("context:cp=2,cp-comm=ring"); }).find("unknown cp-comm 'ring'"),
            std::string::npos);
  EXPECT_NE(refusal([] { (void)method_from_text("megatron:tp=2,cp-comm=p2p"); }).find("give cp=2 or more"),
            std::string::npos);
}

// Three experts over two devices: the op that fails is named, and the method.
TEST(NoPlan, NamesTheOpAndTheMethodThatCannotHold) {
  const char* three = "mixtral:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=3,top_k=2";
  const PlanningResult result = planned(request_of(three, "cpu:4", "expert:ep=2"));
  ASSERT_FALSE(result.plan);
  EXPECT_EQ(result.reason.find("method 'expert:ep=2': blk0.moe.router cannot be split over a "), 0u) << result.reason;
}

}  // namespace
}  // namespace meshwright::method_rules_test
