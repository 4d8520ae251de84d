// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts by products with masks, imported from HLO text, against plain loops and the family `moe`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/graph/import/find_model.h"
#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_mixture.h"
#include "tests/unit/import/hlo_parts.h"
#include "tests/unit/import/loss_of.h"
#include "tests/unit/import/onnx_writer.h"

namespace meshwright::hlo_mixture_test {
namespace {

double number(const std::string& name, std::int64_t i) {
  if (name == "ids") return static_cast<double>((7 * i + i / 5) % 11);
  if (name == "labels") return static_cast<double>((5 * i + 1) % 11);
  const double phase = std::accumulate(name.begin(), name.end(), 0.0);
  return 0.7 * std::sin(0.61 * static_cast<double>(i) + phase);
}

Graph graph_of(const HloMixture& of) {
  return build_training_graph(read_model_bytes(hlo_mixture(of), "m.hlo", {}), {.batch = of.batch, .dtype = DType::F64});
}

double imported_loss(const HloMixture& of) {
  return loss_of(graph_of(of),
                 [](const Tensor& tensor, std::int64_t i) { return std::optional(number(tensor.name, i)); });
}

using Numbers = std::vector<double>;

// What one sample's tokens, (seq, width), add to themselves.
Numbers mixture_by_loops(const HloMixture& z, const Numbers& x) {
  const auto d = static_cast<std::size_t>(z.width), experts = static_cast<std::size_t>(z.experts),
             mlp = static_cast<std::size_t>(z.mlp), seq = static_cast<std::size_t>(z.seq);
  const std::size_t top_k = z.router == HloRouter::Switch ? 1 : 2;
  const auto weight = [](const char* name, std::size_t i) { return number(name, static_cast<std::int64_t>(i)); };
  struct Chosen {
    std::size_t expert;
    double gate;
  };
  std::vector<std::vector<Chosen>> chosen(seq);
  for (std::size_t s = 0; s < seq; ++s) {
    Numbers p(experts, 0.0);
    for (std::size_t e = 0; e < experts; ++e) {
      double z_e = 0.0;
      for (std::size_t i = 0; i < d; ++i) z_e += x[s * d + i] * weight("router", i * experts + e);
      p[e] = std::exp(z_e);
    }
    const double all = std::accumulate(p.begin(), p.end(), 0.0);
    std::vector<std::size_t> order(experts);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    for (std::size_t k = 0; k < top_k; ++k)
      chosen[s].push_back({order[k], p[order[k]] / (top_k == 1 ? all : p[order[0]] + p[order[1]])});
  }
  Numbers out(x.size(), 0.0);
  std::vector<std::int64_t> taken(experts, 0);
  const auto visit = [&](std::size_t s, std::size_t k) {
    const auto [e, gate] = chosen[s][k];
    if (taken[e]++ >= z.capacity) return;
    for (std::size_t m = 0; m < mlp; ++m) {
      double inner = weight("up.bias", e * mlp + m);
      for (std::size_t i = 0; i < d; ++i) inner += x[s * d + i] * weight("up", (e * d + i) * mlp + m);
      for (std::size_t i = 0; inner > 0.0 && i < d; ++i)
        out[s * d + i] += gate * inner * weight("down", (e * mlp + m) * d + i);
    }
  };
  const bool by_token = z.router == HloRouter::MaxText;
  for (std::size_t i = 0; i < (by_token ? seq : top_k); ++i)
    for (std::size_t j = 0; j < (by_token ? top_k : seq); ++j) by_token ? visit(i, j) : visit(j, i);
  return out;
}

double loss_by_loops(const HloMixture& z) {
  const auto d = static_cast<std::size_t>(z.width), seq = static_cast<std::size_t>(z.seq);
  double loss = 0.0;
  for (std::int64_t b = 0; b < z.batch; ++b) {
    Numbers x(seq * d);
    for (std::size_t s = 0; s < seq; ++s)
      for (std::size_t i = 0; i < d; ++i)
        x[s * d + i] =
            number("wte", static_cast<std::int64_t>(number("ids", b * z.seq + static_cast<std::int64_t>(s))) * z.width +
                              static_cast<std::int64_t>(i));
    const Numbers more = mixture_by_loops(z, x);
    for (std::size_t s = 0; s < seq; ++s) {
      double all = 0.0, label = 0.0;
      for (std::int64_t v = 0; v < z.vocab; ++v) {
        double logit = 0.0;
        for (std::size_t i = 0; i < d; ++i)
          logit += (x[s * d + i] + more[s * d + i]) * number("head", static_cast<std::int64_t>(i) * z.vocab + v);
        all += std::exp(logit);
        if (v == static_cast<std::int64_t>(number("labels", b * z.seq + static_cast<std::int64_t>(s)))) label = logit;
      }
      loss += std::log(all) - label;
    }
  }
  return loss / static_cast<double>(z.batch * z.seq);
}

// 8 tokens of 2 choices for 4 experts: a capacity of 3 drops some, one of 8 none.
TEST(HloMixture, OfTwoChoicesComputesWhatLoopsDoAlsoWhereSlotsRunOut) {
  for (const std::int64_t capacity : {3, 8}) {
    const HloMixture z{.capacity = capacity};
    EXPECT_NEAR(imported_loss(z), loss_by_loops(z), 1e-9) << capacity;
  }
  EXPECT_GT(std::abs(loss_by_loops({.capacity = 3}) - loss_by_loops({.capacity = 8})), 1e-3) << "no token was dropped";
}

TEST(HloMixture, OfOneChoiceComputesWhatLoopsDoAlsoWhereSlotsRunOut) {
  for (const std::int64_t capacity : {2, 8}) {
    const HloMixture z{.router = HloRouter::Switch, .capacity = capacity};
    EXPECT_NEAR(imported_loss(z), loss_by_loops(z), 1e-9) << capacity;
  }
}

// The order in which tokens get slots is told in a note: it matters only where these run out.
TEST(HloMixture, OfSlotsByTokenComputesWhatLoopsDoWhereSlotsSuffice) {
  const HloMixture z{.router = HloRouter::MaxText, .capacity = 8};
  EXPECT_NEAR(imported_loss(z), loss_by_loops(z), 1e-9);
  const ModelConfig model = read_model_bytes(hlo_mixture(z), "m.hlo", {});
  ASSERT_EQ(summary_of(model).notes.size(), 1u);
  EXPECT_NE(summary_of(model).notes[0].find("1 mixture of experts gives slots to one token after the other"),
            std::string::npos)
      << summary_of(model).notes[0];
}

// Sizes alone do not tell the rows that experts add, (expert, mlp), from data.
TEST(HloMixture, OfAsManyExpertsAsSamplesComputesWhatLoopsDo) {
  for (const HloRouter router : {HloRouter::Gshard, HloRouter::Switch, HloRouter::MaxText}) {
    const HloMixture z{.router = router, .batch = 4, .experts = 4, .capacity = 8};
    EXPECT_NEAR(imported_loss(z), loss_by_loops(z), 1e-9) << static_cast<int>(router);
  }
}

TEST(HloMixture, IsMadeOfTheOpsOfTheFamily) {
  const Graph graph = graph_of({});
  EXPECT_EQ(ops_of(graph, OpKind::OneHotSlots), 1) << "both products read one mask";
  EXPECT_EQ(ops_of(graph, OpKind::GateWeights), 1);
  const auto mask =
      std::find_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::OneHotSlots; });
  const std::vector<Dim> dims = {{"batch", 3}, {"seq", 8}, {"capacity", 3}, {"expert", 4}};
  EXPECT_EQ(graph.tensor(mask->outputs[0]).dims, dims);
}

// One choice of each token, of the same weights, in ONNX.
std::string onnx_mixture(const HloMixture& z) {
  OnnxWriter w;
  const std::int64_t b = z.batch, s = z.seq, e = z.experts, c = z.capacity, d = z.width;
  const OnnxWriter::Given last{.numbers = {{"axis", -1}}}, dropped{.numbers = {{"axis", -1}, {"keepdims", 0}}},
      sum{.numbers = {{"keepdims", 0}}}, integer{.numbers = {{"to", 7}}}, real{.numbers = {{"to", 1}}};
  const auto unsqueeze = [&](const std::string& x, std::int64_t axis) {
    return w.node("Unsqueeze", {x, w.integers({axis})});
  };
  w.input("ids", {std::to_string(b), std::to_string(s)});
  const std::string values = w.integers({0, 1});
  const std::string x = w.node("Gather", {w.weight("wte", {z.vocab, d}), "ids"});
  const std::string p = w.node("Softmax", {w.node("MatMul", {x, w.weight("router", {d, e})})}, last);
  const std::string hot = w.node("OneHot", {w.node("ArgMax", {p}, dropped), w.integers({e}), values}, last);
  const std::string count = w.node("CumSum", {hot, w.integers({1})});
  const std::string fits = w.node("Cast", {w.node("LessOrEqual", {count, w.scalar(static_cast<float>(c))})}, real);
  const std::string place = w.node("ReduceSum", {w.node("Mul", {count, hot}), w.integers({-1})}, sum);
  const std::string slot = w.node("Cast", {w.node("Sub", {place, w.scalar(1.0f)})}, integer);
  const std::string slots = unsqueeze(w.node("OneHot", {slot, w.integers({c}), values}, last), 2);
  const std::string mask = w.node("Mul", {unsqueeze(w.node("Mul", {hot, fits}), 3), slots});
  const std::string best = w.node("ReduceMax", {p, w.integers({-1})}, {.numbers = {{"keepdims", 1}}});
  const std::string combine = w.node("Mul", {mask, unsqueeze(best, 3)});
  const std::string turned =
      w.node("Transpose", {w.node("Reshape", {mask, w.integers({b, s, e * c})})}, {.lists = {{"perm", {0, 2, 1}}}});
  const std::string sent = w.node("Reshape", {w.node("MatMul", {turned, x}), w.integers({b, e, c, d})});
  const std::string wide = w.node("MatMul", {sent, w.weight("up", {e, d, z.mlp})});
  const std::string inner = w.node("Relu", {w.node("Add", {wide, unsqueeze(w.weight("up.bias", {e, z.mlp}), 1)})});
  const std::string made = w.node("MatMul", {inner, w.weight("down", {e, z.mlp, d})});
  const std::string out = w.node("MatMul", {w.node("Reshape", {combine, w.integers({b, s, e * c})}),
                                            w.node("Reshape", {made, w.integers({b, e * c, d})})});
  return w.finish(w.node("MatMul", {w.node("Add", {x, out}), w.weight("head", {d, z.vocab})}));
}

TEST(OnnxMixture, OfOneChoiceComputesWhatLoopsDoAlsoWhereSlotsRunOut) {
  for (const std::int64_t capacity : {2, 8}) {
    const HloMixture z{.router = HloRouter::Switch, .capacity = capacity};
    const Graph graph =
        build_training_graph(read_model_bytes(onnx_mixture(z), "m.onnx", {}), {.batch = z.batch, .dtype = DType::F64});
    EXPECT_EQ(ops_of(graph, OpKind::OneHotSlots), 1);
    const double loss =
        loss_of(graph, [](const Tensor& tensor, std::int64_t i) { return std::optional(number(tensor.name, i)); });
    EXPECT_NEAR(loss, loss_by_loops(z), 1e-9) << capacity;
  }
}

// Every other layer a mixture: parameters and work are those of the family, also where a capacity is far from the
// number of tokens.
TEST(HloMixture, OfAWholeModelHasTheParametersAndTheWorkOfTheFamily) {
  const HloMixture z{.batch = 5,
                     .seq = 64,
                     .width = 32,
                     .experts = 4,
                     .capacity = 32,
                     .mlp = 256,
                     .vocab = 96,
                     .layers = 4,
                     .heads = 4};
  const ModelConfig file = read_model_bytes(hlo_mixture(z), "m.hlo", {});
  EXPECT_EQ(file.layers, 4);
  const Graph imported = build_training_graph(file, {.batch = 5}),
              built = build_training_graph(
                  find_model("moe:layers=4,hidden=32,heads=4,experts=4,seq=64,vocab=96,group=64"), {.batch = 5});
  EXPECT_EQ(parameter_count(imported), parameter_count(built));
  EXPECT_NEAR(graph_flops(imported) / graph_flops(built), 1.0, 0.01);
}

// One weight makes queries, keys and values, as the family's does: attention reads its product whole.
TEST(HloMixture, OfAWholeModelReadsAPackedProductWithoutCuttingIt) {
  HloMixture z{.batch = 5, .seq = 16, .width = 8, .experts = 4, .capacity = 8, .mlp = 16, .layers = 2, .heads = 2};
  // "q", "k" and "v" have the numbers of the parts of "qkv".
  const auto shared = [&](const Tensor& tensor, std::int64_t i) {
    const std::size_t end = tensor.name.size();
    if (tensor.name.ends_with(".qkv.bias"))
      return std::optional(i < z.width ? number(tensor.name.substr(0, end - 8) + "q.bias", i) : 0.0);
    if (tensor.name.ends_with(".qkv")) {
      const std::int64_t row = i / (3 * z.width), part = i / z.width % 3;
      return std::optional(number(tensor.name.substr(0, end - 3) + "qkv"[part], row * z.width + i % z.width));
    }
    return std::optional(number(tensor.name, i));
  };
  const double apart = loss_of(graph_of(z), shared);
  z.fused = true;
  const Graph graph = graph_of(z);
  EXPECT_EQ(ops_of(graph, OpKind::Attention), 2);
  EXPECT_EQ(ops_of(graph, OpKind::Slice), 0);
  EXPECT_NEAR(loss_of(graph, shared), apart, 1e-9);
}

// Heads of one query for each key get an axis for the group where the queries are made, so that only keys and values
// have another name for their positions; renaming costs a pass of memory where costs are modelled.
TEST(HloMixture, OfAWholeModelRenamesKeysAndValuesAlone) {
  const HloMixture z{.batch = 5,
                     .seq = 64,
                     .width = 32,
                     .experts = 4,
                     .capacity = 32,
                     .mlp = 256,
                     .vocab = 96,
                     .layers = 4,
                     .heads = 4};
  const Graph graph = build_forward_graph(read_model_bytes(hlo_mixture(z), "m.hlo", {}), {.batch = 5});
  EXPECT_EQ(ops_of(graph, OpKind::GroupedAttention), 4);
  EXPECT_EQ(ops_of(graph, OpKind::Reshape), 2 * 4);
}

// What chooses and is no mask of slots is written out, where few are chosen.
TEST(HloMixture, ChoicesThatSendNoTokensAreWrittenOutOrNamed) {
  const auto model = [](int k) {
    return read_model_bytes(fmt::format(R"(HloModule forward
ENTRY main {{
  p = f32[8,64] parameter(0)
  x = f32[4,8] parameter(1)
  y = f32[4,64] dot(x, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = (f32[4,{0}], s32[4,{0}]) topk(y), k={0}, largest=true
  ROOT z = f32[4,{0}] get-tuple-element(t), index=0
}}
)",
                                        k),
                            "m.hlo", {});
  };
  EXPECT_EQ(ops_of(build_forward_graph(model(2), {.batch = 5}), OpKind::Contract), 1);
  EXPECT_EQ(refusal([&] { return model(33); }),
            "m.hlo: op 't': a choice of the 33 largest has no equal here, one of 32 or fewer has; see docs/models.md.");
}

}  // namespace
}  // namespace meshwright::hlo_mixture_test
