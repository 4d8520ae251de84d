// SPDX-License-Identifier: Apache-2.0
// The loss, and modules that predict further tokens: "mtp<k>.embed", "mtp<k>.in", the ops of a block, "mtp<k>.logits".
#include "core/base/errors.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

TensorId TransformerBuilder::further_module(const std::string& name, TensorId x, TensorId tokens, const Block& block) {
  const Dim both{"embed_pair", 2 * embed.size};
  const TensorId next = norm(name + ".embed_norm", embed_tokens(name + ".embed", tokens), embed);
  const TensorId before = norm(name + ".hidden_norm", x, embed);
  const TensorId joined = add(OpKind::Concat, name + ".pair", {next, before}, {.result_dims = {batch, seq, both}});
  return block(name, project(name + ".in", joined, {both, embed}, {"batch", "seq", "embed"}));
}

TensorId TransformerBuilder::losses(TensorId x, const std::string& prefix, TensorId labels, LossReduction reduction,
                                    const Block& further_block) {
  const FurtherTokens& further = transformer.further;
  MW_CHECK(further.modules == 0 || (transformer.encoder.empty() && !transformer.transformed_head &&
                                    !transformer.head_bias && word == embed),
           "modules for further tokens of model '{}' have a head of another form", graph.name);
  struct Module {
    std::string name;
    TensorId x, labels;
  };
  std::vector<Module> modules;
  // The token after each is its label, and the labels of a module are the tokens that the next one reads.
  TensorId from = x, tokens = labels;
  for (std::int64_t k = 1; k <= further.modules; ++k) {
    graph.current_block = next_block++;
    const std::string name = fmt::format("mtp{}", k);
    const TensorId its_labels = token_input(fmt::format("labels_{}", k + 1));
    from = further_module(name, from, tokens, further_block);
    modules.push_back({name, from, its_labels});
    tokens = its_labels;
  }
  graph.current_block = -1;
  TensorId loss = cross_entropy(logits(final_norm(prefix, x)), labels, reduction);
  for (const Module& module : modules) {
    const TensorId made = logits(norm(module.name + ".final_norm", module.x, embed), module.name);
    const double factor = further.weight / static_cast<double>(further.modules);
    const TensorId more = cross_entropy(made, module.labels, reduction, module.name, factor);
    loss = add(OpKind::Add, module.name + ".total", {loss, more});
  }
  return loss;
}

}  // namespace meshwright
