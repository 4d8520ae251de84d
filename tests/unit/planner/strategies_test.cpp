// SPDX-License-Identifier: Apache-2.0
#include "core/planner/intra_op/strategies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::strategies_test {
namespace {

// y[batch, mlp] = sum over embed of x[batch, embed] w[embed, mlp]: the axes in this order.
struct Matmul {
  Graph graph;
  Matmul(std::int64_t batch, std::int64_t embed, std::int64_t mlp) {
    const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", batch}, {"embed", embed}});
    const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {{"embed", embed}, {"mlp", mlp}});
    Attributes attributes;
    attributes.result_names = {"batch", "mlp"};
    (void)graph.add_op(OpKind::Contract, "y", {x, w}, attributes);
  }
  [[nodiscard]] const Op& op() const { return graph.ops().front(); }
  [[nodiscard]] IterationSpace space() const { return iteration_space(graph, op()); }
  [[nodiscard]] std::vector<OpStrategy> strategies(const LogicalMesh& mesh, const IntraOpRules& rules = {}) const {
    return enumerate_strategies(op(), space(), graph.tensor(op().outputs[0]).dims, mesh, rules);
  }
};

// --- counts by hand ---

// On 2 x 2, each of the two axes goes to batch, embed, mlp or nowhere: 16. Of these 7 split embed (3 with axis 0 only,
// 3 with axis 1 only, 1 with both) and may also scatter their partial sums along batch or mlp: 7 x 2 more.
TEST(MatmulStrategies, AreThirtyOnTwoByTwo) { EXPECT_EQ(Matmul(8, 8, 8).strategies(mesh_of({2, 2})).size(), 30u); }

// One axis: nowhere, batch, mlp, embed summed, embed scattered along batch, along mlp.
TEST(MatmulStrategies, AreSixOnOneAxis) {
  EXPECT_EQ(Matmul(8, 8, 8).strategies(mesh_of({4, 1})).size(), 6u);
  EXPECT_EQ(Matmul(8, 8, 8).strategies(mesh_of({1, 4})).size(), 6u);
  EXPECT_EQ(Matmul(8, 8, 8).strategies(mesh_of({1, 1})).size(), 1u);
}

TEST(MatmulStrategies, SplitOnlyWhatDivides) {
  EXPECT_EQ(Matmul(3, 8, 8).strategies(mesh_of({4, 1})).size(), 4u);  // not batch, nor scattered along it
  EXPECT_EQ(Matmul(8, 3, 8).strategies(mesh_of({4, 1})).size(), 3u);  // no partial sums at all
  EXPECT_EQ(Matmul(1, 8, 1).strategies(mesh_of({2, 1})).size(), 2u);  // whole, or embed all-reduced
  // 2 samples over 2 x 2: both axes on batch is too much (15 ways), and so is scattering onto a split batch. Of the 7
  // that split embed, batch can take the sums of 4: axis 0 or 1, the other one on mlp or nowhere; mlp those of all 7.
  EXPECT_EQ(Matmul(2, 8, 8).strategies(mesh_of({2, 2})).size(), 15u + 4u + 7u);
}

// --- Alpa's table of matmuls (OSDI'22, table 3): result = x X w ---

struct NamedStrategy {
  const char *name, *x, *w, *raw;
  std::vector<std::string> kept;
};
void PrintTo(const NamedStrategy& row, std::ostream* out) { *out << row.name; }

struct AlpaTable : testing::TestWithParam<NamedStrategy> {};
TEST_P(AlpaTable, HasItsOperandsItsPartialSumAndItsWaysToResolveIt) {
  const Matmul matmul(8, 8, 8);
  const IterationSpace space = matmul.space();
  std::vector<std::string> kept;
  for (const OpStrategy& strategy : matmul.strategies(mesh_of({2, 2}))) {
    const AxesByName axes = axes_by_name(space, strategy.axes);
    const auto reads = [&](std::size_t i) { return operand_spec(space, i, axes).to_text(); };
    if (reads(0) != GetParam().x || reads(1) != GetParam().w) continue;
    EXPECT_EQ(strategy.raw.to_text(), GetParam().raw);
    kept.push_back(strategy.result.to_text());
  }
  EXPECT_EQ(kept, GetParam().kept);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, AlpaTable,
    testing::Values(NamedStrategy{"SS = SR x RS", "S0R", "RS1", "S0S1", {"S0S1"}},
                    NamedStrategy{"SS = SR x RS, other order", "S1R", "RS0", "S1S0", {"S1S0"}},
                    NamedStrategy{"SR = SS x SR", "S0S1", "S1R", "S0R+P1", {"S0R", "S01R", "S0S1"}},
                    NamedStrategy{"RS = RS x SS", "RS1", "S1S0", "RS0+P1", {"RS0", "S1S0", "RS01"}},
                    NamedStrategy{"RR = RS x SR, one axis", "RS0", "S0R", "RR+P0", {"RR", "S0R", "RS0"}},
                    NamedStrategy{"RR = RS x SR, both axes", "RS01", "S01R", "RR+P01", {"RR", "S01R", "RS01"}},
                    NamedStrategy{"SR = SR x RR", "S0R", "RR", "S0R", {"S0R"}},
                    NamedStrategy{"SR = SR x RR, both axes", "S01R", "RR", "S01R", {"S01R"}},
                    NamedStrategy{"RS = RR x RS", "RR", "RS1", "RS1", {"RS1"}},
                    NamedStrategy{"RR = RR x RR", "RR", "RR", "RR", {"RR"}}));

// Sb: a name that both operands and the result carry.
TEST(BatchedMatmulStrategies, SplitTheCommonNameWithoutPartialSums) {
  Graph graph;
  const Dim b{"expert", 4}, i{"batch", 8}, k{"embed", 8}, j{"mlp", 8};
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {b, i, k});
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {b, k, j});
  Attributes attributes;
  attributes.result_names = {"expert", "batch", "mlp"};
  (void)graph.add_op(OpKind::Contract, "y", {x, w}, attributes);
  const Op& op = graph.ops().front();
  const IterationSpace space = iteration_space(graph, op);
  // 5 x 5 ways; 9 split embed and can be scattered along three dimensions, but not onto the 4 experts a third time.
  std::set<std::string> raw;
  for (const OpStrategy& s : enumerate_strategies(op, space, graph.tensor(op.outputs[0]).dims, mesh_of({2, 2}), {}))
    raw.insert(s.raw.to_text());
  for (const char* named : {"S01RR", "S0S1R", "S0RS1", "S1S0R", "S0RR+P1"}) EXPECT_EQ(raw.count(named), 1u) << named;
  EXPECT_EQ(raw.size(), 25u);
}

// --- what may not be split ---

const Op& op_named(const Graph& graph, const std::string& name) {
  for (const Op& op : graph.ops())
    if (op.name == name) return op;
  throw InternalError("no op " + name);
}
Graph tiny_gpt() {
  TrainingOptions options;
  options.batch = 8;
  return build_training_graph(find_model("gpt:layers=1,hidden=16,heads=4,seq=8,vocab=32"), options);
}
std::set<std::string> results_of(const Graph& graph, const std::string& name, const LogicalMesh& mesh) {
  const Op& op = op_named(graph, name);
  std::set<std::string> found;
  for (const OpStrategy& s :
       enumerate_strategies(op, iteration_space(graph, op), graph.tensor(op.outputs[0]).dims, mesh, {}))
    found.insert(s.raw.to_text() + "->" + s.result.to_text());
  return found;
}

TEST(Strategies, KeepRowsOfANormalisationWhole) {
  EXPECT_EQ(results_of(tiny_gpt(), "blk0.ln1", mesh_of({2, 1})),
            (std::set<std::string>{"RRR->RRR", "S0RR->S0RR", "RS0R->RS0R"}));
}
TEST(Strategies, SplitAttentionByBatchOrHeads) {
  EXPECT_EQ(results_of(tiny_gpt(), "blk0.attn.core", mesh_of({2, 1})),
            (std::set<std::string>{"RRRR->RRRR", "S0RRR->S0RRR", "RRS0R->RRS0R"}));
}
// A maximum over pieces of a row is all-reduced, never scattered as sums are.
TEST(Strategies, AllReduceMaximaButScatterSums) {
  EXPECT_EQ(results_of(tiny_gpt(), "head.row_max", mesh_of({2, 1})),
            (std::set<std::string>{"RR->RR", "S0R->S0R", "RS0->RS0", "RR+P0->RR"}));
  EXPECT_EQ(results_of(tiny_gpt(), "head.sum_exp", mesh_of({2, 1})),
            (std::set<std::string>{"RR->RR", "S0R->S0R", "RS0->RS0", "RR+P0->RR", "RR+P0->S0R", "RR+P0->RS0"}));
}
TEST(Strategies, LeaveAScalarLossPartialOverEverySplit) {
  EXPECT_EQ(results_of(tiny_gpt(), "head.loss", mesh_of({2, 2})),
            (std::set<std::string>{"-->-", "+P0->-", "+P1->-", "+P01->-"}));
}

TEST(Strategies, ObeyTheMethodsRule) {
  IntraOpRules rules;
  rules.allow_op = [](const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes) {
    return op.name == "y" && axes[static_cast<std::size_t>(*space.find("batch"))] == 0b01;
  };
  const Matmul matmul(8, 8, 8);
  // batch on axis 0; axis 1 on batch? no. nowhere, mlp, embed summed or scattered twice.
  const auto strategies = matmul.strategies(mesh_of({2, 2}), rules);
  EXPECT_EQ(strategies.size(), 5u);
  for (const OpStrategy& s : strategies) EXPECT_EQ(s.axes[0], 0b01);
  rules.allow_op = [](const Op&, const IterationSpace&, const std::vector<AxisMask>&) { return false; };
  EXPECT_TRUE(matmul.strategies(mesh_of({2, 2}), rules).empty());
}

// The second result of an op: what LayerNorm's gradients of gamma and beta lack is batch and seq.
TEST(RawResult, IsPartialOverTheSplitsAResultLacks) {
  const Graph graph = tiny_gpt();
  const IterationSpace space = iteration_space(graph, op_named(graph, "blk0.ln1.grad_params"));
  const AxesByName axes = {{"batch", 0b01}, {"seq", 0b10}};
  EXPECT_EQ(raw_result(space, 0, axes).to_text(), "R+P01");
  EXPECT_EQ(raw_result(space, 1, axes).to_text(), "R+P01");
  EXPECT_EQ(raw_result(space, 1, {{"somewhere else", 0b01}}).to_text(), "R");
}

// Every strategy of every op of a model: no mesh axis twice, results without partial sums and in whole tiles, local
// work = whole work / devices that share it.
TEST(Strategies, OfAWholeModelAreSoundAndDistinct) {
  const Graph graph = tiny_gpt();
  const LogicalMesh mesh = mesh_of({2, 4});
  for (const OpId id : forward_ops(graph)) {
    const Op& op = graph.op(id);
    const IterationSpace space = iteration_space(graph, op);
    const auto& dims = graph.tensor(op.outputs[0]).dims;
    std::set<std::tuple<std::vector<AxisMask>, AxisMask, ShardingSpec>> seen;
    std::vector<std::int64_t> whole;
    for (const IterationAxis& axis : space.axes) whole.push_back(axis.size);
    for (const OpStrategy& s : enumerate_strategies(op, space, dims, mesh, {})) {
      EXPECT_TRUE(seen.insert({s.axes, s.partial, s.result}).second) << op.name;
      AxisMask used = 0;
      for (const AxisMask mask : s.axes) {
        EXPECT_EQ(used & mask, 0) << op.name;
        used = static_cast<AxisMask>(used | mask);
      }
      EXPECT_EQ(used & s.partial, 0) << op.name;
      // Every split shows in the result, as a cut or a partial sum; what goes through as partial sums too.
      EXPECT_EQ(s.raw.used(), used | s.partial) << op.name;
      EXPECT_EQ(s.result.partial, 0) << op.name;
      EXPECT_TRUE(divides(dims, s.result, mesh)) << op.name << " " << s.result.to_text();
      const auto local = local_axis_sizes(space, axes_by_name(space, s.axes), mesh);
      EXPECT_EQ(contraction_flops(op.kind, space, local) * shards(used, mesh), contraction_flops(op.kind, space, whole))
          << op.name;
    }
  }
}

// --- parameters ---

Tensor parameter(std::int64_t rows, std::int64_t columns) {
  return {TensorId(0), "w", TensorKind::Parameter, DType::F32, {{"embed", rows}, {"mlp", columns}}, {}, {}};
}
using Pairs = std::vector<std::string>;  // "weight/state"
Pairs shardings(const Tensor& tensor, bool has_state, const std::vector<int>& shape, const IntraOpRules& rules = {}) {
  Pairs found;
  for (const auto& s : enumerate_parameter_shardings(tensor, has_state, mesh_of(shape), rules))
    found.push_back(s.weight.to_text() + "/" + s.state.to_text() + (s.eager ? "!" : ""));
  std::sort(found.begin(), found.end());
  return found;
}

TEST(ParameterShardings, SplitTheStateAtLeastAsTheWeight) {
  EXPECT_EQ(shardings(parameter(8, 8), true, {2, 1}),
            (Pairs{"RR/RR", "RR/S0R", "RR/S0R!", "RS0/RS0", "RS0/RS0!", "S0R/S0R", "S0R/S0R!"}));
  // 2 x 2: the whole weight with 4 states, 4 weights on one axis with 2, 4 on both axes with 1; all but one state are
  // split and may be synchronised eagerly.
  const Pairs both = shardings(parameter(8, 8), true, {2, 2});
  EXPECT_EQ(both.size(), 2u * (4u + 4u * 2u + 4u) - 1u);
  for (const char* pair : {"RR/RR", "RR/S0R", "RR/S0R!", "RR/S1R", "RR/S01R", "RS0/S1S0", "S0R/S01R", "S1S0/S1S0"})
    EXPECT_EQ(std::count(both.begin(), both.end(), pair), 1) << pair;
}
TEST(ParameterShardings, CutTheStateAlongTheFirstDimensionThatDivides) {
  EXPECT_EQ(shardings(parameter(3, 8), true, {2, 1}), (Pairs{"RR/RR", "RR/RS0", "RR/RS0!", "RS0/RS0", "RS0/RS0!"}));
  EXPECT_EQ(shardings(parameter(3, 5), true, {2, 1}), (Pairs{"RR/RR"}));
}
TEST(ParameterShardings, WithoutStateAreTheWeightsAlone) {
  EXPECT_EQ(shardings(parameter(8, 8), false, {2, 1}), (Pairs{"RR/RR", "RS0/RS0", "S0R/S0R"}));
  EXPECT_EQ(shardings(parameter(8, 8), false, {2, 2}).size(), 9u);
}

using Split = IntraOpRules::Split;
using Gradients = IntraOpRules::Gradients;
IntraOpRules split(Split weight, Split state, Gradients gradients = Gradients::Delayed) {
  return {{}, weight, state, gradients, {}};
}

TEST(SplitRules, WholeWeightAndStateIsDataParallelism) {
  EXPECT_EQ(shardings(parameter(8, 8), true, {2, 2}, split(Split::Whole, Split::Whole)), (Pairs{"RR/RR"}));
}
TEST(SplitRules, EagerGradientsNeedASplitState) {
  EXPECT_EQ(shardings(parameter(8, 8), true, {4, 1}, split(Split::Whole, Split::Most, Gradients::Eager)),
            (Pairs{"RR/S0R!"}));
  EXPECT_EQ(shardings(parameter(3, 5), true, {4, 1}, split(Split::Whole, Split::Most, Gradients::Eager)),
            (Pairs{"RR/RR"}));
}
TEST(SplitRules, WholeWeightAndMostSplitStateIsZero1) {
  EXPECT_EQ(shardings(parameter(8, 8), true, {4, 1}, split(Split::Whole, Split::Most)), (Pairs{"RR/S0R"}));
  EXPECT_EQ(shardings(parameter(8, 8), true, {2, 2}, split(Split::Whole, Split::Most)), (Pairs{"RR/S01R"}));
}
TEST(SplitRules, MostSplitWeightIsZero3) {
  EXPECT_EQ(shardings(parameter(8, 8), true, {4, 1}, split(Split::Most, Split::Most)), (Pairs{"RS0/RS0", "S0R/S0R"}));
}
TEST(SplitRules, WhatDoesNotDivideStaysWhole) {
  EXPECT_EQ(shardings(parameter(3, 5), true, {2, 1}, split(Split::Most, Split::Most)), (Pairs{"RR/RR"}));
  EXPECT_EQ(shardings(parameter(3, 8), true, {2, 1}, split(Split::Most, Split::Most)), (Pairs{"RS0/RS0"}));
}
// With padding, as the software of the field does it (FSDP2 pads the first dimension to a multiple of the devices).
IntraOpRules padded(Split weight, Split state) {
  IntraOpRules rules = split(weight, state, Gradients::Eager);
  rules.padding = true;
  return rules;
}
TEST(PaddedParameters, AreCutWhereTheTileIsSmallest) {
  const IntraOpRules zero3 = padded(Split::Most, Split::Most);
  EXPECT_EQ(shardings(parameter(8, 3), true, {5, 1}, zero3), (Pairs{"S0R/S0R!"}));        // 2 x 3, not 8 x 1
  EXPECT_EQ(shardings(parameter(32, 2880), true, {128, 1}, zero3), (Pairs{"RS0/RS0!"}));  // 32 x 23, not 1 x 2880
  EXPECT_EQ(shardings(parameter(9, 9), true, {5, 1}, zero3), (Pairs{"S0R/S0R!"}));        // of equal ones the first
  EXPECT_EQ(shardings(parameter(1, 3), true, {5, 1}, zero3), (Pairs{"RS0/RS0!"}));
  EXPECT_EQ(shardings(parameter(1, 1), true, {5, 1}, zero3), (Pairs{"RR/RR"}));  // nothing to split
}
TEST(PaddedParameters, AreOnlyThoseThatDoNotDivide) {
  const IntraOpRules zero3 = padded(Split::Most, Split::Most);
  EXPECT_EQ(shardings(parameter(8, 8), true, {4, 1}, zero3), (Pairs{"RS0/RS0!", "S0R/S0R!"}));
  EXPECT_EQ(shardings(parameter(9, 8), true, {4, 1}, zero3), (Pairs{"RS0/RS0!"}));
  EXPECT_EQ(shardings(parameter(3, 5), true, {2, 1}, split(Split::Most, Split::Most)), (Pairs{"RR/RR"}));
}
TEST(PaddedParameters, OfZero1AreTheStateAlone) {
  EXPECT_EQ(shardings(parameter(3, 5), true, {2, 1}, padded(Split::Whole, Split::Most)), (Pairs{"RR/RS0!"}));
}
// Of 12 x 12 on 5 x 4, the columns split over axis 1: 3 x 3 either way, but columns would have to be made whole first.
TEST(PaddedParameters, AreCutInsideOfWhatIsCutAlready) {
  IntraOpRules over_first = padded(Split::Whole, Split::Most);
  over_first.split_axes = 1;
  const Pairs found = shardings(parameter(12, 12), true, {5, 4}, over_first);
  EXPECT_EQ(std::count(found.begin(), found.end(), "RS1/S0S1!"), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), "S1R/S1S0!"), 1);
  for (const std::string& pair : found) EXPECT_EQ(pair.find("S01"), std::string::npos) << pair;
}
// Of 24 rows on 16 x 8: both axes leave one row, axis 1 alone three.
TEST(PaddedParameters, AreSplitOverAllAxesWhereThatLeavesLess) {
  EXPECT_EQ(shardings(parameter(24, 1), true, {16, 8}, padded(Split::Most, Split::Most)), (Pairs{"S01R/S01R!"}));
  // 3 x 5 on 2 x 2: 1 x 5 by both axes on the rows, 2 x 3 by one on each.
  EXPECT_EQ(shardings(parameter(3, 5), true, {2, 2}, padded(Split::Most, Split::Most)).size(), 1u);
}
TEST(WholeAxes, SplitNoParameterAndNoState) {
  IntraOpRules hybrid = padded(Split::Most, Split::Most);
  hybrid.whole_axes = 1;
  EXPECT_EQ(shardings(parameter(8, 8), true, {2, 4}, hybrid), (Pairs{"RS1/RS1!", "S1R/S1R!"}));
  EXPECT_EQ(shardings(parameter(9, 7), true, {2, 4}, hybrid), (Pairs{"RS1/RS1!"}));  // 9 x 2, not 3 x 7
  IntraOpRules states = padded(Split::Whole, Split::Most);
  states.whole_axes = 1;
  EXPECT_EQ(shardings(parameter(8, 8), true, {2, 4}, states), (Pairs{"RR/S1R!"}));
}

// A second reader of a tied parameter keeps no state; the state's rule must not shape its copy.
TEST(SplitRules, OfTheStateDoNotBindAReaderWithoutState) {
  EXPECT_EQ(shardings(parameter(8, 8), false, {2, 1}, split(Split::Free, Split::Most)).size(), 3u);
  EXPECT_EQ(shardings(parameter(8, 8), false, {2, 1}, split(Split::Whole, Split::Most)), (Pairs{"RR/RR"}));
}

}  // namespace
}  // namespace meshwright::strategies_test
