// SPDX-License-Identifier: Apache-2.0
// What the frameworks' names for a model say of it, and what they have no name for.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/graph/models/families.h"
#include "launch/setup/decoder.h"

namespace meshwright::decoder_test {
namespace {

// The example of a family with other sizes.
ModelConfig example(const std::string& family, const std::string& sizes = "") {
  const ModelConfig model = find_builtin_model(known_family(family, "test").example);
  return sizes.empty() ? model : with_sizes(model, sizes, "test");
}
std::vector<std::string> unusual(const std::string& family, const std::string& sizes = "") {
  return decoder_of(example(family, sizes)).unusual;
}
using Names = std::vector<std::string>;

TEST(DecoderOfModel, PlainOnesHaveNothingUnusual) {
  for (const char* family : {"gpt2", "llama", "mixtral", "deepseek_v3"}) EXPECT_EQ(unusual(family), Names{}) << family;
}

struct Case {
  const char *family, *sizes, *named;
};

TEST(DecoderOfModel, NamesWhatNoFrameworkHasANameFor) {
  const std::vector<Case> cases = {
      {"gpt2", "post_norm=1", "norms after the residual sums"},
      {"gpt2", "final_norm=0", "no norm after the last block"},
      {"gpt2", "word_embed=32", "a word table narrower than its blocks"},
      {"gpt2", "window=8", "attention windows in some layers alone"},
      {"gpt2", "qkv_bias=0", "no biases of queries, keys and values"},
      {"gpt2", "scaled=0", "scores that are not divided"},
      {"gpt2", "sines=1", "positions that are sines"},
      {"gpt2", "embed_scale=8", "a factor 'embed_scale'"},
      {"gpt2", "rms=1", "RMS norms in a model with biases"},
      {"gpt2", "quick=1", "a sigmoid in place of GELU"},
      {"gpt2", "more_words=1,tied=0", "words that the head does not know"},
      {"gpt_neox", "last_out_bias=1,parallel=0", "a bias of what the last layer's attention makes"},
      {"decoder", "encoder_layers=2,norms=0", "an encoder that its layers attend to"},
      {"gpt_neox", "parallel=1", "attention and feed-forward side by side"},
      {"llama", "window=8,full_every=2", "attention windows in some layers alone"},
      {"llama", "mlp_bias=1", "biases of the feed-forward layers"},
      {"llama", "qkv_bias=1,out_bias=1", "biases of all attention layers"},
      {"llama", "out_bias=1", "a bias of what attention makes, and none in it"},
      {"mixtral", "clipped_gate=1", "clipped gates of the experts"},
      {"mixtral", "router_bias=1", "a bias of the router"},
      {"mixtral", "expert_bias=1", "biases of the experts"},
      {"mixtral", "shared_intermediate=32,shared_gate=1", "a gate of the shared expert"},
      {"mixtral", "sinks=1", "attention sinks"},
      {"mixtral", "no_rotary_every=2", "layers without positions"},
      {"mixtral", "attention_chunk=8", "attention within chunks"},
      {"mixtral", "plain_qk_norm=1", "norms of rotated queries and keys"},
      {"mixtral", "temperature_every=8", "queries scaled by their positions"},
      {"mixtral", "weigh_inputs=1", "weights of what experts are given"},
      {"deepseek_v3", "index_heads=2,index_dim=16,index_top_k=4", "an indexer that chooses keys (sparse attention)"},
      {"decoder", "layer_norm=2", "layer norms without a bias"},
      {"decoder", "layer_norm=3", "layer norms without weights"},
      {"decoder", "layer_norm=4", "RMS norms without weights"},
      {"decoder", "plain_qk_norm=1", "norms of rotated queries and keys"},
      {"decoder", "inner_norms=1", "norms inside attention and feed-forward"},
      {"decoder", "more_words=8", "words that the head does not know"},
      {"decoder_moe", "averaged=1", "means of routed experts and the shared one"},
      {"decoder_moe", "head_gate=2", "a gate of each attention head"},
      {"decoder_moe", "window=8,full_every=2,rotary_windows_alone=1", "layers without positions"},
      {"decoder_moe", "window=8,full_last=1", "attention windows in some layers alone"},
      {"deepseek_v3", "moe_norm=1", "norms of what experts make"},
      {"deepseek_v3", "both_queries=1", "queries and gates of heads that read a vector and its norm"},
      {"deepseek_v3", "norm_gate=8", "gates of what norms make"},
      {"deepseek_v3", "temperature_every=8", "queries scaled by their positions"},
      {"deepseek_v3", "logit_scale=0.5", "a factor 'logit_scale'"},
      {"decoder", "qk_norm=1,qk_norm_rotated=1", "norms of queries and keys behind their rotation"},
      {"decoder", "parallel=2,norms=0", "attention and feed-forward side by side"},
      {"decoder", "norms=2", "norms of what attention and feed-forward make"},
      {"decoder", "wide_qk_norm=1", "norms of queries and keys over all heads at once"},
      {"decoder", "head_bias=1", "biases of the last product"},
      {"decoder", "relu_squared=1", "squared ReLU as the activation"},
      {"decoder", "capped=1", "a cap of the logits"},
      {"decoder", "capped_scores=1", "a cap of the scores"},
      {"decoder", "bounded_qkv=1", "bounds of queries, keys and values"},
      {"decoder", "head_qk_norm=1", "norms of queries and keys with weights of each head"},
      {"decoder", "residual_scale=0.5", "a factor 'residual_scale'"},
      {"decoder", "window=8,window_rotary_base=5000", "another base of the rotation in layers with windows"},
      {"decoder", "sinks=1", "attention sinks"},
      {"decoder", "no_rotary_every=2", "layers without positions"},
      {"decoder", "window=8,full_every=2,rotary_windows_alone=1", "layers without positions"},
      {"decoder", "temperature_every=8", "queries scaled by their positions"},
      {"decoder", "gated=0,xielu=1", "xIELU as the activation"},
      {"decoder", "causal=0", "queries that see the keys behind them"},
      {"decoder", "embedding_norm=1", "a norm of the embedding"},
      {"decoder", "post_norm=1", "norms after the residual sums"},
      {"decoder", "mlp_out_bias=1", "biases of the feed-forward layers' last product alone"},
      {"decoder", "token_types=2", "types of tokens"},
      {"decoder", "bare_first=1", "a first layer without a norm in front"},
      {"decoder", "transformed_head=1", "a dense layer and a norm before the head"},
      {"decoder_moe", "router_bias=1", "a bias of the router"},
  };
  for (const Case& of : cases) {
    const Names names = unusual(of.family, of.sizes);
    EXPECT_NE(std::find(names.begin(), names.end(), of.named), names.end())
        << of.family << " with " << of.sizes << " names " << join(names, ", ");
  }
}

// BLOOM's biases by distance are in no framework's model.
TEST(DecoderOfModel, BloomIsUnusualAsItIs) {
  EXPECT_EQ(unusual("bloom"), (Names{"attention biases by distance (ALiBi)", "a norm of the embedding"}));
  EXPECT_EQ(unusual("bloom", "embedding_norm=0,norm_bias=0"),
            (Names{"attention biases by distance (ALiBi)", "layer norms without a bias"}));
}

// Everything that a Decoder says, so that two can be compared.
std::string all_of(const Decoder& of) {
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} positions {} {} {:g} {:g} eps {:g} {} {} {} {} {} {} {} window {} further {} {:g}",
      of.layers, of.hidden, of.heads, of.kv_heads, of.head_dim, of.ffn, of.seq, of.vocab,
      static_cast<int>(of.positions), of.position_rows, of.rotary_base, of.rotary_share, of.epsilon, of.rms_norm,
      of.gated, static_cast<int>(of.activation), of.bias, of.qkv_bias, of.qk_norm, of.tied, of.window, of.further,
      of.further_weight);
  if (of.experts)
    text += fmt::format(" experts {} {} {} {} {} {} {} {} {} {:g}", of.experts->count, of.experts->top_k,
                        of.experts->ffn, of.experts->shared_ffn, of.experts->dense_layers, of.experts->every,
                        of.experts->sigmoid, of.experts->normalized, of.experts->selection_bias, of.experts->scale);
  if (of.latent)
    text += fmt::format(" latent {} {} {} {} {}", of.latent->q_rank, of.latent->kv_rank, of.latent->nope,
                        of.latent->rope, of.latent->value);
  text += fmt::format(" lora {} {}", of.lora_rank, of.lora_targets);
  return text + " unusual " + join(of.unusual, ", ") + " differences " + join(of.differences, ", ");
}

// A key of one or two steps that nobody reads would be dropped in silence.
TEST(DecoderOfModel, EveryChoiceOfAFamilyShows) {
  const std::map<std::string, std::string> with = {
      {"first_window_layer", "window=8"},  {"full_every", "window=8"}, {"full_last", "window=8"}, {"erf", "gelu=1"},
      {"qk_norm_rotated", "qk_norm=1"},    {"temperature_first", ""},  {"temper_rotated", ""},    {"shared_gate", ""},
      {"rotary_windows_alone", "window=8"}};
  for (const char* name : {"gpt2", "bloom", "gpt_neox", "llama", "mixtral", "decoder", "decoder_moe", "deepseek_v3"})
    for (const SizeField& field : known_family(name, "test").sizes) {
      if (field.maximum > 3) continue;
      // These alone change nothing: they say how the queries of another key are scaled.
      if (std::string(field.key).starts_with("temper")) continue;
      ModelConfig model = example(name);
      if (const auto more = with.find(field.key); more != with.end() && !more->second.empty())
        if (model.more.contains(split(more->second, '=')[0])) model = with_sizes(model, more->second, "test");
      const std::int64_t now = size_of(model, field.key);
      const ModelConfig other = with_sizes(model, fmt::format("{}={}", field.key, now == 0 ? 1 : 0), "test");
      EXPECT_NE(all_of(decoder_of(model)), all_of(decoder_of(other))) << name << ": " << field.key;
    }
}

}  // namespace
}  // namespace meshwright::decoder_test
