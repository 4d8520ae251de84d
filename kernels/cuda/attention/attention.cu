// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention.h"

#include "kernels/cuda/attention/attention_launches.h"
#include "kernels/cuda/attention/attention_tiles.h"

namespace meshwright::kernels::cuda {

namespace {

// Block x: a tile of queries of one head; block y: a part of the values' columns.
template <class T, int chunks>
__global__ void __launch_bounds__(kTileThreads, kBlocks<Wide<T>, chunks>)
    forward_kernel(AttentionTask<T> task, HeadView<T> out) {
  using W = Wide<T>;
  MW_DYNAMIC_SHARED(W, operands);
  W* const scores = operands + kOperands;
  const QueryTile at = query_tile<kTile, kTile>(task);
  const int first = at.first, column = static_cast<int>(blockIdx.y) * chunks * kTile;
  const TileRows<T> q = rows_from(task.q, at.sample, first, at.head, task.seq);
  RowSoftmax<W> softmax;
  softmax.begin(task.sink, at.head);
  Results<W, chunks> results;
  results.clear();
  for (int key = at.key; key < at.end; key += kTile) {
    W s[kEach][kEach];
    rows_times_rows(s, q, rows_from(task.k, at.sample, key, at.kv_head, task.kv_seq), task.key_dim, operands);
    finish_scores(s, task, at.head, first, key);
    // Where the maximum rises, the earlier sums of exp(s - maximum) v are rescaled before this tile is added.
    MW_UNROLL
    for (int i = 0; i < kEach; ++i) results.scale_row(i, softmax.next(i, s[i]));
    // No barrier before put_scores: those in rows_times_rows come after the last reads of `scores`. add_product begins
    // with one.
    put_scores(scores, s);
    add_product(results, scores, rows_from(task.v, at.sample, key, at.kv_head, task.kv_seq), column, task.value_dim,
                operands);
  }
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) {
    // The powers are normalised here, once per result: until now they are relative to the maximum only.
    const W sum = row_sum(softmax.sum[i]);
    const int query = first + tile_row() + i;
    if (query < task.seq) write_row(results, i, W(1) / sum, out.at(at.sample, query, at.head), column, task.value_dim);
  }
}

}  // namespace

template <class T>
void forward_plain(Stream stream, const AttentionTask<T>& task, HeadView<T> out) {
  with_chunks(task.value_dim, [&](auto chunks, int parts) {
    // All tiles, heads and samples share x: a grid has up to 2^31 - 1 blocks along x, 65535 along y.
    launch("attention", forward_kernel<T, decltype(chunks)::value>,
           {std::int64_t{tiles_of(task.seq, kTile)} * task.heads * task.batch, parts, 1}, {kTileThreads, 1, 1},
           kTileBytes<Wide<T>>, stream, task, out);
  });
}

template <class T>
void attention(Stream stream, const AttentionCall<T>& call, T* out, AttentionPath path) {
  const AttentionShape& s = call.shape;
  forward(stream, attention_task<T>(call, nullptr), dense_heads(out, s.seq, s.heads(), s.value_dim), path);
}

#define MW_INSTANTIATE(T) template void attention<T>(Stream, const AttentionCall<T>&, T*, AttentionPath);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
