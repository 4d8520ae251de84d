// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/models.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/builtin_models.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

constexpr std::array<std::pair<LossReduction, const char*>, 3> kReductions = {
    {{LossReduction::Mean, "mean"}, {LossReduction::Sum, "sum"}, {LossReduction::TokenWeighted, "token_weighted"}}};

std::string keys_text(const Family& family) {
  std::vector<std::string> required, others;
  for (const SizeField& field : family.sizes) (field.required() ? required : others).push_back(field.key);
  for (const FactorField& field : family.factors) others.push_back(field.key);
  return fmt::format("give {} once each{}, as in '{}'", join(required, ", "),
                     others.empty() ? "" : fmt::format(" and any of {}", join(others, ", ")), family.example);
}

double factor_from_text(const std::string& text, const std::string& place) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "{}: '{}' is not a number; give one such as 1.25.",
          place, text);
  return value;
}

// Whether the family has such a key.
bool take_pair(ModelConfig& model, const Family& family, const std::string& key, const std::string& value,
               const std::string& place) {
  for (const SizeField& field : family.sizes)
    if (key == field.key) {
      set_size(model, key, parse_integer(value, fmt::format("{}: {}", place, key), field.minimum, field.maximum));
      return true;
    }
  for (const FactorField& field : family.factors)
    if (key == field.key) {
      model.factors[key] = factor_from_text(value, fmt::format("{}: {}", place, key));
      return true;
    }
  return false;
}

// Sets what "key=number,..." says; returns the keys. `expected`: what the user can give, for messages.
std::vector<std::string> take_pairs(ModelConfig& model, const Family& family, const std::string& sizes,
                                    const std::string& expected, const std::string& place) {
  std::vector<std::string> given;
  for (const std::string& part : split(sizes, ',')) {
    const std::size_t equals = part.find('=');
    require(equals != std::string::npos, "{}: '{}' is not key=number; {}.", place, part, expected);
    const std::string key = part.substr(0, equals);
    require(std::find(given.begin(), given.end(), key) == given.end(), "{}: key '{}' is given twice; {}.", place, key,
            expected);
    given.push_back(key);
    require(take_pair(model, family, key, part.substr(equals + 1), place), "{}: unknown key '{}'; {}.", place, key,
            expected);
  }
  return given;
}

ModelConfig custom_model(const Family& family, const std::string& text, const std::string& sizes) {
  ModelConfig model{.name = family.name,
                    .family = family.name,
                    .default_batch = family.default_batch,
                    .default_dtype = family.default_dtype};
  const std::string expected = keys_text(family), place = fmt::format("model '{}'", text);
  const std::vector<std::string> given = take_pairs(model, family, sizes, expected, place);
  for (const SizeField& field : family.sizes)
    require(!field.required() || std::find(given.begin(), given.end(), field.key) != given.end(),
            "{}: key '{}' is missing; {}.", place, field.key, expected);
  complete(model, family, place);
  check_sizes(family, model, place);
  return model;
}

const Family& checked_family(const ModelConfig& model, const std::string& place) {
  const Family& family = known_family(model.family, place);
  check_sizes(family, model, place);
  return family;
}

// A size "family:key=number,...", or nothing when the text begins with no family.
std::optional<ModelConfig> sized_model(const std::string& text) {
  const std::size_t colon = text.find(':');
  const Family* family = colon == std::string::npos ? nullptr : find_family(text.substr(0, colon));
  if (family == nullptr) return std::nullopt;
  return custom_model(*family, text, text.substr(colon + 1));
}

ModelConfig built_in(const BuiltInModel& published) {
  ModelConfig model = *sized_model(published.sizes);
  model.name = published.name;
  if (published.batch > 0) model.default_batch = published.batch;
  return model;
}

const BuiltInModel* find_published(const std::string& name) {
  for (const BuiltInModel& published : builtin_sizes()) {
    const std::vector<std::string> names = split(fmt::format("{} {}", published.name, published.also), ' ');
    if (!name.empty() && std::find(names.begin(), names.end(), name) != names.end()) return &published;
  }
  return nullptr;
}

}  // namespace

const char* name_of(LossReduction reduction) { return kReductions[static_cast<std::size_t>(reduction)].second; }

LossReduction loss_reduction_from_name(const std::string& name) {
  for (const auto& [reduction, known] : kReductions)
    if (name == known) return reduction;
  throw InputError(fmt::format("unknown name '{}'; expected mean, sum or token_weighted.", name));
}

std::string recompute_text(const TrainingOptions& options) {
  if (options.recompute_modules != RecomputeModules::None) return name_of(options.recompute_modules);
  return options.recompute_ranges.empty() ? name_of(options.recompute) : "per layer";
}

std::vector<ModelConfig> builtin_models() {
  std::vector<ModelConfig> models;
  for (const BuiltInModel& published : builtin_sizes()) models.push_back(built_in(published));
  return models;
}

std::vector<std::string> example_sizes() {
  std::vector<std::string> examples;
  for (const Family& family : families()) examples.push_back(family.example);
  return examples;
}

ModelConfig with_sizes(ModelConfig model, const std::string& sizes, const std::string& place) {
  const Family& family = known_family(model.family, place);
  std::vector<std::string> keys;
  for (const SizeField& field : family.sizes) keys.emplace_back(field.key);
  for (const FactorField& field : family.factors) keys.emplace_back(field.key);
  (void)take_pairs(model, family, sizes, fmt::format("give any of {} once each", join(keys, ", ")), place);
  check_sizes(family, model, place);
  model.name += ":" + sizes;
  return model;
}

ModelConfig find_builtin_model(const std::string& name) {
  if (const BuiltInModel* published = find_published(name)) return built_in(*published);
  if (const std::optional<ModelConfig> model = sized_model(name)) return *model;
  const std::size_t colon = name.find(':');
  const BuiltInModel* of = colon == std::string::npos ? nullptr : find_published(name.substr(0, colon));
  if (of != nullptr) return with_sizes(built_in(*of), name.substr(colon + 1), fmt::format("model '{}'", name));
  std::vector<std::string> known;
  for (const BuiltInModel& published : builtin_sizes()) known.emplace_back(published.name);
  throw InputError(unknown_name("model", name, known, "`meshwright models` lists all."));
}

Graph build_forward_graph(const ModelConfig& model, const TrainingOptions& options) {
  const Family* family = model.file ? nullptr : &checked_family(model, fmt::format("model '{}'", model.name));
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
  if (model.file)
    model.file->source->build(graph, options.loss);
  else
    family->build(graph, model, options.loss);
  return graph;
}

namespace {

constexpr std::pair<Offload, const char*> kOffloads[] = {
    {Offload::Optimizer, "optimizer"}, {Offload::Activations, "activations"}, {Offload::Weights, "weights"}};

}  // namespace

std::string name_of(Offload offload) {
  std::vector<std::string> parts;
  for (const auto& [part, name] : kOffloads)
    if (has(offload, part)) parts.emplace_back(name);
  return parts.empty() ? "none" : join(parts, ",");
}

Offload offload_from_name(const std::string& name) {
  Offload all = Offload::None;
  if (name == name_of(all)) return all;
  for (const std::string& text : split(name, ',')) {
    const auto* known = std::find_if(std::begin(kOffloads), std::end(kOffloads),
                                     [&](const auto& offload) { return text == offload.second; });
    require(known != std::end(kOffloads),
            "unknown offload '{}'; expected none, or some of optimizer, activations and weights, separated by commas.",
            text);
    require(!has(all, known->first), "offload '{}': '{}' is given twice; give it once.", name, text);
    all = all | known->first;
  }
  return all;
}

Graph build_training_graph(const ModelConfig& model, const TrainingOptions& options) {
  Graph graph = build_forward_graph(model, options);
  graph.states_on_host = has(options.offload, Offload::Optimizer);
  graph.activations_on_host = has(options.offload, Offload::Activations);
  graph.weights_on_host = has(options.offload, Offload::Weights);
  append_training_step(graph, options.optimizer, options.recompute, options.recompute_ranges,
                       options.recompute_modules);
  return graph;
}

int experts_per_token(const ModelConfig& model) {
  const auto experts = model.more.find("experts"), taken = model.more.find("top_k");
  if (experts == model.more.end() || taken == model.more.end() || experts->second < 2) return 0;
  return static_cast<int>(taken->second);
}

std::int64_t active_parameter_count(const Graph& graph) {
  std::int64_t top_k = 0;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::TopKSlots) top_k = op.attributes.top_k;
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    const bool of_experts = tensor.dims.size() > 1 && tensor.dims[0].name == "expert";
    count += of_experts ? tensor.elements() / tensor.dims[0].size * top_k : tensor.elements();
  }
  return count;
}

namespace {

Json file_to_json(const ModelConfig& model) {
  Json json = {{"name", model.name}, {"family", model.family}, {"path", model.file->path}, {"hash", model.file->hash}};
  json["dims"] = Json::object();
  for (const auto& [name, size] : model.file->dims) json["dims"][name] = size;
  return json;
}

}  // namespace

Json to_json(const ModelConfig& model) {
  if (model.file) return file_to_json(model);
  const std::string place = fmt::format("model '{}'", model.name);
  const Family& family = checked_family(model, place);
  Json json = {{"name", model.name}, {"family", model.family}};
  for (const SizeField& field : family.sizes) json[field.key] = size_of(model, field.key);
  for (const FactorField& field : family.factors) json[field.key] = model.factors.at(field.key);
  if (model.rotary_scaling) json["rotary_scaling"] = to_json(*model.rotary_scaling);
  json["default_batch"] = model.default_batch;
  json["default_dtype"] = name_of(model.default_dtype);
  return json;
}

ModelConfig model_from_json(const Json& json, const std::string& place) {
  ModelConfig model{.name = get<std::string>(json, "name", place), .family = get<std::string>(json, "family", place)};
  require_printable(model.name, place);
  const Family& family = known_family(model.family, place);
  for (const SizeField& field : family.sizes)
    if (field.required() || json.contains(field.key))
      set_size(model, field.key, get<std::int64_t>(json, field.key, place));
  for (const FactorField& field : family.factors)
    if (json.contains(field.key)) model.factors[field.key] = get<double>(json, field.key, place);
  if (json.contains("rotary_scaling"))
    model.rotary_scaling = rotary_scaling_from_json(json["rotary_scaling"], place + ": rotary_scaling");
  model.default_batch = get<std::int64_t>(json, "default_batch", place);
  const auto dtype = get<std::string>(json, "default_dtype", place);
  try {
    model.default_dtype = dtype_from_name(dtype);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: default_dtype: {}", place, error.what()));
  }
  for (const SizeField& field : family.sizes)  // what defaults are derived from
    if (field.required())
      require(size_of(model, field.key) >= field.minimum, "{}: {} is {}; give a number from {} to {}.", place,
              field.key, size_of(model, field.key), field.minimum, field.maximum);
  complete(model, family, place);
  check_sizes(family, model, place);
  return model;
}

}  // namespace meshwright
