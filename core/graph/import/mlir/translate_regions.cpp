// SPDX-License-Identifier: Apache-2.0
// Ops that hold or call other ops: each region becomes a computation. HLO's computations read nothing but their
// parameters, so what a region reads from outside is handed in; constants are copied, which keeps them known there.
#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/mlir/translator.h"
#include "core/graph/import/names.h"

namespace meshwright::mlir {

namespace {

using UseKey = std::pair<std::string_view, std::int64_t>;

// What the region reads and does not make, in the order of reading.
void find_free(const Region& region, std::set<std::string_view> made, std::set<UseKey>& seen, std::vector<Use>& found) {
  for (const Argument& argument : region.arguments) made.insert(argument.name);
  for (const Op& op : region.ops) {
    for (const Use& use : op.operands)
      if (!made.contains(use.name) && seen.emplace(use.name, use.element).second) found.push_back(use);
    for (const Region& inner : op.regions) find_free(inner, made, seen, found);
    for (const Result& result : op.results) made.insert(result.name);
  }
}

}  // namespace

Translator::Captured Translator::captured(Frame& frame, const Op& op) {
  std::set<UseKey> seen;
  std::vector<Use> found;
  for (const Region& region : op.regions) find_free(region, {}, seen, found);
  Captured captured;
  for (const Use& use : found) {
    const int value = resolve(frame, use, op.line);
    const bool constant = frame.computation.instructions[static_cast<std::size_t>(value)].opcode == "constant";
    (constant ? captured.constants : captured.uses).push_back(use);
    (constant ? captured.constant_values : captured.values).push_back(value);
  }
  return captured;
}

void Translator::bind_constants(Frame& inner, const Captured& captured, const Frame& outer) {
  for (std::size_t k = 0; k < captured.constants.size(); ++k) {
    const auto at = static_cast<std::size_t>(captured.constant_values[k]);
    bind(inner, captured.constants[k], emit(inner, outer.computation.instructions[at], outer.known[at]));
  }
}

void Translator::call(Frame& frame, const Op& op) {
  std::string_view callee = op.find("callee");
  if (callee.empty()) callee = op.find("decomposition");
  const Value value = context_.value(callee, op.line);
  const std::string_view name = value.symbol();
  const auto found = functions_.find(name);
  if (found == functions_.end()) fail(op.line, fmt::format("no function '@{}' in the module", printable(name)));
  const Function& callee_function = *found->second;
  const std::vector<int> operands = resolve_all(frame, op);
  if (callee_function.body.ops.empty()) fail(op.line, fmt::format("the function '@{}' has no body", printable(name)));
  if (operands.size() != callee_function.body.arguments.size())
    fail(op.line, fmt::format("'@{}' takes {} arguments, not {}", printable(name),
                              callee_function.body.arguments.size(), operands.size()));
  std::vector<xla::Type> types;
  std::vector<KnownNumbers> known;
  for (const int operand : operands) {
    types.push_back(type_of(frame, operand));
    known.push_back(frame.known[static_cast<std::size_t>(operand)]);
  }
  const int made = function(callee_function, types, known);
  const xla::Computation& computation = program_.computations[static_cast<std::size_t>(made)];
  const int instruction =
      emit(frame, op, "call", computation.instructions[static_cast<std::size_t>(computation.root)].type, operands);
  frame.computation.instructions.back().calls = {made};
  define(frame, op, instruction);
}

// The state of a loop is one tuple: what it iterates over, then what its regions read from outside.
void Translator::loop(Frame& frame, const Op& op) {
  if (op.regions.size() != 2) fail(op.line, "a loop has a condition and a body");
  std::vector<int> state = resolve_all(frame, op);
  const std::size_t iterated = state.size();
  const Captured outside = captured(frame, op);
  state.insert(state.end(), outside.values.begin(), outside.values.end());
  const int start = tuple(frame, state, op.line);
  const xla::Type type = type_of(frame, start);
  std::vector<int> calls;
  for (const Region& region : op.regions) {
    if (region.arguments.size() != iterated) fail(op.line, "a loop's regions take what it iterates over");
    const bool is_body = !calls.empty();
    Frame inner;
    inner.computation.name = fmt::format("{}.{}", is_body ? "body" : "condition", op.line);
    const int all = parameter(inner, "state", type, {});
    bind_constants(inner, outside, frame);
    for (std::size_t k = 0; k < state.size(); ++k) {
      const Use use = k < iterated ? Use{region.arguments[k].name} : outside.uses[k - iterated];
      bind(inner, use, element(inner, all, static_cast<std::int64_t>(k)));
    }
    body(inner, region);
    if (is_body && (iterated == 1 || !outside.uses.empty())) {
      const Op& last = region.ops.back();
      std::vector<int> next;
      for (const Use& use : last.operands) next.push_back(resolve(inner, use, last.line));
      if (next.size() != iterated) fail(last.line, "a loop's body returns what it iterates over");
      for (const Use& use : outside.uses) next.push_back(resolve(inner, use, last.line));
      inner.computation.root = tuple(inner, next, last.line);
    }
    calls.push_back(add(inner));
  }
  const int instruction = emit(frame, op, "while", type, {start});
  frame.computation.instructions.back().calls = calls;
  define(frame, op, instruction);
  // The state of a loop over one value is a tuple, too.
  for (const Result& result : op.results)
    frame.names[result.name].first = std::max<std::int64_t>(0, frame.names[result.name].first);
}

void Translator::branches(Frame& frame, const Op& op) {
  std::vector<int> operands = resolve_all(frame, op);
  if (op.regions.empty() || operands.size() != 1)
    fail(op.line, "a conditional has one operand and a region for each case");
  const Captured outside = captured(frame, op);
  const int handed = tuple(frame, outside.values, op.line);
  std::vector<int> calls;
  xla::Type type;
  for (const Region& region : op.regions) {
    Frame inner;
    inner.computation.name = fmt::format("branch.{}.{}", op.line, calls.size());
    const int all = parameter(inner, "outside", type_of(frame, handed), {});
    bind_constants(inner, outside, frame);
    for (std::size_t k = 0; k < outside.uses.size(); ++k)
      bind(inner, outside.uses[k], element(inner, all, static_cast<std::int64_t>(k)));
    body(inner, region);
    type = inner.computation.instructions[static_cast<std::size_t>(inner.computation.root)].type;
    calls.push_back(add(inner));
    operands.push_back(handed);
  }
  const int instruction = emit(frame, op, "conditional", type, operands);
  frame.computation.instructions.back().calls = calls;
  define(frame, op, instruction);
}

// "applies stablehlo.add": a computation of two numbers.
int Translator::applied(const Op& op, const xla::Type& type) {
  const std::string_view name = op.find("applies");
  const std::string key = fmt::format("{} {}", name, type.element);
  if (const auto made = applied_.find(key); made != applied_.end()) return made->second;
  Frame frame;
  frame.computation.name = printable(name);
  const xla::Type number{type.element};
  xla::Instruction root{
      "result", opcode_of(Op{name}), number, {parameter(frame, "x", number, {}), parameter(frame, "y", number, {})}};
  root.line = op.line;
  frame.computation.root = emit(frame, std::move(root));
  return applied_[key] = add(frame);
}

// Reductions, scatters and sorts: their regions combine single numbers.
void Translator::reducing(Frame& frame, const Op& op) {
  const std::vector<int> operands = resolve_all(frame, op);
  if (operands.empty()) fail(op.line, fmt::format("{} has operands", op.name));
  const Captured outside = captured(frame, op);
  if (!outside.uses.empty())
    fail(op.line, fmt::format("the region of {} reads '%{}', which is no constant, from outside", op.name,
                              printable(outside.uses[0].name)));
  std::vector<int> calls;
  for (const Region& region : op.regions) {
    Frame inner;
    inner.computation.name = fmt::format("region.{}.{}", op.line, calls.size());
    for (const Argument& argument : region.arguments)
      bind(inner, {argument.name}, parameter(inner, printable(argument.name), argument.type, {}));
    bind_constants(inner, outside, frame);
    body(inner, region);
    calls.push_back(add(inner));
  }
  if (op.regions.empty()) {
    if (op.find("applies").empty()) fail(op.line, fmt::format("{} has a region", op.name));
    calls.push_back(applied(op, type_of(frame, operands[0])));
  }
  const std::string opcode = opcode_of(op);
  const int instruction = emit(frame, op, opcode, {}, operands);
  frame.computation.instructions.back().calls = calls;
  define(frame, op, instruction);
}

// A region with arguments that stands where it is called. That of a "manual_computation" (shard_map) has the shapes of
// one device.
void Translator::named(Frame& frame, const Op& op) {
  std::vector<int> operands = resolve_all(frame, op);
  if (op.regions.size() != 1 || op.regions[0].arguments.size() != operands.size())
    fail(op.line, fmt::format("{} has one region that takes its operands", op.name));
  const bool by_hand = op.name == "sdy.manual_computation";
  by_hand_ = by_hand_ || by_hand;
  const Captured outside = captured(frame, op);
  Frame inner;
  inner.computation.name = fmt::format("region.{}", op.line);
  std::vector<Use> uses;
  std::vector<xla::Type> types;
  for (const Argument& argument : op.regions[0].arguments) {
    uses.push_back({argument.name});
    types.push_back(argument.type);
  }
  operands.insert(operands.end(), outside.values.begin(), outside.values.end());
  uses.insert(uses.end(), outside.uses.begin(), outside.uses.end());
  for (std::size_t k = 0; k < uses.size(); ++k)
    bind(inner, uses[k],
         parameter(inner, printable(uses[k].name), by_hand && k < types.size() ? types[k] : type_of(frame, operands[k]),
                   frame.known[static_cast<std::size_t>(operands[k])]));
  bind_constants(inner, outside, frame);
  body(inner, op.regions[0]);
  xla::Type type = inner.computation.instructions[static_cast<std::size_t>(inner.computation.root)].type;
  if (by_hand && op.types.size() == 1) type = op.types[0];
  if (by_hand && op.types.size() > 1) type.parts = op.types;
  const int made = add(inner);
  const int instruction = emit(frame, op, "call", type, operands);
  frame.computation.instructions.back().calls = {made};
  define(frame, op, instruction);
}

}  // namespace meshwright::mlir
