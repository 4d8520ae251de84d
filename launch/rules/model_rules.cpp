// SPDX-License-Identifier: Apache-2.0
#include "launch/rules/rule_lists.h"

namespace meshwright {

namespace {

const char* name_of_activation(const Decoder& d) {
  switch (d.activation) {
    case Decoder::Activation::Gelu:
    case Decoder::Activation::GeluErf:
      return "GELU";
    case Decoder::Activation::Silu:
      return "SiLU";
    case Decoder::Activation::Relu:
      break;
  }
  return "ReLU";
}

bool is_gelu(const Decoder& d) {
  return d.activation == Decoder::Activation::Gelu || d.activation == Decoder::Activation::GeluErf;
}

bool is_swiglu(const Decoder& d) { return d.gated && d.activation == Decoder::Activation::Silu; }

void megatron_model(const std::string& name, const Decoder& d, RuleList& rules) {
  rules.expect_told(is_swiglu(d) || (is_gelu(d) && !d.gated),
                    fmt::format("{} has feed-forward layers of SwiGLU or ungated GELU, and the model's are {}{}", name,
                                d.gated ? "gated " : "ungated ", name_of_activation(d)));
}

// Its models are Python tables; a table of another size can be added to each.
void torchtitan_model(const Decoder& d, RuleList& rules) {
  rules.expect_told(is_swiglu(d) && d.rms_norm && d.positions == Decoder::Positions::Rotary && !d.bias && !d.qkv_bias,
                    "torchtitan's models have SwiGLU, RMS norms, rotated heads and no biases");
  rules.expect_told(d.window == 0, "torchtitan's models have no attention windows");
  rules.expect_told(d.rotary_share == 1.0, "torchtitan's models rotate whole heads");
  if (d.latent) return;
  if (d.experts) {
    rules.expect_told(d.experts->every == 1 && d.experts->dense_layers == 0,
                      "torchtitan's qwen3 has experts in every layer or in none");
    rules.expect_told(
        d.experts->ffn > 0 && d.experts->shared_ffn % d.experts->ffn == 0,
        fmt::format("torchtitan's shared experts are as wide as {} others together, and the model's has {}",
                    d.experts->ffn, d.experts->shared_ffn));
  }
}

// The module that is written for PyTorch alone has what these name.
void plain_torch_model(const Decoder& d, RuleList& rules) {
  rules.expect_told(d.window == 0, "the written PyTorch model has no attention windows");
}

// The dense block needs two more of its tracer's operators; tokens that choose their experts would need others.
void nnscaler_model(const Decoder& d, RuleList& rules) {
  plain_torch_model(d, rules);
  rules.expect_told(!d.experts, "the model written for nnScaler has no experts");
  rules.expect_told(!d.latent, "the model written for nnScaler has no latent attention");
}

void maxtext_model(const Decoder& d, RuleList& rules) {
  rules.expect_told(
      d.positions == Decoder::Positions::Rotary && d.rms_norm && d.gated && !d.bias,
      "MaxText's decoder blocks have rotated heads, RMS norms and gated feed-forward layers without biases");
  rules.expect_told(d.rotary_share == 1.0, "MaxText rotates whole heads");
  rules.expect_told(d.window == 0, "MaxText's decoder blocks of one kind have no attention windows");
  if (!d.experts) return;
  rules.expect_told(!d.qkv_bias, "MaxText's blocks with experts have no biases of queries, keys and values");
  rules.expect_told(d.latent || (d.experts->every == 1 && d.experts->dense_layers == 0),
                    "MaxText's mixtral has experts in every layer");
  rules.expect_told(d.latent || d.experts->shared_ffn == 0, "MaxText's mixtral has no shared expert");
}

}  // namespace

void model_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  const Decoder decoder = decoder_of(setup.model);
  for (const std::string& what : decoder.unusual)
    rules.untold(fmt::format("model {} has {}, which {} cannot be told", setup.model.name, what, target.release));
  rules.expect_told(decoder.lora_rank == 0,
                    fmt::format("model {} trains adapters alone, and files of {} are written for trainings of all "
                                "weights",
                                setup.model.name, target.release));
  const bool further_told = target.framework == "maxtext" || (target.framework == "megatron" && !target.own_stages);
  rules.expect_told(decoder.further == 0 || further_told,
                    fmt::format("model {} has {} modules that predict further tokens, which {} cannot be told (without "
                                "them: mtp=0, num_nextn_predict_layers 0)",
                                setup.model.name, decoder.further, target.release));
  if (target.framework == "megatron") megatron_model(target.release, decoder, rules);
  if (target.framework == "torchtitan") torchtitan_model(decoder, rules);
  if (target.framework == "deepspeed" || target.framework == "fsdp") plain_torch_model(decoder, rules);
  if (target.framework == "nnscaler") nnscaler_model(decoder, rules);
  if (target.framework == "maxtext") maxtext_model(decoder, rules);
}

}  // namespace meshwright
