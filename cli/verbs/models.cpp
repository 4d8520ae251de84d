// SPDX-License-Identifier: Apache-2.0
// meshwright models: the built-in models, and which others there can be.
#include "core/graph/models/models.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/graph/import/find_model.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/model_file.h"

namespace meshwright {

namespace {

struct ModelRow {
  ModelConfig config;
  std::int64_t parameters = 0, active = 0;
  Flops per_sample{0.0};  // forward and backward
};

Graph graph_of(const ModelConfig& config) {
  TrainingOptions training;
  training.batch = 1;
  training.dtype = config.default_dtype;
  return build_training_graph(config, training);
}

ModelRow measure(const ModelConfig& config, const Graph& graph) {
  return {config, parameter_count(graph), active_parameter_count(graph), graph_flops(graph)};
}

Json to_json(const ModelRow& row) {
  Json model = to_json(row.config);
  model["parameters"] = row.parameters;
  model["active_parameters"] = row.active;
  model["tflop_per_sample"] = row.per_sample.si() / 1e12;
  return model;
}

// What else --model takes.
std::string other_models() {
  std::string text = "# model families for --model, with the sizes that must be given:\n";
  for (const std::string& example : example_sizes()) text += fmt::format("#   {}\n", example);
  text +=
      "# files of ops, for --model path/model.onnx: ONNX (.onnx), PyTorch's exported programs (.pt2), HLO text of XLA "
      "(.hlo), StableHLO (.mlir)\n";
  return text + fmt::format("# families of Hugging Face's config.json, for --model path/config.json: {}\n",
                            join(hf_model_types(), ", "));
}

void print_models(bool as_json) {
  const std::vector<ModelConfig> known = builtin_models();
  std::vector<ModelRow> rows(known.size());
  for_each_index(rows.size(), threads_from_text(""),
                 [&](std::size_t i) { rows[i] = measure(known[i], graph_of(known[i])); });
  if (as_json) {
    Json models = Json::array();
    for (const ModelRow& row : rows) models.push_back(to_json(row));
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

// Parameters that differ in the number of their block alone: "blk*.mlp.up.weight".
struct ParameterRow {
  std::string name, shape, dtype;
  std::int64_t count = 0, elements = 0;  // of all of them
};

// The name with a star for the number of its block: one between dots, else one behind another character.
std::string without_number(const std::string& name, int block) {
  const std::string number = fmt::format("{}", block);
  const auto is_digit = [&](std::size_t i) {
    return i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0;
  };
  for (const bool between_dots : {true, false})
    for (std::size_t at = name.find(number); at != std::string::npos; at = name.find(number, at + 1)) {
      const std::size_t end = at + number.size();
      const bool begins = at == 0 || (between_dots ? name[at - 1] == '.' : !is_digit(at - 1));
      if (begins && (end == name.size() || name[end] == '.')) return name.substr(0, at) + "*" + name.substr(end);
    }
  return name;
}

// [tensor] the block of the first op of a block that reads it; -1: none does.
std::vector<int> blocks_of_tensors(const Graph& graph) {
  std::vector<int> blocks(graph.tensors().size(), -1);
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Forward && op.block >= 0)
      for (const TensorId input : op.inputs)
        if (blocks[input.index()] < 0) blocks[input.index()] = op.block;
  return blocks;
}

std::vector<ParameterRow> parameter_rows(const Graph& graph) {
  const std::vector<int> blocks = blocks_of_tensors(graph);
  std::vector<ParameterRow> rows;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    std::vector<std::string> dims;
    for (const Dim& dim : tensor.dims) dims.push_back(fmt::format("{}={}", dim.name, dim.size));
    const int block = blocks[tensor.id.index()];
    const std::string name = block < 0 ? tensor.name : without_number(tensor.name, block);
    ParameterRow row{name, join(dims, " x "), name_of(tensor.dtype), 1, tensor.elements()};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const ParameterRow& other) {
      return other.name == row.name && other.shape == row.shape && other.dtype == row.dtype;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
    } else {
      ++same->count;
      same->elements += row.elements;
    }
  }
  return rows;
}

Json parameters_json(const std::vector<ParameterRow>& rows) {
  Json parameters = Json::array();
  for (const ParameterRow& row : rows)
    parameters.push_back({{"name", row.name},
                          {"shape", row.shape},
                          {"dtype", row.dtype},
                          {"count", row.count},
                          {"elements", row.elements}});
  return parameters;
}

std::map<std::string, std::int64_t> forward_histogram(const Graph& graph) {
  std::map<std::string, std::int64_t> counts;
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Forward) ++counts[name_of(op.kind)];
  return counts;
}

std::string counts_text(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts) texts.push_back(fmt::format("{} {}", name, count));
  return texts.empty() ? "none" : join(texts, ", ");
}

// What one sample's forward makes, and what the weights and Adam's states take.
Bytes made_by_forward(const Graph& graph) {
  Bytes total(0.0);
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Forward)
      for (const TensorId output : op.outputs) total += graph.tensor(output).bytes();
  return total;
}
Bytes kept_by_parameters(const Graph& graph) {
  Bytes total(0.0);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState ||
        tensor.kind == TensorKind::Accumulator)
      total += tensor.bytes();
  return total;
}

// What a program of XLA does, as it stands in its file.
std::string program_text(const xla::ProgramSummary& program) {
  std::string text =
      fmt::format("# program of XLA: {} instructions in {} computations", program.instructions, program.computations);
  if (program.partitions > 1) text += fmt::format(", already split for {} devices", program.partitions);
  if (program.cut_off) text += "; the text ends inside a computation: what is there counts";
  text += fmt::format("\n# work in the file{}: dots {:.4g} TFLOP ({} in the text), convolutions {:.4g} TFLOP ({})",
                      program.partitions > 1 ? ", per device" : "", program.dot_flops / 1e12, program.dots,
                      program.convolution_flops / 1e12, program.convolutions);
  std::vector<std::string> loops;
  for (const std::int64_t trips : program.trip_counts) loops.push_back(fmt::format("{}", trips));
  if (!loops.empty()) text += fmt::format("; loops of {} turns counted", join(loops, ", "));
  if (program.unknown_loops > 0)
    text += fmt::format("; {} loops of unknown length counted once", program.unknown_loops);
  text += "\n";
  for (const auto& [kind, of] : program.collectives)
    text += fmt::format("# {}: {} in the text, {:g} when run, {} on each device\n", kind, of.instructions, of.runs,
                        human_bytes(Bytes(of.bytes)));
  return text;
}

Json program_json(const xla::ProgramSummary& program) {
  Json collectives = Json::object();
  for (const auto& [kind, of] : program.collectives)
    collectives[kind] = {{"instructions", of.instructions}, {"runs", of.runs}, {"bytes", of.bytes}};
  return {{"instructions", program.instructions},
          {"computations", program.computations},
          {"partitions", program.partitions},
          {"cut_off", program.cut_off},
          {"dots", program.dots},
          {"dot_tflop", program.dot_flops / 1e12},
          {"convolutions", program.convolutions},
          {"convolution_tflop", program.convolution_flops / 1e12},
          {"trip_counts", program.trip_counts},
          {"unknown_loops", program.unknown_loops},
          {"collectives", std::move(collectives)}};
}

// A program that can be described but not planned: what it does, and why no model is made of it.
void print_program(const std::string& name, const xla::ProgramSummary& program, const std::string& why, bool as_json) {
  if (as_json)
    return print(Json{{"verb", "models"},
                      {"name", name},
                      {"file_ops", program.opcodes},
                      {"program", program_json(program)},
                      {"no_model", why}});
  print(fmt::format("# {}\n{}# operators in the file: {}\n# no model is made of it: {}\n", name, program_text(program),
                    counts_text(program.opcodes), why));
}

std::string file_text(const ModelConfig& config, const Graph& graph) {
  const ModelFileSummary& summary = summary_of(config);
  std::string text = fmt::format(
      "# weights, gradients and Adam's states {}; results of one sample's forward {}\n# operators in the file: {}\n"
      "# recognised: {}\n# forward ops: {}\n",
      human_bytes(kept_by_parameters(graph)), human_bytes(made_by_forward(graph)), counts_text(summary.file_ops),
      counts_text(summary.recognised), counts_text(forward_histogram(graph)));
  if (summary.program) text += program_text(*summary.program);
  for (const std::string& note : summary.notes) text += fmt::format("# note: {}\n", note);
  return text;
}

Json file_json(const ModelConfig& config, const Graph& graph) {
  const ModelFileSummary& summary = summary_of(config);
  Json file = {{"blocks", summary.blocks},
               {"file_ops", summary.file_ops},
               {"recognised", summary.recognised},
               {"forward_ops", forward_histogram(graph)},
               {"notes", summary.notes},
               {"parameter_bytes", kept_by_parameters(graph).si()},
               {"forward_bytes_per_sample", made_by_forward(graph).si()}};
  if (summary.program) file["program"] = program_json(*summary.program);
  return file;
}

// One model: its sizes, its work, and what it is made of.
void print_model(const std::string& name, const std::vector<std::string>& dims, bool as_json) {
  ModelConfig config;
  try {
    config = find_model(name, dims_from_texts(dims));
  } catch (const InputError& error) {
    const std::optional<xla::ProgramSummary> program = program_of_file(name, dims_from_texts(dims));
    if (!program) throw;
    return print_program(name, *program, error.what(), as_json);
  }
  const Graph graph = graph_of(config);
  const ModelRow row = measure(config, graph);
  const std::vector<ParameterRow> parameters = parameter_rows(graph);
  if (as_json) {
    Json model = to_json(row);
    model["verb"] = "models";
    if (config.file) model.update(file_json(config, graph));
    model["tensors"] = parameters_json(parameters);
    model["left_out"] = left_out_of_model(name);
    if (const std::vector<std::string> assumed = assumed_of_model(name); !assumed.empty()) model["assumed"] = assumed;
    return print(model);
  }
  std::string text =
      fmt::format("# {} of family {}: {} layers, hidden {}", config.name, config.family, config.layers, config.hidden);
  const auto add = [&](const char* what, std::int64_t size) {
    if (size > 0) text += fmt::format(", {} {}", what, size);
  };
  add("heads", config.heads);
  add("seq", config.seq);
  add("vocab", config.vocab);
  for (const auto& [key, value] : config.more) text += fmt::format(", {} {}", key, value);
  for (const auto& [key, value] : config.factors) text += fmt::format(", {} {:g}", key, value);
  if (config.rotary_scaling) text += fmt::format(", rotation scaled ({})", text_of(*config.rotary_scaling));
  text += fmt::format("\n# {} parameters", row.parameters);
  if (row.active != row.parameters) text += fmt::format(", {} used by one token", row.active);
  text += fmt::format("; forward and backward of one sample {:.4g} TFLOP; {} by default\n", row.per_sample.si() / 1e12,
                      name_of(config.default_dtype));
  if (config.file) text += file_text(config, graph);
  if (const std::vector<std::string> left_out = left_out_of_model(name); !left_out.empty())
    text += fmt::format("# in the file, but left out: {}\n", join(left_out, ", "));
  if (const std::vector<std::string> assumed = assumed_of_model(name); !assumed.empty())
    text += fmt::format("# taken for granted: {}\n", join(assumed, "; "));
  TextTable table({{"parameter", ""}, {"shape", ""}, {"dtype", ""}, {"count", ""}, {"elements", "of all"}});
  for (const ParameterRow& of : parameters)
    table.add_row({of.name, of.shape, of.dtype, fmt::format("{}", of.count), fmt::format("{}", of.elements)});
  print(text + table.to_text());
}

}  // namespace

void add_models(CLI::App& app, Context& context) {
  struct Options {
    std::string model;
    std::vector<std::string> dims;
    bool json = false;
  };
  CLI::App* verb =
      app.add_subcommand("models", "List the built-in models and the model families, or describe one model.");
  auto options = std::make_shared<Options>();
  verb->add_option("model", options->model,
                   "describe this one: a built-in model, a family with sizes, a Hugging Face config.json, or a file of "
                   "ops (.onnx, .pt2, .hlo, .mlir)");
  verb->add_option("--dim", options->dims, "NAME=SIZE: size of a dimension that the file leaves open; repeatable")
      ->allow_extra_args(false);
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer("Example:\n  meshwright models llama-3.1-8b");
  verb->callback([&context, options] {
    context.action = [options] {
      if (options->model.empty())
        print_models(options->json);
      else
        print_model(options->model, options->dims, options->json);
    };
  });
}

}  // namespace meshwright
