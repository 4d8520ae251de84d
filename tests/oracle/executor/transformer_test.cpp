// SPDX-License-Identifier: Apache-2.0
// Transformers of every family, small: their graphs, their work against closed forms, and their derivatives against
// differences of the loss. Each parameter is moved along one direction d, and
//
//   (8 (L(w+hd) - L(w-hd)) - (L(w+2hd) - L(w-2hd))) / 12h
//
// must be the gradient times d. What keeps tokens from changing their experts on the way: h = 1e-4.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "executor/check/graph_interpreter.h"

namespace meshwright::transformer_test {
namespace {

struct Small {
  const char *name, *sizes;
};
// Among them every part a transformer can have.
const Small kSmall[] = {
    {"Gpt2", "gpt2:layers=2,hidden=8,heads=2,seq=5,vocab=11,positions=7"},
    {"Opt",
     "gpt2:layers=2,hidden=8,heads=2,seq=5,vocab=11,position_offset=2,word_embed=4,relu=1,post_norm=1,final_norm=0"},
    {"Bloom", "bloom:layers=2,hidden=12,heads=3,seq=5,vocab=11"},
    {"GptNeox", "gpt_neox:layers=2,hidden=16,heads=2,seq=5,vocab=11"},
    {"Bert", "bert:layers=2,hidden=8,heads=2,seq=5,vocab=11"},
    {"Llama", "llama:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=12,seq=5,vocab=11"},
    {"Mistral",
     "llama:layers=2,hidden=8,heads=4,kv_heads=1,intermediate=12,seq=5,vocab=11,window=2,full_every=2,tied=1"},
    {"Qwen3",
     "llama:layers=2,hidden=8,heads=2,head_dim=6,intermediate=12,seq=5,vocab=11,qk_norm=1,qkv_bias=1,out_bias=1,"
     "mlp_bias=1,gelu=1"},
    {"Mixtral",
     "mixtral:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=12,seq=6,vocab=11,experts=4,top_k=2,"
     "capacity_factor=1.5"},
    {"GptOss",
     "mixtral:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=12,seq=6,vocab=11,experts=3,top_k=2,router_bias=1,"
     "expert_bias=1,sinks=1,window=2,full_every=2"},
    {"Llama4",
     "mixtral:layers=2,hidden=8,heads=4,intermediate=12,seq=6,vocab=11,experts=3,top_k=1,sigmoid=1,normalized=0,"
     "shared_intermediate=10,mixture_every=2,no_rotary_every=2"},
    {"DeepseekV3",
     "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=12,seq=6,vocab=11,experts=4,top_k=2,dense_layers=1,q_rank=6,"
     "kv_rank=5,nope_dim=3,rope_dim=2,value_dim=4,expert_intermediate=6,shared_intermediate=6,routed_scale=2.5"},
    {"ModernBert",
     "decoder:layers=3,hidden=8,heads=2,intermediate=12,seq=6,vocab=11,gelu=1,erf=1,layer_norm=2,causal=0,window=2,"
     "first_window_layer=1,full_every=2,window_rotary_base=100,embedding_norm=1,bare_first=1,transformed_head=2,"
     "head_bias=1,tied=1"},
    {"Ministral3",
     "decoder:layers=2,hidden=8,heads=2,intermediate=12,seq=5,vocab=11,temperature_every=2,temperature_first=0,"
     "temper_rotated=1"},
    {"T5", "t5:layers=2,decoder_layers=2,hidden=8,heads=2,head_dim=3,intermediate=12,seq=5,vocab=11,buckets=8"},
    {"T5Tied", "t5:layers=1,hidden=8,heads=2,intermediate=12,seq=5,vocab=11,buckets=8,gated=0,relu=1,tied=1"},
};

Graph training_graph(const std::string& sizes, Recompute recompute, LossReduction loss = LossReduction::Mean) {
  return build_training_graph(find_model(sizes), {.batch = 2,
                                                  .dtype = DType::F64,
                                                  .optimizer = {.kind = Optimizer::Kind::Sgd, .learning_rate = 1.0},
                                                  .recompute = recompute,
                                                  .loss = loss});
}

class Transformers : public testing::TestWithParam<Small> {};
INSTANTIATE_TEST_SUITE_P(, Transformers, testing::ValuesIn(kSmall), [](const auto& small) { return small.param.name; });

TEST_P(Transformers, NameEveryDimensionOfATensorOnce) {
  const Graph graph = training_graph(GetParam().sizes, Recompute::Full);
  for (const Tensor& tensor : graph.tensors()) {
    std::set<std::string> names;
    for (const Dim& dim : tensor.dims) EXPECT_TRUE(names.insert(dim.name).second) << tensor.name << " " << dim.name;
  }
}

// All but the bias that only chooses experts.
TEST_P(Transformers, UpdateEveryParameter) {
  for (const Recompute recompute : {Recompute::None, Recompute::Full, Recompute::Selective}) {
    const Graph graph = training_graph(GetParam().sizes, recompute);
    std::set<TensorId> updated;
    for (const Op& op : graph.ops())
      if (op.phase == Phase::Update) updated.insert(op.outputs.begin(), op.outputs.end());
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind != TensorKind::Parameter) continue;
      EXPECT_EQ(updated.contains(tensor.id), !tensor.name.ends_with(".selection.bias")) << tensor.name;
    }
  }
}

// What a strategy splits of an op, it splits of the ops derived from it.
TEST_P(Transformers, CanSplitABackwardOpAsItsForwardOp) {
  const Graph graph = training_graph(GetParam().sizes, Recompute::Full);
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Backward || !op.forward) continue;
    const IterationSpace own = iteration_space(graph, op), before = iteration_space(graph, graph.op(*op.forward));
    for (const IterationAxis& axis : before.axes) {
      const std::optional<int> found = own.find(axis.name);
      if (!found || !axis.splittable) continue;
      EXPECT_TRUE(own.axes[static_cast<std::size_t>(*found)].splittable) << op.name << " " << axis.name;
    }
  }
}

// --- derivatives ---

using Values = std::vector<double>;
constexpr double kStep = 1e-4;

double loss_of(const Graph& graph, GraphInterpreter& interpreter) {
  interpreter.run(Phase::Forward);
  return interpreter.get(*graph.loss)[0];
}

// Numbers between -1 and 1 that are of no pattern.
Values direction_of(const Tensor& tensor) {
  Values direction;
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    direction.push_back(std::sin(1.0 + 37.7 * static_cast<double>(i) + static_cast<double>(tensor.id.value)));
  return direction;
}

double slope_along(const Graph& graph, GraphInterpreter& interpreter, const Tensor& tensor, const Values& direction) {
  const Values values = interpreter.get(tensor.id);
  const auto loss_at = [&](double distance) {
    Values moved = values;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += distance * kStep * direction[i];
    interpreter.set(tensor.id, moved);
    return loss_of(graph, interpreter);
  };
  const double slope = (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * kStep);
  interpreter.set(tensor.id, values);
  return slope;
}

// With learning rate 1, plain gradient descent moves each weight by its gradient.
std::map<TensorId, Values> gradients_of(const Graph& graph, GraphInterpreter& interpreter) {
  std::map<TensorId, Values> gradients;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) gradients[tensor.id] = interpreter.get(tensor.id);
  for (const Phase phase : {Phase::Forward, Phase::Backward, Phase::Update}) interpreter.run(phase);
  for (auto& [id, before] : gradients) {
    const Values after = interpreter.get(id);
    interpreter.set(id, before);
    for (std::size_t i = 0; i < before.size(); ++i) before[i] -= after[i];
  }
  return gradients;
}

struct Deviation {
  double worst = 0.0;  // of a slope from the gradient's, relative to the gradient's largest element
  std::string where;   // the parameter
  int parameters = 0, without_influence = 0;
};

// `factor` makes the gradients wrong.
Deviation deviation_of(const Graph& graph, double factor) {
  GraphInterpreter interpreter(graph, 3, DType::F64);
  interpreter.load_inputs(0, 0);
  Deviation deviation;
  for (const auto& [id, gradient] : gradients_of(graph, interpreter)) {
    const Tensor& tensor = graph.tensor(id);
    const Values direction = direction_of(tensor);
    double along = 0.0, size = 0.0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      along += factor * gradient[i] * direction[i];
      size = std::max(size, std::abs(gradient[i]));
    }
    const double wrong = std::abs(along - slope_along(graph, interpreter, tensor, direction));
    ++deviation.parameters;
    if (size < 1e-9) {
      EXPECT_LT(wrong, 1e-9) << tensor.name;
      ++deviation.without_influence;
    } else {
      if (wrong / size > deviation.worst) deviation.where = tensor.name;
      deviation.worst = std::max(deviation.worst, wrong / size);
    }
  }
  return deviation;
}

constexpr double kTolerance = 1e-7;

void expect_true_gradients(const Graph& graph) {
  const Deviation deviation = deviation_of(graph, 1.0);
  EXPECT_LT(deviation.worst, kTolerance) << deviation.where;
  // In each of two layers a key's bias, which adds the same to all scores of a query, and a bias that only chooses.
  EXPECT_LE(deviation.without_influence, 4) << "of " << deviation.parameters;
}

TEST_P(Transformers, HaveTrueGradients) { expect_true_gradients(training_graph(GetParam().sizes, Recompute::None)); }

TEST_P(Transformers, HaveTrueGradientsWhereTheyRecompute) {
  expect_true_gradients(training_graph(GetParam().sizes, Recompute::Full));
  expect_true_gradients(training_graph(GetParam().sizes, Recompute::Selective, LossReduction::TokenWeighted));
}

TEST(TransformerGradients, WrongByAThousandthAreFarOutsideTheTolerance) {
  const Graph graph = training_graph(kSmall[5].sizes, Recompute::None);
  EXPECT_GT(deviation_of(graph, 1.001).worst, 1000 * kTolerance);
}

// --- work ---

double forward_flops(const std::string& sizes) {
  return graph_flops(build_forward_graph(find_model(sizes), {.batch = 6, .microbatches = 2, .dtype = DType::BF16}))
      .si();
}

// b samples of s tokens, embed h, H heads of d on K keys and values, f inside, V words, L layers.
TEST(TransformerWork, OfALlamaIsTheClosedForm) {
  const std::int64_t b = 3, s = 32, h = 64, heads = 8, d = 8, keys = 2, f = 96, v = 100, l = 3;
  const std::int64_t projections = 2 * b * s * h * d * (2 * heads + 2 * keys), attention = 4 * b * s * s * heads * d;
  const std::int64_t feed_forward = 6 * b * s * h * f, head = 2 * b * s * h * v;
  EXPECT_EQ(forward_flops("llama:layers=3,hidden=64,heads=8,kv_heads=2,intermediate=96,seq=32,vocab=100"),
            static_cast<double>(l * (projections + attention + feed_forward) + head));
}

// Experts have room for all that is sent: with a capacity factor of 1, s top_k tokens.
TEST(TransformerWork, OfAMixtralIsTheClosedForm) {
  const std::int64_t b = 3, s = 32, h = 64, heads = 8, d = 8, keys = 2, f = 96, v = 100, l = 3, experts = 4, top = 2;
  const std::int64_t projections = 2 * b * s * h * d * (2 * heads + 2 * keys), attention = 4 * b * s * s * heads * d;
  const std::int64_t mixture = 2 * b * s * h * experts + 6 * b * (s * top) * h * f, head = 2 * b * s * h * v;
  const std::string sizes =
      "mixtral:layers=3,hidden=64,heads=8,kv_heads=2,intermediate=96,seq=32,vocab=100,experts=4,"
      "top_k=2";
  EXPECT_EQ(forward_flops(sizes), static_cast<double>(l * (projections + attention + mixture) + head));
  const std::int64_t wider = 6 * b * experts * 20 * h * f - 6 * b * (s * top) * h * f;  // 32 * 2 / 4 * 1.25 = 20 each
  EXPECT_EQ(forward_flops(sizes + ",capacity_factor=1.25") - forward_flops(sizes), static_cast<double>(l * wider));
}

// --- shape ---

std::string block_text(const std::string& sizes, int block) {
  const Graph graph = build_forward_graph(find_model(sizes), {.batch = 2});
  std::string text;
  for (const Op& op : graph.ops())
    if (op.block == block) text += fmt::format("{} {}\n", name_of(op.kind), op.name);
  return text;
}

TEST(TransformerBlock, OfALlamaReadsInTheOrderItIsComputed) {
  EXPECT_EQ(block_text("llama:layers=1,hidden=8,heads=4,kv_heads=2,intermediate=12,seq=5,vocab=11", 0),
            "rms_norm blk0.ln1\n"
            "contract blk0.attn.q\n"
            "contract blk0.attn.k\n"
            "contract blk0.attn.v\n"
            "rotary blk0.attn.q.rotary\n"
            "rotary blk0.attn.k.rotary\n"
            "reshape blk0.attn.k.keys\n"
            "reshape blk0.attn.v.keys\n"
            "grouped_attention blk0.attn.core\n"
            "contract blk0.attn.out\n"
            "add blk0.attn.residual\n"
            "rms_norm blk0.ln2\n"
            "contract blk0.mlp.gate\n"
            "silu blk0.mlp.silu\n"
            "contract blk0.mlp.up\n"
            "multiply blk0.mlp.gated\n"
            "contract blk0.mlp.down\n"
            "add blk0.mlp.residual\n");
}

TEST(TransformerBlock, OfAMixtureReadsInTheOrderItIsComputed) {
  const std::string text = block_text(
      "mixtral:layers=1,hidden=8,heads=4,intermediate=12,seq=8,vocab=11,experts=4,top_k=2,shared_intermediate=6", 0);
  EXPECT_EQ(text.substr(text.find("contract blk0.moe.router")),
            "contract blk0.moe.router\n"
            "softmax blk0.moe.scores\n"
            "top_k_slots blk0.moe.slots\n"
            "gate_weights blk0.moe.weights\n"
            "dispatch blk0.moe.dispatch\n"
            "contract blk0.moe.gate\n"
            "silu blk0.moe.silu\n"
            "contract blk0.moe.up\n"
            "multiply blk0.moe.gated\n"
            "contract blk0.moe.down\n"
            "combine blk0.moe.combine\n"
            "contract blk0.moe.shared.gate\n"
            "silu blk0.moe.shared.silu\n"
            "contract blk0.moe.shared.up\n"
            "multiply blk0.moe.shared.gated\n"
            "contract blk0.moe.shared.down\n"
            "add blk0.moe.sum\n"
            "add blk0.moe.residual\n");
}

TEST(TransformerBlock, OfADecoderReadsItsEncoder) {
  const auto& t5 = *std::find_if(std::begin(kSmall), std::end(kSmall),
                                 [](const Small& small) { return std::string_view(small.name) == "T5"; });
  const Graph graph = build_forward_graph(find_model(t5.sizes), {.batch = 2});
  const auto op_named = [&](const std::string& name) {
    return *std::find_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.name == name; });
  };
  const TensorId memory = op_named("enc.final_norm").outputs[0];
  EXPECT_EQ(op_named("dec0.cross.k").inputs[0], memory);
  EXPECT_EQ(op_named("dec1.cross.v").inputs[0], memory);
  EXPECT_EQ(op_named("enc1.attn.core").block, 1);
  EXPECT_EQ(op_named("dec0.attn.core").block, 2);
  EXPECT_FALSE(op_named("enc0.attn.core").attributes.causal);
  EXPECT_TRUE(op_named("dec0.attn.core").attributes.causal);
  EXPECT_FALSE(op_named("dec0.cross.core").attributes.causal);
}

}  // namespace
}  // namespace meshwright::transformer_test
