// SPDX-License-Identifier: Apache-2.0
// Single ops to instructions. Most are one instruction of the same meaning; broadcasts of StableHLO also stretch
// dimensions of size 1, those of HLO do not.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/mlir/translator.h"
#include "core/graph/import/names.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::mlir {

namespace {

constexpr std::size_t kMaxName = 200;

bool has_reducer(std::string_view name) {
  for (const std::string_view known :
       {"reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map", "all_reduce", "reduce_scatter"})
    if (name == known) return true;
  return false;
}

}  // namespace

int Translator::op(Frame& frame, const Op& op) {
  const std::string_view name = op.short_name(), dialect = op.dialect();
  const bool known = dialect == "stablehlo" || dialect == "mhlo" || dialect == "chlo";
  if (name == "return" || op.name == "return") {
    const std::vector<int> results = resolve_all(frame, op);
    return results.size() == 1 ? results[0] : tuple(frame, results, op.line);
  }
  if (op.name == "func.call" || op.name == "call" || (known && name == "composite"))
    call(frame, op);
  else if (known && name == "while")
    loop(frame, op);
  else if (known && (name == "if" || name == "case"))
    branches(frame, op);
  else if (known && has_reducer(name))
    reducing(frame, op);
  else if (op.name == "sdy.named_computation" || op.name == "sdy.manual_computation")
    named(frame, op);
  else if (known && (name == "broadcast_in_dim" || name == "broadcast" || name == "dynamic_broadcast_in_dim"))
    broadcast(frame, op);
  else if (op.name == "chlo.erfc")
    complement(frame, op);
  else if (dialect == "chlo" && name.starts_with("broadcast_"))
    numpy_binary(frame, op);
  else
    plain(frame, op);
  return -1;
}

// The instruction that an op is, with its attributes; an empty `type`: the op's own.
int Translator::emit(Frame& frame, const Op& op, std::string opcode, xla::Type type, std::vector<int> operands) {
  std::vector<const xla::Type*> types;
  std::vector<OperandView> views;
  for (const int operand : operands) {
    types.push_back(&type_of(frame, operand));
    views.push_back({types.back(), &frame.known[static_cast<std::size_t>(operand)]});
  }
  xla::Instruction made;
  made.attributes = attributes_of(op, opcode, types, context_);
  if (type == xla::Type{}) type = result_type(frame, op, opcode, operands, made.attributes);
  made.attributes.sharding = sharding_of(op.attributes, type.sizes.size(), op.line, context_);
  made.name = printable(op.results.empty() ? op.name : op.results[0].name).substr(0, kMaxName);
  made.line = op.line;
  made.op_name = printable(location_name(op.location, op.line));
  if (opcode == "constant")
    made.attributes.values = constant_values(context_.value(op, "value"), type, primitive::kMaxValues);
  KnownNumbers known = known_numbers(opcode, type, views, made.attributes);
  made.opcode = std::move(opcode);
  made.type = std::move(type);
  made.operands = std::move(operands);
  return emit(frame, std::move(made), std::move(known));
}

// What the op says its results are; open sizes follow from the operands.
xla::Type Translator::result_type(const Frame& frame, const Op& op, const std::string& opcode,
                                  const std::vector<int>& operands, const xla::Attributes& attributes) const {
  std::int64_t results = 0;
  for (const Result& result : op.results) results += result.count;
  if (op.types.empty() && results > 0 && opcode == op.name) return {"opaque"};  // passed over
  if (results != static_cast<std::int64_t>(op.types.size()) && results > 0)
    fail(op.line, fmt::format("{} has {} results of {} types", op.name, results, op.types.size()));
  std::vector<OperandView> views;
  for (const int operand : operands)
    views.push_back({&type_of(frame, operand), &frame.known[static_cast<std::size_t>(operand)]});
  xla::Type type = op.types.size() == 1 ? op.types[0] : xla::Type{"", {}, op.types};
  if (!is_open(type)) return type;
  type = closed(opcode, std::move(type), views, attributes);
  if (is_open(type)) fail(op.line, fmt::format("the sizes of what {} makes do not follow from its operands", op.name));
  return type;
}

void Translator::plain(Frame& frame, const Op& op) {
  std::vector<int> operands = resolve_all(frame, op);
  std::string opcode = opcode_of(op);
  const std::string_view name = op.short_name();
  if (op.find("call_target_name") == "@shape_assertion" || op.find("call_target_name") == "\"shape_assertion\"") return;
  const auto known = [&](std::size_t k) -> const std::vector<std::int64_t>& {
    if (k >= operands.size() || !frame.known[static_cast<std::size_t>(operands[k])])
      fail(op.line, fmt::format("operand {} of {} is not known from the module's constants and sizes", k, op.name));
    return *frame.known[static_cast<std::size_t>(operands[k])];
  };
  xla::Type type;
  if (opcode == "opt-barrier" && operands.size() != 1) {
    operands = {tuple(frame, operands, op.line)};
    type = type_of(frame, operands[0]);
  } else if (opcode == "tuple") {
    for (const int operand : operands) type.parts.push_back(type_of(frame, operand));
  } else if (opcode == "rng" && operands.size() == 3) {
    operands.pop_back();  // the shape, which is the result's
  } else if (opcode == "multiply" || name == "square") {
    if (name == "square" && operands.size() == 1) operands.push_back(operands[0]);
    opcode = "multiply";
  } else if (opcode == "get-dimension-size" && operands.size() == 1) {
    const std::vector<std::int64_t>& sizes = type_of(frame, operands[0]).sizes;
    const std::int64_t d = context_.value(op, "dimension").integer();
    if (d < 0 || d >= static_cast<std::int64_t>(sizes.size())) fail(op.line, "the tensor has no such dimension");
    xla::Instruction made{printable(op.results.empty() ? op.name : op.results[0].name), "constant", {"s32"}};
    made.line = op.line;
    made.attributes.values = {static_cast<double>(sizes[static_cast<std::size_t>(d)])};
    return define(frame, op, emit(frame, std::move(made), KnownNumbers{{sizes[static_cast<std::size_t>(d)]}}));
  }
  // Ops whose shape is an operand: once it is known, they are those whose shape is in the text.
  const bool shaped = name == "dynamic_reshape" || name == "dynamic_iota" || name == "dynamic_pad" ||
                      name == "real_dynamic_slice" || name == "dynamic_gather";
  std::vector<std::int64_t> start, limit, stride;
  if (shaped) {
    for (std::size_t k = name == "dynamic_iota"     ? 0
                         : name == "dynamic_gather" ? 2
                         : name == "dynamic_pad"    ? 2
                                                    : 1;
         k < operands.size(); ++k)
      (stride.empty() && limit.empty() && start.empty() ? start : limit.empty() ? limit : stride) = known(k);
    opcode = name == "dynamic_reshape"  ? "reshape"
             : name == "dynamic_iota"   ? "iota"
             : name == "dynamic_pad"    ? "pad"
             : name == "dynamic_gather" ? "gather"
                                        : "slice";
    operands.resize(name == "dynamic_iota" ? 0 : name == "dynamic_pad" || name == "dynamic_gather" ? 2 : 1, 0);
    if (opcode == "reshape" || opcode == "iota") type = {op.types.empty() ? "opaque" : op.types[0].element, start};
  }
  xla::Type open;
  if (shaped && type == xla::Type{}) {
    // The attributes first: closed() reads them.
    xla::Attributes given;
    given.start = given.low = given.sizes = start;
    given.limit = given.high = limit;
    given.stride = given.interior = stride;
    if (opcode == "gather") {
      std::vector<const xla::Type*> types{&type_of(frame, operands[0]), &type_of(frame, operands[1])};
      given = attributes_of(op, opcode, types, context_);
      given.sizes = start;
    }
    std::vector<OperandView> views;
    for (const int operand : operands)
      views.push_back({&type_of(frame, operand), &frame.known[static_cast<std::size_t>(operand)]});
    type = closed(opcode, op.types.empty() ? xla::Type{"opaque"} : op.types[0], views, given);
    if (is_open(type))
      fail(op.line, fmt::format("the sizes of what {} makes do not follow from its operands", op.name));
  }
  const int made = emit(frame, op, opcode, type, operands);
  if (shaped && opcode != "reshape" && opcode != "iota") {
    xla::Attributes& attributes = frame.computation.instructions.back().attributes;
    if (opcode == "slice") attributes.start = start, attributes.limit = limit, attributes.stride = stride;
    if (opcode == "pad") attributes.low = start, attributes.high = limit, attributes.interior = stride;
    if (opcode == "gather") attributes.sizes = start;
  }
  define(frame, op, made);
}

void Translator::broadcast(Frame& frame, const Op& op) {
  std::vector<int> operands = resolve_all(frame, op);
  const bool dynamic = op.short_name() == "dynamic_broadcast_in_dim";
  if (operands.size() != (dynamic ? 2U : 1U) || op.types.size() != 1)
    fail(op.line, fmt::format("{} has one result of one tensor", op.name));
  xla::Type type = op.types[0];
  if (is_open(type)) {
    const KnownNumbers known = dynamic ? frame.known[static_cast<std::size_t>(operands[1])] : KnownNumbers{};
    if (!known) fail(op.line, fmt::format("the shape that {} makes is not known from the module's sizes", op.name));
    type.sizes = *known;
  }
  operands.resize(1);
  const xla::Type from = type_of(frame, operands[0]);
  const std::size_t rank = type.sizes.size();
  std::vector<std::int64_t> dims;
  if (op.short_name() == "broadcast") {  // new dimensions stand before the others
    for (std::size_t d = 0; d < from.sizes.size(); ++d)
      dims.push_back(static_cast<std::int64_t>(rank - std::min(rank, from.sizes.size()) + d));
  } else if (!op.find("broadcast_dimensions").empty()) {
    dims = context_.value(op, "broadcast_dimensions").integers();
  }
  if (dims.size() != from.sizes.size())
    fail(op.line, fmt::format("{} names {} dimensions of a tensor of {}", op.name, dims.size(), from.sizes.size()));
  std::vector<std::int64_t> kept, kept_sizes;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0 || dims[d] >= static_cast<std::int64_t>(rank)) fail(op.line, "the result has no such dimension");
    const std::int64_t to = type.sizes[static_cast<std::size_t>(dims[d])];
    if (from.sizes[d] == 1 && to != 1) continue;
    if (from.sizes[d] != to) fail(op.line, fmt::format("a dimension of {} is broadcast to {}", from.sizes[d], to));
    kept.push_back(dims[d]);
    kept_sizes.push_back(from.sizes[d]);
  }
  if (kept.size() != dims.size()) {
    xla::Instruction flat{printable(op.results.empty() ? op.name : op.results[0].name) + ".flat",
                          "reshape",
                          {from.element, kept_sizes},
                          operands};
    flat.line = op.line;
    operands = {emit(frame, std::move(flat))};
  }
  const int made = emit(frame, op, "broadcast", type, operands);
  frame.computation.instructions.back().attributes.dimensions = kept;
  define(frame, op, made);
}

// erfc(x) is 1 - erf(x).
void Translator::complement(Frame& frame, const Op& op) {
  const std::vector<int> operands = resolve_all(frame, op);
  if (operands.size() != 1) fail(op.line, "chlo.erfc has one operand");
  const xla::Type type = type_of(frame, operands[0]);
  const auto add = [&](const char* opcode, const xla::Type& of, std::vector<int> from) {
    xla::Instruction made{printable(op.results.empty() ? op.name : op.results[0].name), opcode, of, std::move(from)};
    made.line = op.line;
    if (made.opcode == "constant") made.attributes.values = {1.0};
    return emit(frame, std::move(made));
  };
  const int one = add("broadcast", type, {add("constant", {type.element}, {})});
  define(frame, op, add("subtract", type, {one, add("erf", type, operands)}));
}

// CHLO's binary ops stretch as NumPy's do.
void Translator::numpy_binary(Frame& frame, const Op& op) {
  std::vector<int> operands = resolve_all(frame, op);
  if (operands.size() != 2 || op.types.size() != 1)
    fail(op.line, fmt::format("{} has two operands and one result", op.name));
  const xla::Type& result = op.types[0];
  for (int& operand : operands) {
    const xla::Type from = type_of(frame, operand);
    const std::size_t rank = from.sizes.size();
    if (from.sizes == result.sizes) continue;
    if (is_open(result) || rank > result.sizes.size())
      fail(op.line, fmt::format("operands of {} do not fit its result", op.name));
    std::vector<std::int64_t> dims, sizes;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::size_t to = result.sizes.size() - rank + d;
      if (from.sizes[d] == 1 && result.sizes[to] != 1) continue;
      dims.push_back(static_cast<std::int64_t>(to));
      sizes.push_back(from.sizes[d]);
    }
    if (sizes != from.sizes) {
      xla::Instruction flat{"flat", "reshape", {from.element, sizes}, {operand}};
      flat.line = op.line;
      operand = emit(frame, std::move(flat));
    }
    xla::Instruction wide{"wide", "broadcast", {from.element, result.sizes}, {operand}};
    wide.line = op.line;
    wide.attributes.dimensions = dims;
    operand = emit(frame, std::move(wide));
  }
  Op named = op;
  const std::string name = fmt::format("chlo.{}", op.short_name().substr(std::string_view("broadcast_").size()));
  named.name = name;
  define(frame, op, emit(frame, op, opcode_of(named), {}, operands));
}

}  // namespace meshwright::mlir
