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
#include "core/graph/models/gpt_builder.h"

namespace meshwright {

GptBuilder::GptBuilder(Graph& into, const ModelConfig& model, std::int64_t mlp_factor)
    : ModelWriter(into, model),
      qkv{"qkv", 3},
      heads{"heads", model.heads},
      head_dim{"head_dim", model.hidden / model.heads},
      mlp{"mlp", mlp_factor * model.hidden} {}

TensorId GptBuilder::attention(const std::string& block, TensorId x) {
  const std::string name = block + ".attn";
  TensorId a = layer_norm(block + ".ln1", x, embed);
  a = project(name + ".qkv", a, {embed, qkv, heads, head_dim}, {"batch", "seq", "qkv", "heads", "head_dim"});
  a = add_bias(name + ".query", a, {heads, head_dim}, true);
  a = add(OpKind::Attention, name + ".core", {a});
  a = project(name + ".out", a, {heads, head_dim, embed}, {"batch", "seq", "embed"});
  a = add_bias(name + ".out", a, {embed});
  return add(OpKind::Add, name + ".residual", {x, a});
}

TensorId GptBuilder::feed_forward(const std::string& block, TensorId x) {
  const std::string name = block + ".mlp";
  TensorId a = layer_norm(block + ".ln2", x, embed);
  a = project(name + ".up", a, {embed, mlp}, {"batch", "seq", "mlp"});
  a = add_bias(name + ".up", a, {mlp});
  a = add(OpKind::Gelu, name + ".gelu", {a});
  a = project(name + ".down", a, {mlp, embed}, {"batch", "seq", "embed"});
  a = add_bias(name + ".down", a, {embed});
  return add(OpKind::Add, name + ".residual", {x, a});
}

void GptBuilder::build(std::int64_t layers, const Block& block, LossReduction reduction) {
  const TensorId tokens = token_input("tokens");
  const TensorId labels = token_input("labels");
  const TensorId wte = parameter("wte", {vocab, embed});
  TensorId x = add(OpKind::Embedding, "embed", {tokens, wte});
  for (int b = 0; b < layers; ++b) {
    graph.current_block = b;
    x = block(fmt::format("blk{}", b), b, x);
  }
  graph.current_block = -1;
  TensorId logits = add(OpKind::Contract, "head.logits", {x, wte}, {.result_names = {"batch", "seq", "vocab"}});
  logits = add(OpKind::BiasAdd, "head.logits.bias_add", {logits, parameter("head.bias", {vocab})});
  graph.loss = cross_entropy(logits, labels, reduction);
}

void build_gpt(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  GptBuilder gpt(graph, model, 4);
  gpt.build(
      model.layers,
      [&gpt](const std::string& block, std::int64_t, TensorId x) {
        return gpt.feed_forward(block, gpt.attention(block, x));
      },
      reduction);
}

}  // namespace meshwright
