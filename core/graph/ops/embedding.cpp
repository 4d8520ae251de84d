// SPDX-License-Identifier: Apache-2.0
// Table look-ups.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

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

int rows_of_table(const IterationSpace& space) { return space.inputs[1][0]; }
int rows_of_result(const IterationSpace& space) { return space.outputs[0][0]; }

void embedding_derivative(Backward& backward, const Op& op, TensorId dy) {
  if (!backward.wants(op, 1)) return;
  const Dim vocab = backward.tensor(op.inputs[1]).dims[0];
  const Attributes of_table{.result_names = {vocab.name}, .result_size = vocab.size};
  backward.derive_gradient(op, 1, OpKind::EmbeddingBackward, "grad_table", {backward.read(op, 0), dy}, of_table);
}

}  // namespace

std::vector<OpRow> embedding_rows() {
  using K = OpKind;
  return {
      {K::Embedding,
       "embedding",
       {"ids", "table"},
       embedding,
       any_axis,
       {.position_axis = rows_of_table, .derivative = embedding_derivative}},
      {K::EmbeddingBackward,
       "embedding_backward",
       {"ids", "dy"},
       embedding_backward,
       any_axis,
       {.position_axis = rows_of_result}},
  };
}

}  // namespace meshwright::ops
