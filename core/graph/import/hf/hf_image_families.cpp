// SPDX-License-Identifier: Apache-2.0
// Models of images: ViT, DeiT, DINOv2, BEiT and residual networks with a classifier, and CLIP. Members that a file
// leaves out are those of the transformers class, as in the files that publishers have.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// One number for both sides, where a file may have a list of two.
std::int64_t side_of(const HfReader& config, const char* key, std::int64_t otherwise) {
  if (!config.has(key) || !config.at(key).is_array()) return config.size_or({key}, otherwise);
  const Json& sides = config.at(key);
  require(sides.size() == 2 && sides[0] == sides[1] && sides[0].is_number_unsigned() && sides[0] > 0u &&
              sides[0] <= 1'000'000u,
          "{}: '{}' is no list of two equal numbers; squares alone are supported.", config.place(), key);
  return sides[0].get<std::int64_t>();
}

// Labels have names, or a number; without either there are two.
std::int64_t classes_of(const HfReader& config) {
  if (config.has("id2label")) {
    require(config.at("id2label").is_object() && !config.at("id2label").empty(),
            "{}: 'id2label' must be an object with a name for each class.", config.place());
    return static_cast<std::int64_t>(config.at("id2label").size());
  }
  return config.size_or({"num_labels"}, 2);
}

ModelConfig read_patches(const HfReader& config, std::int64_t patch, double epsilon) {
  const std::int64_t channels = config.size_or({"num_channels"}, 3);
  require(channels == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", config.place(), channels);
  ModelConfig model;
  model.family = "vit";
  model.layers = config.size_or({"num_hidden_layers"}, 12);
  model.hidden = config.size_or({"hidden_size"}, 768);
  model.heads = config.size_or({"num_attention_heads"}, 12);
  set(model, "image", side_of(config, "image_size", 224));
  set(model, "patch", side_of(config, "patch_size", patch));
  set(model, "classes", classes_of(config));
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set(model, "qkv_bias", config.flag_or("qkv_bias", true));
  set_epsilon(model, config, "layer_norm_eps", epsilon);
  for (const char* pooler : {"pooler_act", "pooler_output_size", "encoder_stride"}) (void)config.has(pooler);
  return model;
}

}  // namespace

ModelConfig read_vit(const HfReader& config) {
  ModelConfig model = read_patches(config, 16, 1e-12);
  set(model, "intermediate", config.size_or({"intermediate_size"}, 3072));
  set(model, "distilled", config.text_or("model_type", "vit") == "deit");
  return model;
}

// A vector weighs what each part of a block makes. The one that stands for masked patches is not trained.
ModelConfig read_dinov2(const HfReader& config) {
  const bool registers = config.text_or("model_type", "dinov2") == "dinov2_with_registers";
  ModelConfig model = read_patches(config, registers ? 16 : 14, 1e-6);
  const std::int64_t width = config.size_or({"mlp_ratio"}, 4) * model.hidden;
  const bool gated = config.flag_or("use_swiglu_ffn", false);
  set(model, "gated", gated);
  set(model, "intermediate", gated ? (width * 2 / 3 + 7) / 8 * 8 : width);
  set(model, "layer_scale", 1);
  set(model, "reads_patches", 1);
  set(model, "mask_token", config.flag_or("use_mask_token", true));
  set(model, "registers", registers ? config.size_or({"num_register_tokens"}, 4, 0) : 0);
  for (const char* backbone : {"layerscale_value", "drop_path_rate", "apply_layernorm", "reshape_hidden_states",
                               "out_features", "out_indices", "stage_names", "_out_features", "_out_indices"})
    (void)config.has(backbone);
  return model;
}

// A ViT without a class token, which reads the mean of the patches.
ModelConfig read_ijepa(const HfReader& config) {
  ModelConfig model = read_patches(config, 16, 1e-12);
  set(model, "intermediate", config.size_or({"intermediate_size"}, 3072));
  set(model, "class_token", 0);
  set(model, "reads_patches", 2);
  return model;
}

// Biases by distance in place of positions, or beside them.
ModelConfig read_beit(const HfReader& config) {
  ModelConfig model = read_patches(config, 16, 1e-12);
  set(model, "intermediate", config.size_or({"intermediate_size"}, 3072));
  set(model, "qkv_bias", 1);
  set(model, "key_bias", 0);
  set(model, "absolute", config.flag_or("use_absolute_position_embeddings", false));
  set(model, "relative_bias",
      (config.flag_or("use_relative_position_bias", false) ? 1 : 0) +
          (config.flag_or("use_shared_relative_position_bias", false) ? 2 : 0));
  set(model, "mask_token", config.flag_or("use_mask_token", false));
  const bool scaled = !config.has("layer_scale_init_value") || config.at("layer_scale_init_value") != 0;
  if (scaled) (void)config.positive_or("layer_scale_init_value", 0.1);
  set(model, "layer_scale", scaled);
  const bool mean = config.flag_or("use_mean_pooling", true);
  set(model, "reads_patches", mean ? 2 : 0);
  set(model, "mean_norm", mean);
  // For images without labels, segmentation and backbones.
  for (const char* other :
       {"vocab_size", "drop_path_rate", "pool_scales", "use_auxiliary_head", "auxiliary_loss_weight",
        "auxiliary_channels", "auxiliary_num_convs", "auxiliary_concat_input", "semantic_loss_ignore_index", "add_fpn",
        "reshape_hidden_states", "out_features", "out_indices", "stage_names", "_out_features", "_out_indices",
        "segmentation_indices"})
    (void)config.has(other);
  return model;
}

namespace {

// The layers of a residual network whose stages have these numbers of bottlenecks.
std::int64_t layers_of_stages(const HfReader& config) {
  if (!config.has("depths")) return 50;
  std::int64_t layers = 2;
  const Json& depths = config.at("depths");
  for (const Json& depth : depths.is_array() ? depths : Json::array())
    layers += depth.is_number_unsigned() && depth <= 1000u ? 3 * depth.get<std::int64_t>() : 0;
  const std::vector<int> stages = bottlenecks_per_stage(layers);
  require(
      !stages.empty() && depths == Json(stages),
      "{}: 'depths' are of no residual network that is supported; those of 14, 26, 50, 101, 152 and 200 layers are.",
      config.place());
  return layers;
}

}  // namespace

// Images have 224 pixels a side, as no member says.
ModelConfig read_resnet(const HfReader& config) {
  for (const char* other : {"downsample_in_first_stage", "downsample_in_bottleneck"}) config.refuse(other);
  expect_text(config, "layer_type", "bottleneck");
  expect_text(config, "hidden_act", "relu");
  const std::int64_t rgb = config.size_or({"num_channels"}, 3), stem = config.size_or({"embedding_size"}, 64);
  require(rgb == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", config.place(), rgb);
  if (config.has("hidden_sizes"))
    require(config.at("hidden_sizes") == Json({4 * stem, 8 * stem, 16 * stem, 32 * stem}),
            "{}: 'hidden_sizes' are not 4, 8, 16 and 32 times 'embedding_size' {}, which alone is supported.",
            config.place(), stem);
  for (const char* backbone : {"out_features", "out_indices", "stage_names", "_out_features", "_out_indices"})
    (void)config.has(backbone);
  ModelConfig model;
  model.family = "wresnet";
  model.layers = layers_of_stages(config);
  set(model, "channels", stem);
  set(model, "width", 1);
  set(model, "image", 224);
  set(model, "classes", classes_of(config));
  return model;
}

namespace {

// The number of each of four stages.
std::vector<std::int64_t> of_stages(const HfReader& config, const char* key, std::vector<std::int64_t> otherwise) {
  if (!config.has(key)) return otherwise;
  const Json& given = config.at(key);
  bool fits = given.is_array() && given.size() == otherwise.size();
  for (std::size_t stage = 0; fits && stage < otherwise.size(); ++stage)
    fits = given[stage].is_number_unsigned() && given[stage] >= 1u && given[stage] <= 100'000u;
  require(fits, "{}: '{}' is no list of {} positive numbers, one for each stage, which alone is supported.",
          config.place(), key, otherwise.size());
  return given.get<std::vector<std::int64_t>>();
}

}  // namespace

ModelConfig read_convnext(const HfReader& config) {
  const bool second = config.text_or("model_type", "convnext") == "convnextv2";
  const std::int64_t rgb = config.size_or({"num_channels"}, 3), stages = config.size_or({"num_stages"}, 4);
  require(rgb == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", config.place(), rgb);
  require(stages == 4, "{}: 'num_stages' is {}, which is not supported; 4 is.", config.place(), stages);
  ModelConfig model;
  model.family = "convnext";
  const std::vector<std::int64_t> depths = of_stages(config, "depths", {3, 3, 9, 3}),
                                  widths = of_stages(config, "hidden_sizes", {96, 192, 384, 768});
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    set(model, fmt::format("depth_{}", stage).c_str(), depths[stage]);
    set(model, fmt::format("width_{}", stage).c_str(), widths[stage]);
  }
  set(model, "image", side_of(config, "image_size", 224));
  set(model, "patch", side_of(config, "patch_size", 4));
  set(model, "classes", classes_of(config));
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set(model, "response_norm", second);
  // Without a first value there are no weights.
  const bool none = config.has("layer_scale_init_value") && config.at("layer_scale_init_value").is_number() &&
                    config.at("layer_scale_init_value") <= 0;
  set(model, "layer_scale", !second && !none);
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  for (const char* backbone :
       {"drop_path_rate", "out_features", "out_indices", "stage_names", "_out_features", "_out_indices"})
    (void)config.has(backbone);
  return model;
}

// Images have 224 pixels a side where no member says it.
ModelConfig read_segformer(const HfReader& config) {
  const std::int64_t rgb = config.size_or({"num_channels"}, 3);
  require(rgb == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", config.place(), rgb);
  const std::int64_t stages = config.size_or({"num_encoder_blocks", "num_hidden_layers"}, 4);
  require(stages == 4, "{}: 'num_encoder_blocks' is {}, which is not supported; 4 is.", config.place(), stages);
  for (const auto& [key, only] :
       {std::pair("patch_sizes", std::vector<std::int64_t>{7, 3, 3, 3}), {"strides", {4, 2, 2, 2}}})
    require(of_stages(config, key, only) == only, "{}: '{}' are not {}, which alone are supported.", config.place(),
            key, Json(only).dump());
  const std::vector<std::int64_t> widen = of_stages(config, "mlp_ratios", {4, 4, 4, 4});
  require(std::count(widen.begin(), widen.end(), widen.front()) == stages,
          "{}: 'mlp_ratios' are not the same in all stages, which alone is supported.", config.place());
  ModelConfig model;
  model.family = "segformer";
  for (const auto& [ours, theirs, usual] : {std::tuple("depth", "depths", std::vector<std::int64_t>{2, 2, 2, 2}),
                                            {"heads", "num_attention_heads", {1, 2, 5, 8}},
                                            {"width", "hidden_sizes", {32, 64, 160, 256}},
                                            {"reduce", "sr_ratios", {8, 4, 2, 1}}}) {
    const std::vector<std::int64_t> sizes = of_stages(config, theirs, usual);
    for (std::size_t stage = 0; stage < sizes.size(); ++stage)
      set(model, fmt::format("{}_{}", ours, stage).c_str(), sizes[stage]);
  }
  set(model, "image", side_of(config, "image_size", 224));
  set(model, "widen", widen.front());
  set(model, "classes", classes_of(config));
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  // An epsilon that its norms do not have, and members for dropped paths and segmentation.
  for (const char* other : {"layer_norm_eps", "drop_path_rate", "decoder_hidden_size", "semantic_loss_ignore_index",
                            "reshape_last_stage", "downsampling_rates"})
    (void)config.has(other);
  return model;
}

ModelConfig read_swin(const HfReader& config) {
  const std::int64_t rgb = config.size_or({"num_channels"}, 3);
  require(rgb == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", config.place(), rgb);
  config.refuse("use_absolute_embeddings");
  ModelConfig model;
  model.family = "swin";
  const std::vector<std::int64_t> depths = of_stages(config, "depths", {2, 2, 6, 2}),
                                  heads = of_stages(config, "num_heads", {3, 6, 12, 24});
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    set(model, fmt::format("depth_{}", stage).c_str(), depths[stage]);
    set(model, fmt::format("heads_{}", stage).c_str(), heads[stage]);
  }
  set(model, "image", side_of(config, "image_size", 224));
  set(model, "patch", side_of(config, "patch_size", 4));
  set(model, "window", config.size_or({"window_size"}, 7));
  set(model, "width", config.size_or({"embed_dim"}, 96));
  set(model, "classes", classes_of(config));
  const double widen = config.positive_or("mlp_ratio", 4.0);
  require(widen == std::floor(widen) && widen <= 1000.0,
          "{}: 'mlp_ratio' is {:g}, which is not supported; a whole number is.", config.place(), widen);
  set(model, "widen", static_cast<std::int64_t>(widen));
  set(model, "qkv_bias", config.flag_or("qkv_bias", true));
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  set(model, "final_norm", config.text_or("model_type", "swin") != "donut-swin");
  for (const char* other : {"drop_path_rate", "out_features", "out_indices", "stage_names", "_out_features",
                            "_out_indices", "encoder_stride", "hidden_size", "num_layers", "path_norm"})
    (void)config.has(other);
  return model;
}

// CLIP: two towers.
ModelConfig read_clip(const HfReader& config) {
  const HfReader text = config.part_or_empty("text_config"), image = config.part_or_empty("vision_config");
  ModelConfig model;
  model.family = "two_tower";
  model.layers = image.size_or({"num_hidden_layers"}, 12);
  model.hidden = image.size_or({"hidden_size"}, 768);
  model.heads = image.size_or({"num_attention_heads"}, 12);
  model.seq = text.size_or({"max_position_embeddings"}, 77);
  model.vocab = text.size_or({"vocab_size"}, 49408);
  set(model, "image", side_of(image, "image_size", 224));
  set(model, "patch", side_of(image, "patch_size", 32));
  set(model, "text_layers", text.size_or({"num_hidden_layers"}, 12));
  set(model, "text_hidden", text.size_or({"hidden_size"}, 512));
  set(model, "text_heads", text.size_or({"num_attention_heads"}, 8));
  set(model, "embed", config.size_or({"projection_dim"}, 512));
  const std::int64_t rgb = image.size_or({"num_channels"}, 3);
  require(rgb == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", image.place(), rgb);
  for (const auto& [tower, hidden, usual] :
       {std::tuple{&image, model.hidden, std::int64_t{3072}}, {&text, model.more["text_hidden"], std::int64_t{2048}}}) {
    const std::int64_t width = tower->size_or({"intermediate_size"}, usual);
    require(width == 4 * hidden, "{}: 'intermediate_size' is {}, which is not supported; 4 times 'hidden_size' {} is.",
            tower->place(), width, hidden);
    (void)tower->has("projection_dim");  // of towers that are used alone
  }
  const std::string act = image.text_or("hidden_act", "quick_gelu");
  require(text.text_or("hidden_act", "quick_gelu") == act,
          "{}: 'hidden_act' is another than that of 'text_config', which is not supported.", image.place());
  set(model, "quick", act == "quick_gelu");
  if (act != "quick_gelu") set_activation(model, image, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  model.factors["epsilon"] = image.positive_or("layer_norm_eps", 1e-5);
  require(text.positive_or("layer_norm_eps", 1e-5) == model.factors["epsilon"],
          "{}: 'layer_norm_eps' is another than that of 'vision_config', which is not supported.", text.place());
  for (const char* twice : {"text_config_dict", "vision_config_dict", "logit_scale_init_value"})
    (void)config.has(twice);
  return model;
}

// SigLIP: two towers of any width each, and a loss of each pair by itself.
namespace {

// SigLIP 2 takes images of any sides whose patches are as many as it has positions: here those of a square, whose
// positions it does not interpolate.
std::int64_t side_of_patches(const HfReader& image, std::int64_t patch) {
  const std::int64_t patches = image.size_or({"num_patches"}, 256);
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(patches))));
  require(side * side == patches, "{}: 'num_patches' is {}, which are those of no square image.", image.place(),
          patches);
  return side * patch;
}

}  // namespace

ModelConfig read_siglip(const HfReader& config) {
  const HfReader text = config.part_or_empty("text_config"), image = config.part_or_empty("vision_config");
  ModelConfig model;
  model.family = "two_tower";
  model.layers = image.size_or({"num_hidden_layers"}, 12);
  model.hidden = image.size_or({"hidden_size"}, 768);
  model.heads = image.size_or({"num_attention_heads"}, 12);
  model.seq = text.size_or({"max_position_embeddings"}, 64);
  model.vocab = text.size_or({"vocab_size"}, 32000);
  set(model, "siglip", 1);
  set(model, "patch", side_of(image, "patch_size", 16));
  set(model, "image",
      config.text_or("model_type", "") == "siglip2" ? side_of_patches(image, model.more["patch"])
                                                    : side_of(image, "image_size", 224));
  set(model, "intermediate", image.size_or({"intermediate_size"}, 3072));
  set(model, "text_layers", text.size_or({"num_hidden_layers"}, 12));
  set(model, "text_hidden", text.size_or({"hidden_size"}, 768));
  set(model, "text_heads", text.size_or({"num_attention_heads"}, 12));
  set(model, "text_intermediate", text.size_or({"intermediate_size"}, 3072));
  set(model, "embed", model.hidden);
  const std::int64_t width = text.size_or({"projection_size"}, model.more["text_hidden"]);
  require(width == model.hidden, "{}: 'projection_size' is {}, but images are {} wide; check them.", text.place(),
          width, model.hidden);
  const std::int64_t rgb = image.size_or({"num_channels"}, 3);
  require(rgb == 3, "{}: 'num_channels' is {}, which is not supported; 3 is.", image.place(), rgb);
  require(image.flag_or("vision_use_head", true), "{}: 'vision_use_head' is false, which is not supported; true is.",
          image.place());
  const Act act = set_activation(model, image, "hidden_act", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf});
  require(one_of(text, "hidden_act", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf}) == act,
          "{}: 'hidden_act' is another than that of 'vision_config', which is not supported.", text.place());
  model.factors["epsilon"] = image.positive_or("layer_norm_eps", 1e-6);
  require(text.positive_or("layer_norm_eps", 1e-6) == model.factors["epsilon"],
          "{}: 'layer_norm_eps' is another than that of 'vision_config', which is not supported.", text.place());
  return model;
}

}  // namespace meshwright::hf
