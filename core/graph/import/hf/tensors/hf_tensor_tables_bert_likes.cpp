// SPDX-License-Identifier: Apache-2.0
// What models of BERT's and BART's blocks under other names call their tensors. Linear layers are (out, in).
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/graph/import/hf/tensors/hf_tensor_rows.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

using hf::bert_table;
using hf::renamed;

// Parts of blocks are lists, each with an entry for each block.
HfTensorTable xlm() {
  HfTensorTable table = renamed(bert_table(), {"xlm", "flaubert"}, "transformer.",
                                {{"bert.embeddings.word_embeddings", "transformer.embeddings"},
                                 {"bert.embeddings.position_embeddings", "transformer.position_embeddings"},
                                 {"bert.embeddings.token_type_embeddings", "transformer.lang_embeddings"},
                                 {"bert.embeddings.LayerNorm", "transformer.layer_norm_emb"},
                                 {"bert.encoder.layer.#.attention.self.query", "transformer.attentions.#.q_lin"},
                                 {"bert.encoder.layer.#.attention.self.key", "transformer.attentions.#.k_lin"},
                                 {"bert.encoder.layer.#.attention.self.value", "transformer.attentions.#.v_lin"},
                                 {"bert.encoder.layer.#.attention.output.dense", "transformer.attentions.#.out_lin"},
                                 {"bert.encoder.layer.#.attention.output.LayerNorm", "transformer.layer_norm1.#"},
                                 {"bert.encoder.layer.#.intermediate.dense", "transformer.ffns.#.lin1"},
                                 {"bert.encoder.layer.#.output.dense", "transformer.ffns.#.lin2"},
                                 {"bert.encoder.layer.#.output.LayerNorm", "transformer.layer_norm2.#"},
                                 {"cls.predictions.bias", "pred_layer.proj.bias"}},
                                {"pred_layer.proj.weight", "transformer.position_ids"});
  return table;
}

HfTensorTable bert_generation() {
  return renamed(bert_table(), {"bert-generation"}, "bert.", {{"cls.predictions.bias", "lm_head.bias"}},
                 {"lm_head.decoder.weight", "lm_head.decoder.bias", "bert.embeddings.position_ids"});
}

// Beside the text: what sees images.
HfTensorTable git() {
  HfTensorTable table =
      renamed(bert_table(), {"git"}, "git.", {{"bert.", "git."}, {"cls.predictions.bias", "output.bias"}},
              {"output.weight", "git.image_encoder.*", "git.visual_projection.*", "git.img_temporal_embedding.*",
               "git.embeddings.position_ids"});
  table.rows.push_back({"head.weight", "output.weight", "vocab embed"});
  return table;
}

// Projections of distances, and the table of these.
void add_distances(HfTensorTable& table, const std::string& key, const std::string& query) {
  const std::string self = "deberta.encoder.layer.#.attention.self.";
  const std::vector<HfTensorRow> rows = {
      {"blk.relative", "deberta.encoder.rel_embeddings.weight", "distances embed"},
      {"blk#.attn.pos_k.weight", self + key + ".weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.pos_k.bias", self + key + ".bias", "(kv_heads head_dim)"},
      {"blk#.attn.pos_q.weight", self + query + ".weight", "(kv_heads group head_dim) embed"},
      {"blk#.attn.pos_q.bias", self + query + ".bias", "(kv_heads group head_dim)"}};
  table.rows.insert(table.rows.end(), rows.begin(), rows.end());
}

const std::vector<std::string>& beside_deberta() {
  static const std::vector<std::string> names = {"cls.predictions.decoder.weight",
                                                 "cls.predictions.decoder.bias",
                                                 "deberta.embeddings.position_ids",
                                                 "lm_predictions.*",
                                                 "mask_predictions.*",
                                                 "pooler.*"};
  return names;
}

HfTensorTable deberta_v2() {
  HfTensorTable table = renamed(bert_table(), {"deberta-v2"}, "deberta.",
                                {{"bert.", "deberta."},
                                 {"attention.self.query", "attention.self.query_proj"},
                                 {"attention.self.key", "attention.self.key_proj"},
                                 {"attention.self.value", "attention.self.value_proj"}},
                                beside_deberta());
  add_distances(table, "pos_key_proj", "pos_query_proj");
  const std::string conv = "deberta.encoder.conv.";
  const std::vector<HfTensorRow> rows = {{"blk.relative_norm.gamma", "deberta.encoder.LayerNorm.weight", "embed"},
                                         {"blk.relative_norm.beta", "deberta.encoder.LayerNorm.bias", "embed"},
                                         {"conv.weight", conv + "conv.weight", "conv_embed (kh embed) kw"},
                                         {"conv.bias", conv + "conv.bias", "conv_embed"},
                                         {"conv.norm.gamma", conv + "LayerNorm.weight", "embed"},
                                         {"conv.norm.beta", conv + "LayerNorm.bias", "embed"}};
  table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  return table;
}

// Each head's query, key and value are one.
HfTensorTable deberta() {
  HfTensorTable table = renamed(bert_table(), {"deberta"}, "deberta.", {{"bert.", "deberta."}}, beside_deberta());
  const std::string self = "deberta.encoder.layer.#.attention.self.", joint = self + "in_proj.weight";
  const std::vector<HfTensorRow> rows = {{"blk#.attn.q.weight", joint, "(kv_heads group *head_dim) embed"},
                                         {"blk#.attn.k.weight", joint, "(kv_heads *head_dim) embed"},
                                         {"blk#.attn.v.weight", joint, "(kv_heads *head_dim) embed"},
                                         {"blk#.attn.q.bias", self + "q_bias", "(kv_heads group head_dim)"},
                                         {"blk#.attn.v.bias", self + "v_bias", "(kv_heads head_dim)"}};
  table.rows.insert(table.rows.begin(), rows.begin(), rows.end());
  add_distances(table, "pos_proj", "pos_q_proj");
  return table;
}

// The narrow layers but the last are in a list; what stands for norms has a weight and a bias.
HfTensorTable mobilebert() {
  const std::string embeddings = "mobilebert.embeddings.", layer = "mobilebert.encoder.layer.#.",
                    transform = "cls.predictions.transform.";
  HfTensorTable table{
      {"mobilebert"},
      "mobilebert.",
      {{"wte", embeddings + "word_embeddings.weight", "vocab word_embed"},
       {"wpe", embeddings + "position_embeddings.weight", "position embed"},
       {"embed.types.weight", embeddings + "token_type_embeddings.weight", "token_type embed"},
       {"blk#.attn.q.weight", layer + "attention.self.query.weight", "(kv_heads group head_dim) narrow"},
       {"blk#.attn.q.bias", layer + "attention.self.query.bias", "(kv_heads group head_dim)"},
       {"blk#.attn.k.weight", layer + "attention.self.key.weight", "(kv_heads head_dim) narrow"},
       {"blk#.attn.k.bias", layer + "attention.self.key.bias", "(kv_heads head_dim)"},
       {"blk#.attn.v.weight", layer + "attention.self.value.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.v.bias", layer + "attention.self.value.bias", "(kv_heads head_dim)"},
       {"blk#.attn.out.weight", layer + "attention.output.dense.weight", "narrow (kv_heads group head_dim)"},
       {"blk#.attn.out.bias", layer + "attention.output.dense.bias", "narrow"},
       {"head.norm.gamma", transform + "LayerNorm.weight", "embed"},
       {"head.norm.beta", transform + "LayerNorm.bias", "embed"},
       {"head.rest.weight", "cls.predictions.dense.weight", "head_embed vocab"},
       {"head.bias", "cls.predictions.bias", "vocab"}},
      {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.seq_relationship.*",
       "mobilebert.pooler.*", "mobilebert.embeddings.position_ids"}};
  const auto dense = [&](const std::string& ours, const std::string& theirs, const char* layout) {
    table.rows.push_back({ours + ".weight", theirs + ".weight", layout});
    table.rows.push_back({ours + ".bias", theirs + ".bias", "@0"});
  };
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    table.rows.push_back({ours + ".gamma", theirs + ".weight", "@0"});
    table.rows.push_back({ours + ".beta", theirs + ".bias", "@0"});
  };
  dense("embed.in", embeddings + "embedding_transformation", "embed trigram");
  norm("embed.norm", embeddings + "LayerNorm");
  dense("head.transform", transform + "dense", "transform embed");
  for (const auto& [ours, theirs] : {std::pair(std::string("blk#.in"), layer + "bottleneck.input"),
                                     {"blk#.shared", layer + "bottleneck.attention"}}) {
    dense(ours, theirs + ".dense", "narrow embed");
    norm(ours + ".norm", theirs + ".LayerNorm");
  }
  norm("blk#.attn.norm", layer + "attention.output.LayerNorm");
  const auto narrow = [&](const std::string& ours, const std::string& theirs) {
    dense(ours + ".up", theirs + "intermediate.dense", "mlp narrow");
    dense(ours + ".down", theirs + "output.dense", "narrow mlp");
    norm(ours + ".norm", theirs + "output.LayerNorm");
  };
  narrow("blk#.mlp", layer);
  for (std::int64_t i = 0; i + 1 < kMaxNarrowLayers; ++i)
    narrow(fmt::format("blk#.ffn{}", i), fmt::format("{}ffn.{}.", layer, i));
  dense("blk#.out", layer + "output.bottleneck.dense", "embed narrow");
  norm("blk#.out.norm", layer + "output.bottleneck.LayerNorm");
  return table;
}

HfTensorTable fnet() {
  HfTensorTable table = renamed(
      bert_table(), {"fnet"}, "fnet.", {{"bert.", "fnet."}, {"attention.output.LayerNorm", "fourier.output.LayerNorm"}},
      {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.seq_relationship.*", "fnet.pooler.*",
       "fnet.embeddings.position_ids", "fnet.embeddings.token_type_ids"});
  table.rows.push_back({"embed.in.weight", "fnet.embeddings.projection.weight", "projected embed"});
  table.rows.push_back({"embed.in.bias", "fnet.embeddings.projection.bias", "projected"});
  return table;
}

// BART with Longformer's attention in its encoder.
HfTensorTable led() {
  const std::string inner = "encoder.layers.#.self_attn.longformer_self_attn.";
  HfTensorTable table = renamed(
      hf::bart_table(), {"led"}, "led.",
      {{"model.", "led."},
       {"encoder.layers.#.self_attn.q_proj", inner + "query"},
       {"encoder.layers.#.self_attn.k_proj", inner + "key"},
       {"encoder.layers.#.self_attn.v_proj", inner + "value"},
       {"encoder.layers.#.self_attn.out_proj", "encoder.layers.#.self_attn.output"}},
      {"led.encoder.embed_tokens.weight", "led.decoder.embed_tokens.weight", "lm_head.weight", "final_logits_bias"});
  for (const auto& [ours, theirs] : {std::pair("q", "query"), {"k", "key"}, {"v", "value"}}) {
    const std::string name = fmt::format("enc#.attn.unused.{}.", ours),
                      tensor = fmt::format("led.{}{}_global.", inner, theirs);
    const char* heads = *ours == 'q' ? "(kv_heads group head_dim)" : "(kv_heads head_dim)";
    table.rows.push_back({name + "weight.fixed.gamma", tensor + "weight", fmt::format("{} embed", heads)});
    table.rows.push_back({name + "bias.fixed.gamma", tensor + "bias", heads});
  }
  return table;
}

// GPT-2's blocks with linear layers; the head has a bias.
HfTensorTable ctrl() {
  const std::string block = "transformer.h.#.", attention = block + "multi_head_attention.";
  HfTensorTable table{{"ctrl"},
                      "transformer.",
                      {{"wte", "transformer.w.weight", "vocab embed"},
                       {"blk#.attn.q.weight", attention + "Wq.weight", "(kv_heads group head_dim) embed"},
                       {"blk#.attn.q.bias", attention + "Wq.bias", "(kv_heads group head_dim)"},
                       {"blk#.attn.k.weight", attention + "Wk.weight", "(kv_heads head_dim) embed"},
                       {"blk#.attn.k.bias", attention + "Wk.bias", "(kv_heads head_dim)"},
                       {"blk#.attn.v.weight", attention + "Wv.weight", "(kv_heads head_dim) embed"},
                       {"blk#.attn.v.bias", attention + "Wv.bias", "(kv_heads head_dim)"},
                       {"blk#.attn.out.weight", attention + "dense.weight", "embed (kv_heads group head_dim)"},
                       {"blk#.attn.out.bias", attention + "dense.bias", "embed"},
                       {"blk#.mlp.up.weight", block + "ffn.0.weight", "mlp embed"},
                       {"blk#.mlp.up.bias", block + "ffn.0.bias", "mlp"},
                       {"blk#.mlp.down.weight", block + "ffn.2.weight", "embed mlp"},
                       {"blk#.mlp.down.bias", block + "ffn.2.bias", "embed"},
                       {"head.bias", "lm_head.bias", "vocab"}},
                      {"lm_head.weight"}};
  for (const auto& [ours, theirs] : {std::pair(std::string("blk#.ln1"), block + "layernorm1"),
                                     {"blk#.ln2", block + "layernorm2"},
                                     {"blk.final_norm", "transformer.layernorm"}}) {
    table.rows.push_back({ours + ".gamma", theirs + ".weight", "embed"});
    table.rows.push_back({ours + ".beta", theirs + ".bias", "embed"});
  }
  return table;
}

}  // namespace

std::vector<HfTensorTable> hf_bert_like_tables() {
  return {xlm(), bert_generation(), git(), deberta(), deberta_v2(), mobilebert(), fnet(), led(), ctrl()};
}

}  // namespace meshwright
