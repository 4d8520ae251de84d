// SPDX-License-Identifier: Apache-2.0
// What encoders of masked words call their tensors, and how they lay them out. Linear layers are (out, in).
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/graph/import/hf/tensors/hf_tensor_rows.h"

namespace meshwright {

namespace {

using hf::renamed;
using Rows = std::vector<HfTensorRow>;

HfTensorTable bert() {
  return {
      {"bert"},
      "bert.",
      {{"wte", "bert.embeddings.word_embeddings.weight", "vocab embed"},
       {"wpe", "bert.embeddings.position_embeddings.weight", "position embed"},
       {"embed.types.weight", "bert.embeddings.token_type_embeddings.weight", "token_type embed"},
       {"embed.norm.gamma", "bert.embeddings.LayerNorm.weight", "embed"},
       {"embed.norm.beta", "bert.embeddings.LayerNorm.bias", "embed"},
       {"blk#.attn.q.weight", "bert.encoder.layer.#.attention.self.query.weight", "(kv_heads group head_dim) embed"},
       {"blk#.attn.k.weight", "bert.encoder.layer.#.attention.self.key.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.v.weight", "bert.encoder.layer.#.attention.self.value.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.q.bias", "bert.encoder.layer.#.attention.self.query.bias", "(kv_heads group head_dim)"},
       {"blk#.attn.k.bias", "bert.encoder.layer.#.attention.self.key.bias", "(kv_heads head_dim)"},
       {"blk#.attn.v.bias", "bert.encoder.layer.#.attention.self.value.bias", "(kv_heads head_dim)"},
       {"blk#.attn.out.weight", "bert.encoder.layer.#.attention.output.dense.weight",
        "embed (kv_heads group head_dim)"},
       {"blk#.attn.out.bias", "bert.encoder.layer.#.attention.output.dense.bias", "embed"},
       {"blk#.ln1.gamma", "bert.encoder.layer.#.attention.output.LayerNorm.weight", "embed"},
       {"blk#.ln1.beta", "bert.encoder.layer.#.attention.output.LayerNorm.bias", "embed"},
       {"blk#.mlp.up.weight", "bert.encoder.layer.#.intermediate.dense.weight", "mlp embed"},
       {"blk#.mlp.up.bias", "bert.encoder.layer.#.intermediate.dense.bias", "mlp"},
       {"blk#.mlp.down.weight", "bert.encoder.layer.#.output.dense.weight", "embed mlp"},
       {"blk#.mlp.down.bias", "bert.encoder.layer.#.output.dense.bias", "embed"},
       {"blk#.ln2.gamma", "bert.encoder.layer.#.output.LayerNorm.weight", "embed"},
       {"blk#.ln2.beta", "bert.encoder.layer.#.output.LayerNorm.bias", "embed"},
       {"head.transform.weight", "cls.predictions.transform.dense.weight", "transform embed"},
       {"head.transform.bias", "cls.predictions.transform.dense.bias", "transform"},
       {"head.norm.gamma", "cls.predictions.transform.LayerNorm.weight", "embed"},
       {"head.norm.beta", "cls.predictions.transform.LayerNorm.bias", "embed"},
       {"head.bias", "cls.predictions.bias", "vocab"}},
      {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.seq_relationship.*", "bert.pooler.*",
       "bert.embeddings.position_ids"}};
}

HfTensorTable big_bird() { return renamed(bert(), {"big_bird"}, "bert.", {}, bert().left_out); }

HfTensorTable roberta() {
  return renamed(
      bert(), {"roberta", "camembert", "xlm-roberta"}, "roberta.",
      {{"bert.", "roberta."},
       {"cls.predictions.transform.dense.", "lm_head.dense."},
       {"cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."},
       {"cls.predictions.bias", "lm_head.bias"}},
      {"lm_head.decoder.weight", "lm_head.decoder.bias", "roberta.pooler.*", "roberta.embeddings.position_ids"});
}

HfTensorTable ernie() {
  return renamed(bert(), {"ernie"}, "ernie.", {{"bert.", "ernie."}},
                 {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.seq_relationship.*",
                  "ernie.pooler.*", "ernie.embeddings.position_ids"});
}

// Norms in front of what they are for.
HfTensorTable with_final_norm(HfTensorTable table, const std::string& theirs) {
  table.rows.push_back({"blk.final_norm.gamma", theirs + ".weight", "embed"});
  table.rows.push_back({"blk.final_norm.beta", theirs + ".bias", "embed"});
  return table;
}

HfTensorTable megatron_bert() {
  return with_final_norm(
      renamed(bert(), {"megatron-bert"}, "bert.",
              {{"attention.output.LayerNorm", "attention.ln"}, {"#.output.LayerNorm", "#.ln"}}, bert().left_out),
      "bert.encoder.ln");
}

HfTensorTable roberta_norm_first() {
  return with_final_norm(renamed(roberta(), {"roberta-prelayernorm"}, "roberta_prelayernorm.",
                                 {{"attention.output.LayerNorm", "attention.LayerNorm"},
                                  {"#.output.LayerNorm", "#.intermediate.LayerNorm"},
                                  {"roberta.", "roberta_prelayernorm."}},
                                 {"lm_head.decoder.weight", "lm_head.decoder.bias", "roberta_prelayernorm.pooler.*",
                                  "roberta_prelayernorm.embeddings.position_ids"}),
                         "roberta_prelayernorm.LayerNorm");
}

HfTensorTable xlm_roberta_xl() {
  return with_final_norm(
      renamed(roberta(), {"xlm-roberta-xl"}, "roberta.",
              {{"attention.output.LayerNorm", "attention.self_attn_layer_norm"}, {"#.output.LayerNorm", "#.LayerNorm"}},
              roberta().left_out),
      "roberta.encoder.LayerNorm");
}

HfTensorTable data2vec_text() {
  return renamed(roberta(), {"data2vec-text"}, "data2vec_text.", {{"roberta.", "data2vec_text."}},
                 {"lm_head.decoder.weight", "lm_head.decoder.bias", "data2vec_text.pooler.*",
                  "data2vec_text.embeddings.position_ids"});
}

HfTensorTable distilbert() {
  return renamed(bert(), {"distilbert"}, "distilbert.",
                 {{"bert.encoder.layer.", "distilbert.transformer.layer."},
                  {"attention.self.query", "attention.q_lin"},
                  {"attention.self.key", "attention.k_lin"},
                  {"attention.self.value", "attention.v_lin"},
                  {"attention.output.dense", "attention.out_lin"},
                  {"attention.output.LayerNorm", "sa_layer_norm"},
                  {"intermediate.dense", "ffn.lin1"},
                  {"output.dense", "ffn.lin2"},
                  {"output.LayerNorm", "output_layer_norm"},
                  {"cls.predictions.transform.dense.", "vocab_transform."},
                  {"cls.predictions.transform.LayerNorm.", "vocab_layer_norm."},
                  {"cls.predictions.bias", "vocab_projector.bias"},
                  {"bert.embeddings.", "distilbert.embeddings."}},
                 {"vocab_projector.weight", "distilbert.embeddings.position_ids"});
}

// Rows in front of a table's own.
HfTensorTable with_first(Rows first, HfTensorTable table) {
  table.rows.insert(table.rows.begin(), first.begin(), first.end());
  return table;
}

// What is as wide as the embeddings comes first.
Rows narrow_rows() {
  return {{"wte", "bert.embeddings.word_embeddings.weight", "vocab word_embed"},
          {"wpe", "bert.embeddings.position_embeddings.weight", "position word_embed"},
          {"embed.types.weight", "bert.embeddings.token_type_embeddings.weight", "token_type word_embed"},
          {"embed.norm.gamma", "bert.embeddings.LayerNorm.weight", "word_embed"},
          {"embed.norm.beta", "bert.embeddings.LayerNorm.bias", "word_embed"},
          {"embed.in.weight", "bert.embeddings_project.weight", "embed word_embed"},
          {"embed.in.bias", "bert.embeddings_project.bias", "embed"},
          {"head.norm.gamma", "cls.predictions.transform.LayerNorm.weight", "word_embed"},
          {"head.norm.beta", "cls.predictions.transform.LayerNorm.bias", "word_embed"}};
}

HfTensorTable electra() {
  return renamed(with_first(narrow_rows(), bert()), {"electra"}, "electra.",
                 {{"bert.", "electra."},
                  {"cls.predictions.transform.dense.", "generator_predictions.dense."},
                  {"cls.predictions.transform.LayerNorm.", "generator_predictions.LayerNorm."},
                  {"cls.predictions.bias", "generator_lm_head.bias"}},
                 {"generator_lm_head.weight", "electra.embeddings.position_ids", "discriminator_predictions.*"});
}

// Layers of a group are one.
HfTensorTable albert() {
  HfTensorTable table = renamed(with_first(narrow_rows(), bert()), {"albert"}, "albert.",
                                {{"bert.encoder.layer.#.", "albert.encoder.albert_layer_groups.#.albert_layers.0."},
                                 {"bert.embeddings_project.", "albert.encoder.embedding_hidden_mapping_in."},
                                 {"bert.embeddings.", "albert.embeddings."},
                                 {"attention.self.", "attention."},
                                 {"attention.output.", "attention."},
                                 {"albert_layers.0.intermediate.dense", "albert_layers.0.ffn"},
                                 {"albert_layers.0.output.dense", "albert_layers.0.ffn_output"},
                                 {"albert_layers.0.output.LayerNorm", "albert_layers.0.full_layer_layer_norm"},
                                 {"cls.predictions.transform.", "predictions."},
                                 {"cls.predictions.bias", "predictions.bias"}},
                                {"predictions.decoder.weight", "predictions.decoder.bias", "sop_classifier.*",
                                 "albert.pooler.*", "albert.pooler_activation.*", "albert.embeddings.position_ids"});
  constexpr std::string_view kBlock = "blk#.";
  for (HfTensorRow& row : table.rows)
    if (row.ours.starts_with(kBlock)) row.ours.replace(0, kBlock.size(), "group#.");
  return table;
}

// Queries, keys and values are one, and so are gates and ups.
HfTensorTable modernbert() {
  return {{"modernbert"},
          "model.",
          {{"wte", "model.embeddings.tok_embeddings.weight", "vocab embed"},
           {"embed.norm.gamma", "model.embeddings.norm.weight", "embed"},
           {"embed.norm.beta", "model.embeddings.norm.bias", "embed"},
           {"blk#.ln1.gamma", "model.layers.#.attn_norm.weight", "embed"},
           {"blk#.ln1.beta", "model.layers.#.attn_norm.bias", "embed"},
           {"blk#.attn.q.weight", "model.layers.#.attn.Wqkv.weight", "*(kv_heads group head_dim) embed"},
           {"blk#.attn.k.weight", "model.layers.#.attn.Wqkv.weight", "*(kv_heads head_dim) embed"},
           {"blk#.attn.v.weight", "model.layers.#.attn.Wqkv.weight", "*(kv_heads head_dim) embed"},
           {"blk#.attn.q.bias", "model.layers.#.attn.Wqkv.bias", "*(kv_heads group head_dim)"},
           {"blk#.attn.k.bias", "model.layers.#.attn.Wqkv.bias", "*(kv_heads head_dim)"},
           {"blk#.attn.v.bias", "model.layers.#.attn.Wqkv.bias", "*(kv_heads head_dim)"},
           {"blk#.attn.out.weight", "model.layers.#.attn.Wo.weight", "embed (kv_heads group head_dim)"},
           {"blk#.attn.out.bias", "model.layers.#.attn.Wo.bias", "embed"},
           {"blk#.ln2.gamma", "model.layers.#.mlp_norm.weight", "embed"},
           {"blk#.ln2.beta", "model.layers.#.mlp_norm.bias", "embed"},
           {"blk#.mlp.gate.weight", "model.layers.#.mlp.Wi.weight", "*mlp embed"},
           {"blk#.mlp.up.weight", "model.layers.#.mlp.Wi.weight", "*mlp embed"},
           {"blk#.mlp.gate.bias", "model.layers.#.mlp.Wi.bias", "*mlp"},
           {"blk#.mlp.up.bias", "model.layers.#.mlp.Wi.bias", "*mlp"},
           {"blk#.mlp.down.weight", "model.layers.#.mlp.Wo.weight", "embed mlp"},
           {"blk#.mlp.down.bias", "model.layers.#.mlp.Wo.bias", "embed"},
           {"blk.final_norm.gamma", "model.final_norm.weight", "embed"},
           {"blk.final_norm.beta", "model.final_norm.bias", "embed"},
           {"head.transform.weight", "head.dense.weight", "transform embed"},
           {"head.transform.bias", "head.dense.bias", "transform"},
           {"head.norm.gamma", "head.norm.weight", "embed"},
           {"head.norm.beta", "head.norm.bias", "embed"},
           {"head.weight", "decoder.weight", "vocab embed"},
           {"head.bias", "decoder.bias", "vocab"}},
          {"decoder.weight"}};
}

// The same with projections apart, under another name of the head.
HfTensorTable modernbert_decoder() {
  HfTensorTable table =
      renamed(modernbert(), {"modernbert-decoder"}, "model.", {{"head.", "lm_head."}}, {"decoder.weight"});
  constexpr std::string_view kJoined = "Wqkv.";
  for (HfTensorRow& row : table.rows)
    if (const std::size_t at = row.theirs.find(kJoined); at != std::string::npos) {
      const char which = row.ours[std::string_view("blk#.attn.").size()];
      row.theirs.replace(at, kJoined.size(), fmt::format("{}_proj.", which));
      row.layout.erase(row.layout.find('*'), 1);
    }
  return table;
}

// One table of biases by distance for all layers.
HfTensorTable mpnet() {
  HfTensorTable table =
      renamed(roberta(), {"mpnet"}, "mpnet.",
              {{"attention.self.query", "attention.attn.q"},
               {"attention.self.key", "attention.attn.k"},
               {"attention.self.value", "attention.attn.v"},
               {"attention.output.dense", "attention.attn.o"},
               {"attention.output.LayerNorm", "attention.LayerNorm"},
               {"roberta.", "mpnet."}},
              {"lm_head.decoder.weight", "lm_head.decoder.bias", "mpnet.pooler.*", "mpnet.embeddings.position_ids"});
  table.rows.push_back(
      {"blk.relative_bias", "mpnet.encoder.relative_attention_bias.weight", "bucket (kv_heads group)"});
  return table;
}

// Norms in front; what predicts which parts of a protein touch is no part of the loss.
HfTensorTable esm() {
  return with_final_norm(renamed(roberta(), {"esm"}, "esm.",
                                 {{"attention.output.LayerNorm", "attention.LayerNorm"},
                                  {"#.output.LayerNorm", "#.LayerNorm"},
                                  {"embeddings.LayerNorm", "embeddings.layer_norm"},
                                  {"roberta.", "esm."}},
                                 {"lm_head.decoder.weight", "esm.pooler.*", "esm.contact_head.*",
                                  "esm.embeddings.position_ids", "esm.embeddings.position_embeddings.weight",
                                  "esm.encoder.layer.#.attention.self.rotary_embeddings.inv_freq"}),
                         "esm.encoder.emb_layer_norm_after");
}

HfTensorTable nomic_bert() {
  const std::string layer = "nomic_bert.encoder.layers.#.", joint = layer + "attn.Wqkv.weight",
                    transform = "cls.predictions.transform.";
  return {{"nomic_bert"},
          "nomic_bert.",
          {{"wte", "nomic_bert.embeddings.word_embeddings.weight", "vocab embed"},
           {"embed.types.weight", "nomic_bert.embeddings.token_type_embeddings.weight", "token_type embed"},
           {"embed.norm.gamma", "nomic_bert.emb_ln.weight", "embed"},
           {"embed.norm.beta", "nomic_bert.emb_ln.bias", "embed"},
           {"blk#.attn.q.weight", joint, "*(kv_heads group head_dim) embed"},
           {"blk#.attn.k.weight", joint, "*(kv_heads head_dim) embed"},
           {"blk#.attn.v.weight", joint, "*(kv_heads head_dim) embed"},
           {"blk#.attn.out.weight", layer + "attn.out_proj.weight", "embed (kv_heads group head_dim)"},
           {"blk#.ln1.gamma", layer + "norm1.weight", "embed"},
           {"blk#.ln1.beta", layer + "norm1.bias", "embed"},
           {"blk#.mlp.gate.weight", layer + "mlp.fc12.weight", "mlp embed"},
           {"blk#.mlp.up.weight", layer + "mlp.fc11.weight", "mlp embed"},
           {"blk#.mlp.down.weight", layer + "mlp.fc2.weight", "embed mlp"},
           {"blk#.ln2.gamma", layer + "norm2.weight", "embed"},
           {"blk#.ln2.beta", layer + "norm2.bias", "embed"},
           {"head.transform.weight", transform + "dense.weight", "transform embed"},
           {"head.transform.bias", transform + "dense.bias", "transform"},
           {"head.norm.gamma", transform + "layer_norm.weight", "embed"},
           {"head.norm.beta", transform + "layer_norm.bias", "embed"},
           {"head.bias", "cls.predictions.bias", "vocab"}},
          {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "nomic_bert.pooler.*"}};
}

// Queries, keys and values are one matrix.
HfTensorTable with_joined_heads(HfTensorTable table, const std::string& joint) {
  for (HfTensorRow& row : table.rows)
    for (const char* which : {"q", "k", "v"})
      if (const std::string ours = fmt::format("blk#.attn.{}.", which); row.ours.starts_with(ours)) {
        row.theirs = joint + row.ours.substr(ours.size());
        row.layout.insert(row.layout.find('('), "*");
      }
  return table;
}

// Rotated heads in place of a table of positions.
HfTensorTable jina_embeddings_v3() {
  return with_joined_heads(renamed(roberta(), {"jina_embeddings_v3"}, "roberta.",
                                   {{"encoder.layer.", "encoder.layers."},
                                    {"embeddings.LayerNorm", "emb_ln"},
                                    {"attention.output.dense", "mixer.out_proj"},
                                    {"attention.output.LayerNorm", "norm1"},
                                    {"intermediate.dense", "mlp.fc1"},
                                    {"output.dense", "mlp.fc2"},
                                    {"output.LayerNorm", "norm2"}},
                                   {"lm_head.decoder.weight", "lm_head.decoder.bias", "roberta.pooler.*"}),
                           "roberta.encoder.layers.#.mixer.Wqkv.");
}

// Ups come before gates, which have no biases.
HfTensorTable gte() {
  HfTensorTable table = with_joined_heads(renamed(roberta(), {"gte"}, "gte.",
                                                  {{"roberta.", "gte."},
                                                   {"attention.output.dense", "attention.o_proj"},
                                                   {"attention.output.LayerNorm", "attn_ln"},
                                                   {"intermediate.dense", "mlp.up_gate_proj"},
                                                   {"output.dense", "mlp.down_proj"},
                                                   {"output.LayerNorm", "mlp_ln"},
                                                   {"lm_head.layer_norm", "lm_head.norm"},
                                                   {"lm_head.bias", "lm_head.decoder.bias"}},
                                                  {"lm_head.decoder.weight", "gte.pooler.*"}),
                                          "gte.encoder.layer.#.attention.qkv_proj.");
  const std::string joint = "gte.encoder.layer.#.mlp.up_gate_proj.weight";
  return with_first({{"blk#.mlp.up.weight", joint, "*mlp embed"}, {"blk#.mlp.gate.weight", joint, "*mlp embed"}},
                    table);
}

// Pairs of neighbours are rotated.
HfTensorTable roformer() {
  HfTensorTable table =
      renamed(bert(), {"roformer"}, "roformer.", {{"bert.", "roformer."}},
              {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "roformer.encoder.embed_positions.*"});
  constexpr std::string_view kHead = "head_dim)";
  for (HfTensorRow& row : table.rows)
    if (row.ours.starts_with("blk#.attn.q.") || row.ours.starts_with("blk#.attn.k."))
      row.layout.replace(row.layout.find(kHead), kHead.size(), "~head_dim)");
  return table;
}

HfTensorTable rembert() {
  HfTensorTable table = renamed(with_first(narrow_rows(), bert()), {"rembert"}, "rembert.",
                                {{"bert.embeddings_project.", "bert.encoder.embedding_hidden_mapping_in."},
                                 {"bert.", "rembert."},
                                 {"cls.predictions.transform.", "cls.predictions."},
                                 {"cls.predictions.bias", "cls.predictions.decoder.bias"}},
                                {"rembert.pooler.*", "rembert.embeddings.position_ids"});
  const Rows head = {{"head.norm.gamma", "cls.predictions.LayerNorm.weight", "head_embed"},
                     {"head.norm.beta", "cls.predictions.LayerNorm.bias", "head_embed"},
                     {"head.weight", "cls.predictions.decoder.weight", "vocab head_embed"}};
  return with_first(head, table);
}

// Queries, keys and values of tokens that see all others, of which there are none.
HfTensorTable longformer() {
  HfTensorTable table = renamed(
      roberta(), {"longformer"}, "longformer.", {{"roberta.", "longformer."}},
      {"lm_head.decoder.weight", "lm_head.decoder.bias", "longformer.pooler.*", "longformer.embeddings.position_ids"});
  for (const auto& [ours, theirs] : {std::pair("q", "query"), {"k", "key"}, {"v", "value"}}) {
    const std::string name = fmt::format("blk#.attn.unused.{}.", ours),
                      tensor = fmt::format("longformer.encoder.layer.#.attention.self.{}_global.", theirs);
    const char* heads = *ours == 'q' ? "(kv_heads group head_dim)" : "(kv_heads head_dim)";
    table.rows.push_back({name + "weight.fixed.gamma", tensor + "weight", fmt::format("{} embed", heads)});
    table.rows.push_back({name + "bias.fixed.gamma", tensor + "bias", heads});
  }
  return table;
}

HfTensorTable ibert() {
  return renamed(
      roberta(), {"ibert"}, "ibert.", {{"roberta.", "ibert."}},
      {"lm_head.decoder.weight", "lm_head.decoder.bias", "ibert.pooler.*", "ibert.embeddings.position_ids", "ibert.*"});
}

HfTensorTable layoutlm() {
  HfTensorTable table = renamed(bert(), {"layoutlm"}, "layoutlm.", {{"bert.", "layoutlm."}},
                                {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "layoutlm.pooler.*",
                                 "layoutlm.embeddings.position_ids"});
  for (const char* which : {"x", "y", "h", "w"})
    table.rows.push_back({fmt::format("embed.{}.weight", which),
                          fmt::format("layoutlm.embeddings.{}_position_embeddings.weight", which), "place embed"});
  return table;
}

// A stack of BART's: its rows and those of its norms, and of the cross attention that the decoder has.
void add_stack(Rows& rows, const std::string& ours, const std::string& theirs, const std::string& embed) {
  const std::string table = embed == "embed" ? "wpe" : embed + ".wpe", stack = "model." + theirs;
  const auto put = [&](const std::string& name, const std::string& tensor, const char* layout) {
    rows.push_back({name, stack + tensor, layout});
  };
  const auto norm = [&](const std::string& name, const std::string& tensor) {
    put(name + ".gamma", tensor + ".weight", "embed");
    put(name + ".beta", tensor + ".bias", "embed");
  };
  put(table, ".embed_positions.weight", "position embed");
  norm(embed + ".norm", ".layernorm_embedding");
  norm(ours + ".final_norm", ".layer_norm");
  const std::string block = ours + "#.", layer = ".layers.#.";
  const auto attention = [&](const std::string& name, const std::string& tensor) {
    put(block + name + ".q.weight", layer + tensor + ".q_proj.weight", "(kv_heads group head_dim) embed");
    put(block + name + ".q.bias", layer + tensor + ".q_proj.bias", "(kv_heads group head_dim)");
    for (const std::string which : {"k", "v"}) {
      put(block + name + "." + which + ".weight", layer + tensor + "." + which + "_proj.weight",
          "(kv_heads head_dim) embed");
      put(block + name + "." + which + ".bias", layer + tensor + "." + which + "_proj.bias", "(kv_heads head_dim)");
    }
    put(block + name + ".out.weight", layer + tensor + ".out_proj.weight", "embed (kv_heads group head_dim)");
    put(block + name + ".out.bias", layer + tensor + ".out_proj.bias", "embed");
  };
  attention("attn", "self_attn");
  norm(block + "ln1", layer + "self_attn_layer_norm");
  if (ours == "dec") {
    attention("cross", "encoder_attn");
    norm(block + "ln_cross", layer + "encoder_attn_layer_norm");
  }
  put(block + "mlp.up.weight", layer + "fc1.weight", "mlp embed");
  put(block + "mlp.up.bias", layer + "fc1.bias", "mlp");
  put(block + "mlp.down.weight", layer + "fc2.weight", "embed mlp");
  put(block + "mlp.down.bias", layer + "fc2.bias", "embed");
  norm(block + "ln2", layer + "final_layer_norm");
}

// Files keep the word table under the names of its uses, and tables of sines, too.
HfTensorTable bart() {
  HfTensorTable table{
      {"bart", "mbart", "pegasus", "blenderbot", "blenderbot-small", "m2m_100", "plbart", "mvp"},
      "model.",
      {{"wte", "model.shared.weight", "vocab embed"}},
      {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "model.encoder.embed_positions.*",
       "model.decoder.embed_positions.*", "lm_head.weight", "final_logits_bias"}};
  add_stack(table.rows, "enc", "encoder", "embed");
  add_stack(table.rows, "dec", "decoder", "decoder.embed");
  return table;
}

// A word table for each of the two.
HfTensorTable fsmt() {
  HfTensorTable table = renamed(bart(), {"fsmt"}, "model.", {{"model.shared.", "model.decoder.embed_tokens."}},
                                {"model.encoder.embed_positions.*", "model.decoder.embed_positions.*"});
  table.rows.push_back({"enc.wte", "model.encoder.embed_tokens.weight", "encoder_vocab embed"});
  table.rows.push_back({"head.weight", "model.decoder.output_projection.weight", "vocab embed"});
  return table;
}

// Convolutions over time are (out, in, frames).
HfTensorTable whisper() {
  HfTensorTable table{{"whisper"},
                      "model.",
                      {{"wte", "model.decoder.embed_tokens.weight", "vocab embed"},
                       {"wpe", "model.decoder.embed_positions.weight", "position embed"},
                       {"enc.conv1.weight", "model.encoder.conv1.weight", "conv_embed (kh mel) kw"},
                       {"enc.conv1.bias", "model.encoder.conv1.bias", "conv_embed"},
                       {"enc.conv2.weight", "model.encoder.conv2.weight", "embed (kh conv_embed) kw"},
                       {"enc.conv2.bias", "model.encoder.conv2.bias", "embed"}},
                      {"model.encoder.embed_positions.weight", "proj_out.weight"}};
  add_stack(table.rows, "enc", "encoder", "embed");
  add_stack(table.rows, "dec", "decoder", "decoder.embed");
  return table;
}

}  // namespace

HfTensorTable hf::renamed(HfTensorTable table, std::vector<std::string> types, std::string prefix,
                          const std::vector<std::pair<std::string, std::string>>& names,
                          std::vector<std::string> left_out) {
  table.model_types = std::move(types);
  table.prefix = std::move(prefix);
  table.left_out = std::move(left_out);
  for (HfTensorRow& row : table.rows)
    for (const auto& [from, to] : names)
      if (const std::size_t at = row.theirs.find(from); at != std::string::npos)
        row.theirs.replace(at, from.size(), to);
  return table;
}

HfTensorTable hf::bert_table() { return bert(); }
HfTensorTable hf::bart_table() { return bart(); }

std::vector<HfTensorTable> hf_encoder_tables() {
  return {whisper(),
          bart(),
          fsmt(),
          bert(),
          big_bird(),
          ernie(),
          megatron_bert(),
          roberta_norm_first(),
          xlm_roberta_xl(),
          roberta(),
          data2vec_text(),
          distilbert(),
          electra(),
          albert(),
          modernbert(),
          modernbert_decoder(),
          mpnet(),
          esm(),
          nomic_bert(),
          jina_embeddings_v3(),
          gte(),
          roformer(),
          rembert(),
          longformer(),
          ibert(),
          layoutlm()};
}

}  // namespace meshwright
