// SPDX-License-Identifier: Apache-2.0
// The mixtures of experts of the published benchmark: GPT's blocks (core/graph/models/gpt.cpp) with feed-forward layers
// of 8 times the width, every second of which, the first included, is a mixture of E experts (Lepikhin et al.,
// "GShard", arXiv:2006.16668) that takes each token to its two best. Its parameters are those of the benchmark's
// formula
//
//   L/2 (2 (H(3H+1) + H(H+1) + 4H) + (1 + E) (H(8H+1) + 8H(H+1))) + V(H+1)
//
// which gives every expert two biases, 8H and H, and leaves out the router's H E weights. Here the experts' second bias
// is left out for them: H per expert, too.
//
// The tokens of a microbatch form groups, each a row with the capacity of 2 tokens / E slots per expert (at least 1). A
// group has `group` tokens, of as many whole samples as divide the microbatch; a sample of more tokens is parted into
// groups. What gives tokens to experts and back are contractions with the mask "1 where token t has slot c of expert
// e": GShard's form, whose work is that of a dense product, not that of moving tokens. Weights of a token's two experts
// are normalised over those that had a slot left. There is no auxiliary loss.
//
// Dimensions of a mixture: (batch, token, embed), batch being groups; masks (batch, token, capacity, expert); the
// experts' tokens (batch, capacity, expert, embed).
#include <algorithm>

#include "core/graph/models/families.h"
#include "core/graph/models/gpt_builder.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMlpFactor = 8, kExpertsPerToken = 2;

// REQUIRES: seq <= group, or group divides seq.
std::int64_t tokens_per_group(std::int64_t batch, std::int64_t seq, std::int64_t group) {
  if (seq > group) return group;
  std::int64_t samples = std::min(batch, group / seq);
  while (batch % samples != 0) --samples;
  return samples * seq;
}

struct GshardBuilder : GptBuilder {
  GshardBuilder(Graph& into, const ModelConfig& model)
      : GptBuilder(into, model, kMlpFactor),
        token{"token", tokens_per_group(batch.size, seq.size, size_of(model, "group"))},
        groups{"batch", batch.size * seq.size / token.size},
        expert{"expert", size_of(model, "experts")},
        capacity(std::max<std::int64_t>(kExpertsPerToken * token.size / expert.size, 1)) {}

  struct Masks {
    TensorId dispatch, combine;
  };
  [[nodiscard]] Masks route(const std::string& name, TensorId x);
  [[nodiscard]] TensorId experts(const std::string& name, TensorId x);
  [[nodiscard]] TensorId mixture(const std::string& block, TensorId x);

  const Dim token, groups, expert;
  const std::int64_t capacity;
};

GshardBuilder::Masks GshardBuilder::route(const std::string& name, TensorId x) {
  TensorId scores = project(name + ".router", x, {embed, expert}, {"batch", "token", "expert"});
  scores = add(OpKind::Softmax, name + ".scores", {scores});
  const TensorId slots =
      add(OpKind::TopKSlots, name + ".slots", {scores}, {.top_k = kExpertsPerToken, .capacity = capacity});
  const TensorId weights = add(OpKind::GateWeights, name + ".weights", {scores, slots}, {.normalize = true});
  const TensorId dispatch =
      add(OpKind::OneHotSlots, name + ".dispatch_mask", {slots}, {.dtype = graph.dtype, .capacity = capacity});
  const TensorId combine = add(OpKind::Contract, name + ".combine_mask", {weights, dispatch},
                               {.result_names = {"batch", "token", "capacity", "expert"}});
  return {dispatch, combine};
}

TensorId GshardBuilder::experts(const std::string& name, TensorId x) {
  x = project(name + ".up", x, {expert, embed, mlp}, {"batch", "capacity", "expert", "mlp"});
  x = add(OpKind::Relu, name + ".relu", {add_bias(name + ".up", x, {expert, mlp})});
  return project(name + ".down", x, {expert, mlp, embed}, {"batch", "capacity", "expert", "embed"});
}

TensorId GshardBuilder::mixture(const std::string& block, TensorId x) {
  const std::string name = block + ".moe";
  TensorId a = layer_norm(block + ".ln2", x, embed);
  a = add(OpKind::Reshape, name + ".groups", {a}, {.result_dims = {groups, token, embed}});
  const Masks masks = route(name, a);
  a = add(OpKind::Contract, name + ".dispatch", {a, masks.dispatch},
          {.result_names = {"batch", "capacity", "expert", "embed"}});
  a = experts(name, a);
  a = add(OpKind::Contract, name + ".combine", {masks.combine, a}, {.result_names = {"batch", "token", "embed"}});
  a = add(OpKind::Reshape, name + ".samples", {a}, {.result_dims = {batch, seq, embed}});
  return add(OpKind::Add, name + ".residual", {x, a});
}

}  // namespace

void build_gshard(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  GshardBuilder gshard(graph, model);
  gshard.build(
      model.layers,
      [&gshard](const std::string& block, std::int64_t layer, TensorId x) {
        x = gshard.attention(block, x);
        return layer % 2 == 0 ? gshard.mixture(block, x) : gshard.feed_forward(block, x);
      },
      reduction);
}

}  // namespace meshwright
