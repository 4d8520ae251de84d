// SPDX-License-Identifier: Apache-2.0
// Shape inference: what each kind of op expects of its operands, and the shapes and types of its results.
#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/graph/op_table.h"

namespace meshwright::infer {

namespace {

using Dims = std::vector<Dim>;

[[noreturn]] void fail(const OpCall& call, std::string_view expectation) {
  const OpRow& row = row_of(call.kind);
  const std::size_t skipped = row.operands.size() - call.inputs.size();  // a left-out master copy, always operand 1
  std::string operands;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    operands += fmt::format("{}{} '{}' {} {}", i == 0 ? "" : ", ", row.operands[i == 0 ? 0 : i + skipped],
                            call.inputs[i]->name, name_of(call.inputs[i]->dtype), to_text(call.inputs[i]->dims));
  throw InputError(fmt::format("op '{}' ({}): {}; it was given {}.", call.name, row.name, expectation, operands));
}

void expect(const OpCall& call, bool condition, std::string_view expectation) {
  if (!condition) fail(call, expectation);
}

const Dims& dims(const OpCall& call, std::size_t operand) { return call.inputs[operand]->dims; }
DType dtype(const OpCall& call, std::size_t operand) { return call.inputs[operand]->dtype; }
bool is_float(DType type) { return type != DType::I32; }

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

void expect_trailing(const OpCall& call, std::size_t bias_rank, bool matches) {
  const std::size_t rank = dims(call, 0).size();
  expect(call, bias_rank >= 1 && matches, "the bias must have the trailing dimensions of the first operand");
  expect(call, !call.attributes.bias_select || bias_rank < rank,
         "a selecting bias needs a dimension before its own, whose index 0 it acts on");
}

void expect_qkv(const OpCall& call) {
  expect(call, dims(call, 0).size() == 5 && dims(call, 0)[2].size == 3,
         "qkv must have five dimensions (batch, seq, qkv=3, heads, head_dim)");
}

Dims without_qkv(const Dims& qkv) { return {qkv[0], qkv[1], qkv[3], qkv[4]}; }

}  // namespace

// Every name is in at least two of (x, w, result), so that each gradient of a contraction is again a contraction.
std::vector<ResultShape> contract(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  const Dims &x = dims(call, 0), &w = dims(call, 1);
  const std::vector<std::string>& names = call.attributes.result_names;
  const std::set<std::string> in_result(names.begin(), names.end());
  if (in_result.size() != names.size())
    fail(call, fmt::format("its result names ({}) must differ", fmt::join(names, ", ")));
  ResultShape result{dtype(call, 0), {}};
  for (const std::string& name : names) {
    const Dim* dim = find(x, name) != nullptr ? find(x, name) : find(w, name);
    if (dim == nullptr) fail(call, fmt::format("its result's dimension '{}' must be in an operand", name));
    result.dims.push_back(*dim);
  }
  for (const Dims* one : {&x, &w}) {
    const Dims& other = one == &x ? w : x;
    for (const Dim& dim : *one) {
      const Dim* match = find(other, dim.name);
      if (match == nullptr && in_result.count(dim.name) == 0)
        fail(call, fmt::format("dimension '{}' is in one operand only, so its result ({}) must have it", dim.name,
                               fmt::join(names, ", ")));
      if (match != nullptr && match->size != dim.size)
        fail(call, fmt::format("dimension '{}' must have one size in both operands", dim.name));
    }
  }
  return {result};
}

std::vector<ResultShape> bias_add(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  const Dims &x = dims(call, 0), &bias = dims(call, 1);
  expect_trailing(call, bias.size(), bias.size() <= x.size() && std::equal(bias.rbegin(), bias.rend(), x.rbegin()));
  return {{dtype(call, 0), x}};
}

std::vector<ResultShape> bias_gradient(const OpCall& call) {
  expect_one_float_type(call, {0});
  const Dims& dy = dims(call, 0);
  const std::vector<std::string>& names = call.attributes.result_names;
  const bool trailing =
      names.size() <= dy.size() && std::equal(names.rbegin(), names.rend(), dy.rbegin(),
                                              [](const std::string& name, const Dim& dim) { return name == dim.name; });
  expect_trailing(call, names.size(), trailing);
  return {{dtype(call, 0), Dims(dy.end() - static_cast<std::ptrdiff_t>(names.size()), dy.end())}};
}

std::vector<ResultShape> elementwise(const OpCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    expect_one_float_type(call, {0, i});
    expect_same_dims(call, 0, i);
  }
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> layer_norm(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect(call, !dims(call, 0).empty() && dims(call, 1) == Dims{dims(call, 0).back()},
         "gamma must have the last dimension of x");
  expect_same_dims(call, 1, 2);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> layer_norm_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect(call, !dims(call, 0).empty() && dims(call, 1) == Dims{dims(call, 0).back()},
         "gamma must have the last dimension of x");
  expect_same_dims(call, 0, 2);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> layer_norm_param_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect(call, !dims(call, 0).empty(), "x must have a dimension");
  expect_same_dims(call, 0, 1);
  const ResultShape one{dtype(call, 0), {dims(call, 0).back()}};
  return {one, one};
}

std::vector<ResultShape> attention(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect_qkv(call);
  return {{dtype(call, 0), without_qkv(dims(call, 0))}};
}

std::vector<ResultShape> attention_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_qkv(call);
  expect(call, dims(call, 1) == without_qkv(dims(call, 0)), "dy must have the dimensions of qkv without the third");
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> embedding(const OpCall& call) {
  expect(call, dtype(call, 0) == DType::I32, "ids must be i32");
  expect_one_float_type(call, {1});
  const Dims& table = dims(call, 1);
  expect(call, table.size() == 2, "table must have two dimensions (vocab, embed)");
  Dims result = dims(call, 0);
  expect(call, find(result, table[0].name) == nullptr && find(result, table[1].name) == nullptr,
         "ids and table must not share dimension names");
  result.push_back(table[1]);
  return {{dtype(call, 1), result}};
}

std::vector<ResultShape> embedding_backward(const OpCall& call) {
  expect(call, dtype(call, 0) == DType::I32, "ids must be i32");
  expect_one_float_type(call, {1});
  const Dims& dy = dims(call, 1);
  expect(call, !dy.empty() && without_last(dy) == dims(call, 0), "dy must have the dimensions of ids and one more");
  expect(call, call.attributes.result_names.size() == 1 && call.attributes.result_size >= 1,
         "its attributes must name the vocabulary's dimension and size");
  expect(call, find(dy, call.attributes.result_names[0]) == nullptr, "the vocabulary's name must not be in dy");
  return {{dtype(call, 1), {{call.attributes.result_names[0], call.attributes.result_size}, dy.back()}}};
}

std::vector<ResultShape> row_max(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect(call, !dims(call, 0).empty(), "x must have a dimension");
  return {{accumulation_dtype(dtype(call, 0)), without_last(dims(call, 0))}};
}

std::vector<ResultShape> sum_exp(const OpCall& call) {
  expect_rows_of(call, 0, 1);
  expect(call, is_float(dtype(call, 0)) && dtype(call, 1) == accumulation_dtype(dtype(call, 0)),
         "max must have the type that x is summed in");
  return {{dtype(call, 1), dims(call, 1)}};
}

std::vector<ResultShape> pick_label(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect(call, dtype(call, 1) == DType::I32, "labels must be i32");
  expect_rows_of(call, 0, 1);
  return {{accumulation_dtype(dtype(call, 0)), dims(call, 1)}};
}

std::vector<ResultShape> cross_entropy_loss(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect_same_dims(call, 0, 1);
  expect_same_dims(call, 0, 2);
  return {{dtype(call, 0), {}}};
}

std::vector<ResultShape> cross_entropy_backward(const OpCall& call) {
  expect(call, is_float(dtype(call, 0)), "x must be floating-point");
  expect(call, dtype(call, 3) == DType::I32, "labels must be i32");
  expect_one_float_type(call, {1, 2});
  for (const std::size_t rows : {1, 2, 3}) expect_rows_of(call, 0, rows);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> squared_error_loss(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_same_dims(call, 0, 1);
  return {{accumulation_dtype(dtype(call, 0)), {}}};
}

// Types may differ: 16-bit weights and gradients meet F32 accumulators, moments and master copies.
std::vector<ResultShape> in_place(const OpCall& call) {
  for (const Tensor* operand : call.inputs) {
    expect(call, is_float(operand->dtype), "its operands must be floating-point");
    expect(call, operand->dims == dims(call, 0), "its operands must have the same dimensions");
  }
  return {};
}

}  // namespace meshwright::infer
