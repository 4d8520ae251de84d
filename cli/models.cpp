// SPDX-License-Identifier: Apache-2.0
// meshwright models: the built-in models.
#include "core/graph/models/models.h"

#include <CLI/CLI.hpp>

#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/text_table.h"

namespace meshwright {

namespace {

struct ModelRow {
  ModelConfig config;
  std::int64_t parameters;
  Flops per_sample;  // forward and backward
};

ModelRow measure(const ModelConfig& config) {
  TrainingOptions training;
  training.batch = 1;
  training.dtype = config.default_dtype;
  const Graph graph = build_training_graph(config, training);
  return {config, parameter_count(graph), graph_flops(graph)};
}

void print_models(bool as_json) {
  std::vector<ModelRow> rows;
  for (const ModelConfig& config : builtin_models()) rows.push_back(measure(config));
  if (as_json) {
    Json models = Json::array();
    for (const ModelRow& row : rows) {
      Json model = to_json(row.config);
      model["parameters"] = row.parameters;
      model["tflop_per_sample"] = row.per_sample.si() / 1e12;
      models.push_back(std::move(model));
    }
    return print(Json{{"verb", "models"}, {"models", std::move(models)}});
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
                   {"work", "TFLOP/sample"}});
  const auto size = [](std::int64_t value) { return value == 0 ? std::string("-") : fmt::format("{}", value); };
  for (const auto& [config, parameters, work] : rows)
    table.add_row({config.name, config.family, size(config.layers), size(config.hidden), size(config.heads),
                   size(config.seq), size(config.vocab), size(config.default_batch), name_of(config.default_dtype),
                   size(parameters), fmt::format("{:.4g}", work.si() / 1e12)});
  print(table.to_text() +
        "# work: forward and backward of one sample; batch and dtype: what is taken when --batch and --dtype are not "
        "given\n"
        "# other sizes: gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128   mlp:layers=2,hidden=2048\n");
}

}  // namespace

void add_models(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("models", "List the built-in models.");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "print the table as JSON");
  verb->footer("Example:\n  meshwright models");
  verb->callback([&context, as_json] { context.action = [as_json] { print_models(*as_json); }; });
}

}  // namespace meshwright
