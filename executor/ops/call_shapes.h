// SPDX-License-Identifier: Apache-2.0
// The shapes that kernels work on, read from a call: the same on every device. Internal to the executor.
#pragma once

#include "executor/ops/shard_call.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/convolution/pooling.h"
#include "kernels/cpu/optimizer/adafactor.h"

namespace meshwright {

// Result dimensions walk x's row-major strides; those that x lacks repeat it (stride 0).
struct StridedShape {
  std::vector<std::int64_t> sizes, strides;  // [dimension of the result]
};
[[nodiscard]] StridedShape strided_shape(const ShardCall& o);

// Slice, Concat and Pad as rows: all before the changed dimension makes `rows`; all behind it is one element of
// `inner`.
struct ChangedDim {
  std::size_t dim;
  std::int64_t rows, inner;
};
[[nodiscard]] ChangedDim changed_dim(const ShardCall& o);

// x's sizes, and which of its dimensions `kept` has too.
struct ReducedShape {
  std::vector<std::int64_t> sizes;
  std::vector<char> kept;
};
[[nodiscard]] ReducedShape reduced_shape(const ShardCall& o, const std::vector<int>& kept);

// The dimensions of operand `gradient`, with their strides in the second moments behind it (Adafactor): r, and where
// they are factored c and mean; 0 along those that a moment lacks.
[[nodiscard]] std::vector<kernels::MomentDim> moment_dims(const ShardCall& o, std::size_t gradient);

// Where x, a part of a tensor, begins in the whole: a random mask must not depend on how the tensor is split.
struct PartShape {
  std::vector<std::int64_t> local, whole, begin;  // [dimension of x]
};
[[nodiscard]] PartShape part_shape(const ShardCall& o);

// The bias, with the iteration axes `bias`, covers the trailing dimensions of x; a selecting bias also reaches over the
// one before, and acts on its index 0.
struct BiasShape {
  std::int64_t rows, width, bias_width;
};
[[nodiscard]] BiasShape bias_shape(const ShardCall& o, const std::vector<int>& bias);

// x (batch, h, w, [groups], in), w ([groups], kh, kw, in, out), y (batch, h', w', [groups], out). The three kinds of
// convolution have the same shape; which operands and results x, w and y are follows from the kind.
[[nodiscard]] kernels::ConvolutionShape convolution_shape(const ShardCall& o);

// An op that reads x and makes y, and one that reads dy and makes dx.
[[nodiscard]] kernels::PoolShape pool_shape(const ShardCall& o);
[[nodiscard]] kernels::PoolShape pool_backward_shape(const ShardCall& o);

}  // namespace meshwright
