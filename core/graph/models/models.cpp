// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/models.h"

#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

struct SizeField {
  const char* key;
  std::int64_t ModelConfig::*field;
  long most;
};
struct Family {
  const char* name;
  std::vector<SizeField> fields;  // all required in a custom size, in the order they are shown
  std::int64_t default_batch;
  DType default_dtype;
  void (*build)(Graph&, const ModelConfig&, LossReduction);
};

// The upper limits keep every size and count far inside 64 bits.
const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"gpt",
       {{"layers", &ModelConfig::layers, 10'000},
        {"hidden", &ModelConfig::hidden, 1'000'000},
        {"heads", &ModelConfig::heads, 1'000'000},
        {"seq", &ModelConfig::seq, 10'000'000},
        {"vocab", &ModelConfig::vocab, 10'000'000}},
       1024,
       DType::F16,
       build_gpt},
      {"mlp",
       {{"layers", &ModelConfig::layers, 10'000}, {"hidden", &ModelConfig::hidden, 1'000'000}},
       2048,
       DType::F32,
       build_mlp},
  };
  return all;
}

const Family* find_family(const std::string& name) {
  for (const Family& family : families())
    if (name == family.name) return &family;
  return nullptr;
}

std::string sizes_text(const Family& family, const std::string& example) {
  std::vector<std::string> keys;
  for (const SizeField& field : family.fields) keys.push_back(field.key);
  return fmt::format("give {} once each, as in '{}'", join(keys, ", "), example);
}

std::string example_of(const Family& family) {
  return family.name == std::string("gpt") ? "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128"
                                           : "mlp:layers=2,hidden=2048";
}

void check_sizes(const Family& family, const ModelConfig& model, const std::string& place) {
  for (const SizeField& field : family.fields)
    require(model.*field.field >= 1 && model.*field.field <= field.most, "{}: {} is {}; give a number from 1 to {}.",
            place, field.key, model.*field.field, field.most);
  require(model.heads == 0 || model.hidden % model.heads == 0,
          "{}: hidden={} is not a multiple of heads={}; every head needs the same whole number of dimensions.", place,
          model.hidden, model.heads);
}

ModelConfig custom_model(const Family& family, const std::string& place, const std::string& sizes) {
  ModelConfig model{.name = family.name,
                    .family = family.name,
                    .default_batch = family.default_batch,
                    .default_dtype = family.default_dtype};
  const std::string expected = sizes_text(family, example_of(family));
  std::vector<std::string> given;
  for (const std::string& part : split(sizes, ',')) {
    const std::size_t equals = part.find('=');
    require(equals != std::string::npos, "model '{}': '{}' is not key=number; {}.", place, part, expected);
    const std::string key = part.substr(0, equals);
    const auto field = std::find_if(family.fields.begin(), family.fields.end(),
                                    [&](const SizeField& candidate) { return key == candidate.key; });
    require(field != family.fields.end(), "model '{}': unknown key '{}'; {}.", place, key, expected);
    require(std::find(given.begin(), given.end(), key) == given.end(), "model '{}': key '{}' is given twice; {}.",
            place, key, expected);
    given.push_back(key);
    model.*field->field =
        parse_integer(part.substr(equals + 1), fmt::format("model '{}': {}", place, key), 1, field->most);
  }
  for (const SizeField& field : family.fields)
    require(std::find(given.begin(), given.end(), field.key) != given.end(), "model '{}': key '{}' is missing; {}.",
            place, field.key, expected);
  check_sizes(family, model, fmt::format("model '{}'", place));
  return model;
}

ModelConfig gpt(const char* name, std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return {name, "gpt", layers, hidden, heads, 1024, 51200, 1024, DType::F16};
}

const Family& checked_family(const ModelConfig& model, const std::string& place) {
  const Family* family = find_family(model.family);
  require(family != nullptr, "{}: unknown model family '{}'; known are gpt and mlp.", place, model.family);
  check_sizes(*family, model, place);
  return *family;
}

}  // namespace

namespace {

constexpr std::array<std::pair<LossReduction, const char*>, 3> kReductions = {
    {{LossReduction::Mean, "mean"}, {LossReduction::Sum, "sum"}, {LossReduction::TokenWeighted, "token_weighted"}}};

}  // namespace

const char* name_of(LossReduction reduction) { return kReductions[static_cast<std::size_t>(reduction)].second; }

LossReduction loss_reduction_from_name(const std::string& name) {
  for (const auto& [reduction, known] : kReductions)
    if (name == known) return reduction;
  throw InputError(fmt::format("'{}' is not known; write mean, sum or token_weighted.", name));
}

// The GPT sizes are those of Alpa's benchmark suite (OSDI'22).
std::vector<ModelConfig> builtin_models() {
  return {
      gpt("gpt-125m", 768, 12, 12),  gpt("gpt-350m", 1024, 24, 16),
      gpt("gpt-760m", 1536, 24, 16), gpt("gpt-1.3b", 2048, 24, 32),
      gpt("gpt-2.6b", 2560, 32, 32), gpt("gpt-6.7b", 4096, 32, 32),
      gpt("gpt-15b", 5120, 48, 40),  gpt("gpt-39b", 8192, 48, 64),
      gpt("gpt-76b", 10240, 60, 80), {"mlp", "mlp", 2, 2048, 0, 0, 0, 2048, DType::F32},
  };
}

ModelConfig find_model(const std::string& name) {
  std::vector<std::string> known;
  for (const ModelConfig& model : builtin_models()) {
    if (model.name == name) return model;
    known.push_back(model.name);
  }
  const std::size_t colon = name.find(':');
  const Family* family = colon == std::string::npos ? nullptr : find_family(name.substr(0, colon));
  if (family == nullptr) throw InputError(unknown_name("model", name, known, "`meshwright models` lists all."));
  return custom_model(*family, name, name.substr(colon + 1));
}

Graph build_forward_graph(const ModelConfig& model, const TrainingOptions& options) {
  const Family& family = checked_family(model, fmt::format("model '{}'", model.name));
  require(options.batch >= 1, "batch: {} samples per step; give at least 1.", options.batch);
  require(options.microbatches >= 1, "micro-batches: {}; give at least 1.", options.microbatches);
  require(
      options.batch % options.microbatches == 0,
      "batch: {} samples do not divide into {} micro-batches; give a number of micro-batches that divides the batch.",
      options.batch, options.microbatches);
  require(options.dtype != DType::I32, "dtype: weights cannot be trained in {}; give f64, f32, bf16 or f16.",
          name_of(options.dtype));
  Graph graph;
  graph.name = model.name;
  graph.batch = options.batch;
  graph.microbatches = options.microbatches;
  graph.dtype = options.dtype;
  family.build(graph, model, options.loss);
  return graph;
}

Graph build_training_graph(const ModelConfig& model, const TrainingOptions& options) {
  Graph graph = build_forward_graph(model, options);
  append_training_step(graph, options.optimizer, options.recompute);
  return graph;
}

Json to_json(const ModelConfig& model) {
  const Family& family = checked_family(model, fmt::format("model '{}'", model.name));
  Json json = {{"name", model.name}, {"family", model.family}};
  for (const SizeField& field : family.fields) json[field.key] = model.*field.field;
  json["default_batch"] = model.default_batch;
  json["default_dtype"] = name_of(model.default_dtype);
  return json;
}

ModelConfig model_from_json(const Json& json, const std::string& place) {
  ModelConfig model{.name = get<std::string>(json, "name", place), .family = get<std::string>(json, "family", place)};
  const Family* family = find_family(model.family);
  require(family != nullptr, "{}: unknown model family '{}'; known are gpt and mlp.", place, model.family);
  for (const SizeField& field : family->fields) model.*field.field = get<std::int64_t>(json, field.key, place);
  model.default_batch = get<std::int64_t>(json, "default_batch", place);
  const auto dtype = get<std::string>(json, "default_dtype", place);
  try {
    model.default_dtype = dtype_from_name(dtype);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: default_dtype: {}", place, error.what()));
  }
  check_sizes(*family, model, place);
  return model;
}

}  // namespace meshwright
