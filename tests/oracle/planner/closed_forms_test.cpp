// SPDX-License-Identifier: Apache-2.0
// Alpa's closed-form expectations for whole training graphs (its prototype solver's tests): how many all-reduces of
// which size the optimum needs. The cost constants are Alpa's: alpha + beta * bytes with small ordering terms, no
// compute cost.
#include <gtest/gtest.h>

#include "core/planner/intra_op/layer_model.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"

namespace meshwright::closed_forms_test {
namespace {

// all-reduce      alpha + beta 2(n-1)/n B + 0.01        all-gather  alpha + beta (n-1)/n B + 0.1
// reduce-scatter  alpha + beta (n-1)/n B + 0.001        all-to-all  alpha + beta (n-1)/n^2 B n/2 + 0.001
//
// The closed forms need no collective but the all-reduce (Alpa knows this as allow_all_gather = false, and its solver
// has no reduce-scatter). AllReduceOnly makes the two too dear ever to be chosen.
enum class Allowed { AllReduceOnly, Everything };
class AlpaCosts : public CostModel {
 public:
  explicit AlpaCosts(Allowed allowed) : allowed_(allowed) {}
  [[nodiscard]] TimeEstimate compute(const OpWork&) const override { return {Seconds(0), Basis::Modelled}; }
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    const double n = axis.size(), b = bytes.si(), alpha = axis.inner_link.alpha.si(), beta = axis.inner_link.beta.si();
    switch (kind) {
      case CollectiveKind::AllReduce:
        return price(alpha + beta * 2 * (n - 1) / n * b + 0.01);
      case CollectiveKind::AllGather:
        if (allowed_ == Allowed::AllReduceOnly) return price(1000 * (alpha + 2 * b));
        return price(alpha + beta * (n - 1) / n * b + 0.1);
      case CollectiveKind::ReduceScatter:
        if (allowed_ == Allowed::AllReduceOnly) return price(1000 * (alpha + 2 * b));
        return price(alpha + beta * (n - 1) / n * b + 0.001);
      case CollectiveKind::AllToAll:
        return price(alpha + beta * (n - 1) / (n * n) * b * (n / 2) + 0.001);
    }
    return price(0);
  }
  [[nodiscard]] TimeEstimate transfer(Bytes, bool, int) const override { return price(0); }
  [[nodiscard]] Seconds run_overhead() const override { return Seconds(0); }

 private:
  static TimeEstimate price(double seconds) { return {Seconds(seconds), Basis::Modelled}; }
  Allowed allowed_;
};

LogicalMesh mesh_of(std::vector<int> shape, std::vector<double> betas) {
  LogicalMesh mesh;
  int devices = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const LinkCost link{Seconds(1), SecondsPerByte(betas[i])};
    mesh.axes.push_back({shape[i], 1, link, link});
    devices *= shape[i];
  }
  mesh.of = {1, devices};
  return mesh;
}

double all_reduce(double bytes, const LogicalMesh& mesh, std::size_t axis) {
  return AlpaCosts(Allowed::AllReduceOnly)
      .collective(CollectiveKind::AllReduce, Bytes(bytes), mesh.axes[axis])
      .time.si();
}

// layers x (contract [+ bias]) from a free input; the gradient of the last result is given, SGD updates every
// parameter.
Graph mlp(int layers, std::int64_t batch, std::int64_t hidden, bool bias) {
  Graph graph;
  graph.batch = batch;
  const auto dim = [&](int i) { return Dim{"h" + std::to_string(i), hidden}; };
  TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", batch}, dim(0)});
  for (int i = 0; i < layers; ++i) {
    const std::string name = "dense" + std::to_string(i);
    const TensorId w = graph.add_tensor(name + ".weight", TensorKind::Parameter, DType::F32, {dim(i), dim(i + 1)});
    Attributes attributes;
    attributes.result_names = {"batch", dim(i + 1).name};
    x = graph.add_op(OpKind::Contract, name, {x, w}, attributes).front();
    if (!bias) continue;
    const TensorId b = graph.add_tensor(name + ".bias", TensorKind::Parameter, DType::F32, {dim(i + 1)});
    x = graph.add_op(OpKind::BiasAdd, name + ".bias_add", {x, b}).front();
  }
  const TensorId seed = graph.add_tensor("seed", TensorKind::Input, DType::F32, {{"batch", batch}, dim(layers)});
  append_backward(graph, x, seed, Recompute::None);
  append_updates(graph, {Optimizer::Kind::Sgd, 0.1});
  return graph;
}

// No heavy op is computed twice: every mesh axis splits every contraction.
IntraOpRules as_in_alpa(const LogicalMesh& mesh, const IntraOpRules& more) {
  AxisMask all = 0;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (mesh.axes[a].size() > 1) all = static_cast<AxisMask>(all | 1 << a);
  IntraOpRules rules;
  rules.allow_op = [all, more](const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    AxisMask used = 0;
    for (const AxisMask mask : axes) used = static_cast<AxisMask>(used | mask);
    return (op.kind != OpKind::Contract || used == all) && (!more.allow_op || more.allow_op(op, space, axes));
  };
  return rules;
}

// The optimum's cost, found by elimination and by the ILP (which must agree).
double optimum(const Graph& graph, const LogicalMesh& mesh, const IntraOpRules& rules = {},
               Allowed allowed = Allowed::AllReduceOnly) {
  const AlpaCosts costs(allowed);
  const Layers layers = make_layers(graph, 1);
  const StepStructure structure(graph, layers);
  ReshardingCosts prices(mesh, costs);
  const LayerModel model(structure, 0, mesh, costs, prices, as_in_alpa(mesh, rules));
  EXPECT_FALSE(model.impossible().has_value()) << *model.impossible();
  const ShardingProblem problem = model.problem({1, 0, 1});
  const auto solution = solve_by_elimination(problem);
  EXPECT_TRUE(solution.has_value());
  EXPECT_NEAR(evaluate(problem, solution->choice).total().si(), solution->cost.si(), 1e-9 * solution->cost.si());
  // The ILP of a dozen layers on a 2-D mesh takes GLPK minutes; on small graphs it is the independent witness.
  if (problem.nodes.size() <= 12) {
    const auto ilp = solve_by_glpk(problem);
    EXPECT_TRUE(ilp.has_value());
    EXPECT_NEAR(ilp->cost.si(), solution->cost.si(), 1e-6 * solution->cost.si());
  }
  return solution->cost.si();
}

struct OneDimensional : testing::TestWithParam<bool> {
  // (4,1) and (1,4)
  LogicalMesh mesh = GetParam() ? mesh_of({4, 1}, {1, 1}) : mesh_of({1, 4}, {1, 1});
  std::size_t axis = GetParam() ? 0 : 1;
  double ar(double bytes) const { return all_reduce(bytes, mesh, axis); }
};
INSTANTIATE_TEST_SUITE_P(Meshes, OneDimensional, testing::Bool());

TEST_P(OneDimensional, TwoLayersWithALargeBatchReduceGradientsOnly) {
  EXPECT_NEAR(optimum(mlp(2, 1024, 128, false), mesh), 2 * ar(4.0 * 128 * 128), 1e-6);
}
TEST_P(OneDimensional, TwoWideLayersReduceOneActivation) {
  EXPECT_NEAR(optimum(mlp(2, 128, 1024, false), mesh), ar(4.0 * 128 * 1024), 1e-6);
}
TEST_P(OneDimensional, TwelveLayersWithALargeBatchReduceTwelveGradients) {
  EXPECT_NEAR(optimum(mlp(12, 1024, 128, false), mesh), 12 * ar(4.0 * 128 * 128), 1e-6);
}
TEST_P(OneDimensional, TwelveWideLayersReduceElevenActivations) {
  EXPECT_NEAR(optimum(mlp(12, 128, 1024, false), mesh), 11 * ar(4.0 * 128 * 1024), 1e-6);
}
TEST_P(OneDimensional, BiasesAddTheirGradientsWithALargeBatch) {
  EXPECT_NEAR(optimum(mlp(2, 1024, 128, true), mesh), 2 * ar(4.0 * 128 * 128) + 2 * ar(4.0 * 128), 1e-6);
}
TEST_P(OneDimensional, BiasesAddNothingWhenTheLayersAreWide) {
  EXPECT_NEAR(optimum(mlp(2, 128, 1024, true), mesh), ar(4.0 * 128 * 1024), 1e-6);
}

TEST(ForcedBatchAxis, MakesWideLayersReduceGradients) {
  const LogicalMesh mesh = mesh_of({4, 1}, {1, 1});
  IntraOpRules rules;
  rules.allow_op = [](const Op&, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    const auto batch = space.find("batch");
    return !batch || axes[static_cast<std::size_t>(*batch)] == 1;
  };
  EXPECT_NEAR(optimum(mlp(2, 128, 1024, false), mesh, rules), 2 * all_reduce(4.0 * 1024 * 1024, mesh, 0), 1e-3);
}

struct TwoDimensional : testing::TestWithParam<std::pair<int, int>> {
  LogicalMesh mesh = mesh_of({GetParam().first, GetParam().second}, {1, 0.01});
  double m0 = GetParam().first, m1 = GetParam().second;
  double ar(double bytes, std::size_t axis) const { return all_reduce(bytes, mesh, axis); }
};
INSTANTIATE_TEST_SUITE_P(Meshes, TwoDimensional, testing::Values(std::pair{4, 8}, std::pair{8, 4}));

TEST_P(TwoDimensional, TwoLayersSplitBatchOnTheSlowAxisAndWeightsOnTheFast) {
  const double h = 128, batch = 1024;
  EXPECT_NEAR(optimum(mlp(2, 1024, 128, false), mesh), 2 * ar(4 * h * h / m1, 0) + ar(4 * batch * h / m0, 1), 1e-6);
}
TEST_P(TwoDimensional, TwelveLayersDoTheSame) {
  const double h = 128, batch = 1024;
  EXPECT_NEAR(optimum(mlp(12, 1024, 128, false), mesh), 12 * ar(4 * h * h / m1, 0) + 11 * ar(4 * batch * h / m0, 1),
              1e-5);
}
TEST_P(TwoDimensional, BiasesAreReducedWithTheirLayers) {
  const double h = 128, batch = 1024;
  // As in Alpa, where an element-wise op follows its operand: the last bias is added to the whole rows the all-reduce
  // leaves.
  IntraOpRules whole_result;
  whole_result.allow_op = [](const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    return op.name != "dense1.bias_add" || axes[static_cast<std::size_t>(*space.find("h2"))] == 0;
  };
  EXPECT_NEAR(optimum(mlp(2, 1024, 128, true), mesh, whole_result),
              ar(4 * batch * h / m0, 1) + 2 * ar(4 * h * h / m1, 0) + ar(4 * h, 0) + ar(4 * h / m1, 0), 1e-6);
  // Free, it is added to slices, and its gradient is as small as the other's.
  EXPECT_NEAR(optimum(mlp(2, 1024, 128, true), mesh),
              ar(4 * batch * h / m0, 1) + 2 * ar(4 * h * h / m1, 0) + 2 * ar(4 * h / m1, 0), 1e-6);
}

// What the closed forms leave out: a gradient that is partial over both axes is summed hierarchically (scattered on the
// fast axis, all-reduced in pieces on the slow one, gathered), and plans that use it are cheaper.
TEST_P(TwoDimensional, ReduceScatterAndAllGatherBeatTheClosedForm) {
  const Graph graph = mlp(12, 1024, 128, false);
  EXPECT_LT(optimum(graph, mesh, {}, Allowed::Everything), optimum(graph, mesh));
}
// On one axis there is no hierarchy, and nothing beats it.
TEST_P(OneDimensional, ReduceScatterAndAllGatherDoNotBeatTwelveGradients) {
  const Graph graph = mlp(12, 1024, 128, false);
  EXPECT_NEAR(optimum(graph, mesh, {}, Allowed::Everything), optimum(graph, mesh), 1e-6);
}

// qkv projection, causal attention, output projection; with or without the backward.
Graph attention(std::int64_t batch, std::int64_t seq, std::int64_t hidden, std::int64_t heads, bool training) {
  Graph graph;
  graph.batch = batch;
  const Dim b{"batch", batch}, s{"seq", seq}, e{"embed", hidden}, h{"heads", heads}, d{"head_dim", hidden / heads};
  // A trained tensor in front makes the block need the gradient of its input, as inside a deep model.
  const TensorId x = graph.add_tensor("x", training ? TensorKind::Parameter : TensorKind::Input, DType::F32, {b, s, e});
  const TensorId wqkv = graph.add_tensor("qkv.weight", TensorKind::Parameter, DType::F32, {e, {"qkv", 3}, h, d});
  const TensorId wo = graph.add_tensor("out.weight", TensorKind::Parameter, DType::F32, {h, d, {"model", hidden}});
  Attributes to_qkv, to_out;
  to_qkv.result_names = {"batch", "seq", "qkv", "heads", "head_dim"};
  to_out.result_names = {"batch", "seq", "model"};
  const TensorId qkv = graph.add_op(OpKind::Contract, "qkv", {x, wqkv}, to_qkv).front();
  const TensorId mixed = graph.add_op(OpKind::Attention, "core", {qkv}).front();
  const TensorId out = graph.add_op(OpKind::Contract, "out", {mixed, wo}, to_out).front();
  if (!training) return graph;
  const TensorId seed = graph.add_tensor("seed", TensorKind::Input, DType::F32, {b, s, {"model", hidden}});
  append_backward(graph, out, seed, Recompute::None);
  append_updates(graph, {Optimizer::Kind::Sgd, 0.1});
  return graph;
}

// Samples and positions may be split over mesh axis 0 only.
IntraOpRules tensor_parallel(AxisMask batch_axes) {
  IntraOpRules rules;
  rules.allow_op = [batch_axes](const Op&, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    const auto batch = space.find("batch"), seq = space.find("seq");
    if (seq && axes[static_cast<std::size_t>(*seq)] != 0) return false;
    return !batch || axes[static_cast<std::size_t>(*batch)] == batch_axes;
  };
  return rules;
}

TEST_P(OneDimensional, AttentionForwardReducesItsResultOnce) {
  EXPECT_NEAR(optimum(attention(4, 128, 512, 16, false), mesh, tensor_parallel(0)), ar(4.0 * 4 * 128 * 512), 1e-6);
}
TEST(Attention, ForwardOnATwoDimensionalMeshReducesATileOnce) {
  const LogicalMesh mesh = mesh_of({4, 4}, {1, 1});
  EXPECT_NEAR(optimum(attention(4, 128, 2048, 16, false), mesh, tensor_parallel(1)),
              all_reduce(4.0 * 4 * 128 * 2048 / 4, mesh, 1), 1e-6);
}
// Megatron's pattern: one all-reduce forward (the result), one backward (the input's gradient).
TEST_P(OneDimensional, AttentionTrainingReducesOnceForwardAndOnceBackward) {
  EXPECT_NEAR(optimum(attention(4, 128, 512, 16, true), mesh, tensor_parallel(0)), 2 * ar(4.0 * 4 * 128 * 512), 1e-6);
}

}  // namespace
}  // namespace meshwright::closed_forms_test
