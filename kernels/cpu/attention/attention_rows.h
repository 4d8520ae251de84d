// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share: blocks of queries, the keys that a block sees, and runs of rows. Internal to
// kernels/cpu/attention.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

constexpr std::int64_t kRowBlock = 128;  // rows of a block, about

// Consecutive queries, each with its whole group: `rows` rows of scores, over the keys lo..lo+columns-1 that any of
// them sees.
struct Block {
  std::int64_t first, queries, rows;
  std::int64_t lo, columns;
};

template <class T>
std::int64_t first_seen(const AttentionRule<T>& rule, std::int64_t position) {
  return rule.window > 0 ? std::max<std::int64_t>(0, position - rule.window + 1) : 0;
}
template <class T>
std::int64_t end_seen(const AttentionShape& shape, const AttentionRule<T>& rule, std::int64_t position) {
  const std::int64_t ahead = rule.causal ? 1 : rule.window;
  return ahead > 0 ? std::min(shape.kv_seq, position + ahead) : shape.kv_seq;
}

// Blocks of as near to kRowBlock rows as blocks of one size are: a short last one would cost nearly as much as a whole.
inline std::int64_t queries_of_block(const AttentionShape& shape) {
  const std::int64_t blocks = std::max<std::int64_t>(1, (shape.seq * shape.group + kRowBlock / 2) / kRowBlock);
  return (shape.seq + blocks - 1) / blocks;
}

template <class T>
Block block_from(const AttentionShape& shape, const AttentionRule<T>& rule, std::int64_t first) {
  const std::int64_t queries = std::min(queries_of_block(shape), shape.seq - first);
  const std::int64_t position = rule.first_position + first;
  const std::int64_t lo = first_seen(rule, position), hi = end_seen(shape, rule, position + queries - 1);
  return {first, queries, queries * shape.group, lo, hi - lo};
}

// A sample and key head. Rows of q and out come in runs of `group`, rows of k and v one by one.
struct Head {
  std::int64_t sample, head;

  template <class T>
  [[nodiscard]] T* queries(const HeadView<T>& of, const AttentionShape& shape, std::int64_t query) const {
    return of.at(sample, query, head * shape.group);
  }
  template <class T>
  [[nodiscard]] T* keys(const HeadView<T>& of, std::int64_t key) const {
    return of.at(sample, key, head);
  }
};

// Calls action(head, block) for the blocks of every head, in order.
template <class T, class Action>
void for_each_block(const AttentionCall<T>& call, Action&& action) {
  for (std::int64_t sample = 0; sample < call.shape.batch; ++sample)
    for (std::int64_t h = 0; h < call.shape.kv_heads; ++h)
      for (std::int64_t first = 0; first < call.shape.seq;) {
        const Block block = block_from(call.shape, call.rule, first);
        action(Head{sample, h}, block);
        first += block.queries;
      }
}

// Runs of `width` elements, `from_stride` apart in `from`, to runs `to_stride` apart in `to`.
template <class T>
void copy_runs(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t runs,
               std::int64_t width) {
  for (std::int64_t i = 0; i < runs; ++i) std::copy_n(from + i * from_stride, width, to + i * to_stride);
}

// Scaled scores x become cap tanh(x / cap); `slopes`, if not null, gets the derivatives of that.
template <class T>
void cap_scores(T* row, T* slopes, std::int64_t columns, T cap) {
  for (std::int64_t j = 0; j < columns; ++j) {
    const T bent = tanh_of(row[j] / cap);
    row[j] = cap * bent;
    if (slopes != nullptr) slopes[j] = T(1) - bent * bent;
  }
}

// What a bias by distance holds for a row's columns.
template <class B>
B* bias_of_row(B* bias, const AttentionShape& shape, std::int64_t head, const Block& block, std::int64_t query) {
  return bias + head * shape.distances() + block.lo + shape.seq - 1 - query;
}

// The buffer's first `elements` elements. Buffers live as long as their thread: a logical device runs the same shapes
// again and again.
template <class T>
T* sized(std::vector<T>& buffer, std::int64_t elements) {
  if (buffer.size() < static_cast<std::size_t>(elements)) buffer.resize(static_cast<std::size_t>(elements));
  return buffer.data();
}

}  // namespace meshwright::kernels
