// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/model_file.h"

#include <algorithm>
#include <functional>

#include "core/base/errors.h"
#include "core/base/gzip.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/zip.h"
#include "core/graph/import/mlir/mlir_text.h"
#include "core/graph/import/names.h"
#include "core/graph/import/onnx/onnx_reader.h"
#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/primitive/choices.h"
#include "core/graph/import/primitive/constants_of_file.h"
#include "core/graph/import/primitive/emit/axes.h"
#include "core/graph/import/primitive/emit/blocks.h"
#include "core/graph/import/primitive/emit/emit.h"
#include "core/graph/import/primitive/emit/forward_half.h"
#include "core/graph/import/primitive/one_sample.h"
#include "core/graph/import/primitive/recognise/recognise.h"
#include "core/graph/import/torch/export_reader.h"
#include "core/graph/import/xla/hlo_text.h"
#include "core/graph/import/xla/xla_reader.h"

namespace meshwright {

namespace {

using primitive::Kind;
using primitive::Module;
using primitive::Node;

constexpr const char *kOnnx = ".onnx", *kTorch = ".pt2";
// Longer endings of a kind stand first.
constexpr const char* kEndings[] = {".onnx", ".pt2", ".json.gz", ".hlo.txt",  ".hlo",
                                    ".txt",  ".js",  ".mlir",    ".stablehlo"};
constexpr const char* kHloEndings[] = {".hlo", ".txt", ".js"};
constexpr const char* kMlirEndings[] = {".mlir", ".stablehlo"};
constexpr std::uint64_t kMaxProgram = std::uint64_t{1} << 28;  // bytes of an exported program without its weights

bool is_hlo_file(const std::string& path) {
  return std::any_of(std::begin(kHloEndings), std::end(kHloEndings),
                     [&](const char* end) { return path.ends_with(end); });
}
bool is_mlir_file(const std::string& path) {
  return std::any_of(std::begin(kMlirEndings), std::end(kMlirEndings),
                     [&](const char* end) { return path.ends_with(end); });
}

// Where a softmax or a product with parameters ends the model, its rows are logits: a cross entropy of new labels.
void add_loss(Module& module) {
  if (!primitive::cross_entropies_of(module, module.result).empty()) return;
  const auto at = [&](int i) -> const Node& { return module.nodes[static_cast<std::size_t>(i)]; };
  int logits = module.result;
  if (at(logits).kind == Kind::Log) logits = at(logits).inputs[0];
  if (at(logits).kind == Kind::Softmax &&
      at(logits).details.axes[0] + 1 == static_cast<std::int64_t>(at(logits).shape.size()))
    logits = at(logits).inputs[0];
  bool scores = logits != module.result;
  for (int i = logits; !scores && !at(i).inputs.empty();) {
    const Node& node = at(i);
    const auto weight = [&](int input) {
      int w = input;
      while (at(w).kind == Kind::Transpose || at(w).kind == Kind::Reshape) w = at(w).inputs[0];
      return at(w).kind == Kind::Parameter;
    };
    scores = (node.kind == Kind::MatMul || node.kind == Kind::Convolution) && weight(node.inputs[1]);
    const auto number = [&](int input) { return at(input).values && at(input).values->size() == 1; };
    const bool factor = node.kind == Kind::Multiply || node.kind == Kind::Divide;
    const bool passes = node.kind == Kind::Reshape || node.kind == Kind::Transpose || node.kind == Kind::Tanh ||
                        (node.kind == Kind::Add && weight(node.inputs[1])) || (factor && number(node.inputs[1])) ||
                        (node.kind == Kind::Multiply && number(node.inputs[0]));
    if (!passes) break;
    i = node.inputs[factor && number(node.inputs[0]) ? 1 : 0];
  }
  if (!scores || at(logits).shape.size() < 2) return;
  primitive::Builder builder(module);
  builder.name = "head";
  // One element of space, as a convolution over a whole image leaves, is none.
  primitive::Shape shape = at(logits).shape;
  if (shape.size() == 4 && shape[2] == 1 && shape[3] == 1 && shape[1] > 1) logits = builder.squeeze(logits, {2, 3});
  shape = at(logits).shape;
  if (shape.back() < 2) return;
  shape.pop_back();
  module.result = builder.cross_entropy(logits, builder.input("labels", shape, true));
}

class FileSource : public ForwardSource {
 public:
  FileSource(Module module, const std::string& place)
      : place_(place), module_(std::move(module)), axes_(make_axes(place)) {
    blocks_ = primitive::blocks_of(module_);
    summary.file_ops = module_.file_ops;
    summary.recognised = module_.recognised;
    summary.notes = module_.notes;
    summary.blocks = blocks_.empty() ? 0 : *std::max_element(blocks_.begin(), blocks_.end()) + 1;
  }
  void build(Graph& graph, LossReduction reduction) const override {
    require(graph.batch == 1 || !one_sample_alone,
            "'{}' has one sample, whose dimension cannot be told: it is planned with a micro-batch of 1 alone, not of "
            "{}; export it with 2 samples or more.",
            place_, graph.batch);
    primitive::emit(module_, axes_, blocks_, graph, reduction);
  }

  // Whether a dimension is the batch times something else.
  [[nodiscard]] bool merges_batch() const {
    return std::any_of(module_.nodes.begin(), module_.nodes.end(), [](const Node& node) {
      return std::any_of(node.shape.begin(), node.shape.end(), [](std::int64_t size) {
        return primitive::holds_batch(size) && size != primitive::kBatchProbe;
      });
    });
  }

  // Refuses a file of several samples that some op mixes.
  void expect_samples_apart() const {
    try {
      axes_.expect_samples_apart();
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", place_, error.what()));
    }
  }

  [[nodiscard]] primitive::KeptShardings shardings(const Graph& graph) const {
    return primitive::kept_shardings(module_, axes_, graph);
  }

  ModelFileSummary summary;
  bool one_sample_alone = false;

 private:
  [[nodiscard]] primitive::Axes make_axes(const std::string& place) const {
    try {
      return primitive::Axes(module_);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", place, error.what()));
    }
  }

  const std::string place_;
  const Module module_;
  const primitive::Axes axes_;
  std::vector<int> blocks_;
};

std::string model_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  for (const char* end : kEndings)
    if (name.size() > std::string_view(end).size() && name.ends_with(end)) {
      name.resize(name.size() - std::string_view(end).size());
      break;
    }
  return printable(name);
}

struct ReadModule {
  Module module;
  std::int64_t default_batch;
  DType dtype;
  std::optional<xla::ProgramSummary> program = {};
};

xla::Program read_program(std::string_view bytes, const std::string& path,
                          const std::map<std::string, std::int64_t>& dims) {
  if (is_mlir_file(path)) return mlir::read_mlir(bytes, dims, path);
  require(xla::is_hlo_text(bytes), "{}: the text holds no HloModule; give the text that XLA printed.", path);
  return xla::read_hlo_text(bytes, path);
}

// The JSON of an exported program, in its archive or alone.
std::string program_text(std::string_view bytes, const std::string& path) {
  if (path.ends_with(kTorch)) {
    for (const ZipEntry& entry : read_zip(bytes, path))
      if (entry.name.ends_with("models/model.json") || entry.name.ends_with("serialized_exported_program.json"))
        return unpacked(entry, kMaxProgram, path);
    throw InputError(
        fmt::format("{}: the archive holds no exported program; give a file that torch.export.save wrote.", path));
  }
  return read_all(unpacked(bytes, path, kMaxProgram));
}

// A file that holds a graph of ops, to be read as its batch is taken.
struct GraphFile {
  bool one_sample;
  std::function<ReadModule(primitive::OwnBatch)> read;
};

GraphFile open_graph(std::string_view bytes, const std::string& path, const std::map<std::string, std::int64_t>& dims) {
  if (path.ends_with(kOnnx)) {
    const auto file = std::make_shared<const onnx::OnnxFile>(onnx::read_onnx(bytes, path));
    return {onnx::has_one_sample(*file), [=, &path, &dims](primitive::OwnBatch samples) -> ReadModule {
              onnx::OnnxModule read = onnx::module_of(*file, dims, path, samples);
              return {std::move(read.module), read.default_batch, read.dtype};
            }};
  }
  const auto kept = std::make_shared<const torch::KeptNumbers>(
      path.ends_with(kTorch) ? torch::kept_numbers(read_zip(bytes, path), path) : torch::KeptNumbers());
  const auto program = std::make_shared<const Json>(parse_json(program_text(bytes, path), path));
  return {torch::has_one_sample(*program, path), [=, &path, &dims](primitive::OwnBatch samples) -> ReadModule {
            torch::ExportedModule read = torch::module_of(*program, *kept, dims, path, samples);
            return {std::move(read.module), read.default_batch, read.dtype};
          }};
}

// What the graph's dimensions are called tells the sizes that reports show.
void describe(ModelConfig& model) {
  Graph graph;
  graph.name = model.name;
  graph.batch = 1;
  model.file->source->build(graph, LossReduction::Mean);
  std::map<std::string, std::int64_t> sizes;
  for (const Tensor& tensor : graph.tensors())
    for (const Dim& dim : tensor.dims) sizes.emplace(dim.name, dim.size);
  model.hidden = sizes["embed"];
  model.seq = sizes["seq"];
  model.vocab = sizes["vocab"];
  model.heads = sizes["kv_heads"] * std::max<std::int64_t>(sizes["group"], 1);
}

struct FileModel {
  ModelConfig model;
  std::shared_ptr<FileSource> source;
};

FileModel model_of(const ReadModule& read, std::string_view bytes, const std::string& path,
                   const std::map<std::string, std::int64_t>& dims) {
  std::shared_ptr<FileSource> source;
  Module module;
  try {
    module = primitive::recognised(read.module);
    if (!primitive::end_before_loss(module)) add_loss(module);
    module = primitive::with_choices_written_out(std::move(module));
    primitive::make_constants_data(module);
    for (const Node& node : module.nodes)
      require(primitive::elements_of(node.shape) > 0, "op '{}' makes an empty tensor {}; give sizes above 0.",
              node.name, primitive::to_text(node.shape));
    primitive::expect_emittable(module);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path, refusal_sentence(error.what())));
  }
  source = std::make_shared<FileSource>(std::move(module), path);
  source->summary.program = read.program;
  ModelConfig model{.name = model_name(path), .family = "file", .layers = source->summary.blocks};
  model.default_batch = read.default_batch;
  model.default_dtype = read.dtype;
  model.file = ModelFile{path, fmt::format("{:016x}", stable_hash(bytes)), dims, source};
  try {
    describe(model);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path, refusal_sentence(error.what())));
  }
  return {std::move(model), std::move(source)};
}

// Whether a model that was read from a text of one sample can be planned for several. XLA drops dimensions of one
// element, so that the text may say a model of one sample alone, or one that mixes positions with samples.
bool makes_batches(const FileModel& read) {
  if (read.source->merges_batch()) return false;
  Graph graph;
  graph.name = read.model.name;
  graph.batch = 2;
  try {
    read.source->build(graph, LossReduction::Mean);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

ModelConfig model_of_program(std::string_view bytes, const std::string& path,
                             const std::map<std::string, std::int64_t>& dims) {
  const xla::Program program = read_program(bytes, path, dims);
  bool one_sample = false;
  const auto read = [&](xla::Samples samples) {
    xla::ImportedProgram made =
        xla::module_of(program, is_mlir_file(path) ? std::map<std::string, std::int64_t>{} : dims, path, samples);
    one_sample = made.module.batch == 1;
    return model_of({std::move(made.module), made.default_batch, made.dtype, xla::summary_of(program)}, bytes, path,
                    dims);
  };
  std::optional<FileModel> written;
  try {
    written = read(xla::Samples::AsWritten);
    if (!one_sample || makes_batches(*written)) return written->model;
  } catch (const InputError&) {
    if (!dims.empty() || !xla::may_have_one_sample(program, path)) throw;
  }
  try {
    return read(xla::Samples::OneOfSeveral).model;
  } catch (const InputError&) {
    if (!written) throw;
  }
  written->source->one_sample_alone = true;
  return written->model;
}

// A file of one sample is read as what it says of one. Where that has no form for several, dimensions of one element
// are taken for the batch as those of any other size are.
ModelConfig model_of_graph(std::string_view bytes, const std::string& path,
                           const std::map<std::string, std::int64_t>& dims) {
  const GraphFile file = open_graph(bytes, path, dims);
  const auto of_any_batch = [&] {
    FileModel made = model_of(file.read(primitive::OwnBatch::Any), bytes, path, dims);
    made.source->expect_samples_apart();
    return made.model;
  };
  if (!file.one_sample) return of_any_batch();
  std::string why;
  try {
    ReadModule read = file.read(primitive::OwnBatch::One);
    try {
      read.module = primitive::of_several_samples(std::move(read.module));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", path, refusal_sentence(error.what())));
    }
    return model_of(read, bytes, path, dims).model;
  } catch (const InputError& error) {
    why = error.what();
  }
  try {
    return of_any_batch();
  } catch (const InputError& error) {
    if (why == error.what()) throw;
  }
  why.resize(why.find_last_not_of('.') + 1);
  throw InputError(
      fmt::format("{}; the file has one sample, export it with 2 or with a batch that is left open.", why));
}

}  // namespace

bool is_model_file(const std::string& path) {
  return std::any_of(std::begin(kEndings), std::end(kEndings), [&](const char* end) { return path.ends_with(end); });
}

ModelConfig read_model_bytes(std::string_view bytes, const std::string& path,
                             const std::map<std::string, std::int64_t>& dims) {
  if (is_hlo_file(path) || is_mlir_file(path)) return model_of_program(bytes, path, dims);
  return model_of_graph(bytes, path, dims);
}

ModelConfig read_model_file(const std::string& path, const std::map<std::string, std::int64_t>& dims) {
  return read_model_bytes(read_file(path, kMaxFileBytes), path, dims);
}

std::optional<xla::ProgramSummary> program_of_file(const std::string& path,
                                                   const std::map<std::string, std::int64_t>& dims) {
  if (!is_hlo_file(path) && !is_mlir_file(path)) return std::nullopt;
  return xla::summary_of(read_program(read_file(path, kMaxFileBytes), path, dims));
}

primitive::KeptShardings shardings_of(const ModelConfig& model) {
  MW_CHECK(model.file.has_value(), "model '{}' has no file", model.name);
  Graph graph;
  graph.name = model.name;
  graph.batch = 1;
  model.file->source->build(graph, LossReduction::Mean);
  try {
    return static_cast<const FileSource&>(*model.file->source).shardings(graph);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", model.file->path, error.what()));
  }
}

const ModelFileSummary& summary_of(const ModelConfig& model) {
  MW_CHECK(model.file.has_value(), "model '{}' has no file", model.name);
  return static_cast<const FileSource&>(*model.file->source).summary;
}

}  // namespace meshwright
