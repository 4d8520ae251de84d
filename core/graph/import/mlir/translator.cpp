// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/mlir/translator.h"

#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/mlir/mlir_text.h"
#include "core/graph/import/names.h"

namespace meshwright::mlir {

namespace {

constexpr int kMaxCallDepth = 200;  // of functions and regions that call one another

std::int64_t count_of(const xla::Type& type) {
  std::int64_t count = 1;
  for (const xla::Type& part : type.parts) count += count_of(part);
  return count;
}

std::string key_of(const xla::Type& type) {
  std::string key = type.element;
  for (const std::int64_t size : type.sizes) key += fmt::format(",{}", size);
  for (const xla::Type& part : type.parts) key += fmt::format("({})", key_of(part));
  return key;
}

// "p['h'][0]['w']" is "p.h.0.w". The place of the parameters in a state of several parts tells nothing: "s[0]['h'][3]"
// is "s.h.3".
std::string path_name(std::string_view path) {
  std::string name;
  std::vector<std::string> parts;
  int numbers = 0;
  const auto end_part = [&] {
    if (!name.empty()) parts.push_back(name);
    if (!name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) ++numbers;
    name.clear();
  };
  for (const char c : path) {
    if (c == '[' || c == ']' || c == '.')
      end_part();
    else if (c != '\'' && c != '"')
      name += c;
  }
  end_part();
  if (numbers > 1 && parts.size() > 2 &&
      std::all_of(parts[1].begin(), parts[1].end(), [](char c) { return c >= '0' && c <= '9'; }))
    parts.erase(parts.begin() + 1);
  return printable(join(parts, "."));
}

bool any_open(const Region& region) {
  for (const Argument& argument : region.arguments)
    if (is_open(argument.type)) return true;
  for (const Op& op : region.ops) {
    for (const xla::Type& type : op.types)
      if (is_open(type)) return true;
    for (const Region& inner : op.regions)
      if (any_open(inner)) return true;
  }
  return false;
}

}  // namespace

void Translator::fail(int line, std::string_view sentence) const {
  throw InputError(fmt::format("{}:{}: {}; print the whole module again.", place_, line, sentence));
}

// "main", else the only function that others may call, else the first.
const Function& Translator::entry() const {
  const Function* found = nullptr;
  std::size_t visible = 0;
  for (const Function& function : tree_.functions) {
    if (function.name == "main") return function;
    if (!function.visible || function.body.ops.empty()) continue;
    if (visible++ == 0) found = &function;
  }
  require(found != nullptr, "{}: the module has no function with a body; give a module of StableHLO or MHLO text.",
          place_);
  return *found;
}

bool Translator::has_open_sizes(const Function& function) {
  const auto [known, fresh] = open_.emplace(&function, false);
  if (fresh) known->second = any_open(function.body);
  return known->second;
}

xla::Program Translator::translate() {
  for (const Function& function : tree_.functions)
    if (!functions_.emplace(function.name, &function).second)
      fail(function.line, fmt::format("a second function '@{}'", printable(function.name)));
  program_.name = printable(tree_.name);
  read_entry(entry());
  count_partitions();
  return std::move(program_);
}

// The path of the result that is written over an argument, behind "result[0]".
std::string Translator::name_by_result(const Function& function, std::int64_t result) const {
  if (result < 0 || result >= static_cast<std::int64_t>(function.result_attributes.size())) return {};
  for (const Field& field : function.result_attributes[static_cast<std::size_t>(result)]) {
    if (field.name != "jax.result_info") continue;
    const std::string path = context_.value(field.text, function.line).string();
    const std::size_t end = path.find(']');
    if (path.starts_with("result[") && end != std::string::npos) return path_name(path.substr(end + 1));
  }
  return {};
}

// The name that the file's author gave; else that of the text.
std::string Translator::argument_name(const Function& function, const Argument& argument) const {
  std::string name = path_name(location_name(argument.location, function.line));
  for (const Field& field : argument.attributes) {
    if (!name.empty()) break;
    if (field.name == "jax.arg_info") name = path_name(context_.value(field.text, function.line).string());
    if (field.name == "tf.aliasing_output")
      name = name_by_result(function, context_.value(field.text, function.line).integer());
  }
  return name.empty() ? printable(argument.name) : name;
}

// A module for several devices is only then already split when it holds what devices tell each other, or parts that
// work on tiles.
void Translator::count_partitions() {
  static const std::set<std::string_view> kCollectives{"all-gather",           "all-reduce",         "all-to-all",
                                                       "collective-broadcast", "collective-permute", "partition-id",
                                                       "reduce-scatter"};
  bool split = by_hand_;
  for (const xla::Computation& computation : program_.computations)
    for (const xla::Instruction& instruction : computation.instructions)
      split = split || kCollectives.contains(instruction.opcode);
  if (!split) return;
  program_.partitions = 2;  // at least
  for (const Field& field : tree_.attributes)
    if (field.name == "mhlo.num_partitions")
      program_.partitions = std::max(program_.partitions, context_.value(field.text, 1).integer());
}

void Translator::read_entry(const Function& function) {
  Frame frame;
  frame.computation.name = printable(function.name);
  std::set<std::string> used, open;
  std::int64_t number = 0;
  for (const Argument& argument : function.body.arguments) {
    const std::string name = argument_name(function, argument);
    xla::Type type = argument.type;
    for (std::size_t d = 0; d < type.sizes.size(); ++d) {
      if (type.sizes[d] != kOpenSize) continue;
      const std::string dim = fmt::format("{}.{}", name, d);
      const auto given = dims_.find(dim);
      if (given == dims_.end())
        open.insert(dim), type.sizes[d] = 1;
      else
        used.insert(dim), type.sizes[d] = given->second;
    }
    const int made = parameter(frame, name, type, {});
    bind(frame, {argument.name}, made);
    xla::Instruction& instruction = frame.computation.instructions.back();
    instruction.line = function.line;
    instruction.attributes.sharding =
        sharding_of(argument.attributes, argument.type.sizes.size(), function.line, context_);
    for (const Field& field : argument.attributes)
      instruction.attributes.other.emplace(field.name, context_.value(field.text, function.line).string());
    ++number;
  }
  std::vector<std::string> options;
  for (const std::string& dim : open) options.push_back(fmt::format("--dim {}=SIZE", dim));
  require(open.empty(), "{}: the file leaves the size{} {} open; give {}.", place_, open.size() == 1 ? "" : "s",
          join({open.begin(), open.end()}, ", "), join(options, " "));
  for (const auto& [name, size] : dims_)
    require(used.contains(name), "--dim: '{}' has no open dimension '{}'; leave it out.", place_, name);
  body(frame, function.body);
  for (const std::vector<Field>& attributes : function.result_attributes) {
    program_.result_names.emplace_back();
    for (const Field& field : attributes)
      if (field.name == "jax.result_info")
        program_.result_names.back() = printable(context_.value(field.text, function.line).string());
  }
  add_aliases(function, frame.computation);
  program_.entry = add(frame);
}

// "tf.aliasing_output" names the result that is written over an argument. What is only given away ("jax.buffer_donor")
// goes to the first result of its type that is still free.
void Translator::add_aliases(const Function& function, xla::Computation& computation) {
  const xla::Type& root = computation.instructions[static_cast<std::size_t>(computation.root)].type;
  const std::vector<xla::Type> results = root.is_tuple() ? root.parts : std::vector<xla::Type>{root};
  std::set<std::size_t> donated;
  for (std::size_t k = 0; k < function.body.arguments.size(); ++k)
    for (const Field& field : function.body.arguments[k].attributes) {
      const Value value = context_.value(field.text, function.line);
      if (field.name == "tf.aliasing_output") program_.aliases[value.integer()] = static_cast<std::int64_t>(k);
      if (field.name == "jax.buffer_donor" && value.text != "false") donated.insert(k);
    }
  std::map<std::string, std::vector<std::int64_t>> free;  // by type, the first at the back
  for (std::size_t r = results.size(); r-- > 0;)
    if (!program_.aliases.contains(static_cast<std::int64_t>(r)))
      free[key_of(results[r])].push_back(static_cast<std::int64_t>(r));
  for (const std::size_t k : donated) {
    xla::Instruction& made = computation.instructions[static_cast<std::size_t>(computation.parameters[k])];
    std::vector<std::int64_t>& fitting = free[key_of(made.type)];
    if (fitting.empty()) continue;
    program_.aliases[fitting.back()] = static_cast<std::int64_t>(k);
    if (const std::string name = name_by_result(function, fitting.back());
        !name.empty() && made.name == printable(function.body.arguments[k].name))
      made.name = name;
    fitting.pop_back();
  }
}

int Translator::function(const Function& function, const std::vector<xla::Type>& arguments,
                         const std::vector<KnownNumbers>& known) {
  std::string key(function.name);
  const bool open = has_open_sizes(function);
  for (std::size_t k = 0; open && k < arguments.size(); ++k) {
    key += fmt::format(";{}", key_of(arguments[k]));
    if (known[k])
      for (const std::int64_t number : *known[k]) key += fmt::format("={}", number);
  }
  if (const auto made = made_.find(key); made != made_.end()) {
    if (made->second < 0) fail(function.line, fmt::format("the function '@{}' calls itself", printable(function.name)));
    return made->second;
  }
  made_[key] = -1;
  Frame frame;
  frame.computation.name = printable(function.name);
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const Argument& argument = function.body.arguments[k];
    bind(frame, {argument.name},
         parameter(frame, printable(argument.name), open ? arguments[k] : argument.type,
                   open ? known[k] : KnownNumbers{}));
  }
  body(frame, function.body);
  return made_[key] = add(frame);
}

int Translator::add(Frame& frame) {
  program_.computations.push_back(std::move(frame.computation));
  return static_cast<int>(program_.computations.size()) - 1;
}

void Translator::body(Frame& frame, const Region& region) {
  if (++depth_ > kMaxCallDepth)
    fail(region.ops.empty() ? 1 : region.ops[0].line,
         fmt::format("functions call one another more than {} deep", kMaxCallDepth));
  for (const Op& each : region.ops) {
    frame.computation.root = op(frame, each);
    if (frame.computation.root >= 0) break;
  }
  if (frame.computation.root < 0)
    fail(region.ops.empty() ? 1 : region.ops.back().line,
         fmt::format("'{}' ends without a return", frame.computation.name));
  --depth_;
}

int Translator::emit(Frame& frame, xla::Instruction instruction, KnownNumbers known) {
  types_left_ -= count_of(instruction.type);
  if (--instructions_left_ < 0 || types_left_ < 0) fail(instruction.line, "the module has more instructions than fit");
  frame.computation.instructions.push_back(std::move(instruction));
  frame.known.push_back(std::move(known));
  return static_cast<int>(frame.computation.instructions.size()) - 1;
}

int Translator::parameter(Frame& frame, std::string name, xla::Type type, KnownNumbers known) {
  xla::Instruction instruction{std::move(name), "parameter", std::move(type)};
  instruction.attributes.index = static_cast<std::int64_t>(frame.computation.parameters.size());
  frame.computation.parameters.push_back(emit(frame, std::move(instruction), std::move(known)));
  return frame.computation.parameters.back();
}

int Translator::element(Frame& frame, int tuple, std::int64_t index) {
  const xla::Instruction& of = frame.computation.instructions[static_cast<std::size_t>(tuple)];
  if (!of.type.is_tuple() || index < 0 || index >= static_cast<std::int64_t>(of.type.parts.size()))
    fail(of.line, fmt::format("'%{}' has no element {}", of.name, index));
  xla::Instruction instruction{fmt::format("{}#{}", of.name, index),
                               "get-tuple-element",
                               of.type.parts[static_cast<std::size_t>(index)],
                               {tuple}};
  instruction.line = of.line;
  instruction.op_name = of.op_name;
  instruction.attributes.index = index;
  return emit(frame, std::move(instruction));
}

int Translator::tuple(Frame& frame, const std::vector<int>& parts, int line) {
  xla::Instruction instruction{"tuple", "tuple", {}, parts};
  for (const int part : parts) instruction.type.parts.push_back(type_of(frame, part));
  instruction.line = line;
  return emit(frame, std::move(instruction));
}

void Translator::bind(Frame& frame, const Use& use, int instruction) {
  Bound& bound = frame.names[use.name];
  bound.count = std::max(bound.count, use.element + 1);
  bound.elements[use.element] = instruction;
}

int Translator::resolve(Frame& frame, const Use& use, int line) {
  const auto known = frame.names.find(use.name);
  if (known == frame.names.end()) fail(line, fmt::format("nothing before makes '%{}'", printable(use.name)));
  Bound& bound = known->second;
  if (const auto element = bound.elements.find(use.element); element != bound.elements.end()) return element->second;
  if (bound.base < 0 || use.element < 0 || use.element >= bound.count)
    fail(line, fmt::format("'%{}' has no result {}", printable(use.name), use.element));
  return bound.elements[use.element] =
             bound.first < 0 ? bound.base : element(frame, bound.base, bound.first + use.element);
}

std::vector<int> Translator::resolve_all(Frame& frame, const Op& op) {
  std::vector<int> operands;
  for (const Use& use : op.operands) operands.push_back(resolve(frame, use, op.line));
  return operands;
}

void Translator::define(Frame& frame, const Op& op, int instruction) {
  std::int64_t total = 0;
  for (const Result& result : op.results) total += result.count;
  std::int64_t first = 0;
  for (const Result& result : op.results) {
    frame.names[result.name] = {instruction, result.count, total == 1 ? -1 : first};
    first += result.count;
  }
}

// The name of a location, empty where it is a place in a source.
std::string Translator::location_name(std::string_view location, int line) const {
  for (int k = 0; k < 8 && !location.empty(); ++k) {
    Scanner at(location, place_, line);
    if (at.accept_word("loc")) {
      at.expect("(");
      location = at.until(")");
    } else if (at.accept_word("callsite")) {
      at.expect("(");
      location = at.value();
    } else if (at.peek() == '#') {
      const std::string_view of = context_.value(location, line).text;
      if (of == location) return {};
      location = of;
    } else if (at.peek() == '"') {
      const std::string_view name = at.string();
      return at.peek() == ':' ? std::string() : unescaped(name);
    } else {
      return {};
    }
  }
  return {};
}

xla::Program read_mlir(std::string_view text, const std::map<std::string, std::int64_t>& dims,
                       const std::string& place) {
  require(!text.starts_with("ML\xef"
                            "R"),
          "{}: this is MLIR's bytecode; give the text of the module (of an exported program: mlir_module()).", place);
  return Translator(read_syntax(text, place), dims, place).translate();
}

}  // namespace meshwright::mlir
