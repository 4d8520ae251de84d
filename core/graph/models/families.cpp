// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/families.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

const std::vector<std::pair<std::string, std::int64_t ModelConfig::*>>& members() {
  static const std::vector<std::pair<std::string, std::int64_t ModelConfig::*>> all = {
      {"layers", &ModelConfig::layers}, {"hidden", &ModelConfig::hidden}, {"heads", &ModelConfig::heads},
      {"seq", &ModelConfig::seq},       {"vocab", &ModelConfig::vocab},
  };
  return all;
}

std::vector<Family> basic_families() {
  // The upper limits keep every size and count far inside 64 bits.
  const SizeField layers{"layers", 10'000}, hidden{"hidden", 1'000'000};
  return {
      {"gpt",
       {layers, hidden, {"heads", 1'000'000}, {"seq", 10'000'000}, {"vocab", 10'000'000}},
       {},
       "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128",
       1024,
       DType::F16,
       build_gpt},
      {"mlp", {layers, hidden}, {}, "mlp:layers=2,hidden=2048", 2048, DType::F32, build_mlp},
      {"moe",
       {layers,
        hidden,
        {"heads", 1'000'000},
        {"experts", 100'000, 2},
        {"seq", 10'000'000},
        {"vocab", 10'000'000},
        {"group", 10'000'000, 1, 2048}},
       {},
       "moe:layers=2,hidden=64,heads=4,experts=4,seq=32,vocab=128",
       1024,
       DType::F16,
       build_gshard},
  };
}

std::int64_t four_times_text(const ModelConfig& model, const std::string&) { return 4 * size_of(model, "text_hidden"); }

std::vector<Family> image_families() {
  const SizeField layers{"layers", 10'000}, image{"image", 10'000}, classes{"classes", 10'000'000};
  return {
      {"wresnet",
       {layers, {"channels", 10'000}, {"width", 1'000}, image, classes},
       {},
       "wresnet:layers=50,channels=8,width=2,image=32,classes=10",
       1536,
       DType::F32,
       build_wide_resnet},
      {"vit",
       {layers,
        {"hidden", 100'000},
        {"heads", 100'000},
        image,
        {"patch", 10'000},
        classes,
        {.key = "intermediate", .maximum = 10'000'000, .derived = four_times_hidden},
        {"erf", 1, 0, 0},
        {"qkv_bias", 1, 0, 1},
        {"distilled", 1, 0, 0},
        {"registers", 10'000, 0, 0},
        {"layer_scale", 1, 0, 0},
        {"gated", 1, 0, 0},
        {"reads_patches", 2, 0, 0},
        {"mask_token", 1, 0, 0},
        {"class_token", 1, 0, 1},
        {"mean_norm", 1, 0, 0},
        {"absolute", 1, 0, 1},
        {"key_bias", 1, 0, 1},
        {"relative_bias", 3, 0, 0}},
       {{"epsilon", 1e-6}},
       "vit:layers=2,hidden=64,heads=4,image=32,patch=8,classes=10",
       4096,
       DType::F16,
       build_vit},
      {"two_tower",
       {layers,
        {"hidden", 100'000},
        {"heads", 100'000},
        image,
        {"patch", 10'000},
        {"text_layers", 10'000},
        {"text_hidden", 100'000},
        {"text_heads", 100'000},
        {"seq", 10'000'000},
        {"vocab", 10'000'000},
        {"embed", 100'000},
        {"erf", 1, 0, 1},
        {"quick", 1, 0, 0},
        {.key = "intermediate", .maximum = 10'000'000, .derived = four_times_hidden},
        {.key = "text_intermediate", .maximum = 10'000'000, .derived = four_times_text},
        {"siglip", 1, 0, 0}},
       {{"epsilon", 1e-5}},
       "two_tower:layers=2,hidden=64,heads=4,image=32,patch=8,text_layers=2,text_hidden=32,text_heads=4,seq=16,"
       "vocab=128,embed=32",
       4096,
       DType::F16,
       build_two_tower},
  };
}

// Sizes that are fine one by one can make more parameters than 64 bits count.
void check_total(const ModelConfig& model, const std::string& place) {
  const auto size = [&](const char* key) { return static_cast<double>(size_of(model, key)); };
  const double hidden = std::max(1.0, size("hidden")), heads = size("heads");
  const double expert = model.more.contains("expert_intermediate") ? size("expert_intermediate") : 4 * hidden;
  const double widest = std::max(
      {4 * hidden, heads * size("head_dim"), heads * (size("nope_dim") + size("rope_dim")), heads * size("value_dim"),
       size("window_heads") * (size("head_dim") + size("value_dim")), size("window_kv_heads") * size("head_dim"),
       size("intermediate"), size("shared_intermediate"), size("scan_heads") * size("scan_head_dim"),
       size("scan_groups") * size("state"), size("delta_value_heads") * (size("key_dim") + size("value_dim")),
       size("experts") * expert, heads * size("full_head_dim"), size("index_heads") * size("index_dim"),
       size("scan_heads") * (size("scan_rank") + size("state")), size("layer_vocab") * size("layer_embed") / hidden});
  require(size("layers") * hidden * widest <= 1e17,
          "{}: its layers would have more than 10^17 parameters; give smaller sizes.", place);
}

// Every stage of a Swin transformer is whole windows, and whole heads.
void check_windows(const ModelConfig& model, const std::string& place) {
  const auto size = [&](const std::string& key) { return size_of(model, key); };
  const std::int64_t window = size("window"), side = size("image") / size("patch");
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t patches = side >> stage, heads = size(fmt::format("heads_{}", stage));
    require(side % (std::int64_t{1} << stage) == 0 && patches >= window && patches % window == 0,
            "{}: stage {} has {} patches a side, which are no whole number of windows of window={}.", place, stage,
            patches, window);
    require((size("width") << stage) % heads == 0,
            "{}: stage {} is {} wide, which is not a multiple of heads_{}={}; every head needs the same whole number "
            "of dimensions.",
            place, stage, size("width") << stage, stage, heads);
  }
}

// Every stage of a SegFormer has whole heads, and enough pixels to make fewer of.
void check_reductions(const ModelConfig& model, const std::string& place) {
  const auto size = [&](const std::string& key) { return size_of(model, key); };
  std::int64_t side = size("image");
  for (int stage = 0; stage < 4; ++stage) {
    side = (side - 1) / (stage == 0 ? size("patch") : 2) + 1;
    const std::int64_t width = size(fmt::format("width_{}", stage)), heads = size(fmt::format("heads_{}", stage)),
                       reduce = size(fmt::format("reduce_{}", stage));
    require(width % heads == 0,
            "{}: width_{}={} is not a multiple of heads_{}={}; every head needs the same whole number of dimensions.",
            place, stage, width, stage, heads);
    require(side % reduce == 0, "{}: stage {} has {} pixels a side, which are no multiple of reduce_{}={}.", place,
            stage, side, stage, reduce);
  }
}

// Each rule holds where the keys it speaks of exist.
void check_relations(const ModelConfig& model, const std::string& place) {
  check_total(model, place);
  if (model.family == "swin") check_windows(model, place);
  if (model.family == "segformer") check_reductions(model, place);
  constexpr std::int64_t kHalvings = 8;  // three stages of a ConvNeXt halve the image
  require(!model.more.contains("depth_0") || size_of(model, "image") / size_of(model, "patch") >= kHalvings,
          "{}: image={} is less than {} patches of {}; its stages halve it three times.", place,
          size_of(model, "image"), kHalvings, size_of(model, "patch"));
  require(size_of(model, "siglip") == 0 || size_of(model, "embed") == model.hidden,
          "{}: embed={} is not the width of the images, hidden={}, as siglip=1 needs.", place, size_of(model, "embed"),
          model.hidden);
  const auto has = [&](const char* key) { return model.more.contains(key); };
  const auto size = [&](const char* key) { return size_of(model, key); };
  require(model.heads == 0 || has("head_dim") || has("nope_dim") || model.hidden % model.heads == 0,
          "{}: hidden={} is not a multiple of heads={}; every head needs the same whole number of dimensions.", place,
          model.hidden, model.heads);
  require(
      !has("text_heads") || size("text_hidden") % size("text_heads") == 0,
      "{}: text_hidden={} is not a multiple of text_heads={}; every head needs the same whole number of dimensions.",
      place, size("text_hidden"), size("text_heads"));
  require(!has("kv_heads") || model.heads % size("kv_heads") == 0,
          "{}: heads={} is not a multiple of kv_heads={}; every key is read by the same number of queries.", place,
          model.heads, size("kv_heads"));
  require(size("buckets") == 0 || !has("max_distance") ||
              (size("buckets") >= 4 && size("max_distance") > size("buckets") / 2 + 1),
          "{}: buckets={} of distances must be at least 4, and max_distance={} more than half of them and 1.", place,
          size("buckets"), size("max_distance"));
  require(!has("scan_groups") || size("experts") == 0 || size("expert_intermediate") >= 1,
          "{}: expert_intermediate is 0; give the width of the {} experts.", place, size("experts"));
  require(!has("scan_groups") || size("scan_heads") % size("scan_groups") == 0,
          "{}: scan_heads={} is not a multiple of scan_groups={}; every group has the same number of heads.", place,
          size("scan_heads"), size("scan_groups"));
  require(size("scan_rank") == 0 || (size("scan_groups") == 1 && size("scan_head_dim") == 1),
          "{}: with a scan_rank, scan_groups and scan_head_dim are 1; each channel is a head of its own.", place);
  require(size("both_queries") == 0 || size("q_rank") >= 1,
          "{}: with both_queries, queries read a vector of q_rank, which is 0; give it.", place);
  require(size("index_heads") == 0 || (size("index_dim") >= 1 && size("index_top_k") >= 1 && size("q_rank") >= 1),
          "{}: an indexer of index_heads={} needs index_dim, index_top_k and q_rank, each at least 1.", place,
          size("index_heads"));
  require(size("index_heads") == 0 || size("rope_dim") <= size("index_dim"),
          "{}: rope_dim={} is more than the index_dim={} dimensions of the indexer's heads.", place, size("rope_dim"),
          size("index_dim"));
  require(
      !has("delta_heads") || size("delta_value_heads") % size("delta_heads") == 0,
      "{}: delta_value_heads={} is not a multiple of delta_heads={}; every key is read by the same number of values.",
      place, size("delta_value_heads"), size("delta_heads"));
  const auto of_windows = [&](const char* key, std::int64_t others) { return size(key) > 0 ? size(key) : others; };
  require(!has("window_heads") || of_windows("window_heads", model.heads) %
                                          of_windows("window_kv_heads", std::max<std::int64_t>(1, size("kv_heads"))) ==
                                      0,
          "{}: the {} heads of layers with windows are not a multiple of their {} heads of keys (window_kv_heads); "
          "every key is read by the same number of queries.",
          place, of_windows("window_heads", model.heads), of_windows("window_kv_heads", size("kv_heads")));
  require(size("mtp") == 0 || (size("head_bias") == 0 && size("transformed_head") == 0),
          "{}: mtp={} modules predict further tokens by the model's head, which must then have neither head_bias nor "
          "transformed_head.",
          place, size("mtp"));
  require(!has("mtp_layers") || size("mtp") == 0 || size("mtp_layers") > 0,
          "{}: mtp={} modules predict further tokens, but mtp_layers=0; give the layers of one, and their mtp_kinds.",
          place, size("mtp"));
  require(!has("full_kv_heads") || model.heads % size("full_kv_heads") == 0,
          "{}: heads={} is not a multiple of full_kv_heads={}; every key is read by the same number of queries.", place,
          model.heads, size("full_kv_heads"));
  if (has("shared_layers") && size("shared_layers") > 0) {
    // A layer of each kind that shares must come after one that does not.
    const std::int64_t own = model.layers - size("shared_layers"), every = size("full_every");
    require(own >= 1 && (every <= 1 || model.layers < every || own >= every),
            "{}: shared_layers={} of {} layers leaves no earlier layer of each kind to share keys with; give fewer.",
            place, size("shared_layers"), model.layers);
  }
  require(size("index_blocks") == 0 || size("index_local") <= size("index_blocks"),
          "{}: index_local={} is more than the index_blocks={} blocks that a query reads.", place, size("index_local"),
          size("index_blocks"));
  require(size("index_blocks") == 0 || size("window") == 0,
          "{}: index_blocks={} and window={} are both given; give one of them.", place, size("index_blocks"),
          size("window"));
  require(!has("out_groups") || model.heads % std::max<std::int64_t>(1, size("out_groups")) == 0,
          "{}: heads={} is not a multiple of out_groups={}; heads are projected in equal groups.", place, model.heads,
          size("out_groups"));
  require(!has("out_groups") || size("rope_dim") <= size("head_dim"),
          "{}: rope_dim={} is more than the head_dim={} dimensions of a head.", place, size("rope_dim"),
          size("head_dim"));
  require(!has("full_rotary_dims") || (size("full_rotary_dims") % 2 == 0 && size("full_head_dim") % 2 == 0 &&
                                       size("full_rotary_dims") <= size("full_head_dim")),
          "{}: full_rotary_dims={} must be even and at most full_head_dim={}, which is even.", place,
          size("full_rotary_dims"), size("full_head_dim"));
  require(!has("full_kv_heads") || size("experts") == 0 || size("expert_intermediate") >= 1,
          "{}: expert_intermediate is 0; give the width of the {} experts.", place, size("experts"));
  require(size("rnn_width") % std::max<std::int64_t>(1, model.heads) == 0,
          "{}: rnn_width={} is not a multiple of heads={}; each has a block of channels.", place, size("rnn_width"),
          model.heads);
  require(!has("narrow") ||
              (size("narrow") % std::max<std::int64_t>(1, model.heads) == 0 && size("word_width") < model.hidden),
          "{}: narrow={} must be a multiple of heads={}, and word_width={} less than hidden={}.", place, size("narrow"),
          model.heads, size("word_width"), model.hidden);
  // DeBERTa needs no table of positions.
  require(size("positions") == 0 || has("mel") || model.seq <= size("positions"),
          "{}: seq={} is more than the {} positions it has learned; give at most those.", place, model.seq,
          size("positions"));
  require(size("positions") == 0 || size("encoder_seq") <= size("positions"),
          "{}: encoder_seq={} is more than the {} positions it has learned; give at most those.", place,
          size("encoder_seq"), size("positions"));
  require(!has("attention_chunk") || size("attention_chunk") == 0 || model.seq <= size("attention_chunk") ||
              model.seq % size("attention_chunk") == 0,
          "{}: seq={} is more than one attention chunk of {}, but no multiple of it; give a multiple, or at most that.",
          place, model.seq, size("attention_chunk"));
  require(!has("attention_chunk") || size("attention_chunk") == 0 || size("window") == 0,
          "{}: attention_chunk={} and window={} are both given; give one of them.", place, size("attention_chunk"),
          size("window"));
  require(!has("top_k") || size("experts") == 0 || size("top_k") >= 1,
          "{}: top_k is 0; of {} experts a token takes at least one.", place, size("experts"));
  require(!has("experts") || size("top_k") <= size("experts"),
          "{}: top_k={} is more than experts={}; a token takes each expert at most once.", place, size("top_k"),
          size("experts"));
  require(!has("group") || model.seq <= size("group") || model.seq % size("group") == 0,
          "{}: seq={} is more than a group of {} tokens, but does not divide into such groups.", place, model.seq,
          size("group"));
  require(!has("channels") || !bottlenecks_per_stage(model.layers).empty(),
          "{}: there is no residual network of layers={}; give 14, 26, 50, 101, 152 or 200.", place, model.layers);
  require(!has("patch") || size("image") % size("patch") == 0,
          "{}: image={} is not a multiple of patch={}; an image is parted into whole patches.", place, size("image"),
          size("patch"));
  for (const char* rotated : {"rotary_dims", "window_rotary_dims", "rope_dim"})
    require(!has(rotated) || size(rotated) % 2 == 0, "{}: {}={} is odd; rotations turn pairs.", place, rotated,
            size(rotated));
  const std::int64_t head = has("head_dim") ? size("head_dim") : model.hidden / std::max<std::int64_t>(1, model.heads);
  for (const char* rotated : {"rotary_dims", "window_rotary_dims"})
    require(size(rotated) <= head, "{}: {}={} is more than the {} dimensions of a head.", place, rotated, size(rotated),
            head);
  const bool rotates = model.factors.contains("rotary_base") && (!has("rotary") || size("rotary") == 1);
  if (size("rotary_dims") == 0 && rotates && has("head_dim"))
    require(size("head_dim") % 2 == 0, "{}: head_dim={} is odd; rotations turn pairs.", place, size("head_dim"));
  if (model.rotary_scaling) {
    const std::int64_t turned = has("rope_dim")           ? size("rope_dim")
                                : size("rotary_dims") > 0 ? size("rotary_dims")
                                                          : head;
    check(*model.rotary_scaling, turned, place);
  }
}

}  // namespace

std::int64_t four_times_hidden(const ModelConfig& model, const std::string&) { return 4 * model.hidden; }

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> found = basic_families();
    for (Family& family : transformer_families()) found.push_back(std::move(family));
    for (Family& family : encoder_families()) found.push_back(std::move(family));
    for (Family& family : hybrid_families()) found.push_back(std::move(family));
    for (Family& family : delta_families()) found.push_back(std::move(family));
    for (Family& family : gemma4_families()) found.push_back(std::move(family));
    for (Family& family : kimi_linear_families()) found.push_back(std::move(family));
    for (Family& family : deepseek_v4_families()) found.push_back(std::move(family));
    for (Family& family : hy_v4_families()) found.push_back(std::move(family));
    for (Family& family : griffin_families()) found.push_back(std::move(family));
    for (Family& family : lightning_families()) found.push_back(std::move(family));
    for (Family& family : rwkv_families()) found.push_back(std::move(family));
    for (Family& family : zamba2_families()) found.push_back(std::move(family));
    for (Family& family : longcat_flash_families()) found.push_back(std::move(family));
    for (Family& family : jetmoe_families()) found.push_back(std::move(family));
    for (Family& family : mobilebert_families()) found.push_back(std::move(family));
    for (Family& family : fnet_families()) found.push_back(std::move(family));
    for (Family& family : deberta_families()) found.push_back(std::move(family));
    for (Family& family : image_families()) found.push_back(std::move(family));
    for (Family& family : convnext_families()) found.push_back(std::move(family));
    for (Family& family : swin_families()) found.push_back(std::move(family));
    for (Family& family : segformer_families()) found.push_back(std::move(family));
    return found;
  }();
  return all;
}

const Family* find_family(const std::string& name) {
  for (const Family& family : families())
    if (name == family.name) return &family;
  return nullptr;
}

const Family& known_family(const std::string& name, const std::string& place) {
  if (const Family* family = find_family(name)) return *family;
  std::vector<std::string> known;
  for (const Family& family : families()) known.push_back(family.name);
  throw InputError(fmt::format("{}: unknown model family '{}'; known are {}.", place, name, join(known, ", ")));
}

std::int64_t size_of(const ModelConfig& model, const std::string& key) {
  for (const auto& [name, member] : members())
    if (name == key) return model.*member;
  const auto found = model.more.find(key);
  return found == model.more.end() ? 0 : found->second;
}

void set_size(ModelConfig& model, const std::string& key, std::int64_t value) {
  for (const auto& [name, member] : members())
    if (name == key) {
      model.*member = value;
      return;
    }
  model.more[key] = value;
}

void complete(ModelConfig& model, const Family& family, const std::string& place) {
  for (const SizeField& field : family.sizes)
    if (!field.required() && !model.more.contains(field.key))
      model.more[field.key] = field.otherwise ? *field.otherwise : field.derived(model, place);
  for (const FactorField& field : family.factors)
    model.factors.try_emplace(field.key, field.like == nullptr ? field.otherwise : model.factors.at(field.like));
}

void check_sizes(const Family& family, const ModelConfig& model, const std::string& place) {
  for (const SizeField& field : family.sizes) {
    const std::int64_t value = size_of(model, field.key);
    require(value >= field.minimum && value <= field.maximum, "{}: {} is {}; give a number from {} to {}.", place,
            field.key, value, field.minimum, field.maximum);
  }
  for (const FactorField& field : family.factors) {
    const auto value = model.factors.find(field.key);
    require(value != model.factors.end() && std::isfinite(value->second) && value->second > 0.0,
            "{}: {} must be a positive number, such as {}.", place, field.key, field.otherwise);
  }
  check_relations(model, place);
}

}  // namespace meshwright
