// SPDX-License-Identifier: Apache-2.0
// What inference rules say of operands. Every failure is an InputError that names the op, what was expected and the
// operands that were given.
#pragma once

#include <string_view>

#include "core/graph/op_table.h"

namespace meshwright::infer {

using Dims = std::vector<Dim>;

[[noreturn]] void fail(const OpCall& call, std::string_view expectation);
void expect(const OpCall& call, bool condition, std::string_view expectation);

[[nodiscard]] inline const Dims& dims(const OpCall& call, std::size_t operand) { return call.inputs[operand]->dims; }
[[nodiscard]] inline DType dtype(const OpCall& call, std::size_t operand) { return call.inputs[operand]->dtype; }
[[nodiscard]] inline bool is_float(DType type) { return type != DType::I32; }
[[nodiscard]] const Dim* find(const Dims& in, const std::string& name);
[[nodiscard]] Dims without_last(const Dims& all);

// Every operand in `operands` is floating-point and of the same type.
void expect_one_float_type(const OpCall& call, const std::vector<std::size_t>& operands);
void expect_same_dims(const OpCall& call, std::size_t a, std::size_t b);
// `rows` has the dimensions of `x` without its last.
void expect_rows_of(const OpCall& call, std::size_t x, std::size_t rows);
// The state of loss scaling: (scaling=3).
void expect_scaling(const OpCall& call, std::size_t operand);

// One operand's type and dimensions, for every operand the same.
[[nodiscard]] std::vector<ResultShape> elementwise(const OpCall& call);

}  // namespace meshwright::infer
