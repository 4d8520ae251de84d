// SPDX-License-Identifier: Apache-2.0
// What models of images call their tensors, and how they lay them out: vision transformers, and torchvision's residual
// networks. Linear layers are (out, in).
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "core/graph/import/hf/tensors/hf_tensor_rows.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

using hf::renamed;

HfTensorTable vit() {
  return {
      {"vit"},
      "vit.",
      {{"class_token", "vit.embeddings.cls_token", "1 class_token embed"},
       {"wpe", "vit.embeddings.position_embeddings", "1 seq embed"},
       {"embed.weight", "vit.embeddings.patch_embeddings.projection.weight", "embed rgb kh kw"},
       {"embed.bias", "vit.embeddings.patch_embeddings.projection.bias", "embed"},
       {"blk#.ln1.gamma", "vit.encoder.layer.#.layernorm_before.weight", "embed"},
       {"blk#.ln1.beta", "vit.encoder.layer.#.layernorm_before.bias", "embed"},
       {"blk#.attn.q.weight", "vit.encoder.layer.#.attention.attention.query.weight",
        "(kv_heads group head_dim) embed"},
       {"blk#.attn.k.weight", "vit.encoder.layer.#.attention.attention.key.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.v.weight", "vit.encoder.layer.#.attention.attention.value.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.q.bias", "vit.encoder.layer.#.attention.attention.query.bias", "(kv_heads group head_dim)"},
       {"blk#.attn.k.bias", "vit.encoder.layer.#.attention.attention.key.bias", "(kv_heads head_dim)"},
       {"blk#.attn.v.bias", "vit.encoder.layer.#.attention.attention.value.bias", "(kv_heads head_dim)"},
       {"blk#.attn.out.weight", "vit.encoder.layer.#.attention.output.dense.weight", "embed (kv_heads group head_dim)"},
       {"blk#.attn.out.bias", "vit.encoder.layer.#.attention.output.dense.bias", "embed"},
       {"blk#.ln2.gamma", "vit.encoder.layer.#.layernorm_after.weight", "embed"},
       {"blk#.ln2.beta", "vit.encoder.layer.#.layernorm_after.bias", "embed"},
       {"blk#.mlp.up.weight", "vit.encoder.layer.#.intermediate.dense.weight", "mlp embed"},
       {"blk#.mlp.up.bias", "vit.encoder.layer.#.intermediate.dense.bias", "mlp"},
       {"blk#.mlp.down.weight", "vit.encoder.layer.#.output.dense.weight", "embed mlp"},
       {"blk#.mlp.down.bias", "vit.encoder.layer.#.output.dense.bias", "embed"},
       {"blk.final_norm.gamma", "vit.layernorm.weight", "embed"},
       {"blk.final_norm.beta", "vit.layernorm.bias", "embed"},
       {"head.logits.weight", "classifier.weight", "class embed"},
       {"head.logits.bias", "classifier.bias", "class"}},
      {"vit.pooler.*"}};
}

HfTensorTable deit() {
  HfTensorTable table = renamed(vit(), {"deit"}, "deit.", {{"vit.", "deit."}}, {"deit.pooler.*"});
  table.rows.push_back({"distillation_token", "deit.embeddings.distillation_token", "1 distillation_token embed"});
  return table;
}

HfTensorTable dinov2(const std::string& type, const std::string& name) {
  HfTensorTable table = renamed(vit(), {type}, name + ".",
                                {{"vit.", name + "."},
                                 {"layernorm_before", "norm1"},
                                 {"layernorm_after", "norm2"},
                                 {"#.intermediate.dense", "#.mlp.fc1"},
                                 {"#.output.dense", "#.mlp.fc2"}},
                                {});
  const std::string layer = name + ".encoder.layer.#.";
  table.rows.insert(table.rows.begin(), {"wpe", name + ".embeddings.position_embeddings", "1 placed embed"});
  const std::vector<HfTensorRow> own = {
      {"head.logits.weight", "classifier.weight", "class embed_pair"},
      {"mask_token.fixed.gamma", name + ".embeddings.mask_token", "class_token embed"},
      {"registers", name + ".embeddings.register_tokens", "1 register embed"},
      {"blk#.attn.layer_scale.gamma", layer + "layer_scale1.lambda1", "embed"},
      {"blk#.mlp.layer_scale.gamma", layer + "layer_scale2.lambda1", "embed"},
      {"blk#.mlp.gate.weight", layer + "mlp.weights_in.weight", "*mlp embed"},
      {"blk#.mlp.up.weight", layer + "mlp.weights_in.weight", "*mlp embed", "blk#.mlp.gate.weight"},
      {"blk#.mlp.gate.bias", layer + "mlp.weights_in.bias", "*mlp"},
      {"blk#.mlp.up.bias", layer + "mlp.weights_in.bias", "*mlp", "blk#.mlp.gate.weight"},
      {"blk#.mlp.down.weight", layer + "mlp.weights_out.weight", "embed mlp", "blk#.mlp.gate.weight"},
      {"blk#.mlp.down.bias", layer + "mlp.weights_out.bias", "embed", "blk#.mlp.gate.weight"}};
  table.rows.insert(table.rows.begin(), own.begin(), own.end());
  return table;
}

HfTensorTable ijepa() { return renamed(vit(), {"ijepa"}, "ijepa.", {{"vit.", "ijepa."}}, {"ijepa.pooler.*"}); }

// Biases by distance, of each layer or of all; the last norm may be that of the patches' mean.
HfTensorTable beit(const std::string& type, const std::string& name) {
  HfTensorTable table = renamed(vit(), {type}, name + ".", {{"vit.", name + "."}}, {});
  const std::string layer = name + ".encoder.layer.#.", bias = "relative_position_bias.relative_position_bias_table",
                    norm = name + ".pooler.layernorm.";
  const std::vector<HfTensorRow> own = {
      {"mask_token.fixed.gamma", name + ".embeddings.mask_token", "1 class_token embed"},
      {"blk#.attn.layer_scale.gamma", layer + "lambda_1", "embed"},
      {"blk#.mlp.layer_scale.gamma", layer + "lambda_2", "embed"},
      {"blk#.attn.relative_bias.weight", layer + "attention.attention." + bias, "distance kv_heads"},
      {"relative_bias.weight", name + ".encoder." + bias, "distance kv_heads"},
      {"head.norm.gamma", norm + "weight", "embed"},
      {"head.norm.beta", norm + "bias", "embed"}};
  table.rows.insert(table.rows.end(), own.begin(), own.end());
  table.left_out = {layer + "attention.attention.relative_position_bias.relative_position_index",
                    name + ".encoder.relative_position_bias.relative_position_index"};
  return table;
}

HfTensorTable convnext(const std::string& type) {
  const std::string head = type + ".";
  HfTensorTable table{{type},
                      head,
                      {{"stem.weight", head + "embeddings.patch_embeddings.weight", "@3 @2 @0 @1"},
                       {"stem.bias", head + "embeddings.patch_embeddings.bias", "@0"},
                       {"stem.norm.gamma", head + "embeddings.layernorm.weight", "@0"},
                       {"stem.norm.beta", head + "embeddings.layernorm.bias", "@0"},
                       {"head.norm.gamma", head + "layernorm.weight", "@0"},
                       {"head.norm.beta", head + "layernorm.bias", "@0"},
                       {"head.logits.weight", "classifier.weight", "@1 @0"},
                       {"head.logits.bias", "classifier.bias", "@0"}},
                      {}};
  for (int stage = 0; stage < 4; ++stage) {
    const std::string ours = fmt::format("stage{}.", stage), theirs = fmt::format("{}encoder.stages.{}.", head, stage);
    const std::string block = ours + "blk#.", layer = theirs + "layers.#.", halve = theirs + "downsampling_layer.";
    const std::vector<HfTensorRow> rows = {{block + "conv.weight", layer + "dwconv.weight", "@0 1 kh kw"},
                                           {block + "conv.bias", layer + "dwconv.bias", "@0"},
                                           {block + "norm.gamma", layer + "layernorm.weight", "@0"},
                                           {block + "norm.beta", layer + "layernorm.bias", "@0"},
                                           {block + "up.weight", layer + "pwconv1.weight", "@1 @0"},
                                           {block + "up.bias", layer + "pwconv1.bias", "@0"},
                                           {block + "response.gamma", layer + "grn.weight", "1 1 1 @0"},
                                           {block + "response.bias", layer + "grn.bias", "1 1 1 @0"},
                                           {block + "down.weight", layer + "pwconv2.weight", "@1 @0"},
                                           {block + "down.bias", layer + "pwconv2.bias", "@0"},
                                           {block + "layer_scale.gamma", layer + "layer_scale_parameter", "@0"},
                                           {ours + "halve.norm.gamma", halve + "0.weight", "@0"},
                                           {ours + "halve.norm.beta", halve + "0.bias", "@0"},
                                           {ours + "halve.weight", halve + "1.weight", "@3 @2 @0 @1"},
                                           {ours + "halve.bias", halve + "1.bias", "@0"}};
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  return table;
}

HfTensorTable swin() {
  HfTensorTable table{{"swin"},
                      "swin.",
                      {{"stem.weight", "swin.embeddings.patch_embeddings.projection.weight", "@3 @2 @0 @1"},
                       {"stem.bias", "swin.embeddings.patch_embeddings.projection.bias", "@0"},
                       {"stem.norm.gamma", "swin.embeddings.norm.weight", "@0"},
                       {"stem.norm.beta", "swin.embeddings.norm.bias", "@0"},
                       {"head.norm.gamma", "swin.layernorm.weight", "@0"},
                       {"head.norm.beta", "swin.layernorm.bias", "@0"},
                       {"head.logits.weight", "classifier.weight", "@1 @0"},
                       {"head.logits.bias", "classifier.bias", "@0"}},
                      {}};
  for (int stage = 0; stage < 4; ++stage) {
    const std::string ours = fmt::format("stage{}.", stage), theirs = fmt::format("swin.encoder.layers.{}.", stage);
    const std::string block = ours + "blk#.", layer = theirs + "blocks.#.", attention = layer + "attention.self.";
    for (const auto& [which, name] : {std::pair("q", "query"), {"k", "key"}, {"v", "value"}}) {
      table.rows.push_back({fmt::format("{}attn.{}.weight", block, which), fmt::format("{}{}.weight", attention, name),
                            "(heads head_dim) @0"});
      table.rows.push_back(
          {fmt::format("{}attn.{}.bias", block, which), fmt::format("{}{}.bias", attention, name), "(heads head_dim)"});
    }
    const std::vector<HfTensorRow> rows = {
        {block + "attn.relative_bias.weight", attention + "relative_position_bias_table", "@0 @1"},
        {block + "attn.out.weight", layer + "attention.output.dense.weight", "@2 (heads head_dim)"},
        {block + "attn.out.bias", layer + "attention.output.dense.bias", "@0"},
        {block + "ln1.gamma", layer + "layernorm_before.weight", "@0"},
        {block + "ln1.beta", layer + "layernorm_before.bias", "@0"},
        {block + "ln2.gamma", layer + "layernorm_after.weight", "@0"},
        {block + "ln2.beta", layer + "layernorm_after.bias", "@0"},
        {block + "mlp.up.weight", layer + "intermediate.dense.weight", "@1 @0"},
        {block + "mlp.up.bias", layer + "intermediate.dense.bias", "@0"},
        {block + "mlp.down.weight", layer + "output.dense.weight", "@1 @0"},
        {block + "mlp.down.bias", layer + "output.dense.bias", "@0"},
        {ours + "merge.norm.gamma", theirs + "downsample.norm.weight", "@0"},
        {ours + "merge.norm.beta", theirs + "downsample.norm.bias", "@0"},
        {ours + "merge.weight", theirs + "downsample.reduction.weight", "@1 @0"}};
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
    table.left_out.push_back(attention + "relative_position_index");
  }
  return table;
}

// Parts of stages are lists, each with an entry for each stage.
HfTensorTable segformer() {
  HfTensorTable table{
      {"segformer"},
      "segformer.",
      {{"head.logits.weight", "classifier.weight", "@1 @0"}, {"head.logits.bias", "classifier.bias", "@0"}},
      {"decode_head.*"}};
  const auto put = [&](const std::string& ours, const std::string& theirs, const char* weight, const char* bias) {
    table.rows.push_back({ours + ".weight", theirs + ".weight", weight});
    table.rows.push_back({ours + ".bias", theirs + ".bias", bias});
  };
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    table.rows.push_back({ours + ".gamma", theirs + ".weight", "@0"});
    table.rows.push_back({ours + ".beta", theirs + ".bias", "@0"});
  };
  constexpr const char *kImage = "@3 @2 @0 @1", *kDense = "@1 @0";
  for (int stage = 0; stage < 4; ++stage) {
    const std::string ours = fmt::format("stage{}.", stage), block = ours + "blk#.",
                      patches = fmt::format("segformer.encoder.patch_embeddings.{}.", stage),
                      layer = fmt::format("segformer.encoder.block.{}.#.", stage), self = layer + "attention.self.";
    put(ours + "in", patches + "proj", kImage, "@0");
    norm(ours + "in.norm", patches + "layer_norm");
    norm(ours + "norm", fmt::format("segformer.encoder.layer_norm.{}", stage));
    norm(block + "ln1", layer + "layer_norm_1");
    norm(block + "ln2", layer + "layer_norm_2");
    put(block + "attn.q", self + "query", "(kv_heads group head_dim) @0", "(kv_heads group head_dim)");
    for (const auto& [which, name] : {std::pair("k", "key"), {"v", "value"}})
      put(fmt::format("{}attn.{}", block, which), self + name, "(kv_heads head_dim) @0", "(kv_heads head_dim)");
    put(block + "attn.out", layer + "attention.output.dense", "@3 (kv_heads group head_dim)", "@0");
    put(block + "attn.reduce", self + "sr", kImage, "@0");
    norm(block + "attn.reduce.norm", self + "layer_norm");
    put(block + "mlp.up", layer + "mlp.dense1", kDense, "@0");
    put(block + "mlp.conv", layer + "mlp.dwconv.dwconv", "@0 1 kh kw", "@0");
    put(block + "mlp.down", layer + "mlp.dense2", kDense, "@0");
  }
  return table;
}

HfTensorTable donut_swin() {
  HfTensorTable table = swin();
  std::vector<std::string> left_out = table.left_out;
  for (std::string& name : left_out) name.replace(0, std::string_view("swin.").size(), "donut.");
  return renamed(table, {"donut-swin"}, "donut.", {{"swin.", "donut."}}, left_out);
}

// Two towers alike; a learned vector attends to the images' patches by one joint projection.
HfTensorTable siglip() {
  HfTensorTable table{
      {"siglip"}, "", {}, {"text_model.embeddings.position_ids", "vision_model.embeddings.position_ids"}};
  const auto put = [&](const std::string& ours, const std::string& theirs, const char* layout) {
    table.rows.push_back({ours, theirs, layout});
  };
  const auto both = [&](const std::string& ours, const std::string& theirs, const char* weight, const char* bias) {
    put(ours + ".weight", theirs + ".weight", weight);
    put(ours + ".bias", theirs + ".bias", bias);
  };
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    put(ours + ".gamma", theirs + ".weight", "embed");
    put(ours + ".beta", theirs + ".bias", "embed");
  };
  const auto inner = [&](const std::string& ours, const std::string& theirs) {
    both(ours + ".up", theirs + ".fc1", "mlp embed", "mlp");
    both(ours + ".down", theirs + ".fc2", "embed mlp", "embed");
  };
  for (const auto& [tower, model, last] : {std::tuple("image.", "vision_model.", "post_layernorm"),
                                           std::tuple("text.", "text_model.", "final_layer_norm")}) {
    const std::string block = fmt::format("{}blk#.", tower), layer = fmt::format("{}encoder.layers.#.", model);
    put(fmt::format("{}wpe", tower), fmt::format("{}embeddings.position_embedding.weight", model), "seq embed");
    norm(block + "ln1", layer + "layer_norm1");
    norm(block + "ln2", layer + "layer_norm2");
    both(block + "attn.q", layer + "self_attn.q_proj", "(kv_heads group head_dim) embed", "(kv_heads group head_dim)");
    for (const char* which : {"k", "v"})
      both(fmt::format("{}attn.{}", block, which), fmt::format("{}self_attn.{}_proj", layer, which),
           "(kv_heads head_dim) embed", "(kv_heads head_dim)");
    both(block + "attn.out", layer + "self_attn.out_proj", "embed (kv_heads group head_dim)", "embed");
    inner(block + "mlp", layer + "mlp");
    norm(fmt::format("{}final_norm", tower), fmt::format("{}{}", model, last));
  }
  put("text.wte", "text_model.embeddings.token_embedding.weight", "vocab embed");
  both("text.joint", "text_model.head", "joint embed", "joint");
  both("image.embed", "vision_model.embeddings.patch_embedding", "embed rgb kh kw", "embed");
  const std::string pool = "vision_model.head.", joined = pool + "attention.in_proj_";
  put("image.pool.probe", pool + "probe", "1 seq embed");
  put("image.pool.attn.q.weight", joined + "weight", "*(kv_heads group head_dim) embed");
  put("image.pool.attn.q.bias", joined + "bias", "*(kv_heads group head_dim)");
  for (const char* which : {"k", "v"}) {
    put(fmt::format("image.pool.attn.{}.weight", which), joined + "weight", "*(kv_heads head_dim) embed");
    put(fmt::format("image.pool.attn.{}.bias", which), joined + "bias", "*(kv_heads head_dim)");
  }
  both("image.pool.attn.out", pool + "attention.out_proj", "embed (kv_heads group head_dim)", "embed");
  norm("image.pool.norm", pool + "layernorm");
  inner("image.pool.mlp", pool + "mlp");
  for (const char* number : {"logit_scale", "logit_bias"}) put(fmt::format("head.{}", number), number, "temperature");
  return table;
}

// Patches come as rows of their pixels.
HfTensorTable siglip2() {
  HfTensorTable table = siglip();
  table.model_types = {"siglip2"};
  for (HfTensorRow& row : table.rows)
    if (row.ours == "image.embed.weight") row.layout = "embed (kh kw rgb)";
  return table;
}

// torchvision's names: blocks are numbered in each of four stages. Running statistics are not trained.
HfTensorTable resnet(std::int64_t layers) {
  HfTensorTable table{{fmt::format("resnet{}", layers)}, "", {}, {"*"}};
  const auto add = [&](const std::string& ours, const std::string& convolution, const std::string& norm) {
    table.rows.push_back({ours + ".conv.weight", convolution + ".weight", "@3 @2 @0 @1"});
    table.rows.push_back({ours + ".norm.gamma", norm + ".weight", "@0"});
    table.rows.push_back({ours + ".norm.beta", norm + ".bias", "@0"});
  };
  add("stem", "conv1", "bn1");
  const std::vector<int> stages = bottlenecks_per_stage(layers);
  for (std::size_t stage = 0, block = 0; stage < stages.size(); ++stage)
    for (int i = 0; i < stages[stage]; ++i, ++block) {
      const std::string ours = fmt::format("blk{}", block), theirs = fmt::format("layer{}.{}", stage + 1, i);
      for (int n = 1; n <= 3; ++n)
        add(fmt::format("{}.{}", ours, n), fmt::format("{}.conv{}", theirs, n), fmt::format("{}.bn{}", theirs, n));
      add(ours + ".shortcut", theirs + ".downsample.0", theirs + ".downsample.1");
    }
  table.rows.push_back({"head.logits.weight", "fc.weight", "@1 @0"});
  table.rows.push_back({"head.logits.bias", "fc.bias", "@0"});
  return table;
}

}  // namespace

std::vector<HfTensorTable> hf_image_tables() {
  std::vector<HfTensorTable> all = {vit(), deit(), dinov2("dinov2", "dinov2"),
                                    dinov2("dinov2_with_registers", "dinov2_with_registers")};
  for (const auto& [type, name] : {std::pair("beit", "beit"), {"data2vec-vision", "data2vec_vision"}})
    all.push_back(beit(type, name));
  all.push_back(ijepa());
  all.push_back(siglip());
  all.push_back(siglip2());
  all.push_back(swin());
  all.push_back(donut_swin());
  all.push_back(segformer());
  for (const char* type : {"convnext", "convnextv2"}) all.push_back(convnext(type));
  for (const std::int64_t layers : {14, 26, 50, 101, 152, 200}) all.push_back(resnet(layers));
  return all;
}

}  // namespace meshwright
