// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/gpu_workspace.h"

#include <algorithm>
#include <cstdint>

#include "executor/ops/attention_call.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/attention/attention_cudnn.h"
#include "kernels/cuda/convolution/convolution_cudnn.h"

namespace meshwright {

namespace {

// Partial sums of all blocks that a GPU has at once: of few columns so many rows that a multiprocessor is busy, of many
// columns one row. Each has two sums in double.
constexpr std::int64_t kPartialSums = std::int64_t{14} << 20;  // bytes
constexpr std::int64_t kSumsOfColumn = 2 * 8;
// Of one gradient's squares, in double (kernels/cuda/optimizer/sum_squares.cu).
constexpr std::int64_t kSquareSums = 1024 * 8;
constexpr std::int64_t kFewSums = std::int64_t{1} << 20;

std::int64_t column_sums(std::int64_t rows, std::int64_t columns) {
  return std::min(kPartialSums + kSumsOfColumn * columns, kSumsOfColumn * columns * std::max<std::int64_t>(rows, 1));
}

// Sums are kept in double of double, else in float.
std::int64_t wide_size(DType stored) { return stored == DType::F64 ? 8 : 4; }

// Of each row, where rows do not fit into registers (kernels/cuda/norms/row_norms.cu).
std::int64_t moments_of_wide_rows(const ShardCall& o, DType stored) {
  constexpr std::int64_t kKept = 3072;
  return o.width(0) > kKept ? 2 * o.rows(0) * wide_size(stored) : 0;
}

std::int64_t of_attention(const ShardCall& o, DType stored, bool backward) {
  const kernels::AttentionShape s = attention_shape(o);
  const std::int64_t queries = s.batch * s.heads() * s.seq, wide = wide_size(stored);
  const Attributes::Extra extra = o.attributes().extra;
  const std::int64_t bias = extra == Attributes::Extra::RelativeBias || extra == Attributes::Extra::Alibi
                                ? s.heads() * s.distances() * wide
                                : 0;
  // Our own backward: two statistics of each query, and of a relative bias its gradient, of each block of 64 queries.
  constexpr std::int64_t kQueriesOfBlock = 64;
  const bool relative = backward && extra == Attributes::Extra::RelativeBias;
  const std::int64_t parts =
      relative ? (queries / kQueriesOfBlock + s.batch * s.heads()) * (s.kv_seq + 2 * kQueriesOfBlock) * wide : 0;
  const std::int64_t own = backward ? 2 * queries * wide + parts + (relative ? bias : 0) : 0;
  if (size_of(stored) != 2) return bias + own;
  // cuDNN's: the scores' gradients and those of the queries in float, as far as there is room; before it the forward
  // again, whose result and sums are kept.
  const std::int64_t scores = 2 * queries * s.kv_seq, sums = 4 * queries;
  const std::int64_t engine =
      std::min<std::int64_t>(kernels::cuda::CudnnAttention::kRoom, scores + sums * (s.key_dim + 4));
  const std::int64_t library = backward ? engine + 2 * queries * s.value_dim + 2 * sums : std::min(engine, sums);
  return bias + std::max(own, library);
}

std::int64_t of_convolution(const ShardCall& o, DType stored) {
  const kernels::ConvolutionShape s = convolution_shape(o);
  const std::int64_t filters = s.groups * s.rows.size * s.columns.size * s.in * s.out, wide = wide_size(stored);
  // Our own backward to weights sums so many parts, of which there are blocks for all multiprocessors.
  constexpr std::int64_t kTile = 64, kBlocks = 8 * 132;
  const std::int64_t tiles = std::max<std::int64_t>(1, filters / (kTile * kTile));
  const std::int64_t own = filters * wide * std::max<std::int64_t>(1, kBlocks / tiles);
  // The library's filters in its own order, of an image with as many channels as it takes at once.
  constexpr std::int64_t kChannels = 8;
  const std::int64_t size = size_of(stored);
  std::int64_t library = kernels::cuda::CudnnConvolutions::kRoom + 2 * filters * size;
  if (s.groups == 1 && s.in < kChannels && size == 2)
    library += (s.batch * s.rows.from * s.columns.from + s.rows.size * s.columns.size * s.out) * kChannels * size;
  return std::max(own, library);
}

std::int64_t of_pool(const ShardCall& o) {
  const kernels::PoolShape s = pool_backward_shape(o);
  const std::int64_t results = s.batch * s.rows.to * s.columns.to * s.channels;
  return results * (s.rows.size * s.columns.size <= 255 ? 1 : 4);
}

// Numbers sorted twice over with their places, counts of digits, where each row begins, sums of 64 rows each.
std::int64_t of_embedding(const ShardCall& o, DType stored) {
  constexpr std::int64_t kCounts = 128 * 512, kPiece = 64;
  const std::int64_t rows = o.elements(0), width = o.width(1), vocab = o.out_elements(0) / width;
  return 4 * (4 * rows + kCounts + vocab + 1) + (rows / kPiece + 1) * width * wide_size(stored);
}

}  // namespace

bool multiplies_by_library(OpKind kind) {
  switch (kind) {
    case OpKind::Contract:
    case OpKind::Convolution:
    case OpKind::ConvolutionBackwardInput:
    case OpKind::ConvolutionBackwardWeight:
      return true;
    default:
      return false;
  }
}

Bytes gpu_workspace(const OpCallPlan& call, const StoredType& stored) {
  constexpr std::int64_t kAlignments = 16 * 256;  // of the pieces that an op takes
  const std::vector<void*> none(std::max(call.input_dtypes.size(), call.output_dtypes.size()), nullptr);
  const ShardCall o{
      call, std::span(none).first(call.input_dtypes.size()), std::span(none).first(call.output_dtypes.size()), {}};
  const DType first = call.input_dtypes.empty() ? DType::F32 : stored(call.input_dtypes[0]);
  const auto bytes = [&]() -> std::int64_t {
    switch (call.kind) {
      case OpKind::Attention:
      case OpKind::GroupedAttention:
        return of_attention(o, first, false);
      case OpKind::AttentionBackward:
      case OpKind::GroupedAttentionBackward:
        return of_attention(o, first, true);
      case OpKind::Convolution:
      case OpKind::ConvolutionBackwardInput:
      case OpKind::ConvolutionBackwardWeight:
        return of_convolution(o, first);
      case OpKind::MaxPoolBackward:
        return of_pool(o);
      case OpKind::EmbeddingBackward:
        return of_embedding(o, stored(call.input_dtypes[1]));
      case OpKind::LayerNormParamBackward:
      case OpKind::RmsNormParamBackward:
        return column_sums(o.rows(0), o.width(0)) + moments_of_wide_rows(o, first);
      case OpKind::BatchSums:
      case OpKind::BatchNormParamBackward:
        return column_sums(o.rows(0), o.width(0));
      case OpKind::BiasAdd:  // at the end of a product, one of all columns
        return bias_shape(o, call.space.inputs[1]).width * size_of(first);
      case OpKind::BiasGradient: {
        const BiasShape shape = bias_shape(o, call.space.outputs[0]);
        return column_sums(shape.rows, shape.bias_width);
      }
      case OpKind::ReduceSum:
      case OpKind::ReduceMax:
      case OpKind::MeanSquares:
        return column_sums(o.elements(0) / std::max<std::int64_t>(o.out_elements(0), 1), o.out_elements(0));
      case OpKind::SumSquares:
        return kSquareSums;
      case OpKind::CrossEntropyLoss:
      case OpKind::SquaredErrorLoss:
      case OpKind::MoveSquares:
        return kFewSums;
      case OpKind::TopKSlots:  // a slot of each choice
        return 4 * o.in_size(0, 0) * o.in_size(0, 1) * call.attributes.top_k;
      case OpKind::Dispatch:
      case OpKind::CombineBackward: {
        const std::int64_t embed = call.output_shapes[0].back();
        return 4 * o.out_elements(0) / std::max<std::int64_t>(embed, 1);
      }
      default:
        return 0;
    }
  }();
  return Bytes(static_cast<double>(bytes == 0 ? 0 : bytes + kAlignments));
}

}  // namespace meshwright
