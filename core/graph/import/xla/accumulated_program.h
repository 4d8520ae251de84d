// SPDX-License-Identifier: Apache-2.0
// A training step that adds up the gradients of its own micro-batches, as that of one micro-batch: a plan chooses how
// many there are.
//
// Values are numbered by what computes them, and equal slices of the data are one value: if each micro-batch is
// computed as the first one is, its loss has the number of the first one's. What adds the losses up, weighs them or
// puts them side by side is then that number times a factor.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "core/graph/import/xla/xla_roles.h"

namespace meshwright::xla {

struct AccumulatedProgram {
  FlatProgram flat;  // parameters as in the step, those of data with the rows of one micro-batch
  int result = -1;
  std::int64_t parts = 0, samples = 0;  // micro-batches, and the samples of each
  bool of_one_part = false;             // the file's loss is that of one micro-batch alone
  // What `flat` points to.
  std::deque<Instruction> instructions = {};
  std::deque<Type> types = {};
};

// Nothing where the loss reads no part of the batch, or where the parts are not computed alike.
[[nodiscard]] std::optional<AccumulatedProgram> of_one_micro_batch(const Program& program, const FlatProgram& flat,
                                                                   const Roles& roles);

}  // namespace meshwright::xla
