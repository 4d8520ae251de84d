// SPDX-License-Identifier: Apache-2.0
// Recompute::Selective: what is repeated, what is kept, and that nothing changes but memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/graph/recomputation.h"
#include "core/graph/selective_recomputation.h"
#include "executor/check/graph_interpreter.h"
#include "tests/op_case.h"

namespace meshwright::autodiff_recompute_test {
namespace {

using Names = std::set<std::string>;

constexpr const char* kGpt = "gpt:layers=2,hidden=8,heads=2,seq=4,vocab=16";
constexpr const char* kMlp = "mlp:layers=2,hidden=8";

Graph training(const std::string& model, Recompute recompute) {
  return build_training_graph(find_model(model), {.batch = 4,
                                                  .microbatches = 2,
                                                  .dtype = DType::F64,
                                                  .optimizer = {.kind = Optimizer::Kind::Sgd, .learning_rate = 0.5},
                                                  .recompute = recompute});
}

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
Names of_block(const Names& all, const std::string& block) {
  Names names;
  for (const std::string& name : all)
    if (name.starts_with(block + ".")) names.insert(name.substr(block.size() + 1));
  return names;
}
Names repeated(const Graph& graph) {
  Names names;
  for (const Op& op : graph.ops())
    if (is_recomputation(graph, op)) names.insert(graph.op(*op.forward).name);
  return names;
}
double kept_elements(const Graph& graph, const std::string& block) {
  double total = 0.0;
  const Names names = kept(graph);
  for (const Tensor& tensor : graph.tensors())
    if (names.count(tensor.name) > 0 && tensor.name.starts_with(block + "."))
      total += static_cast<double>(tensor.elements());
  return total;
}

// Per token, in units of the width H: without recomputation 16 H (the entering tensor 1, ln1 1, query-key-value 3, the
// attention's result 1, its residual 1, ln2 1, before the gelu 4, after it 4), of which ln1, ln2 and the gelu go.
TEST(Selective, KeepsOfAGptBlockWhatOnlyProductsCouldMake) {
  const Graph none = training(kGpt, Recompute::None), selective = training(kGpt, Recompute::Selective);
  EXPECT_EQ(of_block(kept(none), "blk0"), (Names{"ln1", "attn.query.bias_add", "attn.core", "attn.residual", "ln2",
                                                 "mlp.up.bias_add", "mlp.gelu", "mlp.residual"}));
  EXPECT_EQ(of_block(kept(selective), "blk0"),
            (Names{"attn.query.bias_add", "attn.core", "attn.residual", "mlp.up.bias_add", "mlp.residual"}));
  EXPECT_EQ(repeated(selective),
            (Names{"blk0.ln1", "blk0.ln2", "blk0.mlp.gelu", "blk1.ln1", "blk1.ln2", "blk1.mlp.gelu"}));
  const double tokens_and_width = 2.0 * 4 * 8;
  EXPECT_EQ(kept_elements(none, "blk0"), 16 * tokens_and_width);
  EXPECT_EQ(kept_elements(selective, "blk0"), 10 * tokens_and_width);
}

TEST(Selective, KeepsNothingThatWouldNotBeKeptAnyway) {
  for (const char* model : {kGpt, kMlp}) {
    const Names none = kept(training(model, Recompute::None)), selective = kept(training(model, Recompute::Selective));
    EXPECT_TRUE(std::includes(none.begin(), none.end(), selective.begin(), selective.end())) << model;
    EXPECT_LT(selective.size(), none.size()) << model;
  }
}

// The second rectifier's result enters the next block (or the loss) and is kept.
TEST(Selective, RepeatsTheRectifierInsideABlock) {
  EXPECT_EQ(repeated(training(kMlp, Recompute::Selective)), (Names{"blk0.up.relu", "blk1.up.relu"}));
}

TEST(Selective, RepeatsNoProductsAndNoSums) {
  const Graph none = training(kGpt, Recompute::None), selective = training(kGpt, Recompute::Selective);
  EXPECT_EQ(graph_flops(selective).si(), graph_flops(none).si());
  for (const Op& op : selective.ops()) {
    if (!is_recomputation(selective, op)) continue;
    for (const IterationAxis& axis : iteration_space(selective, op).axes) EXPECT_FALSE(axis.reduction) << op.name;
  }
}

TEST(Selective, RepeatsOnlyWhatIsRead) {
  const Graph graph = training(kGpt, Recompute::Selective);
  std::set<TensorId> read;
  for (const Op& op : graph.ops()) read.insert(op.inputs.begin(), op.inputs.end());
  for (const Op& op : graph.ops())
    if (is_recomputation(graph, op)) {
      EXPECT_EQ(read.count(op.outputs[0]), 1u) << op.name;
    }
}

TEST(Selective, ChangesNoGradient) {
  for (const char* model : {kGpt, kMlp}) {
    const Graph none = training(model, Recompute::None), selective = training(model, Recompute::Selective);
    GraphInterpreter plain(none, 3, DType::F64), repeating(selective, 3, DType::F64);
    for (int m = 0; m < 2; ++m)
      for (GraphInterpreter* interpreter : {&plain, &repeating}) {
        interpreter->load_inputs(0, m);
        for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter->run(phase);
      }
    std::map<std::string, Values> gradients;
    for (const Tensor& tensor : none.tensors())
      if (tensor.kind == TensorKind::Accumulator) gradients[tensor.name] = plain.get(tensor.id);
    for (const Tensor& tensor : selective.tensors())
      if (tensor.kind == TensorKind::Accumulator) {
        EXPECT_EQ(repeating.get(tensor.id), gradients.at(tensor.name)) << tensor.name;
      }
  }
}

TEST(Selective, ComesBeforeItsBlocksGradientsAndReadsWhatWasKept) {
  const Graph graph = training(kGpt, Recompute::Selective);
  const auto op_named = [&](const std::string& name) {
    return *std::find_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.name == name; });
  };
  EXPECT_LT(op_named("blk1.mlp.gelu.recompute").id, op_named("blk1.mlp.down.grad_x").id);
  EXPECT_LT(op_named("blk1.ln1.grad_x").id, op_named("blk0.ln1.recompute").id);
  EXPECT_EQ(graph.tensor(op_named("blk1.ln2.recompute").inputs[0]).name, "blk1.attn.residual");
  EXPECT_EQ(graph.tensor(op_named("blk1.mlp.down.grad_w").inputs[0]).name, "blk1.mlp.gelu.recompute");
}

// x enters the block, n, a and b follow cheaply. The product's derivative reads b, which is made again from x through n
// and a, although nothing else reads those.
TEST(Selective, GoesThroughResultsThatNothingElseReads) {
  OpCase c;
  const Dim batch{"batch", 2}, in{"in", 3}, out{"out", 2};
  const TensorId w0 = c.parameter("w0", {batch, in}), beta = c.parameter("beta", {in}),
                 w1 = c.parameter("w1", {in, out});
  const TensorId x = c.add(OpKind::Gelu, {w0}, {}, "x");
  c.graph.current_block = 0;
  const TensorId n = c.add(OpKind::LayerNorm, {x, c.parameter("gamma", {in}), beta}, {}, "n");
  const TensorId a = c.add(OpKind::BiasAdd, {n, beta}, {}, "a");
  const TensorId b = c.add(OpKind::BiasAdd, {a, beta}, {}, "b");
  c.add(OpKind::Contract, {b, w1}, {.result_names = {"batch", "out"}}, "y");
  const OpCase none = op_bench::with_backward(c);
  EXPECT_EQ(kept(none.graph), (Names{"x", "b"}));
  const std::set<OpId> chosen = selective_recomputation(none.graph);
  Names names;
  for (const OpId id : chosen) names.insert(none.graph.op(id).name);
  EXPECT_EQ(names, (Names{"n", "a", "b"}));
}

TEST(Recompute, HasNamesForItsKinds) {
  for (const char* name : {"none", "full", "selective"}) EXPECT_STREQ(name_of(recompute_from_name(name)), name);
  EXPECT_EQ(refusal([] { (void)recompute_from_name("some"); }),
            "unknown name 'some'; expected none, full or selective.");
}

}  // namespace
}  // namespace meshwright::autodiff_recompute_test
