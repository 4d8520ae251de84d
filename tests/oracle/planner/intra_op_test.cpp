// SPDX-License-Identifier: Apache-2.0
// The intra-op model of real layers: its optimum against enumeration and GLPK, and spans of chained layers against the
// same ops solved as one layer.
#include "core/planner/intra_op/layer_model.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/planner/spans/stage_search.h"
#include "costmodel/cost_models.h"
#include "tests/oracle/enumeration.h"

namespace meshwright::intra_op_test {
namespace {

constexpr const char* kMlp1 = "mlp:layers=1,hidden=64";
constexpr const char* kMlp2 = "mlp:layers=2,hidden=64";
constexpr const char* kGpt1 = "gpt:layers=1,hidden=64,heads=4,seq=16,vocab=128";
constexpr const char* kGpt2 = "gpt:layers=2,hidden=64,heads=4,seq=16,vocab=128";

Graph training_graph(const std::string& model, Recompute recompute = Recompute::None) {
  TrainingOptions options;
  options.batch = 64;
  options.microbatches = 4;
  options.recompute = recompute;
  return build_training_graph(find_model(model), options);
}

// A graph, its layers and a mesh on one host, whose links are `slowness` times as slow as they should be.
struct Setting {
  static Cluster cluster_of(double slowness) {
    Cluster cluster = find_cluster("cpu:8");
    cluster.only().within_host.beta = SecondsPerByte(slowness * cluster.only().within_host.beta.si());
    return cluster;
  }

  Graph graph;
  Layers layers;
  StepStructure structure{graph, layers};
  Cluster cluster;
  LogicalMesh mesh;
  std::unique_ptr<CostModel> costs;
  ReshardingCosts prices{mesh, *costs};

  Setting(Graph of, const std::vector<int>& first_ops, const std::vector<int>& shape, double slowness = 1)
      : graph(std::move(of)),
        layers(assign_layers(graph, first_ops)),
        cluster(cluster_of(slowness)),
        mesh(make_logical_mesh(cluster, {1, shape[0] * shape[1]}, shape)),
        costs(make_analytic_cost_model(cluster)) {}
  Setting(const Setting&) = delete;

  [[nodiscard]] LayerModel model(int layer) { return {structure, layer, mesh, *costs, prices, {}}; }
  // Whether every border has all the joint states there are; the model leaves some out where they are many.
  [[nodiscard]] bool borders_are_complete() const {
    for (int layer = 1; layer < layers.count; ++layer) {
      std::size_t states = 1;
      for (const TensorId id : structure.crossing(layer)) states *= enumerate_specs(graph.tensor(id).dims, mesh).size();
      if (make_border(structure, layer, mesh).states.size() != states) return false;
    }
    return true;
  }
  [[nodiscard]] MeshSpans spans() const {
    return {structure, mesh, *costs, {.microbatches = graph.microbatches, .usable_memory = Bytes(1e6)}};
  }
};

std::vector<int> first_ops_of(const Graph& graph, int layers) {
  const Layers cut = make_layers(graph, layers);
  std::vector<int> first_ops;
  int position = 0;
  for (const auto& ops : cut.forward) {
    first_ops.push_back(position);
    position += static_cast<int>(ops.size());
  }
  return first_ops;
}

double choices(const ShardingProblem& problem) {
  double count = 1;
  for (const auto& node : problem.nodes) count *= static_cast<double>(node.cost.size());
  return count;
}

double per_microbatch(const StepCost& cost, const Graph& graph) {
  return (cost.forward + cost.backward + cost.step / static_cast<double>(graph.microbatches)).si();
}

const CostWeights kTimeOnly{4, 0, 1};
const CostWeights kTimeAndBytes{4, 3e-9, 2};

// --- the optimum ---

// 6 ways to contract x 3 to add a bias x 3 to clip, twice, x 3 for the loss x (7 x 5)^2 for the parameters (a
// whole weight with a whole state; else split states, each synchronised once per step or eagerly) = 10 716 300.
TEST(LayerModel, OfAWholeMlpIsSolvedAsByEnumeration) {
  Setting setting(training_graph(kMlp1), {0}, {1, 2});
  const ShardingProblem problem = setting.model(0).problem(kTimeAndBytes);
  EXPECT_EQ(choices(problem), 54. * 54 * 3 * 35 * 35);
  const auto found = solve_by_elimination(problem);
  const auto wanted = solve_by_enumeration(problem);
  ASSERT_TRUE(found && wanted);
  EXPECT_NEAR(found->cost.si(), wanted->cost.si(), 1e-12 * wanted->cost.si());
}

// The smallest layers of finely cut models, borders free.
TEST(LayerModel, OfEverySmallLayerIsSolvedAsByEnumeration) {
  int checked = 0;
  for (const auto& [name, layers] : {std::pair{kMlp2, 8}, std::pair{kGpt1, 16}})
    for (const auto& shape : {std::vector<int>{1, 4}, std::vector<int>{2, 2}})
      for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
        Graph graph = training_graph(name, recompute);
        const auto first_ops = first_ops_of(graph, layers);
        Setting setting(std::move(graph), first_ops, shape);
        for (int layer = 0; layer < layers; ++layer) {
          const ShardingProblem problem = setting.model(layer).problem(kTimeAndBytes);
          if (choices(problem) > 3e5) continue;
          const auto wanted = solve_by_enumeration(problem);
          const auto found = solve_by_elimination(problem);
          ASSERT_TRUE(found && wanted) << name << " layer " << layer;
          EXPECT_NEAR(found->cost.si(), wanted->cost.si(), 1e-12 * wanted->cost.si()) << name << " layer " << layer;
          ++checked;
        }
      }
  EXPECT_GE(checked, 20);
}

TEST(LayerModel, OfWholeModelsIsSolvedAsByTheIlp) {
  for (const auto& [name, shape] : {std::pair{kMlp2, std::vector<int>{1, 4}}, std::pair{kMlp1, std::vector<int>{2, 2}},
                                    std::pair{kGpt1, std::vector<int>{2, 1}}}) {
    Setting setting(training_graph(name), {0}, shape);
    const ShardingProblem problem = setting.model(0).problem(kTimeAndBytes);
    const auto found = solve_by_elimination(problem);
    const auto wanted = solve_by_glpk(problem);
    ASSERT_TRUE(found && wanted) << name;
    EXPECT_NEAR(found->cost.si(), wanted->cost.si(), 1e-9 * wanted->cost.si()) << name;
  }
}

// --- parts and whole ---

TEST(LayerModel, PartsOfAChoiceAddUpToWhatTheProblemSays) {
  std::mt19937 random(11);
  for (const char* name : {kMlp2, kGpt1}) {
    Setting setting(training_graph(name, Recompute::Full), {0}, {2, 2});
    const LayerModel model = setting.model(0);
    for (const CostWeights& weights : {kTimeOnly, kTimeAndBytes}) {
      const ShardingProblem problem = model.problem(weights);
      int drawn_choices = 0;
      for (int trial = 0; trial < 20; ++trial) {
        // The best choice with one strategy drawn: any draw of all of them would hold forbidden pairs.
        const int node = static_cast<int>(random() % problem.nodes.size());
        const int drawn = static_cast<int>(random() % problem.nodes[static_cast<std::size_t>(node)].cost.size());
        auto solution = solve_by_elimination(fix_strategy(problem, node, drawn));
        if (!solution) continue;
        ShardingChoice choice = std::move(solution->choice);
        choice.strategy[static_cast<std::size_t>(node)] = drawn;
        ++drawn_choices;
        const Evaluation evaluation = evaluate(problem, choice);
        ASSERT_TRUE(evaluation.violations.empty());
        EXPECT_NEAR(weights.total(model.cost(choice)).si(), evaluation.total().si(), 1e-9 * evaluation.total().si());
      }
      EXPECT_GE(drawn_choices, 10);
    }
  }
}

// The word table of BERT is read by its first and its last ops: the state belongs to the first, which updates it.
TEST(LayerModel, AForcedStateBindsTheFirstReaderOfAParameterAlone) {
  Graph graph = training_graph("bert:layers=1,hidden=64,heads=4,seq=16,vocab=128");
  const int ops = static_cast<int>(forward_ops(graph).size());
  std::vector<int> first_ops;
  for (int op = 0; op < ops; ++op) first_ops.push_back(op);  // each is a layer
  Setting setting(std::move(graph), first_ops, {2, 2});
  int shared = 0;
  for (const Tensor& parameter : setting.graph.tensors()) {
    if (parameter.kind != TensorKind::Parameter) continue;
    std::vector<int> readers;
    for (int layer = 0; layer < ops; ++layer)
      for (const TensorId input : setting.graph.op(setting.layers.forward[layer].front()).inputs)
        if (input == parameter.id) readers.push_back(layer);
    if (readers.size() < 2) continue;
    ++shared;
    const TensorId state = setting.structure.optimizer_state(parameter.id).front();
    IntraOpRules rules;
    rules.forced[setting.graph.tensor(state).name] = enumerate_specs(parameter.dims, setting.mesh).back();
    for (const int layer : readers) {
      const LayerModel forced(setting.structure, layer, setting.mesh, *setting.costs, setting.prices, rules);
      ASSERT_FALSE(forced.impossible()) << *forced.impossible();
      const double all = choices(setting.model(layer).problem(kTimeOnly)), left = choices(forced.problem(kTimeOnly));
      if (layer == readers.front()) {
        EXPECT_LT(left, all) << parameter.name;
      } else {
        EXPECT_EQ(left, all) << parameter.name;
      }
    }
  }
  EXPECT_GT(shared, 0);
}

TEST(CostWeights, AddTimeAndPricedBytes) {
  StepCost cost;
  cost.forward = Seconds(1);
  cost.backward = Seconds(2);
  cost.step = Seconds(40);
  cost.resident = Bytes(100);
  cost.saved = Bytes(1000);
  cost.working = cost.recomputed = Bytes(1e6);  // not priced
  // 1 + 2 + 40/4 + 0.5 (100 + 3 x 1000)
  EXPECT_EQ((CostWeights{4, 0.5, 3}.total(cost)), Seconds(1 + 2 + 10 + 1550));
  StepCost other;
  other.working = Bytes(2e6);
  other.forward = Seconds(10);
  cost += other;
  EXPECT_EQ(cost.working, Bytes(2e6));  // one op at a time
  EXPECT_EQ(cost.forward, Seconds(11));
}

// --- chains of layers ---

struct Chained : testing::TestWithParam<std::tuple<const char*, std::vector<int>>> {
  std::string name = std::get<0>(GetParam());
  std::vector<int> shape = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Models, Chained,
                         testing::Combine(testing::Values(kMlp2, kGpt1),
                                          testing::Values(std::vector<int>{2, 1}, std::vector<int>{1, 4},
                                                          std::vector<int>{2, 2})));

// A chain over borders can lose only where states were left out of a border, and then little.
void expect_nothing_lost(const Setting& cut, Seconds chained_forward_backward_step, double wanted,
                         const std::string& what) {
  const double found = chained_forward_backward_step.si();
  EXPECT_GE(found, wanted * (1 - 1e-9)) << what;
  EXPECT_LE(found, wanted * (cut.borders_are_complete() ? 1 + 1e-9 : 1.03)) << what;
}

TEST_P(Chained, LayersLoseNothingAgainstOneLayer) {
  for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
    const Graph graph = training_graph(name, recompute);
    Setting whole(graph, {0}, shape);
    const double wanted = per_microbatch(whole.spans().cost(0, 0, 0), graph);
    EXPECT_NEAR(solve(whole.model(0).problem(kTimeOnly))->cost.si(), wanted, 1e-9 * wanted);
    for (const int layers : {2, 4, 7}) {
      const Setting cut(graph, first_ops_of(graph, layers), shape);
      if (layers <= 4) {
        EXPECT_TRUE(cut.borders_are_complete()) << layers << " layers";
      }
      expect_nothing_lost(cut, Seconds(per_microbatch(cut.spans().cost(0, layers - 1, 0), graph)), wanted,
                          std::to_string(layers) + " layers");
    }
  }
}

// Layers first..last of five against a model in which they are cut as one.
TEST_P(Chained, EverySpanCostsWhatItsOpsCostAsOneLayer) {
  const Graph graph = training_graph(name);
  const std::vector<int> first_ops = first_ops_of(graph, 5);
  const Setting fine(graph, first_ops, shape);
  const MeshSpans spans = fine.spans();
  for (int first = 0; first < 5; ++first)
    for (int last = first + 1; last < 5; ++last) {
      std::vector<int> merged = first_ops;
      merged.erase(merged.begin() + first + 1, merged.begin() + last + 1);
      const Setting coarse(graph, merged, shape);
      const double wanted = per_microbatch(coarse.spans().cost(first, first, 0), graph);
      expect_nothing_lost(fine, Seconds(per_microbatch(spans.cost(first, last, 0), graph)), wanted,
                          std::to_string(first) + ".." + std::to_string(last));
    }
}

// At a higher price of bytes there are fewer bytes and more seconds.
void expect_trade(const Setting& setting) {
  const Graph& graph = setting.graph;
  const int last = setting.layers.count - 1;
  const MeshSpans spans = setting.spans();
  ASSERT_EQ(spans.options(), 5);
  const auto bytes = [&](int price) {
    const StepCost& cost = spans.cost(0, last, price);
    return cost.resident.si() + 4 * cost.saved.si();  // four microbatches in flight
  };
  for (int price = 1; price < spans.options(); ++price) {
    EXPECT_LE(bytes(price), bytes(price - 1) * (1 + 1e-9)) << "price " << price;
    EXPECT_GE(per_microbatch(spans.cost(0, last, price), graph) * (1 + 1e-9),
              per_microbatch(spans.cost(0, last, price - 1), graph))
        << "price " << price;
  }
}
TEST_P(Chained, HigherMemoryPricesTradeTimeForBytes) {
  const Graph graph = training_graph(name);
  expect_trade(Setting(graph, first_ops_of(graph, 3), shape));
}
// Over slow links everything is kept whole, until bytes are dear.
TEST(MemoryPrices, HalveTheBytesWhereLinksAreSlow) {
  const Graph graph = training_graph(kMlp2);
  const Setting setting(graph, first_ops_of(graph, 2), {1, 4}, 1000.0);
  expect_trade(setting);
  const MeshSpans spans = setting.spans();
  EXPECT_LT(spans.cost(0, 1, 4).resident.si(), 0.5 * spans.cost(0, 1, 0).resident.si());
}

// --- equal layers ---

void expect_equal_problems(const ShardingProblem& a, const ShardingProblem& b, const std::string& what) {
  ASSERT_EQ(a.nodes.size(), b.nodes.size()) << what;
  ASSERT_EQ(a.edges.size(), b.edges.size()) << what;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].strategies, b.nodes[i].strategies) << what;
    EXPECT_EQ(a.nodes[i].cost, b.nodes[i].cost) << what;
  }
  for (std::size_t k = 0; k < a.edges.size(); ++k) {
    EXPECT_EQ(std::pair(a.edges[k].from, a.edges[k].to), std::pair(b.edges[k].from, b.edges[k].to)) << what;
    EXPECT_EQ(a.edges[k].cost, b.edges[k].cost) << what;
  }
}

// Layers are solved once per signature, so equal signatures must mean equal problems, to the last bit.
TEST(EqualSignatures, MeanEqualProblems) {
  int pairs = 0;
  for (const char* name : {"mlp:layers=4,hidden=64", "gpt:layers=3,hidden=64,heads=4,seq=16,vocab=128"})
    for (const int layers : {4, 9, 20})
      for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
        const Graph graph = training_graph(name, recompute);
        Setting setting(graph, first_ops_of(graph, layers), {1, 4});
        for (int a = 0; a < layers; ++a)
          for (int b = a + 1; b < layers; ++b) {
            if (setting.structure.layer_signature(a) != setting.structure.layer_signature(b)) continue;
            expect_equal_problems(setting.model(a).problem(kTimeAndBytes), setting.model(b).problem(kTimeAndBytes),
                                  std::string(name) + " " + std::to_string(a) + ", " + std::to_string(b));
            ++pairs;
          }
      }
  EXPECT_GE(pairs, 30);
}

// Blocks begin at every sixth forward op. The first needs no gradient of its input, the last holds the loss.
TEST(EqualSignatures, AreThoseOfInnerBlocks) {
  const Setting setting(training_graph("mlp:layers=4,hidden=64"), {0, 6, 12, 18}, {1, 4});
  EXPECT_EQ(setting.structure.layer_signature(1), setting.structure.layer_signature(2));
  EXPECT_NE(setting.structure.layer_signature(0), setting.structure.layer_signature(1));
  EXPECT_NE(setting.structure.layer_signature(2), setting.structure.layer_signature(3));
  EXPECT_EQ(setting.spans().cost(1, 1, 0).backward, setting.spans().cost(2, 2, 0).backward);
}

// A bias that acts on one index of an axis forbids to split that axis.
TEST(EqualSignatures, AreNotThoseOfASelectingAndAPlainBias) {
  Graph graph;
  graph.batch = 8;
  const std::vector<Dim> dims = {{"batch", 8}, {"qkv", 4}, {"heads", 8}};
  TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, dims);
  for (int i = 0; i < 4; ++i) {
    const std::string name = "bias" + std::to_string(i);
    Attributes attributes;
    attributes.bias_select = i == 1;
    const TensorId bias = graph.add_tensor(name, TensorKind::Parameter, DType::F32, {{"heads", 8}});
    x = graph.add_op(OpKind::BiasAdd, name + "_add", {x, bias}, attributes).front();
  }
  const TensorId seed = graph.add_tensor("seed", TensorKind::Input, DType::F32, dims);
  append_backward(graph, x, seed, Recompute::None);
  append_updates(graph, {});
  Setting setting(graph, {0, 1, 2, 3}, {1, 4});
  ASSERT_LT(setting.model(1).problem(kTimeOnly).nodes[1].cost.size(),
            setting.model(2).problem(kTimeOnly).nodes[1].cost.size());
  EXPECT_NE(setting.structure.layer_signature(1), setting.structure.layer_signature(2));
}

}  // namespace
}  // namespace meshwright::intra_op_test
