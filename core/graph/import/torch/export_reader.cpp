// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/torch/export_reader.h"

#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/names.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/torch/aten_node.h"
#include "core/graph/import/torch/program_nodes.h"

namespace meshwright::torch {

namespace {

using primitive::Builder;
using primitive::kBatchProbe;
using primitive::Shape;

constexpr std::int64_t kSchema = 8;

class Reader {
 public:
  Reader(const Json& program, const KeptNumbers& kept, const std::map<std::string, std::int64_t>& dims,
         std::string place, primitive::OwnBatch samples)
      : place_(std::move(place)),
        samples_(samples),
        kept_(kept),
        given_(dims),
        graph_(member(member(program, "graph_module", place_), "graph", place_)),
        signature_(member(member(program, "graph_module", place_), "signature", place_)),
        builder_(made_.module) {
    if (program.contains("schema_version")) {
      const auto major = get<std::int64_t>(program["schema_version"], "major", place_ + ": schema_version");
      require(major == kSchema,
              "{}: exported programs of schema {} are not supported, those of schema {} are (torch "
              "2.5 and later); export it again.",
              place_, major, kSchema);
    }
  }

  ExportedModule read() {
    const Json& nodes = member(graph_, "nodes", place_);
    require(nodes.is_array(), "{}: 'nodes' is no list; the file is damaged, export it again.", place_);
    const std::string result = result_name();
    const std::vector<bool> needed = needed_nodes(nodes, result);
    expect_known(nodes, needed);
    read_inputs();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!needed[i]) continue;
      for (const Json& input : member(nodes[i], "inputs", place_)) {
        std::vector<std::string> names;
        collect_names(member(input, "arg", place_), names);
        for (const std::string& name : names) last_reader_[name] = i;
      }
    }
    last_reader_[result] = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (needed[i]) read_node(nodes[i], i);
    builder_.name = printable(result);
    builder_.block.clear();
    made_.module.result = value_of(result);
    return std::move(made_);
  }

 private:
  struct View {
    std::string of;
    const Json* node;
  };
  [[nodiscard]] std::string result_name();
  [[nodiscard]] std::vector<bool> needed_nodes(const Json& nodes, const std::string& result) const;
  void expect_known(const Json& nodes, const std::vector<bool>& needed);
  [[nodiscard]] const Json& meta_of(const std::string& name) const;
  void read_inputs();
  [[nodiscard]] Shape shape_of(const std::string& name, bool of_user);
  [[nodiscard]] std::int64_t size_of_dim(const Json& size);
  void read_node(const Json& node, std::size_t place_of_node);
  void expect_truth_values(const Json& node, const std::string& op) const;
  [[nodiscard]] std::int64_t type_of(const std::string& name) const;
  [[nodiscard]] int as_declared(const std::string& name, int made);
  [[nodiscard]] bool has_declared_shape(const std::string& name, const Shape& found) const;
  [[nodiscard]] std::string memory_of(const std::string& name) const;
  void overwrite(const std::string& name, int made, std::size_t place_of_node);
  [[nodiscard]] int with_part(int whole, const View& view, int part);
  void read_symbol(const Json& node, const std::string& op);
  [[nodiscard]] std::optional<std::vector<double>> numbers_of(const Json& spec, const Shape& shape) const;
  int complex_constant(const Json& spec, const Shape& shape);
  [[nodiscard]] int value_of(const std::string& name) const;
  [[nodiscard]] std::int64_t symbol_of(const std::string& name) const;

  const std::string place_;
  const primitive::OwnBatch samples_;
  const KeptNumbers& kept_;
  const std::map<std::string, std::int64_t>& given_;
  const Json& graph_;
  const Json& signature_;
  ExportedModule made_;
  Builder builder_;
  std::map<std::string, int> values_;
  std::map<std::string, std::string> weights_;   // values that are a parameter, perhaps transposed: its name
  std::map<std::string, std::int64_t> symbols_;  // made by the program
  std::map<std::string, std::int64_t> open_;     // sizes left open, by symbol
  std::set<std::string> used_;                   // of given_
  std::map<std::string, std::size_t> last_reader_;
  std::map<std::string, std::string> memory_;              // of views: the tensor that has it
  std::map<std::string, std::vector<std::string>> views_;  // by that tensor
  std::map<std::string, View> viewed_;                     // by the view's name
  bool batch_known_ = false;
};

std::string Reader::result_name() {
  std::string loss, first;
  std::size_t others = 0;
  for (const Json& spec : member(signature_, "output_specs", place_)) {
    if (spec.contains("loss_output"))
      loss = get<std::string>(member(spec["loss_output"], "arg", place_), "name", place_);
    if (!spec.contains("user_output")) continue;
    std::vector<std::string> names;
    collect_names(member(spec["user_output"], "arg", place_), names);
    if (first.empty() && !names.empty())
      first = names[0];
    else
      ++others;
  }
  require(!loss.empty() || !first.empty(), "{}: the program has no result; export a model that returns one.", place_);
  if (loss.empty() && others > 0)
    made_.module.notes.push_back(
        fmt::format("'{}' is the model's result; {} other results and what only they need are "
                    "left out",
                    first, others));
  return loss.empty() ? first : loss;
}

// Calls stand behind what they read.
std::vector<bool> Reader::needed_nodes(const Json& nodes, const std::string& result) const {
  std::set<std::string> wanted = {result};
  const std::map<std::string, std::string> owners = owners_in(nodes, member(graph_, "tensor_values", place_), place_);
  const auto owner = [&](const std::string& name) {
    const auto known = owners.find(name);
    return known == owners.end() ? name : known->second;
  };
  std::set<std::string> wanted_memory = {owner(result)};
  std::vector<bool> needed(nodes.size(), false);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const std::vector<std::string> made = results_of(nodes[i], place_);
    const std::string over = overwritten_by(nodes[i], op_of(get<std::string>(nodes[i], "target", place_)), place_);
    needed[i] = std::any_of(made.begin(), made.end(), [&](const std::string& name) { return wanted.contains(name); }) ||
                (!over.empty() && wanted_memory.contains(owner(over)));
    if (!needed[i]) continue;
    for (const std::string& name : read_by(nodes[i], place_)) {
      wanted.insert(name);
      wanted_memory.insert(owner(name));
    }
  }
  return needed;
}

void Reader::expect_known(const Json& nodes, const std::vector<bool>& needed) {
  std::map<std::string, std::int64_t> unknown;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!needed[i]) continue;
    const auto target = get<std::string>(nodes[i], "target", place_);
    ++made_.module.file_ops[printable(op_of(target))];
    if (rule_of(op_of(target)).empty() && !does_nothing(op_of(target))) ++unknown[printable(target)];
  }
  std::vector<std::string> texts;
  for (const auto& [name, count] : unknown) texts.push_back(fmt::format("{} ({})", name, count));
  require(unknown.empty(), "{}: operators that have no equal here (with their number): {}; see docs/models.md.", place_,
          join(texts, ", "));
}

const Json& Reader::meta_of(const std::string& name) const {
  return member(member(graph_, "tensor_values", place_), name, place_ + ": tensor_values");
}

// A size that is left open keeps the name of its symbol: "Symbol('s27', positive=True, integer=True)".
std::int64_t Reader::size_of_dim(const Json& size) {
  if (size.contains("as_int")) return get<std::int64_t>(size, "as_int", place_);
  const Json& expression = member(size, "as_expr", place_);
  const auto text = get<std::string>(expression, "expr_str", place_);
  const std::size_t begin = text.find('\'');
  const std::size_t end = begin == std::string::npos ? begin : text.find('\'', begin + 1);
  require(end != std::string::npos && text.starts_with("Symbol("),
          "{}: an input's size is '{}'; export the model with plain sizes.", place_, text);
  const std::string name = text.substr(begin + 1, end - begin - 1);
  if (const auto known = open_.find(name); known != open_.end()) return known->second;
  const auto given = given_.find(name);
  if (given != given_.end()) used_.insert(name);
  return open_[name] = given != given_.end() ? given->second
                                             : get<std::int64_t>(member(expression, "hint", place_), "as_int", place_);
}

Shape Reader::shape_of(const std::string& name, bool of_user) {
  Shape shape;
  const Json& sizes = member(meta_of(name), "sizes", place_);
  require(sizes.is_array(), "{}: the sizes of '{}' are no list; the file is damaged, export it again.", place_,
          printable(name));
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool fixed = sizes[d].contains("as_int");
    std::int64_t size = size_of_dim(sizes[d]);
    require(size >= (of_user ? 1 : 0), "{}: '{}' has a size of {}; the file is damaged, export it again.", place_, name,
            size);
    if (of_user && d == 0 && !batch_known_) {
      batch_known_ = true;
      made_.default_batch = size;
      made_.module.one_sample = samples_ == primitive::OwnBatch::One && fixed && size == 1;
      if (fixed && !made_.module.one_sample) made_.module.batch = size;
      if (!fixed)
        for (auto& [symbol, value] : open_) value = kBatchProbe;
      if (!made_.module.one_sample) size = kBatchProbe;
    } else if (of_user && d == 0 && fixed && size == made_.module.batch) {
      size = kBatchProbe;
    }
    shape.push_back(size);
  }
  (void)primitive::elements_of(shape);
  return shape;
}

void Reader::read_inputs() {
  // The user's first, which tell the batch.
  std::vector<const Json*> specs;
  for (const Json& spec : member(signature_, "input_specs", place_)) specs.push_back(&spec);
  std::stable_partition(specs.begin(), specs.end(), [](const Json* spec) { return spec->contains("user_input"); });
  for (const Json* spec : specs) {
    require(spec->is_object() && spec->size() == 1,
            "{}: an input is of no one kind; the file is damaged, export it "
            "again.",
            place_);
    const std::string kind = spec->begin().key();
    const Json& of = spec->begin().value();
    std::vector<std::string> names;
    if (kind == "user_input")
      collect_names(member(of, "arg", place_), names);
    else if (of.contains("arg") && of["arg"].is_object() && of["arg"].contains("name"))
      names.push_back(get<std::string>(of["arg"], "name", place_));
    if (names.empty()) continue;
    const std::string& name = names[0];
    const auto type = get<std::int64_t>(meta_of(name), "dtype", place_);
    const bool integer = type < 6 || type == 12;
    const Shape shape = shape_of(name, kind == "user_input");
    require(type < 9 || type > 11 || (kind != "user_input" && kind != "parameter"),
            "{}: '{}' has complex numbers, which only buffers may have here; see docs/models.md.", place_,
            printable(name));
    if (kind == "user_input") {
      values_[name] = builder_.input(printable(name), shape, integer);
    } else if (kind == "parameter") {
      const auto called = get<std::string>(of, "parameter_name", place_);
      made_.dtype = type == 13 ? DType::BF16 : type == 6 ? DType::F16 : type == 8 ? DType::F64 : DType::F32;
      values_[name] = builder_.parameter(printable(called), shape);
      weights_[name] = called;
    } else {
      builder_.name = printable(name);
      const bool complex = type >= 9 && type <= 11;
      values_[name] = complex ? complex_constant(of, shape) : builder_.constant(shape, integer, numbers_of(of, shape));
    }
  }
  require(batch_known_, "{}: the model has no input with a batch; export it with its inputs.", place_);
  for (const auto& [name, size] : given_)
    require(used_.contains(name), "--dim: '{}' has no open dimension '{}'; leave it out.", place_, name);
}

// Numbers of two parts, which lie beside each other in the file.
int Reader::complex_constant(const Json& spec, const Shape& shape) {
  Shape with_parts = shape;
  with_parts.push_back(2);
  return builder_.complex_constant(shape, numbers_of(spec, with_parts));
}

// What the archive keeps of a buffer or a constant, by the name that the signature gives it.
std::optional<std::vector<double>> Reader::numbers_of(const Json& spec, const Shape& shape) const {
  for (const char* key : {"buffer_name", "tensor_constant_name"}) {
    if (!spec.contains(key) || !spec[key].is_string()) continue;
    const auto found = kept_.find(spec[key].get<std::string>());
    if (found == kept_.end() || static_cast<std::int64_t>(found->second.size()) != primitive::elements_of(shape)) break;
    return found->second;
  }
  return std::nullopt;
}

int Reader::value_of(const std::string& name) const {
  const auto known = values_.find(name);
  require(known != values_.end(),
          "{}: op '{}' reads '{}', which nothing makes before it; the file is damaged, export "
          "it again.",
          place_, builder_.name, name);
  return known->second;
}

std::int64_t Reader::symbol_of(const std::string& name) const {
  const auto known = symbols_.find(name);
  require(known != symbols_.end(),
          "{}: op '{}' reads the size '{}', which nothing makes before it; the file is "
          "damaged, export it again.",
          place_, builder_.name, name);
  return known->second;
}

// Sizes that the program computes with.
void Reader::read_symbol(const Json& node, const std::string& op) {
  const std::vector<std::string> results = results_of(node, place_);
  const AtenNode call{builder_, node, [this](const std::string& of) { return value_of(of); },
                      [this](const std::string& of) { return symbol_of(of); }, results.size()};
  if (results.empty() || op.starts_with("_assert") || op.starts_with("sym_constrain")) return;
  if (op == "sym_size") {
    const int x = call.tensor("self");
    symbols_[results[0]] = builder_.shape(x)[static_cast<std::size_t>(builder_.axis_of(x, call.integer("dim", 0)))];
    return;
  }
  const bool plain = call.has("a");
  const std::int64_t a = call.integer(plain ? "a" : "", 0), b = call.integer(plain ? "b" : "", 0);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  builder_.expect(plain && std::abs(a) < kMost * 1024 && std::abs(b) < kMost, "a computed size has no equal here");
  const bool whole = (op == "_operator.floordiv" || op == "_operator.mod") && b > 0;
  builder_.expect(whole || op == "_operator.mul" || op == "_operator.add" || op == "_operator.sub",
                  "a computed size has no equal here");
  symbols_[results[0]] = op == "_operator.mul"   ? a * b
                         : op == "_operator.add" ? a + b
                         : op == "_operator.sub" ? a - b
                         : op == "_operator.mod" ? a % b
                                                 : a / b;
}

std::string Reader::memory_of(const std::string& name) const {
  const auto known = memory_.find(name);
  return known == memory_.end() ? name : known->second;
}

// What a tensor is whose view has become `part`.
int Reader::with_part(int whole, const View& view, int part) {
  const std::string op = op_of(get<std::string>(*view.node, "target", place_));
  const AtenNode call{builder_, *view.node, [this](const std::string& of) { return value_of(of); },
                      [this](const std::string& of) { return symbol_of(of); }, 1};
  const Shape of = builder_.shape(whole);
  if (op == "slice" || op == "select") {
    const std::int64_t axis = builder_.axis_of(whole, call.integer("dim", 0)),
                       size = of[static_cast<std::size_t>(axis)];
    const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
    const std::int64_t start = within(call.integer(op == "slice" ? "start" : "index", 0));
    const std::int64_t stop = op == "slice" ? within(call.integer("end", size)) : start + 1;
    builder_.expect(call.integer("step", 1) == 1, "it overwrites every so many-th element of a tensor");
    if (op == "select") part = builder_.unsqueeze(part, {axis});
    if (start == 0 && stop == size) return part;
    std::vector<int> pieces = {part};
    if (start > 0) pieces.insert(pieces.begin(), builder_.slice(whole, axis, 0, start));
    if (stop < size) pieces.push_back(builder_.slice(whole, axis, stop, size));
    return builder_.concat(pieces, axis);
  }
  if (op == "alias" || op == "detach") return part;
  if (op == "transpose") return builder_.swap(part, call.integer("dim0", 0), call.integer("dim1", 1));
  if (op == "permute") {
    const Shape axes = call.integers("dims");
    Shape back(axes.size(), 0);
    for (std::size_t d = 0; d < axes.size(); ++d)
      back[static_cast<std::size_t>(builder_.axis_of(whole, axes[d]))] = static_cast<std::int64_t>(d);
    return builder_.transpose(part, back);
  }
  builder_.expect(op == "view" || op == "reshape" || op == "unsqueeze" || op == "squeeze" || op == "flatten",
                  fmt::format("it overwrites a tensor through its view by {}; export the program after "
                              "run_decompositions()",
                              op));
  return builder_.reshape(part, of);
}

// What is read of the tensor later is what the op has made, and so it is of the tensors that it is a part of. Of other
// views it would be, too.
void Reader::overwrite(const std::string& name, int made, std::size_t place_of_node) {
  const std::string owner = memory_of(name);
  std::set<std::string> written = {name};
  for (std::string part = name; viewed_.contains(part); part = viewed_.at(part).of) written.insert(viewed_.at(part).of);
  std::vector<std::string> sharers = views_[owner];
  sharers.push_back(owner);
  for (const std::string& other : sharers) {
    const auto last = last_reader_.find(other);
    if (!written.contains(other) && last != last_reader_.end() && last->second > place_of_node)
      builder_.fail(
          fmt::format("it overwrites '{}', which '{}' shares and which is read later; export the program after "
                      "run_decompositions()",
                      printable(name), printable(other)));
  }
  values_[name] = made;
  for (std::string part = name; viewed_.contains(part); part = viewed_.at(part).of) {
    const View& view = viewed_.at(part);
    values_[view.of] = with_part(value_of(view.of), view, value_of(part));
  }
}

std::int64_t Reader::type_of(const std::string& name) const {
  const Json& values = member(graph_, "tensor_values", place_);
  return values.contains(name) ? get<std::int64_t>(values[name], "dtype", place_) : 0;
}

// Nodes do not tell truth values from whole numbers: what differs for these is not read.
void Reader::expect_truth_values(const Json& node, const std::string& op) const {
  static const std::set<std::string> of_bits = {"bitwise_and", "bitwise_or", "bitwise_not", "__and__", "__or__"};
  for (const std::string& result : results_of(node, place_)) {
    const std::int64_t type = type_of(result);  // 0: the file does not tell
    builder_.expect(!of_bits.contains(op) || type == kBoolType || type == 0,
                    "operations on the bits of whole numbers have no equal here");
    break;
  }
  if (op != "index") return;
  const std::vector<std::string> read = read_by(node, place_);
  for (std::size_t k = 1; k < read.size(); ++k)
    builder_.expect(type_of(read[k]) != kBoolType, "indices by truth values have no equal here");
}

// The result by the type and the shape that the file tells of it. PyTorch gives results types that their operands do
// not: sums of whole numbers to a floating-point type, quotients, numbers of a type that is asked for.
int Reader::as_declared(const std::string& name, int made) {
  const Json& values = member(graph_, "tensor_values", place_);
  if (!values.contains(name) || builder_.is_complex(made)) return made;
  // What experts have in slots, and its sums, have shapes of their own here.
  const bool fits = has_declared_shape(name, builder_.shape(made)) || primitive::is_in_slots(builder_, made) ||
                    primitive::is_sum_of_choices(builder_, made);
  builder_.expect(fits, fmt::format("it would make {} of '{}', which has another shape in the file",
                                    primitive::to_text(builder_.shape(made)), printable(name)));
  const std::int64_t type = type_of(name);
  const bool real = type == 6 || type == 7 || type == 8 || type == 13;
  const bool whole = (type >= 1 && type < 6) || type == kBoolType;
  if (real && builder_.at(made).integer) return builder_.unary(primitive::Kind::ToFloat, made);
  const bool counts = whole && !builder_.at(made).integer && builder_.at(made).values;
  return counts ? builder_.unary(primitive::Kind::ToInteger, made) : made;
}

bool Reader::has_declared_shape(const std::string& name, const Shape& found) const {
  const Json& sizes = member(meta_of(name), "sizes", place_);
  bool fits = sizes.is_array() && sizes.size() == found.size();
  for (std::size_t d = 0; fits && d < found.size(); ++d) {
    if (!sizes[d].contains("as_int")) continue;
    const auto told = get<std::int64_t>(sizes[d], "as_int", place_);
    const std::int64_t batch = made_.module.batch;
    fits =
        told == found[d] || (batch > 0 && primitive::holds_batch(found[d]) && found[d] / kBatchProbe * batch == told);
  }
  return fits;
}

void Reader::read_node(const Json& node, std::size_t place_of_node) {
  const std::string op = op_of(get<std::string>(node, "target", place_));
  const std::vector<std::string> results = results_of(node, place_);
  builder_.name = printable(results.empty() ? op : results[0]);
  builder_.block = block_of(path_of(node));
  const std::vector<std::string> read = read_by(node, place_);
  for (const std::string& name : read)
    if (const auto weight = weights_.find(name); weight != weights_.end()) {
      if (builder_.block.empty()) builder_.block = block_of(weight->second);
      if (!results.empty() && read.size() == 1) weights_[results[0]] = weight->second;
    }
  try {
    if (does_nothing(op)) return read_symbol(node, op);
    expect_truth_values(node, op);
    const Json& declared = member(graph_, "tensor_values", place_);
    std::vector<int> made = rules().at(rule_of(op))(
        {builder_, node, [this](const std::string& name) { return value_of(name); },
         [this](const std::string& name) { return symbol_of(name); }, results.size(), &declared});
    for (std::size_t k = 0; k < results.size() && k < made.size(); ++k) made[k] = as_declared(results[k], made[k]);
    const std::string changed = overwritten_by(node, op, place_);
    if (!changed.empty() && !made.empty()) overwrite(changed, made[0], place_of_node);
    const bool views = is_view(node, op, declared, place_);
    for (std::size_t k = 0; k < results.size() && k < made.size(); ++k) {
      values_[results[k]] = made[k];
      if (read.empty() || (changed.empty() && !views)) continue;
      memory_[results[k]] = memory_of(read[0]);
      if (changed.empty()) viewed_[results[k]] = {read[0], &node};
      views_[memory_of(read[0])].push_back(results[k]);
    }
  } catch (const InputError& error) {
    const std::string why = error.what();
    throw InputError(why.starts_with(place_) ? why : fmt::format("{}: {} {}", place_, op, refusal_sentence(why)));
  }
}

}  // namespace

bool has_one_sample(const Json& program, const std::string& place) {
  const Json& whole = member(program, "graph_module", place);
  for (const Json& spec : member(member(whole, "signature", place), "input_specs", place)) {
    std::vector<std::string> names;
    if (spec.contains("user_input")) collect_names(member(spec["user_input"], "arg", place), names);
    if (names.empty()) continue;
    const Json& values = member(member(whole, "graph", place), "tensor_values", place);
    const Json& sizes = member(member(values, names[0], place), "sizes", place);
    if (!sizes.is_array() || sizes.empty()) continue;
    return sizes[0].contains("as_int") && get<std::int64_t>(sizes[0], "as_int", place) == 1;
  }
  return false;
}

ExportedModule module_of(const Json& program, const KeptNumbers& kept, const std::map<std::string, std::int64_t>& dims,
                         const std::string& place, primitive::OwnBatch samples) {
  return Reader(program, kept, dims, place, samples).read();
}

}  // namespace meshwright::torch
