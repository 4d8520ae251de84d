// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/families.h"

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
  };
}

// Each rule holds where the keys it speaks of exist.
void check_relations(const ModelConfig& model, const std::string& place) {
  const auto has = [&](const char* key) { return model.more.contains(key); };
  const auto size = [&](const char* key) { return size_of(model, key); };
  require(model.heads == 0 || has("head_dim") || has("nope_dim") || model.hidden % model.heads == 0,
          "{}: hidden={} is not a multiple of heads={}; every head needs the same whole number of dimensions.", place,
          model.hidden, model.heads);
  require(!has("kv_heads") || model.heads % size("kv_heads") == 0,
          "{}: heads={} is not a multiple of kv_heads={}; every key is read by the same number of queries.", place,
          model.heads, size("kv_heads"));
  require(!has("positions") || model.seq <= size("positions"),
          "{}: seq={} is more than the {} positions it has learned; give at most those.", place, model.seq,
          size("positions"));
  require(!has("attention_chunk") || size("attention_chunk") == 0 || model.seq <= size("attention_chunk"),
          "{}: seq={} is more than one attention chunk of {}, and attention in chunks is not supported; give at most "
          "that.",
          place, model.seq, size("attention_chunk"));
  require(!has("experts") || size("top_k") <= size("experts"),
          "{}: top_k={} is more than experts={}; a token takes each expert at most once.", place, size("top_k"),
          size("experts"));
  for (const char* rotated : {"rotary_dims", "rope_dim"})
    require(!has(rotated) || size(rotated) % 2 == 0, "{}: {}={} is odd; rotations turn pairs.", place, rotated,
            size(rotated));
  if (has("rotary_dims"))
    require(size("rotary_dims") <= model.hidden / model.heads,
            "{}: rotary_dims={} is more than the {} dimensions of a head.", place, size("rotary_dims"),
            model.hidden / model.heads);
  else if (model.factors.contains("rotary_base") && has("head_dim"))
    require(size("head_dim") % 2 == 0, "{}: head_dim={} is odd; rotations turn pairs.", place, size("head_dim"));
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> found = basic_families();
    for (Family& family : transformer_families()) found.push_back(std::move(family));
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
  for (const FactorField& field : family.factors) model.factors.try_emplace(field.key, field.otherwise);
}

void check_sizes(const Family& family, const ModelConfig& model, const std::string& place) {
  for (const SizeField& field : family.sizes) {
    const std::int64_t value = size_of(model, field.key);
    require(value >= field.least && value <= field.most, "{}: {} is {}; give a number from {} to {}.", place, field.key,
            value, field.least, field.most);
  }
  for (const FactorField& field : family.factors) {
    const auto value = model.factors.find(field.key);
    require(value != model.factors.end() && std::isfinite(value->second) && value->second > 0.0,
            "{}: {} must be a positive number, such as {}.", place, field.key, field.otherwise);
  }
  check_relations(model, place);
}

}  // namespace meshwright
