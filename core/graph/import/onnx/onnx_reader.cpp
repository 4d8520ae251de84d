// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/onnx_reader.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/names.h"
#include "core/graph/import/onnx/branches.h"
#include "core/graph/import/onnx/functions.h"
#include "core/graph/import/onnx/initializers.h"
#include "core/graph/import/onnx/loops.h"
#include "core/graph/import/onnx/node_reader.h"
#include "core/graph/import/onnx/written_numbers.h"

namespace meshwright::onnx {

namespace {

using primitive::Builder;
using primitive::kBatchProbe;
using primitive::Kind;
using primitive::Module;
using primitive::Shape;

std::string full_name(const OnnxNode& node) {
  return printable(node.domain.empty() ? node.op : node.domain + ":" + node.op);
}

// The path of the module that a node is of, where PyTorch's exporter has written it: all but the op itself.
std::string module_of_scope(const std::string& scope) {
  const std::size_t op = scope.rfind('/');
  return op == std::string::npos ? std::string() : scope.substr(0, op);
}

// Whether operand k is a weight in whole numbers, which the operator takes for those that they stand for.
bool is_quantized_weight(const OnnxNode& node, std::size_t k) {
  const bool takes = k == 0 ? node.op == "DequantizeLinear" : node.op == "MatMulInteger" || node.op == "ConvInteger";
  return takes && k < node.inputs.size();
}

class Reader {
 public:
  Reader(const OnnxFile& file, const std::map<std::string, std::int64_t>& dims, std::string place,
         primitive::OwnBatch samples)
      : file_(file),
        given_(dims),
        place_(std::move(place)),
        samples_(samples),
        builder_(made_.module),
        numbers_(numbers_in(file, place_)) {
    for (const TensorValue& tensor : file.initializers) initializers_.emplace(tensor.name, &tensor);
    for (const OnnxNode& node : file.nodes)
      if (is_quantized_weight(node, 0) || is_quantized_weight(node, 1))
        quantized_.insert(node.inputs[is_quantized_weight(node, 0) ? 0 : 1]);
      else if (node.op == "EmbedLayerNormalization" && node.inputs.size() > 2)
        tables_.insert(node.inputs[2]);
      else if (node.op == "Gather" && node.inputs.size() == 2 && initializers_.contains(node.inputs[0]))
        tables_.insert(node.inputs[0]);
    for (const OnnxNode& node : file.nodes)
      for (const std::string& input : node.inputs)
        if (initializers_.contains(input)) modules_.emplace(input, module_of_scope(node.scope));
    for (std::size_t i = 0; i < file.nodes.size(); ++i)
      for (const std::string& output : file.nodes[i].outputs)
        if (!output.empty())
          require(makers_.emplace(output, i).second, "{}: two nodes make '{}'; the file is damaged, export it again.",
                  place_, output);
  }

  // What a value of one element is, where shapes and constants tell. Throws InputError for sizes that must be given.
  std::optional<double> number(const std::string& value) {
    read_inputs();
    try {
      const std::vector<std::size_t> order = needed_nodes(value);
      expect_known(order);
      for (const std::size_t i : order) read_node(file_.nodes[i]);
      return builder_.scalar_of(value_of(value));
    } catch (const InputError&) {
      return std::nullopt;  // what has no equal is named when the model is read
    }
  }

  OnnxModule read() {
    const std::vector<std::size_t> order = needed_nodes(file_.outputs[0].name);
    expect_known(order);
    read_inputs();
    for (const std::size_t i : order) read_node(file_.nodes[i]);
    builder_.name = printable(file_.outputs[0].name);
    builder_.block.clear();
    made_.module.result = value_of(file_.outputs[0].name);
    for (std::size_t k = 1; k < file_.outputs.size(); ++k) others_.push_back(file_.outputs[k].name);
    if (!others_.empty())
      made_.module.notes.push_back(
          fmt::format("'{}' is the model's result; {} other output{} and what only {} need{} "
                      "are left out",
                      file_.outputs[0].name, others_.size(), others_.size() == 1 ? "" : "s",
                      others_.size() == 1 ? "it" : "they", others_.size() == 1 ? "s" : ""));
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::vector<std::size_t> needed_nodes(const std::string& value) const;
  void expect_known(const std::vector<std::size_t>& order);
  void read_inputs();
  void find_batch(const std::vector<const OnnxValue*>& inputs);
  void read_node(const OnnxNode& node);
  [[nodiscard]] int value_of(const std::string& name);
  [[nodiscard]] int value_for(const OnnxNode& node, const std::string& name);
  [[nodiscard]] Shape unrepeated(const Shape& dims, const std::vector<double>& values, bool varies);
  [[nodiscard]] std::optional<int> rows_of_table(const std::string& name, const Shape& dims,
                                                 const std::vector<double>& values);
  [[nodiscard]] int initializer(const TensorValue& tensor);
  [[nodiscard]] std::vector<int> held(const OnnxNode& node);

  const OnnxFile& file_;
  const std::map<std::string, std::int64_t>& given_;
  const std::string place_;
  const primitive::OwnBatch samples_;
  OnnxModule made_;
  Builder builder_;
  std::map<std::string, const TensorValue*> initializers_;
  std::set<std::string> tables_;         // initializers that rows are picked from
  std::set<std::string> quantized_;      // initializers of whole numbers that stand for weights
  const std::set<std::string> numbers_;  // initializers that are no weights
  std::map<std::uint64_t, std::vector<const TensorValue*>> weights_;  // by their bytes
  std::map<std::string, std::string> modules_;                        // of the first node that reads an initializer
  std::map<std::pair<std::string, std::string>, int> copies_;         // of a row, for each module that has one like it
  std::map<std::string, std::size_t> makers_;
  std::map<std::string, int> values_;
  std::map<std::string, std::int64_t> sizes_;  // of named dimensions
  std::vector<std::string> others_;
  bool typed_ = false;
};

// The nodes that a value depends on, each behind what it reads.
std::vector<std::size_t> Reader::needed_nodes(const std::string& value) const {
  std::vector<std::size_t> order;
  std::vector<int> state(file_.nodes.size(), 0);  // 1: its operands are being visited; 2: in the order
  std::vector<std::pair<std::size_t, std::size_t>> path;
  const auto enter = [&](const std::string& name) {
    const auto maker = makers_.find(name);
    if (maker == makers_.end() || state[maker->second] == 2) return;
    require(state[maker->second] == 0,
            "{}: node '{}' depends on its own result '{}'; the file is damaged, export it "
            "again.",
            place_, printable(file_.nodes[maker->second].name), printable(name));
    state[maker->second] = 1;
    path.emplace_back(maker->second, 0);
  };
  enter(value);
  while (!path.empty()) {
    const std::size_t node = path.back().first;
    const std::vector<std::string>& inputs = file_.nodes[node].inputs;
    if (path.back().second < inputs.size()) {
      const std::string& input = inputs[path.back().second++];
      if (!input.empty()) enter(input);
    } else {
      state[node] = 2;
      order.push_back(node);
      path.pop_back();
    }
  }
  // The file's own order is kept where it is one.
  std::vector<std::size_t> by_file = order;
  std::sort(by_file.begin(), by_file.end());
  std::vector<bool> met(file_.nodes.size(), false);
  for (const std::size_t node : by_file) {
    for (const std::string& input : file_.nodes[node].inputs)
      if (const auto maker = makers_.find(input); maker != makers_.end() && !met[maker->second]) return order;
    met[node] = true;
  }
  return by_file;
}

// All that have no equal are named at once.
void Reader::expect_known(const std::vector<std::size_t>& order) {
  std::map<std::string, std::int64_t> unknown;
  bool gradients = false;
  for (const std::size_t i : order) {
    const OnnxNode& node = file_.nodes[i];
    const std::string name = full_name(node);
    ++made_.module.file_ops[name];
    if (rules().contains(name) || name == "Constant" || name == "ConstantOfShape") continue;
    ++unknown[name];
    gradients = gradients || node.op.find("Grad") != std::string::npos;
  }
  std::vector<std::string> texts;
  for (const auto& [name, count] : unknown) texts.push_back(fmt::format("{} ({})", name, count));
  require(unknown.empty(), "{}: operators that have no equal here (with their number): {}; {}.", place_,
          join(texts, ", "),
          gradients ? "the file holds gradients, give the model's forward graph instead"
                    : "export the model with operators of the standard set, see docs/models.md");
}

void Reader::find_batch(const std::vector<const OnnxValue*>& inputs) {
  for (const OnnxValue* input : inputs) {
    if (input->dims.empty()) continue;
    const OnnxDim& first = input->dims[0];
    if (first.size) {
      require(*first.size > 0, "{}: input '{}' has a batch of 0; export the model with one of at least 1.", place_,
              input->name);
      made_.default_batch = *first.size;
      made_.module.one_sample = samples_ == primitive::OwnBatch::One && *first.size == 1;
      if (!made_.module.one_sample) made_.module.batch = *first.size;
    } else {
      const std::string name = first.name.empty() ? input->name + ".0" : first.name;
      sizes_[name] = kBatchProbe;
      if (const auto given = given_.find(name); given != given_.end()) made_.default_batch = given->second;
      require(made_.default_batch >= 1, "--dim {}: a batch has at least 1 sample.", name);
    }
    return;
  }
  throw InputError(fmt::format("{}: the model has no input with a batch; export it with its inputs.", place_));
}

void Reader::read_inputs() {
  std::vector<const OnnxValue*> inputs;
  for (const OnnxValue& input : file_.inputs)
    if (!initializers_.contains(input.name)) inputs.push_back(&input);
  find_batch(inputs);
  std::set<std::string> used, open;
  for (const OnnxValue* input : inputs) {
    Shape shape;
    for (std::size_t d = 0; d < input->dims.size(); ++d) {
      const OnnxDim& dim = input->dims[d];
      if (dim.size) {
        const bool batch = d == 0 && made_.module.batch > 0 && *dim.size == made_.module.batch;
        shape.push_back(batch ? kBatchProbe : *dim.size);
        continue;
      }
      const std::string name = dim.name.empty() ? fmt::format("{}.{}", input->name, d) : dim.name;
      const auto given = given_.find(name);
      if (given != given_.end()) used.insert(name);
      if (sizes_.contains(name))
        shape.push_back(sizes_.at(name));
      else if (given != given_.end())
        shape.push_back(given->second);
      else
        open.insert(printable(name)), shape.push_back(1);
    }
    const bool integer = input->type != 1 && input->type != 10 && input->type != 11 && input->type != 16;
    require(std::count(shape.begin(), shape.end(), 0) > 0 || primitive::elements_of(shape) > 0,
            "{}: input '{}' is empty.", place_, input->name);
    values_[input->name] = builder_.input(printable(input->name), shape, integer);
  }
  require(open.empty(), "{}: the file leaves the size{} {} open; give {}.", place_, open.size() == 1 ? "" : "s",
          join({open.begin(), open.end()}, ", "),
          join(
              [&] {
                std::vector<std::string> options;
                for (const std::string& name : open) options.push_back(fmt::format("--dim {}=SIZE", name));
                return options;
              }(),
              " "));
  for (const auto& [name, size] : given_)
    require(used.contains(name), "--dim: '{}' has no open dimension '{}'; leave it out.", place_, name);
}

// The shape of a parameter that an exporter has repeated for the file's own batch and, where its numbers are not all
// the same, for other dimensions beside it: such as rows that it picked from a table, or a number of each head.
Shape Reader::unrepeated(const Shape& dims, const std::vector<double>& values, bool varies) {
  const std::int64_t batch = std::max<std::int64_t>(builder_.module().batch, 1);
  Shape once = dims;
  if (dims[0] != batch || !primitive::repeats_along(dims, values, 0)) {
    for (std::size_t d = 1; d + 1 < dims.size() && varies && batch > 1; ++d)
      if (dims[d] == batch && primitive::repeats_along(dims, values, d)) once[d] = 1;
    return once;
  }
  once[0] = 1;
  for (std::size_t d = 1; d < dims.size() && varies; ++d)
    if (primitive::repeats_along(dims, values, d)) once[d] = 1;
  return once;
}

// A weight that the exporter has picked from a table of fewer rows: these, looked up.
std::optional<int> Reader::rows_of_table(const std::string& name, const Shape& dims,
                                         const std::vector<double>& values) {
  const std::optional<PickedRows> picked = picked_rows(dims, values);
  if (!picked) return std::nullopt;
  made_.module.notes.push_back(fmt::format("'{}' has {} rows of numbers that repeat: a table of these, looked up",
                                           printable(name), picked->rows));
  const int table = builder_.parameter(printable(name), {picked->rows, picked->columns});
  const int ids = builder_.constant({std::ssize(picked->ids)}, true, picked->ids);
  return builder_.reshape(builder_.swap(builder_.gather(table, ids, 0), 0, 1), dims);
}

int Reader::initializer(const TensorValue& tensor) {
  if (primitive::elements_of(tensor.dims) > 1 && quantized_.contains(tensor.name)) {
    const std::string note = "weights and results that the file rounds to few bits are of full precision here";
    if (std::find(made_.module.notes.begin(), made_.module.notes.end(), note) == made_.module.notes.end())
      made_.module.notes.push_back(note);
    return builder_.parameter(printable(tensor.name), tensor.dims);
  }
  const std::optional<std::vector<double>> values = values_of(tensor, 1 << 24, place_);
  const bool single = primitive::elements_of(tensor.dims) == 1;
  // A mask that hides nothing: no weight has such a shape and nothing but zeros.
  const bool hides_nothing = values && tensor.dims.size() == 4 && tensor.dims[1] == 1 &&
                             tensor.dims[2] == tensor.dims[3] &&
                             std::all_of(values->begin(), values->end(), [](double value) { return value == 0.0; });
  if (hides_nothing) return builder_.broadcast(builder_.scalar(0.0), tensor.dims);
  const bool trained = !tensor.integer() && !(single && values) && !numbers_.contains(tensor.name) &&
                       primitive::elements_of(tensor.dims) > 0 &&
                       !(values && (is_mask(*values, tensor.dims) || is_turning_table(*values, tensor.dims) ||
                                    is_table_of_both(*values, tensor.dims) || is_progression(*values, tensor.dims)));
  if (trained && !typed_) {
    typed_ = true;
    made_.dtype = tensor.type == 10   ? DType::F16
                  : tensor.type == 16 ? DType::BF16
                  : tensor.type == 11 ? DType::F64
                                      : DType::F32;
  }
  // A head that is the word table is written a second time by exporters that transpose it.
  if (trained && !tables_.contains(tensor.name))
    for (const std::string& table : tables_)
      if (initializers_.contains(table) && is_transposed(tensor, *initializers_.at(table))) {
        made_.module.notes.push_back(fmt::format("'{}' is the table '{}' transposed: one parameter, trained as such",
                                                 printable(tensor.name), printable(table)));
        return builder_.swap(value_of(table), 0, 1);
      }
  const auto is_first = [&](double value) { return value == values->front(); };
  const bool varies = tensor.dims.size() > 1 && values && !std::all_of(values->begin(), values->end(), is_first);
  if (trained && values && tensor.dims.size() > 2)
    if (const Shape once = unrepeated(tensor.dims, *values, varies); once != tensor.dims)
      return builder_.broadcast(builder_.parameter(printable(tensor.name), once), tensor.dims);
  if (trained && values && (tensor.type == 1 || tensor.type == 11)) {
    if (const std::optional<HiddenScores> told = hidden_scores(tensor.dims, *values)) {
      const std::optional<int> rows = rows_of_table(tensor.name, told->own, told->values);
      return builder_.binary(Kind::Add, rows ? *rows : builder_.parameter(printable(tensor.name), told->own),
                             builder_.constant(told->mask_dims, false, told->mask));
    }
    if (const std::optional<int> rows = rows_of_table(tensor.name, tensor.dims, *values)) return *rows;
  }
  const bool zeros = !trained && !tensor.integer() && values && tensor.dims.size() > 1 && !values->empty() &&
                     std::all_of(values->begin(), values->end(), [](double value) { return value == 0.0; });
  if (zeros) return builder_.broadcast(builder_.scalar(0.0), tensor.dims);
  if (!trained) return builder_.constant(tensor.dims, tensor.integer(), values);
  // A weight of several layers is written once for each by exporters that transpose it.
  if (varies)
    for (const TensorValue* same : weights_[stable_hash(tensor.raw)])
      if (same->dims == tensor.dims && same->type == tensor.type && same->raw == tensor.raw && !tensor.raw.empty() &&
          modules_[same->name] == modules_[tensor.name] && !(is_path(same->name) && is_path(tensor.name))) {
        made_.module.notes.push_back(fmt::format("'{}' has the numbers of '{}': one parameter, trained as such",
                                                 printable(tensor.name), printable(same->name)));
        return value_of(same->name);
      }
  if (varies) weights_[stable_hash(tensor.raw)].push_back(&tensor);
  return builder_.parameter(printable(tensor.name), tensor.dims);
}

int Reader::value_of(const std::string& name) {
  const auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  const auto tensor = initializers_.find(name);
  require(tensor != initializers_.end(),
          "{}: op '{}' reads '{}', which nothing makes; the file is damaged, export it "
          "again.",
          place_, builder_.name, printable(name));
  return values_[name] = initializer(*tensor->second);
}

// Exporters write rows of the same numbers once, such as the zeros of all biases: each module has its own.
int Reader::value_for(const OnnxNode& node, const std::string& name) {
  const int first = value_of(name);
  const auto tensor = initializers_.find(name);
  if (tensor == initializers_.end() || builder_.at(first).kind != Kind::Parameter) return first;
  const std::string module = module_of_scope(node.scope), &own = modules_[name];
  if (tensor->second->dims.size() != 1 || module.empty() || own.empty() || module == own) return first;
  const auto [copy, is_new] = copies_.emplace(std::pair{name, module}, -1);
  if (is_new)
    copy->second = builder_.parameter(fmt::format("{}.{}", printable(name), builder_.name), builder_.shape(first));
  return copy->second;
}

// Constant and ConstantOfShape.
std::vector<int> Reader::held(const OnnxNode& node) {
  const auto value = node.attributes.find("value");
  const bool has_tensor = value != node.attributes.end() && value->second.tensor.has_value();
  if (node.op == "ConstantOfShape") {
    require(!node.inputs.empty(), "{}: op '{}' has no shape; the file is damaged, export it again.", place_, node.name);
    const Shape shape = builder_.integers_of(value_of(node.inputs[0]), "shape");
    for (const std::int64_t size : shape) builder_.expect(size >= 0, "a size of its shape is negative");
    const auto held = has_tensor ? values_of(*value->second.tensor, 1, place_) : std::vector<double>{0.0};
    const double number = held && !held->empty() ? held->front() : 0.0;
    const bool integer = has_tensor && value->second.tensor->integer();
    const std::int64_t count = primitive::elements_of(shape);
    if (!integer && count > 1 && number != std::round(number) && std::abs(number) < -kMasked)
      return {builder_.parameter(printable(node.outputs[0]), shape)};
    if (count > primitive::kMaxValues)
      return {builder_.broadcast(builder_.constant({}, integer, std::vector<double>{number}), shape)};
    return {builder_.constant(shape, integer, std::vector<double>(static_cast<std::size_t>(count), number))};
  }
  if (has_tensor) {
    const TensorValue& tensor = *value->second.tensor;
    return {builder_.constant(tensor.dims, tensor.integer(), values_of(tensor, primitive::kMaxValues, place_))};
  }
  for (const auto& [name, attribute] : node.attributes) {
    if (name == "value_float") return {builder_.scalar(attribute.real)};
    if (name == "value_int")
      return {builder_.constant({}, true, std::vector<double>{static_cast<double>(attribute.number)})};
    if (name == "value_ints") return {builder_.integers(attribute.numbers)};
    if (name == "value_floats")
      return {builder_.constant({static_cast<std::int64_t>(attribute.reals.size())}, false, attribute.reals)};
  }
  builder_.fail("a Constant without a tensor or number has no equal here");
}

void Reader::read_node(const OnnxNode& node) {
  require(!node.outputs.empty(), "{}: op '{}' has no result; the file is damaged, export it again.", place_, node.name);
  builder_.name = printable(node.outputs[0]);
  // A module path in the metadata, in the node's name, or in the names of its weights.
  builder_.block = block_of(node.scope);
  for (const std::string* name : {&node.name, &node.outputs[0]})
    if (builder_.block.empty()) builder_.block = block_of(*name);
  for (const std::string& input : node.inputs)
    if (builder_.block.empty() && initializers_.contains(input)) builder_.block = block_of(input);
  const auto rule = rules().find(full_name(node));
  std::vector<int> made;
  try {
    made = rule == rules().end() ? held(node)
                                 : rule->second({builder_, node, file_.opset, [this, &node](const std::string& name) {
                                                   return value_for(node, name);
                                                 }});
  } catch (const InputError& error) {
    const std::string why = error.what();
    throw InputError(why.starts_with(place_) ? why : fmt::format("{}: {} {}", place_, node.op, refusal_sentence(why)));
  }
  for (std::size_t k = 0; k < node.outputs.size() && k < made.size(); ++k)
    if (!node.outputs[k].empty()) values_[node.outputs[k]] = made[k];
}

}  // namespace

bool has_one_sample(const OnnxFile& file) {
  std::set<std::string> held;
  for (const TensorValue& tensor : file.initializers) held.insert(tensor.name);
  for (const OnnxValue& input : file.inputs)
    if (!held.contains(input.name) && !input.dims.empty()) return input.dims[0].size == 1;
  return false;
}

OnnxModule module_of(const OnnxFile& file, const std::map<std::string, std::int64_t>& dims, const std::string& place,
                     primitive::OwnBatch samples) {
  const auto branches = [](const OnnxNode& node) { return node.op == "If" || node.op == "Loop"; };
  if (file.functions.empty() && std::none_of(file.nodes.begin(), file.nodes.end(), branches))
    return Reader(file, dims, place, samples).read();
  OnnxFile whole = file.functions.empty() ? file : with_functions_inside(file, place);
  const auto number_of = [&](const OnnxFile& of, const std::string& value) {
    return Reader(of, dims, place, samples).number(value);
  };
  const auto condition = [&](const OnnxFile& of, const std::string& value) {
    const std::optional<double> number = number_of(of, value);
    return number ? std::optional(*number != 0.0) : std::nullopt;
  };
  whole = with_branches_inside(std::move(whole), condition, place);
  whole = with_loops_unrolled(std::move(whole), number_of, place);
  return Reader(whole, dims, place, samples).read();
}

}  // namespace meshwright::onnx
