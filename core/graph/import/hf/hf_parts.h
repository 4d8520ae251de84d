// SPDX-License-Identifier: Apache-2.0
// What the readers of several families share: members that mean the same in all of them. Errors name the file and the
// member. Internal to the readers of config.json.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/import/hf/hf_reader.h"
#include "core/graph/models/models.h"

namespace meshwright::hf {

enum class Act { Relu, ReluSquared, Gelu, GeluErf, Silu };  // Gelu: the tanh form

// Throws InputError for an activation of another name.
[[nodiscard]] Act activation_from(const HfReader& config, const char* key, const std::string& name);
// The activation `key` names, `otherwise` where it is missing. Throws InputError unless it is one of `supported`.
[[nodiscard]] Act one_of(const HfReader& config, const char* key, const char* otherwise,
                         std::initializer_list<Act> supported);

// Written in braces, so that the first of several missing members is the one that is named.
struct Core {
  std::int64_t layers, hidden, heads, positions, vocab;
};
[[nodiscard]] ModelConfig made(const char* family, const Core& core);
// From the names that most families use.
[[nodiscard]] ModelConfig made(const char* family, const HfReader& config);

void set(ModelConfig& model, const char* key, std::int64_t value);
// The activation; notes which form of GELU it is.
Act set_activation(ModelConfig& model, const HfReader& config, const char* key, const char* otherwise,
                   std::initializer_list<Act> supported);
// Throws InputError unless the member is missing or has this value.
void expect_text(const HfReader& config, const char* key, const char* only);
// Throws InputError unless the head is the word table.
void expect_tied(const HfReader& config);
// `text_config`, where the file is of the family that wraps the text model in it; nullopt for the text model itself.
// Throws InputError where it is missing.
[[nodiscard]] std::optional<HfReader> text_part(const HfReader& config, const std::string& family);
// Whether the head is the word table: as the whole file says, or else its text part. Some types take the latter's word
// for it even where the former says no, and some know no such heads.
void set_tied_by_whole(ModelConfig& model, const HfReader& config);
// The model of that part, whose head is the word table where the whole file says so.
[[nodiscard]] std::optional<ModelConfig> read_text_part(const HfReader& config, const std::string& family,
                                                        ModelConfig (*read)(const HfReader&));

[[nodiscard]] std::int64_t head_of(const ModelConfig& model);
// The dimensions of a head that are rotated, where the file gives their share: under the key, or among
// "rope_parameters".
void set_rotated_share(ModelConfig& model, const HfReader& config, const char* key, double otherwise);
// The base of the angles, and what slows the rotation down, where that is a scaling of a known kind.
void set_rotary_base(ModelConfig& model, const HfReader& config, const char* key);
// The rotation of one kind of layer, as in `otherwise` where the file leaves it out. "proportional": the angles are
// those of whole heads, of which a share alone turns; "default": all of a head does.
struct Rotation {
  double base, share;
};
[[nodiscard]] Rotation rotation_of(const HfReader* rotations, const char* kind, Rotation otherwise);
// hf_rotary_scaling.cpp. Of "rope_scaling" or "rope_parameters"; nullopt: neither scales anything, or it does so in a
// way that is not known.
[[nodiscard]] std::optional<RotaryScaling> read_rotary_scaling(const ModelConfig& model, const HfReader& config);
// Files of this type that have "rope_scaling" mean the layers that see all keys alone.
void scale_full_attention_alone(ModelConfig& model, const HfReader& config);
void set_epsilon(ModelConfig& model, const HfReader& config, const char* key, double otherwise);
// What a file calls a factor of the scores instead of 1 / sqrt(head_dim).
void set_score_scale(ModelConfig& model, double scale);
// Granite's factors of the embedding, the residual sums, the logits and the scores.
void set_granite_factors(ModelConfig& model, const HfReader& config);

// --- rotated decoders ---

void read_rotation(ModelConfig& model, const HfReader& config, double epsilon);
[[nodiscard]] ModelConfig made_with_groups(const char* family, const HfReader& config);
// `epsilon`: the family's own, where the file has none.
[[nodiscard]] ModelConfig read_decoder(const char* family, const HfReader& config, double epsilon = 1e-6);
void set_attention_bias(ModelConfig& model, const HfReader& config, bool otherwise);
// Which layers are windowed, as first_window_layer and full_every can say it. Throws InputError, with `where` in front,
// for an order that these cannot.
void set_windowed_layers(ModelConfig& model, const std::vector<bool>& windowed, const std::string& where);
// The same of `layer_types`.
void read_layer_types(ModelConfig& model, const HfReader& config);
// Windows in all layers but every n-th, where the file does not list the layers.
void read_windows(ModelConfig& model, const HfReader& config, std::int64_t window, std::int64_t full_every);
// Which layers have no positions: each n-th, by `no_rope_layers`, or `no_rope_layer_interval`, or `otherwise`.
void read_no_rotary(ModelConfig& model, const HfReader& config, std::int64_t otherwise);
// Windows are off unless `use_sliding_window`, and never in the first layers.
void read_qwen_window(ModelConfig& model, const HfReader& config);
// "clip_qkv", where it is given.
void set_qkv_bound(ModelConfig& model, const HfReader& config);
void set_all_biases(ModelConfig& model, bool bias);
// Longformer's windows, as `key` counts them: a query's own key and those on one side.
void read_attention_window(ModelConfig& model, const HfReader& config, const char* key);
// What is the same with and without a mixture of experts.
[[nodiscard]] ModelConfig read_qwen3_decoder(const char* family, const HfReader& config);

// --- mixtures of experts ---

// Throws InputError unless the member is missing or a list of `first` times the one value, then the other.
void expect_layers(const HfReader& config, const char* key, std::int64_t layers, std::int64_t first,
                   const std::string& begin, const std::string& rest);
// How many entries of a list with one for each layer are `first`; the others must all be `rest`. Throws InputError.
[[nodiscard]] std::int64_t first_entries(const HfReader& config, const char* key, std::int64_t layers,
                                         const Json& first, const Json& rest);
// The first layers without experts: their number, or as `mlp_layer_types` lists them.
void read_dense_layers(ModelConfig& model, const HfReader& config, std::int64_t otherwise);
void set_experts(ModelConfig& model, std::int64_t experts, std::int64_t top_k, std::int64_t width);
// By the names that DeepSeek's files use. `usual`: shared experts and dense layers where the file does not say how
// many.
void read_routed_experts(ModelConfig& model, const HfReader& config, std::int64_t usual);

}  // namespace meshwright::hf
