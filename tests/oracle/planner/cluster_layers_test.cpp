// SPDX-License-Identifier: Apache-2.0
// Layer clustering against enumeration of all cuts.
#include "core/planner/layers/cluster_layers.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "tests/oracle/enumeration.h"

namespace meshwright::cluster_layers_test {
namespace {

constexpr LayerWork kWorks[] = {LayerWork::ForwardFlops, LayerWork::HeldBytes, LayerWork::OpCount};

LayerClusteringInput random_input(std::mt19937& random, LayerWork work = LayerWork::ForwardFlops) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  LayerClusteringInput input;
  const int ops = draw(4, 12);
  for (int op = 0; op < ops; ++op) input.flops.push_back(Flops(draw(0, 2) == 0 ? 0 : draw(1, 4)));
  for (int made_by = 0; made_by + 1 < ops; ++made_by) {
    LayerClusteringInput::Use use{made_by, {}, Bytes(draw(1, 4))};  // few sizes: many ties
    for (int n = draw(0, 3); n > 0; --n) use.read_by.push_back(draw(made_by + 1, std::min(made_by + 4, ops - 1)));
    input.uses.push_back(use);
  }
  input.layers = draw(1, 4);
  input.epsilon = 0.25 * draw(0, 4);
  if (work == LayerWork::HeldBytes)
    for (int op = 0; op < ops; ++op) input.work.push_back(draw(0, 5));
  if (work == LayerWork::OpCount) input.work.assign(static_cast<std::size_t>(ops), 1.0);
  return input;
}

TEST(ClusterLayers, CutsWhereTheLeastBytesCross) {
  // Six equal ops in a row; tensors of 50, 1, 50, 1, 50 bytes between them.
  LayerClusteringInput input{std::vector<Flops>(6, Flops(1)), {}, 3, 0.0};
  for (int op = 0; op < 5; ++op) input.uses.push_back({op, {op + 1}, Bytes(op % 2 == 0 ? 50 : 1)});
  EXPECT_EQ(cluster_layers(input), (std::vector<int>{0, 2, 4}));
  const auto cut = rank_layer_cut(input, {0, 2, 4});
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->largest, 1.0);
  EXPECT_EQ(cut->total, 2.0);
  EXPECT_FALSE(rank_layer_cut(input, {0, 1, 4}).has_value());  // 1 + 3 + 2 ops, but 2 is the average
}

TEST(ClusterLayers, CountsATensorReadTwiceOncePerLayer) {
  // Op 0's 10 bytes are read by ops 1, 2 (one layer) and 3 (the next layer): 10 at each of the two cuts.
  LayerClusteringInput input{std::vector<Flops>(4, Flops(0)), {{0, {3, 1, 2, 2}, Bytes(10)}}, 3, 0.5};
  const auto cut = rank_layer_cut(input, {0, 1, 3});
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->largest, 10.0);
  EXPECT_EQ(cut->total, 20.0);
}

TEST(ClusterLayers, BreaksTiesByEvenFlops) {
  // All cuts carry 1 byte: only balance decides.
  LayerClusteringInput input{std::vector<Flops>(8, Flops(1)), {}, 2, 1.0};
  for (int op = 0; op < 7; ++op) input.uses.push_back({op, {op + 1}, Bytes(1)});
  EXPECT_EQ(cluster_layers(input), (std::vector<int>{0, 4}));
}

// Ops without any work count alike: eight of them in two layers are four and four, in three 2 or 3 each.
TEST(ClusterLayers, CutsOpsWithoutWorkEvenly) {
  LayerClusteringInput input{std::vector<Flops>(8, Flops(0)), {}, 2, 1.0};
  for (int op = 0; op < 7; ++op) input.uses.push_back({op, {op + 1}, Bytes(1)});
  EXPECT_EQ(cluster_layers(input), (std::vector<int>{0, 4}));
  input.layers = 3;
  const auto three = cluster_layers(input);
  ASSERT_TRUE(three.has_value());
  for (const int ops : {(*three)[1], (*three)[2] - (*three)[1], 8 - (*three)[2]}) EXPECT_TRUE(ops == 2 || ops == 3);
}

TEST(ClusterLayers, LeavesThreeHeavyOpsToEveryLayerWhereThereAreEnough) {
  // 6 heavy ops, 2 layers: at least 3 each, however cheap the other cuts are.
  LayerClusteringInput input{std::vector<Flops>(6, Flops(1)), {{2, {3}, Bytes(100)}}, 2, 10.0};
  EXPECT_EQ(cluster_layers(input), (std::vector<int>{0, 3}));
  input.flops.resize(5, Flops(1));  // 5 / 2: two are enough, so the cut at 3 can be avoided
  EXPECT_EQ(cluster_layers(input), (std::vector<int>{0, 2}));
}

TEST(ClusterLayers, SharesTheGivenWorkInsteadOfFlops) {
  // All cuts carry 1 byte; equal FLOPs would be cut in the middle.
  LayerClusteringInput input{std::vector<Flops>(8, Flops(1)), {}, 2, 1.0};
  for (int op = 0; op < 7; ++op) input.uses.push_back({op, {op + 1}, Bytes(1)});
  input.work = {1, 1, 1, 1, 2, 2, 2, 2};
  EXPECT_EQ(cluster_layers(input), (std::vector<int>{0, 5}));  // 6 | 6
}

TEST(ClusterLayers, HasNoAnswerWhenOneOpExceedsTheBound) {
  LayerClusteringInput input{{Flops(10), Flops(1), Flops(1)}, {}, 3, 0.5};  // average 4, bound 6
  EXPECT_FALSE(cluster_layers(input).has_value());
  input.epsilon = 1.5;  // bound 10
  EXPECT_TRUE(cluster_layers(input).has_value());
}

TEST(ClusterLayers, AgreesWithEnumerationOnRandomInputs) {
  constexpr unsigned kSeed = 4711;
  for (const LayerWork work : kWorks) {
    std::mt19937 random(kSeed);
    int without_cut = 0, decided_by_sum = 0;
    for (int n = 0; n < 400; ++n) {
      SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", work " << static_cast<int>(work) << ", input " << n);
      const LayerClusteringInput input = random_input(random, work);
      const auto truth = cluster_layers_by_enumeration(input);
      const auto first_ops = cluster_layers(input);
      ASSERT_EQ(first_ops.has_value(), truth.has_value());
      without_cut += !truth;
      if (!truth) continue;
      const auto cut = rank_layer_cut(input, *first_ops);
      ASSERT_TRUE(cut.has_value());
      EXPECT_EQ(cut->largest, truth->largest);
      EXPECT_EQ(cut->total, truth->total);
      EXPECT_EQ(cut->imbalance, truth->imbalance);
      decided_by_sum += truth->total < truth->largest * (input.layers - 1);
    }
    std::cout << "seed " << kSeed << ": 400 inputs, " << without_cut << " without a cut, unequal cuts in "
              << decided_by_sum << "\n";
    EXPECT_GT(without_cut, 20);
    EXPECT_GT(decided_by_sum, 20);
  }
}

// Of each number the least and the greatest that are taken, and those next to them that are not. Ops are 0, 1 and 2.
TEST(ClusterLayers, RefusesInputThatIsNoChainOfOps) {
  const auto takes = [](auto change) {
    LayerClusteringInput input{std::vector<Flops>(3, Flops(1)), {{0, {1}, Bytes(1)}}, 1, 0.5};
    change(input);
    try {
      (void)cluster_layers(input);
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  const auto layers = [&](int count) { return takes([&](auto& input) { input.layers = count; }); };
  EXPECT_TRUE(layers(1) && layers(3));
  EXPECT_FALSE(layers(0) || layers(4));
  const auto epsilon = [&](double share) { return takes([&](auto& input) { input.epsilon = share; }); };
  EXPECT_TRUE(epsilon(0.0));
  EXPECT_FALSE(epsilon(-1e-9));
  const auto use = [&](int made_by, std::vector<int> read_by) {
    return takes([&](auto& input) { input.uses = {{made_by, std::move(read_by), Bytes(1)}}; });
  };
  EXPECT_TRUE(use(0, {1, 2}) && use(1, {2}) && use(2, {}));
  EXPECT_FALSE(use(-1, {1}) || use(3, {}) || use(0, {0}) || use(1, {0}) || use(0, {3}) || use(0, {1, 3}));
  const auto starts = [&](std::vector<int> at) {
    return takes([&](auto& input) { input.starts = std::move(at), input.layers = 3; });
  };
  EXPECT_TRUE(starts({}) && starts({1}) && starts({2}) && starts({1, 2}));
  EXPECT_FALSE(starts({0}) || starts({3}) || starts({1, 1}) || starts({2, 1}) || starts({1, 3}));
  const auto work = [&](std::vector<double> of_ops) {
    return takes([&](auto& input) { input.work = std::move(of_ops); });
  };
  EXPECT_TRUE(work({}) && work({0.0, 0.0, 1.0}));
  EXPECT_FALSE(work({1.0, 1.0}) || work({1.0, 1.0, 1.0, 1.0}) || work({1.0, 1.0, -1e-9}));
}

// Four products in a row, h1 = x w0, h2 = h1 w1, ..., with the backward and update op of the last two written out by
// hand.
Graph four_products() {
  Graph graph;
  graph.name = "four products";
  const auto weight = [&](int n) {
    return graph.add_tensor(fmt::format("w{}", n), TensorKind::Parameter, DType::F32,
                            {{fmt::format("k{}", n), 4}, {fmt::format("k{}", n + 1), 4}});
  };
  TensorId h = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 2}, {"k0", 4}});
  std::vector<TensorId> weights, inputs;
  for (int n = 0; n < 4; ++n) {
    weights.push_back(weight(n));
    inputs.push_back(h);
    h = graph
            .add_op(OpKind::Contract, fmt::format("product{}", n), {h, weights.back()},
                    {.result_names = {"batch", fmt::format("k{}", n + 1)}})
            .front();
  }
  graph.current_phase = Phase::Backward;
  graph.current_forward = OpId(3);
  const TensorId gradient =
      graph.add_op(OpKind::Contract, "d_w3", {inputs[3], h}, {.result_names = {"k3", "k4"}}).front();
  graph.current_phase = Phase::Update;
  graph.add_in_place_op(OpKind::SgdUpdate, "update_w3", {weights[3], gradient}, {weights[3]}, {.learning_rate = 0.1});
  return graph;
}

TEST(LayerClusteringInput, CountsForwardOpsAndWhatPassesBetweenThem) {
  const LayerClusteringInput input = layer_clustering_input(four_products(), 2, 0.5);
  EXPECT_EQ(input.flops, std::vector<Flops>(4, Flops(64)));  // 2 * 2 * 4 * 4
  ASSERT_EQ(input.uses.size(), 3U);                          // the last product is read by no forward op
  for (int n = 0; n < 3; ++n) {
    EXPECT_EQ(input.uses[n].made_by, n);
    EXPECT_EQ(input.uses[n].read_by, std::vector<int>{n + 1});
    EXPECT_EQ(input.uses[n].bytes, Bytes(32));  // 2 x 4 floats
  }
}

TEST(LayerClusteringInput, CountsTheBytesOfParametersWhereTheyAreFirstReadAndOfResults) {
  Graph graph = four_products();
  const LayerClusteringInput bytes = layer_clustering_input(graph, 2, 0.5, LayerWork::HeldBytes);
  EXPECT_EQ(bytes.work, std::vector<double>(4, 64 + 32));  // 4 x 4 weights, 2 x 4 results, floats
  EXPECT_EQ(bytes.flops, std::vector<Flops>(4, Flops(64)));
  EXPECT_EQ(layer_clustering_input(graph, 2, 0.5, LayerWork::OpCount).work, std::vector<double>(4, 1.0));
}

TEST(LayerClusteringInput, CountsASharedParameterOnce) {
  Graph graph;
  const TensorId bias = graph.add_tensor("b", TensorKind::Parameter, DType::F32, {{"k", 8}});
  TensorId h = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 2}, {"k", 8}});
  for (const char* name : {"first", "second"}) h = graph.add_op(OpKind::BiasAdd, name, {h, bias}).front();
  EXPECT_EQ(layer_clustering_input(graph, 1, 0.5, LayerWork::HeldBytes).work, (std::vector<double>{32 + 64, 64}));
}

// As make_layers does: the bound is relaxed until there is a cut.
std::vector<int> truth_of(const Graph& graph, int layers, LayerWork work) {
  for (double epsilon = 0.5;; epsilon *= 2.0)
    if (const auto truth = cluster_layers_by_enumeration(layer_clustering_input(graph, layers, epsilon, work)))
      return truth->first_ops;
}

// Two pairs of a 4 x 8 and an 8 x 4 product with bias and ReLU, and the loss: 13 ops.
TEST(MakeLayers, CutAModelAsEnumerationDoesWhateverTheyShareEvenly) {
  const Graph graph = build_forward_graph(find_model("mlp:layers=2,hidden=4"), {.batch = 8});
  std::set<std::vector<int>> cuts;
  for (const LayerWork work : kWorks)
    for (int layers = 1; layers <= 6; ++layers) {
      SCOPED_TRACE(testing::Message() << layers << " layers, work " << static_cast<int>(work));
      const std::vector<int> truth = truth_of(graph, layers, work);
      EXPECT_EQ(make_layers(graph, layers, work).forward, assign_layers(graph, truth).forward);
      cuts.insert(truth);
    }
  EXPECT_GT(cuts.size(), 8U);  // of 3 x 6: what is shared decides
}

TEST(MakeLayers, SendBackwardAndUpdateOpsAlongWithTheirForwardOp) {
  const Layers layers = make_layers(four_products(), 2);
  EXPECT_EQ(layers.count, 2);
  EXPECT_EQ(layers.layer_of_op, (std::vector<int>{0, 0, 1, 1, /*d_w3*/ 1, /*update_w3*/ 1}));
  EXPECT_EQ(layers.forward, (std::vector<std::vector<OpId>>{{OpId(0), OpId(1)}, {OpId(2), OpId(3)}}));
  EXPECT_THROW((void)make_layers(four_products(), 5), InputError);
}

}  // namespace
}  // namespace meshwright::cluster_layers_test
