// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/errors.h"
#include "tests/refusal.h"

namespace meshwright::graph_test {
namespace {

// Sizes are distinct primes (and 3 for qkv), so that a size in a message or a product names its dimension.
const Dim kBatch{"batch", 2}, kSeq{"seq", 5}, kQkv{"qkv", 3}, kHeads{"heads", 7}, kHeadDim{"head_dim", 11};
const Dim kEmbed{"embed", 13}, kMlp{"mlp", 17}, kVocab{"vocab", 19};

struct Fixture {
  Graph graph;

  TensorId input(const std::string& name, std::vector<Dim> dims, DType dtype = DType::F32) {
    return graph.add_tensor(name, TensorKind::Input, dtype, std::move(dims));
  }
  TensorId op(OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return graph.add_op(kind, "op", std::move(inputs), std::move(attributes))[0];
  }
  IterationSpace space() const { return iteration_space(graph, graph.ops().back()); }
  std::vector<Dim> result_dims() const { return graph.tensors().back().dims; }
};

// "batch embed! mlp" : ! marks a reduction, / an axis that is never split.
std::string axes_text(const IterationSpace& space) {
  std::string text;
  for (const IterationAxis& axis : space.axes)
    text += (text.empty() ? "" : " ") + axis.name + (axis.reduction ? "!" : "") + (axis.splittable ? "" : "/");
  return text;
}

std::string position_of(const IterationSpace& space) {
  return space.position_axis ? space.axes[static_cast<std::size_t>(*space.position_axis)].name : "none";
}

using Axes = std::vector<std::vector<int>>;

TEST(DTypes, NamesGoBothWaysAndSizesAreBytes) {
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32})
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  EXPECT_EQ(size_of(DType::F64), 8);
  EXPECT_EQ(size_of(DType::F32), 4);
  EXPECT_EQ(size_of(DType::BF16), 2);
  EXPECT_EQ(size_of(DType::F16), 2);
  EXPECT_EQ(size_of(DType::I32), 4);
}

TEST(DTypes, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(refusal([] { (void)dtype_from_name("fp16"); }),
            "unknown dtype 'fp16'; the nearest known are f16, bf16, f64. Known are f64, f32, bf16, f16, i32.");
}

TEST(DTypes, SixteenBitTypesAccumulateInF32) {
  EXPECT_EQ(accumulation_dtype(DType::F16), DType::F32);
  EXPECT_EQ(accumulation_dtype(DType::BF16), DType::F32);
  EXPECT_EQ(accumulation_dtype(DType::F32), DType::F32);
  EXPECT_EQ(accumulation_dtype(DType::F64), DType::F64);
  EXPECT_EQ(gradient_dtype(DType::F16), DType::F16);
  EXPECT_EQ(gradient_dtype(DType::BF16), DType::F32);
  EXPECT_EQ(gradient_dtype(DType::F32), DType::F32);
}

TEST(OpTable, EveryKindHasARowWithItsOwnName) {
  std::set<std::string> names;
  const int count = static_cast<int>(OpKind::SinkhornBackward) + 1;
  for (int kind = 0; kind < count; ++kind) names.insert(name_of(static_cast<OpKind>(kind)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
}

TEST(Tensor, CountsElementsAndBytes) {
  Fixture f;
  EXPECT_EQ(f.graph.tensor(f.input("x", {kBatch, kSeq})).bytes(), Bytes(2 * 5 * 4));
  EXPECT_EQ(f.graph.tensor(f.input("scalar", {})).elements(), 1);
}

TEST(Contract, SumsOverTheNamesTheResultLacks) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kSeq, kEmbed}), w = f.input("w", {kEmbed, kMlp});
  f.op(OpKind::Contract, {x, w}, {.result_names = {"mlp", "batch", "seq"}});
  EXPECT_EQ(f.result_dims(), (std::vector<Dim>{kMlp, kBatch, kSeq}));
  EXPECT_EQ(axes_text(f.space()), "batch seq embed! mlp");
  EXPECT_EQ(f.space().inputs, (Axes{{0, 1, 2}, {2, 3}}));
  EXPECT_EQ(f.space().outputs, (Axes{{3, 0, 1}}));
  EXPECT_EQ(position_of(f.space()), "none");
}

TEST(Contract, CountsTwoFlopsPerMultiplyAddOfTheLocalAxes) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kEmbed}), w = f.input("w", {kEmbed, kMlp});
  f.op(OpKind::Contract, {x, w}, {.result_names = {"batch", "mlp"}});
  EXPECT_EQ(graph_flops(f.graph), Flops(2 * 2 * 13 * 17));
  EXPECT_EQ(contraction_flops(OpKind::Contract, f.space(), {1, 10, 100}), Flops(2000));
}

TEST(Contract, ANameInBothOperandsAndTheResultIsABatch) {
  Fixture f;
  const TensorId x = f.input("x", {kHeads, kSeq, kEmbed}), y = f.input("y", {kHeads, kEmbed, kMlp});
  f.op(OpKind::Contract, {x, y}, {.result_names = {"heads", "seq", "mlp"}});
  EXPECT_EQ(axes_text(f.space()), "heads seq embed! mlp");
}

TEST(Contract, RefusesWhatItCannotContract) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kEmbed}), w = f.input("w", {{"embed", 4}, kMlp}),
                 ids = f.input("ids", {kEmbed}, DType::I32), v = f.input("v", {kEmbed, kMlp});
  const auto contract = [&](TensorId a, TensorId b, std::vector<std::string> names) {
    return refusal([&] { f.op(OpKind::Contract, {a, b}, {.result_names = std::move(names)}); });
  };
  EXPECT_EQ(
      contract(x, w, {"batch", "mlp"}),
      "op 'op' (contract): dimension 'embed' must have one size in both operands; it was given x 'x' f32 (batch=2, "
      "embed=13), w 'w' f32 (embed=4, mlp=17).");
  EXPECT_NE(contract(x, v, {"mlp"}).find("dimension 'batch' is in one operand only, so its result (mlp) must have it"),
            std::string::npos);
  EXPECT_NE(contract(x, v, {"batch", "seq"}).find("its result's dimension 'seq' must be in an operand"),
            std::string::npos);
  EXPECT_NE(contract(x, v, {"batch", "mlp", "mlp"}).find("its result names (batch, mlp, mlp) must differ"),
            std::string::npos);
  EXPECT_NE(contract(x, ids, {"batch"}).find("must have one floating-point type"), std::string::npos);
  EXPECT_TRUE(f.graph.ops().empty());
}

TEST(BiasAdd, ASelectingBiasKeepsTheSelectedAxisWhole) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kSeq, kQkv, kHeads, kHeadDim}), bias = f.input("b", {kHeads, kHeadDim});
  f.op(OpKind::BiasAdd, {x, bias}, {.bias_select = true});
  EXPECT_EQ(axes_text(f.space()), "batch seq qkv/ heads head_dim");
  f.graph.add_op(OpKind::BiasGradient, "gradient", {x}, {.result_names = {"heads", "head_dim"}, .bias_select = true});
  EXPECT_EQ(axes_text(f.space()), "batch! seq! qkv!/ heads head_dim");
  EXPECT_EQ(f.result_dims(), (std::vector<Dim>{kHeads, kHeadDim}));
}

TEST(BiasAdd, APlainBiasLetsEveryAxisSplit) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kSeq, kEmbed}), bias = f.input("b", {kEmbed});
  f.op(OpKind::BiasAdd, {x, bias});
  EXPECT_EQ(axes_text(f.space()), "batch seq embed");
}

TEST(BiasAdd, RefusesABiasThatIsNotTrailing) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kSeq, kEmbed}), seq = f.input("b", {kSeq}), y = f.input("y", {kEmbed});
  EXPECT_NE(refusal([&] {
              f.op(OpKind::BiasAdd, {x, seq});
            }).find("trailing dimensions of the first operand"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              f.op(OpKind::BiasAdd, {y, y}, {.bias_select = true});
            }).find("a dimension before its own"),
            std::string::npos);
}

TEST(LayerNorm, NeedsTheWholeNormalisedAxis) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kSeq, kEmbed}), g = f.input("g", {kEmbed}), b = f.input("b", {kEmbed});
  f.op(OpKind::LayerNorm, {x, g, b});
  EXPECT_EQ(axes_text(f.space()), "batch seq embed/");
  f.graph.add_op(OpKind::LayerNormBackward, "dx", {x, g, x});
  EXPECT_EQ(axes_text(f.space()), "batch seq embed/");
  const std::vector<TensorId> grads = f.graph.add_op(OpKind::LayerNormParamBackward, "dp", {x, x});
  EXPECT_EQ(axes_text(f.space()), "batch! seq! embed/");
  EXPECT_EQ(f.graph.tensor(grads[0]).name, "dp.gamma");
  EXPECT_EQ(f.graph.tensor(grads[1]).name, "dp.beta");
}

TEST(Attention, SplitsOnlyBatchAndHeads) {
  Fixture f;
  const TensorId qkv = f.input("qkv", {kBatch, kSeq, kQkv, kHeads, kHeadDim});
  const TensorId out = f.op(OpKind::Attention, {qkv});
  EXPECT_EQ(f.result_dims(), (std::vector<Dim>{kBatch, kSeq, kHeads, kHeadDim}));
  EXPECT_EQ(axes_text(f.space()), "batch seq/ qkv!/ heads head_dim/");
  EXPECT_EQ(f.space().outputs, (Axes{{0, 1, 3, 4}}));
  EXPECT_EQ(contraction_flops(OpKind::Attention, f.space(), {2, 5, 3, 7, 11}), Flops(4 * 2 * 5 * 5 * 7 * 11));
  f.graph.add_op(OpKind::AttentionBackward, "d", {qkv, out});
  EXPECT_EQ(axes_text(f.space()), "batch seq/ qkv/ heads head_dim/");
  EXPECT_EQ(contraction_flops(OpKind::AttentionBackward, f.space(), {1, 5, 3, 1, 11}), Flops(8 * 5 * 5 * 11));
}

TEST(Attention, RefusesAnythingButThreeProjections) {
  Fixture f;
  const TensorId qk = f.input("qk", {kBatch, kSeq, {"qkv", 2}, kHeads, kHeadDim});
  EXPECT_NE(refusal([&] { f.op(OpKind::Attention, {qk}); })
                .find("(batch, seq, qkv=3, heads, head_dim); it was given qkv "
                      "'qk' f32 (batch=2, seq=5, qkv=2, heads=7"),
            std::string::npos);
}

TEST(Embedding, ReducesOverTheVocabularyWhosePositionMatters) {
  Fixture f;
  const TensorId ids = f.input("ids", {kBatch, kSeq}, DType::I32), table = f.input("wte", {kVocab, kEmbed}, DType::F16);
  const TensorId x = f.op(OpKind::Embedding, {ids, table});
  EXPECT_EQ(f.result_dims(), (std::vector<Dim>{kBatch, kSeq, kEmbed}));
  EXPECT_EQ(axes_text(f.space()), "batch seq vocab! embed");
  EXPECT_EQ(position_of(f.space()), "vocab");
  EXPECT_EQ(f.graph.tensor(x).dtype, DType::F16);
  EXPECT_EQ(graph_flops(f.graph), Flops(0));
  f.graph.add_op(OpKind::EmbeddingBackward, "d", {ids, x}, {.result_names = {"vocab"}, .result_size = 19});
  EXPECT_EQ(f.result_dims(), (std::vector<Dim>{kVocab, kEmbed}));
  EXPECT_EQ(axes_text(f.space()), "batch! seq! embed vocab");
  EXPECT_EQ(position_of(f.space()), "vocab");
}

TEST(CrossEntropy, SplitsTheVocabularyInAllItsParts) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch, kSeq, kVocab}, DType::F16),
                 labels = f.input("labels", {kBatch, kSeq}, DType::I32);
  const TensorId max = f.graph.add_op(OpKind::RowMax, "max", {x})[0];
  EXPECT_EQ(axes_text(f.space()), "batch seq vocab!");
  EXPECT_EQ(f.space().reduce, IterationSpace::Reduce::Max);
  const TensorId sum = f.graph.add_op(OpKind::SumExp, "sum", {x, max})[0];
  EXPECT_EQ(axes_text(f.space()), "batch seq vocab!");
  EXPECT_EQ(f.space().reduce, IterationSpace::Reduce::Sum);
  EXPECT_EQ(position_of(f.space()), "none");
  const TensorId picked = f.graph.add_op(OpKind::PickLabel, "pick", {x, labels})[0];
  EXPECT_EQ(axes_text(f.space()), "batch seq vocab!");
  EXPECT_EQ(position_of(f.space()), "vocab");
  const TensorId loss = f.graph.add_op(OpKind::CrossEntropyLoss, "loss", {max, sum, picked})[0];
  EXPECT_EQ(axes_text(f.space()), "batch! seq!");
  f.graph.add_op(OpKind::CrossEntropyBackward, "dx", {x, max, sum, labels});
  EXPECT_EQ(axes_text(f.space()), "batch seq vocab");
  EXPECT_EQ(position_of(f.space()), "vocab");
  for (const TensorId wide : {max, sum, picked, loss}) EXPECT_EQ(f.graph.tensor(wide).dtype, DType::F32);
  EXPECT_EQ(f.graph.tensors().back().dtype, DType::F16);
}

TEST(IterationSpace, AnAxisOfSizeOneIsNotSplit) {
  Fixture f;
  const TensorId x = f.input("x", {{"batch", 1}, kEmbed});
  f.op(OpKind::Relu, {x});
  EXPECT_EQ(axes_text(f.space()), "batch/ embed");
}

TEST(IterationSpace, OutputsOfInPlaceOpsAreTheTensorsTheyOverwrite) {
  Fixture f;
  const TensorId w = f.graph.add_tensor("w", TensorKind::Parameter, DType::F16, {kEmbed, kMlp});
  const TensorId acc = f.graph.add_tensor("w.acc", TensorKind::Accumulator, DType::F32, {kEmbed, kMlp}, w);
  const TensorId g = f.input("g", {kEmbed, kMlp}, DType::F16);
  f.graph.add_in_place_op(OpKind::Accumulate, "accumulate", {acc, g}, {acc});
  EXPECT_EQ(f.graph.ops().back().outputs, std::vector<TensorId>{acc});
  EXPECT_EQ(axes_text(f.space()), "embed mlp");
  EXPECT_EQ(f.space().outputs, (Axes{{0, 1}}));
  EXPECT_FALSE(f.graph.tensor(acc).producer.has_value());
}

TEST(Graph, RefusesTheWrongNumberOfOperands) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch});
  EXPECT_EQ(refusal([&] { f.op(OpKind::Add, {x}); }), "op 'op' (add): has 1 operands, but takes (x, y).");
}

TEST(Graph, RefusesNamesThatAreTaken) {
  Fixture f;
  const TensorId x = f.input("x", {kBatch});
  f.op(OpKind::Relu, {x});
  EXPECT_EQ(refusal([&] { f.op(OpKind::Relu, {x}); }),
            "op 'op': the name is empty or already taken; ops of a graph need unique names.");
  EXPECT_EQ(refusal([&] { f.input("x", {kBatch}); }),
            "tensor 'x': the name is empty or already taken; tensors of a graph need unique names.");
}

TEST(Graph, RefusesDimensionsWithoutIdentity) {
  Fixture f;
  EXPECT_NE(refusal([&] {
              f.input("x", {kSeq, kSeq});
            }).find("two dimensions are named 'seq' in (seq=5, seq=5)"),
            std::string::npos);
  EXPECT_NE(refusal([&] { f.input("x", {{"seq", 0}}); }).find("dimension 'seq' of size 0"), std::string::npos);
}

Graph small_graph(double scale) {
  Graph graph;
  graph.batch = 8;
  graph.microbatches = 4;
  const TensorId x = graph.add_tensor("x \"1\"", TensorKind::Input, DType::F32, {kBatch});
  graph.loss = graph.add_op(OpKind::SquaredErrorLoss, "loss", {x, x}, {.scale = scale})[0];
  return graph;
}

TEST(CanonicalText, SaysEverythingInAFixedForm) {
  EXPECT_EQ(canonical_text(small_graph(0.125)),
            "batch 8 microbatches 4 dtype f32 loss 1\n"
            "tensor 0 \"x \\\"1\\\"\" input f32 [\"batch\"=2] of -\n"
            "tensor 1 \"loss\" intermediate f32 [] of -\n"
            "op 0 \"loss\" squared_error_loss forward forward - block -1 in [0,0] out [1] names [] size 0 select false "
            "scale 0.125 rate 0 beta 0.9 0.999 epsilon 1e-08\n");
}

TEST(CanonicalText, DiffersWhenAnAttributeDoes) {
  EXPECT_EQ(canonical_text(small_graph(0.125)), canonical_text(small_graph(0.125)));
  EXPECT_NE(fingerprint_of(small_graph(0.125)), fingerprint_of(small_graph(0.25)));
}

}  // namespace
}  // namespace meshwright::graph_test
