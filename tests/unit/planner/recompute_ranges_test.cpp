// SPDX-License-Identifier: Apache-2.0
// Recomputation that differs between ranges of forward ops: what is kept and repeated, that gradients do not change,
// and how files and layers say it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/graph/recomputation.h"
#include "core/planner/layers/layer_recompute.h"
#include "executor/check/graph_interpreter.h"
#include "tests/op_case.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::recompute_ranges_test {
namespace {

using Names = std::set<std::string>;
using Ranges = std::vector<RecomputeRange>;

constexpr const char* kGpt = "gpt:layers=3,hidden=8,heads=2,seq=4,vocab=16";
constexpr const char* kMlp = "mlp:layers=3,hidden=8";
constexpr Recompute kAll[] = {Recompute::None, Recompute::Selective, Recompute::Full};

TrainingOptions options(Recompute recompute, const Ranges& ranges = {}) {
  TrainingOptions training{.batch = 4, .microbatches = 2, .dtype = DType::F64, .recompute = recompute};
  training.optimizer = {.kind = Optimizer::Kind::Sgd, .learning_rate = 0.5};
  training.recompute_ranges = ranges;
  return training;
}
Graph training(const std::string& model, Recompute recompute, const Ranges& ranges = {}) {
  return build_training_graph(find_model(model), options(recompute, ranges));
}
int position(const Graph& graph, const std::string& name) {
  const std::vector<OpId> forward = forward_ops(graph);
  const auto found =
      std::find_if(forward.begin(), forward.end(), [&](const OpId id) { return graph.op(id).name == name; });
  EXPECT_NE(found, forward.end()) << name;
  return static_cast<int>(found - forward.begin());
}
int last_position(const Graph& graph) { return static_cast<int>(forward_ops(graph).size()) - 1; }

// Forward tensors that the backward reads.
Names kept(const Graph& graph) {
  Names names;
  for (const Op& op : graph.ops())
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (op.phase == Phase::Backward && tensor.producer && graph.op(*tensor.producer).phase == Phase::Forward)
        names.insert(tensor.name);
    }
  return names;
}
double kept_bytes(const Graph& graph) {
  const Names names = kept(graph);
  double total = 0.0;
  for (const Tensor& tensor : graph.tensors())
    if (names.contains(tensor.name)) total += tensor.bytes().si();
  return total;
}
Names repeated(const Graph& graph) {
  Names names;
  for (const Op& op : graph.ops())
    if (is_recomputation(graph, op)) names.insert(graph.op(*op.forward).name);
  return names;
}
Names of_block(const Names& all, const std::string& block) {
  Names names;
  for (const std::string& name : all)
    if (name.starts_with(block + ".")) names.insert(name);
  return names;
}

std::map<std::string, Values> gradients(const Graph& graph) {
  GraphInterpreter interpreter(graph, 3, DType::F64);
  for (int m = 0; m < 2; ++m) {
    interpreter.load_inputs(0, m);
    for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  }
  std::map<std::string, Values> found;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Accumulator) found[tensor.name] = interpreter.get(tensor.id);
  return found;
}

// Every cut of the forward ops into two and three ranges of different kinds, in steps.
std::vector<Ranges> cuts(const Graph& graph, int stride) {
  const int last = last_position(graph);
  std::vector<Ranges> found;
  for (int a = 1; a < last; a += stride)
    for (int b = a + 1; b <= last; b += 2 * stride) {
      const Recompute first = kAll[a % 3], second = kAll[(a + b) % 3], third = kAll[(a + 2 * b + 1) % 3];
      found.push_back({{0, a - 1, first}, {a, b - 1, second}, {b, last, third}});
    }
  return found;
}

TEST(RecomputeRanges, OverEverythingAreOneChoiceForAll) {
  for (const char* model : {kGpt, kMlp})
    for (const Recompute recompute : kAll) {
      const Graph plain = training(model, recompute);
      for (const Recompute other : kAll)
        EXPECT_EQ(canonical_text(training(model, other, {{0, last_position(plain), recompute}})), canonical_text(plain))
            << model << " " << name_of(recompute) << " over " << name_of(other);
    }
}

TEST(RecomputeRanges, ChangeNoGradientWhereverTheyBegin) {
  for (const char* model : {kGpt, kMlp}) {
    const Graph none = training(model, Recompute::None);
    const auto wanted = gradients(none);
    for (const Ranges& ranges : cuts(none, model == kGpt ? 7 : 3))
      EXPECT_EQ(gradients(training(model, Recompute::None, ranges)), wanted)
          << model << " " << ranges[1].first << " " << ranges[2].first;
  }
}

TEST(RecomputeRanges, RepeatAndKeepOfEachBlockWhatItsChoiceDoes) {
  std::map<Recompute, Graph> pure;
  for (const Recompute recompute : kAll) pure.emplace(recompute, training(kGpt, recompute));
  const Graph& none = pure.at(Recompute::None);
  const int at1 = position(none, "blk1.ln1"), at2 = position(none, "blk2.ln1");
  const Recompute of_block_0 = Recompute::Full, of_block_1 = Recompute::None, of_block_2 = Recompute::Selective;
  const Graph mixed = training(kGpt, of_block_2, {{0, at1 - 1, of_block_0}, {at1, at2 - 1, of_block_1}});
  EXPECT_EQ(of_block(repeated(mixed), "blk0"), of_block(repeated(pure.at(of_block_0)), "blk0"));
  EXPECT_TRUE(of_block(repeated(mixed), "blk1").empty());
  EXPECT_EQ(of_block(repeated(mixed), "blk2"), of_block(repeated(pure.at(of_block_2)), "blk2"));
  EXPECT_EQ(of_block(kept(mixed), "blk0"), of_block(kept(pure.at(of_block_0)), "blk0"));
  EXPECT_EQ(of_block(kept(mixed), "blk1"), of_block(kept(pure.at(of_block_1)), "blk1"));
  EXPECT_EQ(of_block(kept(mixed), "blk2"), of_block(kept(pure.at(of_block_2)), "blk2"));
}

TEST(RecomputeRanges, OfBlocksKeepMoreTheMoreOfThemKeepEverything) {
  const Graph none = training(kGpt, Recompute::None);
  double before = kept_bytes(training(kGpt, Recompute::Full));
  for (const char* last_kept : {"blk0.mlp.residual", "blk1.mlp.residual", "blk2.mlp.residual"}) {
    const double bytes = kept_bytes(training(kGpt, Recompute::Full, {{0, position(none, last_kept), Recompute::None}}));
    EXPECT_GT(bytes, before) << last_kept;
    before = bytes;
  }
  EXPECT_EQ(before, kept_bytes(none));
}

TEST(RecomputeRanges, OfSelectiveKeepNothingThatWouldNotBeKeptAnyway) {
  for (const char* model : {kGpt, kMlp}) {
    const Graph graph = training(model, Recompute::None);
    const Names none = kept(graph);
    for (int at = 1; at <= last_position(graph); ++at)
      for (const auto& [first, second] :
           {std::pair{Recompute::Selective, Recompute::None}, std::pair{Recompute::None, Recompute::Selective},
            std::pair{Recompute::Selective, Recompute::Selective}}) {
        const Names some = kept(training(model, second, {{0, at - 1, first}}));
        EXPECT_TRUE(std::includes(none.begin(), none.end(), some.begin(), some.end())) << model << " at " << at;
      }
  }
}

// In one range the second norm is made from the repeated residual; where the second range begins with it, the residual
// enters that range and is kept.
TEST(RecomputeRanges, KeepWhatEntersThem) {
  const Graph whole = training(kGpt, Recompute::Full);
  const auto norm_reads = [](const Graph& graph) {
    const auto norm = std::find_if(graph.ops().begin(), graph.ops().end(),
                                   [](const Op& op) { return op.name == "blk1.ln2.recompute"; });
    return graph.tensor(norm->inputs[0]).name;
  };
  EXPECT_EQ(norm_reads(whole), "blk1.attn.residual.recompute");
  const int at = position(whole, "blk1.ln2");
  const Graph parted = training(kGpt, Recompute::Full, {{0, at - 1, Recompute::Full}});
  EXPECT_EQ(norm_reads(parted), "blk1.attn.residual");
  EXPECT_TRUE(kept(parted).contains("blk1.attn.residual"));
  EXPECT_EQ(repeated(parted), repeated(whole));
}

TEST(RecomputeRanges, AreRefusedOutOfOrderTwiceAndPastTheEnd) {
  const int last = last_position(training(kMlp, Recompute::None));
  const auto refused = [&](const Ranges& ranges) {
    return refusal([&] { (void)training(kMlp, Recompute::None, ranges); });
  };
  constexpr Recompute kFull = Recompute::Full;
  EXPECT_EQ(
      refused({{0, 3, kFull}, {3, 5, kFull}}),
      fmt::format("recompute ranges: 3 to 5 is not a range of forward ops from 4 to {}; give ranges in order that "
                  "do not overlap.",
                  last));
  for (const Ranges& ranges : {Ranges{{4, 5, kFull}, {0, 1, kFull}}, Ranges{{2, 1, kFull}}, Ranges{{-1, 1, kFull}},
                               Ranges{{0, last + 1, kFull}}})
    EXPECT_NE(refused(ranges).find("is not a range of forward ops"), std::string::npos) << ranges[0].first;
  EXPECT_NO_THROW((void)training(kMlp, Recompute::None, {{last, last, kFull}}));
}

// --- layers ---

TEST(LayerRecompute, BecomesOneRangeForEachRunOfEqualLayers) {
  const Graph graph = training(kMlp, Recompute::None);
  const Layers layers = assign_layers(graph, {0, 4, 8, 10});
  const int last = last_position(graph);
  const std::vector<Recompute> per_layer = {Recompute::None, Recompute::Full, Recompute::Full, Recompute::Selective};
  EXPECT_EQ(recompute_ranges_of_layers(layers, graph, per_layer),
            (Ranges{{0, 3, Recompute::None}, {4, 9, Recompute::Full}, {10, last, Recompute::Selective}}));
  TrainingOptions some = options(Recompute::Full);
  set_recompute(some, layers, graph, per_layer);
  EXPECT_EQ(some.recompute, Recompute::None);
  EXPECT_EQ(some.recompute_ranges, (Ranges{{4, 9, Recompute::Full}, {10, last, Recompute::Selective}}));
  EXPECT_EQ(recompute_text(some), "per layer");
  set_recompute(some, layers, graph, std::vector<Recompute>(4, Recompute::Full));
  EXPECT_EQ(some.recompute, Recompute::Full);
  EXPECT_TRUE(some.recompute_ranges.empty());
  EXPECT_EQ(recompute_text(some), "full");
}

TEST(LayerRecompute, IsReadFromTextAndWrittenBack) {
  const std::vector<LayerRecompute> given = layer_recompute_from_text("0-3:full,5:selective");
  EXPECT_EQ(given, (std::vector<LayerRecompute>{{0, 3, Recompute::Full}, {5, 5, Recompute::Selective}}));
  EXPECT_EQ(to_text(given), "0-3:full,5:selective");
  EXPECT_EQ(recompute_of_layers({{1, 2, Recompute::Full}}, Recompute::Selective, 4),
            (std::vector<Recompute>{Recompute::Selective, Recompute::Full, Recompute::Full, Recompute::Selective}));
  EXPECT_EQ(refusal([] { (void)layer_recompute_from_text("0-3"); }),
            "'0-3' is not layers:recompute; write as in 0-3:full,5:selective.");
  EXPECT_EQ(refusal([] { (void)layer_recompute_from_text("2-3:full,3:none"); }),
            "'3:none' stands out of order; give layers in ascending order, each once.");
  EXPECT_EQ(refusal([] { (void)layer_recompute_from_text("1:much"); }),
            "unknown name 'much'; expected none, full or selective.");
  EXPECT_EQ(
      refusal([] {
        (void)recompute_of_layers({{2, 4, Recompute::Full}}, Recompute::None, 4);
      }),
      "recomputation of layers 2 to 4: the model is cut into the layers 0 to 3; give layers among them, or another "
      "number of layers.");
}

// --- the plan file ---

TEST(RecomputeRanges, StandInThePlanFileWhereThereAreAny) {
  const Ranges ranges = {{2, 5, Recompute::Full}, {6, 6, Recompute::Selective}};
  TrainingOptions training = options(Recompute::None);
  training.dtype = DType::F32;
  const HandPlan plain = by_hand(kMlp, "cpu:2", training, {{"", {2}, {{"batch", AxisMask{1}}}}});
  EXPECT_FALSE(to_json(plain.plan)["training"].contains("recompute_ranges"));
  training.recompute_ranges = ranges;
  const HandPlan mixed = by_hand(kMlp, "cpu:2", training, {{"", {2}, {{"batch", AxisMask{1}}}}});
  Json json = parse_json(to_json(mixed.plan).dump(1), "plan.json");
  const Plan back = plan_from_json(json, "plan.json");
  EXPECT_EQ(back.training.recompute_ranges, ranges);
  EXPECT_EQ(canonical_text(build_training_graph(back.model, back.training)), canonical_text(mixed.graph));
  EXPECT_NE(mixed.plan.graph_fingerprint, plain.plan.graph_fingerprint);

  const auto refused = [&] { return refusal([&] { (void)plan_from_json(json, "plan.json"); }); };
  json["training"]["recompute_ranges"][1]["ops"] = {5, 6};
  EXPECT_EQ(
      refused(),
      "plan.json: training.recompute_ranges[1]: ops 5 to 6 are out of order; give ranges in order, without overlap.");
  json["training"]["recompute_ranges"][1] = {{"ops", {6, 7}}, {"recompute", "much"}};
  EXPECT_EQ(
      refused(),
      "plan.json: training.recompute_ranges[1].recompute: unknown name 'much'; expected none, full or selective.");
}

}  // namespace
}  // namespace meshwright::recompute_ranges_test
