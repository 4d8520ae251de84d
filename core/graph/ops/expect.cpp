// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/expect.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::infer {

void fail(const OpCall& call, std::string_view expectation) {
  const std::vector<std::string> names = operand_names(call.kind, call.inputs.size(), call.attributes);
  std::string operands;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    operands += fmt::format("{}{} '{}' {} {}", i == 0 ? "" : ", ", names[i], call.inputs[i]->name,
                            name_of(call.inputs[i]->dtype), to_text(call.inputs[i]->dims));
  throw InputError(
      fmt::format("op '{}' ({}): {}; it was given {}.", call.name, name_of(call.kind), expectation, operands));
}

void expect(const OpCall& call, bool condition, std::string_view expectation) {
  if (!condition) fail(call, expectation);
}

const Dim* find(const Dims& in, const std::string& name) {
  const auto found = std::find_if(in.begin(), in.end(), [&](const Dim& dim) { return dim.name == name; });
  return found == in.end() ? nullptr : &*found;
}

Dims without_last(const Dims& all) { return {all.begin(), all.end() - 1}; }

// Every operand in `operands` is floating-point and of the same type.
void expect_one_float_type(const OpCall& call, const std::vector<std::size_t>& operands) {
  for (const std::size_t i : operands)
    expect(call, is_float(dtype(call, i)) && dtype(call, i) == dtype(call, operands[0]),
           "its floating-point operands must have one floating-point type");
}

void expect_same_dims(const OpCall& call, std::size_t a, std::size_t b) {
  const OpRow& row = row_of(call.kind);
  if (dims(call, a) != dims(call, b))
    fail(call, fmt::format("{} and {} must have the same dimensions", row.operands[a], row.operands[b]));
}

void expect_rows_of(const OpCall& call, std::size_t x, std::size_t rows) {
  const OpRow& row = row_of(call.kind);
  if (dims(call, x).empty() || without_last(dims(call, x)) != dims(call, rows))
    fail(call, fmt::format("{} must have the dimensions of {} without its last", row.operands[rows], row.operands[x]));
}

void expect_scaling(const OpCall& call, std::size_t operand) {
  expect(call, is_float(dtype(call, operand)) && dims(call, operand) == Dims{{"scaling", 3}},
         "scaling must be (scaling=3), floating-point");
}

std::vector<ResultShape> elementwise(const OpCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    expect_one_float_type(call, {0, i});
    expect_same_dims(call, 0, i);
  }
  return {{dtype(call, 0), dims(call, 0)}};
}

}  // namespace meshwright::infer
