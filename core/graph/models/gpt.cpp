// SPDX-License-Identifier: Apache-2.0
// GPT with pre-normalised blocks, an embedding tied to the head, no position table and no final normalisation, sized so
// that its parameters are those of the published benchmark formula
//
//   L (H(3H+1) + H(H+1) + H(4H+1) + 4H(H+1) + 4H) + V(H+1)
//
// The formula gives the fused query-key-value projection a bias of H, not 3H. Nothing is lost: a key's bias adds the
// same amount to every score of a row, which the softmax removes, and a value's bias passes through the attention,
// whose weights sum to 1, so that the output projection's bias can stand for it. What is left is the query's bias.
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

struct GptBuilder {
  GptBuilder(Graph& into, const ModelConfig& model)
      : graph(into),
        config(model),
        batch{"batch", into.batch / into.microbatches},
        seq{"seq", model.seq},
        embed{"embed", model.hidden},
        qkv{"qkv", 3},
        heads{"heads", model.heads},
        head_dim{"head_dim", model.hidden / model.heads},
        mlp{"mlp", 4 * model.hidden},
        vocab{"vocab", model.vocab} {}

  [[nodiscard]] TensorId parameter(const std::string& name, std::vector<Dim> dims) {
    return graph.add_tensor(name, TensorKind::Parameter, graph.dtype, std::move(dims));
  }
  [[nodiscard]] TensorId add(OpKind kind, const std::string& name, std::vector<TensorId> inputs,
                             Attributes attributes = {}) {
    return graph.add_op(kind, name, std::move(inputs), std::move(attributes))[0];
  }
  [[nodiscard]] TensorId layer_norm(const std::string& name, TensorId x) {
    return add(OpKind::LayerNorm, name, {x, parameter(name + ".gamma", {embed}), parameter(name + ".beta", {embed})});
  }
  [[nodiscard]] TensorId project(const std::string& name, TensorId x, std::vector<Dim> weight,
                                 std::vector<std::string> result) {
    return add(OpKind::Contract, name, {x, parameter(name + ".weight", std::move(weight))},
               {.result_names = std::move(result)});
  }
  [[nodiscard]] TensorId add_bias(const std::string& name, TensorId x, std::vector<Dim> bias, bool select = false) {
    return add(OpKind::BiasAdd, name + ".bias_add", {x, parameter(name + ".bias", std::move(bias))},
               {.bias_select = select});
  }

  [[nodiscard]] TensorId attention(const std::string& block, TensorId x);  // (batch, seq, embed) -> (batch, seq, embed)
  [[nodiscard]] TensorId feed_forward(const std::string& block, TensorId x);
  [[nodiscard]] TensorId loss(TensorId x, TensorId wte, TensorId labels, LossReduction reduction);

  Graph& graph;
  const ModelConfig& config;
  const Dim batch, seq, embed, qkv, heads, head_dim, mlp, vocab;
};

TensorId GptBuilder::attention(const std::string& block, TensorId x) {
  const std::string name = block + ".attn";
  TensorId a = layer_norm(block + ".ln1", x);
  a = project(name + ".qkv", a, {embed, qkv, heads, head_dim}, {"batch", "seq", "qkv", "heads", "head_dim"});
  a = add_bias(name + ".query", a, {heads, head_dim}, true);
  a = add(OpKind::Attention, name + ".core", {a});
  a = project(name + ".out", a, {heads, head_dim, embed}, {"batch", "seq", "embed"});
  a = add_bias(name + ".out", a, {embed});
  return add(OpKind::Add, name + ".residual", {x, a});
}

TensorId GptBuilder::feed_forward(const std::string& block, TensorId x) {
  const std::string name = block + ".mlp";
  TensorId a = layer_norm(block + ".ln2", x);
  a = project(name + ".up", a, {embed, mlp}, {"batch", "seq", "mlp"});
  a = add_bias(name + ".up", a, {mlp});
  a = add(OpKind::Gelu, name + ".gelu", {a});
  a = project(name + ".down", a, {mlp, embed}, {"batch", "seq", "embed"});
  a = add_bias(name + ".down", a, {embed});
  return add(OpKind::Add, name + ".residual", {x, a});
}

TensorId GptBuilder::loss(TensorId x, TensorId wte, TensorId labels, LossReduction reduction) {
  TensorId logits = add(OpKind::Contract, "head.logits", {x, wte}, {.result_names = {"batch", "seq", "vocab"}});
  logits = add(OpKind::BiasAdd, "head.logits.bias_add", {logits, parameter("head.bias", {vocab})});
  const TensorId max = add(OpKind::RowMax, "head.row_max", {logits});
  const TensorId sum = add(OpKind::SumExp, "head.sum_exp", {logits, max});
  const TensorId picked = add(OpKind::PickLabel, "head.pick_label", {logits, labels});
  std::vector<TensorId> terms = {max, sum, picked};
  if (reduction == LossReduction::TokenWeighted) {
    const DType type = accumulation_dtype(graph.dtype);
    graph.loss_weights = {graph.add_tensor("loss_weights", TensorKind::Input, type, {batch, seq}),
                          graph.add_tensor("loss_weights.total", TensorKind::Input, type, {})};
    terms.insert(terms.end(), {graph.loss_weights->weights, graph.loss_weights->total});
  }
  const double count = static_cast<double>(graph.batch) * static_cast<double>(config.seq);
  return add(OpKind::CrossEntropyLoss, "head.loss", std::move(terms),
             {.scale = reduction == LossReduction::Mean ? 1.0 / count : 1.0});
}

}  // namespace

void build_gpt(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  GptBuilder gpt(graph, model);
  const TensorId tokens = graph.add_tensor("tokens", TensorKind::Input, DType::I32, {gpt.batch, gpt.seq});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {gpt.batch, gpt.seq});
  const TensorId wte = gpt.parameter("wte", {gpt.vocab, gpt.embed});
  TensorId x = gpt.add(OpKind::Embedding, "embed", {tokens, wte});
  for (int b = 0; b < model.layers; ++b) {
    graph.current_block = b;
    const std::string block = fmt::format("blk{}", b);
    x = gpt.attention(block, x);
    x = gpt.feed_forward(block, x);
  }
  graph.current_block = -1;
  graph.loss = gpt.loss(x, wte, labels, reduction);
}

}  // namespace meshwright
