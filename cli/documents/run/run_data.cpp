// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/run_data.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/npy.h"
#include "core/graph/import/hf/hf_config.h"
#include "executor/weights/given_data.h"
#include "executor/weights/given_weights.h"

namespace meshwright {

namespace {

// Numbers of a model that change no weight and no result where the experts' capacity holds all tokens.
bool is_free(const std::string& factor) { return factor == "capacity_factor" || factor == "mtp_weight"; }

void expect_same(const std::string& place, const std::string& what, double planned, double given) {
  require(planned == given, "{}: the model's {} is {}, but the plan's is {}; plan with --model {}.", place, what, given,
          planned, place);
}

// Whether the plan's model is the one that the weights belong to.
void expect_same_model(const ModelConfig& planned, const ModelConfig& given, const std::string& place) {
  require(planned.family == given.family, "{}: the model is of the family '{}', but the plan's is of '{}'.", place,
          given.family, planned.family);
  expect_same(place, "number of layers", static_cast<double>(planned.layers), static_cast<double>(given.layers));
  expect_same(place, "hidden size", static_cast<double>(planned.hidden), static_cast<double>(given.hidden));
  expect_same(place, "number of heads", static_cast<double>(planned.heads), static_cast<double>(given.heads));
  expect_same(place, "vocabulary", static_cast<double>(planned.vocab), static_cast<double>(given.vocab));
  for (const auto& [key, value] : given.more)
    if (const auto found = planned.more.find(key); found != planned.more.end())
      expect_same(place, key, static_cast<double>(found->second), static_cast<double>(value));
  for (const auto& [key, value] : given.factors)
    if (const auto found = planned.factors.find(key); found != planned.factors.end() && !is_free(key))
      expect_same(place, key, found->second, value);
  const auto rotation = [](const ModelConfig& model) {
    return model.rotary_scaling ? text_of(*model.rotary_scaling) : "none";
  };
  require(planned.rotary_scaling == given.rotary_scaling,
          "{}: the model's scaling of its rotation ({}) is not the plan's ({}); plan with --model {}.", place,
          rotation(given), rotation(planned), place);
}

// The type that a folder's config.json names, or the only one that the model can be of.
std::string type_of(const std::string& folder, const ModelConfig& model) {
  const std::string config = (std::filesystem::path(folder) / "config.json").string();
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(config, error)) return hf_model_type_of(model);
  const auto type = get<std::string>(read_json_file(config), "model_type", config);
  const std::vector<std::string> read = hf_model_types();
  if (std::find(read.begin(), read.end(), type) == read.end()) return hf_model_type_of(model);
  expect_same_model(model, model_from_hf_file(config), config);
  if (const auto scaled = scaled_rotation_of_hf_file(config))
    throw InputError(fmt::format(
        "{}: {} scales the rotation of queries and keys in a way that is not known here, so that these weights would "
        "give other results than they do elsewhere; give weights of a model without it.",
        config, *scaled));
  return type;
}

template <class T>
std::string npy_bytes(const char* type, const std::vector<std::int64_t>& shape, const std::vector<double>& values) {
  std::string bytes = npy_header(type, shape);
  for (const double value : values) {
    const T number = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(T));
  }
  return bytes;
}

}  // namespace

void add_run_data_options(CLI::App& verb, RunDataOptions& options) {
  verb.add_option("--weights", options.weights,
                  "start from the weights in this folder: model.safetensors, or the files of its index, with the names "
                  "and layouts of Hugging Face's models");
  verb.add_option("--save-weights", options.save_weights,
                  "write the weights after the last step to this folder, with the same names and layouts");
  verb.add_option(
      "--inputs", options.inputs,
      "train on samples from a file: tokens from a .npy, a .bin of 16-bit numbers or the bytes of any other "
      "file, each with the token after it as label; or INPUT=FILE.npy, once for each input");
  verb.add_option("--dump", options.dumps,
                  "two words, what and a file: logits (.npy) or gradients (.safetensors) of the last step, or the loss "
                  "of each step (.npy); once for each");
}

RunData::RunData(const RunDataOptions& options, const ModelConfig& model, const Graph& graph, RunOptions& run)
    : options_(options), graph_(graph), model_type_(type_of(options.weights, model)) {
  for (const auto& [what, file] : options.dumps) {
    require(what == "logits" || what == "loss" || what == "gradients",
            "--dump: '{}' is not known; logits, loss and gradients are.", what);
    require(what != "logits" || graph.loss, "--dump logits: the model has no loss that logits are for.");
    expect_writable(file, options.inputs);
    run.keep_logits |= what == "logits";
    run.keep_gradients |= what == "gradients";
  }
  run.given.labels = GivenValues::Labels::FollowingWord;  // where no file gives any
  if (!options.weights.empty()) open_weights(model, run);
  if (!options.inputs.empty()) open_samples(model, run);
}

void RunData::open_weights(const ModelConfig& model, RunOptions& run) {
  WeightFiles files(options_.weights);
  const std::size_t tensors = files.tensors().size();
  const HfTensorNames names(model_type_, options_.weights);
  run.given.start = std::make_shared<GivenWeights>(std::move(files), names, graph_);
  read_ += fmt::format("# weights: {} tensors of {}, as models of the type '{}' have them\n", tensors, options_.weights,
                       model_type_.empty() ? model.family : model_type_);
}

void RunData::open_samples(const ModelConfig& model, RunOptions& run) {
  std::vector<InputFile> files;
  for (const std::string& text : options_.inputs) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      files.push_back({"", text});
    else
      files.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  const std::int64_t needed = run.steps * graph_.batch;
  auto data = std::make_shared<GivenData>(files, graph_, model.vocab, needed);
  read_ += fmt::format(
      "# inputs: {} samples{}\n", data->samples(),
      data->samples() < needed ? fmt::format("; the run takes {} and begins again behind the last", needed) : "");
  run.given.samples = std::move(data);
}

std::string RunData::write(const RunResult& result, DType precision) const {
  const bool wide = precision == DType::F64;
  std::string lines;
  for (const auto& [what, file] : options_.dumps) {
    if (what == "gradients") {
      std::vector<ParameterPlace> places = HfTensorNames(model_type_, file).places(graph_);
      for (ParameterPlace& place : places) place.shift = 0.0;  // theirs plus a number has the same gradient
      write_weight_file(file, result.gradients, graph_, places, precision);
    } else {
      const bool loss = what == "loss";
      const std::vector<double>& values = loss ? result.losses : result.logits.values;
      const std::vector<std::int64_t> shape =
          loss ? std::vector<std::int64_t>{static_cast<std::int64_t>(values.size())} : result.logits.shape;
      write_file(file, wide || loss ? npy_bytes<double>("f8", shape, values) : npy_bytes<float>("f4", shape, values));
    }
    lines += fmt::format("# {} written to {}\n", what, file);
  }
  if (options_.save_weights.empty()) return lines;
  namespace fs = std::filesystem;
  write_weights(options_.save_weights, result.weights, graph_,
                HfTensorNames(model_type_, options_.save_weights).places(graph_), precision);
  const fs::path config = fs::path(options_.weights) / "config.json",
                 copy = fs::path(options_.save_weights) / "config.json";
  std::error_code error;
  if (!options_.weights.empty() && fs::exists(config, error) && !fs::equivalent(config, copy, error))
    write_file(copy.string(), read_file(config.string()));
  return lines + fmt::format("# weights after the last step written to {}\n", options_.save_weights);
}

}  // namespace meshwright
