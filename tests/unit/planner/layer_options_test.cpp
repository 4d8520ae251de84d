// SPDX-License-Identifier: Apache-2.0
// Where layers begin: along blocks, at named ops, like another plan's, and how many there are when nobody says.
#include "core/planner/method/layer_options.h"
#include "core/graph/import/find_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::layer_options_test {
namespace {

using Cut = LayerOptions::Cut;

Graph mlp(int pairs) {
  return build_forward_graph(find_model(fmt::format("mlp:layers={},hidden=4", pairs)), {.batch = 8});
}

Graph gpt(int blocks) {
  return build_forward_graph(find_model(fmt::format("gpt:layers={},hidden=32,heads=4,seq=8,vocab=64", blocks)),
                             {.batch = 8});
}

// `count` products in a row, outside of blocks.
Graph products(int count) {
  Graph graph;
  graph.name = "products";
  TensorId h = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 2}, {"k0", 4}});
  for (int n = 0; n < count; ++n) {
    const std::string in = fmt::format("k{}", n), out = fmt::format("k{}", n + 1);
    const TensorId w = graph.add_tensor("w" + in, TensorKind::Parameter, DType::F32, {{in, 4}, {out, 4}});
    h = graph.add_op(OpKind::Contract, fmt::format("p{}", n), {h, w}, {.result_names = {"batch", out}}).front();
  }
  return graph;
}

// Names of each layer's first op.
std::vector<std::string> starts(const Graph& graph, const LayerOptions& options, std::optional<int> count = {},
                                const std::string& method = "pipeshard") {
  std::vector<std::string> names;
  for (const auto& ops : make_layers(graph, options, count, method_from_text(method)).forward)
    names.push_back(graph.op(ops.front()).name);
  return names;
}

using Names = std::vector<std::string>;

LayerOptions cut(Cut kind) { return {kind, {}, {}}; }

// --- how many ---

TEST(DefaultLayerCount, MakesLayersOfWholeBlocks) {
  const Method pipeshard = method_from_text("pipeshard");
  EXPECT_EQ(default_layer_count(mlp(1), pipeshard), 1);
  EXPECT_EQ(default_layer_count(gpt(2), pipeshard), 2);
  EXPECT_EQ(default_layer_count(mlp(24), pipeshard), 24);
  EXPECT_EQ(default_layer_count(mlp(25), pipeshard), 16);  // 5 and 1 are out of 8..16
  EXPECT_EQ(default_layer_count(mlp(26), pipeshard), 13);
  EXPECT_EQ(default_layer_count(mlp(29), pipeshard), 16);  // a prime
  EXPECT_EQ(default_layer_count(mlp(32), pipeshard), 16);
  EXPECT_EQ(default_layer_count(mlp(34), pipeshard), 16);  // 17, 2 and 1 are out of 8..16
  EXPECT_EQ(default_layer_count(mlp(136), pipeshard), 8);  // 8 x 17: none of 9..16 divides it
}

TEST(DefaultLayerCount, TakesTwoProductsPerLayerWithoutBlocks) {
  const Method pipeshard = method_from_text("pipeshard");
  EXPECT_EQ(default_layer_count(products(1), pipeshard), 1);
  EXPECT_EQ(default_layer_count(products(7), pipeshard), 3);
  EXPECT_EQ(default_layer_count(products(40), pipeshard), 16);
}

TEST(DefaultLayerCount, IsWhatTheMethodNeeds) {
  EXPECT_EQ(default_layer_count(mlp(32), method_from_text("megatron:pp=5")), 15);   // of 16
  EXPECT_EQ(default_layer_count(mlp(32), method_from_text("megatron:pp=24")), 24);  // of 16
  Method manual = method_from_text("pipeshard");
  manual.kind = Method::Kind::Manual;
  manual.stages = {{0, 2, {1, 1}, {1, 1}}, {3, 4, {1, 1}, {1, 1}}};
  EXPECT_EQ(default_layer_count(mlp(24), manual), 5);
}

TEST(DefaultLayerCount, IsTheSameForATrainingStep) {
  const ModelConfig model = find_model("gpt:layers=3,hidden=32,heads=4,seq=8,vocab=64");
  const Graph graph = build_training_graph(model, {.batch = 8, .recompute = Recompute::Full});
  EXPECT_EQ(default_layer_count(graph, method_from_text("pipeshard")), 3);
}

// --- blocks ---

TEST(MakeLayers, TakesEachBlockAsALayer) {
  EXPECT_EQ(starts(gpt(3), cut(Cut::Blocks)), (Names{"embed", "blk1.ln1", "blk2.ln1"}));
  EXPECT_EQ(starts(mlp(2), cut(Cut::Blocks)), (Names{"blk0.up", "blk1.up"}));
  EXPECT_EQ(refusal([] { return starts(products(4), cut(Cut::Blocks)); }),
            "products has no blocks to make layers of; cut it by flops, bytes or count.");
}

TEST(MakeLayers, NeverCutsABlockWhenLayersAreUniform) {
  EXPECT_EQ(starts(mlp(4), cut(Cut::Uniform), 2), (Names{"blk0.up", "blk2.up"}));
  EXPECT_EQ(starts(mlp(5), cut(Cut::Uniform), 2), (Names{"blk0.up", "blk2.up"}));  // 2 and 3 blocks
  EXPECT_EQ(starts(mlp(7), cut(Cut::Uniform), 3), (Names{"blk0.up", "blk2.up", "blk4.up"}));
  EXPECT_EQ(starts(mlp(3), cut(Cut::Uniform)), starts(mlp(3), cut(Cut::Blocks)));
  EXPECT_EQ(starts(mlp(26), cut(Cut::Uniform)).size(), 13U);
  EXPECT_EQ(refusal([] { return starts(mlp(3), cut(Cut::Uniform), 4); }),
            "mlp has 3 blocks and cannot be cut into 4 layers of whole ones; ask for 1..3.");
}

TEST(MakeLayers, TakesBlocksForOneStageUnlessAskedOtherwise) {
  const Graph graph = mlp(28);
  EXPECT_EQ(starts(graph, {}, std::nullopt, "shard").size(), 28U);
  EXPECT_EQ(starts(graph, {}, 4, "shard").size(), 4U);
  EXPECT_EQ(starts(graph, cut(Cut::EvenFlops), std::nullopt, "shard").size(), 14U);
  EXPECT_EQ(starts(graph, {}).size(), 14U);
  EXPECT_EQ(starts(products(4), {}, std::nullopt, "shard").size(), 1U);
}

// --- evenly ---

TEST(MakeLayers, ShareWhatTheCutNames) {
  const Graph graph = gpt(4);
  const auto with = [&](LayerWork work) { return make_layers(graph, 3, work).forward; };
  const auto method = method_from_text("pipeshard");
  EXPECT_EQ(make_layers(graph, {}, 3, method).forward, with(LayerWork::ForwardFlops));
  EXPECT_EQ(make_layers(graph, cut(Cut::EvenFlops), 3, method).forward, with(LayerWork::ForwardFlops));
  EXPECT_EQ(make_layers(graph, cut(Cut::EvenBytes), 3, method).forward, with(LayerWork::HeldBytes));
  EXPECT_EQ(make_layers(graph, cut(Cut::EvenCount), 3, method).forward, with(LayerWork::OpCount));
}

// --- at named ops ---

LayerOptions at(Names names) { return {Cut::Starts, std::move(names), {}}; }

TEST(MakeLayers, BeginWhereTheCallerSays) {
  const Names names = {"blk0.up", "blk0.down", "blk2.up.relu", "loss"};
  EXPECT_EQ(starts(mlp(3), at(names)), names);
  EXPECT_EQ(starts(mlp(3), at(names), 4), names);
}

TEST(MakeLayers, RefuseStartsThatAreNotInTheModelOrOutOfOrder) {
  const auto complaint = [](const Names& names, int count = 0) {
    return refusal([&] { return starts(mlp(3), at(names), count); });
  };
  EXPECT_EQ(complaint({"blk0.up", "blk1.upp"}),
            "unknown layer start 'blk1.upp'; the nearest known are blk1.up, blk0.up, blk2.up. Layers start at forward "
            "ops of mlp.");
  EXPECT_EQ(complaint({"blk0.down", "blk1.up"}),
            "the first layer starts at 'blk0.down', but mlp begins with 'blk0.up'; put that in front.");
  EXPECT_EQ(complaint({"blk0.up", "blk2.up", "blk1.up"}),
            "layer start 'blk1.up' does not come after 'blk2.up', which stands before it; give the starts in the order "
            "of mlp's ops.");
  EXPECT_NE(complaint({"blk0.up", "blk0.up"}).find("does not come after 'blk0.up'"), std::string::npos);
  EXPECT_EQ(complaint({"blk0.up", "blk1.up"}, 3), "the cut of mlp makes 2 layers, not 3; leave their number out.");
}

TEST(LayerStartsFromText, ReadsAListOrAFile) {
  EXPECT_EQ(layer_starts_from_text("a,b.c"), at({"a", "b.c"}));
  const std::string file = testing::TempDir() + "layer_starts.json";
  const auto with = [&](const char* text) {
    std::ofstream(file) << text;
    return layer_starts_from_text(file);
  };
  EXPECT_EQ(with(R"(["a", "b.c"])"), at({"a", "b.c"}));
  EXPECT_NE(refusal([&] { return with(R"({"a": 1})"); }).find("expected a list"), std::string::npos);
  EXPECT_NE(refusal([&] { return with(R"(["a", 1])"); }).find("1 is not the name of an op"), std::string::npos);
  EXPECT_NE(refusal([&] { return with("[]"); }).find("leaves a name out"), std::string::npos);
  EXPECT_NE(refusal([] { return layer_starts_from_text("a,,b"); }).find("'a,,b' leaves a name out"), std::string::npos);
}

// --- like a plan ---

TEST(MakeLayers, FollowAPlanByTheNamesOfItsOps) {
  PlanRequest request = ask("mlp:layers=3,hidden=16", "cpu:2");
  request.search.layer_cut = at({"blk0.up", "blk0.down", "blk2.up"});
  const Plan plan = *planned(request).plan;
  const LayerOptions follow = follow_layers(plan);
  EXPECT_EQ(follow.followed.size(), 3U);
  EXPECT_EQ(starts(mlp(3), follow), request.search.layer_cut.starts);
  // A fourth pair, and what else the plan does not know, stays with what comes before it.
  const Layers layers = make_layers(mlp(4), follow, std::nullopt, request.search.method);
  EXPECT_EQ(layers.count, 3);
  EXPECT_EQ(layers.forward.back().size(), 2U * 6 + 1);
  // Planning with it gives the same layers.
  request.search.layer_cut = follow;
  EXPECT_EQ(planned(request).plan->layer_starts, plan.layer_starts);
}

TEST(MakeLayers, KeepUnknownOpsInFrontInTheFirstFollowedLayer) {
  EXPECT_EQ(starts(mlp(2), {Cut::Follow, {}, {{"blk0.down"}, {"blk1.up", "nowhere"}}}), (Names{"blk0.up", "blk1.up"}));
}

TEST(MakeLayers, RefuseToFollowLayersThatTheModelDoesNotHave) {
  const auto complaint = [](const std::vector<Names>& followed) {
    return refusal([&] { return starts(mlp(2), {Cut::Follow, {}, followed}); });
  };
  EXPECT_EQ(complaint({{"blk0.up"}, {"blk8.up", "blk8.down"}, {"loss"}}),
            "layer 1 of the followed plan ('blk8.up' to 'blk8.down') has no op of mlp; follow a plan of the same "
            "model.");
  EXPECT_NE(complaint({{"embed"}, {"blk0.up"}}).find("layer 0 of the followed plan ('embed' to 'embed')"),
            std::string::npos);
  EXPECT_NE(complaint({{"blk0.up"}, {"blk8.up"}}).find("layer 1 of the followed plan"), std::string::npos);
  EXPECT_EQ(complaint({{"blk0.up", "blk1.down"}, {"blk0.down"}}),
            "op 'blk1.down' is in layer 0 of the followed plan, but mlp has it after ops of layer 1; follow a plan of "
            "the same model.");
}

TEST(FollowLayers, RefusesAPlanThatIsNotSoundForItsModel) {
  Plan plan = *planned(ask("mlp:layers=2,hidden=16", "cpu:2")).plan;
  plan.model.hidden = 32;
  EXPECT_NE(refusal([&] { return follow_layers(plan); }), "not refused");
}

// --- text ---

TEST(LayerCutFromText, KnowsEveryCutAndWritesItBack) {
  for (const char* name : {"flops", "bytes", "count", "blocks", "uniform", "blocks-apart"})
    EXPECT_EQ(to_json(layer_cut_from_text(name)), Json(name));
  EXPECT_EQ(to_json(LayerOptions{}), Json());
  EXPECT_EQ(to_json(at({"a", "b"})).dump(), R"({"starts":["a","b"]})");
  EXPECT_EQ(to_json({Cut::Follow, {}, {{"a", "b"}, {"c"}}}).dump(), R"({"followed":[["a","b"],["c"]]})");
  EXPECT_EQ(refusal([] { return layer_cut_from_text("flop"); }),
            "unknown layer cut 'flop'; the nearest known are flops, blocks, bytes. All are flops, bytes, count, "
            "blocks, uniform, blocks-apart, follow:PLAN.json.");
}

TEST(Layers, BeginWithTheFirstOpAndAscend) {
  const Graph graph = mlp(2);
  const auto last = static_cast<int>(assign_layers(graph, {0}).forward.front().size()) - 1;
  const std::string wanted = fmt::format("layers need ascending first ops of 0..{}, beginning with 0.", last);
  EXPECT_EQ(assign_layers(graph, {0, last}).forward.back().size(), 1u);
  for (const std::vector<int>& starts : {std::vector<int>{}, {1}, {0, 2, 2}, {0, 2, 1}, {0, last + 1}})
    EXPECT_EQ(refusal([&] { return assign_layers(graph, starts); }), wanted);
}

}  // namespace
}  // namespace meshwright::layer_options_test
