// SPDX-License-Identifier: Apache-2.0
// meshwright models: the built-in models, and which others there can be.
#include "core/graph/models/models.h"

#include <CLI/CLI.hpp>

#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/graph/import/hf_config.h"

namespace meshwright {

namespace {

struct ModelRow {
  ModelConfig config;
  std::int64_t parameters, active;
  Flops per_sample;  // forward and backward
};

ModelRow measure(const ModelConfig& config) {
  TrainingOptions training;
  training.batch = 1;
  training.dtype = config.default_dtype;
  const Graph graph = build_training_graph(config, training);
  return {config, parameter_count(graph), active_parameter_count(graph), graph_flops(graph)};
}

// What else --model takes.
std::string other_models() {
  std::string text = "# model families for --model, with the sizes that must be given:\n";
  for (const std::string& example : example_sizes()) text += fmt::format("#   {}\n", example);
  return text + fmt::format("# families of Hugging Face's config.json, for --model path/config.json: {}\n",
                            join(hf_model_types(), ", "));
}

void print_models(bool as_json) {
  std::vector<ModelRow> rows;
  for (const ModelConfig& config : builtin_models()) rows.push_back(measure(config));
  if (as_json) {
    Json models = Json::array();
    for (const ModelRow& row : rows) {
      Json model = to_json(row.config);
      model["parameters"] = row.parameters;
      model["active_parameters"] = row.active;
      model["tflop_per_sample"] = row.per_sample.si() / 1e12;
      models.push_back(std::move(model));
    }
    return print(Json{{"verb", "models"},
                      {"models", std::move(models)},
                      {"example_sizes", example_sizes()},
                      {"hugging_face_families", hf_model_types()}});
  }
  TextTable table({{"name", ""},
                   {"family", ""},
                   {"layers", ""},
                   {"hidden", ""},
                   {"heads", ""},
                   {"seq", ""},
                   {"vocab", ""},
                   {"batch", ""},
                   {"dtype", ""},
                   {"parameters", ""},
                   {"active", ""},
                   {"work", "TFLOP/sample"}});
  const auto size = [](std::int64_t value) { return value == 0 ? std::string("-") : fmt::format("{}", value); };
  for (const auto& [config, parameters, active, work] : rows)
    table.add_row({config.name, config.family, size(config.layers), size(config.hidden), size(config.heads),
                   size(config.seq), size(config.vocab), size(config.default_batch), name_of(config.default_dtype),
                   size(parameters), size(active == parameters ? 0 : active), fmt::format("{:.4g}", work.si() / 1e12)});
  print(table.to_text() +
        "# work: forward and backward of one sample; active: parameters used by one token\n# batch and dtype: defaults "
        "of --batch and --dtype\n" +
        other_models());
}

}  // namespace

void add_models(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("models", "List the built-in models and the model families.");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "print the result as JSON");
  verb->footer("Example:\n  meshwright models");
  verb->callback([&context, as_json] { context.action = [as_json] { print_models(*as_json); }; });
}

}  // namespace meshwright
