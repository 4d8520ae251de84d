// SPDX-License-Identifier: Apache-2.0
// A program of one sample as one of several: what `jax.vmap` makes of it. Every argument of data gets a dimension of
// samples in front, and so does what is computed of it; weights stay as they are. A module that was lowered with a
// batch of 1, or for one sequence without any, is read this way where its text as it stands makes no batches: XLA drops
// dimensions of one element and what is left does not tell where the batch was.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/graph/import/xla/xla_flat.h"

namespace meshwright::xla {

// A prime that is no size of a model, so that no other dimension is taken for the samples.
inline constexpr std::int64_t kSamples = 10'007;

struct SampledProgram {
  FlatProgram flat;  // parameters as in the program of one sample
  int result = -1;
  bool has_samples = false;  // the result's dimension 0 is that of the samples
  // What `flat` points to.
  std::deque<Instruction> instructions = {};
  std::deque<Type> types = {};
};

// `needed`: the ops that lead to `result`; the others are left out, but for parameters. `data`: which parameters are
// data. Throws InputError with the instruction's place where an op of data has no such form (loops that nothing
// decides, places that data tell in what is written, weights of a convolution that are data).
[[nodiscard]] SampledProgram with_samples(const FlatProgram& flat, const std::vector<bool>& needed,
                                          const std::vector<bool>& data, int result, const std::string& place);

}  // namespace meshwright::xla
