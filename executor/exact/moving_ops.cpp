// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <vector>

#include "executor/exact/residue.h"
#include "executor/exact/treatments.h"

namespace meshwright::exact {

namespace {

constexpr OpKind kMoving[] = {OpKind::BiasAdd,
                              OpKind::BiasGradient,
                              OpKind::Add,
                              OpKind::Subtract,
                              OpKind::Cast,
                              OpKind::Compare,
                              OpKind::Select,
                              OpKind::SelectBackward,
                              OpKind::Embedding,
                              OpKind::EmbeddingBackward,
                              OpKind::RowMax,
                              OpKind::PickLabel,
                              OpKind::Reshape,
                              OpKind::Transpose,
                              OpKind::Slice,
                              OpKind::Concat,
                              OpKind::Pad,
                              OpKind::Broadcast,
                              OpKind::ReduceMax,
                              OpKind::ReduceMaxBackward,
                              OpKind::TopKSlots,
                              OpKind::TopKKeys,
                              OpKind::OneHotSlots,
                              OpKind::Dispatch,
                              OpKind::DispatchBackward,
                              OpKind::Accumulate};

void reduce_in_place(double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = stored(of_stored(values[i]));
}

}  // namespace

bool moves_or_adds(OpKind kind) { return std::find(std::begin(kMoving), std::end(kMoving), kind) != std::end(kMoving); }

// Numbers are compared: each residue must have one representation, so operands are reduced before and sums after.
void move_or_add(const Call& o) {
  std::vector<std::vector<double>> reduced_inputs(o.inputs.size());
  std::vector<void*> inputs(o.inputs.begin(), o.inputs.end());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool in_place = std::find(o.outputs.begin(), o.outputs.end(), inputs[i]) != o.outputs.end();
    if (o.call.input_dtypes[i] == DType::I32 || in_place) continue;
    const double* values = o.in(i);
    reduced_inputs[i].assign(values, values + o.elements(i));
    reduce_in_place(reduced_inputs[i].data(), o.elements(i));
    inputs[i] = reduced_inputs[i].data();
  }
  if (o.call.kind == OpKind::Pad && o.call.input_dtypes[0] != DType::I32) {
    OpCallPlan padded = o.call;
    padded.attributes.value = stored(of_constant(o.attributes().value));
    meshwright::run_op<double>(padded, inputs, o.outputs, o.moment);
  } else {
    meshwright::run_op<double>(o.call, inputs, o.outputs, o.moment);
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r)
    if (o.call.output_dtypes[r] != DType::I32) reduce_in_place(o.out(r), o.out_elements(r));
}

}  // namespace meshwright::exact
