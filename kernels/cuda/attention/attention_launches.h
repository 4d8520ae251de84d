// SPDX-License-Identifier: Apache-2.0
// From the operands of attention to the kernels' argument, and which kernels run. Internal to kernels/cuda.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/attention/attention_tiles.h"

namespace meshwright::kernels::cuda {

// `dout` is null in a forward. The kernels count in int: REQUIRES each size below 2^31. Offsets into arrays are 64-bit.
template <class T>
AttentionTask<T> attention_task(const AttentionCall<T>& call, const T* dout) {
  const AttentionShape& s = call.shape;
  const AttentionRule<T>& rule = call.rule;
  AttentionTask<T> task{};
  task.q = call.operands.q;
  task.k = call.operands.k;
  task.v = call.operands.v;
  task.dout = dense_heads(dout, s.seq, s.heads(), s.value_dim);
  task.batch = static_cast<int>(s.batch);
  task.seq = static_cast<int>(s.seq);
  task.kv_seq = static_cast<int>(s.kv_seq);
  task.heads = static_cast<int>(s.heads());
  task.group = static_cast<int>(s.group);
  task.key_dim = static_cast<int>(s.key_dim);
  task.value_dim = static_cast<int>(s.value_dim);
  task.window = static_cast<int>(rule.window);
  task.first_position = static_cast<int>(rule.first_position);
  task.causal = rule.causal;
  task.scale = static_cast<Wide<T>>(rule.scale);
  task.sink = rule.sink;
  task.bias = rule.distance_bias;
  return task;
}

// Calls action(std::integral_constant<int, chunks>, parts): results of `width` columns are `parts` times `chunks`
// chunks of 64 columns at most.
template <class Action>
void with_chunks(int width, Action&& action) {
  if (width <= kTile) return action(std::integral_constant<int, 1>{}, 1);
  if (width <= 2 * kTile) return action(std::integral_constant<int, 2>{}, 1);
  action(std::integral_constant<int, 4>{}, tiles_of(width, 4 * kTile));
}

// --- the kernels of each path ---

// What a backward writes. The statistics are its own: statistics_* writes them, the other two kernels read them.
template <class T>
struct GradientTask {
  HeadView<T> dq, dk, dv;
  QueryStatistics<T> statistics;
  // Null, or a sum per block of dq_kernel and diagonal of its tiles (see bias_span).
  Wide<T>* bias_parts;
};

// Elements of bias_parts of a tile of queries: element i of tile t is of the distance with index
// i - 64 t + seq - 64 of the bias.
inline MW_BOTH constexpr int bias_span(int kv_seq) { return (tiles_of(kv_seq, kTile) + 1) * kTile; }

// Without tensor cores: every type, head size and alignment. out and dq are (batch, seq, heads, dim), dk and dv (batch,
// kv_seq, kv_heads, dim), as their views' strides say.
template <class T>
void forward_plain(Stream stream, const AttentionTask<T>& task, HeadView<T> out);
template <class T>
void statistics_plain(Stream stream, const AttentionTask<T>& task, QueryStatistics<T> statistics);
template <class T>
void query_gradients_plain(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients);
template <class T>
void key_gradients_plain(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients);

// Bf16 and F16, on tensor cores (attention_tensor.cu, attention_tensor_backward.cu): heads of up to 128 elements, in
// eights, of which 16 bytes can be read at once. `result`: where one of the results goes.
template <class T>
[[nodiscard]] bool tensor_cores_fit(const AttentionTask<T>& task, HeadView<T> result);
template <class T>
void forward_tensor(Stream stream, const AttentionTask<T>& task, HeadView<T> out);
template <class T>
void statistics_tensor(Stream stream, const AttentionTask<T>& task, QueryStatistics<T> statistics);
// REQUIRES: no bias_parts.
template <class T>
void query_gradients_tensor(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients);
template <class T>
void key_gradients_tensor(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients);

// Calls action(std::integral_constant<int, depth>): heads' elements with zeros behind them.
template <class T, class Action>
void with_depth(const AttentionTask<T>& task, Action&& action) {
  const int widest = task.key_dim > task.value_dim ? task.key_dim : task.value_dim;
  if (widest <= 64) return action(std::integral_constant<int, 64>{});
  if (widest <= 96) return action(std::integral_constant<int, 96>{});
  action(std::integral_constant<int, 128>{});
}

// False for float and double at compile time, so that the tensor kernels are instantiated for 16-bit types only.
template <class T>
bool takes_tensor_cores(const AttentionTask<T>& task, std::initializer_list<HeadView<T>> results, AttentionPath path) {
  if constexpr (sizeof(T) == 2)
    return path == AttentionPath::Best && std::all_of(results.begin(), results.end(), [&](HeadView<T> result) {
             return tensor_cores_fit(task, result);
           });
  else
    return false;
}

template <class T>
void forward(Stream stream, const AttentionTask<T>& task, HeadView<T> out, AttentionPath path) {
  if (!takes_tensor_cores<T>(task, {out}, path)) return forward_plain(stream, task, out);
  if constexpr (sizeof(T) == 2) forward_tensor(stream, task, out);
}

// The statistics come first, because the other two kernels read them. A bias's gradient is summed by the plain dq
// kernel alone; the other two kernels stay on tensor cores then.
template <class T>
void backward(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients, AttentionPath path) {
  if (!takes_tensor_cores<T>(task, {gradients.dq, gradients.dk, gradients.dv}, path)) {
    statistics_plain(stream, task, gradients.statistics);
    query_gradients_plain(stream, task, gradients);
    key_gradients_plain(stream, task, gradients);
    return;
  }
  if constexpr (sizeof(T) == 2) {
    statistics_tensor(stream, task, gradients.statistics);
    if (gradients.bias_parts == nullptr)
      query_gradients_tensor(stream, task, gradients);
    else
      query_gradients_plain(stream, task, gradients);
    key_gradients_tensor(stream, task, gradients);
  }
}

}  // namespace meshwright::kernels::cuda
