// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

// No expert can be given more than every token once.
std::int64_t capacity_of(const MixturePart& part, std::int64_t seq) {
  if (part.capacity > 0) return std::min(part.capacity, seq);
  const double choices = static_cast<double>(part.experts + part.identity);
  const double fair = static_cast<double>(seq) * static_cast<double>(part.top_k) / choices;
  return std::clamp(static_cast<std::int64_t>(std::ceil(std::min(fair * part.capacity_factor, 1e12))), std::int64_t{1},
                    seq);
}

}  // namespace

TensorId TransformerBuilder::softplus(const std::string& name, TensorId x) {
  x = add(OpKind::Exp, name + ".exp", {x});
  return add(OpKind::Log, name + ".softplus", {add(OpKind::Shift, name + ".exp.next", {x}, {.value = 1.0})});
}

TensorId TransformerBuilder::root_softplus(const std::string& name, TensorId x) {
  return add(OpKind::Sqrt, name, {softplus(name, x)});
}

TransformerBuilder::Routing TransformerBuilder::route(const std::string& name, TensorId x,
                                                      std::optional<TensorId> chosen_by) {
  const MixturePart& part = *transformer.mixture;
  // Each dimension of one graph has one size: where some choices are no experts, those that are have the name.
  const Dim expert{part.identity > 0 ? "choice" : "expert", part.experts + part.identity};
  TensorId scores = project(name + ".router", x, {embed, expert}, {"batch", "seq", expert.name});
  if (part.router_bias) scores = add_bias(name + ".router", scores, {expert});
  scores = part.root_softplus ? root_softplus(name + ".scores", scores)
                              : add(part.sigmoid ? OpKind::Sigmoid : OpKind::Softmax, name + ".scores", {scores});
  if (!chosen_by) chosen_by = part.selection_bias ? add_bias(name + ".selection", scores, {expert}) : scores;
  const std::int64_t capacity = capacity_of(part, seq.size);
  TensorId slots = add(OpKind::TopKSlots, name + ".slots", {*chosen_by}, {.top_k = part.top_k, .capacity = capacity});
  TensorId weights = add(OpKind::GateWeights, name + ".weights", {scores, slots}, {.normalize = part.normalize});
  if (part.identity > 0) {
    const std::vector<Dim> of_experts = {batch, seq, {"expert", part.experts}};
    slots = add(OpKind::Slice, name + ".slots.experts", {slots}, {.result_dims = of_experts});
    weights = add(OpKind::Slice, name + ".weights.experts", {weights}, {.result_dims = of_experts});
  }
  if (part.scaled_experts) {
    const TensorId each =
        add(OpKind::Broadcast, name + ".expert_scale.tokens", {parameter(name + ".expert_scale.gamma", {expert})},
            {.result_dims = {batch, seq, expert}});
    weights = add(OpKind::Multiply, name + ".weights.by_expert", {weights, each});
  }
  if (part.scale != 1.0) weights = add(OpKind::Scale, name + ".weights.scaled", {weights}, {.scale = part.scale});
  if (part.identity == 0) return {slots, weights, capacity, {}};
  return {slots, weights, capacity, identity_weight(name + ".identity", scores, *chosen_by)};
}

// The weights of a token's choices that are no experts, which all find room, added up.
TensorId TransformerBuilder::identity_weight(const std::string& name, TensorId scores, TensorId chosen_by) {
  const MixturePart& part = *transformer.mixture;
  const Dim choice = graph.tensor(scores).dims.back();
  const TensorId all =
      add(OpKind::TopKSlots, name + ".slots", {chosen_by}, {.top_k = part.top_k, .capacity = seq.size});
  const TensorId weights = add(OpKind::GateWeights, name + ".weights", {scores, all}, {.normalize = part.normalize});
  std::vector<double> which(static_cast<std::size_t>(choice.size), 0.0);
  std::fill(which.begin() + static_cast<std::ptrdiff_t>(part.experts), which.end(), 1.0);
  const TensorId sum = add(OpKind::Contract, name + ".sum", {weights, constant("identity_experts", {choice}, which)},
                           {.result_names = {"batch", "seq"}});
  return scaled(name + ".sum", sum, part.scale);
}

// (expert, batch, capacity, embed) -> the same. A bias of each expert needs the expert next to the dimension it is
// added along, so that layers with biases have (batch, capacity, expert, ...) inside.
TensorId TransformerBuilder::expert_layer(const std::string& name, TensorId x) {
  const MixturePart& part = *transformer.mixture;
  const Dim expert{"expert", part.experts}, mlp{"mlp", part.width}, read = graph.tensor(x).dims.back();
  const bool bias = part.expert_bias;
  const auto order = [bias](const char* last) {
    return bias ? std::vector<std::string>{"batch", "capacity", "expert", last}
                : std::vector<std::string>{"expert", "batch", "capacity", last};
  };
  const TensorId inner = inner_layer(
      name,
      [&](const std::string& which) {
        const TensorId wide = project(name + which, x, {expert, read, mlp}, order("mlp"));
        return bias ? add_bias(name + which, wide, {expert, mlp}) : wide;
      },
      part.bound > 0.0 ? part.bound : transformer.feed_forward.bound);
  const TensorId out = project(name + ".down", inner, {expert, mlp, read}, order(read.name.c_str()));
  if (!bias) return out;
  return add(OpKind::Transpose, name + ".by_expert", {add_bias(name + ".down", out, {expert, read})},
             {.result_names = {"expert", "batch", "capacity", read.name}});
}

TensorId TransformerBuilder::mixture(const std::string& name, TensorId x, std::optional<TensorId> routed_by) {
  return mixture_of(name, x, route(name, routed_by.value_or(x)));
}

TensorId TransformerBuilder::mixture_of(const std::string& name, TensorId x, const Routing& routing) {
  const MixturePart& part = *transformer.mixture;
  const auto with_shared = [&](TensorId out) {
    if (part.shared_width > 0) out = add(OpKind::Add, name + ".sum", {out, shared_expert(name, x)});
    if (part.shared_width > 0 && part.averaged) out = scaled(name + ".mean", out, 1.0 / 2.0);
    return part.result_norm ? norm(name + ".norm", out, embed) : out;
  };
  if (part.weigh_inputs) {
    // Combine's adjoint weighs what it sends, and Dispatch's sums what comes back.
    const std::vector<Dim> sizes = {{"expert", part.experts}, batch, {"capacity", routing.capacity}, embed};
    const TensorId weighed =
        add(OpKind::CombineBackward, name + ".dispatch", {routing.slots, routing.weights, x}, {.result_dims = sizes});
    return with_shared(add(OpKind::DispatchBackward, name + ".combine", {routing.slots, expert_layer(name, weighed)}));
  }
  const Dim latent{"expert_embed", part.latent};
  const auto between = [&](const char* which, TensorId from, const Dim& in, const Dim& out) {
    from = project(name + which, from, {in, out}, {"batch", "seq", out.name});
    return transformer.feed_forward.bias ? add_bias(name + which, from, {out}) : from;
  };
  const TensorId read = part.latent > 0 ? between(".latent_in", x, embed, latent) : x;
  const TensorId sent =
      add(OpKind::Dispatch, name + ".dispatch", {read, routing.slots}, {.capacity = routing.capacity});
  const TensorId made = expert_layer(name, sent);
  TensorId out = add(OpKind::Combine, name + ".combine", {made, routing.slots, routing.weights});
  if (part.latent > 0) out = between(".latent_out", out, latent, embed);
  if (routing.identity) {
    const TensorId wide =
        add(OpKind::Broadcast, name + ".identity.wide", {*routing.identity}, {.result_dims = {batch, seq, embed}});
    out = add(OpKind::Add, name + ".with_identity", {out, add(OpKind::Multiply, name + ".identity", {x, wide})});
  }
  return with_shared(out);
}

TensorId TransformerBuilder::shared_expert(const std::string& name, TensorId x) {
  const MixturePart& part = *transformer.mixture;
  const TensorId made = feed_forward(name + ".shared", x, part.shared_width);
  if (!part.shared_gate) return made;
  TensorId gate = project(name + ".shared_gate", x, {embed, {"one", 1}}, {"batch", "seq", "one"});
  gate = add(OpKind::Reshape, name + ".shared_gate.token", {gate}, {.result_dims = {batch, seq}});
  gate = add(OpKind::Sigmoid, name + ".shared_gate.sigmoid", {gate});
  gate = add(OpKind::Broadcast, name + ".shared_gate.wide", {gate}, {.result_dims = {batch, seq, embed}});
  return add(OpKind::Multiply, name + ".shared_gated", {made, gate});
}

}  // namespace meshwright
